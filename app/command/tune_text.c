/* tune_text.c - `sparge-gen tune --text`: a language model reads the beginning of a text, and is looked at. */
#include "base/clock.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/path.h"
#include "interrupt.h"
#include "json_build.h"
#include "language.h"
#include "notices.h"
#include "report.h"
#include "resolve.h"
#include "tune_result.h"

#include <stdlib.h>

enum { TOKENS = 8192, MOST_BYTES = 1 << 26 };

typedef struct reading {
    sg_tune_result      *result;
    const sg_settings   *settings;
    const sg_model_path *model;
    const char          *path;
    sg_progress          progress;
    sg_rendering         now; /* with the policy that thresholds are for */
    sg_language         *language;
    int32_t             *ids;
    int64_t              n; /* tokens that are read */
} reading;

static bool on_progress(void *context, int64_t done, int64_t tokens)
{
    reading *const r = context;
    sg_progress_row(&r->progress, "%lld of %lld tokens", (long long)done, (long long)tokens);
    return sg_interrupt_asked();
}

/* With room for as many tokens as the text may have, or as are asked for. */
static sg_status open_language(reading *r, size_t bytes, sg_error *e)
{
    const sg_settings *const s = r->settings;
    sg_engine_options        b;
    SG_TRY(sg_setup_options(&b, NULL, s, e));
    const sg_language_options o = {.backend = b.backend,
                                   .threads = b.threads,
                                   .device = b.device,
                                   .cpu_mask = b.cpu_mask,
                                   .gpu_mask = b.gpu_mask,
                                   .dtype = s->dtype,
                                   .tokens = sg_min64(s->length ? s->length : TOKENS, (int64_t)bytes + 1),
                                   .cap = !s->length,
                                   .memory_limit = s->memory_limit};
    return sg_language_open(&r->language, r->model->dir, &o, e);
}

static sg_status read_text(reading *r, sg_error *e)
{
    const char *const path = r->settings->text;
    sg_map            text = {0};
    SG_TRY(sg_map_open_most(&text, path, MOST_BYTES, e));
    sg_status status = open_language(r, text.size, e);
    if (status == SG_OK)
        status = sg_error_in(
            e, sg_language_encode(r->language, (const char *)text.data, text.size, true, &r->ids, &r->n, e), path);
    sg_map_close(&text);
    SG_TRY(status);
    r->n = sg_min64(r->n, sg_language_describe(r->language).tokens);
    if (r->n >= SG_NAMED_TOKENS) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: %lld token%s: no blocks are skipped below %d", path, (long long)r->n,
                        sg_plural(r->n), SG_NAMED_TOKENS);
}

static sg_status look(reading *r, sg_error *e)
{
    const sg_language_progress progress = {on_progress, r};
    r->now.request.attention = sg_language_default();
    SG_TRY(sg_resolve_attention(&r->now, e));
    SG_TRY(sg_tune_result_open(r->result, r->settings, &r->now.request.attention, e));
    const sg_attention_watch watch = sg_tune_result_watch(r->result);
    sg_language_watch(r->language, &watch);
    const double    start = sg_seconds();
    const sg_status status = sg_language_append(r->language, r->ids, r->n, NULL, NULL, &progress, e);
    sg_progress_clear(&r->progress);
    r->result->seconds = sg_seconds() - start;
    SG_TRY(status);
    return sg_tune_result_choose(r->result, e);
}

static sg_status write_report(const reading *r, sg_error *e)
{
    json_t *all =
        json_pack("{s:o, s:o, s:o, s:I}", "model", sg_report_name(r->model->name), "output", sg_report_name(r->path),
                  "text", sg_report_name(sg_path_name(r->settings->text)), "tokens", (json_int_t)r->n);
    sg_json_join(&all, sg_tune_result_json(r->result));
    return sg_report_take(r->settings->json, sg_report_envelope(SG_COMMAND_TUNE, all), e);
}

static sg_status write_all(reading *r, bool dated, sg_error *e)
{
    const char *const  json = r->settings->json;
    const sg_session   session = {.asked = r->settings};
    sg_thresholds_file f = {0};
    sg_tune_result_fill(r->result, &r->now.request.attention, &f);
    const sg_status status = sg_tune_result_write(&f, r->path, dated, e);
    f.values = (sg_thresholds){0}; /* are not the file's to free */
    sg_thresholds_free(&f);
    SG_TRY(status);
    if (json) SG_TRY(write_report(r, e));
    if (!r->settings->quiet && !sg_output_is_stdout(r->path) && (!json || !sg_output_is_stdout(json)))
        sg_tune_result_print(r->result);
    sg_notice_file(&session, r->path);
    sg_tune_result_say(r->result, &r->progress, r->path);
    return SG_OK;
}

sg_status sg_tune_text(sg_tune_result *result, const sg_settings *s, const sg_model_path *model, const char *path,
                       bool dated, sg_error *e)
{
    reading r = {.result = result, .settings = s, .model = model, .path = path, .now.settings = *s};
    sg_progress_init(&r.progress, s->quiet);
    sg_status status = read_text(&r, e);
    if (status == SG_OK) status = look(&r, e);
    if (status == SG_OK) status = write_all(&r, dated, e);
    sg_progress_end(&r.progress);
    sg_language_close(&r.language);
    free(r.ids);
    return status;
}
