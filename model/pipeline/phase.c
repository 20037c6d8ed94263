/* phase.c - see engine_state.h. */
#include "engine_state.h"

const char *sg_start_name(const sg_request *r) { return r->start_image ? "image" : "video"; }

int sg_phases_of(const sg_components *components, const sg_request *r, sg_phase phase[SG_PHASES_MAX])
{
    static const sg_phase denoise = {.kind = SG_PHASE_DENOISE, .name = "denoise", .stage = SG_STAGE_DENOISE};
    static const sg_phase decode = {.kind = SG_PHASE_DECODE, .name = "decode", .stage = SG_STAGE_DECODE};
    const bool            images = !r || sg_geometry_of(components, r).images > 0, starts = !r || sg_request_start(r);
    int                   n = 0;
    _Static_assert(SG_TEXTS_MAX + SG_ADDED_MAX + 3 <= SG_PHASES_MAX,
                   "there is room for every phase: where there are modulations, no family adds one");
    if (r && r->latents_in) {
        phase[0] = decode;
        return 1;
    }
    for (int i = 0; i < components->texts; i++)
        phase[n++] = (sg_phase){.kind = SG_PHASE_TEXT, .index = i, .name = "text", .stage = SG_STAGE_TEXT};
    if (components->modulation.component)
        phase[n++] = (sg_phase){.kind = SG_PHASE_MODULATION, .name = "modulation", .stage = SG_STAGE_TEXT};
    if (starts && components->vae.ops->encode_open)
        phase[n++] = (sg_phase){.kind = SG_PHASE_START, .name = r ? sg_start_name(r) : NULL, .stage = SG_STAGE_ENCODE};
    for (int i = 0; i < components->addeds; i++) {
        const sg_added_phase *const added = &components->added[i];
        const sg_stage              stage = added->of_images ? SG_STAGE_ENCODE : SG_STAGE_TEXT;
        if (images || !added->of_images)
            phase[n++] = (sg_phase){.kind = SG_PHASE_ADDED, .index = i, .name = added->name, .stage = stage};
    }
    phase[n++] = denoise;
    phase[n++] = decode;
    return n;
}

sg_component *sg_phase_component(const sg_components *components, const sg_phase *phase, int i)
{
    const sg_text_encoder *const encoder = &components->text[phase->index].encoder;
    if (phase->kind == SG_PHASE_DENOISE) return i < components->denoisers ? components->denoiser[i].component : NULL;
    if (i > 0) return NULL;
    switch (phase->kind) {
    case SG_PHASE_TEXT: return encoder->ops->component(encoder->of);
    case SG_PHASE_MODULATION: return components->modulation.component;
    case SG_PHASE_START: return components->vae.ops->encoder(components->vae.of);
    case SG_PHASE_ADDED: return components->added[phase->index].component;
    default: return components->vae.ops->component(components->vae.of);
    }
}

int sg_denoiser_at(const sg_components *components, double timestep)
{
    int i = 0;
    while (i + 1 < components->denoisers && timestep < components->denoiser[i].from) i++;
    return i;
}

int sg_first_layer(const sg_components *components, int denoiser)
{
    int layers = 0;
    for (int i = 0; i < denoiser; i++) layers += components->denoiser[i].layers;
    return layers;
}
