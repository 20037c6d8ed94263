/* test_attend_blocks.c - what attention over lists of blocks must do whatever computes it. */
#include "backend.h"
#include "block_lists.h"
#include "blocks_fixture.h"

#include <pthread.h>

/* Numbers that 8 bits hold, so that nothing but the formula is in question. */
typedef struct inputs {
    sg_tensor   q, k, v, q_scale, k_scale, v_scale, y, tail_k, tail_k_scale, tail_v;
    block_lists lists;
} inputs;

static inputs inputs_new(sg_stream *s, int64_t n, int64_t m)
{
    const int64_t nq = (n + 127) / 128, nk = (m + 63) / 64;
    inputs        x = {.q = DRAWN(s, SG_I8, 20, 1, H, n, D),
                       .k = DRAWN(s, SG_I8, 20, 1, HK, m, D),
                       .v = DRAWN(s, SG_I8, 128, 1, HK, m, D),
                       .tail_k = DRAWN(s, SG_I8, 20, 1, HK, nk, D),
                       .tail_v = DRAWN(s, SG_I8, 128, 1, HK, nk, D),
                       .y = sg_new(s, SG_F32, n, H, D),
                       .lists = block_lists_new(s, H, nq, nk)};
    x.q_scale = ALL_OF(s, 0.03f, (n + 31) / 32, H);
    x.k_scale = ALL_OF(s, 0.04f, (m + 15) / 16, HK);
    x.v_scale = ALL_OF(s, 0.05f, HK, D);
    x.tail_k_scale = ALL_OF(s, 0.04f, (nk + 63) / 64, HK);
    for (int64_t i = 0; i < x.q_scale.dim[0] * H; i++) sg_store(&x.q_scale, i, 0.01f * (float)(1 + draw(4)));
    for (int64_t i = 0; i < x.k_scale.dim[0] * HK; i++) sg_store(&x.k_scale, i, 0.01f * (float)(1 + draw(4)));
    return x;
}

static void keep_all(const inputs *x, int64_t nk, bool all)
{
    memset(x->lists.count.data, 0, sg_bytes(x->lists.count));
    for (int64_t row = 0; all && row < sg_count(x->lists.count); row++)
        for (int64_t j = 0; j < nk; j++) list_block(&x->lists, row, j);
}

#define ATTEND(s, x, ...)                                                                                              \
    sg_attend_blocks(s, .q = (x)->q, .q_scale = (x)->q_scale, .k = (x)->k, .k_scale = (x)->k_scale, .v = (x)->v,       \
                     .v_scale = (x)->v_scale, .q_group = 32, .k_group = 16, .scale = 0.7f, __VA_ARGS__)
#define LISTS(x) .list = (x)->lists.list, .count = (x)->lists.count
#define TAIL(x) .tail_k = (x)->tail_k, .tail_k_scale = (x)->tail_k_scale, .tail_v = (x)->tail_v

/* I8 [heads, n, d] with its scales as F32 [n, H, d]: each head of keys as often as it serves. */
static sg_tensor unpacked(sg_stream *s, sg_tensor x, sg_tensor scale, int group)
{
    const int64_t   heads = x.dim[0], n = x.dim[1];
    const sg_tensor y = sg_new(s, SG_F32, n, H, D);
    for (int64_t i = 0; i < sg_count(y); i++) {
        const int64_t e = i % D, g = i / D % H / (H / heads), t = i / D / H;
        sg_store(&y, i, at(x, (g * n + t) * D + e) * at(scale, group ? t / group * heads + g : g * D + e));
    }
    return y;
}

static void everything_kept_is_dense(void **state)
{
    for (int causal = 0; causal < 2; causal++) {
        sg_stream       s = ref_stream();
        const int64_t   m = causal ? N : M;
        const inputs    x = inputs_new(&s, N, m);
        const sg_tensor dense = sg_new(&s, SG_F32, N, H, D), all = sg_new(&s, SG_F32, N, H, D);
        const sg_tensor tail = sg_new(&s, SG_F32, N, H, D), bias = ALL_OF(&s, 0, H, N, m);
        for (int64_t i = 0; causal && i < sg_count(bias); i++)
            if (i % m > i / m % N) sg_store(&bias, i, -INFINITY);
        sg_attend(&s, .y = dense, .q = unpacked(&s, x.q, x.q_scale, 32), .k = unpacked(&s, x.k, x.k_scale, 16),
                  .v = unpacked(&s, x.v, x.v_scale, 0), .bias = bias, .scale = 0.7f);
        keep_all(&x, (m + 63) / 64, true);
        ATTEND(&s, &x, .y = x.y, .causal = causal);
        ATTEND(&s, &x, .y = all, .causal = causal, LISTS(&x));
        ATTEND(&s, &x, .y = tail, .causal = causal, LISTS(&x), TAIL(&x));
        assert_int_equal(s.status, SG_OK);
        assert_near(x.y, dense, 1e-5);
        assert_equal(x.y, all);
        assert_equal(x.y, tail);
    }
}

static void nothing_kept_is_nothing(void **state)
{
    sg_stream    s = ref_stream();
    const inputs x = inputs_new(&s, N, M);
    keep_all(&x, NK, false);
    ATTEND(&s, &x, .y = x.y, LISTS(&x), .v_center = ALL_OF(&s, 3, HK, D));
    assert_int_equal(s.status, SG_OK);
    for (int64_t i = 0; i < sg_count(x.y); i++) assert_true(at(x.y, i) == 0);
}

/* The tail alone is attention over the means of all full blocks; with causal, of those that end before the queries. */
static void tail_is_attention_over_means(void **state)
{
    for (int k = 0; k < 3; k++) {
        sg_stream       s = ref_stream();
        const bool      causal = k == 2;
        const int64_t   m = causal ? N : M, nk = (m + 63) / 64;
        const inputs    x = inputs_new(&s, N, m);
        const sg_tensor bias = ALL_OF(&s, 0, H, N, nk), direct = sg_new(&s, SG_F32, N, H, D);
        const sg_tensor tail_bias = DRAWN(&s, SG_F32, 9, 0.3f, H, NQ, nk);
        for (int64_t i = 0; i < sg_count(bias); i++) {
            const int64_t j = i % nk, r = i / nk % N, g = i / nk / N, block = r / SG_BLOCK_Q;
            const bool    seen = (j + 1) * 64 <= m && (!causal || (j + 1) * 64 <= block * SG_BLOCK_Q);
            sg_store(&bias, i, seen ? (k ? at(tail_bias, (g * NQ + block) * nk + j) : logf(64)) : -INFINITY);
        }
        sg_attend(&s, .y = direct, .q = unpacked(&s, x.q, x.q_scale, 32),
                  .k = unpacked(&s, x.tail_k, x.tail_k_scale, 64), .v = unpacked(&s, x.tail_v, x.v_scale, 0),
                  .bias = bias, .scale = 0.7f);
        keep_all(&x, nk, false);
        ATTEND(&s, &x, .y = x.y, .causal = causal, LISTS(&x), TAIL(&x), .tail_bias = k ? tail_bias : (sg_tensor){0});
        assert_int_equal(s.status, SG_OK);
        assert_near(x.y, direct, 1e-5);
    }
}

/* Blocks of keys in another order, with their scales and their numbers, are the same attention. */
static void order_of_blocks_does_not_matter(void **state)
{
    sg_stream       s = ref_stream();
    const inputs    x = inputs_new(&s, N, 512);
    inputs          o = x;
    const sg_tensor y = sg_new(&s, SG_F32, N, H, D);
    o.k = sg_new(&s, SG_I8, HK, 512, D);
    o.v = sg_new(&s, SG_I8, HK, 512, D);
    o.k_scale = sg_new(&s, SG_F32, 32, HK);
    o.lists = block_lists_new(&s, H, NQ, 8);
    for (int64_t row = 0; row < H * NQ; row++)
        for (int j = 0; j < 8; j++)
            if (draw(2)) {
                list_block(&x.lists, row, j);
                list_block(&o.lists, row, (j * 3 + 5) % 8);
            }
    for (int j = 0; j < 8; j++) {
        const int to = (j * 3 + 5) % 8;
        for (int g = 0; g < HK; g++) {
            memcpy((char *)o.k.data + (g * 512 + to * 64) * D, (char *)x.k.data + (g * 512 + j * 64) * D, 64 * D);
            memcpy((char *)o.v.data + (g * 512 + to * 64) * D, (char *)x.v.data + (g * 512 + j * 64) * D, 64 * D);
        }
        memcpy(sg_rows(o.k_scale, to * 4, 4).data, sg_rows(x.k_scale, j * 4, 4).data, 4 * HK * sizeof(float));
    }
    ATTEND(&s, &x, .y = x.y, LISTS(&x));
    ATTEND(&s, &o, .y = y, LISTS(&o));
    assert_int_equal(s.status, SG_OK);
    assert_near(x.y, y, 1e-5);
}

/* A block whose keys are nothing falls behind and is left out, by all groups but where it is the first. */
static void filter_leaves_out_what_is_far_below(void **state)
{
    sg_stream       s = ref_stream();
    const inputs    x = inputs_new(&s, N, M);
    const sg_tensor pv_threshold = ALL_OF(&s, INFINITY, H), skips = sg_new(&s, SG_F32, H, 2);
    const sg_tensor all = sg_new(&s, SG_F32, N, H, D), cut = sg_new(&s, SG_F32, N, H, D);
    for (int64_t i = 0; i < sg_count(x.q); i++) ((int8_t *)x.q.data)[i] = 100;
    for (int64_t i = 0; i < sg_count(x.k); i++) ((int8_t *)x.k.data)[i] = (int8_t)(i / D % M / 64 == 5 ? -100 : 10);
    for (int64_t i = 0; i < sg_count(x.q_scale); i++) sg_store(&x.q_scale, i, 0.02f);
    for (int64_t i = 0; i < sg_count(x.k_scale); i++) sg_store(&x.k_scale, i, 0.02f);
    keep_all(&x, NK, true);
    ATTEND(&s, &x, .y = all);
    ATTEND(&s, &x, .y = x.y, .pv_threshold = pv_threshold, .pv_group = 32, .skips = skips);
    assert_equal(x.y, all);
    assert_true(at(skips, 0) == 0 && at(skips, 1) == 0);
    for (int i = 0; i < H; i++) sg_store(&pv_threshold, i, 5);
    ATTEND(&s, &x, .y = x.y, .pv_threshold = pv_threshold, .pv_group = 32, .skips = skips);
    memset(x.lists.count.data, 0, sg_bytes(x.lists.count));
    for (int64_t row = 0; row < H * NQ; row++)
        for (int j = 0; j < NK; j++)
            if (j != 5) list_block(&x.lists, row, j);
    ATTEND(&s, &x, .y = cut, LISTS(&x));
    assert_int_equal(s.status, SG_OK);
    assert_equal(x.y, cut);
    for (int g = 0; g < H; g++) assert_true(at(skips, 2 * g) == 10 && at(skips, 2 * g + 1) < 1e-3f);
}

/* A value that is not a number is none to rows before it, nor is the mean of a block that they see by its keys. */
static void what_is_not_seen_does_not_matter(void **state)
{
    static const char *const levels[] = {"base", "avx2f32", "avx2", "avxvnni", "avx512", "avx512vnni"};
    for (int level = 0; level < (int)(sizeof levels / sizeof *levels); level++) {
        const sg_backend_options o = {.name = "cpu", .threads = 2, .cpu_mask = sg_cpu_mask_of(levels[level])};
        sg_stream                s = ref_stream();
        sg_backend              *cpu;
        sg_error                 e;
        assert_int_equal(sg_backend_open(&cpu, &o, &e), SG_OK);
        sg_stream       on_cpu = sg_stream_of(cpu);
        inputs          x = inputs_new(&s, N, N);
        const sg_tensor clean = sg_new(&s, SG_F32, N, H, D);
        x.v = DRAWN(&s, SG_F32, 9, 1, N, HK, D);
        x.tail_v = DRAWN(&s, SG_F32, 9, 1, 5, HK, D);
        x.v_scale = (sg_tensor){0};
        for (int64_t row = 0; row < H * NQ; row++)
            for (int j = 1; j < 5; j++) list_block(&x.lists, row, j); /* the first is in the tail */
        ATTEND(&on_cpu, &x, .y = clean, .causal = true, LISTS(&x), TAIL(&x));
        for (int i = 0; i < HK * D; i++) sg_store(&x.v, 200 * HK * D + i, i % 3 ? NAN : -INFINITY);
        for (int i = HK * D; i < 5 * HK * D; i++) sg_store(&x.tail_v, i, i % 3 ? NAN : INFINITY);
        ATTEND(&on_cpu, &x, .y = x.y, .causal = true, LISTS(&x), TAIL(&x));
        assert_int_equal(on_cpu.status, SG_OK);
        assert_near(sg_rows(x.y, 0, 200), sg_rows(clean, 0, 200), 1e-5);
        for (int64_t i = 200 * H * D; i < sg_count(x.y); i++) assert_true(!isfinite(at(x.y, i)));
        sg_backend_close(&cpu);
    }
}

/* How a weight is rounded depends on a kernel's base. So it is no luck how far rounding takes the one that counts: here
 * each row has a share of one value. */
static void every_weight_makes_a_budget(void **state)
{
    enum { ROWS = 128, VALUE = 100 };
    sg_stream       s = ref_stream(), in_float = {.ops = &sg_ref_rounded_ops};
    const sg_tensor q = DRAWN(&s, SG_I8, 1, 1, 1, ROWS, D), k = DRAWN(&s, SG_I8, 1, 1, 1, 2, D),
                    one = ALL_OF(&s, 1, 1, 1);
    const sg_tensor v = ALL_OF(&s, 0, 2, 1, D), y = sg_new(&s, SG_F32, ROWS, 1, D);
    const sg_tensor rounded = sg_new(&s, SG_F32, ROWS, 1, D);
    for (int r = 0; r < ROWS; r++) ((int8_t *)q.data)[r * D] = (int8_t)r;
    ((int8_t *)k.data)[0] = 1;
    sg_store(&v, 0, VALUE);
#define ROWS_OF(y_)                                                                                                    \
    .y = (y_), .q = q, .q_scale = one, .k = k, .k_scale = one, .v = v, .q_group = ROWS, .k_group = 16, .scale = 0.0077f
    sg_attend_blocks(&s, ROWS_OF(y));
    sg_attend_blocks(&in_float, ROWS_OF(rounded));
#undef ROWS_OF
    assert_int_equal(s.status, SG_OK);
    assert_int_equal(in_float.status, SG_OK);
    for (int r = 1; r < ROWS; r++) {
        const double truth = (double)at(y, r * D), off = fabs((double)at(rounded, r * D) - truth);
        assert_true(truth > 0.4 * VALUE && off > truth * 0.0011 && off < truth * 0.004);
    }
}

enum { HEADS = 32, QUERIES = 4096, KEYS = 16384, MANY = 48 << 20 };

/* Together they are packed in three groups or more, into a ring that has room for two. */
static void heads_together_are_heads_alone(void **state)
{
    void *const many = aligned_alloc(SG_ALIGN, MANY);
    assert_non_null(many);
    for (int level = 0; strcmp(sg_cpu_mask_names[level], "all") != 0; level++) {
        const sg_backend_options o = {
            .name = "cpu", .threads = 2, .cpu_mask = sg_cpu_mask_of(sg_cpu_mask_names[level])};
        sg_stream   s = {.ops = &sg_ref_ops, .scratch = {.base = (uintptr_t)many, .cap = MANY}};
        sg_backend *cpu;
        sg_error    e;
        assert_int_equal(sg_backend_open(&cpu, &o, &e), SG_OK);
        sg_stream         on_cpu = sg_stream_of(cpu);
        const sg_tensor   q = DRAWN(&s, SG_I8, 128, 1, HEADS, QUERIES, D), k = DRAWN(&s, SG_I8, 128, 1, HEADS, KEYS, D);
        const sg_tensor   v = DRAWN(&s, SG_I8, 128, 1, HEADS, KEYS, D);
        const block_lists lists = block_lists_new(&s, HEADS, 32, KEYS / 64);
        const sg_tensor   y = sg_new(&s, SG_F32, QUERIES, HEADS, D), alone = sg_new(&s, SG_F32, QUERIES, 1, D);
        const sg_tensor   scale = ALL_OF(&s, 0.01f, KEYS / 32, HEADS), less = ALL_OF(&s, 0.01f, KEYS / 32, 1);
        const sg_tensor   one = ALL_OF(&s, 1, HEADS, D);
        for (int64_t i = 0; i < HEADS * 32 * KEYS / 512; i++)
            if (!draw(8)) list_block(&lists, i / (KEYS / 512), i % (KEYS / 512) * 8);
        sg_attend_blocks(&on_cpu, .y = y, .q = q, .q_scale = sg_rows(scale, 0, QUERIES / 32), .k = k, .k_scale = scale,
                         .v = v, .v_scale = one, .q_group = 32, .k_group = 32, .scale = 0.1f, .list = lists.list,
                         .count = lists.count);
        for (int g = 0; g < HEADS; g++) {
            sg_attend_blocks(&on_cpu, .y = alone, .q = sg_rows(q, g, 1), .q_scale = sg_rows(less, 0, QUERIES / 32),
                             .k = sg_rows(k, g, 1), .k_scale = less, .v = sg_rows(v, g, 1),
                             .v_scale = sg_rows(one, g, 1), .q_group = 32, .k_group = 32, .scale = 0.1f,
                             .list = sg_rows(lists.list, g, 1), .count = sg_rows(lists.count, g, 1));
            for (int64_t t = 0; t < QUERIES; t++)
                assert_memory_equal(sg_rows(alone, t, 1).data, (float *)y.data + (t * HEADS + g) * D,
                                    D * sizeof(float));
        }
        assert_int_equal(on_cpu.status, SG_OK);
        sg_backend_close(&cpu);
    }
    free(many);
}

/* ---- on a GPU ---- */

enum { GPU_N = 300, GPU_M = 450, GPU_ROOM = 1 << 22 };

static sg_tensor sent(sg_stream *s, sg_tensor t)
{
    if (!t.rank) return t;
    const sg_tensor y = sg_alloc(s, &s->scratch, t.dtype, t.rank, t.dim);
    sg_upload(s, y, t.data);
    return y;
}

/* Inputs of heads of d channels. Rows of blocks keep nothing, some blocks, and all. */
static inputs wide_inputs(sg_stream *s, int64_t d, bool bf16)
{
    const int64_t nq = (GPU_N + 127) / 128, nk = (GPU_M + 63) / 64;
    inputs        x = {.q = DRAWN(s, SG_I8, 20, 1, H, GPU_N, d),
                       .k = DRAWN(s, SG_I8, 20, 1, HK, GPU_M, d),
                       .v = bf16 ? DRAWN(s, SG_BF16, 9, 0.5f, GPU_M, HK, d) : DRAWN(s, SG_I8, 128, 1, HK, GPU_M, d),
                       .tail_k = DRAWN(s, SG_I8, 20, 1, HK, nk, d),
                       .tail_v = bf16 ? DRAWN(s, SG_F32, 9, 0.5f, nk, HK, d) : DRAWN(s, SG_I8, 128, 1, HK, nk, d),
                       .y = sg_new(s, SG_F32, GPU_N, H, d),
                       .lists = block_lists_new(s, H, nq, nk)};
    x.q_scale = ALL_OF(s, 0.02f, (GPU_N + 31) / 32, H);
    x.k_scale = ALL_OF(s, 0.02f, (GPU_M + 15) / 16, HK);
    if (!bf16) x.v_scale = ALL_OF(s, 0.03f, HK, d);
    x.tail_k_scale = ALL_OF(s, 0.02f, (nk + 63) / 64, HK);
    for (int64_t row = 0; row < H * nq; row++)
        for (int64_t j = 0; row % 4 && j < nk; j++)
            if (row % 4 == 3 || draw(2)) list_block(&x.lists, row, nk - 1 - j);
    return x;
}

static sg_tensor attend_on(sg_stream *s, const inputs *x, bool tail)
{
    if (tail)
        ATTEND(s, x, .y = x->y, LISTS(x), TAIL(x));
    else
        ATTEND(s, x, .y = x->y, LISTS(x));
    return x->y;
}

static inputs sent_all(sg_stream *s, const inputs *x)
{
    return (inputs){.q = sent(s, x->q),
                    .k = sent(s, x->k),
                    .v = sent(s, x->v),
                    .q_scale = sent(s, x->q_scale),
                    .k_scale = sent(s, x->k_scale),
                    .v_scale = sent(s, x->v_scale),
                    .lists = {sent(s, x->lists.list), sent(s, x->lists.count)},
                    .tail_k = sent(s, x->tail_k),
                    .tail_k_scale = sent(s, x->tail_k_scale),
                    .tail_v = sent(s, x->tail_v),
                    .y = sent(s, x->y)};
}

/* Weights are rounded to BF16 there, and o is a mean of values of at most 4. */
static void compare_with_oracle(const sg_backend *gpu, void *memory, int64_t d, bool bf16, bool tail)
{
    sg_stream    s = ref_stream(), on = sg_stream_of(gpu);
    const inputs x = wide_inputs(&s, d, bf16);
    on.scratch = (sg_arena){.base = (uintptr_t)memory, .cap = GPU_ROOM};
    const inputs    there = sent_all(&on, &x);
    const sg_tensor want = attend_on(&s, &x, tail), got = sg_new(&s, SG_F32, GPU_N, H, d);
    sg_download(&on, got.data, attend_on(&on, &there, tail));
    if (s.status || on.status) fail_msg("d %d: %s%s", (int)d, s.why, on.why);
    assert_near(got, want, 0.03);
}

/* A thread with a backend of its own. */
typedef struct beginner {
    pthread_t          thread;
    pthread_barrier_t *together;
    sg_backend        *gpu;
    const inputs      *x;
    void              *memory;
    float             *y;
    sg_status          status;
    char               served[256];
} beginner;

static void *begin(void *context)
{
    beginner *const b = context;
    sg_stream       s = sg_stream_of(b->gpu);
    s.scratch = (sg_arena){.base = (uintptr_t)b->memory, .cap = GPU_ROOM};
    const inputs there = sent_all(&s, b->x);
    pthread_barrier_wait(b->together);
    sg_download(&s, b->y, attend_on(&s, &there, true));
    b->status = s.status;
    sg_backend_served(b->gpu, b->served, sizeof b->served);
    return NULL;
}

/* The first calls of a process, from several threads at once, are served by one kernel: same bits, same words. It is
 * to be the first test of this file that calls attend_blocks on a GPU. */
static void first_calls_on_a_gpu_agree(void **state)
{
    enum { THREADS = 8 };
    sg_stream         s = ref_stream();
    const inputs      x = wide_inputs(&s, 64, true);
    beginner          b[THREADS] = {{0}};
    pthread_barrier_t together;
    sg_error          e = {0};
    int               opened = 0;
    while (opened < THREADS && !sg_backend_open(&b[opened].gpu, &(sg_backend_options){.name = "cuda"}, &e)) opened++;
    if (!opened) skip();
    assert_int_equal(opened, THREADS);
    pthread_barrier_init(&together, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        b[i].together = &together;
        b[i].x = &x;
        b[i].y = malloc(sg_bytes(x.y));
        b[i].memory = b[i].gpu->memory->alloc(b[i].gpu, GPU_ROOM);
        assert_true(b[i].y && b[i].memory);
        assert_int_equal(pthread_create(&b[i].thread, NULL, begin, &b[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(b[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(b[i].status, SG_OK);
        assert_string_equal(b[i].served, b[0].served);
        assert_memory_equal(b[i].y, b[0].y, sg_bytes(x.y));
    }
    for (int i = 0; i < THREADS; i++) {
        b[i].gpu->memory->release(b[i].gpu, b[i].memory);
        sg_backend_close(&b[i].gpu);
        free(b[i].y);
    }
    pthread_barrier_destroy(&together);
}

/* 8-bit kernels leave heads of more channels than their sums hold to F32, and say so. */
static void wide_heads_are_reported(void **state)
{
    const sg_backend_options o = {.name = "cpu", .threads = 2, .cpu_mask = sg_cpu_mask_of("avx2")};
    static const char        reported[] = "attend_blocks in F32, not I8: heads of more than 255 channels (1 call)";
    char                     served[256];
    sg_backend              *cpu;
    sg_error                 e;
    assert_int_equal(sg_backend_open(&cpu, &o, &e), SG_OK);
    for (int64_t d = 255; d < 265; d += 9) {
        sg_stream    s = ref_stream(), on = sg_stream_of(cpu);
        const inputs x = wide_inputs(&s, d, false);
        inputs       y = x;
        y.y = sg_new(&s, SG_F32, GPU_N, H, d);
        assert_near(attend_on(&on, &y, true), attend_on(&s, &x, true), 0.03);
        assert_int_equal(s.status, SG_OK);
        assert_int_equal(on.status, SG_OK);
        sg_backend_served(cpu, served, sizeof served);
        assert_string_equal(served, d > 255 && (cpu->features & SG_CPU_INT8) ? reported : "");
    }
    sg_backend_close(&cpu);
}

/* Every level of a GPU, heads of more channels than a level's shared memory has two tiles for, rows that keep
 * nothing. */
static void gpus_agree_with_the_oracle(void **state)
{
    int opened = 0;
    for (int level = -1; level < 0 || sg_gpu_level_names[level]; level++) { /* first all that it has */
        const unsigned mask = level < 0 ? 0 : sg_gpu_mask_of(sg_gpu_level_names[level]);
        sg_backend    *gpu = NULL;
        sg_error       e = {0};
        if (sg_backend_open(&gpu, &(sg_backend_options){.name = "cuda", .gpu_mask = mask}, &e)) continue;
        void *const memory = gpu->memory->alloc(gpu, GPU_ROOM);
        assert_non_null(memory);
        static const int64_t sizes[] = {64, 96, 128, 136, 160, 256, 264};
        char                 served[512];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int way = 0; way < 4; way++) compare_with_oracle(gpu, memory, sizes[i], way % 2, way / 2);
        sg_backend_served(gpu, served, sizeof served);
        assert_non_null(
            strstr(served, "attend_blocks without tensor cores: heads of more than 256 channels (4 calls)"));
        if (mask == sg_gpu_mask_of("sm90"))
            assert_non_null(strstr(served, "by mma.sync, not wgmma: heads not of 16, 32 .. 128 channels (12 calls)"));
        gpu->memory->release(gpu, memory);
        sg_backend_close(&gpu);
        opened++;
    }
    if (!opened) skip();
}

static void tail_bias_is_capped(void **state)
{
    sg_stream       s = ref_stream();
    const sg_tensor mean = ALL_OF(&s, 1, NQ, H, D), var = ALL_OF(&s, 1, NQ, H, D), k_var = ALL_OF(&s, 1, NK, HK, D);
    const sg_tensor y = sg_new(&s, SG_F32, H, NQ, NK);
    for (int i = 0; i < HK * D; i++) sg_store(&k_var, i, i % 2 ? 0.0f : 0.5f);
    sg_tail_bias(&s, .y = y, .q_mean = mean, .q_var = var, .k_var = k_var, .rule = SG_TAIL_HALF, .scale = 0.5f);
    assert_true(fabsf(at(y, 0) - logf(64) - 0.5f) < 1e-6f && fabsf(at(y, 1) - logf(64) - 2) < 1e-6f);
    sg_tail_bias(&s, .y = y, .q_mean = mean, .q_var = var, .k_var = k_var, .rule = SG_TAIL_RANK1, .scale = 0.5f);
    assert_true(fabsf(at(y, 0) - logf(64) - 1) < 1e-6f && fabsf(at(y, 1) - logf(64) - 3) < 1e-6f);
    assert_int_equal(s.status, SG_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(everything_kept_is_dense),
                                       cmocka_unit_test(nothing_kept_is_nothing),
                                       cmocka_unit_test(tail_is_attention_over_means),
                                       cmocka_unit_test(order_of_blocks_does_not_matter),
                                       cmocka_unit_test(filter_leaves_out_what_is_far_below),
                                       cmocka_unit_test(what_is_not_seen_does_not_matter),
                                       cmocka_unit_test(every_weight_makes_a_budget),
                                       cmocka_unit_test(heads_together_are_heads_alone),
                                       cmocka_unit_test(wide_heads_are_reported),
                                       cmocka_unit_test(first_calls_on_a_gpu_agree),
                                       cmocka_unit_test(gpus_agree_with_the_oracle),
                                       cmocka_unit_test(tail_bias_is_capped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
