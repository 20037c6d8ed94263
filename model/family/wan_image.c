/* wan_image.c - see wan_image.h. Grey is 0: the frames without a picture are encoded too. */
#include "wan_image.h"

#include <stdlib.h>

typedef struct clip {
    const sg_request       *request;
    const sg_request_image *last;          /* NULL: none */
    int64_t                 frames, plane; /* of the latents: how many, places of each */
    int                     chunk;         /* frames of each latent frame but the first */
} clip;

static void fill_frames(const void *context, float *rgb, int64_t first, int64_t count)
{
    const clip *const c = context;
    const size_t      pixels = (size_t)c->request->height * (size_t)c->request->width * 3, n = (size_t)count * pixels;
    memset(rgb, 0, n * sizeof *rgb);
    if (first == 0) sg_vae_samples(rgb, c->request->image[SG_IMAGE_FIRST].rgb, pixels);
    if (c->last && first + count == (c->frames - 1) * c->chunk + 1)
        sg_vae_samples(rgb + n - pixels, c->last->rgb, pixels);
}

/* [chunk, f, y, x] */
static void fill_mask(const clip *c, float *mask)
{
    for (int64_t k = 0; k < c->chunk; k++)
        for (int64_t p = 0; p < c->plane; p++) {
            mask[k * c->frames * c->plane + p] = 1;
            if (c->last && k == c->chunk - 1) mask[(k * c->frames + c->frames - 1) * c->plane + p] = 1;
        }
}

float *sg_wan_image_encode(const sg_vae *v, sg_stream *s, const sg_request *r, const sg_geometry *g, bool alone,
                           sg_watch watch)
{
    const int         scale = v->info.scale_time;
    const int64_t     latent[4] = {g->latent[0], alone ? 1 : g->latent[1], g->latent[2], g->latent[3]};
    const clip        c = {.request = r,
                           .last = g->images > 1 ? &r->image[SG_IMAGE_LAST] : NULL,
                           .frames = latent[1],
                           .plane = latent[2] * latent[3],
                           .chunk = scale};
    const sg_vae_clip whole = {.frames = (latent[1] - 1) * scale + 1,
                               .height = r->height,
                               .width = r->width,
                               .fill = fill_frames,
                               .context = &c};
    const size_t      mask = alone ? 0 : (size_t)(scale * c.frames * c.plane);
    float            *out = NULL;
    if (s->memory->alloc) {
        out = calloc(mask + (size_t)(latent[0] * c.frames * c.plane), sizeof *out);
        if (!out) sg_fail(s, SG_E_MEMORY, "no memory for a picture of %dx%d", r->width, r->height);
    }
    if (!s->status) sg_vae_encode(v, s, &whole, latent, out ? out + mask : NULL, watch);
    if (out && mask) fill_mask(&c, out);
    if (!s->status) return out;
    free(out);
    return NULL;
}
