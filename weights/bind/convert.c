/* convert.c - see convert.h. Plain loops that compilers vectorise; a piece at a time, so that looking for NaN and then
 * converting costs one trip to memory. */
#include "convert.h"

enum { PIECE = 1 << 14 }; /* elements */

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

/* Exact for every finite h: the exponent's bias is corrected by a product, which also normalises subnormals. */
static float finite_f16(uint16_t h)
{
    const uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13, sign = (uint32_t)(h & 0x8000) << 16;
    float          f;
    memcpy(&f, &magnitude, sizeof f);
    f *= 0x1p112f;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    u |= sign;
    memcpy(&f, &u, sizeof f);
    return f;
}

static void f16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = finite_f16(load16(x + 2 * i));
}

static void bf16_to_f32(float *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_bf16_to_f32(load16(x + 2 * i));
}

static void f16_to_bf16(uint16_t *y, const uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sg_f32_to_bf16(finite_f16(load16(x + 2 * i)));
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

bool sg_convert(void *y, sg_dtype as, const void *x, sg_dtype from, size_t n, int threads)
{
    const size_t  in = sg_dtype_size(from), out = sg_dtype_size(as);
    const int64_t pieces = (int64_t)((n + PIECE - 1) / PIECE);
    int           bad = 0;
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : 1) reduction(| : bad)
    for (int64_t p = 0; p < pieces; p++) {
        const size_t first = (size_t)p * PIECE, count = n - first < PIECE ? n - first : PIECE;
        void *const  to = y ? (uint8_t *)y + first * out : NULL;
        bad |= !convert_piece(to, as, (const uint8_t *)x + first * in, from, count);
    }
    return !bad;
}
