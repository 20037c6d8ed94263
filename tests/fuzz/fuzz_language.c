/* fuzz_language.c - any bytes as the lines of a .jsonl that a language model is to read, and as the results of that; what is taken
 * lies within its bounds, and figures within their intervals. */
#include "base/json_input.h"
#include "expect.h"
#include "input_file.h"
#include "language_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ITEMS = 3, ARMS = 2 };

/* The task of .jsonl files. */
static const sg_language_task *task(void)
{
    const sg_language_task *t = sg_language_tasks;
    while (*t->name != '.') t++;
    return t;
}

static void read_rows(const uint8_t *data, size_t size)
{
    sg_settings *const     s = calloc(1, sizeof *s);
    sg_language_run *const r = calloc(1, sizeof *r);
    sg_error               e = {0};
    s->operand = input_file(data, size);
    r->settings = s;
    r->info.tokens = 16;
    r->log.fd = -1;
    const bool taken = task()->read(r, &e) == SG_OK && task()->count(r, &e) == SG_OK;
    expect(taken ? r->items > 0 && r->tokens > 1 : *e.text);
    for (int i = 0; taken && i < r->items; i++) {
        sg_language_item m = {0};
        if (!json_object_get(json_array_get(r->rows, (size_t)i), "ids")) continue; /* others need a tokenizer */
        expect(task()->make(r, i, &m, &e) == SG_OK && m.n > 1 && m.n <= r->tokens && strlen(m.group) < sizeof m.group);
        for (int k = 0; k < m.asked_count; k++) expect(m.asked[k] > (k ? m.asked[k - 1] : 0) && m.asked[k] < m.n);
        sg_language_item_free(&m);
    }
    r->items = 0;
    sg_language_run_close(r);
    free(r);
    free(s);
}

static void expect_figure(const json_t *v)
{
    const json_t *const mean = json_object_get(v, "mean"), *const low = json_object_get(v, "low"),
                        *const high = json_object_get(v, "high");
    if (!json_is_number(low) || !json_is_number(high)) return;
    expect(json_number_value(low) <= json_number_value(mean) && json_number_value(mean) <= json_number_value(high));
}

static void expect_summary(const sg_language_run *r)
{
    json_t *const j = sg_language_summary(r);
    size_t        i;
    const json_t *row, *v;
    const char   *key;
    expect(j && json_array_size(json_object_get(j, "rows")) == ARMS * json_array_size(json_object_get(j, "groups")));
    json_array_foreach(json_object_get(j, "rows"), i, row)
    {
        json_t *const members = json_deep_copy(row);
        json_object_foreach(members, key, v) if (json_is_object(v))
        {
            expect_figure(v);
            expect_figure(json_object_get(v, "change"));
        }
        json_decref(members);
    }
    json_decref(j);
}

static void read_results(const uint8_t *data, size_t size)
{
    sg_language_run *const r = calloc(1, sizeof *r);
    r->items = ITEMS;
    r->arms.count = ARMS;
    r->line = calloc(ITEMS * ARMS, sizeof *r->line);
    r->log.fd = -1;
    for (int a = 0; a < ARMS; a++) snprintf(r->arms.arm[a].name, sizeof r->arms.arm[a].name, "arm %d", a);
    for (size_t at = 0; at < size;) {
        const uint8_t *const end = memchr(data + at, '\n', size - at);
        const size_t         n = end ? (size_t)(end - data) - at : size - at;
        json_t              *line = NULL;
        sg_json_fault        f;
        sg_error             e = {0};
        if (sg_json_parse(&line, (const char *)data + at, n, 1 << 16, 0, &f) == SG_OK)
            expect(sg_language_line_take(r, line, &e) == SG_OK || *e.text);
        at += n + 1;
    }
    expect_summary(r);
    sg_language_run_close(r);
    free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    read_rows(data, size);
    read_results(data, size);
    return 0;
}
