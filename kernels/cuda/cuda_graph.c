/* cuda_graph.c - steps replayed: the ops between sg_step_begin and sg_step_end, when they are those of the step before,
 * become one launch of a CUDA graph.
 *
 * The first step runs as it comes, and its ops are noted. The ops of the next are compared with the notes and put off
 * as long as they agree; where all of them do, the noted ops are recorded as a graph, which that step and those after
 * it launch. At the first op that differs, what was put off runs, and the rest as it comes. Whatever is no op (an upload,
 * a download) has to find the work before it done or under way: what was put off runs then, and the step is not noted.
 *
 * Ops are compared by the bytes of their args, which hold all that a launch depends on but the backend's own scratch:
 * when that moves, the graph is dropped. What a graph launches has run before, so that scratch has its size, and what
 * the libraries load and choose is there. A difference in padding costs a replay, and nothing else.
 *
 * Recording makes the device wait, for as long as some launches of the graph save: too few steps to come run as they
 * come. */
#include "cuda_state.cuh"

#include <stdlib.h>

enum { WORTH = 16 }; /* launches that save what recording costs: kernels/NOTES.md */

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
    FOLLOW, /* ops are those noted, and are put off */
    PLAIN   /* ops run: the step is not all ops */
} step_mode;

typedef struct sg_cuda_graph {
    sg_ops          ops; /* what runs */
    step_mode       mode;
    call           *call;
    size_t          count, cap, met; /* calls noted; of these, met again and put off */
    cudaGraphExec_t graph;           /* of all noted calls; or NULL */
    bool            recording;
    bool            refused; /* CUDA does not record such steps */
} sg_cuda_graph;

static void drop_graph(sg_cuda_graph *t)
{
    if (t->graph) cudaGraphExecDestroy(t->graph);
    t->graph = NULL;
}

/* From now on the first n calls are all that is noted. */
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

/* What was put off runs, and those after it will. */
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
        call *const  more = (call *)realloc(t->call, cap * sizeof *more);
        if (!more) { /* too little memory to replay, which is no failure */
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

/* True: the graph is what the noted calls launch; nothing has run. False: nor is there a graph, and the stream is as it
 * was. */
static bool record(sg_stream *s)
{
    sg_cuda *const       c = sg_cuda_of(s);
    sg_cuda_graph *const t = c->graph;
    cudaGraph_t          graph = NULL;
    cudaError_t          e = cudaStreamBeginCapture(c->queue, cudaStreamCaptureModeThreadLocal);
    if (!e) {
        t->recording = true;
        c->feed.last = -1; /* a graph cannot wait for what is no part of it, nor what follows for parts of a graph */
        const sg_status status = run_calls(s, t->count);
        c->feed.last = -1;
        t->recording = false;
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
    sg_cuda_graph *const t = (sg_cuda_graph *)calloc(1, sizeof *t);
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
