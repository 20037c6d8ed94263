/* vae_encode.c - see vae_encode.h. */
#include "vae_encode.h"

#include <math.h>
#include <stdlib.h>

void sg_watch_tell(sg_watch w, sg_stream *s, int done, int total)
{
    if (!s->status && w.tell(w.context, done, total)) sg_fail(s, SG_E_CANCELLED, "cancelled");
}

void sg_vae_samples(float *to, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = 2 * ((float)bytes[i] / 255) - 1;
}

/* One clip on its way. */
typedef struct encoding {
    const sg_vae      *vae;
    const sg_vae_clip *clip;
    const int64_t     *latent;  /* [c, f, y, x] */
    int64_t            numbers; /* of a place: c or 2 c */
    sg_tensor          frames;  /* on the device: room for the longest chunk */
    float             *rgb;     /* the same on the host, where the device computes there itself; NULL on a plan */
} encoding;

static int64_t longest_chunk(const encoding *e, int *chunks)
{
    int64_t most = 0, n;
    *chunks = 0;
    for (int64_t done = 0; done < e->clip->frames; done += n, (*chunks)++)
        if ((n = e->vae->ops->encode_chunk(e->vae->of, e->clip->frames, done)) > most) most = n;
    return most;
}

/* z [f, y, x, numbers] of the device to out [numbers, all f, y, x], from latent frame `at` on. */
static void take(const encoding *e, sg_stream *s, sg_tensor z, int64_t at, float *out)
{
    const int64_t plane = e->latent[2] * e->latent[3], n = e->numbers;
    float *const  host = malloc(sg_bytes(z));
    if (host)
        sg_download(s, host, z);
    else
        sg_fail(s, SG_E_MEMORY, "no memory for latents");
    for (int64_t f = 0; host && f < z.dim[0]; f++)
        for (int64_t k = 0; k < n; k++)
            for (int64_t p = 0; p < plane; p++)
                out[(k * e->latent[1] + at + f) * plane + p] = host[(f * plane + p) * n + k];
    free(host);
}

static void encode_chunks(const encoding *e, sg_stream *s, void *run, float *out, int chunks, sg_watch watch)
{
    const sg_vae_clip *const c = e->clip;
    int64_t                  count, at = 0;
    int                      number = 0;
    for (int64_t done = 0; done < c->frames && !s->status; done += count) {
        count = e->vae->ops->encode_chunk(e->vae->of, c->frames, done);
        const sg_tensor now = sg_rows(e->frames, 0, count);
        if (e->rgb) {
            c->fill(c->context, e->rgb, done, count);
            if (e->rgb != e->frames.data) sg_upload(s, now, e->rgb);
        }
        s->scratch.used = 0;
        const sg_tensor z = e->vae->ops->encode_next(run, s, now);
        if (!s->status && z.dim[0] > e->latent[1] - at)
            sg_fail(s, SG_E_SHAPE, "more than %lld latent frames", (long long)e->latent[1]);
        if (out && !s->status) take(e, s, z, at, out);
        at += z.dim[0];
        sg_watch_tell(watch, s, ++number, chunks);
    }
    if (!s->status && at != e->latent[1])
        sg_fail(s, SG_E_SHAPE, "%lld latent frames instead of %lld", (long long)at, (long long)e->latent[1]);
}

static void clamp_variances(const sg_vae *v, float *log_variance, size_t n)
{
    const double shift = 2 * log(v->info.scaling); /* of normalisation */
    const float  low = (float)(shift - 30), high = (float)(shift + 20);
    for (size_t i = 0; i < n; i++) {
        if (log_variance[i] < low) log_variance[i] = low;
        if (log_variance[i] > high) log_variance[i] = high;
    }
}

void sg_vae_encode(const sg_vae *v, sg_stream *s, const sg_vae_clip *clip, const int64_t latent[4], float *latents,
                   sg_watch watch)
{
    encoding e = {.vae = v, .clip = clip, .latent = latent, .numbers = v->ops->sampled ? 2 * latent[0] : latent[0]};
    sg_tap_fn *const tap = s->tap;
    void            *run = NULL;
    sg_error         why = {0};
    int              chunks;
    e.frames = sg_new_keep(s, SG_F32, longest_chunk(&e, &chunks), clip->height, clip->width, 3);
    if (latents) e.rgb = s->backend->host_memory ? e.frames.data : malloc(sg_bytes(e.frames));
    if (latents && !e.rgb) {
        sg_fail(s, SG_E_MEMORY, "no memory for frames of %lldx%lld", (long long)clip->width, (long long)clip->height);
        return;
    }
    if (!clip->taps) s->tap = NULL;
    if (v->ops->encode_open(&run, v->of, s, clip->height, clip->width, &why)) sg_fail(s, why.code, "%s", why.text);
    encode_chunks(&e, s, run, latents, chunks, watch);
    const size_t n = (size_t)(latent[0] * latent[1] * latent[2] * latent[3]);
    if (latents && v->ops->sampled && !s->status) clamp_variances(v, latents + n, n);
    v->ops->encode_close(&run);
    s->tap = tap;
    if (e.rgb != e.frames.data) free(e.rgb);
}
