/* hunyuan_vae_encode.c - AutoencoderKLHunyuanVideo as vae.h has it, the encoder: window after window.
 *
 * diffusers encodes clips of more than 16 frames in windows of 17, the next of which begins 12 on. It leaves out a later
 * window's first latent frame and blends the second with the last one of the window before, by weights of 1 and 0: so the
 * first two are that window's, and a window gives the others. Fewer than 17 frames are encoded at once. */
#include "hunyuan_vae_parts.h"

#include <stdlib.h>

enum {
    WINDOW = (SG_HUNYUAN_WINDOW - 1) * SG_HUNYUAN_TIME + 1,
    STRIDE = SG_HUNYUAN_STRIDE * SG_HUNYUAN_TIME,
    KEPT = WINDOW - STRIDE
};

/* One clip being encoded. */
typedef struct run {
    const sg_hunyuan_vae *vae;
    bool                  begun;
    sg_tensor             scale; /* F32 [z]: of the latents */
    sg_tensor             kept;  /* F32 [KEPT, H, W, 3]: the last frames of a window, the first of the next */
} run;

int64_t sg_hunyuan_vae_encode_chunk(const void *of, int64_t total, int64_t done)
{
    const int64_t n = done ? STRIDE : WINDOW, left = total - done;
    (void)of;
    return n < left ? n : left;
}

sg_status sg_hunyuan_vae_encode_open(void **out, void *of, sg_stream *s, int64_t height, int64_t width, sg_error *e)
{
    const sg_hunyuan_vae *const v = of;
    const sg_vae_info           i = sg_hunyuan_vae_describe(v);
    float                       scale[SG_KL_Z];
    *out = NULL;
    if (height < i.scale_space || height > SG_KL_SIDE || height % i.scale_space || width < i.scale_space ||
        width > SG_KL_SIDE || width % i.scale_space)
        return sg_error_set(e, SG_E_ARG, "frames of %lldx%lld cannot be encoded", (long long)width, (long long)height);
    run *const r = calloc(1, sizeof *r);
    if (!r) return sg_error_memory(e, v->component.dir);
    r->vae = v;
    for (int k = 0; k < i.z; k++) scale[k] = (float)v->scaling;
    r->scale = sg_new_keep(s, SG_F32, i.z);
    sg_upload(s, r->scale, scale);
    r->kept = sg_new_keep(s, SG_F32, KEPT, height, width, SG_KL_RGB);
    *out = r;
    return SG_OK;
}

/* Frames that see each other: the means of their latents, times r->scale, F32 [(n - 1) / 4 + 1, y, x, c] in s->scratch. */
static sg_tensor encode_window(const run *r, sg_stream *s, sg_tensor frames)
{
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    const int64_t     f = (frames.dim[0] - 1) / i.scale_time + 1, y = frames.dim[1] / i.scale_space,
                  x = frames.dim[2] / i.scale_space;
    const sg_tensor z = sg_new(s, SG_F32, f, y, x, i.z);
    const size_t    mark = s->scratch.used;
    const sg_tensor both = sg_kl_encode(&r->vae->encoder, s, frames), mean = sg_new(s, SG_F32, f * y * x, 1, i.z);
    sg_strided_copy(s, .y = mean, .x = sg_reshape(both, sg_count(both)), .token = 2 * i.z, .head = i.z);
    sg_norm(s, .y = z, .x = sg_reshape(mean, f, y, x, i.z), .w = r->scale, .kind = SG_NORM_NONE);
    s->scratch.used = mark;
    return z;
}

sg_tensor sg_hunyuan_vae_encode_next(void *of, sg_stream *s, sg_tensor frames)
{
    run *const        r = of;
    const sg_vae_info i = sg_hunyuan_vae_describe(r->vae);
    const int64_t     old = r->begun ? KEPT : 0, n = old + frames.dim[0], skip = old ? SG_HUNYUAN_KEPT : 0;
    const int64_t     f = (n - 1) / i.scale_time + 1 - skip;
    const sg_tensor   z = sg_new(s, SG_F32, f, frames.dim[1] / i.scale_space, frames.dim[2] / i.scale_space, i.z);
    const size_t      mark = s->scratch.used;
    const sg_tensor   window = sg_new(s, SG_F32, n, frames.dim[1], frames.dim[2], frames.dim[3]);
    if (old) sg_copy(s, .y = sg_rows(window, 0, old), .x = r->kept);
    sg_copy(s, .y = sg_rows(window, old, frames.dim[0]), .x = frames);
    if (n == WINDOW) sg_copy(s, .y = r->kept, .x = sg_rows(window, STRIDE, KEPT));
    sg_copy(s, .y = z, .x = sg_rows(encode_window(r, s, window), skip, f));
    sg_tap(s, z, "enc.mean");
    s->scratch.used = mark;
    r->begun = true;
    return z;
}

void sg_hunyuan_vae_encode_close(void **r)
{
    free(*r);
    *r = NULL;
}
