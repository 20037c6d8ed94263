/* cuda_graph.c - replays steps: if the ops between sg_step_begin and sg_step_end are those of the step before, they
 * become one launch of a CUDA graph.
 *
 * The first step runs at once, and its ops are noted. The ops of the next step are compared with the notes and deferred
 * while they agree. If all agree, the noted ops are captured as a graph, which this step and later ones launch. At the
 * first op that differs, the deferred ops run, and the rest of the step runs at once. A call that is no op (an upload,
 * a download) needs the work before it to be issued: it runs the deferred ops, and the step is not noted.
 *
 * Ops are compared by the bytes of their args. These hold everything that a launch depends on, except the backend's own
 * scratch; when that moves, the graph is dropped. Everything in a graph has run before, so scratch has its size, and
 * libraries have loaded and chosen their kernels. A difference in padding costs a replay, and nothing else.
 *
 * Capturing stalls the device for as long as some launches of the graph save. So steps run at once if too few are to
 * come. */
#include "cuda_state.cuh"

#include <stdlib.h>

enum { WORTH = 16 }; /* launches that save what capturing costs: kernels/LOG.md */

#define STEP_OPS(X) SG_OPS(X) X(fetch)

typedef union any_args {
#define X(op) sg_##op##_args op;
    STEP_OPS(X)
#undef X
} any_args;

typedef sg_status run_fn(sg_stream *, const void *args);

typedef struct call {
    run_fn  *run;
    any_args args;
} call;

typedef enum step_mode {
    OUT,    /* between end and begin: ops run */
    NOTE,   /* ops run, and are noted */
    FOLLOW, /* ops agree with the notes and are deferred */
    PLAIN   /* ops run: the step is not all ops */
} step_mode;

typedef struct sg_cuda_graph {
    sg_ops          ops; /* what runs */
    step_mode       mode;
    call           *call;
    size_t          count, cap, met; /* calls noted; how many of them came again and are deferred */
    cudaGraphExec_t graph;           /* of all noted calls; or NULL */
    sg_fallbacks    fallbacks;       /* of a launch of it */
    bool            recording;
    bool            refused; /* CUDA does not record such steps */
} sg_cuda_graph;

static void drop_graph(sg_cuda_graph *t)
{
    if (t->graph) cudaGraphExecDestroy(t->graph);
    t->graph = NULL;
}

/* Drops all notes but the first n calls. */
static void cut_notes(sg_cuda_graph *t, size_t n)
{
    if (n < t->count) drop_graph(t);
    t->count = n;
}

static sg_status run_calls(sg_stream *s, size_t n)
{
    const sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    for (size_t i = 0; i < n; i++) SG_TRY(t->call[i].run(s, &t->call[i].args));
    return SG_OK;
}

/* Runs the deferred ops; later ones run at once. */
static sg_status catch_up(sg_stream *s, step_mode mode)
{
    sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    t->mode = mode;
    cut_notes(t, t->met);
    return run_calls(s, t->met);
}

static void note(sg_cuda_graph *t, run_fn *run, const void *args, size_t size)
{
    if (t->count == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 256;
        call *const  more = realloc(t->call, cap * sizeof *more);
        if (!more) { /* too little memory to replay: not a failure */
            t->mode = PLAIN;
            cut_notes(t, 0);
            return;
        }
        t->call = more;
        t->cap = cap;
    }
    drop_graph(t);
    t->call[t->count].run = run;
    memcpy(&t->call[t->count++].args, args, size);
}

static sg_status take(sg_stream *s, run_fn *run, const void *args, size_t size)
{
    sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    if (t->mode == FOLLOW) {
        const call *const c = t->met < t->count ? &t->call[t->met] : NULL;
        if (c && c->run == run && memcmp(&c->args, args, size) == 0) {
            t->met++;
            return SG_OK;
        }
        SG_TRY(catch_up(s, NOTE));
    }
    if (t->mode == NOTE) note(t, run, args, size);
    return run(s, args);
}

#define X(op)                                                                                                          \
    static sg_status run_##op(sg_stream *s, const void *a) { return sg_cuda_of(s)->graph->ops.op(s, a); }              \
    static sg_status step_##op(sg_stream *s, const sg_##op##_args *a) { return take(s, run_##op, a, sizeof *a); }
STEP_OPS(X)
#undef X

/* Captures the noted calls. True: there is a graph, and nothing has run. False: there is none, and the stream is
 * unchanged. */
static bool record(sg_stream *s)
{
    sg_cuda *const       c = sg_cuda_of(s);
    sg_cuda_graph *const t = c->graph;
    cudaGraph_t          graph = NULL;
    cudaError_t          e = cudaStreamBeginCapture(c->queue, cudaStreamCaptureModeThreadLocal);
    if (!e) {
        const sg_fallbacks ran = c->fallbacks;
        c->fallbacks = (sg_fallbacks){0};
        t->recording = true;
        c->feed.last = -1; /* a graph cannot wait for what is no part of it, nor what follows for parts of a graph */
        const sg_status status = run_calls(s, t->count);
        c->feed.last = -1;
        t->recording = false;
        t->fallbacks = c->fallbacks;
        c->fallbacks = ran;
        e = cudaStreamEndCapture(c->queue, &graph);
        if (!e && status) e = cudaErrorStreamCaptureUnsupported;
    }
    if (!e) e = cudaGraphInstantiate(&t->graph, graph, 0);
    if (graph) cudaGraphDestroy(graph);
    if (!e) return true;
    cudaGetLastError();
    t->graph = NULL;
    t->refused = true;
    s->status = SG_OK;
    s->why[0] = '\0';
    return false;
}

static sg_status step_begin(sg_stream *s, int repeats)
{
    sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    if (t->refused || (!t->graph && repeats - !t->count < WORTH)) return SG_OK;
    t->mode = t->count ? FOLLOW : NOTE;
    t->met = 0;
    return SG_OK;
}

static sg_status step_end(sg_stream *s)
{
    sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    const step_mode      mode = t->mode;
    t->mode = OUT;
    if (s->status) cut_notes(t, 0);
    if (s->status || mode != FOLLOW) return s->status;
    if (t->met < t->count) return catch_up(s, OUT);
    if (!t->graph && !record(s)) return run_calls(s, t->count);
    sg_cuda_of(s)->feed.last = -1;
    sg_fallbacks_add(&sg_cuda_of(s)->fallbacks, &t->fallbacks);
    return sg_cuda_check(s, "step", cudaGraphLaunch(t->graph, sg_cuda_of(s)->queue));
}

sg_status sg_graph_flush(sg_stream *s)
{
    sg_cuda_graph *const t = sg_cuda_of(s)->graph;
    const step_mode      mode = t->mode;
    sg_status            status = SG_OK;
    if (mode == OUT) return SG_OK;
    if (mode == FOLLOW) status = catch_up(s, PLAIN);
    t->mode = PLAIN;
    cut_notes(t, 0);
    return status;
}

bool sg_graph_may_move(sg_cuda *c)
{
    if (c->graph && c->graph->recording) return false;
    if (c->graph) drop_graph(c->graph);
    return true;
}

sg_status sg_graph_open(sg_cuda *c, sg_error *e)
{
    sg_cuda_graph *const t = calloc(1, sizeof *t);
    if (!t) return sg_error_set(e, SG_E_MEMORY, "no memory for the cuda backend");
    c->graph = t;
    t->ops = c->ops;
#define X(op) c->ops.op = t->ops.op ? step_##op : NULL;
    STEP_OPS(X)
#undef X
    c->ops.step_begin = step_begin;
    c->ops.step_end = step_end;
    return SG_OK;
}

void sg_graph_close(sg_cuda *c)
{
    if (!c->graph) return;
    drop_graph(c->graph);
    free(c->graph->call);
    free(c->graph);
    c->graph = NULL;
}
