/* data_movement.c - ops that move data, and sinusoid. One level serves: memcpy is vectorised, other accesses are
 * scattered. */
#include "cpu.h"

#include <math.h>

enum { SG_SQUARE = 16, SG_LONG = 64, SG_TABLE = 1024, SG_BLEND = 256 };

void sg_move_run(const sg_tensor *y, int64_t to, const sg_tensor *x, int64_t from, int64_t n)
{
    const size_t size = sg_dtype_size(y->dtype);
    if (y->dtype == x->dtype)
        memcpy((char *)y->data + (size_t)to * size, (const char *)x->data + (size_t)from * size, (size_t)n * size);
    else if (y->dtype == SG_F16 || x->dtype == SG_F16)
        for (int64_t i = 0; i < n; i++) sg_store(y, to + i, sg_load(x, from + i));
    else if (y->dtype == SG_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)y->data)[to + i] = sg_bf16_to_f32(((const uint16_t *)x->data)[from + i]);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)y->data)[to + i] = sg_f32_to_bf16(((const float *)x->data)[from + i]);
}

/* y[to + i] = x[from + at[i]] */
static void gather(const sg_tensor *y, int64_t to, const sg_tensor *x, int64_t from, const int64_t *at, int64_t n)
{
    if (y->dtype != x->dtype) {
        for (int64_t i = 0; i < n; i++) sg_store(y, to + i, sg_load(x, from + at[i]));
    } else if (y->dtype == SG_F32) {
        for (int64_t i = 0; i < n; i++) ((float *)y->data)[to + i] = ((const float *)x->data)[from + at[i]];
    } else {
        for (int64_t i = 0; i < n; i++) ((uint16_t *)y->data)[to + i] = ((const uint16_t *)x->data)[from + at[i]];
    }
}

static sg_status embed(sg_stream *s, const sg_embed_args *a)
{
    (void)s;
    const int64_t        n = a->ids.dim[0], c = a->w.dim[1];
    const int32_t *const ids = a->ids.data;
    for (int64_t t = 0; t < n; t++) sg_move_run(&a->y, t * c, &a->w, ids[t] * c, c);
    return SG_OK;
}

static sg_status sinusoid(sg_stream *s, const sg_sinusoid_args *a)
{
    (void)s;
    const int64_t      half = a->y.dim[1] / 2;
    const float *const t = a->t.data;
    for (int64_t i = 0; i < half; i++) {
        const float f = expf(-9.210340371976184f * (float)i / (float)half);
        for (int64_t k = 0; k < a->t.dim[0]; k++) {
            const float  angle = t[k] * f;
            float *const y = (float *)a->y.data + k * 2 * half + i;
            y[0] = (float)cos((double)angle);
            y[half] = (float)sin((double)angle);
        }
    }
    return SG_OK;
}

/* The place beside r / 2, of n, that r lies towards. */
static int64_t beside(int64_t r, int64_t n)
{
    const int64_t k = r % 2 ? r / 2 + 1 : r / 2 - 1;
    return k < 0 ? 0 : k < n ? k : n - 1;
}

/* y += share x, of n neighbours from `from` on. */
static void add_share(float *y, const sg_tensor *x, int64_t from, float share, int64_t n)
{
    if (x->dtype == SG_F32)
        for (int64_t i = 0; i < n; i++) y[i] += share * ((const float *)x->data)[from + i];
    else
        for (int64_t i = 0; i < n; i++) y[i] += share * sg_bf16_to_f32(((const uint16_t *)x->data)[from + i]);
}

/* Place p of y, channels c .. c + n. */
static void blend(const sg_upsample_args *a, int64_t p, int64_t c, int64_t n)
{
    float                sum[SG_BLEND] = {0};
    const int64_t *const yd = a->y.dim, *const xd = a->x.dim, t = p / yd[2] / yd[1], r = p / yd[2] % yd[1],
                         u = p % yd[2];
    const int64_t f = a->near > 0 ? t / 2 : t;
    const float   later = a->near > 0 ? t % 2 ? a->near : 1 - a->near : 0;
    for (int k = 0; k < 8; k++) { /* corners */
        const float   share = (k & 4 ? later : 1 - later) * (k & 2 ? 0.25f : 0.75f) * (k & 1 ? 0.25f : 0.75f);
        const int64_t y = k & 2 ? beside(r, xd[1]) : r / 2, x = k & 1 ? beside(u, xd[2]) : u / 2;
        if (share > 0) add_share(sum, &a->x, (((f + k / 4) * xd[1] + y) * xd[2] + x) * xd[3] + c, share, n);
    }
    sg_move_run(&a->y, p * yd[3] + c, &(sg_tensor){.data = sum, .dtype = SG_F32}, 0, n);
}

static sg_status upsample_linearly(sg_stream *s, const sg_upsample_args *a)
{
    const int64_t places = sg_count(a->y) / a->y.dim[3], channels = a->y.dim[3];
    SG_BY_THREADS(sg_cpu_of(s), places * channels)
    for (int64_t p = 0; p < places; p++)
        for (int64_t c = 0; c < channels; c += SG_BLEND)
            blend(a, p, c, channels - c < SG_BLEND ? channels - c : SG_BLEND);
    return SG_OK;
}

static sg_status upsample(sg_stream *s, const sg_upsample_args *a)
{
    const int64_t *const xd = a->x.dim, rows = xd[0] * xd[1], c = xd[3], wide = 2 * xd[2] * c;
    if (a->linear) return upsample_linearly(s, a);
    SG_BY_THREADS(sg_cpu_of(s), rows * wide)
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t u = 0; u < 2 * xd[2]; u++)
            sg_move_run(&a->y, 2 * r * wide + u * c, &a->x, (r * xd[2] + u / 2) * c, c);
        sg_move_run(&a->y, (2 * r + 1) * wide, &a->y, 2 * r * wide, wide);
    }
    return SG_OK;
}

static sg_status avg_down(sg_stream *s, const sg_avg_down_args *a)
{
    const int64_t *const yd = a->y.dim, *const xd = a->x.dim, ft = a->ft, fs = a->fs;
    const int64_t group = xd[3] * ft * fs * fs / yd[3], front = yd[0] * ft - xd[0], places = yd[0] * yd[1] * yd[2];
    SG_BY_THREADS(sg_cpu_of(s), places * yd[3])
    for (int64_t p = 0; p < places; p++) {
        const int64_t u = p % yd[2] * fs, r = p / yd[2] % yd[1] * fs, t = p / yd[2] / yd[1] * ft - front;
        for (int64_t o = 0; o < yd[3]; o++) {
            double sum = 0;
            for (int64_t k = o * group; k < (o + 1) * group; k++) {
                const int64_t ds = k % fs, dr = k / fs % fs, f = t + k / fs / fs % ft, c = k / fs / fs / ft;
                if (f >= 0) sum += (double)sg_load(&a->x, ((f * xd[1] + r + dr) * xd[2] + u + ds) * xd[3] + c);
            }
            sg_store(&a->y, p * yd[3] + o, (float)(sum / (double)group));
        }
    }
    return SG_OK;
}

/* Output channel o of position k of a block is input channel at[k * channels + o]. */
static sg_status dup_up(sg_stream *s, const sg_dup_up_args *a)
{
    const int64_t *const yd = a->y.dim, *const xd = a->x.dim, ft = a->ft, fs = a->fs, block = ft * fs * fs, c = yd[3];
    const int64_t  repeat = c * block / xd[3], places = yd[0] * yd[1] * yd[2];
    int64_t *const at = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_WORK, (size_t)(block * c) * sizeof *at);
    if (!at) return SG_E_MEMORY;
    for (int64_t i = 0; i < block * c; i++) at[i] = (i % c * block + i / c) / repeat;
    SG_BY_THREADS(sg_cpu_of(s), places * c)
    for (int64_t p = 0; p < places; p++) {
        const int64_t u = p % yd[2], r = p / yd[2] % yd[1], t = p / yd[2] / yd[1] + a->drop;
        const int64_t from = ((t / ft * xd[1] + r / fs) * xd[2] + u / fs) * xd[3];
        const int64_t k = (t % ft * fs + r % fs) * fs + u % fs;
        if (repeat == block) /* every channel stays what it is */
            sg_move_run(&a->y, p * c, &a->x, from, c);
        else
            gather(&a->y, p * c, &a->x, from, at + k * c, c);
    }
    return SG_OK;
}

static sg_status strided_copy(sg_stream *s, const sg_strided_copy_args *a)
{
    const sg_tensor      t = a->scatter ? a->x : a->y;
    const int64_t        n = t.dim[0], h = t.dim[1], d = t.dim[2];
    const int32_t *const rows = a->row.rank ? a->row.data : NULL;
    const int64_t        runs = a->head == d ? 1 : h, run = a->head == d ? h * d : d;
    SG_BY_THREADS(sg_cpu_of(s), n * h * d)
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < runs; j++) {
            const int64_t at = a->first + (rows ? rows[i] : i) * a->token + j * a->head, own = i * h * d + j * run;
            sg_move_run(&a->y, a->scatter ? at : own, &a->x, a->scatter ? own : at, run);
        }
    return SG_OK;
}

/* ---- permute ---- */

/* y's axes, outermost first, each with its length and its stride in x. Axes of length 1 are dropped; axes that stay
 * adjacent are merged. */
typedef struct strides {
    int     rank;
    int64_t dim[SG_PERMUTE_RANK], stride[SG_PERMUTE_RANK];
} strides;

static strides strides_of(const sg_permute_args *a)
{
    int64_t stride[SG_PERMUTE_RANK];
    strides w = {0};
    for (int k = a->rank - 1, first = 1; k >= 0; k--, first = 0) stride[k] = first ? 1 : stride[k + 1] * a->dim[k + 1];
    for (int k = 0; k < a->rank; k++) {
        const int64_t dim = a->dim[a->perm[k]], step = stride[a->perm[k]];
        if (dim == 1) continue;
        if (w.rank && w.stride[w.rank - 1] == dim * step) {
            w.dim[w.rank - 1] *= dim;
            w.stride[w.rank - 1] = step;
        } else {
            w.dim[w.rank] = dim;
            w.stride[w.rank++] = step;
        }
    }
    if (w.rank == 0) w = (strides){1, {1}, {1}};
    return w;
}

/* The offset in x of index `at` of y's outer axes [0, axes); axis `skip` counts as length 1. */
static int64_t source_of(const strides *w, int axes, int skip, int64_t at)
{
    int64_t from = 0;
    for (int k = axes - 1; k >= 0; k--) {
        if (k == skip) continue;
        from += at % w->dim[k] * w->stride[k];
        at /= w->dim[k];
    }
    return from;
}

/* y's innermost axis is x's: copies whole runs. */
static void permute_runs(sg_cpu *c, const sg_permute_args *a, const strides *w)
{
    const int64_t run = w->dim[w->rank - 1], runs = sg_count(a->y) / run;
    SG_BY_THREADS(c, runs * run)
    for (int64_t i = 0; i < runs; i++) sg_move_run(&a->y, i * run, &a->x, source_of(w, w->rank - 1, -1, i), run);
}

/* Transposes a square, y's rows `across` apart and x's columns `stride` apart. Every cache line of either side is used
 * whole while it is cached. */
static void permute_square(const sg_permute_args *a, int64_t to, int64_t across, int64_t from, int64_t stride,
                           int64_t rows, int64_t cols)
{
#define MOVE(type)                                                                                                     \
    for (int64_t r = 0; r < rows; r++)                                                                                 \
        for (int64_t c = 0; c < cols; c++)                                                                             \
            ((type *)a->y.data)[to + r * across + c] = ((const type *)a->x.data)[from + c * stride + r];
    if (a->x.dtype == SG_F32 && a->y.dtype == SG_F32) {
        MOVE(float)
    } else if (a->x.dtype == a->y.dtype) {
        MOVE(uint16_t)
    } else {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                sg_store(&a->y, to + r * across + c, sg_load(&a->x, from + c * stride + r));
    }
#undef MOVE
}

/* x's innermost axis is y's axis `inner`: transposes the two in squares, for every index of the others. */
static void permute_squares(sg_cpu *c, const sg_permute_args *a, const strides *w, int inner)
{
    const int64_t rows = w->dim[inner], cols = w->dim[w->rank - 1], stride = w->stride[w->rank - 1];
    int64_t       across = 1, outer = 1; /* y's stride of `inner`; places of the other axes */
    for (int k = inner + 1; k < w->rank; k++) across *= w->dim[k];
    for (int k = 0; k < w->rank - 1; k++) outer *= k == inner ? 1 : w->dim[k];
    const int64_t down = (rows + SG_SQUARE - 1) / SG_SQUARE, between = across / cols;
    SG_BY_THREADS(c, outer * rows * cols)
    for (int64_t i = 0; i < outer * down; i++) {
        const int64_t place = i / down, r = i % down * SG_SQUARE;
        const int64_t to = (place / between * rows + r) * across + place % between * cols;
        const int64_t from = source_of(w, w->rank - 1, inner, place) + r;
        for (int64_t k = 0; k < cols; k += SG_SQUARE)
            permute_square(a, to + k, across, from + k * stride, stride, sg_min64(SG_SQUARE, rows - r),
                           sg_min64(SG_SQUARE, cols - k));
    }
}

/* Other permutations: y in pieces of whole inner axes, or of part of a long one, with a table of offsets in x. */
static sg_status permute_pieces(sg_cpu *c, const sg_permute_args *a, const strides *w)
{
    int     axes = w->rank; /* those that stay outside */
    int64_t run = 1;
    while (axes > 0 && run * w->dim[axes - 1] <= SG_TABLE) run *= w->dim[--axes];
    if (axes == w->rank) run = w->dim[--axes];
    const int64_t  piece = sg_min64(run, SG_TABLE), cuts = (run + piece - 1) / piece, runs = sg_count(a->y) / run;
    int64_t *const at = sg_cpu_scratch(c, SG_SLOT_WORK, (size_t)piece * sizeof *at);
    strides        in = {.rank = w->rank - axes};
    if (!at) return SG_E_MEMORY;
    memcpy(in.dim, w->dim + axes, (size_t)in.rank * sizeof in.dim[0]);
    memcpy(in.stride, w->stride + axes, (size_t)in.rank * sizeof in.stride[0]);
    for (int64_t i = 0; i < piece; i++) at[i] = source_of(&in, in.rank, -1, i);
    SG_BY_THREADS(c, runs * run)
    for (int64_t i = 0; i < runs * cuts; i++) {
        const int64_t first = i % cuts * piece;
        const int64_t from = source_of(w, axes, -1, i / cuts) + source_of(&in, in.rank, -1, first);
        gather(&a->y, i / cuts * run + first, &a->x, from, at, sg_min64(piece, run - first));
    }
    return SG_OK;
}

static sg_status permute(sg_stream *s, const sg_permute_args *a)
{
    const strides w = strides_of(a);
    int           inner = w.rank - 1;
    for (int k = 0; k < w.rank; k++)
        if (w.stride[k] == 1) inner = k;
    const int64_t rows = w.dim[inner], cols = w.dim[w.rank - 1];
    if (inner == w.rank - 1 ? cols < SG_LONG : rows < SG_SQUARE || cols < SG_SQUARE)
        return permute_pieces(sg_cpu_of(s), a, &w);
    if (inner == w.rank - 1)
        permute_runs(sg_cpu_of(s), a, &w);
    else
        permute_squares(sg_cpu_of(s), a, &w, inner);
    return SG_OK;
}

void sg_data_movement_init(sg_ops *t)
{
    t->embed = embed;
    t->sinusoid = sinusoid;
    t->upsample = upsample;
    t->avg_down = avg_down;
    t->dup_up = dup_up;
    t->permute = permute;
    t->strided_copy = strided_copy;
}
