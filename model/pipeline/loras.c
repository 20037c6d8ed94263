/* loras.c - the LoRAs that are added to the denoisers: those asked for, the model's own for renders with a picture. */
#include "base/file.h"
#include "base/path.h"
#include "engine_state.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

/* The failure of adding l, with the model that it was probably made for. */
static sg_status misfit(const sg_engine *engine, const sg_lora *l, sg_status status, sg_error *e)
{
    const int64_t         width = sg_lora_describe(l).width;
    const sg_known_width *known = engine->family->widths;
    while (known && known->name && known->width != width) known++;
    if (!known || !known->name || !e) return status;
    const sg_error why = *e;
    *e = (sg_error){0};
    return sg_error_set(e, status, "%s; rows of %lld are those of %s", why.text, (long long)width, known->name);
}

/* The bindings that LoRAs go to: of each denoiser in turn, then of the modulations that the only one has apart; NULL
 * past the last. */
static sg_bind *binding(const sg_components *c, int i)
{
    if (i < c->denoisers) return c->denoiser[i].component->bind;
    return i == c->denoisers && c->modulation.component ? c->modulation.component->bind : NULL;
}

/* Opens the file at path, and adds it to the denoisers whose bits are set. */
static sg_status add(sg_lora **lora, const sg_engine *engine, const char *path, double strength, unsigned denoisers,
                     sg_error *e)
{
    const sg_components *const c = engine->components;
    SG_TRY(sg_lora_open(lora, path, engine->backend->threads, e));
    for (int i = 0; binding(c, i); i++) {
        const int                of = i < c->denoisers ? i : 0;
        const sg_denoiser *const d = &c->denoiser[of];
        if (!(denoisers >> of & 1)) continue;
        const sg_status status = sg_lora_add(*lora, binding(c, i), d->component->name, d->names, strength, e);
        if (status != SG_OK) return misfit(engine, *lora, status, e);
    }
    return sg_lora_check(*lora, e);
}

sg_status sg_engine_add_loras(sg_engine *engine, const sg_lora_option *o, int count, sg_error *e)
{
    for (; count > 0; o++, count--) {
        if (!o->path) return sg_error_set(e, SG_E_ARG, "lora: no file is named");
        if (!isfinite(o->strength)) return sg_error_set(e, SG_E_ARG, "%s: its strength is %g", o->path, o->strength);
        if (engine->loras == SG_LORAS_MAX)
            return sg_error_set(e, SG_E_ARG, "%s: there are more than %d LoRAs", o->path, SG_LORAS_MAX);
        if (engine->components->denoisers < 2 && o->denoisers)
            return sg_error_set(e, SG_E_ARG, "%s: is for one of two experts, but this model has one denoiser", o->path);
        sg_lora **const     lora = &engine->lora[engine->loras];
        sg_lora_info *const info = &engine->lora_info[engine->loras++];
        SG_TRY(add(lora, engine, o->path, o->strength, o->denoisers ? o->denoisers : ~0u, e));
        *info = sg_lora_describe(*lora);
        info->size = sizeof *info;
        info->strength = o->strength;
        info->denoisers = o->denoisers;
        snprintf(info->name, sizeof info->name, "%s", sg_path_name(o->path));
    }
    return SG_OK;
}

const char *sg_engine_lora_unused(const sg_engine *engine, int lora, size_t *at)
{
    return lora >= 0 && lora < engine->loras ? sg_lora_unused(engine->lora[lora], at) : NULL;
}

bool sg_engine_lora_is_beside(const sg_engine *engine, int lora)
{
    sg_bind *b;
    for (int i = 0; (b = binding(engine->components, i)) != NULL; i++)
        if (sg_bind_is_beside(b, sg_lora_file(engine->lora[lora]))) return true;
    return false;
}

/* ---- for renders with a picture ---- */

static void take_back(sg_engine *engine)
{
    sg_bind *b;
    for (int i = 0; (b = binding(engine->components, i)) != NULL; i++) sg_bind_unpatch(b, engine->patches[i]);
    sg_lora_close(&engine->image_lora);
}

sg_status sg_engine_set_image(sg_engine *engine, bool on, sg_error *e)
{
    const sg_components *const c = engine->components;
    char                       path[PATH_MAX];
    if (!on) {
        take_back(engine);
        return SG_OK;
    }
    if (!sg_file_beside(sg_checkpoint_path(engine->checkpoint), engine->image_file, path, sizeof path))
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", engine->image_file);
    for (int i = 0; binding(c, i); i++) engine->patches[i] = sg_bind_patches(binding(c, i));
    const sg_status st = add(&engine->image_lora, engine, path, 1, ~0u, e);
    if (st) take_back(engine);
    return st;
}
