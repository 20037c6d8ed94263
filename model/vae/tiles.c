/* tiles.c - decoding in tiles. What of a tile outlives it are the rows and columns that others are blended with. */
#include "tiles.h"

#include <stdlib.h>

enum { TILE = 256, STRIDE = 192, BLEND = TILE - STRIDE, RGB = 3 };

bool sg_tiles_fit(int scale) { return STRIDE % scale == 0 && TILE % scale == 0; }

/* What of one clip's tiles outlives a tile. */
typedef struct tiling {
    const sg_tile_decoder *decoder;
    sg_tensor              z;      /* F32 [f, y, x, c] */
    sg_tensor              frames; /* F32 [n, H, W, 3] */
    sg_tensor              above;  /* F32 [columns, n, 64, 256, 3]: the last rows of the tile above, of each column */
    sg_tensor              before; /* F32 [n, 256, 64, 3]: the last columns of the tile to the left */
    int64_t                stride; /* latents */
} tiling;

/* One tile. */
typedef struct tile {
    int64_t   i, j;          /* of its row and column */
    int64_t   h, w;          /* pixels */
    sg_tensor above, before; /* F32 [n, 64, w, 3]; [n, h, 64, 3] */
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

/* The first numbers of t as [n, h, w, 3]. */
static sg_tensor shaped(sg_tensor t, int64_t n, int64_t h, int64_t w)
{
    return sg_reshape(sg_rows(vector(t), 0, n * h * w * RGB), n, h, w, RGB);
}

/* Weights of the tile, and of the other, over h x w pixels: from 0 up along rows, or along columns, and from 1 down. */
static void make_weights(sg_stream *s, sg_tensor weight[2], int64_t h, int64_t w, bool along_rows)
{
    const int64_t n = h * w * RGB;
    float *const  host = malloc((size_t)(2 * n) * sizeof *host);
    for (int k = 0; k < 2; k++) weight[k] = sg_new(s, SG_F32, n);
    if (host) {
        for (int64_t i = 0; i < n; i++) {
            const double own = along_rows ? (double)(i / RGB / w) / (double)h : (double)(i / RGB % w) / (double)w;
            host[i] = (float)own;
            host[n + i] = (float)(1 - own);
        }
        for (int k = 0; k < 2; k++) sg_upload(s, weight[k], host + k * n);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory to blend tiles of %lld numbers", (long long)n);
    }
    free(host);
}

/* In its first h x w pixels x becomes a blend with the last ones of other, both of the same frames. */
static void blend(sg_stream *s, sg_tensor x, sg_tensor other, int64_t h, int64_t w, const sg_tensor weight[2])
{
    const size_t    mark = s->scratch.used;
    const int64_t   f = x.dim[0], n = h * w * RGB;
    const sg_tensor mine = sg_new(s, SG_F32, f, h, w, RGB), its = sg_new(s, SG_F32, f, h, w, RGB);
    const sg_tensor both = sg_new(s, SG_F32, f, h, w, RGB);
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
    const int64_t   f = x.dim[0], rows = k->last_row ? k->h : STRIDE, columns = k->last_column ? k->w : STRIDE;
    const sg_tensor above = sg_rows(k->above, first, f), before = sg_rows(k->before, first, f);
    const sg_tensor shown = sg_new(s, SG_F32, f, rows, columns, RGB);
    sg_tensor       put = shown;
    if (k->i) blend(s, x, above, least(k->h, BLEND), k->w, k->weight[0]);
    if (k->j) blend(s, x, before, k->h, least(k->w, BLEND), k->weight[1]);
    if (!k->last_row) cut(s, above, x, k->h - BLEND, 0);
    if (!k->last_column) cut(s, before, x, 0, k->w - BLEND);
    cut(s, shown, x, 0, 0);
    if (t->decoder->clamp) {
        put = sg_new(s, SG_F32, f, rows, columns, RGB);
        sg_activate(s, .y = put, .x = shown, .act = SG_ACT_CLAMP);
    }
    paste(s, sg_rows(t->frames, first, f), put, k->i * STRIDE, k->j * STRIDE);
}

static void decode_tile(const tiling *t, sg_stream *s, int64_t i, int64_t j)
{
    const size_t                 mark = s->scratch.used;
    const sg_tile_decoder *const d = t->decoder;
    const int64_t                stride = t->stride, side = TILE / d->scale, n = t->frames.dim[0], c = t->z.dim[3];
    const int64_t rows = least(side, t->z.dim[1] - i * stride), columns = least(side, t->z.dim[2] - j * stride);
    tile          k = {.i = i, .j = j, .h = rows * d->scale, .w = columns * d->scale};
    k.last_row = (i + 1) * stride >= t->z.dim[1];
    k.last_column = (j + 1) * stride >= t->z.dim[2];
    k.above = shaped(sg_rows(t->above, j, 1), n, BLEND, k.w);
    k.before = shaped(t->before, n, k.h, BLEND);
    if (i) make_weights(s, k.weight[0], least(k.h, BLEND), k.w, true);
    if (j) make_weights(s, k.weight[1], k.h, least(k.w, BLEND), false);
    const sg_tensor latent = sg_new(s, SG_F32, d->count, rows, columns, c);
    if (d->begin) d->begin(d->run, s, rows, columns);
    for (int64_t l = 0, done = 0; l < t->z.dim[0] && !s->status; l += d->count) {
        const size_t inner = s->scratch.used;
        cut(s, latent, sg_rows(t->z, l, d->count), i * stride, j * stride);
        const sg_tensor x = d->next(d->run, s, latent);
        place(t, s, &k, x, done);
        done += x.dim[0];
        s->scratch.used = inner;
    }
    s->scratch.used = mark;
}

void sg_decode_tiles(const sg_tile_decoder *d, sg_stream *s, sg_tensor y, sg_tensor z)
{
    const int64_t side = TILE / d->scale, n = y.dim[0];
    const bool    one = z.dim[1] <= side && z.dim[2] <= side; /* as diffusers: then the next is not begun */
    const int64_t stride = one ? side : STRIDE / d->scale;
    const int64_t rows = sg_div_up(z.dim[1], stride), columns = sg_div_up(z.dim[2], stride);
    const size_t  mark = s->scratch.used;
    tiling        t = {.decoder = d, .z = z, .frames = y, .stride = stride};
    t.above = sg_new(s, SG_F32, columns, n, BLEND, TILE, RGB);
    t.before = sg_new(s, SG_F32, n, TILE, BLEND, RGB);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) decode_tile(&t, s, i, j);
    s->scratch.used = mark;
}
