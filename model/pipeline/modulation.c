/* modulation.c - what modulates the steps of a render: computed for all of them in a phase before denoising, kept on
 * the host, brought to the device step by step: a step has a few MB, all steps have hundreds. */
#include "base/hash.h"
#include "render.h"

#include <stdlib.h>

static size_t numbers_of_step(const sg_render *render)
{
    const sg_modulations *const m = &render->engine->components->modulation;
    return (size_t)render->engine->texts.passes * (size_t)(m->rows * m->width);
}

size_t sg_modulation_bytes(const sg_render *render)
{
    return render->request->latents_in ? 0 : (size_t)render->sampler.steps * numbers_of_step(render) * sizeof(float);
}

/* Of a text only its pooled rows modulate. LoRAs and weights are the engine's, but for the LoRA of pictures. */
uint64_t sg_modulation_hash(const sg_render *render)
{
    const sg_engine *const       engine = render->engine;
    const sg_conditioning *const c = &engine->texts;
    const int                    given[] = {c->passes, render->sampler.steps, engine->image_lora != NULL};
    uint64_t                     hash = sg_hash(SG_HASH, given, sizeof given);
    hash = sg_hash(hash, &c->guidance, sizeof c->guidance);
    hash = sg_hash(hash, render->sampler.timestep, (size_t)render->sampler.steps * sizeof *render->sampler.timestep);
    for (int p = 0; p < c->passes; p++)
        for (int k = 0; k < engine->components->texts; k++) {
            const sg_text_encoder *const of = &engine->components->text[k].encoder;
            const float *const           row = c->text[p][k].row;
            if (row) hash = sg_hash(hash, row, (size_t)of->ops->pooled(of->of) * sizeof *row);
        }
    return hash | 1;
}

void sg_modulation_compute(const sg_render *render, sg_stream *s)
{
    sg_engine *const            engine = render->engine;
    const sg_modulations *const m = &engine->components->modulation;
    const int                   steps = render->sampler.steps;
    float                       timestep[SG_STEPS_MAX];
    const sg_tensor t = sg_new(s, SG_F32, steps), y = sg_new(s, SG_F32, steps, engine->texts.passes, m->rows, m->width);
    for (int i = 0; i < steps; i++) timestep[i] = (float)render->sampler.timestep[i];
    sg_upload(s, t, timestep);
    engine->family->modulate(engine->model, s, &engine->texts, t, y);
    if (!s->memory->alloc) return; /* a plan has no data */
    free(engine->modulation);
    engine->modulation = malloc(sg_bytes(y));
    if (engine->modulation)
        sg_download(s, engine->modulation, y);
    else
        sg_fail(s, SG_E_MEMORY, "no memory for the modulations of %d steps", steps);
}

sg_tensor sg_modulation_of_step(const sg_render *render, sg_stream *s, int step)
{
    const sg_engine *const      engine = render->engine;
    const sg_modulations *const m = &engine->components->modulation;
    if (!m->component) return (sg_tensor){0};
    const sg_tensor y = sg_new(s, SG_F32, engine->texts.passes, m->rows, m->width);
    if (s->memory->alloc) sg_upload(s, y, engine->modulation + (size_t)step * numbers_of_step(render));
    return y;
}
