/* cogvideox_vae_weights.h - what cogvideox_vae.c reads and binds, and cogvideox_vae_run.c computes with. It is private
 * to the two.
 *
 * Decoder and encoder are one structure: a way in, levels of residual blocks that end in a change of scale, a middle (after
 * the decoder's way in, before the encoder's way out), a way out. */
#ifndef SG_COGVIDEOX_VAE_WEIGHTS_H
#define SG_COGVIDEOX_VAE_WEIGHTS_H

#include "cogvideox_vae.h"

enum {
    SG_COG_LEVELS = 8, /* at most, as are the next three */
    SG_COG_BLOCKS = 9, /* of a level */
    SG_COG_Z = 1024,   /* latent channels */
    SG_COG_CHANNELS = 16384,
    SG_COG_MID = 2, /* blocks */
};

typedef struct sg_cog_conv {
    sg_tensor w, b;    /* [o, i, 3, 3, 3], of single frames [o, i, 1, 3, 3]; [o] */
    int       history; /* of a causal one: which of the run's */
} sg_cog_conv;

/* Computes w x + b at every place. */
typedef struct sg_cog_mix {
    sg_tensor w, b; /* [o, i] [o] */
} sg_cog_mix;

/* Computes silu(group_norm(x)), in the decoder silu(group_norm(x) scale(latents) + shift(latents)). */
typedef struct sg_cog_norm {
    sg_tensor  w, b;         /* [c] x 2 */
    sg_cog_mix scale, shift; /* absent from the encoder */
    float      eps;
} sg_cog_norm;

/* Computes shortcut(x) + conv[1](norm[1](conv[0](norm[0](x)))). */
typedef struct sg_cog_block {
    sg_cog_norm norm[2];
    sg_cog_conv conv[2];
    sg_cog_mix  shortcut; /* the identity when absent */
} sg_cog_block;

typedef struct sg_cog_level {
    int64_t      in, out;     /* channels that come, and of the blocks */
    bool         space, time; /* at its end frames change in size; in number too */
    sg_cog_block block[SG_COG_BLOCKS];
    sg_cog_conv  resize; /* with space */
} sg_cog_level;

typedef struct sg_cog_coder {
    bool         up; /* the decoder */
    int          levels, blocks, histories;
    sg_cog_conv  conv_in, conv_out;
    sg_cog_block mid[SG_COG_MID];
    sg_cog_level level[SG_COG_LEVELS];
    sg_cog_norm  norm_out;
} sg_cog_coder;

struct sg_cogvideox_vae {
    sg_component component;         /* its bind is the decoder's */
    sg_component encoder_component; /* the same, but for its bind */
    int          z, groups;
    double       eps;     /* of the norms of the encoder's blocks */
    double       scaling; /* of latents, as the denoiser has them */
    bool         inverse; /* those of a picture are divided by it, not multiplied */
    sg_cog_coder decoder, encoder;
};

#endif
