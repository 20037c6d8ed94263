/* vec_matmul.c - linear and conv without a library: one blocked matmul of rows and packed weights.
 *
 * A row is a token, or the patch of x of one output position of a conv, tap by tap. F32 rows are multiplied in place: a
 * patch has one segment a tap, with a row of zeros for taps outside the frame. BF16 rows, and rows whose distance maps
 * a tile to one cache set, are copied block by block. Weights of any dtype are widened when packed, so the matmul is
 * F32 by F32. A task is SG_BM rows by SG_BN columns; its sums stay in its thread's scratch. Every sum is taken in the
 * order of k, whatever the number of threads. */
#include "quant.h"
#include "vec_tile.h"

#include <omp.h>

enum { SG_BM = 8 * SG_MR, SG_BN = 8 * SG_NR, SG_LDC = SG_BN + 16, SG_SEGMENTS = 32, SG_PAGE = 4096 };

typedef struct matmul {
    const sg_tensor    *x, *y, *w, *b, *gate, *gate_row; /* gate NULL: none */
    const sg_conv_args *conv;                            /* NULL: linear */
    sg_act              act;
    bool                add;
    int64_t             rows, depth, cols, channels; /* depth = taps channels */
    const float        *panel;                       /* [cols / SG_NR][depth][SG_NR] */
    bool                in_place;
} matmul;

/* A place in x: frame, row, column. */
typedef struct place {
    int64_t f, y, x;
} place;

/* A thread's workspace: copied rows, sums, the start of each row's window, and the addresses of a block's rows, in
 * tiles of [segments][SG_MR]. */
typedef struct matmul_workspace {
    float        a[SG_BM * SG_LDA], c[SG_BM * SG_LDC];
    place        window[SG_BM];
    const float *row[SG_SEGMENTS * SG_BM];
} matmul_workspace;

static const float nothing[SG_KC]; /* a patch's data outside the frame */

/* The first tap of output position `row`; a row of linear is a position in a frame of one column. */
static place window_of(const matmul *p, int64_t row)
{
    if (!p->conv) return (place){0, row, 0};
    const int64_t *const yd = p->y->dim;
    const int *const stride = p->conv->stride, *const pad = p->conv->pad;
    return (place){row / (yd[1] * yd[2]) * stride[0], row / yd[2] % yd[1] * stride[1] - pad[0],
                   row % yd[2] * stride[2] - pad[2]};
}

static place tap_of(const matmul *p, int64_t tap)
{
    if (!p->conv) return (place){0, 0, 0};
    const int64_t *const wd = p->w->dim;
    return (place){tap / (wd[3] * wd[4]), tap / wd[4] % wd[3], tap % wd[4]};
}

/* The offset in x of a window's tap, or of what stands for it; negative outside the frame. */
static int64_t tap_at(const matmul *p, place window, place tap)
{
    if (!p->conv) return window.y * p->depth;
    const int64_t *const xd = p->x->dim;
    const int64_t        y = sg_edge_place(p->conv->edge, window.y + tap.y, xd[1]);
    const int64_t        x = sg_edge_place(p->conv->edge, window.x + tap.x, xd[2]);
    if (y < 0 || x < 0) return -1;
    return (((window.f + tap.f) * xd[1] + y) * xd[2] + x) * xd[3];
}

/* Copies columns [k, k + kc) of a row: column k is tap k / channels, channel k % channels. */
static void copy_row(const matmul *p, place window, int64_t k, int64_t kc, float *a)
{
    for (const int64_t end = k + kc; k < end;) {
        const int64_t from = k % p->channels, n = sg_min64(p->channels - from, end - k);
        const int64_t at = tap_at(p, window, tap_of(p, k / p->channels));
        const float  *x = at < 0 ? nothing : sg_read_f32(p->x, at + from, n, a);
        if (x != a) memcpy(a, x, (size_t)n * sizeof *a);
        a += n;
        k += n;
    }
}

/* Sets the addresses of the rows of the block at column k, in tiles. Returns the columns of each segment. */
static int64_t block_rows(const matmul *p, int64_t rows, int64_t k, matmul_workspace *r, int64_t *segments)
{
    const int64_t depth = sg_min64(SG_KC, p->in_place ? p->channels - k % p->channels : p->depth - k);
    const bool    whole = p->in_place && depth == p->channels;
    *segments = whole ? sg_min64(sg_min64(SG_SEGMENTS, SG_KC / depth), (p->depth - k) / depth) : 1;
    for (int64_t s = 0; s < *segments; s++) {
        const place tap = tap_of(p, k / p->channels + s);
        for (int64_t i = 0; i % SG_MR || i < rows; i++) {
            const float **const to = &r->row[(i / SG_MR * *segments + s) * SG_MR + i % SG_MR];
            *to = nothing;
            if (i >= rows) continue;
            if (p->in_place) {
                const int64_t at = tap_at(p, r->window[i], tap);
                if (at >= 0) *to = (const float *)p->x->data + at + k % p->channels;
            } else {
                copy_row(p, r->window[i], k, depth, r->a + i * SG_LDA);
                *to = r->a + i * SG_LDA;
            }
        }
    }
    return depth;
}

/* Writes sums to y: columns [col, col + n) of one row. */
static void finish(const matmul *p, int64_t row, int64_t col, int64_t n, float *sum)
{
    const float *const b = sg_f32_at(p->b, col);
    const int64_t      at = row * p->cols + col;
    if (b)
        for (int64_t j = 0; j < n; j++) sum[j] += b[j];
    if (p->add) {
        float              scratch[SG_BN];
        const float *const gate = p->gate ? sg_f32_at(p->gate, sg_row_of(p->gate_row, row) * p->cols + col) : NULL;
        float *const       y = sg_update_f32(p->y, at, n, scratch);
        for (int64_t j = 0; j < n; j++) y[j] += gate ? gate[j] * sum[j] : sum[j];
        sg_write_f32_done(p->y, at, n, y);
    } else {
        float *const y = sg_write_f32(p->y, at, sum);
        sg_act_run(p->act, y, sum, n);
        sg_write_f32_done(p->y, at, n, y);
    }
}

static void matmul_task(const matmul *p, int64_t row, int64_t col, matmul_workspace *r)
{
    const int64_t rows = sg_min64(SG_BM, p->rows - row), cols = sg_min64(SG_BN, p->cols - col);
    for (int64_t i = 0; i < rows; i++) r->window[i] = window_of(p, row + i);
    for (int64_t k = 0, segments, depth; k < p->depth; k += segments * depth) {
        depth = block_rows(p, rows, k, r, &segments);
        for (int64_t j = 0; j < cols; j += SG_NR)
            for (int64_t i = 0; i < rows; i += SG_MR)
                sg_tile(r->row + i * segments, segments, depth, p->panel + (col + j) * p->depth + k * SG_NR, cols - j,
                        r->c + i * SG_LDC + j, SG_LDC, k == 0);
    }
    for (int64_t i = 0; i < rows; i++) finish(p, row + i, col, cols, r->c + i * SG_LDC);
}

static sg_status matmul_run(sg_cpu *cpu, const matmul *p)
{
    const int64_t           down = sg_div_up(p->rows, SG_BM), across = sg_div_up(p->cols, SG_BN);
    const int               team = (int)sg_min64(cpu->threads, down * across);
    matmul_workspace *const scratch = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)team * sizeof *scratch);
    if (!scratch) return SG_E_MEMORY;
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (int64_t i = 0; i < down * across; i++)
        matmul_task(p, i % down * SG_BM, i / down * SG_BN, scratch + omp_get_thread_num());
    return SG_OK;
}

/* Whether rows `stride` apart may be multiplied in place: a tile of them must fit the ways of the cache. */
static bool in_place(const sg_tensor *x, int64_t stride)
{
    return x->dtype == SG_F32 && stride * (int64_t)sizeof(float) % SG_PAGE != 0;
}

/* Numbers of w from `at` on, all of one row: in place, widened into buffer. */
static const float *read_weights(const sg_tensor *w, int64_t at, int64_t n, float *buffer)
{
    if (!w->quant.type) return sg_read_f32(w, at, n, buffer);
    sg_quant_read(buffer, w, at, n);
    return buffer;
}

/* Packs one panel of weights [o, channels, taps], taps 1 for linear; its rows are tap * channels + channel. */
static void pack_panel(const matmul *p, int64_t col, float *panel)
{
    const int64_t channels = p->channels, taps = p->depth / channels;
    for (int64_t j = 0; j < SG_NR; j++)
        for (int64_t k = 0; k < p->depth; k += SG_RUN) {
            float              scratch[SG_RUN];
            const int64_t      n = sg_min64(SG_RUN, p->depth - k);
            const float *const w = col + j < p->cols ? read_weights(p->w, (col + j) * p->depth + k, n, scratch) : NULL;
            for (int64_t i = 0; i < n; i++) {
                const int64_t to = taps == 1 ? k + i : (k + i) % taps * channels + (k + i) / taps;
                panel[to * SG_NR + j] = w ? w[i] : 0.0f;
            }
        }
}

static sg_status matmul_pack(sg_cpu *cpu, matmul *p)
{
    const int64_t panels = sg_div_up(p->cols, SG_NR);
    bool          fresh;
    float *const  packed = sg_pack_find(cpu, p->w, SG_NR, (size_t)(panels * SG_NR * p->depth) * sizeof *packed, &fresh);
    if (!packed) return SG_E_MEMORY;
    if (fresh) {
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
        for (int64_t j = 0; j < panels; j++) pack_panel(p, j * SG_NR, packed + j * SG_NR * p->depth);
    }
    p->panel = packed;
    return SG_OK;
}

static float dot(const float *x, const float *w, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * w[i];
    return sum;
}

/* Sums of a row of w, which is read once, with each row of x. */
static void thin_column(const matmul *p, const float *x, int64_t col, int64_t lane, float sum[SG_THIN][SG_LANES])
{
    for (int64_t r = 0; r < p->rows; r++) sum[r][lane] = 0;
    for (int64_t k = 0; k < p->depth; k += SG_RUN) {
        float              scratch[SG_RUN];
        const int64_t      n = sg_min64(SG_RUN, p->depth - k);
        const float *const w = read_weights(p->w, col * p->depth + k, n, scratch);
        for (int64_t r = 0; r < p->rows; r++) sum[r][lane] += dot(x + r * p->depth + k, w, n);
    }
}

/* Few rows: reading w is the bound. It is read in place, and not packed. */
static sg_status thin_run(sg_cpu *cpu, const matmul *p)
{
    const int64_t rows = p->rows, depth = p->depth;
    float *const  x = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(rows * depth) * sizeof *x);
    if (!x) return SG_E_MEMORY;
    for (int64_t i = 0; i < rows * depth; i += SG_RUN) {
        float         scratch[SG_RUN];
        const int64_t n = sg_min64(SG_RUN, rows * depth - i);
        memcpy(x + i, sg_read_f32(p->x, i, n, scratch), (size_t)n * sizeof *x);
    }
    SG_BY_THREADS(cpu, depth * p->cols)
    for (int64_t col = 0; col < p->cols; col += SG_LANES) {
        float         sum[SG_THIN][SG_LANES];
        const int64_t n = sg_min64(SG_LANES, p->cols - col);
        for (int64_t j = 0; j < n; j++) thin_column(p, x, col + j, j, sum);
        for (int64_t r = 0; r < rows; r++) finish(p, r, col, n, sum[r]);
    }
    return SG_OK;
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    const int64_t depth = a->x.dim[1];
    matmul        p = {.x = &a->x,
                       .y = &a->y,
                       .w = &a->w,
                       .b = &a->b,
                       .gate = &a->gate,
                       .gate_row = &a->row,
                       .act = a->act,
                       .add = a->add,
                       .rows = a->x.dim[0],
                       .depth = depth,
                       .cols = a->w.dim[0],
                       .channels = depth,
                       .in_place = in_place(&a->x, depth)};
    if (p.rows <= SG_THIN) return thin_run(sg_cpu_of(s), &p);
    SG_TRY(matmul_pack(sg_cpu_of(s), &p));
    return matmul_run(sg_cpu_of(s), &p);
}

sg_status SG_VEC_NAME(conv)(sg_stream *s, const sg_conv_args *a)
{
    const int64_t *const yd = a->y.dim, *const wd = a->w.dim, channels = wd[1];
    matmul p = {.x = &a->x,
                .y = &a->y,
                .w = &a->w,
                .b = &a->b,
                .conv = a,
                .add = a->add,
                .rows = yd[0] * yd[1] * yd[2],
                .depth = channels * wd[2] * wd[3] * wd[4],
                .cols = wd[0],
                .channels = channels,
                .in_place = in_place(&a->x, channels)};
    SG_TRY(matmul_pack(sg_cpu_of(s), &p));
    return matmul_run(sg_cpu_of(s), &p);
}

void SG_VEC_INIT(matmul)(sg_ops *t)
{
    t->linear = linear;
    t->conv = SG_VEC_NAME(conv);
}
