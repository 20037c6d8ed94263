/* checkkern_case.c - tensors with guards and one case of one op. */
#include "checkkern_trial.h"

#include "budget.h"
#include "quant.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 64, PAGE = 4096, POISON = 0x99, UNWRITTEN = 0xff, POOL = 4096, POOL_WORK = 1 << 19 };

uint64_t ck_draw(ck *c, uint64_t below)
{
    uint64_t z = c->random += 0x9e3779b97f4a7c15u; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

float ck_normal(ck *c)
{
    double sum = 0;
    for (int i = 0; i < 6; i++) sum += (double)ck_draw(c, 1u << 24) * 0x1p-24 - 0.5;
    return (float)(sum * sqrt(2.0));
}

/* ---- tensors ---- */

static float half_way(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    u = (u & 0xffff0000u) | 0x8000u;
    memcpy(&v, &u, sizeof v);
    return v;
}

static float one_of(ck *c, ck_fill fill, float constant)
{
    switch (fill) {
    case CK_CONSTANT: return constant;
    case CK_LARGE: return 1e4f * ck_normal(c);
    case CK_TINY: return 1e-40f * ck_normal(c);
    case CK_ZERO: return 0;
    case CK_INTEGER: return (float)ck_draw(c, 9) - 4;
    case CK_PAIRS: return ck_draw(c, 3) ? ck_draw(c, 2) ? 127 : -127 : (float)ck_draw(c, 255) - 127;
    case CK_MASKED: return -INFINITY;
    case CK_WIDE: return ldexpf(ck_draw(c, 2) ? 1.5f : -1.0f, (int)ck_draw(c, 121) - 60);
    case CK_TIES: return nextafterf(((float)ck_draw(c, 256) + 0.5f) / 127.5f - 1, (float)ck_draw(c, 3) * 4 - 4);
    case CK_HALVES: return half_way(ck_normal(c));
    case CK_ONES: return 1;
    case CK_OFFSET: return 1000 + 0.01f * ck_normal(c);
    case CK_GATES: return 40 * (float)ck_draw(c, 1u << 20) * 0x1p-20f - 20;
    case CK_STEPS: return (float)ck_draw(c, 509) * 0.5f - 127;
    case CK_SCALES:
    case CK_NAN_SCALE: return 0.5f + (float)ck_draw(c, 1u << 20) * 0x1p-20f;
    case CK_COUNTS: return ck_draw(c, 2) ? (float)ck_draw(c, 8) : 0;
    case CK_FRACTIONS: return (float)ck_draw(c, 1025) / 1024;
    case CK_SHARES: return ck_draw(c, 3) ? (float)ck_draw(c, 65) / 64 : (float)ck_draw(c, 2);
    case CK_FILTERS: return ck_draw(c, 4) ? (float)(1 + ck_draw(c, 64)) / 8 + 0.0625f : 1000;
    default: return ck_normal(c);
    }
}

/* Whether a row lists block j of nk. */
static bool is_chosen(ck *c, ck_fill fill, uint64_t kind, int64_t one, int32_t density, int64_t j, int64_t nk)
{
    if (fill == CK_NO_BLOCKS) return false;
    if (fill == CK_ONE_BLOCK) return j == one;
    if (fill == CK_END_BLOCKS) return j % 64 == 0 || j % 64 == 63 || j == nk - 1;
    return kind == 0 || (kind == 2 && ck_draw(c, 8) < (uint64_t)density);
}

/* Fills lists, and the counts, which are the next buffer. What is behind a list is no block. */
static void fill_lists(ck *c, const ck_buffer *b)
{
    const int64_t  nk = b->t.dim[2], rows = b->t.dim[0] * b->t.dim[1];
    int32_t *const count = b[1].t.data;
    memset(b->t.data, POISON, sg_bytes(b->t));
    for (int64_t row = 0; row < rows; row++) {
        uint16_t *const list = (uint16_t *)b->t.data + row * nk;
        const uint64_t  kind = b->fill == CK_SOME_EMPTY ? ck_draw(c, 3) : b->fill == CK_ALL_BLOCKS ? 0 : 2;
        const int64_t   one = (int64_t)ck_draw(c, (uint64_t)nk);
        const int32_t   density = 1 + (int32_t)ck_draw(c, 7);
        int32_t         n = 0;
        for (int64_t j = 0; j < nk; j++)
            if (is_chosen(c, b->fill, kind, one, density, j, nk)) list[n++] = (uint16_t)j;
        for (int32_t k = n - 1; k > 0 && b->fill != CK_ALL_BLOCKS; k--) {
            const uint64_t other = ck_draw(c, (uint64_t)k + 1);
            const uint16_t was = list[k];
            list[k] = list[other];
            list[other] = was;
        }
        count[row] = n;
    }
}

static float number(ck *c, const ck_buffer *b, float constant)
{
    if (b->t.dtype == SG_I8 && b->fill == CK_RANDOM) return (float)ck_draw(c, 255) - 127;
    return one_of(c, b->fill, constant);
}

static void fill_runs(ck *c, const sg_tensor *t, float often, float seldom)
{
    bool other = false;
    for (int64_t i = 0; i < sg_count(*t); i++) {
        if (ck_draw(c, 7) == 0) other = !other;
        sg_store(t, i, other ? seldom : often);
    }
}

static float level_of(int64_t channel, int64_t half) { return 1 + 2 * (float)(channel % half) / (float)half; }

static void fill_levels(ck *c, const sg_tensor *t)
{
    const int64_t channels = t->dim[t->rank - 1], half = (channels + 1) / 2;
    for (int64_t i = 0; i < sg_count(*t); i++) sg_store(t, i, level_of(i % channels, half) + 0.1f * ck_normal(c));
}

static void fill_signed(ck *c, const sg_tensor *t)
{
    enum { MOST = 1024 };
    const int64_t in = t->dim[1], half = (in + 1) / 2, rows = t->dim[0] * in, taps = sg_count(*t) / rows;
    float         middle[MOST] = {0};
    for (int64_t row = 0; row < rows; row++) {
        const int64_t i = row % in;
        if (i < half) middle[i % MOST] = ck_normal(c);
        for (int64_t tap = 0; tap < taps; tap++)
            sg_store(t, row * taps + tap, (i < half ? 1.0f : -1.0f) * middle[i % half % MOST] + 0.1f * ck_normal(c));
    }
}

static void fill_order(ck *c, int32_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t k = (int64_t)ck_draw(c, (uint64_t)i + 1);
        order[i] = order[k];
        order[k] = (int32_t)i;
    }
}

/* Any bits, with scales of blocks between 2^-9 and 2^-5. */
static void fill_quantised(ck *c, const sg_tensor *t)
{
    const sg_quant_type type = (sg_quant_type)t->quant.type;
    const size_t        block = sg_quant_bytes(type, sg_quant_block(type)), bytes = sg_quant_bytes(type, sg_count(*t));
    uint8_t *const      x = t->data;
    static const int    halves[SG_QUANT_COUNT][2] = {
#define X(name, block, bytes, scale, minimum) [SG_QUANT_##name] = {scale, minimum},
        SG_QUANT_TYPES(X)
#undef X
    };
    const int *const half = halves[type];
    for (size_t i = 0; i < bytes; i++) x[i] = (uint8_t)ck_draw(c, half[0] < 0 ? 0x7c : 256);
    for (size_t i = 0; half[0] >= 0 && i < bytes; i += block)
        for (int k = 0; k < 2; k++) x[i + (size_t)half[k] + 1] = (uint8_t)(0x18 + ck_draw(c, 16) + 128 * ck_draw(c, 2));
    float *const scale = (float *)(void *)(x + sg_quant_scales_at(t));
    for (int64_t i = 0; i < sg_quant_scales(t); i++) scale[i] = one_of(c, CK_SCALES, 0) / 64;
}

static void fill_buffer(ck *c, const ck_buffer *b)
{
    const sg_tensor *const t = &b->t;
    const int64_t          n = sg_count(*t);
    if (t->quant.type) {
        fill_quantised(c, t);
        return;
    }
    if (t->dtype == SG_U16 && !b->out) fill_lists(c, b);
    if (t->dtype == SG_I32 && b->fill == CK_ORDER)
        fill_order(c, t->data, n);
    else if (t->dtype == SG_I32 && b->below)
        for (int64_t i = 0; i < n; i++) ((int32_t *)t->data)[i] = (int32_t)ck_draw(c, (uint64_t)b->below);
    if (t->dtype == SG_I32 || t->dtype == SG_U8 || t->dtype == SG_U16) return;
    const float constant = 0.1f + 3 * ck_normal(c);
    for (int64_t i = 0; i < n; i++) sg_store(t, i, number(c, b, constant));
    if (n == 0) return;
    const int64_t at = (int64_t)ck_draw(c, (uint64_t)n);
    if (b->fill == CK_OUTLIER) sg_store(t, at, 100 * ck_normal(c));
    if (b->fill == CK_INF) sg_store(t, at, ck_draw(c, 2) ? INFINITY : -INFINITY);
    if (b->fill == CK_NAN || b->fill == CK_NAN_SCALE) sg_store(t, at, NAN);
    if (b->fill == CK_MASK) fill_runs(c, t, 0, -INFINITY);
    if (b->fill == CK_SWITCHES) fill_runs(c, t, 1, 0);
    if (b->fill == CK_LEVELS) fill_levels(c, t);
    if (b->fill == CK_SIGNED) fill_signed(c, t);
}

/* Half of all tensors end where a protected page begins, so that reading beyond them crashes; the others lie anywhere
 * an element may and have guard bands on both sides. A level may want all to lie as arenas have them. */
static ck_buffer *buffer_of(ck *c, sg_tensor t)
{
    ck_buffer *const b = &c->buffer[c->buffers++];
    *b = (ck_buffer){.t = t};
    const size_t bytes = sg_bytes(b->t), element = t.quant.type ? sizeof(float) : sg_dtype_size(t.dtype);
    b->size = (bytes + 3 * GUARD + PAGE - 1) / PAGE * PAGE;
    b->region = mmap(NULL, b->size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->region == MAP_FAILED || mprotect(b->region + b->size, PAGE, PROT_NONE)) {
        perror("checkkern: mmap");
        exit(1);
    }
    memset(b->region, POISON, b->size);
    const sg_backend *const device = c->level->backend;
    if (device && !device->host_memory && !(b->twin = device->memory->alloc(device, b->size))) {
        fprintf(stderr, "checkkern: the device has no memory\n");
        exit(1);
    }
    const size_t shift = element * (size_t)ck_draw(c, GUARD / element);
    const size_t at = ck_draw(c, 2) ? b->size - bytes : GUARD + shift;
    const size_t to = c->level->aligned || (t.quant.type && b->twin) ? SG_ALIGN : t.quant.type ? sizeof(float) : 1;
    b->t.data = b->region + at / to * to;
    return b;
}

static ck_buffer *buffer_new(ck *c, sg_dtype type, int rank, const int64_t *dim)
{
    sg_tensor t = {.dtype = type, .rank = rank};
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    return buffer_of(c, t);
}

sg_tensor ck_quantised(ck *c, sg_dtype type, sg_quant q, int64_t o, int64_t i)
{
    ck_buffer *const b = buffer_of(c, (sg_tensor){.dtype = type, .rank = 2, .dim = {o, i}, .quant = q});
    fill_buffer(c, b);
    return b->t;
}

sg_tensor ck_new_(ck *c, sg_dtype type, ck_fill fill, int rank, const int64_t *dim)
{
    ck_buffer *const b = buffer_new(c, type, rank, dim);
    b->fill = fill;
    fill_buffer(c, b);
    return b->t;
}

sg_tensor ck_out_(ck *c, sg_dtype type, int rank, const int64_t *dim)
{
    ck_buffer *const b = buffer_new(c, type, rank, dim);
    b->out = true;
    b->below = 1000;
    return b->t;
}

sg_tensor ck_ids(ck *c, int64_t n, int32_t below)
{
    ck_buffer *const b = buffer_new(c, SG_I32, 1, &n);
    b->below = below;
    fill_buffer(c, b);
    return b->t;
}

sg_tensor ck_gates(ck *c, ck_fill fill, int64_t n, int64_t m, sg_tensor *row)
{
    if (ck_draw(c, 2)) return ck_new(c, SG_F32, fill, m);
    const int32_t gates = 1 + (int32_t)ck_draw(c, 5);
    *row = ck_ids(c, n, gates);
    return ck_new(c, SG_F32, fill, gates, m);
}

sg_tensor ck_lists(ck *c, ck_fill fill, int64_t h, int64_t nq, int64_t nk, sg_tensor *count)
{
    const int64_t    dim[3] = {h, nq, nk};
    ck_buffer *const b = buffer_new(c, SG_U16, 3, dim);
    b->fill = fill;
    *count = buffer_new(c, SG_I32, 2, dim)->t;
    fill_buffer(c, b);
    return b->t;
}

static bool guards_intact(const ck_buffer *b)
{
    const unsigned char *const from = b->t.data, *const to = from + sg_bytes(b->t);
    for (const unsigned char *p = b->region; p < b->region + b->size; p++)
        if ((p < from || p >= to) && *p != POISON) return false;
    return true;
}

/* ---- crashes ---- */

static sigjmp_buf            crash_to;
static pthread_t             crash_thread;
static volatile sig_atomic_t crash_armed;
static const ck             *crash_case;

/* A worker of a team cannot be brought back: the run ends there, with the kernel's name. */
static void on_crash(int signal_number)
{
    if (crash_armed && pthread_equal(pthread_self(), crash_thread)) siglongjmp(crash_to, signal_number);
    const char text[] = " crashed in a worker thread\n";
    if (write(1, crash_case->op->name, strlen(crash_case->op->name)) >= 0 && write(1, text, sizeof text - 1) >= 0)
        _exit(1);
    _exit(1);
}

/* The op on the kernel's table; the signal that ended it, or 0. */
static int call_guarded(ck *c, sg_stream *s, const void *args)
{
    static const int       caught[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    const struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_NODEFER};
    static bool            installed;
    for (size_t i = 0; !installed && i < sizeof caught / sizeof caught[0]; i++) sigaction(caught[i], &action, NULL);
    installed = true;
    crash_case = c;
    crash_thread = pthread_self();
    const int got = sigsetjmp(crash_to, 1);
    if (got == 0) {
        crash_armed = 1;
        c->op->call(s, args);
    }
    crash_armed = 0;
    return got;
}

/* ---- a case ---- */

static void describe(const ck *c, char *out, size_t size)
{
    static const char *const fill[] = {"",
                                       "const",
                                       "outlier",
                                       "large",
                                       "tiny",
                                       "zero",
                                       "integer",
                                       "nan",
                                       "inf",
                                       "pairs",
                                       "mask",
                                       "masked",
                                       "wide",
                                       "ties",
                                       "halves",
                                       "ones",
                                       "steps",
                                       "scales",
                                       "scales, one nan",
                                       "switches",
                                       "counts",
                                       "fractions",
                                       "shares",
                                       "filters",
                                       "any",
                                       "all",
                                       "none",
                                       "one",
                                       "rows",
                                       "ends",
                                       "levels",
                                       "signed",
                                       "order",
                                       "offset",
                                       "gates"};
    _Static_assert(sizeof fill / sizeof *fill == CK_FILLS, "a name for each");
    size_t at = 0;
    for (int i = 0; i < c->buffers && at < size; i++) {
        const ck_buffer *const b = &c->buffer[i];
        char                   shape[96];
        sg_shape_text(shape, sizeof shape, b->t.rank, b->t.dim);
        at += (size_t)snprintf(out + at, size - at, " %s%s%s", sg_dtype_name(b->t.dtype), shape,
                               b->out ? "" : fill[b->fill]);
    }
}

static void fault(ck *c, const char *what)
{
    if (c->faults++) return;
    char shapes[512] = "";
    describe(c, shapes, sizeof shapes);
    snprintf(c->first, sizeof c->first, "%s; case %d:%s", what, c->cases, shapes);
}

static sg_stream stream_of(const ck_level *l, int two)
{
    return l->backend ? sg_stream_of(l->backend) : (sg_stream){.ops = &l->ops, .impl = l->cpu[two]};
}

static void drop_packed(const ck_level *l)
{
    if (l->backend) sg_backend_drop_packed(l->backend);
    for (int i = 0; !l->backend && i < 2; i++) sg_packs_drop(l->cpu[i], 0, SIZE_MAX);
}

/* All regions to the device, or back. After a crash there a device does nothing more: the run ends. */
static void move_twins(ck *c, sg_stream *s, bool to_host)
{
    for (int i = 0; i < c->buffers; i++) {
        const ck_buffer *const b = &c->buffer[i];
        if (!b->twin) continue;
        const sg_status e = to_host ? s->memory->download(s, b->region, b->twin, b->size)
                                    : s->memory->upload(s, b->twin, b->region, b->size);
        if (!e) continue;
        fault(c, s->why);
        printf("FAIL  %-11s %-13s %s\n", c->level->name, c->op->name, c->first);
        exit(1);
    }
}

/* Where the kernel sees what lies here. */
static void *twin_of(const ck *c, void *data)
{
    for (int i = 0; i < c->buffers; i++) {
        const ck_buffer *const b = &c->buffer[i];
        const size_t           at = (size_t)((uintptr_t)data - (uintptr_t)b->region);
        if (b->twin && at < b->size) return b->twin + at;
    }
    return data;
}

/* The tensors that stand first in args, as the kernel sees them. No number behind them is the address of a buffer. */
static void use_twins(const ck *c, unsigned char *args)
{
    sg_tensor t;
    for (size_t at = 0; at + sizeof t <= c->op->args_size; at += sizeof t) {
        memcpy(&t, args + at, sizeof t);
        t.data = twin_of(c, t.data);
        memcpy(args + at, &t, sizeof t);
    }
}

static sg_arena scratch_of(const ck *c)
{
    if (c->room.rank == 0) return (sg_arena){0};
    const uintptr_t at = (uintptr_t)twin_of(c, c->room.data), base = (at + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
    return (sg_arena){.base = base, .cap = sg_bytes(c->room) - (base - at)};
}

/* The kernel on the level's one or two threads into outputs that first hold what was there before. */
static bool run_kernel(ck *c, const ck_trial *t, int two, const void *args)
{
    unsigned char own[CK_ARGS_MAX];
    sg_stream     s = stream_of(c->level, two);
    memcpy(own, args, c->op->args_size);
    for (int k = 0; k < t->outputs; k++) memcpy(t->out[k].y.data, t->out[k].before, t->out[k].bytes);
    use_twins(c, own);
    s.scratch = scratch_of(c);
    move_twins(c, &s, false);
    const int signal_number = call_guarded(c, &s, own);
    move_twins(c, &s, true);
    char text[64];
    snprintf(text, sizeof text, "crashed with signal %d", signal_number);
    if (signal_number) fault(c, text);
    if (s.status) fault(c, s.why);
    return !signal_number && !s.status;
}

static bool is_repeated(const ck_trial *t)
{
    for (int k = 0; k < t->outputs; k++)
        if (memcmp(t->out[k].result, t->out[k].y.data, t->out[k].bytes)) return false;
    return true;
}

static void check_guards(ck *c, const char *what)
{
    for (int i = 0; i < c->buffers; i++)
        if (!guards_intact(&c->buffer[i])) fault(c, what);
}

/* What one run cannot show: its effects beside the outputs, and whether others agree with it. */
static void run_others(ck *c, const ck_trial *t, uint64_t inputs)
{
    static const char *const what[] = {"a second run differs", "two threads differ from one"};
    check_guards(c, "a guard band was written");
    if (ck_hash_inputs(c) != inputs) fault(c, "an input was written");
    for (int k = 0; k < t->outputs; k++) memcpy(t->out[k].result, t->out[k].y.data, t->out[k].bytes);
    for (int two = 0; two < (c->level->backend ? 1 : 2); two++) {
        if (!run_kernel(c, t, two, t->args)) return;
        if (!is_repeated(t) && !(two && c->level->may_differ)) fault(c, what[two]);
    }
    if (t->same && run_kernel(c, t, 0, t->same) && !is_repeated(t)) fault(c, "other args that mean the same differ");
    check_guards(c, "a guard band was written by a later run");
}

/* Bit by bit, but that any NaN is as good as another. */
static bool is_same(sg_tensor got, sg_tensor truth)
{
    for (int64_t i = 0; i < sg_count(got); i++) {
        const float g = sg_load(&got, i), t = sg_load(&truth, i);
        if (memcmp(&g, &t, sizeof g) && !(isnan(g) && isnan(t))) return false;
    }
    return true;
}

static bool is_float(sg_tensor t) { return t.dtype == SG_F32 || t.dtype == SG_BF16; }

/* Products of one sum that tensor cores cut: F32 results of BF16 operands on a device. */
static int64_t truncated_products(const ck *c, const ck_trial *t)
{
    sg_tensor yxw[3]; /* of linear and conv */
    if (strcmp(c->op->name, "linear") != 0 && strcmp(c->op->name, "conv") != 0) return 0;
    if (!c->level->backend || c->level->backend->host_memory) return 0;
    memcpy(yxw, t->args, sizeof yxw);
    const bool cut = yxw[0].dtype == SG_F32 && yxw[1].dtype == SG_BF16 && yxw[2].dtype == SG_BF16;
    return cut ? sg_count(yxw[2]) / yxw[2].dim[0] : 0;
}

static void judge(ck *c, const ck_trial *t, int k)
{
    const ck_output *const o = &t->out[k];
    sg_tensor              pool[3];
    for (int i = 0; i < 3; i++)
        pool[i] = (sg_tensor){.data = o->pool[i], .dtype = o->y.dtype, .rank = 1, .dim = {sg_count(o->y) * t->repeats}};
    const sg_verdict v = sg_budget_judge(pool[2], pool[0], pool[1], truncated_products(c, t));
    if (v.largest_max > 0) c->worst = fmax(c->worst, fmax(v.largest / v.largest_max, v.rms / v.rms_max));
    char   text[256];
    size_t at = 0;
    if (k) at = (size_t)snprintf(text, sizeof text, "output %d: ", k + 1);
    sg_verdict_text(text + at, sizeof text - at, &v);
    if (v.fault) fault(c, text);
    if (c->exact && is_float(o->y) && !is_same(pool[2], pool[0])) fault(c, "what is exact has changed");
}

/* `repeats` runs with fresh values in the same shapes, pooled: a budget measured on a handful of elements would be
 * luck. */
static void run_pooled(ck *c, const ck_trial *t)
{
    for (int r = 0; r < t->repeats; r++) {
        for (int k = 0; k < t->outputs; k++) memset(t->out[k].y.data, UNWRITTEN, t->out[k].bytes);
        for (int i = 0; i < c->buffers; i++)
            if (c->buffer[i].out ? c->adds : r > 0) fill_buffer(c, &c->buffer[i]);
        for (int k = 0; k < t->outputs; k++) memcpy(t->out[k].before, t->out[k].y.data, t->out[k].bytes);
        const uint64_t inputs = ck_hash_inputs(c);
        char           why[320];
        if (!ck_oracles(c, t, r, inputs, why)) {
            fault(c, why);
            return;
        }
        drop_packed(c->level);
        if (!run_kernel(c, t, 0, t->args)) return;
        for (int k = 0; k < t->outputs; k++)
            memcpy(t->out[k].pool[2] + (size_t)r * t->out[k].bytes, t->out[k].y.data, t->out[k].bytes);
        if (r == 0) run_others(c, t, inputs);
    }
    for (int k = 0; k < t->outputs; k++) judge(c, t, k);
    if (t->outputs == 0) fault(c, "nothing was judged");
}

static char *buffer(size_t bytes)
{
    char *const p = malloc(bytes);
    if (!p) {
        perror("checkkern");
        exit(1);
    }
    return p;
}

/* How often to run so that y is judged on POOL elements, if that is not too much work. */
static int repeats_for(const ck *c, sg_tensor y)
{
    int64_t largest = 1, repeats = sg_count(y) < POOL ? POOL / sg_count(y) : 1;
    for (int i = 0; i < c->buffers; i++)
        if (sg_count(c->buffer[i].t) > largest) largest = sg_count(c->buffer[i].t);
    if (repeats > POOL_WORK / largest) repeats = POOL_WORK / largest;
    return repeats > 1 ? (int)repeats : 1;
}

/* The outputs that are there. */
static void trial_open(ck *c, ck_trial *t)
{
    const int most = sg_op_outputs(c->op->name, t->args);
    t->repeats = 0;
    for (int k = 0; k < most; k++) {
        ck_output *const o = &t->out[t->outputs];
        o->at = (size_t)k * sizeof o->y;
        memcpy(&o->y, (const char *)t->args + o->at, sizeof o->y);
        o->bytes = sg_bytes(o->y);
        if (o->y.rank == 0) continue;
        t->outputs++;
        if (!t->repeats && is_float(o->y)) t->repeats = repeats_for(c, o->y);
    }
    if (t->repeats == 0) t->repeats = 1;
    if (t->outputs > 1 && t->repeats > 8) t->repeats = 8;
    for (int k = 0; k < t->outputs; k++) {
        ck_output *const o = &t->out[k];
        for (int i = 0; i < 3; i++) o->pool[i] = buffer(o->bytes * (size_t)t->repeats);
        o->before = buffer(o->bytes);
        o->result = buffer(o->bytes);
    }
}

static void trial_close(ck *c, ck_trial *t)
{
    for (int k = 0; k < t->outputs; k++) {
        for (int i = 0; i < 3; i++) free(t->out[k].pool[i]);
        free(t->out[k].before);
        free(t->out[k].result);
    }
    for (int i = 0; i < c->buffers; i++) {
        if (c->buffer[i].twin) c->level->backend->memory->release(c->level->backend, c->buffer[i].twin);
        munmap(c->buffer[i].region, c->buffer[i].size + PAGE);
    }
    c->buffers = 0;
    c->room = (sg_tensor){0};
}

void ck_case_same(ck *c, const void *args, const void *same)
{
    ck_trial t = {.args = args, .same = same};
    trial_open(c, &t);
    c->cases++;
    c->adds = sg_reads_output(c->op->name, args);
    run_pooled(c, &t);
    trial_close(c, &t);
}

void ck_case(ck *c, const void *args) { ck_case_same(c, args, NULL); }
