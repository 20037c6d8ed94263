/* bind_state.h - what bind.c lists, bind_load.c loads, and bind_patch.c and bind_adapter.c add to. It is private to the
 * four. */
#ifndef SG_BIND_STATE_H
#define SG_BIND_STATE_H

#include "bind.h"
#include "quant.h"

typedef enum sg_bind_trouble {
    SG_BIND_FITS,
    SG_BIND_MISSING,
    SG_BIND_MISSHAPEN,
    SG_BIND_MISTYPED,
    SG_BIND_TROUBLES
} sg_bind_trouble;

/* Are elements of a tensor of the file that lie in a row there; first and count are multiples of its type's block. */
typedef struct sg_bind_run {
    size_t first, count;
} sg_bind_run;

typedef struct sg_bind_want {
    sg_tensor *tensor;
    char      *name;
    int        rank;
    int64_t    dim[SG_MAX_RANK];

    const sg_source_tensor *from; /* NULL: missing */
    const sg_name_rule     *cut;  /* which rows of it; NULL: all */
    const uint8_t          *data; /* those rows in the file, where they are one run; else NULL */
    sg_bind_run             run[SG_NAME_ROWS];
    sg_adapter             *adapter; /* tensor->adapter; owned */
    int64_t                 pairs;   /* sg_bind_pairs' rows */
    int64_t                 ranks;   /* of the patches that are products of low rank, the sum */
    int                     runs;
    sg_bind_trouble         trouble;
    int                     block;   /* negative: none */
    int                     patches; /* in b->patch */
    int                     others;  /* of these, those that are no such products */
    bool                    matrix;  /* of sg_bind_matrix; tensor->quant is set where it stays quantised */
} sg_bind_want;

/* Says where one block lies on the host, where its tensors stand in the order of its wants. */
typedef struct sg_bind_span {
    size_t at, bytes;
} sg_bind_span;

typedef struct sg_bound_patch {
    sg_patch patch;
    size_t   binding;
} sg_bound_patch;

struct sg_bind {
    const sg_source   *source;
    const sg_name_map *map;
    char               prefix[SG_NAME_MAX];
    sg_bind_want      *binding;
    size_t             count, capacity;
    bool              *bound; /* by index in the source */
    char             **ignored;
    size_t             ignores, ignored_room;
    const char        *mistake; /* of the caller, or lack of memory: the first */
    sg_status          mistake_code;
    int                number; /* of the block that wants are of; negative: none */
    int64_t            pairs;  /* rows, for the wants that follow */
    sg_bound_patch    *patch;
    size_t             patches, patch_room;
    bool               keeps_types, merges; /* sg_bind_keep_types, sg_bind_merge */
    int                blocks;              /* that wants are of */
    int                offload;             /* how many of them stay on the host */
    const sg_backend  *backend;             /* of what is loaded; NULL: nothing is */
    void              *device;              /* what stays there, then both slots */
    uint8_t           *host;                /* blocks, pinned; NULL: all are on the device */
    size_t             host_bytes;
    sg_bind_span      *span; /* of each block on the host */
    uint8_t           *slot[2];
};

/* Tells whether a tensor of these dimensions has a size. A config or a file may ask for anything. */
bool sg_bind_has_size(int rank, const int64_t *dim);

/* Tells whether its patches are added to its numbers. */
static inline bool sg_bind_merges(const sg_bind_want *w) { return w->patches && !w->adapter; }

/* Returns the bytes of so many elements of w as it is wanted, whole blocks. */
static inline size_t sg_bind_bytes_of(const sg_bind_want *w, size_t n)
{
    const sg_tensor *const t = w->tensor;
    return t->quant.type ? sg_quant_bytes((sg_quant_type)t->quant.type, (int64_t)n) : n * sg_dtype_size(t->dtype);
}

/* Returns the bytes that w takes where it lies, and those that its adapter takes behind it. */
static inline size_t sg_bind_want_bytes(const sg_bind_want *w) { return sg_aligned(sg_bytes(*w->tensor)); }

static inline size_t sg_bind_adapter_bytes(const sg_bind_want *w)
{
    return w->adapter ? sg_aligned(sg_bytes(w->adapter->up)) + sg_aligned(sg_bytes(w->adapter->down)) : 0;
}

/* Sets y[count] to elements i to i + count of w, both multiples of SG_QUANT_BLOCK_MAX or the end of w, as the file has
 * them, rounded to `as`, or, where w stays as it is in the file, their bytes. With y NULL it only looks. Returns
 * SG_E_NUMERIC where one of them is a NaN, an infinity, or too large for `as`. */
sg_status sg_bind_convert(const sg_bind *b, const sg_bind_want *w, void *y, sg_dtype as, size_t i, size_t count,
                          int threads, sg_error *e);

/* Decides how w lies, by its file and its patches: tensor->quant and the adapter's shape. */
void sg_bind_settle(sg_bind *b, sg_bind_want *w);

/* Sets y to what lies of w's adapter: up, and at the next multiple of SG_ALIGN bytes down. */
sg_status sg_bind_adapter_make(const sg_bind *b, const sg_bind_want *w, uint8_t *y, sg_error *e);

/* Sets *out to t, a matrix of p, as F32. The caller frees it. */
sg_status sg_bind_take(float **out, const sg_patch *p, const sg_source_tensor *t, int threads, sg_error *e);

/* Holds a tensor's patches, and room for a piece of it. Zero is one without patches. */
typedef struct sg_bind_patched {
    struct sg_bind_factor *factor; /* two of each of its patches */
    size_t                 piece;  /* elements at a time */
    float                 *sum;    /* [piece]; then the terms of a sum, and what they are multiplied with */
    int                    threads;
    unsigned               features; /* of the CPU that may be used */
} sg_bind_patched;

/* Opens the patches of w, for what is done on the host of b's backend. Close them after a failure, too. */
sg_status sg_bind_patched_open(sg_bind_patched *p, const sg_bind *b, const sg_bind_want *w, sg_error *e);
void      sg_bind_patched_close(sg_bind_patched *p, const sg_bind_want *w);

/* Sets y[count] to elements i to i + count of the tensor with its patches, as it is wanted. */
sg_status sg_bind_patched_make(const sg_bind_patched *p, const sg_bind *b, const sg_bind_want *w, void *y, size_t i,
                               size_t count, sg_error *e);

#endif
