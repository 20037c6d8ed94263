/* vae.h - what the pipeline asks of a VAE, from latents to frames and back: one table of functions each. A decoder
 * works in chunks of latent frames, an encoder in chunks of pixel frames, as many as they say, and keeps between them
 * what it needs. All tensors are channels last. A family whose VAE encodes renders from videos too, without a line of
 * its own. */
#ifndef SG_VAE_H
#define SG_VAE_H

#include "component.h"
#include "op.h"

struct sg_vae_coder;

/* Says how a VAE's latents lie among pixels. */
typedef struct sg_vae_info {
    int    z, scale_time, scale_space; /* latent channels; pixels per latent place */
    double scaling;                    /* with `sampled`: of normalised latents, beside their shift */
} sg_vae_info;

typedef struct sg_vae_ops {
    /* How sg_vae_open opens one from a checkpoint: the config's class; the size of its struct, which begins with an
     * sg_vae_model (vae_parts.h); read takes what it wants from the config; bind binds the tensors of either coder,
     * whose weights are p's. */
    const char *class_name;
    size_t      size;
    sg_status (*read)(void *of, sg_config *f);
    void (*bind)(void *of, const sg_component *p, struct sg_vae_coder *k);

    sg_component *(*component)(void *of); /* the decoder's weights, which the engine loads */

    /* chunk returns how many latent frames the next chunk takes, of `total`, `done` of which are decoded: 1 to total -
     * done. */
    int64_t (*chunk)(const void *of, int64_t total, int64_t done);
    int special; /* chunks at the beginning; those after them all cost what the first of them does, but for the last */

    /* set_tiles makes decoders opened from now on work in tiles, or whole; encoders too, where diffusers' do. Tiles
     * take less memory and change the frames a little. It returns false where they cannot, and is NULL where they never
     * do. Chunks may then be others. */
    bool (*set_tiles)(void *of, bool on);

    /* Starts decoding latents of grid y x x. Device memory comes from s->keep; *run is closed by decode_close. */
    sg_status (*decode_open)(void **run, void *of, sg_stream *s, int64_t y, int64_t x, sg_error *e);
    /* Decodes the next chunk z F32 [f, y, x, c], as the denoiser leaves it, to RGB frames F32 [n, H, W, 3] in
     * s->scratch, clamped to [-1, 1]. `last` says that no other chunk follows. */
    sg_tensor (*decode_next)(void *run, sg_stream *s, sg_tensor z, bool last);
    void (*decode_close)(void **run); /* *run may be NULL */

    /* The members from here to encode_close are NULL where there is no encoder. encoder returns its weights, which the
     * engine loads without the decoder's. */
    sg_component *(*encoder)(void *of);
    /* encode_chunk returns how many pixel frames the next chunk takes, of `total`, `done` of which are encoded: 1 to
     * total - done. */
    int64_t (*encode_chunk)(const void *of, int64_t total, int64_t done);
    /* Starts encoding frames of height x width, multiples of scale_space, in the same way as decode_open. */
    sg_status (*encode_open)(void **run, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e);
    /* Encodes the next chunk F32 [n, H, W, 3] in [-1, 1] to latents F32 [f, y, x, c] in s->scratch, normalised as the
     * denoiser takes them. They are the mode of their distribution, without a draw. With `sampled` the result is F32
     * [f, y, x, 2 c]: the means, then the logarithms of the variances, both of normalised latents. */
    sg_tensor (*encode_next)(void *run, sg_stream *s, sg_tensor frames);
    void (*encode_close)(void **run); /* *run may be NULL */
    bool sampled;                     /* the pipelines of its models draw latents from the distribution */

    void (*close)(void *of); /* NULL: whoever made `of` closes it */
} sg_vae_ops;

typedef struct sg_vae {
    const sg_vae_ops *ops;
    void             *of; /* owned by whoever opened it: sg_vae_close */
    sg_vae_info       info;
} sg_vae;

/* Opens component "vae" of c, which is of ops' class: reads its config, binds and checks every tensor of decoder and
 * encoder; loads nothing. On failure *out stays as it is. */
sg_status sg_vae_open(sg_vae *out, const sg_vae_ops *ops, const sg_checkpoint *c, sg_dtype act,
                      sg_error *e) SG_MUST_USE;
void      sg_vae_close(sg_vae *v); /* one that never opened is fine */

/* The VAEs of families. Each has its taps at the head of its file. */
extern const sg_vae_ops sg_cogvideox_vae_ops, sg_hunyuan_vae_ops, sg_kl_vae_ops, sg_mochi_vae_ops, sg_wan_vae_ops,
    sg_wf_vae_ops;

/* Returns by how much the denoiser's latents of a picture are those of the encoder: 1, but with
 * invert_scale_latents. */
double sg_cogvideox_vae_picture_scale(const sg_vae *v);

/* Opens TAEHV, the small decoder for previews, from the file at path (safetensors, or what torch.save writes), for
 * latents as `of` describes them. It loads nothing. On failure *out stays as it is, and e tells file, tensor and
 * reason. */
sg_status sg_taehv_open(sg_vae *out, const char *path, const sg_vae_info *of, sg_dtype act, sg_error *e) SG_MUST_USE;

#endif
