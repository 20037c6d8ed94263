/* latents.c - a render's latents between denoising and decoding, on the host and in files. */
#include "base/text.h"
#include "render.h"
#include "safetensors_write.h"

#include <math.h>
#include <string.h>

void sg_latents_decoded(const sg_render *render, int64_t shape[4])
{
    memcpy(shape, render->geometry.latent, 4 * sizeof *shape);
    shape[1] -= render->geometry.pad;
}

size_t sg_latents_bytes(const sg_render *render)
{
    const int64_t *const d = render->geometry.latent;
    return (size_t)(d[0] * d[1] * d[2] * d[3]) * sizeof(float);
}

void sg_latents_hold(const sg_render *render, sg_stream *s, sg_tensor x)
{
    const sg_engine *const engine = render->engine;
    if (engine->family->hold && render->geometry.images) engine->family->hold(engine->model, s, x);
}

/* ---- files ---- */

/* Opens the latents file at path, whose tensor is F32 [c, f, y, x] with the model's c. *source owns the map. */
static sg_status open_file(const sg_engine *engine, const char *path, sg_source **source, sg_tensor *latents,
                           sg_error *e)
{
    if (!sg_text_ends(path, ".safetensors"))
        return sg_error_set(e, SG_E_ARG, "%s: a latents file is named *.safetensors", path);
    SG_TRY(sg_source_open(source, path, e));

    const int z = engine->components->vae.info.z;
    *latents = sg_source_find(*source, "latents");
    if (latents->rank == 4 && latents->dtype == SG_F32 && latents->dim[0] == z && sg_count(*latents) > 0) return SG_OK;
    sg_source_close(source);
    return sg_error_set(e, SG_E_FORMAT, "%s: there is no tensor \"latents\" of F32 [%d, f, y, x] in it", path, z);
}

sg_status sg_engine_fit_latents(const sg_engine *engine, const char *path, sg_request *r, char **note, sg_error *e)
{
    sg_source *source = NULL;
    sg_tensor  t;
    *note = NULL;
    SG_TRY(open_file(engine, path, &source, &t, e));
    const sg_frame_rule rule = engine->components->frames;
    const int64_t       space = engine->components->vae.info.scale_space;
    const int64_t       most = (1 << 20) / (rule.step ? rule.step : 1);
    const char *const   text = sg_source_metadata(source, "settings");
    sg_status           status = SG_OK;
    if (t.dim[3] > (1 << 16) / space || t.dim[2] > (1 << 16) / space || t.dim[1] > most)
        status = sg_error_set(e, SG_E_FORMAT, "%s: latents of an absurd size", path);
    else if (text && !(*note = strdup(text)))
        status = sg_error_memory(e, path);
    if (status == SG_OK) {
        r->width = (int)(t.dim[3] * space);
        r->height = (int)(t.dim[2] * space);
        r->frames = (int)sg_frame_rule_count(rule, t.dim[1]);
    }
    sg_source_close(&source);
    return status;
}

sg_status sg_latents_read(sg_render *render)
{
    const sg_request *const r = render->request;
    sg_source              *source = NULL;
    sg_tensor               t;
    int64_t                 d[4];
    if (!r->latents_in) return SG_OK;
    SG_TRY(open_file(render->engine, r->latents_in, &source, &t, render->e));
    sg_latents_decoded(render, d);
    sg_status st = SG_OK;
    if (memcmp(t.dim, d, sizeof d) != 0)
        st = sg_error_set(render->e, SG_E_ARG,
                          "%s: latents [%lld, %lld, %lld, %lld] are not those of %dx%d with %d frames", r->latents_in,
                          (long long)t.dim[0], (long long)t.dim[1], (long long)t.dim[2], (long long)t.dim[3], r->width,
                          r->height, r->frames);
    else
        memcpy(render->host_latents, t.data, sg_bytes(t));
    for (int64_t i = 0; !st && i < sg_count(t); i++)
        if (!isfinite(render->host_latents[i]))
            st = sg_error_set(render->e, SG_E_NUMERIC, "%s: latents hold NaN or infinity", r->latents_in);
    sg_source_close(&source);
    return st;
}

sg_status sg_latents_write(sg_render *render)
{
    const sg_request *const r = render->request;
    int64_t                 d[4];
    sg_latents_decoded(render, d);
    const sg_tensor   t = {.data = render->host_latents, .dtype = SG_F32, .rank = 4, .dim = {d[0], d[1], d[2], d[3]}};
    const char *const metadata[] = {"settings", r->latents_note, NULL};
    if (!r->latents_out) return SG_OK;
    return sg_safetensors_write(r->latents_out, "latents", t, r->latents_note ? metadata : metadata + 2, render->e);
}
