/* stage.c - a phase at work: its progress, its time, its weights and its memory. */
#include "base/clock.h"
#include "device.h"
#include "render.h"

sg_status sg_stage_check(const sg_render *render)
{
    const int cancelled = __atomic_load_n(&render->engine->cancel, __ATOMIC_RELAXED);
    return cancelled ? sg_error_set(render->e, SG_E_CANCELLED, "cancelled") : SG_OK;
}

sg_status sg_stage_called(const sg_render *render, sg_status status)
{
    sg_backend_make_current(render->engine->backend);
    return status ? sg_error_set(render->e, status, status == SG_E_CANCELLED ? "cancelled" : "a callback failed")
                  : SG_OK;
}

sg_status sg_stage_progress(sg_render *render, sg_stage stage, int done, int total)
{
    SG_TRY(sg_stage_check(render));
    if (!render->cb->progress) return SG_OK;
    const int cancels = render->cb->progress(render->cb->context, stage, done, total);
    return sg_stage_called(render, cancels ? SG_E_CANCELLED : SG_OK);
}

void sg_stage_end(sg_render *render, sg_stage stage, double start)
{
    sg_report *const r = render->report;
    r->seconds[stage] += sg_seconds() - start;
    r->peak_bytes = render->engine->backend->process_memory ? sg_resident_peak() : r->held_bytes;
    r->stage_peak[stage] = r->peak_bytes;
}

static int load_progress(void *context, int done, int total)
{
    return sg_stage_progress(context, SG_STAGE_LOAD, done, total) != SG_OK;
}

sg_status sg_stage_load(sg_render *render, sg_component *component)
{
    sg_engine *const engine = render->engine;
    const double     start = sg_seconds();
    SG_TRY(sg_stage_progress(render, SG_STAGE_LOAD, 0, 1));
    SG_TRY(sg_keeper_load(&engine->keeper, engine->backend, component, load_progress, render, render->e));
    sg_stage_end(render, SG_STAGE_LOAD, start);
    sg_engine_log(engine, SG_LOG_INFO, "%s: loaded in %.3g s", component->name, sg_seconds() - start);
    return SG_OK;
}

void sg_stage_release(sg_render *render, sg_component *component)
{
    sg_keeper_release(&render->engine->keeper, render->engine->backend, component);
}

void sg_stage_note_peak(sg_render *render, const sg_stream *s)
{
    const sg_engine *const engine = render->engine;
    const size_t           packed = sg_backend_packed_bytes(engine->backend);
    const size_t           held = sg_keeper_held(&engine->keeper) + s->keep.cap + s->scratch.cap + packed;
    if (held > render->report->held_bytes) render->report->held_bytes = held;
}

sg_status sg_stage_open(sg_render *render, sg_stream *s, const sg_phase *phase)
{
    sg_engine *const engine = render->engine;
    *s = sg_stream_of(engine->backend);
    s->tap = engine->tap;
    s->tap_context = engine->tap_context;
    s->cancel = &engine->cancel;
    if (phase->kind == SG_PHASE_DENOISE) s->rows_at_once = render->rows_at_once;
    if (engine->check)
        sg_check_wrap(s);
    else if (engine->trace)
        sg_trace_wrap(s, engine->trace);
    SG_TRY(sg_device_take(s, phase->keep, phase->scratch, render->e));
    sg_stage_note_peak(render, s);
    return SG_OK;
}

void sg_stage_close(sg_render *render, sg_stream *s)
{
    sg_stage_note_peak(render, s); /* packed weights have come since it was opened */
    sg_backend_drop_scratch(render->engine->backend);
    sg_backend_drop_packed_in(render->engine->backend, s->keep.base, s->keep.cap); /* filters and colours */
    sg_device_release(s);
}

sg_status sg_stage_status(const sg_stream *s, const char *doing, sg_error *e)
{
    return s->status ? sg_error_set(e, s->status, "%s: %s", doing, s->why) : SG_OK;
}
