/* command_tune.c - `sparge-gen tune`: renders that are looked at, thresholds that come of it. */
#include "base/file.h"
#include "base/output_file.h"
#include "command.h"
#include "engine.h"
#include "interrupt.h"
#include "json_build.h"
#include "metrics.h"
#include "notices.h"
#include "output_options.h"
#include "report.h"
#include "session.h"
#include "tune_result.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRIALS = 32 };
static const double CACHE_ERROR = 0.01;

/* A threshold that was tried. The first prompt with too large an error ended its trial. */
typedef struct trial {
    double threshold;
    double error;   /* relative L2 of the final latents, the largest */
    double skipped; /* share of the steps */
} trial;

typedef struct job {
    const sg_settings   *settings;
    sg_session           session;
    sg_rendering         now;
    const sg_prompt_set *prompts;
    sg_progress         *progress;     /* the session's */
    bool                 beside_model; /* thresholds go beside the model */
    sg_tune_result       result;       /* its seconds are those of all steps */

    int  renders;
    bool seen; /* all steps of the one at work */

    /* with --cache, in place of result */
    double         cache_bound; /* of the error */
    sg_cache_tuned cached;
    int            trials;
    trial          trial[TRIALS];
    size_t         count;   /* of the latents' numbers */
    float         *latents; /* at the end of the last render */
    float         *first;   /* [prompts, latents]: with all steps computed */
} job;

/* ---- the renders ---- */

static int on_progress(void *context, int stage, int done, int total)
{
    job *const j = context;
    sg_progress_update(j->progress, stage, done, total);
    j->seen = stage == SG_STAGE_DENOISE && done == total;
    return j->seen || sg_interrupt_asked();
}

static sg_status on_latents(void *context, int step, const float *latents, const int64_t shape[4], sg_error *e)
{
    job *const j = context;
    (void)shape;
    (void)e;
    if (step == j->now.request.steps - 1) memcpy(j->latents, latents, j->count * sizeof *latents);
    return SG_OK;
}

/* Renders a prompt, of so many that each are rendered once, or 0. The frames are of no use: it ends with the last
 * step. */
static sg_status render(job *j, int prompt, int of, sg_report *report, sg_error *e)
{
    const sg_callbacks callbacks = {
        .size = sizeof(sg_callbacks), .context = j, .progress = on_progress, .latents = j->latents ? on_latents : NULL};
    sg_error why = {0};
    j->now.request.prompt = j->prompts->prompt[prompt].text;
    j->seen = false;
    sg_progress_render(j->progress, of ? prompt : 0, of, NULL);
    const sg_status status = sg_engine_render(j->session.engine, &j->now.request, &callbacks, report, &why);
    sg_progress_clear(j->progress);
    j->renders++;
    j->result.seconds += report->seconds[SG_STAGE_DENOISE];
    if (status == SG_OK || (status == SG_E_CANCELLED && j->seen && !sg_interrupt_asked())) return SG_OK;
    return sg_error_copy(e, &why);
}

/* Of a render that skips blocks: what cannot render so cannot be tuned. */
static sg_status check_size(job *j, sg_error *e)
{
    sg_request sparse = j->now.request;
    sg_plan    plan = {.size = sizeof plan};
    sparse.attention.kind = SG_ATTENTION_SPARGE;
    sparse.attention.named = true;
    SG_TRY(sg_engine_plan(j->session.engine, &sparse, &plan, e));
    if (plan.tokens < SG_NAMED_TOKENS)
        return sg_error_set(e, SG_E_ARG, "%dx%d with %d frame%s are %lld token%s: no blocks are skipped below %d",
                            sparse.width, sparse.height, sparse.frames, sg_plural(sparse.frames),
                            (long long)plan.tokens, sg_plural(plan.tokens), SG_NAMED_TOKENS);
    if (j->prompts->count == 1) sg_notice_cut(&j->session, &plan, NULL);
    return sg_plan_fits(&plan, e);
}

static sg_status open_tune(job *j, sg_error *e)
{
    sg_policy *const p = &j->now.request.attention;
    SG_TRY(sg_tune_result_open(&j->result, j->settings, p, e));
    p->kind = SG_ATTENTION_DENSE;
    const sg_attention_watch watch = sg_tune_result_watch(&j->result);
    sg_engine_watch(j->session.engine, &watch);
    j->now.request.prompt = j->prompts->prompt[0].text;
    return check_size(j, e);
}

/* ---- the threshold of the step cache ----
 *
 * Each prompt is rendered once with all steps computed. That gives the latents to compare with, and the distance of each
 * step (step_cache.h). Up to the least distance no step is skipped. From the largest sum of distances of as many steps as
 * may be skipped in a row, only their number ends a run. Between the two the threshold is bisected by further renders,
 * until it is known to a tenth of itself. An error is measured, never estimated, and the largest of the prompts' counts. It
 * need not rise with the threshold: what is found holds the bound, and need not be the largest that does. */

static void widen(double range[2], const float *distance, int steps)
{
    for (int i = 0; i < steps; i++) {
        double sum = 0;
        if (distance[i] > 0) range[0] = fmin(range[0], (double)distance[i]);
        for (int k = i; k < steps && k < i + SG_CACHE_RUN; k++) sum += (double)distance[k];
        range[1] = fmax(range[1], sum);
    }
}

/* The latents to compare with, and between which thresholds something changes. */
static sg_status look_at_cache(job *j, double range[2], sg_error *e)
{
    sg_request *const r = &j->now.request;
    range[0] = DBL_MAX;
    range[1] = 0;
    r->cache_threshold = DBL_MIN;
    for (int i = 0; i < j->prompts->count; i++) {
        sg_report report = {.size = sizeof report};
        sg_progress_say(j->progress, "%d/%d: %s", i + 1, j->prompts->count, j->prompts->prompt[i].text);
        SG_TRY(render(j, i, 0, &report, e));
        memcpy(j->first + (size_t)i * j->count, j->latents, j->count * sizeof *j->latents);
        widen(range, report.distance, r->steps);
    }
    if (!(range[1] > 0 && range[1] < SG_CACHE_THRESHOLD_MAX / 2))
        return sg_error_set(e, SG_E_ARG,
                            "--steps %d: none may be extrapolated: all are dense, or their latents are odd", r->steps);
    range[0] = fmax(range[0], SG_CACHE_THRESHOLD_MIN);
    range[1] = fmax(1.01 * range[1], range[0]);
    return SG_OK;
}

/* To the four digits that are shown: what is found is what was tried. */
static double rounded(double v)
{
    const double unit = pow(10, floor(log10(v)) - 3);
    return round(v / unit) * unit;
}

static sg_status try_threshold(job *j, double threshold, bool *within, sg_error *e)
{
    trial *const t = &j->trial[j->trials++];
    int          steps = 0, skipped = 0;
    j->now.request.cache_threshold = threshold;
    *t = (trial){.threshold = threshold};
    *within = true;
    for (int i = 0; *within && i < j->prompts->count; i++) {
        sg_report report = {.size = sizeof report};
        SG_TRY(render(j, i, 0, &report, e));
        const double error = sg_array_distance(j->first + (size_t)i * j->count, j->latents, j->count).relative_l2;
        *within = error <= j->cache_bound; /* NaN is not */
        t->error = *within ? fmax(t->error, error) : error;
        steps += report.steps_done;
        skipped += report.steps_skipped;
    }
    t->skipped = (double)skipped / steps;
    sg_progress_say(j->progress, "threshold %.4g: %.0f %% of steps extrapolated, error %.4f", threshold,
                    100 * t->skipped, t->error);
    if (*within)
        j->cached = (sg_cache_tuned){.threshold = threshold,
                                     .bound = j->cache_bound,
                                     .reached = t->error,
                                     .skipped = t->skipped,
                                     .steps = j->now.request.steps};
    return SG_OK;
}

static sg_status search(job *j, double low, double high, sg_error *e)
{
    bool within;
    high = rounded(high);
    SG_TRY(try_threshold(j, high, &within, e));
    while (!within && high > 1.1 * low && j->trials < TRIALS) {
        bool         good;
        const double middle = rounded(sqrt(low * high));
        SG_TRY(try_threshold(j, middle, &good, e));
        if (good)
            low = middle;
        else
            high = middle;
    }
    if (j->cached.skipped > 0) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--cache-error %g: the least threshold that skips a step changes the latents more",
                        j->cache_bound);
}

static sg_status search_cache(job *j, sg_error *e)
{
    sg_request *const r = &j->now.request;
    double            range[2];
    sg_plan           plan = {.size = sizeof plan};
    const size_t      prompts = (size_t)j->prompts->count;
    if (r->steps < SG_CACHE_STEPS_MIN)
        return sg_error_set(e, SG_E_ARG, "--steps %d: none is extrapolated below %d; take as many as renders have",
                            r->steps, SG_CACHE_STEPS_MIN);
    r->cache = SG_CACHE_USUAL;
    r->prompt = j->prompts->prompt[0].text;
    SG_TRY(sg_engine_plan(j->session.engine, r, &plan, e));
    j->count = sg_latents_count(plan.latent);
    r->output_bytes = (prompts + 1) * j->count * sizeof(float);
    SG_TRY(sg_engine_plan(j->session.engine, r, &plan, e));
    SG_TRY(sg_plan_fits(&plan, e));
    j->first = malloc(prompts * j->count * sizeof *j->first);
    j->latents = malloc(j->count * sizeof *j->latents);
    if (!j->first || !j->latents) return sg_error_set(e, SG_E_MEMORY, "no memory for the latents of all prompts");
    SG_TRY(look_at_cache(j, range, e));
    return search(j, range[0], range[1], e);
}

/* ---- what came of it ---- */

static void print_trials(const job *j)
{
    printf("threshold  extrapolated  error of the latents, the largest; at most %g\n", j->cache_bound);
    for (int i = 0; i < j->trials; i++) {
        const trial *const t = &j->trial[i];
        printf("%9.4g %11.0f %%  %.4f%s\n", t->threshold, 100 * t->skipped, t->error,
               t->threshold == j->cached.threshold ? "  taken" : "");
    }
}

static void say_end(job *j, const char *path)
{
    const sg_cache_tuned *const f = &j->cached;
    char                        took[32];
    if (!j->settings->tune_cache) {
        sg_tune_result_say(&j->result, j->progress, path);
        return;
    }
    sg_progress_say(j->progress,
                    "%s: threshold %.4g: %.0f %% of %.0f steps extrapolated, error %.4f; %d render%s in %s",
                    sg_output_is_stdout(path) ? "stdout" : path, f->threshold, 100 * f->skipped, f->steps, f->reached,
                    j->renders, sg_plural(j->renders), sg_duration(took, j->result.seconds));
}

/* ---- files ---- */

/* What came of tune; the values stay its own. */
static sg_status fill_file(const job *j, sg_thresholds_file *f, sg_error *e)
{
    SG_TRY(sg_thresholds_new(f, 0, 0, 0, e));
    for (int i = 0; i < j->prompts->count; i++) SG_TRY(sg_thresholds_add_prompt(f, j->prompts->prompt[i].text, e));
    if (!j->settings->tune_cache) sg_tune_result_fill(&j->result, &j->now.request.attention, f);
    return SG_OK;
}

/* What was not looked for stays as the file `there` has it, unless that is another model's. */
static void join_files(const job *j, sg_thresholds_file *f, sg_thresholds_file *there)
{
    sg_engine_denoiser_hash(j->session.engine, f->model);
    const bool kept = !*there->model || strcmp(there->model, f->model) == 0;
    if (!j->settings->tune_cache) {
        if (kept) f->cache = there->cache;
        return;
    }
    if (kept && there->values.layers) {
        const sg_thresholds_file now = *f;
        *f = *there;
        *there = now;
        memcpy(f->model, now.model, sizeof f->model);
        *f->written = '\0';
    }
    f->cache = j->cached;
}

static sg_status write_thresholds(const job *j, const char *path, sg_error *e)
{
    sg_thresholds_file f = {0}, there = {0};
    if (!sg_output_is_stdout(path) && sg_thresholds_read(&there, path, &(sg_error){0}) != SG_OK)
        sg_thresholds_free(&there);
    sg_status status = fill_file(j, &f, e);
    join_files(j, &f, &there);
    if (status == SG_OK) status = sg_tune_result_write(&f, path, j->beside_model, e);
    if (!j->settings->tune_cache) f.values = (sg_thresholds){0}; /* are not the file's to free */
    sg_thresholds_free(&f);
    sg_thresholds_free(&there);
    return status;
}

/* ---- the report ---- */

static json_t *cache_json(const job *j)
{
    const sg_cache_tuned *const f = &j->cached;
    json_t                     *trials = json_array();
    for (int i = 0; i < j->trials; i++) {
        const trial *const t = &j->trial[i];
        sg_json_append(&trials, json_pack("{s:f, s:f, s:o}", "threshold", t->threshold, "skipped", t->skipped, "error",
                                          sg_report_number(t->error)));
    }
    return json_pack("{s:f, s:f, s:f, s:f, s:o, s:i, s:f}", "threshold", f->threshold, "bound", f->bound, "reached",
                     f->reached, "skipped", f->skipped, "trials", trials, "renders", j->renders, "seconds",
                     j->result.seconds);
}

static sg_status write_report(const job *j, const char *path, sg_error *e)
{
    const sg_request *const r = &j->now.request;
    json_t                 *prompts = json_array();
    for (int i = 0; i < j->prompts->count; i++) sg_json_append(&prompts, json_string(j->prompts->prompt[i].text));
    json_t *all = json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:I}", "model", sg_report_name(j->session.model.name),
                            "output", sg_report_name(path), "prompts", prompts, "width", r->width, "height", r->height,
                            "frames", r->frames, "steps", r->steps, "seed", (json_int_t)r->seed);
    sg_json_join(&all, j->settings->tune_cache ? cache_json(j) : sg_tune_result_json(&j->result));
    return sg_report_take(j->settings->json, sg_report_envelope(SG_COMMAND_TUNE, all), e);
}

/* ---- the whole ---- */

static sg_status look_at_attention(job *j, sg_error *e)
{
    const sg_prompt_set *const set = j->prompts;
    sg_report                  report = {.size = sizeof report};
    for (int i = 0; i < set->count; i++) {
        if (set->count > 1) sg_progress_say(j->progress, "%d/%d: %s", i + 1, set->count, set->prompt[i].text);
        SG_TRY(render(j, i, set->count, &report, e));
    }
    return sg_tune_result_choose(&j->result, e);
}

static sg_status run(job *j, const char *path, sg_error *e)
{
    const sg_settings *const s = j->settings;
    const char *const        json = s->json;
    const bool               cache = s->tune_cache;
    sg_session *const        x = &j->session;
    SG_TRY(sg_session_inputs(x, s, e));
    SG_TRY(sg_session_open(x, e));
    SG_TRY(sg_session_resolve(x, &j->now, e));
    sg_notice_request(x, &j->now);
    SG_TRY(sg_session_give(x, &j->now.request, e));
    if (!cache) SG_TRY(open_tune(j, e));
    sg_notice_start(x, &j->now.request, 0);
    sg_notice_prompts(x, j->prompts);
    j->cache_bound = isnan(s->cache_error) ? CACHE_ERROR : s->cache_error;
    SG_TRY(cache ? search_cache(j, e) : look_at_attention(j, e));
    SG_TRY(write_thresholds(j, path, e));
    if (json) SG_TRY(write_report(j, path, e));
    const bool table = !s->quiet && !sg_output_is_stdout(path) && (!json || !sg_output_is_stdout(json));
    if (table && cache) print_trials(j);
    if (table && !cache) sg_tune_result_print(&j->result);
    sg_notice_file(x, path);
    say_end(j, path);
    return SG_OK;
}

static sg_status check_inputs(const job *j, sg_error *e)
{
    const sg_settings *const s = j->settings;
    const double *const      bound = j->result.bound;
    if (bound[1] < bound[0])
        return sg_error_set(e, SG_E_ARG, "--l2 %g is below --l1 %g: it is the error with the PV filter on top",
                            bound[1], bound[0]);
    if (!s->prompt && !s->prompt_file && !s->text)
        return sg_error_set(e, SG_E_ARG,
                            "a prompt is needed: sparge-gen tune -m path/to/model --prompt-file prompts.txt");
    if (!isnan(s->cache_error) && !s->tune_cache)
        return sg_error_set(e, SG_E_ARG, "--cache-error has no effect without --cache");
    return SG_OK;
}

/* Without --output thresholds go to path[size], beside the model that the user named. The one that comes with the
 * program, and perhaps for all users, keeps its own. */
static sg_status choose_output(job *j, sg_settings *s, char *path, size_t size, sg_error *e)
{
    j->beside_model = !s->output;
    if (s->output) return SG_OK;
    if (j->session.model.from == SG_MODEL_BUNDLED)
        return sg_error_set(e, SG_E_ARG,
                            "tune needs -m PATH, a model that gets thresholds beside it, or -o FILE for those of the "
                            "embedded one, which keeps its own");
    if (!sg_file_beside(j->session.model.dir, SG_THRESHOLDS_NAME, path, size))
        return sg_error_set(e, SG_E_ARG, "model: the path is too long");
    if (!s->force && access(path, F_OK) == 0 && !sg_thresholds_is_ours(path))
        return sg_error_set(
            e, SG_E_ARG, "%s is there, and not as tune wrote it for you: --force replaces it, -o FILE leaves it", path);
    s->output = path;
    return sg_output_file_check(path, "--output", e);
}

sg_status sg_command_tune(const sg_settings *given, sg_error *e)
{
    sg_settings   s = *given;
    sg_prompt_set prompts = {0};
    char          path[PATH_MAX + sizeof SG_THRESHOLDS_NAME + 1];
    job           j = {.settings = &s, .now.settings = s, .prompts = &prompts, .progress = &j.session.progress};
    double *const bound = j.result.bound;
    bound[0] = isnan(s.l1) ? 0.05 : s.l1;
    bound[1] = isnan(s.l2) ? bound[0] : s.l2;
    SG_TRY(check_inputs(&j, e));
    SG_TRY(sg_setup_model(&j.session.model, &s, e));
    SG_TRY(choose_output(&j, &s, path, sizeof path, e));
    sg_status status = s.text ? sg_tune_text(&j.result, &s, &j.session.model, s.output, j.beside_model, e)
                              : sg_setup_prompts(&prompts, &s, e);
    if (status == SG_OK && !s.text) status = run(&j, s.output, e);
    sg_tune_close(&j.result.tune);
    free(j.latents);
    free(j.first);
    sg_session_close(&j.session);
    sg_prompt_set_close(&prompts);
    return status;
}
