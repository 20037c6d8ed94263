/* checkkern_long.c - attention at lengths of real clips: rows of many mask words, tails of many tiles, and heads of more
 * than 128 channels. Queries are few, so that the oracle takes no longer than elsewhere. */
#include "checkkern.h"

#include <math.h>

#define LENGTH(list) (sizeof(list) / sizeof(list)[0])

/* Keys: one word of a mask and one tile of means, with a last block that is not full, full, and in the next word; one mean
 * in the second tile; three words; eight. */
static const int64_t lengths[] = {4095, 4096, 4097, 4160, 8300, 32760};
static const int64_t wide[] = {160, 256};

static int     some(const ck *c, size_t most) { return c->quick ? 1 : (int)most; }
static bool    has_f8(const ck *c) { return c->level->backend && c->level->backend->f8; }
static int64_t queries_for(int64_t keys) { return keys > 8000 ? 40 : 72; }

void ck_long_attend(ck *c)
{
    for (int i = 0; i < 2 * some(c, LENGTH(lengths)); i++) {
        const int64_t  m = lengths[i / 2], n = 24, h = 1, d = i % 4 < 2 ? 64 : 128;
        const sg_dtype t = i % 2 ? SG_BF16 : SG_F32;
        ck_case(c, &(sg_attend_args){.y = ck_out(c, t, n, h, d),
                                     .q = ck_new(c, t, CK_RANDOM, n, h, d),
                                     .k = ck_new(c, t, CK_RANDOM, m, h, d),
                                     .v = ck_new(c, t, CK_RANDOM, m, h, d),
                                     .key_bias = i / 2 % 2 ? ck_new(c, SG_F32, CK_RANDOM, m) : (sg_tensor){0},
                                     .scale = 1.0f / sqrtf((float)d)});
    }
    for (int i = 0; i < 2 * some(c, LENGTH(lengths)); i++) { /* the next token of a text, and the next 40 */
        const int64_t  m = lengths[i / 2], n = i / 2 % 2 ? 40 : 1, h = 3, d = i % 4 < 2 ? 128 : 64;
        const sg_dtype t = i % 2 ? SG_BF16 : SG_F32;
        ck_case(c, &(sg_attend_args){.y = ck_out(c, t, n, h, d),
                                     .q = ck_new(c, t, CK_RANDOM, n, h, d),
                                     .k = ck_new(c, t, CK_RANDOM, m, 1, d),
                                     .v = ck_new(c, t, CK_RANDOM, m, 1, d),
                                     .scale = 1.0f / sqrtf((float)d),
                                     .causal = true});
    }
}

static void try_pool(ck *c, sg_dtype t, int64_t n, int64_t h, int64_t d)
{
    ck_case(c, &(sg_pool_args){.mean = ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_K), h, d),
                               .var = ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_K), h, d),
                               .sub = ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_SUB), h, d),
                               .total = ck_out(c, SG_F32, h, d),
                               .channel_scale = ck_out(c, SG_F32, h, d),
                               .y = ck_out(c, SG_I8, h, n, d),
                               .scale = ck_out(c, SG_F32, sg_div_up(n, 64), h),
                               .x = ck_new(c, t, CK_RANDOM, n, h, d),
                               .block = SG_BLOCK_K,
                               .group = 64});
}

void ck_long_pool(ck *c)
{
    for (int i = 0; i < some(c, LENGTH(lengths)); i++) try_pool(c, i % 2 ? SG_F32 : SG_BF16, lengths[i], 1, 64);
    for (int i = 0; i < some(c, LENGTH(wide)); i++) try_pool(c, i % 2 ? SG_F32 : SG_BF16, 509, 2, wide[i]);
}

void ck_long_self_similarity(ck *c)
{
    for (int i = 0; i < some(c, 3); i++) {
        const int64_t n = i ? 509 : 4097, h = 1, d = i ? wide[i - 1] : 64;
        ck_case(c, &(sg_self_similarity_args){.y = ck_out(c, SG_F32, sg_div_up(n, SG_BLOCK_K), h),
                                              .x = ck_new(c, SG_F32, CK_RANDOM, n, h, d),
                                              .center = ck_new(c, SG_F32, CK_RANDOM, h, d),
                                              .block = SG_BLOCK_K});
    }
}

/* Rows in groups, and channels. */
void ck_long_quantise(ck *c)
{
    for (int i = 0; i < 3 * some(c, 4); i++) {
        const int64_t    n = i < 6 ? 509 : i < 9 ? 4097 : 32760, h = 1, d = i < 6 ? wide[i / 3] : 64;
        sg_quantise_args a = {.group = i % 3 ? 0 : 64};
        a.y = i % 3 == 2 && has_f8(c) ? ck_out(c, SG_F8, h, d, sg_f8_row(n)) : ck_out(c, SG_I8, h, n, d);
        a.scale = a.group ? ck_out(c, SG_F32, sg_div_up(n, a.group), h) : ck_new(c, SG_F32, CK_SCALES, h, d);
        a.x = ck_new(c, i % 2 ? SG_F32 : SG_BF16, CK_RANDOM, n, h, d);
        a.center = ck_new(c, SG_F32, CK_RANDOM, h, d);
        ck_case(c, &a);
    }
}

static void try_score(ck *c, int64_t n, int64_t m, int64_t d, bool sub, bool causal)
{
    const int64_t h = 2, hk = 1, nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(m, SG_BLOCK_K);
    ck_case(c, &(sg_score_args){.y = ck_out(c, SG_F32, h, nq, nk),
                                .q = ck_new(c, SG_F32, CK_RANDOM, sub ? sg_div_up(n, SG_BLOCK_SUB) : nq, h, d),
                                .k = ck_new(c, SG_F32, CK_RANDOM, sub ? sg_div_up(m, SG_BLOCK_SUB) : nk, hk, d),
                                .k_var = ck_new(c, SG_F32, CK_SCALES, nk, hk, d),
                                .v_var = ck_new(c, SG_F32, CK_SCALES, nk, hk, d),
                                .scale = 1.0f / sqrtf((float)d),
                                .sub = sub,
                                .causal = causal,
                                .n = n,
                                .m = m});
}

void ck_long_score(ck *c)
{
    for (int i = 0; i < 2 * some(c, LENGTH(lengths)); i++)
        try_score(c, 300, lengths[i / 2], i / 2 % 2 ? 128 : 64, i % 2, false);
    for (int i = 0; i < some(c, LENGTH(lengths)); i++) try_score(c, 700, lengths[i], 64, i % 2, true);
    for (int i = 0; i < some(c, LENGTH(wide)); i++) try_score(c, 300, 4097, wide[i], true, false);
}

void ck_long_select(ck *c)
{
    for (int i = 0; i < 4 * some(c, LENGTH(lengths)); i++) {
        const int64_t  n = 700, m = lengths[i / 4], h = 2, nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(m, SG_BLOCK_K);
        sg_select_args a = {.rule = (sg_select_rule)(i % 2), .sink = i / 4 % 2, .n = n, .m = m, .causal = i / 2 % 2};
        a.list = ck_out(c, SG_U16, h, nq, nk);
        a.count = ck_out(c, SG_I32, h, nq);
        a.kept = ck_out(c, SG_I32, h, 2);
        a.mass = ck_out(c, SG_F32, h);
        a.score = ck_new(c, SG_F32, CK_FRACTIONS, h, nq, nk);
        a.amount = ck_new(c, SG_F32, CK_SHARES, h);
        ck_case(c, &a);
    }
}

static void try_tail_bias(ck *c, int64_t m, int64_t d, sg_tail_rule rule)
{
    const int64_t h = 2, hk = 1, nq = 3, nk = sg_div_up(m, SG_BLOCK_K);
    ck_case(c, &(sg_tail_bias_args){.y = ck_out(c, SG_F32, h, nq, nk),
                                    .q_mean = ck_new(c, SG_F32, CK_RANDOM, nq, h, d),
                                    .q_var = ck_new(c, SG_F32, CK_SCALES, nq, h, d),
                                    .k_var = ck_new(c, SG_F32, CK_SCALES, nk, hk, d),
                                    .rule = rule,
                                    .scale = 1 / sqrtf((float)d)});
}

void ck_long_tail_bias(ck *c)
{
    for (int i = 0; i < some(c, LENGTH(lengths)); i++)
        try_tail_bias(c, lengths[i], 64, i % 2 ? SG_TAIL_HALF : SG_TAIL_RANK1);
    for (int i = 0; i < some(c, LENGTH(wide)); i++) try_tail_bias(c, 4097, wide[i], SG_TAIL_HALF);
}

/* ---- attend_blocks ---- */

typedef struct blocks_case {
    int64_t  n, m, h, hk, d;
    sg_dtype v, y;
    bool     keep, tail, bias, causal, steep; /* steep: logits 150 times as large */
    ck_fill  mask;
} blocks_case;

static void try_blocks(ck *c, const blocks_case *x)
{
    const int64_t         n = x->n, m = x->m, h = x->h, hk = x->hk, d = x->d, nk = sg_div_up(m, SG_BLOCK_K);
    const bool            packed = x->v == SG_I8 || x->v == SG_F8;
    sg_attend_blocks_args a = {.q_group = 32,
                               .k_group = 64,
                               .scale = (x->steep ? 150.0f : 1.0f) / (5376 * sqrtf((float)d)),
                               .causal = x->causal};
    a.y = ck_out(c, x->y, n, h, d);
    a.q = ck_new(c, SG_I8, CK_RANDOM, h, n, d);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(n, a.q_group), h);
    a.k = ck_new(c, SG_I8, CK_RANDOM, hk, m, d);
    a.k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(m, a.k_group), hk);
    a.v = x->v == SG_F8 ? ck_new(c, SG_F8, CK_RANDOM, hk, d, sg_f8_row(m))
          : packed      ? ck_new(c, SG_I8, CK_RANDOM, hk, m, d)
                        : ck_new(c, x->v, CK_RANDOM, m, hk, d);
    if (packed) a.v_scale = ck_new(c, SG_F32, CK_SCALES, hk, d);
    if (x->keep) a.list = ck_lists(c, x->mask, h, sg_div_up(n, SG_BLOCK_Q), nk, &a.count);
    if (x->tail) {
        a.tail_k = ck_new(c, SG_I8, CK_RANDOM, hk, nk, d);
        a.tail_k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(nk, SG_BLOCK_K), hk);
        a.tail_v = x->v == SG_F8 ? ck_new(c, SG_F8, CK_RANDOM, hk, d, sg_f8_row(nk))
                   : packed      ? ck_new(c, SG_I8, CK_RANDOM, hk, nk, d)
                                 : ck_new(c, SG_F32, CK_RANDOM, nk, hk, d);
    }
    if (x->bias) a.tail_bias = ck_new(c, SG_F32, CK_RANDOM, h, sg_div_up(n, SG_BLOCK_Q), nk);
    ck_case(c, &a);
}

static sg_dtype values(const ck *c, int i)
{
    static const sg_dtype types[] = {SG_BF16, SG_I8, SG_F32};
    return has_f8(c) && i % 4 == 3 ? SG_F8 : types[i % 3];
}

/* ---- score, select and attend_blocks, one after the other ---- */

typedef struct chain_args {
    sg_tensor y, score, list, count, kept, mass; /* what is written; y is judged */
    sg_tensor q_mean, k_mean, amount, q, q_scale, k, k_scale, v, tail_k, tail_k_scale, tail_v;
    int64_t   n, m;
    float     scale;
} chain_args;

static void call_chain(sg_stream *s, const void *args)
{
    const chain_args *const a = args;
    sg_score(s, .y = a->score, .q = a->q_mean, .k = a->k_mean, .scale = 1, .n = a->n, .m = a->m, .ragged = true);
    sg_select(s, .list = a->list, .count = a->count, .kept = a->kept, .mass = a->mass, .score = a->score,
              .amount = a->amount, .rule = SG_SELECT_TOPK, .n = a->n, .m = a->m, .ragged = true);
    sg_attend_blocks(s, .y = a->y, .q = a->q, .q_scale = a->q_scale, .k = a->k, .k_scale = a->k_scale, .v = a->v,
                     .list = a->list, .count = a->count, .tail_k = a->tail_k, .tail_k_scale = a->tail_k_scale,
                     .tail_v = a->tail_v, .q_group = 32, .k_group = 64, .scale = a->scale);
}

/* Scores far enough from each other that rounding changes no order: logits of a row are multiples of 1/64, each once. */
static void separate(ck *c, sg_tensor q_mean, sg_tensor k_mean)
{
    const int64_t nk = k_mean.dim[0], d = k_mean.dim[2];
    for (int64_t i = 0; i < sg_count(q_mean); i++) sg_store(&q_mean, i, i % d ? 0 : i / d % 2 ? -1 : 1);
    for (int64_t j = 0; j < nk; j++) sg_store(&k_mean, j * d, (float)j / 64);
    for (int64_t j = nk - 1; j > 0; j--) {
        const int64_t other = (int64_t)ck_draw(c, (uint64_t)j + 1);
        const float   one = sg_load(&k_mean, j * d);
        sg_store(&k_mean, j * d, sg_load(&k_mean, other * d));
        sg_store(&k_mean, other * d, one);
    }
}

static void try_chain(ck *c, int64_t m)
{
    static const ck_op chain = {
        .name = "score, select, attend_blocks", .call = call_chain, .args_size = sizeof(chain_args)};
    const ck_op *const was = c->op;
    const int64_t      n = 40, h = 2, hk = 1, d = 64, nk = sg_div_up(m, SG_BLOCK_K);
    chain_args         a = {.n = n, .m = m, .scale = 1 / (5376 * sqrtf((float)d))};
    c->op = &chain;
    a.y = ck_out(c, SG_F32, n, h, d);
    a.score = ck_out(c, SG_F32, h, 1, nk);
    a.list = ck_out(c, SG_U16, h, 1, nk);
    a.count = ck_out(c, SG_I32, h, 1);
    a.kept = ck_out(c, SG_I32, h, 2);
    a.mass = ck_out(c, SG_F32, h);
    a.q_mean = ck_new(c, SG_F32, CK_ZERO, 1, h, d);
    a.k_mean = ck_new(c, SG_F32, CK_RANDOM, nk, hk, d);
    separate(c, a.q_mean, a.k_mean);
    a.amount = ck_new(c, SG_F32, CK_CONSTANT, h);
    for (int64_t g = 0; g < h; g++) sg_store(&a.amount, g, 0.25f + 0.125f * (float)g);
    a.q = ck_new(c, SG_I8, CK_RANDOM, h, n, d);
    a.q_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(n, 32), h);
    a.k = ck_new(c, SG_I8, CK_RANDOM, hk, m, d);
    a.k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(m, 64), hk);
    a.v = ck_new(c, SG_BF16, CK_RANDOM, m, hk, d);
    a.tail_k = ck_new(c, SG_I8, CK_RANDOM, hk, nk, d);
    a.tail_k_scale = ck_new(c, SG_F32, CK_SCALES, sg_div_up(nk, SG_BLOCK_K), hk);
    a.tail_v = ck_new(c, SG_F32, CK_RANDOM, nk, hk, d);
    ck_case(c, &a);
    c->op = was;
}

/* Of each length: the ends of each word kept, with and without a tail, any blocks with a tail and its bias, and all keys. */
void ck_long_attend_blocks(ck *c)
{
    for (int i = 0; i < 4 * some(c, LENGTH(lengths)); i++) {
        const int64_t m = lengths[i / 4];
        const int     kind = i % 4;
        try_blocks(c, &(blocks_case){.n = queries_for(m),
                                     .m = m,
                                     .h = m > 30000 ? 1 : 2,
                                     .hk = 1,
                                     .d = (i + i / 4) % 2 && m < 30000 ? 128 : 64,
                                     .v = values(c, i),
                                     .y = i / 4 % 2 ? SG_F32 : SG_BF16,
                                     .keep = kind < 3,
                                     .mask = kind < 2 ? CK_END_BLOCKS : CK_BLOCKS,
                                     .tail = kind == 1 || kind == 2,
                                     .bias = kind == 2});
    }
    for (int i = 0; i < 2 * some(c, LENGTH(lengths)); i++) /* the last queries of a long text; a tail of many tiles */
        try_blocks(c, &(blocks_case){.n = lengths[i / 2] > 8000 ? 150 : 333,
                                     .m = lengths[i / 2],
                                     .h = lengths[i / 2] > 8000 ? 1 : 2,
                                     .hk = 1,
                                     .d = i / 2 % 2 ? 128 : 64,
                                     .v = values(c, i),
                                     .y = SG_F32,
                                     .keep = true,
                                     .mask = CK_END_BLOCKS,
                                     .tail = i % 2,
                                     .bias = i % 4 == 3,
                                     .causal = true});
    for (int i = 0; i < 2 * some(c, LENGTH(wide)); i++)
        try_blocks(c, &(blocks_case){.n = 40,
                                     .m = 4097,
                                     .h = 2,
                                     .hk = 1,
                                     .d = wide[i / 2],
                                     .v = values(c, i),
                                     .y = SG_F32,
                                     .keep = true,
                                     .mask = CK_END_BLOCKS,
                                     .tail = i % 2});
    for (int i = 0; i < 4; i++) /* the largest logit rises by tens from one tile to the next */
        try_blocks(c, &(blocks_case){.n = 130,
                                     .m = 1030,
                                     .h = 1,
                                     .hk = 1,
                                     .d = i % 2 ? 128 : 64,
                                     .v = i < 2 ? SG_BF16 : values(c, 3),
                                     .y = SG_F32,
                                     .keep = true,
                                     .mask = CK_BLOCKS,
                                     .tail = true,
                                     .steep = true});
    for (int i = 0; i < 2 && c->all; i++) /* as many queries as keys, each of which sees what comes before it */
        try_blocks(c, &(blocks_case){.n = 4160,
                                     .m = 4160,
                                     .h = 1,
                                     .hk = 1,
                                     .d = 64,
                                     .v = values(c, i),
                                     .y = SG_F32,
                                     .keep = true,
                                     .mask = CK_BLOCKS,
                                     .tail = i,
                                     .causal = true});
    try_chain(c, 4097);
    for (int i = 0; i < 2 && !c->quick; i++) try_chain(c, i ? 32760 : 8300);
}
