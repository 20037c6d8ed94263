/* few_steps.c - lists of sigmas, and the lists that distilled weights were trained for. */
#include "base/number.h"
#include "sampler.h"

#include <string.h>

sg_status sg_sigmas_check(const sg_sigmas *s, sg_error *e)
{
    if (s->count < 0 || s->count > SG_SIGMAS_MAX)
        return sg_error_set(e, SG_E_ARG, "sigmas: %d of them: 1 to %d are possible", s->count, SG_SIGMAS_MAX);
    for (int i = 0; i < s->count; i++) {
        const double v = s->at[i];
        if (!(v > 0 && v <= 1))
            return sg_error_set(e, SG_E_ARG, "sigmas: %g at place %d is not above 0 and at most 1", v, i + 1);
        if (i && !((float)v < (float)s->at[i - 1]))
            return sg_error_set(e, SG_E_ARG, "sigmas: %g at place %d is not below the %g before it", v, i + 1,
                                s->at[i - 1]);
    }
    return SG_OK;
}

static sg_status read_list(sg_sigmas *out, const char *list, sg_error *e)
{
    for (const char *at = list;; at++) {
        const size_t n = strcspn(at, ",");
        double       v;
        if (!sg_number_real(at, n, -1e300, 1e300, &v))
            return sg_error_set(e, SG_E_ARG, "sigmas: '%.*s' at place %d is not a number", n < 40 ? (int)n : 40, at,
                                out->count + 1);
        const bool end = !at[n];
        if (end && v == 0 && out->count) break;
        if (out->count == SG_SIGMAS_MAX)
            return sg_error_set(e, SG_E_ARG, "sigmas: there are more than %d", SG_SIGMAS_MAX);
        out->at[out->count++] = v;
        if (end) break;
        at += n;
    }
    return sg_sigmas_check(out, e);
}

static void set_sigmas(sg_request *r, const sg_sigmas *s)
{
    _Static_assert(sizeof r->sigmas == sizeof *s, "a request has the same members");
    memcpy(&r->sigmas, s, sizeof *s);
    r->steps = s->count;
}

sg_status sg_sigmas_read(sg_request *r, const char *list, sg_error *e)
{
    sg_sigmas s = {0};
    SG_TRY(read_list(&s, list, e));
    set_sigmas(r, &s);
    return SG_OK;
}

/* ---- presets ---- */

enum { LIGHTX2V, FASTWAN, RCM };

const char *const sg_step_preset_names[] = {[LIGHTX2V] = "lightx2v", [FASTWAN] = "fastwan", [RCM] = "rcm", NULL};

static const struct {
    sg_sampler_kind sampler;
    sg_sigmas       sigmas;
} presets[] = {
    /* 1, 3/4, 1/2, 1/4 under flow shift 5. LightX2V's lightx2v/models/schedulers/wan/step_distill/scheduler.py; also
     * Wan2.2-Lightning, Self-Forcing. */
    [LIGHTX2V] = {SG_SAMPLER_EULER, {4, {1, .9375, 2.5 / 3, .625}}},
    /* FastVideo's dmd_denoising_steps 1000, 757, 522 of FastWan 2.1 and 2.2. */
    [FASTWAN] = {SG_SAMPLER_LCM, {3, {1, .757, .522}}},
    /* tan t / (1 + tan t) with t = atan 80, 1.5, 1.4, 1: NVIDIA's rcm/inference/wan2pt1_t2v_rcm_infer.py. */
    [RCM] = {SG_SAMPLER_LCM, {4, {80. / 81, .933781061416858, .852895394823775, .608979049230431}}},
};

void sg_step_preset_apply(sg_request *r, int preset)
{
    if (preset < 0 || (size_t)preset >= sizeof presets / sizeof *presets) return;
    r->sampler = presets[preset].sampler;
    set_sigmas(r, &presets[preset].sigmas);
    r->cfg_scale = 1;
    r->cfg_scale_2 = -1;
}
