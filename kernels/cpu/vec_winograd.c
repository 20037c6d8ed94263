/* vec_winograd.c - convolutions of 3 x 3 places by F(2x2, 3x3): Winograd's minimal filtering, Lavin and Gray, Fast
 * Algorithms for Convolutional Neural Networks, CVPR 2016.
 *
 *     y = A^T [(G g G^T) . (B^T d B)] A      d: 4 x 4 places of x, g: 3 x 3 weights, y: 2 x 2 places
 *
 * In one dimension the transforms are
 *     B^T d: d0 - d2, d1 + d2, d2 - d1, d1 - d3      G g: g0, (g0 + g1 + g2)/2, (g0 - g1 + g2)/2, g2
 *     A^T m: m0 + m1 + m2, m1 - m2 - m3
 * and each of the 16 numbers of a transformed tile is a product of its own, [tiles x channels] [channels x outputs], which
 * also sums over the taps of time: 16 multiply-adds where a direct convolution takes 36. Of a picture at twice its size
 * d1 = d2, so that the third number is 0, and the second is kept as d1, with g0 + g1 + g2: 9 multiply-adds remain.
 *
 * A task is a block of tiles in some frames: it transforms what they read of x, multiplies, and transforms the sums back
 * with bias and y. A block takes 0.6 MB at 72 channels, so that it stays in the caches. Every sum is taken in one order,
 * whatever the block and the number of threads.
 *
 * d0 and d3 enter one row of outputs each, d1 and d2 both, just as in a direct convolution, so NaN comes out where it
 * should; but infinity less infinity does not. A tile with a sum that is not finite is computed again, directly. */
#include "vec_tile.h"
#include "winograd.h"

#include <omp.h>

enum { ROWS = SG_WINOGRAD_ROWS, PLACES = 16, SEGMENTS = 8, FORM = 1 << 16 };

typedef struct winograd {
    const sg_conv_args *a;
    int64_t             down, across;  /* tiles of a frame */
    int64_t             frames, tiles; /* of y, of a block at most */
    int64_t             taps, channels, cols, panels;
    int                 side;     /* numbers of a transformed tile in one dimension: 4, at twice the size 3 */
    int64_t             ldv, ldm; /* from row to row, transformed and multiplied */
    int64_t             v_plane, m_plane, w_plane; /* from one of the side^2 products to the next */
    const float        *w;                         /* [side^2][panels][taps channels][SG_NR] */
    const float        *zeros;                     /* of a place outside */
} winograd;

/* A thread's. */
typedef struct workspace {
    float        *v, *m;
    const float **row; /* [rows / SG_MR][segments][SG_MR] */
} workspace;

/* Those of one task: its first frame of y, its first tile. */
typedef struct block {
    int64_t frame, frames, tile, tiles;
} block;

static int products_of(const winograd *p) { return p->side * p->side; }

/* ---- transforms ---- */

/* B^T d in one dimension: `side` numbers of t from as many of d, `step` apart. */
SG_INLINE void transform_one(int side, const sg_lanes *d, int step, sg_lanes *t)
{
    const sg_lanes d1 = d[step], d2 = d[(side - 2) * step]; /* d1 = d2 at twice the size */
    t[0] = d[0] - d2;
    t[step] = d1;
    if (side == 4) t[step] += d2;
    if (side == 4) t[2 * step] = d2 - d1;
    t[(side - 1) * step] = d1 - d[(side - 1) * step];
}

/* One tile: x[] are its places in x, row by row, at twice the size without the third of each four. The last vector
 * overlaps the one before it. */
SG_INLINE void transform(const winograd *p, const void *const *x, float *v, int side, bool bf16)
{
    const int64_t plane = p->v_plane, last = p->channels - SG_LANES;
    for (int64_t c = 0;; c = c + SG_LANES < last ? c + SG_LANES : last) {
        sg_lanes d[PLACES], t[PLACES];
#pragma GCC unroll 16
        for (int i = 0; i < side * side; i++) d[i] = sg_lanes_in(x[i], bf16, c, SG_LANES);
#pragma GCC unroll 4
        for (int j = 0; j < side; j++) transform_one(side, d + j, side, t + j);
#pragma GCC unroll 4
        for (int i = 0; i < side; i++) transform_one(side, t + side * i, 1, d + side * i);
#pragma GCC unroll 16
        for (int i = 0; i < side * side; i++) *(sg_lanes *)(v + i * plane + c) = d[i];
        if (c == last) break;
    }
}

#define TILE(twice, bf16) transform(p, x, v, (twice) ? 3 : 4, bf16)

/* What a block reads of x: rows [frame][tile] of each product. */
static void transform_block(const winograd *p, const block *b, float *v)
{
    const sg_conv_args *const a = p->a;
    const int64_t *const      xd = a->x.dim;
    const int                 side = p->side;
    const bool                bf16 = a->x.dtype == SG_BF16;
    const char *const         data = a->x.data;
    const size_t              place = (size_t)xd[3] * sg_dtype_size(a->x.dtype);
    for (int64_t f = 0; f < b->frames + p->taps - 1; f++)
        for (int64_t t = 0; t < b->tiles; t++, v += p->ldv) {
            const void   *x[PLACES];
            const int64_t step = a->twice ? 1 : 2;
            const int64_t row = (b->tile + t) / p->across * step - a->pad[0];
            const int64_t col = (b->tile + t) % p->across * step - a->pad[2];
            for (int i = 0; i < side * side; i++) {
                const int64_t r = sg_edge_place(a->edge, row + i / side, xd[1]),
                              c = sg_edge_place(a->edge, col + i % side, xd[2]);
                const size_t at = (size_t)(((b->frame + f) * xd[1] + r) * xd[2] + c) * place;
                x[i] = r < 0 || c < 0 ? (const char *)p->zeros : data + at;
            }
            SG_OF_BOTH(TILE, a->twice, bf16);
        }
}

/* One tile of sums, 2 x 2 places of y, into the rows of products 0 to 3. Are all finite? */
static bool transform_back(const winograd *p, float *m)
{
    const int64_t plane = p->m_plane;
    sg_lanes      zero = {0};
    for (int64_t o = 0; o < p->cols; o += SG_LANES) {
        sg_lanes s[2][4];
#define M(i) (*(const sg_lanes *)(m + (i)*plane + o))
        if (p->side == 3) {
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++) {
                s[0][j] = M(j) + M(3 + j);
                s[1][j] = M(3 + j) - M(6 + j);
            }
        } else {
            sg_lanes q[2][4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                q[0][j] = M(j) + M(4 + j) + M(8 + j);
                q[1][j] = M(4 + j) - M(8 + j) - M(12 + j);
            }
#pragma GCC unroll 2
            for (int i = 0; i < 2; i++) {
                s[i][0] = q[i][0] + q[i][2];
                s[i][1] = q[i][1];
                s[i][2] = q[i][2] + q[i][3];
            }
        }
#undef M
        const sg_lanes y[4] = {s[0][0] + s[0][1], s[0][1] - s[0][2], s[1][0] + s[1][1], s[1][1] - s[1][2]};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            *(sg_lanes *)(m + i * plane + o) = y[i];
            zero += y[i] - y[i]; /* NaN, if it is not finite */
        }
    }
    return sg_lanes_sum(zero) == 0;
}

/* ---- a task ---- */

static void multiply(const winograd *p, const block *b, const workspace *w)
{
    const int64_t rows = b->frames * b->tiles, channels = p->channels, depth = p->taps * channels;
    for (int q = 0; q < products_of(p); q++)
        for (int64_t k = 0, segments, of; k < depth; k += segments * of) {
            const float *const panel = p->w + q * p->w_plane + k * SG_NR;
            of = sg_min64(SG_KC, channels - k % channels);
            segments = of == channels ? sg_min64(sg_min64(SEGMENTS, sg_div_up(SG_KC, of)), (depth - k) / of) : 1;
            for (int64_t i = 0; i < rows; i += SG_MR)
                for (int64_t s = 0; s < segments; s++)
                    for (int64_t j = 0; j < SG_MR; j++) {
                        const int64_t row = sg_min64(i + j, rows - 1) + (k / channels + s) * b->tiles;
                        w->row[i * segments + s * SG_MR + j] = w->v + q * p->v_plane + row * p->ldv + k % channels;
                    }
            for (int64_t j = 0; j < p->cols; j += SG_NR)
                for (int64_t i = 0; i < rows; i += SG_MR)
                    sg_tile(w->row + i * segments, segments, of, panel + j * depth, p->cols - j,
                            w->m + q * p->m_plane + i * p->ldm + j, p->ldm, k == 0);
        }
}

/* The sums of one place of y by the formula. */
static void convolve(const winograd *p, int64_t frame, int64_t row, int64_t col, float *sum)
{
    const sg_conv_args *const a = p->a;
    const int64_t *const      xd = a->x.dim, taps = p->taps;
    const int                 scale = a->twice ? 2 : 1;
    for (int64_t o = 0; o < p->cols; o++) {
        double all = 0;
        for (int64_t tap = 0; tap < 9 * taps; tap++) {
            const int64_t r = sg_edge_place(a->edge, row + tap / 3 % 3 - a->pad[0], scale * xd[1]);
            const int64_t c = sg_edge_place(a->edge, col + tap % 3 - a->pad[2], scale * xd[2]);
            if (r < 0 || c < 0) continue;
            const int64_t at = (((frame + tap / 9) * xd[1] + r / scale) * xd[2] + c / scale) * xd[3];
            for (int64_t i = 0; i < p->channels; i++)
                all += (double)sg_load(&a->x, at + i) * (double)sg_load(&a->w, (o * p->channels + i) * 9 * taps + tap);
        }
        sum[o] = (float)all;
    }
}

/* y = or += sum + b at one place; buffer is for one place's outputs. */
static void finish(const winograd *p, int64_t at, const float *sum, float *buffer)
{
    const sg_conv_args *const a = p->a;
    const float *const        b = a->b.rank ? a->b.data : p->zeros;
    float *const              y = a->add ? sg_update_f32(&a->y, at, p->cols, buffer) : sg_write_f32(&a->y, at, buffer);
    if (a->add)
        for (int64_t o = 0; o < p->cols; o++) y[o] += sum[o] + b[o];
    else
        for (int64_t o = 0; o < p->cols; o++) y[o] = sum[o] + b[o];
    sg_write_f32_done(&a->y, at, p->cols, y);
}

static void run_block(const winograd *p, const block *b, const workspace *w)
{
    const int64_t *const yd = p->a->y.dim;
    transform_block(p, b, w->v);
    multiply(p, b, w);
    for (int64_t k = 0; k < b->frames * b->tiles; k++) {
        float *const  m = w->m + k * p->ldm;
        const int64_t frame = b->frame + k / b->tiles, tile = b->tile + k % b->tiles;
        const bool    finite = transform_back(p, m);
        for (int i = 0; i < 4; i++) {
            const int64_t row = tile / p->across * 2 + i / 2, col = tile % p->across * 2 + i % 2;
            if (row >= yd[1] || col >= yd[2]) continue;
            if (!finite) convolve(p, frame, row, col, m + i * p->m_plane);
            finish(p, ((frame * yd[1] + row) * yd[2] + col) * yd[3], m + i * p->m_plane, m + 4 * p->m_plane);
        }
    }
}

/* ---- weights ---- */

/* Weights of SG_NR outputs. */
typedef struct weights {
    double of[SG_NR];
} weights;

/* G g in one dimension: side rows of u, step apart, from three of g. */
static void transform_three(const weights *g, int64_t of, int side, weights *u, int64_t step)
{
    const double half = side == 3 ? 1 : 0.5;
    for (int o = 0; o < SG_NR; o++) {
        const double g0 = g[0].of[o], g1 = g[of].of[o], g2 = g[2 * of].of[o];
        u[0].of[o] = g0;
        u[step].of[o] = half * (g0 + g1 + g2);
        u[(side - 1) * step].of[o] = g2;
        if (side == 4) u[2 * step].of[o] = half * (g0 - g1 + g2);
    }
}

/* G g G^T, each of its numbers SG_NR of `to`, `plane` apart. */
static void transform_weights(const weights g[9], int side, float *to, int64_t plane)
{
    weights t[12], u[PLACES];
    for (int j = 0; j < 3; j++) transform_three(g + j, 3, side, t + j, 3);
    for (int i = 0; i < side; i++) transform_three(t + 3 * i, 1, side, u + side * i, 1);
    for (int i = 0; i < side * side; i++)
        for (int o = 0; o < SG_NR; o++) to[i * plane + o] = (float)u[i].of[o];
}

/* Those of panel `panel` from channel i. */
static void pack_channel(const winograd *p, int64_t panel, int64_t i, float *to)
{
    for (int64_t tap = 0; tap < p->taps; tap++) {
        weights g[9];
        for (int64_t j = 0; j < SG_NR; j++) {
            const int64_t      o = panel * SG_NR + j;
            float              buffer[9] = {0};
            const float *const w =
                o < p->cols ? sg_read_f32(&p->a->w, ((o * p->channels + i) * p->taps + tap) * 9, 9, buffer) : buffer;
            for (int k = 0; k < 9; k++) g[k].of[j] = (double)w[k];
        }
        transform_weights(g, p->side, to + ((panel * p->taps + tap) * p->channels + i) * SG_NR, p->w_plane);
    }
}

static sg_status pack(sg_cpu *cpu, winograd *p)
{
    const uint64_t form = (uint64_t)(FORM + 4 * SG_NR + p->side);
    bool           fresh;
    float *const   to = sg_pack_find(cpu, &p->a->w, form, (size_t)(products_of(p) * p->w_plane) * sizeof *to, &fresh);
    if (!to) return SG_E_MEMORY;
    p->w = to;
    if (!fresh) return SG_OK;
#pragma omp parallel for collapse(2) schedule(static) num_threads(cpu->threads)
    for (int64_t panel = 0; panel < p->panels; panel++)
        for (int64_t i = 0; i < p->channels; i++) pack_channel(p, panel, i, to);
    return SG_OK;
}

/* ---- the op ---- */

/* Rows of whole vectors; not a multiple of half a page apart, so that they map to different sets of a cache. */
static int64_t spread(int64_t n, int64_t vector)
{
    const int64_t whole = sg_div_up(n, vector) * vector;
    return whole % 512 ? whole : whole + SG_LANES;
}

static winograd plan_of(const sg_cpu *cpu, const sg_conv_args *a)
{
    const int64_t *const yd = a->y.dim, *const wd = a->w.dim, taps = wd[2];
    winograd      p = {.a = a,
                       .down = sg_div_up(yd[1], 2),
                       .across = sg_div_up(yd[2], 2),
                       .frames = sg_winograd_frames(a),
                       .taps = taps,
                       .channels = wd[1],
                       .cols = wd[0],
                       .panels = sg_div_up(wd[0], SG_NR),
                       .side = a->twice ? 3 : 4,
                       .ldv = spread(wd[1], SG_LANES),
                       .ldm = spread(wd[0], SG_NR)};
    const int64_t tiles = p.down * p.across, share = sg_div_up(tiles * sg_div_up(yd[0], p.frames), cpu->threads);
    p.tiles = sg_min64(ROWS / p.frames, share);
    p.v_plane = (p.frames + taps - 1) * p.tiles * p.ldv | 16; /* not a multiple of a page */
    p.m_plane = sg_div_up(p.frames * p.tiles, SG_MR) * SG_MR * p.ldm | 16;
    p.w_plane = p.panels * taps * wd[1] * SG_NR;
    return p;
}

static sg_status winograd_run(sg_stream *s, const sg_conv_args *a)
{
    sg_cpu *const cpu = sg_cpu_of(s);
    winograd      p = plan_of(cpu, a);
    const int64_t blocks = sg_div_up(p.down * p.across, p.tiles), tasks = blocks * sg_div_up(a->y.dim[0], p.frames);
    const int64_t rows = sg_div_up(ROWS, SG_MR) * SG_MR, zeros = p.ldv > p.ldm ? p.ldv : p.ldm;
    const int     team = (int)sg_min64(cpu->threads, tasks);
    const size_t  floats = (size_t)(products_of(&p) * (p.v_plane + p.m_plane));
    const size_t  bytes =
        (floats * sizeof(float) + (size_t)(rows * SEGMENTS) * sizeof(float *) + SG_ALIGN) / SG_ALIGN * SG_ALIGN;
    char *const scratch = sg_cpu_scratch(cpu, SG_SLOT_WORK, (size_t)team * bytes + (size_t)zeros * sizeof(float));
    if (!scratch) return SG_E_MEMORY;
    p.zeros = memset(scratch + (size_t)team * bytes, 0, (size_t)zeros * sizeof(float));
    SG_TRY(pack(cpu, &p));
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (int64_t i = 0; i < tasks; i++) {
        float *const    own = (float *)(void *)(scratch + (size_t)omp_get_thread_num() * bytes);
        const workspace w = {own, own + products_of(&p) * p.v_plane, (const float **)(void *)(own + floats)};
        block           b = {.frame = i / blocks * p.frames, .tile = i % blocks * p.tiles};
        b.frames = sg_min64(p.frames, a->y.dim[0] - b.frame);
        b.tiles = sg_min64(p.tiles, p.down * p.across - b.tile);
        run_block(&p, &b, &w);
    }
    return SG_OK;
}

/* The one place that chooses how a convolution is computed. */
static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    const sg_cpu *const c = sg_cpu_of(s);
    if (sg_winograd_takes(c, a)) return winograd_run(s, a);
    return c->library_conv ? c->library_conv(s, a, SG_VEC_NAME(conv)) : SG_VEC_NAME(conv)(s, a);
}

static bool conv_twice(const sg_stream *s, const sg_conv_args *a) { return sg_winograd_takes(sg_cpu_of(s), a); }

void SG_VEC_INIT(winograd)(sg_ops *t)
{
    t->conv = conv;
    t->conv_twice = conv_twice;
}
