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

/* 15 digits are what a double keeps of any decimal number, so 0.1 is written as 0.1. */
#define FORMAT (JSON_REAL_PRECISION(15))

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

/* Latents bring their picture along: what their file tells of it still holds, if it tells anything. */
static json_t *decoding(const sg_request *r, const char *note)
{
    json_t *const now = json_pack("{s:o, s:i, s:i, s:i, s:i}", "latents", sg_report_name(r->latents_in), "width",
                                  r->width, "height", r->height, "frames", r->frames, "fps", r->fps);
    json_t *const made = note ? json_loads(note, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (!json_is_object(made) || !now || json_object_update(made, now) != 0) {
        json_decref(made);
        return now;
    }
    json_decref(now);
    return made;
}

const char *sg_report_sigmas(char *text, size_t size, const sg_sigmas *s)
{
    size_t n = 0;
    *text = '\0';
    for (int i = 0; i < s->count && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%.15g", i ? "," : "", s->at[i]);
    return text;
}

static void add_skipping(json_t *j, const sg_request *r)
{
    json_object_set_new(j, "slg_scale", json_real(r->slg_scale));
    json_object_set_new(j, "skip_layers", json_string(r->skip_layers));
    json_object_set_new(j, "skip_layer_start", json_real(r->skip_layer_start));
    json_object_set_new(j, "skip_layer_end", json_real(r->skip_layer_end));
}

static json_t *rendering(const sg_request *r)
{
    json_t *j =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s, s:s, s:I}", "prompt", r->prompt ? r->prompt : "",
                  "negative_prompt", r->negative_prompt ? r->negative_prompt : "", "width", r->width, "height",
                  r->height, "frames", r->frames, "fps", r->fps, "steps", r->steps, "cfg_scale", r->cfg_scale,
                  "flow_shift", r->flow_shift, "sampler", sg_sampler_names[r->sampler], "sched_compat",
                  r->sigmas_old ? "old" : "new", "seed", (json_int_t)r->seed);
    if (j && r->flow_shift == 0) json_object_del(j, "flow_shift"); /* the picture's tokens tell it again */
    if (j && r->cfg_scale_2 >= 0) json_object_set_new(j, "cfg_scale_2", json_real(r->cfg_scale_2));
    if (j && r->guidance > 0) json_object_set_new(j, "guidance", json_real(r->guidance));
    if (j && r->dynamic_cfg) json_object_set_new(j, "dynamic_cfg", json_true());
    if (j && r->slg_scale > 0) add_skipping(j, r);
    if (j && r->sigmas.count)
        json_object_set_new(j, "sigmas",
                            json_string(sg_report_sigmas((char[SG_SIGMAS_TEXT]){0}, SG_SIGMAS_TEXT, &r->sigmas)));
    if (j && r->vae_tiling == SG_TILING_ON)
        json_object_set_new(j, "vae_tiling", json_string(sg_tiling_names[r->vae_tiling]));
    if (j && r->cache) json_object_set_new(j, "cache", json_string(sg_cache_names[r->cache]));
    if (j && sg_request_cache_threshold(r) > 0)
        json_object_set_new(j, "cache_threshold", json_real(r->cache_threshold));
    return j;
}

/* By their own names, as the model is; a denoiser that is the model already has been named. */
static bool add_parts(json_t *j, const sg_model_path *model)
{
    const sg_model_parts *const p = &model->parts;
    const char *const           parts[][2] = {{"diffusion_model", p->diffusion_model},
                                              {"high_noise_diffusion_model", p->high_noise_diffusion_model},
                                              {"vae", p->vae},
                                              {"text_encoder", p->text_encoder},
                                              {"clip_vision", p->clip_vision},
                                              {"tokenizer", p->tokenizer},
                                              {"clip_l", p->clip_l},
                                              {"clip_g", p->clip_g},
                                              {"clip_tokenizer", p->clip_tokenizer}};
    bool                        whole = true;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i][1] && strcmp(parts[i][1], model->dir) != 0)
            whole = json_object_set_new(j, parts[i][0], sg_report_name(sg_path_name(parts[i][1]))) == 0 && whole;
    return whole;
}

/* The LoRAs of the high-noise expert, or the others, by their names and hashes; NULL: out of memory. */
static json_t *loras(const sg_model_info *info, bool high_noise)
{
    json_t *const j = json_array();
    bool          whole = j;
    for (int i = 0; whole && i < info->loras; i++) {
        const sg_lora_info *const l = &info->lora[i];
        char                      hash[17];
        snprintf(hash, sizeof hash, "%016" PRIx64, l->hash);
        if ((l->denoisers == 1) != high_noise) continue;
        json_t *const one =
            json_pack("{s:o, s:f, s:s}", "file", sg_report_name(l->name), "strength", l->strength, "hash", hash);
        whole = one && (!l->fast || json_object_set_new(one, "fast", json_true()) == 0);
        whole = json_array_append_new(j, one) == 0 && whole;
    }
    return sg_report_if_complete(j, whole);
}

static bool add_loras(json_t *settings, const sg_model_info *info)
{
    static const char *const keys[] = {"lora", "high_noise_lora"};
    for (int k = 0; k < 2; k++) {
        json_t *const j = loras(info, k == 1);
        if (!j || (json_array_size(j) && json_object_set(settings, keys[k], j) != 0)) {
            json_decref(j);
            return false;
        }
        json_decref(j);
    }
    return true;
}

sg_status sg_report_settings(json_t **out, const sg_request *r, const char *note, const sg_model_path *model,
                             const sg_model_info *info, sg_error *e)
{
    json_t *j = json_pack("{s:s, s:o}", "program", "sparge-gen " SG_VERSION, "model", sg_report_name(model->name));
    json_t *made = r->latents_in ? decoding(r, note) : rendering(r);
    bool    whole = j && made && json_object_update(j, made) == 0;
    whole = whole && add_parts(j, model);
    whole = whole && json_object_set_new(j, "dtype", json_string(info->dtype)) == 0 &&
            json_object_set_new(j, "device", json_string(info->device)) == 0;
    whole = whole && (r->latents_in || add_loras(j, info));
    if (whole && !info->frames.step) { /* of images only */
        json_object_del(j, "frames");
        json_object_del(j, "fps");
    }
    json_decref(made);
    return packed(out, sg_report_if_complete(j, whole), "settings", e);
}

/* A file by its name and hash, under a key. */
static bool set_file(json_t *settings, const char *key, const char *path, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_t *const one = json_pack("{s:o, s:s}", "file", sg_report_name(sg_path_name(path)), "hash", text);
    return one && json_object_set_new(settings, key, one) == 0;
}

sg_status sg_report_add_inputs(json_t *settings, const sg_pictures *p, const sg_video_input *v, const sg_request *r,
                               sg_error *e)
{
    bool whole = true, any = v->path;
    for (int i = 0; i < SG_IMAGES; i++) {
        if (!p->path[i]) continue;
        any = true;
        whole = set_file(settings, sg_picture_keys[i], p->path[i], p->hash[i]) && whole;
    }
    if (v->path) whole = set_file(settings, "video", v->path, v->hash) && whole;
    if (sg_request_start(r)) whole = json_object_set_new(settings, "strength", json_real(r->strength)) == 0 && whole;
    whole = whole && (!any || json_object_set_new(settings, "fit", json_string(p->fit)) == 0);
    return whole ? SG_OK : sg_error_set(e, SG_E_MEMORY, "settings: cannot be put into JSON");
}

sg_status sg_report_text(char **out, const json_t *settings, sg_error *e)
{
    *out = sg_json_text(settings, JSON_COMPACT | FORMAT);
    return *out ? SG_OK : sg_error_set(e, SG_E_MEMORY, "settings: cannot be put into JSON");
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
    char *const  text = sg_json_text(j, JSON_INDENT(2) | FORMAT);
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
