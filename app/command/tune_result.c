/* tune_result.c - see tune_result.h. */
#include "tune_result.h"
#include "base/output_file.h"
#include "json_build.h"
#include "output_options.h"
#include "report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4 };
static const double LEAST = 0.2; /* attention/LOG.md: what the eye finds below */

sg_status sg_tune_result_open(sg_tune_result *r, const sg_settings *s, sg_policy *p, sg_error *e)
{
    p->thresholds = NULL;
    p->budget = SG_BUDGET_ROW;
    p->rule = s->rule && strcmp(s->rule, "tau") == 0 ? SG_SELECT_MASS : SG_SELECT_TOPK;
    const sg_tune_options o = {.policy = *p,
                               .l1 = r->bound[0],
                               .l2 = r->bound[1],
                               .least = isnan(s->least) ? LEAST : s->least,
                               .buckets = s->buckets ? s->buckets : BUCKETS};
    return sg_tune_open(&r->tune, &o, e);
}

sg_attention_watch sg_tune_result_watch(const sg_tune_result *r)
{
    return (sg_attention_watch){.on_begin = sg_tune_hook, .on_begin_context = r->tune};
}

sg_status sg_tune_result_choose(sg_tune_result *r, sg_error *e)
{
    return sg_tune_choose(r->tune, &r->found, &r->figure, e);
}

/* ---- what came of it ---- */

enum { DENSITY, L1, L1_CHECKED, L1_WORST, L2, L2_CHECKED, SKIPPED, FIGURES };

/* The figures of a head, in sg_tune_figure's order. mean is the name under which their mean is reported; NULL: it is
 * not. */
static const struct {
    const char *name, *mean;
} figures[FIGURES] = {{"density", "density"}, {"l1", NULL},         {"l1_checked", "l1"},  {"l1_worst", "l1_worst"},
                      {"l2", NULL},           {"l2_checked", "l2"}, {"skipped", "skipped"}};

static double figure_of(const sg_tune_figure *f, int i)
{
    float v[FIGURES];
    _Static_assert(sizeof v == sizeof *f, "a name for each figure");
    memcpy(v, f, sizeof v);
    return (double)v[i];
}

/* Means over heads and all else that ran, but of L1_WORST the largest; NAN where nothing did. */
typedef struct means {
    double of[FIGURES];
} means;

static means mean_of(const sg_tune_figure *f, int count)
{
    means  m = {0};
    double ran = 0;
    for (int i = 0; i < count; i++) {
        if (isnan(f[i].density)) continue;
        ran++;
        for (int k = 0; k < FIGURES; k++) {
            const double v = figure_of(&f[i], k);
            m.of[k] = k == L1_WORST ? fmax(m.of[k], v) : m.of[k] + v;
        }
    }
    for (int k = 0; k < FIGURES; k++)
        if (k != L1_WORST) m.of[k] /= ran;
    return m;
}

static means mean_of_bucket(const sg_tune_result *r, int bucket)
{
    const int count = r->found->layers * r->found->heads;
    return mean_of(r->figure + bucket * count, count);
}

static means mean_of_all(const sg_tune_result *r)
{
    return mean_of(r->figure, r->found->buckets * r->found->layers * r->found->heads);
}

static void print_share(double v)
{
    if (isnan(v))
        printf("        -");
    else
        printf(" %8.4f", v);
}

static void print_row(const sg_tune_result *r, const char *name, int figure)
{
    printf("%-12s", name);
    for (int b = 0; b < r->found->buckets; b++) print_share(mean_of_bucket(r, b).of[figure]);
    printf("\n");
}

void sg_tune_result_print(const sg_tune_result *r)
{
    const sg_thresholds *const t = r->found;
    printf("blocks kept, a share; mean of %d head%s\n", t->heads, sg_plural(t->heads));
    if (t->buckets > 1) {
        printf("timesteps   ");
        for (int b = 0; b < t->buckets; b++) printf(" >= %5.0f", (double)t->from[b]);
        printf("\n");
    }
    for (int layer = 0; layer < t->layers; layer++) {
        printf("layer %-6d", layer);
        for (int b = 0; b < t->buckets; b++)
            print_share(mean_of(r->figure + (b * t->layers + layer) * t->heads, t->heads).of[DENSITY]);
        printf("\n");
    }
    print_row(r, "all", DENSITY);
    printf("relative L1 error, on queries that the choice did not see; the largest of one call\n");
    print_row(r, "skipping", L1_CHECKED);
    print_row(r, "largest", L1_WORST);
    print_row(r, "with filter", L2_CHECKED);
    printf("kept blocks that the filter leaves out, a share\n");
    print_row(r, "left out", SKIPPED);
}

void sg_tune_result_say(const sg_tune_result *r, sg_progress *p, const char *path)
{
    const means m = mean_of_all(r);
    char        took[32];
    sg_progress_say(p, "%s: %.1f %% of blocks skipped, error %.4f; %s, of which looking %.0f %%",
                    sg_output_is_stdout(path) ? "stdout" : path, 100 * (1 - m.of[DENSITY]), m.of[L1_CHECKED],
                    sg_duration(took, r->seconds), 100 * sg_tune_seconds(r->tune) / r->seconds);
}

/* ---- files ---- */

void sg_tune_result_fill(const sg_tune_result *r, const sg_policy *p, sg_thresholds_file *f)
{
    const means m = mean_of_all(r);
    f->values = *r->found;
    memcpy(f->bound, r->bound, sizeof f->bound);
    f->reached[0] = m.of[L1_CHECKED];
    f->reached[1] = m.of[L2_CHECKED];
    f->density = m.of[DENSITY];
    f->has_policy = true;
    f->policy = *p;
}

sg_status sg_tune_result_write(sg_thresholds_file *f, const char *path, bool dated, sg_error *e)
{
    sg_output_file *file = NULL;
    char           *text = NULL;
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (dated) sg_thresholds_date(f, now);
    SG_TRY(sg_thresholds_text(&text, f, e));
    sg_status status = sg_output_options_open(&file, path, e);
    if (status == SG_OK) status = sg_output_file_write(file, text, strlen(text), e);
    if (status == SG_OK && dated) sg_output_file_set_time(file, now);
    if (status == SG_OK) status = sg_output_file_publish(&file, e);
    sg_output_file_discard(&file);
    free(text);
    return status;
}

static json_t *head_json(const sg_tune_result *r, int bucket, int i)
{
    const sg_thresholds *const t = r->found;
    const int                  head = bucket * t->layers * t->heads + i;
    json_t *o = json_pack("{s:i, s:i, s:i, s:f, s:f}", "bucket", bucket, "layer", i / t->heads, "head", i % t->heads,
                          "amount", (double)t->amount[head], "lambda", (double)t->pv_threshold[head]);
    for (int k = 0; k < FIGURES; k++)
        sg_json_set(&o, figures[k].name, sg_report_number(figure_of(&r->figure[head], k)));
    return o;
}

static json_t *bucket_json(const sg_tune_result *r, int bucket)
{
    const means m = mean_of_bucket(r, bucket);
    json_t     *o = json_pack("{s:f}", "from", (double)r->found->from[bucket]);
    for (int k = 0; k < FIGURES; k++)
        if (figures[k].mean) sg_json_set(&o, figures[k].mean, sg_report_number(m.of[k]));
    return o;
}

json_t *sg_tune_result_json(const sg_tune_result *r)
{
    const sg_thresholds *const t = r->found;
    const means                m = mean_of_all(r);
    json_t                    *buckets = json_array(), *heads = json_array();
    for (int b = 0; b < t->buckets; b++) {
        sg_json_append(&buckets, bucket_json(r, b));
        for (int i = 0; i < t->layers * t->heads; i++)
            if (!isnan(r->figure[b * t->layers * t->heads + i].density)) sg_json_append(&heads, head_json(r, b, i));
    }
    return json_pack("{s:s, s:{s:f, s:f}, s:{s:f, s:f, s:f}, s:o, s:o, s:{s:f, s:f}}", "rule",
                     t->rule == SG_SELECT_TOPK ? "topk" : "tau", "bound", "l1", r->bound[0], "l2", r->bound[1],
                     "reached", "l1", m.of[L1_CHECKED], "l2", m.of[L2_CHECKED], "density", m.of[DENSITY], "buckets",
                     buckets, "heads", heads, "seconds", "denoise", r->seconds, "looking", sg_tune_seconds(r->tune));
}
