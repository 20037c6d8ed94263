/* command_info.c - `sparge-gen info`: of a folder, the model and what a render costs; of a file, how it was made. */
#include "base/file.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/output_file.h"
#include "base/path.h"
#include "base/text.h"
#include "build_facts.h"
#include "checkpoint.h"
#include "command.h"
#include "environment.h"
#include "frame_rule.h"
#include "json_build.h"
#include "notices.h"
#include "option_rules.h"
#include "report.h"
#include "report_attention.h"
#include "report_settings.h"
#include "session.h"
#include "tensor_source.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_VALUES = 1 << 16 }; /* of a file's settings */

static bool text_too(const sg_settings *s) { return !s->json || !sg_output_is_stdout(s->json); }

/* ---- a file ---- */

/* The file's name with "again" for its stem; what compare made is a folder. */
static void print_command(json_t *settings, const char *path)
{
    char       output[32] = "again";
    const bool arms = json_object_get(settings, "arms");
    if (!json_is_string(json_object_get(settings, "prompt"))) return;
    if (!arms) snprintf(output, sizeof output, "again%.16s", sg_path_extension(path));
    printf("\nagain: ");
    sg_settings_print(stdout, settings, arms ? SG_COMMAND_COMPARE : SG_COMMAND_RENDER, output);
    putchar('\n');
}

/* Of latents: what their file keeps; *out is the caller's, NULL: it holds no latents with settings. */
static sg_status latents_settings(const char *path, char **out, sg_error *e)
{
    sg_source *source = NULL;
    *out = NULL;
    if (!sg_text_ends(path, SG_SAFETENSORS) || sg_source_open(&source, path, &(sg_error){0}) != SG_OK) return SG_OK;
    const char *const text = sg_source_find(source, "latents").rank ? sg_source_metadata(source, "settings") : NULL;
    const bool        whole = !text || (*out = strdup(text));
    sg_source_close(&source);
    return whole ? SG_OK : sg_error_memory(e, path);
}

/* Doubts, in text, that the thresholds by which a clip was made are still beside its model: that which s opens, if it
 * is called as the clip's was. key: where its settings keep the file and hash of the thresholds. */
static void doubt_thresholds(char *text, size_t size, const json_t *settings, const char *key, const sg_settings *s)
{
    char              path[PATH_MAX + sizeof SG_THRESHOLDS_NAME + 1], now[17];
    sg_model_path     model;
    uint64_t          hash = SG_HASH;
    sg_error          why = {0};
    const char *const name = json_string_value(json_object_get(json_object_get(settings, "model"), "file"));
    const char *const was = json_string_value(json_object_get(json_object_get(settings, key), "hash"));
    if (!name || !was || sg_setup_model(&model, s, &why) != SG_OK || strcmp(name, model.name) != 0 ||
        !sg_file_beside(model.dir, SG_THRESHOLDS_NAME, path, sizeof path))
        return;
    const bool there = sg_file_hash(&hash, path, &why) == SG_OK;
    snprintf(now, sizeof now, "%016" PRIx64, hash);
    if (!there)
        snprintf(text, size, "%s, by which it was made, cannot be read", path);
    else if (strcmp(now, was) != 0)
        snprintf(text, size, "%s is another file (%s) than that by which it was made (%.16s)", path, now, was);
}

static void print_settings(json_t *settings, const char *path, const char *doubt)
{
    const char *key;
    json_t     *value;
    json_object_foreach(settings, key, value)
    {
        sg_print_escaped(stdout, key, "");
        printf("%*s ", strlen(key) < 16 ? (int)(16 - strlen(key)) : 0, "");
        sg_print_value(stdout, value);
        putchar('\n');
    }
    if (*doubt) sg_print(stdout, "%-16s %s\n", "doubt", doubt);
    print_command(settings, path);
}

static sg_status save_settings(const char *json, const char *path, json_t *settings, const char *doubt, sg_error *e)
{
    json_t *const j = json_pack("{s:o, s:O, s:o*}", "file", sg_report_name(path), "settings", settings, "doubt",
                                *doubt ? sg_report_name(doubt) : NULL);
    return sg_report_take(json, sg_report_envelope(SG_COMMAND_INFO, j), e);
}

/* Takes the text. */
static sg_status settings_info(const char *path, char *text, const sg_settings *s, sg_error *e)
{
    char         doubt[PATH_MAX + 128] = "";
    json_error_t why;
    const bool   fits = sg_json_fits(text, strlen(text), MAX_VALUES);
    json_t      *settings = fits ? json_loads(text, JSON_REJECT_DUPLICATES, &why) : NULL;
    free(text);
    if (!fits) return sg_error_set(e, SG_E_FORMAT, "%s: its settings have more than %d values", path, MAX_VALUES);
    if (!settings && json_error_code(&why) == json_error_out_of_memory) return sg_error_memory(e, path);
    const char *program = json_string_value(json_object_get(settings, "program"));
    if (!program || strncmp(program, "sparge-gen ", 11) != 0) {
        json_decref(settings);
        return sg_error_set(e, SG_E_FORMAT, "%s: keeps no settings: its comment was not written by sparge-gen", path);
    }
    doubt_thresholds(doubt, sizeof doubt, settings, "cache_threshold", s);
    doubt_thresholds(doubt, sizeof doubt, settings, "tuned", s);
    const sg_status status = s->json ? save_settings(s->json, path, settings, doubt, e) : SG_OK;
    if (status == SG_OK && text_too(s)) print_settings(settings, path, doubt);
    json_decref(settings);
    return status;
}

/* ---- a model ---- */

/* Is it a file of weights, by its first bytes, or an index of such files? */
static bool holds_weights(const char *path)
{
    uint8_t      b[16] = {0};
    FILE *const  f = fopen(path, "rb");
    const size_t n = f ? fread(b, 1, sizeof b, f) : 0;
    if (f) fclose(f);
    return sg_text_ends(path, ".index.json") ||
           (n == sizeof b && (memcmp(b, "GGUF", 4) == 0 || memcmp(b, "PK\3\4", 4) == 0 || (b[8] == '{' && b[7] == 0)));
}

static const char *scaled(char text[32], double v, double step, const char *const *unit)
{
    int i = 0;
    for (; v >= 1000 && unit[i + 1]; i++) v /= step;
    snprintf(text, 32, i == 0 || v >= 100 ? "%.0f%s" : "%.1f%s", v, unit[i]);
    return text;
}

static const char *const bytes_units[] = {" B", " KiB", " MiB", " GiB", " TiB", NULL};
static const char *const count_units[] = {"", " K", " M", " G", NULL};
#define BYTES(n) scaled((char[32]){0}, (double)(n), 1024, bytes_units)
#define COUNT(n) scaled((char[32]){0}, (double)(n), 1000, count_units)

static void print_components(const sg_model_info *info)
{
    printf("%-15s %-30s %10s %10s %6s %-6s %s\n", "component", "class", "numbers", "on disk", "files", "type", "");
    for (int i = 0; i < info->components; i++) {
        const sg_component_info *c = info->component[i];
        sg_print(stdout, "%-15s %-30s %10s %10s %6.0d %-6s %s\n", c->name, c->class_name,
                 c->parameters ? COUNT(c->parameters) : "", c->bytes ? BYTES(c->bytes) : "", c->files, c->dtype,
                 c->summary);
    }
}

/* Which part is in which file, of a model that is not just a Diffusers folder. */
static void print_files(const sg_model_info *info, const sg_model_path *model)
{
    if (sg_checkpoint_is(model->dir) && memcmp(&model->parts, &(sg_model_parts){0}, sizeof model->parts) == 0) return;
    putchar('\n');
    for (int i = 0; i < info->components; i++)
        sg_print(stdout, "%-15s %s: %s\n", info->component[i]->name, info->component[i]->place,
                 info->component[i]->types);
}

/* How weights may lie: as files have them or widened, on the device or as many blocks as possible on the host. */
typedef struct weights_way {
    const char *as;               /* "file", or the dtype */
    bool        offloaded, taken; /* taken: by a render as it is asked for */
    size_t      need, host, peak; /* of a plan */
} weights_way;

enum { WAYS = 4 };

/* What info shows of a model. */
typedef struct model_summary {
    sg_session   session;
    sg_rendering now;
    weights_way  way[WAYS];
    int          ways;
    char         doubt[SG_FORECAST_TEXT]; /* about thresholds; or "" */
} model_summary;

/* What each LoRA changes, and every tensor of its file that changes nothing. */
static void print_loras(const sg_session *x)
{
    for (int i = 0; i < x->info.loras; i++) {
        const sg_lora_info *const l = x->info.lora[i];
        size_t                    at = 0;
        const char               *key;
        sg_print(stdout, "%s%s: strength %g, changes %d tensor%s", i ? "           " : "\nlora       ", l->name,
                 l->strength, l->tensors, sg_plural(l->tensors));
        if (l->rank[1]) printf(l->rank[0] == l->rank[1] ? ", rank %d" : ", rank %d to %d", l->rank[0], l->rank[1]);
        printf(", %s", l->beside ? "beside quantised weights" : "merged");
        if (l->unused) printf("; %d of %d in the file fit nothing:", l->unused, l->keys);
        putchar('\n');
        while ((key = sg_engine_lora_unused(x->engine, i, &at)) != NULL) {
            fputs("             ", stdout);
            sg_print_escaped(stdout, key, "");
            putchar('\n');
        }
    }
}

static json_t *loras_json(const sg_session *x)
{
    json_t *j = json_array();
    for (int i = 0; i < x->info.loras; i++) {
        const sg_lora_info *const l = x->info.lora[i];
        json_t                   *unused = json_array();
        size_t                    at = 0;
        const char               *key;
        while ((key = sg_engine_lora_unused(x->engine, i, &at)) != NULL) sg_json_append(&unused, sg_report_name(key));
        sg_json_append(&j, json_pack("{s:o, s:f, s:i, s:i, s:[i,i], s:o, s:b}", "file", sg_report_name(l->name),
                                     "strength", l->strength, "keys", l->keys, "tensors", l->tensors, "rank",
                                     l->rank[0], l->rank[1], "unused", unused, "beside", l->beside));
    }
    return j;
}

static void print_phase(const sg_phase_plan *p)
{
    const size_t bytes[] = {p->weights, p->mapped, p->packed, p->work, p->peak};
    const char  *name = p->stage == SG_STAGE_DENOISE ? "denoising" : p->stage == SG_STAGE_DECODE ? "decoding" : p->name;
    char         text[SG_PHASE_NAME + 16];
    if (strcmp(name, "text") == 0) name = "prompt";
    snprintf(text, sizeof text, p->number > 1 ? "%s %d" : "%s", name, p->number);
    printf("%-10s", text);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) printf(" %10s", BYTES(bytes[i]));
    printf(" %10.3g\n", p->flops * 1e-12);
}

/* Which pictures the model takes. */
static void print_pictures(const sg_model_info *info)
{
    static const char *const option[SG_IMAGES] = {"--image", "--last-image"};
    static const char *const use[] = {[SG_IMAGE_OPTIONAL] = "may be given",
                                      [SG_IMAGE_NEEDED] = "is needed",
                                      [SG_IMAGE_START] = "may be given to start from, with --strength"};
    const char              *sep = "picture    ";
    for (int i = 0; i < SG_IMAGES; i++) {
        if (info->image[i] == SG_IMAGE_NONE) continue;
        printf("%s%s FILE %s", sep, option[i], use[info->image[i]]);
        sep = ", ";
    }
    if (*sep == ',') putchar('\n');
}

/* Where there is a choice. Where the device computes in the host's memory, no way is offloaded. */
static void print_ways(const model_summary *t)
{
    bool has_host = false;
    if (t->ways < 2) return;
    for (int i = 0; i < t->ways; i++) has_host |= t->way[i].offloaded;
    printf("\n%-10s  %13s", "weights as", has_host ? "on the device" : "peak");
    puts(has_host ? "  on the host" : "");
    for (const weights_way *w = t->way; w < t->way + t->ways; w++) {
        printf("%-10s  %13s", w->as, BYTES(has_host ? w->need : w->peak));
        if (has_host) printf("  %11s  %s", w->host ? BYTES(w->host) : "", w->offloaded ? "offloaded" : "resident");
        puts(w->taken ? "  <- taken" : "");
    }
}

static void print_render(const model_summary *t)
{
    const sg_request *const r = &t->now.request;
    const sg_plan *const    p = &t->now.plan;
    printf("\nrender     %s", sg_clip_text((char[SG_CLIP_TEXT]){0}, r));
    if (r->frames > 1) printf(" (%.3g s)", (double)r->frames / r->fps);
    printf("\n           sizes in steps of %d", t->session.info.multiple);
    if (!sg_setup_makes_images(&t->session.info))
        printf(", frames %s",
               sg_frame_rule_text((char[48]){0}, 48,
                                  (sg_frame_rule){t->session.info.frame_step, t->session.info.frame_pairs}));
    putchar('\n');
    printf("           %d step%s of %s, guidance %s", r->steps, sg_plural(r->steps), sg_names("sampler")[r->sampler],
           sg_guidance_text((char[SG_GUIDANCE_TEXT]){0}, r));
    if (r->sigmas.count)
        printf(", sigmas %s", t->now.settings.sigmas);
    else if (sg_sampler_flows(r->sampler))
        printf(", flow shift %.6g%s", p->flow_shift, r->flow_shift > 0 ? "" : " by the picture's tokens");
    putchar('\n');
    if (r->cache)
        printf("           cache %s: it extrapolates some of the steps; the work below is that of all\n",
               sg_names("cache")[r->cache]);
    if (r->negative_prompt && *r->negative_prompt) {
        fputs("           negative prompt: ", stdout);
        sg_print_escaped(stdout, r->negative_prompt, "");
        putchar('\n');
    }
    printf("           latents %lld x %lld x %lld x %lld, %lld token%s\n", (long long)p->latent[0],
           (long long)p->latent[1], (long long)p->latent[2], (long long)p->latent[3], (long long)p->tokens,
           sg_plural(p->tokens));
    sg_print(stdout, "attention  %s\n", sg_attention_forecast_text((char[SG_FORECAST_TEXT]){0}, &r->attention, p));
    if (*t->doubt) sg_print(stdout, "           %s\n", t->doubt);
}

static void print_model(const model_summary *t)
{
    const sg_plan *const    p = &t->now.plan;
    const sg_session *const x = &t->session;
    sg_print(stdout, "%s: %s\n%s\n", x->model.name, x->info.family, x->model.dir);
    if (x->info.world) sg_print(stdout, "%s\n", x->info.world);
    int words = 0;
    while (x->info.words && x->info.words[words]) words++;
    if (words) printf("its vocabulary has %d word%s; info --json - lists them\n", words, sg_plural(words));
    putchar('\n');
    print_components(&x->info);
    print_files(&x->info, &x->model);
    print_loras(x);
    print_render(t);
    print_pictures(&x->info);
    printf("device     %s, %s%s\n", x->info.device, x->info.dtype, sg_weights_text(&x->info));
    printf("build      %s\n\n", sg_build_facts_text((char[SG_BUILD_TEXT]){0}, "           "));
    printf("%-10s %10s %10s %10s %10s %10s %10s\n", "phase", "weights", "from file", "packed", "work", "peak", "TFLOP");
    for (int i = 0; i < p->phases; i++) print_phase(&p->phase[i]);
    printf("peak       %s, with %s of program and libraries and %s of output; %s of %s must be free%s\n",
           BYTES(p->peak), BYTES(p->base), BYTES(p->output), BYTES(p->need), BYTES(p->available),
           p->need > p->available ? ": does not fit" : "");
    if (p->rows_at_once) puts("denoising  tokens in pieces, since all at once would not fit");
    if (p->untiled)
        printf("decoding   in tiles, since whole frames would take %s of work (--vae-tiling)\n", BYTES(p->untiled));
    for (int i = 0; i < p->phases; i++)
        if (p->phase[i].host)
            printf("offload    %s of the %s, %lld block%s, stay on the host and are copied when they are needed; "
                   "%s are free there\n",
                   BYTES(p->phase[i].host), sg_offloaded_part(&p->phase[i]), (long long)p->phase[i].blocks_on_host,
                   sg_plural(p->phase[i].blocks_on_host), BYTES(p->host_free));
    print_ways(t);
}

static json_t *ways_json(const model_summary *t)
{
    json_t *j = json_array();
    for (const weights_way *w = t->way; w < t->way + t->ways; w++)
        sg_json_append(&j, json_pack("{s:s, s:b, s:b, s:I, s:I, s:I}", "weights_as", w->as, "offloaded", w->offloaded,
                                     "taken", w->taken, "need_bytes", (json_int_t)w->need, "host_bytes",
                                     (json_int_t)w->host, "peak_bytes", (json_int_t)w->peak));
    return j;
}

static json_t *attention_json(const model_summary *t)
{
    return json_pack("{s:o, s:i, s:i, s:s, s:s?}", "policy", sg_report_policy(&t->now.request.attention, &t->now.plan),
                     "steps", t->now.plan.attention_steps, "of", t->now.plan.steps, "text",
                     sg_attention_forecast_text((char[SG_FORECAST_TEXT]){0}, &t->now.request.attention, &t->now.plan),
                     "doubt", *t->doubt ? t->doubt : NULL);
}

static sg_status save_model(const model_summary *t, sg_error *e)
{
    static const char *const   use[] = {[SG_IMAGE_NONE] = "none",
                                        [SG_IMAGE_OPTIONAL] = "optional",
                                        [SG_IMAGE_NEEDED] = "needed",
                                        [SG_IMAGE_START] = "start"};
    const sg_session *const    x = &t->session;
    const sg_model_info *const info = &x->info;
    const sg_settings          kept = sg_rendering_kept(&t->now);
    json_t                    *components = json_array(), *words = info->words ? json_array() : NULL;
    for (int i = 0; i < info->components; i++) {
        const sg_component_info *const c = info->component[i];
        sg_json_append(&components,
                       json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:i}", "name", c->name, "class",
                                 c->class_name, "summary", c->summary, "dtype", c->dtype, "types", c->types, "file",
                                 sg_report_name(c->place), "parameters", (json_int_t)c->parameters, "bytes",
                                 (json_int_t)c->bytes, "files", c->files));
    }
    for (const char *const *word = info->words; word && *word; word++) sg_json_append(&words, json_string(*word));
    json_t *j = json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:o, s:i, s:i, s:b, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s*, s:o*}", "model",
        sg_report_name(x->model.name), "folder", sg_report_name(x->model.dir), "family", info->family, "device",
        info->device, "dtype", info->dtype, "build", sg_build_facts_json(), "size_multiple", info->multiple,
        "frame_multiple", info->frame_step, "frame_pairs", info->frame_pairs, sg_picture_keys[SG_IMAGE_FIRST],
        use[info->image[SG_IMAGE_FIRST]], sg_picture_keys[SG_IMAGE_LAST], use[info->image[SG_IMAGE_LAST]], "components",
        components, "defaults", sg_report_settings(&kept, &t->now.request, info, true), "attention", attention_json(t),
        "loras", loras_json(x), "plan", sg_report_plan(&t->now.plan), "ways", ways_json(t), "world", x->info.world,
        "vocabulary", words);
    return sg_report_take(x->asked->json, sg_report_envelope(SG_COMMAND_INFO, j), e);
}

/* Weights that are not quantised lie in one way, and no blocks are on the host where they already are. */
static sg_status plan_ways(model_summary *t, sg_error *e)
{
    const sg_plan *const now = &t->now.plan;
    const int            as = t->session.info.weights_as;
    const bool           fits = sg_plan_fits(now, &(sg_error){0}) == SG_OK;
    for (int i = as == SG_WEIGHTS_AUTO ? WAYS / 2 : 0; i < WAYS; i++) {
        const bool file = i < WAYS / 2, offloaded = i % 2;
        sg_plan    p = {.size = sizeof p};
        SG_TRY(sg_engine_plan_as(t->session.engine, &t->now.request, offloaded ? SG_OFFLOAD_AUTO : SG_OFFLOAD_OFF,
                                 file ? SG_WEIGHTS_FILE : SG_WEIGHTS_BF16, offloaded ? 1 : now->available, &p, e));
        if (offloaded && !p.host) continue;
        const bool           taken = fits && file == (as == SG_WEIGHTS_FILE) && offloaded == (now->host > 0);
        const sg_plan *const of = taken ? now : &p;
        t->way[t->ways++] =
            (weights_way){file ? "file" : t->session.info.dtype, offloaded, taken, of->need, of->host, of->peak};
    }
    return SG_OK;
}

static sg_status summarise(model_summary *t, const sg_settings *s, sg_error *e)
{
    sg_session *const x = &t->session;
    sg_request *const r = &t->now.request;
    SG_TRY(sg_session_inputs(x, s, e));
    SG_TRY(sg_session_open(x, e));
    SG_TRY(sg_session_resolve(x, &t->now, e));
    const char *const passed = sg_environment_passed(x->info.passed);
    if (*passed) sg_progress_say(&x->progress, "%s", passed);
    sg_notice_size(x, &t->now.settings);
    sg_clip clip = {.size = sizeof clip};
    sg_clip_of(&clip, r, sg_writer_default_name(r->frames));
    r->output_bytes = sg_writer_bytes(&clip);
    SG_TRY(sg_rendering_plan(&t->now, x->engine, e));
    SG_TRY(plan_ways(t, e));
    sg_doubt_thresholds(t->doubt, &t->now, x->engine);
    if (s->json) SG_TRY(save_model(t, e));
    if (text_too(s)) print_model(t);
    return SG_OK;
}

/* `info --json clip.mp4`, a clip's name taken for an option's value, is not to cost the clip. */
static sg_status check_json(const sg_settings *s, sg_error *e)
{
    FILE *const  f = s->json && !s->operand && !sg_output_is_stdout(s->json) ? fopen(s->json, "rb") : NULL;
    char         start[3];
    const size_t n = f ? fread(start, 1, sizeof start, f) : 0;
    if (f) fclose(f);
    if (n == 0 || (n == sizeof start && memcmp(start, "{\n ", n) == 0)) return SG_OK; /* an earlier report */
    return sg_error_set(e, SG_E_ARG,
                        "--json: %s is there and is no report; to see what it holds: sparge-gen info %s --json -",
                        s->json, s->json);
}

sg_status sg_command_info(const sg_settings *s, sg_error *e)
{
    struct stat st;
    SG_TRY(check_json(s, e));
    if (s->operand && stat(s->operand, &st) == 0 && !S_ISDIR(st.st_mode)) {
        char *text;
        SG_TRY(latents_settings(s->operand, &text, e));
        if (!text && !holds_weights(s->operand)) SG_TRY(sg_writer_read_settings(s->operand, &text, e));
        if (text) return settings_info(s->operand, text, s, e);
    }
    if (s->operand && s->model)
        return sg_error_set(e, SG_E_ARG, "info takes a model's folder or file, or --model, not both");
    sg_settings with = *s;
    if (s->operand) with.model = s->operand;
    model_summary t = {.now.settings = with};
    t.now.settings.command = SG_COMMAND_RENDER; /* what a render would have */
    const sg_status status = summarise(&t, &with, e);
    sg_session_close(&t.session);
    return status;
}
