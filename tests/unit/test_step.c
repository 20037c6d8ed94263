/* test_step.c - steps: what op.c and the trace do with them, and that a device which puts ops off gives the bits that it
 * gives without, whatever comes between. Runs on what "auto" finds; where that is no GPU, a backend of this test puts the
 * CPU's ops off. */
#include "../held.h"
#include "backend.h"
#include "meta.h"
#include "unit.h"

#include <pthread.h>

enum { N = 24, C = 64, WIDE = 40 * N, ROOM = 1 << 20, ROUNDS = 16, LIKE = 100 };

/* ---- the calls ---- */

static int begun, ended;

static sg_status count_begin(sg_stream *s, int repeats)
{
    begun += repeats;
    return s->impl ? SG_E_DEVICE : SG_OK;
}

static sg_status count_end(sg_stream *s)
{
    ended++;
    return s->status;
}

static const sg_ops counting = {.step_begin = count_begin, .step_end = count_end};

static void failures_end_steps(void **state)
{
    sg_stream s = {.ops = &counting};
    begun = ended = 0;
    sg_step_begin(&s, 1);
    sg_fail(&s, SG_E_NUMERIC, "in the step");
    sg_step_end(&s);
    sg_step_begin(&s, 1);
    sg_step_end(&s);
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 2);
    assert_string_equal(s.why, "in the step");

    s = (sg_stream){.ops = &counting, .impl = &begun};
    sg_step_begin(&s, 1);
    assert_int_equal(s.status, SG_E_DEVICE);

    s = (sg_stream){.ops = &sg_ref_ops};
    sg_step_begin(&s, 1);
    sg_step_end(&s);
    assert_int_equal(s.status, SG_OK);
}

static void traced_steps_are_not_put_off(void **state)
{
    sg_trace  t = {.paused = true};
    sg_stream s = {.ops = &counting};
    sg_trace_wrap(&s, &t);
    begun = ended = 0;
    sg_step_begin(&s, 1);
    sg_step_end(&s);
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 1);
    t.paused = false;
    sg_step_begin(&s, 1);
    sg_step_end(&s);
    assert_int_equal(begun, 1);
    sg_trace_free(&t);
}

/* ---- the bits ---- */

/* What puts off: inside a step ops are kept, arguments and all, and run when the step ends or memory is asked for, as a GPU
 * records a graph. */
typedef struct put_off {
    sg_status (*run)(sg_stream *, const void *args);
    _Alignas(16) unsigned char args[1536];
} put_off;

enum { PUT_OFF_MAX = 16 };
static put_off       waiting[PUT_OFF_MAX];
static int           waits, ran_late;
static bool          in_step;
static const sg_ops *inner;
static sg_memory     inner_memory;

static sg_status run_waiting(sg_stream *s)
{
    sg_status status = SG_OK;
    for (int i = 0; i < waits && !status; i++) status = waiting[i].run(s, waiting[i].args);
    ran_late += waits;
    waits = 0;
    return status;
}

#define X(op)                                                                                                          \
    static sg_status late_##op(sg_stream *s, const void *args) { return inner->op(s, args); }                          \
    static sg_status put_off_##op(sg_stream *s, const sg_##op##_args *a)                                               \
    {                                                                                                                  \
        _Static_assert(sizeof *a <= sizeof waiting[0].args, "room for arguments");                                     \
        if (!in_step) return inner->op(s, a);                                                                          \
        assert_true(waits < PUT_OFF_MAX);                                                                              \
        waiting[waits].run = late_##op;                                                                                \
        memcpy(waiting[waits++].args, a, sizeof *a);                                                                   \
        return SG_OK;                                                                                                  \
    }
SG_OPS(X)
#undef X

static sg_status put_off_begin(sg_stream *s, int repeats)
{
    in_step = true;
    return SG_OK;
}

static sg_status put_off_end(sg_stream *s)
{
    in_step = false;
    return run_waiting(s);
}

static sg_status put_off_upload(sg_stream *s, void *device, const void *host, size_t bytes)
{
    const sg_status status = run_waiting(s);
    return status ? status : inner_memory.upload(s, device, host, bytes);
}

static sg_status put_off_download(sg_stream *s, void *host, const void *device, size_t bytes)
{
    const sg_status status = run_waiting(s);
    return status ? status : inner_memory.download(s, host, device, bytes);
}

static const sg_ops putting_off = {
#define X(op) .op = put_off_##op,
    SG_OPS(X)
#undef X
        .step_begin = put_off_begin,
    .step_end = put_off_end};

static void put_ops_off(sg_stream *s)
{
    static sg_memory memory;
    if (s->ops->step_begin) return; /* the device does */
    inner = s->ops;
    memory = inner_memory = *s->memory;
    memory.upload = put_off_upload;
    memory.download = put_off_download;
    s->ops = &putting_off;
    s->memory = &memory;
}

typedef struct bench {
    sg_backend *backend;
    sg_stream   s;
    sg_tensor   x, w, b, y, z;
    void       *buffer[2];
} bench;

static void upload_numbers(sg_stream *s, sg_tensor t, uint32_t seed)
{
    float host[N * C > C * C ? N * C : C * C];
    for (int64_t i = 0; i < sg_count(t); i++) {
        seed = seed * 1664525u + 1013904223u;
        host[i] = (float)(seed >> 8) / (float)(1 << 24) - 0.5f;
    }
    sg_upload(s, t, host);
}

static bench make_on(sg_backend *backend)
{
    bench b = {.backend = backend};
    b.s = sg_stream_of(b.backend);
    for (int i = 0; i < 2; i++) assert_non_null(b.buffer[i] = b.s.memory->alloc(b.backend, ROOM));
    b.s.keep = (sg_arena){.base = (uintptr_t)b.buffer[0], .cap = ROOM};
    b.s.scratch = (sg_arena){.base = (uintptr_t)b.buffer[1], .cap = ROOM};
    b.x = sg_new_keep(&b.s, SG_F32, N, C);
    b.w = sg_new_keep(&b.s, SG_F32, C, C);
    b.b = sg_new_keep(&b.s, SG_F32, C);
    b.y = sg_new_keep(&b.s, SG_F32, N, C);
    b.z = sg_new_keep(&b.s, SG_F32, N, C);
    upload_numbers(&b.s, b.w, 1);
    upload_numbers(&b.s, b.b, 2);
    return b;
}

static bench make(void)
{
    sg_backend *b = NULL;
    sg_error    e = {0};
    if (sg_backend_open(&b, &(sg_backend_options){.name = "auto", .threads = 1, .cpu_mask = held_mask()}, &e))
        fail_msg("%s", e.text);
    return make_on(b);
}

static void finish(bench *b)
{
    for (int i = 0; i < 2; i++) b->s.memory->release(b->backend, b->buffer[i]);
    sg_backend_close(&b->backend);
}

/* What else is in a round. */
typedef enum kind { SAME, OTHER_NUMBER, SHORTER, LONGER, UPLOAD, DOWNLOAD, WIDER } kind;

static const kind kinds[ROUNDS] = {SAME,    SAME,   SAME, WIDER,  SAME, OTHER_NUMBER, SAME,     SAME,
                                   SHORTER, LONGER, SAME, UPLOAD, SAME, SAME,         DOWNLOAD, SAME};

/* y and z after a round: a step, if asked for, and an op after it. */
static void round_of(bench *b, int round, bool stepped, float got[2][N * C])
{
    sg_stream *const s = &b->s;
    const kind       k = kinds[round];
    const size_t     mark = s->scratch.used;
    upload_numbers(s, b->x, 10 + (uint32_t)round);
    if (stepped) sg_step_begin(s, LIKE);
    const sg_tensor h = sg_new(s, SG_F32, N, C), half = sg_new(s, SG_BF16, N, C);
    sg_norm(s, .y = h, .x = b->x, .w = b->b, .kind = SG_NORM_RMS, .eps = k == OTHER_NUMBER ? 0.5f : 1e-6f);
    sg_copy(s, .y = half, .x = h);
    sg_linear(s, .y = b->y, .x = half, .w = b->w, .b = b->b, .act = SG_ACT_SILU);
    if (k == UPLOAD) upload_numbers(s, b->x, 99);
    if (k == DOWNLOAD) sg_download(s, got[0], b->y);
    if (k != SHORTER) sg_linear(s, .y = b->y, .x = b->x, .w = b->w, .gate = b->b, .add = true);
    if (k == LONGER) sg_mul(s, .y = h, .a = b->y, .b = b->x);
    sg_copy(s, .y = b->z, .x = k == LONGER ? h : b->y);
    if (stepped) sg_step_end(s);
    if (k == WIDER) { /* wants more of the backend's own scratch than the step did */
        const sg_tensor wide = sg_new(s, SG_BF16, WIDE, C), product = sg_new(s, SG_BF16, WIDE, C);
        sg_linear(s, .y = product, .x = wide, .w = b->w, .act = SG_ACT_RELU);
    }
    sg_add(s, .y = h, .a = b->z, .b = b->x);
    sg_download(s, got[0], b->y);
    sg_download(s, got[1], h);
    s->scratch.used = mark;
    if (s->status) fail_msg("round %d: %s", round, s->why);
}

static void steps_give_the_same_bits(void **state)
{
    bench      plain = make(), b = make();
    const bool device = b.s.ops->step_begin != NULL;
    put_ops_off(&b.s);
    ran_late = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static float want[2][N * C], got[2][N * C];
        round_of(&plain, round, false, want);
        round_of(&b, round, true, got);
        if (memcmp(want, got, sizeof want) != 0) fail_msg("round %d differs", round);
    }
    assert_true(device || ran_late >= 3 * ROUNDS); /* it was put off */
    finish(&plain);
    finish(&b);
}

/* A step that fails leaves nothing behind that a later stream would meet. */
typedef struct visit {
    sg_backend *backend;
    float       got[2][N * C];
} visit;

static void *visit_backend(void *context)
{
    visit *const v = context;
    bench        b = make_on(v->backend);
    round_of(&b, 0, true, v->got);
    for (int i = 0; i < 2; i++) b.s.memory->release(b.backend, b.buffer[i]);
    return NULL;
}

/* Each GPU there is, else the CPU: what opens it in one thread serves another, whatever other device that one used. */
static void backends_serve_other_threads(void **state)
{
    static visit v[3];
    sg_error     e = {0};
    sg_backend  *b[2] = {NULL};
    int          device = 0;
    for (; !sg_backend_open(
             &b[device > 0],
             &(sg_backend_options){.name = "auto", .threads = 1, .cpu_mask = held_mask(), .device = device}, &e);
         device++) {
        pthread_t thread;
        for (int i = 0; i < 3; i++) v[i] = (visit){.backend = b[device > 0]};
        visit_backend(&v[0]);
        assert_int_equal(pthread_create(&thread, NULL, visit_backend, &v[1]), 0);
        pthread_join(thread, NULL);
        if (device) visit_backend(&(visit){.backend = b[0]}); /* this thread is elsewhere */
        visit_backend(&v[2]);
        for (int i = 1; i < 3; i++) assert_memory_equal(v[0].got, v[i].got, sizeof v[0].got);
        if (device) sg_backend_close(&b[1]);
    }
    assert_true(device > 0);
    assert_true(e.text[0] && (b[0]->host_memory || strstr(e.text, "no GPU")));
    sg_backend_close(&b[0]);
}

static void a_failed_step_is_over(void **state)
{
    bench        plain = make(), b = make();
    static float want[2][N * C], got[2][N * C];
    put_ops_off(&b.s);
    for (int i = 0; i < 3; i++) round_of(&b, 0, true, got);
    sg_stream broken = b.s;
    sg_step_begin(&broken, LIKE);
    sg_linear(&broken, .y = b.y, .x = b.x, .w = b.b);
    sg_step_end(&broken);
    assert_int_equal(broken.status, SG_E_SHAPE);
    for (int i = 0; i < 3; i++) {
        round_of(&plain, i, false, want);
        round_of(&b, i, true, got);
        assert_memory_equal(want, got, sizeof want);
    }
    finish(&plain);
    finish(&b);
}

/* ---- weights that stay on the host ---- */

enum { BLOCKS = 7, D = 512, CHAINS = 8 }; /* an odd number: the last block and the next chain's first share a slot */

/* x through all blocks, weights being those on the device or, where host is given, fetched into two slots. */
static void chain(bench *b, int round, const uint8_t *host, uint8_t *device, float got[N * D])
{
    sg_stream *const s = &b->s;
    const size_t     bytes = D * D * sizeof(float), mark = s->keep.used;
    const sg_tensor  y[2] = {sg_new_keep(s, SG_F32, N, D), sg_new_keep(s, SG_F32, N, D)};
    static float     x[N * D];
    for (int i = 0; i < N * D; i++) x[i] = (float)((i * 7 + round) % 64) / 64;
    sg_upload(s, y[0], x);
    if (round > 1) sg_step_begin(s, LIKE);
    for (int i = 0; i < BLOCKS; i++) {
        uint8_t *const at = device + bytes * (size_t)(host ? i % 2 : i);
        const size_t   from = bytes * (size_t)i;
        if (host) sg_fetch(s, &(sg_fetch_args){.slot = i % 2, .device = at, .host = host + from, .bytes = bytes});
        sg_linear(s, .y = y[(i + 1) % 2], .x = y[i % 2], .w = {at, SG_F32, 2, {D, D}});
    }
    if (round > 1) sg_step_end(s);
    sg_download(s, got, y[BLOCKS % 2]);
    s->keep.used = mark;
    if (s->status) fail_msg("chain %d: %s", round, s->why);
}

static void fetched_weights_give_the_same_bits(void **state)
{
    static float           want[CHAINS][N * D], got[N * D];
    const size_t           all = BLOCKS * D * D * sizeof(float);
    bench                  b = make();
    const sg_memory *const m = b.s.memory;
    if (!m->pin) {
        finish(&b);
        skip();
    }
    uint8_t *const host = m->pin(b.backend, all), *const device = m->alloc(b.backend, all);
    assert_true(host && device);
    for (size_t i = 0; i < BLOCKS * D * D; i++) ((float *)(void *)host)[i] = (float)(i * 2654435761u % 1024) / 16384;
    assert_int_equal(m->upload(&b.s, device, host, all), SG_OK);
    for (int i = 0; i < CHAINS; i++) chain(&b, i, NULL, device, want[i]);
    for (int i = 0; i < CHAINS; i++) {
        chain(&b, i, host, device, got);
        if (memcmp(want[i], got, sizeof got) != 0) fail_msg("chain %d differs", i);
    }
    m->release(b.backend, device);
    m->unpin(b.backend, host);
    finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_end_steps),           cmocka_unit_test(traced_steps_are_not_put_off),
        cmocka_unit_test(steps_give_the_same_bits),     cmocka_unit_test(a_failed_step_is_over),
        cmocka_unit_test(backends_serve_other_threads), cmocka_unit_test(fetched_weights_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
