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
