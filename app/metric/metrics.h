/* metrics.h - how far one picture is from another, what that makes over a clip, and how far two arrays are apart.
 *
 * PSNR = 10 log10(255^2 / MSE) in dB, MSE over all samples of R, G and B.
 *
 * SSIM after Wang et al., "Image quality assessment: from error visibility to structural similarity" (IEEE TIP 2004):
 * a Gaussian window of sigma 1.5 and 11x11 taps, K1 = 0.01, K2 = 0.03, range 255, biased variances; the mean over R, G,
 * B and all pixels whose window lies within the picture. It is scikit-image's structural_similarity(...,
 * gaussian_weights=True, sigma=1.5, use_sample_covariance=False, data_range=255, channel_axis=2).
 *
 * MS-SSIM after Wang, Simoncelli and Bovik, "Multiscale structural similarity for image quality assessment" (Asilomar
 * 2003), of the pictures at full size, half, a quarter and so on:
 *
 *   for each of R, G, B: product over the scales s of term_s ^ weight_s, and the mean of the three
 *   term_s: mean of (2 cov + C2) / (var a + var b + C2); at the last scale mean of SSIM; 0 where that is negative
 *   weight = 0.0448, 0.2856, 0.3001, 0.2363, 0.1333
 *
 * Five scales need sides above 160 pixels. Of smaller pictures as many are taken as hold a window, and their
 * weights are divided by their sum. A picture is halved by the means of 2x2 pixels; an odd side gets a row of zeros in
 * front. It is pytorch-msssim 1.0.0's ms_ssim(..., data_range=255), with weights=... where there are fewer than five.
 * No unit but PSNR's. */
#ifndef SG_METRICS_H
#define SG_METRICS_H

#include "base/image.h"

enum { SG_SSIM_WINDOW = 11, SG_SSIM_SCALES = 5 };

/* Compares pictures of the same size. INFINITY when they are equal. */
double sg_psnr(const sg_image *a, const sg_image *b);

typedef struct sg_similarity {
    double ssim, ms_ssim;
    int    scales; /* of ms_ssim; the same for all pictures of a size */
} sg_similarity;

/* Compares pictures of the same size. SG_E_SHAPE for a side below SG_SSIM_WINDOW, SG_E_MEMORY. */
sg_status sg_ms_ssim(sg_similarity *out, const sg_image *a, const sg_image *b, sg_error *e) SG_MUST_USE;

typedef struct sg_summary {
    double mean; /* of the finite values; INFINITY if there are none */
    double minimum;
    double p5;    /* 5th percentile, between two values in proportion as NumPy's percentile(x, 5) */
    int    worst; /* where the minimum is first */
} sg_summary;

/* Orders two doubles, none of them NaN, for qsort: the lower comes first. */
int sg_double_order(const void *a, const void *b);

/* Takes count >= 1 values, none of them NaN, INFINITY the largest of all. SG_E_MEMORY. */
sg_status sg_summarise(sg_summary *out, const double *value, int count, sg_error *e) SG_MUST_USE;

typedef struct sg_distance {
    double relative_l2; /* |b - a| / |a|: 0 when they are equal, INFINITY when only a is zero throughout */
    double cosine;      /* a b / (|a| |b|), 0 when either is zero throughout, as torch's cosine_similarity */
    size_t non_finite;  /* values of a and of b that are NaN or infinite; if there are any, the two above are NaN */
} sg_distance;

/* Compares n values, a being the reference: latents, for example. Sums are in double. */
sg_distance sg_array_distance(const float *a, const float *b, size_t n);

#endif
