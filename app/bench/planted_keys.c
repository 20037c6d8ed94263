/* planted_keys.c - see planted_keys.h. */
#include "planted_keys.h"
#include "interrupt.h"
#include "op.h"
#include "rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WAVES = 8, CONTENT = 1 + 2 * WAVES, STRIPES = 16, NOISY_EVERY = 16, NOISY_FIRST = 8, PLACES = 4, BAND = 256 };
enum { NEWTON_MOST = 100, TILE = 1024 };
static const double GLOBAL = 4, NEAR = 6, RHO = 0.8, PI = 3.14159265358979323846;
static const double NEWTON_ENDS = 1e-5; /* nats: what logits in F32 are known to */
static const float  NOTHING = -40;      /* nats below the largest logit of a row */

/* ---- numbers ---- */

static float rounded(const sg_planted *p, double x)
{
    return p->dtype == SG_BF16 ? sg_bf16_to_f32(sg_f32_to_bf16((float)x)) : (float)x;
}

static bool is_noisy(int64_t block) { return block % NOISY_EVERY == NOISY_FIRST; }

/* cos and sin of the waves at token t. */
static void waves_at(int64_t t, double *out)
{
    double length = 24;
    for (int f = 0; f < WAVES; f++, length *= 1.5) {
        out[2 * f] = cos(2 * PI * (double)t / length);
        out[2 * f + 1] = sin(2 * PI * (double)t / length);
    }
}

/* Mixes what rows of a block have in common and what each has alone: own [n, e] = sqrt(rho) shared + sqrt(1 - rho) own.
 * shared is [n / block, e]. */
static void mix(float *own, const float *shared, int64_t n, int64_t block, int e, bool noise)
{
    for (int64_t t = 0; t < n; t++) {
        const double rho = noise && is_noisy(t / block) ? 0 : RHO;
        for (int c = 0; c < e; c++)
            own[t * e + c] =
                (float)(sqrt(rho) * (double)shared[t / block * e + c] + sqrt(1 - rho) * (double)own[t * e + c]);
    }
}

/* ---- keys and queries without what is planted ---- */

/* Room for a head: what is drawn, a transposed copy of keys, and two rows for each thread. */
typedef struct room {
    float *own, *shared, *keys, *rows; /* [n, e], [n / 64, e], [d, n], [threads, 2, n] */
} room;

static bool room_open(room *r, const sg_planted *p, int threads)
{
    const size_t n = (size_t)p->n, e = (size_t)(p->d - CONTENT), d = (size_t)p->d;
    r->own = malloc((n * e + n / SG_BLOCK_K * e + d * n + 2 * n * (size_t)threads) * sizeof *r->own);
    if (!r->own) return false;
    r->shared = r->own + n * e;
    r->keys = r->shared + n / SG_BLOCK_K * e;
    r->rows = r->keys + d * n;
    return true;
}

static void draw(const sg_planted *p, const room *r, int64_t block, bool noise, sg_rng *g)
{
    const int e = p->d - CONTENT;
    sg_rng_randn(g, r->own, (size_t)(p->n * e));
    sg_rng_randn(g, r->shared, (size_t)(p->n / block * e));
    mix(r->own, r->shared, p->n, block, e, noise);
}

static void make_keys(sg_planted *p, int head, const room *r, sg_rng *g)
{
    const int e = p->d - CONTENT;
    draw(p, r, SG_BLOCK_K, true, g);
    for (int64_t t = 0; t < p->n; t++) {
        float *const       k = p->k + (t * p->hk + head) * p->d;
        const float *const u = r->own + t * e;
        double             wave[2 * WAVES], square = 0;
        waves_at(t, wave);
        k[0] = t ? 0 : 2;
        for (int c = 0; c < 2 * WAVES; c++) k[1 + c] = rounded(p, wave[c]);
        for (int c = 0; c < e; c++) square += (double)u[c] * (double)u[c];
        for (int c = 0; c < e; c++) k[CONTENT + c] = rounded(p, sqrt(e / square) * (double)u[c]);
    }
    for (int i = 0; i < STRIPES; i++) p->k[((2 * i + 1) * p->n / (2 * STRIPES) * p->hk + head) * p->d] = 1;
    sg_rng_randn(g, r->own, (size_t)(p->n * e)); /* values: in two pieces, for room */
    for (int64_t i = 0; i < p->n * p->d; i++) {
        if (i == p->n * e) sg_rng_randn(g, r->own, (size_t)(p->n * CONTENT));
        p->v[(i / p->d * p->hk + head) * p->d + i % p->d] = rounded(p, (double)r->own[i < p->n * e ? i : i - p->n * e]);
    }
}

static void make_queries(sg_planted *p, int head, const room *r, sg_rng *g)
{
    const int    e = p->d - CONTENT;
    const double root = sqrt(p->d);
    draw(p, r, SG_BLOCK_Q, false, g);
    for (int64_t t = 0; t < p->n; t++) {
        float *const q = p->q + (t * p->h + head) * p->d;
        double       wave[2 * WAVES];
        waves_at(t, wave);
        q[0] = rounded(p, root * GLOBAL);
        for (int c = 0; c < 2 * WAVES; c++) q[1 + c] = rounded(p, root * NEAR / WAVES * wave[c]);
        for (int c = 0; c < e; c++) q[CONTENT + c] = (float)(root / sqrt(e) * (double)r->own[t * e + c]);
    }
}

/* ---- which key ---- */

/* One of `count`, at random. */
static int64_t draw_one(sg_rng *g, int64_t count)
{
    float x[16];
    sg_rng_randn(g, x, 16);
    const double  uniform = 0.5 * erfc(-(double)x[0] / sqrt(2));
    const int64_t i = (int64_t)(uniform * (double)count);
    return i < count ? i : count - 1;
}

/* A block of keys for block i of queries: behind the sink's, before the band, noisy or not. */
static int64_t draw_block(sg_rng *g, int64_t i, bool noisy)
{
    const int64_t end = (i * SG_BLOCK_Q - BAND) / SG_BLOCK_K;
    if (noisy) return NOISY_FIRST + NOISY_EVERY * draw_one(g, (end - NOISY_FIRST + NOISY_EVERY - 1) / NOISY_EVERY);
    for (int64_t j;;)
        if (!is_noisy(j = 1 + draw_one(g, end - 1))) return j;
}

static void choose_keys(sg_planted *p, int head, sg_rng *g)
{
    for (int64_t t = 0; t < p->n; t++) p->key[t * p->h + head] = -1;
    for (int64_t i = SG_PLANTED_FIRST / SG_BLOCK_Q; i < p->n / SG_BLOCK_Q; i++) {
        int64_t place[PLACES];
        for (int s = 0; s < PLACES; s++) place[s] = draw_block(g, i, p->in != SG_PLANTED_SIMILAR);
        const int64_t one = place[0] * SG_BLOCK_K + draw_one(g, SG_BLOCK_K);
        for (int64_t t = i * SG_BLOCK_Q; t < (i + 1) * SG_BLOCK_Q; t++) {
            const int64_t block = place[p->in == SG_PLANTED_SCATTERED ? draw_one(g, PLACES) : 0];
            p->key[t * p->h + head] =
                (int32_t)(p->in == SG_PLANTED_NOISY ? one : block * SG_BLOCK_K + draw_one(g, SG_BLOCK_K));
        }
    }
}

/* ---- rows of logits ---- */

/* keys = the keys of a head, transposed, each channel times 1 / sqrt(d). */
static void transpose(const sg_planted *p, int head, float *keys)
{
    const double scale = 1 / sqrt(p->d);
    for (int64_t t = 0; t < p->n; t++)
        for (int c = 0; c < p->d; c++)
            keys[c * p->n + t] = (float)(scale * (double)p->k[(t * p->hk + head) * p->d + c]);
}

/* out[t] = sum over channels from `first` on of q[c] keys[c][t]. */
static void logits(const sg_planted *p, const float *q, const float *keys, int first, int64_t count, float *out)
{
    for (int64_t from = 0; from < count; from += TILE) {
        const int64_t some = count - from < TILE ? count - from : TILE;
        float *const  to = out + from;
        for (int64_t t = 0; t < some; t++) to[t] = 0;
        for (int c = first; c < p->d; c++) {
            const float *const k = keys + c * p->n + from;
            for (int64_t t = 0; t < some; t++) to[t] += q[c] * k[t];
        }
    }
}

/* Returns s_p - ln sum over t /= p of e^s_t for s = base + a gain, and its slope by a. */
static double excess(const float *base, const float *gain, int64_t count, int64_t key, double a, double *slope)
{
    const float by = (float)a;
    float       most = -INFINITY;
    double      sum = 0, moved = 0;
    for (int64_t t = 0; t < count; t++) {
        const float s = base[t] + by * gain[t];
        most = t != key && s > most ? s : most;
    }
    for (int64_t t = 0; t < count; t++) {
        const float s = base[t] + by * gain[t] - most;
        if (s < NOTHING || t == key) continue;
        const double w = (double)expf(s);
        sum += w;
        moved += w * (double)gain[t];
    }
    *slope = (double)gain[key] - moved / sum;
    return (double)base[key] + (double)by * (double)gain[key] - (double)most - log(sum);
}

/* Adds a_r times the planted key's content to row r of q. */
static void plant(sg_planted *p, int head, int64_t row, const float *keys, float *base)
{
    float *const  gain = base + p->n;
    const int     e = p->d - CONTENT;
    const int64_t key = p->key[row * p->h + head];
    float *const  q = p->q + (row * p->h + head) * p->d;
    double        a = 0, slope, far = 0;
    if (key >= 0) {
        float              along[1024];
        const float *const k = p->k + (key * p->hk + head / (p->h / p->hk)) * p->d;
        for (int c = CONTENT; c < p->d; c++) along[c] = (float)(sqrt(p->d) / e * (double)k[c]);
        logits(p, q, keys, 0, row + 1, base);
        logits(p, along, keys, CONTENT, row + 1, gain);
        for (int i = 0; i < NEWTON_MOST; i++) {
            far = p->margin - excess(base, gain, row + 1, key, a, &slope);
            a += far / slope;
            if (fabs(far) < NEWTON_ENDS) break;
        }
        for (int c = CONTENT; c < p->d; c++) q[c] += (float)a * along[c];
    }
    for (int c = 0; c < p->d; c++) q[c] = rounded(p, (double)q[c]);
}

/* A head of keys, and the heads of queries that it serves. False: no memory. */
static bool make_group(sg_planted *p, int head, uint64_t seed, int threads)
{
    const int group = p->h / p->hk;
    room      r;
    sg_rng    g;
    if (!room_open(&r, p, threads)) return false;
    sg_rng_seed(&g, seed + (uint64_t)head);
    make_keys(p, head, &r, &g);
    transpose(p, head, r.keys);
    for (int i = head * group; i < (head + 1) * group; i++) {
        make_queries(p, i, &r, &g);
        choose_keys(p, i, &g);
#pragma omp parallel for num_threads(threads)
        for (int part = 0; part < threads; part++)
            for (int64_t row = part; row < p->n && !sg_interrupt_asked(); row += threads)
                plant(p, i, row, r.keys, r.rows + 2 * p->n * part);
    }
    free(r.own);
    return true;
}

sg_status sg_planted_make(sg_planted *p, uint64_t seed, int threads, sg_error *e)
{
    const size_t n = (size_t)p->n, d = (size_t)p->d;
    bool         made = true;
    p->q = malloc(n * (size_t)p->h * d * sizeof *p->q);
    p->k = malloc(n * (size_t)p->hk * d * sizeof *p->k);
    p->v = malloc(n * (size_t)p->hk * d * sizeof *p->v);
    p->key = malloc(n * (size_t)p->h * sizeof *p->key);
    if (!p->q || !p->k || !p->v || !p->key) return sg_error_memory(e, "bench");
    for (int head = 0; head < p->hk && made; head++) made = make_group(p, head, seed, threads);
    return made ? sg_interrupt_check(e) : sg_error_memory(e, "bench");
}

/* ---- exact attention ---- */

int64_t sg_planted_row(const sg_planted *p, int64_t sample) { return ((2 * sample + 1) * p->n - 1) / (2 * p->samples); }

/* s becomes the weights of a row. */
static void softmax(float *s, int64_t count)
{
    float  most = -INFINITY;
    double sum = 0;
    for (int64_t t = 0; t < count; t++) most = s[t] > most ? s[t] : most;
    for (int64_t t = 0; t < count; t++) {
        s[t] = s[t] - most < NOTHING ? 0 : expf(s[t] - most);
        sum += (double)s[t];
    }
    for (int64_t t = 0; t < count; t++) s[t] = (float)((double)s[t] / sum);
}

static void add_mass(const sg_planted *p, const float *w, int64_t row, int head)
{
    float *const mass = p->mass + (head * (p->n / SG_BLOCK_Q) + row / SG_BLOCK_Q) * (p->n / SG_BLOCK_K);
    for (int64_t from = 0; from <= row; from += SG_BLOCK_K) {
        const int64_t end = from + SG_BLOCK_K <= row ? from + SG_BLOCK_K : row + 1;
        double        sum = 0;
        for (int64_t t = from; t < end; t++) sum += (double)w[t];
        mass[from / SG_BLOCK_K] += (float)(sum / SG_BLOCK_Q);
    }
}

static void take_output(const sg_planted *p, const float *w, int64_t row, int head, int64_t sample)
{
    double sum[1024] = {0};
    for (int64_t t = 0; t <= row; t++) {
        const float *const v = p->v + (t * p->hk + head / (p->h / p->hk)) * p->d;
        for (int c = 0; w[t] > 0 && c < p->d; c++) sum[c] += (double)w[t] * (double)v[c];
    }
    for (int c = 0; c < p->d; c++) p->output[(sample * p->h + head) * p->d + c] = (float)sum[c];
}

/* A block of queries. Returns the sum of the shares of its planted keys. */
static double attend_block(const sg_planted *p, int head, int64_t block, const float *keys, float *w)
{
    double share = 0;
    for (int64_t row = block * SG_BLOCK_Q; row < (block + 1) * SG_BLOCK_Q; row++) {
        const int32_t key = p->key[row * p->h + head];
        const int64_t sample = row * p->samples / p->n;
        logits(p, p->q + (row * p->h + head) * p->d, keys, 0, row + 1, w);
        softmax(w, row + 1);
        add_mass(p, w, row, head);
        if (key >= 0) share += (double)w[key];
        if (sg_planted_row(p, sample) == row) take_output(p, w, row, head, sample);
    }
    return share;
}

sg_status sg_planted_attend(sg_planted *p, int threads, sg_error *e)
{
    const int64_t nq = p->n / SG_BLOCK_Q;
    double *const share = calloc((size_t)nq, sizeof *share);
    room          r = {0};
    p->share = 0;
    p->mass = calloc((size_t)(p->h * nq * (p->n / SG_BLOCK_K)), sizeof *p->mass);
    p->output = calloc((size_t)p->samples * (size_t)p->h * (size_t)p->d, sizeof *p->output);
    const bool made = share && p->mass && p->output && room_open(&r, p, threads);
    for (int head = 0; made && head < p->h; head++) {
        transpose(p, head / (p->h / p->hk), r.keys);
#pragma omp parallel for num_threads(threads)
        for (int part = 0; part < threads; part++)
            for (int64_t i = part; i < nq && !sg_interrupt_asked(); i += threads)
                share[i] = attend_block(p, head, i, r.keys, r.rows + 2 * p->n * part);
        for (int64_t i = 0; i < nq; i++) p->share += share[i];
    }
    p->share /= (double)(p->n - SG_PLANTED_FIRST) * p->h;
    free(share);
    free(r.own);
    return made ? sg_interrupt_check(e) : sg_error_memory(e, "bench");
}

void sg_planted_free(sg_planted *p)
{
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->key);
    free(p->mass);
    free(p->output);
    *p = (sg_planted){0};
}
