/* test_patch.c - patches: against an oracle in double, bit for bit, and those that are refused. */
#include "memory_source.h"

#include <math.h>
#include <stdio.h>

static void refuse_load(sg_bind *b, sg_status code, const char *words)
{
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        assert_int_equal(sg_bind_load(b, &devices[i], NULL, NULL, &e), code);
        if (!strstr(e.text, words)) fail_msg("\"%s\" is not in \"%s\"", words, e.text);
    }
}

enum { O = 700, I = 500, RANK = 5 }; /* more than a piece, which ends within a row */

static float w_data[3 * O * I], up_data[O * RANK], down_data[RANK * I], diff_data[O * I];

static sg_tensor ranked(sg_tensor t, int rank, const int64_t *dim)
{
    t.rank = rank;
    memcpy(t.dim, dim, (size_t)rank * sizeof *dim);
    return t;
}

/* What sg_patch's formula gives in double for the middle third of w. */
static double oracle(const sg_patch *low, const sg_patch *diff, sg_tensor w, int64_t o, int64_t i)
{
    double sum = 0;
    for (int64_t r = 0; r < RANK; r++)
        sum += (double)sg_load(&low->up, o * RANK + r) * (double)sg_load(&low->down, r * I + i);
    return (double)sg_load(&w, (O + o) * I + i) + low->scale * sum +
           diff->scale * (double)sg_load(&diff->diff, o * I + i);
}

static void check_patches(sg_dtype type, sg_dtype as, const sg_backend *device)
{
    static const sg_name_rule middle[] = {{"w", "fused", 3, {{1, 1}}}};
    const sg_name_map         cut = {.rules = middle, .count = 1};
    arrays                    a = {.count = 0};
    sg_tensor                 t, plain;
    size_t                    mapped;
    sg_error                  e = {0};
    const sg_tensor           w = numbers(w_data, type, 3 * O, I);
    const sg_patch            low = {.path = "lora",
                                     .name = "w.weight",
                                     .scale = 0.125,
                                     .up = ranked(numbers(up_data, type, O, RANK), 4, (int64_t[]){O, RANK, 1, 1}),
                                     .down = ranked(numbers(down_data, SG_F32, RANK, I), 3, (int64_t[]){RANK, I / 2, 2})};
    const sg_patch diff = {.path = "lora", .name = "w.weight", .scale = -2, .diff = numbers(diff_data, type, O, I)};
    add(&a, "fused.weight", w);
    add(&a, "plain", w);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, &cut);
    sg_bind_tensor(b, &t, as, "w.weight", O, I);
    sg_bind_tensor(b, &plain, as, "plain", 3 * O, I);
    assert_int_equal(sg_bind_patch(b, &low, &e), SG_OK);
    assert_int_equal(sg_bind_patch(b, &diff, &e), SG_OK);
    const bool   serves = device->host_memory && type == as;
    const size_t bytes = sg_bind_bytes(b, device, &mapped);
    assert_int_equal(mapped, serves ? sg_bytes(plain) : 0); /* the patched one never serves */
    assert_true(bytes >= sg_bytes(t) && (serves || bytes >= sg_bytes(t) + sg_bytes(plain)));
    load(b, device);
    for (int64_t k = 0; k < 3 * O * I; k += 997) {
        const float x = sg_load(&w, k);
        assert_true(sg_load(&plain, k) == (as == SG_BF16 ? sg_bf16_to_f32(sg_f32_to_bf16(x)) : x));
    }
    /* 2 RANK + 3 roundings of F32 numbers below 4, then the rounding to the dtype that is wanted */
    const double eps = (2 * RANK + 3) * 4 * 0x1p-24, last = as == SG_BF16 ? 0x1p-8 : 0x1p-24;
    for (int64_t o = 0; o < O; o++)
        for (int64_t i = 0; i < I; i++) {
            const double should = oracle(&low, &diff, w, o, i), is = (double)sg_load(&t, o * I + i);
            if (fabs(is - should) > eps + last * fabs(should))
                fail_msg("[%d, %d]: %g, not %g", (int)o, (int)i, is, should);
        }
    close_both(&b, &s);
}

static void patches_are_added_as_the_header_says(void **state)
{
    (void)state;
    check_patches(SG_F32, SG_F32, &devices[0]);
    check_patches(SG_BF16, SG_BF16, &devices[0]);
    check_patches(SG_F16, SG_BF16, &devices[1]);
    check_patches(SG_F32, SG_F32, &devices[1]);
}

/* Sums of F32 in the order that the header says: bit for bit, and as without a patch where it is zero. */
static void order_and_rounding_of_patches_are_fixed(void **state)
{
    (void)state;
    float          w[4] = {1, 0x1p-24f, 3, -4}, up[4] = {0x1p24f, 1, 2, -1}, down[4] = {1, 1, 1, -1}, diff[4];
    float          zero[4] = {0};
    arrays         a = {.count = 0};
    sg_tensor      t, u;
    const sg_patch all[] = {
        {.path = "p", .name = "a", .scale = 1, .up = {up, SG_F32, 2, {2, 2}}, .down = {down, SG_F32, 2, {2, 2}}},
        {.path = "p", .name = "a", .scale = 0.5, .diff = {diff, SG_F32, 2, {2, 2}}},
        {.path = "p", .name = "b", .scale = 1, .diff = {zero, SG_F32, 2, {2, 2}}}};
    add(&a, "a", (sg_tensor){w, SG_F32, 2, {2, 2}});
    add(&a, "b", (sg_tensor){w, SG_F32, 2, {2, 2}});
    for (int i = 0; i < 4; i++) diff[i] = (float)(i + 1) / 3;
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, NULL);
    sg_bind_tensor(b, &t, SG_F32, "a", 2, 2);
    sg_bind_tensor(b, &u, SG_F32, "b", 2, 2);
    for (int i = 0; i < 3; i++) assert_int_equal(sg_bind_patch(b, &all[i], NULL), SG_OK);
    for (int again = 0; again < 2; again++) {
        load(b, &devices[0]);
        for (int k = 0; k < 4; k++) {
            volatile float product = up[k / 2 * 2] * down[k % 2];
            product += up[k / 2 * 2 + 1] * down[2 + k % 2];
            volatile float should = w[k] + product;
            should += 0.5f * diff[k];
            assert_true(((float *)t.data)[k] == should);
        }
        assert_memory_equal(u.data, w, sizeof w);
        sg_bind_unload(b);
    }
    close_both(&b, &s);
}

static void refuse_patch(sg_bind *b, sg_patch p, sg_status code, const char *text)
{
    sg_error e = {0};
    assert_int_equal(sg_bind_patch(b, &p, &e), code);
    assert_string_equal(e.text, text);
}

static void patches_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    float           x[12] = {0};
    arrays          a = {.count = 0};
    sg_tensor       t, huge;
    const sg_tensor up = {x, SG_F32, 2, {4, 2}}, down = {x, SG_F32, 2, {2, 3}}, diff = {x, SG_F32, 2, {4, 3}};
    const int64_t   most = INT64_MAX;
    const sg_tensor vast = {x, SG_F32, 2, {most, most}}, wide = {x, SG_F32, 3, {4, most, most}};
    add(&a, "w", diff);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, NULL);
    sg_bind_tensor(b, &t, SG_F32, "w", 4, 3);
#define FIT(is) "l.safetensors: the patch of tensor \"w\" is " is ", which does not fit [4, 3]"
    const char *const path = "l.safetensors";
    refuse_patch(b, (sg_patch){path, "w", 1, down, up, {0}}, SG_E_FORMAT, FIT("[2, 3] by [4, 2]"));
    refuse_patch(b, (sg_patch){path, "w", 1, up, up, {0}}, SG_E_FORMAT, FIT("[4, 2] by [4, 2]"));
    refuse_patch(b, (sg_patch){path, "w", 1, up, {0}, {0}}, SG_E_FORMAT, FIT("[4, 2] by []"));
    refuse_patch(b, (sg_patch){path, "w", 1, {x, SG_F32, 2, {4, 0}}, {x, SG_F32, 2, {0, 3}}, {0}}, SG_E_FORMAT,
                 FIT("[4, 0] by [0, 3]"));
    refuse_patch(b, (sg_patch){path, "w", 1, {0}, {0}, down}, SG_E_FORMAT, FIT("[2, 3]"));
    refuse_patch(b, (sg_patch){path, "w", 1, wide, down, {0}}, SG_E_FORMAT,
                 FIT("[4, 9223372036854775807, 9223372036854775807] by [2, 3]"));
    refuse_patch(b, (sg_patch){path, "w", 1, up, vast, {0}}, SG_E_FORMAT,
                 FIT("[4, 2] by [9223372036854775807, 9223372036854775807]"));
    refuse_patch(b, (sg_patch){path, "w", (double)INFINITY, up, down, {0}}, SG_E_FORMAT,
                 "l.safetensors: the patch of tensor \"w\" should be F32, F16 or BF16, its scale inf finite");
    refuse_patch(b, (sg_patch){path, "w", 1, {0}, {0}, {x, SG_U8, 2, {4, 3}}}, SG_E_FORMAT,
                 "l.safetensors: the patch of tensor \"w\" should be F32, F16 or BF16, its scale 1 finite");
    refuse_patch(b, (sg_patch){path, "none", 1, up, down, {0}}, SG_E_ARG,
                 "l.safetensors: the patch is of tensor \"none\", which this model does not have");
    load(b, &devices[0]);
    assert_ptr_equal(t.data, x); /* none of these was taken */
    refuse_patch(b, (sg_patch){path, "w", 1, up, down, {0}}, SG_E_ARG,
                 "l.safetensors: the patch of tensor \"w\" comes after loading");
    sg_bind_unload(b);
    sg_bind_tensor(b, &huge, SG_F32, "huge", most, most);
    refuse_patch(
        b, (sg_patch){path, "huge", 1, {0}, {0}, vast}, SG_E_FORMAT,
        "l.safetensors: the patch of tensor \"huge\" is [9223372036854775807, 9223372036854775807], which does "
        "not fit [9223372036854775807, 9223372036854775807]");
    close_both(&b, &s);
}

static void numbers_of_patches_must_be_finite(void **state)
{
    (void)state;
    static const char *const words[] = {"l: the patch of tensor \"w\" has a NaN or an infinity",
                                        "l: the patch of tensor \"w\" has a NaN or an infinity",
                                        "arrays: tensor \"w\" has a NaN or an infinity, the first at element 3",
                                        "arrays: tensor \"w\" with its patches has numbers too large for F32"};
    for (int i = 0; i < 4; i++) {
        float     w[4] = {1, 1, 1, i == 2 ? NAN : 1}, x[4] = {1, 1, 1, i < 2 ? NAN : 3e38f};
        arrays    a = {.count = 0};
        sg_tensor t;
        add(&a, "w", (sg_tensor){w, SG_F32, 2, {2, 2}});
        sg_source     *s = open_arrays(&a);
        sg_bind       *b = bind_to(s, NULL);
        const sg_patch p = {.path = "l",
                            .name = "w",
                            .scale = 2,
                            .up = {x, SG_F32, 2, {2, 2}},
                            .down = {x, SG_F32, 2, {2, 2}},
                            .diff = {x, SG_F32, i == 1 ? 0 : 2, {2, 2}}};
        sg_bind_tensor(b, &t, SG_F32, "w", 2, 2);
        assert_int_equal(sg_bind_patch(b, &p, NULL), SG_OK);
        refuse_load(b, SG_E_NUMERIC, words[i]);
        assert_null(t.data);
        close_both(&b, &s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_are_added_as_the_header_says),
        cmocka_unit_test(order_and_rounding_of_patches_are_fixed),
        cmocka_unit_test(patches_that_do_not_fit_are_refused),
        cmocka_unit_test(numbers_of_patches_must_be_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
