/* cuda_backend.h - the NVIDIA backend: all ops in F32 and BF16 on one GPU. It is private to kernels/.
 *
 * It runs on one of the devices that CUDA shows (of those in CUDA_VISIBLE_DEVICES, if that is set), from compute
 * capability 8.0 up.
 * All work goes to one queue of the device, in order; the host waits for it in transfers and release only, and no
 * op reads device memory on the host. A backend serves one thread at a time: one that has entered it since it last used
 * another device. */
#ifndef SG_CUDA_BACKEND_H
#define SG_CUDA_BACKEND_H

#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The ops may come to hold this much beside the arenas and the 256 MiB that they have from the start: weights in
 * another dtype or layout, and what cuDNN (10 MiB) and a graph take for themselves. The weights of one convolution,
 * repacked, come on top where they are larger than 128 MiB. */
#define SG_CUDA_WORK_BYTES ((size_t)192 << 20)

/* Fills b: name, ops, memory, impl, call, dtype, values, f8, threads, total_bytes, device. total_bytes is what the
 * device has free at that moment, less SG_CUDA_WORK_BYTES. SG_E_UNSUPPORTED: there is no GPU, none that is new enough,
 * or a driver or library is missing or too old; SG_E_MEMORY: the GPU has no room for the backend;
 * SG_E_ARG: o names a device that is not there; SG_E_DEVICE: anything else. After a failure b is as it was.
 *
 * o->gpu_mask chooses among our own kernels, whose machine code stays the device's, and below the device's own
 * features they have as much shared memory as the least of such a device. cublasLt and cuDNN choose theirs by the
 * device: below its own features cuDNN has no say, so that the level's attention and convolutions run; products stay
 * cublasLt's. SG_E_UNSUPPORTED for features that the device lacks. */
sg_status sg_cuda_open(sg_backend *b, const sg_backend_options *o, sg_error *e) SG_MUST_USE;

/* Does what sg_backend_touch says: chooses the device and makes its context, which is the calling thread's then. */
sg_status sg_cuda_touch(int *device, const sg_backend_options *o, sg_error *e) SG_MUST_USE;

/* Returns how many bytes the ops hold now. */
size_t sg_cuda_work_bytes(const sg_backend *b);

#ifdef __cplusplus
}
#endif
#endif
