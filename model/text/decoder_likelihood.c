/* decoder_likelihood.c - log-likelihoods of tokens, which are computed where the logits are: to read all logits of a long text
 * takes longer than to make them. Logits are made some rows at a time. sg_attend over each of h parts of the vocabulary, with
 * logits as the bias, and the target's logit t once more as that of one key behind, whose value alone is 1, gives
 *   y = e^t / (e^t + Z), Z the sum over the part of e^logit,
 * which is at most 1/2 in the target's own part, so that Z / e^t = (1 - y) / y loses no digits. Then
 *   log p = -log(sum over parts of Z / e^t).
 * Of the rare token for which e^t is too small beside Z, the row of logits is read. */
#include "decoder.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Heads that share the work of a sum over the vocabulary: a power of two that divides it. */
static int64_t parts_of(int64_t vocab)
{
    int64_t h = 1;
    while (h < 64 && vocab % (2 * h) == 0) h *= 2;
    return h;
}

int64_t sg_decoder_logit_rows(const sg_decoder *d, int64_t n)
{
    enum { BYTES = 1 << 27, MOST = 512 };
    const int64_t rows = BYTES / (int64_t)sizeof(float) / sg_decoder_describe(d).vocab;
    return sg_min64(n, rows < 1 ? 1 : rows > MOST ? MOST : rows);
}

/* Sets *logp by one row's shares of the h parts, d numbers each. Returns false where one is too small to be a number of full
 * precision: the token has less than e^-87. */
static bool log_of_shares(float *logp, const float *share, int64_t h, int64_t d)
{
    double rest = 0; /* sum of Z / e^t */
    for (int64_t g = 0; g < h; g++) {
        const double y = (double)share[g * d];
        if (!(y >= FLT_MIN)) return false; /* or not a number */
        rest += (1 - y) / y;
    }
    *logp = (float)fmin(-log(rest), 0);
    return true;
}

/* The same by all logits of the row. */
static float log_of_logits(const float *logit, int64_t vocab, int32_t target)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < vocab; i++) most = fmax(most, (double)logit[i]);
    for (int64_t i = 0; i < vocab; i++) sum += exp((double)logit[i] - most);
    return (float)((double)logit[target] - most - log(sum));
}

void sg_decoder_likelihoods(const sg_decoder *d, sg_stream *s, sg_tensor x, const int32_t *target, float *out)
{
    enum { D = 8 };
    const size_t  outer = s->scratch.used;
    const int64_t vocab = sg_decoder_describe(d).vocab, h = parts_of(vocab), m = vocab / h,
                  most = sg_decoder_logit_rows(d, x.dim[0]);
    const sg_tensor zeros = sg_new(s, SG_F32, most, h, D), mark = sg_new(s, SG_F32, m + 1, 1, D);
    const size_t    zero = (size_t)(most * h * D), keys = (size_t)((m + 1) * D);
    float *const host = calloc(zero + keys, sizeof *host), *const all = calloc((size_t)vocab, sizeof *all);
    int32_t *const place = calloc((size_t)most, sizeof *place);
    if (!host || !place || !all) sg_fail(s, SG_E_MEMORY, "no memory for likelihoods");
    if (host) sg_upload(s, zeros, host);
    for (int64_t i = 0; host && i < D; i++) host[m * D + i] = 1;
    if (host) sg_upload(s, mark, host);
    const size_t inner = s->scratch.used;
    for (int64_t first = 0, r; first < x.dim[0] && !s->status; first += r, s->scratch.used = inner) {
        r = sg_min64(most, x.dim[0] - first);
        const sg_tensor row = sg_new(s, SG_I32, r), logits = sg_new(s, SG_F32, r, vocab);
        const sg_tensor t = sg_new(s, SG_F32, r, h, 1), bias = sg_new(s, SG_F32, h, r, m + 1);
        const sg_tensor y = sg_new(s, SG_F32, r, h, D), flat = sg_reshape(bias, h * r * (m + 1));
        for (int64_t i = 0; target && i < r; i++) place[i] = (int32_t)(i * vocab + target[first + i]);
        sg_upload(s, row, place);
        sg_decoder_logits(d, s, logits, sg_rows(x, first, r));
        sg_strided_copy(s, .y = t, .x = sg_reshape(logits, r * vocab), .row = row, .token = 1);
        sg_strided_copy(s, .y = flat, .x = sg_reshape(logits, r, h, m), .token = m + 1, .head = r * (m + 1),
                        .scatter = true);
        sg_strided_copy(s, .y = flat, .x = t, .first = m, .token = m + 1, .head = r * (m + 1), .scatter = true);
        sg_attend(s, .y = y, .q = sg_rows(zeros, 0, r), .k = mark, .v = mark, .bias = bias, .scale = 1);
        if (!target || s->status) continue;
        sg_download(s, host, y);
        for (int64_t i = 0; !s->status && i < r; i++) {
            if (!log_of_shares(&out[first + i], host + i * h * D, h, D)) {
                sg_download(s, all, sg_rows(logits, i, 1));
                out[first + i] = log_of_logits(all, vocab, target[first + i]);
            }
            if (isnan(out[first + i])) sg_fail(s, SG_E_NUMERIC, "the likelihood of a token is not a number");
        }
    }
    free(host);
    free(all);
    free(place);
    s->scratch.used = outer;
}
