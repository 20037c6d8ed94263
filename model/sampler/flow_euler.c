/* flow_euler.c - FlowMatchEulerDiscreteScheduler of diffusers: x += (sigma[i + 1] - sigma[i]) v. */
#include "solver.h"

static void read(sg_sampler_config *out, sg_config *c)
{
    out->flow_shift = sg_solver_shift(c, "shift");
    out->order = 2;
    sg_solver_off(c, "invert_sigmas");
    sg_solver_off(c, "stochastic_sampling");
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
static sg_status schedule(sg_sampler *p, bool old, sg_error *e)
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

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v}, .a = {1.0f, (float)(p->sigma[i + 1] - p->sigma[i])}, .count = 2);
}

const sg_solver sg_solver_flow_euler = {
    .class_name = "FlowMatchEulerDiscreteScheduler", .read = read, .schedule = schedule, .step = step};
