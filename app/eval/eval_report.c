/* eval_report.c - see eval_report.h. */
#include "eval_report.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "eval_manifest.h"
#include "eval_summary.h"
#include "json_build.h"
#include "report.h"
#include "report_page.h"
#include "report_result.h"
#include "speedup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct evaluation {
    json_t         *manifest;
    int             arms;
    const char     *arm[SG_ARMS_MAX]; /* names; the manifest's */
    sg_eval_results results;
    sg_eval_summary summary;
} evaluation;

/* ---- reading ---- */

static sg_status read_manifest(evaluation *v, const char *directory, sg_error *e)
{
    size_t        i;
    const json_t *name;
    SG_TRY(sg_eval_manifest_read(&v->manifest, directory, e));
    const json_t *const list = json_object_get(v->manifest, "arms");
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > SG_ARMS_MAX)
        return sg_error_set(e, SG_E_FORMAT, "%s/" SG_EVAL_MANIFEST ": arms should be a list of 1 to %d", directory,
                            SG_ARMS_MAX);
    json_array_foreach(list, i, name)
    {
        if (!json_is_string(name))
            return sg_error_set(e, SG_E_FORMAT, "%s/" SG_EVAL_MANIFEST ": arms: entry %zu should be a string",
                                directory, i);
        v->arm[v->arms++] = json_string_value(name);
    }
    return SG_OK;
}

static sg_status check_arms(const evaluation *v, const char *directory, sg_error *e)
{
    for (int i = 0; i < v->results.count; i++) {
        const sg_eval_clip *const c = &v->results.clip[i];
        const char *const         file = v->results.source[c->source]->d_name;
        if (c->arm >= v->arms)
            return sg_error_set(e, SG_E_FORMAT, "%s/%s: line %d: arm_index is %d; the manifest has %d arms", directory,
                                file, c->line, c->arm, v->arms);
        if (strcmp(c->name, v->arm[c->arm]) != 0)
            return sg_error_set(e, SG_E_FORMAT, "%s/%s: line %d: arm is %s, which in the manifest is %s", directory,
                                file, c->line, sg_show(c->name), sg_show(v->arm[c->arm]));
    }
    return SG_OK;
}

/* ---- in a sentence ---- */

static bool makes_images(const sg_eval_results *r)
{
    int i = 0;
    while (i < r->count && r->clip[i].frames == 1) i++;
    return i == r->count;
}

/* This is over all prompts. */
static const sg_interval *find(const evaluation *v, int arm, const char *name)
{
    return sg_eval_summary_find(&v->summary, arm, 0, name);
}

/* Of all prompts; arm is not the first. */
static const char *result_text(char *text, const evaluation *v, int arm)
{
    const sg_eval_row *const row = &v->summary.row[arm * v->summary.groups];
    const sg_result          of = {.arm = v->arm[arm],
                                   .first = v->arm[0],
                                   .part = "denoising",
                                   .part_speed = *find(v, arm, "denoiser_speedup"),
                                   .clip_speed = *find(v, arm, "speedup"),
                                   .psnr = row->paired ? find(v, arm, "psnr")->mean : NAN,
                                   .identical = row->identical,
                                   .what = "clip",
                                   .images = makes_images(&v->results),
                                   .clips = row->paired,
                                   .same_kernels = sg_eval_same_kernels(row)};
    return sg_result_text(text, &of);
}

/* ---- as JSON ---- */

static json_t *strings(const char *const *text, int count)
{
    json_t *a = json_array();
    for (int i = 0; i < count; i++) sg_json_append(&a, json_string(text[i]));
    return a;
}

/* What is said of the time of an arm's clips; NULL: nothing, of the first arm and without pairs. */
static const char *speed_text(char text[64], const sg_eval_summary *s, int arm, int group)
{
    const sg_eval_row *const r = &s->row[arm * s->groups + group];
    if (!arm || !r->paired) return NULL;
    return sg_eval_same_kernels(r) ? "same kernels"
                                   : sg_speedup_text(text, 64, sg_eval_summary_find(s, arm, group, "speedup"));
}

static json_t *row_json(const sg_eval_summary *s, const sg_eval_row *r, int arm, int group)
{
    char    speed[64];
    json_t *j = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s?}", "arm", arm, "group", group,
                          "prompts", r->prompts, "done", r->done, "failed", r->failed, "paired", r->paired, "identical",
                          r->identical, "black", r->black, "frozen", r->frozen, "non_finite", r->non_finite,
                          "same_kernels", r->same, "speed", speed_text(speed, s, arm, group));
    for (int m = 0; m < s->columns; m++) {
        const sg_interval *const k = &r->measure[m];
        sg_json_set(&j, s->column[m].name, s->column[m].interval ? sg_report_interval(k) : sg_report_number(k->mean));
    }
    return j;
}

static json_t *rows_json(const sg_eval_summary *s)
{
    json_t *a = json_array();
    for (int i = 0; i < s->arms * s->groups; i++)
        sg_json_append(&a, row_json(s, &s->row[i], i / s->groups, i % s->groups));
    return a;
}

static json_t *results_json(const evaluation *v)
{
    json_t *a = json_array();
    char    text[SG_RESULT_TEXT];
    for (int i = 0; i < v->arms; i++) sg_json_append(&a, i ? sg_report_name(result_text(text, v, i)) : json_null());
    return a;
}

/* An entry for each prompt that has some: {prompt, image: {file, hash, picture}, last_image, video: {file, hash,
 * strength}}. */
static json_t *pictures_json(const evaluation *v)
{
    json_t *a = json_array();
    int     last = -1;
    for (const sg_eval_clip *c = v->results.clip; c < v->results.clip + v->results.count; c++) {
        const sg_eval_picture *const p = c->image;
        if (c->prompt == last || !(p[SG_IMAGE_FIRST].file || p[SG_IMAGE_LAST].file || c->video.file)) continue;
        json_t *j = json_pack("{s:i}", "prompt", last = c->prompt);
        for (int i = 0; i < SG_IMAGES; i++)
            if (p[i].file)
                sg_json_set(
                    &j, sg_picture_keys[i],
                    json_pack("{s:s, s:s, s:s}", "file", p[i].file, "hash", p[i].hash, "picture", p[i].picture));
        if (c->video.file)
            sg_json_set(&j, "video",
                        json_pack("{s:s, s:s, s:o}", "file", c->video.file, "hash", c->video.hash, "strength",
                                  sg_report_number(c->strength)));
        sg_json_append(&a, j);
    }
    return a;
}

static json_t *summary_json(const evaluation *v)
{
    const sg_eval_summary *const s = &v->summary;
    return sg_report_envelope(
        SG_COMMAND_EVAL, json_pack("{s:s, s:O, s:o, s:o, s:o, s:o, s:o}", "measured", "before compression", "settings",
                                   v->manifest, "arms", strings(v->arm, v->arms), "results", results_json(v), "groups",
                                   strings(s->group, s->groups), "rows", rows_json(s), "pictures", pictures_json(v)));
}

/* ---- the clips, for the page ---- */

/* What is unknown is left out, and a whole number that is 0. A score is [mean, minimum, p5]; infinity, of PSNR, is
 * beyond all others there. */
static void set_figure(json_t **j, const sg_eval_figure *f, const sg_eval_clip *c)
{
    const double        beyond = 1e9;
    const double *const x = sg_eval_values(f, c);
    json_t             *scores = json_array();
    const bool          whole = f->flags & SG_EVAL_WHOLE;
    for (int i = 0; f->flags & SG_EVAL_SCORE && i < 3; i++)
        sg_json_append(&scores, sg_report_number(isinf(x[i]) ? beyond : x[i]));
    if (!isnan(*x) && !(whole && *x == 0))
        sg_json_set(j, f->key,
                    f->flags & SG_EVAL_SCORE ? json_incref(scores)
                    : whole                  ? json_integer((json_int_t)*x)
                                             : json_real(*x));
    json_decref(scores);
}

/* prompt: its place in the page's list. A seed may be more than what JavaScript takes for a number. */
static json_t *clip_json(const sg_eval_clip *c, size_t prompt)
{
    json_t *j = json_pack("{s:i, s:I, s:i, s:s*, s:s*, s:s*}", "arm", c->arm, "prompt", (json_int_t)prompt, "clip",
                          c->clip, "error", c->error, "file", c->file, "picture", c->picture);
    if (c->seed >= 0) sg_json_set(&j, "seed", json_sprintf("%lld", (long long)c->seed));
    if (!c->done) sg_json_set(&j, "failed", json_true());
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (f->flags & SG_EVAL_PAGE && !(f->flags & SG_EVAL_TIME && c->same)) set_figure(&j, f, c);
    return j;
}

/* Its text, its number in the set, its groups. */
static json_t *prompt_json(const sg_eval_summary *s, const sg_eval_clip *c)
{
    json_t *list = json_array();
    for (int g = 1; g < s->groups; g++)
        if (sg_eval_in_group(s, c, g)) sg_json_append(&list, json_integer(g));
    return json_pack("{s:s, s:i, s:o}", "text", c->text, "number", c->prompt, "groups", list);
}

/* The figures with this flag, as the page shows them. */
static json_t *figures_json(sg_eval_flag flag)
{
    json_t *a = json_array();
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (f->flags & flag)
            sg_json_append(&a, json_pack("{s:s, s:s, s:s, s:i}", "key", f->key, "name", f->name, "unit", f->unit,
                                         "digits", f->digits));
    return a;
}

/* What the page has beyond the summary. */
static json_t *page_json(const evaluation *v)
{
    const sg_eval_clip *const clip = v->results.clip;
    json_t                   *prompts = json_array(), *clips = json_array();
    for (int i = 0; i < v->results.count; i++) {
        if (i == 0 || clip[i].prompt != clip[i - 1].prompt)
            sg_json_append(&prompts, prompt_json(&v->summary, &clip[i]));
        sg_json_append(&clips, clip_json(&clip[i], json_array_size(prompts) - 1));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "prompts", prompts, "clips", clips, "scores", figures_json(SG_EVAL_SCORE),
                     "judgements", figures_json(SG_EVAL_JUDGED));
}

/* ---- as CSV ---- */

static void csv_text(sg_textbuf *b, const char *text)
{
    sg_textbuf_put_char(b, '"');
    for (; *text; text++) sg_textbuf_put(b, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    sg_textbuf_put_char(b, '"');
}

static void csv_number(sg_textbuf *b, double v)
{
    sg_textbuf_put_char(b, ',');
    if (!isnan(v)) sg_textbuf_printf(b, "%.15g", v); /* inf is infinite PSNR */
}

static void csv_heading(sg_textbuf *b, const sg_eval_summary *s)
{
    sg_textbuf_printf(b, "arm,group,prompts,done,failed,paired,identical");
    for (const sg_eval_column *k = s->column; k < s->column + s->columns; k++) {
        sg_textbuf_printf(b, ",%s", k->name);
        if (k->interval) sg_textbuf_printf(b, ",%s_low,%s_high", k->name, k->name);
    }
    sg_textbuf_printf(b, ",black,frozen,non_finite,same_kernels,speed\r\n");
}

static void csv_row(sg_textbuf *b, const evaluation *v, int arm, int group)
{
    const sg_eval_summary *const s = &v->summary;
    const sg_eval_row *const     r = &s->row[arm * s->groups + group];
    char                         speed[64];
    csv_text(b, v->arm[arm]);
    sg_textbuf_put_char(b, ',');
    csv_text(b, s->group[group]);
    sg_textbuf_printf(b, ",%d,%d,%d,%d,%d", r->prompts, r->done, r->failed, r->paired, r->identical);
    for (int m = 0; m < s->columns; m++) {
        csv_number(b, r->measure[m].mean);
        if (!s->column[m].interval) continue;
        csv_number(b, r->measure[m].low);
        csv_number(b, r->measure[m].high);
    }
    sg_textbuf_printf(b, ",%d,%d,%d,%d,", r->black, r->frozen, r->non_finite, r->same);
    if (speed_text(speed, s, arm, group)) csv_text(b, speed_text(speed, s, arm, group));
    sg_textbuf_printf(b, "\r\n");
}

/* ---- all ---- */

enum { CSV, JSON, PAGE, FILES };

static sg_status name_files(char path[FILES][PATH_MAX], const char *directory, sg_error *e)
{
    static const char *const name[] = {"summary.csv", "summary.json", "report.html"};
    for (int i = 0; i < FILES; i++) SG_TRY(sg_path_join(path[i], PATH_MAX, directory, name[i], e));
    return SG_OK;
}

sg_status sg_eval_report_check(const char *directory, sg_error *e)
{
    char path[FILES][PATH_MAX];
    SG_TRY(name_files(path, directory, e));
    for (int i = 0; i < FILES; i++) SG_TRY(sg_output_file_check(path[i], "--output", e));
    return SG_OK;
}

static sg_status write_csv(const char *path, const evaluation *v, sg_error *e)
{
    const sg_eval_summary *const s = &v->summary;
    sg_textbuf                   b = {0};
    csv_heading(&b, s);
    for (int i = 0; i < s->arms * s->groups; i++) csv_row(&b, v, i / s->groups, i % s->groups);
    const sg_status status = b.failed ? sg_error_memory(e, "summary.csv") : sg_output_file_save(path, b.data, b.len, e);
    sg_textbuf_free(&b);
    return status;
}

/* The page has the summary and more. */
static sg_status write_json(char path[FILES][PATH_MAX], const evaluation *v, sg_error *e)
{
    json_t         *j = summary_json(v);
    sg_output_file *page = NULL;
    sg_status       status = j ? sg_report_save(path[JSON], j, e) : SG_E_MEMORY;
    if (status == SG_OK) sg_json_join(&j, page_json(v));
    if (!j) return sg_error_memory(e, "report.html");
    if (status == SG_OK) status = sg_report_page_open(&page, path[PAGE], sg_report_eval_page, j, e);
    if (status == SG_OK) status = sg_output_file_publish(&page, e);
    json_decref(j);
    return status;
}

static sg_status write_all(const char *directory, const evaluation *v, sg_error *e)
{
    char path[FILES][PATH_MAX];
    SG_TRY(name_files(path, directory, e));
    SG_TRY(write_csv(path[CSV], v, e));
    return write_json(path, v, e);
}

/* ---- for people ---- */

/* "38.20 dB (37.10 to 39.30)" */
static const char *spread(char *text, size_t size, int digits, const char *unit, const sg_interval *v)
{
    snprintf(text, size, "%.*f%s", digits, v->mean, unit);
    if (!isnan(v->low)) sg_text_append(text, size, " (%.*f to %.*f)", digits, v->low, digits, v->high);
    return text;
}

static void say_arm(sg_progress *p, const evaluation *v, int arm)
{
    const sg_eval_row *const r = &v->summary.row[arm * v->summary.groups];
    const sg_interval *const faster = find(v, arm, "speedup");
    char                     psnr[96], ssim[96], speed[64], apart[64] = "";
    const bool               images = makes_images(&v->results);
    if (!r->paired) return;
    if (r->identical)
        snprintf(apart, sizeof apart, "; %d of %d %s%s identical%s", r->identical, r->paired, images ? "image" : "clip",
                 sg_plural(r->paired), r->identical < r->paired ? ", left out of PSNR's mean" : "");
    sg_progress_say(p, "%s to %s: PSNR %s, SSIM %s%s%s", v->arm[arm], v->arm[0],
                    spread(psnr, sizeof psnr, 2, " dB", find(v, arm, "psnr")),
                    spread(ssim, sizeof ssim, 4, "", find(v, arm, "ssim")), images ? "" : ", before compression",
                    apart);
    const char *const said = speed_text(speed, &v->summary, arm, 0);
    if (isnan(faster->mean) && !isnan(faster->low))
        sg_progress_say(p, "%s to %s: %s (%.2f to %.2f)", v->arm[arm], v->arm[0], said, faster->low, faster->high);
    else
        sg_progress_say(p, "%s to %s: %s%s", v->arm[arm], v->arm[0], isnan(faster->mean) ? "" : "speed-up ", said);
}

/* "dense: CLIPSIM 0.2581, CLIP-T 0.9970"; "sparge to dense: CLIPSIM -0.0003 (-0.0011 to 0.0005), ...". */
static void say_clip(sg_progress *p, const evaluation *v, int arm)
{
    const sg_eval_summary *const s = &v->summary;
    char                         text[1024] = "", one[96];
    for (int i = 0; i < s->columns; i++) {
        const sg_eval_figure *const f = s->column[i].figure;
        sg_interval                 m = s->row[arm * s->groups].measure[i];
        const bool wanted = f->flags & SG_EVAL_JUDGED && s->column[i].kind == (arm ? SG_EVAL_CHANGE : SG_EVAL_MEAN);
        if (wanted && !isnan(m.mean))
            sg_text_append(text, sizeof text, "%s%s %s%s", *text ? ", " : "", f->name, arm && m.mean > 0 ? "+" : "",
                           spread(one, sizeof one, f->digits, "", &m));
    }
    if (*text) sg_progress_say(p, "%s%s%s: %s", v->arm[arm], arm ? " to " : "", arm ? v->arm[0] : "", text);
}

static sg_status make(evaluation *v, const char *directory, sg_error *e)
{
    SG_TRY(read_manifest(v, directory, e));
    SG_TRY(sg_eval_results_open(&v->results, directory, e));
    SG_TRY(check_arms(v, directory, e));
    SG_TRY(sg_eval_summary_make(&v->summary, &v->results, v->arms, e));
    return write_all(directory, v, e);
}

sg_status sg_eval_report(const char *directory, sg_progress *p, sg_error *e)
{
    evaluation      v = {0};
    char            text[SG_RESULT_TEXT];
    const sg_status status = make(&v, directory, e);
    const int       said = status == SG_OK && p ? v.arms : 0;
    for (int i = 1; i < said; i++) sg_progress_say(p, "%s", result_text(text, &v, i));
    for (int i = 1; i < said; i++) say_arm(p, &v, i);
    for (int i = 0; i < said; i++) say_clip(p, &v, i);
    sg_eval_summary_close(&v.summary);
    sg_eval_results_close(&v.results);
    json_decref(v.manifest);
    return status;
}
