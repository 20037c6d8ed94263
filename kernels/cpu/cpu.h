/* cpu.h - what the files of the cpu backend share: its state, its levels, packed weights, scratch. Private to it and to
 * the kernel tests.
 *
 * The table is filled as in dav1d: sg_move_init with what gains nothing from vectors, then every vec_*.c at each level
 * that the machine has and the mask allows, lowest first, then oneDNN's products. A backend serves one thread at a
 * time: its scratch and its packed weights are not locked. */
#ifndef SG_CPU_H
#define SG_CPU_H

#include "backend.h"

/* Growable blocks that live as long as the backend, one holder each inside an op. */
typedef enum sg_cpu_slot { SG_SLOT_WORK, SG_SLOT_PACK, SG_SLOT_X, SG_SLOT_Y, SG_SLOT_LIBRARY, SG_SLOTS } sg_cpu_slot;

typedef struct sg_cpu_block {
    void  *data;
    size_t bytes;
} sg_cpu_block;

/* Weights in the layout that a product wants. */
typedef struct sg_pack {
    const void *data; /* of the tensor it was made from */
    int64_t     dim[SG_MAX_RANK];
    int         rank;
    sg_dtype    dtype;
    uint64_t    form; /* which layout */
    void       *packed;
} sg_pack;

struct sg_onednn;

typedef struct sg_cpu {
    sg_ops            ops;
    sg_cpu_level      level; /* the highest in use */
    int               threads;
    bool              native_bf16; /* BF16 by BF16 products run as such; else oneDNN's operands are widened */
    struct sg_onednn *library;     /* NULL when oneDNN is not used */
    sg_cpu_block      block[SG_SLOTS];
    sg_pack          *pack;
    size_t            packs, packs_cap, pack_bytes, pack_limit;
} sg_cpu;

static inline sg_cpu *sg_cpu_of(const sg_stream *s) { return (sg_cpu *)s->impl; }

/* The highest level of this machine that the system lets us use. */
sg_cpu_level sg_cpu_machine_level(void);
void         sg_cpu_brand(char *out, size_t size);
const char  *sg_cpu_level_name(sg_cpu_level level);

/* A mask of 0 becomes what the variable SPARGE_GEN_CPUMASK names, one of sg_cpu_mask_names, and all levels without it.
 * SG_E_ARG: it names none. Other masks stay. */
sg_status sg_cpu_mask_held(unsigned *mask, sg_error *e) SG_MUST_USE;

/* Fills t with the entries of the levels in mask, base always, without oneDNN. Returns the highest one used. */
sg_cpu_level sg_cpu_fill(sg_ops *t, unsigned mask);

/* threads 0: all. mask 0: all. pack_limit in bytes. NULL when memory is short. */
sg_cpu *sg_cpu_open(int threads, unsigned mask, size_t pack_limit);
void    sg_cpu_close(sg_cpu *c);

/* `bytes` of slot's memory, SG_ALIGN aligned; what it held is lost. NULL when memory is short. */
void *sg_cpu_scratch(sg_cpu *c, sg_cpu_slot slot, size_t bytes);

void sg_cpu_scratch_drop(sg_cpu *c); /* of all slots */

/* Room for the packed form of w, known by its address, shape, dtype and form, and kept until sg_packs_drop: call that
 * before other weights come to lie where some lay. *fresh says that the caller has to fill it. Beyond pack_limit
 * nothing more is kept: the room is then the scratch slot SG_SLOT_PACK, always fresh. NULL when memory is short. */
void *sg_pack_find(sg_cpu *c, const sg_tensor *w, uint64_t form, size_t bytes, bool *fresh);
void  sg_packs_drop(sg_cpu *c);

/* What moves data and leaves the vectors to memcpy: embed, sinusoid, upsample, avg_down, dup_up, permute. */
void sg_move_init(sg_ops *t);

#define SG_VEC_FILES(X, level) X(elem, level) X(norm, level) X(product, level) X(attend, level)
#define X(file, level) void sg_vec_##file##_init_##level(sg_ops *t);
SG_VEC_FILES(X, base)
SG_VEC_FILES(X, avx2)
SG_VEC_FILES(X, avx512)
#undef X

/* Attention of BF16 operands by BF16 products; the rest goes to the entry of vec_attend.c below. */
void      sg_bf16_attend_init_avx512_bf16(sg_ops *t);
void      sg_bf16_attend_init_amx(sg_ops *t);
sg_status sg_vec_attend_base(sg_stream *s, const sg_attend_args *a);
sg_status sg_vec_attend_avx2(sg_stream *s, const sg_attend_args *a);
sg_status sg_vec_attend_avx512(sg_stream *s, const sg_attend_args *a);

/* The stages of sparse attention, attention/cpu: pool and alike; quantise; score and tail_bias; select; attend_blocks in
 * F32; by VNNI; by tiles, as score and tail_bias are. */
#define SG_SPARSE_FILES(X, level) X(pool, level) X(quantise, level) X(score, level) X(select, level) X(blocks, level)
#define X(file, level) void sg_vec_##file##_init_##level(sg_ops *t);
SG_SPARSE_FILES(X, base)
SG_SPARSE_FILES(X, avx2)
SG_SPARSE_FILES(X, avx512)
#undef X
void sg_vnni_blocks_init(sg_ops *t);
void sg_amx_blocks_init(sg_ops *t);
void sg_amx_score_init(sg_ops *t);

/* Puts oneDNN's linear (from AVX-512 up) and conv (from AVX2 up) into c->ops; its generated code uses the instructions
 * of `level` and those below, or fewer where its own variable ONEDNN_MAX_CPU_ISA says so. With native_bf16 products of
 * BF16 by BF16 run as such, from AVX-512 up, else all are F32. False, and c->ops as it was, when the build lacks the
 * library, the level is too low for it, it fails, or it has been held to more than the level already in this process. */
bool sg_cpu_use_library(sg_cpu *c, sg_cpu_level level, bool native_bf16);
bool sg_onednn_open(sg_cpu *c, sg_cpu_level level, bool native_bf16); /* the same; exists where the build has oneDNN */
void sg_onednn_close(sg_cpu *c);

/* The level that oneDNN's code is held to, the backend's where it is not used. */
sg_cpu_level sg_cpu_library_level(const sg_cpu *c);
sg_cpu_level sg_onednn_level(const sg_cpu *c);
bool         sg_onednn_native_bf16(const sg_cpu *c);

/* Generates the code of a convolution of these shapes, as its first run would. */
void sg_onednn_prepare_conv(const sg_cpu *c, const sg_conv_args *a);

/* Memory that code generated so far takes. */
size_t sg_onednn_code_bytes(const sg_cpu *c);

#endif
