/* vae_parts.h - what the VAEs of this folder share: what their structs begin with, config and tensors of residual
 * blocks, causal convolutions and the frames that these remember, the reserve of memory for levels, the map of
 * latents. Each VAE calls them in its own order.
 *
 * Decoder and encoder are one structure, a coder: a way in, levels of residual blocks that end in a change of scale, a
 * middle (after the decoder's way in, before the encoder's way out), a way out. */
#ifndef SG_VAE_PARTS_H
#define SG_VAE_PARTS_H

#include "tiles.h"
#include "vae.h"

enum {
    SG_VAE_LEVELS = 8,  /* at most, as are the next five */
    SG_VAE_BLOCKS = 16, /* of a level */
    SG_VAE_LAYERS = 8,  /* the same of an encoder, in configs that count so; the decoder has one more */
    SG_VAE_Z = 1024,    /* latent channels */
    SG_VAE_CHANNELS = 16384,
    SG_VAE_SIDE = 1 << 16, /* pixels; with SG_VAE_CHANNELS and 2^7 frames no product of sizes overflows */
    SG_VAE_CONVS = 2 * SG_VAE_BLOCKS * (SG_VAE_LEVELS + 1) + 2 * SG_VAE_LEVELS + 2,
    SG_VAE_RGB = 3,
    SG_VAE_ENCODER = 0, /* of what there is of each direction */
    SG_VAE_DECODER = 1
};

/* Computes w x + b at every place. */
typedef struct sg_vae_map {
    sg_tensor w, b; /* [o, i]; [o]? */
} sg_vae_map;

/* Computes a convolution of frames and, with kt above 1, of those before them. A norm may go before it. */
typedef struct sg_vae_conv {
    sg_tensor w, b;           /* [o, i, kt, ky, kx]; [o] */
    sg_tensor norm_w, norm_b; /* [i]? x 2 */
    int       number;         /* among the coder's, from 0 on */
} sg_vae_conv;

/* Computes shortcut(x) + conv[1](silu(norm(conv[0](silu(norm(x)))))). */
typedef struct sg_vae_block {
    sg_vae_conv conv[2];
    sg_vae_map  shortcut; /* the identity when absent */
} sg_vae_block;

/* Computes x + out(attend(q, k, v)), all three of norm(x), with one head as wide as the channels. */
typedef struct sg_vae_attention {
    sg_tensor  norm_w, norm_b; /* [c] x 2 */
    sg_vae_map map[4];         /* q, k, v, out: [c, c] */
} sg_vae_attention;

typedef struct sg_vae_level {
    int64_t      in, out; /* channels that come, and of the blocks */
    int          blocks;
    int          time, space; /* how many times as many frames, rows and columns leave, or as few */
    sg_vae_block block[SG_VAE_BLOCKS];
    sg_vae_conv  resample; /* of the change of scale */
} sg_vae_level;

typedef struct sg_vae_run   sg_vae_run;
typedef struct sg_vae_coder sg_vae_coder;

/* Says how blocks are named, and how they compute. */
typedef struct sg_vae_kind {
    const char *norm_w, *norm_b; /* what is behind "norm1" and so on: ".weight", ".bias"; the second may be NULL */
    const char *conv;            /* behind "conv1" and so on, before ".weight": ".conv" or "" */
    const char *shortcut;        /* the whole, before ".weight" */
    int         kt;
    sg_edge     edge; /* what convolutions see beyond frames */
    /* y = silu(norm(x)), with the norm that goes before k. */
    void (*norm)(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x);
} sg_vae_kind;

struct sg_vae_coder {
    bool               up; /* the decoder */
    const sg_vae_kind *kind;
    int                levels, groups, convs; /* groups: of group norms */
    sg_vae_conv        conv_in, conv_out;
    sg_vae_level       mid, level[SG_VAE_LEVELS]; /* in the order of their work */
};

/* The structs of VAEs begin with it. Normalised latents times std, plus mean, are the decoder's. */
typedef struct sg_vae_model {
    sg_component      component, encoder_component; /* the second borrows all but its binding from the first */
    const sg_vae_ops *ops;
    sg_vae_info       info;
    double            mean[SG_VAE_Z], std[SG_VAE_Z];
    int64_t           tile; /* pixels a side, where there are tiles */
    bool              tiled;
    sg_vae_coder      coder[2]; /* encoder, decoder */
} sg_vae_model;

/* One clip being decoded or encoded. */
struct sg_vae_run {
    const sg_vae_model *vae;
    const sg_vae_coder *coder;
    bool                remembers;    /* histories hold frames; until then the first frame stands for those before it */
    sg_tensor           scale, shift; /* F32 [z]? of the map of latents; with `sampled` [2 z] in the encoder */
    sg_tensor           history[SG_VAE_CONVS]; /* act [f, y, x, c]?: by number, what comes before the next chunk */
};

/* ---- members of sg_vae_ops ---- */

sg_component *sg_vae_component(void *of);
sg_component *sg_vae_encoder(void *of);
int64_t       sg_vae_chunk_of_one(const void *of, int64_t total, int64_t done);
bool          sg_vae_set_tiles(void *of, bool on);
void          sg_vae_run_close(void **run);
void          sg_vae_model_close(void *of);

/* ---- config ---- */

/* Reads levels, blocks and groups of both coders. A level has `layers` blocks where the config tells none, and one
 * more in the decoder. It is not known yet which levels change what. */
void sg_vae_read_coders(sg_vae_model *v, const sg_vae_kind *kind, int64_t layers, sg_config *f);
/* Makes the middle two blocks of so many channels. */
void sg_vae_set_middle(sg_vae_coder *k, int64_t channels);
/* Reads latent_channels and scaling_factor, which it returns; they are z and scaling where the config lacks them. */
double sg_vae_read_latents(sg_vae_model *v, int64_t z, double scaling, sg_config *f);
/* Sets scale_time and scale_space to what the decoder's levels make. */
void sg_vae_measure(sg_vae_model *v);

/* Notes in f what is wrong: `key`, the types of the blocks, must be a list of `only`, one for each level; where it is
 * absent it has `assumed` of them. */
void sg_vae_check_types(sg_config *f, const char *key, const char *only, int levels, int assumed);
/* Check that what goes in and comes out under this key is RGB, and that the activation is silu. */
void sg_vae_check_rgb(sg_config *f, const char *key);
void sg_vae_check_act(sg_config *f);

/* ---- tensors ---- */

/* These bind name.weight and name.bias. A convolution sees kt frames and ks x ks places. */
void sg_vae_bind_map(const sg_component *p, sg_dtype as, sg_vae_map *m, const char *name, int64_t o, int64_t i);
void sg_vae_bind_conv(const sg_component *p, sg_vae_coder *k, sg_vae_conv *c, const char *name, int64_t o, int64_t i,
                      int kt, int ks);

/* Binds an attention; `name` has those of its norm and its maps. */
void sg_vae_bind_attention(const sg_component *p, sg_vae_attention *a, const char *const name[5], int64_t c);
/* Binds a convolution as of blocks of k's kind, and the norm before it. */
void sg_vae_bind_norm_conv(const sg_component *p, sg_vae_coder *k, sg_vae_conv *c, const char *norm, const char *conv,
                           int64_t o, int64_t i);

/* These bind blocks from number `first` on, whose names begin with `prefix` and the number; way in, way out and
 * middle, from `in` channels to `out`; levels as "decoder.up_blocks.%d.resnets", with the convolutions that change
 * scale, of kt frames. */
void sg_vae_bind_blocks(const sg_component *p, sg_vae_coder *k, sg_vae_level *l, const char *prefix, int first);
void sg_vae_bind_ends(const sg_component *p, sg_vae_coder *k, int64_t in, int64_t out, const char *norm_out);
void sg_vae_bind_levels(const sg_component *p, sg_vae_coder *k, const char *resample, int kt);

/* ---- a run ---- */

/* Opens a run of `size` bytes, which begins with an sg_vae_run, for latents of y x x places, or, of an encoder, for
 * frames of so many pixels. The map of latents is in s->keep then. On failure *out is NULL. */
sg_status sg_vae_run_open(void **out, size_t size, const void *of, bool up, sg_stream *s, int64_t y, int64_t x,
                          sg_error *e) SG_MUST_USE;

/* These make room in s->keep for f frames of y x x places that k remembers, for what the blocks of l do, and for what
 * all convolutions of a coder do whose input has y x x places. */
void sg_vae_keep(sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f, int64_t y, int64_t x);
void sg_vae_keep_blocks(sg_vae_run *r, sg_stream *s, const sg_vae_level *l, int64_t y, int64_t x);
void sg_vae_keep_all(sg_vae_run *r, sg_stream *s, int64_t y, int64_t x);

/* What k reads: the frames before, then room for f frames, which are sg_vae_present's and the caller fills. */
sg_tensor sg_vae_input(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, int64_t f, int64_t y, int64_t x);
sg_tensor sg_vae_present(const sg_vae_run *r, const sg_vae_conv *k, sg_tensor input);
/* Sets the frames before, once the present ones are there, and keeps the last ones for the next chunk. */
void sg_vae_recall(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor input);

/* y = or += the convolution k of input, 3 x 3 places large, whose present frames are there. */
void sg_vae_convolve(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor input, bool add);
/* y = or += conv(silu(norm(x))). x is read before y is written. */
void sg_vae_norm_conv(const sg_vae_run *r, sg_stream *s, const sg_vae_conv *k, sg_tensor y, sg_tensor x, bool add);
void sg_vae_map_places(sg_stream *s, const sg_vae_map *m, sg_tensor y, sg_tensor x, bool add);

/* Computes a on x in place. A place sees those of its own frame, with `causal` of the frames before it as well. groups:
 * of the group norm; 0: it is a layer norm. */
void sg_vae_attend(sg_stream *s, const sg_vae_attention *a, sg_tensor x, int groups, bool causal);

/* Decodes z to n frames F32 [n, H, W, 3] in s->scratch, clamped: in tiles where v works so, else t.next does all of z.
 * The sides of tiles are v's. Taps "vae.frames". */
sg_tensor sg_vae_decode(const sg_vae_model *v, sg_stream *s, sg_tiles t, int64_t n, sg_tensor z);

/* How many of f frames a convolution makes at once, at most `most`, with so many numbers in a frame of what it reads or
 * writes: libraries refuse tensors of 2^31 numbers. */
int64_t sg_vae_at_once(int64_t f, int64_t most, int64_t numbers);

/* What blocks work on: they read x and write y, which may be the same, by way of inner. Where y stays, s->scratch may
 * go back to `mark` after the last of them. */
typedef struct sg_vae_work {
    sg_tensor x, y, inner;
    size_t    mark;
} sg_vae_work;

/* x may change; the result lies there, or above it in s->scratch. */
sg_vae_work sg_vae_work_on(sg_stream *s, const sg_vae_level *l, sg_tensor x);
/* Computes block j, after those before it. */
void sg_vae_block_run(const sg_vae_run *r, sg_stream *s, const sg_vae_level *l, int j, const sg_vae_work *w);
/* Computes all blocks of l on x, and returns what they make. */
sg_tensor sg_vae_blocks(const sg_vae_run *r, sg_stream *s, const sg_vae_level *l, sg_tensor x);

/* What levels read, the last one's lowest on the stack: a level's working memory lies above it, which may go as soon
 * as the next level's has been written. Below the last one's is what it makes, if it changes the scale. */
typedef struct sg_vae_inputs {
    sg_tensor in[SG_VAE_LEVELS + 1];
    size_t    mark[SG_VAE_LEVELS + 1]; /* the stack with in[i] on top */
} sg_vae_inputs;

/* Level i has frames[i] frames, level 0 y x x places. */
sg_vae_inputs sg_vae_reserve(const sg_vae_run *r, sg_stream *s, const int64_t *frames, int64_t y, int64_t x);

static inline bool sg_vae_changes(const sg_vae_level *l) { return l->time > 1 || l->space > 1; }

#endif
