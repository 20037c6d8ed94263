/* hunyuan_vae_parts.h - what hunyuan_vae.c reads and binds, and the other hunyuan_vae_*.c compute with. Private to them. */
#ifndef SG_HUNYUAN_VAE_PARTS_H
#define SG_HUNYUAN_VAE_PARTS_H

#include "hunyuan_vae.h"

enum {
    SG_HUNYUAN_LEVELS = 8, /* at most, as are the next three */
    SG_HUNYUAN_BLOCKS = 9, /* of a level */
    SG_HUNYUAN_Z = 1024,   /* latent channels */
    SG_HUNYUAN_CHANNELS = 16384,
    SG_HUNYUAN_MID = 2, /* blocks */
    /* Latent frames of a window, and those from one window's beginning to the next. The last frames of a window are
     * blended with the first of the next. */
    SG_HUNYUAN_WINDOW = 5,
    SG_HUNYUAN_STRIDE = 3,
    SG_HUNYUAN_KEPT = SG_HUNYUAN_WINDOW - SG_HUNYUAN_STRIDE,
    SG_HUNYUAN_TIME = 4,       /* frames a latent frame */
    SG_HUNYUAN_SIDE = 1 << 16, /* pixels, at most */
    SG_HUNYUAN_BLEND = (SG_HUNYUAN_WINDOW - 1 - SG_HUNYUAN_STRIDE) * SG_HUNYUAN_TIME
};

typedef struct sg_hunyuan_map { /* of one place: w x + b; or of the places around it and before it, a convolution */
    sg_tensor w, b;             /* [o, i] or [o, i, 3, 3, 3]; [o] */
} sg_hunyuan_map;

typedef struct sg_hunyuan_norm {
    sg_tensor w, b; /* [c] x 2 */
} sg_hunyuan_norm;

typedef struct sg_hunyuan_block { /* shortcut(x) + conv[1](silu(norm[1](conv[0](silu(norm[0](x)))))) */
    sg_hunyuan_norm norm[2];
    sg_hunyuan_map  conv[2];
    sg_hunyuan_map  shortcut; /* the identity when absent */
} sg_hunyuan_block;

typedef struct sg_hunyuan_level {
    int64_t          in, out;     /* channels that come, and of the blocks */
    bool             space, time; /* what its end changes, by a factor of 2 */
    sg_hunyuan_block block[SG_HUNYUAN_BLOCKS];
    sg_hunyuan_map   resample; /* with space or time */
} sg_hunyuan_level;

/* The decoder or the encoder. */
typedef struct sg_hunyuan_coder {
    bool             up; /* the decoder */
    int              levels, blocks, groups;
    sg_dtype         act;
    sg_hunyuan_map   conv_in, conv_out;
    sg_hunyuan_block mid[SG_HUNYUAN_MID];
    bool             attention;
    sg_hunyuan_norm  attention_norm, norm_out;
    sg_hunyuan_map   q, k, v, attention_out;
    sg_hunyuan_level level[SG_HUNYUAN_LEVELS]; /* in the order of their work */
} sg_hunyuan_coder;

struct sg_hunyuan_vae {
    sg_component     component, encoder_component; /* the second borrows all but its binding from the first */
    int              z;
    double           scaling;
    bool             tiled;
    sg_hunyuan_map   post_quant, quant;
    sg_hunyuan_coder decoder, encoder;
};

/* All latents that see each other, z F32 [f, y, x, c], times `scale` F32 [c]: frames F32 [4 (f - 1) + 1, H, W, 3] in
 * s->scratch, not clamped. Taps as hunyuan_vae.h tells. */
sg_tensor sg_hunyuan_vae_decode(const sg_hunyuan_vae *v, sg_stream *s, sg_tensor scale, sg_tensor z);

/* The other way round: frames F32 [n, H, W, 3] that see each other, in [-1, 1]: the means of their latents, times
 * `scale`, F32 [(n - 1) / 4 + 1, y, x, c] in s->scratch. */
sg_tensor sg_hunyuan_vae_encode(const sg_hunyuan_vae *v, sg_stream *s, sg_tensor scale, sg_tensor frames);

/* As sg_vae_ops has them: hunyuan_vae_encode.c. */
int64_t   sg_hunyuan_vae_encode_chunk(const void *of, int64_t total, int64_t done);
sg_status sg_hunyuan_vae_encode_open(void **run, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e);
sg_tensor sg_hunyuan_vae_encode_next(void *run, sg_stream *s, sg_tensor frames);
void      sg_hunyuan_vae_encode_close(void **run);

#endif
