/* bench_input.h - what `bench attention` attends to: made for the shape of a model, or captured from a render. */
#ifndef SG_BENCH_INPUT_H
#define SG_BENCH_INPUT_H

#include "options.h"
#include "order.h"
#include "tensor_source.h"

enum { SG_BENCH_BATCH = 64 }; /* sequences, at most */

/* Shapes of language models, whose attention is causal: of so many tokens in a row. The last has no name. */
typedef struct sg_bench_text {
    const char *name;
    int         heads, key_heads, head_dim;
    int64_t     tokens;
} sg_bench_text;
extern const sg_bench_text sg_bench_texts[];

/* Made inputs resemble those of a video: with field = 1.6 smooth + 0.6 noise, where smooth is standard normal on a grid
 * of a third of the frames and a fifth of the rows and columns, interpolated linearly (of text: standard normal), and
 * noise is standard normal,
 *     q = field, k = 0.7 q + 0.7 field + 2 (one standard normal vector for all keys of a head), v = field,
 * each field another. Where heads share keys, q is that of the first of them.
 *
 * A file is safetensors with tensors q [n, h, d], k and v [n, hk, d], and in its metadata, as decimal text, grid
 * "frames,rows,columns" (absent: 1,1,n), text_prefix and text_suffix, tokens of text (absent: 0), and order, that of
 * its rows (absent: row). It is hostile: SG_E_FORMAT names what is wrong. */
typedef struct sg_bench_input {
    const char *name; /* of the shape, or the file; borrowed */
    int         b, h, hk, d;
    int         all_heads, layers; /* of the model; layers 0: not known */
    bool        causal;
    int64_t     grid[3];                     /* frames, rows, columns */
    int64_t     text_prefix, text_suffix, n; /* tokens of text at either end; all tokens */
    sg_dtype    dtype;
    sg_order    order, file_order; /* of host's rows, and of the file's */
    float      *host[3];           /* q [n, h, d], k and v [n, hk, d], rounded to dtype, in that order */
    sg_source  *file;
} sg_bench_input;

/* Fills all but host, from --shape, --heads and --qkv; dtype and order stay as they are. The caller closes, after a
 * failure too. */
sg_status sg_bench_input_open(sg_bench_input *in, const sg_settings *s, sg_error *e) SG_MUST_USE;
sg_status sg_bench_input_fill(sg_bench_input *in, int threads, sg_error *e) SG_MUST_USE;
void      sg_bench_input_close(sg_bench_input *in);

/* Returns at, of which at[i] is the token of the video that stands in row i; the caller frees. NULL means no memory. */
int32_t *sg_bench_input_order(const sg_bench_input *in, sg_order order);

#endif
