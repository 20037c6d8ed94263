/* language_items.c - the tasks of `sparge-gen language`: what they read, and the items that come of it.
 *
 *   perplexity  windows of a text, each scored where the one before it ended (as transformers' guide to perplexity does)
 *   needle      a sentence hidden in a long text, as in FranxYao/Long-Context-Data-Engineering, eval/needle
 *   .jsonl      an object a line: context and input with answers (LongBench, InfiniteBench, RULER), or ids */
#include "base/file.h"
#include "base/hash.h"
#include "base/json_input.h"
#include "base/number.h"
#include "base/path.h"
#include "base/utf8.h"
#include "json_build.h"
#include "language_run.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 26, MOST_VALUES = 1 << 22, WINDOW = 8192, ANSWER = 128 };

#define READ(option, usual) ((option) ? (option) : (usual))

/* ---- texts ---- */

static sg_status add_file(sg_language_run *r, sg_textbuf *b, const char *path, sg_error *e)
{
    sg_map m = {0};
    SG_TRY(sg_map_open_most(&m, path, MOST_BYTES, e));
    sg_textbuf_put(b, (const char *)m.data, m.size);
    r->hash = sg_hash(r->hash, m.data, m.size);
    sg_map_close(&m);
    if (b->len > MOST_BYTES)
        return sg_error_set(e, SG_E_FORMAT, "%s: the text has more than %d MiB", path, MOST_BYTES >> 20);
    return b->failed ? sg_error_memory(e, path) : SG_OK;
}

static void take_text(sg_language_run *r, sg_textbuf *b)
{
    r->text = b->data;
    r->bytes = b->len;
}

/* "{name}" in a template, and "\n" for the end of a line. The caller frees; NULL: no memory. */
static char *fill(const char *form, const char *const (*value)[2], int values)
{
    sg_textbuf b = {0};
    for (const char *p = form; *p; p++) {
        int i = 0;
        for (; i < values; i++) {
            const size_t n = strlen(value[i][0]);
            if (*p == '{' && strncmp(p + 1, value[i][0], n) == 0 && p[n + 1] == '}') break;
        }
        if (i < values)
            sg_textbuf_put(&b, value[i][1], strlen(value[i][1])), p += strlen(value[i][0]) + 1;
        else if (*p == '\\' && p[1] == 'n')
            sg_textbuf_put_char(&b, '\n'), p++;
        else
            sg_textbuf_put(&b, p, 1);
    }
    if (b.failed) sg_textbuf_free(&b);
    return b.data ? b.data : strdup("");
}

static sg_status copy_ids(sg_language_item *out, const int32_t *ids, int64_t n, sg_error *e)
{
    out->ids = malloc((size_t)n * sizeof *ids);
    if (!out->ids) return sg_error_memory(e, "tokens");
    memcpy(out->ids, ids, (size_t)n * sizeof *ids);
    out->n = n;
    return SG_OK;
}

/* ---- lists ---- */

static sg_status read_list(double *out, int *n, const char *text, const char *option, double lo, double hi, sg_error *e)
{
    *n = sg_number_list(text, lo, hi, out, SG_LANGUAGE_LENGTHS);
    if (*n) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--%s: '%.80s' is not a list of up to %d numbers from %g to %g", option, text,
                        SG_LANGUAGE_LENGTHS, lo, hi);
}

static sg_status read_lengths(sg_language_run *r, const char *usual, sg_error *e)
{
    SG_TRY(read_list(r->length, &r->lengths, READ(r->settings->lengths, usual), "lengths", 2, INT32_MAX / 2, e));
    for (int i = 0; i < r->lengths; i++) {
        r->length[i] = floor(r->length[i]);
        r->tokens = r->tokens > (int64_t)r->length[i] ? r->tokens : (int64_t)r->length[i];
    }
    return SG_OK;
}

/* ---- prefill ---- */

static sg_status read_prefill(sg_language_run *r, sg_error *e) { return read_lengths(r, "8192", e); }

/* ---- perplexity ---- */

static sg_status read_perplexity(sg_language_run *r, sg_error *e)
{
    sg_textbuf      b = {0};
    const sg_status status = add_file(r, &b, r->settings->second_operand, e);
    take_text(r, &b);
    r->tokens = READ(r->settings->window, WINDOW);
    r->capped = !r->settings->window;
    return status;
}

static int64_t stride(const sg_language_run *r) { return READ(r->settings->stride, r->info.tokens); }

static sg_status count_perplexity(sg_language_run *r, sg_error *e)
{
    const int64_t w = r->info.tokens;
    if (stride(r) > w)
        return sg_error_set(e, SG_E_ARG, "--stride: %lld is more than the %lld tokens of a window",
                            (long long)stride(r), (long long)w);
    SG_TRY(sg_language_encode(r->model, r->text, r->bytes, true, &r->ids, &r->n, e));
    if (r->n < 2) return sg_error_set(e, SG_E_FORMAT, "%s: has fewer than two tokens", r->settings->second_operand);
    r->items = r->n <= w ? 1 : 1 + (int)((r->n - w + stride(r) - 1) / stride(r));
    if (r->items > 1 && r->n - (r->items - 1) * stride(r) < 2) r->items--; /* one token has nothing before it */
    return SG_OK;
}

static sg_status make_perplexity(sg_language_run *r, int i, sg_language_item *out, sg_error *e)
{
    const int64_t w = r->info.tokens, begin = i * stride(r), n = r->n - begin < w ? r->n - begin : w;
    const int64_t scored = i ? w - stride(r) : 1; /* the window before ended there */
    *out = (sg_language_item){.kind = SG_ITEM_TEXT, .group = "perplexity", .from = scored < 1 ? 1 : scored};
    return copy_ids(out, r->ids + begin, n, e);
}

/* ---- needle ---- */

static const char NEEDLE[] =
    "\nThe best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day.\n";
static const char QUESTION[] = "What is the best thing to do in San Francisco?";
static const char EXPECTED[] = "eat a sandwich and sit in Dolores Park on a sunny day.";
static const char NEEDLE_FORM[] =
    "<|im_start|> This is a very long story book: <book> {context} </book>.\\n Based on the content of the book, "
    "Question: {question}\\nAnswer:";
enum { NEEDLE_BUFFER = 200, NEEDLE_ANSWER = 50 };

static int is_text(const struct dirent *f) { return sg_text_ends(f->d_name, ".txt"); }

static sg_status read_haystack(sg_language_run *r, const char *folder, sg_error *e)
{
    struct dirent **list = NULL;
    sg_textbuf      b = {0};
    char            path[PATH_MAX];
    const int       n = scandir(folder, &list, is_text, alphasort);
    sg_status       status = SG_OK;
    if (n < 0) return sg_error_set(e, SG_E_FILE, "--haystack: %s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (status == SG_OK) status = sg_path_join(path, sizeof path, folder, list[i]->d_name, e);
        if (status == SG_OK) status = add_file(r, &b, path, e);
        free(list[i]);
    }
    free(list);
    take_text(r, &b);
    if (status == SG_OK && !r->bytes) return sg_error_set(e, SG_E_FILE, "--haystack: %s has no .txt", folder);
    return status;
}

static sg_status read_needle(sg_language_run *r, sg_error *e)
{
    if (!r->settings->haystack)
        return sg_error_set(e, SG_E_ARG, "language needle needs a folder of texts: --haystack FOLDER");
    SG_TRY(read_lengths(r, "74000,79429,84857,90286,95714,101143,106571,112000", e));
    SG_TRY(read_list(r->depth, &r->depths, READ(r->settings->depths, "0,11,22,33,44,56,67,78,89,100"), "depths", 0, 100,
                     e));
    r->tokens += READ(r->settings->max_tokens, NEEDLE_ANSWER);
    return read_haystack(r, r->settings->haystack, e);
}

static sg_status count_needle(sg_language_run *r, sg_error *e)
{
    r->items = r->lengths * r->depths;
    return sg_language_encode(r->model, r->text, r->bytes, false, &r->ids, &r->n, e);
}

/* Puts the needle into n tokens of the haystack, which begins anew where it ends: behind the last period at or before the
 * depth, at the very end at 100. *context gets the text of all. */
static sg_status hide(const sg_language_run *r, int64_t n, double depth, char **context, sg_error *e)
{
    int32_t *needle = NULL, *period = NULL, *all = NULL;
    int64_t  needle_n = 0, period_n = 0;
    SG_TRY(sg_language_encode(r->model, NEEDLE, strlen(NEEDLE), false, &needle, &needle_n, e));
    sg_status status = sg_language_encode(r->model, ".", 1, false, &period, &period_n, e);
    if (status == SG_OK && n <= needle_n)
        status = sg_error_set(e, SG_E_ARG, "--lengths: too short for the needle's %lld tokens and %d held back",
                              (long long)needle_n, NEEDLE_BUFFER);
    if (status == SG_OK && !(all = malloc((size_t)n * sizeof *all))) status = sg_error_memory(e, "needle");
    if (status == SG_OK) {
        const int64_t rest = n - needle_n;
        int64_t       at = depth >= 100 ? rest : (int64_t)((double)rest * depth / 100);
        while (depth < 100 && at > 0 && r->ids[(at - 1) % r->n] != period[period_n - 1]) at--;
        for (int64_t i = 0; i < n; i++)
            all[i] = i < at ? r->ids[i % r->n] : i < at + needle_n ? needle[i - at] : r->ids[(i - needle_n) % r->n];
        status = sg_language_decode(r->model, all, n, context, e);
    }
    free(all);
    free(period);
    free(needle);
    return status;
}

static sg_status make_needle(sg_language_run *r, int i, sg_language_item *out, sg_error *e)
{
    const double      length = r->length[i / r->depths], depth = r->depth[i % r->depths];
    char             *context = NULL;
    const char *const form = READ(r->settings->template, NEEDLE_FORM);
    *out = (sg_language_item){.kind = SG_ITEM_ANSWER,
                              .metric = SG_ANSWER_OVERLAP,
                              .most = READ(r->settings->max_tokens, NEEDLE_ANSWER),
                              .expected = {EXPECTED},
                              .expected_count = 1,
                              .about = json_pack("{s:f, s:f}", "length", length, "depth", depth)};
    snprintf(out->group, sizeof out->group, "needle %.0f", length);
    SG_TRY(hide(r, (int64_t)length - NEEDLE_BUFFER, depth, &context, e));
    const char *const value[][2] = {{"context", context}, {"question", QUESTION}};
    char *const       text = fill(form, value, 2);
    free(context);
    if (!text || !out->about) return free(text), sg_error_memory(e, "needle");
    const sg_status status = sg_language_encode(r->model, text, strlen(text), true, &out->ids, &out->n, e);
    free(text);
    return status;
}

/* ---- .jsonl ---- */

static const char *string_of(const json_t *row, const char *key)
{
    const char *const s = json_string_value(json_object_get(row, key));
    return s ? s : "";
}

/* Puts the strings of a member, a list of them or one, into list. */
static void take_strings(const json_t *row, const char *key, const char **list, int *count)
{
    json_t *const v = json_object_get(row, key);
    const size_t  n = json_is_array(v) ? json_array_size(v) : json_is_string(v);
    for (size_t i = 0; i < n && *count < SG_ITEM_LIST; i++) {
        const char *const s = json_string_value(json_is_array(v) ? json_array_get(v, i) : v);
        if (s) list[(*count)++] = s;
    }
}

static int take_expected(const json_t *row, const char **list)
{
    int count = 0;
    for (const char *const *key = (const char *const[]){"answers", "answer", "outputs", NULL}; *key; key++)
        take_strings(row, *key, list, &count);
    return count;
}

static sg_status check_answers(const json_t *row, sg_error *e)
{
    const char *expected[SG_ITEM_LIST];
    const int   count = take_expected(row, expected);
    if (!count) return sg_error_set(e, SG_E_FORMAT, "has no answers, answer or outputs");
    for (int i = 0; i < count; i++)
        if (!*expected[i]) return sg_error_set(e, SG_E_FORMAT, "an answer is empty");
    return SG_OK;
}

/* Bytes are an upper bound of tokens. */
static sg_status check_row(sg_language_run *r, const json_t *row, sg_error *e)
{
    const json_t *const ids = json_object_get(row, "ids"), *const asked = json_object_get(row, "asked");
    size_t        i;
    const json_t *v;
    json_int_t    before = 0;
    const int64_t n = ids ? (int64_t)json_array_size(ids)
                          : (int64_t)(strlen(string_of(row, "context")) + strlen(string_of(row, "input"))) + 256 +
                                READ(r->settings->max_tokens, ANSWER);
    if (!json_is_object(row)) return sg_error_set(e, SG_E_FORMAT, "should be a JSON object");
    if (!ids && !json_is_string(json_object_get(row, "input")))
        return sg_error_set(e, SG_E_FORMAT, "has neither input, a string, nor ids, a list");
    json_array_foreach(ids, i, v) if (!json_is_integer(v) || json_integer_value(v) < 0 ||
                                      json_integer_value(v) >
                                          INT32_MAX) return sg_error_set(e, SG_E_FORMAT,
                                                                         "ids should be whole numbers from 0");
    if (ids && n < 2) return sg_error_set(e, SG_E_FORMAT, "ids should be a list of two or more");
    json_array_foreach(asked, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) <= before || json_integer_value(v) >= n)
            return sg_error_set(e, SG_E_FORMAT, "asked should be places in ids that rise, from 1");
        before = json_integer_value(v);
    }
    if (n > r->tokens) r->tokens = n;
    return ids ? SG_OK : check_answers(row, e);
}

static sg_status read_row(sg_language_run *r, const char *text, size_t size, sg_error *e)
{
    json_t       *row = NULL;
    sg_json_fault f;
    if (sg_json_parse(&row, text, size, MOST_VALUES, 0, &f) != SG_OK)
        return sg_error_set(e, SG_E_FORMAT, "column %d: %s", f.column, f.text);
    const sg_status status = check_row(r, row, e);
    sg_json_append(&r->rows, row);
    return status == SG_OK && !r->rows ? sg_error_memory(e, "rows") : status;
}

static sg_status read_jsonl(sg_language_run *r, sg_error *e)
{
    const char *const path = r->settings->operand;
    sg_map            m = {0};
    char              where[PATH_MAX + 32];
    sg_status         status = SG_OK;
    int               line = 0;
    SG_TRY(sg_map_open_most(&m, path, (size_t)16 * MOST_BYTES, e));
    r->hash = sg_hash(r->hash, m.data, m.size);
    r->rows = json_array();
    for (const char *p = (const char *)m.data, *const end = p + m.size; status == SG_OK && p < end;) {
        const char *const stop = memchr(p, '\n', (size_t)(end - p));
        const size_t      n = (size_t)((stop ? stop : end) - p);
        snprintf(where, sizeof where, "%s: line %d", path, ++line);
        if (n > (size_t)MOST_BYTES)
            status = sg_error_set(e, SG_E_FORMAT, "%s: has more than %d MiB", where, MOST_BYTES >> 20);
        else if (strspn(p, " \t\r") < n)
            status = sg_error_in(e, read_row(r, p, n, e), where);
        p += n + 1;
    }
    sg_map_close(&m);
    if (status == SG_OK && json_array_size(r->rows) == 0)
        status = sg_error_set(e, SG_E_FORMAT, "%s: has no line", path);
    if (r->settings->window) r->tokens = r->settings->window;
    r->capped = true;
    return status;
}

static sg_status count_jsonl(sg_language_run *r, sg_error *e)
{
    (void)e;
    r->items = (int)json_array_size(r->rows);
    return SG_OK;
}

static sg_status take_ids(const json_t *row, sg_language_item *out, sg_error *e)
{
    const json_t *const ids = json_object_get(row, "ids"), *const asked = json_object_get(row, "asked");
    out->n = (int64_t)json_array_size(ids);
    out->asked_count = (int)json_array_size(asked);
    out->ids = malloc((size_t)out->n * sizeof *out->ids);
    out->asked = malloc(((size_t)out->asked_count + 1) * sizeof *out->asked);
    if (!out->ids || !out->asked) return sg_error_memory(e, "tokens");
    for (int64_t i = 0; i < out->n; i++) out->ids[i] = (int32_t)json_integer_value(json_array_get(ids, (size_t)i));
    for (int i = 0; i < out->asked_count; i++) out->asked[i] = json_integer_value(json_array_get(asked, (size_t)i));
    out->kind = out->asked_count ? SG_ITEM_ASKED : SG_ITEM_TEXT;
    out->from = 1;
    return SG_OK;
}

/* Of a longer prompt the middle is left out, as LongBench does. */
static void cut_middle(sg_language_item *out, int64_t room)
{
    const int64_t head = room / 2, tail = room - head;
    if (room < 2 || out->n <= room) return;
    memmove(out->ids + head, out->ids + out->n - tail, (size_t)tail * sizeof *out->ids);
    sg_json_set(&out->about, "cut", json_integer(out->n - room));
    out->n = room;
}

/* Of InfiniteBench's choices the letter of the answer is expected, too. Returns whether there are some. */
static bool add_letter(const json_t *row, sg_language_item *out)
{
    static const char *const letters[] = {"A", "B", "C", "D"};
    const char              *options[SG_ITEM_LIST];
    int                      count = 0;
    take_strings(row, "options", options, &count);
    for (int i = 0; i < count && i < 4 && out->expected_count == 1; i++)
        if (strcmp(options[i], out->expected[0]) == 0) out->expected[out->expected_count++] = letters[i];
    return count > 0;
}

static sg_status take_prompt(sg_language_run *r, const json_t *row, sg_language_item *out, sg_error *e)
{
    const char *const context = string_of(row, "context"), *const metric =
                                                               READ(r->settings->metric, string_of(row, "metric"));
    const char *const form = READ(r->settings->template, *context ? "{context}\\n\\n{input}" : "{input}");
    const char *const value[][2] = {{"context", context}, {"input", string_of(row, "input")}};
    /* LongBench scores the first line of these alone. */
    static const char *const lines[] = {"trec", "triviaqa", "samsum", "lsht", NULL};
    out->kind = SG_ITEM_ANSWER;
    out->first_line = lines[sg_text_place(string_of(row, "dataset"), lines)] != NULL;
    out->most = READ(r->settings->max_tokens, ANSWER);
    out->expected_count = take_expected(row, out->expected);
    take_strings(row, "all_classes", out->choices, &out->choice_count);
    const bool chosen = out->choice_count || add_letter(row, out);
    const int  named = sg_text_place(metric, sg_answer_metric_names);
    out->metric = named < SG_ANSWER_METRICS ? (sg_answer_metric)named : chosen ? SG_ANSWER_CHOICE : SG_ANSWER_F1;
    char *const text = fill(form, value, 2);
    if (!text) return sg_error_memory(e, "prompt");
    const sg_status status = sg_language_encode(r->model, text, strlen(text), true, &out->ids, &out->n, e);
    free(text);
    if (status == SG_OK) cut_middle(out, r->info.tokens - out->most);
    return status;
}

static sg_status make_jsonl(sg_language_run *r, int i, sg_language_item *out, sg_error *e)
{
    const json_t *const row = json_array_get(r->rows, (size_t)i);
    const char         *group = string_of(row, "group");
    if (!*group) group = string_of(row, "dataset");
    *out = (sg_language_item){.about = json_object()};
    sg_show_(out->group, sizeof out->group, *group ? group : "all");
    if (json_object_get(row, "ids")) return take_ids(row, out, e);
    return take_prompt(r, row, out, e);
}

const sg_language_task sg_language_tasks[] = {
    {"perplexity", true, {"window", "stride", "kl", "output"}, read_perplexity, count_perplexity, make_perplexity},
    {"needle",
     false,
     {"haystack", "lengths", "depths", "template", "max-tokens", "output"},
     read_needle,
     count_needle,
     make_needle},
    {".jsonl",
     false,
     {"window", "template", "metric", "max-tokens", "kl", "output"},
     read_jsonl,
     count_jsonl,
     make_jsonl},
    {"prefill", false, {"lengths", "repeat"}, read_prefill, NULL, NULL},
    {0}};
