/* quant.c - see quant.h: their numbers. */
#include "quant_run.h"

#include <float.h>
#include <string.h>

typedef void widen_fn(float *restrict y, const uint8_t *restrict x, size_t blocks);

#define X(name, block, bytes, scale, minimum)                                                                          \
    static void widen_##name(float *restrict y, const uint8_t *restrict x, size_t blocks)                              \
    {                                                                                                                  \
        for (; blocks; blocks--, x += (bytes), y += (block))                                                           \
            for (int i = 0; i < (block); i += SG_QUANT_RUN) sg_quant_run(y + i, SG_QUANT_##name, x, i);                \
    }
SG_QUANT_TYPES(X)
#undef X

static const struct {
    int       half[2];
    widen_fn *widen;
} types[SG_QUANT_COUNT] = {
#define X(name, block, bytes, scale, minimum) [SG_QUANT_##name] = {{scale, minimum}, widen_##name},
    SG_QUANT_TYPES(X)
#undef X
};

void sg_quant_widen(float *y, sg_quant_type t, const uint8_t *x, size_t n)
{
    const size_t block = (size_t)sg_quant_block(t), blocks = n / block, rest = n % block;
    types[t].widen(y, x, blocks);
    if (!rest) return;
    uint8_t end[SG_QUANT_RUN] = {0};
    float   all[SG_QUANT_RUN];
    memcpy(end, x + blocks * block, rest);
    types[t].widen(all, end, 1);
    memcpy(y + blocks * block, all, rest * sizeof *y);
}

bool sg_quant_is_finite(sg_quant_type t, const uint8_t *x, size_t n)
{
    int bad = 0;
    if (types[t].half[0] < 0) {
        const int all = t == SG_QUANT_F8_E4M3 ? 0x7f : t == SG_QUANT_F8_E5M2 ? 0x7c : 0; /* of a NaN; none of I8 is */
        for (size_t i = 0; all && i < n; i++) bad |= (x[i] & all) == all;
        return !bad;
    }
    const size_t blocks = n / (size_t)sg_quant_block(t), bytes = sg_quant_bytes(t, sg_quant_block(t));
    const int    high[2] = {types[t].half[0] + 1, types[t].half[1] + 1};
    for (size_t i = 0; i < blocks; i++, x += bytes)
        bad |= ((x[high[0]] & 0x7c) == 0x7c) | ((x[high[1]] & 0x7c) == 0x7c);
    return !bad;
}

/* To the nearest whole number, from halves away from 0, as roundf; compilers make vectors of this. */
static int8_t to_nearest(float v)
{
    const int   k = (int)v;
    const float rest = v - (float)k;
    return (int8_t)(k + (rest >= 0.5f) - (rest <= -0.5f));
}

/* One block; false: its scale is no number of F16. */
static bool pack_block(uint8_t *y, const float *x)
{
    enum { BLOCK = 32 };
    uint32_t most = 0; /* bits of the largest magnitude, above which are only those of infinities and NaNs */
    for (int i = 0; i < BLOCK; i++) {
        const uint32_t u = sg_run_bits(x[i]) & 0x7fffffffu;
        most = u > most ? u : most;
    }
    const float    d = sg_run_float(most) / 127.0f, factor = d >= FLT_MIN ? 1.0f / d : 0.0f;
    const uint16_t half = sg_f32_to_f16(d);
    if ((half & 0x7c00) == 0x7c00) return false;
    y[0] = (uint8_t)half;
    y[1] = (uint8_t)(half >> 8);
    for (int i = 0; i < BLOCK; i++) y[2 + i] = (uint8_t)to_nearest(x[i] * factor);
    return true;
}

bool sg_quant_pack(uint8_t *y, const float *x, size_t n)
{
    const size_t block = (size_t)sg_quant_block(SG_QUANT_Q8_0), bytes = sg_quant_bytes(SG_QUANT_Q8_0, (int64_t)block);
    bool         fits = true;
    for (size_t i = 0; i < n / block && fits; i++) fits = pack_block(y + i * bytes, x + i * block);
    return fits;
}

void sg_quant_scale(float *y, int64_t at, int64_t n, int64_t width, const void *scales, int64_t rows, int64_t columns)
{
    const int64_t across = sg_div_up(width, columns);
    for (int64_t i = 0, count; i < n; i += count) {
        const int64_t row = (at + i) / width, column = (at + i) % width, end = (column / columns + 1) * columns;
        float         scale;
        memcpy(&scale, (const char *)scales + (size_t)(row / rows * across + column / columns) * sizeof scale,
               sizeof scale);
        count = sg_min64(sg_min64(end, width) - column, n - i);
        for (int64_t k = 0; k < count; k++) y[i + k] *= scale;
    }
}

void sg_quant_read(float *y, const sg_tensor *w, int64_t at, int64_t n)
{
    const sg_quant *const q = &w->quant;
    sg_quant_widen(y, (sg_quant_type)q->type, (const uint8_t *)w->data + sg_quant_bytes((sg_quant_type)q->type, at),
                   (size_t)n);
    if (q->scale_rows)
        sg_quant_scale(y, at + q->first * w->dim[1], n, w->dim[1], (const char *)w->data + sg_quant_scales_at(w),
                       q->scale_rows, q->scale_columns);
    if (w->dtype == SG_F32) return;
    for (int64_t i = 0; i < n; i++) y[i] = sg_bf16_to_f32(sg_f32_to_bf16(y[i]));
}
