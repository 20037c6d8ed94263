/* mochi_vae_parts.h - what mochi_vae.c reads and binds, and the other mochi_vae_*.c compute with. It is private to
 * them. */
#ifndef SG_MOCHI_VAE_PARTS_H
#define SG_MOCHI_VAE_PARTS_H

#include "mochi_vae.h"

enum {
    SG_MOCHI_SCALES = 6, /* up_blocks, at most, as are the next three */
    SG_MOCHI_BLOCKS = 16,
    SG_MOCHI_Z = 1024,
    SG_MOCHI_CHANNELS = 16384,
    SG_MOCHI_STAGES = SG_MOCHI_SCALES + 2
};

typedef struct sg_mochi_conv {
    sg_tensor w, b;    /* [c, c, 3, 3, 3] [c] */
    int       history; /* which of the run's */
} sg_mochi_conv;

/* Computes x + conv[1](silu(norm[1](conv[0](silu(norm[0](x)))))). */
typedef struct sg_mochi_block {
    struct {
        sg_tensor w, b; /* [c] [c] */
    } norm[2];
    sg_mochi_conv conv[2];
} sg_mochi_block;

/* This is block_in, an up_block or block_out: residual blocks, and in an up_block what makes channels into frames, rows
 * and columns. */
typedef struct sg_mochi_stage {
    int64_t        channels;
    int            blocks;
    sg_mochi_block block[SG_MOCHI_BLOCKS];
    int64_t        time, space;    /* how many times as many frames, as many rows and columns; 1: as many */
    sg_tensor      proj_w, proj_b; /* [next time space space, channels] [next time space space]; of an up_block */
} sg_mochi_stage;

struct sg_mochi_vae {
    sg_component   component;
    int            z, stages, histories;
    sg_mochi_stage stage[SG_MOCHI_STAGES];
    sg_tensor      conv_in_w, conv_in_b;                 /* [channels, z, 1, 1, 1] [channels] */
    sg_tensor      out_w, out_b;                         /* [3, channels] [3] */
    double         scale[SG_MOCHI_Z], shift[SG_MOCHI_Z]; /* of the latents, as the decoder takes them */
    bool           tiled;
};

/* Holds what decoding one clip, or one tile of it, needs from frame to frame. */
typedef struct sg_mochi_vae_run {
    const sg_mochi_vae *vae;
    bool                begun;        /* histories hold frames */
    sg_tensor           scale, shift; /* F32 [z] */
    size_t              mark;         /* of s->keep: histories come after it */
    sg_tensor           history[];    /* act [2, y, x, c] */
} sg_mochi_vae_run;

/* Makes room for a run, which the caller frees. Returns NULL when memory is short. */
sg_mochi_vae_run *sg_mochi_vae_run_open(sg_stream *s, const sg_mochi_vae *v);

/* Begins a clip of y x x latents. Its histories lie in s->keep, from run->mark on. */
void sg_mochi_vae_run_begin(sg_mochi_vae_run *r, sg_stream *s, int64_t y, int64_t x);

/* Decodes the next latent frame z F32 [1, y, x, c] to frames F32 [n, H, W, 3] in s->scratch, which are not clamped. */
sg_tensor sg_mochi_vae_run_next(sg_mochi_vae_run *r, sg_stream *s, sg_tensor z);

#endif
