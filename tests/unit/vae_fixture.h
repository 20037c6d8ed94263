/* vae_fixture.h - what tests of VAEs share: streams whose memory is as planned, and what any VAE refuses. */
#ifndef SG_VAE_FIXTURE_H
#define SG_VAE_FIXTURE_H

#include "backend.h"
#include "meta.h"
#include "unit.h"
#include "vae.h"

/* A stream of b with as much memory as plan took, which is NaN to begin with. */
static inline sg_stream stream_as_planned(sg_backend *b, const sg_stream *plan)
{
    sg_stream       s = sg_stream_of(b);
    sg_arena *const arena[2] = {&s.keep, &s.scratch};
    const size_t    need[2] = {plan->keep.peak, plan->scratch.peak};
    assert_int_equal(plan->status, SG_OK);
    for (int i = 0; i < 2; i++) {
        void *const block = s.memory->alloc(b, need[i]);
        assert_non_null(block);
        memset(block, 0xff, need[i]);
        *arena[i] = (sg_arena){.base = (uintptr_t)block, .cap = need[i]};
    }
    return s;
}

static inline void stream_release(sg_backend *b, sg_stream *s)
{
    s->memory->release(b, (void *)s->keep.base);
    s->memory->release(b, (void *)s->scratch.base);
}

/* Latents of these shapes, given to a decoder of y by x places. */
static inline void expect_latch(const sg_vae_ops *ops, void *of, int64_t y, int64_t x, bool last,
                                const int64_t (*bad)[4], size_t n)
{
    sg_error e = {0};
    for (size_t i = 0; i < n; i++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        void          *run = NULL;
        assert_done(ops->decode_open(&run, of, &s, y, x, &e), &e);
        assert_int_equal(ops->decode_next(run, &s, sg_alloc(&s, &s.scratch, SG_F32, 4, bad[i]), last).rank, 4);
        assert_int_equal(s.status, SG_E_SHAPE);
        ops->decode_close(&run);
    }
}

/* Places of latents that no decoder opens, or sides of pictures that no encoder does. */
static inline void expect_sizes_refused(const sg_vae_ops *ops, void *of, bool encodes, const int64_t (*size)[2],
                                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        void          *run = of;
        sg_error       e = {0};
        assert_refused((encodes ? ops->encode_open : ops->decode_open)(&run, of, &s, size[i][0], size[i][1], &e),
                       SG_E_ARG, &e, "");
        assert_null(run);
    }
}
#define LATCHES(ops, of, y, x, last, ...)                                                                              \
    expect_latch(ops, of, y, x, last, (const int64_t[][4]){__VA_ARGS__},                                               \
                 sizeof((const int64_t[][4]){__VA_ARGS__}) / sizeof(int64_t[4]))
#define SIZES_REFUSED(ops, of, encodes, ...)                                                                           \
    expect_sizes_refused(ops, of, encodes, (const int64_t[][2]){__VA_ARGS__},                                          \
                         sizeof((const int64_t[][2]){__VA_ARGS__}) / sizeof(int64_t[2]))

#endif
