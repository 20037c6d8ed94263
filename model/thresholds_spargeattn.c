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

typedef struct reader {
    const sg_source *source;
    sg_tensor (*list)[NAMES]; /* by layer */
    int       layers, heads;
    sg_error *e;
} reader;

static sg_status wrong(const reader *r, int layer, int name, const char *fmt, ...) SG_PRINTF(4, 5);
static sg_status wrong(const reader *r, int layer, int name, const char *fmt, ...)
{
    char    why[128];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return sg_error_set(r->e, SG_E_FORMAT, "%s: layer %d, %s: %s", sg_source_path(r->source), layer, lists[name].name,
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
static sg_status find_lists(reader *r)
{
    const size_t count = sg_source_count(r->source);
    int          layer, name;
    for (size_t i = 0; i < count; i++) {
        const sg_source_tensor *const t = sg_source_at(r->source, i);
        if (!take_apart(t->name, &layer, &name)) continue;
        if ((size_t)layer >= count) return wrong(r, layer, name, "layers before it are missing");
        if (r->list[layer][name].rank) return wrong(r, layer, name, "stands there twice");
        r->list[layer][name] = sg_source_view(r->source, i);
        if (!r->list[layer][name].rank) return wrong(r, layer, name, "is %s, which is not read", t->type->name);
        if (layer >= r->layers) r->layers = layer + 1;
    }
    if (r->layers) return SG_OK;
    return sg_error_set(r->e, SG_E_FORMAT, "%s: has no tensor transformer_blocks.0.attn1" INNER "%s or its like",
                        sg_source_path(r->source), lists[CDF].name);
}

/* As many heads in every list, and no more values than make sense. */
static sg_status check_lists(reader *r)
{
    const int64_t heads = r->list[0][CDF].rank ? r->list[0][CDF].dim[0] : 0;
    for (int layer = 0; layer < r->layers; layer++)
        for (int name = 0; name < NAMES; name++) {
            const sg_tensor *const t = &r->list[layer][name];
            if (!t->rank) return wrong(r, layer, name, "is missing");
            if (t->rank != 1 || t->dim[0] != heads || heads < 1 || heads > VALUES_MAX / r->layers)
                return wrong(r, layer, name, "should be a list of heads, as many in each layer, at most %d in all",
                             VALUES_MAX);
        }
    r->heads = (int)heads;
    return SG_OK;
}

/* The value of one head, which may lie at any address. */
static sg_status read_value(const reader *r, int layer, int name, int head, float *out)
{
    const sg_tensor *const t = &r->list[layer][name];
    const size_t           size = sg_dtype_size(t->dtype);
    float                  number = 0;
    memcpy(&number, (const char *)t->data + (size_t)head * size, size);
    *out = sg_load(&(sg_tensor){.data = &number, .dtype = t->dtype}, 0);
    if (*out >= lists[name].lo && *out <= lists[name].hi && (name != IS_SPARSE || *out == 0 || *out == 1)) return SG_OK;
    return wrong(r, layer, name, "head %d should be from %g to %g", head, (double)lists[name].lo,
                 (double)lists[name].hi);
}

static sg_status read_values(const reader *r, sg_thresholds *t)
{
    for (int layer = 0; layer < r->layers; layer++)
        for (int head = 0; head < r->heads; head++) {
            float v[NAMES];
            for (int name = 0; name < NAMES; name++) SG_TRY(read_value(r, layer, name, head, &v[name]));
            const int at = layer * r->heads + head;
            t->amount[at] = v[IS_SPARSE] != 0 ? v[CDF] : 1;
            t->theta[at] = v[IS_SPARSE] != 0 ? v[SIMILAR] : -1;
            t->pv_threshold[at] = v[IS_SPARSE] != 0 ? v[PV] : 0;
        }
    return SG_OK;
}

static sg_status take(reader *r, sg_thresholds_file *f)
{
    SG_TRY(find_lists(r));
    SG_TRY(check_lists(r));
    SG_TRY(sg_thresholds_new(f, 1, r->layers, r->heads, r->e));
    f->values.rule = SG_SELECT_MASS;
    f->spargeattn = true;
    return read_values(r, &f->values);
}

sg_status sg_thresholds_take(sg_thresholds_file *f, const sg_source *s, sg_error *e)
{
    reader r = {.source = s, .e = e};
    r.list = calloc(sg_source_count(s) + 1, sizeof *r.list);
    if (!r.list) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", sg_source_path(s));
    const sg_status status = take(&r, f);
    free(r.list);
    return status;
}
