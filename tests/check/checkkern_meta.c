/* checkkern_meta.c - the check decorator, the backends by name and the packed weights: what is around the kernels. */
#include "checkkern.h"
#include "meta.h"

#include <stdio.h>
#include <stdlib.h>

static int faults;

static void expect(bool ok, const char *what)
{
    if (ok) return;
    faults++;
    printf("FAIL  meta        %s\n", what);
}

/* A kernel that is wrong by one part in a hundred thousand in one place. */
static sg_status wrong_mul(sg_stream *s, const sg_mul_args *a)
{
    const sg_status e = sg_ref_ops.mul(s, a);
    ((float *)a->y.data)[3] *= 1.00001f;
    return e;
}

static sg_status forgets_mul(sg_stream *s, const sg_mul_args *a)
{
    sg_mul_args less = *a;
    less.y.dim[0] = less.a.dim[0] = less.b.dim[0] = a->y.dim[0] - 1;
    return sg_ref_ops.mul(s, &less);
}

static sg_status check_one(const sg_backend *b, const sg_ops *ops, char *why, size_t size)
{
    float     x[3][64];
    sg_stream s = sg_stream_of(b);
    if (ops) s.ops = ops;
    for (int i = 0; i < 64; i++) x[1][i] = (float)(i + 1), x[2][i] = 1.0f / (float)(i + 3);
    sg_tensor t[3];
    for (int i = 0; i < 3; i++) t[i] = (sg_tensor){x[i], SG_F32, 2, {8, 8}};
    sg_check_wrap(&s);
    sg_mul(&s, .y = t[0], .a = t[1], .b = t[2]);
    sg_gate_add(&s, .x = t[0], .r = t[1]);
    sg_linear(&s, .y = t[0], .x = t[1], .w = t[2], .add = true);
    snprintf(why, size, "%s", s.why);
    return s.status;
}

static void check_decorator(const sg_backend *b)
{
    char   why[320];
    sg_ops wrong = *b->ops;
    expect(check_one(b, NULL, why, sizeof why) == SG_OK, "check: right kernels were refused");
    wrong.mul = wrong_mul;
    expect(check_one(b, &wrong, why, sizeof why) == SG_E_MISMATCH, "check: a wrong kernel passed");
    expect(strstr(why, "mul") && strstr(why, "[8, 8]"), "check: the message lacks op or shape");
    wrong.mul = forgets_mul;
    expect(check_one(b, &wrong, why, sizeof why) == SG_E_MISMATCH, "check: a kernel that leaves a row out passed");
}

static void check_names(void)
{
    sg_backend *b = NULL;
    sg_error    e = {0};
    expect(sg_backend_open(&b, &(sg_backend_options){.name = "cuda3"}, &e) == SG_E_ARG && !b && strstr(e.text, "cuda3"),
           "an unknown backend was opened");
    e = (sg_error){0};
    expect(sg_backend_open(&b, &(sg_backend_options){.threads = -1}, &e) == SG_E_ARG && !b, "-1 threads were accepted");
    e = (sg_error){0};
    expect(sg_backend_open(&b, &(sg_backend_options){.name = "ref"}, &e) == SG_OK && b, "ref did not open");
    expect(b && b->ops == &sg_ref_ops && b->total_bytes > 0, "ref is not the oracle");
    sg_backend_close(&b);
    expect(!b, "close left its pointer");
}

/* Features are bits: none implies another, and a level counts where all that it needs is there. */
static void check_levels(void)
{
    const unsigned avx2 = SG_CPU_BASE | SG_CPU_AVX2, vnni = avx2 | SG_CPU_AVX512 | SG_CPU_VNNI;
    const unsigned int8 = avx2 | SG_CPU_INT8, avx_vnni = int8 | SG_CPU_AVXVNNI;
    expect(sg_cpu_mask_of("base") == SG_CPU_BASE && sg_cpu_mask_of("avx2f32") == avx2 && sg_cpu_mask_of("all") == ~0u,
           "masks of names are other ones");
    expect(sg_cpu_mask_of("avx2") == int8 && sg_cpu_mask_of("avxvnni") == avx_vnni, "masks of 8-bit products");
    expect(sg_cpu_mask_of("avx512vnni") == vnni && sg_cpu_mask_of("avx3") == 0, "masks of names are other ones");
    expect(sg_cpu_usable(vnni) == vnni && sg_cpu_usable(0) == SG_CPU_BASE, "usable features are lost or added");
    expect(sg_cpu_usable(avx2 | SG_CPU_VNNI | SG_CPU_AMX) == avx2, "AVX-512's parts are used without it");
    expect(sg_cpu_usable(SG_CPU_AVX512 | SG_CPU_VNNI) == SG_CPU_BASE, "AVX-512 is used without AVX2");
    expect(sg_cpu_usable(avx2 | SG_CPU_AVXVNNI) == avx2 && sg_cpu_usable(vnni | SG_CPU_INT8) == (vnni | SG_CPU_INT8),
           "usable features of 8-bit products");
    expect(strcmp(sg_cpu_level_of(avx2 | SG_CPU_AMX)->name, "avx2f32") == 0, "a level is used without what it needs");
    expect(strcmp(sg_cpu_level_of(avx_vnni)->name, "avxvnni") == 0 &&
               strcmp(sg_cpu_level_of(avx_vnni | vnni)->name, "avx512vnni") == 0,
           "AVX-VNNI comes before AVX-512");
    for (int i = 0; i < SG_CPU_LEVELS; i++)
        expect(strcmp(sg_cpu_mask_names[i], sg_cpu_levels[i].name) == 0, "a level has another name in masks");
    expect(sg_gpu_features(75) == 0 && sg_gpu_features(86) == SG_GPU_MMA, "features of older GPUs");
    expect(sg_gpu_features(89) == (SG_GPU_MMA | SG_GPU_FP8), "features of 8.9");
    expect(sg_gpu_features(90) == (SG_GPU_MMA | SG_GPU_FP8 | SG_GPU_WGMMA), "features of 9.0");
    static const int newer[] = {100, 103, 110, 120, 121};
    for (int i = 0; i < (int)(sizeof newer / sizeof newer[0]); i++)
        expect(sg_gpu_features(newer[i]) == sg_gpu_features(89), "10.x to 12.x have FP8 and no wgmma");
    expect(sg_gpu_runs(86, "80-real") && sg_gpu_runs(89, "80-real 90-real") && sg_gpu_runs(121, "80-real 120-real"),
           "machine code runs on later minor versions");
    expect(!sg_gpu_runs(80, "86-real 120-real") && !sg_gpu_runs(90, "80-real 89-real") && !sg_gpu_runs(103, "90-real"),
           "machine code runs on no older version and no other major one");
    expect(sg_gpu_runs(120, "80-real 90-virtual") && !sg_gpu_runs(89, "120-real 90-virtual"),
           "PTX runs on newer GPUs only");
    expect(sg_gpu_runs(90, "90a-real") && !sg_gpu_runs(100, "90a-real") && !sg_gpu_runs(91, "90a-real") &&
               !sg_gpu_runs(90, ""),
           "code for 9.0a runs on 9.0 only");
    expect(sg_gpu_mask_of("sm89") == sg_gpu_features(89) && sg_gpu_mask_of("sm90") == sg_gpu_features(90) &&
               sg_gpu_mask_of("sm70") == 0,
           "masks of the names of GPUs' levels");
}

/* Weights are packed once, packed anew when others lie in their place after a drop, and let go. */
static void check_packing(sg_backend *b)
{
    enum { N = 16, C = 64 };
    static float x[N * C], w[C * C], y[N * C];
    for (int i = 0; i < N * C; i++) x[i] = (float)(i % 7);
    sg_stream s = sg_stream_of(b);
    sg_check_wrap(&s);
    sg_backend_drop_packed(b);
    const size_t before = sg_backend_packed_bytes(b);
    for (int k = 0; k < 3; k++) {
        sg_backend_drop_packed(b);
        for (int i = 0; i < C * C; i++) w[i] = (float)((i + k) % 5);
        for (int twice = 0; twice < 2; twice++)
            sg_linear(&s, .y = {y, SG_F32, 2, {N, C}}, .x = {x, SG_F32, 2, {N, C}}, .w = {w, SG_F32, 2, {C, C}});
    }
    expect(s.status == SG_OK, "packed weights went stale");
    expect(sg_backend_packed_bytes(b) >= before + sizeof w, "packed weights are not counted");
    sg_backend_drop_packed(b);
    expect(sg_backend_packed_bytes(b) < before + sizeof w + (1u << 20), "packed weights were not let go");
}

int ck_meta(unsigned cpu_mask)
{
    sg_backend *b = NULL;
    sg_error    e = {0};
    faults = 0;
    const sg_backend_options o = {.name = "cpu", .threads = 2, .cpu_mask = cpu_mask};
    expect(sg_backend_open(&b, &o, &e) == SG_OK, "cpu did not open");
    if (b) {
        check_decorator(b);
        check_packing(b);
        printf("%s    meta        %s\n", faults ? "FAIL" : "ok", b->device);
    }
    sg_backend_close(&b);
    check_names();
    check_levels();
    return faults;
}
