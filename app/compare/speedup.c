/* speedup.c - see speedup.h. */
#include "speedup.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- one pair of arms ---- */

static bool timed(const double *first, const double *arm, int rounds, size_t stride)
{
    for (size_t n = 0; n < (size_t)rounds; n++)
        if (!(first[n * stride] > 0 && arm[n * stride] > 0 && isfinite(first[n * stride]) && isfinite(arm[n * stride])))
            return false;
    return true;
}

void sg_pace_add_own(sg_pace *p, const double *first, const double *arm, size_t stride)
{
    sg_running of[2] = {0}, ratio = {0};
    p->own_steps++;
    if (!timed(first, arm, p->rounds, stride)) {
        p->unknown = true;
        return;
    }
    for (size_t n = 0; n < (size_t)p->rounds; n++) {
        const double a = log(first[n * stride]), b = log(arm[n * stride]);
        sg_running_add(&of[0], a);
        sg_running_add(&of[1], b);
        sg_running_add(&ratio, a - b);
    }
    for (int i = 0; i < 2; i++) p->own[i] += exp(of[i].mean);
    p->own_squares += ratio.squares;
    sg_running_add(&p->ratio, ratio.mean);
}

void sg_pace_add_shared(sg_pace *p, const double *first, const double *arm, size_t stride)
{
    if (!timed(first, arm, p->rounds, stride)) return;
    for (size_t n = 0; n < (size_t)p->rounds; n++) {
        const double a = first[n * stride], b = arm[n * stride], r = log(a / b), w = sqrt(a * b);
        p->shared_squares += w * r * r;
        p->weight += w;
        p->weights_squared += w * w;
    }
    p->shared_units++;
}

/* q, and t q. */
static double noise(const sg_pace *p, double *times_t)
{
    const int    again = p->rounds - 1;
    const int    freedom = again ? again * p->own_steps : p->own_steps - 1;
    const double squares = again ? p->own_squares : p->ratio.squares;
    *times_t = NAN;
    if (p->unknown || p->shared_units < 2 || freedom < 1) return NAN;
    const double shared = sqrt(p->shared_squares / p->weight), own = sqrt(squares / freedom);
    const double units = floor(p->weight * p->weight / p->weights_squared * (1 + 1e-12)); /* 1 and more */
    *times_t =
        fmax(shared * sg_student_t((int)fmin(units, INT_MAX), p->together), own * sg_student_t(freedom, p->together));
    return fmax(shared, own);
}

double sg_pace_noise(const sg_pace *p)
{
    double times_t;
    return noise(p, &times_t);
}

static double ratio_of(const sg_pace *p, double shared, double y)
{
    const double own = sqrt(p->own[0] * p->own[1]);
    return (shared + own * exp(y / 2)) / (shared + own * exp(-y / 2));
}

sg_interval sg_speedup_clear(sg_interval v)
{
    const double hundredth = 0.005;
    if (!(v.low >= 1 + hundredth || v.high < 1 - hundredth)) v.mean = NAN;
    return v;
}

sg_interval sg_speedup_of(const sg_pace *p, double shared_seconds)
{
    const sg_interval nothing = {NAN, NAN, NAN};
    double            half;
    (void)noise(p, &half);
    half /= sqrt(p->rounds);
    if (isnan(half) || !isfinite(shared_seconds) || shared_seconds < 0) return nothing;
    const double      x = log(p->own[0] / p->own[1]);
    const sg_interval v = {ratio_of(p, shared_seconds, x), ratio_of(p, shared_seconds, x - half),
                           ratio_of(p, shared_seconds, x + half)};
    return isfinite(v.low) && isfinite(v.high) ? sg_speedup_clear(v) : nothing;
}

const char *sg_speedup_text(char *text, size_t size, const sg_interval *v)
{
    if (isnan(v->mean))
        snprintf(text, size, "not distinguishable in time");
    else
        snprintf(text, size, "%.2fx, %.2f to %.2f", v->mean, v->low, v->high);
    return text;
}

/* ---- the renders of one arm ---- */

sg_status sg_arm_times_make(sg_arm_times *t, int rounds, int steps, int chunks, sg_error *e)
{
    const size_t n = (size_t)rounds, units = n * (size_t)steps;
    *t = (sg_arm_times){.rounds = rounds, .steps = steps, .chunks = chunks};
    t->numbers = n + 2 * units + n * (size_t)chunks + n * SG_ATTENTION_STAGES;
    t->total = calloc(t->numbers, sizeof *t->total);
    t->shared = calloc((size_t)steps, sizeof *t->shared);
    if (!t->total || !t->shared) return sg_error_set(e, SG_E_MEMORY, "no memory for the times of %d steps", steps);
    t->step = t->total + n;
    t->attention = t->step + units;
    t->decode = t->attention + units;
    t->stage = t->decode + n * (size_t)chunks;
    return SG_OK;
}

void sg_arm_times_free(sg_arm_times *t)
{
    free(t->total);
    free(t->shared);
    *t = (sg_arm_times){0};
}

double sg_arm_times_mean(const sg_arm_times *t, const double *of, int units, int unit)
{
    double sum = 0;
    for (int i = 0; i < t->rounds * units; i++)
        if (unit < 0 || i % units == unit) sum += of[i];
    return t->rounds ? sum / t->rounds : 0;
}

double sg_arm_times_total(const sg_arm_times *t) { return sg_arm_times_mean(t, t->total, 1, -1); }

static const double *units_of(const sg_arm_times *t, bool attention) { return attention ? t->attention : t->step; }

/* The geometric mean over the rounds. */
static double geometric(const sg_arm_times *t, const double *of, int step)
{
    double sum = 0;
    for (int n = 0; n < t->rounds; n++) sum += log(of[n * t->steps + step]);
    return exp(sum / t->rounds);
}

/* Of this step of arm k: what it shares is a mean over the arms that do. */
static double corrected(const sg_arm_times *const *arm, int count, int k, int step, bool attention)
{
    const sg_arm_times *const t = arm[k];
    sg_running                of = {0};
    if (!t->shared[step]) return geometric(t, units_of(t, attention), step);
    for (int c = 0; c < count; c++)
        if (arm[c]->steps == t->steps && arm[c]->shared[step])
            sg_running_add(&of, geometric(arm[c], units_of(arm[c], attention), step));
    return of.mean;
}

/* Corrected seconds of arm k, of the steps that arm `by` shares or of its own ones. */
static double seconds_of(const sg_arm_times *const *arm, int count, int k, int by, bool shared, bool attention)
{
    const bool apart = arm[k]->steps != arm[by]->steps; /* then all are own */
    double     sum = 0;
    for (int i = 0; i < arm[k]->steps; i++)
        if ((!apart && arm[by]->shared[i]) == shared) sum += corrected(arm, count, k, i, attention);
    return sum;
}

/* What is no step: the decoder, and what stands between the units. */
static double rest(const sg_arm_times *const *arm, int count)
{
    sg_running of = {0};
    for (int c = 0; c < count; c++)
        sg_running_add(&of, sg_arm_times_total(arm[c]) - sg_arm_times_mean(arm[c], arm[c]->step, arm[c]->steps, -1));
    return of.mean;
}

static double decoding(const sg_arm_times *const *arm, int count)
{
    sg_running of = {0};
    for (int c = 0; c < count; c++) sg_running_add(&of, sg_arm_times_mean(arm[c], arm[c]->decode, arm[c]->chunks, -1));
    return of.mean;
}

/* Seconds of the part from step a to step b, of one render; neither need be whole. */
static double seconds_between(const double *step, int steps, double a, double b)
{
    double sum = 0;
    for (int i = (int)a; i < steps && i < b; i++) sum += step[i] * (fmin(b, i + 1) - fmax(a, i));
    return sum;
}

/* Own units of arms whose numbers of steps differ: of all steps, that are these seconds of the two. */
static void add_parts(sg_pace *p, const sg_arm_times *const arm[2], const double *const seconds[2])
{
    const int     parts = arm[0]->steps < arm[1]->steps ? arm[0]->steps : arm[1]->steps;
    const size_t  rounds = (size_t)p->rounds;
    double *const part = malloc(2 * rounds * sizeof *part);
    p->unknown = !part;
    for (int i = 0; i < parts && part; i++) {
        for (size_t k = 0; k < 2; k++)
            for (size_t n = 0; n < rounds; n++) {
                const int    steps = arm[k]->steps;
                const double of = (double)steps / parts;
                part[k * rounds + n] = seconds_between(seconds[k] + n * (size_t)steps, steps, i * of, (i + 1) * of);
            }
        sg_pace_add_own(p, part, part + rounds, 1);
    }
    free(part);
}

/* Of the steps, or of their attention. */
static sg_pace pace_of(const sg_arm_times *const *arm, int count, int k, bool attention)
{
    const sg_arm_times *const a = arm[0], *const b = arm[k];
    const double *const own[] = {units_of(a, attention), units_of(b, attention)};
    const size_t        stride = (size_t)b->steps;
    sg_pace             p = {.rounds = b->rounds, .together = count > 2 ? count - 1 : 1};
    if (a->steps != b->steps) add_parts(&p, (const sg_arm_times *const[]){a, b}, own);
    for (int i = 0; i < b->steps && a->steps == b->steps; i++)
        if (b->shared[i])
            sg_pace_add_shared(&p, a->step + i, b->step + i, stride);
        else
            sg_pace_add_own(&p, own[0] + i, own[1] + i, stride);
    for (int i = 0; i < b->chunks; i++) sg_pace_add_shared(&p, a->decode + i, b->decode + i, (size_t)b->chunks);
    p.own[0] = seconds_of(arm, count, 0, k, false, attention);
    p.own[1] = seconds_of(arm, count, k, k, false, attention);
    return p;
}

double sg_arm_step_seconds(const sg_arm_times *const *arm, int count, int k, int step)
{
    return corrected(arm, count, k, step, false);
}

sg_arm_speed sg_arm_speed_of(const sg_arm_times *const *arm, int count, int k)
{
    const sg_pace steps = pace_of(arm, count, k, false), attention = pace_of(arm, count, k, true);
    const double  shared = seconds_of(arm, count, k, k, true, false), other = fmax(rest(arm, count), 0),
                 shared_attention = seconds_of(arm, count, k, k, true, true);
    sg_arm_speed out = {.noise = sg_pace_noise(&steps),
                        .denoise = sg_speedup_of(&steps, shared),
                        .total = sg_speedup_of(&steps, shared + other),
                        .attention = sg_speedup_of(&attention, shared_attention),
                        .seconds = shared + steps.own[1] + other,
                        .denoise_seconds = shared + steps.own[1],
                        .attention_seconds = shared_attention + attention.own[1],
                        .decode_seconds = fmin(decoding(arm, count), other)};
    for (int i = 0; i < arm[k]->steps; i++) out.shared_steps += arm[k]->shared[i];
    return out;
}

bool sg_arms_settled(const sg_arm_times *const *arm, int count)
{
    double seconds = 0;
    bool   within = arm[0]->rounds % count == 0;
    for (int k = 0; k < count; k++) {
        const sg_arm_speed s = sg_arm_speed_of(arm, count, k);
        const double       wide = 1 + SG_ROUNDS_WITHIN;
        seconds += sg_arm_times_total(arm[k]) * arm[k]->rounds;
        if (s.shared_steps < arm[k]->steps) within = within && s.total.high <= wide * wide * s.total.low;
    }
    return within || seconds >= SG_ROUNDS_SECONDS;
}
