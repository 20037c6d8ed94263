/* arm_run.c - see arm_run.h. */
#include "arm_run.h"
#include "base/clock.h"
#include "base/hash.h"
#include "interrupt.h"
#include "json_build.h"
#include "notices.h"
#include "option_rules.h"
#include "report_attention.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- before the work ---- */

/* Sides that are asked for stay. */
static sg_status choose_size(sg_arm_run *x, sg_error *e)
{
    sg_engine *const         engine = x->session.engine;
    const sg_settings *const asked = x->session.asked;
    sg_request               usual = {.size = sizeof usual}, twice;
    sg_error                 why = {0};
    sg_plan                  plan = {.size = sizeof plan};
    if (asked->size[0] && asked->size[1]) return SG_OK;
    sg_engine_defaults(engine, &usual);
    twice = usual;
    for (;;) {
        SG_TRY(sg_engine_plan(engine, &usual, &plan, e));
        if (plan.tokens >= SG_TOKENS || usual.width > SG_IMAGE_MAX_SIDE / 4 || usual.height > SG_IMAGE_MAX_SIDE / 4)
            break;
        twice.width *= 2;
        twice.height *= 2;
        if (sg_engine_check_request(engine, &twice, &why))
            break; /* a model may know the places of a smaller one only */
        usual = twice;
    }
    if (!asked->size[0]) x->shared.settings.size[0] = x->shared.request.width = usual.width;
    if (!asked->size[1]) x->shared.settings.size[1] = x->shared.request.height = usual.height;
    return SG_OK;
}

static sg_status setup_arm(sg_arm_run *x, sg_arm_result *r, sg_error *e)
{
    sg_rendering *const now = &r->now;
    now->settings = r->arm->settings;
    sg_settings_take(&now->settings, &x->shared.settings, SG_OPTION_INPUT);
    now->settings.arms = NULL;
    now->settings.strength = NAN; /* which the prompt's request has, and an entry of a set may have */
    SG_TRY(sg_resolve(now, x->session.engine, e));
    now->settings.strength = x->shared.settings.strength;
    sg_settings_take(&now->settings, &x->shared.settings, SG_OPTION_LOAD);
    sg_rendering_request(&now->request, &x->shared.request, now);
    SG_TRY(sg_engine_check_request(x->session.engine, &now->request, e));
    SG_TRY(sg_rendering_plan(now, x->session.engine, e));
    r->steps = now->plan.steps;
    return SG_OK;
}

sg_status sg_arm_run_open(sg_arm_run *x, sg_error *e)
{
    sg_session *const s = &x->session;
    SG_TRY(sg_session_open(s, e));
    x->shared.settings = *s->asked;
    SG_TRY(sg_session_resolve(s, &x->shared, e));
    SG_TRY(choose_size(x, e));
    sg_notice_request(s, &x->shared);
    if (s->asked->prompt) SG_TRY(sg_session_give(s, &x->shared.request, e)); /* else each entry has its own */
    x->shared.request.prompt = s->asked->prompt;
    for (int i = 0; i < x->arms.count; i++) {
        sg_error why = {0};
        x->arm[i].arm = &x->arms.arm[i];
        const sg_status status = setup_arm(x, &x->arm[i], &why);
        if (status != SG_OK) return sg_error_set(e, status, "--arms: '%s': %s", x->arm[i].arm->name, why.text);
    }
    return SG_OK;
}

void sg_arm_run_close(sg_arm_run *x)
{
    for (sg_arm_result *r = x->arm; r < x->arm + SG_ARMS_MAX; r++) {
        free(r->count);
        sg_clip_scores_close(&r->scores);
        free(r->error);
        sg_arm_times_free(&r->times);
        free(r->latents);
        free(r->relative_l2);
        free(r->cosine);
    }
    free(x->frames);
    free(x->latents);
    sg_session_close(&x->session);
    sg_arms_close(&x->arms);
}

const char *sg_arms_why_same(char why[SG_FORECAST_TEXT], const sg_arm_result *a, const sg_arm_result *b)
{
    const sg_rendering *const more = b->now.request.attention.kind >= a->now.request.attention.kind ? &b->now : &a->now;
    return sg_attention_forecast_text(why, &more->request.attention, &more->plan);
}

const char *sg_arms_would_be_same(char why[SG_FORECAST_TEXT], const sg_arm_result *a, const sg_arm_result *b)
{
    const sg_rendering *const of[] = {&a->now, &b->now};
    sg_settings               kept[2];
    for (int i = 0; i < 2; i++) {
        kept[i] = sg_rendering_kept(of[i]);
        if (!isnan(kept[i].dense_steps))
            kept[i].dense_steps = sg_policy_dense_steps(&of[i]->request.attention, of[i]->plan.steps);
        sg_settings_drop_idle(&kept[i], SG_OPTION_RENDER);
    }
    *why = '\0';
    if (sg_settings_difference(&kept[0], &kept[1], SG_OPTION_RENDER)) return why;
    return sg_arms_why_same(why, a, b);
}

void sg_arm_run_say(sg_arm_run *x, const sg_plan *plan)
{
    sg_session *const       s = &x->session;
    const sg_request *const r = &x->shared.request;
    sg_notice_start(s, r, plan->tokens);
    sg_notice_plan(s, plan);
    sg_notice_prompt(s, r->prompt);
    if (r->prompt) sg_notice_cut(s, plan, NULL);
    sg_notice_encoder(s, r, NULL, false);
    for (const sg_arm_result *a = x->arm; a < x->arm + x->arms.count; a++) {
        char text[SG_FORECAST_TEXT];
        sg_attention_forecast_text(text, &a->now.request.attention, &a->now.plan);
        sg_progress_say(&s->progress, "%s: %s", a->arm->name, text);
        if (*sg_doubt_thresholds(text, &a->now, s->engine))
            sg_progress_warn(&s->progress, "%s: %s", a->arm->name, text);
        sg_notice_cache(s, &a->now.request, a->arm->name);
    }
}

/* ---- one render ---- */

static size_t frame_bytes(const sg_arm_result *r)
{
    return sg_image_bytes(r->now.request.width, r->now.request.height);
}

sg_status sg_arm_run_reserve(sg_arm_run *x, int clips, const sg_request *r, sg_error *e)
{
    const size_t clip = sg_arm_clip_bytes(r), bytes = (size_t)clips * clip;
    if (x->frames_bytes < bytes) {
        free(x->frames);
        x->frames = malloc(bytes);
        x->frames_bytes = x->frames ? bytes : 0;
    }
    if (!x->frames) return sg_error_set(e, SG_E_MEMORY, "no memory for %d frames", clips * r->frames);
    for (int i = 0; i < x->arms.count; i++) x->arm[i].rgb = x->frames + (size_t)(i < clips ? i : clips - 1) * clip;
    return SG_OK;
}

/* The seconds of a step or chunk of latent frames, which is over. */
static void note_unit(sg_arm_run *x, int stage, size_t unit, double seconds)
{
    sg_arm_times *const t = &x->now->times;
    double              now[SG_ATTENTION_STAGES];
    if (stage == SG_STAGE_DECODE) t->decode[x->round * (size_t)t->chunks + unit] = seconds;
    if (stage != SG_STAGE_DENOISE) return;
    const size_t at = x->round * (size_t)t->steps + unit;
    t->step[at] = seconds;
    sg_engine_attention_seconds(x->session.engine, now);
    t->attention[at] = x->session.info.synchronous ? 0 : (double)NAN;
    for (size_t i = 0; i < SG_ATTENTION_STAGES; i++) {
        t->attention[at] += now[i] - x->attention[i];
        t->stage[x->round * SG_ATTENTION_STAGES + i] += now[i] - x->attention[i];
    }
    memcpy(x->attention, now, sizeof now);
}

static int on_progress(void *context, int stage, int done, int total)
{
    sg_arm_run *const x = context;
    const double      start = sg_seconds(), time = start - x->aside;
    sg_progress_update(&x->session.progress, stage, done, total);
    if (x->part && stage == SG_STAGE_DECODE && done >= (x->part == SG_ARM_CHUNK)) return 1;
    if (x->part && stage == SG_STAGE_DENOISE && x->stop && done >= x->stop) return 1;
    if (done > 0 && x->rounds && !x->part) note_unit(x, stage, (size_t)done - 1, time - x->last_unit);
    x->last_unit = time;
    x->aside += sg_seconds() - start;
    return sg_interrupt_asked();
}

/* Which step of the first arm's stands where step does in the arm at work; -1: none. Of another number of steps only
 * the last ones are of the same noise. */
static int step_of_first(const sg_arm_run *x, int step)
{
    const int steps = x->now->steps, first = x->arm->steps;
    return steps == first ? step : step == steps - 1 ? first - 1 : -1;
}

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    sg_arm_run *const x = context;
    const double      start = sg_seconds();
    const size_t      n = sg_latents_count(shape);
    const int         same = step_of_first(x, step);
    float *const      first = x->latents + (size_t)(same < 0 ? 0 : same) * n;
    (void)e;
    memcpy(x->now->latents, latents, n * sizeof *latents);
    if (x->now == x->arm) memcpy(first, latents, n * sizeof *latents);
    const sg_distance d =
        same < 0 ? (sg_distance){.relative_l2 = NAN, .cosine = NAN} : sg_array_distance(first, latents, n);
    x->now->relative_l2[step] = d.relative_l2;
    x->now->cosine[step] = d.cosine;
    x->aside += sg_seconds() - start;
    return SG_OK;
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    sg_arm_run *const x = context;
    const double      start = sg_seconds();
    SG_TRY(sg_interrupt_check(e));
    memcpy(x->now->rgb + (size_t)index * frame_bytes(x->now), rgb, frame_bytes(x->now));
    x->aside += sg_seconds() - start;
    return x->writer ? sg_writer_write(x->writer, index, rgb, e) : SG_OK;
}

static sg_status render_part(sg_arm_run *x, const sg_request *r, sg_arm_part part, sg_report *report, sg_error *e)
{
    const bool         whole = part == SG_ARM_WHOLE;
    const sg_callbacks callbacks = {.size = sizeof(sg_callbacks),
                                    .context = x,
                                    .progress = on_progress,
                                    .latents = whole && x->latents ? on_latents : NULL,
                                    .frame = whole ? on_frame : NULL};
    sg_error           why = {0};
    x->aside = 0;
    memset(x->attention, 0, sizeof x->attention);
    x->part = part;
    const sg_status status = sg_engine_render(x->session.engine, r, &callbacks, report, &why);
    sg_progress_clear(&x->session.progress);
    if (status == SG_OK || (!whole && status == SG_E_CANCELLED && !sg_interrupt_asked())) return SG_OK;
    return sg_error_copy(e, &why);
}

/* Counts for no arm. stop: as in sg_arm_run. */
static sg_status warm(sg_arm_run *x, const sg_request *r, sg_arm_part part, int stop, sg_error *e)
{
    sg_report one = {.size = sizeof one};
    x->stop = stop;
    sg_progress_render(&x->session.progress, 0, 0, NULL);
    const sg_status status = render_part(x, r, part, &one, e);
    x->stop = 0;
    for (int i = 0; i < SG_STAGES; i++) one.seconds[i] += x->warm_up.seconds[i];
    x->warm_up = one;
    return status;
}

/* Its first step is dense, or as the policy has its first ones, where some but not all of the arm's are. */
static void start_dense(sg_request *r, int steps)
{
    if (r->attention.dense_steps > 0 && r->attention.dense_steps < 1 && steps > 1)
        r->attention.dense_steps = 1.0 / steps;
}

/* A step of each kind, in a schedule that is short so that all denoisers have one, and a chunk of latent frames. */
static sg_status warm_kernels(sg_arm_run *x, sg_request r, sg_error *e)
{
    r.sigmas.count = 0; /* a list has more */
    r.slg_scale = 0;    /* which is for later steps */
    r.strength = 1;     /* of a part of so few steps none may be left */
    r.steps = r.steps > 1 ? 2 : 1;
    start_dense(&r, r.steps);
    return warm(x, &r, SG_ARM_CHUNK, 0, e);
}

/* A device records a step that comes again and again, and replays it: the one after the first of its kind. */
static sg_status warm_replay(sg_arm_run *x, sg_request r, sg_error *e)
{
    const int steps = sg_request_steps(&r);
    start_dense(&r, steps);
    return warm(x, &r, SG_ARM_STEPS, steps < 3 ? steps : 3, e);
}

/* Copies what attention did in the last render of r, in place of what *to has of another. */
static sg_status keep_counts(sg_attention_count **to, sg_arm_result *r, const sg_engine *engine, sg_error *e)
{
    const sg_attention_count *const from = sg_engine_attention(engine, &r->steps, &r->passes, &r->layers);
    const size_t                    count = (size_t)r->steps * (size_t)r->passes * (size_t)r->layers;
    free(*to);
    *to = malloc(count * sizeof **to);
    if (!*to) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    memcpy(*to, from, count * sizeof **to);
    return SG_OK;
}

static sg_status warm_arm(sg_arm_run *x, sg_arm_result *arm, const sg_request *shared, sg_error *e)
{
    const bool synchronous = x->session.info.synchronous;
    sg_request r;
    x->now = arm;
    sg_rendering_request(&r, shared, &arm->now);
    if (r.attention_error && arm->now.plan.attention_steps > 0) {
        sg_progress_say(&x->session.progress, "%s, for the error of its attention", arm->arm->name);
        SG_TRY(warm(x, &r, synchronous ? SG_ARM_CHUNK : SG_ARM_STEPS, 0, e));
        SG_TRY(keep_counts(&arm->error, arm, x->session.engine, e));
        arm->error_seconds = x->warm_up.attention_error_seconds;
        if (synchronous) return SG_OK;
    }
    r.attention_error = false; /* to look is to wait for the device, which keeps it from replaying steps */
    SG_TRY(warm_kernels(x, r, e));
    return synchronous ? SG_OK : warm_replay(x, r, e);
}

sg_status sg_arm_run_warm_up(sg_arm_run *x, const sg_request *r, sg_error *e)
{
    sg_progress_say(&x->session.progress, "warming up: steps and a latent frame of each arm, which count for none");
    x->warm_up = (sg_report){0};
    for (int i = 0; i < x->arms.count; i++) SG_TRY(warm_arm(x, &x->arm[i], r, e));
    return SG_OK;
}

sg_status sg_arm_run_render(sg_arm_run *x, sg_arm_result *r, sg_error *e)
{
    sg_request request = r->now.request;
    sg_report  report = {.size = sizeof report};
    x->now = r;
    request.attention_error = false;
    if (x->rounds) memset(r->times.stage + x->round * SG_ATTENTION_STAGES, 0, SG_ATTENTION_STAGES * sizeof(double));
    SG_TRY(render_part(x, &request, SG_ARM_WHOLE, &report, e));
    if (x->rounds) r->times.total[x->round] = report.total_seconds - x->aside;
    if (x->round > 0) return SG_OK;
    r->report = report;
    return keep_counts(&r->count, r, x->session.engine, e);
}

/* ---- what came of it ---- */

sg_status sg_arm_run_score(const sg_arm_run *x, sg_arm_result *r, sg_error *e)
{
    const sg_request *const q = &r->now.request;
    const bool              first = r == x->arm;
    sg_clip_scores_close(&r->scores);
    for (int i = 0; i < q->frames; i++) {
        const size_t   at = (size_t)i * frame_bytes(r);
        const sg_image frame = {q->width, q->height, r->rgb + at};
        const sg_image of_first = {q->width, q->height, x->arm->rgb + at};
        SG_TRY(sg_interrupt_check(e));
        SG_TRY(first ? sg_clip_watch_add(&r->scores.watch[1], &frame, e)
                     : sg_clip_scores_add(&r->scores, &of_first, &frame, e));
    }
    if (!first) return sg_clip_scores_total(&r->scores, &r->total, e);
    r->total.of[1] = sg_clip_watch_figures(&r->scores.watch[1]);
    return SG_OK;
}

sg_settings sg_arm_kept(const sg_arm_result *r)
{
    const sg_request *const q = &r->now.request;
    sg_settings             s = sg_rendering_kept(&r->now);
    s.prompt = q->prompt;
    s.negative_prompt = q->negative_prompt;
    s.seed = (int64_t)q->seed;
    s.size[0] = q->width;
    s.size[1] = q->height;
    if (s.frames) s.frames = q->frames;
    sg_settings_drop_idle(&s, SG_OPTION_INPUT);
    return s;
}

sg_clip sg_arm_clip(const sg_arm_result *r, const char *path, const char *settings)
{
    sg_clip clip = {.size = sizeof clip};
    sg_clip_of(&clip, &r->now.request, path);
    clip.settings = settings;
    return clip;
}

double sg_arm_density(const sg_arm_result *r, int step, int layer)
{
    int64_t   kept = 0, blocks = 0;
    const int first = step < 0 ? 0 : step, last = step < 0 ? r->steps - 1 : step;
    for (int pass = first * r->passes; pass < (last + 1) * r->passes; pass++)
        for (int l = 0; l < r->layers; l++) {
            const sg_attention_count *const c = &r->count[(size_t)pass * (size_t)r->layers + (size_t)l];
            if (layer >= 0 && l != layer) continue;
            blocks += c->blocks;
            kept += c->kept;
        }
    return blocks ? (double)kept / (double)blocks : NAN;
}

/* Weights come in once for all clips. */
static json_t *seconds_json(const sg_arm_result *r)
{
    const double *const s = r->report.seconds;
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "total", r->report.total_seconds - s[SG_STAGE_LOAD], "text",
                     s[SG_STAGE_TEXT], "encode", s[SG_STAGE_ENCODE], "denoise", s[SG_STAGE_DENOISE], "decode",
                     s[SG_STAGE_DECODE]);
}

json_t *sg_arm_ran_json(const sg_arm_result *r)
{
    const size_t count = (size_t)r->steps * (size_t)r->passes * (size_t)r->layers;
    uint64_t     hash = SG_HASH;
    for (size_t i = 0; i < count; i++) {
        const sg_attention_count *const c = &r->count[i];
        const int64_t values = c->kind == SG_ATTENTION_DENSE ? 0 : (int64_t)r->now.request.attention.pv_dtype;
        const int64_t of[] = {(int64_t)c->kind, values, c->blocks, c->kept, c->skipped};
        hash = sg_hash(hash, of, sizeof of);
    }
    return sg_report_hash(hash);
}

json_t *sg_arm_made_json(const sg_arm_result *r)
{
    return json_pack("{s:o, s:i, s:o, s:o}", "seconds", seconds_json(r), "steps", r->report.steps_done, "skipped_steps",
                     sg_report_skipped_steps(&r->report), "density", sg_report_number(sg_arm_density(r, -1, -1)));
}

json_t *sg_arm_scores_json(const sg_arm_result *r, bool first)
{
    const sg_clip_figures *const own = &r->total.of[1];
    json_t                      *j = json_pack("{s:f, s:o, s:i, s:i}", "sharpness", own->sharpness, "flicker",
                                               sg_report_number(own->flicker), "black", own->black, "frozen", own->frozen);
    if (first) return j;
    sg_json_set(&j, "psnr", sg_report_summary(&r->total.psnr));
    sg_json_set(&j, "ssim", sg_report_summary(&r->total.ssim));
    sg_json_set(&j, "ms_ssim", sg_report_summary(&r->total.ms_ssim));
    return j;
}
