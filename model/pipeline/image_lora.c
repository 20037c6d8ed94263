/* image_lora.c - see sg_engine_set_image in engine_state.h. */
#include "engine_state.h"

#include <limits.h>

static sg_status add(sg_engine *engine, sg_error *e)
{
    const sg_components *const c = engine->components;
    char                       path[PATH_MAX];
    if (!sg_checkpoint_beside(sg_checkpoint_path(engine->checkpoint), engine->image_file, path, sizeof path))
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", engine->image_file);
    SG_TRY(sg_lora_open(&engine->image_lora, path, engine->backend->threads, e));
    for (int i = 0; i < c->denoisers; i++) {
        const sg_denoiser *const d = &c->denoiser[i];
        SG_TRY(sg_lora_add(engine->image_lora, d->component->bind, d->component->name, d->names, 1, e));
    }
    return sg_lora_check(engine->image_lora, e);
}

static void take_back(sg_engine *engine)
{
    for (int i = 0; i < engine->components->denoisers; i++)
        sg_bind_unpatch(engine->components->denoiser[i].component->bind, engine->patches[i]);
    sg_lora_close(&engine->image_lora);
}

sg_status sg_engine_set_image(sg_engine *engine, bool on, sg_error *e)
{
    const sg_components *const c = engine->components;
    if (!on) {
        take_back(engine);
        return SG_OK;
    }
    for (int i = 0; i < c->denoisers; i++) engine->patches[i] = sg_bind_patches(c->denoiser[i].component->bind);
    const sg_status st = add(engine, e);
    if (st) take_back(engine);
    return st;
}
