/* resolve.c - see resolve.h. */
#include "resolve.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"
#include "environment.h"
#include "option_rules.h"
#include "settings.h"
#include "setup.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static bool is(const char *given, const char *value) { return given && strcmp(given, value) == 0; }

/* ---- one option ---- */

double sg_decimal(float v)
{
    char text[32];
    int  digits = FLT_DIG + 1;
    do snprintf(text, sizeof text, "%.*g", digits, (double)v);
    while (strtof(text, NULL) != v && digits++ < FLT_DECIMAL_DIG);
    return strtod(text, NULL);
}

static bool is_float(const sg_option *o) { return o->kind == SG_OPTION_REAL && o->request_size == sizeof(float); }

static void to_request(sg_request *r, const sg_settings *s, const sg_option *o)
{
    void *const       to = (char *)r + o->request;
    const void *const from = sg_settings_value(s, o);
    const int place = o->kind == SG_OPTION_CHOICE ? sg_text_place(*(const char *const *)from, sg_option_choices(o)) : 0;
    if (is_float(o))
        *(float *)to = (float)*(const double *)from;
    else
        memcpy(to, o->kind == SG_OPTION_CHOICE ? &place : from, o->request_size); /* of a place its low byte may do */
}

static void from_request(sg_settings *s, const sg_request *r, const sg_option *o)
{
    const void *const from = (const char *)r + o->request;
    void *const       to = sg_settings_at(s, o);
    int               place = 0;
    if (o->kind == SG_OPTION_CHOICE) memcpy(&place, from, o->request_size);
    if (is_float(o))
        *(double *)to = sg_decimal(*(const float *)from);
    else if (o->kind == SG_OPTION_CHOICE)
        *(const char **)to = sg_option_choices(o)[place];
    else
        memcpy(to, from, o->request_size);
    if (!sg_settings_has(s, o)) sg_settings_unset(s, o);
}

/* ---- what sets several members ---- */

/* The nearest count that the model makes; the larger of two as near. */
static int frames_of(const sg_engine *engine, double seconds, int fps)
{
    const double asked = fmin(fmax(seconds * fps, 1), 1 << 24);
    int          low = (int)asked, high = low + 1;
    sg_engine_nearest_size(engine, NULL, NULL, &low);
    sg_engine_nearest_size(engine, NULL, NULL, &high);
    return fabs(asked - low) < fabs(high - asked) ? low : high;
}

static void settle_size(sg_settings *s, const sg_request *r, const sg_engine *engine)
{
    if (s->seconds > 0) s->frames = frames_of(engine, s->seconds, s->fps ? s->fps : r->fps);
    if (!sg_settings_strict(s))
        sg_engine_nearest_size(engine, s->size[0] ? &s->size[0] : NULL, s->size[1] ? &s->size[1] : NULL,
                               s->frames ? &s->frames : NULL);
}

/* 32 bits are enough to tell noises apart, and short enough to type. */
static sg_status settle_seed(sg_rendering *x, sg_error *e)
{
    uint32_t v;
    if (x->settings.seed < 0) {
        if (getrandom(&v, sizeof v, 0) != sizeof v)
            return sg_error_set(e, SG_E_DEVICE, "--seed: the system gives no random number: %s", strerror(errno));
        x->settings.seed = v;
    }
    x->request.seed = (uint64_t)x->settings.seed;
    return SG_OK;
}

/* A preset comes first: guidance may be given besides. */
static sg_status settle_sampler(sg_request *r, const sg_settings *s, sg_error *e)
{
    if (s->preset_steps) sg_step_preset_apply(r, sg_text_place(s->preset_steps, sg_names("step_preset")));
    if (!s->sigmas) return SG_OK;
    SG_TRY(sg_sigmas_read(r, s->sigmas, e));
    if (!s->sampler) r->sampler = SG_SAMPLER_EULER;
    return SG_OK;
}

static void note_sigmas(sg_rendering *x)
{
    const sg_request *const r = &x->request;
    for (int i = 0; i < r->sigmas.count; i++)
        sg_text_append(x->sigmas, sizeof x->sigmas, "%s%.15g", i ? "," : "", r->sigmas.at[i]);
    if (r->sigmas.count) x->settings.sigmas = x->sigmas;
}

/* Whether a render starts from a picture or a video, and not from noise alone. */
static bool starts(const sg_settings *s, const sg_model_info *info)
{
    return s->video || (s->image && info->image[SG_IMAGE_FIRST] == SG_IMAGE_START);
}

static void settle_cache(sg_rendering *x, const sg_model_info *info)
{
    sg_request *const r = &x->request;
    const int         done = starts(&x->settings, info)
                                 ? sg_steps_of_strength(r->steps, r->strength, sg_setup_makes_images(info))
                                 : r->steps;
    const bool        one_clip = x->settings.command & (SG_COMMAND_RENDER | SG_COMMAND_INFO);
    if (done >= SG_CACHE_USUAL_FROM && one_clip) r->cache = SG_CACHE_USUAL;
    x->settings.cache = sg_names("cache")[r->cache];
}

/* How quantised weights are held, if there are some, and whether LoRAs are merged into them. */
static void settle_weights(sg_settings *s, const sg_model_info *info)
{
    const bool kept = info->weights_as == SG_WEIGHTS_FILE;
    s->weights_as = info->weights_as == SG_WEIGHTS_AUTO ? NULL : sg_names("weights_as")[info->weights_as];
    s->lora_merge = s->lora_merge && kept && info->loras;
}

/* What computes it: of a CPU also what holds its level down. */
static void settle_machine(sg_settings *s, const sg_model_info *info)
{
    s->dtype = strcmp(info->dtype, "bf16") == 0 ? "bf16" : "f32";
    s->backend = info->backend;
    if (info->synchronous) s->threads = info->threads;
    if (!s->cpumask && is(s->backend, "cpu")) s->cpumask = sg_environment_cpumask();
}

/* ---- attention ---- */

static void start_from(sg_policy *p, const char *preset)
{
    const char *const tuned = p->thresholds;
    if (is(preset, "paper")) *p = sg_policy_paper();
    if (!is(preset, "usual")) return;
    *p = sg_policy_default();
    p->thresholds = tuned;
}

static sg_status note_mask(sg_rendering *x, sg_error *e)
{
    SG_TRY(sg_setup_safetensors(x->settings.block_mask, "--block-mask", e));
    x->request.attention.mask = x->settings.block_mask;
    x->settings.hash.block_mask = SG_HASH;
    return sg_file_hash(&x->settings.hash.block_mask, x->settings.block_mask, e);
}

static sg_status note_thresholds(sg_rendering *x, sg_error *e)
{
    x->request.attention.thresholds = x->settings.sparse_config;
    x->settings.hash.sparse_config = SG_HASH;
    return sg_file_hash(&x->settings.hash.sparse_config, x->settings.sparse_config, e);
}

/* Which blocks are kept: by top-k or by mass, by a mask, or as thresholds say. */
static sg_status settle_rule(sg_rendering *x, sg_error *e)
{
    sg_settings *const s = &x->settings;
    sg_policy *const   p = &x->request.attention;
    const bool         thresholds = s->sparse_config && !is(s->sparse_config, "none");
    const bool         number = !isnan(s->topk) || !isnan(s->tau);
    if (number || s->block_mask || s->sparse_config) p->thresholds = NULL;
    if (thresholds) SG_TRY(note_thresholds(x, e));
    if (number) p->amount = (float)(isnan(s->tau) ? s->topk : s->tau);
    if (number) p->rule = isnan(s->tau) ? SG_SELECT_TOPK : SG_SELECT_MASS;
    if (s->block_mask) p->rule = SG_SELECT_GIVEN;
    if (s->block_mask) SG_TRY(note_mask(x, e));
    p->named = s->attention || number || s->block_mask || thresholds;
    if (!thresholds) s->sparse_config = NULL;
    if (p->rule == SG_SELECT_TOPK) s->topk = sg_decimal(p->amount);
    if (p->rule == SG_SELECT_MASS) s->tau = sg_decimal(p->amount);
    return SG_OK;
}

/* asked has attention as it was asked for. */
static sg_status settle_attention(sg_rendering *x, const sg_settings *asked, sg_error *e)
{
    sg_policy *const p = &x->request.attention;
    if (!isnan(asked->sim) || !isnan(asked->pv)) p->thresholds = NULL;
    x->settings.attention = asked->attention;
    SG_TRY(settle_rule(x, e));
    x->settings.attention = sg_names("attention")[p->kind];
    if (p->kind != SG_ATTENTION_SPARGE) p->thresholds = NULL;
    if (!p->budget) x->settings.budget = "row";
    return sg_policy_check(p, e);
}

/* Those of these phases that the command has. */
static void settle_options(sg_rendering *x, unsigned phases)
{
    const sg_option *o;
    for (int i = 0; (o = sg_settings_next(&x->settings, phases, &i)) != NULL;)
        if (o->request_size && sg_settings_has(&x->settings, o))
            to_request(&x->request, &x->settings, o);
        else if (o->request_size)
            from_request(&x->settings, &x->request, o);
}

sg_status sg_resolve_attention(sg_rendering *x, sg_error *e)
{
    const sg_settings asked = x->settings;
    start_from(&x->request.attention, asked.preset);
    settle_options(x, SG_OPTION_ATTENTION);
    SG_TRY(settle_attention(x, &asked, e));
    x->settings.preset = NULL;
    return SG_OK;
}

/* Arms settle it each for itself; what they have in common is known by its hash. */
static sg_status note_files(sg_settings *s, sg_error *e)
{
    s->hash.sparse_config = s->hash.block_mask = SG_HASH;
    if (s->sparse_config && !is(s->sparse_config, "none"))
        SG_TRY(sg_file_hash(&s->hash.sparse_config, s->sparse_config, e));
    return s->block_mask ? sg_file_hash(&s->hash.block_mask, s->block_mask, e) : SG_OK;
}

/* ---- what has no effect ---- */

/* Options of which only the model tells that they do nothing. */
static sg_status check_effects(const sg_rendering *x, const sg_settings *asked, const sg_model_info *info, sg_error *e)
{
    const sg_request *const r = &x->request;
    const bool              images = sg_setup_makes_images(info);
    if (images && asked->frames > 1)
        return sg_error_set(e, SG_E_ARG, "--frames %d: this model makes images, of one frame", asked->frames);
    if (images && (asked->seconds > 0 || asked->fps))
        return sg_error_set(e, SG_E_ARG, "--%s has no effect: this model makes images", asked->fps ? "fps" : "seconds");
    if (!isnan(asked->strength) && asked->image && !starts(asked, info) && asked->command != SG_COMMAND_EVAL)
        return sg_error_set(e, SG_E_ARG,
                            "--strength has no effect: this model's videos begin with --image; it is for --video");
    if (!isnan(asked->cfg_scale_2) && info->experts < 2)
        return sg_error_set(e, SG_E_ARG, "--cfg-scale-2 has no effect: this model has no second expert");
    if (r->dynamic_cfg && !(r->cfg_scale > 1))
        return sg_error_set(e, SG_E_ARG, "--dynamic-cfg has no effect: guidance is %g, and at 1 or less there is none",
                            r->cfg_scale);
    return sg_options_check_effects(asked, &x->settings, e);
}

/* ---- the whole ---- */

/* Members that others have taken the place of, and those that say nothing of this model. */
static void forget_consumed(sg_settings *s, const sg_settings *asked, const sg_model_info *info)
{
    const bool pictures = s->image || s->last_image || s->video;
    s->seconds = NAN;
    s->preset_steps = NULL;
    if (s->command == SG_COMMAND_EVAL)
        s->strength = asked->strength; /* of entries, which may start from something */
    else if (!starts(s, info))
        s->strength = NAN;
    if (!pictures && s->command != SG_COMMAND_EVAL) s->fit = NULL;
    if (pictures && !s->fit) s->fit = sg_picture_fits[0];
    if (sg_setup_makes_images(info)) s->frames = s->fps = 0;
    if (s->slg_scale > 0) return;
    s->slg_scale = asked->slg_scale;
    s->skip_layers = asked->skip_layers; /* an arm may have a scale */
    s->skip_layer_start = asked->skip_layer_start;
    s->skip_layer_end = asked->skip_layer_end;
}

sg_status sg_resolve(sg_rendering *x, const sg_engine *engine, sg_error *e)
{
    sg_settings *const  s = &x->settings;
    sg_request *const   r = &x->request;
    const sg_settings   asked = *s;
    const sg_model_info info = *sg_engine_info(engine);
    r->size = sizeof *r;
    sg_engine_defaults(engine, r);
    if (!s->sampler && !sg_sampler_flows(r->sampler)) { /* a list of sigmas would take another sampler */
        sg_settings usual = asked;
        usual.sampler = sg_names("sampler")[r->sampler];
        SG_TRY(sg_options_check_effects(&asked, &usual, e));
    }
    SG_TRY(settle_sampler(r, s, e));
    settle_size(s, r, engine);
    settle_options(x, SG_OPTION_KEPT & ~SG_OPTION_ATTENTION);
    note_sigmas(x);
    if (!asked.cache) settle_cache(x, &info);
    SG_TRY(settle_seed(x, e));
    const bool arms = s->command & SG_COMMAND_ARMS;
    SG_TRY(arms ? note_files(s, e) : sg_resolve_attention(x, e));
    if (!arms && r->attention.thresholds && !s->sparse_config) s->hash.tuned = info.thresholds;
    SG_TRY(check_effects(x, &asked, &info, e));
    settle_machine(s, &info);
    settle_weights(s, &info);
    forget_consumed(s, &asked, &info);
    return SG_OK;
}

sg_status sg_rendering_plan(sg_rendering *r, sg_engine *engine, sg_error *e)
{
    r->plan.size = sizeof r->plan;
    return sg_engine_plan(engine, &r->request, &r->plan, e);
}

sg_settings sg_rendering_kept(const sg_rendering *r)
{
    sg_settings s = r->settings;
    s.attention = sg_names("attention")[r->plan.attention_kind];
    if (r->plan.attention_kind != SG_ATTENTION_SPARGE) s.hash.tuned = 0;
    s.vae_tiling =
        sg_names("vae_tiling")[r->plan.untiled || r->request.vae_tiling == SG_TILING_ON ? SG_TILING_ON : SG_TILING_OFF];
    if (s.cache && s.steps < SG_CACHE_STEPS_MIN) s.cache = sg_names("cache")[SG_CACHE_OFF];
    sg_settings_drop_idle(&s, SG_OPTION_INPUT | SG_OPTION_ATTENTION);
    return s;
}

void sg_rendering_request(sg_request *out, const sg_request *shared, const sg_rendering *r)
{
    const sg_request own = r->request; /* which out may be */
    const sg_option *o;
    *out = *shared;
    for (int i = 0; (o = sg_settings_next(&r->settings, SG_OPTION_SAMPLING, &i)) != NULL;)
        memcpy((char *)out + o->request, (const char *)&own + o->request, o->request_size);
    out->sigmas = own.sigmas;
    out->attention = own.attention;
    out->attention_error = own.attention_error;
}
