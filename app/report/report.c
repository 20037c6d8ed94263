/* report.c - see report.h. */
#include "report.h"
#include "base/json_input.h"
#include "base/utf8.h"
#include "command_table.h"
#include "json_build.h"
#include "output_options.h"
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *sg_report_name(const char *name)
{
    size_t bad;
    if (sg_utf8_check(name, strlen(name), &bad)) return json_string(name);
    char *legible = strdup(name);
    for (char *p = legible; p && *p; p++)
        if (*p & 0x80) *p = '?';
    json_t *j = json_string(legible);
    free(legible);
    return j;
}

json_t *sg_report_envelope(sg_command c, json_t *own)
{
    const sg_command_row *const row = sg_command_row_of(c);
    json_t *j = json_pack("{s:s, s:i, s:s}", "format", SG_REPORT_FORMAT, "version", row->version, "command",
                          *row->name ? row->name : "render");
    sg_json_join(&j, own);
    return j;
}

json_t *sg_report_hash(uint64_t hash) { return json_sprintf("%016" PRIx64, hash); }

json_t *sg_report_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

json_t *sg_report_interval(const sg_interval *v)
{
    return json_pack("{s:o, s:o, s:o}", "mean", sg_report_number(v->mean), "low", sg_report_number(v->low), "high",
                     sg_report_number(v->high));
}

json_t *sg_report_summary(const sg_summary *s)
{
    return json_pack("{s:o, s:o, s:o}", "mean", sg_report_number(s->mean), "minimum", sg_report_number(s->minimum),
                     "p5", sg_report_number(s->p5));
}

json_t *sg_report_similarity(const sg_similarity_totals *s)
{
    return json_pack("{s:o, s:o, s:o}", "clipsim", sg_report_number(s->clipsim), "clip_t", sg_report_number(s->clip_t),
                     "clip_score", sg_report_number(s->clip_score));
}

/* Each phase is under its name; the second text encoder's is "text_2". */
json_t *sg_report_plan(const sg_plan *p)
{
    json_t *j = json_object();
    for (const sg_phase_plan *k = p->phase; k < p->phase + p->phases; k++) {
        char key[SG_PHASE_NAME + 16];
        snprintf(key, sizeof key, k->number > 1 ? "%s_%d" : "%s", k->name, k->number);
        sg_json_set(&j, key,
                    json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "weight_bytes", (json_int_t)k->weights,
                              "mapped_bytes", (json_int_t)k->mapped, "packed_bytes", (json_int_t)k->packed,
                              "host_bytes", (json_int_t)k->host, "blocks_on_host", (json_int_t)k->blocks_on_host,
                              "work_bytes", (json_int_t)k->work, "peak_bytes", (json_int_t)k->peak, "flops", k->flops));
    }
    sg_json_join(&j, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[I,I,I,I], s:I, s:I}", "base_bytes",
                               (json_int_t)p->base, "input_bytes", (json_int_t)p->input, "output_bytes",
                               (json_int_t)p->output, "preview_bytes", (json_int_t)p->preview, "staging_bytes",
                               (json_int_t)p->staging, "peak_bytes", (json_int_t)p->peak, "need_bytes",
                               (json_int_t)p->need, "available_bytes", (json_int_t)p->available, "host_bytes",
                               (json_int_t)p->host, "latent", (json_int_t)p->latent[0], (json_int_t)p->latent[1],
                               (json_int_t)p->latent[2], (json_int_t)p->latent[3], "tokens", (json_int_t)p->tokens,
                               "tokens_at_once", (json_int_t)p->rows_at_once));
    return j;
}

json_t *sg_report_seconds(const sg_report *r)
{
    json_t *j = json_pack("{s:f}", "total", r->total_seconds);
    for (int i = 0; i < SG_STAGES; i++) sg_json_set(&j, sg_names("stage")[i], json_real(r->seconds[i]));
    return j;
}

/* Bytes are the most from the start of the process to the end of each stage. */
static void add_stages(json_t **j, const sg_report *r)
{
    json_t *bytes = json_object();
    for (int i = 0; i < SG_STAGES; i++)
        sg_json_set(&bytes, sg_names("stage")[i], json_integer((json_int_t)r->stage_peak[i]));
    sg_json_set(j, "seconds", sg_report_seconds(r));
    sg_json_set(j, "stage_peak_bytes", bytes);
}

sg_status sg_report_save(const char *path, const json_t *j, sg_error *e)
{
    char *const  text = sg_json_text(j, JSON_INDENT(2) | SG_REPORT_DIGITS);
    const size_t n = text ? strlen(text) : 0;
    if (!text) return sg_error_memory(e, path);
    text[n] = '\n'; /* in place of its NUL */
    sg_output_file *f = NULL;
    sg_status       status = sg_output_options_open(&f, path, e);
    if (status == SG_OK) status = sg_output_file_write(f, text, n + 1, e);
    if (status == SG_OK) status = sg_output_file_publish(&f, e);
    sg_output_file_discard(&f);
    free(text);
    return status;
}

sg_status sg_report_take(const char *path, json_t *j, sg_error *e)
{
    const sg_status status = j ? sg_report_save(path, j, e) : sg_error_memory(e, path);
    json_decref(j);
    return status;
}

json_t *sg_report_skipped_steps(const sg_report *r)
{
    json_t *j = json_array();
    for (int i = 0; i < r->steps_done; i++)
        if (r->skipped[i]) sg_json_append(&j, json_integer(i));
    return j;
}

/* With a cache: the steps that it skipped; of --cache shadow their errors, too. */
static void add_cache(json_t **j, const char *name, const sg_report *r)
{
    json_t *cache = json_pack("{s:o}", "skipped_steps", sg_report_skipped_steps(r));
    if (strcmp(name, sg_names("cache")[SG_CACHE_SHADOW]) == 0) {
        json_t *errors = json_array();
        for (int i = 0; i < r->steps_done; i++)
            if (r->skipped[i]) sg_json_append(&errors, json_real((double)r->skip_error[i]));
        sg_json_join(&cache, json_pack("{s:o, s:f}", "errors", errors, "latent_error", r->latent_error));
    }
    sg_json_set(j, "cache", cache);
}

json_t *sg_report_render(json_t *settings, const char *clip, const sg_report *r)
{
    json_t *j =
        json_pack("{s:o, s:o, s:s, s:s, s:I, s:i, s:i, s:I, s:i, s:f, s:I, s:I, s:o}", "settings", settings, "output",
                  sg_report_name(clip), "device", r->device, "dtype", r->dtype, "seed", (json_int_t)r->seed,
                  "prompt_tokens", r->prompt_tokens, "negative_tokens", r->negative_tokens, "tokens",
                  (json_int_t)r->plan.tokens, "steps", r->steps_done, "seconds_per_step",
                  r->steps_done ? r->seconds[SG_STAGE_DENOISE] / r->steps_done : 0.0, "peak_bytes",
                  (json_int_t)r->peak_bytes, "held_bytes", (json_int_t)r->held_bytes, "plan", sg_report_plan(&r->plan));
    add_stages(&j, r);
    const char *const cache = json_string_value(json_object_get(json_object_get(j, "settings"), "cache"));
    /* tokens that the text encoder did not read */
    if (r->plan.cut[0]) sg_json_set(&j, "prompt_tokens_cut", json_integer(r->plan.cut[0]));
    if (r->plan.cut[1]) sg_json_set(&j, "negative_tokens_cut", json_integer(r->plan.cut[1]));
    if (cache && strcmp(cache, sg_names("cache")[SG_CACHE_OFF]) != 0) add_cache(&j, cache, r);
    return sg_report_envelope(SG_COMMAND_RENDER, j);
}
