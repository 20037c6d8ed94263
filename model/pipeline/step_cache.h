/* step_cache.h - steps whose velocity is extrapolated instead of computed.
 *
 * The gate is SeaCache's (arXiv:2602.18993, equations 5 to 7) on the latents themselves, as diffusers' SeaCacheConfig has
 * it. What is skipped is not a block's residual but the whole prediction: v after guidance, or the clean sample where the
 * sampler draws noise, extrapolated linearly in the step's number through the last two computed ones. A family needs nothing
 * for it.
 *
 * The indicator of step i is F_i = x_i filtered along frames, rows and columns. Along an axis of length n, at frequency
 * f_k = min(k, n - k) / n with P = 1 / (f_k^3 + 1e-16), a = 1 - sigma_i and b = sigma_i (sigma in [1e-6, 1 - 1e-6]):
 *   g_k = a P / (a^2 P + b^2 + 1e-16), divided by its mean over k.
 * g is real and even, so the filter is a circular convolution with c_d = sum_k g_k cos(2 pi k d / n) / sum_k g_k. The
 * distance of step i is mean |F_i - F_(i-1)| / (mean |F_(i-1)| + 1e-16). The distances since the last computed step are
 * added; a step is computed when their sum is at least the threshold. */
#ifndef SG_STEP_CACHE_H
#define SG_STEP_CACHE_H

#include "engine.h"
#include "op.h"

/* Says when steps may be skipped. */
typedef struct sg_step_rule {
    double threshold; /* of the sum of distances; 0: no step is skipped */
    int    first;     /* so many steps at the beginning are computed */
    int    longest;   /* at most so many are skipped in a row */
    bool   measures;  /* distances of computed steps are asked for, too */
} sg_step_rule;

/* Returns the rule of a cache's level for a render of `steps` steps, the first `dense_steps` of them dense. Its
 * threshold is 0 below 16 steps, and with SG_CACHE_OFF. */
sg_step_rule sg_step_rule_of(sg_cache cache, int steps, int dense_steps);

/* Holds what is known after the steps so far. */
typedef struct sg_step_cache {
    sg_step_rule rule;
    int          steps;       /* of the render */
    int          keep;        /* this step is computed, whatever the rule says; -1: none */
    bool         seen;        /* f[1] will be that of the step before */
    double       moved;       /* distance of the step that was asked for last; 0: nobody needs it */
    double       sum;         /* of distances since the last computed step */
    int          run;         /* steps skipped since then */
    int          computed[2]; /* steps that v has, the newest first */
    int          have;        /* of v: 0 to 2 */
    sg_tensor    v[2];        /* F32 [c, f, y, x]: of the newest computed steps, the newest first: a[0] x + a[1] v */
    sg_tensor    f[2];        /* F32 [c, x, y, f]: F of this step and of the one before */
    sg_tensor    filter[3];   /* F32 [steps, n, n]: along frames, rows and columns */
    sg_tensor    parts;       /* F32 [SG_CACHE_PARTS, 2]: of sg_distance */
} sg_step_cache;

enum { SG_CACHE_PARTS = 256 };

/* Takes its tensors from s->keep, and the memory of the filter once from s->scratch, so that a plan counts it, unless
 * the rule skips nothing. sigma has the noise levels of all steps. */
void sg_step_cache_prepare(sg_step_cache *c, sg_stream *s, sg_step_rule rule, int steps, const double *sigma,
                           const int64_t latent[4]);

/* Tells whether step i, whose latents are x F32 [c, f, y, x], may be skipped. Ask it once for each step in turn. It
 * reads the distance back from the device where that decides, so it may not be called inside a recorded step. */
bool sg_step_cache_skips(sg_step_cache *c, sg_stream *s, int i, sg_tensor x);

/* In the next two a is that of sg_sampler_smooth for step i. */

/* Extrapolates v so that a[0] x + a[1] v = q1 + (q1 - q2) (i - i1) / (i1 - i2), where q1 and q2 are those of the
 * computed steps i1 > i2. */
void sg_step_cache_extrapolate(const sg_step_cache *c, sg_stream *s, int i, const double a[2], sg_tensor x,
                               sg_tensor v);

/* Keeps that step i was computed, and that v is its prediction for x. */
void sg_step_cache_keep(sg_step_cache *c, sg_stream *s, int i, const double a[2], sg_tensor x, sg_tensor v);

/* Forgets the steps so far, as another denoiser works from here on. The next two steps are computed. */
void sg_step_cache_forget(sg_step_cache *c);

/* Returns F32 [count, n, n] from s->keep: the filter along an axis of n at each sigma, as matrices. */
sg_tensor sg_spectral_matrices(sg_stream *s, int64_t n, const double *sigma, int count);

/* Computes y F32 [c, x, y, f] = F of x F32 [c, f, y, x] by matrix i of w, along frames, rows and columns. Distances do
 * not see the order of y's axes. */
void sg_spectral_filter(sg_stream *s, sg_tensor y, sg_tensor x, const sg_tensor w[3], int i);

#endif
