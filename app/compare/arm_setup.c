/* arm_setup.c - see arm_setup.h. */
#include "arm_setup.h"
#include "interrupt.h"
#include "notices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

sg_status sg_arms_size(sg_request *r, sg_engine *engine, const sg_settings *s, sg_error *e)
{
    sg_request usual = sg_engine_defaults(engine), twice = usual;
    sg_error   why = {0};
    sg_plan    plan;
    if (s->size[0] && s->size[1]) return SG_OK;
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
    if (!s->size[0]) r->width = usual.width;
    if (!s->size[1]) r->height = usual.height;
    return SG_OK;
}

void sg_arm_apply(const sg_arm_result *r, sg_request *request)
{
    request->attention = r->policy;
    request->cache = r->cache;
    request->steps = r->asked;
    request->guidance = r->guidance;
    request->slg_scale = r->slg_scale;
}

sg_status sg_arm_setup(sg_arm_result *r, sg_plan *plan, sg_engine *engine, const sg_request *shared, sg_error *e)
{
    const sg_model_info info = sg_engine_info(engine);
    sg_request          request = *shared;
    sg_error            why = {0};
    r->policy = shared->attention;
    r->cache = shared->cache;
    r->asked = r->arm->settings.steps ? r->arm->settings.steps : shared->steps;
    r->slg_scale = isnan(r->arm->settings.slg_scale) ? shared->slg_scale : r->arm->settings.slg_scale;
    r->guidance = isnan(r->arm->settings.guidance) ? shared->guidance : r->arm->settings.guidance;
    sg_status status = sg_setup_attention(&r->policy, &r->files, &r->arm->settings, &why);
    if (r->arm->settings.cache) r->cache = (sg_cache)sg_setup_place(r->arm->settings.cache, sg_cache_names);
    sg_arm_apply(r, &request);
    r->steps = sg_request_steps(&request);
    if (status == SG_OK) status = sg_engine_check_request(engine, &request, &why);
    if (status == SG_OK) status = sg_engine_plan(engine, &request, plan, &why);
    if (status == SG_OK)
        status = sg_attention_predict_runs(&r->forecast, &r->policy, &info, plan->tokens, r->steps, &why);
    return status == SG_OK ? SG_OK : sg_error_set(e, status, "--arms: '%s': %s", r->arm->name, why.text);
}

/* ---- arms that come to the same ---- */

static bool same_floats(const float *a, const float *b, int count)
{
    return memcmp(a, b, (size_t)count * sizeof *a) == 0;
}

static bool same_tuned(const sg_thresholds *a, const sg_thresholds *b)
{
    const int count = a->buckets * a->layers * a->heads;
    if (a->rule != b->rule || a->buckets != b->buckets || a->layers != b->layers || a->heads != b->heads) return false;
    return same_floats(a->from, b->from, a->buckets) && same_floats(a->amount, b->amount, count) &&
           same_floats(a->theta, b->theta, count) && same_floats(a->pv_threshold, b->pv_threshold, count);
}

/* Which blocks a policy keeps where it is sparse; thresholds take the place of the rest. */
static bool same_rule(const sg_policy *a, const sg_policy *b)
{
    if (!a->tuned != !b->tuned) return false;
    if (a->tuned) return same_tuned(a->tuned, b->tuned);
    if (a->rule != b->rule || a->theta != b->theta || a->pv_threshold != b->pv_threshold || a->heads != b->heads)
        return false;
    if (a->rule != SG_SELECT_GIVEN) return a->amount == b->amount;
    return memcmp(a->mask.dim, b->mask.dim, sizeof a->mask.dim) == 0 &&
           memcmp(a->mask.data, b->mask.data, sg_bytes(a->mask)) == 0;
}

/* Where both are of this kind. */
static bool same_work(sg_attention_kind kind, const sg_policy *a, const sg_policy *b)
{
    if (kind == SG_ATTENTION_DENSE) return true;
    if (a->pv_dtype != b->pv_dtype) return false;
    if (kind == SG_ATTENTION_SAGE) return true;
    return same_rule(a, b) && a->sink == b->sink && a->causal == b->causal && a->score == b->score &&
           a->tail == b->tail && (!a->tail || a->tail_bias == b->tail_bias) && a->order == b->order;
}

static bool same_throughout(const sg_attention *const bound[2], const sg_policy *a, const sg_policy *b, int layers,
                            int steps)
{
    for (int i = 0; i < steps; i++)
        for (int l = 0; l < layers; l++) {
            const sg_attention_kind kind = sg_attention_kind_of(bound[0], l, i, NULL);
            if (sg_attention_kind_of(bound[1], l, i, NULL) != kind || !same_work(kind, a, b)) return false;
        }
    return true;
}

static sg_status bind_kinds(sg_attention **out, const sg_arm_result *r, const sg_model_info *info, const sg_plan *plan,
                            sg_error *e)
{
    return sg_attention_bind_kinds(out, &r->policy, info, plan->tokens, plan->layers, r->steps, e);
}

sg_status sg_arms_would_be_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b,
                                const sg_model_info *info, const sg_plan *plan, sg_error *e)
{
    const sg_arm_result *const more = b->policy.kind >= a->policy.kind ? b : a; /* its forecast says why */
    sg_attention              *bound[2] = {0};
    *why = '\0';
    if (a->steps != b->steps || a->guidance != b->guidance || a->slg_scale != b->slg_scale ||
        (a->cache != b->cache && a->steps >= SG_CACHE_STEPS_MIN))
        return SG_OK;
    sg_status status = bind_kinds(&bound[0], a, info, plan, e);
    if (status == SG_OK) status = bind_kinds(&bound[1], b, info, plan, e);
    if (status == SG_OK &&
        same_throughout((const sg_attention *const *)bound, &a->policy, &b->policy, plan->layers, a->steps))
        sg_attention_forecast_text(why, size, &more->policy, &more->forecast, plan->tokens);
    for (int i = 0; i < 2; i++) sg_attention_close(&bound[i]);
    return status;
}

void sg_arms_say(sg_progress *p, const sg_arm_result *r, int count, const sg_request *shared, int64_t tokens,
                 const sg_model_path *model)
{
    for (const sg_arm_result *a = r; a < r + count; a++) {
        sg_request request = *shared;
        char       text[512];
        sg_arm_apply(a, &request);
        sg_attention_forecast_text(text, sizeof text, &a->policy, &a->forecast, tokens);
        sg_progress_say(p, "%s: %s", a->arm->name, text);
        if (*sg_setup_warning(text, sizeof text, &a->policy, &a->files, model))
            sg_progress_say(p, "%s: %s", a->arm->name, text);
        sg_notice_cache(p, &request, a->arm->name, model);
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
