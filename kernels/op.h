/* op.h - the contract between models and backends.
 *
 * A model speaks only this header; a backend implements only this header. Shapes are written beside the members, a
 * question mark means that the tensor may be absent (rank 0). Every args struct begins with its tensors, and these with
 * what the op writes: SG_TENSORS below each struct says how many. An output may not overlap another tensor unless the
 * formula says "+=".
 *
 * Where tokens have modulations of their own, an op takes `row`: gate, or scale and shift, are then [r, c], and row t
 * of what the op goes over takes their row row[t]. The caller has checked that 0 <= row < r.
 *
 * dtypes: where nothing else is said, tensors named y x r q k v a are F32 or BF16, each its own; weight matrices are F32
 * or BF16; vectors (biases, scales, tables of cosines) are F32. Sums are held in F32 or better. */
#ifndef SG_OP_H
#define SG_OP_H

#include "block_rule.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#define SG_STATIC_ASSERT static_assert
#else
#define SG_STATIC_ASSERT _Static_assert
#endif

/* Bump allocation: the same calls give the same addresses, so a step can be replayed. Owns nothing; base is its
 * creator's. With cap SIZE_MAX and any base it measures without memory. */
typedef struct sg_arena {
    uintptr_t base;
    size_t    cap, used, peak;
} sg_arena;

/* Address of `bytes` aligned bytes, or 0 when they do not fit. */
static inline uintptr_t sg_arena_take(sg_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX - SG_ALIGN) return 0;
    const size_t need = sg_aligned(bytes);
    if (need > a->cap - a->used) return 0;
    const uintptr_t p = a->base + a->used;
    a->used += need;
    if (a->used > a->peak) a->peak = a->used;
    return p;
}

/* The args of op begin with sg_<op>_tensors tensors, of which `last` is the last. The op writes the first of them,
 * sg_<op>_outputs at most. `arrays` counts the bytes of the arrays behind them; the other members are smaller than one
 * tensor, so that a tensor that stands behind them, or is added behind `last`, does not compile. */
#define SG_TENSORS_AND(op, outputs, last, arrays)                                                                      \
    enum {                                                                                                             \
        sg_##op##_outputs = outputs,                                                                                   \
        sg_##op##_tensors = (int)(offsetof(sg_##op##_args, last) / sizeof(sg_tensor)) + 1                              \
    };                                                                                                                 \
    SG_STATIC_ASSERT(offsetof(sg_##op##_args, last) % sizeof(sg_tensor) == 0 &&                                        \
                         sizeof(((sg_##op##_args *)0)->last) == sizeof(sg_tensor) &&                                   \
                         sizeof(sg_##op##_args) < (sg_##op##_tensors + 1) * sizeof(sg_tensor) + (arrays),              \
                     "the tensors of an args struct come first, outputs before the others")
#define SG_TENSORS(op, outputs, last) SG_TENSORS_AND(op, outputs, last, 0)

typedef enum sg_act {
    SG_ACT_NONE,
    SG_ACT_RELU,       /* max(x, 0) */
    SG_ACT_SILU,       /* x / (1 + exp(-x)) */
    SG_ACT_GELU_TANH,  /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    SG_ACT_CLAMP,      /* min(max(x, -1), 1) */
    SG_ACT_GELU_ERF,   /* x/2 (1 + erf(x / sqrt(2))) */
    SG_ACT_GELU_QUICK, /* x / (1 + exp(-1.702 x)) */
    SG_ACT_TANH        /* tanh(x) */
} sg_act;

/* y = act(x w^T + b), or with add: y += gate (x w^T + b). w may be quantised: then its numbers are widened, rounded to
 * w's dtype, and multiplied as such; x times its adapter is added to that product in y's dtype. */
typedef struct sg_linear_args {
    sg_tensor y, x, w, b, gate; /* [n, o] [n, i] [o, i] [o]? [o]? or [r, o] */
    sg_tensor row;              /* I32 [n]?, of gate */
    sg_act    act;              /* SG_ACT_NONE with add */
    bool      add;              /* with gate always */
} sg_linear_args;
SG_TENSORS(linear, 1, row);

typedef enum sg_norm_kind {
    SG_NORM_LAYER, /* (x - mean) / sqrt(var + eps), var = mean of squared deviations */
    SG_NORM_RMS,   /* x / sqrt(mean(x^2) + eps) */
    SG_NORM_L2,    /* x sqrt(c) / max(sqrt(sum x^2), 1e-12) */
    SG_NORM_NONE,  /* x: an affine map per channel */
    SG_NORM_GROUP  /* LAYER's formula over the channels of a group, at all places of a chunk: see groups */
} sg_norm_kind;

/* y = act((norm(x) w + b) (1 + scale) + shift), along the last dimension. non_finite += how many rows of x have a mean
 * that is not finite, for there is a NaN or an infinity in them, or their sum is beyond F32; only LAYER tells. */
typedef struct sg_norm_args {
    sg_tensor y, non_finite;         /* [.., c] I32 [1]? */
    sg_tensor x, w, b, scale, shift; /* [.., c] [c]? [c]? [c]? [c]? or [r, c] */
    sg_tensor row;                   /* I32 [rows of x]?, of scale and shift */
    /* GROUP takes no scale and shift, and computes y = act((norm(x) w + b) place_scale + place_shift). x is
     * [f, y, x, c]; place (r, s) of y x takes place (r y' / y, s x' / x), rounded down, of y' x'. */
    sg_tensor    place_scale, place_shift; /* F32 or BF16 [f, y', x', c]? x 2 */
    sg_norm_kind kind;
    float        eps;
    sg_act       act;
    int          groups; /* of GROUP: c / groups neighbouring channels are one */
    int          chunk;  /* of GROUP: so many frames, a divisor of f, have mean and var in common; 0: all of x */
} sg_norm_args;
SG_TENSORS(norm, 2, place_shift);

/* y = the pairs (v[2i], v[2i+1]) of every head rotated by the angle of (row, i), or of (row, head, i). v = x, or, where w is
 * given, w x / sqrt(mean(x^2) + eps), the mean over the count(w) numbers of a head or of a whole row. */
typedef struct sg_rope_args {
    sg_tensor y, x, w, cos, sin; /* [n, h, d] [n, h, d] [d] or [h d]?; both [n, d/2] or [n, h, d/2] */
    float     eps;
} sg_rope_args;
SG_TENSORS(rope, 1, sin);

/* y = softmax(scale q k^T + bias + key_bias) v, per head. Each head of keys serves h / hk neighbouring heads of queries.
 * With `causal` the queries are the last n of m >= n tokens: query r sees keys up to r + m - n. There is then no bias of
 * either kind, and values that a query does not see have to be finite. */
typedef struct sg_attend_args {
    sg_tensor y, q, k, v;     /* [n, h, d] [n, h, d] [m, hk, d] [m, hk, d], one dtype */
    sg_tensor bias, key_bias; /* F32 [h, n, m]? F32 [m]? */
    float     scale;
    bool      causal;
} sg_attend_args;
SG_TENSORS(attend, 1, key_bias);

/* x += gate r, along the last dimension. */
typedef struct sg_gate_add_args {
    sg_tensor x, r, gate; /* [.., c] [.., c] [c]? or [r, c] */
    sg_tensor row;        /* I32 [rows of x]?, of gate */
    bool      tanh_gate;  /* with gate: tanh(gate) in its place */
} sg_gate_add_args;
SG_TENSORS(gate_add, 1, row);

/* y = a + b; b's single row may serve all rows. */
typedef struct sg_add_args {
    sg_tensor y, a, b; /* [n, c] [n, c] [n or 1, c] */
} sg_add_args;
SG_TENSORS(add, 1, b);

/* y = a b, element by element. */
typedef struct sg_mul_args {
    sg_tensor y, a, b; /* one shape */
} sg_mul_args;
SG_TENSORS(mul, 1, b);

/* y = act(x). */
typedef struct sg_act_args {
    sg_tensor y, x; /* one shape */
    sg_act    act;
} sg_act_args;
SG_TENSORS(act, 1, x);

/* y[n] = w[ids[n]]; the caller has checked that 0 <= ids < o. */
typedef struct sg_embed_args {
    sg_tensor y, w, ids; /* [n, c] [o, c] I32 [n] */
} sg_embed_args;
SG_TENSORS(embed, 1, ids);

/* y = [cos(t f) | sin(t f)], where f_i = exp(-ln(10000) i / (c/2)). Up to t f every operation rounds to F32, as torch's
 * does. */
typedef struct sg_sinusoid_args {
    sg_tensor y, t; /* F32 [n, c], c even; F32 [n] */
} sg_sinusoid_args;
SG_TENSORS(sinusoid, 1, t);

typedef enum sg_edge { SG_EDGE_ZERO, SG_EDGE_REPLICATE } sg_edge;

/* Returns the place in [0, n) that is read for place r of a row or column; -1: a zero. */
static inline int64_t sg_edge_place(sg_edge edge, int64_t r, int64_t n)
{
    return r >= 0 && r < n ? r : edge == SG_EDGE_ZERO ? -1 : r < 0 ? 0 : n - 1;
}

/* y[t, r, s, :] = or, with add, += b + sum over taps of w[:, :, kt, kr, ks] x[t*stride[0] + kt,
 * r*stride[1] + kr - pad[0], ...]. With twice, x stands for the picture that upsample makes of it. Channels are last.
 * Rows and columns beyond the edge read zero, or with REPLICATE the nearest inside; time has no padding: the caller
 * puts history in front. */
typedef struct sg_conv_args {
    sg_tensor y, x, w, b; /* [f', y', x', o] [f, y, x, i] [o, i, kt, ky, kx] [o]? */
    int       stride[3];  /* t, y, x; each 1 or more */
    int       pad[4];     /* rows above, rows below, columns left, columns right */
    bool      add, twice;
    sg_edge   edge;
} sg_conv_args;
SG_TENSORS(conv, 1, b);

/* y[t, r, s] = x[t, r/2, s/2]. With linear, a row or column 2k is 1/4 of k - 1 and 3/4 of k, and 2k + 1 is 3/4 of k and
 * 1/4 of k + 1; the edge stands for what lies beyond it. With near, frames are doubled between those of x: 2k is near
 * x[k] + (1 - near) x[k + 1], 2k + 1 the reverse. Terms of share 0 are left out. */
typedef struct sg_upsample_args {
    sg_tensor y, x; /* [f, 2y, 2x, c] [f, y, x, c]; with near [2 (f - 1), 2y, 2x, c] */
    bool      linear;
    float     near; /* at most 1, with linear; 0: frames stay */
} sg_upsample_args;
SG_TENSORS(upsample, 1, x);

/* Blocks of ft x fs x fs places become channels ((c*ft + dt)*fs + dr)*fs + ds, then each group of i*ft*fs*fs/o
 * neighbouring channels is averaged. Zero frames are put in front until ft divides f. */
typedef struct sg_avg_down_args {
    sg_tensor y, x; /* [ceil(f/ft), y/fs, x/fs, o] [f, y, x, i] */
    int       ft, fs;
} sg_avg_down_args;
SG_TENSORS(avg_down, 1, x);

/* The shapes are the reverse of avg_down's: output channel c at place (dt, dr, ds) of a block is input channel
 * (((c*ft + dt)*fs + dr)*fs + ds) / (o*ft*fs*fs/i). The first `drop` frames of the result are left out. */
typedef struct sg_dup_up_args {
    sg_tensor y, x; /* [f*ft - drop, y*fs, x*fs, o] [f, y, x, i] */
    int       ft, fs, drop;
} sg_dup_up_args;
SG_TENSORS(dup_up, 1, x);

enum { SG_PERMUTE_RANK = 8 };
/* y = x seen as dim[], its axes put in the order perm[]: axis k of y is axis perm[k] of x. */
typedef struct sg_permute_args {
    sg_tensor y, x; /* any shapes of that count; dtypes may differ */
    int       rank; /* at most SG_PERMUTE_RANK */
    int64_t   dim[SG_PERMUTE_RANK];
    int       perm[SG_PERMUTE_RANK];
} sg_permute_args;
SG_TENSORS_AND(permute, 1, x, sizeof(int64_t[SG_PERMUTE_RANK]) + sizeof(int[SG_PERMUTE_RANK]));

/* y = x, converted to y's dtype. */
typedef struct sg_copy_args {
    sg_tensor y, x; /* any shapes of one count */
} sg_copy_args;
SG_TENSORS(copy, 1, x);

/* y[t, j, c] = x[first + row[t] token + j head + c], or with scatter y[first + row[t] token + j head + c] = x[t, j, c]. The
 * tensor without a shape is a program's own, with the layout that the three offsets describe, in elements. */
typedef struct sg_strided_copy_args {
    sg_tensor y, x; /* [n, h, d] [e]; with scatter [e] [n, h, d]. F32, F16 or BF16, each its own */
    sg_tensor row;  /* I32 [n]?: the caller has checked that the elements are there; absent: t */
    int64_t   first, token, head;
    bool      scatter;
} sg_strided_copy_args;
SG_TENSORS(strided_copy, 1, row);

enum { SG_COMBINE_MAX = 6 };
/* y = sum of a[i] x[i], added in this order. */
typedef struct sg_combine_args {
    sg_tensor y;                 /* F32, any shape */
    sg_tensor x[SG_COMBINE_MAX]; /* F32, y's count; the first `count` are used */
    float     a[SG_COMBINE_MAX];
    int       count;
} sg_combine_args;
SG_TENSORS_AND(combine, 1, x[0], (SG_COMBINE_MAX - 1) * sizeof(sg_tensor)); /* of one term */

/* y = round(255 min(max(x/2 + 1/2, 0), 1)), ties to even. */
typedef struct sg_rgb8_args {
    sg_tensor y, x; /* U8, [.., 3], one shape */
} sg_rgb8_args;
SG_TENSORS(rgb8, 1, x);

/* y += how many elements of x are NaN or infinite. */
typedef struct sg_count_non_finite_args {
    sg_tensor y, x; /* I32 [1], any shape */
} sg_count_non_finite_args;
SG_TENSORS(count_non_finite, 1, x);

/* y[k] = {sum of |a - b|, sum of |b|} over the k-th of p equal parts of the numbers, the last of which may be shorter or
 * empty: p is chosen so that a device is busy, and the caller adds p numbers instead of reading all. */
typedef struct sg_distance_args {
    sg_tensor y, a, b; /* F32 [p, 2]; F32, one count */
} sg_distance_args;
SG_TENSORS(distance, 1, b);

/* ---- sparse, quantised attention ----
 *
 * The stages of SpargeAttn (arXiv:2502.18137) and of what came after it; attention/run.h puts them together. Queries go
 * in blocks of SG_BLOCK_Q (of q_block where that is not 0: SG_BLOCK_Q_F8 on ref and with SG_F8_FAST, but not causal), keys in
 * blocks of SG_BLOCK_K, both in sub-blocks of SG_BLOCK_SUB tokens; the last of a kind may be shorter. nq and nk count blocks.
 * Where there are fewer heads of keys, hk, than of queries, h, each serves h / hk neighbouring heads of queries.
 *
 * Fixed blocks are those that no prediction is trusted for: a last block that is not full, but with `ragged` only of keys;
 * blocks that hold text, which is the first text_prefix and the last text_suffix tokens; and, where self-similarity is
 * judged, those whose self-similarity is not above the theta of the query head. A fixed block of keys is kept for all
 * queries, a fixed block of queries keeps all keys. With `causal` the queries are the last n of m >= n tokens: query r
 * stands at token r + m - n, and block j of keys is hidden from block i of queries where all its keys come after all its
 * queries. The other blocks are visible. sg_visible_blocks counts them. */

enum { SG_BLOCK_SUB = 16, SG_CENTER_STEP = 64 };
/* Returns the tokens of a block of queries, of which an op names so many, or 0. */
SG_BOTH int64_t sg_q_block(int named) { return named ? named : SG_BLOCK_Q; }
enum { SG_LISTED = 1 << 16 }; /* blocks that a list has numbers for; of one head no more than INT32_MAX are listed */

/* Returns how many blocks of m keys are visible to block i of n queries. They are the first. */
SG_BOTH int64_t sg_visible_blocks(bool causal, int64_t i, int64_t n, int64_t m)
{
    const int64_t end = (i + 1) * SG_BLOCK_Q < n ? (i + 1) * SG_BLOCK_Q : n;
    return sg_div_up(causal ? end + m - n : m, SG_BLOCK_K);
}

/* Returns how many blocks of m keys are wholly visible to each of block i of n queries. They are the first; those behind them
 * that are visible lie on the diagonal. */
SG_BOTH int64_t sg_whole_blocks(bool causal, int64_t i, int64_t n, int64_t m)
{
    return causal ? (i * SG_BLOCK_Q + 1 + m - n) / SG_BLOCK_K : sg_div_up(m, SG_BLOCK_K);
}

/* Returns how many of `of` blocks a top-k share of them is: rounded down, 1 at least. */
SG_BOTH int64_t sg_topk_count(float share, int64_t of)
{
    const float count = share * (float)of;
    return count >= (float)of ? of : count >= 1 ? (int64_t)count : 1;
}

/* Values as F8 are [h, d, tokens], the row of a channel filled up with zeros to whole blocks of keys. Token t stands at
 * sg_f8_position(t): of 16 neighbours 0 1 8 9, 2 3 10 11, 4 5 12 13, 6 7 14 15, so that the four weights of a row that
 * a lane has of q k^T stand where it needs them as operands of the product with v (SageAttention2, arXiv:2411.10958).
 */
static inline int64_t sg_f8_position(int64_t t) { return t / 16 * 16 + t % 8 / 2 * 4 + t / 8 % 2 * 2 + t % 2; }
static inline int64_t sg_f8_row(int64_t tokens) { return sg_div_up(tokens, SG_BLOCK_K) * SG_BLOCK_K; }

/* For each head and channel, mean is the mean over every run of `block` rows of x, and var the mean of (x - mean)^2.
 * sub has the means of SG_BLOCK_SUB rows, total the mean of all rows, center that of one row in SG_CENTER_STEP, from
 * the first on, its sum in double. As x is being read, pool also makes what quantise would make of it: channel_scale is
 * the scale of each channel about total (group 0), y and scale go by groups of `group` rows, about center where that is
 * asked for. Keys may be about anything that is the same for all of them: it adds the same to all logits of a query. */
typedef struct sg_pool_args {
    sg_tensor mean, var, sub, total, center; /* F32 [b, h, d], [b, h, d]?, [n / 16, h, d]?, [h, d]? x 2 */
    sg_tensor channel_scale, y, scale, x;    /* F32 [h, d]?; I8 [h, n, d]?; F32 [n / group, h]?; [n, h, d] */
    /* channel_scale goes with total, and scale with y. block is a multiple of group, which is a multiple of
     * SG_BLOCK_SUB, and 0 without y. */
    int block, group;
} sg_pool_args;
SG_TENSORS(pool, 8, x);

/* y tells how much the rows of a block resemble each other: y = |sum of u / |u||^2 / rows^2 with u = x - center. It is
 * 1 where all have one direction, and NaN where a row is zero. */
typedef struct sg_self_similarity_args {
    sg_tensor y, x, center; /* F32 [b, h]; [n, h, d]; F32 [h, d]? */
    int       block;
} sg_self_similarity_args;
SG_TENSORS(self_similarity, 1, center);

/* y = the integer nearest to (x - center) r, ties to even, in [-127, 127]. Each `group` rows of a head share
 * r = 1 / scale, scale = largest |x - center| times (1 / 127); with group 0 the rows of a channel do, and their scale
 * [h, d] is read, not written. Subtraction, scale, r (0 for a scale of 0) and product round to F32 each, so every
 * backend gives the same bits. A group with NaN or infinity in it has scale NaN, and its y does not matter. F8 is for
 * channels only: y is then the number nearest to (x - center) r, ties to even, at most 448. */
typedef struct sg_quantise_args {
    sg_tensor y;                /* I8 [h, n, d], or F8 [h, d, sg_f8_row(n)] */
    sg_tensor scale, x, center; /* F32 [n / group, h], or [h, d]; [n, h, d]; F32 [h, d]? */
    int       group;
} sg_quantise_args;
SG_TENSORS(quantise, 2, center);

/* y is the share of its mass that a block of queries is expected to give to each block of keys: p_ab = softmax over b
 * of scale q_a k_b, over the means of keys in visible blocks that are not fixed; y_ij is the mean over the a in i of the
 * sum over the b in j. q and k are means of whole blocks, or, with sub, of sub-blocks. With k_var and v_var y is the error
 * that a mean in place of the block's keys and values is expected to make: the root mean square over the a of these sums,
 * times sqrt(mean over channels of k_var, times mean over channels of v_var). y is 0 for fixed blocks, for hidden ones
 * and for fixed queries. q times scale and k - k_center, which has the same shares, may be rounded to 11 bits first:
 * blocks whose scores are so near may change places between backends. */
typedef struct sg_score_args {
    sg_tensor y, q, k, k_center; /* F32 [h, nq, nk]; [nq or n / 16, h, d]; [nk or m / 16, hk, d]; [hk, d]? */
    sg_tensor k_var, v_var;      /* F32 [nk, hk, d]? x 2 */
    sg_tensor q_similarity, k_similarity, theta; /* F32 [nq, h]? [nk, hk]? [h]? */
    float     scale;
    bool      sub, ragged, causal;
    int       q_block;
    int64_t   n, m, text_prefix, text_suffix; /* tokens */
} sg_score_args;
SG_TENSORS(score, 1, theta);

typedef int sg_select_rule; /* SG_SELECT_TOPK or SG_SELECT_MASS; GIVEN is no rule of the op: lists that are given */

/* A list says which blocks of keys each block of queries keeps: the first `count` of its row. The one with the highest
 * score comes first, of equals the first, of NaN last; then the others in rising order; the rest of the row is 0. Fixed
 * blocks, the first `sink` blocks of keys, and without count_hidden the blocks on the diagonal are added to those that the
 * rule takes; hidden blocks are taken away last. TOPK takes amount times the row's visible blocks, or with count_hidden amount times nk; rounded down, 1 at least.
 * With `heads`, TOPK gives each row a quarter of its number, and what is left of all to the best of the whole
 * layer, of equals to the first head and row. kept counts the blocks that each head keeps, and those of them that its
 * last row keeps. mass is the share of a row's scores that its kept blocks have, the mean over the rows whose sum is
 * not 0, and 1 where there is none. */
typedef struct sg_select_args {
    sg_tensor      list, count, kept, mass; /* U16 [h, nq, nk], nk at most SG_LISTED; I32 [h, nq] [h, 2]; F32 [h] */
    sg_tensor      score, amount;           /* F32 [h, nq, nk]; [h] */
    sg_tensor      q_similarity, k_similarity, theta; /* F32 [nq, h]? [nk, hk]? [h]? */
    sg_select_rule rule;
    bool           heads, ragged, causal, count_hidden;
    int            sink, q_block;
    int64_t        n, m, text_prefix, text_suffix; /* tokens */
} sg_select_args;
SG_TENSORS(select, 4, theta);

typedef enum sg_tail_rule { SG_TAIL_HALF, SG_TAIL_RANK1 } sg_tail_rule;

/* y is added to the logit of the mean of a block of keys so that it stands for all of them: y_ij = ln SG_BLOCK_K +
 * min(c_ij, 3). With e = q_var + q_mean^2: HALF c = scale^2 / 4 times sum over channels of e k_var; RANK1
 * c = scale^2 / 2 times (sum over channels of e) (mean over channels of k_var). */
typedef struct sg_tail_bias_args {
    sg_tensor    y, q_mean, q_var, k_var; /* F32 [h, nq, nk]; [nq, h, d] x 2; [nk, hk, d] */
    sg_tail_rule rule;
    float        scale;
} sg_tail_bias_args;
SG_TENSORS(tail_bias, 1, k_var);

/* y_r = sum over t of w_rt v_t / sum over t of w_rt, plus v_center; w_rt = exp(l_rt), l_rt = scale q_scale k_scale
 * (q_r k_t). t runs over the keys of the blocks that r's block keeps (all without a list), with `causal` up to r + m - n;
 * and, with a tail, over one key for each full block that is not kept and whose keys r's block all sees: its mean, tail_k
 * (scales by SG_BLOCK_K means), tail_v (scaled as v is), with tail_bias, or ln SG_BLOCK_K, added to its logit. y_r = 0
 * where there is no t. v_t is v_scale v where v is I8 or F8, all of which is finite, else v.
 *
 * A list is as select writes it, its blocks in any order, each once. They are visited in that order, without a list in
 * rising order; the tail comes after them.
 *
 * With pv_threshold (in powers of two, of each head), pv_group neighbouring rows leave out a kept block, from numerator
 * and denominator, when it can hardly matter: when for each row its largest logit is more than pv_threshold below the
 * row's largest in the kept blocks before it, the first excepted. A threshold of INFINITY leaves out nothing. skips has
 * for each head how many (pv_group rows, block) were left out, those that causal hides from all these rows among them,
 * and the mean over rows of the share that they left out of their sum. */
typedef struct sg_attend_blocks_args {
    sg_tensor y, skips;             /* F32 or BF16 [n, h, d]; F32 [h, 2], with pv_threshold */
    sg_tensor q, q_scale;           /* I8 [h, n, d]; F32 [n / group, h], group one of 16, 32, 64, 128 */
    sg_tensor k, k_scale;           /* I8 [hk, m, d]; F32 [m / group, hk], group one of 16, 32, 64 */
    sg_tensor v;                    /* I8 [hk, m, d], F8 [hk, d, sg_f8_row(m)], or F32 or BF16 [m, hk, d] */
    sg_tensor v_scale, v_center;    /* F32 [hk, d] with I8 and F8; F32 [hk, d]? */
    sg_tensor list, count;          /* U16 [h, nq, nk]?, nk at most SG_LISTED; I32 [h, nq] */
    sg_tensor tail_k, tail_k_scale; /* I8 [hk, nk, d]?; F32 [nk / 64, hk] */
    sg_tensor tail_v, tail_bias; /* I8 or F8 as v of nk means where v is such, else F32 [nk, hk, d]; F32 [h, nq, nk]? */
    sg_tensor pv_threshold;      /* F32 [h]? */
    int       q_group, k_group, pv_group, q_block; /* pv_group 32 or 64, with pv_threshold; q_block with F8 alone, without */
    float     scale;
    bool      causal;
} sg_attend_blocks_args;
SG_TENSORS(attend_blocks, 2, pv_threshold);

/* clang-format off */
#define SG_OPS(X)                                                                                                      \
    X(linear) X(norm) X(rope) X(attend) X(gate_add) X(add) X(mul) X(act) X(embed) X(sinusoid) X(conv) X(upsample)      \
    X(avg_down) X(dup_up) X(permute) X(copy) X(strided_copy) X(combine) X(rgb8) X(count_non_finite) X(distance)        \
    X(pool) X(self_similarity) X(quantise) X(score) X(select) X(tail_bias) X(attend_blocks)
/* clang-format on */

/* These unions are as large as the most tensors, and the most outputs, of any op. */
#define X(op) char op[sg_##op##_tensors];
typedef union sg_most_tensors {
    SG_OPS(X)
} sg_most_tensors;
#undef X
#define X(op) char op[sg_##op##_outputs];
typedef union sg_most_outputs {
    SG_OPS(X)
} sg_most_outputs;
#undef X
enum { SG_OP_TENSORS = sizeof(sg_most_tensors), SG_OP_OUTPUTS = sizeof(sg_most_outputs) };

typedef struct sg_stream  sg_stream;
typedef struct sg_backend sg_backend; /* backend.h */

/* Copies weights that stay on the host to one of two slots on the device. The copy begins when all ops are done that
 * were called before the last fetch into the other slot, and runs beside those called since. Ops called after a fetch
 * find it complete. Slots that take turns are filled and read at once. */
typedef struct sg_fetch_args {
    int64_t     slot; /* 0 or 1 */
    void       *device;
    const void *host; /* of sg_memory's pin */
    size_t      bytes;
} sg_fetch_args;

typedef struct sg_ops {
#define X(op) sg_status (*op)(sg_stream *, const sg_##op##_args *);
    SG_OPS(X)
#undef X
    /* conv_twice tells whether conv does twice itself. It is NULL where conv never does. */
    bool (*conv_twice)(const sg_stream *, const sg_conv_args *);
    sg_status (*step_begin)(sg_stream *, int repeats), (*step_end)(sg_stream *); /* NULL: nothing is put off */
    sg_status (*fetch)(sg_stream *, const sg_fetch_args *);                      /* NULL where there is no pin */
} sg_ops;

/* Describes the memory of a device. Any thread may call those that take a backend, whichever device it has entered.
 * upload and download are finished when they return, except those from and to what stage gave. */
typedef struct sg_memory {
    void *(*alloc)(const sg_backend *, size_t bytes); /* SG_ALIGN aligned, or NULL */
    void (*release)(const sg_backend *, void *);
    sg_status (*upload)(sg_stream *, void *device, const void *host, size_t bytes);
    sg_status (*download)(sg_stream *, void *host, const void *device, size_t bytes);
    /* Transfers from and to two pieces of host memory go on while the host does. stages makes both, of `bytes` or more;
     * they stay. It returns false, and latches nothing, where they are not worth making to move `all` bytes, or there
     * is no memory for them: use memory of your own then. stage returns one and the other in turn, when what it was
     * used for is over, or NULL after a failure of that, which it latches. wait_stage waits for the transfers of such a
     * piece, and not for other memory. stages is NULL where there is no such memory. */
    bool (*stages)(sg_stream *, size_t bytes, size_t all);
    void *(*stage)(sg_stream *);
    sg_status (*wait_stage)(sg_stream *, const void *staged);
    /* pin returns host memory that the device copies from by itself, for fetch, SG_ALIGN aligned, or NULL where there
     * is not so much. Call unpin after all fetches from it. Both are NULL where weights lie in the host's memory
     * anyway. */
    void *(*pin)(const sg_backend *, size_t bytes);
    void (*unpin)(const sg_backend *, void *);
    /* These order ops among the work of a program that has a queue of its own on this device (a cudaStream_t, NULL: the
     * default one). After join, ops that follow begin after what is in that queue, and the calling thread's device is
     * this one. After leave, what the program puts into its queue begins after the ops, and the thread's device is the
     * one from before; without a join it is the one from before the backend was opened. Both are NULL where ops are
     * done when they return. */
    sg_status (*join)(sg_stream *, void *queue);
    sg_status (*leave)(sg_stream *, void *queue);
} sg_memory;

typedef void sg_tap_fn(void *context, const char *name, sg_stream *s, sg_tensor t);

/* This is an ordered queue of ops on one device. The first failure latches: every op after it does nothing, so a model
 * checks once, at the end. Two arenas: keep lives for a render, scratch is marked and reset inside a pass. */
struct sg_stream {
    const sg_ops     *ops;
    const sg_memory  *memory;
    const sg_backend *backend; /* whose they are, for memory's calls; NULL: of none */
    void             *impl;    /* the backend's own */
    const sg_ops     *inner;   /* what a decorator wraps */
    void             *meta;    /* a decorator's own */
    sg_arena          keep, scratch;
    sg_tap_fn        *tap; /* sees named tensors; NULL: nobody looks */
    void             *tap_context;
    int64_t           rows_at_once; /* of tokens, whole tiles of 128, where a model can work in pieces; 0: all */
    const int        *cancel;       /* where another thread makes it 1, the next op latches SG_E_CANCELLED; or NULL */
    sg_status         status;
    char              why[320];
};

/* Returns how many of the tensors that its args begin with this call of the op of that name writes; some may be absent.
 * It is 1 for what is no op here. */
int sg_op_outputs(const char *op, const void *args);

/* Tells whether the op of that name, with these args, adds to what it writes, or leaves a part of it as it was; of
 * several outputs it means the last. */
bool sg_reads_output(const char *op, const void *args);

/* Latches a failure unless one is latched already; returns the latched code. */
sg_status sg_fail(sg_stream *s, sg_status code, const char *fmt, ...) SG_PRINTF(3, 4);

/* Takes a tensor from an arena. On a failed stream, or when it does not fit (which latches), its data is NULL. */
sg_tensor sg_alloc(sg_stream *s, sg_arena *a, sg_dtype type, int rank, const int64_t *dim);

/* These copy host memory into a tensor and back, whole. */
void sg_upload(sg_stream *s, sg_tensor t, const void *host);
void sg_download(sg_stream *s, void *host, sg_tensor t);

/* These stand around what runs again and again: a device may put the ops between them off until the end, and run as one
 * what is the same as the time before, with the same memory. `repeats` says how many steps, this one among them, are
 * likely to be the same, which tells the device what preparing for them is worth. They may not be nested. */
void sg_step_begin(sg_stream *s, int repeats);
void sg_step_end(sg_stream *s);

/* Returns how many of the n rows that are left make the next piece of at most `most`, a number of whole tiles of 128.
 * Pieces are about even, the first is the longest, and of several the last has at least most / 2 - 127 rows, so that it
 * is computed as the others are. */
int64_t sg_rows_piece(int64_t n, int64_t most);

/* Returns the same for as many as s has room for. */
int64_t sg_rows_at_once(const sg_stream *s, int64_t n);

/* Copies weights as sg_fetch_args says. It does nothing where the device has no fetch. */
void sg_fetch(sg_stream *s, const sg_fetch_args *a);

/* Shows t under a printf-formatted name to whoever listens. Costs nothing when nobody does. */
void sg_tap(sg_stream *s, sg_tensor t, const char *fmt, ...) SG_PRINTF(3, 4);

#define X(op) void sg_##op##_(sg_stream *, const sg_##op##_args *);
SG_OPS(X)
#undef X

extern const sg_ops sg_ref_ops;         /* the oracle: double accumulation, every dtype */
extern const sg_ops sg_ref_rounded_ops; /* the same source in F32, intermediates rounded: the rounding budget */

#ifdef __cplusplus
}
#else
#define sg_new(s, type, ...) sg_alloc(s, &(s)->scratch, type, SG_DIMS(__VA_ARGS__))
#define sg_new_keep(s, type, ...) sg_alloc(s, &(s)->keep, type, SG_DIMS(__VA_ARGS__))
#define sg_linear(s, ...) sg_linear_(s, &(sg_linear_args){__VA_ARGS__})
#define sg_norm(s, ...) sg_norm_(s, &(sg_norm_args){__VA_ARGS__})
#define sg_rope(s, ...) sg_rope_(s, &(sg_rope_args){__VA_ARGS__})
#define sg_attend(s, ...) sg_attend_(s, &(sg_attend_args){__VA_ARGS__})
#define sg_gate_add(s, ...) sg_gate_add_(s, &(sg_gate_add_args){__VA_ARGS__})
#define sg_add(s, ...) sg_add_(s, &(sg_add_args){__VA_ARGS__})
#define sg_mul(s, ...) sg_mul_(s, &(sg_mul_args){__VA_ARGS__})
#define sg_activate(s, ...) sg_act_(s, &(sg_act_args){__VA_ARGS__})
#define sg_embed(s, ...) sg_embed_(s, &(sg_embed_args){__VA_ARGS__})
#define sg_sinusoid(s, ...) sg_sinusoid_(s, &(sg_sinusoid_args){__VA_ARGS__})
#define sg_conv(s, ...) sg_conv_(s, &(sg_conv_args){__VA_ARGS__})
#define sg_upsample(s, ...) sg_upsample_(s, &(sg_upsample_args){__VA_ARGS__})
#define sg_avg_down(s, ...) sg_avg_down_(s, &(sg_avg_down_args){__VA_ARGS__})
#define sg_dup_up(s, ...) sg_dup_up_(s, &(sg_dup_up_args){__VA_ARGS__})
#define sg_permute(s, ...) sg_permute_(s, &(sg_permute_args){__VA_ARGS__})
#define sg_copy(s, ...) sg_copy_(s, &(sg_copy_args){__VA_ARGS__})
#define sg_strided_copy(s, ...) sg_strided_copy_(s, &(sg_strided_copy_args){__VA_ARGS__})
#define sg_combine(s, ...) sg_combine_(s, &(sg_combine_args){__VA_ARGS__})
#define sg_rgb8(s, ...) sg_rgb8_(s, &(sg_rgb8_args){__VA_ARGS__})
#define sg_count_non_finite(s, ...) sg_count_non_finite_(s, &(sg_count_non_finite_args){__VA_ARGS__})
#define sg_distance(s, ...) sg_distance_(s, &(sg_distance_args){__VA_ARGS__})
#define sg_pool(s, ...) sg_pool_(s, &(sg_pool_args){__VA_ARGS__})
#define sg_self_similarity(s, ...) sg_self_similarity_(s, &(sg_self_similarity_args){__VA_ARGS__})
#define sg_quantise(s, ...) sg_quantise_(s, &(sg_quantise_args){__VA_ARGS__})
#define sg_score(s, ...) sg_score_(s, &(sg_score_args){__VA_ARGS__})
#define sg_select(s, ...) sg_select_(s, &(sg_select_args){__VA_ARGS__})
#define sg_tail_bias(s, ...) sg_tail_bias_(s, &(sg_tail_bias_args){__VA_ARGS__})
#define sg_attend_blocks(s, ...) sg_attend_blocks_(s, &(sg_attend_blocks_args){__VA_ARGS__})
#endif
#endif
