/* checkkern_bench.c - how fast an entry is, on shapes of real models. A command, never a test. */
#include "checkkern.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A tensor of small values, of I8 all there are, that lives until the end of the program. */
static sg_tensor made(sg_dtype type, int rank, const int64_t *dim)
{
    sg_tensor t = {.dtype = type, .rank = rank};
    for (int i = 0; i < rank; i++) t.dim[i] = dim[i];
    t.data = aligned_alloc(SG_ALIGN, (sg_bytes(t) + SG_ALIGN) / SG_ALIGN * SG_ALIGN);
    if (!t.data) exit(1);
    for (int64_t i = 0; i < sg_count(t); i++) {
        const float v = type == SG_I8 ? (float)(i * 7919 % 255 - 127) : (float)((i * 7919) % 1001 - 500) * 0.002f;
        sg_store(&t, i, v);
    }
    return t;
}
#define made(type, ...) made(type, SG_DIMS(__VA_ARGS__))

/* The same without signs, for F32: scales, scores, shares. */
static sg_tensor positive(sg_tensor t)
{
    for (int64_t i = 0; i < sg_count(t); i++) ((float *)t.data)[i] = fabsf(((float *)t.data)[i]);
    return t;
}

static double thread_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Best of at least four runs and a fifth of a second, on one thread by its processor time, which other work on the
 * machine disturbs little, and on two by the clock. `work` is flops or bytes of one run. */
#define BENCH(l, op, shape, work, unit, ...)                                                                           \
    do {                                                                                                               \
        const sg_##op##_args a_ = {__VA_ARGS__};                                                                       \
        double               best_[2] = {1e30, 1e30};                                                                  \
        for (int two_ = 0; two_ < 2; two_++) {                                                                         \
            sg_stream s_ = {.ops = &(l)->ops, .impl = (l)->cpu[two_]};                                                 \
            double    all_ = 0;                                                                                        \
            sg_##op##_(&s_, &a_);                                                                                      \
            for (int r_ = 0; r_ < 4 || all_ < 0.2; r_++) {                                                             \
                const double from_ = two_ ? omp_get_wtime() : thread_time();                                           \
                sg_##op##_(&s_, &a_);                                                                                  \
                const double took_ = (two_ ? omp_get_wtime() : thread_time()) - from_;                                 \
                best_[two_] = fmin(best_[two_], took_);                                                                \
                all_ += took_;                                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        printf("%-11s %-13s %-44s %9.3f ms %7.1f %s; two threads %9.3f ms %7.1f\n", (l)->name, #op, shape,             \
               best_[0] * 1e3, (double)(work)*1e-9 / best_[0], unit, best_[1] * 1e3, (double)(work)*1e-9 / best_[1]);  \
        fflush(stdout);                                                                                                \
    } while (0)

static void bench_linear(ck_level *l)
{
    static const int64_t shape[][3] = {
        {2304, 384, 1152}, {2304, 1152, 384}, {64, 384, 1152}, {1, 1536, 9216}, {512, 1536, 8960}};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            const int64_t  n = shape[i][0], m = shape[i][1], o = shape[i][2];
            const sg_dtype t = k ? SG_BF16 : SG_F32;
            char           text[64];
            snprintf(text, sizeof text, "%s x %s, %lld x %lld -> %lld, gelu", sg_dtype_name(t), sg_dtype_name(t),
                     (long long)n, (long long)m, (long long)o);
            BENCH(l, linear, text, 2 * n * m * o, "GFLOP/s", .y = made(t, n, o), .x = made(t, n, m), .w = made(t, o, m),
                  .b = made(SG_F32, o), .act = SG_ACT_GELU_TANH);
        }
}

static void bench_conv(ck_level *l)
{
    static const int64_t shape[][5] = {
        {5, 128, 64, 64, 3}, {3, 64, 384, 384, 3}, {3, 128, 96, 3, 3}, {3, 128, 12, 96, 3}, {3, 64, 192, 384, 1}};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            const int64_t  f = shape[i][0], y = shape[i][1], m = shape[i][2], o = shape[i][3], c = shape[i][4];
            const sg_dtype t = k ? SG_BF16 : SG_F32;
            char           text[64];
            snprintf(text, sizeof text, "%s %lldx%lldx%lld, %lld -> %lld, %lldx%lldx%lld", sg_dtype_name(t),
                     (long long)f, (long long)y, (long long)y, (long long)m, (long long)o, (long long)c, (long long)c,
                     (long long)c);
            const int p = (int)c / 2;
            BENCH(l, conv, text, 2 * (f - c + 1) * y * y * m * o * c * c * c, "GFLOP/s",
                  .y = made(t, f - c + 1, y, y, o), .x = made(t, f, y, y, m), .w = made(t, o, m, c, c, c),
                  .b = made(SG_F32, o), .stride = {1, 1, 1}, .pad = {p, p, p, p});
        }
}

/* Four frames of Mochi's decoder, with zeros beyond the edge and with replicated ones. */
static void bench_edges(ck_level *l)
{
    static const int64_t shape[][3] = {{240, 424, 128}, {60, 106, 512}};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++) {
            const int64_t  y = shape[i / 2][0], x = shape[i / 2][1], c = shape[i / 2][2];
            const sg_dtype t = k ? SG_BF16 : SG_F32;
            char           text[64];
            snprintf(text, sizeof text, "%s 6x%lldx%lld, %lld -> %lld, 3x3x3, %s", sg_dtype_name(t), (long long)y,
                     (long long)x, (long long)c, (long long)c, i % 2 ? "replicated" : "zeros");
            BENCH(l, conv, text, 2 * 4 * y * x * c * c * 27, "GFLOP/s", .y = made(t, 4, y, x, c),
                  .x = made(t, 6, y, x, c), .w = made(t, c, c, 3, 3, 3), .b = made(SG_F32, c), .stride = {1, 1, 1},
                  .pad = {1, 1, 1, 1}, .edge = i % 2 ? SG_EDGE_REPLICATE : SG_EDGE_ZERO);
        }
}

static void bench_attend(ck_level *l)
{
    static const int64_t shape[][3] = {{2304, 6, 64}, {8190, 12, 128}, {2304, 6, 12}, {1024, 1, 384}};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
            const int64_t  n = shape[i][0], h = shape[i][1], d = shape[i][2];
            const sg_dtype t = k ? SG_BF16 : SG_F32;
            char           text[64];
            snprintf(text, sizeof text, "%s n=%lld h=%lld d=%lld", sg_dtype_name(t), (long long)n, (long long)h,
                     (long long)d);
            BENCH(l, attend, text, 4 * n * n * h * d, "GFLOP/s", .y = made(t, n, h, d), .q = made(t, n, h, d),
                  .k = made(t, n, h, d), .v = made(t, n, h, d), .scale = 1 / sqrtf((float)d));
        }
}

/* A video of n tokens: every block, every other one, every other one with a tail; v in 8 bits, F32 and BF16. */
static void bench_attend_blocks(ck_level *l, int64_t n, int64_t h, int64_t d)
{
    static const sg_dtype types[] = {SG_I8, SG_F32, SG_BF16};
    const int64_t         nq = (n + 127) / 128, nk = (n + 63) / 64;
    sg_attend_blocks_args a = {.y = made(SG_F32, n, h, d),
                               .q = made(SG_I8, h, n, d),
                               .q_scale = positive(made(SG_F32, (n + 31) / 32, h)),
                               .k = made(SG_I8, h, n, d),
                               .k_scale = positive(made(SG_F32, nk, h)),
                               .q_group = 32,
                               .k_group = 64,
                               .scale = 1e-3f / sqrtf((float)d)};
    for (int k = 0; k < 9; k++) {
        const sg_dtype t = types[k / 3];
        a.v = t == SG_I8 ? made(t, h, n, d) : made(t, n, h, d);
        a.v_scale = t == SG_I8 ? positive(made(SG_F32, h, d)) : (sg_tensor){0};
        a.list = k % 3 ? made(SG_U16, h, nq, nk) : (sg_tensor){0};
        a.count = k % 3 ? made(SG_I32, h, nq) : (sg_tensor){0};
        for (int64_t i = 0; i < sg_count(a.list); i++) sg_store(&a.list, i, (float)(i % nk * 2 % nk)); /* every other */
        for (int64_t i = 0; i < sg_count(a.count); i++) sg_store(&a.count, i, (float)(nk / 2));
        a.tail_k = k % 3 == 2 ? made(SG_I8, h, nk, d) : (sg_tensor){0};
        a.tail_k_scale = k % 3 == 2 ? positive(made(SG_F32, (nk + 63) / 64, h)) : (sg_tensor){0};
        a.tail_v = k % 3 < 2 ? (sg_tensor){0} : t == SG_I8 ? made(t, h, nk, d) : made(SG_F32, nk, h, d);
        char text[64];
        snprintf(text, sizeof text, "v %s, n=%lld h=%lld d=%lld, %s", sg_dtype_name(t), (long long)n, (long long)h,
                 (long long)d,
                 k % 3 == 0   ? "all"
                 : k % 3 == 1 ? "half"
                              : "half and tail");
        const int64_t work = 4 * n * n * h * d / (k % 3 ? 2 : 1); /* of what is computed */
        BENCH(l, attend_blocks, text, work, "Gop/s", .y = a.y, .q = a.q, .q_scale = a.q_scale, .k = a.k,
              .k_scale = a.k_scale, .v = a.v, .v_scale = a.v_scale, .list = a.list, .count = a.count,
              .tail_k = a.tail_k, .tail_k_scale = a.tail_k_scale, .tail_v = a.tail_v, .q_group = a.q_group,
              .k_group = a.k_group, .scale = a.scale);
    }
}

/* What comes before it, for n tokens in type t. */
static void bench_predict(ck_level *l, const char *name, sg_dtype t, int64_t n, int64_t h, int64_t d)
{
    const int64_t nq = (n + 127) / 128, nk = (n + 63) / 64, bytes = n * h * d * (int64_t)sg_dtype_size(t);
    char          text[64];
    snprintf(text, sizeof text, "%s n=%lld h=%lld d=%lld", sg_dtype_name(t), (long long)n, (long long)h, (long long)d);
#define IS(op) (strcmp(name, op) == 0)
    if (IS("pool"))
        BENCH(l, pool, text, bytes, "GB/s", .mean = made(SG_F32, nk, h, d), .var = made(SG_F32, nk, h, d),
              .sub = made(SG_F32, (n + 15) / 16, h, d), .total = made(SG_F32, h, d), .x = made(t, n, h, d),
              .block = SG_BLOCK_K);
    if (IS("self_similarity"))
        BENCH(l, self_similarity, text, bytes, "GB/s", .y = made(SG_F32, nk, h), .x = made(t, n, h, d),
              .center = made(SG_F32, h, d), .block = SG_BLOCK_K);
    if (IS("quantise"))
        BENCH(l, quantise, text, bytes + n * h * d, "GB/s", .y = made(SG_I8, h, n, d), .scale = made(SG_F32, nk, h),
              .x = made(t, n, h, d), .center = made(SG_F32, h, d), .group = SG_BLOCK_K);
    if (t == SG_BF16) return; /* the rest knows F32 alone */
    for (int sub = 0; sub < 2 && IS("score"); sub++) {
        const int64_t qs = sub ? (n + 15) / 16 : nq, ks = sub ? (n + 15) / 16 : nk;
        snprintf(text, sizeof text, "%s n=%lld h=%lld d=%lld", sub ? "of 16" : "of blocks", (long long)n, (long long)h,
                 (long long)d);
        BENCH(l, score, text, 2 * qs * ks * h * d, "GFLOP/s", .y = made(SG_F32, h, nq, nk), .q = made(SG_F32, qs, h, d),
              .k = made(SG_F32, ks, h, d), .scale = 1 / sqrtf((float)d), .sub = sub, .n = n, .m = n);
    }
    for (int rule = 0; rule < 3 && IS("select"); rule++) { /* 2: one budget for all heads */
        snprintf(text, sizeof text, "%s n=%lld h=%lld",
                 rule == 1 ? "mass"
                 : rule    ? "top-k, heads"
                           : "top-k",
                 (long long)n, (long long)h);
        BENCH(l, select, text, 4 * h * nq * nk, "GB/s", .list = made(SG_U16, h, nq, nk), .count = made(SG_I32, h, nq),
              .kept = made(SG_I32, h, 2), .mass = made(SG_F32, h), .score = positive(made(SG_F32, h, nq, nk)),
              .amount = positive(made(SG_F32, h)), .rule = rule == 1 ? SG_SELECT_MASS : SG_SELECT_TOPK,
              .heads = rule == 2, .n = n, .m = n);
    }
    if (IS("tail_bias"))
        BENCH(l, tail_bias, text, 2 * nq * nk * h * d, "GFLOP/s", .y = made(SG_F32, h, nq, nk),
              .q_mean = made(SG_F32, nq, h, d), .q_var = made(SG_F32, nq, h, d), .k_var = made(SG_F32, nk, h, d),
              .scale = 1 / sqrtf((float)d));
}

/* Decoders of CogVideoX, whose latents have an eighth of the rows, and of Mochi. x is read twice: it is larger than a cache. */
static void bench_groups(ck_level *l, sg_dtype t)
{
    static const int64_t shape[][4] = {{4, 60, 90, 256}, {1, 60, 106, 512}, {2, 240, 360, 128}};
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++)
        for (int k = 0; k < 3; k++) {
            const int64_t   f = shape[i][0], y = shape[i][1], x = shape[i][2], c = shape[i][3], r = k == 2 ? 4 : 0;
            const sg_tensor none = {0}, scale = r ? made(t, f, y / r, x / r, c) : none;
            char            text[64];
            snprintf(text, sizeof text, "%s %lldx%lldx%lldx%lld, 32 groups%s%s", sg_dtype_name(t), (long long)f,
                     (long long)y, (long long)x, (long long)c, k ? ", silu" : "", r ? ", placed" : "");
            const int64_t bytes = 3 * f * y * x * c * (int64_t)sg_dtype_size(t) + 2 * (int64_t)sg_bytes(scale);
            BENCH(l, norm, text, bytes, "GB/s", .y = made(t, f, y, x, c), .x = made(t, f, y, x, c),
                  .w = made(SG_F32, c), .b = made(SG_F32, c), .place_scale = scale,
                  .place_shift = r ? made(t, f, y / r, x / r, c) : none, .kind = SG_NORM_GROUP,
                  .act = k ? SG_ACT_SILU : SG_ACT_NONE, .eps = 1e-6f, .groups = 32);
        }
}

static void bench_rows(ck_level *l, const char *name, sg_dtype t)
{
    const int64_t     n = 2304, c = 1536, e = (int64_t)sg_dtype_size(t), all = n * c;
    const char *const text = t == SG_F32 ? "F32 2304x1536" : "BF16 2304x1536";
    if (IS("norm"))
        BENCH(l, norm, text, 2 * all * e, "GB/s", .y = made(t, n, c), .x = made(t, n, c), .scale = made(SG_F32, c),
              .shift = made(SG_F32, c), .eps = 1e-6f);
    if (IS("norm"))
        BENCH(l, norm, t == SG_F32 ? "F32 65536x96 L2, silu" : "BF16 65536x96 L2, silu", 2 * 65536 * 96 * e, "GB/s",
              .y = made(t, 65536, 96), .x = made(t, 65536, 96), .w = made(SG_F32, 96), .kind = SG_NORM_L2,
              .act = SG_ACT_SILU);
    if (IS("norm")) bench_groups(l, t);
    if (IS("rope"))
        BENCH(l, rope, t == SG_F32 ? "F32 2304x12x128, angles by head" : "BF16 2304x12x128, angles by head",
              2 * all * e + 4 * all, "GB/s", .y = made(t, n, 12, 128), .x = made(t, n, 12, 128), .w = made(SG_F32, 128),
              .cos = made(SG_F32, n, 12, 64), .sin = made(SG_F32, n, 12, 64), .eps = 1e-5f);
    if (IS("gate_add"))
        BENCH(l, gate_add, t == SG_F32 ? "F32 2304x1536, tanh" : "BF16 2304x1536, tanh", 3 * all * e, "GB/s",
              .x = made(t, n, c), .r = made(t, n, c), .gate = made(SG_F32, c), .tanh_gate = true);
    if (IS("rope"))
        BENCH(l, rope, text, 2 * all * e, "GB/s", .y = made(t, n, 12, 128), .x = made(t, n, 12, 128),
              .cos = made(SG_F32, n, 64), .sin = made(SG_F32, n, 64));
    if (IS("gate_add"))
        BENCH(l, gate_add, text, 3 * all * e, "GB/s", .x = made(t, n, c), .r = made(t, n, c), .gate = made(SG_F32, c));
    if (IS("add")) BENCH(l, add, text, 3 * all * e, "GB/s", .y = made(t, n, c), .a = made(t, n, c), .b = made(t, n, c));
    if (IS("mul")) BENCH(l, mul, text, 3 * all * e, "GB/s", .y = made(t, n, c), .a = made(t, n, c), .b = made(t, n, c));
    if (IS("act"))
        BENCH(l, act, text, 2 * all * e, "GB/s", .y = made(t, n, c), .x = made(t, n, c), .act = SG_ACT_GELU_TANH);
    if (IS("count_non_finite"))
        BENCH(l, count_non_finite, text, all * e, "GB/s", .y = made(SG_I32, 1), .x = made(t, n, c));
    if (IS("distance") && t == SG_F32)
        BENCH(l, distance, text, 2 * all * e, "GB/s", .y = made(SG_F32, 256, 2), .a = made(t, n, c), .b = made(t, n, c));
    if (IS("copy")) BENCH(l, copy, text, all * (e + 4), "GB/s", .y = made(SG_F32, n, c), .x = made(t, n, c));
    if (IS("rgb8"))
        BENCH(l, rgb8, text, all * (e + 1), "GB/s", .y = made(SG_U8, n, c / 3, 3), .x = made(t, n, c / 3, 3));
}

static void bench_moves(ck_level *l, const char *name, sg_dtype t)
{
    const int64_t     e = (int64_t)sg_dtype_size(t);
    const char *const type = sg_dtype_name(t);
    char              text[64];
#define SAY(...) (snprintf(text, sizeof text, __VA_ARGS__), text)
    if (IS("permute")) {
        BENCH(l, permute, SAY("%s channels last to first, 5x128x128x96", type), 2 * 5 * 128 * 128 * 96 * e, "GB/s",
              .y = made(t, 5 * 128 * 128 * 96), .x = made(t, 5 * 128 * 128 * 96), .rank = 2, .dim = {5 * 128 * 128, 96},
              .perm = {1, 0});
        BENCH(l, permute, SAY("%s patches 9x16x16 of 1x2x2, 48 channels", type), 2 * 9 * 32 * 32 * 48 * e, "GB/s",
              .y = made(t, 9 * 32 * 32 * 48), .x = made(t, 9 * 32 * 32 * 48), .rank = 6, .dim = {48, 9, 16, 2, 16, 2},
              .perm = {1, 2, 4, 0, 3, 5});
        BENCH(l, permute, SAY("%s patches back, channels last 4x128x128x12", type), 2 * 4 * 128 * 128 * 12 * e, "GB/s",
              .y = made(t, 4 * 128 * 128 * 12), .x = made(t, 4 * 128 * 128 * 12), .rank = 6,
              .dim = {4, 128, 128, 3, 2, 2}, .perm = {0, 1, 5, 2, 4, 3});
    }
    if (IS("upsample")) {
        BENCH(l, upsample, SAY("%s 4x64x64x96", type), 5 * 4 * 64 * 64 * 96 * e, "GB/s", .y = made(t, 4, 128, 128, 96),
              .x = made(t, 4, 64, 64, 96));
        BENCH(l, upsample, SAY("%s linear 3x80x80x512", type), (3 + 16) * 80 * 80 * 512 * e, "GB/s",
              .y = made(t, 4, 160, 160, 512), .x = made(t, 3, 80, 80, 512), .linear = true, .near = 0.75f);
    }
    if (IS("avg_down"))
        BENCH(l, avg_down, SAY("%s 4x128x128, 96 -> 192, 2x2x2", type), (4 * 128 * 128 * 96 + 2 * 64 * 64 * 192) * e,
              "GB/s", .y = made(t, 2, 64, 64, 192), .x = made(t, 4, 128, 128, 96), .ft = 2, .fs = 2);
    if (IS("dup_up"))
        BENCH(l, dup_up, SAY("%s 2x64x64, 192 -> 96, 2x2x2", type), (4 * 128 * 128 * 96 + 2 * 64 * 64 * 192) * e,
              "GB/s", .y = made(t, 4, 128, 128, 96), .x = made(t, 2, 64, 64, 192), .ft = 2, .fs = 2);
    if (IS("combine") && t == SG_F32)
        BENCH(l, combine, "F32 4 x 1474560", 5 * 4 * 1474560, "GB/s", .y = made(t, 1474560),
              .x = {made(t, 1474560), made(t, 1474560), made(t, 1474560), made(t, 1474560)}, .a = {1, 2, 3, 4},
              .count = 4);
}

void ck_bench(ck_level *l, const char *name)
{
    if (IS("linear")) bench_linear(l);
    if (IS("conv")) {
        bench_conv(l);
        bench_edges(l);
    }
    if (IS("attend")) bench_attend(l);
    if (IS("attend_blocks")) {
        bench_attend_blocks(l, 2304, 6, 64);
        bench_attend_blocks(l, 4096, 2, 128);
    }
    for (int k = 0; k < 2; k++) {
        bench_predict(l, name, k ? SG_BF16 : SG_F32, 2304, 6, 64);
        bench_predict(l, name, k ? SG_BF16 : SG_F32, 32760, 12, 128);
        bench_rows(l, name, k ? SG_BF16 : SG_F32);
        bench_moves(l, name, k ? SG_BF16 : SG_F32);
    }
}
