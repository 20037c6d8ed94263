/* rng.c - MT19937 (Matsumoto and Nishimura, 1998) and the two ways torch makes normals of it. */
#include "rng.h"

#include <math.h>

enum { WORDS = 624, SHIFT = 397, BLOCK = 16 };

/* torch keeps the lower half of a seed. */
void sg_rng_seed(sg_rng *g, uint64_t seed)
{
    *g = (sg_rng){.next = WORDS};
    g->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < WORDS; i++) g->state[i] = 1812433253u * (g->state[i - 1] ^ (g->state[i - 1] >> 30)) + i;
}

static void refill(sg_rng *g)
{
    uint32_t *const s = g->state;
    for (int i = 0; i < WORDS; i++) {
        const uint32_t y = (s[i] & 0x80000000u) | (s[(i + 1) % WORDS] & 0x7fffffffu);
        s[i] = s[(i + SHIFT) % WORDS] ^ (y >> 1) ^ (y & 1u ? 0x9908b0dfu : 0u);
    }
    g->next = 0;
}

static uint32_t draw32(sg_rng *g)
{
    if (g->next == WORDS) refill(g);
    uint32_t y = g->state[g->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static float uniform24(sg_rng *g) { return (float)(draw32(g) & 0xffffffu) * 0x1p-24f; }

/* The first word drawn is the upper half. */
static double uniform53(sg_rng *g)
{
    const uint64_t high = draw32(g);
    const uint64_t word = high << 32 | draw32(g);
    return (double)(word & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Box-Muller within a block: element j with element j + 8. In F32, because so are torch's roundings. */
static void normals_of_block(float *x)
{
    for (int j = 0; j < BLOCK / 2; j++) {
        const float radius = sqrtf(-2.0f * logf(1.0f - x[j]));
        const float angle = 6.283185307179586f * x[j + BLOCK / 2];
        x[j] = radius * cosf(angle);
        x[j + BLOCK / 2] = radius * sinf(angle);
    }
}

/* How many of n come from the first draw; those behind the last whole block may come from the second alone. */
static size_t drawn_first(sg_dtype as, size_t n) { return as == SG_F32 ? n : n - n % BLOCK; }

static void fill_blocks(float *out, size_t n, size_t drawn, sg_rng *g)
{
    for (size_t i = 0; i < drawn; i++) out[i] = uniform24(g);
    for (size_t i = 0; i + BLOCK <= n; i += BLOCK) normals_of_block(out + i);
    if (n % BLOCK == 0) return;
    float *const tail = out + n - BLOCK;
    for (int i = 0; i < BLOCK; i++) tail[i] = uniform24(g);
    normals_of_block(tail);
}

static void fill_pairs(float *out, size_t n, sg_rng *g)
{
    size_t i = 0;
    if (n && g->spared) out[i++] = (float)g->spare;
    if (i) g->spared = false;
    for (; i < n; i += 2) {
        const double first = uniform53(g), second = uniform53(g);
        const double radius = sqrt(-2.0 * log1p(-second)), angle = 6.283185307179586 * first;
        out[i] = (float)(radius * cos(angle));
        g->spare = radius * sin(angle);
        g->spared = i + 1 == n;
        if (!g->spared) out[i + 1] = (float)g->spare;
    }
}

static float rounded(float x, sg_dtype as)
{
    return as == SG_F16 ? sg_f16_to_f32(sg_f32_to_f16(x)) : sg_bf16_to_f32(sg_f32_to_bf16(x));
}

void sg_rng_randn_as(sg_rng *g, sg_dtype as, float *out, size_t n)
{
    if (n < BLOCK)
        fill_pairs(out, n, g);
    else
        fill_blocks(out, n, drawn_first(as, n), g);
    for (size_t i = 0; as != SG_F32 && i < n; i++) out[i] = rounded(out[i], as);
}

void sg_rng_skip(sg_rng *g, sg_dtype as, size_t n)
{
    float        few[BLOCK];
    const size_t words = drawn_first(as, n) + (n % BLOCK ? BLOCK : 0);
    if (n < BLOCK)
        fill_pairs(few, n, g);
    else
        for (size_t i = 0; i < words; i++) draw32(g);
}

void sg_rng_randn(sg_rng *g, float *out, size_t n) { sg_rng_randn_as(g, SG_F32, out, n); }

void sg_randn(float *out, size_t n, uint64_t seed)
{
    sg_rng g;
    sg_rng_seed(&g, seed);
    sg_rng_randn(&g, out, n);
}
