/* setup.c - see setup.h. */
#include "setup.h"
#include "base/file.h"
#include "base/number.h"
#include "base/path.h"
#include "base/text.h"
#include "environment.h"
#include "option_rules.h"
#include "rank.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_model(const char *folder)
{
    char index[PATH_MAX];
    return sg_file_beside(folder, "model_index.json", index, sizeof index) && access(index, R_OK) == 0;
}

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
        if (sg_path_join(out, size, program, places[i], NULL) == SG_OK && is_model(out)) return true;
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
    if (!dir && !is_model(SG_MODEL_DIR))
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

const char *sg_setup_own_name(char room[PATH_MAX], const char *path)
{
    snprintf(room, PATH_MAX, "%s", path);
    for (size_t n = strlen(room); n > 1 && room[n - 1] == '/'; n--) room[n - 1] = '\0';
    const char *const name = sg_path_name(room);
    const bool        has_own = strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
    return has_own || !realpath(path, room) ? name : sg_path_name(room);
}

sg_status sg_setup_model(sg_model_path *out, const sg_settings *s, sg_error *e)
{
    *out = (sg_model_path){.parts = s->parts};
    SG_TRY(find_model(out, s->model ? s->model : s->parts.diffusion_model, e));
    struct stat st;
    if (stat(out->dir, &st) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: %s: %s", who_named(out), out->dir, strerror(errno));
    char room[PATH_MAX];
    snprintf(out->name, sizeof out->name, "%.*s", NAME_MAX, sg_setup_own_name(room, out->dir));
    return read_loras(out, s, e);
}

/* ---- engine and request ---- */

sg_status sg_setup_options(sg_engine_options *out, const sg_model_path *model, const sg_settings *s, sg_error *e)
{
    const char *name = s->backend ? s->backend : "auto";
    sg_rank     rank = {0};
    unsigned    cpu_mask;
    SG_TRY(sg_environment_cpu_mask(&cpu_mask, s->cpumask, e));
    if (s->device >= 0 && strcmp(name, "auto") == 0) name = "cuda"; /* what asks for a GPU by number asks for a GPU */
    if (s->device < 0 && (strcmp(name, "auto") == 0 || strcmp(name, "cuda") == 0)) SG_TRY(sg_rank_find(&rank, NULL, e));
    *out = (sg_engine_options){.size = sizeof(sg_engine_options),
                               .model_dir = model ? model->dir : NULL,
                               .parts = model ? model->parts : (sg_model_parts){0},
                               .backend = name,
                               .dtype = s->dtype ? s->dtype : "auto",
                               .threads = s->threads,
                               .cpu_mask = cpu_mask,
                               .gpu_mask = s->gpumask ? sg_gpu_mask_of(s->gpumask) : 0,
                               .device = s->device > 0 ? s->device : 0,
                               .local_rank = rank.local_rank,
                               .memory_limit = s->memory_limit,
                               .plan_only = s->command == SG_COMMAND_INFO && s->memory_limit > 0,
                               .fast = s->fast,
                               .offload = s->offload ? sg_text_place(s->offload, sg_names("offload")) : 0,
                               .preview_decoder = s->preview_decoder,
                               .weights_as = s->weights_as ? sg_text_place(s->weights_as, sg_names("weights_as")) : 0,
                               .lora_merge = s->lora_merge};
    for (out->loras = 0; model && out->loras < model->loras; out->loras++) {
        const sg_lora_path *const lora = &model->lora[out->loras];
        out->lora[out->loras] =
            (sg_lora_option){.path = lora->path, .strength = lora->strength, .denoisers = lora->denoisers};
    }
    return SG_OK;
}

/* Of a model that the environment names, who reads of a wrong path would else look for it on the command line. */
sg_status sg_setup_engine(sg_engine **out, const sg_model_path *model, const sg_engine_options *o, sg_error *e)
{
    const sg_status status = sg_engine_open(out, o, e);
    const bool      named = model->from == SG_MODEL_OF_ENVIRONMENT;
    if (status == SG_OK || !named || strncmp(e->text, model->dir, strlen(model->dir)) != 0) return status;
    return sg_error_in(e, status, who_named(model));
}

sg_status sg_setup_clip(sg_clip_model **out, const sg_settings *s, int threads, sg_error *e)
{
    sg_engine_options o;
    SG_TRY(sg_setup_options(&o, NULL, s, e));
    o.threads = threads;
    return sg_error_in(e, sg_clip_model_open(out, s->clip, &o, e), "--clip");
}

bool sg_setup_makes_images(const sg_model_info *info) { return info->frame_step == 0; }

sg_status sg_setup_safetensors(const char *path, const char *option, sg_error *e)
{
    if (!sg_text_ends(sg_path_name(path), SG_SAFETENSORS))
        return sg_error_set(e, SG_E_ARG, "%s: %s: the name must end in " SG_SAFETENSORS, option, path);
    if (access(path, R_OK) != 0)
        return sg_error_set(e, SG_E_FILE, "%s: %s: cannot be opened: %s", option, path, strerror(errno));
    return SG_OK;
}

sg_status sg_setup_prompts(sg_prompt_set *out, const sg_settings *s, sg_error *e)
{
    const sg_prompt_options o = {
        .what = "--prompt-file", .format = SG_PROMPTS_TEXT, .max_bytes = 1 << 20, .dash = true};
    return s->prompt ? sg_prompt_set_single(out, s->prompt, "--prompt", e)
                     : sg_prompt_set_open(out, s->prompt_file, &o, e);
}
