/* test_packed.c - weights that are packed ahead of their products, or widened for them. */
#include "meta.h"
#include "quant.h"
#include "unit.h"

/* Packed bytes alone: scratch is let go. */
static size_t packed_bytes(sg_backend *b)
{
    sg_backend_drop_scratch(b);
    return sg_backend_packed_bytes(b);
}

/* Only some processors and builds pack ahead; on others the product packs. */
static void weights_packed_ahead_are_those_of_the_product(void **state)
{
    static float x[16 * 64], w[32 * 64], y[2][16 * 32];
    sg_backend  *b = NULL;
    sg_error     e = {0};
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    for (int i = 0; i < 16 * 64; i++) x[i] = (float)(i % 13 - 6);
    for (int i = 0; i < 32 * 64; i++) w[i] = (float)(i % 11 - 5);
    sg_linear_args a = {.y = {.dtype = SG_F32, .rank = 2, .dim = {16, 32}},
                        .x = {.dtype = SG_F32, .rank = 2, .dim = {16, 64}},
                        .w = {.dtype = SG_F32, .rank = 2, .dim = {32, 64}}};
    sg_stream      plan = sg_plan_stream(&(sg_plan_totals){.backend = b});
    sg_linear_(&plan, &a);
    (void)sg_backend_code_bytes(b);
    sg_backend_pack(b, &a.w); /* not loaded: there is nothing to pack */
    assert_int_equal(packed_bytes(b), 0);
    a.x.data = x;
    a.w.data = w;
    size_t held[2];
    for (int ahead = 0; ahead < 2; ahead++) {
        sg_stream s = sg_stream_of(b);
        a.y.data = y[ahead];
        if (ahead) sg_backend_pack(b, &a.w);
        const size_t before = packed_bytes(b);
        sg_linear_(&s, &a);
        held[ahead] = packed_bytes(b);
        assert_int_equal(s.status, SG_OK);
        assert_true(before == 0 || (ahead && before == held[0]));
        sg_backend_drop_packed(b);
    }
    assert_int_equal(held[1], held[0]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    for (int i = 0; i < 16 * 32; i++) {
        float sum = 0; /* of whole numbers: exact */
        for (int k = 0; k < 64; k++) sum += x[i / 32 * 64 + k] * w[i % 32 * 64 + k];
        assert_true(y[1][i] == sum);
    }
    sg_backend_close(&b);
}

/* Weights of a phase go with it; those of the model stay packed. */
static void packed_weights_go_by_place(void **state)
{
    static float x[16 * 64], w[2][32 * 64], y[16 * 32];
    sg_backend  *b = NULL;
    sg_error     e = {0};
    size_t       held[2];
    (void)state;
    assert_int_equal(sg_backend_open(&b, &(sg_backend_options){.name = "cpu", .threads = 1}, &e), SG_OK);
    sg_stream s = sg_stream_of(b);
    for (int i = 0; i < 2; i++) {
        sg_linear_(&s, &(sg_linear_args){.y = {.dtype = SG_F32, .rank = 2, .dim = {16, 32}, .data = y},
                                         .x = {.dtype = SG_F32, .rank = 2, .dim = {16, 64}, .data = x},
                                         .w = {.dtype = SG_F32, .rank = 2, .dim = {32, 64}, .data = w[i]}});
        held[i] = packed_bytes(b);
    }
    assert_int_equal(s.status, SG_OK);
    assert_int_equal(held[1], 2 * held[0]);
    sg_backend_drop_packed_in(b, (uintptr_t)w[1], sizeof w[1]);
    assert_int_equal(packed_bytes(b), held[0]);
    sg_backend_drop_packed_in(b, (uintptr_t)w[1], sizeof w[1]);
    assert_int_equal(packed_bytes(b), held[0]);
    sg_backend_drop_packed(b);
    assert_int_equal(packed_bytes(b), 0);
    sg_backend_close(&b);
}

/* A plan for a GPU counts the memory for quantised weights, widened, but for a few rows, which widen in registers; for
 * BF16 by F32 that of weights in F32, piece by piece; and for a convolution that of its weights in another layout. */
static void gpus_widen_weights(void **state)
{
    sg_backend     gpu = {0};
    sg_plan_totals t = {0};
    sg_linear_args a = {.y = {.dtype = SG_F32, .rank = 2, .dim = {SG_GPU_FEW_ROWS, 64}},
                        .x = {.dtype = SG_BF16, .rank = 2, .dim = {SG_GPU_FEW_ROWS, 32}},
                        .w = {.dtype = SG_BF16, .rank = 2, .dim = {64, 32}, .quant.type = SG_QUANT_Q8_0}};
    (void)state;
    sg_plan_gpu(&gpu, 1);
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_true(t.staged_x == 0 && t.staged_y == 0);
    a.y.dim[0] = ++a.x.dim[0];
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_true(t.staged_x == 0 && t.staged_y == sizeof(uint16_t) * 64 * 32);
    a.x.dtype = SG_F32;
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_int_equal(t.staged_x, sizeof(float) * 64 * 32);
    a.w.dim[0] = a.y.dim[1] = 1 << 20;
    gpu.call.count(&gpu, &t, "linear", &a);
    assert_int_equal(t.staged_x, 64 << 20);
    t.staged_x = 0;
    gpu.call.count(&gpu, &t, "conv",
                   &(sg_conv_args){.x = {.dtype = SG_BF16, .rank = 4, .dim = {1, 8, 8, 16}},
                                   .w = {.dtype = SG_BF16, .rank = 5, .dim = {16, 16, 1, 3, 3}}});
    assert_int_equal(t.staged_x, sizeof(uint16_t) * 16 * 16 * 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_packed_ahead_are_those_of_the_product),
                                       cmocka_unit_test(packed_weights_go_by_place),
                                       cmocka_unit_test(gpus_widen_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
