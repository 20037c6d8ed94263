/* test_decoder_ops.c - what decoders and blocks of some families ask of ops: group norm, gates by tanh, angles of each head,
 * replicated edges. */
#include "backend.h"
#include "meta.h"
#include "op_shapes.h"

static unsigned char buffer[1 << 12] __attribute__((aligned(SG_ALIGN)));

static sg_stream ref_stream(void)
{
    return (sg_stream){.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)buffer, .cap = sizeof buffer}};
}

/* 0, 1 .. */
static sg_tensor filled(sg_stream *s, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, SG_F32, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) ((float *)t.data)[i] = (float)i;
    return t;
}
#define FILLED(s, ...) filled(s, SG_DIMS(__VA_ARGS__))

static void group_norm_refuses_what_does_not_fit(void **state)
{
    sg_plan_totals     totals = {0};
    sg_stream          s = sg_plan_stream(&totals);
    const sg_tensor    x = SHAPE(F32, 4, 6, 8, 12);
    const sg_norm_args a = {.y = x, .x = x, .kind = SG_NORM_GROUP, .groups = 3};
    const sg_norm_args layer = {.y = x, .x = x};
    ACCEPTS(norm, a);
    ALLOWS(norm, a, chunk, 2);
    ALLOWS(norm, a, chunk, 4);
    ALLOWS(norm, a, groups, 12);
    ALLOWS(norm, a, place_scale, SHAPE(BF16, 4, 2, 3, 12));
    ALLOWS(norm, a, place_shift, SHAPE(F32, 4, 6, 16, 12));
    REFUSES(norm, a, groups, 0);
    REFUSES(norm, a, groups, 5);
    REFUSES(norm, a, groups, -3);
    REFUSES(norm, a, chunk, -1);
    REFUSES(norm, a, chunk, 3);
    REFUSES(norm, a, scale, SHAPE(F32, 12));
    REFUSES(norm, a, shift, SHAPE(F32, 12));
    REFUSES(norm, a, non_finite, SHAPE(I32, 1));
    REFUSES(norm, a, place_scale, SHAPE(F32, 1, 2, 3, 12));
    REFUSES(norm, a, place_scale, SHAPE(F16, 4, 2, 3, 12));
    REFUSES(norm, a, place_shift, SHAPE(F32, 4, 2, 3, 6));
    REFUSES(norm, a, place_shift, SHAPE(F32, 4, 0, 3, 12));
    REFUSES(norm, layer, groups, 3);
    REFUSES(norm, layer, chunk, 1);
    REFUSES(norm, layer, place_scale, SHAPE(F32, 4, 2, 3, 12));
    REFUSES(norm, layer, place_shift, SHAPE(F32, 4, 2, 3, 12));
    sg_norm_args both = a, flat = a;
    both.place_scale = both.place_shift = SHAPE(F32, 4, 2, 3, 12);
    ACCEPTS(norm, both);
    REFUSES(norm, both, place_shift, SHAPE(F32, 4, 3, 2, 12));
    flat.x = flat.y = SHAPE(F32, 4, 48, 12);
    sg_norm_(&s, &flat);
    assert_true(refused(&s));
}

/* Two frames of 2 x 2 places, two groups of two channels; one place of scale and shift for each frame. */
static void group_norm_is_over_the_frames_of_a_chunk(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 2, 2, 2, 4), y = FILLED(&s, 2, 2, 2, 4), scale = FILLED(&s, 2, 1, 1, 4);
    const float     one = 1 / sqrtf(20.25f), all = 1 / sqrtf(84.25f); /* 0 1 4 5 8 9 12 13; and to 29 */
    const float    *out = y.data;
    sg_norm(&s, .y = y, .x = x, .kind = SG_NORM_GROUP, .groups = 2, .chunk = 1);
    assert_float_equal(out[0], -6.5f * one, 1e-6f);
    assert_float_equal(out[16], -6.5f * one, 1e-6);
    assert_float_equal(out[31], 6.5f * one, 1e-6);
    sg_norm(&s, .y = y, .x = x, .place_scale = scale, .place_shift = scale, .kind = SG_NORM_GROUP, .groups = 2);
    assert_float_equal(out[1], -13.5f * all * 1 + 1, 1e-6);
    assert_float_equal(out[31], 14.5f * all * 7 + 7, 1e-5);
    assert_int_equal(s.status, SG_OK);
}

/* Frames of one colour, as one latent place makes them: each channel's number is the same at all places of a frame. */
static void group_norm_of_equal_places_is_exact(void **state)
{
    enum { FRAMES = 13, PLACES = 256, C = 2, N = FRAMES * PLACES * C };
    static unsigned char block[1 << 20] __attribute__((aligned(SG_ALIGN)));
    sg_backend          *b = NULL;
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, NULL), SG_OK);
    for (int k = 1; k < 8; k++) {
        sg_stream s = sg_stream_of(b);
        s.scratch = (sg_arena){.base = (uintptr_t)block, .cap = sizeof block};
        const sg_tensor x = FILLED(&s, FRAMES, 16, 16, C), y = FILLED(&s, FRAMES, 16, 16, C);
        float *const in = x.data, *const out = y.data;
        double mean = 0, square = 0, error = 0, norm = 0;
        for (int i = 0; i < N; i++) {
            in[i] = sinf((float)(k + 3 * (i / C / PLACES) + 5 * (i % C))) * 0.7f - 0.3f;
            mean += (double)in[i] / N;
        }
        for (int i = 0; i < N; i++) square += ((double)in[i] - mean) * ((double)in[i] - mean) / N;
        sg_norm(&s, .y = y, .x = x, .kind = SG_NORM_GROUP, .groups = 1, .eps = 1e-6f);
        assert_int_equal(s.status, SG_OK);
        for (int i = 0; i < N; i++) {
            const double truth = ((double)in[i] - mean) / sqrt(square + 1e-6);
            error += ((double)out[i] - truth) * ((double)out[i] - truth);
            norm += truth * truth;
        }
        assert_true(sqrt(error / norm) < 5e-7);
    }
    sg_backend_close(&b);
}

static void angles_and_gates_have_one_of_their_shapes(void **state)
{
    sg_plan_totals   totals = {0};
    sg_stream        s = sg_plan_stream(&totals);
    const sg_tensor  x = SHAPE(F32, 6, 3, 4), by_head = SHAPE(F32, 6, 3, 2);
    sg_rope_args     rope = {.y = x, .x = x, .cos = by_head, .sin = by_head};
    sg_gate_add_args gate_add = {.x = x, .r = x, .gate = SHAPE(F32, 4), .tanh_gate = true};
    ACCEPTS(rope, rope);
    REFUSES(rope, rope, sin, SHAPE(F32, 6, 2));
    REFUSES(rope, rope, cos, SHAPE(F32, 6, 1, 2));
    REFUSES(rope, rope, cos, SHAPE(BF16, 6, 3, 2));
    ACCEPTS(gate_add, gate_add);
    REFUSES(gate_add, gate_add, gate, ABSENT);
}

/* A frame of one place is all that a kernel of 3 x 3 sees of it. */
static void replicated_edges_stand_for_what_is_outside(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 2, 1, 1, 1), y = FILLED(&s, 2, 1, 1, 1), w = FILLED(&s, 1, 1, 1, 3, 3);
    sg_conv(&s, .y = y, .x = x, .w = w, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1}, .edge = SG_EDGE_REPLICATE);
    assert_int_equal(s.status, SG_OK);
    assert_true(((float *)y.data)[0] == 0 && ((float *)y.data)[1] == 36);
}

static sg_backend *open_cpu(void)
{
    sg_backend *b = NULL;
    sg_error    e = {0};
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    return b;
}

/* As long as a library needs x with its edges, a few frames of y at a time. */
static void plan_counts_copies_with_edges(void **state)
{
    sg_backend      *cpu = open_cpu();
    sg_backend       f32 = *cpu, bf16 = *cpu;
    const sg_backend gpu = {.call.count = sg_plan_count};
    sg_plan_totals   totals[3] = {{.backend = &f32}, {.backend = &bf16}, {.backend = &gpu}};
    f32.dtype = SG_F32;
    bf16.dtype = SG_BF16;
    for (int i = 0; i < 3; i++) {
        sg_stream    s = sg_plan_stream(&totals[i]);
        sg_conv_args a = {
            .y = SHAPE(BF16, 9, 8, 10, 2), .x = SHAPE(BF16, 11, 8, 10, 4), .w = SHAPE(BF16, 2, 4, 3, 3, 3)};
        a.edge = SG_EDGE_REPLICATE;
        for (int k = 0; k < 4; k++) a.pad[k] = 1;
        for (int k = 0; k < 3; k++) a.stride[k] = 1;
        ACCEPTS(conv, a);
    }
    const size_t whole = 11 * 8 * 10 * 4 * sizeof(float), piece = 5 * 10 * 12 * 4;
    assert_int_equal(totals[0].staged[0], whole); /* x as F32 */
    assert_int_equal(totals[1].staged[0], piece * sizeof(uint16_t));
    assert_int_equal(totals[1].staged[1], 3 * 8 * 12 * 2 * sizeof(uint16_t)); /* wider by two columns */
    assert_int_equal(totals[2].staged[0], whole);
    sg_backend_close(&cpu);
}

/* Which is computed in F32 on a CPU, whatever it multiplies otherwise. */
static void plan_counts_a_strided_convolution(void **state)
{
    sg_backend      *cpu = open_cpu();
    sg_backend       bf16 = *cpu;
    const sg_backend gpu = {.call.count = sg_plan_count, .dtype = SG_BF16};
    bf16.dtype = SG_BF16;
    for (int stride = 1; stride <= 2; stride++)
        for (int i = 0; i < 2; i++) {
            sg_plan_totals t = {.backend = i ? &gpu : &bf16};
            sg_stream      s = sg_plan_stream(&t);
            sg_conv_args   a = {
                  .y = SHAPE(BF16, 1, 8 / stride, 8, 2), .x = SHAPE(BF16, 1, 8, 8, 4), .w = SHAPE(BF16, 2, 4, 1, 1, 1)};
            for (int k = 0; k < 3; k++) a.stride[k] = k == 1 ? stride : 1;
            ACCEPTS(conv, a);
            assert_int_equal(t.staged[0], stride > 1 && !i ? 8 * 8 * 4 * sizeof(float) : 0);
            assert_int_equal(t.staged[1], stride > 1 && !i ? 4 * 8 * 2 * sizeof(float) : 0);
        }
    sg_backend_close(&cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(plan_counts_copies_with_edges),
                                       cmocka_unit_test(plan_counts_a_strided_convolution),
                                       cmocka_unit_test(group_norm_refuses_what_does_not_fit),
                                       cmocka_unit_test(group_norm_is_over_the_frames_of_a_chunk),
                                       cmocka_unit_test(group_norm_of_equal_places_is_exact),
                                       cmocka_unit_test(angles_and_gates_have_one_of_their_shapes),
                                       cmocka_unit_test(replicated_edges_stand_for_what_is_outside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
