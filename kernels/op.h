/* op.h - the contract between models and backends.
 *
 * A model speaks only this header; a backend implements only this header. Shapes are written beside the members, a
 * question mark means that the tensor may be absent (rank 0). The first member of every args struct is the tensor that
 * the op writes. An output may not overlap an input unless the formula says "+=".
 *
 * dtypes: where nothing else is said, tensors named y x r q k v a are F32 or BF16, each its own; weight matrices are F32
 * or BF16; vectors (biases, scales, tables of cosines) are F32. Sums are held in F32 or better. */
#ifndef SG_OP_H
#define SG_OP_H

#include "arena.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sg_act {
    SG_ACT_NONE,
    SG_ACT_RELU,      /* max(x, 0) */
    SG_ACT_SILU,      /* x / (1 + exp(-x)) */
    SG_ACT_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    SG_ACT_CLAMP      /* min(max(x, -1), 1) */
} sg_act;

typedef struct sg_linear_args { /* y = act(x w^T + b), or with add: y += gate (x w^T + b) */
    sg_tensor y, x, w, b, gate; /* [n, o] [n, i] [o, i] [o]? [o]? */
    sg_act    act;              /* SG_ACT_NONE with add */
    bool      add;              /* a gate wants it */
} sg_linear_args;

typedef enum sg_norm_kind {
    SG_NORM_LAYER, /* (x - mean) / sqrt(var + eps), var = mean of squared deviations */
    SG_NORM_RMS,   /* x / sqrt(mean(x^2) + eps) */
    SG_NORM_L2,    /* x sqrt(c) / max(sqrt(sum x^2), 1e-12) */
    SG_NORM_NONE   /* x: an affine map per channel */
} sg_norm_kind;

typedef struct sg_norm_args {              /* y = act((norm(x) w + b) (1 + scale) + shift), along the last dimension */
    sg_tensor    y, x, w, b, scale, shift; /* [.., c] [.., c] [c]? [c]? [c]? [c]? */
    sg_norm_kind kind;
    float        eps;
    sg_act       act;
} sg_norm_args;

/* y = the pairs (v[2i], v[2i+1]) of every head turned by the angle of (row, i). v = x, or, where w is given,
 * w x / sqrt(mean(x^2) + eps), the mean over the count(w) numbers of a head or of a whole row. */
typedef struct sg_rope_args {
    sg_tensor y, x, w, cos, sin; /* [n, h, d] [n, h, d] [d] or [h d]? [n, d/2] [n, d/2] */
    float     eps;
} sg_rope_args;

typedef struct sg_attend_args { /* y = softmax(scale q k^T + bias + key_bias) v, per head */
    sg_tensor y, q, k, v;       /* [n, h, d] [n, h, d] [m, h, d] [m, h, d], one dtype */
    sg_tensor bias, key_bias;   /* F32 [h, n, m]? F32 [m]? */
    float     scale;
} sg_attend_args;

typedef struct sg_gate_add_args { /* x += gate r, along the last dimension */
    sg_tensor x, r, gate;         /* [.., c] [.., c] [c]? */
} sg_gate_add_args;

typedef struct sg_add_args { /* y = a + b; b's single row may serve all rows */
    sg_tensor y, a, b;       /* [n, c] [n, c] [n or 1, c] */
} sg_add_args;

typedef struct sg_mul_args { /* y = a b, element by element */
    sg_tensor y, a, b;       /* one shape */
} sg_mul_args;

typedef struct sg_act_args { /* y = act(x) */
    sg_tensor y, x;          /* one shape */
    sg_act    act;
} sg_act_args;

typedef struct sg_embed_args { /* y[n] = w[ids[n]]; the caller has checked that 0 <= ids < o */
    sg_tensor y, w, ids;       /* [n, c] [o, c] I32 [n] */
} sg_embed_args;

/* y = [cos(t f) | sin(t f)], f_i = exp(-ln(10000) i / (c/2)); up to t f every operation rounds to F32, as torch's does */
typedef struct sg_sinusoid_args {
    sg_tensor y, t; /* F32 [n, c], c even; F32 [n] */
} sg_sinusoid_args;

/* y[t, r, s, :] = or, with add, += b + sum over taps of w[:, :, kt, kr, ks] x[t*stride[0] + kt, r*stride[1] + kr - pad[0], ...].
 * Channels last. Rows and columns beyond the edge read zero; time has no padding: the caller puts history in front. */
typedef struct sg_conv_args {
    sg_tensor y, x, w, b; /* [f', y', x', o] [f, y, x, i] [o, i, kt, ky, kx] [o]? */
    int       stride[3];  /* t, y, x; each 1 or more */
    int       pad[4];     /* rows above, rows below, columns left, columns right */
    bool      add;
} sg_conv_args;

typedef struct sg_upsample_args { /* y[t, r, s] = x[t, r/2, s/2] */
    sg_tensor y, x;               /* [f, 2y, 2x, c] [f, y, x, c] */
} sg_upsample_args;

/* Blocks of ft x fs x fs places become channels ((c*ft + dt)*fs + dr)*fs + ds, then each group of i*ft*fs*fs/o
 * neighbouring channels is averaged. Zero frames are put in front until ft divides f. */
typedef struct sg_avg_down_args {
    sg_tensor y, x; /* [ceil(f/ft), y/fs, x/fs, o] [f, y, x, i] */
    int       ft, fs;
} sg_avg_down_args;

/* The reverse shape: output channel c at place (dt, dr, ds) of a block is input channel
 * (((c*ft + dt)*fs + dr)*fs + ds) / (o*ft*fs*fs/i). The first `drop` frames of the result are left out. */
typedef struct sg_dup_up_args {
    sg_tensor y, x; /* [f*ft - drop, y*fs, x*fs, o] [f, y, x, i] */
    int       ft, fs, drop;
} sg_dup_up_args;

enum { SG_PERMUTE_RANK = 8 };
typedef struct
    sg_permute_args { /* y = x seen as dim[], its axes put in the order perm[]: axis k of y is axis perm[k] of x */
    sg_tensor y, x;   /* any shapes of that count; dtypes may differ */
    int       rank;   /* at most SG_PERMUTE_RANK */
    int64_t   dim[SG_PERMUTE_RANK];
    int       perm[SG_PERMUTE_RANK];
} sg_permute_args;

typedef struct sg_copy_args { /* y = x, converted to y's dtype */
    sg_tensor y, x;           /* any shapes of one count */
} sg_copy_args;

enum { SG_COMBINE_MAX = 6 };
typedef struct sg_combine_args { /* y = sum of a[i] x[i], added in this order */
    sg_tensor y;                 /* F32, any shape */
    sg_tensor x[SG_COMBINE_MAX]; /* F32, y's count; the first `count` are used */
    float     a[SG_COMBINE_MAX];
    int       count;
} sg_combine_args;

typedef struct sg_rgb8_args { /* y = round(255 min(max(x/2 + 1/2, 0), 1)), ties to even */
    sg_tensor y, x;           /* U8, [.., 3], one shape */
} sg_rgb8_args;

typedef struct sg_count_bad_args { /* y += how many elements of x are NaN or infinite */
    sg_tensor y, x;                /* I32 [1], any shape */
} sg_count_bad_args;

#define SG_OPS(X)                                                                                                      \
    X(linear)                                                                                                          \
    X(norm)                                                                                                            \
    X(rope) X(attend) X(gate_add) X(add) X(mul) X(act) X(embed) X(sinusoid) X(conv) X(upsample) X(avg_down) X(dup_up)  \
        X(permute) X(copy) X(combine) X(rgb8) X(count_bad)

typedef struct sg_stream sg_stream;

typedef struct sg_ops {
#define X(op) sg_status (*op)(sg_stream *, const sg_##op##_args *);
    SG_OPS(X)
#undef X
} sg_ops;

/* The memory of a device. upload and download are finished when they return. */
typedef struct sg_memory {
    void *(*alloc)(size_t bytes); /* SG_ALIGN aligned, or NULL */
    void (*release)(void *);
    sg_status (*upload)(sg_stream *, void *device, const void *host, size_t bytes);
    sg_status (*download)(sg_stream *, void *host, const void *device, size_t bytes);
} sg_memory;

typedef void sg_tap_fn(void *context, const char *name, sg_stream *s, sg_tensor t);

/* An ordered queue of ops on one device. The first failure latches: every op after it does nothing, so a model checks
 * once, at the end. Two arenas: keep lives for a render, scratch is marked and reset inside a pass. */
struct sg_stream {
    const sg_ops    *ops;
    const sg_memory *memory;
    void            *impl;  /* the backend's own */
    const sg_ops    *inner; /* what a decorator wraps */
    void            *meta;  /* a decorator's own */
    sg_arena         keep, scratch;
    sg_tap_fn       *tap; /* sees named tensors; NULL: nobody looks */
    void            *tap_context;
    sg_status        status;
    char             why[320];
};

/* Whether the op of that name, with these args, adds to what it writes. */
bool sg_reads_output(const char *op, const void *args);

/* Latches a failure unless one is latched already; returns the latched code. */
sg_status sg_fail(sg_stream *s, sg_status code, const char *fmt, ...) SG_PRINTF(3, 4);

/* A tensor from an arena. On a failed stream, or when it does not fit (which latches), its data is NULL. */
sg_tensor sg_alloc(sg_stream *s, sg_arena *a, sg_dtype type, int rank, const int64_t *dim);

/* Host memory into a tensor and back, whole. */
void sg_upload(sg_stream *s, sg_tensor t, const void *host);
void sg_download(sg_stream *s, void *host, sg_tensor t);

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
#define sg_combine(s, ...) sg_combine_(s, &(sg_combine_args){__VA_ARGS__})
#define sg_rgb8(s, ...) sg_rgb8_(s, &(sg_rgb8_args){__VA_ARGS__})
#define sg_count_bad(s, ...) sg_count_bad_(s, &(sg_count_bad_args){__VA_ARGS__})
#endif
#endif
