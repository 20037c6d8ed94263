/* budget.h - how far a kernel's result may be from the truth.
 *
 * The truth is the oracle in double, the budget is what rounding alone does: the same oracle in F32 with intermediates
 * rounded. A kernel passes when, of all elements,
 *     rms error(kernel)     <= 2 rms error(rounded)     + one unit in the last place of the truth's rms
 *     largest error(kernel) <= 4 largest error(rounded) + one unit in the last place of the largest truth
 * A backend may add up a sum in any order of its loops, in F32. The error of such a sum is at most u, 2^-24, times the sum
 * of its partial sums' sizes; as roundings are as good as independent, it is about u / sqrt(3) times the root of the sum of
 * their squares. So it grows as the root of the number of terms, and it depends on the order as the partial sums do:
 * where the products of one channel agree in sign over the taps of a convolution, partial sums are large if the loop over
 * channels is the outer one, and small if that over taps is. So the rounded oracle adds up in each nesting of a sum's loops,
 * forwards and backwards, rounds each product and each partial sum, and keeps of each element the result farthest from the
 * truth. Sums in pieces (vectors, threads, pairs) have smaller partial sums and are within that, as are fused products.
 * Against what one order makes this is 1.3 times for a product of terms at random, 1.6 times for a convolution; 2 times, at
 * most 5, for the embedded model's convolutions; and up to 12 times where a product is added to a y much larger than it. A
 * sum of 1,944 terms that lacks one, or whose operands are rounded to 11 bits, is beyond it by a factor of 50 or more.
 * Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, 4.2; Higham and Mary, A new approach to
 * probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019.
 * Tensor cores add 16 BF16 products to an F32 sum at a time and cut what lies below its last place instead of rounding
 * it: up to one unit, half of one on average, always towards zero, so that the cuts of a sum add up where roundings walk
 * at random. For such sums both limits grow by one unit, 2^-23 of the same scale, for each 16 products: what the cuts
 * take on average, doubled as roundings are, and all that they can take.
 * Source: Fasi et al., Numerical behavior of NVIDIA tensor cores, PeerJ Computer Science 7, 2021.
 * The largest of a few errors is a matter of luck, hence the 4; it is there for errors in one place, which are not
 * small. NaN and infinities must stand where the truth has them, except where the rounded oracle cannot tell either.
 * Integers must equal the truth. U8, which is rounded from a float, may equal the rounded oracle instead; so a mask, which
 * both oracles decide, must equal the truth. I8 and F8 may be anything where the two differ: what a broken scale makes
 * of a number does not matter; F8 is judged here as what quantise writes, bit by bit. */
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

/* Three tensors of one shape and dtype, in host memory. cut: so many products of each sum went through tensor cores that
 * cut; 0: none, or the result is rounded to less than F32. */
sg_verdict sg_budget_judge(sg_tensor got, sg_tensor truth, sg_tensor rounded, int64_t cut);

/* "largest error 3.0e-03 at 17, 2.1e-06 allowed; ..." */
void sg_verdict_text(char *out, size_t size, const sg_verdict *v);

#ifdef __cplusplus
}
#endif
#endif
