/* backend.h - a device: its op table, its memory, what it is good at. */
#ifndef SG_BACKEND_H
#define SG_BACKEND_H

#include "op.h"
#include "system.h"

#ifdef __cplusplus
extern "C" {
#endif

/* These are the features of a CPU that there are kernels for. A set of features, such as a mask, is a sum of these: no
 * feature implies another. AVX-VNNI comes with AVX-512 VNNI or without it. */
enum {
    SG_CPU_BASE = 1 << 0,   /* SSE2: always */
    SG_CPU_AVX2 = 1 << 1,   /* and FMA */
    SG_CPU_AVX512 = 1 << 2, /* F, BW, DQ, VL */
    SG_CPU_VNNI = 1 << 3,   /* of AVX-512 */
    SG_CPU_BF16 = 1 << 4,   /* of AVX-512 */
    SG_CPU_AMX = 1 << 5,    /* BF16 and INT8 tiles */
    SG_CPU_INT8 = 1 << 6,   /* 8-bit products of AVX2 that are faster than those of F32: cpu_features.c */
    SG_CPU_AVXVNNI = 1 << 7 /* VNNI of 256 bits, VEX-coded */
};

/* These are the features of a GPU. Compute capabilities 10.x and 12.x have the first two. */
enum {
    SG_GPU_MMA = 1 << 0,  /* mma.sync of BF16 and I8: from compute capability 8.0 up */
    SG_GPU_FP8 = 1 << 1,  /* and of FP8: from 8.9 up */
    SG_GPU_WGMMA = 1 << 2 /* 9.x only */
};

/* Values as F8: not at all, or more slowly than as they come, or faster where blocks are skipped, by SG_BLOCK_Q_F8 queries. */
typedef enum sg_f8 { SG_F8_NONE, SG_F8_SLOW, SG_F8_FAST } sg_f8;

/* These are the names of levels for people. A name stands for the features that its level needs. */
extern const char *const sg_cpu_mask_names[];  /* "base", "avx2" .. "amx", "all", NULL */
extern const char *const sg_gpu_level_names[]; /* "sm80", "sm89", "sm90", NULL */

/* Returns the features of the level of that name, and of those that it stands on; 0 where there is no such name. */
SG_PUBLIC unsigned sg_cpu_mask_of(const char *name);

/* Returns the CPU features that this machine has and a mask, as sg_backend_options.cpu_mask, allows. */
unsigned           sg_cpu_features_of(unsigned mask);
SG_PUBLIC unsigned sg_gpu_mask_of(const char *name);

/* A mask of the CPU's features does not raise oneDNN above the instructions of this name, "AVX2" for example; NULL: any.
 * oneDNN cannot be asked what its own variable ONEDNN_MAX_CPU_ISA holds it to before a mask does: a program that keeps to
 * that puts its value here, before it opens the first backend. */
extern const char *sg_onednn_most;

unsigned sg_gpu_features(int capability); /* 90 is compute capability 9.0; 0 below 8.0 */

/* Tells whether a GPU runs code compiled for one of these architectures: "89-real 90a-real 90-virtual", machine code
 * and PTX. */
bool sg_gpu_runs(int capability, const char *architectures);

typedef struct sg_backend_options {
    const char *name;     /* "auto", "cuda", "cpu" or "ref" */
    int         threads;  /* 0: as many as the machine has */
    unsigned    cpu_mask; /* allowed features; 0: all */
    unsigned    gpu_mask; /* what cuda may use, all of which must be there; auto then takes no other backend. 0: all */
    int         device;   /* which GPU, as CUDA counts them from 0; above 0, auto takes no other backend */
    int         local_rank; /* device 0: this process's number among those of its host, which take the GPUs in turn */
    bool        plan_only;  /* where no GPU opens, cuda is one on which nothing but a plan is made */
    const char *root;       /* the folder that stands for / where auto looks for a card; NULL: / */
    /* From dnn_min_macs multiply-adds on cuda asks cuDNN and cublasLt; 0 stands for where it pays, and 1, for tests,
     * for always. */
    int64_t dnn_min_macs;
} sg_backend_options;

struct sg_plan_totals;

/* What a device does at a moment. What it does not tell is 0. */
typedef struct sg_clocks {
    double mhz, memory_mhz; /* of its processors and of its memory */
    double watts, limit;    /* what it takes, and what it may take */
    double celsius;
} sg_clocks;

/* What a backend answers for itself: sg_backend_<call> below says what each does, but for count, which only a plan
 * calls. An entry is NULL where there is nothing to do. */
typedef struct sg_backend_calls {
    void (*close)(sg_backend *);
    void (*make_current)(const sg_backend *); /* NULL: any thread may use the backend as it is */
    /* Adds to the totals of a plan (meta.h) what the op of that name takes beside its tensors, which need no data. Also
     * notes that such a product will run, for which code may have to be generated. It is never NULL. */
    void (*count)(const sg_backend *, struct sg_plan_totals *, const char *op, const void *args);
    void (*served)(const sg_backend *, char *text, size_t size);
    bool (*clocks)(const sg_backend *, sg_clocks *);
    size_t (*packed_bytes)(const sg_backend *);
    size_t (*code_bytes)(const sg_backend *);
    uint64_t (*packed_numbers)(const sg_backend *, const sg_tensor *w); /* NULL: as many as w has */
    void (*pack)(const sg_backend *, const sg_tensor *w);
    void (*limit_packed)(sg_backend *, size_t bytes);
    void (*drop_scratch)(sg_backend *);
    void (*drop_packed)(sg_backend *, uintptr_t from, size_t bytes);
} sg_backend_calls;

struct sg_backend {
    const char      *name;
    const sg_ops    *ops;
    const sg_memory *memory;
    void            *impl;
    sg_backend_calls call;
    sg_dtype         dtype; /* SG_F32 or SG_BF16: the faster for products here, what "auto" means */
    sg_dtype values; /* of v, as attend_blocks likes it: SG_I8, or SG_BF16 for v as it comes; SG_F32: no such op here */
    sg_f8    f8;     /* whether quantise and attend_blocks take values as F8, too */
    bool     host_memory;    /* ops work where the host does: mapped weights serve as they are */
    bool     process_memory; /* it is taken from the process's: what the program holds beside counts, too */
    bool     synchronous;    /* an op is over when its call is */
    bool     packs;          /* products keep a copy of weights in a layout of their own */
    size_t   total_bytes;    /* memory that a render may plan with, as found at open */
    size_t   host_bytes;     /* memory of the host that is free, as found at open */
    int      threads;        /* of the host, for what is done there */
    unsigned features;       /* of the CPU of the host that the mask allows, for the same */
    char     device[160];    /* for people: "Intel ... , AVX-512, 2 threads" */
    char     passed[256];    /* for people: which NVIDIA card auto took this for, and why; or empty */
};

/* Says what this build holds. */
typedef struct sg_build {
    const char *cuda;         /* its toolkit's version, "12.9.86"; NULL: no cuda backend */
    const char *cuda_targets; /* what kernels are compiled for, as CMake names it: "80,90-real" */
    char        onednn[32];   /* "2.6.3"; empty: products are plain C */
} sg_build;

sg_build sg_backend_build(void);

/* Opens the device that o names. The caller closes it. SG_E_ARG for an unknown name, for a GPU that is not there, and
 * for one but the first with cpu and ref; SG_E_UNSUPPORTED for what this build or machine lacks, and for features in
 * gpu_mask that the device lacks. */
sg_status sg_backend_open(sg_backend **out, const sg_backend_options *o, sg_error *e) SG_MUST_USE;
void      sg_backend_close(sg_backend **b);

/* Opens the device as sg_backend_open does first, and nothing else: what no program that uses the device can do
 * without. It stays open as long as the process. With cpu and ref nothing is to be opened. Fails as sg_backend_open. */
sg_status sg_backend_touch(const sg_backend_options *o, sg_error *e) SG_MUST_USE;

/* Chooses which of so many GPUs o means. Returns SG_E_ARG if its device is not one of them. */
sg_status sg_backend_choose_gpu(int *out, const sg_backend_options *o, int gpus, sg_error *e) SG_MUST_USE;

/* Tells whether the machine has an NVIDIA card, by what is in the folder that stands for / (NULL: /): NVIDIA's driver,
 * its device, or a card on the bus. driver gets the driver's version, or stays empty. */
bool sg_gpu_is_there(const char *root, char *driver, size_t size);

/* Makes b's GPU the calling thread's current device, which CUDA keeps for each thread: streams of b may be used by this
 * thread from here on. */
void sg_backend_make_current(const sg_backend *b);

/* Makes a stream of b without memory, and enters b. Give keep and scratch their blocks before use. */
sg_stream sg_stream_of(const sg_backend *b);

/* Returns how many bytes the backend holds for packed weights and library scratch. Packed weights never take more than
 * an eighth of total_bytes: what does not fit is packed anew at every use. */
size_t sg_backend_packed_bytes(const sg_backend *b);

/* Tells people what served, where that depends on what else the machine has: "cuDNN 9.19.0 runs 40 shapes". The text is
 * empty where it does not, or nothing has wanted it. */
void sg_backend_served(const sg_backend *b, char *text, size_t size);

/* Tells the clocks and the power of the device right now: false where it cannot be asked. The question takes about a
 * millisecond. */
bool sg_backend_clocks(const sg_backend *b, sg_clocks *out);

/* Returns the host memory that the code of b takes, or is about to take, when it works: some takes megabytes. Before
 * that it generates what is noted. */
size_t sg_backend_code_bytes(const sg_backend *b);

/* Returns how many numbers the weights w most likely are in the layout of the products that read them. */
uint64_t sg_backend_packed_numbers(const sg_backend *b, const sg_tensor *w);

/* Packs the weights w ahead of the products noted that read such a shape, unless those want several layouts. Like every
 * packed weight it is known by w's address until sg_backend_drop_packed. */
void sg_backend_pack(const sg_backend *b, const sg_tensor *w);

/* Limits packed weights to this many bytes from now on, if that is less than an eighth of total_bytes. */
void sg_backend_limit_packed(sg_backend *b, size_t bytes);

/* Frees what ops keep for the next call of their kind: call it between phases that have little in common. */
void sg_backend_drop_scratch(sg_backend *b);

/* Frees the packed weights: to be called when weights leave memory, before others may come to lie in the same place. */
void sg_backend_drop_packed(sg_backend *b);

/* The same of those weights alone that lie in these bytes. */
void sg_backend_drop_packed_in(sg_backend *b, uintptr_t from, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
