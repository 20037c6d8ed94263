/* eval_similarity.c - see eval_similarity.h. */
#include "eval_similarity.h"
#include "base/path.h"
#include "base/text.h"
#include "clip_reader.h"
#include "clip_similarity.h"
#include "eval_manifest.h"
#include "eval_report.h"
#include "eval_results.h"
#include "interrupt.h"
#include "setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At work. */
typedef struct work {
    sg_eval_scoring *w;
    sg_clip_model   *model;
    float           *text;          /* row of the prompt at work; owned */
    int              prompt;        /* that; -1: none */
    int              cut;           /* its tokens that were not read */
    int              long_texts;    /* prompts with such */
    int              first_long[2]; /* the first of them: its number, and how many tokens */
    int              due;
} work;

/* ---- one clip ---- */

static sg_status read_text(work *k, const sg_eval_clip *c, sg_error *e)
{
    if (k->prompt == c->prompt) return SG_OK;
    k->prompt = -1;
    SG_TRY(sg_clip_model_text(k->model, c->text, k->text, &k->cut, e));
    k->prompt = c->prompt;
    if (k->cut && !k->long_texts++) memcpy(k->first_long, (int[]){c->prompt, k->cut}, sizeof k->first_long);
    return SG_OK;
}

static sg_status watch(sg_clip_similarity *g, const char *path, sg_error *e)
{
    sg_clip_reader *reader = NULL;
    const sg_image *frame = NULL;
    sg_status       status = sg_clip_reader_open(&reader, path, e);
    if (status == SG_OK) status = sg_clip_reader_next(reader, &frame, e);
    if (status == SG_OK && !frame) status = sg_error_set(e, SG_E_FORMAT, "%s: has no frames", path);
    while (status == SG_OK && frame) {
        if (sg_interrupt_asked()) status = sg_error_set(e, SG_E_CANCELLED, "interrupted");
        if (status == SG_OK) status = sg_clip_similarity_add(g, frame, e);
        if (status == SG_OK) status = sg_clip_reader_next(reader, &frame, e);
    }
    sg_clip_reader_close(&reader);
    return status;
}

static sg_status measure(work *k, const sg_eval_clip *c, sg_similarity_totals *out, sg_error *e)
{
    char               path[PATH_MAX];
    sg_clip_similarity g = {.model = k->model, .text = k->text};
    SG_TRY(sg_path_join(path, sizeof path, k->w->folder, c->file, e));
    SG_TRY(read_text(k, c, e));
    const sg_status status = watch(&g, path, e);
    if (status == SG_OK) *out = sg_clip_similarity_total(&g);
    sg_clip_similarity_close(&g);
    return status;
}

static sg_status log_scores(const work *k, const sg_eval_clip *c, const sg_similarity_totals *s, sg_error *e)
{
    json_t *const line =
        json_pack("{s:i, s:s, s:i, s:i, s:i, s:s, s:s, s:o, s:o, s:o, s:i}", "version", SG_EVAL_LINE_VERSION, "arm",
                  c->name, "arm_index", c->arm, "prompt", c->prompt, "clip", c->clip, "status", "scored", "text",
                  c->text, "clipsim", sg_report_number(s->clipsim), "clip_t", sg_report_number(s->clip_t), "clip_score",
                  sg_report_number(s->clip_score), "cut_tokens", k->cut);
    const sg_status status =
        line ? sg_eval_log_add(k->w->log, line, e) : sg_error_set(e, SG_E_MEMORY, "%s: out of memory", c->file);
    json_decref(line);
    return status;
}

static bool ends_the_run(sg_status s) { return s == SG_E_DEVICE || s == SG_E_CANCELLED || s == SG_E_MEMORY; }

static sg_status score(work *k, const sg_eval_clip *c, sg_error *e)
{
    sg_eval_scoring *const w = k->w;
    sg_similarity_totals   s;
    sg_error               why = {0};
    sg_progress_row(w->progress, false, "CLIP: %d/%d clips: %.40s", w->scored + w->failed, k->due, c->name);
    const sg_status status = measure(k, c, &s, &why);
    if (status == SG_OK) {
        w->scored++;
        return log_scores(k, c, &s, e);
    }
    if (ends_the_run(status)) return sg_error_set(e, status, "%s", why.text);
    if (!w->failed++) w->first = why;
    sg_progress_say(w->progress, "failed: CLIP: %s", why.text);
    return SG_OK;
}

/* ---- all ---- */

static bool is_due(const sg_eval_clip *c) { return c->done && !c->scored; }

static bool is_ours(const sg_eval_scoring *w, const sg_eval_clip *c)
{
    return sg_rank_takes(&w->rank, (int64_t)c->prompt * w->per_prompt + c->clip);
}

static void say_long(const work *k)
{
    if (k->long_texts)
        sg_progress_say(
            k->w->progress,
            "--clip: %d prompt%s more tokens than the %d that CLIP reads; of prompt %d it does not read the "
            "last %d",
            k->long_texts, k->long_texts == 1 ? " has" : "s have", sg_clip_model_describe(k->model).tokens,
            k->first_long[0] + 1, k->first_long[1]);
}

static sg_status score_all(work *k, const sg_eval_results *r, sg_error *e)
{
    sg_eval_scoring *const w = k->w;
    SG_TRY(sg_setup_clip(&k->model, w->settings, w->threads, e));
    const sg_clip_model_info info = sg_clip_model_describe(k->model);
    k->text = malloc((size_t)info.pooled * sizeof *k->text);
    if (!k->text) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    sg_progress_say(w->progress, "CLIP scores %d clip%s on %s (%s)", k->due, sg_plural(k->due), info.device, info.text);
    sg_status status = SG_OK;
    for (const sg_eval_clip *c = r->clip; status == SG_OK && c < r->clip + r->count; c++)
        if (is_due(c) && is_ours(w, c)) status = score(k, c, e);
    sg_progress_clear(w->progress);
    say_long(k);
    return status;
}

sg_status sg_eval_similarity_make(sg_eval_scoring *w, sg_error *e)
{
    sg_eval_results r = {0};
    work            k = {.w = w, .prompt = -1};
    sg_status       status = sg_eval_results_open(&r, w->folder, e);
    w->scored = w->failed = w->left = 0;
    for (const sg_eval_clip *c = r.clip; status == SG_OK && c < r.clip + r.count; c++) {
        k.due += is_due(c) && is_ours(w, c);
        w->left += is_due(c) && !is_ours(w, c);
    }
    if (status == SG_OK && k.due) status = score_all(&k, &r, e);
    sg_clip_model_close(&k.model);
    free(k.text);
    sg_eval_results_close(&r);
    return status;
}

sg_status sg_eval_similarity_status(const sg_eval_scoring *w, sg_error *e)
{
    if (!w->failed) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: %d clip%s could not be scored; the same command tries again; the first: %s", w->folder,
                        w->failed, sg_plural(w->failed), w->first.text);
}

/* ---- the commands ---- */

sg_status sg_eval_similarity_check(json_t **out, const sg_settings *s, sg_error *e)
{
    char           room[PATH_MAX], hash[17];
    sg_clip_model *m = NULL;
    SG_TRY(sg_setup_clip(&m, s, s->threads, e));
    snprintf(hash, sizeof hash, "%016" PRIx64, sg_clip_model_describe(m).hash);
    *out = json_pack("{s:o, s:s}", "name", sg_report_name(sg_setup_own_name(room, s->clip)), "hash", hash);
    sg_clip_model_close(&m);
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "--clip: out of memory");
}

static sg_status merge(const sg_settings *s, sg_eval_scoring *w, json_t *clip, sg_error *e)
{
    SG_TRY(sg_eval_manifest_add_clip(s->merge, clip, s->clip, e));
    SG_TRY(sg_eval_log_open(w->log, s->merge, &w->rank, e));
    SG_TRY(sg_eval_similarity_make(w, e));
    SG_TRY(sg_eval_report_say(s->merge, w->progress, e));
    return sg_eval_similarity_status(w, e);
}

sg_status sg_eval_similarity_merge(const sg_settings *s, sg_error *e)
{
    sg_progress     p;
    sg_eval_log     log = {.fd = -1};
    sg_eval_scoring w = {.settings = s,
                         .folder = s->merge,
                         .log = &log,
                         .rank = {.size = 1},
                         .per_prompt = 1,
                         .threads = s->threads,
                         .progress = &p};
    json_t         *clip = NULL;
    sg_progress_init(&p, s->quiet);
    SG_TRY(sg_eval_similarity_check(&clip, s, e));
    const sg_status status = merge(s, &w, clip, e);
    sg_eval_log_close(&log);
    json_decref(clip);
    return status;
}
