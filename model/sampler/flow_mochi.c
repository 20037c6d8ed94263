/* flow_mochi.c - FlowMatchEulerDiscreteScheduler of diffusers as Mochi has it: the sigmas are MochiPipeline's, linear and
 * then quadratic, and inverted: tau = 1 - sigma rises from 0 to 1, the model's timesteps with it. x += (tau[i + 1] - tau[i]) v. */
#include "solver.h"

static const double threshold = 0.025; /* tau where the linear half ends */

static void read(sg_sampler_config *out, sg_config *c)
{
    out->flow_shift = sg_solver_shift(c, "shift");
    out->order = 2;
    if (!sg_config_bool(c, "invert_sigmas", &(bool){false}))
        sg_config_fail(c, "invert_sigmas", "is false, but this model's steps go from 0 to 1: it should be true");
    sg_config_only_bool(c, "stochastic_sampling", false);
}

/* 1 - sigma of a step, with the products and quotients in the order of diffusers. */
static double rising(int i, int steps)
{
    const double linear = steps / 2, quadratic = steps - steps / 2, left = linear - threshold * steps;
    if (i < steps / 2) return i * threshold / linear;
    const double a = left / (linear * (quadratic * quadratic));
    const double b = threshold / linear - 2 * left / (quadratic * quadratic);
    return a * ((double)i * i) + b * i + a * (linear * linear);
}

static sg_status schedule(sg_sampler *p, sg_error *e)
{
    if (p->steps < 2) return sg_error_set(e, SG_E_ARG, "1 step: the schedule of Mochi begins with 2");
    for (int i = 0; i < p->steps; i++)
        sg_solver_set(p, i, sg_solver_shifted(&p->config, (float)(1.0 - rising(i, p->steps))));
    return SG_OK;
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    const float now = 1.0f - (float)p->sigma[i], next = 1.0f - (float)p->sigma[i + 1];
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v}, .a = {1.0f, next - now}, .count = 2);
}

const sg_solver sg_solver_flow_mochi = {.class_name = "FlowMatchEulerDiscreteScheduler",
                                        .list = true,
                                        .rises = true,
                                        .read = read,
                                        .schedule = schedule,
                                        .step = step};
