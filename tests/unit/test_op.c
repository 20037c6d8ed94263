/* test_op.c - tensors, arenas, the rules that op.c enforces for every backend, and formulas of the oracle that are easy to
 * state by hand. */
#include "host_memory.h"
#include "meta.h"
#include "op_shapes.h"

static unsigned char buffer[1 << 16] __attribute__((aligned(SG_ALIGN)));

static sg_stream ref_stream(void)
{
    return (sg_stream){
        .ops = &sg_ref_ops, .memory = &host_memory, .scratch = {.base = (uintptr_t)buffer, .cap = sizeof buffer}};
}

static sg_tensor filled(sg_stream *s, int rank, const int64_t *dim)
{
    const sg_tensor t = sg_alloc(s, &s->scratch, SG_F32, rank, dim);
    for (int64_t i = 0; i < sg_count(t); i++) ((float *)t.data)[i] = (float)i;
    return t;
}
#define FILLED(s, ...) filled(s, SG_DIMS(__VA_ARGS__))

static void f16_survives_all_values(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = sg_f16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(sg_f16_to_f32(sg_f32_to_f16(f))));
        else
            assert_int_equal(sg_f32_to_f16(f), h);
    }
    assert_int_equal(sg_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(sg_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(sg_f32_to_f16(2049.0f), 0x6800); /* a tie, to even */
    assert_int_equal(sg_f32_to_f16(2051.0f), 0x6802);
    assert_int_equal(sg_f32_to_f16(0x1p-25f), 0); /* a tie, to even */
    assert_int_equal(sg_f32_to_f16(0x1.8p-25f), 1);
}

static void f8_survives_all_values(void **state)
{
    static const float numbers[] = {448, -448, 1, 0x1p-6f, 0x1p-9f, 0x1.cp-7f};
    static const int   bits[] = {0x7e, 0xfe, 0x38, 0x08, 0x01, 0x07};
    for (int i = 0; i < 6; i++) assert_int_equal(sg_f32_to_f8(numbers[i]), bits[i]);
    for (int h = 0; h < 256; h++) {
        const float f = sg_f8_to_f32((uint8_t)h);
        assert_true(isnan(f) ? (h & 0x7f) == 0x7f : sg_f32_to_f8(f) == h);
        assert_true((h & 0x7f) != 0x7f || sg_f32_to_f8(f) == h);
    }
    for (int h = 0; h < 0x7e; h++) { /* between two neighbours: to the nearer, and of a tie to the even one */
        const float low = sg_f8_to_f32((uint8_t)h), high = sg_f8_to_f32((uint8_t)(h + 1)), middle = (low + high) / 2;
        assert_int_equal(sg_f32_to_f8(middle), h + h % 2);
        assert_int_equal(sg_f32_to_f8(nextafterf(middle, 0)), h);
        assert_int_equal(sg_f32_to_f8(nextafterf(middle, 500)), h + 1);
    }
    assert_int_equal(sg_f32_to_f8(1e30f), 0x7e);
    assert_int_equal(sg_f32_to_f8(-INFINITY), 0xfe);
}

static void bf16_rounds_to_even(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = sg_bf16_to_f32((uint16_t)h);
        if (!isnan(f))
            assert_int_equal(sg_f32_to_bf16(f), h);
        else
            assert_true(isnan(sg_bf16_to_f32(sg_f32_to_bf16(f))));
    }
    assert_int_equal(sg_f32_to_bf16(0x1.01p0f), 0x3f80);
    assert_int_equal(sg_f32_to_bf16(0x1.03p0f), 0x3f82);
    assert_int_equal(sg_f32_to_bf16(3.4e38f), 0x7f80);
}

static void views_stay_inside(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor t = FILLED(&s, 4, 6);
    assert_int_equal(sg_rows(t, 1, 2).dim[0], 2);
    assert_true(((float *)sg_rows(t, 1, 2).data)[0] == 6);
    assert_int_equal(sg_rows(t, 3, 2).rank, 0);
    assert_int_equal(sg_rows(t, -1, 1).rank, 0);
    assert_int_equal(sg_reshape(t, 2, 12).dim[1], 12);
    assert_int_equal(sg_reshape(t, 5, 5).rank, 0);
    char text[64];
    sg_shape_text(text, sizeof text, 2, t.dim);
    assert_string_equal(text, "[4, 6]");
}

static void arenas_refuse_and_latch(void **state)
{
    sg_stream s = ref_stream();
    assert_null(sg_new(&s, SG_F32, sizeof buffer).data);
    assert_int_equal(s.status, SG_E_MEMORY);
    assert_null(sg_new(&s, SG_F32, 1).data); /* latched: even what fits is refused */

    s = ref_stream();
    assert_null(sg_new(&s, SG_F32, INT64_MAX / 2, 9).data); /* the product wraps */
    assert_int_equal(s.status, SG_E_MEMORY);
    s = ref_stream();
    assert_null(sg_new(&s, SG_F32, -1).data);
    s = ref_stream();
    assert_true((uintptr_t)sg_new(&s, SG_U8, 1).data % SG_ALIGN == 0);
    assert_true((uintptr_t)sg_new(&s, SG_U8, 1).data % SG_ALIGN == 0);
    assert_int_equal(s.scratch.peak, 2 * SG_ALIGN);
}

static void shapes_are_checked(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 3, 4), w = FILLED(&s, 5, 4), y = FILLED(&s, 3, 5), b = FILLED(&s, 5);
    sg_linear(&s, .y = y, .x = x, .w = w, .b = b);
    assert_int_equal(s.status, SG_OK);
    sg_linear(&s, .y = x, .x = x, .w = w);
    assert_int_equal(s.status, SG_E_SHAPE);
    assert_non_null(strstr(s.why, "linear"));
    assert_non_null(strstr(s.why, "[3, 4]"));
    const float before = ((float *)y.data)[0];
    sg_combine(&s, .y = y, .x = {y}, .a = {2}, .count = 1); /* a failed stream does nothing */
    assert_true(((float *)y.data)[0] == before);
}

static void outputs_may_not_overlap_inputs(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 4, 8);
    sg_norm(&s, .y = sg_rows(x, 0, 2), .x = sg_rows(x, 1, 2), .kind = SG_NORM_RMS, .eps = 1e-6f);
    assert_int_equal(s.status, SG_E_SHAPE);
    s.status = SG_OK;
    sg_norm(&s, .y = sg_rows(x, 0, 2), .x = sg_rows(x, 2, 2), .kind = SG_NORM_RMS, .eps = 1e-6f);
    assert_int_equal(s.status, SG_OK);
    sg_copy(&s, .y = x, .x = x);
    assert_int_equal(s.status, SG_E_SHAPE);
}

static void permutations_must_be_permutations(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 2, 3, 4), y = FILLED(&s, 4, 2, 3);
    sg_permute(&s, .y = y, .x = x, .rank = 3, .dim = {2, 3, 4}, .perm = {2, 0, 1});
    assert_int_equal(s.status, SG_OK);
    for (int64_t a = 0; a < 4; a++)
        for (int64_t b = 0; b < 6; b++) assert_true(((float *)y.data)[a * 6 + b] == (float)(b * 4 + a));
    sg_permute(&s, .y = y, .x = x, .rank = 3, .dim = {2, 3, 4}, .perm = {2, 2, 1});
    assert_int_equal(s.status, SG_E_SHAPE);
}

static void convolutions_count_their_places(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 3, 2, 2, 1), w = FILLED(&s, 1, 1, 3, 3, 3), y = FILLED(&s, 1, 2, 2, 1);
    sg_conv(&s, .y = y, .x = x, .w = w, .stride = {1, 1, 1}, .pad = {1, 1, 1, 1});
    assert_int_equal(s.status, SG_OK);
    double sum = 0; /* by hand, for the first place: rows and columns 1, 2 of each kernel slice */
    for (int t = 0; t < 3; t++)
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++) sum += (double)(t * 4 + r * 2 + c) * (t * 9 + (r + 1) * 3 + c + 1);
    assert_true(((float *)y.data)[0] == (float)sum);
    sg_conv(&s, .y = y, .x = x, .w = w, .stride = {1, 1, 1}, .pad = {1, 0, 1, 1});
    assert_int_equal(s.status, SG_E_SHAPE);
}

static void nothing_attends_to_nothing(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor q = FILLED(&s, 2, 1, 4), k = FILLED(&s, 3, 1, 4), v = FILLED(&s, 3, 1, 4), y = FILLED(&s, 2, 1, 4);
    const sg_tensor none = FILLED(&s, 3);
    for (int i = 0; i < 3; i++) ((float *)none.data)[i] = -INFINITY;
    sg_attend(&s, .y = y, .q = q, .k = k, .v = v, .key_bias = none, .scale = 1);
    assert_int_equal(s.status, SG_OK);
    for (int i = 0; i < 8; i++) assert_true(((float *)y.data)[i] == 0);
}

static void non_finite_values_are_counted(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 9), count = sg_new(&s, SG_I32, 1);
    *(int32_t *)count.data = 0;
    sg_count_non_finite(&s, .y = count, .x = x);
    assert_int_equal(*(int32_t *)count.data, 0);
    ((float *)x.data)[3] = NAN;
    ((float *)x.data)[8] = -INFINITY;
    sg_count_non_finite(&s, .y = count, .x = x);
    sg_count_non_finite(&s, .y = count, .x = x);
    assert_int_equal(*(int32_t *)count.data, 4);
}

static void plan_measures_without_memory(void **state)
{
    sg_plan_totals  totals = {0};
    sg_stream       s = sg_plan_stream(&totals);
    const sg_tensor x = sg_new(&s, SG_F32, 1 << 20, 1 << 12), y = sg_new(&s, SG_F32, 1 << 20, 1 << 12);
    const sg_tensor w = {.dtype = SG_F32, .rank = 2, .dim = {1 << 12, 1 << 12}};
    sg_linear(&s, .y = y, .x = x, .w = w);
    assert_int_equal(s.status, SG_OK);
    assert_true(s.scratch.peak == 2 * sg_bytes(x));
    assert_true(totals.flops == 2.0 * (1 << 20) * (1 << 12) * (1 << 12));
    sg_linear(&s, .y = x, .x = x, .w = w); /* the rules hold here as well */
    assert_int_equal(s.status, SG_E_SHAPE);
}

/* ---- sparse attention: shapes without data, on the backend that computes nothing ---- */

static void norm_counts_rows_of_a_mean_only(void **state)
{
    sg_plan_totals     totals = {0};
    sg_stream          s = sg_plan_stream(&totals);
    const sg_norm_args norm = {
        .y = SHAPE(F32, 5, 24), .non_finite = SHAPE(I32, 1), .x = SHAPE(F32, 5, 24), .kind = SG_NORM_LAYER};
    ACCEPTS(norm, norm);
    ALLOWS(norm, norm, non_finite, ABSENT);
    REFUSES(norm, norm, non_finite, SHAPE(I32, 2));
    REFUSES(norm, norm, non_finite, SHAPE(F32, 1));
    REFUSES(norm, norm, kind, SG_NORM_RMS);
    assert_int_equal(sg_op_outputs("norm", &norm), 2);
    assert_int_equal(sg_op_outputs("a test's own", &norm), 1);
}

/* 300 tokens: 3 blocks of queries, 5 of keys, 19 of 16; 4 heads on 2 of keys; 24 channels. */
static void pooling_stages_refuse_what_does_not_fit(void **state)
{
    sg_plan_totals     totals = {0};
    sg_stream          s = sg_plan_stream(&totals);
    const sg_pool_args pool = {.mean = SHAPE(F32, 5, 4, 24),
                               .var = SHAPE(F32, 5, 4, 24),
                               .sub = SHAPE(F32, 19, 4, 24),
                               .total = SHAPE(F32, 4, 24),
                               .x = SHAPE(BF16, 300, 4, 24),
                               .block = 64};
    ACCEPTS(pool, pool);
    ALLOWS(pool, pool, var, ABSENT);
    ALLOWS(pool, pool, total, ABSENT);
    ALLOWS(pool, pool, center, SHAPE(F32, 4, 24));
    REFUSES(pool, pool, center, SHAPE(F32, 5, 24));
    ALLOWS(pool, pool, channel_scale, SHAPE(F32, 4, 24));
    REFUSES(pool, pool, channel_scale, SHAPE(F32, 4, 25));
    REFUSES(pool, pool, group, 32);
    REFUSES(pool, pool, scale, SHAPE(F32, 10, 4));
    REFUSES(pool, pool, y, SHAPE(I8, 4, 300, 24));
    REFUSES(pool, pool, mean, ABSENT);
    REFUSES(pool, pool, mean, SHAPE(BF16, 5, 4, 24));
    REFUSES(pool, pool, var, SHAPE(F32, 4, 4, 24));
    REFUSES(pool, pool, sub, SHAPE(F32, 18, 4, 24));
    REFUSES(pool, pool, x, SHAPE(I8, 300, 4, 24));
    REFUSES(pool, pool, x, SHAPE(F32, 300, 96));
    REFUSES(pool, pool, block, 40);
    REFUSES(pool, pool, block, 0);
    sg_pool_args packed = pool;
    packed.channel_scale = SHAPE(F32, 4, 24);
    packed.y = SHAPE(I8, 4, 300, 24);
    packed.scale = SHAPE(F32, 10, 4);
    packed.group = 32;
    ACCEPTS(pool, packed);
    assert_int_equal(sg_op_outputs("pool", &packed), 8);
    REFUSES(pool, packed, total, ABSENT);
    REFUSES(pool, packed, scale, ABSENT);
    REFUSES(pool, packed, scale, SHAPE(F32, 5, 4));
    REFUSES(pool, packed, y, SHAPE(I8, 300, 4, 24));
    REFUSES(pool, packed, y, SHAPE(U8, 4, 300, 24));
    REFUSES(pool, packed, group, 0);
    REFUSES(pool, packed, group, -32);
    REFUSES(pool, packed, group, 128); /* no part of a block */
    packed.group = 8;
    packed.scale = SHAPE(F32, 38, 4);
    sg_pool_(&s, &packed);
    assert_true(refused(&s));

    const sg_self_similarity_args self_similarity = {
        .y = SHAPE(F32, 5, 4), .x = SHAPE(F32, 300, 4, 24), .center = SHAPE(F32, 4, 24), .block = 64};
    ACCEPTS(self_similarity, self_similarity);
    ALLOWS(self_similarity, self_similarity, center, ABSENT);
    REFUSES(self_similarity, self_similarity, y, SHAPE(F32, 4, 5));
    REFUSES(self_similarity, self_similarity, center, SHAPE(F32, 96));
    REFUSES(self_similarity, self_similarity, block, 0);

    const sg_quantise_args quantise = {
        .y = SHAPE(I8, 4, 300, 24), .scale = SHAPE(F32, 5, 4), .x = SHAPE(F32, 300, 4, 24), .group = 64};
    ACCEPTS(quantise, quantise);
    REFUSES(quantise, quantise, y, SHAPE(I8, 300, 4, 24));
    REFUSES(quantise, quantise, y, SHAPE(U8, 4, 300, 24));
    REFUSES(quantise, quantise, group, 0);
    REFUSES(quantise, quantise, group, -64);
    const sg_quantise_args channels = {
        .y = SHAPE(I8, 4, 300, 24), .scale = SHAPE(F32, 4, 24), .x = SHAPE(F32, 300, 4, 24)};
    ACCEPTS(quantise, channels);
    sg_quantise_args f8 = channels;
    f8.y = SHAPE(F8, 4, 24, 320);
    ACCEPTS(quantise, f8);
    REFUSES(quantise, f8, group, 64);
    REFUSES(quantise, f8, y, SHAPE(F8, 4, 24, 300));
    REFUSES(quantise, f8, y, SHAPE(F8, 4, 300, 24));
    assert_int_equal(sg_op_outputs("quantise", &channels), 1);
    assert_int_equal(sg_op_outputs("quantise", &quantise), 2);

    const sg_tail_bias_args bias = {.y = SHAPE(F32, 4, 3, 5),
                                    .q_mean = SHAPE(F32, 3, 4, 24),
                                    .q_var = SHAPE(F32, 3, 4, 24),
                                    .k_var = SHAPE(F32, 5, 2, 24)};
    ACCEPTS(tail_bias, bias);
    REFUSES(tail_bias, bias, y, SHAPE(F32, 4, 5, 3));
    REFUSES(tail_bias, bias, q_var, ABSENT);
    REFUSES(tail_bias, bias, k_var, SHAPE(F32, 5, 3, 24)); /* 4 heads on 3 */
    REFUSES(tail_bias, bias, k_var, SHAPE(F32, 5, 2, 16));
}

static void choosing_stages_refuse_what_does_not_fit(void **state)
{
    sg_plan_totals      totals = {0};
    sg_stream           s = sg_plan_stream(&totals);
    const sg_score_args score = {.y = SHAPE(F32, 4, 3, 5),
                                 .q = SHAPE(F32, 3, 4, 24),
                                 .k = SHAPE(F32, 5, 2, 24),
                                 .k_var = SHAPE(F32, 5, 2, 24),
                                 .v_var = SHAPE(F32, 5, 2, 32),
                                 .q_similarity = SHAPE(F32, 3, 4),
                                 .k_similarity = SHAPE(F32, 5, 2),
                                 .theta = SHAPE(F32, 4),
                                 .causal = true,
                                 .n = 300,
                                 .m = 300};
    ACCEPTS(score, score);
    REFUSES(score, score, sub, true);
    REFUSES(score, score, v_var, ABSENT);
    REFUSES(score, score, theta, ABSENT);
    REFUSES(score, score, q_similarity, SHAPE(F32, 3, 2));
    REFUSES(score, score, k_similarity, SHAPE(F32, 5, 3));
    REFUSES(score, score, n, 0);
    REFUSES(score, score, m, 299); /* as many blocks, but causal: fewer keys than queries */
    REFUSES(score, score, text_prefix, -1);
    REFUSES(score, score, k, SHAPE(BF16, 5, 2, 24));
    REFUSES(score, score, k_center, SHAPE(F32, 4, 24)); /* of queries' heads */
    REFUSES(score, score, k, SHAPE(F32, 5, 2, 16));

    const sg_select_args select_ = {.list = SHAPE(U16, 4, 3, 5),
                                    .count = SHAPE(I32, 4, 3),
                                    .kept = SHAPE(I32, 4, 2),
                                    .mass = SHAPE(F32, 4),
                                    .score = SHAPE(F32, 4, 3, 5),
                                    .amount = SHAPE(F32, 4),
                                    .heads = true,
                                    .n = 300,
                                    .m = 300};
    ACCEPTS(select, select_);
    REFUSES(select, select_, rule, SG_SELECT_MASS); /* has no budget to share */
    REFUSES(select, select_, list, SHAPE(U16, 4, 3, 4));
    REFUSES(select, select_, list, SHAPE(I32, 4, 3, 5));
    REFUSES(select, select_, count, SHAPE(I32, 4, 5));
    REFUSES(select, select_, kept, ABSENT);
    REFUSES(select, select_, kept, SHAPE(I32, 4));
    REFUSES(select, select_, mass, SHAPE(F32, 1));
    REFUSES(select, select_, amount, ABSENT);
    REFUSES(select, select_, sink, -1);
    REFUSES(select, select_, m, 64);
    REFUSES(select, select_, theta, SHAPE(F32, 4));
    sg_select_args given = select_;
    given.heads = false;
    REFUSES(select, given, rule, SG_SELECT_GIVEN); /* of a policy, which has its lists */
}

static void sparse_attention_refuses_what_does_not_fit(void **state)
{
    sg_plan_totals              totals = {0};
    sg_stream                   s = sg_plan_stream(&totals);
    const sg_attend_blocks_args a = {.y = SHAPE(BF16, 300, 4, 24),
                                     .skips = SHAPE(F32, 4, 2),
                                     .q = SHAPE(I8, 4, 300, 24),
                                     .q_scale = SHAPE(F32, 3, 4),
                                     .k = SHAPE(I8, 2, 300, 24),
                                     .k_scale = SHAPE(F32, 10, 2),
                                     .v = SHAPE(I8, 2, 300, 24),
                                     .v_scale = SHAPE(F32, 2, 24),
                                     .v_center = SHAPE(F32, 2, 24),
                                     .list = SHAPE(U16, 4, 3, 5),
                                     .count = SHAPE(I32, 4, 3),
                                     .tail_k = SHAPE(I8, 2, 5, 24),
                                     .tail_k_scale = SHAPE(F32, 1, 2),
                                     .tail_v = SHAPE(I8, 2, 5, 24),
                                     .tail_bias = SHAPE(F32, 4, 3, 5),
                                     .pv_threshold = SHAPE(F32, 4),
                                     .q_group = 128,
                                     .k_group = 32,
                                     .pv_group = 64,
                                     .causal = true};
    ACCEPTS(attend_blocks, a);
    ALLOWS(attend_blocks, a, tail_bias, ABSENT);
    REFUSES(attend_blocks, a, q_group, 48);
    REFUSES(attend_blocks, a, k_group, 128);
    REFUSES(attend_blocks, a, k, SHAPE(I8, 2, 301, 24));
    REFUSES(attend_blocks, a, k, SHAPE(I8, 3, 300, 24));
    REFUSES(attend_blocks, a, v, SHAPE(I8, 300, 2, 24));
    REFUSES(attend_blocks, a, v, SHAPE(BF16, 300, 2, 24)); /* which has no scale */
    REFUSES(attend_blocks, a, v_scale, ABSENT);
    REFUSES(attend_blocks, a, list, ABSENT); /* a tail of nothing */
    REFUSES(attend_blocks, a, list, SHAPE(U16, 4, 5, 5));
    REFUSES(attend_blocks, a, count, ABSENT);
    REFUSES(attend_blocks, a, pv_group, 16);
    REFUSES(attend_blocks, a, tail_k, ABSENT);
    REFUSES(attend_blocks, a, tail_v, SHAPE(F32, 5, 2, 24));
    REFUSES(attend_blocks, a, skips, ABSENT);
    REFUSES(attend_blocks, a, pv_threshold, ABSENT);
    REFUSES(attend_blocks, a, y, SHAPE(I8, 300, 4, 24));

    sg_attend_blocks_args f8 = a;
    f8.v = SHAPE(F8, 2, 24, 320);
    f8.tail_v = SHAPE(F8, 2, 24, 64);
    ACCEPTS(attend_blocks, f8);
    REFUSES(attend_blocks, f8, v, SHAPE(F8, 2, 24, 300));
    REFUSES(attend_blocks, f8, v_scale, ABSENT);
    REFUSES(attend_blocks, f8, tail_v, SHAPE(I8, 2, 5, 24));

    sg_attend_blocks_args floats = a;
    floats.v = SHAPE(BF16, 300, 2, 24);
    floats.v_scale = ABSENT;
    REFUSES(attend_blocks, floats, tail_v, SHAPE(I8, 2, 5, 24));
    ALLOWS(attend_blocks, floats, tail_v, SHAPE(F32, 5, 2, 24));
}

static void no_output_overlaps_another_tensor(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor x = FILLED(&s, 16, 1, 8), y = FILLED(&s, 4, 1, 8);
    const sg_tensor mean = sg_rows(y, 0, 1), total = sg_reshape(sg_rows(y, 1, 1), 1, 8);
    sg_pool(&s, .mean = mean, .total = total, .x = x, .block = 16);
    assert_int_equal(s.status, SG_OK);
    sg_pool(&s, .mean = mean, .var = mean, .x = x, .block = 16);
    assert_true(refused(&s));
    sg_pool(&s, .mean = mean, .total = sg_reshape(sg_rows(x, 3, 1), 1, 8), .x = x, .block = 16);
    assert_true(refused(&s));
}

/* With rows, gate, scale and shift are matrices, and without them vectors. */
static void rows_of_modulations_are_checked(void **state)
{
    sg_plan_totals         totals = {0};
    sg_stream              s = sg_plan_stream(&totals);
    const sg_tensor        x = SHAPE(F32, 2, 3, 8), rows = SHAPE(I32, 6);
    const sg_linear_args   linear = {.y = SHAPE(F32, 6, 4),
                                     .x = SHAPE(F32, 6, 8),
                                     .w = SHAPE(F32, 4, 8),
                                     .gate = SHAPE(F32, 2, 4),
                                     .row = rows,
                                     .add = true};
    const sg_norm_args     norm = {.y = x, .x = x, .scale = SHAPE(F32, 2, 8), .shift = SHAPE(F32, 3, 8), .row = rows};
    const sg_gate_add_args gate_add = {.x = x, .r = x, .gate = SHAPE(F32, 2, 8), .row = rows, .tanh_gate = true};
    ACCEPTS(linear, linear);
    REFUSES(linear, linear, row, ABSENT);
    REFUSES(linear, linear, row, SHAPE(I32, 4));
    REFUSES(linear, linear, row, SHAPE(F32, 6));
    REFUSES(linear, linear, gate, ABSENT);
    REFUSES(linear, linear, gate, SHAPE(F32, 4));
    REFUSES(linear, linear, gate, SHAPE(F32, 2, 8));
    REFUSES(linear, linear, add, false);
    ACCEPTS(norm, norm);
    ALLOWS(norm, norm, scale, ABSENT);
    REFUSES(norm, norm, row, ABSENT);
    REFUSES(norm, norm, row, SHAPE(I32, 2));
    REFUSES(norm, norm, scale, SHAPE(F32, 8));
    REFUSES(norm, norm, shift, SHAPE(BF16, 2, 8));
    REFUSES(norm, norm, kind, SG_NORM_GROUP);
    sg_norm_args plain = norm;
    plain.scale = plain.shift = ABSENT;
    REFUSES(norm, plain, kind, SG_NORM_LAYER); /* nothing takes a row */
    ACCEPTS(gate_add, gate_add);
    REFUSES(gate_add, gate_add, row, ABSENT);
    REFUSES(gate_add, gate_add, row, SHAPE(I32, 7));
    REFUSES(gate_add, gate_add, gate, SHAPE(F32, 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(f16_survives_all_values),
                                       cmocka_unit_test(f8_survives_all_values),
                                       cmocka_unit_test(bf16_rounds_to_even),
                                       cmocka_unit_test(views_stay_inside),
                                       cmocka_unit_test(arenas_refuse_and_latch),
                                       cmocka_unit_test(shapes_are_checked),
                                       cmocka_unit_test(outputs_may_not_overlap_inputs),
                                       cmocka_unit_test(permutations_must_be_permutations),
                                       cmocka_unit_test(convolutions_count_their_places),
                                       cmocka_unit_test(nothing_attends_to_nothing),
                                       cmocka_unit_test(non_finite_values_are_counted),
                                       cmocka_unit_test(plan_measures_without_memory),
                                       cmocka_unit_test(norm_counts_rows_of_a_mean_only),
                                       cmocka_unit_test(pooling_stages_refuse_what_does_not_fit),
                                       cmocka_unit_test(choosing_stages_refuse_what_does_not_fit),
                                       cmocka_unit_test(sparse_attention_refuses_what_does_not_fit),
                                       cmocka_unit_test(no_output_overlaps_another_tensor),
                                       cmocka_unit_test(rows_of_modulations_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
