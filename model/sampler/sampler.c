/* sampler.c - the scheduler's configuration, and what the solvers share. */
#include "sampler.h"

#include "solver.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- scheduler_config.json ---- */

/* For a switch that diffusers has off unless told otherwise. */
static void must_be_off(sg_config *c, const char *key)
{
    if (sg_config_bool(c, key, &(bool){false})) sg_config_fail(c, key, "true is not supported");
}

static void must_be_absent(sg_config *c, const char *key)
{
    if (sg_config_has(c, key)) sg_config_fail(c, key, "is not supported; only null is");
}

static void must_say(sg_config *c, const char *key, const char *wanted, const char *fallback)
{
    const char *const found = sg_config_string(c, key, fallback);
    if (found && strcmp(found, wanted))
        sg_config_fail(c, key, "\"%s\" is not supported; only \"%s\" is", found, wanted);
}

static double shift_of(sg_config *c, const char *key) { return sg_config_real(c, key, 1e-3, 1e3, &(double){1.0}); }

static void read_common(sg_config *c, sg_sampler_config *out)
{
    out->train_steps = (int)sg_config_int(c, "num_train_timesteps", 1, 1000000, &(int64_t){1000});
    must_be_off(c, "use_dynamic_shifting");
    must_be_off(c, "use_karras_sigmas");
    must_be_off(c, "use_exponential_sigmas");
    must_be_off(c, "use_beta_sigmas");
    must_be_absent(c, "shift_terminal");
}

/* diffusers takes the names of DPMSolver's solver types for bh2. */
static void read_solver_type(sg_config *c)
{
    static const char *const same[] = {"bh2", "midpoint", "heun", "logrho"};
    const char *const        found = sg_config_string(c, "solver_type", "bh2");
    for (size_t i = 0; found && i < sizeof same / sizeof *same; i++)
        if (!strcmp(found, same[i])) return;
    if (found) sg_config_fail(c, "solver_type", "\"%s\" is not supported; only \"bh2\" is", found);
}

static void read_unipc(sg_config *c, sg_sampler_config *out)
{
    int64_t never[64];
    out->kind = SG_SAMPLER_UNIPC;
    out->flow_shift = shift_of(c, "flow_shift");
    out->order = (int)sg_config_int(c, "solver_order", 1, 2, &(int64_t){2});
    must_say(c, "prediction_type", "flow_prediction", "epsilon");
    if (!sg_config_bool(c, "use_flow_sigmas", &(bool){false})) sg_config_fail(c, "use_flow_sigmas", "must be true");
    if (!sg_config_bool(c, "predict_x0", &(bool){true})) sg_config_fail(c, "predict_x0", "false is not supported");
    read_solver_type(c);
    must_say(c, "final_sigmas_type", "zero", "zero");
    if (!sg_config_bool(c, "lower_order_final", &(bool){true}) && out->order > 1)
        sg_config_fail(c, "lower_order_final", "false is not supported: the last step of order 2 would be infinite");
    if (sg_config_ints(c, "disable_corrector", INT64_MIN, INT64_MAX, never, 0, 64))
        sg_config_fail(c, "disable_corrector", "is not supported; only an empty list is");
    must_be_absent(c, "solver_p");
    must_be_off(c, "thresholding");
}

static void read_flow_euler(sg_config *c, sg_sampler_config *out)
{
    out->kind = SG_SAMPLER_EULER;
    out->flow_shift = shift_of(c, "shift");
    out->order = 2;
    must_be_off(c, "invert_sigmas");
    must_be_off(c, "stochastic_sampling");
}

sg_status sg_sampler_config_read(sg_sampler_config *out, const char *model_dir, sg_error *e)
{
    static const char unipc[] = "UniPCMultistepScheduler", euler[] = "FlowMatchEulerDiscreteScheduler";
    char              path[1024];
    sg_config        *c = NULL;
    *out = (sg_sampler_config){0};
    const int length = snprintf(path, sizeof path, "%s/scheduler/scheduler_config.json", model_dir);
    if (length < 0 || (size_t)length >= sizeof path)
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", model_dir);
    SG_TRY(sg_config_open(&c, path, e));
    const char *const name = sg_config_string(c, "_class_name", NULL);
    if (name && !strcmp(name, unipc))
        read_unipc(c, out);
    else if (name && !strcmp(name, euler))
        read_flow_euler(c, out);
    else if (name)
        sg_config_fail(c, "_class_name", "\"%s\" is not supported; %s and %s are", name, unipc, euler);
    read_common(c, out);
    const sg_status status = sg_config_status(c);
    sg_config_close(&c);
    return status;
}

/* ---- a run ---- */

/* UniPC divides by differences of ln(1 - sigma) - ln(sigma). */
static bool falls(const sg_sampler *p)
{
    for (int i = 0; i < p->steps; i++)
        if (!(p->sigma[i] < 1.0 && p->sigma[i] > p->sigma[i + 1])) return false;
    return true;
}

sg_status sg_sampler_init(sg_sampler *out, const sg_sampler_config *c, int steps, bool sigmas_old, sg_error *e)
{
    *out = (sg_sampler){.config = *c, .steps = steps};
    if (steps < 1 || steps > SG_STEPS_MAX)
        return sg_error_set(e, SG_E_ARG, "%d steps: 1 to %d are possible", steps, SG_STEPS_MAX);
    if (!(c->flow_shift > 0.0) || !isfinite(c->flow_shift))
        return sg_error_set(e, SG_E_ARG, "a flow shift of %g: it must be above 0", c->flow_shift);
    if (c->kind == SG_SAMPLER_EULER) {
        sg_flow_euler_sigmas(out);
        return SG_OK;
    }
    sg_unipc_sigmas(out, sigmas_old);
    if (!falls(out))
        return sg_error_set(e, SG_E_ARG, "a flow shift of %g over %d steps makes neighbouring sigmas equal",
                            c->flow_shift, steps);
    return SG_OK;
}

sg_sampler_state sg_sampler_state_new(sg_stream *s, const int64_t shape[4])
{
    sg_sampler_state st = {0};
    sg_tensor *const all[] = {&st.x, &st.last, &st.spare, &st.m[0], &st.m[1], &st.m[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = sg_alloc(s, &s->keep, SG_F32, 4, shape);
    return st;
}

void sg_sampler_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    if (p->config.kind == SG_SAMPLER_EULER)
        sg_flow_euler_step(p, st, s, i, v);
    else
        sg_unipc_step(p, st, s, i, v);
}
