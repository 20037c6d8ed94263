/* vec_product.c - linear and conv without a library: one blocked product of rows and packed weights.
 *
 * A row is a token, or the patch of x that one output place of a conv sees, tap by tap; the patch is put together block by
 * block and never exists as a whole. Weights of any dtype are widened when packed, once, so products are F32 by F32. A
 * task is SG_BM rows by SG_BN columns, its sums stay in its thread's scratch; every sum is taken in the order of k. */
#include "vec_tile.h"

#include <omp.h>

enum { SG_BM = 8 * SG_MR, SG_BN = 8 * SG_NR, SG_LDC = SG_BN + 16, SG_THIN = 4 };

typedef struct product {
    const sg_tensor      *x, *y, *w, *b;
    const sg_conv_args   *conv; /* NULL: linear */
    sg_act                act;
    int64_t               rows, depth, cols;
    const float          *panel; /* [cols / SG_NR][depth][SG_NR] */
} product;

/* Block [rows][kc] of linear's left side, from row `row` and column k on. */
static void load_rows(const product *p, int64_t row, int64_t rows, int64_t k, int64_t kc, float *a)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (row + r) * p->depth + k;
        if (p->x->dtype == SG_F32)
            memcpy(a + r * SG_LDA, (const float *)p->x->data + at, (size_t)kc * sizeof *a);
        else
            sg_widen(a + r * SG_LDA, (const uint16_t *)p->x->data + at, kc);
    }
}

/* Columns [k, k + kc) of the patch of output place `row`: tap k / channels, channel k % channels. */
static void load_patch(const product *p, int64_t row, int64_t k, int64_t kc, float *a)
{
    const sg_conv_args *const c = p->conv;
    const int64_t *const      yd = c->y.dim, *const xd = c->x.dim, *const wd = c->w.dim, channels = xd[3];
    const int64_t             t = row / (yd[1] * yd[2]), r = row / yd[2] % yd[1], u = row % yd[2];
    for (const int64_t end = k + kc; k < end;) {
        const int64_t tap = k / channels, from = k % channels, n = sg_min64(channels - from, end - k);
        const int64_t f = t * c->stride[0] + tap / (wd[3] * wd[4]);
        const int64_t y = r * c->stride[1] + tap / wd[4] % wd[3] - c->pad[0], x = u * c->stride[2] + tap % wd[4] - c->pad[2];
        const int64_t at = ((f * xd[1] + y) * xd[2] + x) * channels + from;
        if (y < 0 || y >= xd[1] || x < 0 || x >= xd[2])
            memset(a, 0, (size_t)n * sizeof *a);
        else if (c->x.dtype == SG_F32)
            memcpy(a, (const float *)c->x.data + at, (size_t)n * sizeof *a);
        else
            sg_widen(a, (const uint16_t *)c->x.data + at, n);
        a += n;
        k += n;
    }
}

static void load_block(const product *p, int64_t row, int64_t rows, int64_t k, int64_t kc, float *a)
{
    if (p->conv)
        for (int64_t r = 0; r < rows; r++) load_patch(p, row + r, k, kc, a + r * SG_LDA);
    else
        load_rows(p, row, rows, k, kc, a);
    for (int64_t r = rows; r % SG_MR; r++) memset(a + r * SG_LDA, 0, (size_t)kc * sizeof *a);
}

/* Sums to y: columns [col, col + n) of one row. */
static void finish(const product *p, int64_t row, int64_t col, int64_t n, float *sum)
{
    const float *const b = p->b->rank ? (const float *)p->b->data + col : NULL;
    const int64_t      at = row * p->cols + col;
    if (b)
        for (int64_t j = 0; j < n; j++) sum[j] += b[j];
    float *const y = sg_out(p->y, at, sum);
    sg_act_run(p->act, y, sum, n);
    sg_out_done(p->y, at, n, y);
}

static void product_task(const product *p, int64_t row, int64_t col, float *a, float *c)
{
    const int64_t rows = sg_min64(SG_BM, p->rows - row), cols = sg_min64(SG_BN, p->cols - col);
    for (int64_t k = 0; k < p->depth; k += SG_KC) {
        const int64_t kc = sg_min64(SG_KC, p->depth - k);
        load_block(p, row, rows, k, kc, a);
        for (int64_t j = 0; j < cols; j += SG_NR) {
            const float *const panel = p->panel + (col + j) * p->depth + k * SG_NR;
            for (int64_t i = 0; i < rows; i += SG_MR)
                sg_tile(kc, a + i * SG_LDA, panel, c + i * SG_LDC + j, SG_LDC, k == 0);
        }
    }
    for (int64_t i = 0; i < rows; i++) finish(p, row + i, col, cols, c + i * SG_LDC);
}

static sg_status product_run(sg_cpu *cpu, const product *p)
{
    enum { ROOM = SG_BM * SG_LDA + SG_BM * SG_LDC };
    const int64_t down = sg_div_up(p->rows, SG_BM), across = sg_div_up(p->cols, SG_BN);
    const int     team = (int)sg_min64(cpu->threads, down * across);
    float *const  room = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)team * ROOM * sizeof *room);
    if (!room) return SG_E_MEMORY;
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (int64_t i = 0; i < down * across; i++) {
        float *const a = room + (int64_t)omp_get_thread_num() * ROOM;
        product_task(p, i / across * SG_BM, i % across * SG_BN, a, a + SG_BM * SG_LDA);
    }
    return SG_OK;
}

/* One panel of weights [o, channels, taps], taps 1 for linear: row tap * channels + channel of it. */
static void pack_panel(const product *p, int64_t col, int64_t channels, int64_t taps, float *panel)
{
    for (int64_t j = 0; j < SG_NR; j++)
        for (int64_t k = 0; k < p->depth; k += SG_RUN) {
            float              room[SG_RUN];
            const int64_t      n = sg_min64(SG_RUN, p->depth - k);
            const float *const w = col + j < p->cols ? sg_in(p->w, (col + j) * p->depth + k, n, room) : NULL;
            for (int64_t i = 0; i < n; i++) {
                const int64_t to = taps == 1 ? k + i : (k + i) % taps * channels + (k + i) / taps;
                panel[to * SG_NR + j] = w ? w[i] : 0.0f;
            }
        }
}

static sg_status product_pack(sg_cpu *cpu, product *p, int64_t channels, int64_t taps)
{
    const int64_t panels = sg_div_up(p->cols, SG_NR);
    bool          fresh;
    float *const  packed = sg_pack_find(cpu, p->w, SG_NR, (size_t)(panels * SG_NR * p->depth) * sizeof *packed, &fresh);
    if (!packed) return SG_E_MEMORY;
    if (fresh) {
#pragma omp parallel for schedule(static) num_threads(cpu->threads)
        for (int64_t j = 0; j < panels; j++)
            pack_panel(p, j * SG_NR, channels, taps, packed + j * SG_NR * p->depth);
    }
    p->panel = packed;
    return SG_OK;
}

/* A few rows are bound by reading w: it is read once, in place, and nothing is packed. */
static sg_status thin_run(sg_cpu *cpu, const product *p)
{
    const int64_t rows = p->rows, depth = p->depth;
    float *const  x = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)(rows * depth) * sizeof *x);
    if (!x) return SG_E_MEMORY;
    for (int64_t i = 0; i < rows * depth; i += SG_RUN) {
        float              room[SG_RUN];
        const int64_t      n = sg_min64(SG_RUN, rows * depth - i);
        memcpy(x + i, sg_in(p->x, i, n, room), (size_t)n * sizeof *x);
    }
#pragma omp parallel for schedule(static) num_threads(cpu->threads) if (depth * p->cols > SG_FEW)
    for (int64_t col = 0; col < p->cols; col += SG_LANES) {
        float         sum[SG_THIN][SG_LANES];
        const int64_t n = sg_min64(SG_LANES, p->cols - col);
        for (int64_t j = 0; j < n; j++) {
            for (int64_t r = 0; r < rows; r++) sum[r][j] = 0;
            for (int64_t k = 0; k < depth; k += SG_RUN) {
                float              room[SG_RUN];
                const int64_t      count = sg_min64(SG_RUN, depth - k);
                const float *const w = sg_in(p->w, (col + j) * depth + k, count, room);
                for (int64_t r = 0; r < rows; r++) {
                    const float *const v = x + r * depth + k;
                    float              dot = 0;
#pragma omp simd reduction(+ : dot)
                    for (int64_t i = 0; i < count; i++) dot += v[i] * w[i];
                    sum[r][j] += dot;
                }
            }
        }
        for (int64_t r = 0; r < rows; r++) finish(p, r, col, n, sum[r]);
    }
    return SG_OK;
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    product p = {.x = &a->x, .y = &a->y, .w = &a->w, .b = &a->b, .act = a->act,
                 .rows = a->x.dim[0], .depth = a->x.dim[1], .cols = a->w.dim[0]};
    if (p.rows <= SG_THIN) return thin_run(sg_cpu_of(s), &p);
    SG_TRY(product_pack(sg_cpu_of(s), &p, p.depth, 1));
    return product_run(sg_cpu_of(s), &p);
}

static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    const int64_t *const yd = a->y.dim, *const wd = a->w.dim, taps = wd[2] * wd[3] * wd[4];
    product              p = {.x = &a->x, .y = &a->y, .w = &a->w, .b = &a->b, .conv = a,
                              .rows = yd[0] * yd[1] * yd[2], .depth = wd[1] * taps, .cols = wd[0]};
    SG_TRY(product_pack(sg_cpu_of(s), &p, wd[1], taps));
    return product_run(sg_cpu_of(s), &p);
}

void SG_VEC_INIT(product)(sg_ops *t)
{
    t->linear = linear;
    t->conv = conv;
}
