/* tune.c - see tune.h. Takes samples, sums their errors, which cpu/vec_tune.c computes, and chooses thresholds. */
#include "tune.h"

#include "tune_block.h"

#include <math.h>
#include <stdlib.h>

/* Candidate amounts, finest where a step changes the error least. They are shares, so all lengths have the same ones.
 */
static const float shares[SG_TUNE_AMOUNTS] = {.01f, .02f, .03f, .04f,  .05f, .06f,  .07f, .08f, .1f,  .12f, .14f,
                                              .16f, .18f, .2f,  .225f, .25f, .275f, .3f,  .33f, .36f, .4f,  .44f,
                                              .48f, .52f, .56f, .6f,   .65f, .7f,   .75f, .8f,  .9f,  1.0f};
static const float masses[SG_TUNE_AMOUNTS] = {.02f, .05f, .1f,  .15f, .2f,  .25f,  .3f,  .35f,  .4f,   .45f, .5f,
                                              .55f, .6f,  .65f, .7f,  .74f, .78f,  .82f, .85f,  .88f,  .9f,  .92f,
                                              .94f, .95f, .96f, .97f, .98f, .985f, .99f, .995f, .999f, 1.0f};
static const float pv_thresholds[SG_TUNE_PV_THRESHOLDS] = {20, 16, 13, 11, 9.5f, 8, 7, 6, 5, 4, 3, 2};

enum { LAST = SG_TUNE_AMOUNTS - 1 };

/* One head in one bucket. */
typedef struct curve {
    sg_tune_loss seen, held; /* for the choice, and for checking it */
    double       worst[SG_TUNE_AMOUNTS], kept[SG_TUNE_AMOUNTS], blocks;
} curve;

struct sg_tune {
    sg_tune_options    o;
    sg_attention_shape shape; /* of the first call; layers is 0 before */
    sg_tune_kernel    *kernel;
    const float       *amounts;
    curve             *curve;    /* [buckets, layers, heads] */
    double            *timestep; /* [steps]; NaN: not seen */
    float             *numbers;  /* of thresholds */
    sg_thresholds      thresholds;
    sg_tune_figure    *figure;
    double             seconds;
};

/* One call of attention, in F32 and in blocks. */
typedef struct call {
    const sg_tune        *t;
    const sg_attend_args *a;
    int64_t               n, h, hk, d, nq, nk, text_prefix, text_suffix;
    int                   layer, step, pass;
    sg_tensor             score, bias, k_mean, v_mean; /* host */
} call;

/* A block of queries of a head. */
typedef struct sample {
    int64_t      head, block;
    int          filter;
    bool         held;
    float        kept[SG_TUNE_AMOUNTS]; /* share */
    sg_tune_loss loss;
} sample;

int64_t sg_tune_wide(int64_t d) { return sg_div_up(d, 64) * 64; }

size_t sg_tune_work_count(const sg_tune_keys *k)
{
    const int64_t nk = sg_div_up(k->m, SG_BLOCK_K), tile = SG_TUNE_ROWS * SG_BLOCK_K, wide = sg_tune_wide(k->d);
    const int64_t rows = SG_TUNE_ROWS * (wide + 1);
    return (size_t)((nk + sg_div_up(nk, SG_BLOCK_K) + 1) * tile + (SG_TUNE_AMOUNTS + 3) * rows +
                    nk * (SG_TUNE_ROWS + 1));
}

/* ---- opening ---- */

static sg_tune_kernel *kernel_of(unsigned features)
{
    if (features & SG_CPU_AVX512) return sg_vec_tune_avx512;
    return features & SG_CPU_AVX2 ? sg_vec_tune_avx2 : sg_vec_tune_base;
}

sg_status sg_tune_open(sg_tune **out, const sg_tune_options *o, sg_error *e)
{
    *out = NULL;
    if (o->policy.rule != SG_SELECT_TOPK && o->policy.rule != SG_SELECT_MASS)
        return sg_error_set(e, SG_E_ARG, "tuning is for a share of the blocks or of the mass, not for a given mask");
    if (o->policy.causal) return sg_error_set(e, SG_E_ARG, "causal attention cannot be tuned");
    if (!(o->l1 > 0) || !(o->l2 >= o->l1) || !isfinite(o->l2))
        return sg_error_set(e, SG_E_ARG,
                            "bounds of the error are %g and %g; they must be above 0, the second not below the first",
                            o->l1, o->l2);
    if (!(o->least >= 0 && o->least <= 1)) return sg_error_set(e, SG_E_ARG, "%g is no least amount", o->least);
    if (o->buckets < 1 || o->every < 0) return sg_error_set(e, SG_E_ARG, "%d buckets", o->buckets);
    unsigned features;
    SG_TRY(sg_cpu_features_of(&features, o->cpu_mask, e));
    sg_tune *const t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory to tune");
    t->o = *o;
    if (!o->every) t->o.every = SG_TUNE_EVERY;
    t->kernel = kernel_of(features);
    t->amounts = o->policy.rule == SG_SELECT_TOPK ? shares : masses;
    *out = t;
    return SG_OK;
}

void sg_tune_close(sg_tune **t)
{
    if (!*t) return;
    free((*t)->curve);
    free((*t)->timestep);
    free((*t)->numbers);
    free((*t)->figure);
    free(*t);
    *t = NULL;
}

/* The first call fixes the numbers of steps, layers and heads. */
static bool prepare(sg_tune *t, sg_stream *s, const sg_attention_shape *shape)
{
    const sg_attention_shape *const had = &t->shape;
    if (had->layers) {
        if (had->layers == shape->layers && had->steps == shape->steps && had->h == shape->h) return true;
        sg_fail(s, SG_E_ARG, "tuning: all renders must have as many steps, layers and heads as the first");
        return false;
    }
    if (t->o.buckets > shape->steps) t->o.buckets = shape->steps;
    t->curve = calloc((size_t)t->o.buckets * (size_t)shape->layers * (size_t)shape->h, sizeof *t->curve);
    t->timestep = malloc((size_t)shape->steps * sizeof *t->timestep);
    if (!t->curve || !t->timestep) {
        sg_fail(s, SG_E_MEMORY, "no memory to tune %d layers of %lld heads", shape->layers, (long long)shape->h);
        return false;
    }
    for (int i = 0; i < shape->steps; i++) t->timestep[i] = NAN;
    t->shape = *shape;
    return true;
}

static int64_t place(const sg_tune *t, int bucket, int layer, int64_t head)
{
    return ((int64_t)bucket * t->shape.layers + layer) * t->shape.h + head;
}

static int bucket_of(const sg_tune *t, int step) { return (int)((int64_t)step * t->o.buckets / t->shape.steps); }

/* ---- the choice ---- */

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* The smallest amount, not below `least`, from which on all errors are within the bound; LAST where the head would gain
 * too little. */
static int choose_amount(const sg_tune *t, const curve *c)
{
    int a = LAST;
    while (a > 0 && t->amounts[a - 1] >= (float)t->o.least && c->seen.size > 0 &&
           c->seen.error[a - 1] <= t->o.l1 * c->seen.size)
        a--;
    return c->kept[a] <= 0.9 * c->blocks ? a : LAST;
}

/* The error of an amount with a filter. The filter's contribution was measured at nearby amounts. */
static double filtered(const sg_tune_loss *l, int amount, int pv_threshold)
{
    return ratio(l->error[amount], l->size) + ratio(l->filtered[pv_threshold] - l->filter_error, l->filter_size);
}

/* The smallest pv_threshold from which on all errors are within the bound; -1: none, or it skips too little. */
static int choose_pv_threshold(const sg_tune *t, const curve *c, int amount)
{
    const sg_tune_loss *const l = &c->seen;
    int                       i = -1;
    if (!(t->o.l2 > t->o.l1)) return -1;
    while (i + 1 < SG_TUNE_PV_THRESHOLDS && l->filter_size > 0 && filtered(l, amount, i + 1) <= t->o.l2) i++;
    return i >= 0 && l->skipped[i] >= 0.02 * l->filter_blocks ? i : -1;
}

/* The amount to try filters on: the choice by all calls so far; -1: none yet, or the choice skips nothing. */
static int filter_of(const sg_tune *t, const call *c, int64_t head)
{
    for (int b = bucket_of(t, c->step); b >= 0; b--) {
        const curve *const known = &t->curve[place(t, b, c->layer, head)];
        const int          a = choose_amount(t, known);
        if (known->seen.size > 0) return a < LAST ? a : -1;
    }
    return -1;
}

/* ---- what is kept ---- */

typedef struct scored {
    float   score;
    int32_t block;
    bool    fixed;
} scored;

static int by_score(const void *a, const void *b)
{
    const scored *const x = a, *const y = b;
    return x->score != y->score ? (x->score < y->score ? 1 : -1) : x->block - y->block;
}

static bool is_fixed(const call *c, int64_t j)
{
    const int64_t from = j * SG_BLOCK_K, to = from + SG_BLOCK_K;
    return to > c->n - c->text_suffix || from < c->text_prefix || j < c->t->o.policy.sink;
}

/* How many of the best blocks the rule takes. */
static int64_t taken(const call *c, const scored *by, double sum, float amount)
{
    if (amount >= 1) return c->nk;
    if (c->t->o.policy.rule == SG_SELECT_TOPK) return (int64_t)fmaxf(1, floorf(amount * (float)c->nk));
    double  mass = 0;
    int64_t i = 0;
    while (i < c->nk && (mass += (double)by[i].score) <= (double)amount * sum) i++;
    return i > 0 ? i : 1;
}

/* rank and count of sg_tune_rows for a block of queries: fixed blocks first, then by score. */
static void rank_blocks(const call *c, sample *m, scored *by, int32_t *rank, int32_t *count)
{
    const float *const score = (const float *)c->score.data + (m->head * c->nq + m->block) * c->nk;
    double             sum = 0;
    int32_t            at = 0;
    int64_t            best = 0;
    for (int64_t j = 0; j < c->nk; j++) {
        by[j] = (scored){score[j], (int32_t)j, is_fixed(c, j)};
        sum += (double)score[j];
    }
    qsort(by, (size_t)c->nk, sizeof *by, by_score);
    for (int64_t j = 0; j < c->nk; j++)
        if (is_fixed(c, j)) rank[at++] = (int32_t)j;
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) {
        for (const int64_t end = taken(c, by, sum, c->t->amounts[a]); best < end; best++)
            if (!by[best].fixed) rank[at++] = by[best].block;
        count[a] = at;
        m->kept[a] = (float)at / (float)c->nk;
    }
}

/* ---- one call ---- */

static sg_tensor host_of(sg_stream *s, sg_dtype type, int64_t a, int64_t b, int64_t c)
{
    sg_tensor t = {.dtype = type, .rank = 3, .dim = {a, b, c}};
    t.data = aligned_alloc(SG_ALIGN, (sg_bytes(t) + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN);
    if (!t.data)
        sg_fail(s, SG_E_MEMORY, "no memory to tune %lld x %lld x %lld", (long long)a, (long long)b, (long long)c);
    return t;
}

static sg_tensor host(sg_stream *s, int64_t a, int64_t b, int64_t c) { return host_of(s, SG_F32, a, b, c); }

/* The policy's own predictor, for all blocks. */
static void predict(call *c, sg_stream *s)
{
    const sg_policy *const p = &c->t->o.policy;
    const bool             sub = p->score != SG_SCORE_MEAN, by_error = p->score == SG_SCORE_ERROR;
    const bool             biased = p->tail && p->tail_bias != SG_TAIL_BIAS_NONE;
    const int64_t          fine = sg_div_up(c->n, SG_BLOCK_SUB), h = c->h, hk = c->hk, d = c->d;
    sg_tensor              t[7];
    enum { Q, Q_VAR, Q_SUB, K_VAR, K_SUB, V_VAR };
    t[Q] = host(s, c->nq, h, d), t[Q_VAR] = host(s, c->nq, h, d), t[Q_SUB] = host(s, fine, h, d);
    t[K_VAR] = host(s, c->nk, hk, d), t[K_SUB] = host(s, fine, hk, d), t[V_VAR] = host(s, c->nk, hk, d);
    c->k_mean = host(s, c->nk, hk, d), c->v_mean = host(s, c->nk, hk, d), c->score = host(s, h, c->nq, c->nk);
    if (biased) c->bias = host(s, h, c->nq, c->nk);
    const sg_tensor none = {0};
    sg_pool(s, .mean = t[Q], .var = t[Q_VAR], .sub = t[Q_SUB], .x = c->a->q, .block = SG_BLOCK_Q);
    sg_pool(s, .mean = c->k_mean, .var = t[K_VAR], .sub = t[K_SUB], .x = c->a->k, .block = SG_BLOCK_K);
    sg_pool(s, .mean = c->v_mean, .var = t[V_VAR], .x = c->a->v, .block = SG_BLOCK_K);
    sg_score(s, .y = c->score, .q = sub ? t[Q_SUB] : t[Q], .k = sub ? t[K_SUB] : c->k_mean,
             .k_var = by_error ? t[K_VAR] : none, .v_var = by_error ? t[V_VAR] : none, .scale = c->a->scale, .sub = sub,
             .n = c->n, .m = c->n, .text_prefix = c->text_prefix, .text_suffix = c->text_suffix);
    if (biased)
        sg_tail_bias(s, .y = c->bias, .q_mean = t[Q], .q_var = t[Q_VAR], .k_var = t[K_VAR],
                     .rule = p->tail_bias == SG_TAIL_BIAS_HALF ? SG_TAIL_HALF : SG_TAIL_RANK1, .scale = c->a->scale);
    for (int i = Q; i <= V_VAR; i++) free(t[i].data);
}

/* count numbers of x from element `at` on. */
static void widen(float *y, const sg_tensor *x, int64_t at, int64_t count)
{
    if (x->dtype == SG_F32)
        memcpy(y, (const float *)x->data + at, (size_t)count * sizeof *y);
    else
        for (int64_t i = 0; i < count; i++) y[i] = sg_bf16_to_f32(((const uint16_t *)x->data)[at + i]);
}

/* Copies row t of x [.., heads, d], of that head, to the blocked transpose. */
static void put_column(float *blocks, const sg_tensor *x, int64_t t, int64_t head, float *row)
{
    const int64_t heads = x->dim[1], d = x->dim[2];
    float *const  y = blocks + t / SG_BLOCK_K * d * SG_BLOCK_K + t % SG_BLOCK_K;
    widen(row, x, (t * heads + head) * d, d);
    for (int64_t i = 0; i < d; i++) y[i * SG_BLOCK_K] = row[i];
}

/* The floats of a sg_tune_keys of n keys. */
static size_t keys_count(const call *c)
{
    const int64_t wide = sg_tune_wide(c->d), up = sg_div_up(c->nk, SG_BLOCK_K) * SG_BLOCK_K;
    return (size_t)(c->nk * SG_BLOCK_K * (c->d + wide) + up * c->d + c->nk * wide + c->d);
}

static sg_tune_keys pack_keys(const call *c, int64_t head, float *at)
{
    const int64_t wide = sg_tune_wide(c->d), up = sg_div_up(c->nk, SG_BLOCK_K) * SG_BLOCK_K;
    sg_tune_keys  k = {.m = c->n, .d = c->d};
    memset(at, 0, keys_count(c) * sizeof *at);
    k.k = at, at += c->nk * SG_BLOCK_K * c->d;
    k.v = at, at += c->nk * SG_BLOCK_K * wide;
    k.mean_k = at, at += up * c->d;
    k.mean_v = at, at += c->nk * wide;
    for (int64_t t = 0; t < c->n; t++) {
        put_column(k.k, &c->a->k, t, head, at);
        widen(k.v + t * wide, &c->a->v, (t * c->hk + head) * c->d, c->d);
    }
    for (int64_t j = 0; j < c->nk; j++) {
        put_column(k.mean_k, &c->k_mean, j, head, at);
        widen(k.mean_v + j * wide, &c->v_mean, (j * c->hk + head) * c->d, c->d);
    }
    return k;
}

/* What one thread works with. */
typedef struct bench {
    scored  *by;
    int32_t *rank;
    float   *work, *q, *bias;
} bench;

static bool bench_open(bench *b, const call *c)
{
    const size_t nk = (size_t)c->nk, work = sg_tune_work_count(&(sg_tune_keys){.m = c->n, .d = c->d});
    *b = (bench){.by = malloc(nk * sizeof *b->by),
                 .rank = malloc(nk * sizeof *b->rank),
                 .work = malloc((work + (size_t)(SG_TUNE_ROWS * c->d) + nk) * sizeof(float))};
    if (!b->by || !b->rank || !b->work) return false;
    b->q = b->work + work;
    b->bias = b->q + SG_TUNE_ROWS * c->d;
    return true;
}

static void bench_close(bench *b)
{
    free(b->by);
    free(b->rank);
    free(b->work);
}

static void measure(const call *c, const sg_tune_keys *keys, sample *m, bench *b)
{
    int32_t      count[SG_TUNE_AMOUNTS];
    sg_tune_rows r = {.q = b->q, .rank = b->rank, .count = count, .pv_threshold = pv_thresholds, .filter = m->filter};
    rank_blocks(c, m, b->by, b->rank, count);
    if (c->t->o.policy.tail) r.bias = b->bias;
    for (int64_t j = 0; j < c->nk; j++)
        b->bias[j] = c->bias.data ? ((const float *)c->bias.data)[(m->head * c->nq + m->block) * c->nk + j]
                                  : logf((float)SG_BLOCK_K);
    for (int64_t row = m->block * SG_BLOCK_Q; row < (m->block + 1) * SG_BLOCK_Q; row += SG_TUNE_ROWS) {
        for (int64_t i = 0; i < SG_TUNE_ROWS; i++)
            widen(b->q + i * c->d, &c->a->q, ((row + i) * c->h + m->head) * c->d, c->d);
        for (int64_t i = 0; i < SG_TUNE_ROWS * c->d; i++) b->q[i] *= c->a->scale;
        c->t->kernel(&m->loss, keys, &r, b->work);
    }
}

/* Chooses the blocks of queries of a head to sample in this call. They differ from call to call, so that all get
 * sampled, and between the heads of a layer. Returns how many; writes them unless the array is NULL. */
static int64_t choose_samples(const call *c, int64_t head, sample *out)
{
    const sg_tune *const t = c->t;
    const int64_t first = sg_div_up(c->text_prefix, SG_BLOCK_Q), blocks = (c->n - c->text_suffix) / SG_BLOCK_Q - first;
    const int64_t every = blocks / 2 < t->o.every ? (blocks > 1 ? blocks / 2 : 1) : t->o.every;
    int64_t       found = 0;
    for (int64_t i = (3 * c->step + 5 * c->pass + c->layer + 7 * head) % every; i < blocks; i += every, found++)
        if (out)
            out[found] = (sample){.head = head,
                                  .block = first + i,
                                  .filter = filter_of(t, c, head),
                                  .held = (i / every + c->step + head) % SG_TUNE_CHECKED == SG_TUNE_CHECKED - 1};
    return found;
}

static void add_loss(sg_tune_loss *to, const sg_tune_loss *l)
{
    to->size += l->size;
    to->filter_size += l->filter_size;
    to->filter_error += l->filter_error;
    to->filter_blocks += l->filter_blocks;
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) to->error[a] += l->error[a];
    for (int i = 0; i < SG_TUNE_PV_THRESHOLDS; i++) {
        to->filtered[i] += l->filtered[i];
        to->skipped[i] += l->skipped[i];
    }
}

/* The samples of one head of one call. */
static void add_samples(sg_tune *t, const call *c, const sample *m, int64_t count)
{
    if (!count) return;
    curve *const to = &t->curve[place(t, bucket_of(t, c->step), c->layer, m->head)];
    sg_tune_loss all = {0};
    for (int64_t i = 0; i < count; i++) {
        add_loss(m[i].held ? &to->held : &to->seen, &m[i].loss);
        add_loss(&all, &m[i].loss);
        for (int a = 0; a < SG_TUNE_AMOUNTS; a++) to->kept[a] += (double)m[i].kept[a];
        to->blocks++;
    }
    for (int a = 0; a < SG_TUNE_AMOUNTS; a++) to->worst[a] = fmax(to->worst[a], ratio(all.error[a], all.size));
}

/* Measures samples of the heads of queries that use heads of keys [from, to). */
static void observe_heads(sg_tune *t, const call *c, sg_stream *s, const sg_tune_keys *keys, int64_t from, int64_t to)
{
    const int64_t group = c->h / c->hk;
    int64_t       count = 0;
    for (int64_t head = from * group; head < to * group; head++) count += choose_samples(c, head, NULL);
    sample *const all = calloc((size_t)count + 1, sizeof *all);
    bool          whole = all;
    int64_t       at = 0;
    for (int64_t head = from * group; whole && head < to * group; head++) at += choose_samples(c, head, all + at);
#pragma omp parallel reduction(&& : whole)
    {
        bench b;
        whole = bench_open(&b, c) && whole;
#pragma omp for schedule(dynamic, 1)
        for (int64_t i = 0; i < count; i++)
            if (whole) measure(c, &keys[all[i].head / group - from], &all[i], &b);
        bench_close(&b);
    }
    if (!whole) sg_fail(s, SG_E_MEMORY, "no memory to tune %lld tokens", (long long)c->n);
    at = 0;
    for (int64_t head = from * group; whole && head < to * group; head++) {
        const int64_t of_head = choose_samples(c, head, NULL);
        add_samples(t, c, all + at, of_head);
        at += of_head;
    }
    free(all);
}

enum { KEYS_BYTES = 1 << 28 };

/* Takes as many heads at once as the buffer holds, so that threads have work. */
static void observe_call(sg_tune *t, const call *c, sg_stream *s)
{
    const size_t        one = keys_count(c), most = KEYS_BYTES / (one * sizeof(float));
    const int64_t       at_once = most < 1 ? 1 : most < (size_t)c->hk ? (int64_t)most : c->hk;
    float *const        buffer = malloc((size_t)at_once * one * sizeof *buffer);
    sg_tune_keys *const keys = calloc((size_t)at_once, sizeof *keys);
    if (!buffer || !keys) sg_fail(s, SG_E_MEMORY, "no memory to tune %lld tokens", (long long)c->n);
    for (int64_t from = 0; !s->status && from < c->hk; from += at_once) {
        const int64_t to = from + at_once < c->hk ? from + at_once : c->hk;
#pragma omp parallel for
        for (int64_t i = from; i < to; i++) keys[i - from] = pack_keys(c, i, buffer + (size_t)(i - from) * one);
        observe_heads(t, c, s, keys, from, to);
    }
    free(keys);
    free(buffer);
}

double sg_tune_seconds(const sg_tune *t) { return t->seconds; }

/* a with q, k and v copied from the device of s; y is not used. */
static sg_attend_args fetched(sg_stream *s, const sg_attend_args *a)
{
    sg_attend_args   copy = *a;
    sg_tensor *const t[] = {&copy.q, &copy.k, &copy.v};
    for (int i = 0; i < 3; i++) {
        const sg_tensor there = *t[i];
        *t[i] = host_of(s, there.dtype, there.dim[0], there.dim[1], there.dim[2]);
        if (t[i]->data) sg_download(s, t[i]->data, there);
    }
    return copy;
}

/* s computes where args is, in host memory. */
static void observe(sg_tune *t, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                    const sg_attend_args *args)
{
    call c = {.t = t,
              .a = args,
              .n = args->q.dim[0],
              .h = args->q.dim[1],
              .hk = args->k.dim[1],
              .d = args->q.dim[2],
              .text_prefix = shape->text_prefix,
              .text_suffix = shape->text_suffix,
              .layer = layer,
              .step = step,
              .pass = pass};
    c.nq = sg_div_up(c.n, SG_BLOCK_Q);
    c.nk = sg_div_up(c.n, SG_BLOCK_K);
    predict(&c, s);
    if (!s->status) observe_call(t, &c, s);
    free(c.score.data);
    free(c.bias.data);
    free(c.k_mean.data);
    free(c.v_mean.data);
}

void sg_tune_hook(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                  double timestep, const sg_attend_args *args)
{
    sg_tune *const          t = context;
    const sg_backend *const host = t->o.host;
    if (s->status || !prepare(t, s, shape)) return;
    t->timestep[step] = timestep;
    sg_attend_args here = host ? fetched(s, args) : *args; /* waits for the device */
    sg_stream      own = host ? sg_stream_of(host) : (sg_stream){0};
    const double   start = sg_seconds();
    if (!s->status) observe(t, host ? &own : s, shape, layer, step, pass, &here);
    t->seconds += sg_seconds() - start;
    if (!host) return;
    if (own.status) sg_fail(s, own.status, "%s", own.why);
    free(here.q.data);
    free(here.k.data);
    free(here.v.data);
}

/* ---- the outcome ---- */

static void choose_one(const sg_tune *t, const curve *c, int64_t i)
{
    const sg_thresholds *const out = &t->thresholds;
    sg_tune_figure *const      f = &t->figure[i];
    const int                  a = choose_amount(t, c), l = a < LAST ? choose_pv_threshold(t, c, a) : -1;
    out->amount[i] = t->amounts[a];
    out->theta[i] = -1;
    out->pv_threshold[i] = l >= 0 ? pv_thresholds[l] : 0;
    *f = (sg_tune_figure){.density = (float)ratio(c->kept[a], c->blocks),
                          .l1 = (float)ratio(c->seen.error[a], c->seen.size),
                          .l1_checked = (float)ratio(c->held.error[a], c->held.size),
                          .l1_worst = (float)c->worst[a]};
    f->l2 = f->l1;
    f->l2_checked = f->l1_checked;
    if (l < 0) return;
    f->l2 = (float)filtered(&c->seen, a, l);
    f->l2_checked = (float)filtered(&c->held, a, l);
    f->skipped = (float)ratio(c->seen.skipped[l], c->seen.filter_blocks);
}

/* The timestep between the last step of a bucket and the first of the next. */
static float border(const sg_tune *t, int bucket)
{
    if (bucket + 1 == t->o.buckets) return 0;
    int step = 0;
    while (bucket_of(t, step + 1) <= bucket) step++;
    return (float)((t->timestep[step] + t->timestep[step + 1]) / 2);
}

sg_status sg_tune_choose(sg_tune *t, const sg_thresholds **out, const sg_tune_figure **figures, sg_error *e)
{
    const size_t count = (size_t)place(t, t->o.buckets, 0, 0), from = (size_t)t->o.buckets;
    double       seen = 0;
    for (size_t i = 0; t->curve && i < count; i++) seen += t->curve[i].seen.size;
    if (!(seen > 0)) return sg_error_set(e, SG_E_ARG, "nothing was seen that could be tuned");
    free(t->numbers);
    free(t->figure);
    t->numbers = malloc((3 * count + from) * sizeof *t->numbers);
    t->figure = malloc(count * sizeof *t->figure);
    if (!t->numbers || !t->figure) return sg_error_set(e, SG_E_MEMORY, "no memory for %zu thresholds", count);
    t->thresholds = (sg_thresholds){.buckets = t->o.buckets,
                                    .layers = t->shape.layers,
                                    .heads = (int)t->shape.h,
                                    .rule = t->o.policy.rule,
                                    .from = t->numbers,
                                    .amount = t->numbers + from,
                                    .theta = t->numbers + from + count,
                                    .pv_threshold = t->numbers + from + 2 * count};
    for (int b = 0; b < t->o.buckets; b++) t->thresholds.from[b] = border(t, b);
    for (int b = 0; b < t->o.buckets; b++)
        if (isnan(t->thresholds.from[b])) return sg_error_set(e, SG_E_ARG, "tuning ended before the last step");
    for (size_t i = 0; i < count; i++) choose_one(t, &t->curve[i], (int64_t)i);
    *out = &t->thresholds;
    *figures = t->figure;
    return SG_OK;
}
