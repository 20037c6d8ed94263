/* eval_summary.c - see eval_summary.h. */
#include "eval_summary.h"
#include "base/array.h"
#include "speedup.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sg_eval_in_group(const sg_eval_summary *s, const sg_eval_clip *c, int group)
{
    size_t        i;
    const json_t *name;
    json_array_foreach(c->groups, i, name) if (strcmp(s->group[group], json_string_value(name)) == 0) return true;
    return group == 0;
}

/* ---- the columns ---- */

static sg_eval_column column(const sg_eval_figure *f, sg_eval_kind k, int part)
{
    static const char *const ending[SG_EVAL_KINDS][3] = {
        [SG_EVAL_MEAN] = {"", "_minimum", "_p5"}, [SG_EVAL_CHANGE] = {"_change"}, [SG_EVAL_SPEEDUP] = {"speedup"}};
    const bool     own = k == SG_EVAL_MEAN;
    sg_eval_column c = {.figure = f, .kind = k, .part = part, .interval = !own || (f->flags & SG_EVAL_SCORE && !part)};
    const size_t   stem = strlen(f->key) - (k == SG_EVAL_SPEEDUP ? strlen("seconds") : 0);
    snprintf(c.name, sizeof c.name, "%.*s%s", (int)stem, f->key, ending[k][part]);
    return c;
}

static sg_status list_columns(sg_eval_summary *s, sg_error *e)
{
    size_t room = 0;
    for (sg_eval_kind k = SG_EVAL_MEAN; k < SG_EVAL_KINDS; k++)
        for (const sg_eval_figure *f = sg_eval_figures; f->key; f++)
            for (int i = 0; (k == f->kinds || (k == SG_EVAL_MEAN && f->kinds)) &&
                            i < (k == SG_EVAL_MEAN && f->flags & SG_EVAL_SCORE ? 3 : 1);
                 i++)
                if (!sg_array_push(s->column, s->columns, room, column(f, k, i))) return sg_error_memory(e, "summary");
    return SG_OK;
}

static int column_of(const sg_eval_summary *s, const char *name)
{
    int m = 0;
    while (strcmp(s->column[m].name, name) != 0) m++;
    return m;
}

const sg_interval *sg_eval_summary_find(const sg_eval_summary *s, int arm, int group, const char *name)
{
    return &s->row[arm * s->groups + group].measure[column_of(s, name)];
}

/* ---- one clip ---- */

static bool geometric(const sg_eval_column *k) { return k->figure->kinds == SG_EVAL_SPEEDUP; }

/* Its logarithm where the mean is geometric. first: the same clip of the first arm, or NULL. NAN: unknown. */
static double value(const sg_eval_column *k, const sg_eval_clip *c, const sg_eval_clip *first)
{
    const double v = sg_eval_values(k->figure, c)[k->part];
    const double own = !geometric(k) ? v : v > 0 ? log(v) : (double)NAN;
    if (k->kind == SG_EVAL_MEAN) return own;
    const sg_eval_column mean = {.figure = k->figure, .kind = SG_EVAL_MEAN};
    if (!first) return NAN;
    return k->kind == SG_EVAL_CHANGE ? own - value(&mean, first, NULL) : value(&mean, first, NULL) - own;
}

/* ---- one row ---- */

/* A column is summed here. */
typedef struct sums {
    sg_running over;     /* the prompts */
    double     sum;      /* over the clips of one prompt */
    int        count;    /* of these */
    bool       infinite; /* some were left out */
} sums;

static void take_prompt(sums *of, int columns)
{
    for (int m = 0; m < columns; m++) {
        if (of[m].count) sg_running_add(&of[m].over, of[m].sum / of[m].count);
        of[m].sum = of[m].count = 0;
    }
}

/* Did an arm compute what the first did, as far as is known? Other settings may do so: thresholds that keep all
 * blocks. */
static bool ran_same(const sg_eval_clip *c, const sg_eval_clip *first)
{
    const bool equal = isinf(c->psnr.mean) && c->psnr.mean > 0;
    return c->same || (equal && c->ran && first->ran && strcmp(c->ran, first->ran) == 0);
}

static void take_clip(const sg_eval_summary *s, sg_eval_row *row, sums *of, const sg_eval_clip *c,
                      const sg_eval_clip *first)
{
    for (int m = 0; m < s->columns; m++) {
        const double v = value(&s->column[m], c, first);
        if (isnan(v)) continue;
        of[m].infinite |= isinf(v) != 0;
        if (isinf(v)) continue;
        of[m].sum += v;
        of[m].count++;
    }
    row->done++;
    row->paired += first != NULL;
    row->same += first && ran_same(c, first);
    row->identical += isinf(c->psnr.mean) && c->psnr.mean > 0;
    row->black += c->black > 0;
    row->frozen += c->frozen > 0;
    row->non_finite += c->non_finite > 0;
}

/* The same clip of the first arm, which lies before it in the results, if that is done. */
static const sg_eval_clip *same_of_first(const sg_eval_results *r, const sg_eval_clip *c)
{
    const int                 at = c->arm ? sg_eval_results_find(r, c->prompt, c->clip, 0) : -1;
    const sg_eval_clip *const first = at < 0 ? NULL : &r->clip[at];
    return first && first->done ? first : NULL;
}

static sg_interval measure(const sg_eval_summary *s, const sg_eval_row *row, const sg_eval_column *k, const sums *of)
{
    sg_interval v = sg_running_interval(&of->over, s->arms > 2 ? s->arms - 1 : 1);
    if (k->figure->flags & SG_EVAL_TIME && sg_eval_same_kernels(row)) return (sg_interval){NAN, NAN, NAN};
    if (k->kind == SG_EVAL_MEAN && k->interval && k->figure->flags & SG_EVAL_BOUNDED) v = sg_interval_bounded(v);
    if (of->infinite && !of->over.count) v.mean = INFINITY;
    if (geometric(k)) v = (sg_interval){exp(v.mean), exp(v.low), exp(v.high)};
    return k->kind == SG_EVAL_SPEEDUP ? sg_speedup_clear(v) : v;
}

/* A clip is faster only where denoising is. */
static void settle_times(sg_eval_summary *s, int arm, int group)
{
    const sg_interval *const denoise = sg_eval_summary_find(s, arm, group, "denoiser_speedup");
    sg_interval *const       clip = &s->row[arm * s->groups + group].measure[column_of(s, "speedup")];
    if (isnan(denoise->mean) && !isnan(denoise->low) && !isnan(clip->mean)) *clip = (sg_interval){NAN, NAN, NAN};
}

/* of: [columns], zero */
static void fill_row(sg_eval_summary *s, const sg_eval_results *r, int arm, int group, sums *of)
{
    sg_eval_row *const row = &s->row[arm * s->groups + group];
    int                prompt = -1; /* of the last clip that was done */
    row->measure = &s->measure[(size_t)(arm * s->groups + group) * (size_t)s->columns];
    for (int i = 0; i < r->count; i++) {
        const sg_eval_clip *const c = &r->clip[i];
        if (c->arm != arm || !sg_eval_in_group(s, c, group)) continue;
        row->failed += !c->done;
        if (!c->done) continue;
        if (c->prompt != prompt) {
            take_prompt(of, s->columns);
            row->prompts++;
        }
        prompt = c->prompt;
        take_clip(s, row, of, c, same_of_first(r, c));
    }
    take_prompt(of, s->columns);
    for (int m = 0; m < s->columns; m++) row->measure[m] = measure(s, row, &s->column[m], &of[m]);
    settle_times(s, arm, group);
}

/* ---- all ---- */

static sg_status list_groups(sg_eval_summary *s, const sg_eval_results *r, sg_error *e)
{
    size_t        k;
    const json_t *text;
    s->group[s->groups++] = "all";
    for (int i = 0; i < r->count; i++) {
        json_array_foreach(r->clip[i].groups, k, text)
        {
            const char *const name = json_string_value(text);
            int               at = 1;
            while (at < s->groups && strcmp(s->group[at], name) != 0) at++;
            if (at < s->groups) continue;
            if (s->groups > SG_EVAL_GROUPS)
                return sg_error_set(e, SG_E_FORMAT, "%s: line %d: groups: more than %d in all",
                                    r->source[r->clip[i].source]->d_name, r->clip[i].line, SG_EVAL_GROUPS);
            s->group[s->groups++] = name;
        }
    }
    return SG_OK;
}

sg_status sg_eval_summary_make(sg_eval_summary *out, const sg_eval_results *r, int arms, sg_error *e)
{
    sg_eval_summary *const s = out;
    *s = (sg_eval_summary){.arms = arms};
    SG_TRY(list_columns(s, e));
    SG_TRY(list_groups(s, r, e));
    const size_t rows = (size_t)arms * (size_t)s->groups, columns = (size_t)s->columns;
    sums *const  of = calloc(columns, sizeof *of);
    s->row = calloc(rows, sizeof *s->row);
    s->measure = calloc(rows, columns * sizeof *s->measure);
    const bool whole = of && s->row && s->measure;
    for (int i = 0; whole && i < (int)rows; i++) {
        memset(of, 0, columns * sizeof *of);
        fill_row(s, r, i / s->groups, i % s->groups, of);
    }
    free(of);
    return whole ? SG_OK : sg_error_memory(e, "summary");
}

void sg_eval_summary_close(sg_eval_summary *s)
{
    free(s->column);
    free(s->measure);
    free(s->row);
    *s = (sg_eval_summary){0};
}
