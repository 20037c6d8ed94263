/* test_tune.c - thresholds where they are known, and the errors that tune tells against those of whole attentions. */
#include "../held.h"
#include "backend.h"
#include "meta.h"
#include "run_fixture.h"
#include "tune.h"

enum { D = 64, NK_MAX = 18, N_MAX = NK_MAX * SG_BLOCK_K, HEADS = 2 };

static sg_backend *oracle, *cpu;

static int open_backends(void **state)
{
    sg_error e = {0};
    return sg_backend_open(&oracle, &(sg_backend_options){.name = "ref"}, &e) != SG_OK ||
           sg_backend_open(&cpu, &(sg_backend_options){.name = "cpu", .cpu_mask = held_mask()}, &e) != SG_OK;
}

static int close_backends(void **state)
{
    sg_backend_close(&oracle);
    sg_backend_close(&cpu);
    return 0;
}

static float drawn(void) { return (float)rand() / (float)RAND_MAX * 2 - 1; }

static float in[3][N_MAX * HEADS * D];

static void draw(float size)
{
    srand(3);
    for (int i = 0; i < 3 * N_MAX * HEADS * D; i++)
        in[i / (N_MAX * HEADS * D)][i % (N_MAX * HEADS * D)] = drawn() * size;
}

/* The first n tokens of each. */
static sg_attend_args operands(int64_t n)
{
    return (sg_attend_args){.q = {in[0], SG_F32, 3, {n, HEADS, D}},
                            .k = {in[1], SG_F32, 3, {n, HEADS, D}},
                            .v = {in[2], SG_F32, 3, {n, HEADS, D}},
                            .scale = 1};
}

/* Calls the hook of tune with as much scratch memory as it takes on a plan. */
static void attend(sg_tune *t, sg_stream *s, const sg_attention_shape *given, int layer, int step, int pass,
                   double timestep, const sg_attend_args *a)
{
    sg_plan_totals     totals = {0};
    sg_stream          plan = sg_plan_stream(&totals);
    sg_attention_shape shape = *given;
    shape.values = s->backend->values;
    sg_tune_hook(t, &plan, &shape, layer, step, pass, timestep, a);
    const size_t bytes = (plan.scratch.peak + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
    void *const  block = bytes ? aligned_alloc(SG_ALIGN, bytes) : NULL;
    s->scratch = (sg_arena){.base = (uintptr_t)block, .cap = plan.scratch.peak};
    if (plan.status) sg_fail(s, plan.status, "%s", plan.why);
    if (!s->status) sg_tune_hook(t, s, &shape, layer, step, pass, timestep, a);
    free(block);
}

static double floor_asked; /* of the amounts that tune finds */

/* What is found for two heads of two layers in four steps, in bucket 1 of 2, by the kernels of the processor. */
static const sg_thresholds *tune(sg_tune **t, const sg_policy *p, const sg_tune_figure **figures)
{
    const sg_attention_shape shape = {
        .n = N_MAX, .h = HEADS, .hk = HEADS, .d = D, .layers = 2, .steps = 4, .passes = 1};
    const sg_thresholds  *found = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(cpu);
    const sg_attend_args  a = operands(N_MAX);
    const sg_tune_options o = {.policy = *p, .l1 = 0.05, .l2 = 0.06, .least = floor_asked, .buckets = 2};
    assert_int_equal(sg_tune_open(t, &o, &e), SG_OK);
    for (int step = 0; step < 4; step++)
        for (int layer = 0; layer < 2; layer++) attend(*t, &s, &shape, layer, step, 0, 900 - 200 * step, &a);
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(*t, &found, figures, &e), SG_OK);
    assert_true(found->from[0] == 600 && found->from[1] == 0);
    return found;
}

/* With values as they are: what is known below holds for them. */
static const sg_policy by_share = {.rule = SG_SELECT_TOPK, .similarity = -1, .pv_dtype = SG_PV_BF16},
                       with_tail = {.rule = SG_SELECT_TOPK, .similarity = -1, .tail = true, .pv_dtype = SG_PV_BF16};

/* Every place of both arrays has this. */
static void expect(const sg_policy *p, float least, float most, double error)
{
    sg_tune              *t = NULL;
    const sg_tune_figure *f = NULL;
    const sg_thresholds  *found = tune(&t, p, &f);
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        assert_true(f[i].density >= least && f[i].density <= most);
        assert_true(found->amount[i] > 0 && found->amount[i] <= 1 && found->theta[i] == p->similarity);
        assert_true(f[i].l1 <= error && f[i].l1_checked <= error && f[i].l1_worst <= error);
    }
    sg_tune_close(&t);
    assert_null(t);
}

/* Blocks that resemble nothing are kept whatever a head's share is, and the thresholds say so. */
static void judged_blocks_are_kept(void **state)
{
    sg_policy p = by_share;
    p.similarity = 0.999F; /* no block has more */
    draw(1);
    expect(&p, 1, 1, 1e-6);
}

static void block_diagonal_needs_one_block(void **state)
{
    draw(0.01f);
    for (int t = 0; t < N_MAX; t++)
        for (int h = 0; h < HEADS; h++) {
            in[0][(t * HEADS + h) * D + t / SG_BLOCK_Q * 2] += 6;
            in[1][(t * HEADS + h) * D + t / SG_BLOCK_K] += 6;
        }
    expect(&by_share, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&with_tail, 1.0f / NK_MAX, 1.0f / NK_MAX, 1e-4);
    expect(&(sg_policy){.rule = SG_SELECT_MASS, .similarity = -1, .score = SG_SCORE_SUB16}, 1.0f / NK_MAX,
           1.0f / NK_MAX, 1e-4);
    expect(&(sg_policy){.similarity = -1, .sink = 1}, 1.0f / NK_MAX, 2.0f / NK_MAX, 1e-4);
}

/* The queries of a video need their own block of keys and all of the text, whose own queries need everything. The text
 * behind is of another length in each pass. Blocks of text are kept in any case, and no rows of theirs are looked at: so a
 * share of one block will do, and what is kept is that one and theirs. */
static void text_is_neither_skipped_nor_looked_at(void **state)
{
    enum { PREFIX = 70, TOKENS = 1012, TIMES = 4 * 2 * 2 };
    const int64_t         behind[2] = {70, 1};
    const float           share[2] = {(4 + 1) / 18.0f, (3 + 1) / 17.0f};
    const sg_tune_options o = {.policy = with_tail, .l1 = 0.05, .l2 = 0.05, .buckets = 1};
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(cpu);
    draw(0.01f);
    for (int i = 0; i < N_MAX * HEADS; i++) {
        const int  token = i / HEADS;
        const bool text = token < PREFIX || token >= PREFIX + TOKENS;
        if (text) memset(in[0] + i * D, 0, D * sizeof **in);
        in[0][i * D + token / SG_BLOCK_Q * 2] += text ? 0 : 6;
        in[0][i * D + D - 1] += text ? 0 : 6;
        in[1][i * D + (text ? D - 1 : token / SG_BLOCK_K)] += 6;
        for (int k = 0; text && k < D; k++) in[2][i * D + k] += 3;
    }
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    for (int i = 0; i < TIMES; i++) {
        const int64_t            n = PREFIX + TOKENS + behind[i % 2];
        const sg_attention_shape shape = {.n = n,
                                          .h = HEADS,
                                          .hk = HEADS,
                                          .d = D,
                                          .layers = 2,
                                          .steps = 4,
                                          .passes = 2,
                                          .text_prefix = PREFIX,
                                          .text_suffix = behind[i % 2]};
        const sg_attend_args     a = operands(n);
        attend(t, &s, &shape, i / 2 % 2, i / 4, i % 2, 900 - 200 * (i / 4), &a);
    }
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_OK);
    for (int i = 0; i < 2 * HEADS; i++) {
        assert_true(found->amount[i] < 2.0f / 18 && f[i].l1_worst < 1e-3f);
        assert_true(f[i].density > share[1] && f[i].density < share[0]);
    }
    sg_tune_close(&t);
}

static void uniform_attention_needs_all_or_a_tail(void **state)
{
    draw(1);
    for (int i = 0; i < N_MAX * HEADS * D; i++) in[0][i] = 0;
    expect(&by_share, 1, 1, 0);
    expect(&with_tail, 1.0f / NK_MAX, 1.0f / NK_MAX, 0x1p-8); /* values are BF16 in a block, and F32 in its mean */
}

/* Errors in between. */
static void draw_blocks(void)
{
    draw(1);
    for (int at = 0; at < N_MAX * HEADS * D; at++) {
        const float block = sinf((float)(at / (HEADS * D) / SG_BLOCK_K * 13 + at % (HEADS * D) * 5));
        in[0][at] = 0.25f * in[0][at] + 0.5f * block;
        in[1][at] = 0.25f * in[1][at] + 0.5f * block;
        in[2][at] += block;
    }
}

/* The bound holds where it was found, and the tail never needs more. */
static void bounds_hold(void **state)
{
    sg_tune              *t[2] = {0};
    const sg_tune_figure *f[2];
    draw_blocks();
    (void)tune(&t[0], &by_share, &f[0]);
    (void)tune(&t[1], &(sg_policy){.tail = true, .tail_bias = SG_TAIL_BIAS_HALF, .score = SG_SCORE_ERROR}, &f[1]);
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        for (int p = 0; p < 2; p++) assert_true(f[p][i].l1 <= 0.05f && f[p][i].l2 <= 0.06f);
        assert_true(f[0][i].density < 1 && f[1][i].density <= f[0][i].density);
    }
    sg_tune_close(&t[0]);
    sg_tune_close(&t[1]);
}

/* What would do with less gets the least, in the grid's next step; what needs more gets what it needs. */
static void no_head_gets_less_than_the_least(void **state)
{
    sg_tune              *t[2] = {0};
    const sg_tune_figure *f;
    draw_blocks();
    const sg_thresholds *const free = tune(&t[0], &with_tail, &f);
    floor_asked = 0.29;
    const sg_thresholds *const bound = tune(&t[1], &with_tail, &f);
    floor_asked = 0;
    int raised = 0;
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        assert_float_equal(bound->amount[i], free->amount[i] < 0.3f ? 0.3f : free->amount[i], 0);
        raised += bound->amount[i] > free->amount[i];
    }
    assert_true(raised > 0);
    sg_tune_close(&t[0]);
    sg_tune_close(&t[1]);
}

/* ---- what is found of an amount ---- */

enum { BEFORE = 70, VIDEO = 985, BEHIND = 60, CALLS = 2 };

/* Of one head, over both calls: as tune.h says. */
typedef struct measured {
    double size[2], error[2], worst, kept, blocks; /* of queries chosen by; of those held out */
} measured;

static double distance(const bench *a, const bench *b, int64_t head, int64_t block)
{
    double sum = 0;
    for (int64_t r = block * SG_BLOCK_Q; r < (block + 1) * SG_BLOCK_Q; r++)
        for (int64_t c = 0; c < a->shape.d; c++) {
            const int64_t at = (r * HEADS + head) * a->shape.d + c;
            sum += fabs((double)a->y[at] - (b ? (double)b->y[at] : 0));
        }
    return sum;
}

/* One in `every` of the video's whole blocks; one in four of these is held out. Adds a call to *t. */
static void add_call(measured *t, const bench *some, const bench *all, int64_t head, int step, int every)
{
    const int64_t first = (BEFORE + SG_BLOCK_Q - 1) / SG_BLOCK_Q, end = (BEFORE + VIDEO) / SG_BLOCK_Q;
    double        error = 0, size = 0;
    int64_t       i = 0;
    for (int64_t at = first + 3 * step % every; at < end; at += every, i++) {
        const int    held = (i + step + head) % SG_TUNE_CHECKED == SG_TUNE_CHECKED - 1;
        const double far = distance(some, all, head, at), large = distance(all, NULL, head, at);
        t->error[held] += far;
        t->size[held] += large;
        t->kept += (double)((const int32_t *)some->lists.count.data)[head * some->nq + at] / (double)some->nk;
        t->blocks++;
        error += far;
        size += large;
    }
    t->worst = fmax(t->worst, error / size);
}

/* Attention of all queries by p, on the oracle. */
static bench whole(sg_policy p, float amount, float pv_threshold)
{
    p.kind = SG_ATTENTION_SPARGE;
    p.similarity = -1;
    p.amount = amount;
    p.pv = pv_threshold;
    bench b = make(BEFORE + VIDEO + BEHIND, HEADS, HEADS, 16, p);
    b.shape.text_prefix = BEFORE;
    b.shape.text_suffix = BEHIND;
    bind(&b);
    run_at(&b, 0, 0, 0, 500);
    return b;
}

static void same(double found, double want)
{
    if (!(fabs(found - want) <= 1e-5 * want)) fail_msg("%.9g is not %.9g", found, want);
}

/* With a filter: the one that skips most is chosen, and the second call has tried it. */
static void compare(const sg_policy *p, float amount, int every, bool filter)
{
    bench all = whole(*p, 1, 0), some = whole(*p, amount, 0), skipping = filter ? whole(*p, amount, 2) : (bench){0};
    const sg_tune_options o = {
        .policy = *p, .l1 = 8, .l2 = filter ? 9 : 8, .least = (double)amount, .buckets = 1, .every = every};
    const sg_attend_args  a = arguments(&all);
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(oracle);
    sg_attention_count    count[HEADS];
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    for (int step = 0; step < CALLS; step++) attend(t, &s, &all.shape, 0, step, 0, 500, &a);
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_OK);
    if (filter) sg_attention_head_counts(skipping.a, &skipping.s, 0, count);
    for (int head = 0; head < HEADS; head++) {
        measured both = {0}, second = {0}, with = {0};
        for (int step = 0; step < CALLS; step++) add_call(&both, &some, &all, head, step, every);
        same((double)found->amount[head], (double)amount);
        same((double)f[head].density, both.kept / both.blocks);
        same((double)f[head].l1, both.error[0] / both.size[0]);
        same((double)f[head].l1_checked, both.error[1] / both.size[1]);
        same((double)f[head].l1_worst, both.worst);
        assert_true(both.error[0] > 0.001 * both.size[0] && both.kept < 0.9 * both.blocks && both.size[1] > 0);
        if (!filter) continue;
        add_call(&second, &some, &all, head, 1, every);
        add_call(&with, &skipping, &all, head, 1, every);
        same((double)f[head].l2, both.error[0] / both.size[0] + (with.error[0] - second.error[0]) / with.size[0]);
        same((double)f[head].l2_checked,
             both.error[1] / both.size[1] + (with.error[1] - second.error[1]) / with.size[1]);
        same((double)found->pv_threshold[head], 2);
        assert_true(count[head].skipped > 0 && count[0].skipped != count[1].skipped);
        same((double)f[head].skipped, (double)count[head].skipped / (double)count[head].groups);
    }
    sg_tune_close(&t);
    finish(&all);
    finish(&some);
    if (filter) finish(&skipping);
}

static void figures_are_those_of_whole_attention(void **state)
{
    compare(&(sg_policy){.tail = true, .tail_bias = SG_TAIL_BIAS_HALF, .score = SG_SCORE_ERROR}, 0.6f, 2, false);
    compare(&(sg_policy){.rule = SG_SELECT_MASS, .sink = 1}, 0.78f, 2, false);
    compare(&by_share, 0.6f, 1, true);
}

/* ---- causal attention ---- */

enum { LATE = 1088, TOKENS_IN_ALL = LATE + 320 };

/* A block of queries of the last tokens of `of`, as the last of the keys that it sees: attention by p, on the oracle. */
static bench block_of(const bench *of, int64_t block, sg_policy p, float amount, float pv_threshold)
{
    const int64_t m = TOKENS_IN_ALL - LATE + (block + 1) * SG_BLOCK_Q, d = of->shape.d;
    p.kind = SG_ATTENTION_SPARGE;
    p.similarity = -1;
    p.amount = amount;
    p.pv = pv_threshold;
    bench b = make_causal(SG_BLOCK_Q, m, HEADS, 1, d, p);
    b.shape.whole = TOKENS_IN_ALL; /* however few are before it */
    memcpy(b.q, of->q + block * SG_BLOCK_Q * HEADS * d, (size_t)(SG_BLOCK_Q * HEADS * d) * sizeof *b.q);
    memcpy(b.k, of->k, (size_t)(m * d) * sizeof *b.k);
    memcpy(b.v, of->v, (size_t)(m * d) * sizeof *b.v);
    bind(&b);
    run_at(&b, 0, 0, 0, 500);
    return b;
}

/* What a sample of blocks gives for each head; those behind the first have had a filter tried on them. */
typedef struct sampled {
    measured all, call, second, with; /* of the call at work; with a filter: its blocks without it and with it */
    double   skipped, groups;
} sampled;

static void add_distances(measured *t, bool held, const bench *some, const bench *all, int64_t head)
{
    t->error[held] += distance(some, all, head, 0);
    t->size[held] += distance(all, NULL, head, 0);
}

/* Adds block `block`, which is number i of its call. Its density is that of the whole call. */
static void add_block(sampled *out, const bench *of, int64_t block, int i, int step, const sg_policy *p)
{
    bench all = block_of(of, block, *p, 1, 0), some = block_of(of, block, *p, of->policy.amount, 0),
          skipping = block_of(of, block, *p, of->policy.amount, 2);
    sg_attention_count count[HEADS];
    sg_attention_head_counts(skipping.a, &skipping.s, 0, count);
    for (int head = 0; head < HEADS; head++) {
        sampled *const s = &out[head];
        const bool     held = (i + step + head) % SG_TUNE_CHECKED == SG_TUNE_CHECKED - 1;
        add_distances(&s->all, held, &some, &all, head);
        add_distances(&s->call, false, &some, &all, head);
        s->all.kept += ((const int32_t *)of->lists.count.data)[head * of->nq + block];
        s->all.blocks += (double)sg_visible_blocks(true, block, LATE, TOKENS_IN_ALL);
        if (step == 0 && i == 0) continue;
        add_distances(&s->second, held, &some, &all, head);
        add_distances(&s->with, held, &skipping, &all, head);
        s->skipped += (double)count[head].skipped;
        s->groups += (double)count[head].groups;
    }
    finish(&all);
    finish(&some);
    finish(&skipping);
}

static void compare_causal(const sg_policy *p, float amount)
{
    enum { EVERY = 2 };
    const sg_tune_options o = {.policy = *p, .l1 = 8, .l2 = 9, .least = (double)amount, .buckets = 1, .every = EVERY};
    bench                 of = make_causal(LATE, TOKENS_IN_ALL, HEADS, 1, 16, *p);
    of.policy.kind = SG_ATTENTION_SPARGE;
    of.policy.similarity = -1;
    of.policy.amount = amount;
    bind(&of);
    run_at(&of, 0, 0, 0, 500);
    sampled               want[HEADS] = {0};
    const sg_attend_args  a = arguments(&of);
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(oracle);
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    for (int step = 0; step < CALLS; step++) {
        attend(t, &s, &of.shape, 0, step, 0, 500, &a);
        for (int64_t block = 3 * step % EVERY, i = 0; block < LATE / SG_BLOCK_Q; block += EVERY, i++)
            add_block(want, &of, block, (int)i, step, p);
        for (int head = 0; head < HEADS; head++) {
            sampled *const w = &want[head];
            w->all.worst = fmax(w->all.worst, w->call.error[0] / w->call.size[0]);
            w->call = (measured){0};
        }
    }
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_OK);
    for (int head = 0; head < HEADS; head++) {
        const sampled *const w = &want[head];
        const double         l1 = w->all.error[0] / w->all.size[0], checked = w->all.error[1] / w->all.size[1];
        same((double)found->amount[head], (double)amount);
        same((double)f[head].density, w->all.kept / w->all.blocks);
        same((double)f[head].l1, l1);
        same((double)f[head].l1_checked, checked);
        same((double)f[head].l1_worst, w->all.worst);
        same((double)f[head].l2, l1 + (w->with.error[0] - w->second.error[0]) / w->with.size[0]);
        same((double)f[head].l2_checked, checked + (w->with.error[1] - w->second.error[1]) / w->with.size[1]);
        same((double)found->pv_threshold[head], 2);
        same((double)f[head].skipped, w->skipped / w->groups);
        assert_true(l1 > 0.001 && w->all.kept < 0.9 * w->all.blocks && w->skipped > 0);
    }
    sg_tune_close(&t);
    finish(&of);
}

/* The last tokens of a sequence, with keys that heads share: each block of queries stands at its place. */
static void causal_blocks_see_what_is_before_them(void **state)
{
    compare_causal(&(sg_policy){.tail = true, .score = SG_SCORE_ERROR}, 0.3f);
    compare_causal(&(sg_policy){.rule = SG_SELECT_MASS, .sink = 1}, 0.5f);
}

/* A piece of a long sequence is long enough, and so short that it has no whole block is not. Text beside has no place. */
static void causal_pieces_are_looked_at(void **state)
{
    const sg_tune_options o = {.policy = by_share, .l1 = 0.05, .l2 = 0.05, .buckets = 1};
    const int64_t         sizes[][3] = {{256, N_MAX, 0}, {127, N_MAX, 0}, {256, 1000, 0}, {N_MAX, N_MAX, 64}};
    draw(1);
    for (int i = 0; i < 4; i++) {
        const int64_t            n = sizes[i][0], m = sizes[i][1];
        const sg_attention_shape shape = {.n = n,
                                          .m = m,
                                          .whole = m,
                                          .text_suffix = sizes[i][2],
                                          .h = HEADS,
                                          .hk = HEADS,
                                          .d = D,
                                          .layers = 1,
                                          .steps = 1,
                                          .passes = 1,
                                          .causal = true};
        const sg_thresholds     *found = NULL;
        const sg_tune_figure    *f = NULL;
        sg_tune                 *t = NULL;
        sg_error                 e = {0};
        sg_stream                s = sg_stream_of(cpu);
        sg_attend_args           a = operands(m);
        a.q.dim[0] = n;
        assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
        attend(t, &s, &shape, 0, 0, 0, 0, &a);
        assert_int_equal(s.status, i == 3 ? SG_E_UNSUPPORTED : SG_OK);
        assert_int_equal(sg_tune_choose(t, &found, &f, &e), i == 0 ? SG_OK : SG_E_ARG);
        sg_tune_close(&t);
    }
}

/* A model with two denoisers: each runs in its own steps. */
static void a_layer_that_does_not_run_has_no_figures(void **state)
{
    const sg_attention_shape shape = {
        .n = N_MAX, .h = HEADS, .hk = HEADS, .d = D, .layers = 2, .steps = 2, .passes = 1};
    const sg_tune_options o = {.policy = by_share, .l1 = 0.05, .l2 = 0.05, .buckets = 2};
    const sg_thresholds  *found = NULL;
    const sg_tune_figure *f = NULL;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    sg_stream             s = sg_stream_of(cpu);
    const sg_attend_args  a = operands(N_MAX);
    draw(1);
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    for (int step = 0; step < 2; step++) attend(t, &s, &shape, step, step, 0, 900 - 200 * step, &a);
    assert_string_equal(s.why, "");
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_OK);
    for (int i = 0; i < 2 * 2 * HEADS; i++) {
        const bool ran = i / HEADS % 2 == i / HEADS / 2;
        assert_true(isnan(f[i].density) == !ran);
        assert_true(ran || found->amount[i] == 1);
    }
    sg_tune_close(&t);
}

static void dense_attention_alone_is_refused(void **state)
{
    const sg_attention_shape shape = {
        .n = N_MAX, .h = HEADS, .hk = HEADS, .d = D, .layers = 1, .steps = 1, .passes = 1};
    const sg_tune_options o = {.policy = by_share, .l1 = 0.05, .l2 = 0.05, .buckets = 1};
    sg_backend            dense = *oracle;
    sg_tune              *t = NULL;
    sg_error              e = {0};
    dense.values = SG_F32;
    sg_stream            s = sg_stream_of(&dense);
    const sg_attend_args a = operands(N_MAX);
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    attend(t, &s, &shape, 0, 0, 0, 500, &a);
    assert_int_equal(s.status, SG_E_UNSUPPORTED);
    assert_non_null(strstr(s.why, "attention sparge"));
    sg_tune_close(&t);
}

/* Of all queries, F32 alone, q and y three times, are 2.25 MiB: a plan counts that, and nothing runs without it. */
static void memory_is_the_plans(void **state)
{
    const sg_attention_shape shape = {
        .n = N_MAX, .h = HEADS, .hk = HEADS, .d = D, .layers = 1, .steps = 1, .passes = 1, .values = oracle->values};
    const sg_tune_options o = {.policy = by_share, .l1 = 0.05, .l2 = 0.05, .buckets = 1, .every = 1};
    sg_plan_totals        totals = {0};
    sg_stream             plan = sg_plan_stream(&totals), s = sg_stream_of(oracle);
    sg_tune              *t = NULL;
    sg_error              e = {0};
    const sg_thresholds  *found;
    const sg_tune_figure *f;
    const sg_attend_args  a = operands(N_MAX);
    assert_int_equal(sg_tune_open(&t, &o, &e), SG_OK);
    sg_tune_hook(t, &plan, &shape, 0, 0, 0, 500, &a);
    assert_int_equal(plan.status, SG_OK);
    assert_true(plan.scratch.peak > 9 << 18 && plan.scratch.peak < 20 << 18);
    assert_int_equal(plan.scratch.used, 0);
    sg_tune_hook(t, &s, &shape, 0, 0, 0, 500, &a);
    assert_int_equal(s.status, SG_E_MEMORY);
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_E_ARG); /* nothing was seen */
    sg_tune_close(&t);
}

static void what_cannot_be_is_refused(void **state)
{
    sg_tune              *t = NULL;
    const sg_thresholds  *found;
    const sg_tune_figure *f;
    sg_error              e = {0};
    const sg_policy       given = {.rule = SG_SELECT_GIVEN};
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.policy = given, .l1 = 1, .l2 = 1, .buckets = 1}, &e),
                     SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.1, .l2 = 0.05, .buckets = 1}, &e), SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = NAN, .l2 = 0.05, .buckets = 1}, &e), SG_E_ARG);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.05, .l2 = 0.05, .least = 1.5, .buckets = 1}, &e),
                     SG_E_ARG);
    assert_null(t);
    assert_int_equal(sg_tune_open(&t, &(sg_tune_options){.l1 = 0.05, .l2 = 0.05, .buckets = 1}, &e), SG_OK);
    assert_int_equal(sg_tune_choose(t, &found, &f, &e), SG_E_ARG);
    sg_tune_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judged_blocks_are_kept),
        cmocka_unit_test(block_diagonal_needs_one_block),
        cmocka_unit_test(text_is_neither_skipped_nor_looked_at),
        cmocka_unit_test(uniform_attention_needs_all_or_a_tail),
        cmocka_unit_test(bounds_hold),
        cmocka_unit_test(no_head_gets_less_than_the_least),
        cmocka_unit_test(figures_are_those_of_whole_attention),
        cmocka_unit_test(causal_blocks_see_what_is_before_them),
        cmocka_unit_test(causal_pieces_are_looked_at),
        cmocka_unit_test(a_layer_that_does_not_run_has_no_figures),
        cmocka_unit_test(dense_attention_alone_is_refused),
        cmocka_unit_test(memory_is_the_plans),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
