/* speedup.h - how much faster an arm is than the first arm, with an interval that holds 95 %.
 *
 * Renders on a machine that does other things differ in time although they do the same work. So a render is taken apart
 * into units: denoising steps and decoded chunks of latent frames. A unit is shared where the arm ran the first arm's
 * kernels in it (the dense first steps, all of the decoder): its true ratio is 1, and what it shows is noise. The other
 * steps are the arm's own. With r the logarithm of first / arm of a unit in a round, a round being one render of each
 * arm:
 *
 *   x    = log(sum over own steps of first / sum over own steps of arm), of geometric means over the rounds
 *   q    = the larger of two standard deviations of r, each with its t of Student's distribution:
 *          of shared units around 0, weighed by their seconds w, since short units are noisier: (sum w)^2 / sum w^2 degrees
 *          of freedom, rounded down, over all rounds;
 *          of own steps around their mean over the rounds, (rounds - 1) degrees for each step;
 *          of one round around their mean over the steps, steps - 1 degrees (what the arm itself does to steps is in it)
 *   half = t q / sqrt(rounds)
 *
 * q is not divided by the number of units: a busy machine slows whole renders and runs of steps, so the noise of one
 * unit may be that of all. Only rounds, in which the arms take turns, are taken as independent. Where the noise is
 * independent from step to step the interval holds more than 95 %.
 *
 * Where several arms are compared with the first, t is that of all their intervals together (interval.h).
 *
 * A step's corrected seconds are the mean over all arms that did the same in it of the geometric mean over the rounds,
 * and what is no step (the decoder, what stands between the units) has its mean over all arms: what happened to an arm
 * in shared work is not its doing. The speed-up of a whole (denoising, or a clip) is the ratio of these seconds of the
 * first and of the arm, s + own_0 over s + own_k, with s those of shared work. Its bounds are (s + g e^(y/2)) /
 * (s + g e^(-y/2)), y = x -+ half, g = sqrt(own_0 own_k). It is 1 at y = 0 whatever s is.
 *
 * An arm with another number of steps than the first has no steps in common with it. Denoising, of both, is then cut
 * into as many equal parts as the arm with fewer steps has steps, a step's seconds being spread evenly over it: these
 * parts are the own units.
 *
 * There is no speed-up where 1.00 lies within the interval, both of its ends rounded to two decimals, and where the
 * noise is unknown: with fewer than two shared units, or with a single own step in a single round. */
#ifndef SG_SPEEDUP_H
#define SG_SPEEDUP_H

#include "interval.h"
#include "report_attention.h"

#include <stdbool.h>
#include <stddef.h>

/* This compares an arm with the first; it is zero but for rounds and together, how many intervals hold together, to
 * begin with. own is the seconds of own steps of the first arm and of this one. shared_squares is the sum of w r^2,
 * weight and weights_squared are the sums of w and of w^2. own_squares is that of own steps around their means over
 * the rounds, and ratio is over own steps: r, a mean over the rounds. unknown says that an own step has no time. */
typedef struct sg_pace {
    int        rounds, together;
    int        own_steps, shared_units;
    double     own[2];
    double     shared_squares, weight, weights_squared, own_squares;
    sg_running ratio;
    bool       unknown;
} sg_pace;

/* Takes up the seconds of one unit in each round: first[0], first[stride], ... A shared unit without a time is left
 * out. */
void sg_pace_add_own(sg_pace *p, const double *first, const double *arm, size_t stride);
void sg_pace_add_shared(sg_pace *p, const double *first, const double *arm, size_t stride);

/* Returns q, or NAN where it is unknown. */
double sg_pace_noise(const sg_pace *p);

/* Returns the speed-up of own work with so many seconds of shared work. Its mean is NAN where there is no speed-up, and
 * low and high are NAN where the noise is unknown. */
sg_interval sg_speedup_of(const sg_pace *p, double shared_seconds);

/* Returns v, with no mean where 1.00 lies within it or it has no bounds. */
sg_interval sg_speedup_clear(sg_interval v);

/* Writes "1.32x, 1.27 to 1.38" or "not distinguishable in time". Returns text. */
const char *sg_speedup_text(char *text, size_t size, const sg_interval *v);

/* ---- the renders of one arm ---- */

/* rounds are those that count, the first ones of those that there is room for. total, [rounds], step and attention,
 * [rounds][steps], decode, [rounds][chunks], and stage, [rounds][SG_ATTENTION_STAGES], of the attention in the steps, are
 * seconds; chunks are of latent frames. attention is NAN where it is unknown. shared, [steps], says which steps ran the
 * first arm's kernels; in the first arm all did. numbers is how many doubles from total on belong to t. */
typedef struct sg_arm_times {
    int     rounds, steps, chunks;
    double *total, *step, *attention, *decode, *stage;
    bool   *shared;
    size_t  numbers;
} sg_arm_times;

/* Makes room for the times of so many rounds, which are all zero and count. Returns SG_E_MEMORY. The caller frees, after
 * a failure too; t may be zero then. */
sg_status sg_arm_times_make(sg_arm_times *t, int rounds, int steps, int chunks, sg_error *e) SG_MUST_USE;
void      sg_arm_times_free(sg_arm_times *t);

/* The seconds are corrected: the first arm's by this one's are the mean of total, of denoise and of attention, and a
 * whole is the sum of denoising, of decoding and of what stands between. noise is q of the total, or NAN where it is
 * unknown; shared_steps counts the steps that ran the first arm's kernels. */
typedef struct sg_arm_speed {
    sg_interval total, denoise, attention;
    double      seconds, denoise_seconds, attention_seconds, decode_seconds;
    double      noise;
    int         shared_steps;
} sg_arm_speed;

/* Compares arm k of count with arm 0, the first; rounds and chunks are the same in all. An arm with another number of
 * steps than the first shares none. Nothing is known where memory is short. */
sg_arm_speed sg_arm_speed_of(const sg_arm_times *const *arm, int count, int k);

/* Returns the corrected seconds of a step of arm k of count. */
double sg_arm_step_seconds(const sg_arm_times *const *arm, int count, int k, int step);

/* Tells whether short renders have gone on for enough rounds: for SG_ROUNDS_SECONDS in all, or until each arm has begun as
 * many of them as the others, and the interval of each clip's speed-up is within SG_ROUNDS_WITHIN of its middle. An arm
 * that ran the first one's kernels in all steps has none to wait for. */
bool sg_arms_settled(const sg_arm_times *const *arm, int count);

#define SG_ROUNDS_SECONDS 10.0
#define SG_ROUNDS_WITHIN 0.03

/* Returns the mean over the rounds of a unit's seconds or, of unit -1, of their sum over all units. `of`,
 * [rounds][units], is a member of t. */
double sg_arm_times_mean(const sg_arm_times *t, const double *of, int units, int unit);

/* Does the same for the whole render. */
double sg_arm_times_total(const sg_arm_times *t);

#endif
