/* language_run.c - arms and the model of `sparge-gen language`, and an item read by every arm. */
#include "language_run.h"
#include "base/clock.h"
#include "base/file.h"
#include "bench.h"
#include "interrupt.h"
#include "json_build.h"
#include "report.h"
#include "settings.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- arms ---- */

/* Of an arm's options these concern a text; the others are of sampling, or of the order of a video's tokens. */
static sg_status check_arm(const sg_arm *a, sg_error *e)
{
    static const char *const known[] = {"attention", "preset",       "topk",          "tau",   "sim",
                                        "pv",        "sink",         "score",         "tail",  "tail-bias",
                                        "pv-dtype",  "dense-layers", "sparse-config", "cache", NULL};
    const sg_option         *o;
    for (int i = 0; (o = sg_settings_next(&a->settings, SG_OPTION_RENDER, &i)) != NULL;)
        if (!known[sg_text_place(o->name, known)] && sg_settings_has(&a->settings, o))
            return sg_error_set(e, SG_E_ARG, "--arms: '%s': %s has no effect on a text", a->name, o->name);
    return SG_OK;
}

static sg_status open_arms(sg_language_run *r, sg_error *e)
{
    static char tuned[PATH_MAX]; /* which policies borrow */
    const bool  beside =
        sg_file_beside(r->settings->model, SG_THRESHOLDS_NAME, tuned, sizeof tuned) && access(tuned, F_OK) == 0;
    SG_TRY(sg_arms_open(&r->arms, r->settings->arms ? r->settings->arms : SG_ARMS_DEFAULT, r->settings, e));
    for (int i = 0; i < r->arms.count; i++) {
        sg_rendering *const x = &r->rendering[i];
        SG_TRY(check_arm(&r->arms.arm[i], e));
        *x = (sg_rendering){.settings = r->arms.arm[i].settings, .request.attention = sg_language_default()};
        if (beside) x->request.attention.thresholds = tuned;
        SG_TRY(sg_error_in(e, sg_resolve_attention(x, e), r->arms.arm[i].name));
    }
    return SG_OK;
}

/* ---- the model ---- */

static sg_status open_model(sg_language_run *r, sg_error *e)
{
    const sg_settings *const s = r->settings;
    sg_backend_options       b;
    SG_TRY(sg_bench_backend_options(&b, s, e));
    const sg_language_options o = {.backend = b.name,
                                   .threads = b.threads,
                                   .device = b.device,
                                   .cpu_mask = b.cpu_mask,
                                   .gpu_mask = b.gpu_mask,
                                   .dtype = s->dtype,
                                   .tokens = r->tokens,
                                   .cap = r->capped,
                                   .memory_limit = s->memory_limit};
    SG_TRY(sg_language_open(&r->model, s->model, &o, e));
    const sg_language_info i = r->info = sg_language_describe(r->model);
    const double           gib = 1.0 / (1 << 30);
    sg_progress_say(&r->progress,
                    "%s of %d layers on %s, %s: weights %.2f GiB, keys and values of %lld tokens %.2f GiB, a piece of "
                    "%lld tokens %.2f GiB",
                    i.kind, i.layers, i.device, i.dtype, (double)i.weights * gib, (long long)i.tokens,
                    (double)i.cache * gib, (long long)i.piece, (double)i.scratch * gib);
    return SG_OK;
}

sg_status sg_language_run_open(sg_language_run *r, sg_error *e)
{
    SG_TRY(open_arms(r, e));
    SG_TRY(open_model(r, e));
    for (int i = 0; i < r->arms.count; i++) SG_TRY(sg_error_in(e, sg_language_arm(r, i, e), r->arms.arm[i].name));
    return SG_OK;
}

void sg_language_run_close(sg_language_run *r)
{
    for (int i = 0; r->line && i < r->items * r->arms.count; i++) json_decref(r->line[i]);
    sg_line_log_close(&r->log);
    sg_language_close(&r->model);
    sg_arms_close(&r->arms);
    json_decref(r->rows);
    free(r->line);
    free(r->folder);
    free(r->text);
    free(r->ids);
}

sg_status sg_language_arm(sg_language_run *r, int a, sg_error *e)
{
    sg_language_rewind(r->model, 0);
    return sg_language_policy(r->model, &r->rendering[a].request.attention, e);
}

double sg_language_density(const sg_language_run *r)
{
    int64_t                   blocks = 0, kept = 0;
    sg_attention_count *const count = calloc((size_t)r->info.layers, sizeof *count);
    if (count) sg_language_counts(r->model, count);
    for (int i = 0; count && i < r->info.layers; i++) blocks += count[i].blocks, kept += count[i].kept;
    if (!count) return NAN;
    free(count);
    return blocks ? (double)kept / (double)blocks : 1;
}

/* ---- an item ---- */

void sg_language_item_free(sg_language_item *item)
{
    free(item->ids);
    free(item->asked);
    json_decref(item->about);
    *item = (sg_language_item){0};
}

enum { ROWS = 256 }; /* whose logits are compared at once */

/* An item at work by an arm. The states are those of the first arm and of this one, [n, width]; NULL where nothing needs them.
 * logits is [2 ROWS, vocab]. */
typedef struct work {
    sg_language_run *r;
    sg_language_item item;
    int              place, arm;
    float           *logp, *first, *states, *logits;
    json_t          *figures;
} work;

static bool show(void *context, int64_t done, int64_t total)
{
    const work *const w = context;
    sg_progress_update(&w->r->progress, SG_STAGE_TEXT, (int)(done < total ? done : total - 1), (int)total);
    return sg_interrupt_asked();
}

/* The Kullback-Leibler divergence of q from p, both given by logits, of which these are the largest: sum p log(p / q), nats. */
static double divergence(const float *p, double top_p, const float *q, double top_q, int vocab)
{
    double sum_p = 0, sum_q = 0, of = 0;
    for (int i = 0; i < vocab; i++) {
        const double a = (double)p[i] - top_p, b = (double)q[i] - top_q, weight = exp(a);
        sum_p += weight;
        sum_q += exp(b);
        of += weight * (a - b);
    }
    return fmax(of / sum_p + log(sum_q) - log(sum_p), 0);
}

/* Compares the distributions of each scored token with the first arm's. */
static sg_status compare(const work *w, double *kl, int64_t *same, sg_error *e)
{
    const int    vocab = w->r->info.vocab;
    const size_t width = (size_t)w->r->info.width;
    float *const other = w->logits + (size_t)ROWS * (size_t)vocab;
    for (int64_t at = w->item.from - 1, rows; at < w->item.n - 1; at += rows) {
        rows = w->item.n - 1 - at < ROWS ? w->item.n - 1 - at : ROWS;
        SG_TRY(sg_language_head(w->r->model, w->first + (size_t)at * width, rows, w->logits, e));
        SG_TRY(sg_language_head(w->r->model, w->states + (size_t)at * width, rows, other, e));
        SG_TRY(sg_interrupt_check(e));
        double  sum = 0;
        int64_t equal = 0;
#pragma omp parallel for reduction(+ : sum, equal)
        for (int64_t i = 0; i < rows; i++) {
            const float *const p = w->logits + i * vocab, *const q = other + i * vocab;
            const int32_t a = sg_language_likeliest(w->r->model, p), b = sg_language_likeliest(w->r->model, q);
            sum += divergence(p, (double)p[a], q, (double)q[b], vocab);
            equal += a == b;
        }
        *kl += sum;
        *same += equal;
    }
    return SG_OK;
}

static sg_status score_text(work *w, sg_error *e)
{
    double  nats = 0, kl = 0;
    int64_t same = 0;
    for (int64_t i = w->item.from; i < w->item.n; i++) nats -= (double)w->logp[i];
    sg_json_join(&w->figures, json_pack("{s:f, s:I}", "nats", nats, "scored", (json_int_t)(w->item.n - w->item.from)));
    if (!w->first || w->arm == 0) return SG_OK;
    SG_TRY(compare(w, &kl, &same, e));
    sg_json_join(&w->figures, json_pack("{s:f, s:I}", "kl", kl, "same", (json_int_t)same));
    return SG_OK;
}

/* Neighbouring places are one answer, which is right where all of its tokens are the likeliest. */
static sg_status score_asked(work *w, sg_error *e)
{
    const sg_language_item *const m = &w->item;
    char *const                   right = malloc((size_t)m->asked_count);
    size_t                        n = 0;
    sg_status                     status = right ? SG_OK : sg_error_memory(e, "answers");
    for (int i = 0; status == SG_OK && i < m->asked_count; i++) {
        const int64_t at = m->asked[i];
        status = sg_language_head(w->r->model, w->states + (at - 1) * w->r->info.width, 1, w->logits, e);
        if (i == 0 || at != m->asked[i - 1] + 1) right[n++] = '1';
        if (status == SG_OK && sg_language_likeliest(w->r->model, w->logits) != m->ids[at]) right[n - 1] = '0';
    }
    if (status == SG_OK) sg_json_set(&w->figures, "right", json_stringn(right, n));
    free(right);
    return status;
}

static sg_status score_answer(work *w, sg_error *e)
{
    const sg_language_item *const m = &w->item;
    const sg_language_progress    p = {show, w};
    int64_t                       count = 0;
    char                         *text = NULL;
    sg_answer_figures             f = {0};
    int32_t *const                ids = malloc((size_t)m->most * sizeof *ids);
    sg_status                     status =
        ids ? sg_language_greedy(w->r->model, ids, m->most, &count, &p, e) : sg_error_memory(e, "answer");
    if (status == SG_OK && sg_language_ends(w->r->model, ids[count - 1])) count--;
    if (status == SG_OK) status = sg_language_decode(w->r->model, ids, count, &text, e);
    if (status == SG_OK && m->first_line) {
        const size_t blank = strspn(text, "\n"), n = strcspn(text + blank, "\n");
        memmove(text, text + blank, n);
        text[n] = '\0';
    }
    if (status == SG_OK)
        status = sg_answer_score(&f, m->metric, text, m->expected, m->expected_count, m->choices, m->choice_count, e);
    if (status == SG_OK) {
        json_t *const answer = json_string(text);
        sg_json_join(&w->figures,
                     json_pack("{s:s, s:f, s:b, s:o}", "metric", sg_answer_metric_names[m->metric], "score", f.score,
                               "exact", f.exact, "answer", answer ? answer : sg_report_name(text)));
    }
    free(text);
    free(ids);
    return status;
}

static sg_status run_arm(work *w, sg_error *e)
{
    static sg_status (*const score[])(work *, sg_error *) = {
        [SG_ITEM_TEXT] = score_text, [SG_ITEM_ASKED] = score_asked, [SG_ITEM_ANSWER] = score_answer};
    sg_language_run *const     r = w->r;
    const sg_language_progress p = {show, w};
    SG_TRY(sg_language_arm(r, w->arm, e));
    sg_progress_render(&r->progress, 0, 0, NULL);
    const double start = sg_seconds();
    SG_TRY(sg_language_append(r->model, w->item.ids, w->item.n, w->logp, w->first && w->arm == 0 ? w->first : w->states,
                              &p, e));
    w->figures = json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)w->item.n, "seconds", sg_seconds() - start,
                           "density", sg_language_density(r));
    SG_TRY(score[w->item.kind](w, e));
    json_t *line = json_pack("{s:i, s:i, s:s, s:i, s:s}", "version", SG_LANGUAGE_LINE_VERSION, "item", w->place, "arm",
                             r->arms.arm[w->arm].name, "arm_index", w->arm, "group", w->item.group);
    if (w->item.about) sg_json_join(&line, json_deep_copy(w->item.about));
    sg_json_join(&line, w->figures);
    w->figures = NULL;
    return line ? sg_language_line_take(r, line, e) : sg_error_memory(e, "results");
}

static sg_status take_room(work *w, sg_error *e)
{
    const sg_language_item *const m = &w->item;
    const bool   text = m->kind == SG_ITEM_TEXT, compared = text && w->r->settings->kl && w->r->arms.count > 1;
    const bool   heads = compared || m->kind == SG_ITEM_ASKED;
    const size_t states = (size_t)m->n * (size_t)w->r->info.width;
    if (text) w->logp = calloc((size_t)m->n, sizeof *w->logp);
    if (compared) w->first = malloc(states * sizeof *w->first);
    if (heads) w->states = malloc(states * sizeof *w->states);
    if (heads) w->logits = malloc(2 * (size_t)ROWS * (size_t)w->r->info.vocab * sizeof *w->logits);
    const bool whole = (!text || w->logp) && (!compared || w->first) && (!heads || (w->states && w->logits));
    return whole ? SG_OK : sg_error_memory(e, "the states of a text");
}

static sg_status run_item(work *w, sg_error *e)
{
    sg_language_run *const r = w->r;
    char                   left[48] = "", duration[32];
    SG_TRY(r->task->make(r, w->place, &w->item, e));
    if (w->item.n + w->item.most > r->info.tokens || w->item.n < (w->item.kind == SG_ITEM_ANSWER ? 1 : 2))
        return sg_error_set(e, SG_E_ARG, "%s: a text of %lld tokens and %d of its answer, where there is room for %lld",
                            w->item.group, (long long)w->item.n, w->item.most, (long long)r->info.tokens);
    SG_TRY(take_room(w, e));
    if (r->made)
        snprintf(left, sizeof left, ", %s left",
                 sg_duration(duration, (sg_seconds() - r->start) / r->made * (r->items - w->place)));
    for (w->arm = 0; w->arm < r->arms.count; w->arm++) {
        sg_progress_row(&r->progress, "%d/%d%s: %s, %s", w->place + 1, r->items, left, w->item.group,
                        r->arms.arm[w->arm].name);
        SG_TRY(run_arm(w, e));
    }
    return SG_OK;
}

sg_status sg_language_item_run(sg_language_run *r, int i, sg_error *e)
{
    work            w = {.r = r, .place = i};
    const sg_status status = run_item(&w, e);
    sg_progress_clear(&r->progress);
    sg_language_item_free(&w.item);
    json_decref(w.figures);
    free(w.logp);
    free(w.first);
    free(w.states);
    free(w.logits);
    r->made += status == SG_OK;
    return status;
}
