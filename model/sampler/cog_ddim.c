/* cog_ddim.c - CogVideoXDDIMScheduler of diffusers: DDIM (Song, Meng, Ermon, 2021; arXiv 2010.02502) of a model that predicts
 * v = clean noise - noise clean of the mixture x. The clean sample and the noise that follow from x and v are mixed anew. */
#include "solver.h"

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    const sg_mixture now = sg_mixture_at(p->sigma[i]), end = sg_mixture_at(p->end[i]);
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, v},
               .a = {(float)(end.clean * now.clean + end.noise * now.noise),
                     (float)(end.noise * now.clean - end.clean * now.noise)},
               .count = 2);
}

const sg_solver sg_solver_cog_ddim = {.class_name = "CogVideoXDDIMScheduler",
                                      .read = sg_solver_betas_read,
                                      .schedule = sg_solver_betas_schedule,
                                      .step = step};
