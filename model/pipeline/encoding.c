/* encoding.c - the phases before denoising: each text encoder, modulations, the encoder of the start, what the family
 * adds. */
#include "base/clock.h"
#include "base/hash.h"
#include "render.h"

/* A phase at work. */
typedef struct phase_at_work {
    sg_render      *render;
    const sg_phase *phase;
} phase_at_work;

/* Tells progress of a stage before denoising: its phases before this one are done, and so many units of this one. */
static sg_status report_units(sg_render *render, const sg_phase *phase, int units)
{
    int done = units, total = 0;
    for (const sg_phase *p = render->phase; p < render->phase + render->phases; p++) {
        if (p->stage != phase->stage) continue;
        total += p->units;
        if (p < phase) done += p->units;
    }
    return sg_stage_progress(render, phase->stage, done, total);
}

static bool tell_units(void *context, int done, int total)
{
    const phase_at_work *const w = context;
    (void)total; /* as on the plan */
    return report_units(w->render, w->phase, done) != SG_OK;
}

void sg_encoding_compute(sg_render *render, const sg_phase *phase, sg_stream *s, sg_watch watch)
{
    sg_engine *const           engine = render->engine;
    const sg_components *const components = engine->components;
    if (phase->kind == SG_PHASE_TEXT)
        sg_conditioning_encode(&engine->texts, components, phase->index, s);
    else if (phase->kind == SG_PHASE_MODULATION)
        sg_modulation_compute(render, s);
    else if (phase->kind == SG_PHASE_START)
        sg_start_encode(render, s, watch);
    else
        components->added[phase->index].run(engine->model, s, render->request, &render->geometry, watch);
}

static sg_status compute(sg_render *render, const sg_phase *phase)
{
    const double start = sg_seconds();
    const bool text = phase->kind == SG_PHASE_TEXT, one = text || phase->kind == SG_PHASE_MODULATION; /* unit of work */
    phase_at_work work = {render, phase};
    sg_stream     s;
    SG_TRY(report_units(render, phase, 0));
    SG_TRY(sg_stage_open(render, &s, phase));
    sg_encoding_compute(render, phase, &s, (sg_watch){tell_units, &work});
    sg_stage_close(render, &s);
    sg_stage_end(render, phase->stage, start);
    SG_TRY(sg_stage_status(&s, text ? "text encoder" : phase->name, render->e));
    return one ? report_units(render, phase, phase->units) : SG_OK;
}

/* Where the hash of what this phase worked from last is kept; NULL: nowhere. */
static uint64_t *made_of(const sg_render *render, const sg_phase *phase)
{
    sg_engine *const engine = render->engine;
    if (phase->kind == SG_PHASE_START) return &engine->start_hash;
    if (phase->kind == SG_PHASE_MODULATION) return &engine->modulation_hash;
    if (phase->kind != SG_PHASE_ADDED || !engine->components->added[phase->index].of_images) return NULL;
    return &engine->encoded[phase->index];
}

/* Of the samples of all pictures, or of the start, of their sizes and of what changes how they are encoded; or of what
 * modulations follow from. Not 0. */
static uint64_t hash_of_input(const sg_render *render, const sg_phase *phase)
{
    if (phase->kind == SG_PHASE_MODULATION) return sg_modulation_hash(render);
    const sg_request *const r = render->request;
    const size_t            frame = (size_t)r->width * (size_t)r->height * 3;
    const int               size[] = {r->width, r->height, r->frames, render->geometry.images, render->tiled};
    uint64_t                hash = sg_hash(SG_HASH, size, sizeof size);
    if (phase->kind == SG_PHASE_START) return sg_hash(hash, sg_request_start(r), (size_t)r->frames * frame) | 1;
    for (int i = 0; i < render->geometry.images; i++) {
        const sg_request_image *const p = &r->image[i];
        const int                     whole[] = {p->whole_width, p->whole_height};
        hash = sg_hash(sg_hash(hash, p->rgb, frame), whole, sizeof whole);
        if (p->whole) hash = sg_hash(hash, p->whole, (size_t)whole[0] * (size_t)whole[1] * 3);
    }
    return hash | 1;
}

sg_status sg_encoding_run(sg_render *render, const sg_phase *phase)
{
    sg_component *const component = sg_phase_component(render->engine->components, phase, 0);
    uint64_t *const     made = made_of(render, phase);
    const uint64_t      want = made ? hash_of_input(render, phase) : 0;
    if (phase->kind == SG_PHASE_TEXT && sg_conditioning_encoded(&render->engine->texts, phase->index)) return SG_OK;
    if (made && *made == want) return SG_OK;
    if (made) *made = 0;
    SG_TRY(sg_stage_load(render, component));
    SG_TRY(compute(render, phase));
    sg_stage_release(render, component);
    if (made) *made = want;
    return SG_OK;
}
