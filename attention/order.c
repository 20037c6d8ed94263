/* order.c - see order.h. A box of tokens has three sides. A side is a count of tokens and the distance of neighbours in
 * the row-major sequence. So a position is one number, and a curve through the box is a list of numbers. */
#include "order.h"

#include <stdbool.h>
#include <stdlib.h>

const char *const sg_order_names[SG_ORDERS + 1] = {"row",          "column",        "time",   "hilbert",
                                                   "hilbert-cube", "hilbert-frame", "morton", "random"};

typedef struct side {
    int64_t n, step;
} side;

static side reversed(side a) { return (side){a.n, -a.step}; }

/* Half a side, even if possible: curves in boxes of even sides have no diagonal steps. */
static side half(side a)
{
    const int64_t n = a.n / 2;
    return (side){n % 2 && a.n > 2 ? n + 1 : n, a.step};
}

static side rest(side a) { return (side){a.n - half(a).n, a.step}; }

static int64_t past(side a) { return a.n * a.step; }
static int64_t last(side a) { return (a.n - 1) * a.step; }

/* All positions, a fastest, then b, then c. */
static int32_t *scan(int32_t *at, side a, side b, side c)
{
    for (int64_t k = 0; k < c.n; k++)
        for (int64_t j = 0; j < b.n; j++)
            for (int64_t i = 0; i < a.n; i++) *at++ = (int32_t)(k * c.step + j * b.step + i * a.step);
    return at;
}

/* ---- generalised Hilbert curves ----
 *
 * After J. Cerveny's "gilbert". The curve of (p; a, b, c) runs from the corner p to the far end of side a. A box that
 * is much longer than wide is cut across. Other boxes are cut into three or five, whose curves join end to end. Every
 * cut removes at least a third of the box, so the depth of the recursion is logarithmic in the volume. */
static int32_t *curve(int32_t *at, int64_t p, side a, side b, side c)
{
    const side a2 = half(a), b2 = half(b), c2 = half(c);
    if ((a.n == 1) + (b.n == 1) + (c.n == 1) >= 2) {
        const side line = a.n > 1 ? a : b.n > 1 ? b : c;
        for (int64_t i = 0; i < line.n; i++) *at++ = (int32_t)(p + i * line.step);
        return at;
    }
    if (2 * a.n > 3 * b.n && 2 * a.n > 3 * c.n) {
        at = curve(at, p, a2, b, c);
        return curve(at, p + past(a2), rest(a), b, c);
    }
    if (3 * b.n > 4 * c.n) {
        at = curve(at, p, b2, c, a2);
        at = curve(at, p + past(b2), a, rest(b), c);
        return curve(at, p + last(a) + last(b2), reversed(b2), c, reversed(rest(a)));
    }
    if (3 * c.n > 4 * b.n) {
        at = curve(at, p, c2, a2, b);
        at = curve(at, p + past(c2), a, b, rest(c));
        return curve(at, p + last(a) + last(c2), reversed(c2), reversed(rest(a)), b);
    }
    at = curve(at, p, b2, c2, a2);
    at = curve(at, p + past(b2), c, a2, rest(b));
    at = curve(at, p + last(b2) + last(c), a, reversed(b2), reversed(rest(c)));
    at = curve(at, p + last(a) + past(b2) + last(c), reversed(c), reversed(rest(a)), rest(b));
    return curve(at, p + last(a) + last(b2), reversed(b2), c2, reversed(rest(a)));
}

/* From the corner of the box along its longest side. */
static int32_t *hilbert(int32_t *at, side t, side y, side x)
{
    if (x.n >= y.n && x.n >= t.n) return curve(at, 0, x, y, t);
    return y.n >= t.n ? curve(at, 0, y, x, t) : curve(at, 0, t, x, y);
}

static void frames(int32_t *at, side t, side y, side x)
{
    const int64_t n = y.n * x.n;
    hilbert(at, (side){1, 0}, y, x);
    for (int64_t k = 1; k < t.n; k++)
        for (int64_t i = 0; i < n; i++) at[k * n + i] = (int32_t)(k * t.step + at[k % 2 ? n - 1 - i : i]);
}

/* ---- by an index of every token ---- */

enum { AXES = 3 };

typedef struct keyed {
    uint32_t axis[AXES]; /* the index is their bits interleaved, the first axis highest */
    int32_t  token;
} keyed;

/* The axis with the highest differing bit decides. */
static int by_index(const void *left, const void *right)
{
    const keyed *const a = left, *const b = right;
    int      most = 0;
    uint32_t most_bits = 0;
    for (int k = 0; k < AXES; k++) {
        const uint32_t bits = a->axis[k] ^ b->axis[k];
        if (most_bits < bits && most_bits < (most_bits ^ bits)) {
            most = k;
            most_bits = bits;
        }
    }
    return a->axis[most] < b->axis[most] ? -1 : a->axis[most] > b->axis[most];
}

/* Replaces coordinates of `axes` axes, below 2^bits, by those of the index on their Hilbert curve (J. Skilling,
 * "Programming the Hilbert curve", 2004). */
static void to_hilbert(uint32_t *x, int axes, int bits)
{
    uint32_t flips = 0;
    for (uint32_t bit = (uint32_t)1 << (bits - 1); bit > 1; bit >>= 1)
        for (int k = 0; k < axes; k++) {
            const uint32_t low = bit - 1, change = x[k] & bit ? 0 : (x[0] ^ x[k]) & low;
            x[0] ^= x[k] & bit ? low : change;
            x[k] ^= change;
        }
    for (int k = 1; k < axes; k++) x[k] ^= x[k - 1];
    for (uint32_t bit = (uint32_t)1 << (bits - 1); bit > 1; bit >>= 1)
        if (x[axes - 1] & bit) flips ^= bit - 1;
    for (int k = 0; k < axes; k++) x[k] ^= flips;
}

/* The bits of a coordinate of a side of n tokens. */
static int bits_of(int64_t n)
{
    int bits = 0;
    while (((int64_t)1 << bits) < n) bits++;
    return bits;
}

/* The layer of the cube at which time begins. A block is within eight layers. With 8 k + 1 frames from layer 0 the last
 * frame would be alone in flat blocks, which lose more (LOG.md, "time begins two layers into"). */
static int64_t begin_of(int64_t t) { return t > 8 && t % 8 == 1 ? 2 : 0; }

static sg_status sorted(int32_t *at, const int64_t n[AXES], bool curved)
{
    const int64_t count = n[0] * n[1] * n[2], begin = curved ? begin_of(n[0]) : 0; /* begin + t < 2^bits of t */
    keyed *const  all = calloc((size_t)count, sizeof *all);
    int           axes = 0, bits = 0, axis[AXES];
    if (!all) return SG_E_MEMORY;
    for (int i = 0; i < AXES; i++) { /* the curve begins along time and ignores axes of one token */
        const int k = curved ? AXES - 1 - i : i;
        if (n[k] > 1) axis[axes++] = k;
        if (bits_of(n[k]) > bits) bits = bits_of(n[k]);
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t place[AXES] = {begin + i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
        for (int k = 0; k < axes; k++) all[i].axis[k] = (uint32_t)place[axis[k]];
        all[i].token = (int32_t)i;
        if (curved && axes) to_hilbert(all[i].axis, axes, bits);
    }
    qsort(all, (size_t)count, sizeof *all, by_index);
    for (int64_t i = 0; i < count; i++) at[i] = all[i].token;
    free(all);
    return SG_OK;
}

/* ---- all of them ---- */

/* SplitMix64 (G. L. Steele and others, 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void shuffle(int32_t *at, int64_t n)
{
    uint64_t state = 0;
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)(next_random(&state) % (uint64_t)(i + 1));
        const int32_t swapped = at[i];
        at[i] = at[j];
        at[j] = swapped;
    }
}

sg_status sg_order_make(int32_t *at, sg_order order, int64_t t, int64_t y, int64_t x)
{
    const side    st = {t, y * x}, sy = {y, x}, sx = {x, 1};
    const int64_t n[AXES] = {t, y, x};
    switch (order) {
    case SG_ORDER_COLUMN: scan(at, sy, sx, st); break;
    case SG_ORDER_TIME: scan(at, st, sx, sy); break;
    case SG_ORDER_HILBERT: hilbert(at, st, sy, sx); break;
    case SG_ORDER_HILBERT_CUBE: return sorted(at, n, true);
    case SG_ORDER_HILBERT_FRAME: frames(at, st, sy, sx); break;
    case SG_ORDER_MORTON: return sorted(at, n, false);
    case SG_ORDER_RANDOM: shuffle(scan(at, sx, sy, st) - t * y * x, t * y * x); break;
    default: scan(at, sx, sy, st);
    }
    return SG_OK;
}

void sg_order_invert(int32_t *restored, const int32_t *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) restored[at[i]] = (int32_t)i;
}

/* ---- groups ---- */

int64_t sg_group_tokens(sg_groups g, int64_t n, int group)
{
    if (g.count < 2) return group ? 0 : n;
    const int64_t period = (int64_t)g.count * g.run, rest = n % period - (int64_t)group * g.run;
    return n / period * g.run + (rest < 0 ? 0 : rest < g.run ? rest : g.run);
}

void sg_order_group(int32_t *at, const int32_t *order, int64_t n, sg_groups g)
{
    for (int k = 0; k < (g.count < 2 ? 1 : g.count); k++)
        for (int64_t i = 0; i < n; i++) {
            const int32_t token = order ? order[i] : (int32_t)i;
            if (g.count < 2 || token / g.run % g.count == k) *at++ = token;
        }
}
