/* tiles.c - decoding or encoding in tiles. What of a tile outlives it are the rows and columns that others are blended
 * with. */
#include "tiles.h"

#include <stdlib.h>

enum { OVERLAP = 4 }; /* a tile's side is so many times what it shares with the next */

/* What of one clip's tiles outlives a tile. */
typedef struct tiling {
    const sg_tiles *tiles;
    sg_tensor       x, y; /* F32 [f, y, x, c]; [f', y', x', c'] */
    /* With more tiles than one: F32 [columns, f', blend, side, c'], the last rows of the tile above, of each column; F32
     * [f', side, blend, c'], the last columns of the tile to the left. */
    sg_tensor above, before;
    int64_t   stride; /* places of x */
} tiling;

/* One tile. */
typedef struct tile {
    int64_t   i, j;          /* of its row and column */
    int64_t   h, w;          /* places of y */
    sg_tensor above, before; /* F32 [f', blend, w, c']; [f', h, blend, c'] */
    sg_tensor weight[2][2];  /* F32: how much of the tile there is, how much of the other; above, before */
    bool      last_row, last_column;
} tile;

static sg_tensor vector(sg_tensor t) { return sg_reshape(t, sg_count(t)); }
static int64_t   least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The rectangle of y's size at (row, column) of every frame of x, and the same the other way round. */
static void cut(sg_stream *s, sg_tensor y, sg_tensor x, int64_t row, int64_t column)
{
    const int64_t c = x.dim[3], wide = x.dim[2] * c;
    sg_strided_copy(s, .y = sg_reshape(y, y.dim[0], y.dim[1], y.dim[2] * c), .x = vector(x),
                    .first = row * wide + column * c, .token = x.dim[1] * wide, .head = wide);
}

static void paste(sg_stream *s, sg_tensor y, sg_tensor x, int64_t row, int64_t column)
{
    const int64_t c = y.dim[3], wide = y.dim[2] * c;
    sg_strided_copy(s, .y = vector(y), .x = sg_reshape(x, x.dim[0], x.dim[1], x.dim[2] * c),
                    .first = row * wide + column * c, .token = y.dim[1] * wide, .head = wide, .scatter = true);
}

/* The first numbers of t as [f, h, w, its channels]. */
static sg_tensor shaped(sg_tensor t, int64_t f, int64_t h, int64_t w)
{
    const int64_t c = t.dim[t.rank - 1];
    return sg_reshape(sg_rows(vector(t), 0, f * h * w * c), f, h, w, c);
}

/* Weights of the tile, and of the other, over h x w places of c channels: from 0 up along rows, or along columns, and from 1
 * down. */
static void make_weights(sg_stream *s, sg_tensor weight[2], int64_t h, int64_t w, int64_t c, bool along_rows)
{
    const int64_t n = h * w * c;
    float *const  host = malloc((size_t)(2 * n) * sizeof *host);
    for (int k = 0; k < 2; k++) weight[k] = sg_new(s, SG_F32, n);
    if (host) {
        for (int64_t i = 0; i < n; i++) {
            const double own = along_rows ? (double)(i / c / w) / (double)h : (double)(i / c % w) / (double)w;
            host[i] = (float)own;
            host[n + i] = (float)(1 - own);
        }
        for (int k = 0; k < 2; k++) sg_upload(s, weight[k], host + k * n);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory to blend tiles of %lld numbers", (long long)n);
    }
    free(host);
}

/* In its first h x w places x becomes a blend with the last ones of other, both of the same frames. */
static void blend(sg_stream *s, sg_tensor x, sg_tensor other, int64_t h, int64_t w, const sg_tensor weight[2])
{
    const size_t    mark = s->scratch.used;
    const int64_t   f = x.dim[0], c = x.dim[3], n = h * w * c;
    const sg_tensor mine = sg_new(s, SG_F32, f, h, w, c), its = sg_new(s, SG_F32, f, h, w, c);
    const sg_tensor both = sg_new(s, SG_F32, f, h, w, c);
    cut(s, mine, x, 0, 0);
    cut(s, its, other, other.dim[1] - h, other.dim[2] - w);
    sg_norm(s, .y = sg_reshape(both, f, n), .x = sg_reshape(mine, f, n), .w = weight[0], .kind = SG_NORM_NONE);
    sg_gate_add(s, .x = sg_reshape(both, f, n), .r = sg_reshape(its, f, n), .gate = weight[1]);
    paste(s, x, both, 0, 0);
    s->scratch.used = mark;
}

/* Frames first .. of one tile: blended, what other tiles will need kept, and the rest put in place. */
static void place(const tiling *t, sg_stream *s, const tile *k, sg_tensor x, int64_t first)
{
    const int64_t blended = t->tiles->y_side / OVERLAP, stride = t->tiles->y_side - blended, f = x.dim[0], c = x.dim[3];
    const int64_t rows = k->last_row ? k->h : stride, columns = k->last_column ? k->w : stride;
    const sg_tensor shown = sg_new(s, SG_F32, f, rows, columns, c);
    sg_tensor       put = shown;
    if (k->i) blend(s, x, sg_rows(k->above, first, f), least(k->h, blended), k->w, k->weight[0]);
    if (k->j) blend(s, x, sg_rows(k->before, first, f), k->h, least(k->w, blended), k->weight[1]);
    if (!k->last_row) cut(s, sg_rows(k->above, first, f), x, k->h - blended, 0);
    if (!k->last_column) cut(s, sg_rows(k->before, first, f), x, 0, k->w - blended);
    cut(s, shown, x, 0, 0);
    if (t->tiles->clamp) {
        put = sg_new(s, SG_F32, f, rows, columns, c);
        sg_activate(s, .y = put, .x = shown, .act = SG_ACT_CLAMP);
    }
    paste(s, sg_rows(t->y, first, f), put, k->i * stride, k->j * stride);
}

static void run_tile(const tiling *t, sg_stream *s, int64_t i, int64_t j)
{
    const size_t          mark = s->scratch.used;
    const sg_tiles *const d = t->tiles;
    const int64_t         stride = t->stride, n = t->y.dim[0], c = t->y.dim[3], blended = d->y_side / OVERLAP;
    const int64_t         rows = least(d->x_side, t->x.dim[1] - i * stride),
                  columns = least(d->x_side, t->x.dim[2] - j * stride);
    tile k = {.i = i, .j = j, .h = rows * d->y_side / d->x_side, .w = columns * d->y_side / d->x_side};
    k.last_row = (i + 1) * stride >= t->x.dim[1];
    k.last_column = (j + 1) * stride >= t->x.dim[2];
    if (t->above.rank) {
        k.above = shaped(sg_rows(t->above, j, 1), n, blended, k.w);
        k.before = shaped(t->before, n, k.h, blended);
    }
    if (i) make_weights(s, k.weight[0], least(k.h, blended), k.w, c, true);
    if (j) make_weights(s, k.weight[1], k.h, least(k.w, blended), c, false);
    const sg_tensor part = sg_new(s, SG_F32, d->count, rows, columns, t->x.dim[3]);
    if (d->begin) d->begin(d->run, s, rows, columns);
    for (int64_t l = 0, done = 0; l < t->x.dim[0] && !s->status; l += d->count) {
        const size_t inner = s->scratch.used;
        cut(s, part, sg_rows(t->x, l, d->count), i * stride, j * stride);
        const sg_tensor made = d->next(d->run, s, part);
        place(t, s, &k, made, done);
        done += made.dim[0];
        s->scratch.used = inner;
    }
    s->scratch.used = mark;
}

void sg_tiles_run(const sg_tiles *d, sg_stream *s, sg_tensor y, sg_tensor x)
{
    const int64_t n = y.dim[0], c = y.dim[3], blended = d->y_side / OVERLAP;
    const bool    one = x.dim[1] <= d->x_side && x.dim[2] <= d->x_side; /* as diffusers: then the next is not begun */
    const int64_t stride = one ? d->x_side : d->x_side - d->x_side / OVERLAP;
    const int64_t rows = sg_div_up(x.dim[1], stride), columns = sg_div_up(x.dim[2], stride);
    const size_t  mark = s->scratch.used;
    tiling        t = {.tiles = d, .x = x, .y = y, .stride = stride};
    if (!one) {
        t.above = sg_new(s, SG_F32, columns, n, blended, d->y_side, c);
        t.before = sg_new(s, SG_F32, n, d->y_side, blended, c);
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) run_tile(&t, s, i, j);
    s->scratch.used = mark;
}

bool sg_tiles_fit(int64_t pixels, int scale) { return pixels % ((int64_t)OVERLAP * scale) == 0; }
