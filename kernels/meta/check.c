/* check.c - the backend that watches another: every op also runs on the oracle, from the same inputs. Host memory only.
 */
#include "meta.h"

#include "budget.h"

#include <stdio.h>
#include <stdlib.h>

enum { SG_POISON = 0xff }; /* a float of poison is NaN: what a kernel forgets to write shows */

typedef struct watch {
    sg_tensor got, truth, rounded;
} watch;

/* Twins of y for the oracle, in memory of their own. */
static sg_status watch_begin(watch *w, bool adds, sg_tensor y)
{
    const size_t bytes = sg_bytes(y);
    *w = (watch){y, y, y};
    w->truth.data = malloc(bytes + 1);
    w->rounded.data = malloc(bytes + 1);
    if (!w->truth.data || !w->rounded.data) return SG_E_MEMORY;
    if (!adds) memset(y.data, SG_POISON, bytes);
    memcpy(w->truth.data, y.data, bytes);
    memcpy(w->rounded.data, y.data, bytes);
    return SG_OK;
}

static sg_status watch_end(watch *w, sg_stream *s, const char *op, const sg_tensor *t, int tensors)
{
    const sg_verdict v = sg_budget_judge(w->got, w->truth, w->rounded);
    if (!v.fault) return SG_OK;
    char   shapes[160] = "", one[96], text[160];
    size_t at = 0;
    for (int i = 0; i < tensors && at < sizeof shapes; i++) {
        if (t[i].rank == 0) continue;
        sg_shape_text(one, sizeof one, t[i].rank, t[i].dim);
        at += (size_t)snprintf(shapes + at, sizeof shapes - at, " %s%s", sg_dtype_name(t[i].dtype), one);
    }
    sg_verdict_text(text, sizeof text, &v);
    return sg_fail(s, SG_E_MISMATCH, "%s%s differs from the oracle: %s", op, shapes, text);
}

static void watch_free(watch *w)
{
    free(w->truth.data);
    free(w->rounded.data);
}

#define X(op)                                                                                                          \
    static sg_status check_##op(sg_stream *s, const sg_##op##_args *a)                                                 \
    {                                                                                                                  \
        sg_tensor t[SG_OP_TENSORS];                                                                                    \
        memcpy(t, a, sg_##op##_tensors * sizeof t[0]);                                                                 \
        watch          w;                                                                                              \
        sg_##op##_args truth = *a, rounded = *a;                                                                       \
        sg_status      e = watch_begin(&w, sg_reads_output(#op, a), t[0]);                                             \
        memcpy(&truth, &w.truth, sizeof w.truth); /* the first member of every struct is the output */                 \
        memcpy(&rounded, &w.rounded, sizeof w.rounded);                                                                \
        if (!e) e = s->inner->op(s, a);                                                                                \
        if (!e) e = sg_ref_ops.op(s, &truth);                                                                          \
        if (!e) e = sg_ref_rounded_ops.op(s, &rounded);                                                                \
        if (!e) e = watch_end(&w, s, #op, t, sg_##op##_tensors);                                                       \
        watch_free(&w);                                                                                                \
        return e;                                                                                                      \
    }
SG_OPS(X)
#undef X

#define X(op) .op = check_##op,
static const sg_ops check_ops = {SG_OPS(X)};
#undef X

void sg_check_wrap(sg_stream *s)
{
    s->inner = s->ops;
    s->ops = &check_ops;
}
