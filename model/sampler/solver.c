/* solver.c - see solver.h: what the solvers' readers of a configuration share. */
#include "solver.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sg_solver_absent(sg_config *c, const char *key)
{
    if (sg_config_has(c, key)) sg_config_fail(c, key, "is not supported; only null is");
}

double sg_solver_shift(sg_config *c, const char *key) { return sg_config_real(c, key, 1e-3, 1e3, &(double){1.0}); }

/* Only families' own solvers rise. */
void sg_solver_set(sg_sampler *p, int i, float sigma)
{
    const bool rises = p->config.solver && p->config.solver->rises;
    p->sigma[i] = (double)sigma;
    p->timestep[i] = (double)((rises ? 1.0f - sigma : sigma) * (float)p->config.train_steps);
}

/* ---- what Euler and LCM share ---- */

void sg_solver_flow_read(sg_sampler_config *out, sg_config *c)
{
    out->flow_shift = sg_solver_shift(c, "shift");
    out->order = 2;
    sg_config_only_bool(c, "invert_sigmas", false);
}

float sg_solver_shifted(const sg_sampler_config *c, float s)
{
    const float shift = (float)c->flow_shift, less = (float)(c->flow_shift - 1.0);
    return shift * s / (1.0f + less * s);
}

/* The constructor shifts the ends of the training schedule in F32, set_timesteps what lies between them once more. */
sg_status sg_solver_flow_schedule(sg_sampler *p, sg_error *e)
{
    (void)e;
    const double train = p->config.train_steps, shift = p->config.flow_shift;
    const double first = (double)sg_solver_shifted(&p->config, 1.0f) * train;
    const double final = (double)sg_solver_shifted(&p->config, 1.0f / (float)p->config.train_steps) * train;
    const double pace = p->steps > 1 ? (final - first) / (p->steps - 1) : 0.0;
    for (int i = 0; i < p->steps; i++) {
        const double s = (i > 0 && i == p->steps - 1 ? final : i * pace + first) / train;
        sg_solver_set(p, i, (float)(shift * s / (1.0 + (shift - 1.0) * s)));
    }
    return SG_OK;
}

/* ---- what schedules of betas share ---- */

void sg_solver_betas_read(sg_sampler_config *out, sg_config *c)
{
    out->flow_shift = 1;
    out->order = 2;
    out->betas.start = sg_config_real(c, "beta_start", 1e-9, 0.999, &(double){0.00085});
    out->betas.end = sg_config_real(c, "beta_end", 1e-9, 0.999, &(double){0.012});
    out->betas.shift = sg_config_real(c, "snr_shift_scale", 1e-3, 1e3, &(double){3.0});
    out->betas.zero_snr = sg_config_bool(c, "rescale_betas_zero_snr", &(bool){false});
    sg_config_only(c, "beta_schedule", "scaled_linear", "scaled_linear");
    sg_config_only(c, "prediction_type", "v_prediction", "epsilon");
    sg_config_only(c, "timestep_spacing", "trailing", "leading");
    sg_solver_absent(c, "trained_betas");
    sg_config_only_bool(c, "set_alpha_to_one", true);
}

sg_mixture sg_mixture_at(double sigma)
{
    const double length = hypot(1.0 - sigma, sigma);
    return (sg_mixture){.clean = (1.0 - sigma) / length, .noise = sigma / length};
}

/* alpha_bar[n]. */
static void fill_alphas(double *alpha_bar, int n, const sg_betas *b)
{
    const double first = b->linear ? b->start : sqrt(b->start), last = b->linear ? b->end : sqrt(b->end);
    const double pace = n > 1 ? (last - first) / (n - 1) : 0.0;
    double       product = 1.0;
    for (int i = 0; i < n; i++) {
        const double at = i < n / 2 ? first + i * pace : last - (n - 1 - i) * pace;
        product *= 1.0 - (b->linear ? at : at * at);
        alpha_bar[i] = product / (b->shift + (1.0 - b->shift) * product);
    }
    if (!b->zero_snr) return;
    const double least = sqrt(alpha_bar[n - 1]), most = sqrt(alpha_bar[0]);
    for (int i = 0; i < n; i++) {
        const double root = (sqrt(alpha_bar[i]) - least) * (most / (most - least));
        alpha_bar[i] = root * root;
    }
    alpha_bar[n - 1] += b->least; /* it is 0, or NaN */
}

/* Both are rounded as numpy's arange has them: the pace of "trailing" timesteps, T - i T / N - 1, is a difference of
 * rounded numbers. Of "leading" ones diffusers holds the sigma of those beyond the last; a timestep counts as the last. */
static int timestep_of(const sg_sampler *p, int i)
{
    const int    train = p->config.train_steps, steps = p->steps;
    const double pace = (train - (double)train / steps) - train;
    if (!p->config.betas.leading) return (int)rint(train + i * pace) - 1;
    const int t = (steps - 1 - i) * (train / steps) + p->config.betas.offset;
    return t < train ? t : train - 1;
}

static double share_of_noise(double alpha_bar)
{
    const double clean = sqrt(alpha_bar), noise = sqrt(1.0 - alpha_bar);
    return noise / (clean + noise);
}

/* A step ends T / N timesteps below, rounded down, which need not be where the next one starts. diffusers takes one step
 * more where arange gives one number too many: at 61 trailing steps, for example. */
sg_status sg_solver_betas_schedule(sg_sampler *p, sg_error *e)
{
    const int train = p->config.train_steps, steps = p->steps;
    if (steps > train)
        return sg_error_set(e, SG_E_ARG, "%d steps: this model's scheduler has %d timestep%s", steps, train,
                            sg_plural(train));
    double *const alpha_bar = malloc((size_t)train * sizeof *alpha_bar);
    if (!alpha_bar) return sg_error_set(e, SG_E_MEMORY, "no memory for a schedule of %d timesteps", train);
    fill_alphas(alpha_bar, train, &p->config.betas);
    sg_status st = SG_OK;
    for (int i = 0; i < steps && !st; i++) {
        const int t = timestep_of(p, i), end = t - train / steps;
        p->timestep[i] = t;
        p->sigma[i] = share_of_noise(alpha_bar[t]);
        p->end[i] = end < 0 ? 0.0 : share_of_noise(alpha_bar[end]);
        if (!(p->end[i] < 1.0) || !(i ? p->sigma[i] < 1.0 : p->sigma[i] <= 1.0)) /* NaN, or no clean sample is left */
            st = sg_error_set(e, SG_E_FORMAT,
                              "scheduler/scheduler_config.json: beta_start, beta_end: with %d num_train_timesteps, "
                              "nothing of the clean sample is left at step %d of %d",
                              train, i + 1, steps);
    }
    p->sigma[steps] = p->end[steps - 1];
    free(alpha_bar);
    return st;
}

void sg_solver_betas_clean(const sg_sampler *p, int i, double a[2])
{
    const sg_mixture m = sg_mixture_at(p->sigma[i]);
    a[0] = p->config.betas.epsilon ? 1 / m.clean : m.clean;
    a[1] = p->config.betas.epsilon ? -m.noise / m.clean : -m.noise;
}

void sg_solver_reverse_sde(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v, double more)
{
    const sg_mixture now = sg_mixture_at(p->sigma[i]), end = sg_mixture_at(p->end[i]);
    const double     q = now.clean * end.noise / (now.noise * end.clean), rest = 1.0 - q * q;
    const sg_tensor  oldest = st->m[1];
    double           a[2];
    st->m[1] = st->m[0];
    st->m[0] = oldest;
    sg_solver_betas_clean(p, i, a);
    sg_combine(s, .y = st->m[0], .x = {st->x, v}, .a = {(float)a[0], (float)a[1]}, .count = 2);
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, st->m[0], st->noise, st->m[1]},
               .a = {(float)(end.noise / now.noise * q), (float)(end.clean * rest * (1.0 + more)),
                     (float)(end.noise * sqrt(rest)), (float)(-end.clean * rest * more)},
               .count = more != 0.0 ? 4 : 3);
}
