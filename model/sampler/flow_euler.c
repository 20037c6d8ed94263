/* flow_euler.c - FlowMatchEulerDiscreteScheduler of diffusers: x += (sigma[i + 1] - sigma[i]) v. */
#include "solver.h"

static void read(sg_sampler_config *out, sg_config *c)
{
    sg_solver_flow_read(out, c);
    sg_config_only_bool(c, "stochastic_sampling", false);
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
static sg_status even(sg_sampler *p, sg_error *e)
{
    const double pace = -1.0 / p->steps;
    (void)e;
    for (int i = 0; i < p->steps; i++) sg_solver_set(p, i, sg_solver_shifted(&p->config, (float)(i * pace + 1.0)));
    return SG_OK;
}

const sg_solver sg_solver_flow_even = {
    .class_name = "FlowMatchEulerDiscreteScheduler", .list = true, .read = read, .schedule = even, .step = step};

static void read_tokens(sg_sampler_config *out, sg_config *c)
{
    sg_token_shift *const t = &out->by_tokens;
    read(out, c);
    t->on = sg_config_bool(c, "use_dynamic_shifting", &(bool){false});
    if (!t->on) return;
    out->flow_shift = 0;
    t->tokens[0] = (double)sg_config_int(c, "base_image_seq_len", 1, 1 << 30, &(int64_t){256});
    t->tokens[1] = (double)sg_config_int(c, "max_image_seq_len", 1, 1 << 30, &(int64_t){4096});
    t->mu[0] = sg_config_real(c, "base_shift", -16, 16, &(double){0.5});
    t->mu[1] = sg_config_real(c, "max_shift", -16, 16, &(double){1.15});
    if (t->tokens[0] == t->tokens[1])
        sg_config_fail(c, "max_image_seq_len", "%.0f is base_image_seq_len, too: two points of a line differ",
                       t->tokens[1]);
    sg_config_only(c, "time_shift_type", "exponential", "exponential");
}

/* numpy's linspace from 1 to 1/N, in F32 from there on. A shift that goes by tokens stands in another formula. */
static sg_status flux(sg_sampler *p, sg_error *e)
{
    const double last = 1.0 / p->steps, pace = p->steps > 1 ? (last - 1.0) / (p->steps - 1) : 0.0;
    const float  shift = (float)p->config.flow_shift;
    (void)e;
    for (int i = 0; i < p->steps; i++) {
        const float s = (float)(i > 0 && i == p->steps - 1 ? last : i * pace + 1.0);
        sg_solver_set(p, i,
                      p->config.by_tokens.on ? shift / (shift + (1.0f / s - 1.0f)) : sg_solver_shifted(&p->config, s));
    }
    return SG_OK;
}

const sg_solver sg_solver_flow_flux = {
    .class_name = "FlowMatchEulerDiscreteScheduler", .list = true, .read = read_tokens, .schedule = flux, .step = step};
