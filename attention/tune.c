/* tune.c - see tune.h. Runs the policy on a sample of the queries, sums its errors, and chooses thresholds. */
#include "tune.h"

#include "backend.h"
#include "base/clock.h"
#include "meta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AMOUNTS = 32, LAST = AMOUNTS - 1, PV_THRESHOLDS = 12 };

/* Candidate amounts, finest where a step changes the error least. They are shares, so all lengths have the same ones.
 */
static const float shares[AMOUNTS] = {.01f, .02f, .03f, .04f,  .05f, .06f,  .07f, .08f, .1f,  .12f, .14f,
                                      .16f, .18f, .2f,  .225f, .25f, .275f, .3f,  .33f, .36f, .4f,  .44f,
                                      .48f, .52f, .56f, .6f,   .65f, .7f,   .75f, .8f,  .9f,  1.0f};
static const float masses[AMOUNTS] = {.02f, .05f, .1f,  .15f, .2f,  .25f,  .3f,  .35f,  .4f,   .45f, .5f,
                                      .55f, .6f,  .65f, .7f,  .74f, .78f,  .82f, .85f,  .88f,  .9f,  .92f,
                                      .94f, .95f, .96f, .97f, .98f, .985f, .99f, .995f, .999f, 1.0f};
static const float pv_thresholds[PV_THRESHOLDS] = {20, 16, 13, 11, 9.5f, 8, 7, 6, 5, 4, 3, 2};

/* Sums over queries and channels, and over calls. */
typedef struct loss {
    double size, error[AMOUNTS];           /* of |all|, all blocks kept; of |y - all| of each amount */
    double filter_size, filter_error;      /* the same of the amount that the filter was tried on, without it */
    double filtered[PV_THRESHOLDS];        /* and with it */
    double groups, skipped[PV_THRESHOLDS]; /* of queries, times kept blocks; of these, left out by it */
} loss;

/* One head in one bucket. */
typedef struct curve {
    loss   seen, held; /* for the choice, and for checking it */
    double worst[AMOUNTS], kept[AMOUNTS], blocks;
    double call_size, call_error[AMOUNTS]; /* of the call at work, for worst */
} curve;

struct sg_tune {
    sg_tune_options    o;
    sg_attention_shape shape; /* of the first call; layers is 0 before */
    const float       *amounts;
    curve             *curve;    /* [buckets, layers, heads] */
    double            *timestep; /* [steps]; NaN: not seen */
    sg_thresholds      thresholds;
    sg_tune_figure    *figure;
    double             seconds;
};

/* One call of attention, on a sample of its queries; where it is causal, on one block of them. */
typedef struct call {
    sg_tune            *t;
    int                 layer, step, pass, turn; /* which of the blocks of queries it samples */
    sg_attention_shape  shape;
    sg_attend_args      a;
    sg_attention       *bound;
    sg_thresholds       tuned;         /* a bucket for each candidate: all blocks, the amounts, the filters */
    int                 least, tries;  /* the first amount, and how many */
    int64_t             first, blocks; /* of queries that are looked at */
    int64_t             before;        /* blocks of the same call that were looked at before these */
    sg_tensor           all, some;     /* F32 [h, rows, d] of these: with all blocks of keys, with some */
    sg_tensor           distance;      /* F32 [h, blocks, 2] */
    int32_t            *row;           /* of the sampled queries, on the host */
    float              *sum;           /* distance, on the host */
    int                *filter;        /* of each head: the amount to try filters on; -1: none */
    sg_attention_count *count;         /* of each head */
} call;

/* ---- opening ---- */

sg_status sg_tune_open(sg_tune **out, const sg_tune_options *o, sg_error *e)
{
    *out = NULL;
    if (o->policy.rule != SG_SELECT_TOPK && o->policy.rule != SG_SELECT_MASS)
        return sg_error_set(e, SG_E_ARG, "tuning is for a share of the blocks or of the mass, not for a given mask");
    if (!(o->l1 > 0) || !(o->l2 >= o->l1) || !isfinite(o->l2))
        return sg_error_set(e, SG_E_ARG,
                            "bounds of the error are %g and %g; they must be above 0, the second not below the first",
                            o->l1, o->l2);
    if (!(o->least >= 0 && o->least <= 1)) return sg_error_set(e, SG_E_ARG, "%g is no least amount", o->least);
    if (o->buckets < 1 || o->every < 0) return sg_error_set(e, SG_E_ARG, "%d buckets", o->buckets);
    sg_tune *const t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory to tune");
    t->o = *o;
    if (!o->every) t->o.every = SG_TUNE_EVERY;
    t->amounts = o->policy.rule == SG_SELECT_TOPK ? shares : masses;
    *out = t;
    return SG_OK;
}

void sg_tune_close(sg_tune **t)
{
    if (!*t) return;
    free((*t)->curve);
    free((*t)->timestep);
    sg_thresholds_release(&(*t)->thresholds);
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
static double filtered(const loss *l, int amount, int pv_threshold)
{
    return ratio(l->error[amount], l->size) + ratio(l->filtered[pv_threshold] - l->filter_error, l->filter_size);
}

/* The smallest pv_threshold from which on all errors are within the bound; -1: none, or it skips too little. */
static int choose_pv_threshold(const sg_tune *t, const curve *c, int amount)
{
    const loss *const l = &c->seen;
    int               i = -1;
    if (!(t->o.l2 > t->o.l1)) return -1;
    while (i + 1 < PV_THRESHOLDS && l->filter_size > 0 && filtered(l, amount, i + 1) <= t->o.l2) i++;
    return i >= 0 && l->skipped[i] >= 0.02 * l->groups ? i : -1;
}

/* The amount to try filters on: the choice by all that was seen so far; -1: none yet, or the choice skips nothing. */
static int filter_of(const sg_tune *t, const call *c, int64_t head)
{
    for (int b = bucket_of(t, c->step); b >= 0; b--) {
        const curve *const known = &t->curve[place(t, b, c->layer, head)];
        const int          a = choose_amount(t, known);
        if (known->seen.size > 0) return a < LAST ? a : -1;
    }
    return -1;
}

/* ---- one call ---- */

/* One in how many of so many blocks of queries is looked at: half of them or fewer. */
static int64_t every_of(const sg_tune *t, int64_t blocks) { return sg_min64(blocks > 1 ? blocks / 2 : 1, t->o.every); }

/* The blocks of queries that a call looks at, and those of text, which attend by the same predictor: every so many of the
 * video's whole blocks. They differ from call to call, so that all get sampled. Writes the rows, unless row is NULL. */
static void choose_rows(call *c, const sg_attention_shape *x, int32_t *row)
{
    const int64_t before = sg_div_up(x->text_prefix, SG_BLOCK_Q), end = (x->n - x->text_suffix) / SG_BLOCK_Q;
    const int64_t every = every_of(c->t, end > before ? end - before : 0);
    int64_t       n = 0;
    c->first = before;
    c->blocks = 0;
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t block = i / SG_BLOCK_Q, at = block - before - c->turn % every;
        const bool    text = block < before || (x->text_suffix > 0 && block >= end);
        const bool    sampled = !text && block < end && at >= 0 && at % every == 0;
        if (!text && !sampled) continue;
        c->blocks += sampled && i % SG_BLOCK_Q == 0;
        if (row) row[n] = (int32_t)i;
        n++;
    }
    c->shape.n = n;
}

static int64_t keys(const sg_attention_shape *x) { return x->m ? x->m : x->n; }

/* So many tokens decide whether it would run dense. */
static int64_t tokens(const sg_attention_shape *x) { return !x->causal ? x->n : x->whole ? x->whole : keys(x); }

static sg_attention_shape sampled_shape(const call *c, const sg_attention_shape *x)
{
    sg_attention_shape sampled = *x;
    sampled.n = c->shape.n;
    sampled.m = keys(x);
    sampled.whole = tokens(x);
    sampled.masked = 0;
    sampled.layers = sampled.steps = sampled.passes = 1;
    sampled.timesteps = NULL;
    return sampled;
}

/* y = c->a.y of the looked at queries, by head: [h, blocks SG_BLOCK_Q, d]. */
static void by_head(const call *c, sg_stream *s, sg_tensor y)
{
    const int64_t   rows = c->blocks * SG_BLOCK_Q, h = c->shape.h, d = c->shape.d;
    const sg_tensor x = sg_rows(c->a.y, c->first * SG_BLOCK_Q, rows);
    sg_strided_copy(s, .y = y, .x = sg_reshape(x, sg_count(x)), .token = d, .head = h * d);
}

/* c->sum of c->a.y to c->all. */
static void measure(call *c, sg_stream *s)
{
    by_head(c, s, c->some);
    sg_distance(s, .y = c->distance, .a = c->some, .b = c->all);
    if (s->memory->alloc) sg_download(s, c->sum, c->distance);
}

static bool is_held(const call *c, int64_t head, int64_t block)
{
    return (c->before + block + c->step + head) % SG_TUNE_CHECKED == SG_TUNE_CHECKED - 1;
}

static curve *curve_of(const call *c, int64_t head)
{
    return &c->t->curve[place(c->t, bucket_of(c->t, c->step), c->layer, head)];
}

enum { ERROR, SIZE }; /* of c->sum: |y - all|, |all| */

/* Over the blocks of a head that are held out, or that are not. */
static double sum_of(const call *c, int64_t head, bool held, int part)
{
    double sum = 0;
    for (int64_t i = 0; i < c->blocks; i++)
        if (is_held(c, head, i) == held) sum += (double)c->sum[2 * (head * c->blocks + i) + part];
    return sum;
}

/* By what a density counts in the mean: by the blocks of queries, which see as many of keys, or by those that they see. */
static double weight_of(const call *c)
{
    return (double)(c->shape.causal ? sg_div_up(c->shape.m, SG_BLOCK_K) : c->blocks);
}

/* Returns the density of a head, over the queries that are looked at. Those of text keep all. */
static double kept_share(const call *c, const sg_attention_count *count)
{
    const int64_t nk = sg_div_up(c->shape.m, SG_BLOCK_K), text = sg_div_up(c->shape.n, SG_BLOCK_Q) - c->blocks;
    return (double)(count->kept - text * nk) / (double)(c->blocks * nk);
}

/* What all blocks give, and how large it is. */
static void add_all(const call *c)
{
    for (int64_t h = 0; h < c->shape.h; h++) {
        curve *const to = curve_of(c, h);
        const double seen = sum_of(c, h, false, SIZE), held = sum_of(c, h, true, SIZE);
        to->blocks += weight_of(c);
        to->kept[LAST] += weight_of(c);
        to->call_size += seen + held;
        to->seen.size += seen;
        to->held.size += held;
        if (c->filter[h] < 0) continue;
        to->seen.filter_size += seen;
        to->held.filter_size += held;
    }
}

static void add_amount(const call *c, int amount)
{
    for (int64_t h = 0; h < c->shape.h; h++) {
        curve *const to = curve_of(c, h);
        const double seen = sum_of(c, h, false, ERROR), held = sum_of(c, h, true, ERROR);
        to->seen.error[amount] += seen;
        to->held.error[amount] += held;
        to->call_error[amount] += seen + held;
        to->kept[amount] += kept_share(c, &c->count[h]) * weight_of(c);
        if (amount != c->filter[h]) continue;
        to->seen.filter_error += seen;
        to->held.filter_error += held;
    }
}

static void add_filter(const call *c, int filter)
{
    for (int64_t h = 0; h < c->shape.h; h++) {
        curve *const to = curve_of(c, h);
        if (c->filter[h] < 0) continue;
        to->seen.filtered[filter] += sum_of(c, h, false, ERROR);
        to->held.filtered[filter] += sum_of(c, h, true, ERROR);
        to->seen.skipped[filter] += (double)c->count[h].skipped;
        if (filter == 0) to->seen.groups += (double)c->count[h].groups;
    }
}

/* All of a call is added up. */
static void end_call(const call *c)
{
    for (int64_t h = 0; h < c->shape.h; h++) {
        curve *const to = curve_of(c, h);
        for (int a = 0; a < LAST; a++) to->worst[a] = fmax(to->worst[a], ratio(to->call_error[a], to->call_size));
        memset(to->call_error, 0, sizeof to->call_error);
        to->call_size = 0;
    }
}

static void add_candidate(void *context, sg_stream *s, int candidate)
{
    call *const c = context;
    if (candidate == 0) by_head(c, s, c->all);
    measure(c, s);
    if (!s->memory->alloc) return; /* a plan has no data */
    sg_attention_head_counts(c->bound, s, 0, c->count);
    if (s->status) return;
    if (candidate == 0)
        add_all(c);
    else if (candidate <= c->tries)
        add_amount(c, c->least + candidate - 1);
    else
        add_filter(c, candidate - c->tries - 1);
}

/* Filters are tried on all heads that have an amount to try them on; the others keep all meanwhile. */
static void make_candidates(call *c, sg_stream *s)
{
    const sg_tune *const t = c->t;
    const int            h = (int)c->shape.h;
    sg_thresholds *const of = &c->tuned;
    bool                 filters = false;
    while (t->amounts[c->least] < (float)t->o.least && c->least < LAST) c->least++;
    c->tries = LAST - c->least;
    for (int i = 0; i < h; i++) {
        c->filter[i] = filter_of(t, c, i);
        filters |= t->o.l2 > t->o.l1 && c->filter[i] >= 0;
    }
    if (!sg_thresholds_alloc(of, t->o.policy.rule, 1 + c->tries + (filters ? PV_THRESHOLDS : 0), 1, h))
        sg_fail(s, SG_E_MEMORY, "no memory for thresholds");
    for (int i = 0; i < of->buckets * h; i++) {
        const int candidate = i / h, filter = candidate - c->tries - 1, on = filter >= 0 ? c->filter[i % h] : -1;
        const int amount = candidate > 0 && filter < 0 ? c->least + candidate - 1 : on;
        of->amount[i] = t->amounts[amount < 0 ? LAST : amount];
        of->theta[i] = t->o.policy.similarity;
        of->pv_threshold[i] = on < 0 ? 0 : pv_thresholds[filter];
    }
}

/* Runs all candidates. On a plan: as much memory as that takes. */
static void look(call *c, sg_stream *s, const sg_attend_args *args)
{
    const int64_t   n = c->shape.n, h = c->shape.h, d = c->shape.d, rows = c->blocks * SG_BLOCK_Q;
    const sg_tensor row = sg_new(s, SG_I32, n), q = sg_new(s, args->q.dtype, n, h, d);
    sg_policy       p = c->t->o.policy;
    sg_error        e = {0};
    c->a = (sg_attend_args){.y = sg_new(s, SG_F32, n, h, d),
                            .q = q,
                            .k = sg_rows(args->k, 0, c->shape.m),
                            .v = sg_rows(args->v, 0, c->shape.m),
                            .scale = args->scale};
    c->all = sg_new(s, SG_F32, h, rows, d), c->some = sg_new(s, SG_F32, h, rows, d);
    c->distance = sg_new(s, SG_F32, h * c->blocks, 2);
    if (s->memory->alloc) sg_upload(s, row, c->row);
    sg_strided_copy(s, .y = q, .x = sg_reshape(args->q, sg_count(args->q)), .row = row, .token = h * d, .head = d);
    p.kind = SG_ATTENTION_SPARGE;
    p.named = true;
    p.dense_steps = 0;
    p.dense_layers = NULL;
    p.thresholds = NULL;
    c->shape.tuned = &c->tuned;
    if (c->shape.f8 == SG_F8_FAST) c->shape.f8 = SG_F8_SLOW; /* auto values as on other machines, which read the file too */
    const sg_status status = s->status ? s->status : sg_attention_open(&c->bound, &p, &c->shape, &e);
    if (status) sg_fail(s, status, "%s", e.text);
    if (status) return;
    sg_attention_upload(c->bound, s);
    sg_attention_run_buckets(c->bound, s, &c->a, add_candidate, c);
    sg_attention_close(&c->bound);
}

/* Gives `own` what a dry run needs, out of the scratch memory of s, in which a plan counts it. */
static void take_memory(call *c, sg_stream *s, sg_stream *own, const sg_attend_args *args)
{
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    plan.keep.used = s->keep.used; /* on a plan, args lie in the same ranges */
    plan.scratch.used = s->scratch.used;
    look(c, &plan, args);
    if (plan.status) sg_fail(s, plan.status, "%s", plan.why);
    if (plan.status) return;
    const size_t    keep = sg_aligned(plan.keep.peak - s->keep.used);
    const size_t    scratch = plan.scratch.peak - s->scratch.used;
    const sg_tensor block = sg_new(s, SG_U8, (int64_t)(keep + scratch));
    own->keep = (sg_arena){.base = (uintptr_t)block.data, .cap = keep};
    own->scratch = (sg_arena){.base = (uintptr_t)block.data + keep, .cap = scratch};
}

/* On a plan it only takes memory. */
static void run(call *c, sg_stream *s, sg_stream *own, const sg_attend_args *args)
{
    const size_t mark = s->scratch.used;
    make_candidates(c, s);
    if (!s->status) take_memory(c, s, own, args);
    if (!s->status && s->memory->alloc) look(c, own, args);
    if (own->status) sg_fail(s, own->status, "%s", own->why);
    sg_thresholds_release(&c->tuned);
    s->scratch.used = mark;
}

/* Each block of queries as the last of the keys that it sees. A plan takes what any of them may. */
static void run_each(call *c, sg_stream *s, sg_stream *own, const sg_attend_args *args)
{
    const bool    computes = s->memory->alloc != NULL;
    const int64_t n = args->q.dim[0], blocks = n / SG_BLOCK_Q, every = every_of(c->t, blocks);
    c->first = 0;
    c->blocks = 1;
    c->shape.n = SG_BLOCK_Q;
    for (int64_t i = computes ? c->turn % every : blocks - 1; i < blocks && !s->status; i += every, c->before++) {
        for (int r = 0; r < SG_BLOCK_Q; r++) c->row[r] = (int32_t)(i * SG_BLOCK_Q + r);
        if (computes) c->shape.m = args->k.dim[0] - n + (i + 1) * SG_BLOCK_Q;
        run(c, s, own, args);
    }
}

void sg_tune_hook(void *context, sg_stream *s, const sg_attention_shape *shape, int layer, int step, int pass,
                  double timestep, const sg_attend_args *args)
{
    sg_tune *const t = context;
    const bool     computes = s->memory->alloc != NULL;
    const int      turn = computes ? 3 * step + 5 * pass + layer : 0; /* the first has no fewer blocks than others */
    call           c = {.t = t, .layer = layer, .step = step, .pass = pass, .turn = turn};
    if (s->status || !prepare(t, s, shape)) return;
    if (computes) t->timestep[step] = timestep;
    if (tokens(shape) < SG_NAMED_TOKENS) return; /* it would run dense */
    if (shape->causal && (shape->text_prefix || shape->text_suffix))
        sg_fail(s, SG_E_UNSUPPORTED, "tuning: causal attention has no tokens beside the grid");
    choose_rows(&c, shape, NULL);
    if (!c.blocks || s->status) return;
    sg_stream own = computes ? sg_stream_of(s->backend) : (sg_stream){0};
    char      byte;
    if (computes) /* waits */
        sg_download(&own, &byte, (sg_tensor){.data = args->k.data, .dtype = SG_U8, .rank = 1, .dim = {1}});
    const double start = sg_seconds();
    c.shape = sampled_shape(&c, shape);
    c.row = malloc((size_t)c.shape.n * sizeof *c.row);
    c.sum = malloc((size_t)(2 * shape->h * c.blocks) * sizeof *c.sum);
    c.filter = malloc((size_t)shape->h * sizeof *c.filter);
    c.count = malloc((size_t)shape->h * sizeof *c.count);
    if (c.row && c.sum && c.filter && c.count) {
        choose_rows(&c, shape, c.row);
        (shape->causal ? run_each : run)(&c, s, &own, args);
        end_call(&c);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory to tune %lld tokens", (long long)shape->n);
    }
    free(c.row);
    free(c.sum);
    free(c.filter);
    free(c.count);
    if (computes) t->seconds += sg_seconds() - start;
}

double sg_tune_seconds(const sg_tune *t) { return t->seconds; }

/* ---- the outcome ---- */

static void choose_one(const sg_tune *t, const curve *c, int64_t i)
{
    const sg_thresholds *const out = &t->thresholds;
    sg_tune_figure *const      f = &t->figure[i];
    const int                  a = choose_amount(t, c), l = a < LAST ? choose_pv_threshold(t, c, a) : -1;
    out->amount[i] = t->amounts[a];
    out->theta[i] = t->o.policy.similarity;
    out->pv_threshold[i] = l >= 0 ? pv_thresholds[l] : 0;
    *f = (sg_tune_figure){.density = NAN};
    if (!(c->blocks > 0)) return;
    *f = (sg_tune_figure){.density = (float)ratio(c->kept[a], c->blocks),
                          .l1 = (float)ratio(c->seen.error[a], c->seen.size),
                          .l1_checked = (float)ratio(c->held.error[a], c->held.size),
                          .l1_worst = (float)c->worst[a]};
    f->l2 = f->l1;
    f->l2_checked = f->l1_checked;
    if (l < 0) return;
    f->l2 = (float)filtered(&c->seen, a, l);
    f->l2_checked = (float)filtered(&c->held, a, l);
    f->skipped = (float)ratio(c->seen.skipped[l], c->seen.groups);
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
    const size_t count = (size_t)place(t, t->o.buckets, 0, 0);
    double       seen = 0;
    for (size_t i = 0; t->curve && i < count; i++) seen += t->curve[i].seen.size;
    if (!(seen > 0)) return sg_error_set(e, SG_E_ARG, "nothing was seen that could be tuned");
    sg_thresholds_release(&t->thresholds);
    free(t->figure);
    t->figure = malloc(count * sizeof *t->figure);
    if (!t->figure ||
        !sg_thresholds_alloc(&t->thresholds, t->o.policy.rule, t->o.buckets, t->shape.layers, (int)t->shape.h))
        return sg_error_set(e, SG_E_MEMORY, "no memory for %zu thresholds", count);
    for (int b = 0; b < t->o.buckets; b++) t->thresholds.from[b] = border(t, b);
    for (int b = 0; b < t->o.buckets; b++)
        if (isnan(t->thresholds.from[b])) return sg_error_set(e, SG_E_ARG, "tuning ended before the last step");
    for (size_t i = 0; i < count; i++) choose_one(t, &t->curve[i], (int64_t)i);
    *out = &t->thresholds;
    *figures = t->figure;
    return SG_OK;
}
