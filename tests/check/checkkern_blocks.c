/* checkkern_blocks.c - what the stages of sparse attention are tried with. */
#include "checkkern.h"

#include <math.h>

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])
#define ONE_OF(c, list) (list)[ck_draw(c, LENGTH(list))]

/* Around sub-blocks and blocks, primes, several blocks. */
static const int64_t tokens[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 255, 256, 257, 383, 509, 700};
static const int64_t channels[] = {64, 64, 96, 128, 128, 40, 80, 12, 33, 264};
static const int64_t heads[][2] = {{1, 1}, {2, 2}, {4, 2}, {6, 3}, {3, 1}};
static const int64_t texts[] = {0, 0, 0, 0, 1, 63, 64, 65, 77, 129, 333, 512};
static const ck_fill usual[] = {CK_RANDOM, CK_RANDOM, CK_OUTLIER, CK_LARGE, CK_ZERO, CK_TINY, CK_NAN, CK_INF};

static int  trials(const ck *c, int most) { return c->quick ? most / 8 : most; }
static bool coin(ck *c) { return ck_draw(c, 2) == 0; }

static bool has_f8(const ck *c) { return c->level->backend && c->level->backend->f8; }

/* Tokens of a block of queries, as an op names them: now and then SG_BLOCK_Q_F8, where the level takes it. */
static int draw_q_block(ck *c)
{
    return c->level->backend && c->level->backend->f8 == SG_F8_FAST && coin(c) ? SG_BLOCK_Q_F8 : 0;
}

static sg_dtype type_in(ck *c, int i)
{
    if (i % 3 < 2) return i % 3 ? SG_BF16 : SG_F32;
    return coin(c) ? SG_BF16 : SG_F32;
}

#define MAYBE(c, tensor) (coin(c) ? (tensor) : (sg_tensor){0})

/* As keys are pooled: 8 bits about the mean of a sample. */
static void pool_centred(ck *c)
{
    static const int64_t lengths[] = {1, 63, 64, 65, 127, 129, 700, 4097};
    for (int i = 0; i < trials(c, 24); i++) {
        const int64_t n = lengths[(size_t)i % LENGTH(lengths)], h = 1 + (int64_t)ck_draw(c, 4), d = ONE_OF(c, channels);
        ck_case(c, &(sg_pool_args){.mean = ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_K), h, d),
                                   .sub = MAYBE(c, ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_SUB), h, d)),
                                   .center = ck_out(c, SG_F32, h, d),
                                   .y = ck_out(c, SG_I8, h, n, d),
                                   .scale = ck_out(c, SG_F32, sg_div_up(n, 64), h),
                                   .x = ck_new(c, type_in(c, i), i % 5 == 3 ? CK_NAN : CK_RANDOM, n, h, d),
                                   .block = SG_BLOCK_K,
                                   .group = 64});
    }
}

void ck_try_pool(ck *c)
{
    static const int blocks[] = {64, 128, 64, 128, 16, 192};
    for (int i = 0; i < trials(c, 80); i++) {
        const int64_t n = ONE_OF(c, tokens), h = 1 + (int64_t)ck_draw(c, 4), d = ONE_OF(c, channels);
        const int     block = ONE_OF(c, blocks);
        const int64_t b = sg_div_up(n, block);
        sg_pool_args  a = {.mean = ck_out(c, SG_F32, b, h, d),
                           .var = MAYBE(c, ck_out(c, SG_F32, b, h, d)),
                           .sub = MAYBE(c, ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_SUB), h, d)),
                           .total = MAYBE(c, ck_out(c, SG_F32, h, d)),
                           .x = ck_new(c, type_in(c, i), ONE_OF(c, usual), n, h, d),
                           .block = block};
        if (a.total.rank) a.channel_scale = MAYBE(c, ck_out(c, SG_F32, h, d));
        if (coin(c)) {
            a.group = block % 64 || coin(c) ? 16 : coin(c) ? 32 : 64;
            a.y = ck_out(c, SG_I8, h, n, d);
            a.scale = ck_out(c, SG_F32, sg_div_up(n, a.group), h);
        }
        ck_case(c, &a);
    }
    ck_long_pool(c);
    pool_centred(c);
}

void ck_try_self_similarity(ck *c)
{
    for (int i = 0; i < trials(c, 40); i++) {
        const int64_t n = ONE_OF(c, tokens), h = 1 + (int64_t)ck_draw(c, 4), d = ONE_OF(c, channels);
        const int     block = coin(c) ? SG_BLOCK_Q : SG_BLOCK_K;
        const ck_fill f = usual[i % 8];
        ck_case(c, &(sg_self_similarity_args){.y = ck_out(c, SG_F32, sg_div_up(n, block), h),
                                              .x = ck_new(c, type_in(c, i), f, n, h, d),
                                              .center = f == CK_ZERO ? (sg_tensor){0}
                                                                     : MAYBE(c, ck_new(c, SG_F32, CK_RANDOM, h, d)),
                                              .block = block});
    }
    ck_long_self_similarity(c);
}

void ck_try_quantise(ck *c)
{
    static const int     groups[] = {16, 32, 64, 128, 0, 0};
    static const ck_fill fills[] = {CK_RANDOM, CK_STEPS, CK_STEPS, CK_OUTLIER, CK_LARGE,
                                    CK_ZERO,   CK_WIDE,  CK_NAN,   CK_INF,     CK_CONSTANT};
    for (int i = 0; i < trials(c, 80); i++) {
        const int64_t    n = ONE_OF(c, tokens), h = 1 + (int64_t)ck_draw(c, 4), d = ONE_OF(c, channels);
        sg_quantise_args a = {.group = ONE_OF(c, groups)};
        a.y = !a.group && has_f8(c) && coin(c) ? ck_out(c, SG_F8, h, d, sg_f8_row(n)) : ck_out(c, SG_I8, h, n, d);
        a.scale = a.group ? ck_out(c, SG_F32, sg_div_up(n, a.group), h)
                          : ck_new(c, SG_F32, coin(c) ? CK_SCALES : CK_SWITCHES, h, d);
        a.x = ck_new(c, type_in(c, i), ONE_OF(c, fills), n, h, d);
        if (coin(c)) a.center = ck_new(c, SG_F32, coin(c) ? CK_RANDOM : CK_STEPS, h, d);
        ck_case(c, &a);
    }
    ck_long_quantise(c);
}

/* Self-similarity in half of the cases: blocks near theta, on it, and one that is NaN. */
#define JUDGE(c, a, nq, nk, h, hk)                                                                                     \
    do {                                                                                                               \
        const ck_fill f_ = coin(c) ? CK_INTEGER : CK_NAN;                                                              \
        (a).q_similarity = ck_new(c, SG_F32, f_, nq, h);                                                               \
        (a).k_similarity = ck_new(c, SG_F32, f_, nk, hk);                                                              \
        (a).theta = ck_new(c, SG_F32, f_ == CK_NAN ? CK_SCALES : CK_INTEGER, h);                                       \
    } while (0)

/* Text at the ends, and whether a token sees what comes after it. */
#define TEXT_AND_CAUSAL(c, a)                                                                                          \
    do {                                                                                                               \
        (a).causal = (a).n <= (a).m && coin(c);                                                                        \
        (a).text_prefix = ONE_OF(c, texts);                                                                            \
        (a).text_suffix = ONE_OF(c, texts);                                                                            \
    } while (0)

void ck_try_score(ck *c)
{
    static const int64_t sizes[] = {1, 64, 127, 128, 129, 256, 300, 512, 700, 1024, 1100};
    static const ck_fill fills[] = {CK_RANDOM, CK_RANDOM, CK_RANDOM, CK_INTEGER, CK_OUTLIER, CK_ZERO, CK_NAN};
    for (int i = 0; i < trials(c, 64); i++) {
        const int64_t *const g = heads[ck_draw(c, LENGTH(heads))], h = g[0], hk = g[1];
        const int64_t        d = i % 16 == 5 ? 160 : ONE_OF(c, channels);
        sg_score_args a = {.sub = coin(c), .ragged = i % 2, .scale = (ck_draw(c, 3) ? 1.0f : 4.0f) / sqrtf((float)d)};
        a.n = ONE_OF(c, sizes);
        a.m = i % 32 == 7 ? 9000 : coin(c) ? a.n : ONE_OF(c, sizes);
        TEXT_AND_CAUSAL(c, a);
        if (!a.causal) a.q_block = draw_q_block(c);
        const int64_t nq = sg_div_up(a.n, sg_q_block(a.q_block)), nk = sg_div_up(a.m, SG_BLOCK_K);
        a.y = ck_out(c, SG_F32, h, nq, nk);
        a.q = ck_new(c, SG_F32, ONE_OF(c, fills), a.sub ? sg_div_up(a.n, SG_BLOCK_SUB) : nq, h, d);
        a.k = ck_new(c, SG_F32, ONE_OF(c, fills), a.sub ? sg_div_up(a.m, SG_BLOCK_SUB) : nk, hk, d);
        if (coin(c)) a.k_center = ck_new(c, SG_F32, CK_RANDOM, hk, d);
        if (coin(c)) {
            a.k_var = ck_new(c, SG_F32, CK_SCALES, nk, hk, d);
            a.v_var = ck_new(c, SG_F32, CK_SCALES, nk, hk, coin(c) ? d : 48);
        }
        if (ck_draw(c, 3) == 0) JUDGE(c, a, nq, nk, h, hk);
        ck_case(c, &a);
    }
    ck_long_score(c);
}

void ck_try_select(ck *c)
{
    static const int64_t sizes[] = {1, 64, 128, 129, 512, 700, 1024, 2100, 4160, 6000};
    for (int i = 0; i < trials(c, 120); i++) {
        const int64_t *const g = heads[ck_draw(c, LENGTH(heads))], h = g[0], hk = g[1];
        sg_select_args       a = {.rule = (sg_select_rule)(i % 2), .sink = ck_draw(c, 3) ? 0 : (int)ck_draw(c, 4)};
        a.n = ONE_OF(c, sizes);
        a.m = coin(c) ? a.n : i % 30 == 7 ? 75600 : ONE_OF(c, sizes);
        a.heads = a.rule == SG_SELECT_TOPK && coin(c);
        a.ragged = i / 2 % 2;
        TEXT_AND_CAUSAL(c, a);
        a.count_hidden = a.causal && coin(c);
        if (!a.causal) a.q_block = draw_q_block(c);
        const int64_t nq = sg_div_up(a.n, sg_q_block(a.q_block)), nk = sg_div_up(a.m, SG_BLOCK_K);
        a.list = ck_out(c, SG_U16, h, nq, nk);
        a.count = ck_out(c, SG_I32, h, nq);
        a.kept = ck_out(c, SG_I32, h, 2);
        a.mass = ck_out(c, SG_F32, h);
        a.score = ck_new(c, SG_F32, ck_draw(c, 8) == 0 ? CK_ZERO : coin(c) ? CK_COUNTS : CK_FRACTIONS, h, nq, nk);
        a.amount = ck_new(c, SG_F32, CK_SHARES, h);
        if (ck_draw(c, 3) == 0) JUDGE(c, a, nq, nk, h, hk);
        ck_case(c, &a);
    }
    ck_long_select(c);
}

void ck_try_tail_bias(ck *c)
{
    for (int i = 0; i < trials(c, 60); i++) {
        const int64_t *const g = heads[ck_draw(c, LENGTH(heads))], h = g[0], hk = g[1], d = ONE_OF(c, channels);
        const int64_t        nq = 1 + (int64_t)ck_draw(c, 6), nk = 1 + (int64_t)ck_draw(c, 150);
        ck_case(c, &(sg_tail_bias_args){.y = ck_out(c, SG_F32, h, nq, nk),
                                        .q_mean = ck_new(c, SG_F32, coin(c) ? CK_RANDOM : CK_OUTLIER, nq, h, d),
                                        .q_var = ck_new(c, SG_F32, CK_SCALES, nq, h, d),
                                        .k_var = ck_new(c, SG_F32, i % 8 ? CK_SCALES : CK_ZERO, nk, hk, d),
                                        .rule = i % 2 ? SG_TAIL_HALF : SG_TAIL_RANK1,
                                        .scale = (float)(1 + ck_draw(c, 3)) / sqrtf((float)d)});
    }
    ck_long_tail_bias(c);
}

/* Logits are multiples of 1/8 in powers of two, exact enough for F32; blocks whose scales are 0 fall behind others. */
static void filter(ck *c, sg_attend_blocks_args *a, int64_t h)
{
    a->pv_threshold = ck_new(c, SG_F32, CK_FILTERS, h);
    a->pv_group = coin(c) ? 32 : 64;
    a->skips = ck_out(c, SG_F32, h, 2);
    a->scale = 0.69314718f / 8;
}

/* One mean a block of keys, and what it takes the place of. */
static void add_tail(ck *c, sg_attend_blocks_args *a, ck_fill numbers, ck_fill values, int64_t nq, int64_t nk)
{
    const int64_t h = a->q.dim[0], hk = a->k.dim[0], d = a->q.dim[2];
    a->tail_k = ck_new(c, SG_I8, numbers, hk, nk, d);
    a->tail_k_scale = ck_new(c, SG_F32, ck_draw(c, 12) ? CK_SCALES : CK_NAN_SCALE, sg_div_up(nk, SG_BLOCK_K), hk);
    a->tail_v = a->v.dtype == SG_I8   ? ck_new(c, SG_I8, CK_RANDOM, hk, nk, d)
                : a->v.dtype == SG_F8 ? ck_new(c, SG_F8, CK_RANDOM, hk, d, sg_f8_row(nk))
                                      : ck_new(c, SG_F32, values, nk, hk, d);
    if (coin(c)) a->tail_bias = ck_new(c, SG_F32, CK_RANDOM, h, nq, nk);
}

/* Whether one of the values is NaN, which rows that do not see it must not notice. */
static bool add_values(ck *c, sg_attend_blocks_args *a, int64_t m, int64_t hk, int64_t d)
{
    static const sg_dtype types[] = {SG_I8, SG_I8, SG_F32, SG_BF16};
    static const ck_fill  fills[] = {CK_OUTLIER, CK_RANDOM, CK_NAN, CK_RANDOM};
    ck_fill               f = CK_RANDOM;
    const sg_dtype        t = has_f8(c) && coin(c) ? SG_F8 : ONE_OF(c, types);
    if (t == SG_I8 || t == SG_F8) {
        a->v = t == SG_F8 ? ck_new(c, t, CK_RANDOM, hk, d, sg_f8_row(m)) : ck_new(c, t, CK_RANDOM, hk, m, d);
        a->v_scale = ck_new(c, SG_F32, CK_SCALES, hk, d);
    } else
        a->v = ck_new(c, t, f = ONE_OF(c, fills), m, hk, d);
    if (coin(c)) a->v_center = ck_new(c, SG_F32, CK_RANDOM, hk, d);
    return f == CK_NAN;
}

/* A row sees 64 keys, which a NaN spoils more often than not, or one key and one mean: how their two weights are rounded
 * is then all that may be wrong with it. */
static void attend_pairs(ck *c)
{
    const int64_t h = 3, hk = 1, d = 33, n = 256, m = SG_BLOCK_K + 1;
    const int64_t nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(m, SG_BLOCK_K);

    sg_attend_blocks_args a = {.q_group = 64, .k_group = 16, .scale = 1.0f / (5376 * sqrtf((float)d))};
    a.y = ck_out(c, SG_F32, n, h, d);
    a.q = ck_new(c, SG_I8, CK_RANDOM, h, n, d);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(n, a.q_group), h);
    a.k = ck_new(c, SG_I8, CK_RANDOM, hk, m, d);
    a.k_scale = ck_new(c, SG_F32, CK_NAN_SCALE, sg_div_up(m, a.k_group), hk);
    const bool non_finite = add_values(c, &a, m, hk, d);
    a.list = ck_lists(c, CK_ONE_BLOCK, h, nq, nk, &a.count);
    add_tail(c, &a, CK_RANDOM, non_finite ? CK_NAN : CK_RANDOM, nq, nk);
    ck_case(c, &a);
}

/* Numbers at the ends of their range: AVX2 adds their products in pairs, in 16 bits. */
static void attend_ends(ck *c)
{
    const int64_t h = 2, hk = 1, d = ONE_OF(c, channels), n = ONE_OF(c, tokens), m = n + SG_BLOCK_K;
    const int64_t nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(m, SG_BLOCK_K);

    sg_attend_blocks_args a = {.q_group = 32, .k_group = 64, .scale = 1.0f / (5376 * sqrtf((float)d))};
    a.y = ck_out(c, SG_F32, n, h, d);
    a.q = ck_new(c, SG_I8, CK_PAIRS, h, n, d);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(n, a.q_group), h);
    a.k = ck_new(c, SG_I8, CK_PAIRS, hk, m, d);
    a.k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(m, a.k_group), hk);
    add_values(c, &a, m, hk, d);
    a.list = ck_lists(c, CK_BLOCKS, h, nq, nk, &a.count);
    ck_case(c, &a);
}

/* More blocks of keys than 32 words have bits. */
static void attend_many_words(ck *c)
{
    enum { N = 9, D = 16, HEADS = 2, NK = 32 * 64 + 2, M = (NK - 1) * SG_BLOCK_K + 1 };
    sg_attend_blocks_args a = {.q_group = 32, .k_group = 64, .scale = 1.0f / (5376 * sqrtf(D))};
    a.y = ck_out(c, SG_BF16, N, HEADS, D);
    a.q = ck_new(c, SG_I8, CK_RANDOM, HEADS, N, D);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(N, a.q_group), HEADS);
    a.k = ck_new(c, SG_I8, CK_RANDOM, 1, M, D);
    a.k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(M, a.k_group), 1);
    add_values(c, &a, M, 1, D);
    a.list = ck_lists(c, CK_BLOCKS, HEADS, 1, NK, &a.count);
    add_tail(c, &a, CK_RANDOM, CK_RANDOM, 1, NK);
    ck_case(c, &a);
}

/* Lists of all blocks give the bits that no list gives wherever they lie, and with so many rows that warpgroups of 64 end in
 * the midst of a block of queries. */
static void attend_odd_lists(ck *c)
{
    enum { TRIES = 5, N = 2 * SG_BLOCK_Q + 70, M = 5 * SG_BLOCK_K + 63 };
    static const int64_t widths[] = {64, 128};
    const int64_t        h = 2, hk = 1, nq = sg_div_up(N, SG_BLOCK_Q), nk = sg_div_up(M, SG_BLOCK_K);
    const bool           aligned = c->level->aligned;
    for (int i = 0; i < 4; i++) {
        const int64_t  d = widths[i % 2];
        const sg_dtype t = i < 2 && has_f8(c) ? SG_F8 : SG_BF16;
        c->level->aligned = true;
        sg_attend_blocks_args a = {.q_group = 32, .k_group = 64, .scale = 1.0f / (5376 * sqrtf((float)d))};
        a.y = ck_out(c, SG_F32, N, h, d);
        a.q = ck_new(c, SG_I8, CK_RANDOM, h, N, d);
        a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(N, a.q_group), h);
        a.k = ck_new(c, SG_I8, CK_RANDOM, hk, M, d);
        a.k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(M, a.k_group), hk);
        a.v = t == SG_F8 ? ck_new(c, t, CK_RANDOM, hk, d, sg_f8_row(M)) : ck_new(c, t, CK_RANDOM, M, hk, d);
        if (t == SG_F8) a.v_scale = ck_new(c, SG_F32, CK_SCALES, hk, d);
        c->level->aligned = aligned;
        const sg_attend_blocks_args whole = a;
        for (int try = 0; try < TRIES && (uintptr_t)a.list.data % 8 == 0; try++)
            a.list = ck_lists(c, CK_ALL_BLOCKS, h, nq, nk, &a.count);
        ck_case_same(c, &a, &whole);
    }
}

/* Lists of SG_BLOCK_Q_F8 queries. Only y may lie anywhere. */
static void attend_f8_blocks(ck *c)
{
    static const ck_fill masks[] = {CK_BLOCKS, CK_NO_BLOCKS, CK_ONE_BLOCK, CK_SOME_EMPTY, CK_ALL_BLOCKS};
    static const int64_t widths[] = {16, 48, 64, 96, 112, 128};
    const bool           aligned = c->level->aligned;
    const int64_t *const g = heads[ck_draw(c, LENGTH(heads))], h = g[0], hk = g[1], d = ONE_OF(c, widths);
    const int64_t        n = ONE_OF(c, tokens), m = coin(c) ? ONE_OF(c, tokens) : n;
    const int64_t        nq = sg_div_up(n, SG_BLOCK_Q_F8), nk = sg_div_up(m, SG_BLOCK_K);

    sg_attend_blocks_args a = {.q_group = 32, .k_group = 64, .q_block = SG_BLOCK_Q_F8};
    a.scale = (ck_draw(c, 3) ? 1.0f : 4.0f) / (5376 * sqrtf((float)d));
    a.y = ck_out(c, coin(c) ? SG_BF16 : SG_F32, n, h, d);
    c->level->aligned = true;
    a.q = ck_new(c, SG_I8, CK_RANDOM, h, n, d);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(n, a.q_group), h);
    a.k = ck_new(c, SG_I8, CK_RANDOM, hk, m, d);
    a.k_scale = ck_new(c, SG_F32, ck_draw(c, 8) ? CK_SCALES : CK_NAN_SCALE, sg_div_up(m, a.k_group), hk);
    a.v = ck_new(c, SG_F8, CK_RANDOM, hk, d, sg_f8_row(m));
    a.v_scale = ck_new(c, SG_F32, CK_SCALES, hk, d);
    if (coin(c)) a.v_center = ck_new(c, SG_F32, CK_RANDOM, hk, d);
    a.list = ck_lists(c, ONE_OF(c, masks), h, nq, nk, &a.count);
    if (coin(c)) add_tail(c, &a, CK_RANDOM, CK_RANDOM, nq, nk);
    c->level->aligned = aligned;
    ck_case(c, &a);
}

void ck_try_attend_blocks(ck *c)
{
    static const ck_fill masks[] = {CK_BLOCKS,    CK_BLOCKS,     CK_BLOCKS,    CK_NO_BLOCKS,
                                    CK_ONE_BLOCK, CK_SOME_EMPTY, CK_ALL_BLOCKS};
    static const int     q_groups[] = {16, 32, 64, 128}, k_groups[] = {16, 32, 64};
    for (int i = 0; i < trials(c, 160); i++) {
        const int64_t *const g = heads[ck_draw(c, LENGTH(heads))], h = g[0], hk = g[1], d = ONE_OF(c, channels);
        const int64_t        n = ONE_OF(c, tokens), m = i % 3 ? ONE_OF(c, tokens) : n;
        const int64_t        nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(m, SG_BLOCK_K);
        const bool           filters = ck_draw(c, 4) == 0;
        const ck_fill        numbers = filters ? CK_INTEGER : CK_RANDOM;
        const ck_fill        scales = filters ? CK_SWITCHES : ck_draw(c, 12) ? CK_SCALES : CK_NAN_SCALE;

        sg_attend_blocks_args a = {.q_group = ONE_OF(c, q_groups), .k_group = ONE_OF(c, k_groups)};
        a.causal = n <= m && coin(c);
        a.scale = (ck_draw(c, 3) ? 1.0f : 4.0f) / (5376 * sqrtf((float)d)); /* products of I8 spread by 5376 sqrt(d) */
        a.y = ck_out(c, coin(c) ? SG_BF16 : SG_F32, n, h, d);
        a.q = ck_new(c, SG_I8, numbers, h, n, d);
        a.q_scale = ck_new(c, SG_F32, filters ? CK_ONES : scales, sg_div_up(n, a.q_group), h);
        a.k = ck_new(c, SG_I8, numbers, hk, m, d);
        a.k_scale = ck_new(c, SG_F32, scales, sg_div_up(m, a.k_group), hk);
        const bool non_finite = add_values(c, &a, m, hk, d);
        if (filters) filter(c, &a, h);
        sg_attend_blocks_args whole = a;
        const ck_fill         mask = ONE_OF(c, masks);
        if (ck_draw(c, 4)) a.list = ck_lists(c, mask, h, nq, nk, &a.count);
        if (a.list.rank && coin(c)) add_tail(c, &a, numbers, non_finite ? CK_NAN : CK_RANDOM, nq, nk);
        /* where the means lie may choose another kernel, and each rounds F8 weights in its own way */
        const bool same = mask == CK_ALL_BLOCKS && !(a.tail_k.rank && a.v.dtype == SG_F8);
        ck_case_same(c, &a, same ? &whole : NULL);
    }
    for (int i = 0; i < trials(c, 8); i++) attend_pairs(c);
    attend_odd_lists(c);
    const bool fast = c->level->backend && c->level->backend->f8 == SG_F8_FAST;
    for (int i = 0; i < (fast ? trials(c, 40) : 0); i++) attend_f8_blocks(c);
    ck_long_attend_blocks(c);
    if (!c->quick) attend_many_words(c);
    for (int i = 0; i < trials(c, 16); i++) attend_ends(c);
}
