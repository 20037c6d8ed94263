/* blocks_fixture.h - tensors for tests of the stages of sparse attention, on the oracle. */
#ifndef SG_BLOCKS_FIXTURE_H
#define SG_BLOCKS_FIXTURE_H

#include "op.h"
#include "unit.h"

enum { ROOM = 1 << 24, N = 300, M = 450, H = 4, HK = 2, D = 16, NQ = 3, NK = 8 };

static unsigned char buffer[ROOM] __attribute__((aligned(SG_ALIGN)));
static uint32_t      seed;

static inline sg_stream ref_stream(void)
{
    seed = 1;
    return (sg_stream){.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)buffer, .cap = sizeof buffer}};
}

static inline int draw(int below)
{
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 8) % (uint32_t)below);
}

/* Integers below `spread` either side of 0, times `step`. */
static inline sg_tensor drawn(sg_stream *s, sg_dtype type, int spread, float step, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, type, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, (float)(draw(2 * spread - 1) - spread + 1) * step);
    return t;
}
#define DRAWN(s, type, spread, step, ...) drawn(s, type, spread, step, SG_DIMS(__VA_ARGS__))

static inline sg_tensor all_of(sg_stream *s, float v, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, SG_F32, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, v);
    return t;
}
#define ALL_OF(s, v, ...) all_of(s, v, SG_DIMS(__VA_ARGS__))

static inline float at(sg_tensor t, int64_t i) { return sg_load(&t, i); }

static inline void assert_near(sg_tensor a, sg_tensor b, double off)
{
    assert_int_equal(sg_count(a), sg_count(b));
    for (int64_t i = 0; i < sg_count(a); i++) assert_true(fabs((double)at(a, i) - (double)at(b, i)) <= off);
}

static inline void assert_equal(sg_tensor a, sg_tensor b)
{
    assert_int_equal(sg_bytes(a), sg_bytes(b));
    assert_memory_equal(a.data, b.data, sg_bytes(a));
}

#endif
