/* cog_dpm.c - CogVideoXDPMScheduler of diffusers: DPM-Solver++ 2M (Lu, Zhou, Bao, Chen, Li, Zhu, 2022; arXiv 2211.01095) of the
 * reverse SDE, of a model that predicts v.
 *
 * lambda = ln(clean / noise), h = its difference over a step, q = exp(-h). With D the clean sample as predicted,
 *   x' = (noise' / noise) q x + clean' (1 - q^2) D + noise' sqrt(1 - q^2) e, e normal;
 * D is extrapolated through this prediction and the one before, but in the first step and where the result is the clean
 * sample. q is 0, h infinite, where a step starts from noise alone or ends at the clean sample. */
#include "solver.h"

#include <math.h>

static bool extrapolates(const sg_sampler *p, int i) { return i > 0 && p->end[i] > 0.0; }

/* diffusers draws for the step of order 1, then once more for that of order 2. */
static int draws(const sg_sampler *p, int i) { return extrapolates(p, i) ? 2 : 1; }

static double lambda(sg_mixture m) { return log(m.clean / m.noise); }

/* How far D lies beyond the newer prediction, in differences of the two. The one before may be of noise alone: then 0. */
static double beyond(const sg_sampler *p, int i)
{
    const double now = lambda(sg_mixture_at(p->sigma[i])), last = lambda(sg_mixture_at(p->sigma[i - 1]));
    return (lambda(sg_mixture_at(p->end[i])) - now) / (2.0 * (now - last));
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    sg_solver_reverse_sde(p, st, s, i, v, extrapolates(p, i) ? beyond(p, i) : 0.0);
}

const sg_solver sg_solver_cog_dpm = {.class_name = "CogVideoXDPMScheduler",
                                     .noise = true,
                                     .read = sg_solver_betas_read,
                                     .schedule = sg_solver_betas_schedule,
                                     .draws = draws,
                                     .step = step};
