/* compare_arms.c - see compare_arms.h. The model is loaded once, texts are encoded once, and a first step and latent frame
 * count for no arm: they take the weights' pages in and bring them into the layout of the products. Then the arms take
 * turns, --repeat rounds of them, and each round begins with another arm: an engine has one render at work at a time, so
 * arms cannot take turns by step. */
#include "compare_arms.h"
#include "arm_setup.h"
#include "compare_files.h"
#include "interrupt.h"
#include "notices.h"
#include "report_settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const sg_settings *settings;
    const char        *list; /* of arms */
    sg_arms            arms;
    sg_session         session;
    sg_rendering       shared; /* what all arms have in common */
    sg_plan            plan;   /* of the arm that needs most */
    sg_compare_files   files;
    sg_comparison      all;
    sg_arm_result     *now;         /* the arm at work */
    size_t             round;       /* from 0 */
    float             *reference;   /* the first arm's latents, [steps, c, f, y, x] */
    double             last_unit;   /* when the last step or chunk was over, as arm_seconds */
    double             attention;   /* seconds of attention until then */
    double             aside;       /* seconds that were spent on this comparison, not on the render */
    bool               errors_only; /* nothing counts but the errors of attention */
} job;

static size_t frame_bytes(const job *j) { return sg_image_bytes(j->shared.request.width, j->shared.request.height); }

static size_t latent_count(const job *j)
{
    const int64_t *const d = j->plan.latent;
    return (size_t)(d[0] * d[1] * d[2] * d[3]);
}

/* ---- before the work ---- */

static sg_status check_inputs(job *j, sg_error *e)
{
    SG_TRY(sg_arms_open(&j->arms, j->list, j->settings, e));
    if (j->arms.count < 2)
        return sg_error_set(e, SG_E_ARG, "--arms: '%s' is one arm; it takes two to compare", j->list);
    return sg_session_inputs(&j->session, j->settings, e);
}

/* Of frames, latents and encoders. */
static size_t output_bytes(const job *j)
{
    const size_t arms = (size_t)j->arms.count, steps = (size_t)j->all.result->steps;
    return arms * (size_t)j->shared.request.frames * frame_bytes(j) + (steps + arms) * latent_count(j) * sizeof(float) +
           sg_compare_files_bytes(&j->files, &j->all);
}

static sg_status setup_arm(job *j, int i, sg_error *e)
{
    sg_arm_result *const r = &j->all.result[i];
    r->arm = &j->arms.arm[i];
    SG_TRY(sg_arm_setup(r, &j->session, &j->shared, e));
    r->now.request.attention.on_end = sg_attention_error_hook;
    r->now.request.attention.on_end_context = &r->error;
    return SG_OK;
}

/* The need of each arm, frames and encoders included. */
static sg_status plan_arms(job *j, sg_error *e)
{
    const size_t bytes = output_bytes(j);
    for (int i = 0; i < j->arms.count; i++) {
        sg_rendering *const now = &j->all.result[i].now;
        now->request.output_bytes = bytes;
        SG_TRY(sg_engine_plan(j->session.engine, &now->request, &now->plan, e));
        if (now->plan.need > j->plan.need) j->plan = now->plan;
    }
    return sg_plan_fits(&j->plan, e);
}

/* What only a render shows, as thresholds that happen to keep all blocks, is reported at the end. */
static sg_status refuse_same(const job *j, sg_error *e)
{
    for (int b = 1; b < j->arms.count; b++)
        for (int a = 0; a < b; a++) {
            char why[512];
            sg_arms_would_be_same(why, sizeof why, &j->all.result[a], &j->all.result[b]);
            if (*why)
                return sg_error_set(e, SG_E_ARG, "--arms: %s and %s would run the same kernels throughout: %s",
                                    j->arms.arm[a].name, j->arms.arm[b].name, why);
        }
    return SG_OK;
}

static sg_status make_settings(job *j, sg_error *e)
{
    const sg_model_info *const info = &j->session.info;
    sg_settings                all = j->shared.settings;
    for (int i = 0; i < j->arms.count; i++) {
        sg_arm_result *const r = &j->all.result[i];
        const sg_settings    kept = sg_rendering_kept(&r->now);
        SG_TRY(sg_report_settings(&r->settings, &kept, &r->now.request, info, false, e));
    }
    all.arms = j->list;
    return sg_report_settings(&j->all.settings, &all, &j->shared.request, info, false, e);
}

static sg_status open_all(job *j, sg_error *e)
{
    const sg_settings *const s = j->settings;
    sg_session *const        x = &j->session;
    SG_TRY(sg_session_open(x, &(sg_session_options){.traced = true}, e));
    j->shared.settings = *s;
    SG_TRY(sg_session_resolve(x, &j->shared, e));
    SG_TRY(sg_arms_size(&j->shared, x->engine, s, e));
    sg_notice_request(&x->progress, x->engine, s, &j->shared);
    SG_TRY(sg_session_give(x, &j->shared.request, e));
    j->shared.request.prompt = s->prompt;
    for (int i = 0; i < j->arms.count; i++) SG_TRY(setup_arm(j, i, e));
    j->plan = j->all.result->now.plan; /* for sizes that are the same in all */
    j->all.request = &j->shared.request;
    j->all.pictures = &x->pictures;
    j->all.plan = &j->plan;
    j->all.count = j->arms.count;
    j->all.rounds = s->repeat ? s->repeat : 1;
    SG_TRY(sg_compare_files_name(&j->files, &j->all, s->output, e));
    SG_TRY(plan_arms(j, e));
    SG_TRY(refuse_same(j, e));
    x->trace.paused = !x->info.synchronous; /* a device's steps run as in any render */
    return make_settings(j, e);
}

/* ---- the renders ---- */

static sg_status warm_up(job *j, sg_error *e)
{
    sg_request request = j->all.result->now.request;
    request.attention.on_end = NULL;
    return sg_arms_warm_up(&j->all.warm_up, j->session.engine, &request, &j->session.progress, e);
}

/* Which step of the first arm's stands where step does in the arm at work; -1: none. Of another number of steps only the
 * last ones are of the same noise. */
static int step_of_first(const job *j, int step)
{
    const int steps = j->now->steps, first = j->all.result->steps;
    return steps == first ? step : step == steps - 1 ? first - 1 : -1;
}

/* A clock that stands still while this comparison works. */
static double arm_seconds(const job *j) { return sg_seconds() - j->now->error.seconds - j->aside; }

/* The seconds of a step or chunk of latent frames, which is over. */
static void note_unit(job *j, sg_stage stage, size_t unit, double seconds)
{
    sg_arm_times *const t = &j->now->times;
    if (stage == SG_STAGE_DECODE) t->decode[j->round * (size_t)t->chunks + unit] = seconds;
    if (stage != SG_STAGE_DENOISE) return;
    const size_t at = j->round * (size_t)t->steps + unit;
    const double attention = j->session.info.synchronous ? sg_attention_trace_seconds(&j->session.trace) : (double)NAN;
    t->step[at] = seconds;
    t->attention[at] = attention - j->attention;
    j->attention = attention;
}

static int on_progress(void *context, sg_stage stage, int done, int total)
{
    job *const   j = context;
    const double time = arm_seconds(j), start = sg_seconds();
    sg_progress_update(&j->session.progress, stage, done, total);
    if (j->errors_only && stage == SG_STAGE_DECODE) return 1;
    if (done > 0 && !j->errors_only) note_unit(j, stage, (size_t)done - 1, time - j->last_unit);
    j->last_unit = time;
    j->aside += sg_seconds() - start;
    return sg_interrupt_asked();
}

static sg_status on_latents(void *context, int step, const float *x, const int64_t shape[4], sg_error *e)
{
    (void)shape;
    (void)e;
    job *const           j = context;
    const double         start = sg_seconds();
    const size_t         n = latent_count(j);
    const int            same = step_of_first(j, step);
    float *const         first = j->reference + (size_t)(same < 0 ? 0 : same) * n;
    sg_arm_scores *const s = &j->now->scores;
    memcpy(j->now->latents, x, n * sizeof *x);
    if (j->now == j->all.result) memcpy(first, x, n * sizeof *x);
    const sg_distance d = same < 0 ? (sg_distance){.relative_l2 = NAN, .cosine = NAN} : sg_array_distance(first, x, n);
    s->relative_l2[step] = d.relative_l2;
    s->cosine[step] = d.cosine;
    j->aside += sg_seconds() - start;
    return SG_OK;
}

static sg_status on_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    job *const   j = context;
    const double start = sg_seconds();
    if (sg_interrupt_asked()) return sg_error_set(e, SG_E_CANCELLED, "interrupted");
    memcpy(j->now->rgb + (size_t)index * frame_bytes(j), rgb, frame_bytes(j));
    j->aside += sg_seconds() - start;
    return SG_OK;
}

static sg_status reserve(job *j, sg_error *e)
{
    const size_t n = latent_count(j), first = (size_t)j->all.result->steps, frames = (size_t)j->shared.request.frames;
    bool         enough = (j->reference = malloc(first * n * sizeof(float))) != NULL;
    for (int i = 0; i < j->arms.count; i++) {
        sg_arm_result *const r = &j->all.result[i];
        sg_arm_scores *const s = &r->scores;
        const size_t         steps = (size_t)r->steps;
        enough = (r->rgb = malloc(frames * frame_bytes(j))) != NULL && enough;
        enough = (r->latents = malloc(n * sizeof(float))) != NULL && enough;
        SG_TRY(sg_arm_times_make(&r->times, j->all.rounds, r->steps, j->plan.chunks, e));
        enough = (s->relative_l2 = calloc(steps, sizeof(double))) != NULL && enough;
        enough = (s->cosine = calloc(steps, sizeof(double))) != NULL && enough;
    }
    return enough ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no memory for the frames of %d arms", j->arms.count);
}

static sg_status keep_attention(job *j, sg_arm_result *r, sg_error *e)
{
    SG_TRY(sg_arm_keep_counts(r, j->session.engine, e));
    const sg_attention_record a = {r->count, r->steps, r->passes, r->layers};
    r->attention =
        sg_report_attention(&r->now.request.attention, &a, j->session.info.synchronous ? &j->session.trace : NULL);
    return r->attention ? SG_OK : sg_error_set(e, SG_E_MEMORY, "out of memory");
}

static sg_status score(job *j, sg_arm_result *r, sg_error *e)
{
    sg_arm_scores *const s = &r->scores;
    for (int i = 0; i < j->shared.request.frames; i++) {
        const size_t   at = (size_t)i * frame_bytes(j);
        const sg_image a = {j->shared.request.width, j->shared.request.height, j->all.result[0].rgb + at};
        const sg_image b = {j->shared.request.width, j->shared.request.height, r->rgb + at};
        if (sg_interrupt_asked()) return sg_error_set(e, SG_E_CANCELLED, "interrupted");
        SG_TRY(sg_clip_scores_add(&s->frames, &a, &b, e));
    }
    return sg_clip_scores_total(&s->frames, &s->total, e);
}

/* looking: at the errors of attention, too. */
static sg_status render(job *j, bool looking, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {.context = j, .progress = on_progress, .latents = on_latents, .frame = on_frame};
    sg_request         request = j->now->now.request;
    if (!looking) request.attention.on_end = NULL;
    sg_trace_clear(&j->session.trace);
    j->aside = j->attention = 0;
    const sg_status status = sg_engine_render(j->session.engine, &request, &callbacks, report, e);
    sg_progress_clear(&j->session.progress);
    return status;
}

/* To look is to wait for the device, which keeps it from replaying steps: errors are of a render that is not timed. */
static sg_status measure_errors(job *j, sg_error *e)
{
    sg_report report;
    sg_error  why = {0};
    if (j->session.info.synchronous || j->now->now.forecast.last == 0) return SG_OK;
    sg_progress_say(&j->session.progress, "%s once more, for the error of its attention", j->now->arm->name);
    sg_progress_render(&j->session.progress, 0, 0, &j->plan);
    j->errors_only = true;
    const sg_status status = render(j, true, &report, &why);
    j->errors_only = false;
    if (status == SG_OK || (status == SG_E_CANCELLED && !sg_interrupt_asked())) return SG_OK;
    return sg_error_set(e, status, "%s", why.text);
}

/* Arm i, the nth of this round. */
static sg_status render_arm(job *j, int i, int nth, sg_error *e)
{
    sg_report            report;
    sg_arm_result *const r = j->now = &j->all.result[i];
    char                 round[48] = "";
    if (j->all.rounds > 1) snprintf(round, sizeof round, ", round %zu of %d", j->round + 1, j->all.rounds);
    sg_progress_say(&j->session.progress, "%d/%d: %s%s", i + 1, j->arms.count, r->arm->name, round);
    sg_progress_render(&j->session.progress, (int)j->round * j->arms.count + nth, j->all.rounds * j->arms.count,
                       &j->plan);
    SG_TRY(render(j, j->session.info.synchronous && j->round == 0, &report, e));
    const double looked = j->round == 0 ? r->error.seconds : 0;
    r->times.total[j->round] = report.total_seconds - looked - j->aside;
    if (j->round > 0) return SG_OK;
    r->report = report;
    SG_TRY(keep_attention(j, r, e));
    SG_TRY(score(j, r, e));
    return measure_errors(j, e);
}

/* The first round is in the order of the list, for the others to be compared with the first. */
static sg_status render_all(job *j, sg_error *e)
{
    const int count = j->arms.count;
    for (j->round = 0; j->round < (size_t)j->all.rounds; j->round++)
        for (int i = 0; i < count; i++) SG_TRY(render_arm(j, (int)((j->round + (size_t)i) % (size_t)count), i, e));
    return SG_OK;
}

/* ---- the whole ---- */

static sg_status report_same(const job *j, sg_error *e)
{
    const sg_same_kernel *const s = j->all.same;
    if (!j->all.same_count) return SG_OK;
    return sg_error_set(e, SG_E_MISMATCH, "%s and %s ran the same kernel throughout: %s", j->arms.arm[s->a].name,
                        j->arms.arm[s->b].name, s->why);
}

static sg_status run(job *j, sg_error *e)
{
    const char *const json = j->settings->json;
    SG_TRY(check_inputs(j, e));
    SG_TRY(open_all(j, e));
    sg_progress_say_start(&j->session.progress, j->session.model.name, &j->session.info, &j->shared.request,
                          j->plan.tokens, j->settings->seed < 0);
    sg_progress_say_plan(&j->session.progress, &j->plan);
    sg_notice_prompt(&j->session.progress, j->session.engine, j->session.model.name, j->shared.request.prompt);
    sg_notice_cut(&j->session.progress, &j->plan, NULL);
    sg_notice_encoder(&j->session.progress, &j->shared.request, NULL, false);
    sg_arms_say(&j->session, j->all.result, j->arms.count);
    SG_TRY(sg_compare_files_open(&j->files, e));
    SG_TRY(reserve(j, e));
    SG_TRY(warm_up(j, e));
    SG_TRY(render_all(j, e));
    sg_arms_find_same(&j->all);
    sg_arms_find_speed(&j->all);
    SG_TRY(sg_compare_files_write(&j->files, &j->all, json, e));
    if (!json || strcmp(json, "-") != 0) sg_report_arms_table(&j->all);
    sg_progress_say(&j->session.progress, "%s: %s%s%s, report.json, report.html", j->files.folder, j->all.side,
                    j->all.sheet ? ", " : "", j->all.sheet ? j->all.sheet : "");
    return report_same(j, e);
}

static void free_result(sg_arm_result *r)
{
    sg_rendering_close(&r->now);
    json_decref(r->settings);
    json_decref(r->attention);
    free(r->count);
    sg_attention_error_free(&r->error);
    sg_arm_times_free(&r->times);
    free(r->rgb);
    free(r->latents);
    sg_clip_scores_close(&r->scores.frames);
    free(r->scores.relative_l2);
    free(r->scores.cosine);
}

sg_status sg_compare_arms(const sg_settings *s, sg_error *e)
{
    job *const j = calloc(1, sizeof *j);
    if (!j) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    j->settings = s;
    j->list = s->arms ? s->arms : SG_ARMS_DEFAULT;
    const sg_status status = run(j, e);
    sg_compare_files_close(&j->files);
    for (int i = 0; i < SG_ARMS_MAX; i++) free_result(&j->all.result[i]);
    json_decref(j->all.settings);
    free(j->reference);
    sg_session_close(&j->session);
    sg_rendering_close(&j->shared);
    sg_arms_close(&j->arms);
    free(j);
    return status;
}
