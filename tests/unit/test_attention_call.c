/* test_attention_call.c - the plain C call of attention.h: shapes, strides, order, what it refuses. Truth is the
 * formula in double. */
#include "../held.h"
#include "attention.h"
#include "backend.h"
#include "base/clock.h"
#include "tensor.h"
#include "unit.h"

enum { N = 1170, H = 4, D = 32, GRID = 10 * 9 * 13 }; /* not a multiple of a block */

typedef struct tensors {
    float *o, *q, *k, *v;
} tensors;

static sg_attention_context *context;
static sg_error              error;

static float noise(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U;
    return (float)(*state >> 8) * 0x1p-23F - 1;
}

static float *numbers(int64_t count, uint32_t seed)
{
    float *const x = malloc((size_t)count * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < count; i++) x[i] = 1.5F * noise(&seed);
    return x;
}

static tensors make(int64_t n, int64_t m, int64_t h, int64_t hk, int64_t d)
{
    return (tensors){numbers(n * h * d, 1), numbers(n * h * d, 2), numbers(m * hk * d, 3), numbers(m * hk * d, 4)};
}

static void drop(tensors *t)
{
    free(t->o);
    free(t->q);
    free(t->k);
    free(t->v);
}

static sg_attention_call_args args_of(const tensors *t)
{
    return (sg_attention_call_args){
        .o = t->o, .q = t->q, .k = t->k, .v = t->v, .heads = H, .head_dim = D, .n = N, .kind = "dense"};
}

static void call(const sg_attention_call_args *a, sg_attention_report *r)
{
    if (sg_attention_call(context, a, r, &error)) fail_msg("%s", error.text);
}

/* One row of what a asks for, by the formula, [d]; all dense, no strides. */
static void truth(double *out, const sg_attention_call_args *a, int64_t i, int64_t head)
{
    const int64_t      h = a->heads, hk = a->kv_heads ? a->kv_heads : h, d = a->head_dim, m = a->m ? a->m : a->n;
    const float *const q = (const float *)a->q + (i * h + head) * d;
    const int64_t      key = head / (h / hk), end = a->causal ? i + m - a->n + 1 : m;
    double             sum = 0;
    for (int64_t c = 0; c < d; c++) out[c] = 0;
    for (int64_t j = 0; j < end; j++) {
        double logit = 0;
        for (int64_t c = 0; c < d; c++) logit += (double)q[c] * (double)((const float *)a->k)[(j * hk + key) * d + c];
        const double w = exp(logit * (a->scale != 0 ? a->scale : 1 / sqrt((double)d)));
        sum += w;
        for (int64_t c = 0; c < d; c++) out[c] += w * (double)((const float *)a->v)[(j * hk + key) * d + c];
    }
    for (int64_t c = 0; c < d; c++) out[c] /= sum;
}

/* Relative L1 between some rows of a->o and the formula. */
static double off_truth(const sg_attention_call_args *a)
{
    double *const row = malloc((size_t)a->head_dim * sizeof *row);
    double        off = 0, all = 0;
    assert_non_null(row);
    for (int64_t i = 0; i < a->n; i += 1 + i % 97)
        for (int64_t head = 0; head < a->heads; head++) {
            truth(row, a, i, head);
            for (int64_t c = 0; c < a->head_dim; c++) {
                off += fabs((double)((const float *)a->o)[(i * a->heads + head) * a->head_dim + c] - row[c]);
                all += fabs(row[c]);
            }
        }
    free(row);
    return off / all;
}

static double apart(const float *a, const float *b, int64_t count)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        off += fabs((double)a[i] - (double)b[i]);
        all += fabs((double)b[i]);
    }
    return off / all;
}

/* ---- what it computes ---- */

static void test_shapes(void **state)
{
    static const struct {
        int64_t n, m, h, hk, d;
        int     causal;
        double  scale;
    } shape[] = {{100, 100, 3, 3, 40, 0, 0},   {1, 1, 1, 1, 1, 0, 0},       {130, 70, 4, 2, 64, 0, 0.3},
                 {150, 150, 6, 2, 16, 1, 0.2}, {1100, 1100, 1, 1, 8, 1, 0}, {33, 500, 2, 2, 128, 0, 0},
                 {77, 300, 6, 2, 32, 1, 0},    {1, 900, 4, 1, 64, 1, 0}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        tensors                t = make(shape[i].n, shape[i].m, shape[i].h, shape[i].hk, shape[i].d);
        sg_attention_call_args a = args_of(&t);
        a.n = shape[i].n;
        a.m = shape[i].m;
        a.heads = shape[i].h;
        a.kv_heads = shape[i].hk;
        a.head_dim = shape[i].d;
        a.causal = shape[i].causal;
        a.scale = shape[i].scale;
        call(&a, NULL);
        assert_true(off_truth(&a) < 1e-5);
        drop(&t);
    }
}

/* The kinds that quantise, where queries and keys differ in number, share heads or look back only. */
static void test_quantised(void **state)
{
    static const struct {
        const char *kind;
        int64_t     n, m, hk;
        int         causal;
    } way[] = {{"sage", N, N, H, 0},        {"sage", N, 700, 2, 0},       {"sage", N, N, 1, 1},
               {"sparge", N, N, 2, 1},      {"sparge", 1200, 1900, H, 0}, {"sage", 1100, 1930, 2, 1},
               {"sparge", 1100, 1930, 2, 1}};
    for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
        tensors                t = make(way[i].n, way[i].m, H, way[i].hk, D);
        sg_attention_call_args a = args_of(&t);
        sg_attention_report    r;
        a.kind = way[i].kind;
        a.n = way[i].n;
        a.m = way[i].m;
        a.kv_heads = way[i].hk;
        a.causal = way[i].causal;
        a.topk = a.kind[1] == 'p' ? 1 : 0;
        call(&a, &r);
        assert_string_equal(r.ran, way[i].kind);
        assert_null(r.why);
        assert_true(r.density == 1);
        assert_true(off_truth(&a) < 0.03);
        drop(&t);
    }
}

/* Rows that do not lie side by side give what rows that do give, bit for bit. */
static void test_strides(void **state)
{
    enum { BATCH = 2, SMALL = 200, PAD = 5 };
    tensors      t = make(BATCH * SMALL, BATCH * SMALL, H, H, D);
    const size_t buffer = (size_t)BATCH * SMALL * 3 * H * (D + PAD);
    float *const packed = calloc(buffer, sizeof *packed), *const out = calloc(buffer, sizeof *out);
    assert_true(packed && out);
    sg_attention_call_args a = args_of(&t);
    a.n = SMALL;
    a.batch = BATCH;
    call(&a, NULL);
    /* [batch, head, token, 3, padded channel], and one float of misalignment */
    const float *const from[3] = {t.q, t.k, t.v};
    const int64_t      wide = D + PAD, token = 3 * wide, head = SMALL * token, batch = H * head;
    for (int64_t i = 0; i < BATCH * SMALL; i++)
        for (int64_t h = 0; h < H; h++)
            for (int k = 0; k < 3; k++)
                memcpy(packed + 1 + i / SMALL * batch + h * head + i % SMALL * token + k * wide,
                       from[k] + (i * H + h) * D, D * sizeof(float));
    sg_attention_call_args    b = a;
    const sg_attention_stride stride = {batch, head, token};
    b.q_stride = b.k_stride = b.v_stride = b.o_stride = stride;
    b.q = packed + 1;
    b.k = packed + 1 + wide;
    b.v = packed + 1 + 2 * wide;
    b.o = out;
    call(&b, NULL);
    for (int64_t i = 0; i < BATCH * SMALL; i++)
        for (int64_t h = 0; h < H; h++)
            assert_memory_equal(out + i / SMALL * batch + h * head + i % SMALL * token, t.o + (i * H + h) * D,
                                D * sizeof(float));
    for (size_t i = D; i < buffer; i += (size_t)token) assert_true(out[i] == 0); /* what is between is not touched */
    free(packed);
    free(out);
    drop(&t);
}

static void test_bf16(void **state)
{
    tensors         t = make(N, N, H, H, D);
    uint16_t *const half = malloc(4 * sizeof *half * N * H * D);
    assert_non_null(half);
    float *const x[] = {t.q, t.k, t.v};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < N * H * D; i++) {
            half[k * N * H * D + i] = sg_f32_to_bf16(x[k][i]);
            x[k][i] = sg_bf16_to_f32(half[k * N * H * D + i]);
        }
    for (int i = 0; i < 2; i++) {
        sg_attention_call_args a = args_of(&t);
        a.dtype = "bf16";
        a.kind = i ? "sage" : "dense";
        a.q = half;
        a.k = half + N * H * D;
        a.v = half + 2 * N * H * D;
        a.o = half + 3 * N * H * D;
        call(&a, NULL);
        for (int k = 0; k < N * H * D; k++) t.o[k] = sg_bf16_to_f32(half[3 * N * H * D + k]);
        sg_attention_call_args same = args_of(&t);
        assert_true(off_truth(&same) < (i ? 0.03 : 0.006));
    }
    free(half);
    drop(&t);
}

/* F16 gives what the same numbers in F32 give, rounded, however they lie. */
static void test_f16(void **state)
{
    enum { ALL = N * H * D };
    static const sg_attention_stride apart = {0, N * D, D};
    tensors                          t = make(N, N, H, H, D);
    uint16_t *const                  half = calloc(4 * ALL, sizeof *half);
    sg_attention_context *ref, *const cpu = context;
    float *const x[] = {t.q, t.k, t.v};
    assert_non_null(half);
    memset(t.o, 0, ALL * sizeof *t.o);
    assert_int_equal(sg_attention_context_open(&ref, &(sg_attention_options){.backend = "ref"}, &error), SG_OK);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < ALL; i++) x[k][i] = sg_f16_to_f32(half[k * ALL + i] = sg_f32_to_f16(x[k][i]));
    for (int way = 0; way < 8; way++) {
        sg_attention_call_args a = args_of(&t);
        context = way & 1 ? ref : cpu;
        if (way & 1) a.n = 100; /* the oracle is slow */
        if (way & 2) a.kind = "sage";
        if (way & 4) a.o_stride = a.q_stride = a.k_stride = a.v_stride = apart;
        call(&a, NULL);
        a.dtype = "f16";
        a.q = half;
        a.k = half + ALL;
        a.v = half + 2 * ALL;
        a.o = half + 3 * ALL;
        call(&a, NULL);
        for (int i = 0; i < ALL; i++) assert_int_equal(half[3 * ALL + i], sg_f32_to_f16(t.o[i]));
    }
    context = cpu;
    sg_attention_context_close(&ref);
    free(half);
    drop(&t);
}

/* Put in order and back: exact attention is what it was; the text stays where it is. */
static void test_order(void **state)
{
    static const char *const orders[] = {"hilbert", "row", "random", "morton", NULL};
    tensors                  t = make(GRID + 40, GRID + 40, H, H, D);
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        sg_attention_call_args a = args_of(&t);
        a.n = GRID + 40;
        a.grid[0] = 10;
        a.grid[1] = 9;
        a.grid[2] = 13;
        a.text_prefix = 17;
        a.text_suffix = 23;
        a.order = orders[i];
        call(&a, NULL);
        assert_true(off_truth(&a) < 1e-5);
    }
    drop(&t);
}

/* ---- which blocks ---- */

enum { BLOCKS_Q = (N + 127) / 128, BLOCKS_K = (N + 63) / 64 };

static void test_mask(void **state)
{
    tensors                t = make(N, N, H, H, D);
    sg_attention_report    r;
    sg_attention_call_args a = args_of(&t);
    uint8_t                mask[BLOCKS_Q * BLOCKS_K];
    float *const           sage = malloc(sizeof *sage * N * H * D);
    assert_non_null(sage);
    a.kind = "sage";
    call(&a, &r);
    memcpy(sage, t.o, sizeof *sage * N * H * D);
    a.kind = "sparge";
    a.mask = mask;
    a.mask_heads = 1;
    memset(mask, 1, sizeof mask);
    call(&a, &r);
    assert_true(r.density == 1);
    assert_true(apart(t.o, sage, N * H * D) < 1e-5);
    memset(mask + 2 * BLOCKS_K, 0, BLOCKS_K);
    call(&a, &r);
    assert_true(fabs(r.density - (1 - 1.0 / BLOCKS_Q)) < 1e-9);
    for (int i = 0; i < 128 * H * D; i++) assert_true(t.o[2 * 128 * H * D + i] == 0);
    assert_true(apart(t.o, sage, 2 * 128 * H * D) < 1e-5);
    free(sage);
    drop(&t);
}

static void test_thresholds(void **state)
{
    tensors                t = make(N, N, H, H, D);
    sg_attention_report    r;
    const float            topk[H] = {1, 0.5F, 0.25F, 1};
    sg_attention_call_args a = args_of(&t);
    a.kind = "sparge";
    a.preset = "paper";
    a.topk = 0.25;
    call(&a, &r);
    const double quarter = r.density; /* what is fixed comes on top */
    assert_true(quarter >= 0.2 && quarter < 0.45);
    assert_true(r.mass > 0.2 && r.mass < 1);
    a.topk = 0;
    a.topk_of = topk;
    call(&a, &r);
    assert_true(r.density > (2 + 0.4 + quarter) / H && r.density < (2 + 0.75 + quarter) / H);
    a.topk_of = NULL;
    a.tau = 1;
    call(&a, &r);
    assert_true(r.density == 1);
    a.tau = 0.3;
    a.pv = 4;
    call(&a, &r);
    assert_true(r.density < 1 && r.skipped >= 0 && r.skipped <= 1);
    a.n = 500;
    call(&a, &r);
    assert_string_equal(r.ran, "dense");
    assert_non_null(r.why);
    drop(&t);
}

/* A call is bound as the last one was, where only its tensors differ; all else must show. */
static void test_again(void **state)
{
    tensors                t = make(N, N, H, H, D), other = make(N, N, H, H, D);
    const size_t           bytes = sizeof(float) * N * H * D;
    float *const           first = malloc(bytes);
    float                  topk[H] = {1, 1, 1, 1};
    sg_attention_report    r;
    sg_attention_call_args a = args_of(&t);
    assert_non_null(first);
    a.kind = "sparge";
    a.topk = 0.3;
    a.grid[0] = 10, a.grid[1] = 9, a.grid[2] = 13;
    call(&a, NULL);
    memcpy(first, t.o, bytes);
    a.o = other.o, a.q = other.q, a.k = other.k, a.v = other.v; /* equal numbers elsewhere */
    call(&a, NULL);
    assert_memory_equal(first, other.o, bytes);
    a.order = "row";
    call(&a, NULL);
    assert_memory_not_equal(first, other.o, bytes);
    a.order = "morton";
    call(&a, NULL);
    assert_memory_not_equal(first, other.o, bytes);
    a.order = NULL, a.grid[0] = 13, a.grid[2] = 10;
    call(&a, NULL);
    assert_memory_not_equal(first, other.o, bytes);
    a.grid[0] = 10, a.grid[2] = 13, a.topk = 0.6;
    call(&a, &r);
    assert_true(r.density > 0.5);
    a.topk = 2;
    assert_int_equal(sg_attention_call(context, &a, NULL, NULL), SG_E_ARG);
    a.topk = 0, a.topk_of = topk;
    call(&a, &r);
    assert_true(r.density == 1);
    for (int i = 0; i < H; i++) topk[i] = 0.3F;
    call(&a, &r); /* the same array */
    assert_true(r.density < 0.5);
    a.topk_of = NULL, a.topk = 0.3;
    memset(other.o, 0, bytes);
    call(&a, NULL);
    assert_memory_equal(first, other.o, bytes);
    free(first);
    drop(&t);
    drop(&other);
}

/* ---- its time ---- */

/* The least of the stages, and all of them. */
static double least_stage(const sg_attention_report *r, double *all)
{
    const double stage[] = {r->copy_seconds,   r->pool_seconds, r->quantise_seconds, r->score_seconds,
                            r->select_seconds, r->tail_seconds, r->attend_seconds};
    double       least = stage[0];
    *all = 0;
    for (size_t i = 0; i < sizeof stage / sizeof *stage; i++) {
        *all += stage[i];
        if (stage[i] < least) least = stage[i];
    }
    return least;
}

/* A call with all stages. */
static sg_attention_call_args staged(const tensors *t)
{
    sg_attention_call_args a = args_of(t);
    a.kind = "sparge";
    a.grid[0] = 10, a.grid[1] = 9, a.grid[2] = 13;
    return a;
}

/* The parts are nearly the whole, but where the processor was taken away between them: in one call of several. */
static void test_stages(void **state)
{
    tensors                      t = make(N, N, H, H, D);
    const sg_attention_call_args a = staged(&t);
    double                       all, most = 0;
    for (int i = 0; i < 5; i++) {
        sg_attention_report r;
        call(&a, &r);
        assert_true(least_stage(&r, &all) > 0 && all <= r.seconds);
        if (all / r.seconds > most) most = all / r.seconds;
    }
    assert_true(most > 0.5);
    drop(&t);
}

/* A device that is busy before a call, and with each of its ops. */
static const double BUSY = 0.5, OP = 0.002;
static int          waits;

static sg_status slow_download(sg_stream *s, void *host, const void *device, size_t bytes)
{
    const double end = sg_seconds() + (waits++ ? OP : BUSY);
    while (sg_seconds() < end) continue;
    memcpy(host, device, bytes);
    return SG_OK;
}

/* The time of a device's ops is in the stages of a report; what it did before the call is not. */
static void test_device_stages(void **state)
{
    tensors                      t = make(N, N, H, H, D);
    const sg_attention_call_args a = staged(&t);
    const sg_attention_options   o = {.threads = 2, .cpu_mask = held_mask()};
    sg_attention_report          r;
    sg_attention_context        *own;
    double                       all;
    assert_int_equal(sg_attention_context_open(&own, &o, &error), SG_OK);
    sg_backend *const backend = *(sg_backend **)own; /* what a context begins with */
    sg_memory         slow = *backend->memory;
    slow.download = slow_download;
    backend->memory = &slow;
    backend->synchronous = false;
    waits = 0;
    assert_int_equal(sg_attention_call(own, &a, NULL, &error), SG_OK);
    assert_int_equal(waits, 0); /* without a report nothing waits */
    assert_int_equal(sg_attention_call(own, &a, &r, &error), SG_OK);
    assert_true(least_stage(&r, &all) >= OP && all <= r.seconds && r.seconds < BUSY);
    sg_attention_context_close(&own);
    drop(&t);
}

/* Numbers in a GPU's memory. */
static void *on_gpu(const sg_backend *gpu, const float *x, size_t bytes)
{
    sg_stream   s = sg_stream_of(gpu);
    void *const p = gpu->memory->alloc(gpu, bytes);
    assert_non_null(p);
    assert_int_equal(gpu->memory->upload(&s, p, x, bytes), SG_OK);
    return p;
}

/* The same on a GPU, whose stages take longer than their launches; with and without calls that are queued before. */
static void test_gpu_stages(void **state)
{
    enum { TOKENS = 16 * 32 * 32, HEADS = 8, CHANNELS = 64, QUEUED = 20, COUNT = TOKENS * HEADS * CHANNELS };
    sg_attention_context *gpu;
    if (sg_attention_context_open(&gpu, &(sg_attention_options){.backend = "cuda"}, &error)) skip();
    const sg_backend *const backend = *(sg_backend **)gpu;
    tensors                 t = make(TOKENS, TOKENS, HEADS, HEADS, CHANNELS), device;
    float *const            host[] = {t.o, t.q, t.k, t.v};
    float **const           side[] = {&device.o, &device.q, &device.k, &device.v};
    double                  all, most = 0, shortest[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 4; i++) *side[i] = on_gpu(backend, host[i], COUNT * sizeof(float));
    sg_attention_call_args a = staged(&device);
    a.n = TOKENS, a.heads = HEADS, a.head_dim = CHANNELS;
    a.grid[0] = 16, a.grid[1] = a.grid[2] = 32;
    for (int i = 0; i < 10; i++) {
        sg_attention_report r;
        for (int j = 0; j < i % 2 * QUEUED; j++) assert_done(sg_attention_call(gpu, &a, NULL, &error), &error);
        assert_done(sg_attention_call(gpu, &a, &r, &error), &error);
        assert_true(least_stage(&r, &all) > 0 && all <= r.seconds);
        if (all / r.seconds > most) most = all / r.seconds;
        if (r.seconds < shortest[i % 2]) shortest[i % 2] = r.seconds;
    }
    assert_true(most > 0.5);
    assert_true(shortest[1] < QUEUED / 4 * shortest[0]);
    for (int i = 0; i < 4; i++) backend->memory->release(backend, *side[i]);
    sg_attention_context_close(&gpu);
    drop(&t);
}

/* ---- its memory ---- */

static const sg_memory *device_memory;
static int              blocks, most_blocks;

static void *counted_alloc(const sg_backend *b, size_t bytes)
{
    if (++blocks > most_blocks) most_blocks = blocks;
    return device_memory->alloc(b, bytes);
}

static void counted_release(const sg_backend *b, void *p)
{
    blocks--;
    device_memory->release(b, p);
}

/* A call that needs more memory than the last one gets it in the place of that, not beside it. */
static void test_room(void **state)
{
    tensors               t = make(2 * N, 2 * N, H, H, D);
    sg_attention_context *own;
    assert_int_equal(
        sg_attention_context_open(&own, &(sg_attention_options){.threads = 2, .cpu_mask = held_mask()}, &error), SG_OK);
    sg_backend *const      backend = *(sg_backend **)own; /* what a context begins with */
    sg_memory              counted = *(device_memory = backend->memory);
    sg_attention_call_args a = args_of(&t);
    counted.alloc = counted_alloc;
    counted.release = counted_release;
    backend->memory = &counted;
    for (a.n = N; a.n <= 2 * N; a.n += N) {
        a.kind = "sparge";
        assert_int_equal(sg_attention_call(own, &a, NULL, &error), SG_OK);
        assert_int_equal(blocks, 1);
    }
    assert_int_equal(most_blocks, 1);
    sg_attention_context_close(&own);
    assert_int_equal(blocks, 0);
    drop(&t);
}

/* ---- what it refuses ---- */

static void refused(const sg_attention_call_args *a, sg_status code, const char *member)
{
    sg_error e = {0};
    assert_refused(sg_attention_call(context, a, NULL, &e), code, &e, member);
}

#define REFUSED(code, name, ...)                                                                                       \
    do {                                                                                                               \
        sg_attention_call_args a = good;                                                                               \
        __VA_ARGS__;                                                                                                   \
        refused(&a, code, name);                                                                                       \
    } while (0)

static void test_refusals(void **state)
{
    tensors                      t = make(N, N, H, H, D);
    const sg_attention_call_args good = args_of(&t);
    const float                  some[H] = {1, 1, 1, 1};
    const uint8_t                mask[1] = {1};
    REFUSED(SG_E_ARG, "q:", a.q = NULL);
    REFUSED(SG_E_ARG, "o:", a.o = NULL);
    REFUSED(SG_E_ARG, "k:", a.k = (const char *)a.k + 1);
    REFUSED(SG_E_ARG, "heads:", a.heads = 0);
    REFUSED(SG_E_ARG, "kv_heads:", a.kv_heads = 3);
    REFUSED(SG_E_ARG, "head_dim:", a.head_dim = -1);
    REFUSED(SG_E_ARG, "n:", a.n = INT64_MAX);
    REFUSED(SG_E_ARG, "batch:", a.batch = -1);
    REFUSED(SG_E_ARG, "m:", a.m = 7; a.causal = 1);
    REFUSED(SG_E_ARG, "v:", a.v_stride.token = INT64_MAX / 2);
    REFUSED(SG_E_ARG, "v:", a.v_stride.head = INT64_MIN);
    REFUSED(SG_E_ARG, "dtype:", a.dtype = "fp16");
    REFUSED(SG_E_ARG, "scale:", a.scale = INFINITY);
    REFUSED(SG_E_ARG, "kind:", a.kind = "spares");
    REFUSED(SG_E_ARG, "preset:", a.preset = "papers");
    REFUSED(SG_E_ARG, "score:", a.score = "");
    REFUSED(SG_E_ARG, "tail:", a.tail = "yes");
    REFUSED(SG_E_ARG, "budget:", a.budget = "all");
    REFUSED(SG_E_ARG, "order:", a.order = "hilbert");
    REFUSED(SG_E_ARG, "grid:", a.grid[0] = a.grid[1] = a.grid[2] = 9);
    REFUSED(SG_E_ARG, "grid:", a.grid[0] = INT64_MAX; a.grid[1] = INT64_MAX; a.grid[2] = 1);
    REFUSED(SG_E_ARG, "text_prefix, text_suffix:", a.text_prefix = N; a.text_suffix = 1);
    REFUSED(SG_E_ARG, "topk:", a.topk = 1.5);
    REFUSED(SG_E_ARG, "tau:", a.tau = -1);
    REFUSED(SG_E_ARG, "topk, tau, mask:", a.topk = a.tau = 0.5);
    REFUSED(SG_E_ARG, "mask_heads:", a.mask = mask);
    REFUSED(SG_E_ARG, "mask:", a.mask = mask; a.mask_heads = 1; a.pv_of = some);
    REFUSED(SG_E_ARG, "mask:", a.mask = mask; a.mask_heads = 1); /* dense */
    REFUSED(SG_E_ARG, "mask:", a.mask = mask; a.mask_heads = 1; a.n = 64; a.kind = NULL);
    REFUSED(SG_E_UNSUPPORTED, "attention sparge:", a.kind = NULL; a.n = ((int64_t)1 << 22) + 1);
    REFUSED(SG_E_UNSUPPORTED, "attention sparge:", a.kind = NULL; a.n = (int64_t)1 << 22); /* and keeps 2^31 pairs */
    REFUSED(SG_E_ARG, "sink:", a.sink = -1);
    REFUSED(SG_E_ARG, "pv_dtype:", a.pv_dtype = "int4");
    REFUSED(SG_E_ARG, "stream:", a.stream = &t);
    REFUSED(SG_E_UNSUPPORTED, "reserved:", a.reserved[3] = 1);
    sg_attention_context      *none;
    const sg_attention_options options[] = {{.backend = "abacus"}, {.threads = -1}, {.reserved = {1}}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        assert_int_not_equal(sg_attention_context_open(&none, &options[i], NULL), SG_OK);
        assert_null(none);
    }
    call(&good, NULL); /* and goes on */
    drop(&t);
}

static int open_context(void **state)
{
    return sg_attention_context_open(&context, &(sg_attention_options){.threads = 2, .cpu_mask = held_mask()},
                                     &error) != SG_OK;
}

static int close_context(void **state)
{
    sg_attention_context_close(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_quantised),     cmocka_unit_test(test_strides),
        cmocka_unit_test(test_bf16),   cmocka_unit_test(test_f16),           cmocka_unit_test(test_order),
        cmocka_unit_test(test_mask),   cmocka_unit_test(test_thresholds),    cmocka_unit_test(test_again),
        cmocka_unit_test(test_stages), cmocka_unit_test(test_device_stages), cmocka_unit_test(test_gpu_stages),
        cmocka_unit_test(test_room),   cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
