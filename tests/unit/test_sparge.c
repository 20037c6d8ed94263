/* test_sparge.c - the oracle's stages against the formulas of SpargeAttn, as tests/golden/sparge.py computed them.
 *
 * What differs by intent: the reference rounds to INT8 half away from zero and adds 1e-7 to a scale, so a number may be one
 * off where it is nearly half-way; and rows that keep all blocks have no scores with us. In F32 the masks must be equal:
 * sparge.py refuses settings whose running sums come nearer to a threshold than rounding goes. In BF16, where those sums
 * move in steps of 1/256, a row may choose otherwise and must only have a mass close to ours. */
#include "op.h"
#include "weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { H = 2, D = 64, TOKENS = 512, STEP = 32, ROOM = 1 << 24, SETTING = 7, Y_EVERY = 16 };

static unsigned char room[ROOM] __attribute__((aligned(SG_ALIGN)));
static sg_weights   *fixture;

/* A setting and what our stages make of it. */
typedef struct stages {
    sg_stream      s;
    int64_t        number, n, nq, nk;
    sg_select_rule rule;
    bool           causal, attends;
    int            sink;
    sg_tensor      amount, theta, q, k, v, center, q_alike, k_alike, score, keep, mass;
} stages;

static sg_tensor stored(const char *name)
{
    const sg_tensor t = sg_weights_find(fixture, name);
    assert_true(t.rank > 0);
    return t;
}

static sg_tensor stored_of(int64_t number, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "%lld.%s", (long long)number, name);
    return stored(text);
}

static double at(sg_tensor t, int64_t i) { return (double)sg_load(&t, i); }

static sg_tensor alike(stages *x, sg_tensor of, sg_tensor center, int block)
{
    const sg_tensor y = sg_new(&x->s, SG_F32, (x->n + block - 1) / block, H);
    sg_alike(&x->s, .y = y, .x = of, .center = center, .block = block);
    return y;
}

static sg_tensor inputs(stages *x, const char *name)
{
    const sg_tensor bytes = sg_rows(stored(name), 0, x->n), t = sg_new(&x->s, SG_F32, x->n, H, D);
    for (int64_t i = 0; i < sg_count(t); i++) sg_store(&t, i, (sg_load(&bytes, i) - 128) / STEP);
    return t;
}

static sg_tensor same_for_heads(stages *x, float v)
{
    const sg_tensor t = sg_new(&x->s, SG_F32, H);
    for (int g = 0; g < H; g++) sg_store(&t, g, v);
    return t;
}

static stages stages_of(int64_t number)
{
    const float *const o = (const float *)stored("settings").data + number * SETTING;
    stages x = {.s = {.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)room, .cap = ROOM}}, .number = number};
    x.n = (int64_t)o[0];
    x.nq = (x.n + SG_BLOCK_Q - 1) / SG_BLOCK_Q;
    x.nk = (x.n + SG_BLOCK_K - 1) / SG_BLOCK_K;
    x.rule = o[1] != 0 ? SG_SELECT_TOPK : SG_SELECT_MASS;
    x.amount = same_for_heads(&x, o[2]);
    x.theta = same_for_heads(&x, o[3]);
    x.sink = (int)o[4];
    x.causal = o[5] != 0;
    x.attends = o[6] != 0;
    x.q = inputs(&x, "q");
    x.k = inputs(&x, "k");
    x.v = inputs(&x, "v");

    const sg_tensor q_mean = sg_new(&x.s, SG_F32, x.nq, H, D), k_mean = sg_new(&x.s, SG_F32, x.nk, H, D);
    const sg_tensor kept = sg_new(&x.s, SG_I32, H, 2);
    x.center = sg_new(&x.s, SG_F32, H, D);
    sg_pool(&x.s, .mean = q_mean, .x = x.q, .block = SG_BLOCK_Q);
    sg_pool(&x.s, .mean = k_mean, .total = x.center, .x = x.k, .block = SG_BLOCK_K);
    x.q_alike = alike(&x, x.q, (sg_tensor){0}, SG_BLOCK_Q);
    x.k_alike = alike(&x, x.k, x.center, SG_BLOCK_K);
    x.score = sg_new(&x.s, SG_F32, H, x.nq, x.nk);
    sg_score(&x.s, .y = x.score, .q = q_mean, .k = k_mean, .q_alike = x.q_alike, .k_alike = x.k_alike, .theta = x.theta,
             .scale = 0.125f, .causal = x.causal, .n = x.n, .m = x.n);
    x.keep = sg_new(&x.s, SG_U8, H, x.nq, (x.nk + 63) / 64 * 8);
    x.mass = sg_new(&x.s, SG_F32, H);
    sg_select(&x.s, .keep = x.keep, .kept = kept, .mass = x.mass, .score = x.score, .amount = x.amount,
              .q_alike = x.q_alike, .k_alike = x.k_alike, .theta = x.theta, .rule = x.rule, .causal = x.causal,
              .sink = x.sink, .n = x.n, .m = x.n);
    assert_int_equal(x.s.status, SG_OK);
    return x;
}

static int64_t settings(void) { return stored("settings").dim[0]; }

static bool keeps(const stages *x, int64_t row, int64_t j)
{
    return ((const uint8_t *)x->keep.data)[row * x->keep.dim[2] + j / 8] >> j % 8 & 1;
}

static bool row_fixed(const stages *x, int64_t row)
{
    const int64_t g = row / x->nq, i = row % x->nq;
    return (i + 1) * SG_BLOCK_Q > x->n || !(at(x->q_alike, i * H + g) > at(x->theta, g));
}

static void blocks_are_as_alike(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor q = stored_of(x.n, "q_similar"), keys = stored_of(x.n, "k_similar");
        assert_int_equal(sg_count(q), sg_count(x.q_alike));
        assert_int_equal(sg_count(keys), sg_count(x.k_alike));
        for (int64_t i = 0; i < sg_count(q); i++) /* NaN: a block that is not full, which we know otherwise */
            assert_true(isnan(at(q, i)) || fabs(at(q, i) - at(x.q_alike, i)) < 1e-5);
        for (int64_t i = 0; i < sg_count(keys); i++)
            assert_true(isnan(at(keys, i)) || fabs(at(keys, i) - at(x.k_alike, i)) < 1e-5);
    }
}

static void shares_are_the_same(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor share = stored_of(k, "share");
        assert_int_equal(sg_count(share), sg_count(x.score));
        for (int64_t i = 0; i < sg_count(share); i++)
            assert_true(row_fixed(&x, i / x.nk) || fabs(at(share, i) - at(x.score, i)) < 1e-5);
    }
}

static void masks_are_the_same(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor mask = stored_of(k, "mask");
        assert_int_equal(sg_count(mask), sg_count(x.score));
        for (int64_t i = 0; i < sg_count(mask); i++) assert_int_equal(at(mask, i) != 0, keeps(&x, i / x.nk, i % x.nk));
    }
}

static void masks_of_bf16_have_as_much_mass(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor mask = stored_of(k, "mask.bf16");
        double          ours = 0, theirs = 0;
        for (int64_t i = 0; i < sg_count(mask); i++) {
            ours += keeps(&x, i / x.nk, i % x.nk) ? at(x.score, i) : 0;
            theirs += at(mask, i) != 0 ? at(x.score, i) : 0;
        }
        assert_true(fabs(ours - theirs) <= 0.01 * ours);
    }
}

/* How many bytes differ, none by more than one. */
static int64_t bytes_off(sg_tensor ours, sg_tensor theirs)
{
    int64_t off = 0;
    for (int64_t i = 0; i < sg_count(theirs); i++) {
        const int64_t per_head = theirs.dim[1] * D;
        const double  a = at(ours, i / per_head * ours.dim[1] * D + i % per_head), b = at(theirs, i) - 128;
        assert_true(fabs(a - b) <= 1);
        off += a != b;
    }
    return off;
}

typedef struct packed {
    sg_tensor y, scale;
} packed;

static packed quantised(stages *x, sg_tensor of, sg_tensor center, int group)
{
    const packed p = {sg_new(&x->s, SG_I8, H, x->n, D), sg_new(&x->s, SG_F32, (x->n + group - 1) / group, H)};
    sg_quantise(&x->s, .y = p.y, .scale = p.scale, .x = of, .center = center, .group = group);
    return p;
}

static void scales_are_the_same_but_for_epsilon(const stages *x, const packed *p, const char *name)
{
    const sg_tensor scale = stored_of(x->n, name);
    assert_int_equal(sg_count(scale), sg_count(p->scale));
    for (int64_t i = 0; i < sg_count(scale); i++)
        assert_true(fabs(at(scale, i) - 1e-7 - at(p->scale, i)) <= 2e-7 * at(scale, i));
}

static void numbers_are_quantised_alike(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        stages       x = stages_of(k);
        const packed q = quantised(&x, x.q, (sg_tensor){0}, SG_BLOCK_Q);
        const packed keys = quantised(&x, x.k, x.center, SG_BLOCK_K);
        assert_int_equal(x.s.status, SG_OK);
        scales_are_the_same_but_for_epsilon(&x, &q, "q_scale");
        scales_are_the_same_but_for_epsilon(&x, &keys, "k_scale");
        if (x.n != TOKENS) continue;
        const int64_t count = sg_count(stored("q8"));
        assert_true(bytes_off(q.y, stored("q8")) < count / 200);
        assert_true(bytes_off(keys.y, stored("k8")) < count / 200);
    }
}

static void outputs_are_close(void **state)
{
    (void)state;
    for (int64_t k = 0; k < settings(); k++) {
        stages x = stages_of(k);
        if (!x.attends) continue;
        const packed    q = quantised(&x, x.q, (sg_tensor){0}, SG_BLOCK_Q);
        const packed    keys = quantised(&x, x.k, x.center, SG_BLOCK_K);
        const sg_tensor y = sg_new(&x.s, SG_F32, x.n, H, D), want = stored_of(k, "y");
        sg_attend_blocks(&x.s, .y = y, .q = q.y, .q_scale = q.scale, .k = keys.y, .k_scale = keys.scale, .v = x.v,
                         .keep = x.keep, .q_group = SG_BLOCK_Q, .k_group = SG_BLOCK_K, .scale = 0.125f,
                         .causal = x.causal);
        assert_int_equal(x.s.status, SG_OK);
        double off = 0, all = 0;
        for (int64_t i = 0; i < sg_count(want); i++) {
            const double w = at(want, i), d = w - at(y, i / (H * D) * Y_EVERY * H * D + i % (H * D));
            off += d * d;
            all += w * w;
        }
        assert_true(off <= 1e-6 * all); /* one byte in hundreds is another one */
    }
}

static int open_fixture(void **state)
{
    (void)state;
    sg_error e = {0};
    if (sg_weights_open(&fixture, SG_FIXTURES "/sparge", "stages", &e)) fprintf(stderr, "%s\n", e.text);
    return fixture ? 0 : -1;
}

static int close_fixture(void **state)
{
    (void)state;
    sg_weights_close(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_as_alike),         cmocka_unit_test(shares_are_the_same),
        cmocka_unit_test(masks_are_the_same),          cmocka_unit_test(masks_of_bf16_have_as_much_mass),
        cmocka_unit_test(numbers_are_quantised_alike), cmocka_unit_test(outputs_are_close)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
