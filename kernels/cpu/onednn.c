/* onednn.c - linear and conv by oneDNN 2.6, the only file that knows it.
 *
 * Operands. BF16 by BF16 runs as such where the machine multiplies BF16. Every other pair is computed in F32: weights
 * are widened when packed, x is widened for the call, so nothing is rounded on the way. (Where BF16 is only emulated it
 * is five times slower than F32: 54 to 250 GFLOP/s on two cores of a Xeon at 2.5 GHz with AVX-512.)
 *
 * Threads. The order in which 2.6's AVX-512 convolution sums depends on the number of threads for some shapes: of 4,900
 * random ones on 1 to 8 threads, for some with more than 128 channels in, and for some with even or one-sided kernels
 * whose pads are wider than half of them. Those go to the product without library, which is as fast from 384 channels
 * on (100 to 105 GFLOP/s a thread). BF16 by BF16 convolutions stay here all the same: the other product is F32 and an
 * order slower there.
 *
 * Primitives are kept by shape. oneDNN chooses the layout of the weights; that layout is part of a packed weight's key.
 * A few rows, and what oneDNN does not do, go to the product that was in the table before. */
#include "cpu.h"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

enum { SG_KEPT = 256, SG_FEW_ROWS = 4 };

typedef enum plan_arg { ARG_X, ARG_W, ARG_B, ARG_Y, ARG_SCRATCH, ARGS } plan_arg;

typedef struct plan_key {
    int64_t  n[20]; /* shapes, strides, pads; unused places 0 */
    sg_act   act;
    sg_dtype x, w, y;
    bool     conv, bias;
} plan_key;

typedef struct plan {
    plan_key           key;
    dnnl_primitive_t   run;
    dnnl_memory_desc_t w, plain; /* weights as the primitive wants them and as the model has them */
    dnnl_memory_t      memory[ARGS];
    uint64_t           form;
    size_t             packed_bytes, scratch_bytes;
} plan;

typedef struct sg_onednn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool          native_bf16;
    sg_ops        plain; /* the table without oneDNN */
    plan         *kept[SG_KEPT];
    int           count, next;
} sg_onednn;

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != dnnl_success) return false;                                                                      \
    } while (0)

static dnnl_data_type_t type_of(sg_dtype t) { return t == SG_BF16 ? dnnl_bf16 : dnnl_f32; }

static void plan_free(plan *p)
{
    if (!p) return;
    for (int i = 0; i < ARGS; i++)
        if (p->memory[i]) dnnl_memory_destroy(p->memory[i]);
    if (p->run) dnnl_primitive_destroy(p->run);
    free(p);
}

static uint64_t form_of(const dnnl_memory_desc_t *d)
{
    const dnnl_blocking_desc_t *const b = &d->format_desc.blocking;
    uint64_t                          h = 0xcbf29ce484222325u;
#define MIX(v) h = (h ^ (uint64_t)(v)) * 0x100000001b3u
    MIX(d->data_type);
    MIX(b->inner_nblks);
    for (int i = 0; i < d->ndims; i++) {
        MIX(d->padded_dims[i]);
        MIX(b->strides[i]);
    }
    for (int i = 0; i < b->inner_nblks; i++) {
        MIX(b->inner_blks[i]);
        MIX(b->inner_idxs[i]);
    }
#undef MIX
    return h;
}

/* The activations whose result at NaN and error are those of ours; the others run after the product. */
static bool fuses(sg_act act) { return act == SG_ACT_GELU_TANH || act == SG_ACT_SILU; }

static bool attributes(sg_act act, dnnl_primitive_attr_t *attr)
{
    dnnl_post_ops_t ops = NULL;
    TRY(dnnl_primitive_attr_create(attr));
    TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr, dnnl_scratchpad_mode_user));
    if (!fuses(act)) return true;
    TRY(dnnl_post_ops_create(&ops));
    const dnnl_alg_kind_t kind = act == SG_ACT_SILU ? dnnl_eltwise_swish : dnnl_eltwise_gelu_tanh;
    const bool            ok = dnnl_post_ops_append_eltwise(ops, 1.0f, kind, 1.0f, 0.0f) == dnnl_success &&
                    dnnl_primitive_attr_set_post_ops(*attr, ops) == dnnl_success;
    dnnl_post_ops_destroy(ops);
    return ok;
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
                  [ARG_SCRATCH] = {dnnl_query_scratchpad_md, 0}};
    for (int i = 0; i < ARGS; i++) {
        if (i == ARG_B && !p->key.bias) continue;
        const dnnl_memory_desc_t *const md = dnnl_primitive_desc_query_md(d, of[i].what, of[i].index);
        if (!md) return false;
        if (i == ARG_W) {
            p->w = *md;
            p->form = form_of(md);
            p->packed_bytes = dnnl_memory_desc_get_size(md);
        }
        if (i == ARG_SCRATCH) p->scratch_bytes = dnnl_memory_desc_get_size(md);
        TRY(dnnl_memory_create(&p->memory[i], md, o->engine, DNNL_MEMORY_NONE));
    }
    return dnnl_primitive_create(&p->run, d) == dnnl_success;
}

static bool describe_linear(const plan_key *k, plan *p, dnnl_matmul_desc_t *d)
{
    const int64_t      n = k->n[0], i = k->n[1], out = k->n[2];
    const dnnl_dims_t  xs = {n, i}, ws = {i, out}, ys = {n, out}, bs = {1, out};
    dnnl_memory_desc_t x, w, y, b = {0};
    TRY(dnnl_memory_desc_init_by_tag(&x, 2, xs, type_of(k->x), dnnl_ab));
    TRY(dnnl_memory_desc_init_by_tag(&w, 2, ws, type_of(k->x), dnnl_format_tag_any));
    TRY(dnnl_memory_desc_init_by_tag(&p->plain, 2, ws, type_of(k->w), dnnl_ba));
    TRY(dnnl_memory_desc_init_by_tag(&y, 2, ys, type_of(k->y), dnnl_ab));
    if (k->bias) TRY(dnnl_memory_desc_init_by_tag(&b, 2, bs, dnnl_f32, dnnl_ab));
    return dnnl_matmul_desc_init(d, &x, &w, k->bias ? &b : NULL, &y) == dnnl_success;
}

static bool describe_conv(const plan_key *k, plan *p, dnnl_convolution_desc_t *d)
{
    const int64_t *const n = k->n; /* x[4] y[4] w[5] stride[3] pad[4] */
    const dnnl_dims_t    xs = {1, n[3], n[0], n[1], n[2]}, ys = {1, n[7], n[4], n[5], n[6]};
    const dnnl_dims_t    ws = {n[8], n[9], n[10], n[11], n[12]}, bs = {n[8]}, stride = {n[13], n[14], n[15]};
    /* What lies beyond the last window is not padding but unused, and may be negative to oneDNN. */
    dnnl_dims_t       after = {0};
    const dnnl_dims_t before = {0, n[16], n[18]};
    for (int i = 0; i < 3; i++) after[i] = (n[4 + i] - 1) * n[13 + i] + n[10 + i] - n[i] - before[i];
    dnnl_memory_desc_t x, w, y, b = {0};
    TRY(dnnl_memory_desc_init_by_tag(&x, 5, xs, type_of(k->x), dnnl_ndhwc));
    TRY(dnnl_memory_desc_init_by_tag(&w, 5, ws, type_of(k->x), dnnl_format_tag_any));
    TRY(dnnl_memory_desc_init_by_tag(&p->plain, 5, ws, type_of(k->w), dnnl_oidhw));
    TRY(dnnl_memory_desc_init_by_tag(&y, 5, ys, type_of(k->y), dnnl_ndhwc));
    if (k->bias) TRY(dnnl_memory_desc_init_by_tag(&b, 1, bs, dnnl_f32, dnnl_a));
    return dnnl_convolution_forward_desc_init(d, dnnl_forward_inference, dnnl_convolution_direct, &x, &w,
                                              k->bias ? &b : NULL, &y, stride, before, after) == dnnl_success;
}

static bool plan_make(const sg_onednn *o, plan *p)
{
    union {
        dnnl_matmul_desc_t      linear;
        dnnl_convolution_desc_t conv;
    } d;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t desc = NULL;
    bool ok = p->key.conv ? describe_conv(&p->key, p, &d.conv) : describe_linear(&p->key, p, &d.linear);
    ok = ok && attributes(p->key.act, &attr) &&
         dnnl_primitive_desc_create(&desc, &d, attr, o->engine, NULL) == dnnl_success && plan_finish(o, p, desc);
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return ok;
}

/* The plan of a key, made when first needed, in the place of the oldest when there are too many. NULL: oneDNN cannot.
 */
static plan *plan_of(sg_onednn *o, const plan_key *key)
{
    for (int i = 0; i < o->count; i++)
        if (memcmp(&o->kept[i]->key, key, sizeof *key) == 0) return o->kept[i];
    plan *const p = calloc(1, sizeof *p);
    if (!p) return NULL;
    memcpy(&p->key, key, sizeof *key);
    if (!plan_make(o, p)) {
        plan_free(p);
        return NULL;
    }
    const int at = o->count < SG_KEPT ? o->count++ : o->next++ % SG_KEPT;
    plan_free(o->kept[at]);
    return o->kept[at] = p;
}

/* from, as the model has it, to p's layout. */
static bool pack(const sg_onednn *o, const plan *p, const void *from, void *to)
{
    dnnl_primitive_desc_t d = NULL;
    dnnl_primitive_t      run = NULL;
    dnnl_memory_t         a = NULL, b = NULL;
    bool                  ok = dnnl_memory_create(&a, &p->plain, o->engine, (void *)(uintptr_t)from) == dnnl_success &&
              dnnl_memory_create(&b, &p->w, o->engine, to) == dnnl_success &&
              dnnl_reorder_primitive_desc_create(&d, &p->plain, o->engine, &p->w, o->engine, NULL) == dnnl_success &&
              dnnl_primitive_create(&run, d) == dnnl_success;
    const dnnl_exec_arg_t arg[] = {{DNNL_ARG_FROM, a}, {DNNL_ARG_TO, b}};
    ok = ok && dnnl_primitive_execute(run, o->stream, 2, arg) == dnnl_success;
    if (run) dnnl_primitive_destroy(run);
    if (d) dnnl_primitive_desc_destroy(d);
    if (a) dnnl_memory_destroy(a);
    if (b) dnnl_memory_destroy(b);
    return ok;
}

/* t itself when it has the dtype that the plan wants, else a tensor of that dtype in scratch. */
static sg_tensor staged(sg_cpu *c, sg_tensor t, sg_dtype want, sg_cpu_slot slot)
{
    if (t.dtype == want) return t;
    t.dtype = want;
    t.data = sg_cpu_scratch(c, slot, sg_bytes(t));
    return t;
}

static sg_status plan_run(sg_stream *s, plan *p, sg_tensor y, sg_tensor x, sg_tensor w, sg_tensor b, sg_act act)
{
    sg_cpu *const    c = sg_cpu_of(s);
    sg_onednn *const o = c->library;
    const sg_tensor  xs = staged(c, x, p->key.x, SG_SLOT_X), ys = staged(c, y, p->key.y, SG_SLOT_Y);
    bool             fresh;
    void *const      scratch = sg_cpu_scratch(c, SG_SLOT_LIBRARY, p->scratch_bytes);
    void *const      packed = sg_pack_find(c, &w, p->form, p->packed_bytes, &fresh);
    if (!xs.data || !ys.data || !scratch || !packed) return SG_E_MEMORY;
    if (fresh && !pack(o, p, w.data, packed)) return SG_E_DEVICE;
    if (xs.data != x.data) SG_TRY(o->plain.copy(s, &(sg_copy_args){.y = xs, .x = x}));
    void *const      data[ARGS] = {xs.data, packed, b.data, ys.data, scratch};
    static const int name[ARGS] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST, DNNL_ARG_SCRATCHPAD};
    dnnl_exec_arg_t  arg[ARGS];
    int              args = 0;
    for (int i = 0; i < ARGS; i++) {
        if (!p->memory[i]) continue;
        if (dnnl_memory_set_data_handle(p->memory[i], data[i]) != dnnl_success) return SG_E_DEVICE;
        arg[args++] = (dnnl_exec_arg_t){name[i], p->memory[i]};
    }
    if (dnnl_primitive_execute(p->run, o->stream, args, arg) != dnnl_success) return SG_E_DEVICE;
    if (act != p->key.act) return o->plain.act(s, &(sg_act_args){.y = y, .x = ys, .act = act});
    return ys.data == y.data ? SG_OK : o->plain.copy(s, &(sg_copy_args){.y = y, .x = ys});
}

/* The dtypes that a product runs in; see the top of the file. */
static void choose_types(const sg_onednn *o, plan_key *k, sg_dtype x, sg_dtype w, sg_dtype y)
{
    const bool bf16 = o->native_bf16 && x == SG_BF16 && w == SG_BF16;
    k->w = w;
    k->x = bf16 ? SG_BF16 : SG_F32;
    k->y = bf16 ? y : SG_F32;
}

static sg_status linear(sg_stream *s, const sg_linear_args *a)
{
    sg_onednn *const o = sg_cpu_of(s)->library;
    if (a->add || a->x.dim[0] <= SG_FEW_ROWS || a->x.dim[1] == 0) return o->plain.linear(s, a);
    plan_key k;
    memset(&k, 0, sizeof k); /* keys are compared as bytes */
    k.n[0] = a->x.dim[0];
    k.n[1] = a->x.dim[1];
    k.n[2] = a->w.dim[0];
    k.act = fuses(a->act) ? a->act : SG_ACT_NONE;
    k.bias = a->b.rank > 0;
    choose_types(o, &k, a->x.dtype, a->w.dtype, a->y.dtype);
    omp_set_num_threads(sg_cpu_of(s)->threads);
    plan *const p = plan_of(o, &k);
    return p ? plan_run(s, p, a->y, a->x, a->w, a->b, a->act) : o->plain.linear(s, a);
}

/* Does the F32 result not depend on the number of threads? */
static bool is_steady(const sg_conv_args *a)
{
    const int64_t kx = a->w.dim[4];
    return a->w.dim[1] <= 128 && kx % 2 == 1 && a->pad[2] <= kx / 2 && a->pad[3] <= kx / 2;
}

static sg_status conv(sg_stream *s, const sg_conv_args *a)
{
    sg_onednn *const o = sg_cpu_of(s)->library;
    if (a->add) return o->plain.conv(s, a);
    const bool       bf16 = o->native_bf16 && a->x.dtype == SG_BF16 && a->w.dtype == SG_BF16;
    if (!bf16 && dnnl_get_effective_cpu_isa() >= dnnl_cpu_isa_avx512_core && !is_steady(a)) return o->plain.conv(s, a);
    plan_key k;
    memset(&k, 0, sizeof k);
    for (int i = 0; i < 4; i++) {
        k.n[i] = a->x.dim[i];
        k.n[4 + i] = a->y.dim[i];
        k.n[16 + i] = a->pad[i];
    }
    for (int i = 0; i < 5; i++) k.n[8 + i] = a->w.dim[i];
    for (int i = 0; i < 3; i++) k.n[13 + i] = a->stride[i];
    k.conv = true;
    k.bias = a->b.rank > 0;
    choose_types(o, &k, a->x.dtype, a->w.dtype, a->y.dtype);
    omp_set_num_threads(sg_cpu_of(s)->threads);
    plan *const p = plan_of(o, &k);
    return p ? plan_run(s, p, a->y, a->x, a->w, a->b, SG_ACT_NONE) : o->plain.conv(s, a);
}

bool sg_onednn_open(sg_cpu *c, sg_cpu_level level, bool native_bf16)
{
    static const dnnl_cpu_isa_t most[SG_CPU_LEVELS] = {dnnl_cpu_isa_sse41, dnnl_cpu_isa_avx2,
                                                       dnnl_cpu_isa_avx512_core_vnni, dnnl_cpu_isa_avx512_core_bf16,
                                                       dnnl_cpu_isa_all};
    if (level < sg_cpu_machine_level() && dnnl_set_max_cpu_isa(most[level]) != dnnl_success &&
        dnnl_get_effective_cpu_isa() != most[level])
        return false;
    sg_onednn *const o = calloc(1, sizeof *o);
    if (!o) return false;
    c->library = o;
    o->plain = c->ops;
    if (dnnl_engine_create(&o->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) != dnnl_success) {
        sg_onednn_close(c);
        return false;
    }
    o->native_bf16 = native_bf16;
    c->ops.linear = linear;
    c->ops.conv = conv;
    return true;
}

void sg_onednn_close(sg_cpu *c)
{
    sg_onednn *const o = c->library;
    if (!o) return;
    c->ops.linear = o->plain.linear;
    c->ops.conv = o->plain.conv;
    for (int i = 0; i < o->count; i++) plan_free(o->kept[i]);
    if (o->stream) dnnl_stream_destroy(o->stream);
    if (o->engine) dnnl_engine_destroy(o->engine);
    free(o);
    c->library = NULL;
}
