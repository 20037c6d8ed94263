/* cuda_call.c - NVIDIA's libraries opened, and CUDA's failures as messages. */
#include "cuda_state.cuh"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Folders, between colons, that are searched after the system's: that of the build's toolkit first. */
#ifndef SG_CUDA_LIBRARIES
#define SG_CUDA_LIBRARIES "/usr/local/cuda/lib64"
#endif

void *sg_cuda_library(const char *name)
{
    char        path[1024];
    void       *found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    const char *folder = SG_CUDA_LIBRARIES;
    while (!found && *folder) {
        const int length = (int)strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, folder, name);
        if (length) found = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        folder += length + (folder[length] == ':');
    }
    return found;
}

/* A kernel's limit is that of all threads. It is never lowered, since another thread may be about to launch with more. */
cudaError_t sg_cuda_allow_shared(const void *kernel, size_t bytes)
{
    static pthread_mutex_t    mutex = PTHREAD_MUTEX_INITIALIZER;
    struct cudaFuncAttributes now;
    pthread_mutex_lock(&mutex);
    cudaError_t e = cudaFuncGetAttributes(&now, kernel);
    if (!e && (size_t)now.maxDynamicSharedSizeBytes < bytes)
        e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    pthread_mutex_unlock(&mutex);
    return e;
}

sg_status sg_cuda_check(sg_stream *s, const char *op, cudaError_t e)
{
    if (e == cudaSuccess) return SG_OK;
    const sg_status code = e == cudaErrorMemoryAllocation ? SG_E_MEMORY : SG_E_DEVICE;
    return sg_fail(s, code, "%s: CUDA says \"%s\" (%s), in this op or one shortly before it", op, cudaGetErrorString(e),
                   cudaGetErrorName(e));
}
