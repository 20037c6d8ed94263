/* interval.c - see interval.h. */
#include "interval.h"

#include <math.h>
#include <stdbool.h>

/* P(|T| <= sqrt(freedom) tan(angle)) */
static double inside(double angle, int freedom)
{
    const bool   odd = freedom % 2;
    const double c = cos(angle);
    double       term = odd ? c : 1, sum = freedom > 1 ? term : 0;
    for (int k = odd ? 3 : 2; k <= freedom - 2; k += 2) {
        term *= (k - 1.0) / k * c * c;
        sum += term;
    }
    return odd ? (angle + sin(angle) * sum) * M_2_PI : sin(angle) * sum;
}

double sg_student_t(int freedom, int together)
{
    enum { LIMIT = 10000, HALVINGS = 60 };
    const double wanted = 1 - 0.05 / together;
    double       lo = 0, hi = M_PI_2;
    if (freedom > LIMIT) freedom = LIMIT;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = (lo + hi) / 2;
        if (inside(middle, freedom) < wanted)
            lo = middle;
        else
            hi = middle;
    }
    return sqrt(freedom) * tan((lo + hi) / 2);
}

void sg_running_add(sg_running *r, double v)
{
    const double from_old = v - r->mean;
    r->mean += from_old / ++r->count;
    r->squares += from_old * (v - r->mean);
}

sg_interval sg_running_interval(const sg_running *r, int together)
{
    if (r->count < 2) return (sg_interval){r->count ? r->mean : NAN, NAN, NAN};
    const double half = sg_student_t(r->count - 1, together) * sqrt(r->squares / (r->count - 1) / r->count);
    return (sg_interval){r->mean, r->mean - half, r->mean + half};
}

sg_interval sg_interval_share(double right, int count)
{
    const double p = right / count, n = count, z = 1.959964, whole = 1 + z * z / n;
    const double middle = p + z * z / 2 / n, half = z * sqrt(p * (1 - p) / n + z * z / 4 / n / n);
    return (sg_interval){p, fmax((middle - half) / whole, 0), fmin((middle + half) / whole, 1)};
}

sg_interval sg_interval_bounded(sg_interval v)
{
    const double slope = 1 / (1 - v.mean * v.mean);
    if (isnan(v.low) || !isfinite(slope)) return v;
    const double z = atanh(v.mean), half = (v.mean - v.low) * slope;
    return (sg_interval){v.mean, tanh(z - half), tanh(z + half)};
}
