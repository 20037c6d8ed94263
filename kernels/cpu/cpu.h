/* cpu.h - what the files of the cpu backend share: its state, what each puts into the op table, packed weights,
 * scratch. It is private to the backend and to the kernel tests.
 *
 * The table is filled as in dav1d: sg_data_movement_init with what gains nothing from vectors, then every vec_*.c at
 * each level (cpu_levels.c) that the machine has and the mask allows, lowest first, then oneDNN's linear. conv is
 * always vec_winograd.c's, which chooses: by tiles, by oneDNN or as a plain product. A backend serves one thread at a
 * time: its scratch and its packed weights are not locked. */
#ifndef SG_CPU_H
#define SG_CPU_H

#include "backend.h"
#include "fallback.h"

/* Names blocks of memory that grow and live as long as the backend. Inside an op each has one holder. */
typedef enum sg_cpu_slot { SG_SLOT_WORK, SG_SLOT_PACK, SG_SLOT_X, SG_SLOT_Y, SG_SLOT_LIBRARY, SG_SLOTS } sg_cpu_slot;

typedef struct sg_cpu_block {
    void  *data;
    size_t bytes;
} sg_cpu_block;

/* Holds weights in the layout that a product wants. */
typedef struct sg_pack {
    const void *data; /* of the tensor it was made from */
    int64_t     dim[SG_MAX_RANK];
    int         rank;
    sg_dtype    dtype;
    uint64_t    form; /* which layout */
    void       *packed;
    size_t      bytes; /* of packed */
} sg_pack;

struct sg_onednn;

typedef sg_status sg_conv_fn(sg_stream *s, const sg_conv_args *a);

/* Leaves to `plain` what a library does not do. */
typedef sg_status sg_library_conv_fn(sg_stream *s, const sg_conv_args *a, sg_conv_fn *plain);

/* Products of so few rows read w in place, unpacked. */
enum { SG_THIN = 4 };

typedef struct sg_cpu {
    sg_ops              ops;
    unsigned            features; /* in use */
    int                 threads;
    bool                native_bf16;      /* BF16 by BF16 products run as such; else oneDNN's operands are widened */
    struct sg_onednn   *library;          /* NULL when oneDNN is not used */
    unsigned            library_features; /* that its code is held to */
    sg_cpu_block        block[SG_SLOTS];
    sg_pack            *pack;
    size_t              packs, packs_cap, pack_bytes, pack_limit;
    sg_library_conv_fn *library_conv; /* of it */
    sg_fallbacks        fallbacks;
} sg_cpu;

/* Stands before a loop over `size` elements that the threads of a cpu share. With SG_TINY or fewer one thread is faster
 * than several. */
#define SG_BY_THREADS(cpu, size)                                                                                       \
    _Pragma(SG_PRAGMA(omp parallel for schedule(static) num_threads((cpu)->threads) if ((size) > SG_TINY)))
#define SG_PRAGMA(text) #text
enum { SG_TINY = 32768 };

static inline sg_cpu *sg_cpu_of(const sg_stream *s) { return (sg_cpu *)s->impl; }

/* ---- cpu_features.c ---- */

/* Returns the features of backend.h that the CPU has and the system lets us use. */
unsigned sg_cpu_found(void);
void     sg_cpu_brand(char *out, size_t size);

/* ---- cpu_levels.c ---- */

/* Which features a level needs, and what it puts into the op table. */
typedef struct sg_cpu_level {
    const char *name, *label; /* of --cpumask; for people: "AVX-512 VNNI" */
    unsigned    needs;        /* features */
    sg_dtype    values;       /* as sg_backend has it */
    void (*fill)(sg_ops *t);  /* overwrites entries of the levels before it */
} sg_cpu_level;

enum { SG_CPU_LEVELS = 8 };
extern const sg_cpu_level sg_cpu_levels[SG_CPU_LEVELS];

/* Returns those of a set of features that levels can use: AVX-512 is of no use without AVX2. BASE is always one of
 * them. */
unsigned sg_cpu_usable(unsigned features);

/* Returns the last level that needs no more than these. */
const sg_cpu_level *sg_cpu_level_of(unsigned features);

/* Fills t with the entries of all levels that need no more than these features, without oneDNN. */
void sg_cpu_fill(sg_ops *t, unsigned features);

/* ---- cpu.c ---- */

/* Opens the backend: 0 threads are all, a mask of 0 is all features, pack_limit is in bytes. Returns NULL when memory
 * is short. */
sg_cpu *sg_cpu_open(int threads, unsigned mask, size_t pack_limit);
void    sg_cpu_close(sg_cpu *c);

/* Makes b the cpu backend. Fails as sg_backend_open does. */
sg_status sg_cpu_backend_open(sg_backend *b, const sg_backend_options *o, sg_error *e) SG_MUST_USE;

/* Returns `bytes` of slot's memory, SG_ALIGN aligned, or NULL when memory is short. What the slot held is lost. */
void *sg_cpu_scratch(sg_cpu *c, sg_cpu_slot slot, size_t bytes);

void sg_cpu_scratch_drop(sg_cpu *c); /* of all slots */

/* Returns room for the packed form of w, which is known by its address, shape, dtype and form, and kept until
 * sg_packs_drop: call that before other weights come to lie where some lay. *fresh says that the caller has to fill it.
 * Beyond pack_limit nothing more is kept: the room is then the scratch slot SG_SLOT_PACK, always fresh. Returns NULL
 * when memory is short. */
void *sg_pack_find(sg_cpu *c, const sg_tensor *w, uint64_t form, size_t bytes, bool *fresh);
void  sg_packs_drop(sg_cpu *c, uintptr_t from, size_t bytes); /* of weights that lie there */

/* Returns quantised weights in their dtype, which the caller frees, or NULL when memory is short. */
void *sg_cpu_widened(const sg_cpu *c, const sg_tensor *w);

/* Fills in the ops that move data and leave the vectors to memcpy: embed, sinusoid, upsample, avg_down, dup_up,
 * permute. */
void sg_data_movement_init(sg_ops *t);

/* Copies n neighbours of x from `from` on to y from `to` on. */
void sg_move_run(const sg_tensor *y, int64_t to, const sg_tensor *x, int64_t from, int64_t n);

/* ---- replicated_edges.c ---- */

/* Tells whether a reads beyond an edge that is replicated, which oneDNN does not know. Then it gets x with its edges,
 * in pieces of sg_replicated_frames frames of y. */
bool    sg_replicates(const sg_conv_args *a);
int64_t sg_replicated_frames(const sg_conv_args *a);

/* Makes the piece whose first frame is t a convolution by the library. Its x, of this dtype, has no data; nor has y
 * where the piece's is wider. */
sg_conv_args sg_replicated_piece(const sg_conv_args *a, int64_t t, sg_dtype type);

/* Computes all pieces by conv, which gets `plain`, with x in SG_SLOT_X and a wider y in SG_SLOT_Y: products in `type`
 * must need neither. */
sg_status sg_conv_replicated(sg_stream *s, const sg_conv_args *a, sg_dtype type, sg_library_conv_fn *conv,
                             sg_conv_fn *plain);

/* These run convolutions as plain products. */
sg_conv_fn sg_vec_conv_base, sg_vec_conv_avx2, sg_vec_conv_avx512;

/* These fill in attention of BF16 operands by BF16 products; the rest goes to the entry of vec_attend.c below. */
void      sg_bf16_attend_init_avx512_bf16(sg_ops *t);
void      sg_bf16_attend_init_amx(sg_ops *t);
sg_status sg_vec_attend_base(sg_stream *s, const sg_attend_args *a);
sg_status sg_vec_attend_avx2(sg_stream *s, const sg_attend_args *a);
sg_status sg_vec_attend_avx512(sg_stream *s, const sg_attend_args *a);

/* The files that are compiled for each of these levels. Those of attention/cpu fill in the stages of sparse attention:
 * pool and self_similarity; quantise; score and tail_bias; select; attend_blocks in F32, below in 8 bits, and by tiles,
 * as score and tail_bias are. */
#define SG_VEC_FILES(X, level)                                                                                         \
    X(elem, level)                                                                                                     \
    X(norm, level)                                                                                                     \
    X(matmul, level)                                                                                                   \
    X(winograd, level)                                                                                                 \
    X(attend, level) X(pool, level) X(quantise, level) X(score, level) X(select, level) X(blocks, level)
#define X(file, level) void sg_vec_##file##_init_##level(sg_ops *t);
SG_VEC_FILES(X, base)
SG_VEC_FILES(X, avx2)
SG_VEC_FILES(X, avx512)
#undef X
void sg_int8_blocks_init_avx2(sg_ops *t);
void sg_int8_blocks_init_avx_vnni(sg_ops *t);
void sg_int8_blocks_init_avx512_vnni(sg_ops *t);
void sg_amx_blocks_init(sg_ops *t);
void sg_amx_score_init(sg_ops *t);

/* Puts oneDNN's linear (with AVX-512) into c->ops and its convolution (with AVX2) into c; its generated code uses these
 * features, or fewer where sg_onednn_hold has them. With native_bf16 products of BF16 by BF16 run
 * as such, with AVX-512, else all are F32. Returns SG_E_UNSUPPORTED, with c->ops as it was, when the build lacks the
 * library, the features are too few for it, it fails, or it has been held to more than these already in this process;
 * or SG_E_MEMORY. */
sg_status sg_cpu_use_library(sg_cpu *c, unsigned features, bool native_bf16) SG_MUST_USE;
/* These do what sg_cpu_use_library says, and undo it; they exist where the build has oneDNN. */
sg_status sg_onednn_open(sg_cpu *c, unsigned features, bool native_bf16) SG_MUST_USE;
void      sg_onednn_close(sg_cpu *c);
void      sg_onednn_version(char *text, size_t size); /* of the library that is loaded: "2.6.3" */

/* Holds oneDNN to these features, unless they are all, and to sg_onednn_most, whichever is less, unless it is too late.
 * *used gets those that its instructions make up, SG_CPU_BASE below AVX2. Returns false if it has been held to more than
 * these. */
bool sg_onednn_hold(unsigned features, unsigned *used);

/* Notes a product that oneDNN is to run, whose code the first run would generate. */
void sg_onednn_note_linear(const sg_cpu *c, const sg_linear_args *a);
void sg_onednn_note_conv(const sg_cpu *c, const sg_conv_args *a);

/* Generates the code of all that is noted, by all threads. Returns the memory that all of oneDNN's code takes. */
size_t sg_onednn_code_bytes(const sg_backend *b);

/* Packs weights for the products noted, by all threads, where they all want one layout and the limit leaves room. */
void sg_onednn_pack(const sg_backend *b, const sg_tensor *w);

#endif
