/* eval_summary.c - see eval_summary.h. */
#include "eval_summary.h"
#include "speedup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const sg_eval_measure_name[SG_EVAL_MEASURES] = {
    [SG_EVAL_PSNR] = "psnr",
    [SG_EVAL_PSNR_MINIMUM] = "psnr_minimum",
    [SG_EVAL_PSNR_P5] = "psnr_p5",
    [SG_EVAL_SSIM] = "ssim",
    [SG_EVAL_SSIM_MINIMUM] = "ssim_minimum",
    [SG_EVAL_SSIM_P5] = "ssim_p5",
    [SG_EVAL_MS_SSIM] = "ms_ssim",
    [SG_EVAL_MS_SSIM_MINIMUM] = "ms_ssim_minimum",
    [SG_EVAL_MS_SSIM_P5] = "ms_ssim_p5",
    [SG_EVAL_FLICKER] = "flicker",
    [SG_EVAL_SHARPNESS] = "sharpness",
    [SG_EVAL_CLIPSIM] = "clipsim",
    [SG_EVAL_CLIP_T] = "clip_t",
    [SG_EVAL_CLIP_SCORE] = "clip_score",
    [SG_EVAL_SECONDS] = "seconds",
    [SG_EVAL_DENOISER_SECONDS] = "denoiser_seconds",
    [SG_EVAL_SPARSITY] = "sparsity",
    [SG_EVAL_STEPS_COMPUTED] = "steps_computed",
    [SG_EVAL_FLICKER_CHANGE] = "flicker_change",
    [SG_EVAL_SHARPNESS_CHANGE] = "sharpness_change",
    [SG_EVAL_CLIPSIM_CHANGE] = "clipsim_change",
    [SG_EVAL_CLIP_T_CHANGE] = "clip_t_change",
    [SG_EVAL_CLIP_SCORE_CHANGE] = "clip_score_change",
    [SG_EVAL_SECONDS_CHANGE] = "seconds_change",
    [SG_EVAL_DENOISER_SECONDS_CHANGE] = "denoiser_seconds_change",
    [SG_EVAL_SPEEDUP] = "speedup",
    [SG_EVAL_DENOISER_SPEEDUP] = "denoiser_speedup",
};

bool sg_eval_measure_has_interval(sg_eval_measure m)
{
    return m == SG_EVAL_PSNR || m == SG_EVAL_SSIM || m == SG_EVAL_MS_SSIM || m >= SG_EVAL_FLICKER_CHANGE;
}

/* ---- one clip ---- */

double sg_eval_clip_seconds(const sg_eval_clip *c)
{
    const double text = isnan(c->text_seconds) ? 0 : c->text_seconds, encoder = isnan(c->encoder) ? 0 : c->encoder;
    return c->whole - text - encoder;
}

/* Seconds that are no denoising, a mean of both; 0 where what they are made of is unknown. */
static double rest(const sg_eval_clip *c, const sg_eval_clip *first)
{
    const double v = (sg_eval_clip_seconds(c) - c->denoiser + sg_eval_clip_seconds(first) - first->denoiser) / 2;
    return v > 0 ? v : 0;
}

/* What a clip took that the other arm may not have taken. */
static double own(const sg_eval_clip *c, const sg_eval_clip *first)
{
    return isnan(c->denoiser) || isnan(first->denoiser) ? sg_eval_clip_seconds(c) : c->denoiser;
}

static double log_ratio(double a, double b) { return a > 0 && b > 0 ? log(a / b) : NAN; }

/* first: the same clip of the first arm, or NULL. NAN: unknown. */
static double value(sg_eval_measure m, const sg_eval_clip *c, const sg_eval_clip *first)
{
    if (m >= SG_EVAL_FLICKER_CHANGE && !first) return NAN;
    switch (m) {
    case SG_EVAL_PSNR: return c->psnr.mean;
    case SG_EVAL_PSNR_MINIMUM: return c->psnr.minimum;
    case SG_EVAL_PSNR_P5: return c->psnr.p5;
    case SG_EVAL_SSIM: return c->ssim.mean;
    case SG_EVAL_SSIM_MINIMUM: return c->ssim.minimum;
    case SG_EVAL_SSIM_P5: return c->ssim.p5;
    case SG_EVAL_MS_SSIM: return c->ms_ssim.mean;
    case SG_EVAL_MS_SSIM_MINIMUM: return c->ms_ssim.minimum;
    case SG_EVAL_MS_SSIM_P5: return c->ms_ssim.p5;
    case SG_EVAL_FLICKER: return c->flicker;
    case SG_EVAL_SHARPNESS: return c->sharpness;
    case SG_EVAL_CLIPSIM: return c->clipsim;
    case SG_EVAL_CLIP_T: return c->clip_t;
    case SG_EVAL_CLIP_SCORE: return c->clip_score;
    case SG_EVAL_SECONDS: return sg_eval_clip_seconds(c);
    case SG_EVAL_DENOISER_SECONDS: return c->denoiser;
    case SG_EVAL_SPARSITY: return 1 - c->kept;
    case SG_EVAL_STEPS_COMPUTED: return c->computed < 0 ? (double)NAN : c->computed;
    case SG_EVAL_FLICKER_CHANGE: return c->flicker - first->flicker;
    case SG_EVAL_SHARPNESS_CHANGE: return c->sharpness - first->sharpness;
    case SG_EVAL_CLIPSIM_CHANGE: return c->clipsim - first->clipsim;
    case SG_EVAL_CLIP_T_CHANGE: return c->clip_t - first->clip_t;
    case SG_EVAL_CLIP_SCORE_CHANGE: return c->clip_score - first->clip_score;
    case SG_EVAL_SECONDS_CHANGE: return own(c, first) - own(first, c);
    case SG_EVAL_DENOISER_SECONDS_CHANGE: return c->denoiser - first->denoiser;
    case SG_EVAL_SPEEDUP: return log_ratio(own(first, c) + rest(c, first), own(c, first) + rest(c, first));
    case SG_EVAL_DENOISER_SPEEDUP: return log_ratio(first->denoiser, c->denoiser);
    default: return NAN;
    }
}

/* ---- one row ---- */

typedef struct sums {
    sg_running over[SG_EVAL_MEASURES];     /* the prompts */
    double     sum[SG_EVAL_MEASURES];      /* over the clips of one prompt */
    int        count[SG_EVAL_MEASURES];    /* of these */
    bool       infinite[SG_EVAL_MEASURES]; /* some were left out */
} sums;

static void take_prompt(sums *of)
{
    for (int m = 0; m < SG_EVAL_MEASURES; m++) {
        if (of->count[m]) sg_running_add(&of->over[m], of->sum[m] / of->count[m]);
        of->sum[m] = of->count[m] = 0;
    }
}

static void take_clip(sg_eval_row *row, sums *of, const sg_eval_clip *c, const sg_eval_clip *first)
{
    for (int m = 0; m < SG_EVAL_MEASURES; m++) {
        const double v = value((sg_eval_measure)m, c, first);
        if (isnan(v)) continue;
        of->infinite[m] |= isinf(v) != 0;
        if (isinf(v)) continue;
        of->sum[m] += v;
        of->count[m]++;
    }
    row->done++;
    row->paired += first != NULL;
    row->identical += isinf(c->psnr.mean) && c->psnr.mean > 0;
    row->black += c->black > 0;
    row->frozen += c->frozen > 0;
    row->non_finite += c->non_finite > 0;
}

/* The same clip of the first arm, which lies before it in the results, if that is done. */
static const sg_eval_clip *same_of_first(const sg_eval_results *r, const sg_eval_clip *c)
{
    const int                 at = c->arm ? sg_eval_results_find(r, c->prompt, c->clip, 0) : -1;
    const sg_eval_clip *const first = at < 0 ? NULL : &r->clip[at];
    return first && first->done ? first : NULL;
}

static void fill_row(const sg_eval_summary *s, const sg_eval_results *r, int arm, int group)
{
    sg_eval_row *const row = &s->row[arm * s->groups + group];
    sums               of = {0};
    int                prompt = -1; /* of the last clip that was done */
    for (int i = 0; i < r->count; i++) {
        const sg_eval_clip *const c = &r->clip[i];
        if (c->arm != arm || !s->in[(size_t)i * (size_t)s->groups + (size_t)group]) continue;
        row->failed += !c->done;
        if (!c->done) continue;
        if (c->prompt != prompt) {
            take_prompt(&of);
            row->prompts++;
        }
        prompt = c->prompt;
        take_clip(row, &of, c, same_of_first(r, c));
    }
    take_prompt(&of);
    for (int m = 0; m < SG_EVAL_MEASURES; m++) {
        sg_interval *const v = &row->measure[m];
        *v = sg_running_interval(&of.over[m]);
        if (m == SG_EVAL_SSIM || m == SG_EVAL_MS_SSIM) *v = sg_interval_bounded(*v);
        if (of.infinite[m] && !of.over[m].count) v->mean = INFINITY;
        if (m >= SG_EVAL_SPEEDUP) *v = sg_speedup_clear((sg_interval){exp(v->mean), exp(v->low), exp(v->high)});
    }
}

/* ---- all ---- */

static sg_status list_groups(sg_eval_summary *s, const sg_eval_results *r, sg_error *e)
{
    s->group[s->groups++] = "all";
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < r->clip[i].groups; k++) {
            const char *const name = r->clip[i].group[k];
            int               at = 1;
            while (at < s->groups && strcmp(s->group[at], name) != 0) at++;
            if (at < s->groups) continue;
            if (s->groups > SG_EVAL_GROUPS)
                return sg_error_set(e, SG_E_FORMAT, "%s: line %d: groups: more than %d in all",
                                    r->source[r->clip[i].source], r->clip[i].line, SG_EVAL_GROUPS);
            s->group[s->groups++] = name;
        }
    return SG_OK;
}

static void mark_groups(bool *in, const sg_eval_summary *s, const sg_eval_clip *c)
{
    in[0] = true;
    for (int k = 0; k < c->groups; k++)
        for (int g = 1; g < s->groups; g++) in[g] |= strcmp(s->group[g], c->group[k]) == 0;
}

sg_status sg_eval_summary_make(sg_eval_summary *out, const sg_eval_results *r, int arms, sg_error *e)
{
    sg_eval_summary *const s = out;
    *s = (sg_eval_summary){.arms = arms};
    SG_TRY(list_groups(s, r, e));
    s->row = calloc((size_t)arms * (size_t)s->groups, sizeof *s->row);
    s->in = calloc((size_t)r->count + 1, (size_t)s->groups * sizeof *s->in);
    if (!s->row || !s->in) return sg_error_set(e, SG_E_MEMORY, "summary: out of memory");
    for (int i = 0; i < r->count; i++) mark_groups(&s->in[(size_t)i * (size_t)s->groups], s, &r->clip[i]);
    for (int arm = 0; arm < arms; arm++)
        for (int g = 0; g < s->groups; g++) fill_row(s, r, arm, g);
    return SG_OK;
}

void sg_eval_summary_close(sg_eval_summary *s)
{
    free(s->row);
    free(s->in);
    *s = (sg_eval_summary){0};
}
