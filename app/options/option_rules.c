/* option_rules.c - see option_rules.h. Runs before anything is opened. */
#include "option_rules.h"
#include "base/number.h"
#include "base/output_file.h"
#include "base/text.h"
#include "option_table.h"
#include "settings.h"

#include <limits.h>
#include <string.h>

/* Whether s has this option: with this value, unless that is NULL. A file "none" asks for nothing. */
static bool given(const sg_settings *s, const char *name, const char *value)
{
    const sg_option *const o = sg_settings_option(s, name);
    if (!o || !sg_settings_has(s, o)) return false;
    if (o->kind != SG_OPTION_TEXT && o->kind != SG_OPTION_CHOICE) return true;
    const char *const text = *(const char *const *)sg_settings_value(s, o);
    return value ? strcmp(text, value) == 0 : strcmp(text, "none") != 0;
}

/* The options of `without` do nothing beside --by, or beside --by with this value. */
typedef struct rule {
    const char *by, *value;
    const char *without[18];
} rule;

static const rule rules[] = {
    {"attention",
     "dense",
     {"preset", "topk", "tau", "sim", "pv", "sink", "score", "tail", "tail-bias", "pv-dtype", "budget", "order",
      "dense-steps", "dense-steps-kind", "dense-layers", "sparse-config", "block-mask"}},
    {"attention",
     "sage",
     {"topk", "tau", "sim", "pv", "sink", "score", "tail", "tail-bias", "budget", "sparse-config", "block-mask",
      "order"}},
    {"block-mask", NULL, {"topk", "tau", "sim", "sink", "score", "budget", "sparse-config"}},
    {"inputs", "language", {"attention", "tau", "order", "repeat", "qkv"}},
    {"sparse-config", NULL, {"topk", "tau", "sim", "pv"}},
    {"tail", "off", {"tail-bias"}},
    {"image-folder", NULL, {"image"}}, /* of which every entry has its own */
    {"output", NULL, {"force"}},
    {"cache", NULL, {"rule", "l1", "l2", "least", "buckets"}}, /* of tune */
    {"sampler", "euler", {"sched-compat"}},
    {"sampler", "lcm", {"sched-compat"}},
    {"sampler", "ddim", {"sched-compat", "sigmas", "flow-shift", "preset-steps", "fast"}},
    {"sampler", "dpm", {"sched-compat", "sigmas", "flow-shift", "preset-steps", "fast"}},
    {"sampler", "euler_a", {"sched-compat", "sigmas", "flow-shift", "preset-steps", "fast"}},
    {"sampler", "unipc", {"sigmas", "fast"}},
    {"fast", NULL, {"steps", "flow-shift", "sched-compat", "preset-steps"}},
    {"sigmas", NULL, {"steps", "flow-shift", "sched-compat", "preset-steps"}},
    {"preset-steps", NULL, {"steps", "flow-shift", "sampler", "sched-compat"}},
    {"backend", "cpu", {"device", "gpumask"}},
    {"backend", "ref", {"device", "gpumask"}},
    {"weights-as", "bf16", {"lora-merge"}},
};

/* An option that was asked for and that does nothing by a rule that s fulfils: by any rule, or where s is what became
 * of asked by those of a value. */
sg_status sg_options_check_effects(const sg_settings *asked, const sg_settings *s, sg_error *e)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const rule *const r = &rules[i];
        if ((s != asked && !r->value) || !given(s, r->by, r->value)) continue;
        for (const char *const *o = r->without; *o; o++)
            if (given(asked, *o, NULL))
                return sg_error_set(e, SG_E_ARG, "--%s has no effect with --%s%s%s", *o, r->by, r->value ? " " : "",
                                    r->value ? r->value : "");
    }
    return SG_OK;
}

/* ---- of what is resolved ---- */

static void drop(sg_settings *s, const char *const *names, unsigned phases)
{
    for (; *names; names++) {
        const sg_option *const o = sg_settings_option(s, *names);
        if (o && (o->phase & phases)) sg_settings_unset(s, o);
    }
}

void sg_settings_drop_idle(sg_settings *s, unsigned phases)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (given(s, rules[i].by, rules[i].value)) drop(s, rules[i].without, phases);
    /* These do nothing, or what is done without them, where the first is true. */
    const struct {
        bool        so;
        const char *without[5];
    } idle[] = {{!s->arms && !(s->cfg_scale > 1) && !(s->cfg_scale_2 > 1), {"negative-prompt", "dynamic-cfg"}},
                {s->steps && s->steps < SG_CACHE_STEPS_MIN, {"cache"}},
                {s->hash.tuned != 0, {"topk", "tau", "sim", "pv"}},
                {given(s, "pv-dtype", "auto"), {"pv-dtype"}},
                {given(s, "dense-steps-kind", "dense"), {"dense-steps-kind"}}};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (idle[i].so) drop(s, idle[i].without, phases);
}

/* ---- before anything is opened ---- */

static const char *const of_text[] = {"length", NULL};
static const char *const of_language[] = {"planted", "margin", "kv-heads", "save-qkv", NULL};
const char *const        sg_options_of_slg[] = {"skip-layers", "skip-layer-start", "skip-layer-end", NULL};

/* None of these options may be given, for what they need is not. */
static sg_status refuse_all(const sg_settings *s, const char *const *names, const char *needed, sg_error *e)
{
    for (; *names; names++)
        if (given(s, *names, NULL)) return sg_error_set(e, SG_E_ARG, "--%s has no effect without %s", *names, needed);
    return SG_OK;
}

static sg_status check_values(const sg_settings *s, sg_error *e)
{
    int         layer, step;
    const char *file;
    sg_error    why = {0};
    if (given(s, "tau", NULL) && given(s, "budget", "heads"))
        return sg_error_set(e, SG_E_ARG, "--tau and --budget heads exclude each other: heads share a number of blocks");
    SG_TRY(sg_options_check_effects(s, s, e));
    if (!(s->slg_scale > 0) && !s->arms) /* an arm may have a scale */
        SG_TRY(refuse_all(s, sg_options_of_slg, "--slg-scale above 0", e));
    if (!s->text) SG_TRY(refuse_all(s, of_text, "--text", e));
    if (!given(s, "inputs", "language")) SG_TRY(refuse_all(s, of_language, "--inputs language", e));
    if (s->command == SG_COMMAND_BENCH_ATTENTION && s->block_mask && !given(s, "inputs", "language"))
        return sg_error_set(e, SG_E_ARG, "--block-mask has no effect without --inputs language");
    if (s->lora_merge && !s->lora.count && !s->high_noise_lora.count && !s->fast && s->command != SG_COMMAND_SERVE)
        return sg_error_set(e, SG_E_ARG, "--lora-merge has no effect without --lora"); /* jobs may name some */
    if (given(s, "strength", NULL) && !given(s, "video", NULL) && !given(s, "image", NULL) &&
        s->command != SG_COMMAND_EVAL) /* a set may have some */
        return sg_error_set(e, SG_E_ARG, "--strength has no effect: there is no --video and no --image");
    if (s->sigmas && sg_sigmas_read(&(sg_request){0}, s->sigmas, &why) != SG_OK)
        return sg_error_set(e, SG_E_ARG, "--%s", why.text);
    if (s->dense_layers) SG_TRY(sg_layers_check("--dense-layers", s->dense_layers, INT_MAX, e));
    if (s->skip_layers) SG_TRY(sg_layers_check("--skip-layers", s->skip_layers, INT_MAX, e));
    if (s->capture_qkv && !sg_options_capture(s->capture_qkv, &layer, &step, &file))
        return sg_error_set(e, SG_E_ARG,
                            "--capture-qkv: '%.80s' is not LAYER:STEP:FILE" SG_SAFETENSORS
                            ", as in 4:6:qkv" SG_SAFETENSORS,
                            s->capture_qkv);
    return SG_OK;
}

enum { MOST_NUMBER = 999999 }; /* of a layer or a step */

/* Where nothing is rendered, no option but these does anything. */
static sg_status allow_only(const sg_settings *s, const char *const *names, const char *where, sg_error *e)
{
    const sg_option *o;
    for (int i = 0; (o = sg_option_next(s->command, &i)) != NULL;)
        if (!names[sg_text_place(o->name, names)] && given(s, o->name, NULL))
            return sg_error_set(e, SG_E_ARG, "--%s has no effect %s", o->name, where);
    return SG_OK;
}

#define DEVICE "backend", "threads", "cpumask", "gpumask", "device", "memory-limit", NULL

static sg_status check_reading(const sg_settings *s, sg_error *e)
{
    static const char *const compared[] = {"json", NULL}, *const merged[] = {"merge", "quiet", NULL};
    static const char *const compared_by_clip[] = {"json", "clip", "prompt", DEVICE};
    static const char *const text[] = {"text",  "length",    "model", "preset", "sim", "sink",  "score",
                                       "tail",  "tail-bias", "rule",  "l1",     "l2",  "least", "output",
                                       "force", "json",      "dtype", "quiet",  DEVICE};
    static const char *const merged_by_clip[] = {"merge", "quiet", "clip", DEVICE};
    if (s->command == SG_COMMAND_COMPARE && s->operand)
        return allow_only(s, s->clip ? compared_by_clip : compared, "where two results are compared", e);
    if (s->command == SG_COMMAND_COMPARE && s->clip)
        return sg_error_set(e, SG_E_ARG, "--clip is for two results: sparge-gen compare A B --clip DIR");
    if (s->command == SG_COMMAND_TUNE && s->text) return allow_only(s, text, "with --text", e);
    if (s->command == SG_COMMAND_EVAL && s->merge)
        return allow_only(s, s->clip ? merged_by_clip : merged, "with --merge", e);
    return SG_OK;
}

bool sg_options_capture(const char *text, int *layer, int *step, const char **file)
{
    int *const number[] = {layer, step};
    for (int i = 0; i < 2; i++) {
        const size_t n = strcspn(text, ":");
        if (!text[n] || !sg_number_small(text, n, 0, MOST_NUMBER, number[i])) return false;
        text += n + 1;
    }
    *file = text;
    return sg_text_ends(text, SG_SAFETENSORS);
}

/* Options of which one at most can be given. */
static sg_status check_pairs(const sg_settings *s, sg_error *e)
{
    static const char *const pairs[][2] = {{"prompt", "prompt-file"}, {"frames", "seconds"},
                                           {"quiet", "verbose"},      {"topk", "tau"},
                                           {"capture-qkv", "batch"},  {"capture-qkv", "prompt-file"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const sg_option *const a = sg_settings_option(s, pairs[i][0]), *const b = sg_settings_option(s, pairs[i][1]);
        if (a && b && sg_settings_has(s, a) && sg_settings_has(s, b))
            return sg_error_set(e, SG_E_ARG, "--%s and --%s exclude each other", a->name, b->name);
    }
    return SG_OK;
}

sg_status sg_options_check(const sg_settings *s, sg_error *e)
{
    if (s->command == SG_COMMAND_BENCH)
        return sg_error_set(e, SG_E_ARG, "bench needs a subcommand: bench step, bench attention or bench cold");
    SG_TRY(check_pairs(s, e));
    if (s->prompt && strcmp(s->prompt, "-") == 0)
        return sg_error_set(e, SG_E_ARG, "--prompt: a dash is no prompt%s",
                            sg_settings_option(s, "prompt-file") ? "; --prompt-file - reads prompts from stdin" : "");
    if (s->json && s->output && sg_output_is_stdout(s->json) && sg_output_is_stdout(s->output))
        return sg_error_set(e, SG_E_ARG, "--json and --output cannot both go to stdout");
    if (given(s, "offload", "on") && (given(s, "backend", "cpu") || given(s, "backend", "ref")))
        return sg_error_set(e, SG_E_ARG, "--offload on has no effect with --backend %s", s->backend);
    SG_TRY(check_reading(s, e));
    return check_values(s, e);
}
