/* solver.c - see solver.h: what the solvers' readers of a configuration share. */
#include "solver.h"

#include <string.h>

/* For a switch that is off by default in diffusers. */
void sg_solver_off(sg_config *c, const char *key)
{
    if (sg_config_bool(c, key, &(bool){false})) sg_config_fail(c, key, "true is not supported");
}

void sg_solver_absent(sg_config *c, const char *key)
{
    if (sg_config_has(c, key)) sg_config_fail(c, key, "is not supported; only null is");
}

void sg_solver_says(sg_config *c, const char *key, const char *wanted, const char *fallback)
{
    const char *const found = sg_config_string(c, key, fallback);
    if (found && strcmp(found, wanted))
        sg_config_fail(c, key, "\"%s\" is not supported; only \"%s\" is", found, wanted);
}

double sg_solver_shift(sg_config *c, const char *key) { return sg_config_real(c, key, 1e-3, 1e3, &(double){1.0}); }

/* ---- what Euler and LCM share ---- */

void sg_solver_flow_read(sg_sampler_config *out, sg_config *c)
{
    out->flow_shift = sg_solver_shift(c, "shift");
    out->order = 2;
    sg_solver_off(c, "invert_sigmas");
}

static double shifted(double shift, double s) { return shift * s / (1.0 + (shift - 1.0) * s); }

/* The constructor shifts the ends of the training schedule in F32 ... */
static double end_of_training(const sg_sampler_config *c, int t)
{
    const float shift = (float)c->flow_shift, less = (float)(c->flow_shift - 1.0);
    const float s = (float)t / (float)c->train_steps;
    return (double)(shift * s / (1.0f + less * s));
}

/* ... and set_timesteps shifts what lies between them once more. Products and quotients stand in diffusers' order. */
sg_status sg_solver_flow_schedule(sg_sampler *p, bool old, sg_error *e)
{
    (void)old;
    (void)e;
    const double train = p->config.train_steps;
    const double first = end_of_training(&p->config, p->config.train_steps) * train;
    const double final = end_of_training(&p->config, 1) * train;
    const double pace = p->steps > 1 ? (final - first) / (p->steps - 1) : 0.0;
    for (int i = 0; i < p->steps; i++) {
        const double t = i > 0 && i == p->steps - 1 ? final : i * pace + first;
        const float  sigma = (float)shifted(p->config.flow_shift, t / train);
        p->sigma[i] = (double)sigma;
        p->timestep[i] = (double)(sigma * (float)p->config.train_steps);
    }
    return SG_OK;
}
