/* unipc.c - UniPC (Zhao, Bai, Rao, Zhou, Lu, 2023; arXiv 2302.04867), B2(h), data prediction, orders 1 and 2, for
 * rectified flow: alpha = 1 - sigma. As diffusers' UniPCMultistepScheduler does it with flow sigmas.
 *
 * lambda = ln(alpha) - ln(sigma), h = the difference of lambda over a step, phi = B = exp(-h) - 1. */
#include "base/text.h"
#include "solver.h"

#include <math.h>
#include <string.h>

/* ---- config ---- */

/* diffusers takes the names of DPMSolver's solver types for bh2. */
static void read_solver_type(sg_config *c)
{
    static const char *const same[] = {"bh2", "midpoint", "heun", "logrho"};
    const char *const        found = sg_config_string(c, "solver_type", "bh2");
    for (size_t i = 0; found && i < sizeof same / sizeof *same; i++)
        if (!strcmp(found, same[i])) return;
    if (found) sg_config_fail(c, "solver_type", "\"%s\" is not supported; only \"bh2\" is", found);
}

static void read(sg_sampler_config *out, sg_config *c)
{
    int64_t never[64];
    out->flow_shift = sg_solver_shift(c, "flow_shift");
    out->order = (int)sg_config_int(c, "solver_order", 1, 2, &(int64_t){2});
    sg_config_only(c, "prediction_type", "flow_prediction", "epsilon");
    if (!sg_config_bool(c, "use_flow_sigmas", &(bool){false})) sg_config_fail(c, "use_flow_sigmas", "must be true");
    sg_config_only_bool(c, "predict_x0", true);
    read_solver_type(c);
    sg_config_only(c, "final_sigmas_type", "zero", "zero");
    if (!sg_config_bool(c, "lower_order_final", &(bool){true}) && out->order > 1)
        sg_config_fail(c, "lower_order_final", "false is not supported: the last step of order 2 would be infinite");
    if (sg_config_ints(c, "disable_corrector", INT64_MIN, INT64_MAX, never, 0, 64))
        sg_config_fail(c, "disable_corrector", "is not supported; only an empty list is");
    sg_solver_absent(c, "solver_p");
    sg_config_only_bool(c, "thresholding", false);
}

/* ---- sigmas ---- */

/* Before diffusers 0.37 the grid was 1 - linspace(1, 1/T), since then linspace(1, 1/T) without its end. Both are
 * written as there, because the timestep is the sigma cut to a whole number. */
static void sigmas(sg_sampler *p)
{
    const bool   old = p->config.sigmas_old;
    const double train = p->config.train_steps, shift = p->config.flow_shift;
    const double pace = (1.0 / train - 1.0) / p->steps;
    for (int i = 0; i < p->steps; i++) {
        const int    j = p->steps - i;
        const double end = old && i == 0 ? 1.0 / train : j * pace + 1.0;
        const double s = old ? 1.0 - end : i * pace + 1.0;
        double       sigma = shift * s / (1.0 + (shift - 1.0) * s);
        if (!old && i == 0 && fabs(sigma - 1.0) < 1e-6) sigma -= 1e-6;
        p->sigma[i] = (double)(float)sigma;
        p->timestep[i] = trunc(sigma * train);
    }
}

/* UniPC divides by differences of ln(1 - sigma) - ln(sigma). */
static bool falls(const sg_sampler *p)
{
    for (int i = 0; i < p->steps; i++)
        if (!(p->sigma[i] < 1.0 && p->sigma[i] > p->sigma[i + 1])) return false;
    return true;
}

static sg_status schedule(sg_sampler *p, sg_error *e)
{
    sigmas(p);
    if (falls(p)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "a flow shift of %g over %d step%s makes neighbouring sigmas equal",
                        p->config.flow_shift, p->steps, sg_plural(p->steps));
}

/* ---- steps ---- */

static double lambda(double sigma) { return log(1.0 - sigma) - log(sigma); }

static int order_of(const sg_sampler *p, int i)
{
    const int warm = i + 1 < p->config.order ? i + 1 : p->config.order;
    return p->steps - i < warm ? p->steps - i : warm;
}

/* y = to/from x - alpha (phi m0 + B (d1 (m1 - m0) + dt (mt - m0))): the common form of predictor and corrector. */
typedef struct update {
    double x, m0, m1, mt;
} update;

static update collect(double from, double to, double phi, double d1, double dt)
{
    const double scale = -(1.0 - to) * phi;
    return (update){.x = to / from, .m0 = scale * (1.0 - d1 - dt), .m1 = scale * d1, .mt = scale * dt};
}

/* From sample i to sample i + 1. m0 is the prediction of step i, m1 that of step i - 1. */
static update predictor(const double *sigma, int i, int order)
{
    const double start = lambda(sigma[i]), h = lambda(sigma[i + 1]) - start;
    const double d1 = order == 2 ? 0.5 * h / (lambda(sigma[i - 1]) - start) : 0.0;
    return collect(sigma[i], sigma[i + 1], expm1(-h), d1, 0.0);
}

/* From sample i - 1 to sample i once more, now that mt, the prediction at i, is known. m0 is the prediction of step
 * i - 1, m1 that of step i - 2. The weights of order 2 solve [1 1; r 1] (w1, wt) = (b1, b2). */
static update corrector(const double *sigma, int i, int order)
{
    const double start = lambda(sigma[i - 1]), h = lambda(sigma[i]) - start, phi = expm1(-h);
    if (order == 1) return collect(sigma[i - 1], sigma[i], phi, 0.0, 0.5);
    const double r = (lambda(sigma[i - 2]) - start) / h;
    const double phi2 = phi / -h - 1.0, phi3 = phi2 / -h - 0.5;
    const double b1 = phi2 / phi, b2 = 2.0 * phi3 / phi;
    const double w1 = (b1 - b2) / (1.0 - r);
    return collect(sigma[i - 1], sigma[i], phi, w1 / r, b1 - w1);
}

static void swap(sg_tensor *a, sg_tensor *b)
{
    const sg_tensor t = *a;
    *a = *b;
    *b = t;
}

/* The history moves up; m[0] becomes the prediction of the clean sample at step i. */
static void predict_clean(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    swap(&st->m[1], &st->m[2]);
    swap(&st->m[0], &st->m[1]);
    sg_combine(s, .y = st->m[0], .x = {st->x, v}, .a = {1.0f, (float)-p->sigma[i]}, .count = 2);
}

static void correct(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i)
{
    const int    order = order_of(p, i - 1);
    const update u = corrector(p->sigma, i, order);
    sg_combine(s, .y = st->spare, .x = {st->last, st->m[1], st->m[0], st->m[2]},
               .a = {(float)u.x, (float)u.m0, (float)u.mt, (float)u.m1}, .count = order + 2);
    swap(&st->last, &st->spare);
}

static void predict_next(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i)
{
    const int    order = order_of(p, i);
    const update u = predictor(p->sigma, i, order);
    sg_combine(s, .y = st->x, .x = {st->last, st->m[0], st->m[1]}, .a = {(float)u.x, (float)u.m0, (float)u.m1},
               .count = order + 1);
}

/* At sigma 0 the predictor is the clean sample itself, whatever the corrector says. */
static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    predict_clean(p, st, s, i, v);
    if (i == p->steps - 1) {
        sg_copy(s, .y = st->x, .x = st->m[0]);
        return;
    }
    if (i == 0)
        sg_copy(s, .y = st->last, .x = st->x);
    else
        correct(p, st, s, i);
    predict_next(p, st, s, i);
}

const sg_solver sg_solver_unipc = {
    .class_name = "UniPCMultistepScheduler", .read = read, .schedule = schedule, .step = step};
