/* bind.h - "I want this name with this shape, here": binding and validating are one list.
 *
 *   sg_bind *b = NULL;
 *   SG_TRY(sg_bind_open(&b, source, map, e));
 *   sg_bind_prefix(b, "blocks.%d.", i);
 *   sg_bind_tensor(b, &w->to_q, SG_BF16, "attn1.to_q.weight", c, c);
 *   status = sg_bind_check(b, e);              every missing, misshapen and extra tensor, in one message
 *   status = sg_bind_patch(b, &patch, e);      as often as there are patches
 *   status = sg_bind_load(b, backend, ...);    conversion, patches and upload
 */
#ifndef SG_BIND_H
#define SG_BIND_H

#include "backend.h"
#include "name_map.h"
#include "tensor_source.h"

typedef struct sg_bind sg_bind;

/* Borrows both, which must outlive the binding. map, through which every name goes, may be NULL. */
sg_status sg_bind_open(sg_bind **out, const sg_source *s, const sg_name_map *map, sg_error *e) SG_MUST_USE;
void      sg_bind_close(sg_bind **b); /* also releases what sg_bind_load took */

/* Sets the prefix that goes before the names that follow. */
void sg_bind_prefix(sg_bind *b, const char *fmt, ...) SG_PRINTF(2, 3);
bool sg_bind_has(const sg_bind *b, const char *name); /* the prefix goes in front */

/* Returns the whole name of the i-th tensor that is wanted, from 0 on; NULL past the last. */
const char *sg_bind_name(const sg_bind *b, size_t i);

/* sg_bind_tensor reads numbers of these types; messages list them so. */
#define SG_TYPES_READ "F32, F16, BF16, FP8, Q8_0 to Q2_K or IQ4"

/* This is a tensor whose rows, the numbers behind its first dimension, are read on the host, one at a time. Where it
 * has more than two dimensions, a first one of 1 does not count. */
typedef struct sg_bind_rows {
    const char             *type; /* as the file spells it; NULL: there is no such tensor */
    int                     rank; /* 0: its rows cannot be read */
    int64_t                 dim[SG_MAX_RANK];
    const sg_source_tensor *from;
    size_t                  first, row; /* elements */
} sg_bind_rows;

/* Finds a tensor whose rows will be read. It is not extra then. */
sg_bind_rows sg_bind_peek(sg_bind *b, const char *name);

/* Sets y to that row as F32. Returns false where it has a NaN or an infinity. */
bool sg_bind_row(const sg_bind_rows *r, int64_t row, float *y);

/* Wants a tensor. *t gets shape and dtype `as` (SG_F32 or SG_BF16) at once, so that a plan can run, and data at
 * sg_bind_load. The file's shape must be dim[], but for dimensions of 1, which a file may drop or have more of, and but
 * for the first two of five, which may be one. t stays where it is until the binding closes. Failures are collected for
 * sg_bind_check. */
void sg_bind_tensor_(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int rank, const int64_t *dim);
#define sg_bind_tensor(b, t, as, name, ...) sg_bind_tensor_(b, t, as, name, SG_DIMS(__VA_ARGS__))

/* Does the same for the matrix [o, i] of products that no op but sg_linear reads. Where sg_bind_keep_types says so, it
 * stays quantised, if that is what it is in the file, in whole blocks of a row. */
void sg_bind_matrix(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int64_t o, int64_t i);

/* Says whether such matrices stay as the file has them, which they do not by default. Nothing may be loaded yet. Where all
 * patches of one are products of low rank, and together take less than widening it would, they become its adapter; with
 * others it is widened. */
void sg_bind_keep_types(sg_bind *b, bool on);

/* Tells whether the file has such a matrix quantised, however it will lie. */
bool sg_bind_is_quantised(const sg_bind *b);

/* Says whether such matrices with patches are merged with them, and packed as Q8_0, instead; nothing is loaded yet. */
void sg_bind_merge(sg_bind *b, bool on);

/* Says that what is wanted from here on is of this block of layers; a negative number stands for none. Blocks are
 * wanted in order, from 0 on, each at once. */
void sg_bind_block(sg_bind *b, int number);

/* Says that the rows of what is wanted from here on become pairs: of each run of so many rows, an even number that
 * divides all, row i of the first half becomes row 2 i and row i of the second row 2 i + 1. So sg_rope rotates heads
 * that were trained with the halves as partners. 0: rows stay where they are. */
void sg_bind_pairs(sg_bind *b, int64_t rows);

/* Lets tensors whose whole name in the file contains this text be in the file without anybody wanting them. */
void sg_bind_ignore(sg_bind *b, const char *part);

/* Says that what other, a binding of the same source, has wanted so far is not extra to b. */
void sg_bind_share(sg_bind *b, const sg_bind *other);

/* This is a matrix of a patch as a file has it: up [o, i], or with down the product of up [o, r] and down [r, i]. Both
 * may have more dimensions behind the first; i, and r of up, count all of them. They may have any type that a weight
 * may have. */
typedef struct sg_factor {
    const sg_source_tensor *up, *down; /* down NULL: up alone */
} sg_factor;

/* This is added to one tensor while it is loaded, unless it becomes an adapter: W' = W + scale D. W are the tensor's
 * numbers as F32; D has its rows, a row being all behind the first dimension, or those of the file's tensor of which it
 * is cut out. With a second factor, [o2, i2], beside the first, [o1, i1],
 *   D[o, i] = first[o / (rows of D / o1), i / (row of D / i1)] second[o mod o2, i mod i2],
 * where either both are of D's shape (LoHa: element by element) or o1 o2 and i1 i2 are (LoKr: Kronecker's product).
 * An element of up down is the sum over r from 0 on; every product and sum is rounded to F32, W' once more to the wanted
 * dtype, or packed. Several patches of a tensor are added in the order in which they came. */
typedef struct sg_patch {
    const char         *path; /* of the file that it is from, for messages */
    const char         *name; /* of the tensor, whole and as it is wanted */
    const sg_name_rule *cut;  /* which rows of D the tensor has; NULL: all */
    double              scale;
    sg_factor           factor[2]; /* the second may be absent: its up is NULL */
} sg_patch;

/* Adds a patch for the loads that follow. Borrows what p points at until the binding closes. Returns SG_E_ARG if no
 * tensor of that name is wanted, or it is loaded, and SG_E_FORMAT if its shape or type is not as above. A NaN in it is
 * found by sg_bind_load. */
sg_status sg_bind_patch(sg_bind *b, const sg_patch *p, sg_error *e) SG_MUST_USE;

/* sg_bind_patches returns how many patches there are. sg_bind_unpatch takes all but the first `kept` back, which wants
 * that nothing is loaded. */
size_t sg_bind_patches(const sg_bind *b);
void   sg_bind_unpatch(sg_bind *b, size_t kept);

/* Tells whether a patch of this path is part of an adapter. */
bool sg_bind_is_beside(const sg_bind *b, const char *path);

/* Returns SG_E_FORMAT, listing all missing, misshapen, wrongly typed and extra tensors. */
sg_status sg_bind_check(sg_bind *b, sg_error *e) SG_MUST_USE;
sg_status sg_bind_check_both(sg_bind *one, sg_bind *other, sg_error *e) SG_MUST_USE; /* in one message */

/* Says how many blocks stay on the host from the next load on, where that is not the device's memory: they lie evenly
 * among the others, so that one comes while others work. The device has room for two of them, which take turns, and
 * sg_bind_fetch brings them there. */
void sg_bind_offload(sg_bind *b, int blocks);
int  sg_bind_blocks(const sg_bind *b); /* how many there are */

/* Returns the device bytes that sg_bind_load will take; *mapped (may be NULL) gets the file bytes that serve in
 * place. */
size_t sg_bind_bytes(const sg_bind *b, const sg_backend *backend, size_t *mapped);

/* Returns the host bytes of the blocks that will stay on the host. */
size_t sg_bind_host_bytes(const sg_bind *b, const sg_backend *backend);

/* Returns how many numbers the bound tensors of two and more dimensions have as products of the backend read them. */
uint64_t sg_bind_packed_numbers(const sg_bind *b, const sg_backend *backend);

/* Converts, patches and uploads. What lies in the file as it is wanted, in one piece, without scales and without patches
 * that are added to it, serves from the map when the device shares host memory. Packs what products that a plan noted
 * want otherwise (sg_backend_pack). progress (may be NULL) is called after each tensor; non-zero cancels. A NaN or
 * infinity is SG_E_NUMERIC naming the tensor. Loading twice is a no-op until sg_bind_unload or another
 * sg_bind_offload. */
sg_status sg_bind_load(sg_bind *b, const sg_backend *backend, int (*progress)(void *context, int done, int total),
                       void *context, sg_error *e) SG_MUST_USE;
void      sg_bind_unload(sg_bind *b); /* gives back memory that no op uses any more; shapes, and what is packed, stay */

/* This is called before ops read the tensors of that block, which then stay until two others of the host are fetched. It
 * does nothing for blocks that are on the device, and on a plan. */
void sg_bind_fetch(const sg_bind *b, sg_stream *s, int block);

#endif
