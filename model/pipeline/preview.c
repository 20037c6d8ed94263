/* preview.c - what a render looks like after a step. Nothing here changes what the render goes on with: its tensors lie
 * in scratch, or at the top of the keep arena while they are needed. */
#include "render.h"
#include "sized.h"

#include <stdio.h>
#include <string.h>

void sg_preview_read_rgb(sg_engine *engine, sg_config *c)
{
    static const char *const key = "latent_rgb_factors";
    const double             most = 1e6;
    double                   factor[3 * SG_LATENT_RGB_Z], bias[3] = {0};
    sg_latent_rgb *const     rgb = &engine->own_rgb;
    const int                z = engine->components->vae.info.z;
    const int                n = sg_config_reals(c, key, -most, most, factor, 0, 3 * SG_LATENT_RGB_Z);
    sg_config_reals(c, "latent_rgb_factors_bias", -most, most, bias, n ? 3 : 0, 3);
    if (n && n != 3 * z)
        sg_config_fail(c, key, "%d numbers, but %d channels of latents have %d: red, green and blue of each", n, z,
                       3 * z);
    if (!n || sg_config_status(c) != SG_OK) return;
    rgb->z = z;
    for (int i = 0; i < n; i++) rgb->factor[i / 3][i % 3] = (float)factor[i];
    for (int k = 0; k < 3; k++) rgb->bias[k] = (float)bias[k];
}

static const sg_latent_rgb *colours(const sg_engine *engine)
{
    const sg_latent_rgb *rgb = engine->family->files ? engine->family->files->rgb : NULL;
    if (engine->own_rgb.z) return &engine->own_rgb;
    while (rgb && rgb->z && rgb->z != engine->components->vae.info.z) rgb++;
    return rgb && rgb->z ? rgb : NULL;
}

static bool wanted(const sg_render *render)
{
    return render->request->preview_every > 0 && !render->request->latents_in;
}

sg_status sg_preview_check(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    int size[3];
    if (r->preview_every < 0 || r->preview_every > SG_STEPS_MAX)
        return sg_error_set(e, SG_E_ARG, "preview_every: %d is not between 1 and %d", r->preview_every, SG_STEPS_MAX);
    return r->preview_every ? sg_engine_preview_size(engine, r, size, e) : SG_OK;
}

sg_status sg_engine_preview_size(const sg_engine *engine, const sg_request *given, int size[3], sg_error *e)
{
    sg_request own, *const r = &own;
    SG_TRY(sg_sized_take(&own, sizeof own, given, "sg_request", e));
    const bool        decodes = engine->preview.ops != NULL;
    const sg_vae_info v = engine->components->vae.info;
    const sg_geometry g = sg_geometry_of(engine->components, r);
    const int         frames = (int)(g.latent[1] - g.pad);
    if (!decodes && !colours(engine))
        return sg_error_set(
            e, SG_E_ARG,
            "preview: nothing is known of the colours of this model's latents, which are of family %s: its "
            "sparge-gen.json may have \"latent_rgb_factors\", or give preview_decoder=FILE",
            engine->family->name);
    size[0] = decodes ? (frames - 1) * v.scale_time + 1 : frames;
    size[1] = (int)g.latent[2] * (decodes ? v.scale_space : 1);
    size[2] = (int)g.latent[3] * (decodes ? v.scale_space : 1);
    return SG_OK;
}

size_t sg_preview_bytes(const sg_render *render)
{
    int size[3] = {0};
    if (!wanted(render) || sg_engine_preview_size(render->engine, render->request, size, NULL) != SG_OK) return 0;
    return 3 * (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
}

sg_component *sg_preview_component(const sg_render *render)
{
    const sg_vae *const v = &render->engine->preview;
    return v->ops && wanted(render) ? v->ops->component(v->of) : NULL;
}

void sg_preview_place(sg_render *render, sg_stream *s)
{
    const sg_latent_rgb *const rgb = colours(render->engine);
    float                      row[3 * SG_LATENT_RGB_Z];
    if (!wanted(render) || render->engine->preview.ops) return;
    render->preview.factor = sg_new_keep(s, SG_F32, 3, rgb->z);
    render->preview.bias = sg_new_keep(s, SG_F32, 3);
    for (int i = 0; i < 3 * rgb->z; i++) row[i] = rgb->factor[i % rgb->z][i / rgb->z];
    sg_upload(s, render->preview.factor, row);
    sg_upload(s, render->preview.bias, rgb->bias);
}

/* The clean sample F32 [f, y, x, c] as a decoder takes it. */
static sg_tensor clean_sample(const sg_render *render, sg_stream *s, sg_tensor x, sg_tensor v, int step)
{
    const int64_t *const n = render->geometry.latent;
    const int64_t        pad = render->geometry.pad;
    const sg_tensor      z = sg_new(s, SG_F32, n[1], n[2], n[3], n[0]);
    const size_t         mark = s->scratch.used;
    const sg_tensor      clean = sg_alloc(s, &s->scratch, SG_F32, 4, n);
    double               a[2];
    sg_sampler_clean(&render->sampler, step, a);
    sg_combine(s, .y = clean, .x = {x, v}, .a = {(float)a[0], (float)a[1]}, .count = 2);
    sg_latents_hold(render, s, clean);
    sg_permute(s, .y = z, .x = clean, .rank = 4, .dim = {n[0], n[1], n[2], n[3]}, .perm = {1, 2, 3, 0});
    s->scratch.used = mark;
    return sg_rows(z, pad, n[1] - pad);
}

/* Frames to the host, at *at, which moves on. On a plan, where it is NULL, nowhere. */
static void download(sg_stream *s, uint8_t **at, sg_tensor rgb)
{
    const sg_tensor bytes = sg_alloc(s, &s->scratch, SG_U8, rgb.rank, rgb.dim);
    sg_rgb8(s, .y = bytes, .x = rgb);
    if (!*at) return;
    sg_download(s, *at, bytes);
    *at += sg_bytes(bytes);
}

static void by_colours(const sg_render *render, sg_stream *s, sg_tensor z, uint8_t *host)
{
    const int64_t   n = z.dim[0] * z.dim[1] * z.dim[2];
    const sg_tensor rgb = sg_new(s, SG_F32, n, 3);
    sg_linear(s, .y = rgb, .x = sg_reshape(z, n, z.dim[3]), .w = render->preview.factor, .b = render->preview.bias);
    download(s, &host, rgb);
}

static sg_status by_decoder(const sg_render *render, sg_stream *s, sg_tensor z, uint8_t *host)
{
    const sg_vae *const v = &render->engine->preview;
    const size_t        keep = s->keep.used, mark = s->scratch.used;
    void               *run = NULL;
    sg_status           st = v->ops->decode_open(&run, v->of, s, z.dim[1], z.dim[2], render->e);
    for (int64_t done = 0, count; !st && done < z.dim[0]; done += count) {
        count = v->ops->chunk(v->of, z.dim[0], done);
        download(s, &host, v->ops->decode_next(run, s, sg_rows(z, done, count), done + count == z.dim[0]));
        s->scratch.used = mark;
    }
    v->ops->decode_close(&run);
    s->keep.used = keep;
    return st;
}

bool sg_preview_due(const sg_render *render, int step)
{
    const bool last = step + 1 == render->sampler.steps;
    return wanted(render) && (last || (step + 1) % render->request->preview_every == 0);
}

sg_status sg_preview_make(const sg_render *render, sg_stream *s, sg_tensor x, sg_tensor v, int step)
{
    const size_t    mark = s->scratch.used;
    sg_status       st = SG_OK;
    const sg_tensor z = clean_sample(render, s, x, v, step);
    if (render->engine->preview.ops)
        st = by_decoder(render, s, z, render->preview.host);
    else
        by_colours(render, s, z, render->preview.host);
    s->scratch.used = mark;
    return st;
}
