/* wan_image.c - see wan_image.h. Grey is 0: the frames without a picture are encoded too. */
#include "wan_image.h"

#include <stdlib.h>

typedef struct clip {
    sg_wan_vae             *vae;
    const sg_request       *request;
    const sg_request_image *last;          /* NULL: none */
    int64_t                 frames, plane; /* of the latents: how many, places of each */
    size_t                  pixels;        /* numbers of a frame */
    int                     z, chunk;      /* channels; frames of each chunk but the first */
    float                  *host;          /* room for a chunk; NULL on a plan */
    float                  *latent;        /* room for its latents */
} clip;

static void put_picture(float *to, const uint8_t *rgb, size_t numbers)
{
    for (size_t i = 0; i < numbers; i++) to[i] = 2 * ((float)rgb[i] / 255) - 1;
}

/* The frames of chunk i. Those of a chunk without pictures stay from one to the next. */
static void upload_chunk(const clip *c, sg_stream *s, sg_tensor frames, int64_t i)
{
    const size_t                  n = (size_t)frames.dim[0] * c->pixels;
    const sg_request_image *const end = i == c->frames - 1 ? c->last : NULL;
    if (!c->host || (i > 1 && !end)) return;
    memset(c->host, 0, n * sizeof *c->host);
    if (i == 0) put_picture(c->host, c->request->image[SG_IMAGE_FIRST].rgb, c->pixels);
    if (end) put_picture(c->host + n - c->pixels, end->rgb, c->pixels);
    sg_upload(s, frames, c->host);
}

static void encode(const clip *c, sg_stream *s, float *out)
{
    const sg_request *const r = c->request;
    const sg_tensor         frames = sg_new_keep(s, SG_F32, c->chunk, r->height, r->width, 3);
    sg_wan_vae_run         *run = NULL;
    sg_error                e = {0};
    if (sg_wan_vae_encode_open(&run, c->vae, s, r->height, r->width, &e)) {
        sg_fail(s, e.code, "%s", e.text);
        return;
    }
    for (int64_t i = 0; i < c->frames && !s->status; i++) {
        const sg_tensor now = sg_rows(frames, 0, i ? c->chunk : 1);
        upload_chunk(c, s, now, i);
        s->scratch.used = 0;
        const sg_tensor z = sg_wan_vae_encode_next(run, s, now);
        if (!out) continue;
        sg_download(s, c->latent, z);
        for (int64_t k = 0; k < c->z; k++)
            for (int64_t p = 0; p < c->plane; p++) out[(k * c->frames + i) * c->plane + p] = c->latent[p * c->z + k];
    }
    sg_wan_vae_run_close(&run);
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

float *sg_wan_image_encode(sg_wan_vae *v, sg_stream *s, const sg_request *r, const sg_geometry *g, bool alone)
{
    const sg_wan_vae_info info = sg_wan_vae_describe(v);
    clip                  c = {.vae = v,
                               .request = r,
                               .last = g->images > 1 ? &r->image[SG_IMAGE_LAST] : NULL,
                               .frames = alone ? 1 : g->latent[1],
                               .plane = g->latent[2] * g->latent[3],
                               .pixels = (size_t)r->height * (size_t)r->width * 3,
                               .z = info.z,
                               .chunk = info.scale_time};
    const size_t          mask = alone ? 0 : (size_t)(c.chunk * c.frames * c.plane);
    float                *out = NULL;
    sg_tap_fn *const      tap = s->tap;
    s->tap = NULL; /* what the encoder tells is for those who encode a whole clip */
    if (s->memory->alloc) {
        out = calloc(mask + (size_t)(c.z * c.frames * c.plane), sizeof *out);
        c.host = malloc((size_t)c.chunk * c.pixels * sizeof *c.host);
        c.latent = malloc((size_t)(c.z * c.plane) * sizeof *c.latent);
        if (!out || !c.host || !c.latent)
            sg_fail(s, SG_E_MEMORY, "no memory for a picture of %dx%d", r->width, r->height);
    }
    if (!s->status) encode(&c, s, out ? out + mask : NULL);
    if (out && mask) fill_mask(&c, out);
    s->tap = tap;
    free(c.host);
    free(c.latent);
    if (!s->status) return out;
    free(out);
    return NULL;
}
