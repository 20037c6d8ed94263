/* metrics.h - how far one picture is from another, and what that makes over a clip.
 *
 * PSNR = 10 log10(255^2 / MSE) in dB, MSE over all samples of R, G and B.
 * SSIM after Wang et al., "Image quality assessment: from error visibility to structural similarity" (IEEE TIP 2004):
 * a Gaussian window of sigma 1.5 and 11x11 taps, K1 = 0.01, K2 = 0.03, range 255, biased variances; the mean over R, G,
 * B and all pixels whose window lies within the picture. It is scikit-image's structural_similarity(...,
 * gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255, channel_axis=2). */
#ifndef SG_METRICS_H
#define SG_METRICS_H

#include "image.h"

enum { SG_SSIM_WINDOW = 11 };

/* Of pictures of the same size. INFINITY when they are equal. */
double sg_psnr(const sg_image *a, const sg_image *b);

/* Of pictures of the same size. SG_E_SHAPE for a side below SG_SSIM_WINDOW, SG_E_MEMORY. */
sg_status sg_ssim(double *out, const sg_image *a, const sg_image *b, sg_error *e) SG_MUST_USE;

typedef struct sg_summary {
    double mean; /* of the finite values; INFINITY if there are none */
    double minimum;
    double percentile_5; /* between two values in proportion, as NumPy's percentile(x, 5) */
    int    worst;        /* where the minimum is first */
} sg_summary;

/* Of count >= 1 values, none of them NaN, INFINITY the largest of all. SG_E_MEMORY. */
sg_status sg_summarise(sg_summary *out, const double *value, int count, sg_error *e) SG_MUST_USE;

#endif
