/* budget.h - how far a kernel's result may be from the truth.
 *
 * The truth is the oracle in double. The budget is the error of rounding alone: that of the same oracle in F32 with
 * rounded intermediates. A kernel passes if, over all elements,
 *     rms error(kernel)     <= 2 rms error(rounded)     + rms of one ulp of each truth
 *     largest error(kernel) <= 4 largest error(rounded) + one ulp of the largest truth
 *
 * Order of sums. A backend may take a sum in F32 in any order of its loops. The error of a sum is at most u = 2^-24
 * times the sum of the magnitudes of its partial sums. Roundings are nearly independent, so it is about u / sqrt(3)
 * times the root of the sum of their squares. So it grows with the root of the number of terms, and depends on the
 * order through the partial sums: where the products of one channel agree in sign over the taps of a convolution,
 * partial sums are large if the loop over channels is the outer one, and small if that over taps is. So the rounded
 * oracle sums in each nesting of a sum's loops, forwards and backwards, rounds each product and each partial sum, and
 * keeps for each element the result farthest from the truth. Sums in pieces (vectors, threads, pairs) and fused
 * multiply-adds have smaller errors. Relative to one order the budget is 1.3 times as large for a matmul of random
 * terms, 1.6 times for a convolution, 2 times, at most 5, for the embedded model's convolutions, and up to 12 times
 * where a product is added to a y much larger than it. A sum of 1,944 terms that lacks one term, or whose operands are
 * rounded to 11 bits, exceeds it by a factor of 50 or more. Source: Higham, Accuracy and Stability of Numerical
 * Algorithms, 2002, 4.2; Higham and Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput.
 * 41, 2019.
 *
 * Tensor cores add 16 BF16 products to an F32 sum at a time and truncate the result: by up to one ulp, half an ulp on
 * average, always towards zero, so these errors add up linearly. For such sums both limits grow by one ulp, 2^-23 of
 * the same scale, for each 16 products: for the first limit twice the average, as for roundings, for the second the
 * maximum. Source: Fasi et al., Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021.
 *
 * The largest of a few errors varies much, hence the factor 4: that limit finds errors in single elements, which are
 * large. NaN and infinities must be where the truth has them, except where the rounded oracle differs from it too.
 * Integers must equal the truth. U8 is rounded from a float and may equal the rounded oracle instead. I8 and F8 may be
 * anything where the two differ, as a number with a broken scale does not matter. F8 here is quantise's result, compared
 * bit by bit. */
#ifndef SG_BUDGET_H
#define SG_BUDGET_H

#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_verdict {
    const char *fault;                /* NULL: passed; else what is wrong, for a person */
    double      rms, rms_max;         /* error, and what is allowed */
    double      largest, largest_max; /* largest error, and what is allowed */
    int64_t     at;                   /* element at fault, or that of the largest error */
} sg_verdict;

/* Judges `got` by the two others. All three have one shape and dtype and lie in host memory. cut is the number of
 * products of each sum that truncating tensor cores added; 0 means none, or that the result has less precision than
 * F32. */
sg_verdict sg_budget_judge(sg_tensor got, sg_tensor truth, sg_tensor rounded, int64_t cut);

/* Writes the verdict for people: "largest error 3.0e-03 at 17, 2.1e-06 allowed; ..." */
void sg_verdict_text(char *out, size_t size, const sg_verdict *v);

#ifdef __cplusplus
}
#endif
#endif
