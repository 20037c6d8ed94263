/* report_command.c - see report_command.h. */
#include "report_command.h"
#include "base/utf8.h"
#include "setup.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

void sg_command_escaped(FILE *f, const char *text, const char *more)
{
    for (const char *p = text; *p; p++) {
        size_t control = sg_utf8_control(p);
        if (*p == '\n')
            fputs("\\n", f);
        else if (*p == '\t')
            fputs("\\t", f);
        else if (strchr(more, *p))
            fprintf(f, "\\%c", *p);
        else if (!control)
            fputc(*p, f);
        else
            for (p--; control; control--) fprintf(f, "\\x%02x", (unsigned char)*++p);
    }
}

static bool holds_control(const char *text)
{
    for (const char *p = text; *p; p++)
        if (sg_utf8_control(p)) return true;
    return false;
}

void sg_command_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,/+:@";
    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
    } else if (strchr(word, '\'') || holds_control(word)) {
        fputs("$'", f);
        sg_command_escaped(f, word, "\\'");
        fputc('\'', f);
    } else {
        fprintf(f, "'%s'", word);
    }
}

void sg_command_value(FILE *f, const json_t *v)
{
    if (json_is_string(v))
        sg_command_escaped(f, json_string_value(v), "");
    else if (json_is_integer(v))
        fprintf(f, "%lld", (long long)json_integer_value(v));
    else if (json_is_number(v))
        fprintf(f, "%.15g", json_number_value(v));
    else
        json_dumpf(v, f, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
}

/* An option that would do nothing is refused. */
static bool has_effect(const json_t *settings, const char *key)
{
    const double      guidance[] = {json_number_value(json_object_get(settings, "cfg_scale")),
                                    json_number_value(json_object_get(settings, "cfg_scale_2"))};
    const char *const sampler = json_string_value(json_object_get(settings, "sampler"));
    if (strcmp(key, "negative_prompt") == 0) return guidance[0] > 1 || guidance[1] > 1;
    if (strcmp(key, "sched_compat") == 0) return !sampler || strcmp(sampler, "unipc") == 0;
    const bool betas = sampler && (strcmp(sampler, "ddim") == 0 || strcmp(sampler, "dpm") == 0);
    if (strcmp(key, "flow_shift") == 0 && betas) return false;
    const bool of_a_schedule = strcmp(key, "steps") == 0 || strcmp(key, "flow_shift") == 0;
    return !of_a_schedule || !json_object_get(settings, "sigmas");
}

/* Did a render compute so many steps that it would have a cache if nothing was said? Arms have none. Of a share of the steps
 * models of images compute one more where it is no whole number. */
static bool was_without_cache(const json_t *settings)
{
    const bool          cache = json_object_get(settings, "cache") || json_object_get(settings, "arms");
    const json_t *const strength = json_object_get(settings, "strength");
    const double        steps = json_number_value(json_object_get(settings, "steps"));
    return !cache && ceil(steps * (strength ? json_number_value(strength) : 1)) >= SG_CACHE_USUAL_FROM;
}

/* --lora FILE:STRENGTH for each of a list. */
static void lora_options(FILE *f, const json_t *list, const char *option)
{
    size_t        i;
    const json_t *v;
    json_array_foreach(list, i, v)
    {
        char              text[320];
        const char *const file = json_string_value(json_object_get(v, "file"));
        if (json_is_true(json_object_get(v, "fast"))) fputs(" --fast", f); /* the model knows the file */
        if (!file || json_is_true(json_object_get(v, "fast"))) continue;
        snprintf(text, sizeof text, "%.255s:%.15g", file, json_number_value(json_object_get(v, "strength")));
        fprintf(f, " --%s ", option);
        sg_command_word(f, text);
    }
}

void sg_command_options(FILE *f, const json_t *settings)
{
    static const char        ours[] = "tiny-wan"; /* needs no --model */
    static const char *const options[][2] = {
        {"model", "model"},
        {"diffusion_model", "diffusion-model"},
        {"high_noise_diffusion_model", "high-noise-diffusion-model"},
        {"vae", "vae"},
        {"text_encoder", "text-encoder"},
        {"clip_vision", "clip-vision"},
        {"tokenizer", "tokenizer"},
        {"clip_l", "clip-l"},
        {"clip_g", "clip-g"},
        {"clip_tokenizer", "clip-tokenizer"},
        {"prompt", "prompt"},
        {"negative_prompt", "negative-prompt"},
        {"image", "image"},
        {"last_image", "last-image"},
        {"video", "video"},
        {"strength", "strength"},
        {"fit", "fit"},
        {"width", "width"},
        {"height", "height"},
        {"frames", "frames"},
        {"fps", "fps"},
        {"steps", "steps"},
        {"cfg_scale", "cfg-scale"},
        {"cfg_scale_2", "cfg-scale-2"},
        {"guidance", "guidance"},
        {"dynamic_cfg", "dynamic-cfg"},
        {"slg_scale", "slg-scale"},
        {"skip_layers", "skip-layers"},
        {"skip_layer_start", "skip-layer-start"},
        {"skip_layer_end", "skip-layer-end"},
        {"flow_shift", "flow-shift"},
        {"sampler", "sampler"},
        {"sigmas", "sigmas"},
        {"sched_compat", "sched-compat"},
        {"cache", "cache"},
        {"vae_tiling", "vae-tiling"},
        {"seed", "seed"},
        {"batch", "batch"},
        {"dtype", "dtype"},
        {"attention", "attention"},
        {"arms", "arms"},
        {"preset", "preset"},
        {"sparse_config", "sparse-config"},
        {"block_mask", "block-mask"},
        {"topk", "topk"},
        {"tau", "tau"},
        {"sim", "sim"},
        {"pv", "pv"},
        {"sink", "sink"},
        {"score", "score"},
        {"budget", "budget"},
        {"tail", "tail"},
        {"tail_bias", "tail-bias"},
        {"pv_dtype", "pv-dtype"},
        {"order", "order"},
        {"dense_steps", "dense-steps"},
        {"dense_steps_kind", "dense-steps-kind"},
        {"dense_layers", "dense-layers"},
        {"crf", "crf"},
        {"png_level", "png-level"},
    };
    lora_options(f, json_object_get(settings, "lora"), "lora");
    lora_options(f, json_object_get(settings, "high_noise_lora"), "high-noise-lora");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        const json_t *v = json_object_get(settings, options[i][0]);
        if (json_is_object(v)) v = json_object_get(v, "file"); /* with its hash */
        if (json_is_object(v) || json_is_array(v)) continue;   /* not ours, and no word for a shell */
        if (!v || (i == 0 && json_is_string(v) && strcmp(json_string_value(v), ours) == 0)) continue;
        if (!has_effect(settings, options[i][0])) continue;
        if (json_is_true(v)) {
            fprintf(f, " --%s", options[i][1]);
            continue;
        }
        const char *const text = json_string_value(v); /* one that looks like an option is no value of its own */
        fprintf(f, " --%s%c", options[i][1], text && strncmp(text, "--", 2) == 0 ? '=' : ' ');
        if (text)
            sg_command_word(f, text);
        else
            sg_command_value(f, v);
    }
    if (was_without_cache(settings)) fputs(" --cache off", f);
}
