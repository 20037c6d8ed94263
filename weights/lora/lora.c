/* lora.c - see lora.h: the file as a whole, its alphas and its metadata. */
#include "base/hash.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/text.h"
#include "convert.h"
#include "lora_state.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_KEYS = 1 << 20, MAX_CONFIG = 1 << 20, MAX_VALUES = 1 << 16 };

#define CONFIG "lora_adapter_metadata" /* of PEFT: alphas where no keys give them */

/* ---- opening ---- */

static uint64_t hash_of(const sg_source_tensor *t)
{
    uint64_t hash = sg_hash(SG_HASH, t->name, strlen(t->name) + 1);
    hash = sg_hash(hash, t->type->name, strlen(t->type->name) + 1);
    hash = sg_hash(hash, t->dim, (size_t)t->rank * sizeof *t->dim);
    return sg_hash(hash, t->data, (size_t)t->bytes);
}

static void sum_hashes(sg_lora *l, int threads)
{
    const size_t n = sg_source_count(l->source);
    const char  *config = sg_source_metadata(l->source, CONFIG);
    uint64_t     sum = config ? sg_hash(SG_HASH, config, strlen(config)) : 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum) num_threads(threads > 0 ? threads : 1)
    for (size_t i = 0; i < n; i++) sum += hash_of(sg_source_at(l->source, i));
    l->so_far.hash = sum;
}

static sg_status check_keys(sg_lora *l, sg_error *e)
{
    for (size_t i = 0; i < sg_source_count(l->source); i++) {
        const char *const name = sg_source_at(l->source, i)->name;
        const char       *refused;
        sg_lora_key_of(name, &refused);
        if (refused)
            return sg_error_set(e, SG_E_UNSUPPORTED, "%s: \"%s\": %s is not read here", sg_source_path(l->source),
                                sg_show(name), refused);
        l->by_component = l->by_component || strncmp(name, "transformer_2.", 14) == 0;
    }
    return SG_OK;
}

/* PEFT's config, as diffusers keeps it: {"transformer.r": 4, "transformer.lora_alpha": 8, ...}. */
static sg_status read_config(sg_lora *l, sg_error *e)
{
    const char *const path = sg_source_path(l->source), *key = CONFIG;
    const char *const text = sg_source_metadata(l->source, key);
    sg_json_fault     fault = {0};
    const char       *name;
    json_t           *value;
    if (!text) return SG_OK;
    if (strlen(text) > MAX_CONFIG) return sg_error_set(e, SG_E_FORMAT, "%s: %s: is longer than 1 MiB", path, key);
    const sg_status status = sg_json_parse(&l->peft, text, strlen(text), MAX_VALUES, 0, &fault);
    if (status == SG_E_MEMORY) return sg_error_set(e, status, "%s: out of memory", path);
    if (status != SG_OK) return sg_error_set(e, SG_E_FORMAT, "%s: %s: %s", path, key, fault.text);
    json_object_foreach(l->peft, name, value)
    {
        if (sg_text_ends(name, ".use_dora") && json_is_true(value))
            return sg_error_set(e, SG_E_UNSUPPORTED, "%s: %s: \"%s\": DoRA is not read here", path, key, sg_show(name));
    }
    return SG_OK;
}

static sg_status open_all(sg_lora *l, const char *path, int threads, sg_error *e)
{
    SG_TRY(sg_source_open(&l->source, path, e));
    const size_t n = sg_source_count(l->source);
    if (n == 0 || n > MAX_KEYS) return sg_error_set(e, SG_E_FORMAT, "%s: has %zu tensors, which no LoRA has", path, n);
    l->used = calloc(n, sizeof *l->used);
    if (!l->used) return sg_error_memory(e, path);
    SG_TRY(check_keys(l, e));
    SG_TRY(read_config(l, e));
    sum_hashes(l, threads);
    return SG_OK;
}

sg_status sg_lora_open(sg_lora **out, const char *path, int threads, sg_error *e)
{
    sg_lora *l = *out = calloc(1, sizeof *l);
    if (!l) return sg_error_memory(e, path);
    const sg_status status = open_all(l, path, threads, e);
    if (status != SG_OK) sg_lora_close(out);
    return status;
}

void sg_lora_close(sg_lora **l)
{
    if (!*l) return;
    sg_source_close(&(*l)->source);
    json_decref((*l)->peft);
    free((*l)->used);
    free(*l);
    *l = NULL;
}

bool sg_lora_is_for(const sg_lora *l, size_t i, const char *component)
{
    const char *const name = sg_source_at(l->source, i)->name;
    const size_t      n = strcspn(name, ".");
    const bool        second = n == 13 && strncmp(name, "transformer_2", n) == 0;
    const bool        first = l->by_component && n == 11 && strncmp(name, "transformer", n) == 0;
    return !(first || second) || (strlen(component) == n && strncmp(name, component, n) == 0);
}

/* ---- alpha ---- */

/* A single number of the types that writers use. False: it is none. */
static bool read_number(const sg_source_tensor *t, double *out)
{
    const bool wide = strcmp(t->type->name, "F64") == 0 || strcmp(t->type->name, "I64") == 0;
    float      x;
    for (int k = 0; k < t->rank; k++)
        if (t->dim[k] != 1) return false;
    if (wide) {
        *out = sg_source_number(&(sg_source_list){1, *t->type->name == 'F' ? 'f' : 'i', 8, t->data}, 0);
        return isfinite(*out);
    }
    if (!sg_convert_reads(t->type) || t->type->block != 1 || !sg_convert_from(&x, SG_F32, t, 0, 1, 1)) return false;
    *out = (double)x;
    return true;
}

/* {"blocks.0.attn1.to_q": 8} and {"to_q": 8} both mean blocks.0.attn1.to_q. */
static bool is_meant(const char *pattern, const char *module, size_t length)
{
    const bool   whole = *pattern == '^';
    const size_t n = strlen(pattern += whole);
    if (n > length || strncmp(module + length - n, pattern, n) != 0) return false;
    return n == length || (!whole && module[length - n - 1] == '.');
}

static json_t *config_of(const sg_lora *l, const char *component, const char *key)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", l->by_component ? component : "transformer", key);
    return json_object_get(l->peft, name);
}

static sg_status scale_by_config(const sg_lora *l, const char *component, const sg_lora_key *down, int64_t r,
                                 double *out, sg_error *e)
{
    json_t       *alpha = config_of(l, component, "lora_alpha"), *value;
    json_t *const patterns = config_of(l, component, "alpha_pattern");
    const char   *pattern;
    int           length;
    *out = 1;
    if (!alpha) return SG_OK;
    const char *const module = sg_lora_module(down, &length);
    json_object_foreach(patterns, pattern, value)
    {
        if (pattern[strcspn(pattern, "\\*+?[](){}|$")])
            return sg_error_set(
                e, SG_E_UNSUPPORTED,
                "%s: lora_adapter_metadata: alpha_pattern: \"%s\" is an expression, only names are read",
                sg_source_path(l->source), sg_show(pattern));
        if (is_meant(pattern, module, (size_t)length)) alpha = value;
    }
    if (!json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return sg_error_set(e, SG_E_FORMAT, "%s: lora_adapter_metadata: lora_alpha should be a finite number",
                            sg_source_path(l->source));
    const bool rank_stabilised = json_is_true(config_of(l, component, "use_rslora"));
    *out = json_number_value(alpha) / (rank_stabilised ? sqrt((double)r) : (double)r);
    return SG_OK;
}

sg_status sg_lora_scale(const sg_lora *l, const char *component, const sg_lora_key *down, const sg_source_tensor *alpha,
                        int64_t r, double *out, sg_error *e)
{
    if (r < 1)
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%.*s\" has rank 0", sg_source_path(l->source), down->length,
                            down->module);
    if (!alpha) return scale_by_config(l, component, down, r, out, e);
    if (!read_number(alpha, out))
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\" should be one finite number", sg_source_path(l->source),
                            sg_show(alpha->name));
    *out /= (double)r;
    return SG_OK;
}

/* ---- what was found ---- */

sg_status sg_lora_check(const sg_lora *l, sg_error *e)
{
    const sg_lora_info f = sg_lora_describe(l);
    if (f.unused < f.keys) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: none of its %d tensors fits this model, the first is \"%s\"%s",
                        sg_source_path(l->source), f.keys, sg_show(sg_source_at(l->source, 0)->name),
                        f.text == f.keys ? "; a text encoder cannot be changed" : "");
}

/* Words in the names of files whose models render in few steps without guidance. */
static bool is_for_few_steps(const sg_lora *l)
{
    static const char *const words[] = {"lightx2v",     "lightning",   "distill", "self-forcing",
                                        "self_forcing", "selfforcing", "fastwan", "causvid",
                                        "4step",        "4-step",      "4_step",  "rcm"};
    const char *const        names[] = {sg_path_name(sg_source_path(l->source)),
                                        sg_source_metadata(l->source, "modelspec.title"),
                                        sg_source_metadata(l->source, "ss_output_name")};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t k = 0; names[i] && k < sizeof words / sizeof *words; k++)
            if (strcasestr(names[i], words[k])) return true;
    return false;
}

const char *sg_lora_file(const sg_lora *l) { return sg_source_path(l->source); }

sg_lora_info sg_lora_describe(const sg_lora *l)
{
    sg_lora_info f = l->so_far;
    const char  *name;
    f.keys = (int)sg_source_count(l->source);
    f.few_steps = is_for_few_steps(l);
    for (size_t at = 0; (name = sg_lora_unused(l, &at)) != NULL; f.unused++) f.text += sg_lora_is_of_text(name);
    return f;
}

const char *sg_lora_unused(const sg_lora *l, size_t *at)
{
    const size_t n = sg_source_count(l->source);
    while (*at < n && l->used[*at]) ++*at;
    return *at < n ? sg_source_at(l->source, (*at)++)->name : NULL;
}
