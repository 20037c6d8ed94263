/* thresholds_spargeattn.c - see thresholds_spargeattn.h. */
#include "thresholds_spargeattn.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INNER ".inner_attention."
enum { IS_SPARSE, CDF, SIMILAR, PV, NAMES, VALUES_MAX = 1 << 18 };

/* By head; what may be in them. is_sparse is 0 or 1. */
static const struct {
    const char *name;
    float       lo, hi;
} lists[NAMES] = {{"is_sparse", 0, 1}, {"cdfthreshd", 0, 1}, {"simthreshd1", -1, 1}, {"pvthreshd", 0, 1000}};

/* The lists of a source. */
typedef struct spargeattn {
    const sg_source *source;
    sg_tensor (*list)[NAMES]; /* [layers] */
    int layers, heads;
} spargeattn;

static sg_status wrong(sg_error *e, const spargeattn *x, int layer, int name, const char *fmt, ...) SG_PRINTF(5, 6);
static sg_status wrong(sg_error *e, const spargeattn *x, int layer, int name, const char *fmt, ...)
{
    char    why[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return sg_error_set(e, SG_E_FORMAT, "%s: layer %d, %s: %s", sg_source_path(x->source), layer, lists[name].name,
                        why);
}

/* Takes "transformer_blocks.7.attn1.inner_attention.pvthreshd" apart, or "blocks.7...": layer and name; false for any
 * other key. */
static bool take_apart(const char *key, int *layer, int *name)
{
    static const char *const prefixes[] = {"transformer_blocks.", "blocks."};
    for (size_t i = 0; i < 2; i++) {
        const size_t n = strlen(prefixes[i]);
        const char *at = key + n, *const inner = strstr(key, INNER);
        if (!inner || strncmp(key, prefixes[i], n) != 0) continue;
        const size_t digits = strspn(at, "0123456789");
        if (digits < 1 || digits > 6 || at[digits] != '.') return false;
        *layer = (int)strtol(at, NULL, 10);
        for (*name = 0; *name < NAMES; ++*name)
            if (strcmp(inner + strlen(INNER), lists[*name].name) == 0) return true;
        return false;
    }
    return false;
}

/* The lists by layer. */
static sg_status find_lists(spargeattn *x, sg_error *e)
{
    const size_t count = sg_source_count(x->source);
    int          layer, name;
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(x->source, i);
        if (!take_apart(t->name, &layer, &name)) continue;
        if ((size_t)layer >= count) return wrong(e, x, layer, name, "layers before it are missing");
        if (x->list[layer][name].rank) return wrong(e, x, layer, name, "stands there twice");
        x->list[layer][name] = sg_source_view(x->source, i);
        if (!x->list[layer][name].rank) return wrong(e, x, layer, name, "is %s, which is not read", t->type->name);
        if (layer >= x->layers) x->layers = layer + 1;
    }
    if (x->layers) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s: has no tensor transformer_blocks.0.attn1" INNER "%s or its like",
                        sg_source_path(x->source), lists[CDF].name);
}

/* As many heads in every list, and no more values than make sense. */
static sg_status check_lists(spargeattn *x, sg_error *e)
{
    const int64_t heads = x->list[0][CDF].rank ? x->list[0][CDF].dim[0] : 0;
    for (int layer = 0; layer < x->layers; layer++)
        for (int name = 0; name < NAMES; name++) {
            const sg_tensor *const t = &x->list[layer][name];
            if (!t->rank) return wrong(e, x, layer, name, "is missing");
            if (t->rank != 1 || t->dim[0] != heads || heads < 1 || heads > VALUES_MAX / x->layers)
                return wrong(e, x, layer, name, "should be a list of heads, as many in each layer, at most %d in all",
                             VALUES_MAX);
        }
    x->heads = (int)heads;
    return SG_OK;
}

/* The value of one head, which may lie at any address. */
static sg_status read_value(const spargeattn *x, int layer, int name, int head, float *out, sg_error *e)
{
    const sg_tensor *const t = &x->list[layer][name];
    const size_t           size = sg_dtype_size(t->dtype);
    float                  number = 0;
    memcpy(&number, (const char *)t->data + (size_t)head * size, size);
    *out = sg_load(&(sg_tensor){.data = &number, .dtype = t->dtype}, 0);
    if (*out >= lists[name].lo && *out <= lists[name].hi && (name != IS_SPARSE || *out == 0 || *out == 1)) return SG_OK;
    return wrong(e, x, layer, name, "head %d should be from %g to %g", head, (double)lists[name].lo,
                 (double)lists[name].hi);
}

static sg_status read_values(sg_thresholds *t, const spargeattn *x, sg_error *e)
{
    if (!sg_thresholds_alloc(t, SG_SELECT_MASS, 1, x->layers, x->heads)) return sg_error_memory(e, "thresholds");
    for (int layer = 0; layer < x->layers; layer++)
        for (int head = 0; head < x->heads; head++) {
            float v[NAMES];
            for (int name = 0; name < NAMES; name++) SG_TRY(read_value(x, layer, name, head, &v[name], e));
            const int at = layer * x->heads + head;
            t->amount[at] = v[IS_SPARSE] != 0 ? v[CDF] : 1;
            t->theta[at] = v[IS_SPARSE] != 0 ? v[SIMILAR] : -1;
            t->pv_threshold[at] = v[IS_SPARSE] != 0 ? v[PV] : 0;
        }
    return SG_OK;
}

sg_status sg_spargeattn_read(sg_thresholds *t, const sg_source *s, sg_error *e)
{
    spargeattn x = {.source = s, .list = calloc(sg_source_count(s) + 1, sizeof *x.list)};
    if (!x.list) return sg_error_memory(e, sg_source_path(s));
    sg_status status = find_lists(&x, e);
    if (!status) status = check_lists(&x, e);
    if (!status) status = read_values(t, &x, e);
    free(x.list);
    return status;
}
