/* vec_elem.c - elementwise ops. */
#include "vec.h"

static sg_status gate_add(sg_stream *s, const sg_gate_add_args *a)
{
    const int64_t c = a->x.dim[a->x.rank - 1], rows = sg_count(a->x) / c;
    const float  *gate = sg_f32_at(&a->gate, 0);
    if (a->tanh_gate) {
        const int64_t gates = sg_count(a->gate);
        float *const  tanhs = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)gates * sizeof *tanhs);
        if (!tanhs) return SG_E_MEMORY;
        for (int64_t i = 0; i < gates; i++) tanhs[i] = tanhf(gate[i]);
        gate = tanhs;
    }
    SG_BY_THREADS(sg_cpu_of(s), rows * c)
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < c; i += SG_RUN) {
            float              buffer[2][SG_RUN];
            const int64_t      at = t * c + i, n = sg_min64(SG_RUN, c - i), from = sg_row_of(&a->row, t) * c + i;
            const float *const r = sg_read_f32(&a->r, at, n, buffer[0]);
            float *const       x = sg_update_f32(&a->x, at, n, buffer[1]);
            if (gate) {
#pragma omp simd
                for (int64_t k = 0; k < n; k++) x[k] += r[k] * gate[from + k];
            } else {
#pragma omp simd
                for (int64_t k = 0; k < n; k++) x[k] += r[k];
            }
            sg_write_f32_done(&a->x, at, n, x);
        }
    return SG_OK;
}

static sg_status add(sg_stream *s, const sg_add_args *a)
{
    const int64_t rows = a->y.dim[0], c = a->y.dim[1];
    const bool    one = a->b.dim[0] == 1;
    SG_BY_THREADS(sg_cpu_of(s), rows * c)
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < c; i += SG_RUN) {
            float              buffer[3][SG_RUN];
            const int64_t      at = t * c + i, n = sg_min64(SG_RUN, c - i);
            const float *const p = sg_read_f32(&a->a, at, n, buffer[0]), *const q = sg_read_f32(&a->b, one ? i : at, n,
                                                                                                buffer[1]);
            float *const y = sg_write_f32(&a->y, at, buffer[2]);
#pragma omp simd
            for (int64_t k = 0; k < n; k++) y[k] = p[k] + q[k];
            sg_write_f32_done(&a->y, at, n, y);
        }
    return SG_OK;
}

static sg_status mul(sg_stream *s, const sg_mul_args *a)
{
    const int64_t total = sg_count(a->y);
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        float              buffer[3][SG_RUN];
        const int64_t      n = sg_min64(SG_RUN, total - at);
        const float *const p = sg_read_f32(&a->a, at, n, buffer[0]), *const q = sg_read_f32(&a->b, at, n, buffer[1]);
        float *const y = sg_write_f32(&a->y, at, buffer[2]);
#pragma omp simd
        for (int64_t k = 0; k < n; k++) y[k] = p[k] * q[k];
        sg_write_f32_done(&a->y, at, n, y);
    }
    return SG_OK;
}

static sg_status act(sg_stream *s, const sg_act_args *a)
{
    const int64_t total = sg_count(a->y);
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        float         buffer[2][SG_RUN];
        const int64_t n = sg_min64(SG_RUN, total - at);
        float *const  y = sg_write_f32(&a->y, at, buffer[1]);
        sg_act_run(a->act, y, sg_read_f32(&a->x, at, n, buffer[0]), n);
        sg_write_f32_done(&a->y, at, n, y);
    }
    return SG_OK;
}

static sg_status copy(sg_stream *s, const sg_copy_args *a)
{
    const int64_t total = sg_count(a->y);
    const size_t  size = sg_dtype_size(a->y.dtype);
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        const int64_t n = sg_min64(SG_RUN, total - at);
        if (a->y.dtype == a->x.dtype)
            memcpy((char *)a->y.data + (size_t)at * size, (const char *)a->x.data + (size_t)at * size,
                   (size_t)n * size);
        else if (a->y.dtype == SG_F32)
            sg_widen((float *)a->y.data + at, (const uint16_t *)a->x.data + at, n);
        else
            sg_narrow((uint16_t *)a->y.data + at, (const float *)a->x.data + at, n);
    }
    return SG_OK;
}

static sg_status combine(sg_stream *s, const sg_combine_args *a)
{
    const int64_t total = sg_count(a->y);
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        const int64_t n = sg_min64(SG_RUN, total - at);
        float *const  y = (float *)a->y.data + at;
        for (int j = 0; j < a->count; j++) {
            const float *const x = (const float *)a->x[j].data + at;
            const float        w = a->a[j];
#pragma omp simd
            for (int64_t k = 0; k < n; k++) y[k] = w * x[k] + (j ? y[k] : 0.0f);
        }
    }
    return SG_OK;
}

static sg_status rgb8(sg_stream *s, const sg_rgb8_args *a)
{
    const int64_t total = sg_count(a->y);
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        float              buffer[SG_RUN];
        const int64_t      n = sg_min64(SG_RUN, total - at);
        const float *const x = sg_read_f32(&a->x, at, n, buffer);
        uint8_t *const     y = (uint8_t *)a->y.data + at;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            const float v = x[k] * 0.5f + 0.5f, low = v > 0.0f ? v : 0.0f, in = low < 1.0f ? low : 1.0f;
            y[k] = (uint8_t)nearbyintf(255.0f * in);
        }
    }
    return SG_OK;
}

static sg_status count_non_finite(sg_stream *s, const sg_count_non_finite_args *a)
{
    const int64_t total = sg_count(a->x);
    const bool    wide = a->x.dtype == SG_F32;
    int64_t       sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) num_threads(sg_cpu_of(s)->threads) if (total > SG_TINY)
    for (int64_t at = 0; at < total; at += SG_RUN) {
        const int64_t         n = sg_min64(SG_RUN, total - at);
        const float *const    x = (const float *)a->x.data + at;
        const uint16_t *const h = (const uint16_t *)a->x.data + at;
        int32_t               here = 0;
        if (wide)
            for (int64_t k = 0; k < n; k++) here += (sg_bits(x[k]) & 0x7f800000u) == 0x7f800000u;
        else
            for (int64_t k = 0; k < n; k++) here += (h[k] & 0x7f80u) == 0x7f80u;
        sum += here;
    }
    int32_t *const y = a->y.data;
    *y = sum > INT32_MAX - *y ? INT32_MAX : *y + (int32_t)sum;
    return SG_OK;
}

static sg_status distance(sg_stream *s, const sg_distance_args *a)
{
    const int64_t total = sg_count(a->a), parts = a->y.dim[0], part = sg_div_up(total, parts);
    const float  *x = a->a.data, *base = a->b.data;
    SG_BY_THREADS(sg_cpu_of(s), total)
    for (int64_t k = 0; k < parts; k++) {
        const int64_t end = sg_min64(total, (k + 1) * part);
        float         moved = 0, size = 0;
#pragma omp simd reduction(+ : moved, size)
        for (int64_t i = k * part; i < end; i++) {
            moved += fabsf(x[i] - base[i]);
            size += fabsf(base[i]);
        }
        ((float *)a->y.data)[2 * k] = moved;
        ((float *)a->y.data)[2 * k + 1] = size;
    }
    return SG_OK;
}

void SG_VEC_INIT(elem)(sg_ops *t)
{
    t->gate_add = gate_add;
    t->add = add;
    t->mul = mul;
    t->act = act;
    t->copy = copy;
    t->combine = combine;
    t->rgb8 = rgb8;
    t->count_non_finite = count_non_finite;
    t->distance = distance;
}
