/* test_run.c - a policy at work: against the same by arithmetic in double from the blocks that it kept; with text
 * beside the video's tokens those with text are kept, rows and columns, whatever chooses blocks. */
#include "run_fixture.h"

/* Attends, compares with double, and checks the counters against the mask. */
static double check(bench *b, const char *what, double limit)
{
    bind(b);
    run_at(b, 1, 2, 1, 500);
    const double             error = error_of(b);
    const sg_attention_count c = count_of(b, 1, 2, 1), none = count_of(b, 0, 2, 1);
    if (!(error < limit)) fail_msg("%s, %lld tokens: error %.2e", what, (long long)b->shape.n, error);
    assert_int_equal(c.kind, b->policy.kind);
    assert_int_equal(c.why, SG_WHY_POLICY);
    assert_int_equal(none.blocks, 0);
    if (c.kind == SG_ATTENTION_SPARGE) assert_int_equal(c.kept, popcount(b));
    const double density = (double)c.kept / (double)c.blocks;
    assert_true(c.mass >= 0 && c.mass <= 1.000001);
    finish(b);
    return density;
}

static void quantised_is_near_exact(void **state)
{
    for (int64_t n = 1024; n <= 1216; n += 96)
        for (int way = 0; way < 4; way++) { /* values as BF16, INT8, FP8, and INT8 by name */
            bench b = make(n, 2, 2, 16, (sg_policy){.kind = SG_ATTENTION_SAGE});
            if (way == 1) b.shape.values = SG_I8;
            b.shape.f8 = SG_F8_SLOW;
            if (way > 1) b.policy.pv_dtype = way == 2 ? SG_PV_FP8 : SG_PV_INT8;
            assert_true(check(&b, "sage", way ? 0.02 : 0.015) == 1);
        }
}

static void policies_are_followed(void **state)
{
    static const struct {
        const char *what;
        sg_policy   p;           /* put over `plain` */
        double      least, most; /* density */
    } want[] = {
        {"mean", {.amount = 0.3f}, 0.25, 0.4},
        {"sub16", {.amount = 0.3f, .score = SG_SCORE_SUB16}, 0.25, 0.4},
        {"error", {.amount = 0.3f, .score = SG_SCORE_ERROR}, 0.25, 0.4},
        {"heads", {.amount = 0.3f, .score = SG_SCORE_ERROR, .budget = true}, 0.25, 0.45},
        {"tail", {.amount = 0.3f, .score = SG_SCORE_ERROR, .tail = true}, 0.25, 0.4},
        {"half", {.amount = 0.3f, .tail = true, .tail_bias = SG_TAIL_BIAS_HALF}, 0.25, 0.4},
        {"rank1", {.amount = 0.1f, .tail = true, .tail_bias = SG_TAIL_BIAS_RANK1}, 0.05, 0.25},
        {"mass", {.amount = 0.5f, .rule = SG_SELECT_MASS}, 0.03, 0.6},
        {"judged", {.amount = 0.1f, .similarity = 0.5f}, 0.1, 1},
        {"sink", {.amount = 0.1f, .sink = 3}, 0.15, 0.4},
        {"causal", {.amount = 0.3f, .tail = true}, 0.2, 0.9},
    };
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++)
        for (int k = 0; k < 3; k++) {
            const int64_t n = 1088 + 96 * k;
            const int     way = (i + k) % 3; /* grouped heads and FP8 values, INT8 values, neither */
            bench         b = make(n, way == 2 ? 4 : 2, 2, 8, want[i].p);
            b.shape.f8 = SG_F8_SLOW;
            b.shape.causal = strcmp(want[i].what, "causal") == 0;
            if (way == 2) b.policy.pv_dtype = SG_PV_FP8;
            b.policy.kind = SG_ATTENTION_SPARGE;
            if (b.policy.similarity == 0) b.policy.similarity = -1;
            if (way == 1) b.shape.values = SG_I8;
            const double density = check(&b, want[i].what, 0.03);
            if (density < want[i].least || density > want[i].most)
                fail_msg("%s, %lld tokens: density %.3f", want[i].what, (long long)n, density);
        }
}

/* What a run gives with such values, by name or by what the backend has; the caller frees it. */
static float *output(sg_policy p, int64_t d, bool causal, sg_f8 f8, int pv_dtype)
{
    bench b = make(1100, 2, 2, d, p);
    b.shape.f8 = f8;
    b.shape.causal = causal;
    b.policy.pv_dtype = pv_dtype;
    bind(&b);
    run_at(&b, 1, 2, 1, 500);
    float *const y = b.y;
    b.y = NULL;
    finish(&b);
    return y;
}

/* auto takes FP8 values where they are faster and blocks are skipped, but for a PV filter, heads of other channels and causal
 * attention. */
static void fp8_values_where_they_are_faster(void **state)
{
    sg_policy sage = plain, filtered = plain;
    sage.kind = SG_ATTENTION_SAGE;
    filtered.pv = 8;
    const struct {
        sg_policy p;
        int64_t   d;
        bool      causal;
        sg_f8     f8;
        int       as;
    } want[] = {{plain, 16, false, SG_F8_FAST, SG_PV_FP8},    {plain, 16, false, SG_F8_SLOW, SG_PV_BF16},
                {plain, 8, false, SG_F8_FAST, SG_PV_BF16},    {plain, 16, true, SG_F8_FAST, SG_PV_BF16},
                {filtered, 16, false, SG_F8_FAST, SG_PV_BF16}, {sage, 16, false, SG_F8_FAST, SG_PV_BF16}};
    for (int i = 0; i < 6; i++) {
        const int    other = want[i].as == SG_PV_FP8 ? SG_PV_BF16 : SG_PV_FP8;
        const size_t bytes = (size_t)(1100 * 2 * want[i].d) * sizeof(float);
        float *const y = output(want[i].p, want[i].d, want[i].causal, want[i].f8, SG_PV_AUTO);
        float *const same = output(want[i].p, want[i].d, want[i].causal, want[i].f8, want[i].as);
        float *const unlike = output(want[i].p, want[i].d, want[i].causal, want[i].f8, other);
        assert_memory_equal(y, same, bytes);
        assert_memory_not_equal(y, unlike, bytes);
        free(y);
        free(same);
        free(unlike);
    }
}

/* Where FP8 values are faster, blocks of queries are longer, unless BF16 is named, a filter is asked for, what is
 * skipped is lost, heads have other channels, or the sequence is shorter: lists tell. */
static void blocks_of_192_queries(void **state)
{
    static const sg_policy want[] = {{.amount = 0.3f, .tail = true},
                                     {.amount = 0.3f, .score = SG_SCORE_ERROR, .tail = true, .budget = true},
                                     {.amount = 0.3f, .tail = true, .tail_bias = SG_TAIL_BIAS_RANK1, .similarity = 0.2f},
                                     {.amount = 0.5f, .rule = SG_SELECT_MASS, .score = SG_SCORE_SUB16, .tail = true, .sink = 2},
                                     {.amount = 0.3f, .tail = true, .pv_dtype = SG_PV_FP8}};
    static const sg_policy others[] = {{.amount = 0.3f, .tail = true, .pv_dtype = SG_PV_BF16},
                                       {.amount = 0.3f, .tail = true, .pv = 4},
                                       {.amount = 0.3f},
                                       {.amount = 0.3f, .tail = true},
                                       {.amount = 0.3f, .tail = true}};
    for (int i = 0; i < 5; i++)
        for (int64_t n = 1024; n <= 1216; n += 96) {
            bench b = make(n, 4, 2, 16, want[i]);
            take_f8(&b);
            b.policy.kind = SG_ATTENTION_SPARGE;
            if (b.policy.similarity == 0) b.policy.similarity = -1;
            check(&b, "blocks of FP8", 0.04);
        }
    for (int i = 0; i < 5; i++) {
        bench b = make(1100, 2, 2, i == 3 ? 8 : 16, others[i]);
        b.shape.f8 = SG_F8_FAST;
        b.shape.whole = i == 4 ? SG_LONGER_TOKENS - 1 : SG_LONGER_TOKENS;
        b.policy.kind = SG_ATTENTION_SPARGE;
        b.policy.similarity = -1;
        bind(&b);
        run_at(&b, 1, 2, 1, 500);
        assert_int_equal(b.lists.list.dim[1], b.nq);
        finish(&b);
    }
}

/* The last n of m tokens, whose blocks stand anywhere in those of keys, with heads that share keys: every way to score and to
 * choose, and each type of values. A share of the visible blocks is kept, whether n or m is large. */
static void the_last_queries_of_many_keys_are_followed(void **state)
{
    static const int64_t   sizes[][2] = {{1024, 1536}, {300, 1100}, {128, 1130}, {70, 1600}, {1, 1025}, {1100, 1100}};
    static const sg_policy want[] = {{.amount = 0.3f},
                                     {.amount = 0.3f, .score = SG_SCORE_SUB16, .tail = true},
                                     {.amount = 0.3f, .score = SG_SCORE_ERROR, .tail = true, .sink = 2},
                                     {.amount = 0.5f, .rule = SG_SELECT_MASS},
                                     {.amount = 0.3f, .tail = true, .tail_bias = SG_TAIL_BIAS_HALF}};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 5; k++) {
            bench b = make_causal(sizes[i][0], sizes[i][1], 4, 2, 8, want[k]);
            b.policy.kind = SG_ATTENTION_SPARGE;
            b.policy.similarity = -1;
            b.shape.f8 = SG_F8_SLOW;
            if ((i + k) % 3 == 1) b.shape.values = SG_I8;
            if ((i + k) % 3 == 2) b.policy.pv_dtype = SG_PV_FP8;
            const double density = check(&b, "the last queries", 0.03);
            if (k == 0 && i == 0) assert_true(density > 0.3 && density <= 0.45); /* with the diagonal */
        }
}

/* The last queries of a long sequence are not short. Where text is at both ends, these are all of its tokens. */
static void few_queries_of_many_keys_are_not_short(void **state)
{
    sg_error           e = {0};
    sg_attention      *a = NULL;
    sg_attention_why   why;
    sg_attention_shape x = {.n = 128, .m = 1024, .h = 2, .hk = 1, .d = 16, .layers = 1, .steps = 1, .passes = 1};
    sg_policy          p = plain;
    x.values = SG_BF16;
    p.named = true;
    for (int causal = 0; causal < 2; causal++) {
        x.causal = causal;
        assert_int_equal(sg_attention_open(&a, &p, &x, &e), SG_OK);
        assert_int_equal(sg_attention_kind_of(a, 0, 0, &why), causal ? SG_ATTENTION_SPARGE : SG_ATTENTION_DENSE);
        assert_int_equal(why, causal ? SG_WHY_POLICY : SG_WHY_SHORT);
        sg_attention_close(&a);
    }
    x.text_suffix = 64;
    assert_int_equal(sg_attention_open(&a, &p, &x, &e), SG_E_ARG);
    assert_non_null(strstr(e.text, "64 tokens of text, but 128 queries and 1024 keys"));
    assert_null(a);
}

static void masks_are_followed(void **state)
{
    for (int64_t heads = 1; heads <= 2; heads++) {
        bench          b = make(1100, 2, 2, 16, plain);
        uint8_t *const mask = calloc((size_t)(heads * b.nq * b.nk), 1);
        assert_non_null(mask);
        for (int64_t i = 0; i < heads * b.nq * b.nk; i++) mask[i] = i % 5 == 1 || i % 7 == 3 ? 200 : 0;
        b.policy.rule = SG_SELECT_GIVEN;
        b.shape.mask = (sg_tensor){mask, SG_U8, 3, {heads, b.nq, b.nk}};
        b.policy.pv = 3;
        bind(&b);
        run_at(&b, 2, 4, 0, 0);
        int64_t groups = 0;
        for (int64_t head = 0; head < 2; head++)
            for (int64_t i = 0; i < b.nq; i++)
                for (int64_t j = 0; j < b.nk; j++) {
                    const bool want = mask[((heads > 1 ? head : 0) * b.nq + i) * b.nk + j] != 0;
                    assert_int_equal(kept(&b, head, i, j), want);
                    groups += want * (i < b.nq - 1 ? 4 : (1100 % 128 + 31) / 32);
                }
        const sg_attention_count c = count_of(&b, 2, 4, 0);
        assert_int_equal(c.kept, popcount(&b));
        assert_int_equal(c.blocks, 2 * b.nq * b.nk);
        assert_int_equal(c.groups, groups);
        assert_true(c.skipped >= 0 && c.skipped < groups && c.skipped_mass >= 0 && c.skipped_mass < 0.5);
        finish(&b);
        free(mask);
    }
}

/* A last block of queries that is not full is chosen for like any other, but by the means of whole blocks. */
static void ends_are_ragged(void **state)
{
    for (int score = SG_SCORE_MEAN; score <= SG_SCORE_ERROR; score++) {
        bench b = make(1100, 2, 2, 16, plain);
        b.policy.score = (sg_score_kind)score;
        b.policy.pv = 30;
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        int64_t at_last = 0;
        for (int64_t head = 0; head < 2; head++)
            for (int64_t j = 0; j < b.nk; j++) at_last += kept(&b, head, b.nq - 1, j);
        if (score == SG_SCORE_MEAN)
            assert_int_equal(at_last, 2 * b.nk);
        else
            assert_true(at_last <= 2 * (b.nk * 3 / 10 + 1));
        const sg_attention_count c = count_of(&b, 0, 0, 0);
        assert_int_equal(c.groups, 4 * (popcount(&b) - at_last) + 3 * at_last); /* 76 rows */
        assert_true(error_of(&b) < 0.03);
        finish(&b);
    }
}

/* Nothing is skipped when everything is wanted: the bits of sage. */
static void all_is_sage(void **state)
{
    for (int64_t n = 1024; n <= 1088; n += 64)
        for (int way = 0; way < 8; way++) {
            bench sage = make(n + way % 3, 2, 1, 8, (sg_policy){.kind = SG_ATTENTION_SAGE}),
                  b = make(n + way % 3, 2, 1, 8, plain);
            sage.shape.values = b.shape.values = way & 1 ? SG_I8 : SG_BF16;
            b.policy.amount = 1;
            b.policy.rule = way & 2 ? SG_SELECT_MASS : SG_SELECT_TOPK;
            b.policy.tail = way & 4;
            b.policy.score = way & 4 ? SG_SCORE_ERROR : SG_SCORE_MEAN;
            bind(&sage);
            bind(&b);
            run_at(&sage, 0, 0, 0, 0);
            run_at(&b, 0, 0, 0, 0);
            assert_memory_equal(sage.y, b.y, (size_t)(n * 2 * 8) * sizeof *b.y);
            const sg_attention_count c = count_of(&b, 0, 0, 0);
            assert_int_equal(c.kept, c.blocks);
            finish(&sage);
            finish(&b);
        }
}

static void dense_is_exact(void **state)
{
    const sg_policy dense = {.kind = SG_ATTENTION_DENSE};
    for (int way = 0; way < 4; way++) {
        bench b = make(300, 4, way & 1 ? 2 : 4, 16, dense);
        b.shape.causal = way & 2;
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        assert_true(error_of(&b) < 2e-6);
        const sg_attention_count c = count_of(&b, 0, 0, 0);
        assert_int_equal(c.kept, c.blocks);
        assert_int_equal(c.blocks, 4 * (way & 2 ? 2 + 4 + 5 : 15));
        finish(&b);
    }
    bench b = make_causal(300, 731, 4, 2, 16, dense);
    bind(&b);
    run_at(&b, 0, 0, 0, 0);
    assert_true(error_of(&b) < 2e-6);
    assert_int_equal(count_of(&b, 0, 0, 0).blocks, 4 * (9 + 11 + 12)); /* up to 559, 687 and 731 keys */
    finish(&b);
}

static void order_does_not_matter_to_dense(void **state)
{
    enum { N = 4 * 15 * 20, WIDTH = 2 * 16 };
    bench   a = make(N, 2, 2, 16, (sg_policy){.kind = SG_ATTENTION_DENSE}), b = make(N, 2, 2, 16, a.policy);
    int32_t at[N];
    assert_int_equal(sg_order_make(at, SG_ORDER_HILBERT, 4, 15, 20), SG_OK);
    for (int64_t i = 0; i < N; i++) {
        memcpy(b.q + i * WIDTH, a.q + at[i] * WIDTH, WIDTH * sizeof *b.q);
        memcpy(b.k + i * WIDTH, a.k + at[i] * WIDTH, WIDTH * sizeof *b.k);
        memcpy(b.v + i * WIDTH, a.v + at[i] * WIDTH, WIDTH * sizeof *b.v);
    }
    bind(&a);
    bind(&b);
    run_at(&a, 0, 0, 0, 0);
    run_at(&b, 0, 0, 0, 0);
    for (int64_t i = 0; i < N; i++)
        for (int c = 0; c < WIDTH; c++) assert_float_equal(b.y[i * WIDTH + c], a.y[at[i] * WIDTH + c], 1e-5);
    finish(&a);
    finish(&b);
}

/* Where the ops of a step find what it asks of the device. */
static struct asked {
    int         count;
    const void *at[64];
} asked;

static void note(const void *at)
{
    assert_true(asked.count < 64);
    asked.at[asked.count++] = at;
}

static sg_status note_select(sg_stream *s, const sg_select_args *a)
{
    note(a->amount.data);
    note(a->theta.data);
    return sg_ref_ops.select(s, a);
}

static sg_status note_attend(sg_stream *s, const sg_attend_blocks_args *a)
{
    note(a->pv_threshold.data);
    note(a->list.data);
    return sg_ref_ops.attend_blocks(s, a);
}

static sg_status note_upload(sg_stream *s, void *to, const void *from, size_t bytes)
{
    note(to);
    return host_memory.upload(s, to, from, bytes);
}

/* Thresholds of bucket, layer and head come to the op: amounts differ by all three. Steps of other buckets are still the
 * same step to a device, which can replay it: thresholds have one place, and nothing is uploaded within. */
static void tuned_thresholds_are_taken(void **state)
{
    enum { BUCKETS = 2, HEADS = 2, SIZE = BUCKETS * LAYERS * HEADS };
    float from[BUCKETS] = {600, 0}, amount[SIZE], theta[SIZE], pv_threshold[SIZE];
    for (int i = 0; i < SIZE; i++) {
        amount[i] = 0.0625f * (float)(i + 1);
        theta[i] = -1;
        pv_threshold[i] = i % (LAYERS * HEADS) == 3 ? 2 : 0;
    }
    const sg_thresholds tuned = {.buckets = BUCKETS,
                                 .layers = LAYERS,
                                 .heads = HEADS,
                                 .rule = SG_SELECT_TOPK,
                                 .from = from,
                                 .amount = amount,
                                 .theta = theta,
                                 .pv_threshold = pv_threshold};
    bench               b = make(1024, HEADS, HEADS, 16, plain);
    sg_ops              ops = sg_ref_ops;
    sg_memory           memory = host_memory;
    struct asked        first = {0};
    ops.select = note_select;
    ops.attend_blocks = note_attend;
    memory.upload = note_upload;
    b.policy.rule = SG_SELECT_MASS; /* tuned says otherwise */
    b.shape.tuned = &tuned;
    bind(&b);
    b.s.ops = &ops;
    b.s.memory = &memory;
    for (int step = 0; step < 4; step++) {
        const int bucket = step % 2, timestep = bucket ? 599 : 600;
        if (step < 3) sg_attention_set_timestep(b.a, &b.s, timestep); /* the last one finds them without */
        asked = (struct asked){0};
        for (int layer = 0; layer < LAYERS; layer++) {
            run_at(&b, layer, step, 0, timestep);
            const sg_attention_count c = count_of(&b, layer, step, 0);
            const int                row = (bucket * LAYERS + layer) * HEADS;
            assert_int_equal(c.kept, 8 * (row + 1 + row + 2));
            assert_int_equal(c.groups, layer == 1 ? 8 * (row + 2) * 4 : 0);
            assert_int_equal(c.skipped > 0, layer == 1);
        }
        if (step == 1 || step == 2) assert_memory_equal(&asked, &first, sizeof asked);
        assert_int_equal(asked.count, 4 * LAYERS + (step == 3 ? 1 : 0));
        if (step == 0) first = asked;
    }
    finish(&b);
}

static int seen;

static void look(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                 double timestep, const sg_attend_args *args)
{
    assert_ptr_equal(context, &seen);
    assert_int_equal(shape->n, args->q.dim[0]);
    seen = 1000 * layer + 100 * step + 10 * pass + (int)timestep;
}

static void callers_may_look(void **state)
{
    bench b = make(200, 1, 1, 16, (sg_policy){.kind = SG_ATTENTION_DENSE});
    b.shape.watch = (sg_attention_watch){.on_begin = look, .on_begin_context = &seen};
    bind(&b);
    assert_int_equal(seen, 2900); /* on a plan */
    run_at(&b, 2, 3, 1, 7);
    assert_int_equal(seen, 2317);
    finish(&b);
    for (int kind = SG_ATTENTION_DENSE; kind <= SG_ATTENTION_SAGE; kind++) {
        const bool quantised = kind == SG_ATTENTION_SAGE;
        b = make(1024, 1, 1, 16, (sg_policy){.kind = kind, .dense_layers = "1"});
        b.shape.watch = (sg_attention_watch){.on_end = look, .on_end_context = &seen};
        seen = 0;
        bind(&b);
        assert_int_equal(seen, quantised ? 2900 : 0); /* on a plan */
        run_at(&b, 2, 3, 1, 7);
        run_at(&b, 1, 3, 1, 7);
        assert_int_equal(seen, quantised ? 2317 : 0);
        finish(&b);
    }
}

/* ---- text beside the video ---- */

enum { VIDEO = 1030, HEADS = 2, CHANNELS = 8 };

/* Of one token, up to the end of a block, into a block, over several blocks of keys and of queries, and both; and as
 * much as models of images have: 256 or 512 before, 77 + 256 behind. */
static const struct {
    int64_t prefix, suffix;
} texts[] = {{1, 0},  {64, 0},  {70, 0},  {200, 0}, {0, 1},   {0, 58},
             {0, 70}, {0, 200}, {130, 3}, {256, 0}, {512, 0}, {0, 333}};
enum { TEXTS = sizeof texts / sizeof *texts, TEXT_BEHIND = 6 };

static bool has_text(const bench *b, int64_t block, int64_t size)
{
    for (int64_t t = block * size; t < (block + 1) * size && t < b->shape.n; t++)
        if (t < b->shape.text_prefix || t >= b->shape.n - b->shape.text_suffix) return true;
    return false;
}

/* Pairs of blocks without text that are left out. */
static int64_t left_out(const bench *b)
{
    int64_t count = 0;
    for (int64_t head = 0; head < b->shape.h; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++)
                count += !has_text(b, i, SG_BLOCK_Q) && !has_text(b, j, SG_BLOCK_K) && !kept(b, head, i, j);
    return count;
}

static bench make_text(int text, const sg_policy *p)
{
    bench b = make(VIDEO + texts[text].prefix + texts[text].suffix, HEADS, HEADS, CHANNELS, *p);
    b.shape.text_prefix = texts[text].prefix;
    b.shape.text_suffix = texts[text].suffix;
    b.policy.kind = SG_ATTENTION_SPARGE;
    if (b.policy.similarity == 0) b.policy.similarity = -1;
    return b;
}

/* Runs, and asserts that text is dense and not all else is; with a mask, that all else is as it says. */
static void expect_text_dense(bench *b, const char *what)
{
    const uint8_t *const mask = b->shape.mask.data;
    bind(b);
    run_at(b, 2, 4, 1, 0);
    for (int64_t head = 0; head < HEADS; head++)
        for (int64_t i = 0; i < b->nq; i++)
            for (int64_t j = 0; j < b->nk; j++) {
                const bool text = has_text(b, i, SG_BLOCK_Q) || has_text(b, j, SG_BLOCK_K);
                if (text && !kept(b, head, i, j))
                    fail_msg("%s, %lld and %lld tokens of text: head %lld leaves out %lld, %lld", what,
                             (long long)b->shape.text_prefix, (long long)b->shape.text_suffix, (long long)head,
                             (long long)i, (long long)j);
                if (!text && mask) assert_int_equal(kept(b, head, i, j), mask[i * b->shape.mask.dim[2] + j] != 0);
            }
    assert_true(left_out(b) > b->nq * b->nk / 4);
    assert_int_equal(count_of(b, 2, 4, 1).kept, popcount(b));
    const double error = error_of(b);
    if (!(error < 0.03)) fail_msg("%s, %lld tokens: error %.2e", what, (long long)b->shape.n, error);
    finish(b);
}

static void text_is_dense_whatever_chooses(void **state)
{
    static float               from[2] = {500, 0}, amount[2 * LAYERS * HEADS], theta[2 * LAYERS * HEADS];
    static float               pv_threshold[2 * LAYERS * HEADS];
    static const sg_thresholds tuned = {.buckets = 2,
                                        .layers = LAYERS,
                                        .heads = HEADS,
                                        .rule = SG_SELECT_TOPK,
                                        .from = from,
                                        .amount = amount,
                                        .theta = theta,
                                        .pv_threshold = pv_threshold};
    for (int i = 0; i < 2 * LAYERS * HEADS; i++) {
        amount[i] = i < LAYERS * HEADS ? 1 : 0.1f + 0.02f * (float)i;
        theta[i] = -1;
        pv_threshold[i] = 20;
    }
    static const struct {
        const char *what;
        sg_policy   p;
    } way[] = {
        {"top-k", {.amount = 0.2f}},
        {"top-k by parts", {.amount = 0.2f, .score = SG_SCORE_SUB16}},
        {"tau", {.amount = 0.4f, .rule = SG_SELECT_MASS}},
        {"budget of all heads", {.amount = 0.2f, .score = SG_SCORE_ERROR, .budget = true}},
        {"self-similarity", {.amount = 0.1f, .similarity = 0.1f}},
        {"PV filter", {.amount = 0.2f, .pv = 20}},
        {"tail", {.amount = 0.1f, .score = SG_SCORE_ERROR, .tail = true, .tail_bias = SG_TAIL_BIAS_HALF}},
        {"thresholds of heads", {.amount = 0}},
        {"sink", {.amount = 0.1f, .sink = 2}},
    };
    for (int i = 0; i < (int)(sizeof way / sizeof *way); i++)
        for (int k = i % 3; k < TEXTS; k += 3) {
            bench b = make_text((k + i / 3) % TEXTS, &way[i].p);
            if (way[i].p.rule == SG_SELECT_TOPK && !(way[i].p.amount > 0)) b.shape.tuned = &tuned;
            expect_text_dense(&b, way[i].what);
        }
}

static void text_is_dense_in_a_given_mask(void **state)
{
    for (int k = 0; k < TEXTS; k++) {
        bench          b = make_text(k, &(sg_policy){.rule = SG_SELECT_GIVEN, .tail = k % 2 != 0});
        uint8_t *const mask = calloc((size_t)(b.nq * b.nk), 1);
        assert_non_null(mask);
        for (int64_t i = 0; i < b.nq * b.nk; i++) mask[i] = i % 5 == 1;
        b.shape.mask = (sg_tensor){mask, SG_U8, 3, {1, b.nq, b.nk}};
        expect_text_dense(&b, "mask");
        free(mask);
    }
}

/* Of two passes the mask is for the longer one, whose text behind the video is longer. */
static void one_mask_serves_passes_of_two_lengths(void **state)
{
    for (int64_t longer = 0; longer <= 170; longer += 85) {
        bench          b = make_text(TEXT_BEHIND, &(sg_policy){.rule = SG_SELECT_GIVEN});
        const int64_t  nq = sg_div_up(b.shape.n + longer, SG_BLOCK_Q), nk = sg_div_up(b.shape.n + longer, SG_BLOCK_K);
        uint8_t *const mask = calloc((size_t)(HEADS * nq * nk), 1);
        sg_error       e = {0};
        assert_non_null(mask);
        for (int64_t i = 0; i < HEADS * nq * nk; i++) mask[i] = i % nk % 5 == 1;
        b.shape.masked = b.shape.n + longer;
        b.shape.mask = (sg_tensor){mask, SG_U8, 3, {HEADS, nq, nk + 1}};
        assert_refused(sg_attention_open(&b.a, &b.policy, &b.shape, &e), SG_E_ARG, &e, "mask: U8 [");
        b.shape.mask.dim[2] = nk;
        expect_text_dense(&b, "mask of the longer pass");
        free(mask);
    }
}

/* Text takes none of a row's share: as many other blocks are kept as without it. */
static void text_costs_its_own_blocks_alone(void **state)
{
    for (int k = 0; k < TEXTS; k++) {
        bench         b = make_text(k, &plain);
        const int64_t share = (int64_t)(plain.amount * (float)b.nk);
        int64_t       fixed = 0;
        bind(&b);
        run_at(&b, 0, 0, 0, 0);
        for (int64_t j = 0; j < b.nk; j++)
            fixed += has_text(&b, j, SG_BLOCK_K) || (j + 1) * SG_BLOCK_K > b.shape.n; /* and one that is not full */
        for (int64_t i = 0; i < b.shape.n / SG_BLOCK_Q; i++)
            if (!has_text(&b, i, SG_BLOCK_Q)) assert_int_equal(listed_count(&b.lists, i), share + fixed);
        finish(&b);
    }
}

/* y in the place of an operand has the bits that it has apart from all. */
static void results_may_take_an_operands_place(void **state)
{
    static const struct {
        sg_policy p;
        bool      causal, none; /* none: nothing is spare */
    } want[] = {
        {{.kind = SG_ATTENTION_DENSE}},
        {{.kind = SG_ATTENTION_DENSE}, .causal = true},
        {{.kind = SG_ATTENTION_SAGE}},
        {{.kind = SG_ATTENTION_SAGE, .pv_dtype = SG_PV_INT8}},
        {{.kind = SG_ATTENTION_SPARGE, .amount = 0.3f, .similarity = -1}},
        {{.kind = SG_ATTENTION_SPARGE,
          .amount = 0.3f,
          .similarity = -1,
          .score = SG_SCORE_ERROR,
          .tail = true,
          .tail_bias = SG_TAIL_BIAS_HALF}},
        {{.kind = SG_ATTENTION_SPARGE, .amount = 0.3f, .similarity = -1, .pv_dtype = SG_PV_INT8, .tail = true}},
        {{.kind = SG_ATTENTION_SPARGE, .amount = 0.3f, .similarity = 0.5f}, .none = true},
    };
    for (int i = 0; i < (int)(sizeof want / sizeof *want); i++) {
        const bool dense = want[i].p.kind == SG_ATTENTION_DENSE;
        bench      apart = make(1100, 2, 2, 16, want[i].p), b = make(1100, 2, 2, 16, want[i].p);
        apart.shape.causal = b.shape.causal = want[i].causal;
        free(b.y);
        b.y = dense ? b.q : b.k;
        bind(&apart);
        bind(&b);
        b.s.rows_at_once = 256;
        const sg_attend_args x = arguments(&b);
        const sg_tensor      spare = sg_attention_spare(b.a, 1, 2, x.q, x.k);
        assert_ptr_equal(spare.data, want[i].none ? NULL : b.y);
        if (spare.data) {
            run_at(&apart, 1, 2, 0, 500);
            run_at(&b, 1, 2, 0, 500);
            assert_memory_equal(apart.y, b.y, sg_bytes(x.y));
        }
        b.y = NULL;
        finish(&apart);
        finish(&b);
    }
    bench grouped = make(1100, 4, 2, 16, plain);
    bind(&grouped);
    const sg_attend_args x = arguments(&grouped);
    assert_null(sg_attention_spare(grouped.a, 1, 2, x.q, x.k).data);
    finish(&grouped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_may_take_an_operands_place),
        cmocka_unit_test(dense_is_exact),
        cmocka_unit_test(quantised_is_near_exact),
        cmocka_unit_test(policies_are_followed),
        cmocka_unit_test(fp8_values_where_they_are_faster),
        cmocka_unit_test(blocks_of_192_queries),
        cmocka_unit_test(the_last_queries_of_many_keys_are_followed),
        cmocka_unit_test(few_queries_of_many_keys_are_not_short),
        cmocka_unit_test(masks_are_followed),
        cmocka_unit_test(ends_are_ragged),
        cmocka_unit_test(all_is_sage),
        cmocka_unit_test(order_does_not_matter_to_dense),
        cmocka_unit_test(tuned_thresholds_are_taken),
        cmocka_unit_test(callers_may_look),
        cmocka_unit_test(text_is_dense_whatever_chooses),
        cmocka_unit_test(text_is_dense_in_a_given_mask),
        cmocka_unit_test(one_mask_serves_passes_of_two_lengths),
        cmocka_unit_test(text_costs_its_own_blocks_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
