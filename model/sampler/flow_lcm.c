/* flow_lcm.c - FlowMatchLCMScheduler of diffusers, the sampler of consistency and distribution matching distillation:
 * x0 = x - sigma[i] v, then x = (1 - sigma[i + 1]) x0 + sigma[i + 1] noise. */
#include "solver.h"

static void read(sg_sampler_config *out, sg_config *c)
{
    sg_solver_flow_read(out, c);
    sg_solver_absent(c, "scale_factors");
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    const double now = p->sigma[i], next = p->sigma[i + 1];
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v, st->noise},
               .a = {(float)(1.0 - next), (float)(-(1.0 - next) * now), (float)next}, .count = 3);
}

const sg_solver sg_solver_flow_lcm = {.class_name = "FlowMatchLCMScheduler",
                                      .list = true,
                                      .noise = true,
                                      .starts_at_sigma = true,
                                      .read = read,
                                      .schedule = sg_solver_flow_schedule,
                                      .step = step};
