/* budget.c - judges a result by the rounding error that nobody can avoid. */
#include "budget.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* One unit in the last place of v in dtype t. Below the normal numbers it stays at the smallest of them: a kernel may
 * flush denormals. */
static double ulp(sg_dtype t, double v)
{
    const int bits = t == SG_BF16 ? 7 : t == SG_F16 ? 10 : 23;
    if (v < (double)FLT_MIN) return (double)FLT_MIN;
    return fmax(ldexp(1, ilogb(v) - bits), (double)FLT_MIN);
}

/* What tensor cores may cut from a sum of `products` that comes to v. */
static double cuts(int64_t products, double v)
{
    enum { AT_A_TIME = 16 };
    return (double)((products + AT_A_TIME - 1) / AT_A_TIME) * (double)FLT_EPSILON * v;
}

static bool same_kind(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return isinf(a) || isinf(b) ? a == b : true;
}

static int64_t integer(sg_tensor t, int64_t i)
{
    if (t.dtype == SG_I32) return ((const int32_t *)t.data)[i];
    if (t.dtype == SG_U16) return ((const uint16_t *)t.data)[i];
    return t.dtype == SG_I8 ? ((const int8_t *)t.data)[i] : ((const uint8_t *)t.data)[i];
}

static sg_verdict judge_integers(sg_tensor got, sg_tensor truth, sg_tensor rounded)
{
    for (int64_t i = 0; i < sg_count(got); i++) {
        const int64_t g = integer(got, i), t = integer(truth, i), r = integer(rounded, i);
        if (g == t || (got.dtype == SG_U8 && g == r) || ((got.dtype == SG_I8 || got.dtype == SG_F8) && t != r))
            continue;
        return (sg_verdict){.fault = "an integer differs", .largest = fabs((double)(g - t)), .at = i};
    }
    return (sg_verdict){0};
}

sg_verdict sg_budget_judge(sg_tensor got, sg_tensor truth, sg_tensor rounded, int64_t cut)
{
    if (got.dtype == SG_I32 || got.dtype == SG_U16 || got.dtype == SG_U8 || got.dtype == SG_I8 || got.dtype == SG_F8)
        return judge_integers(got, truth, rounded);
    sg_verdict v = {0};
    double     square = 0, budget = 0, scale = 0, last = 0, budget_largest = 0, scale_largest = 0;
    int64_t    count = 0;
    for (int64_t i = 0; i < sg_count(got); i++) {
        const double g = (double)sg_load(&got, i), t = (double)sg_load(&truth, i), r = (double)sg_load(&rounded, i);
        if (!same_kind(r, t)) continue; /* F32 over- or underflows here whoever computes it */
        if (!same_kind(g, t)) {
            v.fault = "NaN or infinity in another place";
            v.at = i;
            return v;
        }
        if (!isfinite(t)) continue;
        const double e = fabs(g - t), b = fabs(r - t);
        if (e > v.largest) {
            v.largest = e;
            v.at = i;
        }
        budget_largest = fmax(budget_largest, b);
        scale_largest = fmax(scale_largest, fabs(t));
        square += e * e;
        budget += b * b;
        scale += t * t;
        last += ulp(got.dtype, fabs(t)) * ulp(got.dtype, fabs(t));
        count++;
    }
    if (count == 0) return v;
    v.rms = sqrt(square / (double)count);
    v.rms_max = 2 * sqrt(budget / (double)count) + sqrt(last / (double)count) + cuts(cut, sqrt(scale / (double)count));
    v.largest_max = 4 * budget_largest + ulp(got.dtype, scale_largest) + cuts(cut, scale_largest);
    if (v.rms > v.rms_max) v.fault = "too far from the truth on the whole";
    if (v.largest > v.largest_max) v.fault = "too far from the truth";
    return v;
}

void sg_verdict_text(char *out, size_t size, const sg_verdict *v)
{
    snprintf(out, size, "%s: largest error %.3g at %lld, %.3g allowed; root mean square %.3g, %.3g allowed",
             v->fault ? v->fault : "passed", v->largest, (long long)v->at, v->largest_max, v->rms, v->rms_max);
}
