/* lora_names.c - see lora_state.h. Sources of the names: diffusers (loaders/lora_conversion_utils.py), ComfyUI
 * (comfy/lora.py, weight_adapter/), kohya-ss/musubi-tuner, LyCORIS. */
#include "base/array.h"
#include "base/text.h"
#include "lora_state.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- kinds ---- */

#define PAIR(down, up, leaf)                                                                                           \
    {down, SG_LORA_DOWN, leaf}, { up, SG_LORA_UP, leaf }

/* XLabs-AI/x-flux names what it adds by its own module; `leaf` is the matrix behind the name of the block. */
#define XLABS(name, leaf) PAIR(".processor." name ".down.weight", ".processor." name ".up.weight", leaf)

static const struct {
    const char  *suffix;
    sg_lora_kind kind;
    const char  *leaf;
} kinds[] = {
    XLABS("qkv_lora1", ".img_attn.qkv.weight"),
    XLABS("qkv_lora2", ".txt_attn.qkv.weight"),
    XLABS("proj_lora1", ".img_attn.proj.weight"),
    XLABS("proj_lora2", ".txt_attn.proj.weight"),
    XLABS("proj_lora", ".linear2.weight"),
    PAIR(".lora_down.weight", ".lora_up.weight", ".weight"),
    PAIR(".lora_A.weight", ".lora_B.weight", ".weight"),
    PAIR(".lora_A.default.weight", ".lora_B.default.weight", ".weight"),
    PAIR(".lora.down.weight", ".lora.up.weight", ".weight"),
    PAIR("_lora.down.weight", "_lora.up.weight", ".weight"),
    PAIR(".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight", ".weight"),
    PAIR(".lora_A", ".lora_B", ".weight"),
    {".lora_B.bias", SG_LORA_UP_BIAS, ".weight"},
    {".lora_B.default.bias", SG_LORA_UP_BIAS, ".weight"},
    {".alpha", SG_LORA_ALPHA, ".weight"},
    {".diff", SG_LORA_DIFF, ".weight"},
    {".diff_b", SG_LORA_DIFF_BIAS, ".weight"},
    {".diff_m", SG_LORA_DIFF, ".modulation"},
    {".hada_w1_a", SG_LORA_HADA_1A, ".weight"},
    {".hada_w1_b", SG_LORA_HADA_1B, ".weight"},
    {".hada_w2_a", SG_LORA_HADA_2A, ".weight"},
    {".hada_w2_b", SG_LORA_HADA_2B, ".weight"},
    {".lokr_w1", SG_LORA_LOKR_1, ".weight"},
    {".lokr_w1_a", SG_LORA_LOKR_1A, ".weight"},
    {".lokr_w1_b", SG_LORA_LOKR_1B, ".weight"},
    {".lokr_w2", SG_LORA_LOKR_2, ".weight"},
    {".lokr_w2_a", SG_LORA_LOKR_2A, ".weight"},
    {".lokr_w2_b", SG_LORA_LOKR_2B, ".weight"},
};

static const struct {
    const char *part, *name;
} not_read[] = {
    {".dora_scale", "DoRA"},
    {".lora_magnitude_vector", "DoRA"},
    {".lora_mid.", "a LoRA with a third factor"},
    {".hada_t1", "a LoHa with a third factor"},
    {".hada_t2", "a LoHa with a third factor"},
    {".lokr_t2", "a LoKr with a third factor"},
    {".set_weight", "a weight in place of the model's"},
    {".reshape_weight", "a weight of another shape"},
    {".oft_", "OFT"},
    {".w_norm", "a norm in place of the model's"},
    {".b_norm", "a norm in place of the model's"},
};

sg_lora_key sg_lora_key_of(const char *name, const char **refused)
{
    *refused = NULL;
    for (size_t i = 0; i < sizeof not_read / sizeof *not_read && !*refused; i++)
        if (strstr(name, not_read[i].part)) *refused = not_read[i].name;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (sg_text_ends(name, kinds[i].suffix) && strlen(name) < SG_NAME_MAX)
            return (sg_lora_key){name, (int)(strlen(name) - strlen(kinds[i].suffix)), kinds[i].kind, kinds[i].leaf};
    return (sg_lora_key){.module = name, .kind = SG_LORA_KINDS};
}

/* ---- prefixes ---- */

static const char *const prefixes[] = {"base_model.model.", "model.",           "diffusion_model.", "transformer.",
                                       "transformer_2.",    "pipe.dit.",        "lora_unet__",      "lora_unet_",
                                       "lycoris_",          "lora_transformer_"};

/* Without its first prefix; NULL: it has none. */
static const char *without_prefix(const char *name)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return name + strlen(prefixes[i]);
    return NULL;
}

const char *sg_lora_module(const sg_lora_key *key, int *length)
{
    const char *const end = key->module + key->length;
    const char       *at = key->module;
    for (const char *next; (next = without_prefix(at)) != NULL && next <= end;) at = next;
    *length = (int)(end - at);
    return at;
}

bool sg_lora_is_of_text(const char *name)
{
    return strncmp(name, "text_encoder", 12) == 0 || strncmp(name, "lora_te", 7) == 0;
}

/* ---- names ---- */

static void flatten(char *name)
{
    for (; *name; name++)
        if (*name == '.') *name = '_';
}

static bool add_name(sg_lora_names *n, const char *name, size_t tensor, const sg_name_rule *cut)
{
    char *const flat = strdup(name);
    if (flat) flatten(flat);
    if (flat && sg_array_push(n->name, n->count, n->room, (sg_lora_name){flat, tensor, cut})) return true;
    free(flat);
    return false;
}

static int by_flat(const void *a, const void *b)
{
    const sg_lora_name *const x = a, *const y = b;
    const int c = strcmp(x->flat, y->flat);
    return c ? c : x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

bool sg_lora_names_open(sg_lora_names *n, const sg_bind *b, const sg_name_map *map)
{
    const char *name;
    for (size_t i = 0; (name = sg_bind_name(b, i)) != NULL; i++) {
        char                file[SG_NAME_MAX];
        const sg_name_rule *rule;
        if (!add_name(n, name, i, NULL)) return false;
        if (!map || !sg_name_map_find(map, name, file, &rule) || strcmp(file, name) == 0) continue;
        if (!add_name(n, file, i, rule && rule->of ? rule : NULL)) return false;
    }
    qsort(n->name, n->count, sizeof *n->name, by_flat);
    return true;
}

void sg_lora_names_free(sg_lora_names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->name[i].flat);
    free(n->name);
    *n = (sg_lora_names){0};
}

const sg_lora_name *sg_lora_names_find(const sg_lora_names *n, const char *module, int length, const char *leaf,
                                       size_t *count)
{
    char   flat[2 * SG_NAME_MAX];
    size_t lo = 0, hi = n->count;
    *count = 0;
    if (length < 0 || length >= SG_NAME_MAX) return NULL;
    snprintf(flat, sizeof flat, "%.*s%s", length, module, leaf);
    flatten(flat);
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (strcmp(n->name[mid].flat, flat) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    while (lo + *count < n->count && strcmp(n->name[lo + *count].flat, flat) == 0) ++*count;
    return *count ? &n->name[lo] : NULL;
}

const sg_lora_name *sg_lora_names_of(const sg_lora_names *n, const sg_lora_key *key, size_t *count)
{
    const char *const end = key->module + key->length;
    for (const char *at = key->module; at && at < end; at = without_prefix(at)) {
        const int                 length = (int)(end - at);
        const sg_lora_name *const found = sg_lora_names_find(n, at, length, key->leaf, count);
        if (found) return found;
        if (key->kind != SG_LORA_DIFF) continue;
        const sg_lora_name *const itself = sg_lora_names_find(n, at, length, "", count); /* blocks.0.modulation.diff */
        if (itself) return itself;
    }
    return NULL;
}
