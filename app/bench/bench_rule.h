/* bench_rule.h - the one rule by which every benchmark measures. It knows no clock: whoever measures tells it what each
 * run took, and it says whose turn is next.
 *
 * The things that are compared take turns. A round is a run of each of them, and each round begins with the next thing.
 *
 * Rounds do not count until all things are warm: until, for each thing, the medians of its last two windows differ by
 * 2 % at most. A window is as many rounds as last a quarter of a second, but 3 at least and 100 at most. The first
 * round of all, which finds kernels and reads files, is in no window. After ten seconds, or 1,000 rounds, warming ends
 * in any case, with windows as long as there are rounds for.
 *
 * After that, `repeat` rounds count: without it as many as last two seconds, but 5 at least and 200 at most. The figure
 * of a thing is the median of its runs that count.
 *
 * The figures are steady if the windows of every thing agreed, and if the medians of the first and the last half of its
 * runs that count agree as well. Otherwise they are still figures, but the machine did something else at that time. */
#ifndef SG_BENCH_RULE_H
#define SG_BENCH_RULE_H

#include "status.h"

#include <stdbool.h>

enum { SG_RULE_THINGS = 24 };

typedef struct sg_rule {
    int     things;
    int     repeat;                 /* rounds that are to count; 0: not known yet */
    double  slack;                  /* seconds by which two medians may differ in any case */
    int     turns;                  /* runs so far */
    int     warm;                   /* rounds that do not count; 0: warming still */
    double  total;                  /* seconds of rounds, but for the first */
    double  change[SG_RULE_THINGS]; /* of the medians of the last two windows before runs counted, a share */
    double *seconds;                /* of each run, round by round; owned */
} sg_rule;

/* repeat 0 leaves the number of rounds that count to the rule. The caller closes r, after a failure too. */
sg_status sg_rule_open(sg_rule *r, int things, int repeat, double slack, sg_error *e) SG_MUST_USE;
void      sg_rule_close(sg_rule *r);

int  sg_rule_next(const sg_rule *r); /* returns the thing whose turn is next; -1: it is over */
bool sg_rule_counts(const sg_rule *r);
void sg_rule_take(sg_rule *r, double seconds); /* takes what that turn took */
int  sg_rule_runs(const sg_rule *r);           /* returns how many rounds counted */

/* Returns the median of a thing's runs that count, and half the distance between their quartiles as a share of it. */
double sg_rule_median(const sg_rule *r, int thing);
double sg_rule_spread(const sg_rule *r, int thing);

/* Returns which of a thing's runs that count, from 0, is the median one: of two in the middle the faster. */
int sg_rule_median_run(const sg_rule *r, int thing);

/* Returns what a run that counts took. */
double sg_rule_seconds(const sg_rule *r, int thing, int run);

/* Returns by what share a thing was not steady; 0: it was. */
double sg_rule_unsteady(const sg_rule *r, int thing);

/* Returns the median of count values, which it sorts. */
double sg_median(double *value, int count);

#endif
