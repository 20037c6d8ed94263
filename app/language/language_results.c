/* language_results.c - lines of results.jsonl, and the figures that come of them. A figure is a mean over units: windows of a
 * text, answers asked for, or items; weighted by tokens where a window has more of them. Its interval holds 95 %, as
 * interval.h has it, and so does that of the change from the first arm, which is taken over the same units of both. */
#include "base/json_input.h"
#include "interval.h"
#include "json_build.h"
#include "language_run.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a line ---- */

typedef struct member {
    const char *name;
    char        type;   /* i: whole number, f: number, s: string, b: boolean */
    double      lo, hi; /* of numbers */
    const char *with;   /* must be there where this is; "": always */
} member;

static const member members[] = {{"version", 'i', 1, SG_LANGUAGE_LINE_VERSION, ""},
                                 {"arm", 's', 0, 0, ""},
                                 {"group", 's', 0, 0, ""},
                                 {"tokens", 'i', 1, 1 << 30, ""},
                                 {"seconds", 'f', 0, 1e9, ""},
                                 {"density", 'f', 0, 1, ""},
                                 {"nats", 'f', 0, 1e12, NULL},
                                 {"scored", 'i', 1, 1 << 30, "nats"},
                                 {"kl", 'f', 0, 1e12, NULL},
                                 {"same", 'i', 0, 1 << 30, "kl"},
                                 {"right", 's', 0, 0, NULL},
                                 {"metric", 's', 0, 0, NULL},
                                 {"score", 'f', 0, 1, "metric"},
                                 {"exact", 'b', 0, 0, "metric"},
                                 {"answer", 's', 0, 0, "metric"},
                                 {"length", 'f', 0, 1 << 30, NULL},
                                 {"depth", 'f', 0, 100, "length"},
                                 {"cut", 'i', 1, 1 << 30, NULL}};

static bool fits(const member *m, const json_t *v)
{
    const double x = json_number_value(v);
    if (m->type == 's') return json_is_string(v);
    if (m->type == 'b') return json_is_boolean(v);
    return (m->type == 'i' ? json_is_integer(v) : json_is_number(v)) && x >= m->lo && x <= m->hi;
}

static sg_status check_line(const json_t *line, sg_error *e)
{
    if (!json_is_object(line)) return sg_error_set(e, SG_E_FORMAT, "should be a JSON object");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const member *const m = &members[i];
        const json_t *const v = json_object_get(line, m->name);
        if (v && !fits(m, v)) return sg_error_set(e, SG_E_FORMAT, "%s has another type, or is out of bounds", m->name);
        if (!v && m->with && (!*m->with || json_object_get(line, m->with)))
            return sg_error_set(e, SG_E_FORMAT, "%s is missing", m->name);
    }
    const char *const right = json_string_value(json_object_get(line, "right"));
    if (right && (!*right || right[strspn(right, "01")]))
        return sg_error_set(e, SG_E_FORMAT, "right should have a digit, 0 or 1, for each answer");
    return SG_OK;
}

static sg_status find_place(const sg_language_run *r, const json_t *line, size_t *place, sg_error *e)
{
    const json_t *const item = json_object_get(line, "item"), *const arm = json_object_get(line, "arm_index");
    const json_int_t i = json_integer_value(item), a = json_integer_value(arm);
    if (!json_is_integer(item) || i < 0 || i >= r->items)
        return sg_error_set(e, SG_E_FORMAT, "item is not one of the %d", r->items);
    if (!json_is_integer(arm) || a < 0 || a >= r->arms.count)
        return sg_error_set(e, SG_E_FORMAT, "arm_index is not that of an arm");
    *place = (size_t)i * (size_t)r->arms.count + (size_t)a;
    return SG_OK;
}

sg_status sg_language_line_take(sg_language_run *r, json_t *line, sg_error *e)
{
    size_t    place = 0;
    sg_status status = check_line(line, e);
    if (status == SG_OK) status = find_place(r, line, &place, e);
    if (status != SG_OK) return json_decref(line), status;
    json_decref(r->line[place]);
    r->line[place] = line;
    return SG_OK;
}

/* ---- figures ---- */

/* value over the number of `of`, NULL: 1; or of each digit of a string. */
static const struct figure {
    const char *key, *value, *of;
    bool        digits, exponential, interval;
} figures[] = {{"perplexity", "nats", "scored", false, true, true}, {"kl", "kl", "scored", false, false, true},
               {"top1", "same", "scored", false, false, true},      {"recall", "right", NULL, true, false, true},
               {"score", "score", NULL, false, false, true},        {"exact", "exact", NULL, false, false, true},
               {"density", "density", NULL, false, false, false},   {"seconds", "seconds", NULL, false, false, false}};

enum { FIGURES = sizeof figures / sizeof *figures };

/* The i-th unit of a line; false: there are no more. */
static bool unit(const struct figure *f, const json_t *line, size_t i, double *value, double *weight)
{
    const json_t *const v = json_object_get(line, f->value);
    *weight = 1;
    if (f->digits) {
        if (i >= json_string_length(v)) return false;
        *value = json_string_value(v)[i] == '1';
        return true;
    }
    if (!v || i) return false;
    *weight = f->of ? json_number_value(json_object_get(line, f->of)) : 1;
    *value = (json_is_boolean(v) ? json_is_true(v) : json_number_value(v)) / *weight;
    return true;
}

/* Sums over units. */
typedef struct sums {
    double     value, weight;
    sg_running over;
} sums;

static void add(sums *s, double value, double weight)
{
    s->value += weight * value;
    s->weight += weight;
    sg_running_add(&s->over, value);
}

/* The weighted mean, with the interval of the plain one around it. */
static sg_interval interval_of(const sums *s, int together)
{
    sg_interval  v = sg_running_interval(&s->over, together);
    const double mean = s->value / s->weight;
    return (sg_interval){mean, mean + v.low - v.mean, mean + v.high - v.mean};
}

static json_t *measure(const sg_language_run *r, const struct figure *f, int arm, const char *group)
{
    sums own = {0}, change = {0};
    for (int item = 0; item < r->items; item++) {
        json_t *const *const of = r->line + (size_t)item * (size_t)r->arms.count;
        double               v, w, v0, w0;
        if (!of[arm] || strcmp(json_string_value(json_object_get(of[arm], "group")), group) != 0) continue;
        for (size_t i = 0; unit(f, of[arm], i, &v, &w); i++) {
            add(&own, v, w);
            if (arm && of[0] && unit(f, of[0], i, &v0, &w0)) add(&change, v - v0, w);
        }
    }
    if (!own.over.count) return NULL;
    sg_interval v = interval_of(&own, 1), c = interval_of(&change, r->arms.count > 2 ? r->arms.count - 1 : 1);
    if (f->digits || strcmp(f->key, "exact") == 0) v = sg_interval_share(own.value, own.over.count);
    if (f->exponential) v = (sg_interval){exp(v.mean), exp(v.low), exp(v.high)};
    if (f->exponential) c = (sg_interval){expm1(c.mean), expm1(c.low), expm1(c.high)};
    if (!f->interval) v.low = v.high = NAN;
    json_t *j = sg_report_interval(&v);
    sg_json_set(&j, "units", json_integer(own.over.count));
    if (f->interval && change.over.count) sg_json_set(&j, "change", sg_report_interval(&c));
    return j;
}

/* The groups, in the order in which they come. */
static json_t *groups_of(const sg_language_run *r)
{
    json_t *list = json_array();
    for (int i = 0; i < r->items; i++) {
        size_t        k;
        const json_t *g, *const own = json_object_get(r->line[(size_t)i * (size_t)r->arms.count], "group");
        bool there = !own;
        json_array_foreach(list, k, g) there = there || json_equal(g, own);
        if (!there) sg_json_append(&list, json_deep_copy(own));
    }
    return list;
}

json_t *sg_language_summary(const sg_language_run *r)
{
    json_t *arms = json_array(), *rows = json_array(), *const groups = groups_of(r);
    size_t        k;
    const json_t *group;
    for (int a = 0; a < r->arms.count; a++) sg_json_append(&arms, json_string(r->arms.arm[a].name));
    json_array_foreach(groups, k, group) for (int a = 0; a < r->arms.count; a++)
    {
        json_t *row = json_pack("{s:i, s:i}", "group", (int)k, "arm", a);
        for (int i = 0; i < FIGURES; i++) {
            json_t *const v = measure(r, &figures[i], a, json_string_value(group));
            if (v) sg_json_set(&row, figures[i].key, v);
        }
        sg_json_append(&rows, row);
    }
    return json_pack("{s:o, s:o, s:o}", "arms", arms, "groups", groups, "rows", rows);
}

/* ---- tables ---- */

static double number(const json_t *v, const char *key)
{
    const json_t *const x = json_object_get(v, key);
    return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

/* "14.91 (14.2 to 15.6)", with so many times the value, and what stands behind it. */
static const char *spread(char text[96], const json_t *v, int digits, double times, const char *unit_)
{
    const double low = number(v, "low"), high = number(v, "high");
    snprintf(text, 96, "%.*f%s", digits, number(v, "mean") * times, unit_);
    if (!isnan(low) && !isnan(high))
        sg_text_append(text, 96, " (%.*f to %.*f)", digits, low * times, digits, high * times);
    return text;
}

static void print_row(const json_t *row, const char *arm)
{
    static const struct {
        const char *key, *name, *unit;
        int         digits;
        double      times;
        const char *change;
    } shown[] = {{"perplexity", "perplexity", "", 3, 1, " %"},
                 {"kl", "KL", " nats", 5, 1, NULL},
                 {"top1", "top-1 agreement", " %", 2, 100, NULL},
                 {"recall", "recall", " %", 2, 100, " points"},
                 {"score", "score", "", 3, 1, NULL},
                 {"exact", "exact", " %", 1, 100, " points"}};
    char text[96];
    printf("  %s: density %.3f, %.3g s", arm, number(json_object_get(row, "density"), "mean"),
           number(json_object_get(row, "seconds"), "mean"));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const json_t *const v = json_object_get(row, shown[i].key), *const change = json_object_get(v, "change");
        if (!v) continue;
        printf("\n    %-16s %s", shown[i].name, spread(text, v, shown[i].digits, shown[i].times, shown[i].unit));
        if (change && shown[i].change) printf("; change %s", spread(text, change, 2, 100, shown[i].change));
    }
    putchar('\n');
}

void sg_language_print(const json_t *summary)
{
    const json_t *const rows = json_object_get(summary, "rows"), *const arms = json_object_get(summary, "arms");
    size_t        i;
    const json_t *row;
    json_int_t    last = -1;
    json_array_foreach(rows, i, row)
    {
        const json_int_t    group = json_integer_value(json_object_get(row, "group"));
        const json_t *const name = json_array_get(json_object_get(summary, "groups"), (size_t)group);
        if (group != last) printf("%s\n", json_string_value(name));
        print_row(row,
                  json_string_value(json_array_get(arms, (size_t)json_integer_value(json_object_get(row, "arm")))));
        last = group;
    }
}
