/* attention.c - see attention.h. Turns bare pointers into tensors and options into a policy, and calls run.h. */
#include "attention.h"
#include "backend.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/thread.h"
#include "meta.h"
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Without padding. */
typedef struct bound_to {
    int64_t shape[16];
    int     policy[13];
    float   threshold[3];
} bound_to;

/* What the last call was bound to serves the next one, if that differs in its pointers alone: then nothing is uploaded. */
typedef struct binding {
    bound_to      to;
    sg_attention *attention; /* NULL: none */
    sg_tensor     row;       /* row i of the ordered tensors is token row[i]; rank 0: token i */
    sg_arena      keep, scratch;
} binding;

/* The order of the last call that had one, which takes longer to make than attention takes, for calls of any policy. */
typedef struct kept_order {
    sg_order order;
    int64_t  shape[5]; /* grid, text_prefix, n */
    int32_t *row;      /* [n], on the host; NULL: none */
} kept_order;

struct sg_attention_context {
    sg_backend *backend;
    void       *block; /* the keep arena of a call, then its scratch */
    size_t      bytes;
    binding     bound;
    kept_order  ordered;
};

/* One of the four tensors. */
typedef struct side {
    char               *data;
    sg_attention_stride stride; /* elements */
    int64_t             tokens, heads;
    bool                placed; /* a tensor as it lies */
} side;

enum { O, Q, K, V, SIDES };

typedef struct call {
    const sg_attention_call_args *args;
    sg_attention_context         *context;
    int64_t                       batch, h, hk, d, n, m;
    sg_dtype                      given, dtype; /* of the caller's tensors, and of ours */
    side                          side[SIDES];
    sg_policy                     policy;
    sg_thresholds                 thresholds; /* of heads; no layers: none */
    sg_tensor                     mask;
    bool                          ordered;
} call;

/* ---- the context ---- */

static bool all_zero(const int64_t *v, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (v[i]) return false;
    return true;
}

static sg_status error_of(const sg_stream *s, sg_error *e)
{
    return s->status ? sg_error_set(e, s->status, "%s", s->why) : SG_OK;
}

/* Opening has made its device the calling thread's. */
static sg_status leave_device(const sg_backend *b, sg_error *e)
{
    sg_stream s = sg_stream_of(b);
    return s.memory->leave && s.memory->leave(&s, NULL) ? error_of(&s, e) : SG_OK;
}

sg_status sg_attention_context_open(sg_attention_context **out, const sg_attention_options *o, sg_error *e)
{
    const sg_attention_options usual = {0};
    *out = NULL;
    if (!o) o = &usual;
    const sg_backend_options backend = {
        .name = o->backend ? o->backend : "cpu", .threads = o->threads, .cpu_mask = o->cpu_mask, .device = o->device};
    if (!all_zero(o->reserved, sizeof o->reserved / sizeof *o->reserved))
        return sg_error_set(e, SG_E_UNSUPPORTED, "reserved: an option that this version does not know is set");
    sg_attention_context *c = calloc(1, sizeof *c);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "no memory for a context");
    sg_status status = sg_backend_open(&c->backend, &backend, e);
    if (!status) status = leave_device(c->backend, e);
    if (status) sg_attention_context_close(&c);
    *out = c;
    return status;
}

static void unbind(binding *b)
{
    sg_attention_close(&b->attention);
    *b = (binding){.attention = NULL};
}

void sg_attention_context_close(sg_attention_context **c)
{
    if (!c || !*c) return;
    unbind(&(*c)->bound);
    free((*c)->ordered.row);
    if ((*c)->block) (*c)->backend->memory->release((*c)->backend, (*c)->block);
    sg_backend_close(&(*c)->backend);
    free(*c);
    *c = NULL;
}

const char *sg_attention_context_device(const sg_attention_context *c) { return c->backend->device; }

/* A block of at least `bytes` bytes. The device need not hold the last one beside it. */
static sg_status make_room(sg_attention_context *c, size_t bytes, sg_error *e)
{
    if (bytes <= c->bytes) return SG_OK;
    if (c->block) c->backend->memory->release(c->backend, c->block);
    c->block = bytes <= c->backend->total_bytes ? c->backend->memory->alloc(c->backend, bytes) : NULL;
    c->bytes = c->block ? bytes : 0;
    if (c->block) return SG_OK;
    return sg_error_set(e, SG_E_MEMORY, "this call needs %.2f GiB, of %.2f that are free", (double)bytes * 0x1p-30,
                        (double)c->backend->total_bytes * 0x1p-30);
}

/* ---- shapes ---- */

static sg_status check_count(const char *member, int64_t v, int64_t limit, sg_error *e)
{
    if (v >= 1 && v <= limit) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: %lld is not between 1 and %lld", member, (long long)v, (long long)limit);
}

/* Whether the distance in bytes from the first to the last element of x fits into an int64_t. */
static bool is_countable(const call *k, const side *x)
{
    const int64_t by[3] = {x->stride.batch, x->stride.head, x->stride.token};
    const int64_t last[3] = {k->batch - 1, x->heads - 1, x->tokens - 1};
    int64_t       sum = k->d, at;
    for (int i = 0; i < 3; i++) {
        if (by[i] == INT64_MIN || __builtin_mul_overflow(last[i], by[i] < 0 ? -by[i] : by[i], &at) ||
            __builtin_add_overflow(sum, at, &sum))
            return false;
    }
    return !__builtin_mul_overflow(sum, (int64_t)sizeof(float), &sum);
}

static sg_status set_side(call *k, int which, const void *data, const sg_attention_stride *stride, sg_error *e)
{
    static const char *const  name[SIDES] = {"o", "q", "k", "v"};
    side *const               x = &k->side[which];
    const bool                keys = which == K || which == V;
    const sg_attention_stride none = {0};
    x->data = (char *)data;
    x->tokens = keys ? k->m : k->n;
    x->heads = keys ? k->hk : k->h;
    x->stride = *stride;
    const sg_attention_stride dense = {x->tokens * x->heads * k->d, k->d, x->heads * k->d};
    if (memcmp(stride, &none, sizeof none) == 0) x->stride = dense;
    if (!data) return sg_error_set(e, SG_E_ARG, "%s: NULL", name[which]);
    if ((uintptr_t)data % sg_dtype_size(k->given))
        return sg_error_set(e, SG_E_ARG, "%s: its address is not a multiple of its element", name[which]);
    if (!is_countable(k, x)) return sg_error_set(e, SG_E_ARG, "%s: its strides go beyond all memory", name[which]);
    x->placed = k->given == k->dtype && (x->heads == 1 || x->stride.head == dense.head) &&
                (x->tokens == 1 || x->stride.token == dense.token) && !k->ordered;
    return SG_OK;
}

static sg_status set_shape(call *k, sg_error *e)
{
    enum { MAX_TOKENS = 1 << 24 };
    const sg_attention_call_args *const a = k->args;
    k->batch = a->batch ? a->batch : 1;
    k->h = a->heads;
    k->hk = a->kv_heads ? a->kv_heads : a->heads;
    k->d = a->head_dim;
    k->n = a->n;
    k->m = a->m ? a->m : a->n;
    SG_TRY(check_count("batch", k->batch, 1 << 16, e));
    SG_TRY(check_count("heads", k->h, 1 << 12, e));
    SG_TRY(check_count("kv_heads", k->hk, k->h, e));
    SG_TRY(check_count("head_dim", k->d, 1 << 12, e));
    SG_TRY(check_count("n", k->n, MAX_TOKENS, e));
    SG_TRY(check_count("m", k->m, MAX_TOKENS, e));
    if (k->h % k->hk)
        return sg_error_set(e, SG_E_ARG, "kv_heads: %lld does not divide %lld heads", (long long)k->hk,
                            (long long)k->h);
    if (k->n != k->m && (a->grid[0] || a->text_prefix || a->text_suffix))
        return sg_error_set(e, SG_E_ARG, "m: %lld keys for %lld queries are not in a grid or text", (long long)k->m,
                            (long long)k->n);
    if (a->causal && k->m < k->n)
        return sg_error_set(e, SG_E_ARG,
                            "m: causal queries are the last of the tokens, but %lld are more than %lld keys",
                            (long long)k->n, (long long)k->m);
    if (a->text_prefix < 0 || a->text_suffix < 0 || a->text_prefix > k->n || a->text_suffix > k->n - a->text_prefix)
        return sg_error_set(e, SG_E_ARG, "text_prefix, text_suffix: %lld and %lld are not tokens of %lld",
                            (long long)a->text_prefix, (long long)a->text_suffix, (long long)k->n);
    return SG_OK;
}

/* ---- the policy ---- */

/* The position of value in names; `usual` for NULL. A failure is latched in *status. */
static int choose(sg_status *status, const char *member, const char *value, const char *const *names, int usual,
                  sg_error *e)
{
    char      list[160] = "";
    const int found = value ? sg_text_place(value, names) : usual;
    if (names[found] || *status) return found;
    for (int i = 0; names[i]; i++) sg_text_append(list, sizeof list, "%s%s", i ? ", " : "", names[i]);
    *status = sg_error_set(e, SG_E_ARG, "%s: '%.40s' is not one of %s", member, value, list);
    return usual;
}

/* No op takes F16. */
static sg_status set_dtype(call *k, sg_error *e)
{
    static const char *const names[] = {"f32", "bf16", "f16", NULL};
    static const sg_dtype    dtypes[] = {SG_F32, SG_BF16, SG_F16};
    sg_status                status = SG_OK;
    k->given = dtypes[choose(&status, "dtype", k->args->dtype, names, 0, e)];
    k->dtype = k->given == SG_F16 ? SG_F32 : k->given;
    return status;
}

static sg_status choose_all(call *k, sg_error *e)
{
    static const char *const            switches[] = {"off", "on", NULL};
    const sg_attention_call_args *const a = k->args;
    sg_policy *const                    p = &k->policy;
    sg_status                           s = SG_OK;
    p->kind = choose(&s, "kind", a->kind, sg_attention_names, p->kind, e);
    p->score = choose(&s, "score", a->score, sg_score_names, p->score, e);
    p->tail = choose(&s, "tail", a->tail, switches, p->tail, e);
    p->tail_bias = choose(&s, "tail_bias", a->tail_bias, sg_tail_bias_names, p->tail_bias, e);
    p->budget = choose(&s, "budget", a->budget, sg_budget_names, p->budget, e);
    p->pv_dtype = choose(&s, "pv_dtype", a->pv_dtype, sg_pv_dtype_names, p->pv_dtype, e);
    p->order = choose(&s, "order", a->order, sg_order_names, p->order, e);
    return s;
}

static sg_status set_rule(call *k, sg_error *e)
{
    const sg_attention_call_args *const a = k->args;
    sg_policy *const                    p = &k->policy;
    const bool                          mass = a->tau != 0 || a->tau_of;
    if ((a->topk != 0 || a->topk_of) + mass + (a->mask != NULL) > 1)
        return sg_error_set(e, SG_E_ARG, "topk, tau, mask: blocks are chosen by one of them");
    if (a->topk != 0) p->amount = (float)a->topk;
    if (mass || a->mask) {
        p->rule = mass ? SG_SELECT_MASS : SG_SELECT_GIVEN;
        p->budget = SG_BUDGET_ROW;
    }
    if (a->tau != 0) p->amount = (float)a->tau;
    if (!a->mask) return SG_OK;
    if (a->mask_heads != 1 && a->mask_heads != k->h)
        return sg_error_set(e, SG_E_ARG, "mask_heads: %lld is neither 1 nor all %lld", (long long)a->mask_heads,
                            (long long)k->h);
    p->tail = false;
    k->mask = (sg_tensor){
        (void *)(uintptr_t)a->mask,
        SG_U8,
        3,
        {a->mask_heads, (k->n + SG_BLOCK_Q - 1) / SG_BLOCK_Q, (k->m + SG_BLOCK_K - 1) / SG_BLOCK_K},
    };
    return SG_OK;
}

/* Turns thresholds per head into those of a model with one layer. Where one is not given per head, the policy's is
 * used. */
static sg_status set_thresholds(call *k, sg_error *e)
{
    const sg_attention_call_args *const a = k->args;
    sg_policy *const                    p = &k->policy;
    if (!a->topk_of && !a->tau_of && !a->similarity_of && !a->pv_of) return SG_OK;
    if (a->mask) return sg_error_set(e, SG_E_ARG, "mask: thresholds of heads have no say beside it");
    if (!sg_thresholds_of_policy(&k->thresholds, p, (int)k->h))
        return sg_error_set(e, SG_E_MEMORY, "no memory for thresholds");
    const float *const amount = a->topk_of ? a->topk_of : a->tau_of;
    const size_t       bytes = (size_t)k->h * sizeof *amount;
    if (amount) memcpy(k->thresholds.amount, amount, bytes);
    if (a->similarity_of) memcpy(k->thresholds.theta, a->similarity_of, bytes);
    if (a->pv_of) memcpy(k->thresholds.pv_threshold, a->pv_of, bytes);
    return SG_OK;
}

static sg_status set_policy(call *k, sg_error *e)
{
    static const char *const            presets[] = {"usual", "paper", NULL};
    const sg_attention_call_args *const a = k->args;
    sg_policy *const                    p = &k->policy;
    sg_status                           status = SG_OK;
    *p = choose(&status, "preset", a->preset, presets, 0, e) ? sg_policy_paper() : sg_policy_default();
    SG_TRY(status);
    p->named = true;
    p->dense_steps = 0;
    p->sink = a->sink;
    if (a->similarity != 0) p->similarity = (float)a->similarity;
    if (a->pv != 0) p->pv = (float)a->pv;
    SG_TRY(set_rule(k, e));
    SG_TRY(choose_all(k, e));
    SG_TRY(set_thresholds(k, e));
    return sg_policy_check(p, e);
}

/* ---- order ---- */

static sg_status set_order(call *k, sg_error *e)
{
    const int64_t *const g = k->args->grid;
    const int64_t        count = k->n - k->args->text_prefix - k->args->text_suffix;
    int64_t              cells;
    if (all_zero(g, 3)) {
        if (!k->args->order) return SG_OK;
        return sg_error_set(e, SG_E_ARG, "order: '%s' needs a grid", k->args->order);
    }
    if (g[0] < 1 || g[1] < 1 || g[2] < 1 || __builtin_mul_overflow(g[0], g[1], &cells) ||
        __builtin_mul_overflow(cells, g[2], &cells) || cells != count)
        return sg_error_set(e, SG_E_ARG, "grid: %lld x %lld x %lld is not the %lld tokens that are not text",
                            (long long)g[0], (long long)g[1], (long long)g[2], (long long)count);
    k->ordered = k->policy.order != SG_ORDER_ROW;
    return SG_OK;
}

/* The table of binding.row, on the host, which the context keeps; NULL: no memory. */
static const int32_t *order_of(const call *k)
{
    const int64_t *const g = k->args->grid, prefix = k->args->text_prefix;
    kept_order *const    o = &k->context->ordered, asked = {k->policy.order, {g[0], g[1], g[2], prefix, k->n}, NULL};
    if (o->row && o->order == asked.order && memcmp(o->shape, asked.shape, sizeof o->shape) == 0) return o->row;
    free(o->row);
    *o = asked;
    int32_t *const row = malloc((size_t)k->n * sizeof *row);
    if (!row || sg_order_make(row + prefix, k->policy.order, g[0], g[1], g[2])) {
        free(row);
        return NULL;
    }
    for (int64_t i = 0; i < k->n; i++)
        row[i] = i < prefix || i >= k->n - k->args->text_suffix ? (int32_t)i : (int32_t)prefix + row[i];
    return o->row = row;
}

/* ---- tensors ---- */

/* Copies between x, element b of the batch, and the rows of t. */
static void move(const call *k, sg_stream *s, const side *x, int64_t b, sg_tensor t, bool to_program)
{
    const int64_t   last[2] = {(x->tokens - 1) * x->stride.token, (x->heads - 1) * x->stride.head};
    const int64_t   low = (last[0] < 0 ? last[0] : 0) + (last[1] < 0 ? last[1] : 0);
    const int64_t   count = last[0] + last[1] - 2 * low + k->d;
    const sg_tensor given = {
        x->data + (b * x->stride.batch + low) * (int64_t)sg_dtype_size(k->given), k->given, 1, {count}};
    sg_strided_copy(s, .y = to_program ? given : t, .x = to_program ? t : given, .row = k->context->bound.row,
                    .first = -low, .token = x->stride.token, .head = x->stride.head, .scatter = to_program);
}

/* x, element b of the batch, as a tensor: in place or in scratch. */
static sg_tensor tensor_of(const call *k, sg_stream *s, const side *x, int64_t b)
{
    if (!x->placed) return sg_new(s, k->dtype, x->tokens, x->heads, k->d);
    return (sg_tensor){
        x->data + b * x->stride.batch * (int64_t)sg_dtype_size(k->dtype), k->dtype, 3, {x->tokens, x->heads, k->d}};
}

static void attend(const call *k, sg_stream *s, int64_t b)
{
    const size_t mark = s->scratch.used;
    sg_tensor    t[SIDES];
    for (int i = 0; i < SIDES; i++) {
        const side *const x = &k->side[i];
        t[i] = tensor_of(k, s, x, b);
        if (i != O && !x->placed) move(k, s, x, b, t[i], false);
    }
    const double         given = k->args->scale;
    const sg_attend_args args = {
        .y = t[O], .q = t[Q], .k = t[K], .v = t[V], .scale = given != 0 ? (float)given : 1 / sqrtf((float)k->d)};
    sg_attention_run(k->context->bound.attention, s, 0, 0, (int)b, 0, &args);
    if (!k->side[O].placed) move(k, s, &k->side[O], b, t[O], true);
    s->scratch.used = mark;
}

/* ---- the binding ---- */

/* Thresholds by head and a mask are the program's memory, which may have changed. */
static bool borrows(const call *k) { return k->thresholds.layers || k->mask.rank; }

/* All that a binding follows from, but what it borrows. */
static bound_to describe(const call *k)
{
    const sg_policy *const              p = &k->policy;
    const sg_attention_call_args *const a = k->args;
    const side *const                   x = k->side;
    return (bound_to){
        .shape = {k->batch, k->h, k->hk, k->d, k->n, k->m, a->text_prefix, a->text_suffix, a->grid[0], a->grid[1],
                  a->grid[2], k->given, x[O].placed, x[Q].placed, x[K].placed, x[V].placed},
        .policy = {p->kind, p->rule, p->sink, a->causal != 0, p->budget, p->score, p->tail, p->tail_bias, p->pv_dtype,
                   p->order, borrows(k), a->scale < 0},
        .threshold = {p->amount, p->similarity, p->pv},
    };
}

/* Values as F8. The kernels that are fast with them, and alone have their blocks, take no negative scale. */
static sg_f8 f8_of(const call *k)
{
    const sg_f8 f8 = k->context->backend->f8;
    return f8 == SG_F8_FAST && k->args->scale < 0 ? SG_F8_SLOW : f8;
}

static sg_status open_attention(const call *k, sg_error *e)
{
    const sg_attention_call_args *const a = k->args;
    const sg_backend *const             backend = k->context->backend;
    binding *const                      b = &k->context->bound;
    const sg_attention_shape            shape = {.n = k->n,
                                                 .h = k->h,
                                                 .hk = k->hk,
                                                 .m = k->m,
                                                 .d = k->d,
                                                 .text_prefix = a->text_prefix,
                                                 .text_suffix = a->text_suffix,
                                                 .layers = 1,
                                                 .steps = 1,
                                                 .passes = (int)k->batch,
                                                 .values = backend->values,
                                                 .f8 = f8_of(k),
                                                 .causal = a->causal != 0,
                                                 .tuned = k->thresholds.layers ? &k->thresholds : NULL,
                                                 .mask = k->mask};
    SG_TRY(sg_attention_open(&b->attention, &k->policy, &shape, e));
    if (!a->mask || sg_attention_kind_of(b->attention, 0, 0, NULL) == SG_ATTENTION_SPARGE) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "mask: it would have no say: %lld tokens of kind %s run dense", (long long)k->n,
                        sg_attention_names[k->policy.kind]);
}

/* Thresholds and order, into the keep arena. */
static void upload(const call *k, sg_stream *s, const int32_t *row)
{
    binding *const b = &k->context->bound;
    sg_attention_upload(b->attention, s);
    if (!k->ordered) return;
    b->row = sg_new_keep(s, SG_I32, k->n);
    sg_upload(s, b->row, row);
}

/* A stream with the memory that a dry run needs. */
static sg_status open_stream(const call *k, sg_stream *s, sg_error *e)
{
    binding *const b = &k->context->bound;
    sg_plan_totals totals = {0};
    sg_stream      plan = sg_plan_stream(&totals);
    upload(k, &plan, NULL);
    attend(k, &plan, 0);
    SG_TRY(error_of(&plan, e));
    const size_t keep = sg_aligned(plan.keep.peak);
    if (plan.scratch.peak > SIZE_MAX - keep) return sg_error_set(e, SG_E_MEMORY, "this call needs more than there is");
    SG_TRY(make_room(k->context, keep + plan.scratch.peak, e));
    b->keep = s->keep = (sg_arena){.base = (uintptr_t)k->context->block, .cap = keep};
    b->scratch = s->scratch = (sg_arena){.base = (uintptr_t)k->context->block + keep, .cap = plan.scratch.peak};
    return SG_OK;
}

/* Binds the call, unless it is bound as the last one was, and gives s its memory. */
static sg_status bind(const call *k, sg_stream *s, sg_error *e)
{
    binding *const b = &k->context->bound;
    const bound_to to = describe(k);
    s->keep = b->keep;
    s->scratch = b->scratch;
    if (b->attention && !borrows(k) && memcmp(&to, &b->to, sizeof to) == 0) return SG_OK;
    unbind(b);
    b->to = to;
    SG_TRY(open_attention(k, e));
    SG_TRY(open_stream(k, s, e));
    const int32_t *const row = k->ordered ? order_of(k) : NULL;
    if (k->ordered && !row) return sg_error_set(e, SG_E_MEMORY, "no memory for an order");
    upload(k, s, row);
    return error_of(s, e);
}

/* ---- the work ---- */

static void report_stages(sg_attention_report *r, const sg_trace *t)
{
    const struct {
        const char *op;
        double     *seconds;
    } stage[] = {{"strided_copy", &r->copy_seconds},    {"pool", &r->pool_seconds},
                 {"self_similarity", &r->pool_seconds}, {"quantise", &r->quantise_seconds},
                 {"score", &r->score_seconds},          {"select", &r->select_seconds},
                 {"tail_bias", &r->tail_seconds},       {"attend_blocks", &r->attend_seconds},
                 {"attend", &r->attend_seconds}};
    for (size_t i = 0; i < t->rows; i++)
        for (size_t j = 0; j < sizeof stage / sizeof *stage; j++)
            if (strcmp(t->row[i].op, stage[j].op) == 0) *stage[j].seconds += t->row[i].seconds;
}

static sg_status report_counts(const call *k, sg_attention_report *r, sg_stream *s, sg_error *e)
{
    static const char *const  why[] = {[SG_WHY_SHORT] = "the sequence is too short for skipping to pay",
                                       [SG_WHY_BACKEND] = "the backend knows no other"};
    sg_attention_count *const count = calloc((size_t)k->batch, sizeof *count);
    if (!count) return sg_error_set(e, SG_E_MEMORY, "no memory for a report");
    const sg_status status = sg_attention_counts(k->context->bound.attention, s, 0, count);
    double          blocks = 0, kept = 0, groups = 0, skipped = 0;
    for (int64_t b = 0; !status && b < k->batch; b++) {
        blocks += (double)count[b].blocks;
        kept += (double)count[b].kept;
        groups += (double)count[b].groups;
        skipped += (double)count[b].skipped;
        r->mass += count[b].mass / (double)k->batch;
        r->skipped_mass += count[b].skipped_mass / (double)k->batch;
    }
    r->density = blocks > 0 ? kept / blocks : 1;
    r->skipped = groups > 0 ? skipped / groups : 0;
    if (!status) {
        r->ran = sg_attention_names[count[0].kind];
        r->why = (size_t)count[0].why < sizeof why / sizeof *why ? why[count[0].why] : NULL;
    }
    free(count);
    return status ? sg_error_set(e, status, "the report cannot be read") : SG_OK;
}

/* Takes the device's time, which begins when what is queued before the call is over. */
static void trace_call(const call *k, sg_stream *s, sg_trace *t)
{
    char byte;
    t->synchronous = !k->context->backend->synchronous;
    if (t->synchronous) s->memory->download(s, &byte, k->side[Q].data, sizeof byte);
    sg_trace_wrap(s, t);
}

static sg_status run_bound(const call *k, sg_stream *s, sg_attention_report *r, sg_error *e)
{
    sg_trace trace = {0};
    if (r) trace_call(k, s, &trace);
    const double start = sg_seconds();
    for (int64_t b = 0; b < k->batch && !s->status; b++) attend(k, s, b);
    sg_status status = error_of(s, e);
    if (r && !status) {
        *r = (sg_attention_report){.seconds = sg_seconds() - start};
        report_stages(r, &trace);
        status = report_counts(k, r, s, e);
    }
    sg_trace_free(&trace);
    return status;
}

/* What failed leaves no binding: it may be half made, and the memory of another call. */
static sg_status run(const call *k, sg_attention_report *r, sg_error *e)
{
    sg_stream              s = sg_stream_of(k->context->backend);
    const sg_memory *const memory = s.memory;
    void *const            program = k->args->stream;
    sg_status              status = memory->join && memory->join(&s, program) ? error_of(&s, e) : SG_OK;
    if (!status) status = bind(k, &s, e);
    if (!status) status = run_bound(k, &s, r, e);
    if (memory->leave && memory->leave(&s, program) && !status) status = error_of(&s, e);
    if (status) unbind(&k->context->bound);
    return status;
}

static sg_status prepare(call *k, sg_error *e)
{
    const sg_attention_call_args *const a = k->args;
    if (!all_zero(a->reserved, sizeof a->reserved / sizeof *a->reserved))
        return sg_error_set(e, SG_E_UNSUPPORTED, "reserved: a member that this version does not know is set");
    if (a->stream && k->context->backend->synchronous)
        return sg_error_set(e, SG_E_ARG, "stream: %s has none; calls are finished when they return",
                            k->context->backend->name);
    if (!isfinite(a->scale)) return sg_error_set(e, SG_E_ARG, "scale: %g is no number", a->scale);
    SG_TRY(set_shape(k, e));
    SG_TRY(set_dtype(k, e));
    SG_TRY(set_policy(k, e));
    SG_TRY(set_order(k, e));
    SG_TRY(set_side(k, O, a->o, &a->o_stride, e));
    SG_TRY(set_side(k, Q, a->q, &a->q_stride, e));
    SG_TRY(set_side(k, K, a->k, &a->k_stride, e));
    return set_side(k, V, a->v, &a->v_stride, e);
}

sg_status sg_attention_call(sg_attention_context *c, const sg_attention_call_args *a, sg_attention_report *r,
                            sg_error *e)
{
    call k = {.args = a, .context = c};
    SG_TRY(sg_thread_check_fork(e));
    sg_status status = prepare(&k, e);
    if (!status) status = run(&k, r, e);
    sg_thresholds_release(&k.thresholds);
    return status;
}
