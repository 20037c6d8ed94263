/* interval.h - means with intervals that hold 95 %: mean +- t s / sqrt(n) over n values, t of Student's distribution
 * with n - 1 degrees of freedom and s their standard deviation. Where k of them are looked at, as of k arms that are all
 * compared with a first one, t is that of 1 - 0.05 / k (Bonferroni; 1 - 0.05 / 2k on each side): then all k hold
 * together in 95 % of the cases. */
#ifndef SG_INTERVAL_H
#define SG_INTERVAL_H

typedef struct sg_interval {
    double mean, low, high; /* NAN: unknown */
} sg_interval;

/* Returns t so that |T| <= t with a probability of 1 - 0.05 / together, T of Student's distribution with so many degrees
 * of freedom; both are 1 at least. Above 10,000 degrees it is that of 10,000, larger by 0.02 % at most. Formula:
 * Abramowitz and Stegun, 26.7.3 and 26.7.4. */
double sg_student_t(int freedom, int together);

/* Holds the mean and the sum of squared deviations so far: Welford, Technometrics 4 (1962). It begins as zero. */
typedef struct sg_running {
    int    count;
    double mean, squares;
} sg_running;

void sg_running_add(sg_running *r, double v);

/* Returns the interval of what was added, which holds with together - 1 others; of fewer than two values it has the mean
 * alone. */
sg_interval sg_running_interval(const sg_running *r, int together);

/* Returns the share right / count with Wilson's interval of 95 %: ((p + z^2/2n) +- z sqrt(p (1 - p) / n + z^2/4n^2)) / (1 + z^2/n),
 * z = 1.96. It lies within 0 and 1, and is not empty where all are right. count is 1 at least. */
sg_interval sg_interval_share(double right, int count);

/* Bounds v, of figures that lie within -1 and 1, as SSIM does. The half-width is taken to Fisher's z = atanh by the
 * slope there, 1 / (1 - mean^2), and back, so that both ends lie within -1 and 1 too. The mean stays. */
sg_interval sg_interval_bounded(sg_interval v);

#endif
