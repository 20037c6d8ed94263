/* onednn.c - linear and conv by oneDNN 2 or 3, the only file that calls it. What is said of 2.6 was measured with it; 3
 * is treated likewise.
 *
 * Operands. BF16 by BF16 runs as such where the machine multiplies BF16. Every other pair is computed in F32: weights
 * are widened when packed, x is widened for the call, so nothing is rounded on the way. (Where BF16 is only emulated it
 * is five times slower than F32: 54 to 250 GFLOP/s on two cores of a Xeon at 2.5 GHz with AVX-512.) So are BF16 pairs
 * of odd depth: AVX512_BF16 multiplies numbers two by two, and 2.6 pads the last with zero times what lies behind it,
 * so that a neighbour's infinity becomes a NaN. And so are convolutions with a stride: of 90 random ones 2.6 got one
 * wrong by AMX, 64 to 33 channels with strides of 2. Convolutions of one channel with a stride along x go to the
 * product without library: 3.7 reads past the end of x where such a row ends in one place.
 *
 * Adding to y is left to oneDNN where y has the product's dtype; else the product goes to scratch and is added by
 * gate_add. Where rows have gates of their own, it gets a gate for each.
 *
 * Threads. The order in which 2.6's AVX-512 convolution sums depends on the number of threads for some shapes: of 4,900
 * random ones on 1 to 8 threads, for some with more than 128 channels in, and for some with even or one-sided kernels
 * whose pads are wider than half of them. Those go to the product without library (GFLOP/s a thread, theirs and ours:
 * 116 and 97 at 192 channels, 95 and 90 at 384). BF16 by BF16 convolutions stay here all the same: the other product is
 * F32 and an order slower there. Below AVX-512 its linear depends on the threads too, and is slower than ours (39 to 53
 * and 50 to 61): only conv is left to it, and below AVX2, where ours decodes in less than half the time, nothing.
 *
 * Primitives are kept by shape. oneDNN chooses the layout of the weights; that layout is part of a packed weight's key.
 * A few rows, and what oneDNN does not do, go to the product that was in the table before. */
#include "cpu.h"
#include "onednn_threads.h"
#include "onednn_version.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SG_KEPT = 256, SG_MAKERS = 15 };

/* What oneDNN reads in of its code, and generates for products, beside what it generates for convolutions: measured. */
enum { CODE_BYTES = 3 << 20 };

typedef enum plan_arg { ARG_X, ARG_W, ARG_B, ARG_Y, ARG_GATE, ARG_SCRATCH, ARGS } plan_arg;

typedef struct plan_key {
    int64_t  n[20];   /* shapes, of linear with the rows of gate; strides, pads; unused places 0 */
    int64_t  threads; /* that it is divided among */
    sg_act   act;
    sg_dtype x, w, y;
    bool     conv, bias, gate, add;
} plan_key;

typedef struct plan {
    plan_key         key;
    dnnl_primitive_t run;      /* NULL: oneDNN cannot */
    sg_memory_desc   w, plain; /* weights as the primitive wants them and as the model has them */
    dnnl_memory_t    memory[ARGS];
    uint64_t         form;
    size_t           packed_bytes, scratch_bytes;
    bool             made; /* run is what it will be */
} plan;

typedef struct sg_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    sg_ops        plain; /* the table without oneDNN */
    plan         *kept[SG_KEPT];
    uint64_t      hash[SG_KEPT];        /* of their keys */
    size_t        code_bytes;           /* that came to be resident while plans were made */
    atomic_int    making;               /* the first that no thread makes yet */
    int           count, next, threads; /* the last of the products: blocks are chosen by it */
} sg_onednn;

#define GATE (DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1)
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != dnnl_success) return false;                                                                      \
    } while (0)

static dnnl_data_type_t type_of(sg_dtype t) { return t == SG_BF16 ? dnnl_bf16 : dnnl_f32; }

/* A descriptor that was not made is NULL, which is what oneDNN takes for a tensor that is not there. */
static void desc_free(sg_memory_desc d)
{
    if (d) dnnl_memory_desc_destroy(d);
}

static void plan_free(plan *p)
{
    if (!p) return;
    for (int i = 0; i < ARGS; i++)
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    if (p->run) dnnl_primitive_destroy(p->run);
    desc_free(p->w);
    desc_free(p->plain);
    free(p);
}

static uint64_t mix(uint64_t h, int64_t v) { return (h ^ (uint64_t)v) * 0x100000001b3u; }

/* A number for the layout of d; 0: it has none that can be told. */
static uint64_t form_of(sg_const_memory_desc d)
{
    sg_memory_layout l;
    if (!sg_memory_layout_of(&l, d)) return 0;
    uint64_t h = mix(mix(0xcbf29ce484222325u, l.type), l.blocks);
    for (int i = 0; i < l.rank; i++) h = mix(mix(h, l.padded[i]), l.stride[i]);
    for (int i = 0; i < l.blocks; i++) h = mix(mix(h, l.block[i]), l.index[i]);
    return h | 1;
}

static uint64_t hash_of(const plan_key *k)
{
    int64_t  word[sizeof *k / sizeof(int64_t)];
    uint64_t h = 0xcbf29ce484222325u;
    memcpy(word, k, sizeof word);
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++) h = mix(h, word[i]);
    return h;
}

/* The activations whose result at NaN and error are those of ours; the others run after the product. */
static bool fuses(sg_act act) { return act == SG_ACT_GELU_TANH || act == SG_ACT_SILU; }

/* y = act(product), or y += gate product. */
static bool post_ops(const plan_key *k, dnnl_post_ops_t ops)
{
    if (k->act != SG_ACT_NONE) {
        const dnnl_alg_kind_t kind = k->act == SG_ACT_SILU ? dnnl_eltwise_swish : dnnl_eltwise_gelu_tanh;
        TRY(dnnl_post_ops_append_eltwise(ops, kind, 1.0f, 0.0f));
    }
    if (k->gate) {
        sg_memory_desc gate;
        TRY(dnnl_memory_desc_create_with_tag(&gate, 2, (const dnnl_dims_t){k->n[3], k->n[2]}, dnnl_f32, dnnl_ab));
        const dnnl_status_t status = dnnl_post_ops_append_binary(ops, dnnl_binary_mul, gate);
        desc_free(gate);
        TRY(status);
    }
    if (k->add) TRY(dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef));
    return true;
}

static bool attributes(const plan_key *k, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    TRY(dnnl_primitive_attr_create(attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
    TRY(dnnl_post_ops_create(&ops));
    const bool ok = post_ops(k, ops) && dnnl_primitive_attr_set_post_ops(*attr, ops) == dnnl_success;
    dnnl_post_ops_destroy(ops);
    return ok;
}

/* oneDNN's reference code, which it takes when nothing else fits, is slower than ours. */
static bool is_reference(const_dnnl_primitive_desc_t d)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(d, dnnl_query_impl_info_str, 0, (void *)&name) != dnnl_success || !name ||
           strncmp(name, "ref", 3) == 0;
}

/* From a primitive's description to all that its runs need. */
static bool plan_finish(const sg_onednn *o, plan *p, const_dnnl_primitive_desc_t d)
{
    const struct {
        dnnl_query_t what;
        int          index;
    } of[ARGS] = {[ARG_X] = {dnnl_query_src_md, 0},
                  [ARG_W] = {dnnl_query_weights_md, 0},
                  [ARG_B] = {dnnl_query_weights_md, 1},
                  [ARG_Y] = {dnnl_query_dst_md, 0},
                  [ARG_GATE] = {dnnl_query_exec_arg_md, GATE},
                  [ARG_SCRATCH] = {dnnl_query_scratchpad_md, 0}};
    for (int i = 0; i < ARGS; i++) {
        if ((i == ARG_B && !p->key.bias) || (i == ARG_GATE && !p->key.gate)) continue;
        const sg_const_memory_desc md = dnnl_primitive_desc_query_md(d, of[i].what, of[i].index);
        if (!md) return false;
        if (i == ARG_W) {
            TRY(dnnl_memory_desc_clone(&p->w, md));
            p->form = form_of(md);
            if (!p->form) return false;
            p->packed_bytes = dnnl_memory_desc_get_size(md);
        }
        if (i == ARG_SCRATCH) p->scratch_bytes = dnnl_memory_desc_get_size(md);
        TRY(dnnl_memory_create(&p->memory[i], md, o->engine, DNNL_MEMORY_NONE));
    }
    return dnnl_primitive_create(&p->run, d) == dnnl_success;
}

/* What a primitive reads and writes. */
typedef struct operands {
    sg_memory_desc x, w, b, y;
} operands;

static bool linear_operands(const plan_key *k, operands *d, sg_memory_desc *plain)
{
    const int64_t     n = k->n[0], i = k->n[1], out = k->n[2];
    const dnnl_dims_t xs = {n, i}, ws = {i, out}, ys = {n, out}, bs = {1, out};
    TRY(dnnl_memory_desc_create_with_tag(&d->x, 2, xs, type_of(k->x), dnnl_ab));
    TRY(dnnl_memory_desc_create_with_tag(&d->w, 2, ws, type_of(k->x), dnnl_format_tag_any));
    TRY(dnnl_memory_desc_create_with_tag(plain, 2, ws, type_of(k->w), dnnl_ba));
    TRY(dnnl_memory_desc_create_with_tag(&d->y, 2, ys, type_of(k->y), dnnl_ab));
    if (k->bias) TRY(dnnl_memory_desc_create_with_tag(&d->b, 2, bs, dnnl_f32, dnnl_ab));
    return true;
}

static bool conv_operands(const plan_key *k, operands *d, sg_memory_desc *plain)
{
    const int64_t *const n = k->n; /* x[4] y[4] w[5] stride[3] pad[4] */
    const dnnl_dims_t    xs = {1, n[3], n[0], n[1], n[2]}, ys = {1, n[7], n[4], n[5], n[6]};
    const dnnl_dims_t    ws = {n[8], n[9], n[10], n[11], n[12]}, bs = {n[8]};
    TRY(dnnl_memory_desc_create_with_tag(&d->x, 5, xs, type_of(k->x), dnnl_ndhwc));
    TRY(dnnl_memory_desc_create_with_tag(&d->w, 5, ws, type_of(k->x), dnnl_format_tag_any));
    TRY(dnnl_memory_desc_create_with_tag(plain, 5, ws, type_of(k->w), dnnl_oidhw));
    TRY(dnnl_memory_desc_create_with_tag(&d->y, 5, ys, type_of(k->y), dnnl_ndhwc));
    if (k->bias) TRY(dnnl_memory_desc_create_with_tag(&d->b, 1, bs, dnnl_f32, dnnl_a));
    return true;
}

static dnnl_status_t conv_create(dnnl_primitive_desc_t *out, const sg_onednn *o, const plan_key *k, const operands *d,
                                 const_dnnl_primitive_attr_t attr)
{
    const int64_t *const n = k->n;
    const dnnl_dims_t    stride = {n[13], n[14], n[15]}, dilation = {0}, before = {0, n[16], n[18]};
    /* What lies beyond the last window is not padding but unused, and may be negative to oneDNN. */
    dnnl_dims_t after = {0};
    for (int i = 0; i < 3; i++) after[i] = (n[4 + i] - 1) * n[13 + i] + n[10 + i] - n[i] - before[i];
    return dnnl_convolution_forward_primitive_desc_create(out, o->engine, dnnl_forward_inference,
                                                          dnnl_convolution_direct, d->x, d->w, d->b, d->y, stride,
                                                          dilation, before, after, attr);
}

static bool plan_make(const sg_onednn *o, plan *p)
{
    const plan_key *const k = &p->key;
    operands              d = {0};
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    bool                  ok = (k->conv ? conv_operands : linear_operands)(k, &d, &p->plain) && attributes(k, &attr);
    ok =
        ok && (k->conv ? conv_create(&desc, o, k, &d, attr)
                       : dnnl_matmul_primitive_desc_create(&desc, o->engine, d.x, d.w, d.b, d.y, attr)) == dnnl_success;
    ok = ok && !is_reference(desc) && plan_finish(o, p, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (attr) dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < 4; i++) desc_free((const sg_memory_desc[]){d.x, d.w, d.b, d.y}[i]);
    return ok;
}

/* What oneDNN cannot do keeps no primitive. */
static void make(const sg_onednn *o, plan *p)
{
    const sg_own_threads own = sg_lend_threads((int)p->key.threads);
    if (!plan_make(o, p) && p->run) {
        dnnl_primitive_destroy(p->run);
        p->run = NULL;
    }
    sg_threads_back(own);
    p->made = true;
}

/* The plan of a key, not yet made when it is new, in the place of the oldest when there are too many. NULL: no memory. */
static plan *keep(sg_onednn *o, const plan_key *key)
{
    const uint64_t hash = hash_of(key);
    for (int i = 0; i < o->count; i++)
        if (o->hash[i] == hash && memcmp(&o->kept[i]->key, key, sizeof *key) == 0) return o->kept[i];
    plan *const p = calloc(1, sizeof *p);
    if (!p) return NULL;
    memcpy(&p->key, key, sizeof *key);
    const int at = o->count < SG_KEPT ? o->count++ : o->next++ % SG_KEPT;
    plan_free(o->kept[at]);
    o->kept[at] = p;
    o->hash[at] = hash;
    return p;
}

static void *make_kept(void *context)
{
    sg_onednn *const o = context;
    for (int i; (i = atomic_fetch_add(&o->making, 1)) < o->count;)
        if (!o->kept[i]->made) make(o, o->kept[i]);
    return NULL;
}

/* Makes all kept plans, by as many threads as it has, the calling one among them. */
static void make_all(sg_onednn *o)
{
    pthread_t    helper[SG_MAKERS];
    int          helpers = 0, unmade = 0;
    const size_t before = sg_resident_bytes();
    atomic_store(&o->making, 0);
    for (int i = 0; i < o->count; i++) unmade += !o->kept[i]->made;
    while (helpers < SG_MAKERS && helpers + 1 < o->threads && helpers + 1 < unmade &&
           pthread_create(&helper[helpers], NULL, make_kept, o) == 0)
        helpers++;
    make_kept(o);
    while (helpers > 0) pthread_join(helper[--helpers], NULL);
    const size_t after = sg_resident_bytes();
    o->code_bytes += unmade && after > before ? after - before : 0;
}

/* The same, made. NULL: oneDNN cannot. */
static plan *plan_of(sg_onednn *o, const plan_key *key)
{
    plan *const p = keep(o, key);
    if (p && !p->made) make(o, p);
    return p && p->run ? p : NULL;
}

/* from, as the model has it, to p's layout. */
static bool pack(const sg_onednn *o, const plan *p, const void *from, void *to)
{
    dnnl_primitive_desc_t d = NULL;
    dnnl_primitive_t      run = NULL;
    dnnl_memory_t         a = NULL, b = NULL;
    const sg_own_threads  own = sg_lend_threads(sg_team_of(o->threads));
    bool                  ok = dnnl_memory_create(&a, p->plain, o->engine, (void *)(uintptr_t)from) == dnnl_success &&
              dnnl_memory_create(&b, p->w, o->engine, to) == dnnl_success &&
              dnnl_reorder_primitive_desc_create(&d, p->plain, o->engine, p->w, o->engine, NULL) == dnnl_success &&
              dnnl_primitive_create(&run, d) == dnnl_success;
    const dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
    ok = ok && dnnl_primitive_execute(run, o->stream, 2, arg) == dnnl_success;
    sg_threads_back(own);
    if (run) dnnl_primitive_destroy(run);
    if (d) dnnl_primitive_desc_destroy(d);
    if (a) dnnl_memory_destroy(a);
    if (b) dnnl_memory_destroy(b);
    return ok;
}

/* w as p's products read it, kept or in scratch. NULL and *status: it failed. */
static void *packed_for(sg_cpu *c, const plan *p, const sg_tensor *w, sg_status *status)
{
    bool        fresh;
    void *const packed = sg_pack_find(c, w, p->form, p->packed_bytes, &fresh); /* must be filled if it is fresh */
    *status = packed ? SG_OK : SG_E_MEMORY;
    if (!packed || !fresh) return packed;
    void *const wide = w->quant.type ? sg_cpu_widened(c, w) : NULL;
    *status = w->quant.type && !wide                               ? SG_E_MEMORY
              : pack(c->library, p, wide ? wide : w->data, packed) ? SG_OK
                                                                   : SG_E_DEVICE;
    free(wide);
    if (*status) sg_packs_drop(c, 0, SIZE_MAX);
    return *status ? NULL : packed;
}

/* t itself when it has the dtype that the plan wants and may be used, else a tensor of that dtype in scratch. */
static sg_tensor staged(sg_cpu *c, sg_tensor t, sg_dtype type, bool may, sg_cpu_slot slot)
{
    if (may && t.dtype == type) return t;
    t.dtype = type;
    t.data = sg_cpu_scratch(c, slot, sg_bytes(t));
    return t;
}

/* The gate as the plan reads it: of rows that have their own, one for each, in scratch that a staged y would have. */
static sg_tensor gate_for(sg_stream *s, const plan *p, const sg_linear_args *a)
{
    if (!p->key.gate || !a->row.rank) return a->gate;
    const sg_ops *const plain = &sg_cpu_of(s)->library->plain;
    const size_t        bytes = (size_t)(p->key.n[0] * p->key.n[2]) * sizeof(float);
    const sg_tensor     each = {.data = sg_cpu_scratch(sg_cpu_of(s), SG_SLOT_Y, bytes),
                                .dtype = SG_F32,
                                .rank = 2,
                                .dim = {p->key.n[0], p->key.n[2]}};
    if (each.data && plain->embed(s, &(sg_embed_args){.y = each, .w = a->gate, .ids = a->row})) return (sg_tensor){0};
    return each;
}

/* What the plan leaves to do: y from its result r. */
static sg_status finish(sg_stream *s, const plan_key *k, const sg_linear_args *a, sg_tensor r)
{
    const sg_ops *const plain = &sg_cpu_of(s)->library->plain;
    if (a->add && !k->add)
        return plain->gate_add(s, &(sg_gate_add_args){.x = a->y, .r = r, .gate = a->gate, .row = a->row});
    if (a->act != k->act) return plain->act(s, &(sg_act_args){.y = a->y, .x = r, .act = a->act});
    return r.data == a->y.data ? SG_OK : plain->copy(s, &(sg_copy_args){.y = a->y, .x = r});
}

/* Runs p on a's tensors; a convolution comes as a linear with its own shapes. */
static sg_status plan_run(sg_stream *s, const plan *p, const sg_linear_args *a)
{
    sg_cpu *const    c = sg_cpu_of(s);
    sg_onednn *const o = c->library;
    const sg_tensor  x = staged(c, a->x, p->key.x, true, SG_SLOT_X);
    const sg_tensor  y = staged(c, a->y, p->key.y, a->add == p->key.add, SG_SLOT_Y);
    void *const      scratch = sg_cpu_scratch(c, SG_SLOT_LIBRARY, p->scratch_bytes);
    sg_status        status;
    const sg_tensor  gate = gate_for(s, p, a);
    if (!x.data || !y.data || !scratch || (p->key.gate && !gate.data)) return SG_E_MEMORY;
    void *const packed = packed_for(c, p, &a->w, &status);
    if (!packed) return status;
    if (x.data != a->x.data) SG_TRY(o->plain.copy(s, &(sg_copy_args){.y = x, .x = a->x}));
    void *const      data[ARGS] = {x.data, packed, a->b.data, y.data, gate.data, scratch};
    static const int name[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS,   DNNL_ARG_BIAS, DNNL_ARG_DST,
                                   GATE,         DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t  arg[ARGS];
    int              args = 0;
    for (int i = 0; i < ARGS; i++) {
        if (!p->memory[i]) continue;
        if (dnnl_memory_set_data_handle(p->memory[i], data[i]) != dnnl_success) return SG_E_DEVICE;
        arg[args++] = (dnnl_exec_arg_t){name[i], p->memory[i]};
    }
    const sg_own_threads own = sg_lend_threads((int)p->key.threads);
    const bool           done = dnnl_primitive_execute(p->run, o->stream, args, arg) == dnnl_success;
    sg_threads_back(own);
    return done ? finish(s, &p->key, a, y) : SG_E_DEVICE;
}

/* Is the product of k and a multiplied as BF16? See the top of the file. */
static bool runs_bf16(const sg_cpu *c, const plan_key *k, const sg_linear_args *a)
{
    const bool strided = k->conv && k->n[13] * k->n[14] * k->n[15] > 1;
    return c->native_bf16 && a->x.dtype == SG_BF16 && a->w.dtype == SG_BF16 && a->w.dim[1] % 2 == 0 && !strided;
}

/* Adds to a key of shapes what else decides about the code. */
static void complete(const sg_cpu *c, plan_key *k, const sg_linear_args *a)
{
    const bool bf16 = runs_bf16(c, k, a);
    k->threads = sg_team_of(c->library->threads);
    k->w = a->w.dtype;
    k->x = bf16 ? SG_BF16 : SG_F32;
    k->y = bf16 ? a->y.dtype : SG_F32;
    k->act = fuses(a->act) ? a->act : SG_ACT_NONE;
    k->bias = a->b.rank > 0;
    k->add = a->add && a->y.dtype == k->y;
    k->gate = k->add && a->gate.rank > 0;
}

/* The plan of k, with which y may be added to at once, or else afterwards. */
static plan *plan_for(const sg_cpu *c, plan_key *k, const sg_linear_args *a)
{
    complete(c, k, a);
    plan *const p = plan_of(c->library, k);
    if (p || !k->add) return p;
    k->add = k->gate = false;
    return plan_of(c->library, k);
}

/* The shapes of a product. False: the plain one shall do it. */
static bool linear_key(plan_key *k, const sg_linear_args *a)
{
    memset(k, 0, sizeof *k); /* keys are compared as bytes */
    k->n[0] = a->x.dim[0];
    k->n[1] = a->x.dim[1];
    k->n[2] = a->w.dim[0];
    k->n[3] = a->row.rank ? k->n[0] : 1;
    return a->x.dim[0] > SG_THIN && a->x.dim[1] > 0;
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    const sg_ops *const plain = &sg_cpu_of(s)->library->plain;
    plan_key            k;
    if (!linear_key(&k, a)) return plain->linear(s, a);
    const plan *const p = plan_for(sg_cpu_of(s), &k, a);
    return p ? plan_run(s, p, a) : plain->linear(s, a);
}

/* Does the F32 result not depend on the number of threads? */
static bool is_steady(const sg_conv_args *a)
{
    const int64_t kx = a->w.dim[4];
    return a->w.dim[1] <= 128 && kx % 2 == 1 && a->pad[2] <= kx / 2 && a->pad[3] <= kx / 2;
}

static sg_linear_args matmul_of(const sg_conv_args *a)
{
    return (sg_linear_args){.y = a->y, .x = a->x, .w = a->w, .b = a->b, .add = a->add};
}

/* The same of a convolution. */
static bool conv_key(const sg_cpu *c, plan_key *k, const sg_conv_args *a)
{
    memset(k, 0, sizeof *k);
    for (int i = 0; i < 4; i++) {
        k->n[i] = a->x.dim[i];
        k->n[4 + i] = a->y.dim[i];
        k->n[16 + i] = a->pad[i];
    }
    for (int i = 0; i < 5; i++) k->n[8 + i] = a->w.dim[i];
    for (int i = 0; i < 3; i++) k->n[13 + i] = a->stride[i];
    k->conv = true;
    const sg_linear_args product = matmul_of(a);
    if (a->w.dim[1] == 1 && a->stride[2] > 1) return false;
    return runs_bf16(c, k, &product) || !(c->library_features & SG_CPU_AVX512) || is_steady(a);
}

static sg_status conv(sg_stream *s, const sg_conv_args *a, sg_conv_fn *plain)
{
    plan_key             k;
    const sg_linear_args product = matmul_of(a);
    const plan *const    p = conv_key(sg_cpu_of(s), &k, a) ? plan_for(sg_cpu_of(s), &k, &product) : NULL;
    return p ? plan_run(s, p, &product) : plain(s, a);
}

/* What the products of a are multiplied in. */
static sg_dtype type_of_conv(const sg_cpu *c, const sg_conv_args *a)
{
    plan_key             k;
    const sg_linear_args product = matmul_of(a);
    (void)conv_key(c, &k, a);
    return runs_bf16(c, &k, &product) ? SG_BF16 : SG_F32;
}

static sg_status conv_any_edge(sg_stream *s, const sg_conv_args *a, sg_conv_fn *plain)
{
    return sg_replicates(a) ? sg_conv_replicated(s, a, type_of_conv(sg_cpu_of(s), a), conv, plain) : conv(s, a, plain);
}

void sg_onednn_note_linear(const sg_cpu *c, const sg_linear_args *a)
{
    plan_key k;
    if (!(c->library_features & SG_CPU_AVX512) || !linear_key(&k, a)) return;
    complete(c, &k, a);
    (void)keep(c->library, &k);
}

static void note_conv(const sg_cpu *c, const sg_conv_args *a)
{
    plan_key             k;
    const sg_linear_args product = matmul_of(a);
    if (!conv_key(c, &k, a)) return;
    complete(c, &k, &product);
    (void)keep(c->library, &k);
}

void sg_onednn_note_conv(const sg_cpu *c, const sg_conv_args *a)
{
    const int64_t frames = sg_replicates(a) ? sg_replicated_frames(a) : a->y.dim[0];
    for (int64_t t = 0; t < a->y.dim[0]; t += frames) {
        const sg_conv_args p = sg_replicates(a) ? sg_replicated_piece(a, t, type_of_conv(c, a)) : *a;
        note_conv(c, &p);
    }
}

size_t sg_onednn_code_bytes(const sg_backend *b)
{
    const sg_cpu *const c = b->impl;
    make_all(c->library);
    return CODE_BYTES + c->library->code_bytes;
}

/* Does k's product read a tensor of w's shape and dtype? */
static bool reads(const plan_key *k, const sg_tensor *w)
{
    if (k->w != w->dtype || w->rank != (k->conv ? 5 : 2)) return false;
    if (!k->conv) return k->n[1] == w->dim[1] && k->n[2] == w->dim[0];
    return memcmp(&k->n[8], w->dim, 5 * sizeof w->dim[0]) == 0;
}

/* Layouts differ where products of one shape of weights differ in rows, say. Which of them w is for is not known then. */
void sg_onednn_pack(const sg_backend *b, const sg_tensor *w)
{
    sg_cpu *const          c = b->impl;
    const sg_onednn *const o = c->library;
    const plan            *only = NULL;
    sg_status              status;
    for (int i = 0; i < o->count; i++) {
        const plan *const p = o->kept[i];
        if (!p->made || !p->run || !reads(&p->key, w)) continue;
        if (only && only->form != p->form) return;
        only = p;
    }
    if (!only || c->pack_bytes + only->packed_bytes > c->pack_limit) return;
    (void)packed_for(c, only, w, &status); /* a failure comes back with the product */
}

sg_status sg_onednn_open(sg_cpu *c, unsigned features, bool native_bf16)
{
    unsigned used;
    sg_onednn_close(c);
    if (!(features & SG_CPU_AVX2) || !sg_onednn_hold(features, &used) || !(used & SG_CPU_AVX2)) return SG_E_UNSUPPORTED;
    sg_onednn *const o = calloc(1, sizeof *o);
    if (!o) return SG_E_MEMORY;
    c->library = o;
    *o = (sg_onednn){.plain = c->ops, .threads = c->threads};
    dnnl_status_t status = dnnl_engine_create(&o->engine, dnnl_cpu, 0);
    if (status == dnnl_success) status = dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags);
    if (status != dnnl_success) {
        sg_onednn_close(c);
        return status == dnnl_out_of_memory ? SG_E_MEMORY : SG_E_UNSUPPORTED;
    }
    c->library_features = used;
    c->native_bf16 = native_bf16 && used & SG_CPU_AVX512;
    if (used & SG_CPU_AVX512) c->ops.linear = linear;
    c->library_conv = conv_any_edge;
    return SG_OK;
}

void sg_onednn_close(sg_cpu *c)
{
    sg_onednn *const o = c->library;
    if (!o) return;
    c->ops.linear = o->plain.linear;
    c->library_conv = NULL;
    c->native_bf16 = false;
    for (int i = 0; i < o->count; i++) plan_free(o->kept[i]);
    if (o->stream) dnnl_stream_destroy(o->stream);
    if (o->engine) dnnl_engine_destroy(o->engine);
    free(o);
    c->library = NULL;
}
