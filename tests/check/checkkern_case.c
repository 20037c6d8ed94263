/* checkkern_case.c - tensors with guards and one case of one op. */
#include "checkkern.h"

#include "budget.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { GUARD = 64, PAGE = 4096, POISON = 0x99, UNWRITTEN = 0xff, POOL = 4096, ARGS_MAX = 1024 };

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
    case CK_MASKED: return -INFINITY;
    case CK_WIDE: return ldexpf(ck_draw(c, 2) ? 1.5f : -1.0f, (int)ck_draw(c, 121) - 60);
    case CK_TIES: return nextafterf(((float)ck_draw(c, 256) + 0.5f) / 127.5f - 1, (float)ck_draw(c, 3) * 4 - 4);
    case CK_HALVES: return half_way(ck_normal(c));
    default: return ck_normal(c);
    }
}

static void fill_buffer(ck *c, const ck_buffer *b)
{
    const sg_tensor *const t = &b->t;
    const int64_t          n = sg_count(*t);
    if (t->dtype == SG_I32 || t->dtype == SG_U8) {
        for (int64_t i = 0; i < n; i++)
            if (t->dtype == SG_I32) ((int32_t *)t->data)[i] = (int32_t)ck_draw(c, (uint64_t)b->below);
        return;
    }
    const float constant = 0.1f + 3 * ck_normal(c);
    for (int64_t i = 0; i < n; i++) sg_store(t, i, one_of(c, b->fill, constant));
    if (n == 0) return;
    const int64_t at = (int64_t)ck_draw(c, (uint64_t)n);
    if (b->fill == CK_OUTLIER) sg_store(t, at, 100 * ck_normal(c));
    if (b->fill == CK_INF) sg_store(t, at, ck_draw(c, 2) ? INFINITY : -INFINITY);
    if (b->fill == CK_NAN) sg_store(t, at, NAN);
    if (b->fill == CK_MASK) {
        bool hidden = false;
        for (int64_t i = 0; i < n; i++) {
            if (ck_draw(c, 7) == 0) hidden = !hidden;
            sg_store(t, i, hidden ? -INFINITY : 0);
        }
    }
}

/* Half of all tensors end where a protected page begins, so that reading beyond them crashes; the others lie anywhere
 * an element may and have guard bands on both sides. */
static ck_buffer *buffer_new(ck *c, sg_dtype type, int rank, const int64_t *dim)
{
    ck_buffer *const b = &c->buffer[c->buffers++];
    *b = (ck_buffer){.t = {.dtype = type, .rank = rank}};
    for (int i = 0; i < rank; i++) b->t.dim[i] = dim[i];
    const size_t bytes = sg_bytes(b->t), element = sg_dtype_size(type);
    b->size = (bytes + 3 * GUARD + PAGE - 1) / PAGE * PAGE;
    b->region = mmap(NULL, b->size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b->region == MAP_FAILED || mprotect(b->region + b->size, PAGE, PROT_NONE)) {
        perror("checkkern: mmap");
        exit(1);
    }
    memset(b->region, POISON, b->size);
    const sg_backend *const device = c->level->backend;
    if (device && !device->host_memory && !(b->twin = device->memory->alloc(b->size))) {
        fprintf(stderr, "checkkern: the device has no memory\n");
        exit(1);
    }
    const size_t shift = element * (size_t)ck_draw(c, GUARD / element);
    b->t.data = b->region + (ck_draw(c, 2) ? b->size - bytes : GUARD + shift);
    return b;
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

static bool guards_intact(const ck_buffer *b)
{
    const unsigned char *const from = b->t.data, *const to = from + sg_bytes(b->t);
    for (const unsigned char *p = b->region; p < b->region + b->size; p++)
        if ((p < from || p >= to) && *p != POISON) return false;
    return true;
}

static uint64_t hash_inputs(const ck *c)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int i = 0; i < c->buffers; i++)
        if (!c->buffer[i].out)
            for (size_t k = 0; k < c->buffer[i].size; k++) h = (h ^ c->buffer[i].region[k]) * 0x100000001b3u;
    return h;
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
    static const char *const fill[CK_FILLS] = {"",    "const", "outlier", "large",  "tiny", "zero", "integer",
                                               "nan", "inf",   "mask",    "masked", "wide", "ties", "halves"};
    size_t                   at = 0;
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
    return l->backend ? sg_stream_on(l->backend) : (sg_stream){.ops = &l->ops, .impl = l->cpu[two]};
}

static void drop_packed(const ck_level *l)
{
    if (l->backend) sg_backend_drop_packed(l->backend);
    for (int i = 0; !l->backend && i < 2; i++) sg_packs_drop(l->cpu[i]);
}

/* All regions to the device, or back. After a crash there a device does nothing more: the run ends. */
static void move_twins(ck *c, sg_stream *s, bool back)
{
    for (int i = 0; i < c->buffers; i++) {
        const ck_buffer *const b = &c->buffer[i];
        if (!b->twin) continue;
        const sg_status e = back ? s->memory->download(s, b->region, b->twin, b->size)
                                 : s->memory->upload(s, b->twin, b->region, b->size);
        if (!e) continue;
        fault(c, s->why);
        printf("FAIL  %-11s %-9s %s\n", c->level->name, c->op->name, c->first);
        exit(1);
    }
}

/* The tensors that stand first in args, as the kernel sees them. No number behind them is the address of a buffer. */
static void use_twins(const ck *c, unsigned char *args)
{
    sg_tensor t;
    for (size_t at = 0; at + sizeof t <= c->op->args_size; at += sizeof t) {
        memcpy(&t, args + at, sizeof t);
        for (int i = 0; i < c->buffers; i++) {
            const ck_buffer *const b = &c->buffer[i];
            if (!b->twin || t.data != b->t.data) continue;
            t.data = b->twin + ((unsigned char *)b->t.data - b->region);
            memcpy(args + at, &t, sizeof t);
            break;
        }
    }
}

/* Both oracles into memory of their own. */
static bool run_oracles(ck *c, void *args, sg_tensor y, const void *before, sg_tensor twin[2])
{
    for (int i = 0; i < 2; i++) {
        sg_stream s = {.ops = i ? &sg_ref_rounded_ops : &sg_ref_ops};
        memcpy(twin[i].data, before, sg_bytes(y));
        memcpy(args, &twin[i], sizeof twin[i]);
        c->op->call(&s, args);
        if (s.status) {
            fault(c, s.why);
            return false;
        }
    }
    memcpy(args, &y, sizeof y);
    return true;
}

/* The kernel on the level's one or two threads into y, which first holds `before`. */
static bool run_kernel(ck *c, int two, const void *args, sg_tensor y, const void *before)
{
    unsigned char own[ARGS_MAX];
    sg_stream     s = stream_of(c->level, two);
    memcpy(own, args, c->op->args_size);
    memcpy(y.data, before, sg_bytes(y));
    use_twins(c, own);
    move_twins(c, &s, false);
    const int signal_number = call_guarded(c, &s, own);
    move_twins(c, &s, true);
    char text[64];
    snprintf(text, sizeof text, "crashed with signal %d", signal_number);
    if (signal_number) fault(c, text);
    if (s.status) fault(c, s.why);
    return !signal_number && !s.status;
}

/* What one run cannot show: its effects beside the output, and whether others agree with it. */
static void run_others(ck *c, const void *args, sg_tensor y, const void *before, uint64_t inputs, void *result)
{
    static const char *const what[] = {"a second run differs", "two threads differ from one"};
    for (int i = 0; i < c->buffers; i++)
        if (!guards_intact(&c->buffer[i])) fault(c, "a guard band was written");
    if (hash_inputs(c) != inputs) fault(c, "an input was written");
    memcpy(result, y.data, sg_bytes(y));
    for (int two = 0; two < (c->level->backend ? 1 : 2); two++) {
        if (!run_kernel(c, two, args, y, before)) return;
        if (memcmp(result, y.data, sg_bytes(y)) && !(two && c->level->may_differ)) fault(c, what[two]);
    }
    for (int i = 0; i < c->buffers; i++)
        if (!guards_intact(&c->buffer[i])) fault(c, "a guard band was written by a later run");
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

/* `repeats` runs with fresh values in the same shapes, pooled into three long tensors: a budget measured on a handful
 * of elements would be luck. */
static void run_pooled(ck *c, void *args, sg_tensor y, int repeats, sg_tensor pool[3], void *before, void *result)
{
    const size_t bytes = sg_bytes(y);
    for (int r = 0; r < repeats; r++) {
        memset(y.data, UNWRITTEN, bytes);
        for (int i = 0; i < c->buffers; i++)
            if (c->buffer[i].out ? c->adds : r > 0) fill_buffer(c, &c->buffer[i]);
        memcpy(before, y.data, bytes);
        sg_tensor twin[2] = {y, y};
        for (int i = 0; i < 2; i++) twin[i].data = (char *)pool[i].data + (size_t)r * bytes;
        if (!run_oracles(c, args, y, before, twin)) return;
        drop_packed(c->level);
        const uint64_t inputs = hash_inputs(c);
        if (!run_kernel(c, 0, args, y, before)) return;
        memcpy((char *)pool[2].data + (size_t)r * bytes, y.data, bytes);
        if (r == 0) run_others(c, args, y, before, inputs, result);
    }
    const sg_verdict v = sg_budget_judge(pool[2], pool[0], pool[1]);
    if (v.top_max > 0) c->worst = fmax(c->worst, fmax(v.top / v.top_max, v.rms / v.rms_max));
    char text[256];
    sg_verdict_text(text, sizeof text, &v);
    if (v.fault) fault(c, text);
    if (c->exact && !is_same(pool[2], pool[0])) fault(c, "what is only moved has changed");
}

void ck_case(ck *c, const void *args)
{
    unsigned char copy[ARGS_MAX];
    memcpy(copy, args, c->op->args_size);
    sg_tensor y;
    memcpy(&y, args, sizeof y);
    const size_t bytes = sg_bytes(y);
    const bool   pools = (y.dtype == SG_F32 || y.dtype == SG_BF16) && sg_count(y) < POOL;
    const int    repeats = pools ? (int)(POOL / sg_count(y)) : 1;
    sg_tensor    pool[3];
    for (int i = 0; i < 3; i++)
        pool[i] = (sg_tensor){malloc(bytes * (size_t)repeats), y.dtype, 1, {sg_count(y) * repeats}};
    void *const before = malloc(bytes), *const result = malloc(bytes);
    if (!pool[0].data || !pool[1].data || !pool[2].data || !before || !result) {
        perror("checkkern");
        exit(1);
    }
    c->cases++;
    c->adds = sg_reads_output(c->op->name, args);
    run_pooled(c, copy, y, repeats, pool, before, result);
    for (int i = 0; i < 3; i++) free(pool[i].data);
    free(before);
    free(result);
    for (int i = 0; i < c->buffers; i++) {
        if (c->buffer[i].twin) c->level->backend->memory->release(c->buffer[i].twin);
        munmap(c->buffer[i].region, c->buffer[i].size + PAGE);
    }
    c->buffers = 0;
}
