/* eval_results.c - see eval_results.h. */
#include "eval_results.h"
#include "base/array.h"
#include "base/json_input.h"
#include "base/path.h"
#include "base/text.h"
#include "line_log.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_BYTES = 1 << 20,
    MAX_VALUES = 1 << 16,
    LONGEST_CLIP = 1 << 24,
    LARGEST_SIDE = 1 << 16,
    MOST_STEPS = 1000,
    MOST_SECONDS = 1000000000
}; /* of a line */

bool sg_eval_path_stays(const char *path)
{
    static const char leaves[] = "^[A-Za-z][A-Za-z0-9+.-]*:|[[:cntrl:]\\\\]|(^|/)\\.{0,2}(/|$)";
    regex_t           r;
    if (regcomp(&r, leaves, REG_EXTENDED | REG_NOSUB) != 0) return false;
    const bool stays = regexec(&r, path, 0, NULL, 0) != 0;
    regfree(&r);
    return stays;
}

/* ---- one line ---- */

static sg_status wrong(sg_error *e, const char *key, const char *why)
{
    return sg_error_set(e, SG_E_FORMAT, "%s %s", key, why);
}

/* What is null is not there. */
static json_t *member(const json_t *j, const char *key)
{
    json_t *const v = json_object_get(j, key);
    return json_is_null(v) ? NULL : v;
}

/* A path "a.b" has the object a, or NULL where it is not there, and the key "b"; another is a key of the line. */
static sg_status find_holder(const json_t *line, const char *path, const json_t **holder, const char **key, sg_error *e)
{
    const char *const dot = strchr(path, '.');
    char              name[32];
    *holder = line;
    *key = path;
    if (!dot) return SG_OK;
    snprintf(name, sizeof name, "%.*s", (int)(dot - path), path);
    *holder = member(line, name);
    *key = dot + 1;
    return !*holder || json_is_object(*holder) ? SG_OK : wrong(e, name, "should be an object");
}

static sg_status read_whole(const json_t *v, const char *key, int64_t lo, int64_t hi, int64_t *out, sg_error *e)
{
    if (!v) return wrong(e, key, "is missing");
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
        return sg_error_set(e, SG_E_FORMAT, "%s should be a whole number from %lld to %lld", key, (long long)lo,
                            (long long)hi);
    *out = json_integer_value(v);
    return SG_OK;
}

static sg_status read_place(const json_t *j, sg_eval_clip *c, sg_error *e)
{
    const struct {
        const char *key;
        int         lo, hi, *to;
    } place[] = {{"version", 1, SG_EVAL_LINE_VERSION, &c->version},
                 {"arm_index", 0, INT_MAX, &c->arm},
                 {"prompt", 0, SG_EVAL_PLACES - 1, &c->prompt},
                 {"clip", 0, SG_EVAL_PLACES - 1, &c->clip}};
    const char *const status = json_string_value(json_object_get(j, "status"));
    json_t *const seed = member(j, "seed"), *const same = member(j, "same_kernels");
    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        int64_t v = 0;
        SG_TRY(read_whole(member(j, place[i].key), place[i].key, place[i].lo, place[i].hi, &v, e));
        *place[i].to = (int)v;
    }
    if (!status || (strcmp(status, "done") != 0 && strcmp(status, "failed") != 0 && strcmp(status, "scored") != 0))
        return wrong(e, "status", "should be \"done\", \"failed\" or \"scored\"");
    c->done = *status == 'd';
    c->scored = *status == 's';
    if (same && !json_is_boolean(same)) return wrong(e, "same_kernels", "should be true or false");
    c->same = json_is_true(same);
    c->seed = -1;
    return seed ? read_whole(seed, "seed", 0, INT64_MAX, &c->seed, e) : SG_OK;
}

/* ---- its figures ---- */

#define AT(member) offsetof(sg_eval_clip, member)
#define FIGURE(member) .key = #member, AT(member)

const sg_eval_figure sg_eval_figures[] = {
    {FIGURE(width), 1, LARGEST_SIDE, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(height), 1, LARGEST_SIDE, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(frames), 1, LONGEST_CLIP, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(black), 0, LONGEST_CLIP, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(frozen), 0, LONGEST_CLIP, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(non_finite), 0, LONGEST_CLIP, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(strength), 0, 1, SG_EVAL_NONE, 0},
    {FIGURE(seconds.total), 0, MOST_SECONDS, SG_EVAL_NONE, 0, .was = "seconds.whole"},
    {FIGURE(seconds.text), 0, MOST_SECONDS, SG_EVAL_NONE, 0},
    {FIGURE(seconds.encode), 0, MOST_SECONDS, SG_EVAL_NONE, 0, .was = "seconds.encoder"},
    {FIGURE(seconds.denoise), 0, MOST_SECONDS, SG_EVAL_NONE, 0, .was = "seconds.denoiser"},
    {FIGURE(seconds.decode), 0, MOST_SECONDS, SG_EVAL_NONE, 0, .was = "seconds.decoder"},
    {FIGURE(psnr), -1000, 1000, SG_EVAL_MEAN, SG_EVAL_SCORE | SG_EVAL_INFINITE | SG_EVAL_PAGE, "PSNR", 2, " dB"},
    {FIGURE(ssim), -2, 2, SG_EVAL_MEAN, SG_EVAL_SCORE | SG_EVAL_BOUNDED | SG_EVAL_PAGE, "SSIM", 4, ""},
    {FIGURE(ms_ssim), -2, 2, SG_EVAL_MEAN, SG_EVAL_SCORE | SG_EVAL_BOUNDED | SG_EVAL_PAGE, "MS-SSIM", 4, ""},
    {FIGURE(flicker), 0, 1, SG_EVAL_CHANGE, SG_EVAL_PAGE},
    {FIGURE(sharpness), 0, 1e9, SG_EVAL_CHANGE, SG_EVAL_PAGE},
    {FIGURE(clipsim), -1.001, 1.001, SG_EVAL_CHANGE, SG_EVAL_JUDGED | SG_EVAL_PAGE, "CLIPSIM", 4, ""},
    {FIGURE(clip_t), -1.001, 1.001, SG_EVAL_CHANGE, SG_EVAL_JUDGED | SG_EVAL_PAGE, "CLIP-T", 4, ""},
    {FIGURE(clip_score), 0, 100.1, SG_EVAL_CHANGE, SG_EVAL_JUDGED | SG_EVAL_PAGE, "CLIP score", 2, ""},
    {.key = "seconds", AT(seconds.own), 0, 0, SG_EVAL_SPEEDUP, SG_EVAL_MADE | SG_EVAL_TIME | SG_EVAL_PAGE},
    {.key = "denoiser_seconds", AT(seconds.denoise), 0, 0, SG_EVAL_SPEEDUP, SG_EVAL_MADE | SG_EVAL_TIME},
    {.key = "total_seconds", AT(seconds.total), 0, 0, SG_EVAL_MEAN, SG_EVAL_MADE | SG_EVAL_TIME},
    {FIGURE(density), 0, 1, SG_EVAL_MEAN, SG_EVAL_PAGE, .was = "kept"},
    {FIGURE(steps), 1, MOST_STEPS, SG_EVAL_NONE, SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {FIGURE(steps_computed), 0, 0, SG_EVAL_MEAN, SG_EVAL_MADE | SG_EVAL_WHOLE | SG_EVAL_PAGE},
    {.key = NULL}};

static double *values(const sg_eval_figure *f, sg_eval_clip *c) { return (double *)(void *)((char *)c + f->at); }

const double *sg_eval_values(const sg_eval_figure *f, const sg_eval_clip *c)
{
    return (const double *)(const void *)((const char *)c + f->at);
}

static sg_status read_number(const json_t *line, const sg_eval_figure *f, const char *path, double *out, sg_error *e)
{
    const bool    whole = f->flags & SG_EVAL_WHOLE;
    const json_t *holder;
    const char   *key;
    SG_TRY(find_holder(line, path, &holder, &key, e));
    const json_t *const v = json_object_get(holder, key);
    *out = f->flags & SG_EVAL_INFINITE && json_is_null(v) ? (double)INFINITY : (double)NAN;
    if (!v || json_is_null(v)) return SG_OK;
    *out = json_number_value(v);
    if ((whole ? json_is_integer(v) : json_is_number(v)) && *out >= f->lo && *out <= f->hi) return SG_OK;
    return sg_error_set(e, SG_E_FORMAT, "%s should be a %snumber from %.10g to %.10g", path, whole ? "whole " : "",
                        f->lo, f->hi);
}

static sg_status read_figure(const json_t *line, const sg_eval_figure *f, sg_eval_clip *c, sg_error *e)
{
    static const char *const part[] = {".mean", ".minimum", ".p5"};
    const char *const        key = f->was && c->version == 1 ? f->was : f->key;
    for (int i = 0; i < (f->flags & SG_EVAL_SCORE ? 3 : 1); i++) {
        char path[32];
        snprintf(path, sizeof path, "%s%s", key, f->flags & SG_EVAL_SCORE ? part[i] : "");
        SG_TRY(read_number(line, f, path, &values(f, c)[i], e));
    }
    return SG_OK;
}

/* These are made of others. */
static sg_status make_figures(const json_t *line, sg_eval_clip *c, sg_error *e)
{
    const json_t *const skipped = member(line, "skipped_steps");
    const double        encoded = fmax(c->seconds.text, 0) + fmax(c->seconds.encode, 0);
    if (c->done && isnan(c->seconds.total)) return wrong(e, "seconds.total", "is missing");
    if (encoded > c->seconds.total)
        return wrong(e, "seconds.encode", "and seconds.text together should be at most seconds.total");
    if (skipped && (!json_is_array(skipped) || !((double)json_array_size(skipped) <= c->steps)))
        return wrong(e, "skipped_steps", "should be a list of some of the steps");
    c->seconds.own = c->seconds.total - encoded;
    c->steps_computed = c->steps - (double)json_array_size(skipped);
    return SG_OK;
}

/* ---- its strings ---- */

static const struct string {
    const char *path;
    size_t      at;
    enum { MAY, MUST, MUST_IF_DONE } need; /* of a path "a.b": b must be there if a is */
    bool inside;                           /* the path of a file in the folder */
} strings[] = {{"arm", AT(name), MUST, false},
               {"text", AT(text), MUST, false},
               {"error", AT(error), MAY, false},
               {"ran", AT(ran), MAY, false},
               {"file", AT(file), MUST_IF_DONE, true},
               {"picture", AT(picture), MAY, true},
               {"image.file", AT(image[SG_IMAGE_FIRST].file), MAY, false},
               {"image.hash", AT(image[SG_IMAGE_FIRST].hash), MAY, false},
               {"image.picture", AT(image[SG_IMAGE_FIRST].picture), MAY, true},
               {"last_image.file", AT(image[SG_IMAGE_LAST].file), MAY, false},
               {"last_image.hash", AT(image[SG_IMAGE_LAST].hash), MAY, false},
               {"last_image.picture", AT(image[SG_IMAGE_LAST].picture), MAY, true},
               {"video.file", AT(video.file), MAY, false},
               {"video.hash", AT(video.hash), MAY, false}};

/* v lives as long as the clip. */
static sg_status hold(sg_eval_clip *c, json_t *v, sg_error *e)
{
    if (!v || json_array_append(c->held, v) == 0) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "out of memory");
}

static sg_status read_string(const json_t *line, const struct string *s, sg_eval_clip *c, sg_error *e)
{
    const json_t *holder;
    const char   *key;
    SG_TRY(find_holder(line, s->path, &holder, &key, e));
    json_t *const v = member(holder, key);
    const bool    must = s->need == MUST || (s->need == MUST_IF_DONE && c->done) || (key != s->path && holder);
    if (!v) return must ? wrong(e, s->path, "is missing") : SG_OK;
    const char *const text = json_string_value(v);
    if (!text) return wrong(e, s->path, "should be a string");
    if (s->inside && !sg_eval_path_stays(text))
        return sg_error_set(e, SG_E_FORMAT, "%s should be a path within the folder, not %s", s->path, sg_show(text));
    *(const char **)(void *)((char *)c + s->at) = text;
    return hold(c, v, e);
}

static sg_status read_groups(json_t *list, sg_eval_clip *c, sg_error *e)
{
    size_t        i;
    const json_t *v;
    if (list && !json_is_array(list)) return wrong(e, "groups", "should be a list of strings");
    if (json_array_size(list) > SG_EVAL_GROUPS)
        return sg_error_set(e, SG_E_FORMAT, "groups has more than %d entries", SG_EVAL_GROUPS);
    json_array_foreach(list, i, v) if (!json_is_string(v)) return wrong(e, "groups", "should be a list of strings");
    c->groups = list;
    return hold(c, list, e);
}

static sg_status read_object(const json_t *j, sg_eval_clip *c, sg_error *e)
{
    if (!json_is_object(j)) return sg_error_set(e, SG_E_FORMAT, "should be a JSON object");
    SG_TRY(read_place(j, c, e));
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (!(f->flags & SG_EVAL_MADE)) SG_TRY(read_figure(j, f, c, e));
    SG_TRY(make_figures(j, c, e));
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) SG_TRY(read_string(j, &strings[i], c, e));
    return read_groups(member(j, "groups"), c, e);
}

static sg_status read_text(sg_eval_clip *out, const char *text, size_t size, sg_error *e)
{
    json_t       *j;
    sg_json_fault f;
    if (!out->held) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    if (size > MAX_BYTES) return sg_error_set(e, SG_E_FORMAT, "has more than %d bytes", MAX_BYTES);
    sg_status status = sg_json_parse(&j, text, size, MAX_VALUES, JSON_DECODE_ANY, &f);
    if (status != SG_OK && f.column) return sg_error_set(e, status, "column %d: %s", f.column, f.text);
    if (status != SG_OK) return sg_error_set(e, status, "%s", f.text);
    status = read_object(j, out, e);
    json_decref(j);
    return status;
}

sg_status sg_eval_line_read(sg_eval_clip *out, const char *text, size_t size, const char *file, int line, sg_error *e)
{
    char where[PATH_MAX + 32];
    snprintf(where, sizeof where, "%s: line %d", file, line);
    *out = (sg_eval_clip){.line = line, .held = json_array()};
    return sg_error_in(e, read_text(out, text, size, e), where);
}

void sg_eval_clip_free(sg_eval_clip *c)
{
    json_decref(c->held);
    *c = (sg_eval_clip){0};
}

/* ---- a file ---- */

/* The file whose lines are read. */
typedef struct source {
    sg_eval_results *r;
    int              place;
    const char      *path;
} source;

static sg_status take_line(void *context, const char *text, size_t size, int line, sg_error *e)
{
    const source *const    s = context;
    sg_eval_results *const r = s->r;
    if (r->count == INT_MAX) return sg_error_set(e, SG_E_FORMAT, "%s: too many lines", s->path);
    if (!sg_array_push(r->clip, r->count, r->room, (sg_eval_clip){0})) return sg_error_memory(e, s->path);
    sg_eval_clip *const c = &r->clip[r->count - 1];
    const sg_status     status = sg_eval_line_read(c, text, size, s->path, line, e);
    c->source = s->place;
    return status;
}

static sg_status read_file(sg_eval_results *r, int place, const char *directory, sg_error *e)
{
    char path[PATH_MAX];
    SG_TRY(sg_path_join(path, sizeof path, directory, r->source[place]->d_name, e));
    return sg_line_log_read(path, take_line, &(source){r, place, path}, e);
}

/* ---- a folder ---- */

bool sg_eval_results_owns(const char *name) { return fnmatch("results*.jsonl", name, 0) == 0; }

static int is_source(const struct dirent *f) { return sg_eval_results_owns(f->d_name); }

/* By the first so many of their numbers. */
static int order(const sg_eval_clip *a, const sg_eval_clip *b, int numbers)
{
    const int x[] = {a->prompt, a->clip, a->arm, a->source, a->line};
    const int y[] = {b->prompt, b->clip, b->arm, b->source, b->line};
    int       i = 0;
    while (i < numbers - 1 && x[i] == y[i]) i++;
    return (x[i] > y[i]) - (x[i] < y[i]);
}

static int by_place(const void *a, const void *b) { return order(a, b, 3); }

static int by_place_and_line(const void *a, const void *b) { return order(a, b, 5); }

static void take_scores(sg_eval_clip *to, const sg_eval_clip *from)
{
    to->scored = from->scored;
    for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
        if (f->flags & SG_EVAL_JUDGED) *values(f, to) = *sg_eval_values(f, from);
}

/* The last scored line of a clip counts, unless a line of the same file that is done follows it; and of the others
 * the last that is done, or the last, which comes to *to. Returns whether there is one. */
static bool keep_one(sg_eval_clip *to, sg_eval_clip *of, int count)
{
    sg_eval_clip        one = {0};
    sg_eval_clip       *kept = NULL;
    const sg_eval_clip *scored = NULL;
    for (sg_eval_clip *c = of; c < of + count; c++) {
        if (c->scored) scored = c;
        if (!c->scored && (!kept || c->done || !kept->done)) kept = c;
        if (c->done && scored && scored->source == c->source) scored = NULL;
    }
    if (kept && scored) take_scores(kept, scored);
    if (kept) one = *kept;
    if (kept) *kept = (sg_eval_clip){0};
    for (int i = 0; i < count; i++) sg_eval_clip_free(&of[i]);
    *to = one;
    return kept != NULL;
}

static void drop_repeated(sg_eval_results *r)
{
    int kept = 0;
    for (int first = 0, next = 0; first < r->count; first = next) {
        while (next < r->count && by_place(&r->clip[first], &r->clip[next]) == 0) next++;
        kept += keep_one(&r->clip[kept], &r->clip[first], next - first);
    }
    r->count = kept;
}

sg_status sg_eval_results_open(sg_eval_results *out, const char *directory, sg_error *e)
{
    *out = (sg_eval_results){0};
    const int files = scandir(directory, &out->source, is_source, alphasort);
    if (files < 0) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", directory, strerror(errno));
    out->sources = files;
    for (int i = 0; i < files; i++) SG_TRY(read_file(out, i, directory, e));
    if (out->count) qsort(out->clip, (size_t)out->count, sizeof *out->clip, by_place_and_line);
    drop_repeated(out);
    return SG_OK;
}

void sg_eval_results_close(sg_eval_results *r)
{
    for (int i = 0; i < r->count; i++) sg_eval_clip_free(&r->clip[i]);
    for (int i = 0; i < r->sources; i++) free(r->source[i]);
    free(r->clip);
    free(r->source);
    *r = (sg_eval_results){0};
}

int sg_eval_results_find(const sg_eval_results *r, int prompt, int clip, int arm)
{
    const sg_eval_clip        wanted = {.prompt = prompt, .clip = clip, .arm = arm};
    const sg_eval_clip *const at =
        r->count ? bsearch(&wanted, r->clip, (size_t)r->count, sizeof *r->clip, by_place) : NULL;
    return at ? (int)(at - r->clip) : -1;
}
