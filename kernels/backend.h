/* backend.h - a device: its op table, its memory, what it is good at. */
#ifndef SG_BACKEND_H
#define SG_BACKEND_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CPU levels, each above the last: SSE2; AVX2 with FMA; AVX-512 F, BW, DQ, VL; AVX-512 VNNI; AVX-512 BF16; AMX's BF16 and
 * INT8 tiles. A mask of (1 << level) says which may be used; a level counts only when all below it do. */
typedef enum sg_cpu_level {
    SG_CPU_BASE,
    SG_CPU_AVX2,
    SG_CPU_AVX512,
    SG_CPU_AVX512_VNNI,
    SG_CPU_AVX512_BF16,
    SG_CPU_AMX,
    SG_CPU_LEVELS
} sg_cpu_level;

/* GPU levels, each above the last: mma.sync of BF16 and I8; that of FP8; Hopper. A device has the highest that is not above
 * its compute capability; from 10.0 up it has sm89, by PTX. */
typedef enum sg_gpu_level { SG_GPU_OWN, SG_GPU_SM80, SG_GPU_SM89, SG_GPU_SM90, SG_GPU_LEVELS } sg_gpu_level;

extern const char *const sg_cpu_mask_names[];  /* "base", "avx2" .. "amx", "all", NULL: level i and those below */
extern const char *const sg_gpu_level_names[]; /* "sm80", "sm89", "sm90", NULL: that of level i + 1 */

typedef struct sg_backend_options {
    const char  *name;       /* "auto", "cuda", "cpu" or "ref" */
    int          threads;    /* 0: as many as the machine has */
    unsigned     cpu_mask;   /* allowed levels; 0: those that the variable SPARGE_GEN_CPUMASK names, all without it */
    sg_gpu_level gpu_level;  /* what cuda runs as; auto then takes no other backend. OWN: the device's */
    int          device;     /* which GPU, as CUDA counts them from 0; above 0, auto takes no other backend */
    int          local_rank; /* device 0: this process's number among those of its host, which take the GPUs in turn */
    int64_t      dnn_least;  /* multiply-adds from which cuda asks cuDNN; 0: where it pays; 1: always, for tests */
} sg_backend_options;

typedef struct sg_backend {
    const char      *name;
    const sg_ops    *ops;
    const sg_memory *memory;
    void            *impl;
    void (*enter)(const struct sg_backend *); /* sg_backend_enter; NULL: any thread may use b as it is */
    sg_dtype dtype;                           /* SG_F32 or SG_BF16: the faster for products here, what "auto" means */
    sg_dtype values; /* of v, as attend_blocks likes it: SG_I8, or SG_BF16 for v as it comes; SG_F32: no such op here */
    bool     f8;     /* quantise and attend_blocks take values as F8, too */
    bool     host_memory; /* device memory is host memory: mapped weights serve as they are */
    size_t   total_bytes; /* memory that a render may plan with, as found at open */
    size_t   host_bytes;  /* memory of the host that is free, as found at open */
    bool     packs;       /* products keep a copy of weights in a layout of their own */
    int      threads;     /* of the host, for what is done there */
    char     device[160]; /* for people: "Intel ... , AVX-512, 2 threads" */
} sg_backend;

/* Opens the device that o names. The caller closes it. SG_E_ARG for an unknown name, here or in SPARGE_GEN_CPUMASK, and
 * for a GPU that is not there, or for one but the first with cpu and ref; SG_E_UNSUPPORTED for what this build or machine
 * lacks, and for a level above the device's. */
sg_status sg_backend_open(sg_backend **out, const sg_backend_options *o, sg_error *e) SG_MUST_USE;
void      sg_backend_close(sg_backend **b);

/* Which of so many GPUs o means. SG_E_ARG: device is not one of them. */
sg_status sg_backend_choose_gpu(int *out, const sg_backend_options *o, int gpus, sg_error *e) SG_MUST_USE;

/* Makes b's GPU the calling thread's current device, which CUDA keeps for each thread. Memory of b may be taken and
 * streams of b used by this thread from here on. */
void sg_backend_enter(const sg_backend *b);

/* A stream of b without memory: give keep and scratch their blocks before use. Enters b. */
sg_stream sg_stream_on(const sg_backend *b);

/* Bytes that the backend holds for packed weights and library scratch. Packed weights never take more than an eighth of
 * total_bytes: what does not fit is packed anew at every use. */
size_t sg_backend_packed_bytes(const sg_backend *b);

/* What served, where that depends on what else the machine has, for people: "cuDNN 9.19.0 runs 40 shapes". Empty where
 * it does not, or nothing has wanted it. */
void sg_backend_served(const sg_backend *b, char *text, size_t size);

/* Generates the code that a convolution of these shapes will run, if such is generated: some take megabytes, and a plan
 * should count them. The tensors need no data. */
void sg_backend_prepare_conv(const sg_backend *b, const sg_conv_args *a);

/* Host memory that the code of b takes, or is about to take, when it works. */
size_t sg_backend_code_bytes(const sg_backend *b);

/* Packed weights shall take at most this many bytes from now on, if that is less than an eighth of total_bytes. */
void sg_backend_limit_packed(sg_backend *b, size_t bytes);

/* Host memory that this process has resident, and the most that it ever had; bytes, 0 where the system does not tell. */
size_t sg_resident_bytes(void);
size_t sg_resident_peak(void);

/* Seconds on a clock that only goes forward. */
double sg_seconds(void);

/* Frees what ops keep for the next call of their kind: call it between phases that have little in common. */
void sg_backend_drop_scratch(sg_backend *b);

/* Frees the packed weights: to be called when weights leave memory, before others may come to lie in the same place. */
void sg_backend_drop_packed(sg_backend *b);

#ifdef __cplusplus
}
#endif
#endif
