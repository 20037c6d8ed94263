/* bench_rule.c - see bench_rule.h. */
#include "bench_rule.h"
#include "metrics.h"
#include "options.h"

#include <math.h>
#include <stdlib.h>

enum { WINDOW = 3, WINDOW_MOST = 100, WARM_MOST = 1000, RUNS = 5, RUNS_MOST = 200 };
static const double WINDOW_SECONDS = 0.25, WARM_SECONDS = 10, RUN_SECONDS = 2, TOLERANCE = 0.02;

sg_status sg_rule_open(sg_rule *r, int things, int repeat, double slack, sg_error *e)
{
    const size_t rounds = WARM_MOST + 1 + (size_t)(repeat ? repeat : RUNS_MOST);
    *r = (sg_rule){.things = things, .repeat = repeat, .slack = slack};
    r->seconds = calloc(rounds * (size_t)things, sizeof *r->seconds);
    return r->seconds ? SG_OK : sg_error_memory(e, "bench");
}

void sg_rule_close(sg_rule *r) { free(r->seconds); }

int sg_rule_next(const sg_rule *r)
{
    const int round = r->turns / r->things;
    if (r->warm && round == r->warm + r->repeat) return -1;
    return (r->turns + round) % r->things;
}

bool sg_rule_counts(const sg_rule *r) { return r->warm > 0; }

int sg_rule_runs(const sg_rule *r) { return r->turns / r->things - r->warm; }

static int bounded(double x, int least, int most) { return x < least ? least : x > most ? most : (int)x; }

double sg_median(double *value, int count)
{
    qsort(value, (size_t)count, sizeof *value, sg_double_order);
    return (value[count / 2] + value[(count - 1) / 2]) / 2;
}

/* Of what a thing took in `count` rounds. */
static double median_of(const sg_rule *r, int thing, int from, int count)
{
    double v[SG_REPEAT_MAX];
    for (int i = 0; i < count; i++) v[i] = r->seconds[(from + i) * r->things + thing];
    return sg_median(v, count);
}

/* By what share b differs from a, if it does. */
static double change(const sg_rule *r, double a, double b)
{
    const double apart = fabs(a - b), share = apart / fmax(a, b);
    return apart <= r->slack || share <= TOLERANCE ? 0 : share;
}

/* Whether rounds are to count from here on. */
static void end_warming(sg_rule *r, int rounds)
{
    const int    seen = rounds - 1;
    const double mean = r->total / seen;
    const bool   late = r->total >= WARM_SECONDS || rounds > WARM_MOST;
    int          window = bounded(ceil(WINDOW_SECONDS / mean), WINDOW, WINDOW_MOST);
    if (late && 2 * window > seen) window = seen / 2;
    if (window < 1 || 2 * window > seen) return;
    double worst = 0;
    for (int i = 0; i < r->things; i++) {
        r->change[i] =
            change(r, median_of(r, i, rounds - 2 * window, window), median_of(r, i, rounds - window, window));
        worst = fmax(worst, r->change[i]);
    }
    if (worst > 0 && !late) return;
    r->warm = rounds;
    if (!r->repeat) r->repeat = bounded(ceil(RUN_SECONDS / mean), RUNS, RUNS_MOST);
}

void sg_rule_take(sg_rule *r, double seconds)
{
    const int thing = sg_rule_next(r), round = r->turns++ / r->things;
    r->seconds[round * r->things + thing] = seconds;
    if (round > 0) r->total += seconds;
    if (!r->warm && round > 0 && r->turns % r->things == 0) end_warming(r, round + 1);
}

/* ---- figures ---- */

double sg_rule_median(const sg_rule *r, int thing) { return median_of(r, thing, r->warm, sg_rule_runs(r)); }

double sg_rule_seconds(const sg_rule *r, int thing, int run) { return r->seconds[(r->warm + run) * r->things + thing]; }

double sg_rule_spread(const sg_rule *r, int thing)
{
    double    v[SG_REPEAT_MAX];
    const int runs = sg_rule_runs(r);
    for (int i = 0; i < runs; i++) v[i] = sg_rule_seconds(r, thing, i);
    const double median = sg_median(v, runs);
    return (v[runs - 1 - (runs - 1) / 4] - v[(runs - 1) / 4]) / 2 / median;
}

int sg_rule_median_run(const sg_rule *r, int thing)
{
    const double median = sg_rule_median(r, thing);
    int          best = -1;
    for (int i = 0; i < sg_rule_runs(r); i++) {
        const double took = sg_rule_seconds(r, thing, i);
        if (took <= median && (best < 0 || took > sg_rule_seconds(r, thing, best))) best = i;
    }
    return best;
}

double sg_rule_unsteady(const sg_rule *r, int thing)
{
    const int half = sg_rule_runs(r) / 2;
    if (half < 1) return r->change[thing];
    const int last = r->warm + sg_rule_runs(r) - half;
    return fmax(r->change[thing], change(r, median_of(r, thing, r->warm, half), median_of(r, thing, last, half)));
}
