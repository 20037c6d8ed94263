/* engine.c - opening and closing an engine: its checkpoint, its family, its LoRAs and its defaults. */
#include "base/file.h"
#include "base/text.h"
#include "device.h"
#include "dit.h"
#include "render.h"
#include "sized.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static sg_status choose_family(sg_engine *engine, sg_config *index, sg_error *e)
{
    const char *const name = sg_config_string(index, "_class_name", NULL);
    char              known[1024] = "";
    SG_TRY(sg_config_status(index));
    for (int i = 0; sg_families[i]; i++)
        for (const char *const *one = sg_families[i]->class_names; *one; one++) {
            if (strcmp(*one, name) == 0) engine->family = sg_families[i];
            sg_text_append(known, sizeof known, "%s%s", *known ? ", " : "", *one);
        }
    if (engine->family) return SG_OK;
    return sg_error_set(e, SG_E_UNSUPPORTED,
                        "%s/model_index.json: _class_name: \"%s\" is not one that this program "
                        "renders (%s)",
                        sg_checkpoint_path(engine->checkpoint), name, known);
}

/* Parts that not every model has. */
static sg_status check_used(const sg_engine *engine, const sg_engine_options *o, sg_error *e)
{
    bool any = !o->parts.clip_vision;
    for (int i = 0; i < engine->components->addeds; i++)
        any = any || strcmp(engine->components->added[i].component->name, "image_encoder") == 0;
    return any ? SG_OK
               : sg_error_set(e, SG_E_ARG, "clip_vision: %s: this model has no image encoder", o->parts.clip_vision);
}

static bool is_beside(const sg_engine *engine, const char *name, char *path, size_t size)
{
    return sg_file_beside(sg_checkpoint_path(engine->checkpoint), name, path, size) && access(path, F_OK) == 0;
}

/* A file's name in sparge-gen.json; otherwise may be NULL. */
static const char *file_beside(sg_config *c, const char *key, const char *otherwise)
{
    const char *const name = sg_config_string(c, key, otherwise);
    const bool        given = name && name != otherwise;
    if (given && (strchr(name, '/') || strlen(name) > NAME_MAX || name[strspn(name, ".")] == '\0'))
        sg_config_fail(c, key, "\"%s\" is not the name of a file beside it", sg_show(name));
    return name;
}

/* The owner of a model folder may set its defaults beside it. */
static sg_status read_own_defaults(sg_engine *engine, sg_error *e)
{
    char path[PATH_MAX];
    if (!is_beside(engine, "sparge-gen.json", path, sizeof path)) return SG_OK;
    SG_TRY(sg_config_open(&engine->own, path, e));
    sg_config *const  c = engine->own;
    sg_request *const d = &engine->defaults;
    d->width = (int)sg_config_int(c, "width", 1, 1 << 16, &(int64_t){d->width});
    d->height = (int)sg_config_int(c, "height", 1, 1 << 16, &(int64_t){d->height});
    d->frames = (int)sg_config_int(c, "frames", 1, 1 << 20, &(int64_t){d->frames});
    d->fps = (int)sg_config_int(c, "fps", 1, 1000, &(int64_t){d->fps});
    d->steps = (int)sg_config_int(c, "steps", 1, SG_STEPS_MAX, &(int64_t){d->steps});
    d->cfg_scale = sg_config_real(c, "cfg_scale", 0, 1000, &d->cfg_scale);
    d->guidance = sg_config_real(c, "guidance", 0, 1000, &d->guidance);
    d->flow_shift = sg_config_real(c, "flow_shift", 0.001, 1000, &d->flow_shift);
    d->negative_prompt = sg_config_string(c, "negative_prompt", d->negative_prompt);
    sg_preview_read_rgb(engine, c);
    if (sg_config_has(c, "image_lora")) engine->image_file = file_beside(c, "image_lora", NULL);
    SG_TRY(sg_config_status(c));
    return sg_vocabulary_read(&engine->vocabulary, c, e);
}

/* Attention and cache as they are without a word about them: by thresholds beside the model where there are some. */
static sg_status read_attention(sg_engine *engine, sg_error *e)
{
    char             path[PATH_MAX];
    sg_policy *const p = &engine->defaults.attention;
    *p = sg_policy_default();
    if (!is_beside(engine, SG_THRESHOLDS_NAME, path, sizeof path)) return SG_OK;
    SG_TRY(sg_thresholds_read(&engine->tuned, path, e));
    engine->defaults.cache_threshold = engine->tuned.cache.threshold;
    if (!engine->tuned.values.layers) return SG_OK;
    p->thresholds = engine->tuned_path = strdup(path);
    if (!engine->tuned_path) return sg_error_memory(e, path);
    if (!engine->tuned.has_policy) return SG_OK;
    p->score = engine->tuned.policy.score;
    p->tail = engine->tuned.policy.tail;
    p->tail_bias = engine->tuned.policy.tail_bias;
    p->order = engine->tuned.policy.order;
    return SG_OK;
}

/* fast_lora and fast_preset of sparge-gen.json: the weights change, and the defaults follow. */
static sg_status take_fast(sg_engine *engine, sg_error *e)
{
    sg_config *const c = engine->own;
    char             path[PATH_MAX];
    if (!c || !sg_config_has(c, "fast_preset"))
        return sg_error_set(e, SG_E_ARG,
                            "fast: %s has no LoRA for few steps: its sparge-gen.json has no \"fast_preset\"",
                            sg_checkpoint_path(engine->checkpoint));
    const char *const name = sg_config_string(c, "fast_preset", NULL), *const file = file_beside(c, "fast_lora", "");
    SG_TRY(sg_config_status(c));
    const int preset = sg_text_place(name, sg_step_preset_names);
    if (!sg_step_preset_names[preset]) sg_config_fail(c, "fast_preset", "\"%s\" is unknown", name);
    SG_TRY(sg_config_status(c));
    sg_step_preset_apply(&engine->defaults, preset);
    if (!*file) return SG_OK; /* the model's own weights are for few steps */
    if (!sg_file_beside(sg_checkpoint_path(engine->checkpoint), file, path, sizeof path))
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", file);
    SG_TRY(sg_engine_add_loras(engine, &(sg_lora_option){.path = path, .strength = 1}, 1, e));
    engine->lora_info[engine->loras - 1].fast = true;
    return SG_OK;
}

void sg_engine_hold_weights(sg_engine *engine, bool widened)
{
    sg_phase      phase[SG_PHASES_MAX];
    const int     phases = sg_phases_of(engine->components, NULL, phase);
    sg_component *c;
    for (int i = 0; i < phases; i++)
        for (int k = 0; (c = sg_phase_component(engine->components, &phase[i], k)) != NULL; k++) {
            if (sg_bind_is_quantised(c->bind)) engine->weights_as = widened ? SG_WEIGHTS_BF16 : SG_WEIGHTS_FILE;
            sg_bind_keep_types(c->bind, !widened);
            sg_bind_merge(c->bind, engine->lora_merge);
        }
}

static sg_status open_preview(sg_engine *engine, const char *path, sg_error *e)
{
    return path ? sg_taehv_open(&engine->preview, path, &engine->components->vae.info, engine->act, e) : SG_OK;
}

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

static sg_status open_all(sg_engine *engine, const sg_engine_options *o, sg_error *e)
{
    SG_TRY(sg_choice_check("offload", o->offload, SG_OFFLOAD_ON + 1, e));
    SG_TRY(sg_choice_check("weights_as", o->weights_as, SG_WEIGHTS_BF16 + 1, e));
    if (o->loras < 0 || o->loras > SG_LORAS_MAX)
        return sg_error_set(e, SG_E_ARG, "loras: %d of them: 0 to %d are possible", o->loras, SG_LORAS_MAX);
    SG_TRY(sg_checkpoint_open_parts(&engine->checkpoint, o->model_dir, &o->parts, sg_files_of, e));
    engine->memory_limit = o->memory_limit;
    engine->check = o->check;
    engine->log = o->log;
    engine->log_context = o->log_context;
    const char *name = o->backend ? o->backend : "auto";
    if (o->check && strcmp(name, "auto") == 0) name = "cpu"; /* the oracle reads host memory */
    const sg_backend_options b = {.name = name,
                                  .threads = o->threads,
                                  .cpu_mask = o->cpu_mask,
                                  .gpu_mask = o->gpu_mask,
                                  .device = o->device,
                                  .local_rank = o->local_rank,
                                  .plan_only = o->plan_only};
    SG_TRY(sg_backend_open(&engine->backend, &b, e));
    engine->times.paused = !engine->backend->synchronous;
    if (o->timed) engine->trace = &engine->times;
    if (o->check && !engine->backend->host_memory)
        return sg_error_set(e, SG_E_UNSUPPORTED, "backend %s cannot be checked: the oracle reads host memory", name);
    if (o->offload == SG_OFFLOAD_ON && !engine->backend->memory->pin)
        return sg_error_set(e, SG_E_ARG, "offload: weights are on the host anyway with backend %s",
                            engine->backend->name);
    engine->offload = o->offload;
    SG_TRY(sg_device_dtype(&engine->act, o->dtype, engine->backend, e));

    sg_config *index = NULL;
    SG_TRY(sg_checkpoint_index(engine->checkpoint, &index, e));
    sg_status st = choose_family(engine, index, e);
    if (!st) st = sg_model_open(&engine->model, engine->family, engine->checkpoint, index, engine->act, e);
    sg_config_close(&index);
    if (st) return st;
    engine->components = engine->model;
    SG_TRY(check_used(engine, o, e));
    engine->lora_merge = o->lora_merge;
    sg_engine_hold_weights(engine, o->weights_as == SG_WEIGHTS_BF16);
    SG_TRY(sg_engine_add_loras(engine, o->lora, o->loras, e));
    engine->defaults = engine->components->defaults;
    engine->defaults.size = sizeof engine->defaults;
    engine->defaults.strength = engine->components->frames.step == 0 ? 0.6 : 0.8; /* diffusers' */
    engine->base_bytes = engine->backend->process_memory ? less(sg_resident_bytes(), o->given_bytes)
                                                         : sg_backend_packed_bytes(engine->backend);
    SG_TRY(read_attention(engine, e));
    SG_TRY(read_own_defaults(engine, e));
    SG_TRY(open_preview(engine, o->preview_decoder, e));
    if (o->fast) SG_TRY(take_fast(engine, e));
    sg_engine_describe(engine);
    sg_engine_log(engine, SG_LOG_INFO, "%s in %s on %s", engine->info.family, engine->info.dtype, engine->info.device);
    if (*engine->info.passed) sg_engine_log(engine, SG_LOG_WARNING, "%s", engine->info.passed);
    return SG_OK;
}

sg_status sg_engine_open(sg_engine **out, const sg_engine_options *o, sg_error *e)
{
    sg_engine_options own;
    *out = NULL;
    SG_TRY(sg_sized_take(&own, sizeof own, o, "sg_engine_options", e));
    SG_TRY(sg_reserved_check(own.parts.reserved, sizeof own.parts.reserved, "sg_model_parts", e));
    for (int i = 0; i < SG_LORAS_MAX; i++)
        SG_TRY(sg_reserved_check(own.lora[i].reserved, sizeof own.lora[i].reserved, "sg_lora_option", e));
    sg_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    const sg_status st = open_all(engine, &own, e);
    if (st) sg_engine_close(&engine);
    *out = engine;
    return st;
}

void sg_engine_close(sg_engine **engine)
{
    if (!*engine || __atomic_load_n(&(*engine)->at_work, __ATOMIC_ACQUIRE)) return;
    if ((*engine)->backend) sg_backend_make_current((*engine)->backend);
    if ((*engine)->preview.ops) (*engine)->preview.ops->close((*engine)->preview.of);
    sg_model_close(&(*engine)->model, (*engine)->family);
    for (int i = 0; i < (*engine)->loras; i++) sg_lora_close(&(*engine)->lora[i]);
    sg_lora_close(&(*engine)->image_lora);
    sg_checkpoint_close(&(*engine)->checkpoint);
    sg_conditioning_free(&(*engine)->texts);
    sg_vocabulary_free(&(*engine)->vocabulary);
    sg_config_close(&(*engine)->own);
    sg_thresholds_free(&(*engine)->tuned);
    free((*engine)->tuned_path);
    sg_trace_free(&(*engine)->times);
    free((*engine)->count);
    free((*engine)->start);
    free((*engine)->modulation);
    sg_backend_close(&(*engine)->backend);
    free(*engine);
    *engine = NULL;
}

void sg_engine_cancel(sg_engine *engine, bool on) { __atomic_store_n(&engine->cancel, on, __ATOMIC_RELAXED); }

void sg_engine_defaults(const sg_engine *engine, sg_request *r)
{
    sg_sized_give(r, &engine->defaults, sizeof engine->defaults);
}
