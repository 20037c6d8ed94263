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
        const char *const         file = v->results.source[c->source];
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

/* Of all prompts; arm is not the first. */
static const char *result_text(char *text, const evaluation *v, int arm)
{
    const sg_eval_row *const row = &v->summary.row[arm * v->summary.groups];
    const sg_interval        none = {NAN, NAN, NAN};
    const bool               paired = row->paired > 0;
    const sg_result          of = {.arm = v->arm[arm],
                                   .first = v->arm[0],
                                   .part = "denoising",
                                   .part_speed = paired ? row->measure[SG_EVAL_DENOISER_SPEEDUP] : none,
                                   .clip_speed = paired ? row->measure[SG_EVAL_SPEEDUP] : none,
                                   .psnr = paired ? row->measure[SG_EVAL_PSNR].mean : NAN,
                                   .identical = row->identical,
                                   .what = "clip",
                                   .images = makes_images(&v->results),
                                   .clips = row->paired};
    return sg_result_text(text, &of);
}

/* ---- as JSON ---- */

/* Adds to a JSON object. v may be NULL for want of memory. */
static bool set(json_t *j, const char *key, json_t *v) { return json_object_set_new(j, key, v) == 0; }

static json_t *strings(const char *const *text, int count)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < count; i++) whole = json_array_append_new(a, json_string(text[i])) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *measure_json(sg_eval_measure m, const sg_interval *v)
{
    if (!sg_eval_measure_has_interval(m)) return sg_report_number(v->mean);
    return json_pack("{s:o, s:o, s:o}", "mean", sg_report_number(v->mean), "low", sg_report_number(v->low), "high",
                     sg_report_number(v->high));
}

static json_t *row_json(const sg_eval_row *r, int arm, int group)
{
    json_t *const j =
        json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "arm", arm, "group", group, "prompts",
                  r->prompts, "done", r->done, "failed", r->failed, "paired", r->paired, "identical", r->identical,
                  "black", r->black, "frozen", r->frozen, "non_finite", r->non_finite);
    bool whole = j != NULL;
    for (int m = 0; whole && m < SG_EVAL_MEASURES; m++)
        whole = set(j, sg_eval_measure_name[m], measure_json((sg_eval_measure)m, &r->measure[m]));
    return sg_report_if_complete(j, whole);
}

static json_t *rows_json(const sg_eval_summary *s)
{
    json_t *const a = json_array();
    bool          whole = a;
    for (int i = 0; whole && i < s->arms * s->groups; i++)
        whole = json_array_append_new(a, row_json(&s->row[i], i / s->groups, i % s->groups)) == 0;
    return sg_report_if_complete(a, whole);
}

static json_t *results_json(const evaluation *v)
{
    json_t *const a = json_array();
    char          text[SG_RESULT_TEXT];
    bool          whole = a && json_array_append_new(a, json_null()) == 0;
    for (int i = 1; whole && i < v->arms; i++)
        whole = json_array_append_new(a, sg_report_name(result_text(text, v, i))) == 0;
    return sg_report_if_complete(a, whole);
}

/* {image: {file, hash, picture}, last_image, video: {file, hash, strength}} of a clip: those that it has. */
static bool add_pictures(json_t *j, const sg_eval_clip *c)
{
    bool whole = true;
    for (int i = 0; i < SG_IMAGES; i++) {
        const sg_eval_picture *const p = &c->image[i];
        if (p->file)
            whole = set(j, sg_picture_keys[i],
                        json_pack("{s:s, s:s, s:s}", "file", p->file, "hash", p->hash, "picture", p->picture)) &&
                    whole;
    }
    if (c->video.file)
        whole = set(j, "video",
                    json_pack("{s:s, s:s, s:o}", "file", c->video.file, "hash", c->video.hash, "strength",
                              sg_report_number(c->strength))) &&
                whole;
    return whole;
}

/* Of each prompt that has some. */
static json_t *pictures_json(const sg_eval_results *r)
{
    json_t *const a = json_array();
    bool          whole = a;
    int           last = -1;
    for (const sg_eval_clip *c = r->clip; whole && c < r->clip + r->count; c++) {
        const bool some = c->image[SG_IMAGE_FIRST].file || c->image[SG_IMAGE_LAST].file || c->video.file;
        if (c->prompt == last || !some) continue;
        json_t *const j = json_pack("{s:i}", "prompt", last = c->prompt);
        whole = add_pictures(j, c) && json_array_append_new(a, j) == 0;
    }
    return sg_report_if_complete(a, whole);
}

static sg_status summary_json(json_t **out, const evaluation *v, sg_error *e)
{
    *out = json_pack("{s:s, s:i, s:s, s:O, s:o, s:o, s:o, s:o, s:o}", "format", SG_EVAL_FORMAT, "version", 2,
                     "measured", "before compression", "settings", v->manifest, "arms", strings(v->arm, v->arms),
                     "results", results_json(v), "groups", strings(v->summary.group, v->summary.groups), "rows",
                     rows_json(&v->summary), "pictures", pictures_json(&v->results));
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "summary.json: out of memory");
}

/* ---- the clips, for the page ---- */

/* What is unknown is left out. */
static bool set_number(json_t *j, const char *key, double v) { return isnan(v) || set(j, key, json_real(v)); }
static bool set_count(json_t *j, const char *key, int v) { return v <= 0 || set(j, key, json_integer(v)); }
static bool set_text(json_t *j, const char *key, const char *v) { return !v || set(j, key, json_string(v)); }

/* [mean, minimum, 5th percentile]; infinity, of PSNR, is beyond all others there. */
static bool set_score(json_t *j, const char *key, const sg_eval_score *s)
{
    const double beyond = 1e9, v[] = {s->mean, s->minimum, s->p5};
    if (isnan(s->mean)) return true;
    json_t *const list = json_array();
    bool          whole = list != NULL;
    for (int i = 0; whole && i < 3; i++)
        whole = json_array_append_new(list, sg_report_number(isinf(v[i]) ? beyond : v[i])) == 0;
    return set(j, key, list) && whole;
}

/* prompt: its place in the page's list. A seed may be more than what JavaScript takes for a number. */
static json_t *clip_json(const sg_eval_clip *c, size_t prompt)
{
    json_t *const j = json_pack("{s:i, s:I, s:i}", "arm", c->arm, "prompt", (json_int_t)prompt, "clip", c->clip);
    char          seed[32];
    snprintf(seed, sizeof seed, "%lld", (long long)c->seed);
    bool whole = j && (c->done || set(j, "failed", json_true())) && set_text(j, "error", c->error) &&
                 set_text(j, "file", c->file) && set_text(j, "picture", c->picture) &&
                 (c->seed < 0 || set(j, "seed", json_string(seed)));
    whole = whole && set_count(j, "width", c->width) && set_count(j, "height", c->height) &&
            set_count(j, "frames", c->frames) && set_count(j, "black", c->black) && set_count(j, "frozen", c->frozen) &&
            set_count(j, "non_finite", c->non_finite);
    whole = whole && set_score(j, "psnr", &c->psnr) && set_score(j, "ssim", &c->ssim) &&
            set_score(j, "ms_ssim", &c->ms_ssim) && set_number(j, "seconds", sg_eval_clip_seconds(c)) &&
            set_number(j, "kept", c->kept) && set_count(j, "steps", c->steps) &&
            set_count(j, "computed", c->computed) && set_number(j, "flicker", c->flicker) &&
            set_number(j, "sharpness", c->sharpness) && set_number(j, "clipsim", c->clipsim) &&
            set_number(j, "clip_t", c->clip_t) && set_number(j, "clip_score", c->clip_score);
    return sg_report_if_complete(j, whole);
}

/* Its text, its number in the set, its groups. */
static json_t *prompt_json(const evaluation *v, int at)
{
    const sg_eval_clip *const c = &v->results.clip[at];
    const int                 groups = v->summary.groups;
    json_t *const             list = json_array();
    bool                      whole = list != NULL;
    for (int g = 1; whole && g < groups; g++)
        if (v->summary.in[(size_t)at * (size_t)groups + (size_t)g])
            whole = json_array_append_new(list, json_integer(g)) == 0;
    json_t *const j = json_pack("{s:s, s:i, s:o}", "text", c->text, "number", c->prompt, "groups", list);
    return sg_report_if_complete(j, whole);
}

static bool add_clips(json_t *prompts, json_t *clips, const evaluation *v)
{
    const sg_eval_clip *const clip = v->results.clip;
    for (int i = 0; i < v->results.count; i++) {
        const bool begins = i == 0 || clip[i].prompt != clip[i - 1].prompt;
        if (begins && json_array_append_new(prompts, prompt_json(v, i)) != 0) return false;
        if (json_array_append_new(clips, clip_json(&clip[i], json_array_size(prompts) - 1)) != 0) return false;
    }
    return true;
}

/* The clips become members of the summary. */
static sg_status write_page(const char *path, const evaluation *v, json_t *summary, sg_error *e)
{
    json_t *const prompts = json_array(), *const clips = json_array();
    sg_output_file *f = NULL;
    const bool      whole = prompts && clips && add_clips(prompts, clips, v) &&
                       json_object_set(summary, "prompts", prompts) == 0 &&
                       json_object_set(summary, "clips", clips) == 0;
    sg_status status = whole ? SG_OK : sg_error_set(e, SG_E_MEMORY, "report.html: out of memory");
    if (status == SG_OK) status = sg_report_page_open(&f, path, sg_report_eval_page, summary, e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    json_decref(clips);
    json_decref(prompts);
    return status;
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

static void csv_heading(FILE *f)
{
    fputs("arm,group,prompts,done,failed,paired,identical", f);
    for (int m = 0; m < SG_EVAL_MEASURES; m++) {
        const char *const name = sg_eval_measure_name[m];
        fprintf(f, ",%s", name);
        if (sg_eval_measure_has_interval((sg_eval_measure)m)) fprintf(f, ",%s_low,%s_high", name, name);
    }
    fputs(",black,frozen,non_finite\r\n", f);
}

static void csv_row(FILE *f, const sg_eval_row *r, const char *arm, const char *group)
{
    csv_text(f, arm);
    fputc(',', f);
    csv_text(f, group);
    fprintf(f, ",%d,%d,%d,%d,%d", r->prompts, r->done, r->failed, r->paired, r->identical);
    for (int m = 0; m < SG_EVAL_MEASURES; m++) {
        csv_number(f, r->measure[m].mean);
        if (!sg_eval_measure_has_interval((sg_eval_measure)m)) continue;
        csv_number(f, r->measure[m].low);
        csv_number(f, r->measure[m].high);
    }
    fprintf(f, ",%d,%d,%d\r\n", r->black, r->frozen, r->non_finite);
}

static sg_status csv_text_of(char **out, size_t *size, const evaluation *v, sg_error *e)
{
    FILE *const f = open_memstream(out, size);
    if (!f) return sg_error_set(e, SG_E_MEMORY, "summary.csv: out of memory");
    csv_heading(f);
    for (int i = 0; i < v->arms * v->summary.groups; i++)
        csv_row(f, &v->summary.row[i], v->arm[i / v->summary.groups], v->summary.group[i % v->summary.groups]);
    const bool whole = !ferror(f);
    return fclose(f) == 0 && whole ? SG_OK : sg_error_set(e, SG_E_MEMORY, "summary.csv: out of memory");
}

static sg_status write_csv(const char *path, const evaluation *v, sg_error *e)
{
    char     *text = NULL;
    size_t    size = 0;
    sg_status status = csv_text_of(&text, &size, v, e);
    if (status == SG_OK) status = sg_output_file_save(path, text, size, e);
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

static sg_status write_all(const char *directory, const evaluation *v, sg_error *e)
{
    char    path[PATH_MAX];
    json_t *summary;
    SG_TRY(sg_path_join(path, sizeof path, directory, "summary.csv", e));
    SG_TRY(write_csv(path, v, e));
    SG_TRY(summary_json(&summary, v, e));
    sg_status status = sg_path_join(path, sizeof path, directory, "summary.json", e);
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

static void say_result(sg_progress *p, const evaluation *v, int arm)
{
    char text[SG_RESULT_TEXT];
    sg_progress_say(p, "%s", result_text(text, v, arm));
}

static void say_arm(sg_progress *p, const evaluation *v, int arm)
{
    const sg_eval_row *const r = &v->summary.row[arm * v->summary.groups];
    const sg_interval *const faster = &r->measure[SG_EVAL_SPEEDUP];
    char                     psnr[96], ssim[96], speed[64], apart[64] = "";
    const bool               images = makes_images(&v->results);
    if (!r->paired) return;
    if (r->identical)
        snprintf(apart, sizeof apart, "; %d of %d %s%s identical%s", r->identical, r->paired, images ? "image" : "clip",
                 sg_plural(r->paired), r->identical < r->paired ? ", left out of PSNR's mean" : "");
    sg_progress_say(p, "%s to %s: PSNR %s, SSIM %s%s%s", v->arm[arm], v->arm[0],
                    spread(psnr, sizeof psnr, 2, " dB", &r->measure[SG_EVAL_PSNR]),
                    spread(ssim, sizeof ssim, 4, "", &r->measure[SG_EVAL_SSIM]), images ? "" : ", before compression",
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
    static const struct {
        const char     *name;
        int             digits;
        sg_eval_measure own, change;
    } scores[] = {{"CLIPSIM", 4, SG_EVAL_CLIPSIM, SG_EVAL_CLIPSIM_CHANGE},
                  {"CLIP-T", 4, SG_EVAL_CLIP_T, SG_EVAL_CLIP_T_CHANGE},
                  {"CLIP score", 2, SG_EVAL_CLIP_SCORE, SG_EVAL_CLIP_SCORE_CHANGE}};
    const sg_eval_row *const row = &v->summary.row[arm * v->summary.groups];
    char                     text[256] = "", one[96];
    size_t                   n = 0;
    for (size_t i = 0; i < sizeof scores / sizeof *scores; i++) {
        sg_interval m = row->measure[arm ? scores[i].change : scores[i].own];
        if (!arm) m.low = NAN;
        if (!isnan(m.mean))
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %s%s", n ? ", " : "", scores[i].name,
                                  arm && m.mean > 0 ? "+" : "", spread(one, sizeof one, scores[i].digits, "", &m));
    }
    if (n) sg_progress_say(p, "%s%s%s: %s", v->arm[arm], arm ? " to " : "", arm ? v->arm[0] : "", text);
}

static sg_status report(const char *directory, sg_progress *p, sg_error *e)
{
    evaluation v = {0};
    sg_status  status = read_manifest(&v, directory, e);
    if (status == SG_OK) status = sg_eval_results_open(&v.results, directory, e);
    if (status == SG_OK) status = check_arms(&v, directory, e);
    if (status == SG_OK) status = sg_eval_summary_make(&v.summary, &v.results, v.arms, e);
    if (status == SG_OK) status = write_all(directory, &v, e);
    for (int i = 1; status == SG_OK && p && i < v.arms; i++) say_result(p, &v, i);
    for (int i = 1; status == SG_OK && p && i < v.arms; i++) say_arm(p, &v, i);
    for (int i = 0; status == SG_OK && p && i < v.arms; i++) say_clip(p, &v, i);
    sg_eval_summary_close(&v.summary);
    sg_eval_results_close(&v.results);
    json_decref(v.manifest);
    return status;
}

sg_status sg_eval_report(const char *directory, sg_error *e) { return report(directory, NULL, e); }

sg_status sg_eval_report_say(const char *directory, sg_progress *p, sg_error *e) { return report(directory, p, e); }
