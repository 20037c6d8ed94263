/* wan_vae_weights.h - what wan_vae.c reads and binds, and wan_vae_run.c computes with. It is private to the two.
 *
 * Decoder and encoder are one structure: a way in, levels of residual blocks that end in a change of scale, a middle
 * with attention (after the decoder's way in, before the encoder's way out), a way out. */
#ifndef SG_WAN_VAE_WEIGHTS_H
#define SG_WAN_VAE_WEIGHTS_H

#include "wan_vae.h"

enum {
    SG_VAE_LEVELS = 8,       /* at most, as are the next three */
    SG_VAE_BLOCKS = 9,       /* residual blocks of a level */
    SG_VAE_Z = 1024,         /* latent channels */
    SG_VAE_CHANNELS = 16384, /* of any tensor inside */
};

typedef struct sg_vae_config {
    int     z, base, decoder_base, levels, blocks, patch;
    int64_t mult[SG_VAE_LEVELS];
    bool    time[SG_VAE_LEVELS]; /* the encoder's level halves the frames */
    bool    residual;
    double  mean[SG_VAE_Z], std[SG_VAE_Z]; /* of the latents, per channel */
} sg_vae_config;

typedef struct sg_vae_conv {
    sg_tensor w, b;    /* [o, i, kt, ky, kx], or [o, i, ky, kx] for single frames; [o] */
    int       history; /* of a convolution over time: which of the run's */
} sg_vae_conv;

/* Computes shortcut(x) + conv[1](silu(norm[1](conv[0](silu(norm[0](x)))))). */
typedef struct sg_vae_block {
    sg_tensor   norm[2];  /* [i, 1, 1, 1] [o, 1, 1, 1] */
    sg_vae_conv conv[2];  /* [o, i, 3, 3, 3] [o, o, 3, 3, 3] */
    sg_vae_conv shortcut; /* [o, i, 1, 1, 1]? the identity when absent */
} sg_vae_block;

/* Computes x + proj(attend(qkv(norm(x)))), one head over the places of a frame. */
typedef struct sg_vae_attention {
    sg_tensor   norm;      /* [c, 1, 1] */
    sg_vae_conv qkv, proj; /* [3 c, c, 1, 1], rows q, k, v; [c, c, 1, 1] */
} sg_vae_attention;

typedef struct sg_vae_level {
    int64_t      in, out, next; /* channels that come, of the blocks, that leave */
    int          blocks, index; /* index: of the first block in encoder.down_blocks, or in decoder.up_blocks */
    bool         scale, time;   /* changes the size of frames; their number too */
    bool         shortcut;      /* is_residual: the input joins the output, its channels averaged or repeated */
    sg_vae_block block[SG_VAE_BLOCKS];
    sg_vae_conv  space_conv; /* [next, out, 3, 3]? */
    /* The decoder's time_conv is [2 out, out, 3, 1, 1]?: halves of its rows make the even and the odd frames. The
     * encoder's is [out, out, 3, 1, 1]?. */
    sg_vae_conv time_conv;
} sg_vae_level;

typedef struct sg_vae_coder {
    bool             up, flat; /* the decoder; an encoder whose blocks are counted one by one */
    int              levels, histories;
    sg_vae_conv      conv_in; /* [level[0].in, z or 3 patch^2, 3, 3, 3] */
    sg_vae_level     level[SG_VAE_LEVELS];
    sg_vae_block     mid[2];
    sg_vae_attention attention;
    sg_tensor        norm_out; /* [c, 1, 1, 1] */
    sg_vae_conv      conv_out; /* [3 patch^2 or 2 z, c, 3, 3, 3] */
    sg_vae_conv      quant;    /* decoder, before all else: [z, z, 1, 1, 1]; encoder, at the end: [2 z, 2 z, 1, 1, 1] */
} sg_vae_coder;

struct sg_wan_vae {
    sg_component  component;         /* its bind is the decoder's */
    sg_component  encoder_component; /* the same files with the encoder's bind, which is all that it owns */
    sg_vae_config config;
    sg_vae_coder  decoder, encoder;
};

#endif
