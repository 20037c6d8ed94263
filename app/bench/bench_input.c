/* bench_input.c - see bench_input.h. */
#include "bench_input.h"
#include "base/text.h"
#include "engine.h"
#include "rng.h"
#include "setup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- shapes ---- */

/* "B,H,N,D", N perhaps as TxYxX. */
static bool parse_numbers(sg_bench_input *in, const char *text)
{
    char tail;
    int  n[3] = {1, 1, 1};
    if (strlen(text) > 60) return false;
    if (sscanf(text, "%9d,%9d,%9d,%9d%c", &in->b, &in->h, &n[2], &in->d, &tail) != 4 &&
        sscanf(text, "%9d,%9d,%9dx%9dx%9d,%9d%c", &in->b, &in->h, &n[0], &n[1], &n[2], &in->d, &tail) != 6)
        return false;
    in->n = 1;
    for (int i = 0; i < 3; i++) {
        if (n[i] < 1 || __builtin_mul_overflow(in->n, n[i], &in->n)) return false;
        in->grid[i] = n[i];
    }
    in->hk = in->h;
    return in->b >= 1 && in->b <= SG_BENCH_BATCH && in->h >= 1 && in->h <= 256 && in->n <= 1 << 22 && in->d >= 1 &&
           in->d <= 1024;
}

static bool take_text(sg_bench_input *in, const char *name)
{
    const sg_bench_text *t = sg_bench_texts;
    while (t->name && strcmp(t->name, name) != 0) t++;
    if (!t->name) return false;
    in->name = t->name;
    in->b = 1;
    in->h = t->heads;
    in->hk = t->key_heads;
    in->d = t->head_dim;
    in->grid[0] = in->grid[1] = 1;
    in->n = in->grid[2] = t->tokens;
    in->causal = true;
    in->order = SG_ORDER_ROW;
    return true;
}

static sg_status parse_shape(sg_bench_input *in, const char *text, sg_error *e)
{
    const sg_known_shape *s;
    for (int i = 0; (s = sg_known_shape_at(i)) != NULL; i++) {
        if (text && strcmp(text, s->name) != 0) continue;
        in->name = s->name;
        in->b = 1;
        in->n = 1;
        in->h = in->hk = s->heads;
        in->d = s->head_dim;
        in->layers = s->layers;
        for (int a = 0; a < 3; a++) in->n *= in->grid[a] = s->grid[a];
        in->text_prefix = s->text_prefix;
        in->text_suffix = s->text_suffix;
        in->n += in->text_prefix + in->text_suffix;
        return SG_OK;
    }
    if (take_text(in, text)) return SG_OK;
    if (parse_numbers(in, text)) {
        in->name = in->grid[0] * in->grid[1] > 1 ? "a grid of tokens" : "a row of tokens";
        return SG_OK;
    }
    return sg_error_set(
        e, SG_E_ARG,
        "--shape: '%.80s' is neither the name of a shape (bench attention --help lists them) nor B,H,N,D "
        "up to 64,256,4194304,1024, where N may be TxYxX",
        text);
}

/* ---- inputs that are made ---- */

/* Place x of n on a grid of g: the two neighbours begin at *at, the second weighs *w. */
static void place(int64_t x, int64_t n, int g, int *at, float *w)
{
    const float p = n > 1 ? (float)x * (float)(g - 1) / (float)(n - 1) : 0;
    *at = (int)p < g - 2 ? (int)p : g - 2;
    *w = p - (float)*at;
}

/* Tokens of the grid. */
static int64_t cells_of(const sg_bench_input *in) { return in->n - in->text_prefix - in->text_suffix; }

/* What a field of a head is made of. */
typedef struct field {
    int    g[3];                    /* sides of the coarse grid */
    size_t cells, all;              /* numbers of coarse and of noise */
    float *coarse, *noise, *smooth; /* the grid's vectors, and behind them one of each token of text; [n, d]; [d] */
} field;

/* smooth = what is smooth of a token: interpolated between the eight of the coarse grid around its cell, or its own. */
static void take_smooth(const field *f, const sg_bench_input *in, int64_t token)
{
    const int64_t *const grid = in->grid, cells = cells_of(in), cell = token - in->text_prefix;
    const int64_t        x[3] = {cell / (grid[1] * grid[2]), cell / grid[2] % grid[1], cell % grid[2]};
    const bool           text = cell < 0 || cell >= cells;
    int                  at[3];
    float                w[3];
    for (int a = 0; a < 3 && !text; a++) place(x[a], grid[a], f->g[a], &at[a], &w[a]);
    memset(f->smooth, 0, (size_t)in->d * sizeof *f->smooth);
    for (int corner = 0; corner < (text ? 1 : 8); corner++) {
        float   weight = 1;
        int64_t from = text ? (int64_t)f->g[0] * f->g[1] * f->g[2] + (cell < 0 ? token : token - cells) : 0;
        for (int a = 0; a < 3 && !text; a++) {
            const int side = corner >> a & 1;
            weight *= side ? w[a] : 1 - w[a];
            from = from * f->g[a] + at[a] + side;
        }
        for (int k = 0; k < in->d; k++) f->smooth[k] += weight * f->coarse[from * in->d + k];
    }
}

/* Adds, for head h, scale (1.6 smooth + 0.6 noise) to out [n, heads, d]. */
static void add_field(const field *f, const sg_bench_input *in, const int32_t *token, float *out, int heads, int h,
                      float scale, uint64_t seed)
{
    sg_randn(f->coarse, f->cells, 2 * seed);
    sg_randn(f->noise, f->all, 2 * seed + 1);
    for (int64_t i = 0; i < in->n; i++) {
        take_smooth(f, in, token[i]);
        float *const       row = out + (i * heads + h) * in->d;
        const float *const extra = f->noise + (int64_t)token[i] * in->d;
        for (int k = 0; k < in->d; k++) row[k] += scale * (1.6F * f->smooth[k] + 0.6F * extra[k]);
    }
}

/* Makes q of head h, and k and v where it is the first that has them. False: no memory. */
static bool make_head(const sg_bench_input *in, const int32_t *token, int h)
{
    const uint64_t seed = 4 * (uint64_t)h + 1;
    const int      group = in->h / in->hk, hk = h / group;
    field          f = {.all = (size_t)in->n * (size_t)in->d};
    for (int a = 0; a < 3; a++) f.g[a] = (int)fmax(2, (double)(in->grid[a] / (a ? 5 : 3)));
    f.cells = ((size_t)f.g[0] * (size_t)f.g[1] * (size_t)f.g[2] + (size_t)(in->n - cells_of(in))) * (size_t)in->d;
    f.coarse = malloc((f.cells + f.all + (size_t)in->d) * sizeof *f.coarse);
    if (!f.coarse) return false;
    f.noise = f.coarse + f.cells;
    f.smooth = f.noise + f.all;
    add_field(&f, in, token, in->host[0], in->h, h, 1, seed);
    for (int i = 1; i < 3 && h % group == 0; i++)
        add_field(&f, in, token, in->host[i], in->hk, hk, i == 1 ? 0.7F : 1, seed + (uint64_t)i);
    sg_randn(f.smooth, (size_t)in->d, 2 * seed + 6); /* the vector for all keys */
    for (int64_t i = 0; i < in->n && h % group == 0; i++)
        for (int k = 0; k < in->d; k++)
            in->host[1][(i * in->hk + hk) * in->d + k] +=
                0.7F * in->host[0][(i * in->h + h) * in->d + k] + 2 * f.smooth[k];
    free(f.coarse);
    return true;
}

static sg_status make(sg_bench_input *in, int threads, sg_error *e)
{
    int32_t *const token = sg_bench_input_order(in, in->order);
    bool           allocated = token;
    if (allocated) {
#pragma omp parallel for num_threads(threads) reduction(&& : allocated)
        for (int h = 0; h < in->h; h++) allocated = make_head(in, token, h) && allocated;
    }
    free(token);
    return allocated ? SG_OK : sg_error_memory(e, "bench");
}

/* ---- inputs of a file ---- */

static const char *const names[3] = {"q", "k", "v"};

static sg_status refuse(const sg_bench_input *in, const char *what, sg_error *e)
{
    return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: %s", in->name, what);
}

/* A count in the metadata. */
static sg_status read_count(const sg_bench_input *in, const char *key, int64_t *out, sg_error *e)
{
    const char *const text = sg_source_metadata(in->file, key);
    char              tail;
    int               v = 0;
    if (text && (strlen(text) > 9 || sscanf(text, "%d%c", &v, &tail) != 1 || v < 0))
        return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: %s: '%.40s' is no count of tokens", in->name, key, text);
    *out = v;
    return SG_OK;
}

static sg_status read_grid(sg_bench_input *in, sg_error *e)
{
    const char *const text = sg_source_metadata(in->file, "grid");
    const int64_t     cells = cells_of(in);
    int               g[3] = {1, 1, (int)cells};
    char              tail;
    if (text && (strlen(text) > 30 || sscanf(text, "%9d,%9d,%9d%c", &g[0], &g[1], &g[2], &tail) != 3))
        return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: grid: '%.40s' is not frames,rows,columns", in->name, text);
    int64_t all = 1;
    for (int a = 0; a < 3; a++) {
        if (g[a] < 1 || __builtin_mul_overflow(all, (int64_t)g[a], &all)) all = -1;
        in->grid[a] = g[a];
    }
    if (all == cells && cells > 0) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: a grid of %dx%dx%d, %lld and %lld tokens of text are not %lld",
                        in->name, g[0], g[1], g[2], (long long)in->text_prefix, (long long)in->text_suffix,
                        (long long)in->n);
}

static sg_status read_order(sg_bench_input *in, sg_error *e)
{
    const char *const text = sg_source_metadata(in->file, "order");
    const int         order = text ? sg_text_place(text, sg_names("order")) : SG_ORDER_ROW;
    if (!sg_names("order")[order])
        return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: order: there is none '%.40s'", in->name, text);
    in->file_order = (sg_order)order;
    return SG_OK;
}

static sg_status open_file(sg_bench_input *in, const char *path, sg_error *e)
{
    sg_tensor t[3];
    in->name = path;
    SG_TRY(sg_setup_safetensors(path, "--qkv", e));
    SG_TRY(sg_source_open(&in->file, path, e));
    for (int i = 0; i < 3; i++) {
        t[i] = sg_source_find(in->file, names[i]);
        const bool real = t[i].dtype == SG_F32 || t[i].dtype == SG_F16 || t[i].dtype == SG_BF16;
        if (t[i].rank != 3 || !real)
            return sg_error_set(e, SG_E_FORMAT, "--qkv: %s: tensor \"%s\" should be F32, F16 or BF16 [n, h, d]",
                                in->name, names[i]);
    }
    const int64_t *const q = t[0].dim, *const k = t[1].dim;
    if (memcmp(k, t[2].dim, 3 * sizeof *k) != 0 || q[0] != k[0] || q[2] != k[2])
        return refuse(in, "q, k and v do not agree in tokens, heads or head size", e);
    if (q[0] < 1 || q[0] > 1 << 22 || q[1] < 1 || q[1] > 256 || q[2] < 1 || q[2] > 1024 || k[1] < 1 || q[1] % k[1])
        return refuse(in, "more than 4194304 tokens, 256 heads or a head size of 1024, or none, or uneven heads", e);
    in->b = 1;
    in->n = q[0];
    in->h = (int)q[1];
    in->hk = (int)k[1];
    in->d = (int)q[2];
    SG_TRY(read_count(in, "text_prefix", &in->text_prefix, e));
    SG_TRY(read_count(in, "text_suffix", &in->text_suffix, e));
    SG_TRY(read_order(in, e));
    return read_grid(in, e);
}

/* Row i of t, its first heads, becomes row `at` of x. In the file numbers may lie at any address. */
static void take_row(const sg_bench_input *in, float *x, sg_tensor t, int heads, int64_t i, int64_t at)
{
    const int64_t   width = (int64_t)heads * in->d;
    const size_t    size = sg_dtype_size(t.dtype);
    const char     *from = (const char *)t.data + (size_t)(i * t.dim[1] * t.dim[2]) * size;
    float           number;
    const sg_tensor one = {.data = &number, .dtype = t.dtype};
    for (int64_t k = 0; k < width; k++, from += size) {
        memcpy(&number, from, size);
        x[at * width + k] = sg_load(&one, 0);
    }
}

static sg_status take_file(sg_bench_input *in, sg_error *e)
{
    int32_t *const token = sg_bench_input_order(in, in->order), *const theirs =
                                                                    sg_bench_input_order(in, in->file_order);
    int32_t *const row = malloc((size_t)in->n * sizeof *row); /* of a token in the file */
    const bool     allocated = token && theirs && row;
    if (allocated) sg_order_invert(row, theirs, in->n);
    for (int k = 0; allocated && k < 3; k++)
        for (int64_t i = 0; i < in->n; i++)
            take_row(in, in->host[k], sg_source_find(in->file, names[k]), k ? in->hk : in->h, row[token[i]], i);
    free(token);
    free(theirs);
    free(row);
    return allocated ? SG_OK : sg_error_memory(e, "bench");
}

/* ---- both ---- */

int32_t *sg_bench_input_order(const sg_bench_input *in, sg_order order)
{
    int32_t *const at = malloc((size_t)in->n * sizeof *at);
    if (!at) return NULL;
    for (int64_t i = 0; i < in->n; i++) at[i] = (int32_t)i;
    if (sg_order_make(at + in->text_prefix, order, in->grid[0], in->grid[1], in->grid[2])) {
        free(at);
        return NULL;
    }
    for (int64_t i = in->text_prefix; i < in->n - in->text_suffix; i++) at[i] += (int32_t)in->text_prefix;
    return at;
}

sg_status sg_bench_input_open(sg_bench_input *in, const sg_settings *s, sg_error *e)
{
    if (s->qkv && s->shape) return sg_error_set(e, SG_E_ARG, "--shape: --qkv brings a shape of its own");
    SG_TRY(s->qkv ? open_file(in, s->qkv, e) : parse_shape(in, s->shape, e));
    in->all_heads = in->h;
    if (s->heads && s->heads < in->h) { /* as whole groups that share keys */
        const int group = in->h / in->hk;
        in->hk = s->heads / group > 1 ? s->heads / group : 1;
        in->h = in->hk * group;
    }
    return SG_OK;
}

sg_status sg_bench_input_fill(sg_bench_input *in, int threads, sg_error *e)
{
    for (int i = 0; i < 3; i++) {
        const size_t heads = (size_t)(i ? in->hk : in->h);
        in->host[i] = calloc((size_t)in->n * heads * (size_t)in->d, sizeof *in->host[i]);
        if (!in->host[i]) return sg_error_memory(e, "bench");
    }
    SG_TRY(in->file ? take_file(in, e) : make(in, threads, e));
    for (int i = 0; i < 3; i++) {
        const int64_t count = in->n * (i ? in->hk : in->h) * in->d;
        for (int64_t k = 0; in->dtype == SG_BF16 && k < count; k++)
            in->host[i][k] = sg_bf16_to_f32(sg_f32_to_bf16(in->host[i][k]));
    }
    return SG_OK;
}

void sg_bench_input_close(sg_bench_input *in)
{
    for (int i = 0; i < 3; i++) free(in->host[i]);
    sg_source_close(&in->file);
}
