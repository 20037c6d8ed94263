/* policy.c - see policy.h. */
#include "policy.h"
#include "base/text.h"
#include "run.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

const char *const sg_attention_names[] = {"dense", "sage", "sparge", NULL};
const char *const sg_score_names[] = {"mean", "sub16", "error", NULL};
const char *const sg_tail_bias_names[] = {"0", "half", "rank1", NULL};
const char *const sg_budget_names[] = {"row", "heads", NULL};
const char *const sg_pv_dtype_names[] = {"auto", "bf16", "fp8", "int8", NULL};

sg_policy sg_policy_default(void)
{
    return (sg_policy){.kind = SG_ATTENTION_SPARGE,
                       .rule = SG_SELECT_TOPK,
                       .amount = 0.5F,
                       .similarity = -1,
                       .score = SG_SCORE_ERROR,
                       .tail = true,
                       .tail_bias = SG_TAIL_BIAS_HALF,
                       .order = SG_ORDER_HILBERT_CUBE,
                       .dense_steps = 0.2};
}

sg_policy sg_policy_paper(void)
{
    sg_policy p = sg_policy_default();
    p.score = SG_SCORE_MEAN;
    p.tail = false;
    p.tail_bias = SG_TAIL_BIAS_NONE;
    p.count_hidden = true;
    return p;
}

bool sg_thresholds_alloc(sg_thresholds *t, sg_select_rule rule, int buckets, int layers, int heads)
{
    const size_t n = (size_t)buckets * (size_t)layers * (size_t)heads;
    float *const p = calloc((size_t)buckets + 3 * n, sizeof *p), *const amount = p ? p + buckets : NULL;
    *t = (sg_thresholds){0};
    if (p) *t = (sg_thresholds){buckets, layers, heads, rule, p, amount, amount + n, amount + 2 * n};
    return p != NULL;
}

void sg_thresholds_release(sg_thresholds *t)
{
    free(t->from);
    *t = (sg_thresholds){0};
}

bool sg_thresholds_of_policy(sg_thresholds *t, const sg_policy *p, int heads)
{
    const bool made = sg_thresholds_alloc(t, p->rule, 1, 1, heads);
    for (int i = 0; made && i < heads; i++) {
        t->amount[i] = p->amount;
        t->theta[i] = p->similarity;
        t->pv_threshold[i] = p->pv;
    }
    return made;
}

/* ---- lists of layers ---- */

/* A number of at most seven digits, -1 where there is none. */
static int read_layer(const char **at)
{
    int v = 0, digits = 0;
    for (; isdigit((unsigned char)**at) && digits < 7; digits++) v = 10 * v + (*(*at)++ - '0');
    return digits && !isdigit((unsigned char)**at) ? v : -1;
}

/* Reads "3" or "3-5" and the comma behind it. False at the end of the list and where it is malformed. */
static bool next_range(const char **at, int *first, int *last)
{
    *first = *last = read_layer(at);
    if (**at == '-') {
        ++*at;
        *last = read_layer(at);
    }
    if (*first < 0 || *last < *first || (**at && **at != ',')) return false;
    if (**at && !*++*at) return false; /* a comma ends it */
    return true;
}

bool sg_layers_have(const char *list, int layer)
{
    int first, last;
    while (list && *list && next_range(&list, &first, &last))
        if (layer >= first && layer <= last) return true;
    return false;
}

sg_status sg_layers_check(const char *member, const char *list, int layers, sg_error *e)
{
    const char *at = list;
    int         first, last;
    do {
        if (!next_range(&at, &first, &last))
            return sg_error_set(e, SG_E_ARG, "%s: '%.80s' is not a list of layers, as in 0,28-29", member, list);
        if (last >= layers)
            return sg_error_set(e, SG_E_ARG, "%s: '%.80s' names layer %d, but this model has 0 to %d", member, list,
                                last, layers - 1);
    } while (*at);
    return SG_OK;
}

/* ---- what cannot be ---- */

static sg_status check_real(const char *member, double v, double lo, double hi, sg_error *e)
{
    if (v >= lo && v <= hi) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: %g is not between %g and %g", member, v, lo, hi);
}

static sg_status check_rule(const sg_policy *p, sg_error *e)
{
    if (p->rule != SG_SELECT_GIVEN && p->mask)
        return sg_error_set(e, SG_E_ARG, "mask: a mask goes with no other rule to choose blocks");
    if (p->rule == SG_SELECT_GIVEN && p->thresholds)
        return sg_error_set(e, SG_E_ARG, "mask: tuned thresholds have no say beside a mask");
    if (p->budget && p->rule != SG_SELECT_TOPK && !p->thresholds) /* which have a rule of their own */
        return sg_error_set(e, SG_E_ARG, "budget: heads share a number of blocks, so the rule must be topk");
    if (p->rule == SG_SELECT_GIVEN) return SG_OK;
    return check_real(p->rule == SG_SELECT_TOPK ? "topk" : "tau", p->amount, 0, 1, e);
}

int sg_policy_dense_steps(const sg_policy *p, int steps) { return (int)ceil(p->dense_steps * steps - 1e-9); }

sg_status sg_policy_check(const sg_policy *p, sg_error *e)
{
    const struct {
        const char *member;
        int         value, count;
    } choice[] = {{"attention", p->kind, SG_ATTENTION_SPARGE + 1},
                  {"rule", p->rule, SG_SELECT_GIVEN + 1},
                  {"budget", p->budget, SG_BUDGET_HEADS + 1},
                  {"score", p->score, SG_SCORE_ERROR + 1},
                  {"tail_bias", p->tail_bias, SG_TAIL_BIAS_RANK1 + 1},
                  {"pv_dtype", p->pv_dtype, SG_PV_INT8 + 1},
                  {"dense_steps_kind", p->dense_steps_kind, SG_ATTENTION_SAGE + 1},
                  {"order", p->order, SG_ORDERS}};
    for (size_t i = 0; i < sizeof choice / sizeof *choice; i++)
        SG_TRY(sg_choice_check(choice[i].member, choice[i].value, choice[i].count, e));
    SG_TRY(check_rule(p, e));
    SG_TRY(check_real("similarity", p->similarity, -1, 1, e));
    SG_TRY(check_real("pv", p->pv, 0, 1000, e));
    SG_TRY(check_real("dense_steps", p->dense_steps, 0, 1, e));
    if (p->sink < 0) return sg_error_set(e, SG_E_ARG, "sink: %d is below 0", p->sink);
    return p->dense_layers ? sg_layers_check("dense_layers", p->dense_layers, INT_MAX, e) : SG_OK;
}
