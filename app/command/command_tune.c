/* command_tune.c - `sparge-gen tune`: renders that are looked at, thresholds that come of it. */
#include "base/output_file.h"
#include "checkpoint.h"
#include "command.h"
#include "interrupt.h"
#include "notices.h"
#include "prompt_set.h"
#include "report.h"
#include "session.h"
#include "tune.h"
#include "tune_cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUCKETS = 4 };
static const double LEAST = 0.2; /* attention/NOTES.md: what the eye finds below */
static const double CACHE_ERROR = 0.01;

typedef struct job {
    const sg_settings    *settings;
    const sg_prompt_set  *prompts;
    double                bound[2];
    sg_session            session;
    sg_rendering          now;
    sg_tune              *tune;
    sg_cache_search       cache;        /* with --cache, in place of tune */
    bool                  beside_model; /* thresholds go beside the model */
    bool                  seen;         /* all steps of this render */
    double                seconds;      /* of all renders' steps, looking included */
    const sg_thresholds  *found;
    const sg_tune_figure *figure; /* [buckets, layers, heads] */
} job;

/* ---- the renders ---- */

/* The frames of a render are of no use here: it ends with its last step. */
static int on_progress(void *context, sg_stage stage, int done, int total)
{
    job *const j = context;
    sg_progress_update(&j->session.progress, stage, done, total);
    j->seen = stage == SG_STAGE_DENOISE && done == total;
    return j->seen || sg_interrupt_asked();
}

static sg_status render(job *j, sg_error *e)
{
    const sg_callbacks callbacks = {.context = j, .progress = on_progress};
    sg_report          report = {0};
    for (int i = 0; i < j->prompts->count; i++) {
        j->now.request.prompt = j->prompts->prompt[i].text;
        j->seen = false;
        if (j->prompts->count > 1)
            sg_progress_say(&j->session.progress, "%d/%d: %s", i + 1, j->prompts->count, j->now.request.prompt);
        sg_progress_render(&j->session.progress, i, j->prompts->count, NULL);
        sg_status status = sg_engine_render(j->session.engine, &j->now.request, &callbacks, &report, e);
        if (status == SG_E_CANCELLED && j->seen && !sg_interrupt_asked()) status = SG_OK;
        sg_progress_clear(&j->session.progress);
        SG_TRY(status);
        j->seconds += report.seconds[SG_STAGE_DENOISE];
    }
    return SG_OK;
}

/* Of a render that skips blocks: what cannot render so cannot be tuned. */
static sg_status check_size(job *j, sg_error *e)
{
    sg_request sparse = j->now.request;
    sg_plan    plan;
    sparse.attention.kind = SG_ATTENTION_SPARGE;
    sparse.attention.named = true;
    SG_TRY(sg_engine_plan(j->session.engine, &sparse, &plan, e));
    if (plan.tokens < SG_NAMED_TOKENS)
        return sg_error_set(e, SG_E_ARG, "%dx%d with %d frame%s are %lld token%s: no blocks are skipped below %d",
                            j->now.request.width, j->now.request.height, j->now.request.frames,
                            sg_plural(j->now.request.frames), (long long)plan.tokens, sg_plural(plan.tokens),
                            SG_NAMED_TOKENS);
    if (j->prompts->count == 1) sg_notice_cut(&j->session.progress, &plan, NULL);
    return sg_plan_fits(&plan, e);
}

static sg_status open_engine(job *j, sg_error *e)
{
    SG_TRY(sg_session_open(&j->session, &(sg_session_options){0}, e));
    SG_TRY(sg_session_resolve(&j->session, &j->now, e));
    sg_notice_request(&j->session.progress, j->session.engine, j->settings, &j->now);
    return sg_session_give(&j->session, &j->now.request, e);
}

static sg_status open_tune(job *j, sg_error *e)
{
    const sg_settings *const s = j->settings;
    sg_policy *const         p = &j->now.request.attention;
    p->tuned = NULL;
    p->heads = false;
    p->rule = s->rule && strcmp(s->rule, "tau") == 0 ? SG_SELECT_MASS : SG_SELECT_TOPK;
    const sg_tune_options o = {.policy = *p,
                               .l1 = j->bound[0],
                               .l2 = j->bound[1],
                               .least = isnan(s->least) ? LEAST : s->least,
                               .buckets = s->buckets ? s->buckets : BUCKETS};
    SG_TRY(sg_tune_open(&j->tune, &o, e));
    p->kind = SG_ATTENTION_DENSE;
    p->on_begin = sg_tune_hook;
    p->on_begin_context = j->tune;
    j->now.request.prompt = j->prompts->prompt[0].text;
    return check_size(j, e);
}

/* ---- what came of it ---- */

/* Means over heads and all else that ran; NAN where nothing did. */
typedef struct means {
    double density, l1, worst, l2, skipped;
} means;

static means mean_of(const sg_tune_figure *f, int count)
{
    means  m = {0};
    double ran = 0;
    for (int i = 0; i < count; i++) {
        if (isnan(f[i].density)) continue;
        m.density += (double)f[i].density;
        m.l1 += (double)f[i].l1_checked;
        m.l2 += (double)f[i].l2_checked;
        m.skipped += (double)f[i].skipped;
        m.worst = fmax(m.worst, (double)f[i].l1_worst);
        ran++;
    }
    return (means){m.density / ran, m.l1 / ran, m.worst, m.l2 / ran, m.skipped / ran};
}

static means mean_of_bucket(const job *j, int bucket)
{
    const int count = j->found->layers * j->found->heads;
    return mean_of(j->figure + bucket * count, count);
}

static means mean_of_all(const job *j)
{
    return mean_of(j->figure, j->found->buckets * j->found->layers * j->found->heads);
}

static void print_share(double v)
{
    if (isnan(v))
        printf("        -");
    else
        printf(" %8.4f", v);
}

static void print_row(const job *j, const char *name, size_t member)
{
    printf("%-12s", name);
    for (int b = 0; b < j->found->buckets; b++) {
        const means m = mean_of_bucket(j, b);
        double      v;
        memcpy(&v, (const char *)&m + member, sizeof v);
        print_share(v);
    }
    printf("\n");
}

static void print_table(const job *j)
{
    const sg_thresholds *const t = j->found;
    printf("blocks kept, a share; mean of %d head%s\ntimesteps   ", t->heads, sg_plural(t->heads));
    for (int b = 0; b < t->buckets; b++) printf(" >= %5.0f", (double)t->from[b]);
    printf("\n");
    for (int layer = 0; layer < t->layers; layer++) {
        printf("layer %-6d", layer);
        for (int b = 0; b < t->buckets; b++)
            print_share(mean_of(j->figure + (b * t->layers + layer) * t->heads, t->heads).density);
        printf("\n");
    }
    print_row(j, "all", offsetof(means, density));
    printf("relative L1 error, on queries that the choice did not see; the largest of one call\n");
    print_row(j, "skipping", offsetof(means, l1));
    print_row(j, "largest", offsetof(means, worst));
    print_row(j, "with filter", offsetof(means, l2));
    printf("kept blocks that the filter leaves out, a share\n");
    print_row(j, "left out", offsetof(means, skipped));
}

static void print_trials(const sg_cache_search *s)
{
    printf("threshold  extrapolated  error of the latents, the largest; at most %g\n", s->bound);
    for (int i = 0; i < s->trials; i++) {
        const sg_cache_trial *const t = &s->trial[i];
        printf("%9.4g %11.0f %%  %.4f%s\n", t->threshold, 100 * t->skipped, t->error,
               t->threshold == s->found.threshold ? "  taken" : "");
    }
}

static void say_cache(job *j, const char *path)
{
    const sg_cache_tuned *const f = &j->cache.found;
    char                        took[32];
    sg_progress_say(&j->session.progress,
                    "%s: threshold %.4g: %.0f %% of %.0f steps extrapolated, error %.4f; %d render%s in %s",
                    strcmp(path, "-") == 0 ? "stdout" : path, f->threshold, 100 * f->skipped, f->steps, f->reached,
                    j->cache.renders, sg_plural(j->cache.renders), sg_duration(took, sizeof took, j->cache.seconds));
}

static void say_end(job *j, const char *path)
{
    const means m = mean_of_all(j);
    char        took[32];
    sg_progress_say(&j->session.progress, "%s: %.1f %% of blocks skipped, error %.4f; %s, of which looking %.0f %%",
                    strcmp(path, "-") == 0 ? "stdout" : path, 100 * (1 - m.density), m.l1,
                    sg_duration(took, sizeof took, j->seconds), 100 * sg_tune_seconds(j->tune) / j->seconds);
}

/* ---- files ---- */

static void copy_thresholds(sg_thresholds *to, const sg_thresholds *from)
{
    const size_t count = (size_t)from->buckets * (size_t)from->layers * (size_t)from->heads;
    memcpy(to->from, from->from, (size_t)from->buckets * sizeof *to->from);
    memcpy(to->amount, from->amount, count * sizeof *to->amount);
    memcpy(to->theta, from->theta, count * sizeof *to->theta);
    memcpy(to->pv_threshold, from->pv_threshold, count * sizeof *to->pv_threshold);
    to->rule = from->rule;
}

static sg_status add_prompts(const job *j, sg_thresholds_file *f, sg_error *e)
{
    for (int i = 0; i < j->prompts->count; i++) SG_TRY(sg_thresholds_add_prompt(f, j->prompts->prompt[i].text, e));
    return SG_OK;
}

static sg_status fill_attention(const job *j, sg_thresholds_file *f, sg_error *e)
{
    const means m = mean_of_all(j);
    SG_TRY(sg_thresholds_new(f, j->found->buckets, j->found->layers, j->found->heads, e));
    copy_thresholds(&f->values, j->found);
    memcpy(f->bound, j->bound, sizeof f->bound);
    f->reached[0] = m.l1;
    f->reached[1] = m.l2;
    f->sparsity = 1 - m.density;
    f->has_policy = true;
    f->policy = j->now.request.attention;
    return add_prompts(j, f, e);
}

/* What is not looked for stays as a file there has it, unless that is another model's. */
static sg_status fill_file(const job *j, sg_thresholds_file *f, const char *path, sg_error *e)
{
    sg_thresholds_file there = {0};
    sg_error           why = {0};
    char               hash[sizeof f->model];
    SG_TRY(sg_thresholds_hash(hash, j->session.model.dir, &j->session.model.parts, e));
    bool kept = strcmp(path, "-") != 0 && access(path, F_OK) == 0 && sg_thresholds_read(&there, path, &why) == SG_OK;
    kept = kept && (!*there.model || strcmp(there.model, hash) == 0);
    sg_status status = SG_OK;
    if (!j->settings->tune_cache) {
        status = fill_attention(j, f, e);
        if (kept) f->cache = there.cache;
    } else if (kept && there.values.layers) {
        *f = there;
        there = (sg_thresholds_file){0};
        *f->written = '\0';
    } else {
        status = sg_thresholds_new(f, 0, 0, 0, e);
        if (status == SG_OK) status = add_prompts(j, f, e);
    }
    if (j->settings->tune_cache) f->cache = j->cache.found;
    memcpy(f->model, hash, sizeof hash);
    sg_thresholds_free(&there);
    return status;
}

/* A file in the usual place is dated, so that the next tune knows it for its own. */
static sg_status write_thresholds(const job *j, const char *path, sg_error *e)
{
    sg_thresholds_file f = {0};
    sg_output_file    *file = NULL;
    char              *text = NULL;
    struct timespec    now = {0};
    sg_status          status = fill_file(j, &f, path, e);
    clock_gettime(CLOCK_REALTIME, &now);
    if (j->beside_model) sg_thresholds_date(&f, now);
    if (status == SG_OK) status = sg_thresholds_text(&text, &f, e);
    if (status == SG_OK) status = sg_output_file_open(&file, path, e);
    if (status == SG_OK) status = sg_output_file_write(file, text, strlen(text), e);
    if (status == SG_OK && j->beside_model) sg_output_file_set_time(file, now);
    if (status == SG_OK) status = sg_output_file_publish(&file, e);
    sg_output_file_discard(&file);
    free(text);
    sg_thresholds_free(&f);
    return status;
}

static json_t *head_json(const job *j, int bucket, int layer, int head)
{
    const int                   i = (bucket * j->found->layers + layer) * j->found->heads + head;
    const sg_tune_figure *const f = &j->figure[i];
    return json_pack("{s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "bucket", bucket, "layer", layer,
                     "head", head, "amount", (double)j->found->amount[i], "lambda", (double)j->found->pv_threshold[i],
                     "density", (double)f->density, "l1", (double)f->l1, "l1_checked", (double)f->l1_checked,
                     "l1_worst", (double)f->l1_worst, "l2", (double)f->l2, "l2_checked", (double)f->l2_checked,
                     "skipped", (double)f->skipped);
}

static json_t *bucket_json(const job *j, int bucket)
{
    const means m = mean_of_bucket(j, bucket);
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "from", (double)j->found->from[bucket], "density", m.density,
                     "l1", m.l1, "l1_worst", m.worst, "l2", m.l2, "skipped", m.skipped);
}

static json_t *all_json(const job *j, const char *path)
{
    const sg_thresholds *const t = j->found;
    const means                m = mean_of_all(j);
    json_t *const buckets = json_array(), *const heads = json_array(), *const prompts = json_array();
    bool whole = buckets && heads && prompts;
    for (int i = 0; whole && i < j->prompts->count; i++)
        whole = json_array_append_new(prompts, json_string(j->prompts->prompt[i].text)) == 0;
    for (int b = 0; whole && b < t->buckets; b++) {
        whole = json_array_append_new(buckets, bucket_json(j, b)) == 0;
        for (int i = 0; whole && i < t->layers * t->heads; i++)
            if (!isnan(j->figure[b * t->layers * t->heads + i].density))
                whole = json_array_append_new(heads, head_json(j, b, i / t->heads, i % t->heads)) == 0;
    }
    json_t *const all =
        whole ? json_pack("{s:o, s:o, s:O, s:i, s:i, s:i, s:i, s:I, s:s, s:{s:f, s:f}, s:{s:f, s:f, s:f}, s:O, s:O, "
                          "s:{s:f, s:f}}",
                          "model", sg_report_name(j->session.model.name), "output", sg_report_name(path), "prompts",
                          prompts, "width", j->now.request.width, "height", j->now.request.height, "frames",
                          j->now.request.frames, "steps", j->now.request.steps, "seed", (json_int_t)j->now.request.seed,
                          "rule", t->rule == SG_SELECT_TOPK ? "topk" : "tau", "bound", "l1", j->bound[0], "l2",
                          j->bound[1], "reached", "l1", m.l1, "l2", m.l2, "sparsity", 1 - m.density, "buckets", buckets,
                          "heads", heads, "seconds", "denoise", j->seconds, "looking", sg_tune_seconds(j->tune))
              : NULL;
    json_decref(buckets);
    json_decref(heads);
    json_decref(prompts);
    return all;
}

static json_t *trials_json(const sg_cache_search *s)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < s->trials; i++) {
        const sg_cache_trial *const t = &s->trial[i];
        whole = json_array_append_new(a, json_pack("{s:f, s:f, s:o}", "threshold", t->threshold, "skipped", t->skipped,
                                                   "error", sg_report_number(t->error))) == 0;
    }
    return sg_report_if_complete(a, whole);
}

static json_t *cache_json(const job *j, const char *path)
{
    const sg_cache_tuned *const f = &j->cache.found;
    json_t *const               prompts = json_array();
    bool                        whole = prompts;
    for (int i = 0; whole && i < j->prompts->count; i++)
        whole = json_array_append_new(prompts, json_string(j->prompts->prompt[i].text)) == 0;
    return json_pack("{s:o, s:o, s:o, s:i, s:i, s:i, s:i, s:I, s:f, s:f, s:f, s:f, s:o, s:i, s:f}", "model",
                     sg_report_name(j->session.model.name), "output", sg_report_name(path), "prompts",
                     sg_report_if_complete(prompts, whole), "width", j->now.request.width, "height",
                     j->now.request.height, "frames", j->now.request.frames, "steps", j->now.request.steps, "seed",
                     (json_int_t)j->now.request.seed, "threshold", f->threshold, "bound", f->bound, "reached",
                     f->reached, "skipped", f->skipped, "trials", trials_json(&j->cache), "renders", j->cache.renders,
                     "seconds", j->cache.seconds);
}

static sg_status write_report(const job *j, const char *path, sg_error *e)
{
    if (!j->settings->json) return SG_OK;
    json_t *const all = j->settings->tune_cache ? cache_json(j, path) : all_json(j, path);
    if (!all) return sg_error_set(e, SG_E_MEMORY, "--json: out of memory");
    const sg_status status = sg_report_save(j->settings->json, all, e);
    json_decref(all);
    return status;
}

/* ---- the whole ---- */

static sg_status look_at_attention(job *j, sg_error *e)
{
    SG_TRY(render(j, e));
    return sg_tune_choose(j->tune, &j->found, &j->figure, e);
}

static sg_status look_at_cache(job *j, sg_error *e)
{
    const double bound = isnan(j->settings->cache_error) ? CACHE_ERROR : j->settings->cache_error;
    j->cache = (sg_cache_search){.engine = j->session.engine,
                                 .request = j->now.request,
                                 .prompts = j->prompts,
                                 .bound = bound,
                                 .progress = &j->session.progress};
    return sg_cache_search_run(&j->cache, e);
}

static sg_status run(job *j, const char *path, sg_error *e)
{
    const char *const json = j->settings->json;
    const bool        cache = j->settings->tune_cache;
    SG_TRY(open_engine(j, e));
    if (!cache) SG_TRY(open_tune(j, e));
    sg_progress_say_start(&j->session.progress, j->session.model.name, &j->session.info, &j->now.request, 0,
                          j->settings->seed < 0);
    if (j->settings->prompt_file) sg_notice_comments(&j->session.progress, j->settings->prompt_file, j->prompts);
    sg_notice_prompts(&j->session.progress, j->session.engine, j->session.model.name, j->prompts);
    SG_TRY(cache ? look_at_cache(j, e) : look_at_attention(j, e));
    SG_TRY(write_thresholds(j, path, e));
    SG_TRY(write_report(j, path, e));
    const bool free_stdout = strcmp(path, "-") != 0 && (!json || strcmp(json, "-") != 0);
    if (free_stdout && cache) print_trials(&j->cache);
    if (free_stdout && !cache) print_table(j);
    if (cache)
        say_cache(j, path);
    else
        say_end(j, path);
    return SG_OK;
}

static sg_status check_inputs(const job *j, sg_error *e)
{
    const sg_settings *const s = j->settings;
    if (j->bound[1] < j->bound[0])
        return sg_error_set(e, SG_E_ARG, "--l2 %g is below --l1 %g: it is the error with the PV filter on top",
                            j->bound[1], j->bound[0]);
    if (!s->prompt && !s->prompt_file)
        return sg_error_set(e, SG_E_ARG,
                            "a prompt is needed: sparge-gen tune -m path/to/model --prompt-file prompts.txt");
    if (!isnan(s->cache_error) && !s->tune_cache)
        return sg_error_set(e, SG_E_ARG, "--cache-error has no effect without --cache");
    return s->json && strcmp(s->json, "-") != 0 ? sg_output_file_check(s->json, "--json", e) : SG_OK;
}

/* Without --output thresholds go to path[size], beside the model that the user named. The one that comes with the program, and
 * perhaps for all users, keeps its own. */
static sg_status choose_output(job *j, sg_settings *s, char *path, size_t size, sg_error *e)
{
    j->beside_model = !s->output;
    if (s->output) return strcmp(s->output, "-") != 0 ? sg_output_file_check(s->output, "--output", e) : SG_OK;
    if (j->session.model.from == SG_MODEL_BUNDLED)
        return sg_error_set(e, SG_E_ARG,
                            "tune needs -m PATH, a model that gets thresholds beside it, or -o FILE for those of the "
                            "embedded one, which keeps its own");
    if (!sg_checkpoint_beside(j->session.model.dir, SG_THRESHOLDS_NAME, path, size))
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
    job           j = {.settings = &s, .prompts = &prompts};
    j.bound[0] = isnan(s.l1) ? 0.05 : s.l1;
    j.bound[1] = isnan(s.l2) ? j.bound[0] : s.l2;
    SG_TRY(check_inputs(&j, e));
    SG_TRY(sg_setup_model(&j.session.model, &s, e));
    SG_TRY(choose_output(&j, &s, path, sizeof path, e));
    SG_TRY(sg_setup_prompts(&prompts, &s, e));
    j.now.settings = s;
    sg_status status = sg_session_inputs(&j.session, &s, e);
    if (status == SG_OK) status = run(&j, s.output, e);
    sg_tune_close(&j.tune);
    sg_cache_search_close(&j.cache);
    sg_rendering_close(&j.now);
    sg_session_close(&j.session);
    sg_prompt_set_close(&prompts);
    return status;
}
