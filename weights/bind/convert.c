/* convert.c - see convert.h. Plain loops that compilers vectorise; a piece at a time, so that looking for NaN and then
 * converting costs one trip to memory. */
#include "convert.h"
#include "quant_run.h"

#include <string.h>

enum {
    PIECE = 1 << 14,      /* elements */
    DEQUANTISED = 1 << 11 /* of a piece at once, on the stack */
};

static uint32_t load32(const uint8_t *p)
{
    uint32_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

static uint16_t load16(const uint8_t *p)
{
    uint16_t u;
    memcpy(&u, p, sizeof u);
    return u;
}

/* An exponent of all ones is a NaN or an infinity. */
static bool finite32(const uint8_t *x, size_t n)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (load32(x + 4 * i) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

static bool finite16(const uint8_t *x, size_t n, uint16_t ones)
{
    int bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (load16(x + 2 * i) & ones) == ones;
    return !bad;
}

static void f16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_run_half(load16(x + 2 * i));
}

static void bf16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_bf16_to_f32(load16(x + 2 * i));
}

static void f16_to_bf16(uint16_t *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_f32_to_bf16(sg_run_half(load16(x + 2 * i)));
}

static void f32_to_bf16(uint16_t *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = load32(x + 4 * i);
        y[i] = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16); /* sg_f32_to_bf16 of a finite number */
    }
}

static bool convert_piece(void *y, sg_dtype as, const uint8_t *x, sg_dtype from, size_t n)
{
    const bool finite = from == SG_F32 ? finite32(x, n) : finite16(x, n, from == SG_F16 ? 0x7c00 : 0x7f80);
    if (!finite || !y) return finite;
    if (from == as)
        memcpy(y, x, n * sg_dtype_size(as));
    else if (from == SG_F32)
        f32_to_bf16(y, x, n);
    else if (from == SG_BF16)
        bf16_to_f32(y, x, n);
    else if (as == SG_F32)
        f16_to_f32(y, x, n);
    else
        f16_to_bf16(y, x, n);
    return as == SG_F32 || from != SG_F32 || finite16(y, n, 0x7f80); /* may have rounded to infinity */
}

/* y[n] are elements first and on of t, bytes in the file. */
static void apply_scales(float *y, const sg_source_tensor *t, size_t first, size_t n)
{
    const int64_t block = t->scale_block, width = (int64_t)t->bytes / (t->rank ? t->dim[0] : 1);
    const int64_t rows = t->scales > 1 ? 1 : INT64_MAX;
    sg_quant_scale(y, (int64_t)first, (int64_t)n, width, t->scale, block ? block : rows, block ? block : width);
}

/* y[n] = elements first and on of t. */
static bool dequantise_piece(void *y, sg_dtype as, const sg_source_tensor *t, size_t first, size_t n)
{
    float               f[DEQUANTISED];
    const sg_quant_type type = sg_quant_of(t->type->name);
    const size_t        block = (size_t)t->type->block, bytes = (size_t)t->type->bytes;
    uint8_t            *to = y;
    for (size_t i = 0; i < n; i += DEQUANTISED) {
        const size_t count = n - i < DEQUANTISED ? n - i : DEQUANTISED;
        float *const here = y && as == SG_F32 ? (float *)y + i : f;
        sg_quant_widen(here, type, t->data + (first + i) / block * bytes, count);
        if (t->scale) apply_scales(here, t, first + i, count);
        if (!convert_piece(here == f ? to : NULL, as, (const uint8_t *)here, SG_F32, count)) return false;
        if (to) to += count * sg_dtype_size(as);
    }
    return true;
}

static bool is_float(sg_dtype t) { return t == SG_F32 || t == SG_F16 || t == SG_BF16; }

bool sg_convert_reads(const sg_source_type *type) { return is_float(type->dtype) || sg_quant_of(type->name); }

bool sg_convert_from(void *y, sg_dtype as, const sg_source_tensor *t, size_t i, size_t n, int threads)
{
    const sg_source_type *const from = t->type;
    const size_t                block = (size_t)from->block, out = sg_dtype_size(as);
    const int64_t               pieces = (int64_t)((n + PIECE - 1) / PIECE);
    int                         bad = 0;
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : 1) reduction(| : bad)
    for (int64_t p = 0; p < pieces; p++) {
        const size_t         first = (size_t)p * PIECE, count = n - first < PIECE ? n - first : PIECE;
        void *const          to = y ? (uint8_t *)y + first * out : NULL;
        const uint8_t *const at = t->data + (i + first) / block * (size_t)from->bytes;
        bad |= is_float(from->dtype) ? !convert_piece(to, as, at, from->dtype, count)
                                     : !dequantise_piece(to, as, t, i + first, count);
    }
    return !bad;
}

bool sg_convert_keep(void *y, const sg_source_tensor *t, size_t i, size_t n, int threads)
{
    const sg_quant_type  type = sg_quant_of(t->type->name);
    const size_t         block = (size_t)t->type->block, bytes = (size_t)t->type->bytes;
    const uint8_t *const from = t->data + i / block * bytes;
    const int64_t        pieces = (int64_t)((n + PIECE - 1) / PIECE);
    int                  bad = 0;
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : 1) reduction(| : bad)
    for (int64_t p = 0; p < pieces; p++) {
        const size_t first = (size_t)p * PIECE, count = n - first < PIECE ? n - first : PIECE;
        const size_t at = first / block * bytes;
        bad |= !sg_quant_is_finite(type, from + at, count);
        if (y) memcpy((uint8_t *)y + at, from + at, count / block * bytes);
    }
    return !bad;
}

bool sg_convert(void *y, sg_dtype as, const void *x, sg_dtype from, size_t n, int threads)
{
    const sg_source_type   type = {NULL, from, 1, (int)sg_dtype_size(from)};
    const sg_source_tensor t = {.type = &type, .data = x};
    return sg_convert_from(y, as, &t, 0, n, threads);
}
