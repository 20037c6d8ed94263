/* thresholds.c - see thresholds.h. */
#include "thresholds.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/text.h"
#include "thresholds_spargeattn.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FORMAT "sparge-gen thresholds"
enum { VERSION = 1, MAX_BYTES = 16 << 20, MAX_VALUES = 1 << 18, MAX_SIDE = 1 << 16, PV_THRESHOLD_MAX = 1000 };

static const char *const rules[] = {"topk", "tau", NULL}; /* in the order of sg_select_rule */

/* Numbers from 0 up of objects that may be missing, as may the numbers, which are NaN then. */
#define FIGURE(object, key, member)                                                                                    \
    {                                                                                                                  \
        object, key, offsetof(sg_thresholds_file, member)                                                              \
    }
enum { CACHE_FIGURES = 5 }; /* the first */
static const struct {
    const char *object, *key;
    size_t      at;
} figures[] = {FIGURE("cache", "threshold", cache.threshold), FIGURE("cache", "bound", cache.bound),
               FIGURE("cache", "reached", cache.reached),     FIGURE("cache", "skipped", cache.skipped),
               FIGURE("cache", "steps", cache.steps),         FIGURE("bound", "l1", bound[0]),
               FIGURE("bound", "l2", bound[1]),               FIGURE("reached", "l1", reached[0]),
               FIGURE("reached", "l2", reached[1]),           FIGURE("reached", "density", density)};
enum { FIGURES = sizeof figures / sizeof *figures };

static double *figure_in(sg_thresholds_file *f, int i) { return (double *)((char *)f + figures[i].at); }

sg_status sg_thresholds_new(sg_thresholds_file *f, int buckets, int layers, int heads, sg_error *e)
{
    *f = (sg_thresholds_file){0};
    for (int i = 1; i < FIGURES; i++) *figure_in(f, i) = NAN;
    if (!layers || sg_thresholds_alloc(&f->values, SG_SELECT_TOPK, buckets, layers, heads)) return SG_OK;
    return sg_error_memory(e, "thresholds");
}

void sg_thresholds_free(sg_thresholds_file *f)
{
    for (int i = 0; i < f->prompts; i++) free(f->prompt[i]);
    free(f->prompt);
    sg_thresholds_release(&f->values);
    *f = (sg_thresholds_file){0};
}

sg_status sg_thresholds_add_prompt(sg_thresholds_file *f, const char *prompt, sg_error *e)
{
    char **const more = realloc(f->prompt, ((size_t)f->prompts + 1) * sizeof *more);
    if (more) f->prompt = more;
    if (!more || !(f->prompt[f->prompts] = strdup(prompt))) return sg_error_memory(e, "thresholds");
    f->prompts++;
    return SG_OK;
}

/* ---- reading ---- */

typedef struct reader {
    const char *path;
    json_t     *root;
    sg_error   *e;
} reader;

static sg_status wrong(const reader *r, const char *key, const char *fmt, ...) SG_PRINTF(3, 4);
static sg_status wrong(const reader *r, const char *key, const char *fmt, ...)
{
    char    why[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    return sg_error_set(r->e, SG_E_FORMAT, "%s: %s: %s", r->path, sg_show(key), why);
}

static sg_status read_count(const reader *r, const char *key, int *out)
{
    const json_t *const v = json_object_get(r->root, key);
    if (!v) return wrong(r, key, "is missing");
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > MAX_SIDE)
        return wrong(r, key, "should be a whole number from 1 to %d", MAX_SIDE);
    *out = (int)json_integer_value(v);
    return SG_OK;
}

/* Entry i of a list. */
static sg_status read_number(const reader *r, const char *key, size_t i, const json_t *v, double lo, double hi,
                             float *out)
{
    const double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= lo && x <= hi))
        return wrong(r, key, "entry %zu should be a number from %g to %g", i, lo, hi);
    *out = (float)x;
    return SG_OK;
}

static sg_status check_list(const reader *r, const char *key, const json_t *v, int n, const char *noun, const char *of)
{
    if (json_is_array(v) && json_array_size(v) == (size_t)n) return SG_OK;
    return wrong(r, key, "should be a list of %d %s%s%s%s", n, noun, sg_plural(n), of,
                 json_is_array(v) ? ", but has another length" : "");
}

/* out[b][l][h] = [bucket][layer][head] of that member. Without out only what lists there are is looked at. */
static sg_status read_grid(const reader *r, const char *key, const sg_thresholds *t, double lo, double hi, float *out)
{
    const json_t *const all = json_object_get(r->root, key);
    SG_TRY(check_list(r, key, all, t->buckets, "bucket", ""));
    for (int b = 0; b < t->buckets; b++) {
        const json_t *const bucket = json_array_get(all, (size_t)b);
        SG_TRY(check_list(r, key, bucket, t->layers, "layer", " in each bucket"));
        for (int l = 0; l < t->layers; l++) {
            const json_t *const layer = json_array_get(bucket, (size_t)l);
            SG_TRY(check_list(r, key, layer, t->heads, "head", " in each layer"));
            for (size_t h = 0; out && h < (size_t)t->heads; h++)
                SG_TRY(read_number(r, key, h, json_array_get(layer, h), lo, hi, out++));
        }
    }
    return SG_OK;
}

static sg_status read_buckets(const reader *r, const json_t *list, float *from)
{
    const size_t n = json_array_size(list);
    for (size_t b = 0; b < n; b++) {
        SG_TRY(read_number(r, "buckets", b, json_array_get(list, b), 0, 1000, &from[b]));
        if (b && !(from[b] < from[b - 1])) return wrong(r, "buckets", "entry %zu should be below the one before", b);
    }
    return from[n - 1] == 0 ? SG_OK : wrong(r, "buckets", "the last should be 0");
}

static sg_status read_text(const reader *r, const char *key, const char **out)
{
    const json_t *const v = json_object_get(r->root, key);
    *out = json_string_value(v);
    return v && !json_is_string(v) ? wrong(r, key, "should be a string") : SG_OK;
}

static sg_status read_rule(const reader *r, sg_select_rule *out)
{
    const char *name;
    SG_TRY(read_text(r, "rule", &name));
    const int rule = sg_text_place(name, rules);
    *out = (sg_select_rule)rule;
    return rules[rule] ? SG_OK : wrong(r, "rule", "should be \"topk\" or \"tau\"");
}

static sg_status read_figure(const reader *r, const char *object, const char *key, double *out)
{
    const json_t *const o = json_object_get(r->root, object), *const v = json_object_get(o, key);
    if (o && !json_is_object(o)) return wrong(r, object, "should be an object");
    if (!v || json_is_null(v)) return SG_OK;
    if (!json_is_number(v) || !(json_number_value(v) >= 0))
        return wrong(r, object, "%s should be a number from 0", key);
    *out = json_number_value(v);
    return SG_OK;
}

static sg_status read_choice(const reader *r, const json_t *policy, const char *key, const char *const *names, int *out)
{
    *out = sg_text_place(json_string_value(json_object_get(policy, key)), names);
    return names[*out] ? SG_OK : wrong(r, "policy", "%s is not one that there is", key);
}

static sg_status read_policy(const reader *r, sg_thresholds_file *f)
{
    const json_t *const policy = json_object_get(r->root, "policy"), *const tail = json_object_get(policy, "tail");
    int score, bias, order;
    if (!policy) return SG_OK;
    if (!json_is_boolean(tail)) return wrong(r, "policy", "tail should be true or false");
    SG_TRY(read_choice(r, policy, "score", sg_score_names, &score));
    SG_TRY(read_choice(r, policy, "tail_bias", sg_tail_bias_names, &bias));
    SG_TRY(read_choice(r, policy, "order", sg_order_names, &order));
    f->has_policy = true;
    f->policy.score = (sg_score_kind)score;
    f->policy.tail = json_is_true(tail);
    f->policy.tail_bias = (sg_tail_bias)bias;
    f->policy.order = (sg_order)order;
    return SG_OK;
}

static sg_status read_figures(const reader *r, sg_thresholds_file *f)
{
    const double *const cache = &f->cache.threshold;
    for (int i = 0; i < FIGURES; i++) SG_TRY(read_figure(r, figures[i].object, figures[i].key, figure_in(f, i)));
    if (json_object_get(r->root, "cache") && !(*cache >= SG_CACHE_THRESHOLD_MIN && *cache <= SG_CACHE_THRESHOLD_MAX))
        return wrong(r, "cache", "threshold should be a number from %g to %g", SG_CACHE_THRESHOLD_MIN,
                     SG_CACHE_THRESHOLD_MAX);
    if (!isnan(f->density)) return SG_OK;
    SG_TRY(read_figure(r, "reached", "sparsity", &f->density)); /* files of 0.1.0 */
    f->density = 1 - f->density;
    return SG_OK;
}

/* What is for people. */
static sg_status read_notes(const reader *r, sg_thresholds_file *f)
{
    const json_t *const prompts = json_object_get(r->root, "prompts");
    const char         *hash, *written;
    SG_TRY(read_text(r, "model", &hash));
    SG_TRY(read_text(r, "written", &written));
    if (written && strlen(written) >= sizeof f->written) return wrong(r, "written", "should be a time");
    if (written) memcpy(f->written, written, strlen(written) + 1);
    if (hash && (strlen(hash) != 16 || strspn(hash, "0123456789abcdef") != 16))
        return wrong(r, "model", "should be 16 hexadecimal digits");
    if (hash) memcpy(f->model, hash, sizeof f->model);
    SG_TRY(read_policy(r, f));
    if (prompts && !json_is_array(prompts)) return wrong(r, "prompts", "should be a list");
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        const char *const text = json_string_value(json_array_get(prompts, i));
        if (!text) return wrong(r, "prompts", "entry %zu should be a string", i);
        SG_TRY(sg_thresholds_add_prompt(f, text, r->e));
    }
    return SG_OK;
}

static sg_status read_values(const reader *r, sg_thresholds_file *f)
{
    const json_t *const buckets = json_object_get(r->root, "buckets");
    const size_t        n = json_array_size(buckets);
    sg_thresholds       there = {.buckets = (int)(n <= MAX_VALUES ? n : 0)};
    SG_TRY(read_rule(r, &there.rule));
    SG_TRY(read_count(r, "layers", &there.layers));
    SG_TRY(read_count(r, "heads", &there.heads));
    if (there.buckets < 1) return wrong(r, "buckets", "should be a list of the lowest timestep of each");
    SG_TRY(read_grid(r, "amount", &there, 0, 1, NULL)); /* before it gets memory */
    SG_TRY(sg_thresholds_new(f, there.buckets, there.layers, there.heads, r->e));
    sg_thresholds *const t = &f->values;
    t->rule = there.rule;
    SG_TRY(read_buckets(r, buckets, t->from));
    SG_TRY(read_grid(r, "amount", t, 0, 1, t->amount));
    SG_TRY(read_grid(r, "theta", t, -1, 1, t->theta));
    return read_grid(r, "lambda", t, 0, PV_THRESHOLD_MAX, t->pv_threshold);
}

static sg_status read_own(const reader *r, sg_thresholds_file *f)
{
    static const char *const of_values[] = {"rule", "layers", "heads", "buckets", "amount", "theta", "lambda"};
    bool                     values = !json_object_get(r->root, "cache");
    int                      version = 0;
    SG_TRY(read_count(r, "version", &version));
    if (version != VERSION) return wrong(r, "version", "is %d, and only %d can be read", version, VERSION);
    for (size_t i = 0; i < sizeof of_values / sizeof *of_values; i++)
        values = values || json_object_get(r->root, of_values[i]);
    SG_TRY(values ? read_values(r, f) : sg_thresholds_new(f, 0, 0, 0, r->e));
    SG_TRY(read_figures(r, f));
    return read_notes(r, f);
}

static sg_status read_json(sg_thresholds_file *f, const char *path, sg_error *e)
{
    reader      r = {.path = path, .e = e};
    const char *format = NULL;
    sg_status   status = sg_json_open(&r.root, path, MAX_BYTES, MAX_VALUES, 0, e);
    if (status == SG_OK) status = read_text(&r, "format", &format);
    const bool own = format && strcmp(format, FORMAT) == 0;
    if (status == SG_OK) status = own ? read_own(&r, f) : wrong(&r, "format", "should be \"" FORMAT "\"");
    json_decref(r.root);
    return status;
}

/* What torch.save wrote. */
static sg_status read_saved(sg_thresholds_file *f, const char *path, sg_error *e)
{
    sg_source *s = NULL;
    SG_TRY(sg_thresholds_new(f, 0, 0, 0, e));
    SG_TRY(sg_source_open(&s, path, e));
    const sg_status status = sg_spargeattn_read(&f->values, s, e);
    f->spargeattn = true;
    sg_source_close(&s);
    return status;
}

static bool is_zip(const char *path)
{
    sg_error   why = {0};
    sg_map     map;
    const bool opened = sg_map_open(&map, path, &why) == SG_OK;
    const bool zip = opened && map.size >= 4 && memcmp(map.data, "PK\3\4", 4) == 0;
    if (opened) sg_map_close(&map);
    return zip;
}

sg_status sg_thresholds_read(sg_thresholds_file *f, const char *path, sg_error *e)
{
    *f = (sg_thresholds_file){0};
    sg_status status = is_zip(path) ? read_saved(f, path, e) : read_json(f, path, e);
    f->hash = SG_HASH;
    if (status == SG_OK) status = sg_file_hash(&f->hash, path, e);
    if (status != SG_OK) sg_thresholds_free(f);
    return status;
}

/* ---- writing ---- */

static void put_string(sg_textbuf *t, const char *s)
{
    json_t *const j = json_string(s);
    char *const   quoted = j ? sg_json_text(j, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        sg_textbuf_printf(t, "%s", quoted);
    else
        t->failed = true;
    free(quoted);
    json_decref(j);
}

/* A line a layer. */
static void put_grid(sg_textbuf *t, const char *key, const sg_thresholds *v, const float *x)
{
    sg_textbuf_printf(t, ",\n  \"%s\": [", key);
    for (int b = 0; b < v->buckets; b++) {
        sg_textbuf_printf(t, "%s\n    [", b ? "," : "");
        for (int l = 0; l < v->layers; l++) {
            sg_textbuf_printf(t, "%s[", l ? ",\n     " : "");
            for (int h = 0; h < v->heads; h++) sg_textbuf_printf(t, "%s%.6g", h ? ", " : "", (double)*x++);
            sg_textbuf_printf(t, "]");
        }
        sg_textbuf_printf(t, "]");
    }
    sg_textbuf_printf(t, "\n  ]");
}

/* The figures that are known, those of an object together; of the cache's where there is a threshold. */
static void put_figures(sg_textbuf *t, const sg_thresholds_file *f)
{
    const char *open = "";
    for (int i = f->cache.threshold > 0 ? 0 : CACHE_FIGURES; i < FIGURES; i++) {
        const double x = *(const double *)((const char *)f + figures[i].at);
        const bool   opens = strcmp(open, figures[i].object) != 0;
        if (isnan(x)) continue;
        if (opens) sg_textbuf_printf(t, "%s,\n  \"%s\": {", *open ? "}" : "", figures[i].object);
        sg_textbuf_printf(t, "%s\"%s\": %.6g", opens ? "" : ", ", figures[i].key, x);
        open = figures[i].object;
    }
    if (*open) sg_textbuf_printf(t, "}");
}

/* The values of attention, where there are some. */
static void put_values(sg_textbuf *t, const sg_thresholds *v)
{
    if (!v->layers) return;
    sg_textbuf_printf(t, ",\n  \"rule\": \"%s\",\n  \"layers\": %d,\n  \"heads\": %d,\n  \"buckets\": [",
                      rules[v->rule], v->layers, v->heads);
    for (int b = 0; b < v->buckets; b++) sg_textbuf_printf(t, "%s%.6g", b ? ", " : "", (double)v->from[b]);
    sg_textbuf_printf(t, "]");
    put_grid(t, "amount", v, v->amount);
    put_grid(t, "theta", v, v->theta);
    put_grid(t, "lambda", v, v->pv_threshold);
}

sg_status sg_thresholds_text(char **out, const sg_thresholds_file *f, sg_error *e)
{
    sg_textbuf t = {0};
    sg_textbuf_printf(&t, "{\n  \"format\": \"" FORMAT "\",\n  \"version\": %d", VERSION);
    if (*f->model) sg_textbuf_printf(&t, ",\n  \"model\": \"%s\"", f->model);
    put_values(&t, &f->values);
    put_figures(&t, f);
    if (f->has_policy)
        sg_textbuf_printf(
            &t, ",\n  \"policy\": {\"score\": \"%s\", \"tail\": %s, \"tail_bias\": \"%s\", \"order\": \"%s\"}",
            sg_score_names[f->policy.score], f->policy.tail ? "true" : "false", sg_tail_bias_names[f->policy.tail_bias],
            sg_order_names[f->policy.order]);
    for (int i = 0; i < f->prompts; i++) {
        sg_textbuf_printf(&t, i ? ",\n    " : ",\n  \"prompts\": [\n    ");
        put_string(&t, f->prompt[i]);
    }
    if (f->prompts) sg_textbuf_printf(&t, "\n  ]");
    if (*f->written) {
        sg_textbuf_printf(&t, ",\n  \"written\": ");
        put_string(&t, f->written);
    }
    sg_textbuf_printf(&t, "\n}\n");
    *out = t.failed ? NULL : t.data;
    if (t.failed) sg_textbuf_free(&t);
    return t.failed ? sg_error_memory(e, "thresholds") : SG_OK;
}

/* ---- whose file ---- */

void sg_thresholds_date(sg_thresholds_file *f, struct timespec time)
{
    struct tm parts;
    gmtime_r(&time.tv_sec, &parts);
    const size_t n = strftime(f->written, sizeof f->written, "%Y-%m-%dT%H:%M:%S", &parts);
    if (n) snprintf(f->written + n, sizeof f->written - n, ".%09ldZ", (long)time.tv_nsec);
}

bool sg_thresholds_is_ours(const char *path)
{
    sg_thresholds_file f = {0}, now = {0};
    struct stat        st;
    sg_error           why = {0};
    if (stat(path, &st) != 0 || st.st_uid != geteuid() || sg_thresholds_read(&f, path, &why) != SG_OK) return false;
    sg_thresholds_date(&now, st.st_mtim);
    const bool own = strcmp(f.written, now.written) == 0;
    sg_thresholds_free(&f);
    return own;
}
