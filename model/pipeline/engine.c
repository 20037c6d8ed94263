/* engine.c - opening a checkpoint, its defaults, and what may be asked of it. */
#include "base/hash.h"
#include "base/path.h"
#include "base/text.h"
#include "engine_state.h"
#include "render.h"
#include "taehv.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const sg_tiling_names[] = {"auto", "off", "on", NULL};

static bool makes_images(const sg_components *c) { return c->frames.step == 0; }

static sg_status choose_family(sg_engine *engine, sg_config *index, sg_error *e)
{
    const char *const name = sg_config_string(index, "_class_name", NULL);
    char              known[256] = "";
    SG_TRY(sg_config_status(index));
    for (int i = 0; sg_families[i]; i++)
        for (const char *const *class = sg_families[i]->class_names; *class; class ++) {
            if (strcmp(*class, name) == 0) engine->family = sg_families[i];
            const size_t at = strlen(known);
            snprintf(known + at, sizeof known - at, "%s%s", at ? ", " : "", *class);
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
               : sg_error_set(e, SG_E_ARG, "--clip-vision: %s: this model has no image encoder", o->parts.clip_vision);
}

static bool is_beside(const sg_engine *engine, const char *name, char *path, size_t size)
{
    return sg_checkpoint_beside(sg_checkpoint_path(engine->checkpoint), name, path, size) && access(path, F_OK) == 0;
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
    return sg_config_status(c);
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
    p->tuned = &engine->tuned.values;
    if (!engine->tuned.has_policy) return SG_OK;
    p->score = engine->tuned.policy.score;
    p->tail = engine->tuned.policy.tail;
    p->tail_bias = engine->tuned.policy.tail_bias;
    p->order = engine->tuned.policy.order;
    return SG_OK;
}

static sg_status choose_dtype(sg_engine *engine, const char *name, sg_error *e)
{
    if (!name || strcmp(name, "auto") == 0)
        engine->act = engine->backend->dtype;
    else if (strcmp(name, "f32") == 0)
        engine->act = SG_F32;
    else if (strcmp(name, "bf16") == 0)
        engine->act = SG_BF16;
    else
        return sg_error_set(e, SG_E_ARG, "dtype \"%s\" is unknown; known are auto, f32, bf16", name);
    return SG_OK;
}

/* The failure of adding l, with the model that it was probably made for. */
static sg_status misfit(const sg_engine *engine, const sg_lora *l, sg_status status, sg_error *e)
{
    const int64_t         width = sg_lora_describe(l).width;
    const sg_known_width *known = engine->family->widths;
    while (known && known->name && known->width != width) known++;
    if (!known || !known->name || !e) return status;
    const sg_error why = *e;
    *e = (sg_error){0};
    return sg_error_set(e, status, "%s; rows of %lld are those of %s", why.text, (long long)width, known->name);
}

static sg_status add_lora(sg_engine *engine, const sg_lora_option *o, sg_error *e)
{
    const sg_components *const c = engine->components;
    const unsigned             all = (1u << c->denoisers) - 1, asked = o->denoisers ? o->denoisers : all;
    const char *const          path = o->path;
    sg_lora **const            lora = &engine->lora[engine->loras];
    if (engine->loras == SG_LORAS_MAX)
        return sg_error_set(e, SG_E_ARG, "%s: there are more than %d LoRAs", path, SG_LORAS_MAX);
    if (c->denoisers < 2 && o->denoisers)
        return sg_error_set(e, SG_E_ARG, "%s: is for one of two experts, but this model has one denoiser", path);
    SG_TRY(sg_lora_open(lora, path, engine->backend->threads, e));
    engine->loras++;
    for (int i = 0; i < c->denoisers; i++) {
        const sg_denoiser *const d = &c->denoiser[i];
        if (!(asked >> i & 1)) continue;
        const sg_status status = sg_lora_add(*lora, d->component->bind, d->component->name, d->names, o->strength, e);
        if (status != SG_OK) return misfit(engine, *lora, status, e);
    }
    return sg_lora_check(*lora, e);
}

static sg_status add_loras(sg_engine *engine, const sg_engine_options *o, sg_error *e)
{
    for (int i = 0; i < o->loras; i++) {
        SG_TRY(add_lora(engine, &o->lora[i], e));
        const int             last = engine->loras - 1;
        const sg_lora_figures f = sg_lora_describe(engine->lora[last]);
        sg_lora_info *const   info = &engine->lora_info[last];
        *info = (sg_lora_info){.strength = o->lora[i].strength,
                               .denoisers = o->lora[i].denoisers,
                               .hash = f.hash,
                               .keys = f.keys,
                               .unused = f.unused,
                               .text = f.text,
                               .tensors = f.tensors,
                               .rank = {f.rank[0], f.rank[1]},
                               .few_steps = f.few_steps};
        snprintf(info->name, sizeof info->name, "%s", sg_path_name(o->lora[i].path));
    }
    return SG_OK;
}

const char *sg_engine_lora_unused(const sg_engine *engine, int lora, size_t *at)
{
    return sg_lora_unused(engine->lora[lora], at);
}

/* fast_lora and fast_preset of sparge-gen.json: the weights change, and the defaults follow. */
static sg_status take_fast(sg_engine *engine, sg_error *e)
{
    sg_config *const c = engine->own;
    char             path[PATH_MAX];
    int              preset = 0;
    if (!c || !sg_config_has(c, "fast_preset"))
        return sg_error_set(e, SG_E_ARG,
                            "fast: %s has no LoRA for few steps: its sparge-gen.json has no \"fast_preset\"",
                            sg_checkpoint_path(engine->checkpoint));
    const char *const name = sg_config_string(c, "fast_preset", NULL), *const file = file_beside(c, "fast_lora", "");
    SG_TRY(sg_config_status(c));
    while (sg_step_preset_names[preset] && strcmp(sg_step_preset_names[preset], name) != 0) preset++;
    if (!sg_step_preset_names[preset]) sg_config_fail(c, "fast_preset", "\"%s\" is unknown", name);
    SG_TRY(sg_config_status(c));
    sg_step_preset_apply(&engine->defaults, preset);
    if (!*file) return SG_OK; /* the model's own weights are for few steps */
    if (!sg_checkpoint_beside(sg_checkpoint_path(engine->checkpoint), file, path, sizeof path))
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", file);
    SG_TRY(add_loras(engine, &(sg_engine_options){.lora = {{.path = path, .strength = 1}}, .loras = 1}, e));
    engine->lora_info[engine->loras - 1].fast = true;
    return SG_OK;
}

static sg_status open_preview(sg_engine *engine, const char *path, sg_error *e)
{
    return path ? sg_taehv_open(&engine->preview, path, &engine->components->vae.info, engine->act, e) : SG_OK;
}

static sg_status open_all(sg_engine *engine, const sg_engine_options *o, sg_error *e)
{
    SG_TRY(sg_checkpoint_open_parts(&engine->checkpoint, o->model_dir, &o->parts, sg_file_parts, e));
    engine->memory_limit = o->memory_limit;
    engine->check = o->check;
    engine->trace = o->trace;
    const char *name = o->backend ? o->backend : "auto";
    if (o->check && strcmp(name, "auto") == 0) name = "cpu"; /* the oracle reads host memory */
    const sg_backend_options b = {.name = name,
                                  .threads = o->threads,
                                  .cpu_mask = o->cpu_mask,
                                  .gpu_mask = o->gpu_mask,
                                  .device = o->device,
                                  .local_rank = o->local_rank};
    SG_TRY(sg_backend_open(&engine->backend, &b, e));
    if (o->check && !engine->backend->host_memory)
        return sg_error_set(e, SG_E_UNSUPPORTED, "backend %s cannot be checked: the oracle reads host memory", name);
    if (o->offload == SG_OFFLOAD_ON && !engine->backend->memory->pin)
        return sg_error_set(e, SG_E_ARG, "offload: weights are on the host anyway with backend %s",
                            engine->backend->name);
    engine->offload = o->offload;
    SG_TRY(choose_dtype(engine, o->dtype, e));

    sg_config *index = NULL;
    SG_TRY(sg_checkpoint_index(engine->checkpoint, &index, e));
    sg_status st = choose_family(engine, index, e);
    if (!st) st = engine->family->open(&engine->model, engine->checkpoint, index, engine->act, e);
    sg_config_close(&index);
    if (st) return st;
    engine->components = engine->family->components(engine->model);
    SG_TRY(check_used(engine, o, e));
    SG_TRY(add_loras(engine, o, e));
    engine->defaults = engine->family->defaults(engine->model);
    engine->defaults.strength = makes_images(engine->components) ? 0.6 : 0.8; /* diffusers' */
    engine->base_bytes =
        engine->backend->host_memory ? sg_resident_bytes() - o->given_bytes : sg_backend_packed_bytes(engine->backend);
    SG_TRY(read_attention(engine, e));
    SG_TRY(read_own_defaults(engine, e));
    SG_TRY(open_preview(engine, o->preview_decoder, e));
    return o->fast ? take_fast(engine, e) : SG_OK;
}

sg_status sg_engine_open(sg_engine **out, const sg_engine_options *o, sg_error *e)
{
    *out = NULL;
    sg_engine *engine = calloc(1, sizeof *engine);
    if (!engine) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    const sg_status st = open_all(engine, o, e);
    if (st) sg_engine_close(&engine);
    *out = engine;
    return st;
}

void sg_engine_close(sg_engine **engine)
{
    if (!*engine) return;
    if ((*engine)->backend) sg_backend_make_current((*engine)->backend);
    if ((*engine)->preview.ops) (*engine)->preview.ops->close((*engine)->preview.of);
    if ((*engine)->model) (*engine)->family->close((*engine)->model);
    for (int i = 0; i < (*engine)->loras; i++) sg_lora_close(&(*engine)->lora[i]);
    sg_lora_close(&(*engine)->image_lora);
    sg_checkpoint_close(&(*engine)->checkpoint);
    sg_conditioning_free(&(*engine)->texts);
    sg_config_close(&(*engine)->own);
    sg_thresholds_free(&(*engine)->tuned);
    free((*engine)->count);
    free((*engine)->start);
    sg_backend_close(&(*engine)->backend);
    free(*engine);
    *engine = NULL;
}

sg_request sg_engine_defaults(const sg_engine *engine) { return engine->defaults; }

const sg_attention_count *sg_engine_attention(const sg_engine *engine, int *steps, int *passes, int *layers)
{
    *steps = engine->steps;
    *passes = engine->passes;
    *layers = engine->layers;
    return engine->count;
}

enum { TYPES_MAX = 24 }; /* of one component that are counted one by one */

typedef struct type_share {
    const char *name;
    uint64_t    bytes;
} type_share;

static int by_share(const void *a, const void *b)
{
    const uint64_t x = ((const type_share *)a)->bytes, y = ((const type_share *)b)->bytes;
    return (x < y) - (x > y);
}

/* The types of the weights as they are on disk, most bytes first. */
static void describe_types(sg_component_info *c, const sg_component *p)
{
    type_share type[TYPES_MAX] = {{0}};
    int        types = 0;
    for (size_t i = 0; i < sg_source_count(p->source); i++) {
        const sg_source_tensor *const t = sg_source_at(p->source, i);
        uint64_t                      n = 1;
        int                           k = 0;
        for (int d = 0; d < t->rank; d++) n *= (uint64_t)t->dim[d];
        c->parameters += n;
        while (k < types && strcmp(type[k].name, t->type->name) != 0) k++;
        if (k == TYPES_MAX) continue;
        if (k == types) type[types++].name = t->type->name;
        type[k].bytes += t->bytes;
    }
    qsort(type, (size_t)types, sizeof *type, by_share);
    if (types) snprintf(c->dtype, sizeof c->dtype, "%s", type[0].name);
    size_t n = 0;
    for (int k = 0; k < types && n < sizeof c->types; k++) {
        const double mib = (double)type[k].bytes / 0x1p20;
        const bool   large = mib >= 1000, small = mib < 1;
        n += (size_t)snprintf(c->types + n, sizeof c->types - n, "%s%s %.3g %s", k ? ", " : "", type[k].name,
                              large   ? mib / 1024
                              : small ? mib * 1024
                                      : mib,
                              large   ? "GiB"
                              : small ? "KiB"
                                      : "MiB");
    }
}

static sg_component_info describe(const sg_component *p)
{
    sg_component_info c = {.bytes = sg_source_bytes(p->source), .files = sg_source_files(p->source)};
    snprintf(c.name, sizeof c.name, "%s", p->name);
    snprintf(c.class_name, sizeof c.class_name, "%s", p->class_name);
    snprintf(c.summary, sizeof c.summary, "%s", p->summary);
    snprintf(c.place, sizeof c.place, "%s", sg_source_path(p->source));
    describe_types(&c, p);
    return c;
}

/* A VAE whose encoder has a phase of its own is listed once, as the decoder. */
static bool encodes_and_decodes(const sg_components *components, const sg_phase *phase)
{
    return phase->kind == SG_PHASE_START ||
           (phase->kind == SG_PHASE_ADDED && components->added[phase->index].component->source ==
                                                 components->vae.ops->component(components->vae.of)->source);
}

sg_model_info sg_engine_info(const sg_engine *engine)
{
    const sg_components *const components = engine->components;
    sg_model_info              info = {.multiple = components->size_multiple,
                                       .frames = components->frames,
                                       .image = {components->image[SG_IMAGE_FIRST], components->image[SG_IMAGE_LAST]}};
    const sg_component        *p;
    sg_phase                   phase[SG_PHASES_MAX];
    const int                  phases = sg_render_phases(components, true, true, phase);
    if (makes_images(components) && !info.image[SG_IMAGE_FIRST] && components->vae.ops->encode_open)
        info.image[SG_IMAGE_FIRST] = SG_IMAGE_START;
    _Static_assert(sizeof info.component / sizeof *info.component >= SG_TEXTS_MAX + SG_ADDED_MAX + SG_DENOISERS_MAX + 1,
                   "there is room for every component");
    for (int k = 0; k < phases; k++)
        for (int i = 0; (p = sg_render_component(components, &phase[k], i)) != NULL; i++)
            if (!encodes_and_decodes(components, &phase[k])) info.component[info.components++] = describe(p);
    snprintf(info.family, sizeof info.family, "%s", engine->family->name);
    info.backend = engine->backend->name;
    info.threads = engine->backend->threads;
    info.thresholds = engine->tuned.hash;
    snprintf(info.device, sizeof info.device, "%s", engine->backend->device);
    snprintf(info.passed, sizeof info.passed, "%s", engine->backend->passed);
    snprintf(info.dtype, sizeof info.dtype, "%s", engine->act == SG_BF16 ? "bf16" : "f32");
    info.experts = components->denoisers;
    info.skips = engine->backend->values != SG_F32;
    info.synchronous = engine->backend->host_memory;
    info.loras = engine->loras;
    memcpy(info.lora, engine->lora_info, sizeof info.lora);
    return info;
}

uint64_t sg_engine_hash(const sg_engine *engine)
{
    sg_phase            phase[SG_PHASES_MAX];
    const int           phases = sg_render_phases(engine->components, true, true, phase);
    const sg_component *p;
    uint64_t            sum = 0, number = 0;
    for (int k = 0; k < phases; k++)
        for (int i = 0; (p = sg_render_component(engine->components, &phase[k], i)) != NULL; i++)
            if (!encodes_and_decodes(engine->components, &phase[k]) && p->source)
                sum += sg_source_hash(p->source, SG_HASH + number++);
    return sum;
}

void sg_engine_denoiser_hash(const sg_engine *engine, char out[17])
{
    uint64_t sum = 0;
    for (int i = 0; i < engine->components->denoisers; i++)
        sum += sg_source_hash(engine->components->denoiser[i].component->source, SG_HASH + (uint64_t)i);
    snprintf(out, 17, "%016" PRIx64, sum);
}

const sg_thresholds_file *sg_engine_thresholds(const sg_engine *engine) { return &engine->tuned; }

/* ---- what may be asked ---- */

/* The number nearest to v of m, 2 m, ... */
static int nearest(int v, int m)
{
    const int n = v < m ? 0 : (int)(((int64_t)v - m + m / 2) / m), most = (INT_MAX - m) / m;
    return m + (n > most ? most : n) * m;
}

static sg_status check_attention(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const int layers = sg_first_layer(engine->components, engine->components->denoisers);
    SG_TRY(sg_policy_check(&r->attention, e));
    if (r->attention.dense_layers) SG_TRY(sg_layers_check("dense-layers", r->attention.dense_layers, layers, e));
    if (!r->capture_out) return SG_OK;
    if (r->latents_in) return sg_error_set(e, SG_E_ARG, "capture-qkv: latents that are only decoded have no attention");
    if (r->capture_layer < 0 || r->capture_layer >= layers)
        return sg_error_set(e, SG_E_ARG, "capture-qkv: layer %d: this model has 0 to %d", r->capture_layer, layers - 1);
    if (r->capture_step < 0 || r->capture_step >= sg_request_steps(r))
        return sg_error_set(e, SG_E_ARG, "capture-qkv: step %d: this render has 0 to %d", r->capture_step,
                            sg_request_steps(r) - 1);
    return SG_OK;
}

/* Pictures that the model does not take, and pictures of no frame. */
static sg_status check_images(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    static const char *const name[SG_IMAGES] = {"image", "last-image"}, *const edge[SG_IMAGES] = {"begin", "end"};
    for (int i = 0; i < SG_IMAGES; i++)
        if (r->image[i].rgb && !engine->components->image[i])
            return sg_error_set(e, SG_E_ARG, "%s: this model does not take a picture for the clip to %s with", name[i],
                                edge[i]);
    if (r->image[SG_IMAGE_LAST].rgb && !r->image[SG_IMAGE_FIRST].rgb)
        return sg_error_set(e, SG_E_ARG, "last-image: it needs image too, the first frame");
    if (r->image[SG_IMAGE_LAST].rgb && r->frames < 2)
        return sg_error_set(e, SG_E_ARG, "last-image: a clip of one frame begins and ends with the same");
    return SG_OK;
}

/* The most frames below r's whose latents this model does not pad; 0: there are none. */
static int unpadded_frames(const sg_engine *engine, const sg_request *r)
{
    sg_request less = *r;
    for (int i = r->frames - 1; i > 0; i--) {
        less.frames = i;
        sg_engine_nearest_size(engine, NULL, NULL, &less.frames);
        if (less.frames < r->frames && !sg_geometry_of(engine->components, &less).pad) return less.frames;
    }
    return 0;
}

/* The start. */
static sg_status check_start(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const sg_vae *const v = &engine->components->vae;
    const double        strength = r->strength;
    char                hint[48] = "";
    if (r->start_image && r->start_video)
        return sg_error_set(e, SG_E_ARG, "image and video: a render starts from one of them");
    if (!sg_request_start(r)) return SG_OK;
    if (!r->start_image == makes_images(engine->components))
        return sg_error_set(e, SG_E_ARG, "%s: this model starts from %s", sg_start_name(r),
                            r->start_image ? "a video" : "an image");
    if (!v->ops->encode_open)
        return sg_error_set(e, SG_E_ARG, "%s: this model starts from noise only: its VAE, %s, has no encoder here",
                            sg_start_name(r), v->ops->component(v->of)->class_name);
    if (!(strength > 0 && strength <= 1))
        return sg_error_set(e, SG_E_ARG, "strength: %g is not above 0 and at most 1", strength);
    if (sg_request_steps(r) < 1)
        return sg_error_set(e, SG_E_ARG, "strength: %g of %d step%s is less than one step", strength, r->steps,
                            r->steps == 1 ? "" : "s");
    if (!sg_geometry_of(engine->components, r).pad) return SG_OK;
    const int frames = unpadded_frames(engine, r);
    if (frames) snprintf(hint, sizeof hint, "; %d frame%s would do", frames, sg_plural(frames));
    return sg_error_set(e, SG_E_ARG, "video: latents of %d frame%s are padded by this model, which a video's are not%s",
                        r->frames, sg_plural(r->frames), hint);
}

/* Skip-layer guidance. */
static sg_status check_skipping(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const int steps = sg_request_steps(r), blocks = engine->components->skip_blocks;
    int       step = 0;
    if (!(r->slg_scale >= 0 && r->slg_scale <= 1000))
        return sg_error_set(e, SG_E_ARG, "slg-scale: %g is not between 0 and 1000", r->slg_scale);
    if (r->slg_scale == 0) return SG_OK;
    if (!blocks)
        return sg_error_set(e, SG_E_ARG, "slg-scale: models of family %s have no skip-layer guidance",
                            engine->family->name);
    if (!(r->cfg_scale > 1))
        return sg_error_set(e, SG_E_ARG, "slg-scale: skip-layer guidance goes with a cfg-scale above 1, which is %g",
                            r->cfg_scale);
    SG_TRY(sg_layers_check("skip-layers", r->skip_layers ? r->skip_layers : "", blocks, e));
    while (step < steps && !sg_skips_layers(r, steps, step)) step++;
    if (step < steps) return SG_OK;
    return sg_error_set(e, SG_E_ARG,
                        "slg-scale: of %d step%s, counted from 0, none is above %g (skip-layer-start) and below %g "
                        "(skip-layer-end) of them",
                        steps, sg_plural(steps), r->skip_layer_start, r->skip_layer_end);
}

sg_status sg_engine_check_request(const sg_engine *engine, const sg_request *r, sg_error *e)
{
    const sg_frame_rule frames = engine->components->frames;
    const int           m = engine->components->size_multiple;
    char                rule[48];
    if (r->width < 1 || r->height < 1 || r->width > 1 << 16 || r->height > 1 << 16)
        return sg_error_set(e, SG_E_ARG, "size: %dx%d is not between 1x1 and 65536x65536", r->width, r->height);
    if (r->width % m || r->height % m)
        return sg_error_set(e, SG_E_ARG,
                            "size: %dx%d: width and height must be multiples of %d for this model; nearest "
                            "is %dx%d",
                            r->width, r->height, m, nearest(r->width, m), nearest(r->height, m));
    if (r->frames < 1 || r->frames > 1 << 20)
        return sg_error_set(e, SG_E_ARG, "frames: %d is not between 1 and %d", r->frames, 1 << 20);
    if (sg_frame_rule_nearest(frames, r->frames) != r->frames)
        return sg_error_set(e, SG_E_ARG, "frames: %d: this model makes %s; nearest is %d", r->frames,
                            sg_frame_rule_text(rule, sizeof rule, frames), sg_frame_rule_nearest(frames, r->frames));
    if (r->steps < 1 || r->steps > SG_STEPS_MAX)
        return sg_error_set(e, SG_E_ARG, "steps: %d is not between 1 and %d", r->steps, SG_STEPS_MAX);
    if (!(r->cfg_scale >= 0 && r->cfg_scale <= 1000))
        return sg_error_set(e, SG_E_ARG, "cfg-scale: %g is not between 0 and 1000", r->cfg_scale);
    if (!(r->cfg_scale_2 <= 1000)) return sg_error_set(e, SG_E_ARG, "cfg-scale-2: %g is above 1000", r->cfg_scale_2);
    if (engine->components->guidance != SG_GUIDANCE_EMBEDDED && r->guidance != 0)
        return sg_error_set(e, SG_E_ARG, "guidance: this model has no embedded guidance; cfg-scale guides it");
    if (engine->components->guidance == SG_GUIDANCE_EMBEDDED && !(r->guidance > 0 && r->guidance <= 1000))
        return sg_error_set(e, SG_E_ARG, "guidance: %g is not above 0 and up to 1000", r->guidance);
    if (r->dynamic_cfg && !engine->family->dynamic_guidance)
        return sg_error_set(e, SG_E_ARG, "dynamic-cfg: guidance of a model of family %s is the same in all steps",
                            engine->family->name);
    SG_TRY(check_skipping(engine, r, e));
    const bool by_tokens = r->flow_shift == 0 && engine->components->sampler.by_tokens.on;
    if (!by_tokens && !(r->flow_shift >= 0.001 && r->flow_shift <= 1000))
        return sg_error_set(e, SG_E_ARG, "flow-shift: %g is not between 0.001 and 1000", r->flow_shift);
    if (!(r->cache_threshold >= 0 && r->cache_threshold <= SG_CACHE_THRESHOLD_MAX))
        return sg_error_set(e, SG_E_ARG, "cache: the threshold %g is not between 0 and %g", r->cache_threshold,
                            SG_CACHE_THRESHOLD_MAX);
    sg_sampler any;
    SG_TRY(check_start(engine, r, e));
    SG_TRY(sg_render_sampler(&any, engine, r, e));
    SG_TRY(check_attention(engine, r, e));
    SG_TRY(check_images(engine, r, e));
    SG_TRY(sg_preview_check(engine, r, e));
    return engine->family->check ? engine->family->check(engine->model, r, e) : SG_OK;
}

void sg_engine_nearest_size(const sg_engine *engine, int *width, int *height, int *frames)
{
    if (width) *width = nearest(*width, engine->components->size_multiple);
    if (height) *height = nearest(*height, engine->components->size_multiple);
    if (frames) *frames = sg_frame_rule_nearest(engine->components->frames, *frames);
}

/* ---- latents in a file ---- */

sg_status sg_latents_open(const sg_engine *engine, const char *path, sg_source **source, sg_tensor *latents,
                          sg_error *e)
{
    if (!sg_text_ends(path, ".safetensors"))
        return sg_error_set(e, SG_E_ARG, "%s: a latents file is named *.safetensors", path);
    SG_TRY(sg_source_open(source, path, e));

    const int z = engine->components->vae.info.z;
    *latents = sg_source_find(*source, "latents");
    if (latents->rank == 4 && latents->dtype == SG_F32 && latents->dim[0] == z && sg_count(*latents) > 0) return SG_OK;
    sg_source_close(source);
    return sg_error_set(e, SG_E_FORMAT, "%s: there is no tensor \"latents\" of F32 [%d, f, y, x] in it", path, z);
}

sg_status sg_engine_fit_latents(const sg_engine *engine, const char *path, sg_request *r, char **note, sg_error *e)
{
    sg_source *source = NULL;
    sg_tensor  t;
    *note = NULL;
    SG_TRY(sg_latents_open(engine, path, &source, &t, e));
    const sg_frame_rule rule = engine->components->frames;
    const int64_t       space = engine->components->vae.info.scale_space;
    const int64_t       most = (1 << 20) / (rule.step ? rule.step : 1);
    const bool          fits = t.dim[3] <= (1 << 16) / space && t.dim[2] <= (1 << 16) / space && t.dim[1] <= most;
    if (fits) {
        r->width = (int)(t.dim[3] * space);
        r->height = (int)(t.dim[2] * space);
        r->frames = (int)sg_frame_rule_count(rule, t.dim[1]);
        const char *const text = sg_source_metadata(source, "settings");
        *note = text ? strdup(text) : NULL;
    }
    sg_source_close(&source);
    return fits ? SG_OK : sg_error_set(e, SG_E_FORMAT, "%s: latents of an absurd size", path);
}
