/* render.c - the owner of a render: the request is checked and planned, then its phases run in turn. */
#include "render.h"
#include "base/clock.h"
#include "base/output_file.h"
#include "base/text.h"
#include "base/thread.h"
#include "sized.h"

#include <stdio.h>
#include <stdlib.h>

/* Plans, with the model's own LoRA for renders with a picture where this is one, and without it otherwise. */
static sg_status plan(sg_render *render, sg_plan *out)
{
    sg_engine *const engine = render->engine;
    const bool       image = sg_geometry_of(engine->components, render->request).images > 0;
    if (engine->image_file && image != (engine->image_lora != NULL)) {
        sg_backend_make_current(engine->backend);
        sg_keeper_drop(&engine->keeper, engine->backend, true);
        SG_TRY(sg_engine_set_image(engine, image, render->e));
    }
    return sg_render_plan(render, out);
}

static sg_status run_phase(sg_render *render, const sg_phase *phase)
{
    switch (phase->kind) {
    case SG_PHASE_DENOISE: SG_TRY(sg_denoising_run(render, phase)); return sg_latents_write(render);
    case SG_PHASE_DECODE: return sg_decoding_run(render, phase);
    default: return sg_encoding_run(render, phase);
    }
}

/* The phases, by a plan that fits. */
static sg_status run_phases(sg_render *render)
{
    const size_t latents = sg_latents_bytes(render), preview = sg_preview_bytes(render);
    const bool   shadow = render->request->cache == SG_CACHE_SHADOW;
    render->host_latents = malloc(latents);
    if (shadow) render->shadow = malloc(latents);
    if (!render->host_latents || (shadow && !render->shadow))
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for latents");
    if (preview && !(render->preview.host = malloc(preview)))
        return sg_error_set(render->e, SG_E_MEMORY, "no memory for previews of %zu bytes", preview);
    SG_TRY(sg_latents_read(render));
    for (int i = 0; i < render->phases; i++) {
        SG_TRY(sg_stage_check(render));
        SG_TRY(run_phase(render, &render->phase[i]));
    }
    return SG_OK;
}

/* Of what a caller may not expect. */
static void warn(const sg_engine *engine, const sg_plan *p)
{
    static const char *const name[] = {"prompt", "negative prompt"};
    for (int i = 0; i < 2; i++)
        if (p->cut[i])
            sg_engine_log(engine, SG_LOG_WARNING, "%s: the text encoder reads %d tokens; the last %d are cut off",
                          name[i], p->text_tokens[i], p->cut[i]);
    if (p->untiled) sg_engine_log(engine, SG_LOG_WARNING, "decoding: in tiles, since whole it does not fit");
}

/* What the keeper keeps by this plan may be less than what an earlier render left; and a render that fails leaves what
 * it was at work with. */
static sg_status render_all(sg_render *render)
{
    sg_engine *const        engine = render->engine;
    const sg_request *const r = render->request;
    SG_TRY(sg_engine_check_request(engine, r, render->e));
    if (r->latents_out)
        SG_TRY(sg_output_file_check(r->latents_out, "latents_out", render->e)); /* not after the steps */
    if (r->capture_out) SG_TRY(sg_output_file_check(r->capture_out, "capture_out", render->e));
    if (!r->prompt && !r->latents_in && engine->components->texts)
        return sg_error_set(render->e, SG_E_ARG, "a render needs a prompt");
    for (int i = 0; i < SG_IMAGES && !r->latents_in; i++)
        if (engine->components->image[i] == SG_IMAGE_NEEDED && !r->image[i].rgb)
            return sg_error_set(render->e, SG_E_ARG, "%s: this model needs a picture for the clip to %s with",
                                i ? "last_image" : "image", i ? "end" : "begin");
    SG_TRY(plan(render, &render->report->plan));
    warn(render->engine, &render->report->plan);
    SG_TRY(sg_plan_fits(&render->report->plan, render->e));
    if (!engine->backend->memory->alloc)
        return sg_error_set(render->e, SG_E_UNSUPPORTED, "plan_only: this engine only plans: %s",
                            engine->backend->device);
    sg_keeper_drop(&engine->keeper, engine->backend, false);
    sg_backend_limit_packed(engine->backend, render->packed_limit);
    if (sg_backend_packed_bytes(engine->backend) > render->packed_limit) /* of an earlier render, which had more room */
        sg_backend_drop_packed(engine->backend);
    const sg_status st = run_phases(render);
    if (st) sg_keeper_drop(&engine->keeper, engine->backend, false);
    return st;
}

/* One call at a time: from a callback, too, another would take the place of what this one works with. */
static sg_status begin(sg_engine *engine, sg_error *e)
{
    SG_TRY(sg_thread_check_fork(e));
    if (!__atomic_exchange_n(&engine->at_work, true, __ATOMIC_ACQUIRE)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "engine: another render or plan is at work in it");
}

/* What a plan leaves, and a cancel that came too late. */
static void close_plan(sg_render *render)
{
    sg_self_attention_close(&render->self);
    sg_thresholds_free(&render->tuned);
    sg_source_close(&render->mask);
    sg_engine_cancel(render->engine, false);
    __atomic_store_n(&render->engine->at_work, false, __ATOMIC_RELEASE);
}

/* As a caller gives them. */
static sg_status take(sg_request *own, const sg_request *r, sg_error *e)
{
    return sg_sized_take(own, sizeof *own, r, "sg_request", e);
}

/* After begin. */
static sg_status plan_request(sg_engine *engine, const sg_request *request, sg_plan *out, sg_error *e)
{
    sg_plan   own = {.size = sizeof own};
    sg_render render = {.engine = engine, .request = request, .e = e};
    sg_status st = sg_engine_check_request(engine, request, e);
    if (!st) st = plan(&render, &own);
    close_plan(&render);
    sg_sized_give(out, &own, sizeof own);
    return st;
}

sg_status sg_engine_plan(sg_engine *engine, const sg_request *r, sg_plan *out, sg_error *e)
{
    sg_request request;
    SG_TRY(take(&request, r, e));
    SG_TRY(sg_sized_check(out, "sg_plan", e));
    SG_TRY(begin(engine, e));
    return plan_request(engine, &request, out, e);
}

sg_status sg_engine_plan_as(sg_engine *engine, const sg_request *r, int offload, int weights_as, size_t memory_limit,
                            sg_plan *out, sg_error *e)
{
    sg_request request;
    SG_TRY(take(&request, r, e));
    SG_TRY(sg_sized_check(out, "sg_plan", e));
    SG_TRY(sg_choice_check("offload", offload, SG_OFFLOAD_ON + 1, e));
    SG_TRY(sg_choice_check("weights_as", weights_as, SG_WEIGHTS_BF16 + 1, e));
    SG_TRY(begin(engine, e));
    const size_t     limit = engine->memory_limit;
    const sg_offload way = engine->offload;
    const int        as = engine->weights_as;
    sg_backend_make_current(engine->backend);
    sg_keeper_drop(&engine->keeper, engine->backend, true);
    sg_engine_hold_weights(engine, weights_as == SG_WEIGHTS_BF16);
    engine->memory_limit = memory_limit;
    engine->offload = offload;
    const sg_status st = plan_request(engine, &request, out, e);
    engine->memory_limit = limit;
    engine->offload = way;
    sg_engine_hold_weights(engine, as == SG_WEIGHTS_BF16);
    return st;
}

static sg_status render_request(sg_render *render)
{
    sg_engine *const engine = render->engine;
    sg_report *const report = render->report;
    const double     start = sg_seconds();
    sg_backend_make_current(engine->backend);
    free(engine->count);
    engine->count = NULL;
    sg_trace_clear(&engine->times);
    snprintf(report->device, sizeof report->device, "%s", engine->backend->device);
    snprintf(report->dtype, sizeof report->dtype, "%s", engine->act == SG_BF16 ? "bf16" : "f32");
    const sg_status st = render_all(render);
    sg_backend_served(engine->backend, report->served, sizeof report->served);
    if (*report->served) sg_engine_log(engine, SG_LOG_INFO, "%s", report->served);
    report->attention_error_seconds = render->error.seconds;
    close_plan(render);
    sg_attention_error_free(&render->error);
    sg_capture_free(&render->capture);
    free(render->order);
    free(render->host_latents);
    free(render->shadow);
    free(render->noise);
    free(render->non_finite);
    free(render->preview.host);
    report->total_seconds = sg_seconds() - start;
    return st;
}

sg_status sg_engine_render(sg_engine *engine, const sg_request *r, const sg_callbacks *cb, sg_report *report,
                           sg_error *e)
{
    sg_request   request;
    sg_callbacks callbacks = {0};
    sg_report    own = {.size = sizeof own, .plan.size = sizeof own.plan};
    SG_TRY(take(&request, r, e));
    if (cb) SG_TRY(sg_sized_take(&callbacks, sizeof callbacks, cb, "sg_callbacks", e));
    if (report) SG_TRY(sg_sized_check(report, "sg_report", e));
    SG_TRY(begin(engine, e));
    own.seed = request.seed;
    const sg_status st =
        render_request(&(sg_render){.engine = engine, .request = &request, .cb = &callbacks, .report = &own, .e = e});
    if (report) sg_sized_give(report, &own, sizeof own);
    return st;
}
