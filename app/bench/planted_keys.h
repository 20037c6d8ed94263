/* planted_keys.h - causal q, k and v like those of a language model, in which each query has one key whose share of the
 * softmax is known: what attention that skips blocks must not lose.
 *
 * Of a head of d channels the first is global, the next 2 F = 16 are of positions, and e = d - 17 are content. z is
 * always another vector of standard normal numbers. With scale 1 / sqrt(d) the logit of query r and key t <= r is
 *     s_rt = 4 g_t + (6 / F) sum over f < F of cos(w_f (r - t)) + x_r y_t,    w_f = 2 pi / (24 * 1.5^f):
 *     g_t = 2 for t = 0, the sink; 1 for the 16 stripes t = floor(n (i + 1/2) / 16); else 0
 *     y_t = u / |u|, u = sqrt(rho) z_j + sqrt(1 - rho) z_t of its block j of 64 keys; every 16th block, j = 8, 24, ...,
 *           is noisy, with rho = 0; of the others rho = 0.8
 *     x_r = sqrt(0.8) z_i + sqrt(0.2) z_r + a_r y_p of its block i of 128 queries
 * The cosines make a local band. p is the key that is planted for query r. a_r is the one number by which
 *     s_rp = m + ln sum over t <= r, t /= p of e^s_rt,
 * so p has 1 / (1 + e^-m) of the row's mass. There is one such number: as |y_t| = 1, s_rp minus the logarithm rises with
 * a_r. It is concave too, so Newton's method comes to the number from below, from wherever it starts.
 *
 * As tensors: k_t = (g_t; cos w_f t, sin w_f t; sqrt(e) y_t), q_r = sqrt(d) (4; 6 / F cos w_f r, 6 / F sin w_f r;
 * x_r / sqrt(e)), v = z. k is rounded to the dtype before a_r is found, q after it: in BF16 that changes m a little. The
 * first 1,024 queries have no planted key. No planted key is in the first block, or among the last 256 before its block
 * of queries. */
#ifndef SG_PLANTED_KEYS_H
#define SG_PLANTED_KEYS_H

#include "status.h"
#include "tensor.h"

/* Where the planted keys of a block of queries stand: in the order of sg_planted_names. */
typedef enum sg_planted_in {
    SG_PLANTED_SIMILAR,   /* each query's own, in one block that is not noisy */
    SG_PLANTED_NOISY,     /* one key for all of them, in a noisy block */
    SG_PLANTED_SCATTERED, /* each query's own, in four noisy blocks, of which some may be the same */
    SG_PLANTED_KINDS
} sg_planted_in;

enum { SG_PLANTED_HEAD_MIN = 32, SG_PLANTED_TOKENS_MIN = 2048, SG_PLANTED_FIRST = 1024 };

typedef struct sg_planted {
    int64_t       n;        /* tokens, a multiple of 128 from SG_PLANTED_TOKENS_MIN on */
    int           h, hk, d; /* heads of queries, of keys; channels, from SG_PLANTED_HEAD_MIN on */
    sg_dtype      dtype;    /* F32 or BF16 */
    sg_planted_in in;
    double        margin;    /* m, nats */
    float        *q, *k, *v; /* [n, h, d], [n, hk, d] x 2; owned, as the rest */
    int32_t      *key;       /* [n, h]; -1: none */
    float        *mass;      /* [h, n / 128, n / 64]: the share of their mass that a block's queries give to a block */
    double        share;     /* of the planted keys in their rows, the mean */
    int64_t       samples;   /* rows of which output is known, at most n / 2: sample i is row sg_planted_row(p, i) */
    float        *output;    /* [samples, h, d] */
} sg_planted;

/* Fills q, k, v and key by the members before them. The same seed gives the same numbers. The caller frees p, after a
 * failure too. SG_E_CANCELLED after Ctrl-C, of both. */
sg_status sg_planted_make(sg_planted *p, uint64_t seed, int threads, sg_error *e) SG_MUST_USE;

/* Fills what exact attention gives: mass, share, and the output of p->samples rows. Logits are F32, sums double; weights
 * below e^-40 of a row's largest count as 0. */
sg_status sg_planted_attend(sg_planted *p, int threads, sg_error *e) SG_MUST_USE;

int64_t sg_planted_row(const sg_planted *p, int64_t sample);

void sg_planted_free(sg_planted *p);

#endif
