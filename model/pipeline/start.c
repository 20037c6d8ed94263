/* start.c - what denoising starts from: noise, or the latents of an image or a video with noise. */
#include "render.h"

#include <math.h>
#include <stdlib.h>

/* ---- the latents of an image or a video ---- */

static void fill_frames(const void *context, float *rgb, int64_t first, int64_t count)
{
    const sg_request *const r = context;
    const size_t            frame = (size_t)r->width * (size_t)r->height * 3;
    sg_vae_samples(rgb, sg_request_start(r) + (size_t)first * frame, (size_t)count * frame);
}

void sg_start_encode(const sg_render *render, sg_stream *s, sg_watch watch)
{
    const sg_request *const r = render->request;
    sg_engine *const        engine = render->engine;
    const sg_vae_clip       clip = {r->frames, r->height, r->width, .fill = fill_frames, .context = r};
    const int64_t *const    d = render->geometry.latent; /* of which none is a pad: sg_engine_check_request */
    float                  *latents = NULL;
    const int               factor = engine->components->vae.ops->sampled ? 2 : 1;
    const size_t            n = (size_t)(factor * d[0] * d[1] * d[2] * d[3]);
    if (s->memory->alloc) {
        free(engine->start);
        if (!(latents = engine->start = malloc(n * sizeof *latents))) {
            sg_fail(s, SG_E_MEMORY, "no memory for latents");
            return;
        }
    }
    sg_vae_encode(&engine->components->vae, s, &clip, d, latents, watch);
    for (size_t i = 0; latents && !s->status && i < n; i++)
        if (!isfinite(latents[i])) sg_fail(s, SG_E_NUMERIC, "NaN or infinity in the latents");
}

/* ---- noise ---- */

/* from [f, c, y, x] to [c, f, y, x]. */
static void frames_inside(float *to, const float *from, const int64_t dim[4])
{
    const size_t plane = (size_t)(dim[2] * dim[3]);
    for (int64_t f = 0; f < dim[1]; f++)
        for (int64_t c = 0; c < dim[0]; c++, from += plane)
            memcpy(to + (size_t)(c * dim[1] + f) * plane, from, plane * sizeof *to);
}

sg_status sg_start_draw(sg_render *render, int times)
{
    const int64_t *const d = render->geometry.latent;
    const size_t         n = (size_t)(d[0] * d[1] * d[2] * d[3]);
    const bool           by_frame = render->engine->components->noise_by_frame;
    const sg_dtype       as = render->engine->components->noise_dtype;
    if (!render->noise) render->noise = malloc((by_frame ? 2 : 1) * n * sizeof *render->noise);
    if (!render->noise) return sg_error_set(render->e, SG_E_MEMORY, "no memory for %zu numbers of noise", n);
    for (; times > 1; times--) sg_rng_skip(&render->rng, as, n);
    sg_rng_randn_as(&render->rng, as, by_frame ? render->noise + n : render->noise, n);
    if (by_frame) frames_inside(render->noise, render->noise + n, d);
    return SG_OK;
}

void sg_start_noise(const sg_render *render, sg_stream *s, sg_tensor x)
{
    sg_upload(s, x, render->noise);
    sg_tap(s, x, "noise");
}

/* ---- both ---- */

/* x = a draw from the distribution that the encoder gave, by the render's generator, whatever the order of the noise. */
static sg_status draw(sg_render *render, sg_stream *s, sg_tensor x)
{
    const size_t       n = (size_t)sg_count(x);
    const float *const mean = render->engine->start, *const log_variance = mean + n;
    float *const z = malloc(n * sizeof *z);
    if (!z) return sg_error_set(render->e, SG_E_MEMORY, "no memory for latents");
    sg_rng_randn_as(&render->rng, render->engine->components->noise_dtype, z, n);
    for (size_t i = 0; i < n; i++) z[i] = mean[i] + expf(log_variance[i] / 2) * z[i];
    sg_upload(s, x, z);
    free(z);
    return SG_OK;
}

sg_status sg_start_make(sg_render *render, sg_stream *s, sg_sampler_state *st)
{
    const sg_engine *const engine = render->engine;
    sg_tensor              clean = {0};
    sg_rng_seed(&render->rng, render->request->seed);
    if (render->geometry.images && engine->family->draw) engine->family->draw(engine->model, s, &render->rng);
    if (sg_request_start(render->request)) {
        clean = st->spare;
        if (engine->components->vae.ops->sampled)
            SG_TRY(draw(render, s, clean));
        else
            sg_upload(s, clean, engine->start);
        sg_tap(s, clean, "video");
    }
    SG_TRY(sg_start_draw(render, 1));
    sg_start_noise(render, s, st->x);
    sg_sampler_begin(&render->sampler, st, s, clean);
    sg_latents_hold(render, s, st->x);
    return SG_OK;
}
