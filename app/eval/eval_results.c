/* eval_results.c - see eval_results.h. */
#include "eval_results.h"
#include "base/array.h"
#include "base/file.h"
#include "base/path.h"
#include "base/text.h"
#include "json_input.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MAX_BYTES = 1 << 20,
    MAX_VALUES = 1 << 16,
    LONGEST_CLIP = 1 << 24,
    LARGEST_SIDE = 1 << 16,
    MOST_STEPS = 1000
}; /* of a line */

bool sg_eval_path_stays(const char *path)
{
    size_t scheme = 0;
    if (isalpha((unsigned char)*path))
        while (isalnum((unsigned char)path[scheme]) || (path[scheme] && strchr("+.-", path[scheme]))) scheme++;
    if (scheme && path[scheme] == ':') return false;
    for (const char *p = path; *p; p++)
        if (iscntrl((unsigned char)*p) || *p == '\\') return false;
    for (const char *part = path;; part++) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && *part == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) return false;
        part += n;
        if (!*part) return true;
    }
}

/* ---- one line ---- */

typedef struct reader {
    const char *file;
    int         line;
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
    return sg_error_set(r->e, SG_E_FORMAT, "%s: line %d: %s%s%s", r->file, r->line, key, *key ? " " : "", why);
}

/* What is null is not there. */
static const json_t *member(const json_t *j, const char *key)
{
    const json_t *const v = json_object_get(j, key);
    return json_is_null(v) ? NULL : v;
}

static sg_status read_whole(const reader *r, const json_t *v, const char *key, int64_t lo, int64_t hi, int64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
        return wrong(r, key, "should be a whole number from %lld to %lld", (long long)lo, (long long)hi);
    *out = json_integer_value(v);
    return SG_OK;
}

/* -1 where it is not there, unless it has to be. */
static sg_status read_int(const reader *r, const json_t *j, const char *key, bool must, int64_t lo, int64_t hi,
                          int *out)
{
    const json_t *const v = member(j, key);
    int64_t             x = -1;
    if (!v && must) return wrong(r, key, "is missing");
    if (v) SG_TRY(read_whole(r, v, key, lo, hi, &x));
    *out = (int)x;
    return SG_OK;
}

/* NAN where it is not there. label: the member's whole name. */
static sg_status read_real(const reader *r, const json_t *j, const char *key, const char *label, double lo, double hi,
                           double *out)
{
    const json_t *const v = member(j, key);
    *out = v ? json_number_value(v) : NAN;
    if (!v || (json_is_number(v) && *out >= lo && *out <= hi)) return SG_OK;
    return wrong(r, label, "should be a number from %g to %g", lo, hi);
}

/* infinite: what null stands for. */
static sg_status read_score(const reader *r, const json_t *j, const char *key, double bound, double infinite,
                            sg_eval_score *out)
{
    const json_t *const      s = member(j, key);
    static const char *const part[] = {"mean", "minimum", "p5"};
    double                   v[3] = {NAN, NAN, NAN};
    if (s && !json_is_object(s)) return wrong(r, key, "should be an object");
    for (int i = 0; s && i < 3; i++) {
        char label[32];
        snprintf(label, sizeof label, "%s.%s", key, part[i]);
        SG_TRY(read_real(r, s, part[i], label, -bound, bound, &v[i]));
        if (json_is_null(json_object_get(s, part[i]))) v[i] = infinite;
    }
    *out = (sg_eval_score){v[0], v[1], v[2]};
    return SG_OK;
}

static sg_status read_seconds(const reader *r, const json_t *j, sg_eval_clip *c)
{
    const json_t *const s = member(j, "seconds");
    const double        most = 1e9;
    c->whole = c->text_seconds = c->encoder = c->denoiser = c->decoder = NAN;
    if (!s) return c->done ? wrong(r, "seconds", "is missing") : SG_OK;
    if (!json_is_object(s)) return wrong(r, "seconds", "should be an object");
    SG_TRY(read_real(r, s, "whole", "seconds.whole", 0, most, &c->whole));
    SG_TRY(read_real(r, s, "text", "seconds.text", 0, most, &c->text_seconds));
    SG_TRY(read_real(r, s, "encoder", "seconds.encoder", 0, most, &c->encoder));
    SG_TRY(read_real(r, s, "denoiser", "seconds.denoiser", 0, most, &c->denoiser));
    SG_TRY(read_real(r, s, "decoder", "seconds.decoder", 0, most, &c->decoder));
    if (c->done && isnan(c->whole)) return wrong(r, "seconds.whole", "is missing");
    if (c->text_seconds > c->whole) return wrong(r, "seconds.text", "should be at most seconds.whole");
    if (fmax(c->text_seconds, 0) + c->encoder > c->whole)
        return wrong(r, "seconds.encoder", "and seconds.text together should be at most seconds.whole");
    return SG_OK;
}

static sg_status read_place(const reader *r, const json_t *j, sg_eval_clip *c)
{
    const char *const status = json_string_value(json_object_get(j, "status"));
    int               version;
    SG_TRY(read_int(r, j, "version", true, SG_EVAL_LINE_VERSION, SG_EVAL_LINE_VERSION, &version));
    SG_TRY(read_int(r, j, "arm_index", true, 0, INT_MAX, &c->arm));
    SG_TRY(read_int(r, j, "prompt", true, 0, SG_EVAL_PLACES - 1, &c->prompt));
    SG_TRY(read_int(r, j, "clip", true, 0, SG_EVAL_PLACES - 1, &c->clip));
    if (!status || (strcmp(status, "done") != 0 && strcmp(status, "failed") != 0 && strcmp(status, "scored") != 0))
        return wrong(r, "status", "should be \"done\", \"failed\" or \"scored\"");
    c->done = *status == 'd';
    c->scored = *status == 's';
    return SG_OK;
}

static sg_status read_steps(const reader *r, const json_t *j, sg_eval_clip *c)
{
    const json_t *const skipped = member(j, "skipped_steps");
    SG_TRY(read_int(r, j, "steps", false, 1, MOST_STEPS, &c->steps));
    if (skipped && (!json_is_array(skipped) || (int)json_array_size(skipped) > c->steps))
        return wrong(r, "skipped_steps", "should be a list of some of the steps");
    c->computed = c->steps - (int)json_array_size(skipped);
    return SG_OK;
}

static sg_status read_figures(const reader *r, const json_t *j, sg_eval_clip *c)
{
    const json_t *const seed = member(j, "seed");
    c->seed = -1;
    if (seed) SG_TRY(read_whole(r, seed, "seed", 0, INT64_MAX, &c->seed));
    SG_TRY(read_int(r, j, "width", false, 1, LARGEST_SIDE, &c->width));
    SG_TRY(read_int(r, j, "height", false, 1, LARGEST_SIDE, &c->height));
    SG_TRY(read_int(r, j, "frames", false, 1, LONGEST_CLIP, &c->frames));
    SG_TRY(read_int(r, j, "black", false, 0, LONGEST_CLIP, &c->black));
    SG_TRY(read_int(r, j, "frozen", false, 0, LONGEST_CLIP, &c->frozen));
    SG_TRY(read_int(r, j, "non_finite", false, 0, LONGEST_CLIP, &c->non_finite));
    SG_TRY(read_steps(r, j, c));
    SG_TRY(read_real(r, j, "kept", "kept", 0, 1, &c->kept));
    SG_TRY(read_real(r, j, "flicker", "flicker", 0, 1, &c->flicker));
    SG_TRY(read_real(r, j, "sharpness", "sharpness", 0, 1e9, &c->sharpness));
    SG_TRY(read_real(r, j, "strength", "strength", 0, 1, &c->strength));
    SG_TRY(read_real(r, j, "clipsim", "clipsim", -1.001, 1.001, &c->clipsim));
    SG_TRY(read_real(r, j, "clip_t", "clip_t", -1.001, 1.001, &c->clip_t));
    SG_TRY(read_real(r, j, "clip_score", "clip_score", 0, 100.1, &c->clip_score));
    SG_TRY(read_score(r, j, "psnr", 1000, INFINITY, &c->psnr));
    SG_TRY(read_score(r, j, "ssim", 2, NAN, &c->ssim));
    return read_score(r, j, "ms_ssim", 2, NAN, &c->ms_ssim);
}

/* Adds the bytes of a string to *size; it may be missing. */
static sg_status measure(const reader *r, const json_t *v, const char *key, bool must, size_t *size)
{
    if (!v && must) return wrong(r, key, "is missing");
    if (v && !json_is_string(v)) return wrong(r, key, "should be a string");
    if (v) *size += json_string_length(v) + 1;
    return SG_OK;
}

static const char *const picture_member[] = {"file", "hash", "picture"};

/* The first `members` of them; whole or not there. */
static sg_status measure_input(const reader *r, const json_t *j, const char *key, int members, size_t *size)
{
    const json_t *const input = member(j, key);
    if (input && !json_is_object(input)) return wrong(r, key, "should be an object");
    for (int k = 0; input && k < members; k++) {
        char label[32];
        snprintf(label, sizeof label, "%s.%s", key, picture_member[k]);
        SG_TRY(measure(r, member(input, picture_member[k]), label, true, size));
    }
    return SG_OK;
}

static sg_status measure_inputs(const reader *r, const json_t *j, size_t *size)
{
    SG_TRY(measure_input(r, j, "video", 2, size));
    for (int i = 0; i < SG_IMAGES; i++) {
        SG_TRY(measure_input(r, j, sg_picture_keys[i], 3, size));
        const char *const path = json_string_value(json_object_get(member(j, sg_picture_keys[i]), "picture"));
        if (path && !sg_eval_path_stays(path))
            return wrong(r, sg_picture_keys[i], "should have a picture within the folder, not %s", sg_show(path));
    }
    return SG_OK;
}

static sg_status measure_strings(const reader *r, const json_t *j, bool done, size_t *size)
{
    static const char *const path[] = {"file", "picture"};
    SG_TRY(measure(r, member(j, "arm"), "arm", true, size));
    SG_TRY(measure(r, member(j, "text"), "text", true, size));
    SG_TRY(measure(r, member(j, "error"), "error", false, size));
    for (int i = 0; i < 2; i++) {
        const json_t *const v = member(j, path[i]);
        SG_TRY(measure(r, v, path[i], done && i == 0, size));
        if (v && !sg_eval_path_stays(json_string_value(v)))
            return wrong(r, path[i], "should be a path within the folder, not %s", sg_show(json_string_value(v)));
    }
    return SG_OK;
}

static sg_status measure_groups(const reader *r, const json_t *list, size_t *size)
{
    size_t        i;
    const json_t *v;
    if (list && !json_is_array(list)) return wrong(r, "groups", "should be a list of strings");
    if (json_array_size(list) > SG_EVAL_GROUPS) return wrong(r, "groups", "has more than %d entries", SG_EVAL_GROUPS);
    json_array_foreach(list, i, v)
    {
        if (!json_is_string(v)) return wrong(r, "groups", "should be a list of strings");
        *size += sizeof(char *) + json_string_length(v) + 1;
    }
    return SG_OK;
}

static const char *copy(char **to, const json_t *v)
{
    if (!v) return NULL;
    char *const at = *to;
    *to = stpcpy(at, json_string_value(v)) + 1;
    return at;
}

static void copy_groups(sg_eval_clip *c, const char **group, char **to, const json_t *list)
{
    size_t        i;
    const json_t *v;
    c->group = group;
    json_array_foreach(list, i, v)
    {
        int same = 0;
        while (same < c->groups && strcmp(group[same], json_string_value(v)) != 0) same++;
        if (same == c->groups) group[c->groups++] = copy(to, v);
    }
}

static sg_status read_strings(const reader *r, const json_t *j, sg_eval_clip *c)
{
    const json_t *const groups = member(j, "groups");
    size_t              size = 0;
    SG_TRY(measure_strings(r, j, c->done, &size));
    SG_TRY(measure_inputs(r, j, &size));
    SG_TRY(measure_groups(r, groups, &size));
    const char **const group = malloc(size);
    if (!group) return sg_error_set(r->e, SG_E_MEMORY, "%s: out of memory", r->file);
    char *at = (char *)(group + json_array_size(groups));
    c->strings = group;
    copy_groups(c, group, &at, groups);
    c->name = copy(&at, member(j, "arm"));
    c->text = copy(&at, member(j, "text"));
    c->error = copy(&at, member(j, "error"));
    c->file = copy(&at, member(j, "file"));
    c->picture = copy(&at, member(j, "picture"));
    for (int i = 0; i < SG_IMAGES; i++) {
        const json_t *const image = member(j, sg_picture_keys[i]);
        const char        **to[] = {&c->image[i].file, &c->image[i].hash, &c->image[i].picture};
        for (int k = 0; k < 3; k++) *to[k] = copy(&at, member(image, picture_member[k]));
    }
    const json_t *const video = member(j, "video");
    c->video.file = copy(&at, member(video, "file"));
    c->video.hash = copy(&at, member(video, "hash"));
    return SG_OK;
}

static sg_status read_object(const reader *r, const json_t *j, sg_eval_clip *c)
{
    if (!json_is_object(j)) return wrong(r, "", "should be a JSON object");
    SG_TRY(read_place(r, j, c));
    SG_TRY(read_seconds(r, j, c));
    SG_TRY(read_figures(r, j, c));
    return read_strings(r, j, c);
}

sg_status sg_eval_line_read(sg_eval_clip *out, const char *text, size_t size, const char *file, int line, sg_error *e)
{
    const reader  r = {file, line, e};
    json_t       *j;
    sg_json_fault f;
    *out = (sg_eval_clip){.line = line};
    if (size > MAX_BYTES) return wrong(&r, "", "has more than %d bytes", MAX_BYTES);
    sg_status status = sg_json_parse(&j, text, size, MAX_VALUES, JSON_DECODE_ANY, &f);
    if (status == SG_E_MEMORY) return sg_error_set(e, status, "%s: %s", file, f.text);
    if (status != SG_OK)
        return f.column ? wrong(&r, "", "column %d: %s", f.column, f.text) : wrong(&r, "", "%s", f.text);
    status = read_object(&r, j, out);
    json_decref(j);
    return status;
}

void sg_eval_clip_free(sg_eval_clip *c)
{
    free(c->strings);
    *c = (sg_eval_clip){0};
}

/* ---- a file ---- */

static sg_status add_line(sg_eval_results *r, size_t *capacity, const char *text, size_t size, const char *path,
                          int line, sg_error *e)
{
    if (r->count == INT_MAX) return sg_error_set(e, SG_E_FORMAT, "%s: line %d: too many lines", path, line);
    if (!sg_array_reserve(r->clip, *capacity, (size_t)r->count + 1))
        return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    sg_eval_clip *const c = &r->clip[r->count++];
    const sg_status     status = sg_eval_line_read(c, text, size, path, line, e);
    c->source = r->sources - 1;
    return status;
}

static sg_status read_text(sg_eval_results *r, size_t *capacity, const char *text, size_t size, const char *path,
                           sg_error *e)
{
    const char *const end = text + size;
    int               line = 0;
    for (const char *newline; text < end && (newline = memchr(text, '\n', (size_t)(end - text))); text = newline + 1) {
        if (++line == INT_MAX) return sg_error_set(e, SG_E_FORMAT, "%s: too many lines", path);
        const char *last = newline;
        while (last > text && isspace((unsigned char)last[-1])) last--;
        if (last > text) SG_TRY(add_line(r, capacity, text, (size_t)(last - text), path, line, e));
    }
    return SG_OK;
}

static sg_status read_file(sg_eval_results *r, size_t *capacity, const char *directory, sg_error *e)
{
    char        path[PATH_MAX];
    struct stat st;
    sg_map      m;
    SG_TRY(sg_path_join(path, sizeof path, directory, r->source[r->sources - 1], e));
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0) return SG_OK;
    SG_TRY(sg_map_open(&m, path, e));
    const sg_status status = read_text(r, capacity, (const char *)m.data, m.size, path, e);
    sg_map_close(&m);
    return status;
}

/* ---- a folder ---- */

bool sg_eval_results_owns(const char *name) { return fnmatch("results*.jsonl", name, 0) == 0; }

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The files' names, sorted; the caller frees them, after a failure too. */
static sg_status list_files(char ***list, int *count, const char *directory, sg_error *e)
{
    DIR *const d = opendir(directory);
    size_t     capacity = 0;
    bool       whole = true;
    if (!d) return sg_error_set(e, SG_E_FILE, "%s: cannot be opened: %s", directory, strerror(errno));
    for (const struct dirent *f; whole && (f = readdir(d));) {
        if (!sg_eval_results_owns(f->d_name)) continue;
        char *const name = strdup(f->d_name);
        whole = name && sg_array_push(*list, *count, capacity, name);
        if (!whole) free(name);
    }
    closedir(d);
    if (!whole) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", directory);
    if (*count) qsort(*list, (size_t)*count, sizeof **list, by_name);
    return SG_OK;
}

static int order(int a, int b) { return (a > b) - (a < b); }

static int by_place(const sg_eval_clip *a, const sg_eval_clip *b)
{
    const int prompt = order(a->prompt, b->prompt), clip = order(a->clip, b->clip);
    return prompt ? prompt : clip ? clip : order(a->arm, b->arm);
}

static int by_place_and_line(const void *x, const void *y)
{
    const sg_eval_clip *const a = x, *const b = y;
    const int place = by_place(a, b), source = order(a->source, b->source);
    return place ? place : source ? source : order(a->line, b->line);
}

static void take_scores(sg_eval_clip *to, const sg_eval_clip *from)
{
    to->scored = from->scored;
    to->clipsim = from->clipsim;
    to->clip_t = from->clip_t;
    to->clip_score = from->clip_score;
}

/* Of the scored lines of a clip the last stays, in the place of the clip, unless a line of the same file that is done follows it;
 * of the others the last that is done, or the last. Those of a clip are from first to last. */
static void keep_one(sg_eval_clip *clip, int first, int last)
{
    int kept = -1, scored = -1;
    for (int i = first; i <= last; i++) {
        const sg_eval_clip *const c = &clip[i];
        if (c->scored) scored = i;
        if (!c->scored && (kept < 0 || c->done || !clip[kept].done)) kept = i;
        if (c->done && scored >= 0 && clip[scored].source == c->source) scored = -1;
    }
    if (kept >= 0 && scored >= 0) take_scores(&clip[kept], &clip[scored]);
    for (int i = first; i <= last; i++)
        if (i != kept) sg_eval_clip_free(&clip[i]);
    if (kept <= first) return;
    clip[first] = clip[kept];
    clip[kept] = (sg_eval_clip){0};
}

static void drop_repeated(sg_eval_results *r)
{
    int kept = 0;
    for (int first = 0, last; first < r->count; first = last + 1) {
        for (last = first; last + 1 < r->count && by_place(&r->clip[first], &r->clip[last + 1]) == 0;) last++;
        keep_one(r->clip, first, last);
        if (!r->clip[first].strings) continue; /* scored, and never done */
        const sg_eval_clip moved = r->clip[first];
        r->clip[first] = (sg_eval_clip){0};
        r->clip[kept++] = moved;
    }
    r->count = kept;
}

sg_status sg_eval_results_open(sg_eval_results *out, const char *directory, sg_error *e)
{
    size_t    capacity = 0;
    int       files = 0;
    sg_status status;
    *out = (sg_eval_results){0};
    status = list_files(&out->source, &files, directory, e);
    while (status == SG_OK && out->sources < files) {
        out->sources++;
        status = read_file(out, &capacity, directory, e);
    }
    out->sources = files;
    if (status == SG_OK && out->count) {
        qsort(out->clip, (size_t)out->count, sizeof *out->clip, by_place_and_line);
        drop_repeated(out);
    }
    return status;
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
    const sg_eval_clip wanted = {.prompt = prompt, .clip = clip, .arm = arm};
    int                lo = 0, hi = r->count;
    while (lo < hi) {
        const int middle = lo + (hi - lo) / 2, way = by_place(&r->clip[middle], &wanted);
        if (way == 0) return middle;
        if (way < 0)
            lo = middle + 1;
        else
            hi = middle;
    }
    return -1;
}
