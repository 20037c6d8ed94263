/* ref.h - what the oracle's files share. Each is compiled twice, see ref.c. */
#ifndef SG_REF_H
#define SG_REF_H

#include "op.h"
#include "quant.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>

#ifndef SG_REF_REAL
#define SG_REF_REAL double
#define SG_REF_TABLE sg_ref_ops
#define SG_REF_IS_TRUTH 1
#endif

typedef SG_REF_REAL real;

#if SG_REF_IS_TRUTH
#define SG_REF_OP(op) sg_ref_##op
#define SUM(var) _Pragma(SUM_TEXT(omp simd reduction(+ : var)))
#define SUM_TEXT(x) #x
#define FN(name) name
static inline real round_as(sg_dtype t, real v)
{
    (void)t;
    return v;
}
#else
#define SG_REF_OP(op) sg_ref_rounded_##op
#define SUM(var)
#define FN(name) name##f
static inline real round_as(sg_dtype t, real v)
{
    if (t == SG_F8) return sg_f8_to_f32(sg_f32_to_f8(v));
    return t == SG_BF16 ? sg_bf16_to_f32(sg_f32_to_bf16(v)) : v;
}
#endif

static inline real get(const sg_tensor *t, int64_t i) { return (real)sg_load(t, i); }
static inline real get_or(const sg_tensor *t, int64_t i, real other) { return t->rank ? get(t, i) : other; }
static inline void put(const sg_tensor *t, int64_t i, real v) { sg_store(t, i, (float)v); }
static inline void put_or_add(const sg_tensor *t, int64_t i, real v, bool add) { put(t, i, add ? get(t, i) + v : v); }

/* From this many numbers on a second thread is worth its start. */
enum { SG_REF_WORK = 1 << 14 };

/* Returns all of t as real numbers, in memory that the caller frees. */
static inline real *widen(sg_tensor t)
{
    const int64_t n = sg_count(t);
    real *const   r = malloc((size_t)(n ? n : 1) * sizeof *r);
    if (!r) return NULL;
#pragma omp parallel for schedule(static) if (n > SG_REF_WORK)
    for (int64_t i = 0; i < n; i++) r[i] = get(&t, i);
    return r;
}

/* Does sum += term, where term is a formula in i, for i from 0 to n - 1. A kernel in F32 may add in another order, and
 * the error depends on the order's partial sums. So the rounded build adds forwards, starting with sum, and backwards,
 * ending with it, and takes the result that is farther from the sum in double. */
#if SG_REF_IS_TRUTH
#define ADD_UP(sum, i, n, term)                                                                                        \
    do {                                                                                                               \
        SUM(sum)                                                                                                       \
        for (int64_t i = 0; i < (n); i++) sum += (term);                                                               \
    } while (0)
#else
#define ADD_UP(sum, i, n, term)                                                                                        \
    do {                                                                                                               \
        real   back_ = 0, term_;                                                                                       \
        double exact_ = (double)(sum), first_ = exact_;                                                                \
        for (int64_t k_ = 0; k_ < (n); k_++) {                                                                         \
            int64_t i = (n)-1 - k_;                                                                                    \
            back_ += (term);                                                                                           \
            i = k_;                                                                                                    \
            sum += term_ = (term);                                                                                     \
            exact_ += (double)term_;                                                                                   \
        }                                                                                                              \
        sum = farther(exact_, sum, back_ + (real)first_);                                                              \
    } while (0)
#endif

/* Returns the one of two results that is farther from the exact one; a non-finite one is farthest. */
static inline real farther(double exact, real a, real b)
{
    return fabs((double)b - exact) <= fabs((double)a - exact) ? a : b;
}

static inline real dot(const real *a, const real *b, int64_t n)
{
    real sum = 0;
    ADD_UP(sum, i, n, a[i] * b[i]);
    return sum;
}

#define X(op) sg_status SG_REF_OP(op)(sg_stream *, const sg_##op##_args *);
SG_OPS(X)
#undef X

/* Begins the definition of an op with args a. attention/ref has those of the stages of sparse attention. */
#define SG_REF(op) sg_status SG_REF_OP(op)(__attribute__((unused)) sg_stream * s, const sg_##op##_args *a)

/* Returns room for n things of that size for each thread of a team that says num_threads(omp_get_max_threads()): with
 * two OpenMP libraries in a build, a team without it may have more. The caller frees it. */
static inline void *of_threads(int64_t n, size_t size)
{
    return malloc((size_t)(omp_get_max_threads() * n) * size + 1);
}

#endif
