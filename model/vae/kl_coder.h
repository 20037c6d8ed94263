/* kl_coder.h - a decoder or an encoder of residual blocks with group norms, which AutoencoderKL (of images) and
 * AutoencoderKLHunyuanVideo have in common (arXiv:2112.10752): a way in, levels of blocks that end in a change of scale, a
 * middle with attention (after the decoder's way in, before the encoder's way out), a way out. All tensors are channels
 * last; an image is one frame.
 *
 * What bites:
 *  - of a video convolutions are causal in time and see the nearest place beyond an edge; of an image they see zeros there;
 *  - an image's encoder halves by a convolution that is padded below and to the right alone;
 *  - group norms are over all frames and places that come at once. */
#ifndef SG_KL_CODER_H
#define SG_KL_CODER_H

#include "component.h"
#include "op.h"

enum {
    SG_KL_LEVELS = 8, /* at most, as are the next three */
    SG_KL_BLOCKS = 9, /* of a level */
    SG_KL_Z = 1024,   /* latent channels */
    SG_KL_CHANNELS = 16384,
    SG_KL_MID = 2,        /* blocks */
    SG_KL_SIDE = 1 << 16, /* pixels, at most */
    SG_KL_RGB = 3
};

/* Computes w x + b of one place, or a convolution of the places around it and before it. */
typedef struct sg_kl_map {
    sg_tensor w, b; /* [o, i] or [o, i, 3, 3, 3], of an image [o, i, 1, 3, 3]; [o] */
} sg_kl_map;

typedef struct sg_kl_norm {
    sg_tensor w, b; /* [c] x 2 */
} sg_kl_norm;

/* Computes shortcut(x) + conv[1](silu(norm[1](conv[0](silu(norm[0](x)))))). */
typedef struct sg_kl_block {
    sg_kl_norm norm[2];
    sg_kl_map  conv[2];
    sg_kl_map  shortcut; /* the identity when absent */
} sg_kl_block;

typedef struct sg_kl_level {
    int64_t     in, out;     /* channels that come, and of the blocks */
    bool        space, time; /* what its end changes, by a factor of 2 */
    sg_kl_block block[SG_KL_BLOCKS];
    sg_kl_map   resample; /* with space or time */
} sg_kl_level;

typedef struct sg_kl_coder {
    bool        up;    /* the decoder */
    bool        video; /* else of images */
    int         levels, blocks, groups;
    sg_dtype    act;
    sg_kl_map   conv_in, conv_out;
    sg_kl_block mid[SG_KL_MID];
    bool        attention;
    sg_kl_norm  attention_norm, norm_out;
    sg_kl_map   q, k, v, attention_out;
    sg_kl_level level[SG_KL_LEVELS]; /* in the order of their work */
    bool        has_quant;
    sg_kl_map   quant; /* post_quant_conv, of latents on their way in; quant_conv, of those on their way out */
} sg_kl_coder;

/* Reads what the two have in common, all but which levels change what. A level has `layers` where the config tells
 * none. Both have a quant then. */
void sg_kl_coders_read(sg_kl_coder *decoder, sg_kl_coder *encoder, sg_dtype act, int64_t layers, sg_config *f);

/* Notes in f what is wrong: `key`, the types of the blocks, must be a list of `only`, one for each level; where it is absent
 * it has `assumed` of them. */
void sg_kl_check_types(sg_config *f, const char *key, const char *only, int levels, int assumed);
/* Checks that RGB goes in and comes out, and that the activation is silu. */
void sg_kl_check_fixed(sg_config *f);

/* Binds every tensor of both and checks them. *encoder_component becomes *p with a binding of its own, which the caller
 * closes, whatever is returned. z is the number of latent channels. */
sg_status sg_kl_coders_bind(sg_component *p, sg_component *encoder_component, sg_kl_coder *decoder,
                            sg_kl_coder *encoder, int64_t z, sg_error *e) SG_MUST_USE;

/* Decodes z F32 [f, y, x, c], times scale F32 [c], plus shift F32 [c]?, to frames of k->act [f', H, W, 3], which are
 * not clamped. What comes at once sees each other. The frames lie in s->scratch, above other memory that the caller
 * frees with them. Taps "vae.post_quant", "vae.conv_in", "vae.mid", "vae.up.%d", "vae.conv_out". */
sg_tensor sg_kl_decode(const sg_kl_coder *k, sg_stream *s, sg_tensor z, sg_tensor scale, sg_tensor shift);

/* Goes the other way round, from frames F32 [n, H, W, 3] to F32 [f, y, x, 2 c], the means of latents and the logarithms
 * of their variances. Taps "enc.conv_in", "enc.down.%d", "enc.mid", "enc.quant". */
sg_tensor sg_kl_encode(const sg_kl_coder *k, sg_stream *s, sg_tensor frames);

#endif
