/* report.c - see report.h. */
#include "report.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/utf8.h"
#include "json_input.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sg_status packed(json_t **out, json_t *value, const char *what, sg_error *e)
{
    *out = value;
    return value ? SG_OK : sg_error_set(e, SG_E_MEMORY, "%s: cannot be put into JSON", what);
}

json_t *sg_report_if_complete(json_t *j, bool whole)
{
    if (whole) return j;
    json_decref(j);
    return NULL;
}

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

static json_t *phase(const sg_phase_plan *p)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "weight_bytes", (json_int_t)p->weights, "mapped_bytes",
                     (json_int_t)p->mapped, "packed_bytes", (json_int_t)p->packed, "host_bytes", (json_int_t)p->host,
                     "work_bytes", (json_int_t)p->work, "peak_bytes", (json_int_t)p->peak, "flops", p->flops);
}

json_t *sg_report_number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

/* Under its name; the second text encoder's is "text_2". */
static bool set_phase(json_t *j, const sg_phase_plan *p)
{
    char key[SG_PHASE_NAME + 16];
    snprintf(key, sizeof key, p->number > 1 ? "%s_%d" : "%s", p->name, p->number);
    return json_object_set_new(j, key, phase(p)) == 0;
}

sg_status sg_report_plan(json_t **out, const sg_plan *p, sg_error *e)
{
    json_t *const j = json_object();
    json_t *const rest =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:[I,I,I,I], s:I}", "base_bytes", (json_int_t)p->base,
                  "input_bytes", (json_int_t)p->input, "output_bytes", (json_int_t)p->output, "preview_bytes",
                  (json_int_t)p->preview, "staging_bytes", (json_int_t)p->staging, "peak_bytes", (json_int_t)p->peak,
                  "need_bytes", (json_int_t)p->need, "available_bytes", (json_int_t)p->available, "host_bytes",
                  (json_int_t)p->host, "latent", (json_int_t)p->latent[0], (json_int_t)p->latent[1],
                  (json_int_t)p->latent[2], (json_int_t)p->latent[3], "tokens", (json_int_t)p->tokens);
    bool whole = j && rest;
    for (int i = 0; whole && i < p->phases; i++) whole = set_phase(j, &p->phase[i]);
    whole = whole && json_object_update(j, rest) == 0;
    json_decref(rest);
    return packed(out, sg_report_if_complete(j, whole), "plan", e);
}

static json_t *seconds(const sg_report *r)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "load", r->seconds[SG_STAGE_LOAD], "text",
                     r->seconds[SG_STAGE_TEXT], "encode", r->seconds[SG_STAGE_ENCODE], "denoise",
                     r->seconds[SG_STAGE_DENOISE], "decode", r->seconds[SG_STAGE_DECODE], "total", r->total_seconds);
}

/* Bytes, the most from the start of the process to the end of each stage. */
static json_t *stage_peaks(const sg_report *r)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "load", (json_int_t)r->stage_peak[SG_STAGE_LOAD], "text",
                     (json_int_t)r->stage_peak[SG_STAGE_TEXT], "encode", (json_int_t)r->stage_peak[SG_STAGE_ENCODE],
                     "denoise", (json_int_t)r->stage_peak[SG_STAGE_DENOISE], "decode",
                     (json_int_t)r->stage_peak[SG_STAGE_DECODE]);
}

sg_status sg_report_save(const char *path, const json_t *j, sg_error *e)
{
    char *const  text = sg_json_text(j, JSON_INDENT(2) | SG_REPORT_DIGITS);
    const size_t n = text ? strlen(text) : 0;
    if (!text) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    text[n] = '\n'; /* in place of its NUL */
    const sg_status status = sg_output_file_save(path, text, n + 1, e);
    free(text);
    return status;
}

static json_t *render_json(json_t *settings, const char *clip, const sg_report *r, json_t *plan)
{
    return json_pack("{s:O, s:o, s:s, s:s, s:I, s:i, s:i, s:I, s:o, s:i, s:f, s:I, s:o, s:I, s:o}", "settings",
                     settings, "output", sg_report_name(clip), "device", r->device, "dtype", r->dtype, "seed",
                     (json_int_t)r->seed, "prompt_tokens", r->prompt_tokens, "negative_tokens", r->negative_tokens,
                     "tokens", (json_int_t)r->plan.tokens, "seconds", seconds(r), "steps", r->steps_done,
                     "seconds_per_step", r->steps_done ? r->seconds[SG_STAGE_DENOISE] / r->steps_done : 0.0,
                     "peak_bytes", (json_int_t)r->peak_bytes, "stage_peak_bytes", stage_peaks(r), "held_bytes",
                     (json_int_t)r->held_bytes, "plan", plan);
}

json_t *sg_report_skipped_steps(const sg_report *r)
{
    json_t *const j = json_array();
    bool          whole = j;
    for (int i = 0; whole && i < r->steps_done; i++)
        if (r->skipped[i]) whole = json_array_append_new(j, json_integer(i)) == 0;
    return sg_report_if_complete(j, whole);
}

/* With a cache: the steps that it skipped; of --cache shadow their errors, too. */
static bool add_cache(json_t *j, const json_t *settings, const sg_report *r)
{
    const char *const name = json_string_value(json_object_get(settings, "cache"));
    if (!name) return true;
    json_t *const cache = json_pack("{s:o}", "skipped_steps", sg_report_skipped_steps(r));
    bool          whole = json_object_set_new(j, "cache", cache) == 0;
    if (strcmp(name, sg_cache_names[SG_CACHE_SHADOW]) != 0) return whole;
    json_t *const errors = json_array();
    for (int i = 0; i < r->steps_done; i++)
        if (r->skipped[i]) whole = json_array_append_new(errors, json_real((double)r->skip_error[i])) == 0 && whole;
    whole = json_object_set_new(cache, "errors", errors) == 0 && whole;
    return json_object_set_new(cache, "latent_error", json_real(r->latent_error)) == 0 && whole;
}

/* Tokens that the text encoder did not read, where there are some. */
static bool add_cut(json_t *j, const sg_report *r)
{
    static const char *const name[] = {"prompt_tokens_cut", "negative_tokens_cut"};
    bool                     whole = true;
    for (int i = 0; i < 2; i++)
        if (r->plan.cut[i]) whole = json_object_set_new(j, name[i], json_integer(r->plan.cut[i])) == 0 && whole;
    return whole;
}

sg_status sg_report_write(const char *path, json_t *settings, const char *clip, const sg_report *r, json_t *attention,
                          sg_error *e)
{
    json_t   *plan = NULL, *j = NULL;
    sg_status status = sg_report_plan(&plan, &r->plan, e);
    if (status == SG_OK) status = packed(&j, render_json(settings, clip, r, plan), "report", e);
    if (status == SG_OK && !(add_cut(j, r) && add_cache(j, settings, r)))
        status = sg_error_set(e, SG_E_MEMORY, "--json: out of memory");
    if (status == SG_OK && attention && json_object_set(j, "attention", attention) != 0)
        status = sg_error_set(e, SG_E_MEMORY, "--json: out of memory");
    if (status == SG_OK) status = sg_report_save(path, j, e);
    json_decref(j);
    json_decref(attention);
    return status;
}
