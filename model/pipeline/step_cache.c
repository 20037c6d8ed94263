/* step_cache.c - see step_cache.h. */
#include "step_cache.h"

#include <math.h>
#include <stdlib.h>

sg_step_rule sg_step_rule_of(sg_cache cache, int steps, int dense_steps)
{
    static const double thresholds[] = {
        [SG_CACHE_FINE] = 0.1, [SG_CACHE_USUAL] = 0.25, [SG_CACHE_FAST] = 0.35, [SG_CACHE_SHADOW] = 0.25};
    return (sg_step_rule){/* below, each step is worth more than what skipping it saves */
                          .threshold = steps < SG_CACHE_STEPS_MIN ? 0 : thresholds[cache],
                          .first = dense_steps > 2 ? dense_steps : 2,
                          .longest = cache == SG_CACHE_FAST ? 3 : SG_CACHE_RUN,
                          .measures = cache == SG_CACHE_SHADOW};
}

double sg_request_cache_threshold(const sg_request *r)
{
    const bool takes = r->cache == SG_CACHE_USUAL || r->cache == SG_CACHE_SHADOW;
    return takes && sg_request_steps(r) >= SG_CACHE_STEPS_MIN ? r->cache_threshold : 0;
}

/* ---- the indicator ---- */

/* The filter's response at frequency k of n, not yet divided by the mean. */
static double response(int64_t k, int64_t n, double sigma)
{
    const double b = fmax(1e-6, fmin(1 - 1e-6, sigma)), a = 1 - b;
    const double f = (double)(k < n - k ? k : n - k) / (double)n, power = 1 / (f * f * f + 1e-16);
    return a * power / (a * a * power + b * b + 1e-16);
}

/* w [n, n] = the circular convolution along an axis of n, as a matrix; g has room for 2 n numbers. */
static void circulant(float *w, double *g, int64_t n, double sigma)
{
    double *const wave = g + n;
    double        total = 0;
    for (int64_t k = 0; k < n; k++) {
        total += g[k] = response(k, n, sigma);
        wave[k] = cos(2 * M_PI * (double)k / (double)n);
    }
    for (int64_t d = 0; d < n; d++) {
        double c = 0;
        for (int64_t k = 0; k < n; k++) c += g[k] * wave[k * d % n];
        for (int64_t i = 0; i < n; i++) w[i * n + (i + d) % n] = (float)(c / total);
    }
}

sg_tensor sg_spectral_matrices(sg_stream *s, int64_t n, const double *sigma, int count)
{
    const sg_tensor w = sg_new_keep(s, SG_F32, count, n, n);
    if (!s->memory->alloc || s->status) return w; /* a plan has no data */
    double *const g = malloc(2 * (size_t)n * sizeof *g + sg_bytes(w));
    if (g) {
        float *const to = (float *)(g + 2 * n);
        for (int i = 0; i < count; i++) circulant(to + i * n * n, g, n, sigma[i]);
        sg_upload(s, w, to);
    } else {
        sg_fail(s, SG_E_MEMORY, "no memory for filters of %lld taps", (long long)n);
    }
    free(g);
    return w;
}

/* y [.., n] = x [.., n] filtered along its last axis by matrix i of w. */
static void filter_last(sg_stream *s, sg_tensor y, sg_tensor x, sg_tensor w, int i)
{
    const int64_t n = x.dim[x.rank - 1], rows = sg_count(x) / n;
    sg_linear(s, .y = sg_reshape(y, rows, n), .x = sg_reshape(x, rows, n), .w = sg_reshape(sg_rows(w, i, 1), n, n));
}

void sg_spectral_filter(sg_stream *s, sg_tensor y, sg_tensor x, const sg_tensor w[3], int i)
{
    const int64_t   c = x.dim[0], f = x.dim[1], h = x.dim[2], v = x.dim[3];
    const sg_tensor a = sg_new(s, SG_F32, c, f, h, v), b = sg_new(s, SG_F32, c, f, v, h);
    filter_last(s, a, x, w[2], i);
    sg_permute(s, .y = b, .x = a, .rank = 4, .dim = {c, f, h, v}, .perm = {0, 1, 3, 2});
    const sg_tensor rows = sg_reshape(a, c, f, v, h), frames = sg_reshape(b, c, v, h, f);
    filter_last(s, rows, b, w[1], i);
    sg_permute(s, .y = frames, .x = rows, .rank = 4, .dim = {c, f, v, h}, .perm = {0, 2, 3, 1});
    filter_last(s, y, frames, w[0], i);
}

/* ---- the cache ---- */

void sg_step_cache_prepare(sg_step_cache *c, sg_stream *s, sg_step_rule rule, int steps, const double *sigma,
                           const int64_t latent[4])
{
    *c = (sg_step_cache){.rule = rule, .steps = steps, .keep = -1};
    if (rule.threshold <= 0) return;
    for (int i = 0; i < 2; i++) {
        c->v[i] = sg_alloc(s, &s->keep, SG_F32, 4, latent);
        c->f[i] = sg_new_keep(s, SG_F32, latent[0], latent[3], latent[2], latent[1]);
    }
    for (int k = 0; k < 3; k++) c->filter[k] = sg_spectral_matrices(s, latent[1 + k], sigma, steps);
    c->parts = sg_new_keep(s, SG_F32, SG_CACHE_PARTS, 2);
    if (s->memory->alloc) return;
    const size_t mark = s->scratch.used;
    sg_spectral_filter(s, c->f[0], c->v[0], c->filter, 0); /* on a plan */
    s->scratch.used = mark;
}

/* mean |now - last| / (mean |last| + 1e-16) of n numbers; waits for the device. */
static double distance(const sg_step_cache *c, sg_stream *s, double n)
{
    float  part[SG_CACHE_PARTS][2] = {{0}};
    double moved = 0, size = 0;
    sg_distance(s, .y = c->parts, .a = c->f[0], .b = c->f[1]);
    sg_download(s, part, c->parts);
    for (int i = 0; i < SG_CACHE_PARTS; i++) {
        moved += (double)part[i][0];
        size += (double)part[i][1];
    }
    return moved / (size + 1e-16 * n);
}

/* F of x to c->f[0]; that of the step before becomes c->f[1]. */
static void look(sg_step_cache *c, sg_stream *s, int i, sg_tensor x)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor oldest = c->f[1];
    c->f[1] = c->f[0];
    c->f[0] = oldest;
    sg_spectral_filter(s, c->f[0], x, c->filter, i);
    s->scratch.used = mark;
}

bool sg_step_cache_skips(sg_step_cache *c, sg_stream *s, int i, sg_tensor x)
{
    c->moved = 0;
    if (c->rule.threshold <= 0 || i + 1 < c->rule.first || i == c->steps - 1) return false; /* no F is needed */
    look(c, s, i, x);
    const bool must = i < c->rule.first || i == c->keep || c->have < 2 || !c->seen || c->run >= c->rule.longest;
    if (c->seen && (!must || (c->rule.measures && i >= c->rule.first))) c->moved = distance(c, s, (double)sg_count(x));
    const double sum = c->sum + c->moved;
    const bool   skips = !must && !s->status && sum < c->rule.threshold; /* NaN computes */
    c->seen = true;
    c->sum = skips ? sum : 0;
    c->run = skips ? c->run + 1 : 0;
    return skips;
}

void sg_step_cache_extrapolate(const sg_step_cache *c, sg_stream *s, int i, const double a[2], sg_tensor x, sg_tensor v)
{
    const float far = (float)(i - c->computed[0]) / (float)(c->computed[0] - c->computed[1]), of = (float)a[1];
    sg_combine(s, .y = v, .x = {c->v[0], c->v[1], x}, .a = {(1 + far) / of, -far / of, (float)-a[0] / of},
               .count = a[0] != 0 ? 3 : 2);
}

void sg_step_cache_keep(sg_step_cache *c, sg_stream *s, int i, const double a[2], sg_tensor x, sg_tensor v)
{
    if (c->rule.threshold <= 0) return;
    const sg_tensor oldest = c->v[1];
    c->v[1] = c->v[0];
    c->v[0] = oldest;
    c->computed[1] = c->computed[0];
    c->computed[0] = i;
    if (c->have < 2) c->have++;
    sg_combine(s, .y = c->v[0], .x = {v, x}, .a = {(float)a[1], (float)a[0]}, .count = a[0] != 0 ? 2 : 1);
}

void sg_step_cache_forget(sg_step_cache *c)
{
    c->have = 0;
    c->run = 0;
    c->sum = 0;
}
