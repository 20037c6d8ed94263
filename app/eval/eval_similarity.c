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
#include "json_build.h"
#include "setup.h"

#include <stdlib.h>
#include <string.h>

/* At work. */
typedef struct work {
    sg_eval        *v;
    sg_eval_scored *out;
    sg_clip_model  *model;
    float          *text;          /* row of the prompt at work; owned */
    int             prompt;        /* that; -1: none */
    int             cut;           /* its tokens that were not read */
    int             long_texts;    /* prompts with such */
    int             first_long[2]; /* the first of them: its number, and how many tokens */
    int             due;
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
        status = sg_interrupt_check(e);
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
    SG_TRY(sg_path_join(path, sizeof path, k->v->folder, c->file, e));
    SG_TRY(read_text(k, c, e));
    const sg_status status = watch(&g, path, e);
    if (status == SG_OK) *out = sg_clip_similarity_total(&g);
    sg_clip_similarity_close(&g);
    return status;
}

static sg_status log_scores(const work *k, const sg_eval_clip *c, const sg_similarity_totals *s, sg_error *e)
{
    json_t *line = sg_eval_line(c->name, c->arm, c->prompt, c->clip, "scored", c->text);
    sg_json_join(&line, sg_report_similarity(s));
    sg_json_set(&line, "cut_tokens", json_integer(k->cut));
    return sg_eval_log_add(&k->v->log, line, e);
}

static bool ends_the_run(sg_status s) { return s == SG_E_DEVICE || s == SG_E_CANCELLED || s == SG_E_MEMORY; }

static sg_status score(work *k, const sg_eval_clip *c, sg_error *e)
{
    sg_eval_scored *const out = k->out;
    sg_similarity_totals  s;
    sg_error              why = {0};
    sg_progress_row(k->v->progress, "CLIP: %d/%d clips: %.40s", out->scored + out->failed, k->due, c->name);
    const sg_status status = measure(k, c, &s, &why);
    if (status == SG_OK) {
        out->scored++;
        return log_scores(k, c, &s, e);
    }
    if (ends_the_run(status)) return sg_error_copy(e, &why);
    if (!out->failed++) out->first = why;
    sg_progress_say(k->v->progress, "failed: CLIP: %s", why.text);
    return SG_OK;
}

/* ---- all ---- */

static bool is_due(const sg_eval_clip *c) { return c->done && !c->scored; }

static void say_long(const work *k)
{
    if (k->long_texts)
        sg_progress_say(
            k->v->progress,
            "--clip: %d prompt%s more tokens than the %d that CLIP reads; of prompt %d it does not read the "
            "last %d",
            k->long_texts, k->long_texts == 1 ? " has" : "s have", sg_clip_model_tokens(k->model), k->first_long[0] + 1,
            k->first_long[1]);
}

static sg_status score_all(work *k, const sg_eval_results *r, sg_error *e)
{
    sg_progress *const p = k->v->progress;
    SG_TRY(sg_setup_clip(&k->model, k->v->settings, k->v->session->threads, e));
    k->text = malloc((size_t)sg_clip_model_size(k->model) * sizeof *k->text);
    if (!k->text) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    sg_progress_say(p, "CLIP scores %d clip%s on %s", k->due, sg_plural(k->due), sg_clip_model_describe(k->model));
    sg_status status = SG_OK;
    for (const sg_eval_clip *c = r->clip; status == SG_OK && c < r->clip + r->count; c++)
        if (is_due(c) && sg_eval_takes(k->v, c->prompt, c->clip)) status = score(k, c, e);
    sg_progress_clear(p);
    say_long(k);
    return status;
}

sg_status sg_eval_similarity_make(sg_eval *v, sg_eval_scored *out, sg_error *e)
{
    sg_eval_results r = {0};
    work            k = {.v = v, .out = out, .prompt = -1};
    sg_status       status = sg_eval_results_open(&r, v->folder, e);
    *out = (sg_eval_scored){0};
    for (const sg_eval_clip *c = r.clip; status == SG_OK && c < r.clip + r.count; c++)
        if (is_due(c)) ++*(sg_eval_takes(v, c->prompt, c->clip) ? &k.due : &out->left);
    if (status == SG_OK && k.due) status = score_all(&k, &r, e);
    sg_clip_model_close(&k.model);
    free(k.text);
    sg_eval_results_close(&r);
    return status;
}

sg_status sg_eval_similarity_status(const sg_eval *v, const sg_eval_scored *s, sg_error *e)
{
    if (!s->failed) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT,
                        "%s: %d clip%s could not be scored; the same command tries again; the first: %s", v->folder,
                        s->failed, sg_plural(s->failed), s->first.text);
}

/* ---- the commands ---- */

sg_status sg_eval_similarity_check(json_t **out, const sg_settings *s, sg_error *e)
{
    char           room[PATH_MAX];
    sg_clip_model *m = NULL;
    SG_TRY(sg_setup_clip(&m, s, s->threads, e));
    *out = json_pack("{s:o, s:o}", "name", sg_report_name(sg_setup_own_name(room, s->clip)), "hash",
                     sg_report_hash(sg_clip_model_hash(m)));
    sg_clip_model_close(&m);
    return *out ? SG_OK : sg_error_memory(e, "--clip");
}

sg_status sg_eval_similarity_merge(sg_eval *v, sg_error *e)
{
    const sg_settings *const s = v->settings;
    sg_eval_scored           scored;
    v->rank.size = 1;
    v->session->threads = s->threads;
    v->folder = strdup(s->merge);
    if (!v->folder) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    sg_progress_init(v->progress, s->quiet);
    SG_TRY(sg_eval_similarity_check(&v->clip, s, e));
    SG_TRY(sg_eval_manifest_add_clip(v->folder, v->clip, s->clip, e));
    SG_TRY(sg_eval_log_open(&v->log, v->folder, &v->rank, e));
    SG_TRY(sg_eval_similarity_make(v, &scored, e));
    SG_TRY(sg_eval_report(v->folder, v->progress, e));
    return sg_eval_similarity_status(v, &scored, e);
}
