/* sampler.c - the scheduler's configuration, and what the solvers share. */
#include "sampler.h"
#include "base/text.h"

#include "solver.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* By sg_sampler_kind. */
static const sg_solver *const solvers[] = {&sg_solver_unipc,    &sg_solver_flow_euler, &sg_solver_flow_lcm,
                                           &sg_solver_cog_ddim, &sg_solver_cog_dpm,    &sg_solver_euler_ancestral};
enum { SOLVERS = sizeof solvers / sizeof *solvers, NAMES = 256 };

static const sg_solver *solver_of(const sg_sampler_config *c) { return c->solver ? c->solver : solvers[c->kind]; }

/* ---- scheduler_config.json ---- */

static void read_common(sg_config *c, sg_sampler_config *out)
{
    out->train_steps = (int)sg_config_int(c, "num_train_timesteps", 1, 1000000, &(int64_t){1000});
    if (!out->by_tokens.on) sg_config_only_bool(c, "use_dynamic_shifting", false);
    sg_config_only_bool(c, "use_karras_sigmas", false);
    sg_config_only_bool(c, "use_exponential_sigmas", false);
    sg_config_only_bool(c, "use_beta_sigmas", false);
    sg_solver_absent(c, "shift_terminal");
}

static const char *class_of(int kind) { return solvers[kind]->class_name; }
static const char *name_of(int kind) { return sg_names("sampler")[kind]; }

/* "a, b and c are": these kinds by their names. */
static const char *list_kinds(char *out, size_t size, unsigned kinds, const char *(*name)(int))
{
    const char *verb = " is";
    size_t      at = 0;
    for (int i = 0; i < SOLVERS; i++) {
        if (!(kinds >> i & 1)) continue;
        const char *const joint = !at ? "" : kinds >> i == 1 ? " and " : ", ";
        if (at) verb = " are";
        at += (size_t)snprintf(out + at, size - at, "%s%s", joint, name(i));
    }
    snprintf(out + at, size - at, "%s", verb);
    return out;
}

static void read_named(sg_config *c, sg_sampler_config *out)
{
    const char *const name = sg_config_string(c, "_class_name", NULL);
    bool              found = false;
    for (int i = 0; name && i < SOLVERS; i++) {
        if (!(out->kinds >> i & 1) || strcmp(name, solvers[i]->class_name) != 0) continue;
        found = true;
        out->kind = (sg_sampler_kind)i;
        solvers[i]->read(out, c);
    }
    if (name && !found)
        sg_config_fail(c, "_class_name", "\"%s\" is not supported; %s", name,
                       list_kinds((char[NAMES]){0}, NAMES, out->kinds, class_of));
}

static sg_status read(sg_sampler_config *out, const sg_checkpoint *checkpoint, sg_error *e)
{
    sg_config *c = NULL;
    SG_TRY(sg_checkpoint_config(checkpoint, "scheduler", &c, e));
    if (out->solver) {
        sg_config_only(c, "_class_name", out->solver->class_name, NULL);
        out->solver->read(out, c);
    } else {
        read_named(c, out);
    }
    read_common(c, out);
    const sg_status status = sg_config_status(c);
    sg_config_close(&c);
    return status;
}

sg_status sg_sampler_config_read(sg_sampler_config *out, const sg_checkpoint *checkpoint, unsigned kinds, sg_error *e)
{
    *out = (sg_sampler_config){.kinds = kinds};
    return read(out, checkpoint, e);
}

sg_status sg_sampler_config_read_own(sg_sampler_config *out, const sg_checkpoint *checkpoint, const sg_solver *own,
                                     sg_error *e)
{
    *out = (sg_sampler_config){.solver = own, .kind = SG_SAMPLER_EULER, .kinds = 1 << SG_SAMPLER_EULER};
    return read(out, checkpoint, e);
}

/* ---- a run ---- */

static sg_status take_list(sg_sampler *p, sg_error *e)
{
    const sg_sigmas *const list = &p->config.sigmas;
    if (!solver_of(&p->config)->list)
        return sg_error_set(e, SG_E_ARG, "sigmas: %s takes no list%s", name_of((int)p->config.kind),
                            sg_sampler_flows(p->config.kind) ? "; euler and lcm do" : "");
    if (list->count != p->steps)
        return sg_error_set(e, SG_E_ARG, "sigmas: %d in the list, but %d step%s", list->count, p->steps,
                            sg_plural(p->steps));
    SG_TRY(sg_sigmas_check(list, e));
    for (int i = 0; i < p->steps; i++) sg_solver_set(p, i, (float)list->at[i]);
    return SG_OK;
}

/* Beyond the second point the line goes on, as in diffusers. */
static double shift_of_tokens(const sg_token_shift *t, int64_t tokens)
{
    const double rise = (t->mu[1] - t->mu[0]) / (t->tokens[1] - t->tokens[0]);
    return exp((double)tokens * rise + (t->mu[0] - rise * t->tokens[0]));
}

sg_status sg_sampler_init(sg_sampler *out, const sg_sampler_config *c, int steps, sg_error *e)
{
    *out = (sg_sampler){.config = *c, .steps = steps};
    if (steps < 1 || steps > SG_STEPS_MAX)
        return sg_error_set(e, SG_E_ARG, "%d step%s: 1 to %d are possible", steps, sg_plural(steps), SG_STEPS_MAX);
    SG_TRY(sg_choice_check("sampler", (int)c->kind, SOLVERS, e));
    if (!(c->kinds >> c->kind & 1))
        return sg_error_set(e, SG_E_ARG, "sampler: %s is not for this model; %s", name_of((int)c->kind),
                            list_kinds((char[NAMES]){0}, NAMES, c->kinds, name_of));
    if (c->by_tokens.on && c->flow_shift == 0.0) out->config.flow_shift = shift_of_tokens(&c->by_tokens, c->tokens);
    if (!(out->config.flow_shift > 0.0) || !isfinite(out->config.flow_shift))
        return sg_error_set(e, SG_E_ARG, "a flow shift of %g: it must be above 0", out->config.flow_shift);
    return c->sigmas.count ? take_list(out, e) : solver_of(c)->schedule(out, e);
}

/* As diffusers' pipelines have it, each in its order of roundings. */
int sg_steps_of_strength(int steps, double strength, bool image)
{
    const double done = steps * strength;
    if (!(done < steps)) return steps;
    return image ? steps - (int)(steps - done) : (int)done;
}

const uint8_t *sg_request_start(const sg_request *r) { return r->start_image ? r->start_image : r->start_video; }

int sg_request_steps(const sg_request *r)
{
    return sg_request_start(r) ? sg_steps_of_strength(r->steps, r->strength, r->start_image) : r->steps;
}

void sg_sampler_skip(sg_sampler *p, int first)
{
    p->steps -= first;
    memmove(p->sigma, p->sigma + first, (size_t)(p->steps + 1) * sizeof *p->sigma);
    memmove(p->end, p->end + first, (size_t)p->steps * sizeof *p->end);
    memmove(p->timestep, p->timestep + first, (size_t)p->steps * sizeof *p->timestep);
}

double sg_sampler_of_1000(const sg_sampler *p, int i)
{
    const double t = 1000 * p->timestep[i] / p->config.train_steps;
    return solver_of(&p->config)->rises ? 1000 - t : t;
}

sg_sampler_state sg_sampler_state_new(const sg_sampler *p, sg_stream *s, const int64_t shape[4])
{
    sg_sampler_state st = {0};
    sg_tensor *const all[] = {&st.x, &st.last, &st.spare, &st.m[0], &st.m[1], &st.m[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = sg_alloc(s, &s->keep, SG_F32, 4, shape);
    if (solver_of(&p->config)->noise) st.noise = sg_alloc(s, &s->keep, SG_F32, 4, shape);
    return st;
}

void sg_sampler_begin(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, sg_tensor clean)
{
    const double     sigma = p->sigma[0];
    const sg_mixture m = sg_sampler_flows(p->config.kind) ? (sg_mixture){1 - sigma, sigma} : sg_mixture_at(sigma);
    if (!clean.rank && (!solver_of(&p->config)->starts_at_sigma || p->config.betas.leading)) return;
    sg_copy(s, .y = st->last, .x = st->x);
    sg_combine(s, .y = st->x, .x = {st->last, clean}, .a = {(float)m.noise, (float)m.clean},
               .count = clean.rank ? 2 : 1);
}

int sg_sampler_draws(const sg_sampler *p, int i)
{
    const sg_solver *const solver = solver_of(&p->config);
    return solver->draws ? solver->draws(p, i) : solver->noise;
}

void sg_sampler_clean(const sg_sampler *p, int i, double a[2])
{
    a[0] = 1;
    a[1] = solver_of(&p->config)->rises ? p->sigma[i] : -p->sigma[i];
    if (!sg_sampler_flows(p->config.kind)) sg_solver_betas_clean(p, i, a);
}

void sg_sampler_smooth(const sg_sampler *p, int i, double a[2])
{
    a[0] = 0;
    a[1] = 1;
    if (solver_of(&p->config)->noise) sg_sampler_clean(p, i, a);
}

/* With betas v is what rotates clean sample and noise into each other: the difference of noise and clean sample, which flow
 * matching predicts, changes clean + noise times as much as v does. A change of the
 * noise is one of v that is 1 / clean as large. */
double sg_sampler_weight(const sg_sampler *p, int i)
{
    const sg_mixture m = sg_mixture_at(p->sigma[i]);
    const double     scale = (m.clean + m.noise) / (p->config.betas.epsilon ? m.clean : 1);
    return fabs(p->sigma[i] - p->sigma[i + 1]) * (sg_sampler_flows(p->config.kind) ? 1 : scale);
}

void sg_sampler_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v)
{
    solver_of(&p->config)->step(p, st, s, i, v);
}
