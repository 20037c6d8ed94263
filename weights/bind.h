/* bind.h - "I want this name with this shape, here": binding and validating are one list.
 *
 *   sg_bind *b = NULL;
 *   SG_TRY(sg_bind_open(&b, weights, e));
 *   sg_bind_prefix(b, "blocks.%d.", i);
 *   sg_want(b, &w->to_q, SG_BF16, "attn1.to_q.weight", c, c);
 *   status = sg_bind_check(b, e);              every missing, misshapen and extra tensor, in one message
 *   status = sg_bind_load(b, backend, ...);    conversion and upload
 */
#ifndef SG_BIND_H
#define SG_BIND_H

#include "backend.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_bind sg_bind;

/* Borrows w, which must outlive the binding. */
sg_status sg_bind_open(sg_bind **out, const sg_weights *w, sg_error *e) SG_MUST_USE;
void      sg_bind_close(sg_bind **b); /* also releases what sg_bind_load took */

/* Put before the names that follow. */
void sg_bind_prefix(sg_bind *b, const char *fmt, ...) SG_PRINTF(2, 3);
bool sg_bind_has(const sg_bind *b, const char *name); /* the prefix goes in front */

/* *t gets shape and dtype `as` (SG_F32 or SG_BF16) at once, so that a plan can run, and data at sg_bind_load. The file's
 * shape must be dim[] exactly. t stays where it is until the binding closes. Failures are collected for sg_bind_check. */
void sg_want_(sg_bind *b, sg_tensor *t, sg_dtype as, const char *name, int rank, const int64_t *dim);

/* What is wanted from here on is of this block of layers; negative: of none. Blocks are wanted in order, from 0 on, each at
 * once. */
void sg_bind_block(sg_bind *b, int number);

/* Tensors whose whole name contains this text may be in the file without anybody wanting them. */
void sg_bind_ignore(sg_bind *b, const char *part);

/* What other, a binding of the same weights, has wanted so far is not extra to b. */
void sg_bind_share(sg_bind *b, const sg_bind *other);

/* SG_E_FORMAT listing all missing, misshapen, wrongly typed and extra tensors. */
sg_status sg_bind_check(sg_bind *b, sg_error *e) SG_MUST_USE;

/* From the next load on blocks stay on the host, where that is not the device's memory, in the dtype wanted; the device
 * has room for two, even and odd ones, and sg_bind_fetch brings them there. */
void sg_bind_offload(sg_bind *b, bool on);

/* Device bytes that sg_bind_load will take; *mapped (may be NULL) gets the file bytes that serve in place. */
size_t sg_bind_bytes(const sg_bind *b, const sg_backend *backend, size_t *mapped);

/* Host bytes of the blocks that will stay there. */
size_t sg_bind_host_bytes(const sg_bind *b, const sg_backend *backend);

/* Numbers in the bound tensors of two and more dimensions: what products read. */
uint64_t sg_bind_matrix_numbers(const sg_bind *b);

/* Converts and uploads; what already has the wanted dtype serves from the map when the device shares host memory.
 * progress (may be NULL) is called after each tensor; non-zero cancels. A NaN or infinity is SG_E_NUMERIC naming the
 * tensor. Loading twice is a no-op until sg_bind_unload or another sg_bind_offload. */
sg_status sg_bind_load(sg_bind *b, const sg_backend *backend, int (*progress)(void *context, int done, int total),
                       void *context, sg_error *e) SG_MUST_USE;
void      sg_bind_unload(sg_bind *b); /* gives the memory back, of which no op makes use any more; shapes stay */

/* To be called before ops read the tensors of that block, which then stay until another even or odd one, as
 * this is, is fetched. Does nothing for blocks that are on the device, and on a plan. */
void sg_bind_fetch(const sg_bind *b, sg_stream *s, int block);

#ifdef __cplusplus
}
#else
#define sg_want(b, t, as, name, ...) sg_want_(b, t, as, name, SG_DIMS(__VA_ARGS__))
#endif
#endif
