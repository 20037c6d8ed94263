/* check.c - the backend that watches another: every op also runs on the oracle, from the same inputs, which are what the
 * watched kernels have made so far. Host memory only. */
#include "meta.h"

#include "budget.h"

#include <stdio.h>
#include <stdlib.h>

enum { SG_POISON = 0xff }; /* a float of poison is NaN: what a kernel forgets to write shows */

/* What an op writes, and the twins for both oracles, in memory of their own. */
typedef struct watch {
    int       outputs;
    sg_tensor got[SG_OP_OUTPUTS], truth[SG_OP_OUTPUTS], rounded[SG_OP_OUTPUTS];
} watch;

/* t: the tensors that the args begin with. Of an absent one the twin is absent. */
static sg_status watch_begin(watch *w, int outputs, bool adds, const sg_tensor *t)
{
    *w = (watch){.outputs = outputs};
    for (int i = 0; i < outputs; i++) {
        const size_t bytes = sg_bytes(t[i]);
        w->got[i] = w->truth[i] = w->rounded[i] = t[i];
        w->truth[i].data = malloc(bytes + 1);
        w->rounded[i].data = malloc(bytes + 1);
        if (!w->truth[i].data || !w->rounded[i].data) return SG_E_MEMORY;
        if (bytes == 0) continue;
        if (!adds || i < outputs - 1) memset(t[i].data, SG_POISON, bytes);
        memcpy(w->truth[i].data, t[i].data, bytes);
        memcpy(w->rounded[i].data, t[i].data, bytes);
    }
    return SG_OK;
}

static sg_status watch_end(const watch *w, sg_stream *s, const char *op, const sg_tensor *t, int tensors)
{
    sg_verdict v = {0};
    int        which = 0;
    while (which < w->outputs) {
        v = sg_budget_judge(w->got[which], w->truth[which], w->rounded[which], 0);
        if (v.fault) break;
        which++;
    }
    if (!v.fault) return SG_OK;
    char   shapes[160] = "", one[96], text[160], output[24] = "";
    size_t at = 0;
    for (int i = 0; i < tensors && at < sizeof shapes; i++) {
        if (t[i].rank == 0) continue;
        sg_shape_text(one, sizeof one, t[i].rank, t[i].dim);
        at += (size_t)snprintf(shapes + at, sizeof shapes - at, " %s%s", sg_dtype_name(t[i].dtype), one);
    }
    if (w->outputs > 1) snprintf(output, sizeof output, ", output %d,", which + 1);
    sg_verdict_text(text, sizeof text, &v);
    return sg_fail(s, SG_E_MISMATCH, "%s%s%s differs from the oracle: %s", op, shapes, output, text);
}

static void watch_free(watch *w)
{
    for (int i = 0; i < w->outputs; i++) {
        free(w->truth[i].data);
        free(w->rounded[i].data);
    }
}

#define X(op)                                                                                                          \
    static sg_status check_##op(sg_stream *s, const sg_##op##_args *a)                                                 \
    {                                                                                                                  \
        sg_tensor t[SG_OP_TENSORS];                                                                                    \
        memcpy(t, a, sg_##op##_tensors * sizeof t[0]);                                                                 \
        watch          w;                                                                                              \
        sg_##op##_args truth = *a, rounded = *a;                                                                       \
        const int      outputs = sg_op_outputs(#op, a);                                                                \
        sg_status      e = watch_begin(&w, outputs, sg_reads_output(#op, a), t);                                       \
        memcpy(&truth, w.truth, (size_t)outputs * sizeof t[0]); /* every struct begins with what the op writes */      \
        memcpy(&rounded, w.rounded, (size_t)outputs * sizeof t[0]);                                                    \
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
