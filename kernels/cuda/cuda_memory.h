/* cuda_memory.h - what the backend's opening needs of its memory. Scratch is in cuda_state.cuh. */
#ifndef SG_CUDA_MEMORY_H
#define SG_CUDA_MEMORY_H

#include "cuda_state.cuh"

extern const sg_memory sg_cuda_memory;

/* Makes b's device the calling thread's. What fails here, the next call tells. */
void sg_cuda_enter(const sg_backend *b);

/* Allocates the scratch memory whose size is fixed, and what fetches take, on the device that the calling thread has
 * entered. What was made before a failure is for close. */
cudaError_t sg_cuda_memory_open(sg_cuda *c);
void        sg_cuda_memory_close(sg_cuda *c);

/* Does what sg_ops says of fetch. */
sg_status sg_cuda_fetch(sg_stream *s, const sg_fetch_args *a);

#endif
