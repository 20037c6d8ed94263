/* hunyuan_vae_parts.h - what hunyuan_vae.c reads and binds, and the other hunyuan_vae_*.c compute with. It is private
 * to them. */
#ifndef SG_HUNYUAN_VAE_PARTS_H
#define SG_HUNYUAN_VAE_PARTS_H

#include "hunyuan_vae.h"
#include "kl_coder.h"

enum {
    /* A window has so many latent frames, and the next begins so many frames after it. The last frames of a window are
     * blended with the first of the next. */
    SG_HUNYUAN_WINDOW = 5,
    SG_HUNYUAN_STRIDE = 3,
    SG_HUNYUAN_KEPT = SG_HUNYUAN_WINDOW - SG_HUNYUAN_STRIDE,
    SG_HUNYUAN_TIME = 4, /* frames a latent frame */
    SG_HUNYUAN_BLEND = (SG_HUNYUAN_WINDOW - 1 - SG_HUNYUAN_STRIDE) * SG_HUNYUAN_TIME
};

struct sg_hunyuan_vae {
    sg_component component, encoder_component; /* the second borrows all but its binding from the first */
    int          z;
    double       scaling;
    bool         tiled;
    sg_kl_coder  decoder, encoder;
};

/* These do what sg_vae_ops says of them, and are in hunyuan_vae_encode.c. */
int64_t   sg_hunyuan_vae_encode_chunk(const void *of, int64_t total, int64_t done);
sg_status sg_hunyuan_vae_encode_open(void **run, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e);
sg_tensor sg_hunyuan_vae_encode_next(void *run, sg_stream *s, sg_tensor frames);
void      sg_hunyuan_vae_encode_close(void **run);

#endif
