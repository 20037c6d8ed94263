/* bench_attention.c - `sparge-gen bench attention`: the attention kernels on inputs like those of a video model. */
#include "bench.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE = 32 }; /* rows of queries that the oracle computes too */

typedef struct shape {
    const char *name;
    int         b, h, thw[3], d; /* batch; heads; frames, rows and columns of tokens; head size */
} shape;

static const shape shapes[] = {
    {"wan-240p", 1, 12, {21, 15, 26}, 128}, /* Wan 2.1 1.3B, 416x240, 81 frames */
    {"wan-480p", 1, 12, {21, 30, 52}, 128}, /* 832x480 */
    {"wan-720p", 1, 12, {21, 45, 80}, 128}, /* 1280x720 */
    {"wan-14b-480p", 1, 40, {21, 30, 52}, 128}, {"tiny-wan", 1, 6, {9, 16, 16}, 64},
    {"cogvideox-2b", 2, 30, {13, 30, 45}, 64}, /* without its 226 tokens of text */
    {"mochi", 1, 24, {28, 30, 53}, 128},        {"hunyuan-720p", 1, 24, {33, 45, 80}, 128},
    {"flux", 1, 24, {1, 64, 72}, 128}, /* 1024x1024: 4,096 tokens of picture, 512 of text */
};

typedef struct input {
    shape     of;
    int64_t   n, each; /* tokens; numbers of a tensor */
    sg_dtype  dtype;
    float    *host[3];    /* q, k, v [n, h, d], rounded to dtype */
    sg_tensor y, q, k, v; /* on the device; the same for all of a batch */
} input;

typedef struct result {
    const char *kernel;
    double      best, median; /* seconds */
    double      l1, l2, cosine;
} result;

/* ---- shapes ---- */

static sg_status parse_shape(shape *out, const char *text, sg_error *e)
{
    char tail;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (text && strcmp(text, shapes[i].name) != 0) continue;
        *out = shapes[i];
        return SG_OK;
    }
    *out = (shape){.name = "a row of tokens", .thw = {1, 1, 0}};
    if (strlen(text) < 40 && sscanf(text, "%9d,%9d,%9d,%9d%c", &out->b, &out->h, &out->thw[2], &out->d, &tail) == 4 &&
        out->b >= 1 && out->b <= 64 && out->h >= 1 && out->h <= 256 && out->thw[2] >= 1 && out->thw[2] <= 1 << 22 &&
        out->d >= 1 && out->d <= 1024)
        return SG_OK;
    return sg_error_set(
        e, SG_E_ARG,
        "--shape: '%.80s' is neither the name of a shape (bench attention --help lists them) nor B,H,N,D "
        "up to 64,256,4194304,1024",
        text);
}

/* ---- inputs: smooth random fields over the video, and noise, so that neighbours resemble each other ---- */

/* Place x of n on a grid of g: the two neighbours begin at *at, the second weighs *w. */
static void place(int x, int n, int g, int *at, float *w)
{
    const float p = n > 1 ? (float)x * (float)(g - 1) / (float)(n - 1) : 0;
    *at = (int)p < g - 2 ? (int)p : g - 2;
    *w = p - (float)*at;
}

/* out[d] = the grid's vectors, interpolated between the eight around token i. */
static void interpolate(float *out, const float *grid, const int g[3], const shape *s, int64_t i)
{
    const int x[3] = {(int)(i / (s->thw[1] * s->thw[2])), (int)(i / s->thw[2] % s->thw[1]), (int)(i % s->thw[2])};
    int       at[3];
    float     w[3];
    for (int a = 0; a < 3; a++) place(x[a], s->thw[a], g[a], &at[a], &w[a]);
    memset(out, 0, (size_t)s->d * sizeof *out);
    for (int corner = 0; corner < 8; corner++) {
        float   weight = 1;
        int64_t cell = 0;
        for (int a = 0; a < 3; a++) {
            const int side = corner >> a & 1;
            weight *= side ? w[a] : 1 - w[a];
            cell = cell * g[a] + at[a] + side;
        }
        for (int k = 0; k < s->d; k++) out[k] += weight * grid[cell * s->d + k];
    }
}

/* Adds, for head h, scale (1.6 field + 0.6 noise) to out [n, h, d]. False: no memory. */
static bool add_field(const input *in, float *out, int h, float scale, uint64_t seed)
{
    const shape *const s = &in->of;
    int                g[3];
    for (int a = 0; a < 3; a++) g[a] = (int)fmax(2, s->thw[a] / (a ? 5 : 3));
    const size_t cells = (size_t)g[0] * (size_t)g[1] * (size_t)g[2] * (size_t)s->d, all = (size_t)in->n * (size_t)s->d;
    float *const grid = malloc(cells * sizeof *grid), *const noise = malloc(all * sizeof *noise);
    float *const smooth = malloc((size_t)s->d * sizeof *smooth);
    const bool   room = grid && noise && smooth;
    if (room) {
        sg_randn(grid, cells, 2 * seed);
        sg_randn(noise, all, 2 * seed + 1);
    }
    for (int64_t i = 0; room && i < in->n; i++) {
        interpolate(smooth, grid, g, s, i);
        float *const row = out + (i * s->h + h) * s->d;
        for (int k = 0; k < s->d; k++) row[k] += scale * (1.6F * smooth[k] + 0.6F * noise[i * s->d + k]);
    }
    free(grid);
    free(noise);
    free(smooth);
    return room;
}

/* q = field, k = 0.7 q + 0.7 field + 2 (a vector that all keys of a head share), v = field. */
static bool fill_head(const input *in, int h)
{
    const shape *const s = &in->of;
    const uint64_t     seed = 4 * (uint64_t)h + 1;
    float *const       shared = malloc((size_t)s->d * sizeof *shared);
    if (!shared || !add_field(in, in->host[0], h, 1, seed) || !add_field(in, in->host[1], h, 0.7F, seed + 1) ||
        !add_field(in, in->host[2], h, 1, seed + 2)) {
        free(shared);
        return false;
    }
    sg_randn(shared, (size_t)s->d, 2 * seed + 6);
    for (int64_t i = 0; i < in->n; i++)
        for (int k = 0; k < s->d; k++) {
            const int64_t at = (i * s->h + h) * s->d + k;
            in->host[1][at] += 0.7F * in->host[0][at] + 2 * shared[k];
        }
    free(shared);
    return true;
}

/* Uploads as dtype; x keeps what is left of it after rounding. */
static sg_status upload(const input *in, sg_stream *s, sg_tensor t, float *x, sg_error *e)
{
    uint16_t *const half = in->dtype == SG_BF16 ? malloc((size_t)in->each * sizeof *half) : NULL;
    if (in->dtype == SG_BF16 && !half) return sg_error_set(e, SG_E_MEMORY, "bench: no memory for inputs");
    for (int64_t i = 0; half && i < in->each; i++) {
        half[i] = sg_f32_to_bf16(x[i]);
        x[i] = sg_bf16_to_f32(half[i]);
    }
    sg_upload(s, t, half ? (const void *)half : x);
    free(half);
    return SG_OK;
}

static sg_status make_input(input *in, sg_stream *s, int threads, sg_error *e)
{
    bool room = true;
    for (int i = 0; i < 3; i++) {
        in->host[i] = calloc((size_t)in->each, sizeof *in->host[i]);
        room = room && in->host[i];
    }
    if (room) {
#pragma omp parallel for num_threads(threads) reduction(&& : room)
        for (int h = 0; h < in->of.h; h++) room = fill_head(in, h) && room;
    }
    if (!room) return sg_error_set(e, SG_E_MEMORY, "bench: no memory for inputs");
    sg_tensor *const t[] = {&in->q, &in->k, &in->v, &in->y};
    for (int i = 0; i < 4; i++) *t[i] = sg_new(s, in->dtype, in->n, in->of.h, in->of.d);
    for (int i = 0; i < 3; i++) SG_TRY(upload(in, s, *t[i], in->host[i], e));
    return s->status ? sg_error_set(e, s->status, "bench: %s", s->why) : SG_OK;
}

/* ---- kernels ---- */

static float scale_of(const input *in) { return 1 / sqrtf((float)in->of.d); }

static void run_dense(sg_stream *s, const input *in)
{
    sg_attend(s, .y = in->y, .q = in->q, .k = in->k, .v = in->v, .scale = scale_of(in));
}

static const struct kernel {
    const char *name;
    void (*run)(sg_stream *s, const input *in); /* one element of the batch */
} kernels[] = {
    {"dense", run_dense},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sg_status take_time(const sg_bench *b, sg_stream *s, const input *in, int kernel, result *r, sg_error *e)
{
    double *const seconds = calloc((size_t)b->repeat, sizeof *seconds);
    sg_status     status = seconds ? SG_OK : sg_error_set(e, SG_E_MEMORY, "bench: out of memory");
    for (int i = -1; !status && i < b->repeat; i++) { /* the first does not count */
        const double start = sg_bench_now();
        for (int k = 0; k < in->of.b; k++) kernels[kernel].run(s, in);
        status = sg_bench_wait(b, s, in->y, e);
        if (i >= 0) seconds[i] = sg_bench_now() - start;
    }
    if (!status) {
        qsort(seconds, (size_t)b->repeat, sizeof *seconds, by_value);
        r->best = seconds[0];
        r->median = seconds[b->repeat / 2];
    }
    free(seconds);
    return status;
}

/* ---- how exact ---- */

/* The oracle's rows [SAMPLE, h, d] in F32: row i of them is that of token i n / SAMPLE. */
static sg_status true_rows(const input *in, float *rows, sg_error *e)
{
    const int64_t h = in->of.h, d = in->of.d;
    sg_stream     s = {.ops = &sg_ref_ops};
    sg_tensor     t[3], q = {.dtype = SG_F32, .rank = 3, .dim = {SAMPLE, h, d}}, y = q;
    for (int i = 0; i < 3; i++) t[i] = (sg_tensor){in->host[i], SG_F32, 3, {in->n, h, d}};
    y.data = rows;
    q.data = malloc(sg_bytes(q));
    if (!q.data) return sg_error_set(e, SG_E_MEMORY, "bench: out of memory");
    for (int i = 0; i < SAMPLE; i++)
        memcpy(sg_rows(q, i, 1).data, sg_rows(t[0], i * in->n / SAMPLE, 1).data, (size_t)(h * d) * sizeof(float));
    sg_attend(&s, .y = y, .q = q, .k = t[1], .v = t[2], .scale = scale_of(in));
    free(q.data);
    return s.status ? sg_error_set(e, s.status, "bench: the oracle: %s", s.why) : SG_OK;
}

static sg_status take_error(const input *in, sg_stream *s, const float *truth, void *row, result *r, sg_error *e)
{
    const int64_t width = (int64_t)in->of.h * in->of.d;
    double        l1 = 0, l2 = 0, abs = 0, tt = 0, oo = 0, ot = 0;
    for (int i = 0; i < SAMPLE; i++) {
        sg_download(s, row, sg_rows(in->y, i * in->n / SAMPLE, 1));
        const sg_tensor got = {.data = row, .dtype = in->dtype};
        for (int64_t k = 0; k < width; k++) {
            const double o = (double)sg_load(&got, k), t = (double)truth[i * width + k];
            l1 += fabs(o - t);
            l2 += (o - t) * (o - t);
            abs += fabs(t);
            tt += t * t;
            oo += o * o;
            ot += o * t;
        }
    }
    r->l1 = l1 / abs;
    r->l2 = sqrt(l2 / tt);
    r->cosine = ot / sqrt(oo * tt);
    return s->status ? sg_error_set(e, s->status, "bench: %s", s->why) : SG_OK;
}

/* ---- what came out ---- */

static double flops_of(const input *in) { return 4.0 * in->of.b * in->of.h * (double)in->n * (double)in->n * in->of.d; }

static void print_all(const sg_bench *b, const input *in, const result *r)
{
    const shape *const s = &in->of;
    printf("%s in %s on %s\n%d x %d heads of %d, %lld tokens (%dx%dx%d), %.4g TFLOP\n", s->name,
           in->dtype == SG_BF16 ? "bf16" : "f32", b->backend->device, s->b, s->h, s->d, (long long)in->n, s->thw[0],
           s->thw[1], s->thw[2], flops_of(in) * 1e-12);
    sg_bench_print_ceilings(b);
    printf("errors against the oracle in F32 on %d of the rows\n\n", SAMPLE);
    printf("%-10s %12s %12s %9s %8s %10s %10s %10s\n", "kernel", "best ms", "median ms", "TFLOP/s", "ceiling",
           "rel. L1", "rel. L2", "cosine");
    for (int i = 0; i < KERNELS; i++)
        printf("%-10s %12.3f %12.3f %9.3f %7.0f%% %10.2e %10.2e %10.7f\n", r[i].kernel, r[i].best * 1e3,
               r[i].median * 1e3, flops_of(in) / r[i].best * 1e-12,
               100 * flops_of(in) / r[i].best / sg_bench_ceiling(b, in->dtype), r[i].l1, r[i].l2, r[i].cosine);
}

static json_t *all_json(const sg_bench *b, const input *in, const result *r)
{
    json_t *rows = json_array();
    for (int i = 0; i < KERNELS; i++)
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "kernel", r[i].kernel,
                                              "best_seconds", r[i].best, "median_seconds", r[i].median,
                                              "flops_per_second", flops_of(in) / r[i].best, "of_ceiling",
                                              flops_of(in) / r[i].best / sg_bench_ceiling(b, in->dtype), "relative_l1",
                                              r[i].l1, "relative_l2", r[i].l2, "cosine", r[i].cosine));
    return json_pack("{s:s, s:[i,i,I,i], s:s, s:s, s:i, s:f, s:o, s:o}", "shape", in->of.name, "bhnd", in->of.b,
                     in->of.h, (json_int_t)in->n, in->of.d, "device", b->backend->device, "dtype",
                     in->dtype == SG_BF16 ? "bf16" : "f32", "threads", b->backend->threads, "flops", flops_of(in),
                     "ceilings", sg_bench_ceilings_json(b), "kernels", rows);
}

/* ---- the work ---- */

static sg_status measure(sg_bench *b, input *in, sg_stream *s, result *r, sg_error *e)
{
    const size_t width = (size_t)in->of.h * (size_t)in->of.d;
    SG_TRY(make_input(in, s, b->backend->threads, e));
    float *const truth = malloc((SAMPLE + 1) * width * sizeof *truth); /* and one row of the kernel's */
    if (!truth) return sg_error_set(e, SG_E_MEMORY, "bench: out of memory");
    sg_status status = true_rows(in, truth, e);
    for (int i = 0; !status && i < KERNELS; i++) {
        r[i].kernel = kernels[i].name;
        status = take_time(b, s, in, i, &r[i], e);
        if (!status) status = take_error(in, s, truth, truth + SAMPLE * width, &r[i], e);
    }
    free(truth);
    return status;
}

static sg_status with_stream(sg_bench *b, input *in, result *r, sg_error *e)
{
    const size_t bytes = (size_t)in->each * sg_dtype_size(in->dtype) + SG_ALIGN;
    const size_t host = b->backend->host_memory ? 3 * (size_t)in->each * sizeof(float) : 0;
    sg_stream    s;
    if (host > b->backend->total_bytes || 4 * bytes > b->backend->total_bytes - host)
        return sg_error_set(e, SG_E_MEMORY, "bench: this shape takes %.1f GiB, more than there is",
                            (double)(4 * bytes + host) * 0x1p-30);
    SG_TRY(sg_bench_stream_open(b, &s, 4 * bytes, e));
    const sg_status status = measure(b, in, &s, r, e);
    sg_bench_stream_close(&s);
    return status;
}

sg_status sg_bench_attention(sg_bench *b, sg_error *e)
{
    const char *const dtype = b->settings->dtype ? b->settings->dtype : "auto";
    input             in = {.dtype = b->backend->dtype};
    result            r[KERNELS] = {0};
    SG_TRY(parse_shape(&in.of, b->settings->shape, e));
    if (strcmp(dtype, "auto") != 0) in.dtype = strcmp(dtype, "bf16") == 0 ? SG_BF16 : SG_F32;
    in.n = (int64_t)in.of.thw[0] * in.of.thw[1] * in.of.thw[2];
    in.each = in.n * in.of.h * in.of.d;
    SG_TRY(sg_bench_ceilings(b, e));
    sg_status status = with_stream(b, &in, r, e);
    for (int i = 0; i < 3; i++) free(in.host[i]);
    if (!status) status = sg_bench_ceilings(b, e); /* again, for the machine may have been busy */
    if (!status && !b->silent) print_all(b, &in, r);
    return status ? status : sg_bench_save(b, all_json(b, &in, r), e);
}
