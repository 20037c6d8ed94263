/* test_sparge.c - the oracle's stages against the formulas of SpargeAttn, as tests/golden/sparge.py computed them.
 *
 * What differs by intent: the reference rounds to INT8 half away from zero and adds 1e-7 to a scale, so a number may be one
 * off where it is nearly half-way; and rows that keep all blocks have no scores with us. In F32 the masks must be equal:
 * sparge.py refuses settings whose running sums come nearer to a threshold than rounding goes. In BF16 those of
 * published_stages.h must be. */
#include "block_lists.h"
#include "published_stages.h"
#include "tensor_source.h"
#include "unit.h"

enum { H = 2, D = 64, TOKENS = 512, STEP = 32, ROOM = 1 << 24, SETTING = 7, PUBLISHED = 8, Y_EVERY = 16 };

static unsigned char buffer[ROOM] __attribute__((aligned(SG_ALIGN)));
static sg_source    *fixture;

/* A setting and what our stages make of it. */
typedef struct stages {
    sg_stream      s;
    int64_t        number, n, h, d, nq, nk;
    sg_select_rule rule;
    bool           causal, attends;
    int            sink;
    sg_tensor      amount, theta, q, k, v, center, q_similarity, k_similarity, score, mass;
    block_lists    lists;
} stages;

static sg_tensor stored(const char *name)
{
    const sg_tensor t = sg_source_find(fixture, name);
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

static sg_tensor self_similarity(stages *x, sg_tensor of, sg_tensor center, int block)
{
    const sg_tensor y = sg_new(&x->s, SG_F32, (x->n + block - 1) / block, x->h);
    sg_self_similarity(&x->s, .y = y, .x = of, .center = center, .block = block);
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
    const sg_tensor t = sg_new(&x->s, SG_F32, x->h);
    for (int64_t g = 0; g < x->h; g++) sg_store(&t, g, v);
    return t;
}

static void predict_and_select(stages *x)
{
    const int64_t   h = x->h, d = x->d;
    const sg_tensor q_mean = sg_new(&x->s, SG_F32, x->nq, h, d), k_mean = sg_new(&x->s, SG_F32, x->nk, h, d);
    const sg_tensor kept = sg_new(&x->s, SG_I32, h, 2);
    x->center = sg_new(&x->s, SG_F32, h, d);
    sg_pool(&x->s, .mean = q_mean, .x = x->q, .block = SG_BLOCK_Q);
    sg_pool(&x->s, .mean = k_mean, .total = x->center, .x = x->k, .block = SG_BLOCK_K);
    x->q_similarity = self_similarity(x, x->q, (sg_tensor){0}, SG_BLOCK_Q);
    x->k_similarity = self_similarity(x, x->k, x->center, SG_BLOCK_K);
    x->score = sg_new(&x->s, SG_F32, h, x->nq, x->nk);
    sg_score(&x->s, .y = x->score, .q = q_mean, .k = k_mean, .q_similarity = x->q_similarity,
             .k_similarity = x->k_similarity, .theta = x->theta, .scale = (float)(1 / sqrt((double)d)),
             .causal = x->causal, .n = x->n, .m = x->n);
    x->lists = block_lists_new(&x->s, h, x->nq, x->nk);
    x->mass = sg_new(&x->s, SG_F32, h);
    sg_select(&x->s, .list = x->lists.list, .count = x->lists.count, .kept = kept, .mass = x->mass, .score = x->score,
              .amount = x->amount, .q_similarity = x->q_similarity, .k_similarity = x->k_similarity, .theta = x->theta,
              .rule = x->rule, .causal = x->causal, .count_hidden = x->causal, .sink = x->sink, .n = x->n, .m = x->n);
    assert_int_equal(x->s.status, SG_OK);
}

/* o: rule, amount, theta, sink, causal. */
static stages stages_new(int64_t number, int64_t n, int64_t h, int64_t d, const float *o)
{
    stages x = {.s = {.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)buffer, .cap = ROOM}}, .number = number};
    x.n = n;
    x.h = h;
    x.d = d;
    x.nq = (n + SG_BLOCK_Q - 1) / SG_BLOCK_Q;
    x.nk = (n + SG_BLOCK_K - 1) / SG_BLOCK_K;
    x.rule = o[0] != 0 ? SG_SELECT_TOPK : SG_SELECT_MASS;
    x.amount = same_for_heads(&x, o[1]);
    x.theta = same_for_heads(&x, o[2]);
    x.sink = (int)o[3];
    x.causal = o[4] != 0;
    return x;
}

static stages stages_of(int64_t number)
{
    const float *const o = (const float *)stored("settings").data + number * SETTING;
    stages             x = stages_new(number, (int64_t)o[0], H, D, o + 1);
    x.attends = o[6] != 0;
    x.q = inputs(&x, "q");
    x.k = inputs(&x, "k");
    x.v = inputs(&x, "v");
    predict_and_select(&x);
    return x;
}

static int64_t settings(void) { return stored("settings").dim[0]; }

static bool keeps(const stages *x, int64_t row, int64_t j) { return is_listed(&x->lists, row, j); }

static bool row_fixed(const stages *x, int64_t row)
{
    const int64_t g = row / x->nq, i = row % x->nq;
    return (i + 1) * SG_BLOCK_Q > x->n || !(at(x->q_similarity, i * x->h + g) > at(x->theta, g));
}

static void self_similarity_agrees(void **state)
{
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor q = stored_of(x.n, "q_similar"), keys = stored_of(x.n, "k_similar");
        assert_int_equal(sg_count(q), sg_count(x.q_similarity));
        assert_int_equal(sg_count(keys), sg_count(x.k_similarity));
        for (int64_t i = 0; i < sg_count(q); i++) /* NaN: a block that is not full, which we know otherwise */
            assert_true(isnan(at(q, i)) || fabs(at(q, i) - at(x.q_similarity, i)) < 1e-5);
        for (int64_t i = 0; i < sg_count(keys); i++)
            assert_true(isnan(at(keys, i)) || fabs(at(keys, i) - at(x.k_similarity, i)) < 1e-5);
    }
}

static void shares_are_the_same(void **state)
{
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
    for (int64_t k = 0; k < settings(); k++) {
        const stages    x = stages_of(k);
        const sg_tensor mask = stored_of(k, "mask");
        assert_int_equal(sg_count(mask), sg_count(x.score));
        for (int64_t i = 0; i < sg_count(mask); i++) assert_int_equal(at(mask, i) != 0, keeps(&x, i / x.nk, i % x.nk));
    }
}

/* ---- as published, in BF16 ---- */

/* Token r of head g: base[r / 64, g] + far[r / 64, g] noise[(r + 17 g) mod rows], rounded once. */
static sg_tensor assembled(stages *x, const char *name)
{
    char text[3][32];
    snprintf(text[0], sizeof text[0], "%s.base", name);
    snprintf(text[1], sizeof text[1], "%s.far", name);
    snprintf(text[2], sizeof text[2], "%s.noise", name);
    const sg_tensor base = stored_of(x->d, text[0]), far = stored_of(x->d, text[1]), noise = stored_of(x->d, text[2]);
    const sg_tensor t = sg_new(&x->s, SG_BF16, x->n, x->h, x->d);
    for (int64_t i = 0; i < sg_count(t); i++) {
        const int64_t e = i % x->d, g = i / x->d % x->h, r = i / x->d / x->h, block = r / SG_BLOCK_K * base.dim[1] + g;
        const float   away = sg_load(&far, block) * sg_load(&noise, (r + 17 * g) % noise.dim[0] * x->d + e);
        sg_store(&t, i, sg_load(&base, block * x->d + e) + away);
    }
    return t;
}

static stages published_inputs(int64_t number)
{
    const float *const o = (const float *)stored("published.settings").data + number * PUBLISHED;
    stages             x = stages_new(number, (int64_t)o[1], (int64_t)o[2], (int64_t)o[0], o + 3);
    x.q = assembled(&x, "q");
    x.k = assembled(&x, "k");
    return x;
}

/* Scores and selects row i of head g. */
static void published_row(stages *x, int64_t g, int64_t i, const sg_tensor *q_mean, const sg_tensor *k_mean)
{
    const int64_t row = g * x->nq + i, last = least((i + 1) * SG_BLOCK_Q, x->n), nk = x->nk;
    const bool    all = row_fixed(x, row);
    float *const  share = (float *)x->score.data + row * nk;
    bool *const fixed = malloc((size_t)(2 * nk) * sizeof *fixed), *const counts = fixed + nk;
    for (int64_t j = 0; j < nk; j++) {
        fixed[j] = (j + 1) * SG_BLOCK_K > x->n || !(at(x->k_similarity, j * x->h + g) > at(x->theta, g));
        counts[j] = !fixed[j] && !all && (!x->causal || j * SG_BLOCK_K < last);
    }
    published_shares(share, q_mean, (i * x->h + g) * x->d, k_mean, g * x->d, counts);
    const int64_t taken = published_taken(share, nk, x->h * x->nq, x->rule, sg_load(&x->amount, g));
    for (int64_t j = 0; j < nk; j++)
        if ((!x->causal || j * SG_BLOCK_K < last) &&
            (all || fixed[j] || j < x->sink || published_takes(share, nk, j, taken)))
            list_block(&x->lists, row, j);
    free(fixed);
}

static stages published_of(int64_t number)
{
    stages          x = published_inputs(number);
    const sg_tensor none = {0};
    const sg_tensor q_mean = sg_new(&x.s, SG_F32, x.nq, x.h, x.d), k_mean = sg_new(&x.s, SG_F32, x.nk, x.h, x.d);
    x.center = sg_new(&x.s, SG_F32, 1, x.h, x.d);
    x.q_similarity = sg_new(&x.s, SG_F32, x.nq, x.h);
    x.k_similarity = sg_new(&x.s, SG_F32, x.nk, x.h);
    x.score = sg_new(&x.s, SG_F32, x.h, x.nq, x.nk);
    x.lists = block_lists_new(&x.s, x.h, x.nq, x.nk);
    assert_int_equal(x.s.status, SG_OK);
    published_means(x.center, x.k, none, x.n);
    published_means(q_mean, x.q, none, SG_BLOCK_Q);
    published_means(k_mean, x.k, x.center, SG_BLOCK_K);
    published_self_similarity(x.q_similarity, x.q, none, SG_BLOCK_Q);
    published_self_similarity(x.k_similarity, x.k, x.center, SG_BLOCK_K);
    for (int64_t row = 0; row < x.h * x.nq; row++) published_row(&x, row / x.nq, row % x.nq, &q_mean, &k_mean);
    return x;
}

static sg_tensor published_part(const stages *x, const char *name)
{
    char text[64];
    snprintf(text, sizeof text, "published.%lld.%s", (long long)x->number, name);
    return sg_source_find(fixture, text);
}

/* How many blocks ours keeps and the reference does not, or the other way round. */
static int64_t blocks_off(const stages *x)
{
    const sg_tensor keep = published_part(x, "keep"); /* a bit a block */
    const int64_t   words = (x->nk + 63) / 64 * 8;
    int64_t         off = 0;
    assert_int_equal(sg_bytes(keep), x->h * x->nq * words);
    for (int64_t row = 0; row < x->h * x->nq; row++)
        for (int64_t j = 0; j < x->nk; j++) {
            const bool theirs = ((const uint8_t *)keep.data)[row * words + j / 8] >> j % 8 & 1;
            off += theirs != is_listed(&x->lists, row, j);
        }
    return off;
}

static int64_t published_settings(void) { return stored("published.settings").dim[0]; }

static void published_keeps_what_the_reference_keeps(void **state)
{
    for (int64_t k = 0; k < published_settings(); k++) {
        const stages x = published_of(k);
        assert_int_equal(blocks_off(&x), 0);
    }
}

/* Within what sums of 16,384 numbers in F32 lose; NaN: a block that is not full. */
static void published_self_similarity_agrees(const stages *x, const char *name, sg_tensor ours)
{
    const sg_tensor theirs = published_part(x, name);
    assert_int_equal(sg_count(theirs), sg_count(ours));
    for (int64_t i = 0; i < sg_count(ours); i++)
        assert_true(isnan(at(theirs, i)) || fabs(at(theirs, i) - at(ours, i)) < 2e-6);
}

static void published_rounds_what_the_reference_rounds(void **state)
{
    int64_t whole = 0;
    for (int64_t k = 0; k < published_settings(); k++) {
        const stages    x = published_of(k);
        const sg_tensor share = published_part(&x, "share");
        if (share.rank == 0) continue;
        published_self_similarity_agrees(&x, "q_similar", x.q_similarity);
        published_self_similarity_agrees(&x, "k_similar", x.k_similarity);
        for (int64_t i = 0; i < sg_count(share); i++)
            assert_true(row_fixed(&x, i / x.nk) || at(share, i) == at(x.score, i));
        whole++;
    }
    assert_int_equal(whole, 2);
}

/* Selection in F32 from the same BF16 tokens: another one, by little. */
static void f32_keeps_nearly_what_the_reference_keeps(void **state)
{
    int64_t off = 0, all = 0;
    for (int64_t k = 0; k < published_settings(); k++) {
        stages x = published_inputs(k);
        predict_and_select(&x);
        off += blocks_off(&x);
        all += sg_count(x.score);
    }
    printf("F32 and BF16 selection differ in %lld of %lld blocks\n", (long long)off, (long long)all);
    assert_true(off > 0 && off * 200 < all);
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

static void quantised_numbers_agree(void **state)
{
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
    for (int64_t k = 0; k < settings(); k++) {
        stages x = stages_of(k);
        if (!x.attends) continue;
        const packed    q = quantised(&x, x.q, (sg_tensor){0}, SG_BLOCK_Q);
        const packed    keys = quantised(&x, x.k, x.center, SG_BLOCK_K);
        const sg_tensor y = sg_new(&x.s, SG_F32, x.n, H, D), want = stored_of(k, "y");
        sg_attend_blocks(&x.s, .y = y, .q = q.y, .q_scale = q.scale, .k = keys.y, .k_scale = keys.scale, .v = x.v,
                         .list = x.lists.list, .count = x.lists.count, .q_group = SG_BLOCK_Q, .k_group = SG_BLOCK_K,
                         .scale = 0.125f, .causal = x.causal);
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
    sg_error e = {0};
    if (sg_source_open_stem(&fixture, SG_FIXTURES "/sparge", "stages", &e)) fprintf(stderr, "%s\n", e.text);
    return fixture ? 0 : -1;
}

static int close_fixture(void **state)
{
    sg_source_close(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(self_similarity_agrees),
                                       cmocka_unit_test(shares_are_the_same),
                                       cmocka_unit_test(masks_are_the_same),
                                       cmocka_unit_test(published_keeps_what_the_reference_keeps),
                                       cmocka_unit_test(published_rounds_what_the_reference_rounds),
                                       cmocka_unit_test(f32_keeps_nearly_what_the_reference_keeps),
                                       cmocka_unit_test(quantised_numbers_agree),
                                       cmocka_unit_test(outputs_are_close)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
