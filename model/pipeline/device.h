/* device.h - what renders and language models ask of a device: the dtype of their products, memory for a stream, what
 * a plan counts beside tensors. */
#ifndef SG_DEVICE_H
#define SG_DEVICE_H

#include "backend.h"
#include "meta.h"

/* Sets *out to the dtype of that name, "f32" or "bf16"; NULL or "auto": what b prefers. SG_E_ARG for another name. */
sg_status sg_device_dtype(sg_dtype *out, const char *name, const sg_backend *b, sg_error *e) SG_MUST_USE;

/* Gives s, a stream of its backend, a keep and a scratch arena of so many bytes, which may be 0. Returns SG_E_MEMORY where
 * the device has not so much. */
sg_status sg_device_take(sg_stream *s, size_t keep, size_t scratch, sg_error *e) SG_MUST_USE;
void      sg_device_release(sg_stream *s);

/* Returns the bytes that products and attention of a plan take beside tensors and weights. */
size_t sg_device_staged(const sg_plan_totals *t);

#endif
