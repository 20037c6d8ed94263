/* lora_patch.c - see sg_lora_add in lora.h: keys into groups, one of each module, and groups into patches. */
#include "base/text.h"
#include "lora_state.h"

#include <stdlib.h>

/* What the file has for a module: a key of each kind. */
typedef struct group {
    const sg_source_tensor *of[SG_LORA_KINDS + 1]; /* the last is NULL: of no kind */
    size_t                  key[SG_LORA_KINDS];    /* its number in the file */
    const sg_lora_name     *target;                /* the tensors that are meant */
    size_t                  targets;
} group;

typedef struct adding {
    sg_lora      *lora;
    sg_bind      *bind;
    const char   *component;
    double        strength;
    sg_lora_names names;
    group        *group;   /* of each name; where several names mean one whole tensor, only the first is in use */
    size_t       *first;   /* by tensor: the first name that means all of it */
    bool         *patched; /* by tensor */
} adding;

/* ---- keys into groups ---- */

static sg_status sort_key(adding *a, size_t i, sg_error *e)
{
    const sg_source_tensor *const t = sg_source_at(a->lora->source, i);
    const char                   *refused;
    size_t                        count;
    const sg_lora_key             key = sg_lora_key_of(t->name, &refused);
    if (key.kind == SG_LORA_KINDS || !sg_lora_is_for(a->lora, i, a->component)) return SG_OK;
    const sg_lora_name *const name = sg_lora_names_of(&a->names, &key, &count);
    if (!name || (count > 1 && !name->cut)) return SG_OK;
    /* A tensor by its own name, and by the original one, is one group. */
    group *const g = &a->group[name->cut ? (size_t)(name - a->names.name) : a->first[name->tensor]];
    if (g->of[key.kind])
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\" and \"%s\" are for the same tensor",
                            sg_source_path(a->lora->source), sg_show(g->of[key.kind]->name), sg_show(t->name));
    g->of[key.kind] = t;
    g->key[key.kind] = i;
    g->target = name;
    g->targets = count;
    a->lora->used[i] = true;
    return SG_OK;
}

/* ---- groups into patches ---- */

static sg_status put(adding *a, const group *g, size_t k, size_t tensor, double scale, const sg_factor factor[2],
                     sg_error *e)
{
    const sg_patch                p = {.path = sg_source_path(a->lora->source),
                                       .name = sg_bind_name(a->bind, tensor),
                                       .cut = g->target[k].cut,
                                       .scale = a->strength * scale,
                                       .factor = {factor[0], factor[1]}};
    const sg_source_tensor *const rows = factor[0].down ? factor[0].down : factor[0].up;
    const sg_status               status = sg_bind_patch(a->bind, &p, e);
    if (status == SG_E_FORMAT && rows->rank) a->lora->so_far.width = rows->dim[rows->rank - 1];
    a->lora->so_far.tensors += status == SG_OK && !a->patched[tensor];
    a->patched[tensor] = a->patched[tensor] || status == SG_OK;
    return status;
}

/* The tensor's bias; NULL: it has none. */
static const sg_lora_name *bias_of(const adding *a, size_t tensor)
{
    const char *const name = sg_bind_name(a->bind, tensor);
    size_t            count;
    if (!sg_text_ends(name, ".weight")) return NULL;
    return sg_lora_names_find(&a->names, name, (int)(strlen(name) - strlen(".weight")), ".bias", &count);
}

/* A difference of the biases of the group's tensors; one without biases leaves the key unused. */
static sg_status put_bias(adding *a, const group *g, sg_lora_kind kind, double scale, sg_error *e)
{
    const sg_factor factor[2] = {{g->of[kind], NULL}};
    for (size_t k = 0; g->of[kind] && k < g->targets; k++) {
        const sg_lora_name *const bias = bias_of(a, g->target[k].tensor);
        if (bias)
            SG_TRY(put(a, g, k, bias->tensor, scale, factor, e));
        else
            a->lora->used[g->key[kind]] = false;
    }
    return SG_OK;
}

static sg_status scale_of(adding *a, const group *g, const sg_source_tensor *down, int64_t r, double *out, sg_error *e)
{
    const char       *refused;
    const sg_lora_key key = sg_lora_key_of(down->name, &refused);
    SG_TRY(sg_lora_scale(a->lora, a->component, &key, g->of[SG_LORA_ALPHA], r, out, e));
    int *const rank = a->lora->so_far.rank;
    if (r > rank[1]) rank[1] = (int)(r < INT32_MAX ? r : INT32_MAX);
    if (!rank[0] || r < rank[0]) rank[0] = (int)(r < INT32_MAX ? r : INT32_MAX);
    return SG_OK;
}

static sg_status incomplete(const adding *a, const sg_source_tensor *t, sg_error *e)
{
    return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\" is there, but not what it is to be multiplied with",
                        sg_source_path(a->lora->source), sg_show(t->name));
}

/* The two factors of a patch, of which a form may have one: each is whole, or the product of up and down. */
enum { WHOLE, UP, DOWN, WAYS };
#define NONE SG_LORA_KINDS
typedef sg_lora_kind form[2][WAYS];

static const form lora = {{NONE, SG_LORA_UP, SG_LORA_DOWN}, {NONE, NONE, NONE}},
                  loha = {{NONE, SG_LORA_HADA_1A, SG_LORA_HADA_1B}, {NONE, SG_LORA_HADA_2A, SG_LORA_HADA_2B}},
                  lokr = {{SG_LORA_LOKR_1, SG_LORA_LOKR_1A, SG_LORA_LOKR_1B},
                          {SG_LORA_LOKR_2, SG_LORA_LOKR_2A, SG_LORA_LOKR_2B}},
                  diff = {{SG_LORA_DIFF, NONE, NONE}, {NONE, NONE, NONE}};

/* Alpha / r is that of the second factor, else of the first; without a low-rank one it is 1, whatever alpha is. */
static sg_status put_form(adding *a, const group *g, const form f, double *scale, sg_error *e)
{
    sg_factor               factor[2] = {{0}};
    const sg_source_tensor *any = NULL, *down = NULL;
    *scale = 1;
    for (int i = 0; !any && i < 2 * WAYS; i++) any = g->of[f[i / WAYS][i % WAYS]];
    for (int i = 0; any && i < 2; i++) {
        const sg_source_tensor *const whole = g->of[f[i][WHOLE]], *const up = g->of[f[i][UP]],
                                      *const low = g->of[f[i][DOWN]];
        if (f[i][WHOLE] == NONE && f[i][UP] == NONE) break;
        if (!whole && !(up && low)) return incomplete(a, any, e);
        if (whole && (up || low)) return incomplete(a, up ? up : low, e);
        factor[i] = whole ? (sg_factor){whole, NULL} : (sg_factor){up, low};
        if (low) down = low;
    }
    if (down) SG_TRY(scale_of(a, g, down, down->rank ? down->dim[0] : 0, scale, e));
    for (size_t k = 0; any && k < g->targets; k++) SG_TRY(put(a, g, k, g->target[k].tensor, *scale, factor, e));
    return SG_OK;
}

static bool is_alone(const group *g, sg_lora_kind kind)
{
    for (int i = 0; i < SG_LORA_KINDS; i++)
        if (g->of[i] && i != (int)kind) return false;
    return true;
}

/* An alpha alone changes nothing: it stays unused. */
static sg_status put_group(adding *a, const group *g, sg_error *e)
{
    double scale, other;
    if (g->of[SG_LORA_UP_BIAS] && !g->of[SG_LORA_UP] && !g->of[SG_LORA_DOWN])
        return incomplete(a, g->of[SG_LORA_UP_BIAS], e);
    SG_TRY(put_form(a, g, lora, &scale, e));
    SG_TRY(put_bias(a, g, SG_LORA_UP_BIAS, scale, e));
    SG_TRY(put_form(a, g, loha, &other, e));
    SG_TRY(put_form(a, g, lokr, &other, e));
    SG_TRY(put_form(a, g, diff, &other, e));
    if (g->of[SG_LORA_ALPHA] && is_alone(g, SG_LORA_ALPHA)) a->lora->used[g->key[SG_LORA_ALPHA]] = false;
    return put_bias(a, g, SG_LORA_DIFF_BIAS, 1, e);
}

static sg_status add_all(adding *a, const sg_name_map *map, sg_error *e)
{
    size_t tensors = 0;
    while (sg_bind_name(a->bind, tensors)) tensors++;
    if (!sg_lora_names_open(&a->names, a->bind, map)) return sg_error_memory(e, sg_source_path(a->lora->source));
    a->group = calloc(a->names.count + 1, sizeof *a->group);
    a->first = calloc(tensors + 1, sizeof *a->first);
    a->patched = calloc(tensors + 1, sizeof *a->patched);
    if (!a->group || !a->first || !a->patched) return sg_error_memory(e, sg_source_path(a->lora->source));
    for (size_t i = a->names.count; i-- > 0;)
        if (!a->names.name[i].cut) a->first[a->names.name[i].tensor] = i;
    for (size_t i = 0; i < sg_source_count(a->lora->source); i++) SG_TRY(sort_key(a, i, e));
    for (size_t i = 0; i < a->names.count; i++)
        if (a->group[i].target) SG_TRY(put_group(a, &a->group[i], e));
    return SG_OK;
}

sg_status sg_lora_add(sg_lora *l, sg_bind *b, const char *component, const sg_name_map *names, double strength,
                      sg_error *e)
{
    adding          a = {.lora = l, .bind = b, .component = component, .strength = strength};
    const sg_status status = add_all(&a, names, e);
    sg_lora_names_free(&a.names);
    free(a.group);
    free(a.first);
    free(a.patched);
    return status;
}
