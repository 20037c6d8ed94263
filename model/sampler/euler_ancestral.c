/* euler_ancestral.c - EulerAncestralDiscreteScheduler of diffusers: Euler's method of k-diffusion with fresh noise, of a model
 * that predicts v or the noise.
 *
 * diffusers' sample is clean sample + sigma noise, sigma = noise / clean of the mixture, which is that sample as the
 * model is given it. Of its step to sigma', x' = x + (x - D) (down / sigma - 1) + up e, the squares of down = sigma'^2 / sigma and
 * up add up to sigma'^2: it is cog_dpm.c's without extrapolation.
 *
 * diffusers rounds the alphas to F32 again and again, on each processor in its own way: its sigmas differ by up to 1e-4 of
 * themselves (a share of 3e-6) from those here, which are computed in double. */
#include "solver.h"

static void read(sg_sampler_config *out, sg_config *c)
{
    sg_betas *const b = &out->betas;
    out->flow_shift = 1;
    out->order = 2;
    b->shift = 1;
    b->start = sg_config_real(c, "beta_start", 1e-9, 0.999, &(double){0.0001});
    b->end = sg_config_real(c, "beta_end", 1e-9, 0.999, &(double){0.02});
    b->zero_snr = sg_config_bool(c, "rescale_betas_zero_snr", &(bool){false});
    b->least = 0x1p-24;
    b->linear = sg_config_either(c, "beta_schedule", "linear", "scaled_linear", "linear");
    b->leading = sg_config_either(c, "timestep_spacing", "leading", "trailing", "linspace");
    b->epsilon = sg_config_either(c, "prediction_type", "epsilon", "v_prediction", "epsilon");
    b->offset = (int)sg_config_int(c, "steps_offset", 0, 1000000, &(int64_t){0});
    sg_solver_absent(c, "trained_betas");
}

/* A step ends where the next one starts. */
static sg_status schedule(sg_sampler *p, sg_error *e)
{
    SG_TRY(sg_solver_betas_schedule(p, e));
    p->sigma[p->steps] = 0;
    for (int i = 0; i < p->steps; i++) {
        p->end[i] = p->sigma[i + 1];
        if (!(p->end[i] < p->sigma[i])) /* the last alpha_bar, `least`, is not less than those before */
            return sg_error_set(e, SG_E_ARG,
                                "%d steps: the noise of this model's schedule does not fall at step %d; take "
                                "fewer steps",
                                p->steps, i + 1);
    }
    return SG_OK;
}

static void step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    sg_solver_reverse_sde(p, st, s, i, v, 0.0);
}

const sg_solver sg_solver_euler_ancestral = {.class_name = "EulerAncestralDiscreteScheduler",
                                             .noise = true,
                                             .starts_at_sigma = true,
                                             .read = read,
                                             .schedule = schedule,
                                             .step = step};
