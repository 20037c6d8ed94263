/* ref.c - the oracle: every op by its formula, in any dtype, optimised only as far as tests need to finish.
 *
 * Compiled twice. In double it is the truth. ref_rounded.c compiles it in float: every product and every partial sum is
 * rounded, the weights of the softmax to the dtype of v. The error of that build against the truth is the rounding
 * budget of a kernel. It takes each sum in the simple orders that a kernel may use and keeps the worst: budget.h. */
#include "ref.h"

static real activate(sg_act act, real x)
{
    switch (act) {
    case SG_ACT_RELU: return x < 0 ? 0 : x; /* lets NaN through */
    case SG_ACT_SILU: return x / (1 + FN(exp)(-x));
    case SG_ACT_GELU_TANH:
        return (real)0.5 * x * (1 + FN(tanh)((real)0.79788456080286535588 * (x + (real)0.044715 * x * x * x)));
    case SG_ACT_GELU_ERF: return (real)0.5 * x * (1 + FN(erf)(x * (real)0.70710678118654752440));
    case SG_ACT_GELU_QUICK: return x / (1 + FN(exp)((real)-1.702 * x));
    case SG_ACT_TANH: return FN(tanh)(x);
    case SG_ACT_CLAMP: return x < -1 ? -1 : x > 1 ? 1 : x;
    default: return x;
    }
}

/* ---- linear and conv ---- */

/* Sums of `out` neighbouring outputs: over the taps, and the channels `in` of each, of x[tap][i] w[tap][i * step + o]. */
typedef struct terms {
    const real **x, **w;
    int64_t      taps, in, out, step; /* of w, from one channel to the next */
} terms;

/* The epilogue of sums: gate (sum + b), gate from `from` on, and with add y from `at` on. */
typedef struct ending {
    const sg_tensor *y, *b, *gate;
    int64_t          at, from;
    bool             add;
} ending;

/* Orders of the loops over taps and channels. */
enum { BACKWARDS = 1, CHANNELS_OUTSIDE = 2, ORDERS = 4 };

#define ADD_TERMS(name, type)                                                                                          \
    static void name(type *sum, const terms *t, int order)                                                             \
    {                                                                                                                  \
        const bool    by_channel = order & CHANNELS_OUTSIDE, back = order & BACKWARDS;                                 \
        const int64_t outer = by_channel ? t->in : t->taps, inner = by_channel ? t->taps : t->in, out = t->out;        \
        for (int64_t k = 0; k < outer; k++)                                                                            \
            for (int64_t l = 0; l < inner; l++) {                                                                      \
                const int64_t     a = back ? outer - 1 - k : k, b = back ? inner - 1 - l : l;                          \
                const int64_t     tap = by_channel ? b : a, i = by_channel ? a : b;                                    \
                const type        x = t->x[tap][i];                                                                    \
                const real *const w = t->w[tap] + i * t->step;                                                         \
                _Pragma("omp simd") for (int64_t o = 0; o < out; o++) sum[o] += x * w[o];                              \
            }                                                                                                          \
    }
ADD_TERMS(add_terms, real)

#if SG_REF_IS_TRUTH
enum { SCRATCH_DOUBLES = 1 }; /* doubles for each output */

/* The sums with their ending, in scratch. */
static const real *sums_of(const terms *t, const ending *e, double *scratch)
{
    for (int64_t o = 0; o < t->out; o++) scratch[o] = 0;
    add_terms(scratch, t, 0);
    for (int64_t o = 0; o < t->out; o++) {
        const real v = (scratch[o] + get_or(e->b, o, 0)) * get_or(e->gate, e->from + o, 1);
        scratch[o] = e->add ? get(e->y, e->at + o) + v : v;
    }
    return scratch;
}
#else
enum { SCRATCH_DOUBLES = 3 };

ADD_TERMS(add_terms_exactly, double)

/* The worst of all orders. Forwards a sum starts with the bias, and with y where it is added to without a gate;
 * backwards they come last. */
static const real *sums_of(const terms *t, const ending *e, double *scratch)
{
    double *const exact = scratch;
    real *const sum = (real *)(scratch + t->out), *const worst = (real *)(scratch + 2 * t->out);
    const bool gated = e->gate->rank > 0;
    const int  orders = t->taps > 1 ? ORDERS : ORDERS / 2;
    for (int64_t o = 0; o < t->out; o++) exact[o] = 0;
    add_terms_exactly(exact, t, 0);
    for (int order = 0; order < orders; order++) {
        const bool last = order & BACKWARDS;
        for (int64_t o = 0; o < t->out; o++) {
            const real y = e->add && !gated ? get(e->y, e->at + o) : 0;
            sum[o] = last ? 0 : y + get_or(e->b, o, 0);
        }
        add_terms(sum, t, order);
        for (int64_t o = 0; o < t->out; o++) {
            const real y = e->add ? get(e->y, e->at + o) : 0, b = get_or(e->b, o, 0);
            const real gate = get_or(e->gate, e->from + o, 1);
            const real v = last ? y + gate * (sum[o] + b) : gated ? y + gate * sum[o] : sum[o];
            if (order == 0) exact[o] = (double)y + (double)gate * (exact[o] + (double)b);
            worst[o] = order == 0 ? v : farther(exact[o], worst[o], v);
        }
    }
    return worst;
}
#endif

/* w[o, i], quantised, in the order [i, o]. */
static real *quantised_of(sg_tensor w)
{
    const int64_t out = w.dim[0], in = w.dim[1];
    real *const   r = malloc((size_t)(out * in + 1) * sizeof *r);
    float *const  row = malloc((size_t)(in + 1) * sizeof *row);
    for (int64_t o = 0; r && row && o < out; o++) {
        sg_quant_read(row, &w, o * in, in);
        for (int64_t i = 0; i < in; i++) r[i * out + o] = row[i];
    }
    if (!row) free(r);
    free(row);
    return row ? r : NULL;
}

/* w[o, i, taps..] in the order [taps, i, o]. */
static real *weights_of(sg_tensor w)
{
    if (w.quant.type) return quantised_of(w);
    const int64_t out = w.dim[0], in = w.dim[1], taps = in ? sg_count(w) / (out * in) : 0;
    real *const   r = malloc((size_t)(sg_count(w) + 1) * sizeof *r);
    if (!r) return NULL;
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t tap = 0; tap < taps; tap++) r[(tap * in + i) * out + o] = get(&w, (o * in + i) * taps + tap);
    return r;
}

SG_REF(linear)
{
    const int64_t n = a->x.dim[0], in = a->x.dim[1], out = a->w.dim[0];
    real *const x = widen(a->x), *const w = weights_of(a->w);
    double *const scratch = of_threads(SCRATCH_DOUBLES * out, sizeof *scratch);
    const bool    ok = x && w && scratch;
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(static) if (n * in * out > SG_REF_WORK)
    for (int64_t r = 0; r < (ok ? n : 0); r++) {
        const real       *row = x + r * in, *all = w;
        const terms       t = {&row, &all, 1, in, out, out};
        const ending      e = {&a->y, &a->b, &a->gate, r * out, sg_row_of(&a->row, r) * out, a->add};
        const real *const v = sums_of(&t, &e, scratch + omp_get_thread_num() * SCRATCH_DOUBLES * out);
        for (int64_t o = 0; o < out; o++) put(&a->y, r * out + o, activate(a->act, v[o]));
    }
    free(scratch);
    free(x);
    free(w);
    return ok ? SG_OK : SG_E_MEMORY;
}

/* The taps of output position (f, y, x) that are inside the frame, which may be of twice x's size, or all, with
 * what stands for those that are not. */
static void window_of(const sg_conv_args *a, const real *x, const real *w, const int64_t place[3], terms *t)
{
    const int64_t *wd = a->w.dim, *xd = a->x.dim, taps = wd[2] * wd[3] * wd[4], scale = a->twice ? 2 : 1;
    t->taps = 0;
    for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t f = place[0] * a->stride[0] + tap / (wd[3] * wd[4]);
        const int64_t row = place[1] * a->stride[1] + tap / wd[4] % wd[3] - a->pad[0];
        const int64_t col = place[2] * a->stride[2] + tap % wd[4] - a->pad[2];
        const int64_t y = sg_edge_place(a->edge, row, scale * xd[1]), c = sg_edge_place(a->edge, col, scale * xd[2]);
        if (y < 0 || c < 0) continue;
        t->x[t->taps] = x + ((f * xd[1] + y / scale) * xd[2] + c / scale) * xd[3];
        t->w[t->taps++] = w + tap * t->in * t->out;
    }
}

SG_REF(conv)
{
    const int64_t  *yd = a->y.dim, out = yd[3], in = a->w.dim[1], taps = a->w.dim[2] * a->w.dim[3] * a->w.dim[4];
    const sg_tensor none = {0};
    real *const x = widen(a->x), *const w = weights_of(a->w);
    double *const      scratch = of_threads(SCRATCH_DOUBLES * out, sizeof *scratch);
    const real **const window = of_threads(2 * taps, sizeof *window);
    const bool         ok = x && w && scratch && window;
#pragma omp parallel for num_threads(omp_get_max_threads())                                                            \
    schedule(static) if (sg_count(a->y) * taps * in > SG_REF_WORK)
    for (int64_t p = 0; p < (ok ? yd[0] * yd[1] * yd[2] : 0); p++) {
        const int64_t      place[3] = {p / (yd[1] * yd[2]), p / yd[2] % yd[1], p % yd[2]};
        const int          thread = omp_get_thread_num();
        const real **const own = window + thread * 2 * taps;
        terms              t = {own, own + taps, 0, in, out, out};
        const ending       e = {&a->y, &a->b, &none, p * out, 0, a->add};
        window_of(a, x, w, place, &t);
        const real *const v = sums_of(&t, &e, scratch + thread * SCRATCH_DOUBLES * out);
        for (int64_t o = 0; o < out; o++) put(&a->y, p * out + o, v[o]);
    }
    free(scratch);
    free(window);
    free(x);
    free(w);
    return ok ? SG_OK : SG_E_MEMORY;
}

static bool conv_twice(const sg_stream *s, const sg_conv_args *a) { return (void)s, (void)a, true; }

/* ---- the rest ---- */

/* Frame, row, column and channel of element i of t [f, y, x, c]. */
typedef struct spot {
    int64_t f, y, x, c;
} spot;

static spot spot_of(const sg_tensor *t, int64_t i)
{
    const int64_t *const d = t->dim, x = i / d[3], y = x / d[2];
    return (spot){y / d[1], y % d[1], x % d[2], i % d[3]};
}

static real squared(real v) { return v * v; }

/* A row's shift and factor, before w and b. */
static void norm_row(const sg_norm_args *a, int64_t row, int64_t c, real *mean, real *gain)
{
    real sum = 0, square = 0;
    *mean = 0;
    *gain = 1;
    if (a->kind == SG_NORM_NONE) return;
    if (a->kind == SG_NORM_LAYER) {
        ADD_UP(sum, i, c, get(&a->x, row + i));
        *mean = sum / (real)c;
    }
    ADD_UP(square, i, c, squared(get(&a->x, row + i) - *mean));
    if (a->kind == SG_NORM_L2)
        *gain = FN(sqrt)((real)c) / FN(fmax)(FN(sqrt)(square), (real)1e-12);
    else
        *gain = 1 / FN(sqrt)(square / (real)c + (real)a->eps);
}

/* The elements of a group in one chunk: `per` neighbours at each of some places. */
typedef struct norm_members {
    int64_t first, per, c, count;
} norm_members;

static int64_t member(const norm_members *g, int64_t i) { return g->first + i / g->per * g->c + i % g->per; }

/* What element `at` of x takes of place_scale or place_shift. */
static int64_t place_of(const sg_norm_args *a, const sg_tensor *place, int64_t at)
{
    const int64_t *const x = a->x.dim, *const p = place->dim;
    const spot s = spot_of(&a->x, at);
    return ((s.f * p[1] + s.y * p[1] / x[1]) * p[2] + s.x * p[2] / x[2]) * x[3] + s.c;
}

static void norm_group(const sg_norm_args *a, const norm_members *g)
{
    real sum = 0, square = 0;
    ADD_UP(sum, i, g->count, get(&a->x, member(g, i)));
    const real mean = sum / (real)g->count;
    ADD_UP(square, i, g->count, squared(get(&a->x, member(g, i)) - mean));
    const real gain = 1 / FN(sqrt)(square / (real)g->count + (real)a->eps);
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t at = member(g, i), channel = at % g->c;
        real          v = (get(&a->x, at) - mean) * gain * get_or(&a->w, channel, 1) + get_or(&a->b, channel, 0);
        if (a->place_scale.rank) v *= get(&a->place_scale, place_of(a, &a->place_scale, at));
        if (a->place_shift.rank) v += get(&a->place_shift, place_of(a, &a->place_shift, at));
        put(&a->y, at, activate(a->act, v));
    }
}

static sg_status norm_groups(const sg_norm_args *a)
{
    const int64_t *const d = a->x.dim, frames = a->chunk ? a->chunk : d[0], places = frames * d[1] * d[2];
    const int64_t        chunks = d[0] / frames, per = d[3] / a->groups;
#pragma omp parallel for schedule(static) if (sg_count(a->x) > SG_REF_WORK)
    for (int64_t k = 0; k < chunks * a->groups; k++) {
        const int64_t first = k / a->groups * places * d[3] + k % a->groups * per;
        norm_group(a, &(norm_members){first, per, d[3], places * per});
    }
    return SG_OK;
}

SG_REF(norm)
{
    if (a->kind == SG_NORM_GROUP) return norm_groups(a);
    const int64_t c = a->x.dim[a->x.rank - 1], rows = sg_count(a->x) / c;
    int32_t       non_finite = 0;
#pragma omp parallel for schedule(static) reduction(+ : non_finite) if (rows * c > SG_REF_WORK)
    for (int64_t t = 0; t < rows; t++) {
        const int64_t from = sg_row_of(&a->row, t) * c;
        real          mean, gain;
        norm_row(a, t * c, c, &mean, &gain);
        non_finite += !isfinite(mean);
        for (int64_t i = 0; i < c; i++) {
            const real v = (get(&a->x, t * c + i) - mean) * gain * get_or(&a->w, i, 1) + get_or(&a->b, i, 0);
            const real scaled = v * (1 + get_or(&a->scale, from + i, 0));
            put(&a->y, t * c + i, activate(a->act, scaled + get_or(&a->shift, from + i, 0)));
        }
    }
    if (a->non_finite.rank) *(int32_t *)a->non_finite.data += non_finite;
    return SG_OK;
}

/* 1 / sqrt(mean(x^2) + eps) of c numbers. */
static real rms_gain(const sg_tensor *x, int64_t at, int64_t c, real eps)
{
    real square = 0;
    ADD_UP(square, i, c, squared(get(x, at + i)));
    return 1 / FN(sqrt)(square / (real)c + eps);
}

SG_REF(rope)
{
    const int64_t n = a->x.dim[0], c = a->x.dim[1] * a->x.dim[2], d = a->x.dim[2], width = a->w.rank ? a->w.dim[0] : d;
#pragma omp parallel for schedule(static)
    for (int64_t t = 0; t < n; t++) {
        real gain = 1;
        for (int64_t i = 0; i < c; i += 2) {
            const int64_t at = t * c + i, angle = a->cos.rank == 3 ? at / 2 : (t * d + i % d) / 2;
            if (a->w.rank && i % width == 0) gain = rms_gain(&a->x, at, width, (real)a->eps);
            const real x = get(&a->x, at) * gain * get_or(&a->w, i % width, 1);
            const real y = get(&a->x, at + 1) * gain * get_or(&a->w, i % width + 1, 1);
            const real cos = get(&a->cos, angle), sin = get(&a->sin, angle);
            put(&a->y, at, x * cos - y * sin);
            put(&a->y, at + 1, x * sin + y * cos);
        }
    }
    return SG_OK;
}

/* One row of one head: score holds m numbers, scratch SCRATCH_DOUBLES d. */
static void attend_row(const sg_attend_args *a, const real *q, const real *k, const real *v, int64_t i, int64_t g,
                       real *score, double *scratch)
{
    const int64_t n = a->q.dim[0], h = a->q.dim[1], d = a->q.dim[2], hk = a->k.dim[1], gk = g / (h / hk);
    const int64_t m = a->causal ? i + a->k.dim[0] - n + 1 : a->k.dim[0];
    real          max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < m; j++) {
        score[j] = dot(q + (i * h + g) * d, k + (j * hk + gk) * d, d) * (real)a->scale + get_or(&a->key_bias, j, 0) +
                   get_or(&a->bias, (g * n + i) * m + j, 0);
        if (score[j] > max || score[j] != score[j]) max = score[j];
    }
    for (int64_t j = 0; j < m; j++) score[j] = max == -INFINITY ? 0 : FN(exp)(score[j] - max);
    ADD_UP(sum, j, m, score[j]);
    for (int64_t j = 0; j < m; j++) score[j] = round_as(a->v.dtype, score[j]);
    const real       *v_row = v + gk * d;
    const real       *p = score;
    const terms       t = {&p, &v_row, 1, m, d, hk * d};
    const ending      none = {&(sg_tensor){0}, &(sg_tensor){0}, &(sg_tensor){0}, 0, 0, false};
    const real *const o = sums_of(&t, &none, scratch);
    for (int64_t e = 0; e < d; e++) put(&a->y, (i * h + g) * d + e, sum == 0 ? 0 : o[e] / sum);
}

SG_REF(attend)
{
    const int64_t n = a->q.dim[0], m = a->k.dim[0], h = a->q.dim[1], d = a->q.dim[2];
    real *const q = widen(a->q), *const k = widen(a->k), *const v = widen(a->v);
    real *const   score = of_threads(m, sizeof *score);
    double *const scratch = of_threads(SCRATCH_DOUBLES * d, sizeof *scratch);
    const bool    ok = q && k && v && score && scratch;
#pragma omp parallel for num_threads(omp_get_max_threads()) schedule(static) if (n * h * m * d > SG_REF_WORK)
    for (int64_t i = 0; i < (ok ? n * h : 0); i++) {
        const int thread = omp_get_thread_num();
        attend_row(a, q, k, v, i / h, i % h, score + thread * m, scratch + thread * SCRATCH_DOUBLES * d);
    }
    free(score);
    free(scratch);
    free(q);
    free(k);
    free(v);
    return ok ? SG_OK : SG_E_MEMORY;
}

SG_REF(gate_add)
{
    const int64_t n = sg_count(a->x), c = a->x.dim[a->x.rank - 1];
    for (int64_t i = 0; i < n; i++) {
        const real gate = get_or(&a->gate, sg_row_of(&a->row, i / c) * c + i % c, 1);
        put(&a->x, i, get(&a->x, i) + get(&a->r, i) * (a->tanh_gate ? FN(tanh)(gate) : gate));
    }
    return SG_OK;
}

/* An op whose element i is a formula of those of its inputs. */
#define EACH(op, formula)                                                                                              \
    SG_REF(op)                                                                                                         \
    {                                                                                                                  \
        for (int64_t i = 0; i < sg_count(a->y); i++) put(&a->y, i, formula);                                           \
        return SG_OK;                                                                                                  \
    }
EACH(add, get(&a->a, i) + get(&a->b, i % sg_count(a->b)))
EACH(mul, get(&a->a, i) * get(&a->b, i))
EACH(act, activate(a->act, get(&a->x, i)))
EACH(copy, get(&a->x, i))
#undef EACH

SG_REF(embed)
{
    const int64_t  c = a->w.dim[1];
    const int32_t *ids = a->ids.data;
    for (int64_t t = 0; t < a->ids.dim[0]; t++)
        for (int64_t i = 0; i < c; i++) put(&a->y, t * c + i, get(&a->w, ids[t] * c + i));
    return SG_OK;
}

SG_REF(sinusoid)
{
    const int64_t half = a->y.dim[1] / 2;
    for (int64_t t = 0; t < a->t.dim[0]; t++)
        for (int64_t i = 0; i < half; i++) {
            /* The angle is up to 1000, where one rounding of F32 is 3e-5 radian: the roundings are part of the formula.
             */
            const float f = expf(-9.210340371976184f * (float)i / (float)half),
                        angle = ((const float *)a->t.data)[t] * f;
            put(&a->y, t * 2 * half + i, FN(cos)((real)angle));
            put(&a->y, t * 2 * half + half + i, FN(sin)((real)angle));
        }
    return SG_OK;
}

/* The place beside r / 2, of n, that r lies towards. */
static int64_t beside(int64_t r, int64_t n)
{
    const int64_t k = r % 2 ? r / 2 + 1 : r / 2 - 1;
    return k < 0 ? 0 : k < n ? k : n - 1;
}

SG_REF(upsample)
{
    const int64_t *const xd = a->x.dim;
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        const spot    at = spot_of(&a->y, i);
        const int64_t f = a->near > 0 ? at.f / 2 : at.f;
        const real    later = a->near > 0 ? at.f % 2 ? (real)a->near : 1 - (real)a->near : 0;
        real          sum = 0;
        if (!a->linear) {
            put(&a->y, i, get(&a->x, ((at.f * xd[1] + at.y / 2) * xd[2] + at.x / 2) * xd[3] + at.c));
            continue;
        }
        for (int k = 0; k < 8; k++) { /* corners */
            const real share = (k & 4 ? later : 1 - later) * (real)(k & 2 ? 0.25 : 0.75) * (real)(k & 1 ? 0.25 : 0.75);
            const int64_t y = k & 2 ? beside(at.y, xd[1]) : at.y / 2, x = k & 1 ? beside(at.x, xd[2]) : at.x / 2;
            if (share > 0) sum += share * get(&a->x, (((f + k / 4) * xd[1] + y) * xd[2] + x) * xd[3] + at.c);
        }
        put(&a->y, i, sum);
    }
    return SG_OK;
}

SG_REF(avg_down)
{
    const int64_t *yd = a->y.dim, *xd = a->x.dim, ft = a->ft, fs = a->fs;
    const int64_t  group = xd[3] * ft * fs * fs / yd[3], front = yd[0] * ft - xd[0];
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        const spot at = spot_of(&a->y, i);
        real       sum = 0;
        for (int64_t k = at.c * group; k < (at.c + 1) * group; k++) {
            const int64_t dx = k % fs, dy = k / fs % fs, f = at.f * ft + k / fs / fs % ft - front;
            if (f >= 0)
                sum += get(&a->x, ((f * xd[1] + at.y * fs + dy) * xd[2] + at.x * fs + dx) * xd[3] + k / fs / fs / ft);
        }
        put(&a->y, i, sum / (real)group);
    }
    return SG_OK;
}

SG_REF(dup_up)
{
    const int64_t *yd = a->y.dim, *xd = a->x.dim, ft = a->ft, fs = a->fs;
    const int64_t  repeat = yd[3] * ft * fs * fs / xd[3];
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        const spot    at = spot_of(&a->y, i);
        const int64_t t = at.f + a->drop, k = ((at.c * ft + t % ft) * fs + at.y % fs) * fs + at.x % fs;
        put(&a->y, i, get(&a->x, ((t / ft * xd[1] + at.y / fs) * xd[2] + at.x / fs) * xd[3] + k / repeat));
    }
    return SG_OK;
}

SG_REF(permute)
{
    int64_t stride[SG_PERMUTE_RANK]; /* of x's axes */
    for (int64_t k = a->rank - 1, step = 1; k >= 0; step *= a->dim[k--]) stride[k] = step;
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        int64_t from = 0, rest = i;
        for (int k = a->rank - 1; k >= 0; rest /= a->dim[a->perm[k--]])
            from += rest % a->dim[a->perm[k]] * stride[a->perm[k]];
        put(&a->y, i, get(&a->x, from));
    }
    return SG_OK;
}

SG_REF(strided_copy)
{
    const sg_tensor t = a->scatter ? a->x : a->y;
    const int64_t   h = t.dim[1], d = t.dim[2];
    for (int64_t i = 0; i < sg_count(t); i++) {
        const int64_t row = a->row.rank ? ((const int32_t *)a->row.data)[i / d / h] : i / d / h;
        const int64_t at = a->first + row * a->token + i / d % h * a->head + i % d;
        put(&a->y, a->scatter ? at : i, get(&a->x, a->scatter ? i : at));
    }
    return SG_OK;
}

SG_REF(combine)
{
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        real sum = 0;
        for (int k = 0; k < a->count; k++) sum += (real)a->a[k] * get(&a->x[k], i);
        put(&a->y, i, sum);
    }
    return SG_OK;
}

SG_REF(rgb8)
{
    for (int64_t i = 0; i < sg_count(a->y); i++) {
        const real v = get(&a->x, i) * (real)0.5 + (real)0.5;
        ((uint8_t *)a->y.data)[i] = (uint8_t)FN(nearbyint)(255 * (v > 0 ? v < 1 ? v : 1 : 0));
    }
    return SG_OK;
}

SG_REF(count_non_finite)
{
    int32_t non_finite = 0;
    for (int64_t i = 0; i < sg_count(a->x); i++) non_finite += !isfinite(get(&a->x, i)) && non_finite < INT32_MAX;
    int32_t *const y = a->y.data;
    *y = non_finite > INT32_MAX - *y ? INT32_MAX : *y + non_finite;
    return SG_OK;
}

SG_REF(distance)
{
    const int64_t n = sg_count(a->a), parts = a->y.dim[0], part = (n + parts - 1) / parts;
    for (int64_t k = 0; k < parts; k++) {
        real moved = 0, size = 0;
        for (int64_t i = k * part; i < n && i < (k + 1) * part; i++) {
            const real b = get(&a->b, i);
            moved += FN(fabs)(get(&a->a, i) - b);
            size += FN(fabs)(b);
        }
        put(&a->y, 2 * k, moved);
        put(&a->y, 2 * k + 1, size);
    }
    return SG_OK;
}

#define X(op) .op = SG_REF_OP(op),
const sg_ops SG_REF_TABLE = {SG_OPS(X).conv_twice = conv_twice};
#undef X
