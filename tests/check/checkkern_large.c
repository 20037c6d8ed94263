/* checkkern_large.c - attend_blocks on keys and values of more than 2^31 elements each, 6.6 GB; its first and its last head
 * are held to the oracle. */
#include "checkkern.h"

#include "budget.h"
#include "meta.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 128, M = 131072, H = 130, D = 128, NK = M / SG_BLOCK_K, GROUP = 64, TENSORS = 16 };

/* A tensor in the host's memory and in that of the device, which may be the same. */
typedef struct both {
    sg_tensor host, device;
} both;

typedef struct large {
    sg_backend *backend;
    sg_stream   s;
    both        made[TENSORS];
    int         count;
    bool        short_of_memory;
} large;

static uint64_t hash(uint64_t i)
{
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    return i ^ i >> 31;
}

/* About -2 to 2, by the place in the tensor alone; scales between 1/2 and 1. */
static void fill(sg_tensor t, uint64_t salt, bool scales)
{
    const int64_t n = sg_count(t);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = hash((uint64_t)i * 16 + salt) >> 40;
        if (t.dtype == SG_I8)
            ((int8_t *)t.data)[i] = (int8_t)((int)(v % 255) - 127);
        else if (t.dtype == SG_U16) /* a list of every eighth block, from another one on in each row */
            ((uint16_t *)t.data)[i] = (uint16_t)((i % NK * 8 + i / NK % 8) % NK);
        else if (t.dtype == SG_I32)
            ((int32_t *)t.data)[i] = NK / 8;
        else
            sg_store(&t, i, scales ? 0.5f + (float)v * 0x1p-25f : (float)v * 0x1p-22f - 2);
    }
}

static sg_tensor *made(large *l, sg_dtype type, bool scales, int rank, const int64_t *dim)
{
    both *const b = &l->made[l->count++];
    b->host = (sg_tensor){.dtype = type, .rank = rank};
    for (int i = 0; i < rank; i++) b->host.dim[i] = dim[i];
    const size_t bytes = sg_bytes(b->host);
    b->device = b->host;
    b->device.data = l->backend->memory->alloc(l->backend, bytes);
    b->host.data = l->backend->host_memory ? b->device.data : malloc(bytes);
    l->short_of_memory = !b->host.data || !b->device.data;
    if (l->short_of_memory) return &b->device;
    fill(b->host, (uint64_t)l->count, scales);
    if (!l->backend->host_memory) l->s.memory->upload(&l->s, b->device.data, b->host.data, bytes);
    return &b->device;
}
#define made(l, type, scales, ...) made(l, type, scales, SG_DIMS(__VA_ARGS__))

/* Place g of an axis alone, in memory of its own; an absent tensor as it is. */
static sg_tensor one_of(sg_tensor t, int axis, int64_t g)
{
    int64_t outer = 1, inner = 1;
    if (t.rank == 0) return t;
    for (int i = 0; i < axis; i++) outer *= t.dim[i];
    for (int i = axis + 1; i < t.rank; i++) inner *= t.dim[i];
    const size_t      bytes = (size_t)inner * sg_dtype_size(t.dtype), step = bytes * (size_t)t.dim[axis];
    const char *const from = t.data;
    t.dim[axis] = 1;
    t.data = malloc((size_t)outer * bytes);
    if (!t.data) exit(1);
    for (int64_t i = 0; i < outer; i++)
        memcpy((char *)t.data + (size_t)i * bytes, from + (size_t)i * step + (size_t)g * bytes, bytes);
    return t;
}

/* The args of the host's tensors. */
static sg_attend_blocks_args on_host(const large *l, const sg_attend_blocks_args *a)
{
    sg_attend_blocks_args x = *a;
    sg_tensor             t;
    for (size_t at = 0; at < sg_attend_blocks_tensors * sizeof t; at += sizeof t) {
        memcpy(&t, (char *)&x + at, sizeof t);
        for (int i = 0; i < l->count; i++)
            if (t.rank && t.data == l->made[i].device.data) memcpy((char *)&x + at, &l->made[i].host, sizeof t);
    }
    return x;
}

static bool judge_head(const sg_attend_blocks_args *host, int64_t g)
{
    sg_attend_blocks_args a = *host;
    const sg_ops *const   oracle[] = {&sg_ref_ops, &sg_ref_rounded_ops};
    sg_tensor             y[3]; /* got, truth, rounded */
    a.q = one_of(host->q, 0, g);
    a.q_scale = one_of(host->q_scale, 1, g);
    a.k = one_of(host->k, 0, g);
    a.k_scale = one_of(host->k_scale, 1, g);
    a.v = one_of(host->v, 1, g);
    a.list = one_of(host->list, 0, g);
    a.count = one_of(host->count, 0, g);
    a.tail_k = one_of(host->tail_k, 0, g);
    a.tail_k_scale = one_of(host->tail_k_scale, 1, g);
    a.tail_v = one_of(host->tail_v, 1, g);
    y[0] = one_of(host->y, 1, g);
    for (int i = 0; i < 2; i++) {
        sg_stream s = {.ops = oracle[i]};
        a.y = y[1 + i] = one_of(host->y, 1, g);
        sg_attend_blocks_(&s, &a);
        if (s.status) printf("FAIL  large       %s\n", s.why);
    }
    const sg_verdict v = sg_budget_judge(y[0], y[1], y[2], 0);
    char             text[256];
    sg_verdict_text(text, sizeof text, &v);
    printf("%-5s large       attend_blocks, head %lld of %d: %s\n", v.fault ? "FAIL" : "ok", (long long)g, H, text);
    const sg_tensor own[] = {a.q,      a.q_scale,      a.k,      a.k_scale, a.v,  a.list, a.count,
                             a.tail_k, a.tail_k_scale, a.tail_v, y[0],      y[1], y[2]};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) free(own[i].data);
    return !v.fault;
}

static int run(large *l)
{
    sg_attend_blocks_args a = {.q_group = GROUP, .k_group = GROUP, .scale = 1 / (5376 * sqrtf(D))};
    a.y = *made(l, SG_F32, false, N, H, D);
    a.q = *made(l, SG_I8, false, H, N, D);
    a.q_scale = *made(l, SG_F32, true, N / GROUP, H);
    a.k = *made(l, SG_I8, false, H, M, D);
    a.k_scale = *made(l, SG_F32, true, M / GROUP, H);
    a.v = *made(l, SG_BF16, false, M, H, D);
    a.list = *made(l, SG_U16, false, H, N / SG_BLOCK_Q, NK);
    a.count = *made(l, SG_I32, false, H, N / SG_BLOCK_Q);
    a.tail_k = *made(l, SG_I8, false, H, NK, D);
    a.tail_k_scale = *made(l, SG_F32, true, NK / SG_BLOCK_K, H);
    a.tail_v = *made(l, SG_F32, false, NK, H, D);
    if (l->short_of_memory) {
        printf("FAIL  large       7 GB of memory are not there\n");
        return 1;
    }
    sg_attend_blocks_(&l->s, &a);
    const sg_attend_blocks_args host = on_host(l, &a);
    if (!l->backend->host_memory) l->s.memory->download(&l->s, host.y.data, a.y.data, sg_bytes(a.y));
    if (l->s.status) {
        printf("FAIL  large       %s\n", l->s.why);
        return 1;
    }
    return !judge_head(&host, 0) + !judge_head(&host, H - 1);
}

int ck_large(const char *backend)
{
    large    l = {0};
    sg_error e = {0};
    if (sg_backend_open(&l.backend, &(sg_backend_options){.name = backend}, &e)) {
        printf("FAIL  large       %s\n", e.text);
        return 1;
    }
    l.s = sg_stream_of(l.backend);
    const int faults = run(&l);
    for (int i = 0; i < l.count; i++) {
        if (!l.backend->host_memory) free(l.made[i].host.data);
        if (l.made[i].device.data) l.backend->memory->release(l.backend, l.made[i].device.data);
    }
    sg_backend_close(&l.backend);
    return faults;
}
