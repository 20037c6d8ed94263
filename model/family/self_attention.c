/* self_attention.c - see self_attention.h. */
#include "self_attention.h"

#include <stdlib.h>
#include <string.h>

static bool same_shape(const sg_attention_shape *a, const sg_attention_shape *b)
{
    return a->n == b->n && a->m == b->m && a->h == b->h && a->hk == b->hk && a->d == b->d &&
           a->text_prefix == b->text_prefix && a->text_suffix == b->text_suffix && a->masked == b->masked &&
           a->whole == b->whole && a->groups.count == b->groups.count;
}

/* Which of the bound shapes x is; a->shapes when it is none of them. */
static int find(const sg_self_attention *a, const sg_attention_shape *x)
{
    int k = 0;
    while (k < a->shapes && !same_shape(&a->shape[k], x)) k++;
    return k;
}

static sg_status no_memory(sg_error *e) { return sg_error_set(e, SG_E_MEMORY, "no memory for self-attention"); }

static sg_status bind(sg_self_attention *a, const sg_policy *p, const sg_attention_shape *x, sg_error *e)
{
    const size_t              count = (size_t)a->shapes + 1;
    sg_attention_shape *const shape = realloc(a->shape, count * sizeof *shape);
    if (shape) a->shape = shape;
    sg_attention **const bound = realloc(a->bound, count * sizeof(sg_attention *));
    if (bound) a->bound = bound;
    if (!shape || !bound) return no_memory(e);
    SG_TRY(sg_attention_open(&a->bound[a->shapes], p, x, e));
    a->shape[a->shapes] = *x;
    a->shape[a->shapes++].timesteps = NULL; /* borrowed until now alone */
    return SG_OK;
}

/* x as one of its groups, of `most` that some layer has, is bound. All groups of a layer run the same kind. */
static sg_attention_shape group_of(const sg_attention_shape *x, int group, int most)
{
    sg_attention_shape y = *x;
    y.passes *= most;
    y.n = sg_group_tokens(x->groups, x->n, group);
    if (x->groups.count < 2) return y;
    y.whole = sg_group_tokens(x->groups, x->n, 0);
    y.masked = 0;
    return y;
}

sg_status sg_self_attention_open(sg_self_attention *a, const sg_policy *p, const sg_attention_shape *shape, sg_error *e)
{
    const int slots = shape->passes * shape->layers;
    *a = (sg_self_attention){.steps = shape->steps, .passes = shape->passes, .layers = shape->layers, .groups = 1};
    for (int i = 0; i < slots; i++)
        if (shape[i].groups.count > a->groups) a->groups = shape[i].groups.count;
    const int all = slots * a->groups;
    a->at = calloc((size_t)all, sizeof *a->at);
    a->rule = calloc((size_t)shape->layers, sizeof *a->rule);
    if (!a->at || !a->rule) return no_memory(e);
    for (int i = 0; i < shape->layers; i++)
        if (shape[i].groups.count > 1) a->rule[i] = shape[i].groups;
    for (int i = 0; i < all; i++) {
        const sg_attention_shape x = group_of(&shape[i / a->groups], i % a->groups, a->groups);
        a->at[i] = x.n ? find(a, &x) : -1;
        if (a->at[i] == a->shapes) SG_TRY(bind(a, p, &x, e));
    }
    return SG_OK;
}

/* Which shapes the groups of a layer in a pass are bound to. */
static const int *groups_at(const sg_self_attention *a, int pass, int layer)
{
    return a->at + (pass * a->layers + layer) * a->groups;
}

void sg_self_attention_close(sg_self_attention *a)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_close(&a->bound[k]);
    free(a->bound);
    free(a->shape);
    free(a->at);
    free(a->rule);
    *a = (sg_self_attention){0};
}

const sg_attention_shape *sg_self_attention_shape(const sg_self_attention *a, int pass, int layer)
{
    return &a->shape[groups_at(a, pass, layer)[0]];
}

bool sg_self_attention_skips(const sg_self_attention *a)
{
    for (int k = 0; k < a->shapes; k++)
        if (sg_attention_skips(a->bound[k])) return true;
    return false;
}

void sg_self_attention_place(const sg_self_attention *a, sg_stream *s)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_upload(a->bound[k], s);
}

int sg_self_attention_same_steps(const sg_self_attention *a, int step)
{
    int least = a->steps - step;
    for (int k = 0; k < a->shapes; k++) {
        const int steps = sg_attention_same_steps(a->bound[k], step);
        if (steps < least) least = steps;
    }
    return least;
}

void sg_self_attention_enter(const sg_self_attention *a, sg_stream *s, double timestep)
{
    for (int k = 0; k < a->shapes; k++) sg_attention_set_timestep(a->bound[k], s, timestep);
}

sg_tensor sg_self_attention_spare(const sg_self_attention *a, int layer, int step, int pass, sg_tensor q, sg_tensor k)
{
    const int *const at = groups_at(a, pass, layer);
    const sg_tensor  spare = sg_attention_spare(a->bound[at[0]], layer, step, q, k);
    for (int g = 1; g < a->groups && at[g] >= 0; g++)
        if (sg_attention_spare(a->bound[at[g]], layer, step, q, k).data != spare.data) return (sg_tensor){0};
    return spare;
}

void sg_self_attention_run(const sg_self_attention *a, sg_stream *s, int layer, int step, int pass, double timestep,
                           const sg_attend_args *args)
{
    const int *const at = groups_at(a, pass, layer);
    int64_t          first = 0;
    for (int g = 0; g < a->groups && at[g] >= 0; g++) {
        const int64_t  n = a->shape[at[g]].n;
        sg_attend_args own = *args;
        own.y = sg_rows(args->y, first, n);
        own.q = sg_rows(args->q, first, n);
        own.k = sg_rows(args->k, first, n);
        own.v = sg_rows(args->v, first, n);
        sg_attention_run(a->bound[at[g]], s, layer, step, pass * a->groups + g, timestep, &own);
        first += n;
    }
}

/* Adds the counts of a group that has this share of the tokens. All groups are of one kind. */
static void add(sg_attention_count *to, const sg_attention_count *group, double share)
{
    to->kind = group->kind;
    to->why = group->why;
    to->blocks += group->blocks;
    to->kept += group->kept;
    to->groups += group->groups;
    to->skipped += group->skipped;
    to->mass += share * group->mass;
    to->skipped_mass += share * group->skipped_mass;
}

/* Adds what is bound to shape k has counted, of_shape [passes][groups][layers]. */
static void add_shape(const sg_self_attention *a, int k, const sg_attention_count *of_shape, sg_attention_count *out)
{
    for (int i = 0; i < a->passes * a->layers; i++) {
        const int *const at = groups_at(a, i / a->layers, i % a->layers);
        int64_t          all = 0;
        for (int g = 0; g < a->groups && at[g] >= 0; g++) all += a->shape[at[g]].n;
        for (int g = 0; g < a->groups; g++)
            if (at[g] == k)
                add(&out[i], &of_shape[(i / a->layers * a->groups + g) * a->layers + i % a->layers],
                    (double)a->shape[k].n / (double)all);
    }
}

sg_status sg_self_attention_counts(const sg_self_attention *a, sg_stream *s, int step, sg_attention_count *out)
{
    const size_t              slots = (size_t)(a->passes * a->layers), room = slots * (size_t)a->groups;
    sg_attention_count *const of_shape = calloc(room, sizeof *of_shape);
    if (!of_shape) sg_fail(s, SG_E_MEMORY, "no memory for counters of %zu layers", slots);
    memset(out, 0, slots * sizeof *out);
    for (int k = 0; k < a->shapes && !s->status; k++)
        if (!sg_attention_counts(a->bound[k], s, step, of_shape)) add_shape(a, k, of_shape, out);
    free(of_shape);
    return s->status;
}
