/* step_cache.c - see step_cache.h. */
#include "step_cache.h"

#include <math.h>
#include <stdlib.h>

const char *const sg_cache_names[] = {"off", "fine", "usual", "fast", "shadow", NULL};

sg_step_rule sg_step_rule_of(sg_cache cache, int steps, int dense_steps)
{
    sg_step_rule rule = {.first = dense_steps > 2 ? dense_steps : 2, .longest = SG_CACHE_RUN};
    if (steps < SG_CACHE_STEPS_MIN) return rule; /* each step is worth more than what skipping it saves */
    switch (cache) {
    case SG_CACHE_OFF: break;
    case SG_CACHE_FINE: rule.threshold = 0.1; break;
    case SG_CACHE_SHADOW:
    case SG_CACHE_USUAL: rule.threshold = 0.25; break;
    case SG_CACHE_FAST:
        rule.threshold = 0.35;
        rule.longest = 3;
        break;
    }
    return rule;
}

double sg_request_cache_threshold(const sg_request *r)
{
    const bool takes = r->cache == SG_CACHE_USUAL || r->cache == SG_CACHE_SHADOW;
    return takes && r->steps >= SG_CACHE_STEPS_MIN ? r->cache_threshold : 0;
}

/* ---- the indicator ---- */

/* The filter's response at frequency k of n, not yet divided by the mean. */
static double response(int64_t k, int64_t n, double sigma)
{
    const double b = fmax(1e-6, fmin(1 - 1e-6, sigma)), a = 1 - b;
    const double f = (double)(k < n - k ? k : n - k) / (double)n, power = 1 / (f * f * f + 1e-16);
    return a * power / (a * a * power + b * b + 1e-16);
}

/* w [n, n] = the circular convolution along an axis of n, as a matrix; g has room for n numbers. */
static void circulant(float *w, double *g, int64_t n, double sigma)
{
    double total = 0;
    for (int64_t k = 0; k < n; k++) total += g[k] = response(k, n, sigma);
    for (int64_t d = 0; d < n; d++) {
        double c = 0;
        for (int64_t k = 0; k < n; k++) c += g[k] * cos(2 * M_PI * (double)(k * d % n) / (double)n);
        for (int64_t i = 0; i < n; i++) w[i * n + (i + d) % n] = (float)(c / total);
    }
}

/* y [.., n] = x [.., n] filtered along its last axis. */
static sg_tensor filter_last(sg_stream *s, sg_tensor x, double sigma)
{
    const int64_t   n = x.dim[x.rank - 1], rows = sg_count(x) / n;
    const sg_tensor w = sg_new(s, SG_F32, n, n), y = sg_alloc(s, &s->scratch, SG_F32, x.rank, x.dim);
    if (s->memory->alloc) { /* a plan has no data */
        double *const g = malloc((size_t)n * sizeof *g + sg_bytes(w));
        if (g) {
            circulant((float *)(g + n), g, n, sigma);
            sg_upload(s, w, g + n);
        } else {
            sg_fail(s, SG_E_MEMORY, "no memory for a filter of %lld taps", (long long)n);
        }
        free(g);
    }
    sg_linear(s, .y = sg_reshape(y, rows, n), .x = sg_reshape(x, rows, n), .w = w);
    return y;
}

sg_tensor sg_spectral_filter(sg_stream *s, sg_tensor x, double sigma)
{
    const int64_t c = x.dim[0], f = x.dim[1], h = x.dim[2], w = x.dim[3];
    sg_tensor     y = filter_last(s, x, sigma);
    sg_tensor     turn = sg_new(s, SG_F32, c, f, w, h);
    sg_permute(s, .y = turn, .x = y, .rank = 4, .dim = {c, f, h, w}, .perm = {0, 1, 3, 2});
    y = filter_last(s, turn, sigma);
    turn = sg_new(s, SG_F32, c, w, h, f);
    sg_permute(s, .y = turn, .x = y, .rank = 4, .dim = {c, f, w, h}, .perm = {0, 2, 3, 1});
    return filter_last(s, turn, sigma); /* [c, w, h, f]: distances do not see the order */
}

/* ---- the cache ---- */

void sg_step_cache_prepare(sg_step_cache *c, sg_stream *s, sg_step_rule rule, int steps, const int64_t latent[4])
{
    *c = (sg_step_cache){.rule = rule, .steps = steps, .keep = -1};
    if (rule.threshold <= 0) return;
    for (int i = 0; i < 2; i++) c->v[i] = sg_alloc(s, &s->keep, SG_F32, 4, latent);
    if (s->memory->alloc) return;
    const size_t mark = s->scratch.used;
    (void)sg_spectral_filter(s, c->v[0], 0.5); /* on a plan */
    s->scratch.used = mark;
}

void sg_step_cache_free(sg_step_cache *c)
{
    free(c->last);
    free(c->now);
    *c = (sg_step_cache){0};
}

/* mean |now - last| / (mean |last| + 1e-16) */
static double distance(const float *now, const float *last, size_t n)
{
    double moved = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        moved += fabs((double)now[i] - (double)last[i]);
        size += fabs((double)last[i]);
    }
    return moved / (size + 1e-16 * (double)n);
}

/* F of x to c->now. */
static bool look(sg_step_cache *c, sg_stream *s, double sigma, sg_tensor x)
{
    const size_t mark = s->scratch.used, bytes = sg_bytes(x);
    if (!c->now) {
        c->now = malloc(bytes);
        c->last = malloc(bytes);
    }
    if (!c->now || !c->last) {
        sg_fail(s, SG_E_MEMORY, "no memory for two latents of %zu bytes", bytes);
        return false;
    }
    sg_download(s, c->now, sg_spectral_filter(s, x, sigma));
    s->scratch.used = mark;
    return !s->status;
}

bool sg_step_cache_skips(sg_step_cache *c, sg_stream *s, int i, double sigma, sg_tensor x)
{
    c->moved = 0;
    if (c->rule.threshold <= 0 || i + 1 < c->rule.first || i == c->steps - 1) return false; /* no F is needed */
    if (!look(c, s, sigma, x)) return false;
    const bool must = i < c->rule.first || i == c->keep || c->have < 2 || !c->seen || c->run >= c->rule.longest;
    if (c->seen && i >= c->rule.first) c->moved = distance(c->now, c->last, (size_t)sg_count(x));
    const double sum = c->sum + c->moved;
    const bool   skips = !must && sum < c->rule.threshold; /* NaN computes */
    float *const last = c->last;
    c->last = c->now;
    c->now = last;
    c->seen = true;
    c->sum = skips ? sum : 0;
    c->run = skips ? c->run + 1 : 0;
    return skips;
}

void sg_step_cache_extrapolate(const sg_step_cache *c, sg_stream *s, int i, sg_tensor v)
{
    const float a = (float)(i - c->computed[0]) / (float)(c->computed[0] - c->computed[1]);
    sg_combine(s, .y = v, .x = {c->v[0], c->v[1]}, .a = {1 + a, -a}, .count = 2);
}

void sg_step_cache_keep(sg_step_cache *c, sg_stream *s, int i, sg_tensor v)
{
    if (c->rule.threshold <= 0) return;
    const sg_tensor oldest = c->v[1];
    c->v[1] = c->v[0];
    c->v[0] = oldest;
    c->computed[1] = c->computed[0];
    c->computed[0] = i;
    if (c->have < 2) c->have++;
    sg_copy(s, .y = c->v[0], .x = v);
}

void sg_step_cache_forget(sg_step_cache *c)
{
    c->have = 0;
    c->run = 0;
    c->sum = 0;
}
