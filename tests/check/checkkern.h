/* checkkern.h - one op of one level under test: tensors with guards, inputs that hurt, and what a case must survive.
 *
 * A case is an args struct whose tensors come from ck_new and ck_out. ck_case runs it on both oracles and on the kernel
 * and asks: is each output within the rounding budget (budget.h); are the guard bands and the inputs intact; is a second
 * run, and one with another number of threads, equal bit by bit; did nothing crash.
 *
 * Tensors lie in host memory, where they are filled, given to the oracles and judged. A device with memory of its own
 * has a twin of each region: all are uploaded before a run of the kernel and downloaded after it, guard bands too. */
#ifndef SG_CHECKKERN_H
#define SG_CHECKKERN_H

#include "cpu.h"

typedef enum ck_fill {
    CK_RANDOM,   /* about normal, scale 1 */
    CK_CONSTANT, /* one value everywhere */
    CK_OUTLIER,  /* random, one element a hundred times larger */
    CK_LARGE,    /* random, scale 1e4 */
    CK_TINY,     /* denormals */
    CK_ZERO,
    CK_INTEGER, /* -4 .. 4: sums of products are exact in any order */
    CK_NAN,     /* random, one NaN */
    CK_INF,     /* random, one infinity */
    CK_PAIRS,   /* -127 .. 127, the ends often: two of their products are the most that AVX2 adds in 16 bits */
    CK_MASK,    /* 0 or -infinity, in runs */
    CK_MASKED,  /* -infinity everywhere */
    CK_WIDE,    /* powers of two from 2^-60 to 2^60 */
    CK_TIES,    /* (k + 1/2) / 127.5 - 1 and its neighbours: rgb8's ties */
    CK_HALVES,  /* half-way between two BF16 */
    CK_ONES,
    CK_STEPS,      /* multiples of 1/2 up to 127: ties of quantise */
    CK_SCALES,     /* 1/2 to 3/2 */
    CK_NAN_SCALE,  /* the same, one NaN */
    CK_SWITCHES,   /* 1 or 0, in runs */
    CK_COUNTS,     /* 0 .. 7, every other 0: scores with ties, whose sums are exact */
    CK_FRACTIONS,  /* 0 to 1 in steps of 1/1024: scores whose sums are exact */
    CK_SHARES,     /* 0 to 1 in steps of 1/64, both ends often */
    CK_FILTERS,    /* thresholds of the PV filter, between the eighths that logits are made of; one never reached */
    CK_BLOCKS,     /* lists of blocks: any of them, in any order */
    CK_ALL_BLOCKS, /* in rising order */
    CK_NO_BLOCKS,
    CK_ONE_BLOCK,  /* in each row */
    CK_SOME_EMPTY, /* a row has all, none or any */
    CK_END_BLOCKS, /* the first and the last of each 64, and the last of a row */
    CK_LEVELS,     /* as after an activation: each channel, of the last dimension, about a level of its own above 0 */
    CK_SIGNED, /* weights [o, i, ..] of one sign in each (o, i); what half of the channels adds of CK_LEVELS the other
                    * takes away */
    CK_ORDER,  /* I32: 0, 1 .. in any order */
    CK_OFFSET, /* 1000 and deviations of 1/100: a variance that is lost in the mean of squares */
    CK_GATES,  /* -20 to 20 */
    CK_FILLS
} ck_fill;

enum { CK_TENSORS = 20 };

typedef struct ck_buffer {
    unsigned char *region;
    unsigned char *twin; /* of the region, on the device; NULL: the kernel works in the region itself */
    size_t         size; /* of the region before its protected last page */
    sg_tensor      t;
    ck_fill        fill;
    int32_t        below; /* I32 elements lie in [0, below); 0: of counts, which are filled with their lists */
    bool           out;
} ck_buffer;

typedef struct ck_op {
    const char *name;
    void (*call)(sg_stream *s, const void *args);
    void *(*entry)(const sg_ops *t); /* for comparing only */
    size_t args_size;
} ck_op;

/* A table under test: of the cpu backend, on one thread and on two, or of a backend opened by name. */
typedef struct ck_level {
    const char *name;
    sg_ops      ops;
    sg_cpu     *cpu[2];
    sg_backend *backend; /* NULL: cpu serves */
    const char *changes; /* ops to try, each between spaces: beside new entries; of a backend alone, NULL: all */
    bool        there;
    bool        aligned;    /* tensors begin at multiples of SG_ALIGN, which libraries want */
    bool        may_differ; /* on two threads from one: BF16 convolutions by the library, see onednn.c */
    bool        emulated;   /* BF16 products by oneDNN in pairs, not tiles: what pads an odd depth is multiplied, too */
} ck_level;

typedef struct ck {
    const ck_op *op;
    ck_level    *level;
    uint64_t     random;
    bool         quick, all;  /* a part of the cases; those too that take long */
    bool         adds, exact; /* the op reads what it writes; it computes nothing */
    ck_buffer    buffer[CK_TENSORS];
    int          buffers;
    sg_tensor    room; /* of ck_out, for what an op takes of its stream's scratch; rank 0: it takes nothing */
    int          cases, faults;
    double       worst;       /* largest error over what is allowed, of all cases */
    char         first[1024]; /* the first fault */
} ck;

uint64_t ck_draw(ck *c, uint64_t below);
float    ck_normal(ck *c);

/* An input, filled; an output. The case owns them. */
sg_tensor ck_new_(ck *c, sg_dtype type, ck_fill fill, int rank, const int64_t *dim);
sg_tensor ck_out_(ck *c, sg_dtype type, int rank, const int64_t *dim);
sg_tensor ck_ids(ck *c, int64_t n, int32_t below);
/* Weights [o, i] quantised as q has it, of numbers about as large as CK_RANDOM's. */
sg_tensor ck_quantised(ck *c, sg_dtype type, sg_quant q, int64_t o, int64_t i);
/* A gate of m numbers for all of n rows; or, by draw, some of them, and in *row which each row takes. */
sg_tensor ck_gates(ck *c, ck_fill fill, int64_t n, int64_t m, sg_tensor *row);
/* The lists of attend_blocks; their counts come with them. */
sg_tensor ck_lists(ck *c, ck_fill fill, int64_t h, int64_t nq, int64_t nk, sg_tensor *count);
#define ck_new(c, type, fill, ...) ck_new_(c, type, fill, SG_DIMS(__VA_ARGS__))
#define ck_out(c, type, ...) ck_out_(c, type, SG_DIMS(__VA_ARGS__))

/* Runs the case and lets its tensors go. same: args of the same outputs, from which the kernel must make the same bits. */
void ck_case(ck *c, const void *args);
void ck_case_same(ck *c, const void *args, const void *same);

/* What each op is tried with, one function an op: ck_try_linear ... */
#define X(op) void ck_try_##op(ck *c);
SG_OPS(X)
#undef X

/* The same at lengths of real clips, with few queries, and with heads of more than 128 channels. */
void ck_long_attend(ck *c);
void ck_long_pool(ck *c);
void ck_long_self_similarity(ck *c);
void ck_long_quantise(ck *c);
void ck_long_score(ck *c);
void ck_long_select(ck *c);
void ck_long_tail_bias(ck *c);
void ck_long_attend_blocks(ck *c);

/* The same with the shapes of weights/tiny-wan. */
void ck_model_linear(ck *c);
void ck_model_conv(ck *c);
void ck_model_attend(ck *c);
void ck_model_norm(ck *c);
void ck_model_rope(ck *c);

/* Speed of the entry called name, one line a shape. */
void ck_bench(ck_level *level, const char *name);

/* Attention on tensors of more than 2^31 elements on a backend, printed to stdout: number of faults. */
int ck_large(const char *backend);

/* The decorators and the names of backends, which are no kernels: number of faults, told on stdout. */
int ck_meta(unsigned cpu_mask);

#endif
