/* arm_setup.c - see arm_setup.h. */
#include "arm_setup.h"
#include "interrupt.h"
#include "notices.h"
#include "option_rules.h"
#include "settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sg_status sg_arms_size(sg_rendering *r, sg_engine *engine, const sg_settings *asked, sg_error *e)
{
    sg_request usual = sg_engine_defaults(engine), twice = usual;
    sg_error   why = {0};
    sg_plan    plan;
    if (asked->size[0] && asked->size[1]) return SG_OK;
    for (;;) {
        SG_TRY(sg_engine_plan(engine, &usual, &plan, e));
        if (plan.tokens >= SG_TOKENS || usual.width > SG_IMAGE_MAX_SIDE / 4 || usual.height > SG_IMAGE_MAX_SIDE / 4)
            break;
        twice.width *= 2;
        twice.height *= 2;
        if (sg_engine_check_request(engine, &twice, &why))
            break; /* a model may know the places of a smaller one only */
        usual = twice;
    }
    if (!asked->size[0]) r->settings.size[0] = r->request.width = usual.width;
    if (!asked->size[1]) r->settings.size[1] = r->request.height = usual.height;
    return SG_OK;
}

static sg_status setup(sg_arm_result *r, sg_session *x, const sg_rendering *shared, sg_error *e)
{
    sg_rendering *const now = &r->now;
    now->settings = r->arm->settings;
    sg_settings_take(&now->settings, &shared->settings, SG_OPTION_INPUT);
    now->settings.arms = NULL;
    now->settings.strength = NAN; /* which shared's request has, and an entry of a set may have */
    SG_TRY(sg_resolve(now, x->engine, e));
    now->settings.strength = shared->settings.strength;
    sg_settings_take(&now->settings, &shared->settings, SG_OPTION_LOAD);
    sg_rendering_request(&now->request, &shared->request, now);
    SG_TRY(sg_engine_check_request(x->engine, &now->request, e));
    SG_TRY(sg_rendering_plan(now, x->engine, e));
    r->steps = now->forecast.steps;
    return SG_OK;
}

sg_status sg_arm_setup(sg_arm_result *r, sg_session *x, const sg_rendering *shared, sg_error *e)
{
    sg_error        why = {0};
    const sg_status status = setup(r, x, shared, &why);
    return status == SG_OK ? SG_OK : sg_error_set(e, status, "--arms: '%s': %s", r->arm->name, why.text);
}

void sg_arms_would_be_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b)
{
    const sg_rendering *const more = b->now.request.attention.kind >= a->now.request.attention.kind ? &b->now : &a->now;
    sg_settings               of[2] = {sg_rendering_kept(&a->now), sg_rendering_kept(&b->now)};
    for (int i = 0; i < 2; i++) {
        const sg_rendering *const r = i ? &b->now : &a->now;
        if (!isnan(of[i].dense_steps))
            of[i].dense_steps = sg_policy_dense_steps(&r->request.attention, r->forecast.steps);
        sg_settings_drop_idle(&of[i], SG_OPTION_RENDER);
    }
    *why = '\0';
    if (!sg_settings_difference(&of[0], &of[1],
                                SG_OPTION_RENDER)) /* the one that asks for more tells why it is the same */
        sg_attention_forecast_text(why, size, &more->request.attention, &more->forecast, more->plan.tokens);
}

void sg_arms_say(sg_session *x, const sg_arm_result *r, int count)
{
    for (const sg_arm_result *a = r; a < r + count; a++) {
        char text[512];
        sg_attention_forecast_text(text, sizeof text, &a->now.request.attention, &a->now.forecast, a->now.plan.tokens);
        sg_progress_say(&x->progress, "%s: %s", a->arm->name, text);
        if (*sg_doubt_thresholds(text, sizeof text, &a->now, &x->model))
            sg_progress_say(&x->progress, "%s: %s", a->arm->name, text);
        sg_notice_cache(&x->progress, &a->now.request, a->arm->name, &x->model);
    }
}

/* ---- warming up ---- */

typedef struct warming {
    sg_progress *progress;
    bool         warm; /* enough was done */
} warming;

static int on_warm_up(void *context, sg_stage stage, int done, int total)
{
    warming *const w = context;
    sg_progress_update(w->progress, stage, done, total);
    w->warm = stage == SG_STAGE_DECODE && done > 0;
    return w->warm || sg_interrupt_asked();
}

sg_status sg_arms_warm_up(sg_report *out, sg_engine *engine, const sg_request *r, sg_progress *p, sg_error *e)
{
    warming            w = {.progress = p};
    const sg_callbacks callbacks = {.context = &w, .progress = on_warm_up};
    sg_request         request = *r;
    sg_error           why = {0};
    request.sigmas.count = 0; /* a list has more */
    request.slg_scale = 0;    /* which is for later steps */
    request.strength = 1;     /* of a part of so few steps none may be left */
    request.steps = 1;
    if (sg_engine_check_request(engine, &request, &why)) request.steps = 2; /* a schedule may begin with two */
    why = (sg_error){0};
    sg_progress_say(p, "warming up: a step and a latent frame that count for no arm");
    sg_progress_render(p, 0, 0, NULL);
    const sg_status status = sg_engine_render(engine, &request, &callbacks, out, &why);
    sg_progress_clear(p);
    if (status == SG_OK || (status == SG_E_CANCELLED && w.warm && !sg_interrupt_asked())) return SG_OK;
    return sg_error_set(e, status, "%s", why.text);
}

sg_status sg_arm_keep_counts(sg_arm_result *r, const sg_engine *engine, sg_error *e)
{
    const sg_attention_count *const from = sg_engine_attention(engine, &r->steps, &r->passes, &r->layers);
    const size_t                    count = (size_t)r->steps * (size_t)r->passes * (size_t)r->layers;
    free(r->count);
    r->count = malloc(count * sizeof *r->count);
    if (!r->count) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    memcpy(r->count, from, count * sizeof *r->count);
    return SG_OK;
}
