/* run.c - see run.h. The stages are those of SpargeAttn (arXiv:2502.18137, section 3). Means in place of skipped
 * blocks, and the choice of blocks by the error of that, follow PISA (2602.01077), Sol-Attn (2607.24027) and DFSAttn
 * (2605.23445). */
#include "run.h"

#include "bound.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    Q_GROUP = 32, /* rows of q that share a scale */
    K_GROUP = 64
};

bool sg_attention_skips(const sg_attention *a) { return a->skips; }

/* ---- binding ---- */

static sg_status check_shape(const sg_attention_shape *x, sg_error *e)
{
    if (x->n < 1 || x->m < 0 || x->h < 1 || x->hk < 1 || x->h % x->hk || x->d < 1 || x->layers < 1 || x->steps < 1 ||
        x->passes < 1 || x->text_prefix < 0 || x->text_suffix < 0 || x->text_prefix > x->n ||
        x->text_suffix > x->n - x->text_prefix || (x->masked && (x->masked < x->n || x->m)))
        return sg_error_set(e, SG_E_ARG, "attention: %lld tokens, %lld heads, %lld of keys, of %lld channels",
                            (long long)x->n, (long long)x->h, (long long)x->hk, (long long)x->d);
    if (x->causal && (x->text_prefix || x->text_suffix) && x->m && x->m != x->n)
        return sg_error_set(e, SG_E_ARG, "causal: %lld and %lld tokens of text, but %lld queries and %lld keys",
                            (long long)x->text_prefix, (long long)x->text_suffix, (long long)x->n, (long long)x->m);
    if (x->causal && x->m && x->m < x->n)
        return sg_error_set(e, SG_E_ARG, "causal: %lld queries but %lld keys", (long long)x->n, (long long)x->m);
    return SG_OK;
}

/* Refuses a mask with other numbers of heads or blocks than x. */
static sg_status check_mask(const sg_attention_shape *x, sg_error *e)
{
    const sg_tensor *const m = &x->mask;
    const int64_t          n = x->masked ? x->masked : x->n;
    const int64_t          nq = sg_div_up(n, SG_BLOCK_Q), nk = sg_div_up(x->m ? x->m : n, SG_BLOCK_K);
    if (m->data && m->dtype == SG_U8 && m->rank == 3 && (m->dim[0] == 1 || m->dim[0] == x->h) && m->dim[1] == nq &&
        m->dim[2] == nk)
        return SG_OK;
    char shape[96];
    sg_shape_text(shape, sizeof shape, m->rank, m->dim);
    return sg_error_set(e, SG_E_ARG, "mask: %s %s is not U8 [1 or %lld, %lld, %lld]", sg_dtype_name(m->dtype), shape,
                        (long long)x->h, (long long)nq, (long long)nk);
}

static sg_status check_sparge(const sg_attention *a, sg_error *e)
{
    const sg_thresholds *const t = a->shape.tuned;
    const int64_t              h = a->shape.h;
    if (a->nk > SG_LISTED || a->nq * a->nk > INT32_MAX)
        return sg_error_set(e, SG_E_UNSUPPORTED, "attention sparge: %lld tokens are too many; dense takes them",
                            (long long)keys(a));
    if (t && (t->layers != a->shape.layers || t->heads != h))
        return sg_error_set(e, SG_E_ARG, "thresholds are for %d layers of %d heads, but this model has %d of %lld",
                            t->layers, t->heads, a->shape.layers, (long long)h);
    if (t && a->p.budget && t->rule != SG_SELECT_TOPK)
        return sg_error_set(e, SG_E_ARG, "budget: heads share a number of blocks, but the thresholds' rule is tau");
    return a->p.rule != SG_SELECT_GIVEN || t ? SG_OK : check_mask(&a->shape, e);
}

/* Returns the bucket of thresholds that serves this timestep. */
static int bucket_of(const sg_attention *a, double timestep)
{
    int b = 0;
    while (b + 1 < a->t->buckets && timestep < a->t->from[b]) b++;
    return b;
}

/* So many tokens decide whether the sequence is short. */
static int64_t tokens(const sg_attention *a)
{
    return a->shape.whole ? a->shape.whole : a->shape.causal ? keys(a) : a->shape.n;
}

/* Whether blocks of queries may be longer than SG_BLOCK_Q: not those that masks and tuned thresholds are for, nor where what
 * is skipped is lost, nor in a shorter sequence, whose attention is a small part of a step. */
static bool takes_longer(const sg_attention *a)
{
    return !a->shape.tuned && a->t->rule != SG_SELECT_GIVEN && a->p.tail && tokens(a) >= SG_LONGER_TOKENS;
}

/* Whether values are F8, where blocks are skipped, by kernels that are fast with them: not where heads have a PV filter or
 * other channels, and not in texts, whose loss was judged with BF16 alone. */
static bool takes_f8(const sg_attention *a)
{
    const sg_attention_shape *const x = &a->shape;
    bool takes = x->f8 == SG_F8_FAST && a->p.kind == SG_ATTENTION_SPARGE && !x->causal &&
                 (a->p.pv_dtype == SG_PV_AUTO || a->p.pv_dtype == SG_PV_FP8) && x->d % 16 == 0 && x->d <= 128;
    for (int row = 0; takes && row < a->t->buckets * a->t->layers; row++) takes = !filters(a, row);
    return takes;
}

static sg_status bind(sg_attention *a, sg_error *e)
{
    const sg_attention_shape *const x = &a->shape;
    const char *const               name = sg_attention_names[a->p.kind];
    if (a->p.dense_layers) SG_TRY(sg_layers_check("dense_layers", a->p.dense_layers, x->layers, e));
    if (a->p.named && a->p.kind != SG_ATTENTION_DENSE && x->values == SG_F32)
        return sg_error_set(e, SG_E_UNSUPPORTED, "attention %s: this backend has only dense attention", name);
    if (a->p.kind != SG_ATTENTION_DENSE && a->p.pv_dtype == SG_PV_FP8 && !x->f8)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "pv_dtype=TYPE: only backend cuda, from level sm89 up, and ref have fp8");
    if (a->p.kind == SG_ATTENTION_SPARGE) SG_TRY(check_sparge(a, e));
    a->dense_steps = sg_policy_dense_steps(&a->p, x->steps);
    for (int layer = 0; layer < x->layers && !a->skips; layer++)
        a->skips = sg_attention_kind_of(a, layer, x->steps - 1, NULL) == SG_ATTENTION_SPARGE;
    a->ran = calloc((size_t)x->steps * (size_t)x->passes * (size_t)x->layers, sizeof *a->ran);
    a->bucket = calloc((size_t)x->steps + 1, sizeof *a->bucket);
    if (!a->ran || !a->bucket) return sg_error_set(e, SG_E_MEMORY, "no memory for what attention does in each step");
    a->placed = a->bucket + x->steps;
    for (int i = 0; x->timesteps && i < x->steps; i++) a->bucket[i] = bucket_of(a, x->timesteps[i]);
    a->shape.timesteps = NULL;
    return SG_OK;
}

sg_status sg_attention_open(sg_attention **out, const sg_policy *p, const sg_attention_shape *shape, sg_error *e)
{
    *out = NULL;
    SG_TRY(check_shape(shape, e));
    sg_attention *a = calloc(1, sizeof *a);
    if (!a) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    a->p = *p;
    a->shape = *shape;
    a->t = shape->tuned ? shape->tuned : &a->own;
    const bool made = shape->tuned || sg_thresholds_of_policy(&a->own, p, (int)shape->h);
    a->f8 = made && takes_f8(a);
    a->q_block = a->f8 && takes_longer(a) ? SG_BLOCK_Q_F8 : SG_BLOCK_Q;
    a->nq = sg_div_up(shape->n, a->q_block);
    a->nk = sg_div_up(keys(a), SG_BLOCK_K);
    const sg_status st = made ? bind(a, e) : sg_error_set(e, SG_E_MEMORY, "no memory for thresholds");
    if (st) sg_attention_close(&a);
    *out = a;
    return st;
}

void sg_attention_close(sg_attention **a)
{
    if (!*a) return;
    free((*a)->ran);
    free((*a)->bucket);
    sg_thresholds_release(&(*a)->own);
    free(*a);
    *a = NULL;
}

sg_attention_kind sg_attention_kind_of(const sg_attention *a, int layer, int step, sg_attention_why *why)
{
    sg_attention_why w = SG_WHY_POLICY;
    if (a->p.kind == SG_ATTENTION_DENSE)
        ;
    else if (a->shape.values == SG_F32)
        w = SG_WHY_BACKEND;
    else if (tokens(a) < (a->p.named ? SG_NAMED_TOKENS : SG_TOKENS))
        w = SG_WHY_SHORT;
    else if (step < a->dense_steps)
        w = SG_WHY_STEP;
    else if (sg_layers_have(a->p.dense_layers, layer))
        w = SG_WHY_LAYER;
    if (why) *why = w;
    return w == SG_WHY_POLICY ? a->p.kind : w == SG_WHY_STEP ? a->p.dense_steps_kind : SG_ATTENTION_DENSE;
}

/* ---- what a stream keeps ---- */

/* The row of thresholds of this layer in this bucket: one of each layer's, or the one of all. */
static int row_in(const sg_attention *a, int bucket, int layer) { return bucket * a->t->layers + layer % a->t->layers; }

/* Where a row stands on the device. */
static int place_of(const sg_attention *a, int row) { return row % a->t->layers; }

/* Whether some head of this row judges blocks by self-similarity. */
static bool judges(const sg_attention *a, int row)
{
    for (int64_t i = 0; i < a->shape.h; i++)
        if (a->t->theta[row * a->shape.h + i] >= 0) return true;
    return false;
}

/* Whether a layer that skips blocks runs the same ops in both buckets. */
static bool same_ops(const sg_attention *a, int layer, int bucket, int other)
{
    const int row = row_in(a, bucket, layer), at = row_in(a, other, layer);
    return judges(a, row) == judges(a, at) && filters(a, row) == filters(a, at);
}

int sg_attention_same_steps(const sg_attention *a, int step)
{
    const int *const b = a->bucket;
    for (int n = step + 1; n < a->shape.steps; n++)
        for (int layer = 0; layer < a->shape.layers; layer++) {
            const sg_attention_kind kind = sg_attention_kind_of(a, layer, step, NULL);
            if (sg_attention_kind_of(a, layer, n, NULL) != kind) return n - step;
            if (kind == SG_ATTENTION_SPARGE && b[n] != b[n - 1] && !same_ops(a, layer, b[step], b[n])) return n - step;
        }
    return a->shape.steps - step;
}

static void upload_thresholds(const sg_attention *a, sg_stream *s, int bucket)
{
    const sg_thresholds *const t = a->t;
    const int64_t              n = t->layers * a->shape.h, from = bucket * n;
    float *const               host = calloc((size_t)(3 * n), sizeof *host);
    if (!host) sg_fail(s, SG_E_MEMORY, "no memory for thresholds");
    for (int64_t i = 0; host && i < n; i++) {
        const float amount = t->amount[from + i], pv = t->pv_threshold[from + i];
        host[i] = amount >= 1 && t->rule == SG_SELECT_MASS ? 2 : amount; /* all of it, whatever the sums round to */
        host[n + i] = t->theta[from + i];
        host[2 * n + i] = pv > 0 ? pv : INFINITY; /* for attend_blocks: 0 would skip all below the maximum */
    }
    if (host) sg_upload(s, a->thresholds, host);
    free(host);
    *a->placed = bucket;
}

void sg_attention_set_timestep(const sg_attention *a, sg_stream *s, double timestep)
{
    const int bucket = bucket_of(a, timestep);
    if (a->skips && s->memory->alloc && bucket != *a->placed) upload_thresholds(a, s, bucket);
}

/* Whether a block of queries, or of keys, has text in it. */
static bool has_text(const sg_attention_shape *x, int64_t block, int64_t size)
{
    return block * size < x->text_prefix || (x->text_suffix > 0 && (block + 1) * size > x->n - x->text_suffix);
}

/* Lists the blocks of keys, of the first `visible`, that block i of a head's queries keeps: those of the mask, and all
 * that are a matter of text. Returns how many. */
static int32_t list_masked(uint16_t *list, const sg_attention_shape *x, int64_t head, int64_t i, int64_t visible)
{
    const int64_t *const dim = x->mask.dim;
    const uint8_t *const row = (const uint8_t *)x->mask.data + ((dim[0] > 1 ? head : 0) * dim[1] + i) * dim[2];
    const bool           all = has_text(x, i, SG_BLOCK_Q);
    int32_t              count = 0;
    for (int64_t j = 0; j < visible; j++)
        if (all || row[j] || has_text(x, j, SG_BLOCK_K)) list[count++] = (uint16_t)j;
    return count;
}

/* The mask becomes lists, and the counters of all slots what they keep. */
static void upload_lists(const sg_attention *a, sg_stream *s)
{
    const int64_t   h = a->shape.h, rows = h * a->nq, numbers = sg_count(a->mass);
    uint16_t *const list = calloc((size_t)(rows * a->nk), sizeof *list);
    int32_t *const count = calloc((size_t)(rows + 2 * numbers), sizeof *count), *const kept = count + rows;
    float *const mass = calloc((size_t)numbers, sizeof *mass);
    if (!list || !count || !mass) sg_fail(s, SG_E_MEMORY, "no memory for %lld lists of blocks", (long long)rows);
    for (int64_t row = 0; !s->status && row < rows; row++)
        count[row] = list_masked(list + row * a->nk, &a->shape, row / a->nq, row % a->nq, seen(a, row % a->nq));
    for (int64_t at = 0; !s->status && at < numbers; at++) {
        const int32_t *const own = count + at % h * a->nq;
        for (int64_t i = 0; i < a->nq; i++) kept[2 * at] += own[i];
        kept[2 * at + 1] = own[a->nq - 1];
        mass[at] = 1; /* nothing is predicted */
    }
    sg_upload(s, a->list, list);
    sg_upload(s, a->count, count);
    sg_upload(s, a->kept, kept);
    sg_upload(s, a->mass, mass);
    free(list);
    free(count);
    free(mass);
}

void sg_attention_upload(sg_attention *a, sg_stream *s)
{
    const sg_attention_shape *const x = &a->shape;
    const int64_t                   slots = (int64_t)x->passes * x->layers;
    const bool                      computes = s->memory->alloc != NULL; /* a plan has no data */
    memset(a->ran, 0, (size_t)(x->steps * slots) * sizeof *a->ran);
    if (!a->skips) return;
    a->kept = sg_new_keep(s, SG_I32, slots, x->h, 2);
    a->mass = sg_new_keep(s, SG_F32, slots, x->h);
    a->skipped = sg_new_keep(s, SG_F32, slots, x->h, 2);
    sg_tensor *const part[3] = {&a->amount, &a->theta, &a->pv_threshold};
    a->thresholds = sg_new_keep(s, SG_F32, 3, a->t->layers, x->h);
    for (int k = 0; k < 3; k++) *part[k] = sg_reshape(sg_rows(a->thresholds, k, 1), a->t->layers, x->h);
    if (computes) upload_thresholds(a, s, 0);
    if (a->t->rule != SG_SELECT_GIVEN) return;
    a->list = sg_new_keep(s, SG_U16, x->h, a->nq, a->nk);
    a->count = sg_new_keep(s, SG_I32, x->h, a->nq);
    if (computes) upload_lists(a, s);
}

/* The slot in [passes][layers]. It is the same in all steps, so that all steps issue the same ops. */
static int slot_of(const sg_attention *a, int layer, int pass) { return pass * a->shape.layers + layer; }

/* Returns the part of one row or slot, [h] or [h, 2]. */
static sg_tensor heads_at(sg_tensor t, int64_t i)
{
    const sg_tensor row = sg_rows(t, i, 1);
    return row.rank == 3 ? sg_reshape(row, row.dim[1], row.dim[2]) : sg_reshape(row, row.dim[1]);
}

/* ---- dense ---- */

/* On a plan of single ops tensors may have no place. */
static bool in_place(sg_tensor y, sg_tensor x) { return y.data && y.data == x.data; }

/* Where y is to take the place of q, fewer rows are attended at a time, so that the result takes little memory. */
static void attend_dense(const sg_attention *a, sg_stream *s, const sg_attend_args *x)
{
    const bool    over_q = in_place(x->y, x->q);
    const int64_t n = a->shape.n, before = keys(a) - n;
    const size_t  mark = s->scratch.used;
    for (int64_t first = 0, count; first < n; first += count, s->scratch.used = mark) {
        count = over_q ? sg_rows_at_once(s, n - first) : n;
        const int64_t  m = a->shape.causal ? before + first + count : keys(a);
        sg_attend_args own = {.y = sg_rows(x->y, first, count),
                              .q = sg_rows(x->q, first, count),
                              .k = sg_rows(x->k, 0, m),
                              .v = sg_rows(x->v, 0, m),
                              .scale = x->scale,
                              .causal = a->shape.causal};
        if (over_q) own.y = sg_alloc(s, &s->scratch, own.q.dtype, own.q.rank, own.q.dim);
        sg_attend_(s, &own);
        if (over_q) sg_copy(s, .y = sg_rows(x->y, first, count), .x = own.y);
    }
}

/* ---- quantised ---- */

typedef struct call {
    const sg_attention   *a;
    sg_stream            *s;
    const sg_attend_args *x;
    int                   layer, row, slot;
    bool                  sparse, tail, error, biased;
    sg_arena              spare;    /* q's place, where y takes that of k */
    sg_tensor             k_center; /* F32 [hk, d] */
    sg_tensor             score, q_similarity, k_similarity, theta;
    sg_dtype              values; /* for attend_blocks: I8 or F8; BF16: v as given */
    sg_attend_blocks_args b;
} call;

/* Returns a tensor that is written when q is read no more: in q's place, where that is spare and has room, else in
 * scratch. */
static sg_tensor new_after_q(call *c, sg_dtype type, int rank, const int64_t *dim)
{
    sg_tensor t = {.dtype = type, .rank = rank};
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    const bool fits = sg_aligned(sg_bytes(t)) <= c->spare.cap - c->spare.used;
    return sg_alloc(c->s, fits ? &c->spare : &c->s->scratch, type, rank, dim);
}
#define NEW_AFTER_Q(c, type, ...) new_after_q(c, type, SG_DIMS(__VA_ARGS__))

/* Of every `block` rows of p->x. */
static sg_tensor new_means(call *c, const sg_pool_args *p, int64_t block)
{
    const int64_t dim[] = {sg_div_up(p->x.dim[0], block), p->x.dim[1], p->x.dim[2]};
    return p->x.data == c->x->q.data ? sg_alloc(c->s, &c->s->scratch, SG_F32, 3, dim) : new_after_q(c, SG_F32, 3, dim);
}

/* Pools p->x. Allocates means, variances and means of sub-blocks where they are absent. */
static void pool(call *c, sg_pool_args *p, bool var, bool sub)
{
    if (!p->mean.rank) p->mean = new_means(c, p, p->block);
    if (var) p->var = new_means(c, p, p->block);
    if (sub) p->sub = new_means(c, p, SG_BLOCK_SUB);
    sg_pool_(c->s, p);
}

static sg_dtype values_of(const sg_attention *a, bool sparse)
{
    static const sg_dtype named[] = {[SG_PV_BF16] = SG_BF16, [SG_PV_FP8] = SG_F8, [SG_PV_INT8] = SG_I8};
    if (a->p.pv_dtype != SG_PV_AUTO) return named[a->p.pv_dtype];
    return sparse && a->f8 ? SG_F8 : a->shape.values;
}

/* n tokens of v as I8 or F8. */
static sg_tensor packed_values(call *c, int64_t n)
{
    const int64_t hk = c->a->shape.hk, d = c->a->shape.d;
    return c->values == SG_F8 ? NEW_AFTER_Q(c, SG_F8, hk, d, sg_f8_row(n)) : NEW_AFTER_Q(c, SG_I8, hk, n, d);
}

/* Allocates what attend_blocks reads. */
static void take_room(call *c)
{
    sg_stream *const s = c->s;
    const int64_t    nq = c->a->nq, nk = c->a->nk, h = c->a->shape.h, hk = c->a->shape.hk, d = c->a->shape.d;
    const bool       packs = c->values != SG_BF16, given = c->a->t->rule == SG_SELECT_GIVEN;
    c->b.q = sg_new(s, SG_I8, h, c->a->shape.n, d);
    c->b.q_scale = sg_new(s, SG_F32, sg_div_up(c->a->shape.n, Q_GROUP), h);
    c->b.k = NEW_AFTER_Q(c, SG_I8, hk, keys(c->a), d);
    c->b.k_scale = NEW_AFTER_Q(c, SG_F32, sg_div_up(keys(c->a), K_GROUP), hk);
    c->k_center = NEW_AFTER_Q(c, SG_F32, hk, d);
    c->b.v = c->x->v;
    if (packs) {
        c->b.v = packed_values(c, keys(c->a));
        c->b.v_scale = NEW_AFTER_Q(c, SG_F32, hk, d);
        c->b.v_center = NEW_AFTER_Q(c, SG_F32, hk, d);
    }
    if (!c->sparse) return;
    c->b.list = given ? c->a->list : NEW_AFTER_Q(c, SG_U16, h, nq, nk);
    c->b.count = given ? c->a->count : NEW_AFTER_Q(c, SG_I32, h, nq);
    if (!c->tail) return;
    c->b.tail_k = NEW_AFTER_Q(c, SG_I8, hk, nk, d);
    c->b.tail_k_scale = NEW_AFTER_Q(c, SG_F32, sg_div_up(nk, SG_BLOCK_K), hk);
    c->b.tail_v = packs ? packed_values(c, nk) : NEW_AFTER_Q(c, SG_F32, nk, hk, d);
    if (c->biased) c->b.tail_bias = NEW_AFTER_Q(c, SG_F32, h, nq, nk);
}

/* Takes values as given or quantises them by channel about their mean, and their means for the tail. Returns the
 * variances. */
static sg_tensor take_values(call *c)
{
    const bool   packs = c->values != SG_BF16;
    sg_pool_args v = {.total = c->b.v_center, .channel_scale = c->b.v_scale, .x = c->x->v, .block = SG_BLOCK_K};
    if (!packs) v.mean = c->b.tail_v;
    if (packs || c->tail || c->error) pool(c, &v, c->error, false);
    if (packs) {
        sg_quantise(c->s, .y = c->b.v, .scale = c->b.v_scale, .x = c->x->v, .center = c->b.v_center);
        if (c->tail) sg_quantise(c->s, .y = c->b.tail_v, .scale = c->b.v_scale, .x = v.mean, .center = c->b.v_center);
    }
    return v.var;
}

/* Scores all pairs of blocks. */
static void score(call *c, const sg_pool_args *q, const sg_pool_args *k, sg_tensor v_var)
{
    const sg_attention *const       a = c->a;
    const sg_attention_shape *const x = &a->shape;
    sg_stream *const                s = c->s;
    const bool                      sub = a->p.score != SG_SCORE_MEAN;
    c->score = NEW_AFTER_Q(c, SG_F32, x->h, a->nq, a->nk);
    if (judges(a, c->row)) {
        c->q_similarity = sg_new(s, SG_F32, a->nq, x->h);
        c->k_similarity = sg_new(s, SG_F32, a->nk, x->hk);
        c->theta = heads_at(a->theta, place_of(a, c->row));
        sg_self_similarity(s, .y = c->q_similarity, .x = c->x->q, .block = (int)c->a->q_block);
        sg_self_similarity(s, .y = c->k_similarity, .x = c->x->k, .center = c->k_center, .block = SG_BLOCK_K);
    }
    sg_score(s, .y = c->score, .q = sub ? q->sub : q->mean, .k = sub ? k->sub : k->mean, .k_center = c->k_center,
             .k_var = c->error ? k->var : (sg_tensor){0}, .v_var = v_var, .q_similarity = c->q_similarity,
             .k_similarity = c->k_similarity, .theta = c->theta, .scale = c->x->scale, .sub = sub, .ragged = sub,
             .causal = a->shape.causal, .q_block = (int)a->q_block, .n = x->n, .m = keys(a),
             .text_prefix = x->text_prefix,
             .text_suffix = x->text_suffix);
    sg_tap(s, c->score, "attention.%d.score", c->layer);
}

/* Selects the pairs that the thresholds of c->row keep. */
static void choose(const call *c)
{
    const sg_attention *const       a = c->a;
    const sg_attention_shape *const x = &a->shape;
    const bool                      sub = a->p.score != SG_SCORE_MEAN;
    sg_select(c->s, .list = c->b.list, .count = c->b.count, .kept = heads_at(a->kept, c->slot),
              .mass = heads_at(a->mass, c->slot), .score = c->score, .amount = heads_at(a->amount, place_of(a, c->row)),
              .q_similarity = c->q_similarity, .k_similarity = c->k_similarity, .theta = c->theta, .rule = a->t->rule,
              .heads = a->p.budget && !a->shape.tuned && a->t->rule == SG_SELECT_TOPK, .ragged = sub,
              .causal = a->shape.causal, .count_hidden = a->shape.causal && a->p.count_hidden, .sink = a->p.sink,
              .q_block = (int)a->q_block, .n = x->n, .m = keys(a), .text_prefix = x->text_prefix, .text_suffix = x->text_suffix);
}

/* Pools keys and quantises them about a center that is known before they are read. */
static sg_pool_args keys_of(const call *c)
{
    return (sg_pool_args){
        .center = c->k_center, .y = c->b.k, .scale = c->b.k_scale, .x = c->x->k, .block = SG_BLOCK_K, .group = K_GROUP};
}

static void predict(call *c)
{
    const sg_attention *const a = c->a;
    const bool                given = a->t->rule == SG_SELECT_GIVEN, sub = a->p.score != SG_SCORE_MEAN && !given;
    sg_pool_args              k = keys_of(c);
    sg_pool_args              q = {
        .x = c->x->q, .block = (int)a->q_block, .y = c->b.q, .scale = c->b.q_scale, .group = Q_GROUP};
    pool(c, &q, c->biased, sub);
    pool(c, &k, c->biased || c->error, sub);
    const sg_tensor v_var = take_values(c);
    if (!given) score(c, &q, &k, v_var);
    if (c->tail)
        sg_quantise(c->s, .y = c->b.tail_k, .scale = c->b.tail_k_scale, .x = k.mean, .center = c->k_center,
                    .group = SG_BLOCK_K);
    if (c->biased)
        sg_tail_bias(c->s, .y = c->b.tail_bias, .q_mean = q.mean, .q_var = q.var, .k_var = k.var,
                     .rule = a->p.tail_bias == SG_TAIL_BIAS_HALF ? SG_TAIL_HALF : SG_TAIL_RANK1, .scale = c->x->scale);
}

/* Makes what q, k and v decide. */
static void prepare(call *c)
{
    take_room(c);
    if (c->sparse) {
        predict(c);
    } else {
        sg_pool_args k = keys_of(c);
        sg_quantise(c->s, .y = c->b.q, .scale = c->b.q_scale, .x = c->x->q, .group = Q_GROUP);
        pool(c, &k, false, false);
        take_values(c);
    }
}

/* Attends as the thresholds of c->row decide. */
static void attend_prepared(call *c)
{
    if (c->sparse) {
        const bool filter = filters(c->a, c->row);
        if (c->a->t->rule != SG_SELECT_GIVEN) choose(c);
        sg_tap(c->s, c->b.list, "attention.%d.list", c->layer);
        sg_tap(c->s, c->b.count, "attention.%d.count", c->layer);
        c->b.pv_threshold = filter ? heads_at(c->a->pv_threshold, place_of(c->a, c->row)) : (sg_tensor){0};
        c->b.skips = filter ? heads_at(c->a->skipped, c->slot) : (sg_tensor){0};
    }
    sg_attend_blocks_(c->s, &c->b);
}

/* With the thresholds of that row. */
static call call_of(const sg_attention *a, sg_stream *s, int layer, int row, int slot, bool sparse,
                    const sg_attend_args *args)
{
    return (call){.a = a,
                  .s = s,
                  .x = args,
                  .layer = layer,
                  .row = row,
                  .slot = slot,
                  .sparse = sparse,
                  .tail = sparse && a->p.tail,
                  .error = sparse && a->p.score == SG_SCORE_ERROR && a->t->rule != SG_SELECT_GIVEN,
                  .biased = sparse && a->p.tail && a->p.tail_bias != SG_TAIL_BIAS_NONE,
                  .values = values_of(a, sparse),
                  .spare = {.base = (uintptr_t)args->q.data, .cap = in_place(args->y, args->k) ? sg_bytes(args->q) : 0},
                  .b = {.y = args->y,
                        .q_group = Q_GROUP,
                        .k_group = K_GROUP,
                        .pv_group = SG_PV_GROUP,
                        .q_block = sparse ? (int)a->q_block : 0,
                        .scale = args->scale,
                        .causal = a->shape.causal}};
}

static void attend_quantised(call c)
{
    const size_t outer = c.s->scratch.used;
    prepare(&c);
    attend_prepared(&c);
    c.s->scratch.used = outer;
}

void sg_attention_run_buckets(const sg_attention *a, sg_stream *s, const sg_attend_args *args,
                              sg_attention_visit *visit, void *context)
{
    const size_t outer = s->scratch.used;
    call         c = call_of(a, s, 0, 0, 0, true, args);
    prepare(&c);
    for (int bucket = 0; bucket < a->t->buckets && !s->status; bucket++) {
        c.row = row_in(a, bucket, 0);
        *ran_in(a, 0) = c.row + 1;
        if (s->memory->alloc && bucket != *a->placed) upload_thresholds(a, s, bucket);
        attend_prepared(&c);
        visit(context, s, bucket);
    }
    s->scratch.used = outer;
}

sg_tensor sg_attention_spare(const sg_attention *a, int layer, int step, sg_tensor q, sg_tensor k)
{
    const sg_attention_shape *const x = &a->shape;
    const sg_attention_kind         kind = sg_attention_kind_of(a, layer, step, NULL);
    bool                            kept = x->h != x->hk || x->m || x->watch.on_end;
    if (kind == SG_ATTENTION_DENSE) return q;
    for (int bucket = 0; bucket < a->t->buckets && kind == SG_ATTENTION_SPARGE; bucket++)
        kept = kept || judges(a, row_in(a, bucket, layer)); /* which reads q and k once more */
    return kept ? (sg_tensor){0} : k;
}

void sg_attention_run(const sg_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                      const sg_attend_args *args)
{
    const sg_attention_kind kind = sg_attention_kind_of(a, layer, step, NULL);
    const int               row = row_in(a, bucket_of(a, timestep), layer), slot = slot_of(a, layer, pass);
    const bool              sparse = kind == SG_ATTENTION_SPARGE;
    ran_in(a, step)[slot] = row + 1;
    if (sparse) sg_attention_set_timestep(a, s, timestep);
    if (a->shape.watch.on_begin)
        a->shape.watch.on_begin(a->shape.watch.on_begin_context, s, &a->shape, layer, step, pass, timestep, args);
    sg_tap(s, args->q, "attention.%d.q", layer);
    sg_tap(s, args->k, "attention.%d.k", layer);
    sg_tap(s, args->v, "attention.%d.v", layer);
    if (kind == SG_ATTENTION_DENSE)
        attend_dense(a, s, args);
    else
        attend_quantised(call_of(a, s, layer, row, slot, sparse, args));
    sg_tap(s, args->y, "attention.%d.y", layer);
    if (a->shape.watch.on_end && kind != SG_ATTENTION_DENSE)
        a->shape.watch.on_end(a->shape.watch.on_end_context, s, &a->shape, layer, step, pass, timestep, args);
}
