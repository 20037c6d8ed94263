/* test_packed.c - weights that are packed ahead of their products. */
#include "meta.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_packed_ahead_are_those_of_the_product),
                                       cmocka_unit_test(packed_weights_go_by_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
