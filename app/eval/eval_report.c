/* eval_report.c - see eval_report.h. */
#include "eval_report.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "eval_manifest.h"
#include "eval_summary.h"
#include "report.h"
#include "report_page.h"
#include "report_result.h"
#include "speedup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    json_t         *manifest;
    int             arms;
    const char     *arm[SG_ARMS_MAX]; /* names; the manifest's */
    sg_eval_results results;
    sg_eval_summary summary;
    bool            failed; /* memory ran out while JSON was made */
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
                                   .clips = row->paired};
    return sg_result_text(text, &of);
}

/* ---- as JSON ---- */

/* What cannot be had for want of memory is left out, and v->failed then says so. */
static void set(evaluation *v, json_t *j, const char *key, json_t *to)
{
    if (json_object_set_new(j, key, to) != 0) v->failed = true;
}

static void add(evaluation *v, json_t *list, json_t *entry)
{
    if (json_array_append_new(list, entry) != 0) v->failed = true;
}

static json_t *strings(evaluation *v, const char *const *text, int count)
{
    json_t *const a = json_array();
    for (int i = 0; i < count; i++) add(v, a, json_string(text[i]));
    return a;
}

static json_t *row_json(evaluation *v, const sg_eval_row *r, int arm, int group)
{
    json_t *const j =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "arm", arm, "group", group, "prompts",
                  r->prompts, "done", r->done, "failed", r->failed, "paired", r->paired, "identical", r->identical,
                  "black", r->black, "frozen", r->frozen, "non_finite", r->non_finite);
    for (int m = 0; m < v->summary.columns; m++) {
        const sg_interval *const k = &r->measure[m];
        json_t *const            mean = sg_report_number(k->mean);
        set(v, j, v->summary.column[m].name,
            !v->summary.column[m].interval ? mean
                                           : json_pack("{s:o, s:o, s:o}", "mean", mean, "low", sg_report_number(k->low),
                                                       "high", sg_report_number(k->high)));
    }
    return j;
}

static json_t *rows_json(evaluation *v)
{
    const int     groups = v->summary.groups;
    json_t *const a = json_array();
    for (int i = 0; i < v->arms * groups; i++) add(v, a, row_json(v, &v->summary.row[i], i / groups, i % groups));
    return a;
}

static json_t *results_json(evaluation *v)
{
    json_t *const a = json_array();
    char          text[SG_RESULT_TEXT];
    for (int i = 0; i < v->arms; i++) add(v, a, i ? sg_report_name(result_text(text, v, i)) : json_null());
    return a;
}

/* An entry for each prompt that has some: {prompt, image: {file, hash, picture}, last_image, video: {file, hash,
 * strength}}. */
static json_t *pictures_json(evaluation *v)
{
    json_t *const a = json_array();
    int           last = -1;
    for (const sg_eval_clip *c = v->results.clip; c < v->results.clip + v->results.count; c++) {
        const sg_eval_picture *const p = c->image;
        if (c->prompt == last || !(p[SG_IMAGE_FIRST].file || p[SG_IMAGE_LAST].file || c->video.file)) continue;
        json_t *const j = json_pack("{s:i}", "prompt", last = c->prompt);
        for (int i = 0; i < SG_IMAGES; i++)
            if (p[i].file)
                set(v, j, sg_picture_keys[i],
                    json_pack("{s:s, s:s, s:s}", "file", p[i].file, "hash", p[i].hash, "picture", p[i].picture));
        if (c->video.file)
            set(v, j, "video",
                json_pack("{s:s, s:s, s:o}", "file", c->video.file, "hash", c->video.hash, "strength",
                          sg_report_number(c->strength)));
        add(v, a, j);
    }
    return a;
}

static sg_status summary_json(json_t **out, evaluation *v, sg_error *e)
{
    *out = json_pack("{s:s, s:i, s:s, s:O, s:o, s:o, s:o, s:o, s:o}", "format", SG_EVAL_FORMAT, "version", 3,
                     "measured", "before compression", "settings", v->manifest, "arms", strings(v, v->arm, v->arms),
                     "results", results_json(v), "groups", strings(v, v->summary.group, v->summary.groups), "rows",
                     rows_json(v), "pictures", pictures_json(v));
    return *out && !v->failed ? SG_OK : sg_error_set(e, SG_E_MEMORY, "summary.json: out of memory");
}

/* ---- the clips, for the page ---- */

/* What is unknown is left out, and a whole number that is 0. A score is [mean, minimum, p5]; infinity, of PSNR, is
 * beyond all others there. */
static void set_figure(evaluation *v, json_t *j, const sg_eval_figure *f, const sg_eval_clip *c)
{
    const double        beyond = 1e9;
    const double *const x = sg_eval_values(f, c);
    if (isnan(*x) || (f->flags & SG_EVAL_WHOLE && *x == 0)) return;
    if (f->flags & SG_EVAL_WHOLE) {
        set(v, j, f->key, json_integer((json_int_t)*x));
    } else if (f->flags & SG_EVAL_SCORE) {
        json_t *const list = json_array();
        for (int i = 0; i < 3; i++) add(v, list, sg_report_number(isinf(x[i]) ? beyond : x[i]));
        set(v, j, f->key, list);
    } else {
        set(v, j, f->key, json_real(*x));
    }
}

/* prompt: its place in the page's list. A seed may be more than what JavaScript takes for a number. */
static json_t *clip_json(evaluation *v, const sg_eval_clip *c, size_t prompt)
{
    json_t *const j = json_pack("{s:i, s:I, s:i}", "arm", c->arm, "prompt", (json_int_t)prompt, "clip", c->clip);
    char          seed[32];
    snprintf(seed, sizeof seed, "%lld", (long long)c->seed);
    const char *const text[][2] = {
        {"error", c->error}, {"file", c->file}, {"picture", c->picture}, {"seed", c->seed < 0 ? NULL : seed}};
    if (!c->done) set(v, j, "failed", json_true());
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        if (text[i][1]) set(v, j, text[i][0], json_string(text[i][1]));
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (f->flags & SG_EVAL_PAGE) set_figure(v, j, f, c);
    return j;
}

/* Its text, its number in the set, its groups. */
static json_t *prompt_json(evaluation *v, int at)
{
    const sg_eval_clip *const c = &v->results.clip[at];
    const int                 groups = v->summary.groups;
    json_t *const             list = json_array();
    for (int g = 1; g < groups; g++)
        if (v->summary.in[(size_t)at * (size_t)groups + (size_t)g]) add(v, list, json_integer(g));
    return json_pack("{s:s, s:i, s:o}", "text", c->text, "number", c->prompt, "groups", list);
}

/* The figures with this flag, as the page shows them. */
static json_t *figures_json(evaluation *v, sg_eval_flag flag)
{
    json_t *const a = json_array();
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (f->flags & flag)
            add(v, a,
                json_pack("{s:s, s:s, s:s, s:i}", "key", f->key, "name", f->name, "unit", f->unit, "digits",
                          f->digits));
    return a;
}

/* What the page has beyond the summary. */
static void add_clips(evaluation *v, json_t *summary)
{
    const sg_eval_clip *const clip = v->results.clip;
    json_t *const prompts = json_array(), *const clips = json_array();
    for (int i = 0; i < v->results.count; i++) {
        if (i == 0 || clip[i].prompt != clip[i - 1].prompt) add(v, prompts, prompt_json(v, i));
        add(v, clips, clip_json(v, &clip[i], json_array_size(prompts) - 1));
    }
    set(v, summary, "prompts", prompts);
    set(v, summary, "clips", clips);
    set(v, summary, "scores", figures_json(v, SG_EVAL_SCORE));
    set(v, summary, "judgements", figures_json(v, SG_EVAL_JUDGED));
}

static sg_status write_page(const char *path, evaluation *v, json_t *summary, sg_error *e)
{
    sg_output_file *f = NULL;
    add_clips(v, summary);
    if (v->failed) return sg_error_set(e, SG_E_MEMORY, "report.html: out of memory");
    SG_TRY(sg_report_page_open(&f, path, sg_report_eval_page, summary, e));
    return sg_output_file_publish(&f, e);
}

/* ---- as CSV ---- */

static void csv_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) fputs(*text == '"' ? "\"\"" : (char[]){*text, '\0'}, f);
    fputc('"', f);
}

static void csv_number(FILE *f, double v)
{
    if (isnan(v))
        fputc(',', f);
    else
        fprintf(f, ",%.15g", v); /* inf is infinite PSNR */
}

static void csv_heading(FILE *f, const sg_eval_summary *s)
{
    fputs("arm,group,prompts,done,failed,paired,identical", f);
    for (const sg_eval_column *k = s->column; k < s->column + s->columns; k++) {
        fprintf(f, ",%s", k->name);
        if (k->interval) fprintf(f, ",%s_low,%s_high", k->name, k->name);
    }
    fputs(",black,frozen,non_finite\r\n", f);
}

static void csv_row(FILE *f, const sg_eval_summary *s, const sg_eval_row *r, const char *arm, const char *group)
{
    csv_text(f, arm);
    fputc(',', f);
    csv_text(f, group);
    fprintf(f, ",%d,%d,%d,%d,%d", r->prompts, r->done, r->failed, r->paired, r->identical);
    for (int m = 0; m < s->columns; m++) {
        csv_number(f, r->measure[m].mean);
        if (!s->column[m].interval) continue;
        csv_number(f, r->measure[m].low);
        csv_number(f, r->measure[m].high);
    }
    fprintf(f, ",%d,%d,%d\r\n", r->black, r->frozen, r->non_finite);
}

static sg_status write_csv(const char *path, const evaluation *v, sg_error *e)
{
    const sg_eval_summary *const s = &v->summary;
    char                        *text = NULL;
    size_t                       size = 0;
    FILE *const                  f = open_memstream(&text, &size);
    bool                         whole = f != NULL;
    if (whole) csv_heading(f, s);
    for (int i = 0; whole && i < v->arms * s->groups; i++)
        csv_row(f, s, &s->row[i], v->arm[i / s->groups], s->group[i % s->groups]);
    whole = whole && !ferror(f);
    whole = f && fclose(f) == 0 && whole;
    const sg_status status =
        whole ? sg_output_file_save(path, text, size, e) : sg_error_set(e, SG_E_MEMORY, "summary.csv: out of memory");
    free(text);
    return status;
}

/* ---- all ---- */

sg_status sg_eval_report_check(const char *directory, sg_error *e)
{
    static const char *const names[] = {"summary.csv", "summary.json", "report.html"};
    char                     path[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        SG_TRY(sg_path_join(path, sizeof path, directory, names[i], e));
        SG_TRY(sg_output_file_check(path, "--out", e));
    }
    return SG_OK;
}

static sg_status write_all(const char *directory, evaluation *v, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *summary;
    SG_TRY(sg_path_join(path, sizeof path, directory, "summary.csv", e));
    SG_TRY(write_csv(path, v, e));
    sg_status status = summary_json(&summary, v, e);
    if (status == SG_OK) status = sg_path_join(path, sizeof path, directory, "summary.json", e);
    if (status == SG_OK) status = sg_report_save(path, summary, e);
    if (status == SG_OK) status = sg_path_join(path, sizeof path, directory, "report.html", e);
    if (status == SG_OK) status = write_page(path, v, summary, e);
    json_decref(summary);
    return status;
}

/* ---- for people ---- */

/* "38.20 dB (37.10 to 39.30)" */
static const char *spread(char *text, size_t size, int digits, const char *unit, const sg_interval *v)
{
    const int n = snprintf(text, size, "%.*f%s", digits, v->mean, unit);
    if (!isnan(v->low)) snprintf(text + n, size - (size_t)n, " (%.*f to %.*f)", digits, v->low, digits, v->high);
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
    sg_speedup_text(speed, sizeof speed, faster);
    if (isnan(faster->mean) && !isnan(faster->low))
        sg_progress_say(p, "%s to %s: %s (%.2f to %.2f)", v->arm[arm], v->arm[0], speed, faster->low, faster->high);
    else
        sg_progress_say(p, "%s to %s: %s%s", v->arm[arm], v->arm[0], isnan(faster->mean) ? "" : "speed-up ", speed);
}

/* "dense: CLIPSIM 0.2581, CLIP-T 0.9970"; "sparge to dense: CLIPSIM -0.0003 (-0.0011 to 0.0005), ...". */
static void say_clip(sg_progress *p, const evaluation *v, int arm)
{
    const sg_eval_summary *const s = &v->summary;
    char                         text[1024] = "", one[96];
    size_t                       n = 0;
    for (int i = 0; i < s->columns; i++) {
        const sg_eval_figure *const f = s->column[i].figure;
        sg_interval                 m = s->row[arm * s->groups].measure[i];
        const bool wanted = f->flags & SG_EVAL_JUDGED && s->column[i].kind == (arm ? SG_EVAL_CHANGE : SG_EVAL_MEAN);
        if (wanted && !isnan(m.mean) && n < sizeof text)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s%s", n ? ", " : "", f->name,
                                  arm && m.mean > 0 ? "+" : "", spread(one, sizeof one, f->digits, "", &m));
    }
    if (n) sg_progress_say(p, "%s%s%s: %s", v->arm[arm], arm ? " to " : "", arm ? v->arm[0] : "", text);
}

static sg_status report(const char *directory, sg_progress *p, sg_error *e)
{
    evaluation v = {0};
    char       text[SG_RESULT_TEXT];
    sg_status  status = read_manifest(&v, directory, e);
    if (status == SG_OK) status = sg_eval_results_open(&v.results, directory, e);
    if (status == SG_OK) status = check_arms(&v, directory, e);
    if (status == SG_OK) status = sg_eval_summary_make(&v.summary, &v.results, v.arms, e);
    if (status == SG_OK) status = write_all(directory, &v, e);
    for (int i = 1; status == SG_OK && p && i < v.arms; i++) sg_progress_say(p, "%s", result_text(text, &v, i));
    for (int i = 1; status == SG_OK && p && i < v.arms; i++) say_arm(p, &v, i);
    for (int i = 0; status == SG_OK && p && i < v.arms; i++) say_clip(p, &v, i);
    sg_eval_summary_close(&v.summary);
    sg_eval_results_close(&v.results);
    json_decref(v.manifest);
    return status;
}

sg_status sg_eval_report(const char *directory, sg_error *e) { return report(directory, NULL, e); }

sg_status sg_eval_report_say(const char *directory, sg_progress *p, sg_error *e) { return report(directory, p, e); }
