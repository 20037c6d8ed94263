/* run_counts.c - reads what a bound policy ran, and how much of it. See run.h. */
#include "bound.h"

#include <stdlib.h>

/* Groups of rows times kept blocks of a head that keeps kept[0] blocks, of which its last block of queries keeps
 * kept[1]: that one may have fewer groups. */
static int64_t groups_of(const sg_attention *a, const int32_t *kept)
{
    const int64_t left = a->shape.n - (a->nq - 1) * a->q_block;
    return (kept[0] - kept[1]) * (a->q_block / SG_PV_GROUP) + kept[1] * sg_div_up(left, SG_PV_GROUP);
}

typedef struct counters {
    int32_t *kept; /* [slots, h, 2] */
    float   *mass, *skipped;
    int64_t  seen; /* by a head */
} counters;

static void read_counters(counters *c, const sg_attention *a, sg_stream *s)
{
    const size_t numbers = a->skips ? (size_t)sg_count(a->mass) : 0;
    *c = (counters){.kept = calloc(2 * numbers + 1, sizeof *c->kept), .mass = calloc(3 * numbers + 1, sizeof *c->mass)};
    for (int64_t i = 0; i < a->nq; i++) c->seen += seen(a, i);
    if (!c->kept || !c->mass) sg_fail(s, SG_E_MEMORY, "no memory for %zu counters of attention", numbers);
    if (!a->skips || s->status) return;
    c->skipped = c->mass + numbers;
    sg_download(s, c->kept, a->kept);
    sg_download(s, c->mass, a->mass);
    sg_download(s, c->skipped, a->skipped);
}

/* Sums the counts of so many heads, from number `from` of all slots' on. */
static sg_attention_count count_of(const sg_attention *a, const counters *n, int step, int64_t from, int64_t heads)
{
    const int          slot = (int)(from / a->shape.h), ran = ran_in(a, step)[slot];
    sg_attention_count c = {0};
    c.kind = sg_attention_kind_of(a, slot % a->shape.layers, step, &c.why);
    if (!ran) return c;
    const bool sparse = c.kind == SG_ATTENTION_SPARGE;
    c.blocks = n->seen * heads;
    if (!sparse) c.kept = c.blocks, c.mass = 1;
    for (int64_t i = from; sparse && i < from + heads; i++) {
        c.kept += n->kept[2 * i];
        c.mass += n->mass[i] / (double)heads;
        if (!filters(a, ran - 1)) continue;
        if (pv_threshold_of(a, ran - 1, i % a->shape.h) > 0) c.groups += groups_of(a, n->kept + 2 * i);
        c.skipped += (int64_t)n->skipped[2 * i];
        c.skipped_mass += n->skipped[2 * i + 1] / (double)heads;
    }
    return c;
}

static void count(const sg_attention *a, sg_stream *s, int step, int64_t heads, int64_t all, sg_attention_count *out)
{
    counters c;
    read_counters(&c, a, s);
    for (int64_t from = 0; !s->status && from < all; from += heads) *out++ = count_of(a, &c, step, from, heads);
    free(c.kept);
    free(c.mass);
}

sg_status sg_attention_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out)
{
    count(a, s, step, a->shape.h, a->shape.h * a->shape.passes * a->shape.layers, out);
    return s->status;
}

void sg_attention_head_counts(const sg_attention *a, sg_stream *s, int step, sg_attention_count *out)
{
    count(a, s, step, 1, a->shape.h, out);
}
