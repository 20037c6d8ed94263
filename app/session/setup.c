/* setup.c - see setup.h. */
#include "setup.h"
#include "backend.h"
#include "base/number.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "checkpoint.h"
#include "option_rules.h"
#include "rank.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* The model that was installed or unpacked along with the program. */
static bool beside_program(char *out, size_t size)
{
    static const char *const places[] = {"../share/sparge-gen/tiny-wan", "../../share/sparge-gen/tiny-wan",
                                         "../weights/tiny-wan"};
    char                     program[PATH_MAX];
    /* not /proc/self/exe: a chroot may lack /proc */
    if (!realpath((const char *)getauxval(AT_EXECFN), program)) return false;
    program[sg_path_name(program) - program] = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (sg_path_join(out, size, program, places[i], NULL) == SG_OK && sg_checkpoint_is(out)) return true;
    return false;
}

#define VARIABLE "SPARGE_GEN_MODEL"

/* What a message about the model begins with. */
static const char *who_named(const sg_model_path *m)
{
    return m->from == SG_MODEL_OF_ENVIRONMENT ? "$" VARIABLE : "model";
}

static sg_status find_model(sg_model_path *out, const char *asked, sg_error *e)
{
    const char *const variable = getenv(VARIABLE);
    const char       *dir = asked ? asked : variable && *variable ? variable : NULL;
    out->from = asked ? SG_MODEL_OF_OPTION : dir ? SG_MODEL_OF_ENVIRONMENT : SG_MODEL_BUNDLED;
    if (!dir && beside_program(out->dir, sizeof out->dir)) return SG_OK;
    if (!dir && !sg_checkpoint_is(SG_MODEL_DIR))
        return sg_error_set(e, SG_E_FILE,
                            "no model: neither --model nor $" VARIABLE " names one, and the embedded "
                            "one is not at %s",
                            SG_MODEL_DIR);
    if (!dir) dir = SG_MODEL_DIR;
    if (snprintf(out->dir, sizeof out->dir, "%s", dir) >= (int)sizeof out->dir)
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long: %.80s...", who_named(out), dir);
    return SG_OK;
}

/* ---- LoRAs ---- */

/* FILE, or FILE:STRENGTH where a number is behind the last colon. */
static sg_status read_lora(sg_lora_path *out, const char *text, const char *option, sg_error *e)
{
    enum { MOST_STRENGTH = 100 };
    const char *const colon = strrchr(text, ':');
    const size_t      all = strlen(text);
    size_t            n = all;
    out->strength = 1;
    if (colon && colon > text && sg_number_real(colon + 1, strlen(colon + 1), -DBL_MAX, DBL_MAX, &out->strength))
        n = (size_t)(colon - text);
    if (fabs(out->strength) > MOST_STRENGTH)
        return sg_error_set(e, SG_E_ARG, "--%s: the strength %g is not from -%d to %d", option, out->strength,
                            MOST_STRENGTH, MOST_STRENGTH);
    if (n == 0 || n >= PATH_MAX) return sg_error_set(e, SG_E_ARG, "--%s: '%.80s' is no file", option, text);
    memcpy(out->path, text, n);
    out->path[n] = '\0';
    if (access(out->path, R_OK) != 0)
        return sg_error_set(e, SG_E_FILE, "--%s: %s: cannot be opened: %s", option, out->path, strerror(errno));
    return SG_OK;
}

/* The first denoiser's, then those for the others, which are for all where the first has none of its own. */
static sg_status read_loras(sg_model_path *out, const sg_settings *s, sg_error *e)
{
    const sg_text_list *lists[] = {&s->high_noise_lora, &s->lora};
    const char *const   options[] = {"high-noise-lora", "lora"};
    _Static_assert(SG_LORAS_MAX >= 2 * sizeof lists[0]->item / sizeof *lists[0]->item, "all have room");
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < lists[k]->count; i++) {
            sg_lora_path *const lora = &out->lora[out->loras++];
            SG_TRY(read_lora(lora, lists[k]->item[i], options[k], e));
            lora->denoisers = !s->high_noise_lora.count ? 0 : k == 0 ? 1u : ~1u;
        }
    return SG_OK;
}

/* ---- the model ---- */

sg_status sg_setup_model(sg_model_path *out, const sg_settings *s, sg_error *e)
{
    *out = (sg_model_path){.parts = s->parts};
    SG_TRY(find_model(out, s->model ? s->model : s->parts.diffusion_model, e));
    struct stat st;
    if (stat(out->dir, &st) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: %s: %s", who_named(out), out->dir, strerror(errno));
    char        real[PATH_MAX];
    const char *full = realpath(out->dir, real) ? real : out->dir;
    snprintf(out->name, sizeof out->name, "%.*s", NAME_MAX, sg_path_name(full));
    return read_loras(out, s, e);
}

int sg_setup_place(const char *name, const char *const *list)
{
    int i = 0;
    while (list[i] && strcmp(list[i], name) != 0) i++;
    return i;
}

static sg_offload offload(const char *name)
{
    if (!name || strcmp(name, "auto") == 0) return SG_OFFLOAD_AUTO;
    return strcmp(name, "on") == 0 ? SG_OFFLOAD_ON : SG_OFFLOAD_OFF;
}

/* ---- engine and request ---- */

/* What asks for a GPU by number asks for a GPU. */
static const char *backend_of(const sg_settings *s)
{
    const char *const name = s->backend ? s->backend : "auto";
    return s->device >= 0 && strcmp(name, "auto") == 0 ? "cuda" : name;
}

sg_status sg_setup_options(sg_engine_options *out, const sg_model_path *model, const sg_settings *s, sg_error *e)
{
    const char *const name = backend_of(s);
    sg_rank           rank = {0};
    if (s->device < 0 && (strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0)) SG_TRY(sg_rank_find(&rank, NULL, e));
    *out = (sg_engine_options){.model_dir = model ? model->dir : NULL,
                               .parts = model ? model->parts : (sg_model_parts){0},
                               .backend = name,
                               .dtype = s->dtype ? s->dtype : "auto",
                               .threads = s->threads,
                               .cpu_mask = s->cpumask ? sg_cpu_mask_of(s->cpumask) : 0,
                               .gpu_mask = s->gpumask ? sg_gpu_mask_of(s->gpumask) : 0,
                               .device = s->device > 0 ? s->device : 0,
                               .local_rank = rank.local_rank,
                               .memory_limit = s->memory_limit,
                               .fast = s->fast,
                               .offload = offload(s->offload),
                               .preview_decoder = s->preview_decoder};
    for (out->loras = 0; model && out->loras < model->loras; out->loras++) {
        const sg_lora_path *const lora = &model->lora[out->loras];
        out->lora[out->loras] = (sg_lora_option){lora->path, lora->strength, lora->denoisers};
    }
    return SG_OK;
}

sg_status sg_setup_engine(sg_engine **out, const sg_model_path *model, const sg_settings *s, bool check, sg_error *e)
{
    sg_engine_options o;
    SG_TRY(sg_setup_options(&o, model, s, e));
    o.check = check;
    return sg_setup_engine_as(out, model, &o, e);
}

/* Of a model that the environment names, who reads of a wrong path would else look for it on the command line. */
sg_status sg_setup_engine_as(sg_engine **out, const sg_model_path *model, const sg_engine_options *o, sg_error *e)
{
    sg_error        why = {0};
    const sg_status status = sg_engine_open(out, o, &why);
    if (status == SG_OK) return SG_OK;
    if (model->from == SG_MODEL_OF_ENVIRONMENT && strncmp(why.text, model->dir, strlen(model->dir)) == 0)
        return sg_error_set(e, status, "%s: %s", who_named(model), why.text);
    return sg_error_set(e, status, "%s", why.text);
}

sg_status sg_setup_clip(sg_clip_model **out, const sg_settings *s, int threads, sg_error *e)
{
    sg_engine_options o;
    sg_error          why = {0};
    SG_TRY(sg_setup_options(&o, NULL, s, e));
    o.threads = threads;
    const sg_status status = sg_clip_model_open(out, s->clip, &o, &why);
    return status == SG_OK ? SG_OK : sg_error_set(e, status, "--clip: %s", why.text);
}

/* The nearest count that the model makes; the larger of two as near. */
static int frames_of(const sg_engine *engine, double seconds, int fps)
{
    const double asked = fmin(fmax(seconds * fps, 1), 1 << 24);
    int          low = (int)asked, high = low + 1;
    sg_engine_nearest_size(engine, NULL, NULL, &low);
    sg_engine_nearest_size(engine, NULL, NULL, &high);
    return fabs(asked - low) < fabs(high - asked) ? low : high;
}

/* 32 bits are enough to tell noises apart, and short enough to type. */
static sg_status draw_seed(uint64_t *out, sg_error *e)
{
    uint32_t v;
    if (getrandom(&v, sizeof v, 0) != sizeof v)
        return sg_error_set(e, SG_E_DEVICE, "--seed: the system gives no random number: %s", strerror(errno));
    *out = v;
    return SG_OK;
}

bool sg_setup_makes_images(const sg_model_info *info) { return info->frames.step == 0; }

static sg_status check_length(const sg_settings *s, const sg_model_info *info, sg_error *e)
{
    if (!sg_setup_makes_images(info)) return SG_OK;
    if (s->frames > 1)
        return sg_error_set(e, SG_E_ARG, "--frames %d: this model makes images, of one frame", s->frames);
    if (s->seconds > 0 || s->fps)
        return sg_error_set(e, SG_E_ARG, "--%s has no effect: this model makes images", s->fps ? "fps" : "seconds");
    return SG_OK;
}

/* Options of which only the model tells that they do nothing; option_rules.c has the others. */
static sg_status check_effects(const sg_request *r, sg_sampler_kind usual, const sg_model_info *info,
                               const sg_settings *s, sg_error *e)
{
    SG_TRY(check_length(s, info, e));
    if (!isnan(s->strength) && s->image && !s->video && info->image[SG_IMAGE_FIRST] != SG_IMAGE_START &&
        s->command != SG_COMMAND_EVAL)
        return sg_error_set(e, SG_E_ARG,
                            "--strength has no effect: this model's videos begin with --image; it is for "
                            "--video");
    if (!isnan(s->cfg_scale_2) && info->experts < 2)
        return sg_error_set(e, SG_E_ARG, "--cfg-scale-2 has no effect: this model has no second expert");
    if (!sg_sampler_flows(usual) && (s->preset_steps || s->sigmas || !isnan(s->flow_shift)))
        return sg_error_set(e, SG_E_ARG, "--%s is for models of flow matching; this model's sampler is %s",
                            s->preset_steps ? "preset-steps"
                            : s->sigmas     ? "sigmas"
                                            : "flow-shift",
                            sg_sampler_names[usual]);
    if (s->sched_compat && r->sampler != SG_SAMPLER_UNIPC)
        return sg_error_set(e, SG_E_ARG,
                            "--sched-compat has no effect: it is for unipc, and this model's sampler is %s",
                            sg_sampler_names[r->sampler]);
    if (r->dynamic_cfg && !(r->cfg_scale > 1))
        return sg_error_set(e, SG_E_ARG, "--dynamic-cfg has no effect: guidance is %g, and at 1 or less there is none",
                            r->cfg_scale);
    return SG_OK;
}

/* A preset comes first: guidance may be given besides. */
static sg_status setup_sampler(sg_request *r, const sg_settings *s, sg_error *e)
{
    if (s->preset_steps) sg_step_preset_apply(r, sg_setup_place(s->preset_steps, sg_step_preset_names));
    if (s->sampler) r->sampler = (sg_sampler_kind)sg_setup_place(s->sampler, sg_sampler_names);
    if (!s->sigmas) return SG_OK;
    SG_TRY(sg_sigmas_read(&r->sigmas, s->sigmas, e));
    r->steps = r->sigmas.count;
    if (!s->sampler) r->sampler = SG_SAMPLER_EULER;
    return SG_OK;
}

sg_status sg_setup_request(sg_request *r, const sg_engine *engine, const sg_settings *s, sg_error *e)
{
    *r = sg_engine_defaults(engine);
    if (s->negative_prompt) r->negative_prompt = s->negative_prompt;
    if (s->size[0]) r->width = s->size[0];
    if (s->size[1]) r->height = s->size[1];
    if (s->fps) r->fps = s->fps;
    if (s->frames) r->frames = s->frames;
    if (s->seconds > 0) r->frames = frames_of(engine, s->seconds, r->fps);
    if (s->steps) r->steps = s->steps;
    SG_TRY(setup_sampler(r, s, e));
    if (!isnan(s->cfg_scale)) r->cfg_scale = s->cfg_scale;
    if (!isnan(s->cfg_scale_2)) r->cfg_scale_2 = s->cfg_scale_2;
    if (!isnan(s->guidance)) r->guidance = s->guidance;
    r->dynamic_cfg = s->dynamic_cfg;
    if (!isnan(s->slg_scale)) r->slg_scale = s->slg_scale;
    if (s->skip_layers) r->skip_layers = s->skip_layers;
    if (!isnan(s->skip_layer_start)) r->skip_layer_start = s->skip_layer_start;
    if (!isnan(s->skip_layer_end)) r->skip_layer_end = s->skip_layer_end;
    if (!isnan(s->flow_shift)) r->flow_shift = s->flow_shift;
    if (!isnan(s->strength)) r->strength = s->strength;
    const sg_model_info info = sg_engine_info(engine);
    const bool          starts = s->video || (s->image && info.image[SG_IMAGE_FIRST] == SG_IMAGE_START);
    const int done = starts ? sg_steps_of_strength(r->steps, r->strength, sg_setup_makes_images(&info)) : r->steps;
    if (done >= SG_CACHE_USUAL_FROM && (s->command & (SG_COMMAND_RENDER | SG_COMMAND_INFO))) r->cache = SG_CACHE_USUAL;
    if (s->cache) r->cache = (sg_cache)sg_setup_place(s->cache, sg_cache_names);
    if (s->vae_tiling) r->vae_tiling = (sg_tiling)sg_setup_place(s->vae_tiling, sg_tiling_names);
    if (s->sched_compat) r->sigmas_old = strcmp(s->sched_compat, "old") == 0;
    SG_TRY(check_effects(r, sg_engine_defaults(engine).sampler, &info, s, e));
    r->seed = (uint64_t)s->seed;
    if (s->seed < 0) SG_TRY(draw_seed(&r->seed, e));
    return SG_OK;
}

sg_status sg_setup_safetensors(sg_source **out, const char *path, const char *option, sg_error *e)
{
    if (!sg_text_ends(sg_path_name(path), SG_SAFETENSORS))
        return sg_error_set(e, SG_E_ARG, "%s: %s: the name must end in " SG_SAFETENSORS, option, path);
    if (access(path, R_OK) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: %s: cannot be opened: %s", option, path, strerror(errno));
    return sg_source_open(out, path, e);
}

sg_status sg_setup_prompts(sg_prompt_set *out, const sg_settings *s, sg_error *e)
{
    const sg_prompt_options o = {.what = "--prompt-file", .format = SG_PROMPTS_TEXT, .max_bytes = 1 << 20};
    return s->prompt ? sg_prompt_set_single(out, s->prompt, "--prompt", e)
                     : sg_prompt_set_open(out, s->prompt_file, &o, e);
}
