/* counter.h - numbers that follow from a name and a place: the same bits here and in counter.py, on any machine.
 *
 * The bits of a place are splitmix64's; the seed is the FNV-1a hash of the name. A bell-shaped integer is the sum of four
 * uniform ones of 12 bits, less its mean: within 8190 of 0, with a standard deviation of 2364.83. A number is
 * (scale n + offset) 2^-shift of such an n: an integer of at most 24 bits times a power of two, exact in F32 and rounded
 * once, to nearest and ties to even, in F16 and BF16. */
#ifndef SG_GOLDEN_COUNTER_H
#define SG_GOLDEN_COUNTER_H

#include <stdint.h>

typedef struct counter_rule {
    int32_t scale, offset; /* 8190 scale + |offset| is below 2^24 */
    int     shift;
} counter_rule;

/* What a format makes of a number: binary digits with the leading one, and the bias of the exponent. */
typedef struct counter_format {
    int digits, bias, bytes;
} counter_format;

#define COUNTER_F32 ((counter_format){24, 127, 4})
#define COUNTER_F16 ((counter_format){11, 15, 2})
#define COUNTER_BF16 ((counter_format){8, 127, 2})

/* Inputs of golden.c: latents of standard deviation 1, pixels between -1 and 1. */
#define COUNTER_LATENTS ((counter_rule){887, 0, 21})
#define COUNTER_CLIP ((counter_rule){1, 0, 13})

static inline uint64_t counter_seed(const char *name)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) h = (h ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return h;
}

static inline uint64_t counter_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The number at a place before the power of two. */
static inline int32_t counter_integer(uint64_t seed, uint64_t i, counter_rule r)
{
    const uint64_t z = counter_bits(seed, i);
    const int32_t  n = (int32_t)((z & 4095) + (z >> 16 & 4095) + (z >> 32 & 4095) + (z >> 48 & 4095)) - 8190;
    return n * r.scale + r.offset;
}

/* The bits of v 2^-shift in a format; v has at most 24 bits and the result no infinity. */
static inline uint32_t counter_encode(int32_t v, int shift, counter_format f)
{
    uint64_t  m = (uint64_t)(v < 0 ? -(int64_t)v : v);
    const int low = 1 - f.bias;
    int       exponent = -1 - shift;
    if (!v) return 0;
    for (uint64_t left = m; left; left >>= 1) exponent++;
    if (exponent < low) exponent = low;
    const int drop = exponent - (f.digits - 1) + shift;
    if (drop > 0) {
        const uint64_t half = UINT64_C(1) << (drop - 1), rest = m & (2 * half - 1);
        m >>= drop;
        m += rest > half || (rest == half && (m & 1));
    } else {
        m <<= -drop;
    }
    const uint32_t size = ((uint32_t)(exponent - low) << (f.digits - 1)) + (uint32_t)m;
    return size | (v < 0 ? UINT32_C(1) << (8 * f.bytes - 1) : 0);
}

/* A tap of more than COUNTER_WHOLE numbers is kept as COUNTER_SUMS sums, of which each number of the tap enters one with
 * one of both signs, and as COUNTER_SAMPLES of its numbers. The squared length of the sums of a difference is that of the
 * difference, on average over the signs, with a deviation of 9 % at most; a single wrong number enters whole. */
enum { COUNTER_SUMS = 256, COUNTER_SAMPLES = 64, COUNTER_WHOLE = COUNTER_SUMS + COUNTER_SAMPLES };

static inline void counter_sums(double sums[COUNTER_SUMS], uint64_t seed, const float *x, int64_t n)
{
    for (int k = 0; k < COUNTER_SUMS; k++) sums[k] = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t z = counter_bits(seed, (uint64_t)i);
        sums[z % COUNTER_SUMS] += z >> 63 ? -(double)x[i] : (double)x[i];
    }
}

static inline int64_t counter_sample(uint64_t seed, int k, int64_t n)
{
    return (int64_t)(counter_bits(~seed, (uint64_t)k) % (uint64_t)n);
}

#endif
