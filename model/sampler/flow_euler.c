/* flow_euler.c - FlowMatchEulerDiscreteScheduler of diffusers: x += (sigma[i + 1] - sigma[i]) v. */
#include "solver.h"

static void read(sg_sampler_config *out, sg_config *c)
{
    sg_solver_flow_read(out, c);
    sg_solver_off(c, "stochastic_sampling");
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v}, .a = {1.0f, (float)(p->sigma[i + 1] - p->sigma[i])}, .count = 2);
}

const sg_solver sg_solver_flow_euler = {.class_name = "FlowMatchEulerDiscreteScheduler",
                                        .list = true,
                                        .read = read,
                                        .schedule = sg_solver_flow_schedule,
                                        .step = step};

/* numpy's linspace from 1 to 0 without its end, in F32 from there on. */
static sg_status even(sg_sampler *p, bool old, sg_error *e)
{
    const double pace = -1.0 / p->steps;
    const float  shift = (float)p->config.flow_shift, less = (float)(p->config.flow_shift - 1.0);
    (void)old;
    (void)e;
    for (int i = 0; i < p->steps; i++) {
        const float s = (float)(i * pace + 1.0), sigma = shift * s / (1.0f + less * s);
        p->sigma[i] = (double)sigma;
        p->timestep[i] = (double)(sigma * (float)p->config.train_steps);
    }
    return SG_OK;
}

const sg_solver sg_solver_flow_even = {
    .class_name = "FlowMatchEulerDiscreteScheduler", .list = true, .read = read, .schedule = even, .step = step};
