/* test_patch.c - patches: against an oracle in double, bit for bit, and those that are refused. */
#include "low_rank.h"
#include "memory_source.h"

static void refuse_load(sg_bind *b, sg_status code, const char *words)
{
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        assert_refused(sg_bind_load(b, &devices[i], NULL, NULL, &e), code, &e, words);
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
static double oracle(sg_tensor up, sg_tensor down, sg_tensor diff, sg_tensor w, int64_t o, int64_t i)
{
    double sum = 0;
    for (int64_t r = 0; r < RANK; r++) sum += (double)sg_load(&up, o * RANK + r) * (double)sg_load(&down, r * I + i);
    return (double)sg_load(&w, (O + o) * I + i) + 0.125 * sum - 2 * (double)sg_load(&diff, o * I + i);
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
    const sg_tensor           up = ranked(numbers(up_data, type, O, RANK), 4, (int64_t[]){O, RANK, 1, 1});
    const sg_tensor           down = ranked(numbers(down_data, SG_F32, RANK, I), 3, (int64_t[]){RANK, I / 2, 2});
    const sg_tensor           difference = numbers(diff_data, type, O, I);
    const sg_patch low = {.path = "lora", .name = "w.weight", .scale = 0.125, .factor = {{IN_FILE(up), IN_FILE(down)}}};
    const sg_patch diff = {.path = "lora", .name = "w.weight", .scale = -2, .factor = {{IN_FILE(difference), NULL}}};
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
            const double should = oracle(up, down, difference, w, o, i), is = (double)sg_load(&t, o * I + i);
            if (fabs(is - should) > eps + last * fabs(should))
                fail_msg("[%d, %d]: %g, not %g", (int)o, (int)i, is, should);
        }
    close_both(&b, &s);
}

static void patches_are_added_as_the_header_says(void **state)
{
    check_patches(SG_F32, SG_F32, &devices[0]);
    check_patches(SG_BF16, SG_BF16, &devices[0]);
    check_patches(SG_F16, SG_BF16, &devices[1]);
    check_patches(SG_F32, SG_F32, &devices[1]);
}

/* LoHa, LoKr with each of its factors whole or low-rank, whole differences: of rows 2 and 0 of three parts. */
static void every_form_is_added_as_the_header_says(void **state)
{
    enum { ROWS = 12, ROW = 40, R = 3 };
    static const sg_name_rule parts = {"w", "fused", 3, {{2, 1}, {0, 1}}};
    static const struct {
        int64_t rows[2], row[2]; /* of both factors */
        bool    low[2];
    } form[] = {{{ROWS, ROWS}, {ROW, ROW}, {true, true}}, {{ROWS, ROWS}, {ROW, ROW}, {false, true}},
                {{3, 4}, {8, 5}, {false, false}},         {{4, 3}, {5, 8}, {false, true}},
                {{1, 12}, {40, 1}, {true, true}},         {{12, 1}, {1, 40}, {true, false}},
                {{ROWS, 1}, {ROW, 1}, {false, false}}};
    static float    w_[ROWS * ROW], up_[2][ROWS * ROW], down_[2][R * ROW];
    const sg_tensor w = numbers(w_, SG_F32, ROWS / 3 * 2, ROW);
    for (size_t k = 0; k < sizeof form / sizeof *form; k++) {
        sg_tensor        up[2], down[2], t;
        sg_source_tensor from[4];
        sg_patch         p = {.path = "l", .name = "w", .cut = &parts, .scale = 0.5};
        arrays           a = {.count = 0};
        for (int f = 0; f < 2; f++) {
            up[f] = numbers(up_[f], SG_F32, form[k].rows[f], form[k].low[f] ? R : form[k].row[f]);
            down[f] = numbers(down_[f], SG_F32, R, form[k].row[f]);
            from[2 * f] = in_file("", up[f]);
            from[2 * f + 1] = in_file("", down[f]);
            p.factor[f] = (sg_factor){&from[2 * f], form[k].low[f] ? &from[2 * f + 1] : NULL};
        }
        add(&a, "w", w);
        sg_source *s = open_arrays(&a);
        sg_bind   *b = bind_to(s, NULL);
        sg_bind_tensor(b, &t, SG_F32, "w", ROWS / 3 * 2, ROW);
        assert_int_equal(sg_bind_patch(b, &p, NULL), SG_OK);
        load(b, &devices[k % 2]);
        for (int64_t o = 0; o < ROWS / 3 * 2; o++)
            for (int64_t i = 0; i < ROW; i++) {
                const int64_t d = o < ROWS / 3 ? o + 2 * ROWS / 3 : o - ROWS / 3; /* the row of D */
                double        product = 0.5;
                for (int f = 0; f < 2; f++) {
                    const int64_t rows = form[k].rows[f], row = form[k].row[f];
                    const int64_t y = f ? d % rows : d / (ROWS / rows), x = f ? i % row : i / (ROW / row);
                    double        sum = form[k].low[f] ? 0 : (double)sg_load(&up[f], y * row + x);
                    for (int64_t r = 0; form[k].low[f] && r < R; r++)
                        sum += (double)sg_load(&up[f], y * R + r) * (double)sg_load(&down[f], r * row + x);
                    product *= sum;
                }
                const double should = (double)sg_load(&w, o * ROW + i) + product;
                if (fabs((double)sg_load(&t, o * ROW + i) - should) > 1e-6)
                    fail_msg("form %zu [%d, %d]: %g, not %g", k, (int)o, (int)i, (double)sg_load(&t, o * ROW + i),
                             should);
            }
        close_both(&b, &s);
    }
}

#define SQUARE(x) IN_FILE(((sg_tensor){x, SG_F32, 2, {2, 2}}))

/* Sums of F32 in the order that the header says: bit for bit, and as without a patch where it is zero. */
static void order_and_rounding_of_patches_are_fixed(void **state)
{
    float          w[4] = {1, 0x1p-24f, 3, -4}, up[4] = {0x1p24f, 1, 2, -1}, down[4] = {1, 1, 1, -1}, diff[4];
    float          zero[4] = {0};
    arrays         a = {.count = 0};
    sg_tensor      t, u;
    const sg_patch all[] = {{.path = "p", .name = "a", .scale = 1, .factor = {{SQUARE(up), SQUARE(down)}}},
                            {.path = "p", .name = "a", .scale = 0.5, .factor = {{SQUARE(diff), NULL}}},
                            {.path = "p", .name = "b", .scale = 1, .factor = {{SQUARE(zero), NULL}}}};
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
    assert_refused(sg_bind_patch(b, &p, &e), code, &e, text);
}

static void patches_that_do_not_fit_are_refused(void **state)
{
    float                   x[12] = {0};
    arrays                  a = {.count = 0};
    sg_tensor               t, huge;
    const sg_tensor         w = {x, SG_F32, 2, {4, 3}};
    const int64_t           most = INT64_MAX;
    sg_source_tensor        none = in_file("", w), vast = none, wide = none, byte = none;
    sg_source_tensor *const up = IN_FILE(((sg_tensor){x, SG_F32, 2, {4, 2}}));
    sg_source_tensor *const down = IN_FILE(((sg_tensor){x, SG_F32, 2, {2, 3}}));
    sg_source_tensor *const column = IN_FILE(((sg_tensor){x, SG_F32, 2, {4, 0}}));
    sg_source_tensor *const row = IN_FILE(((sg_tensor){x, SG_F32, 2, {0, 3}}));
    none.rank = 0;
    byte.type = &types[SG_U8];
    vast.dim[0] = vast.dim[1] = most;
    wide.rank = 3;
    wide.dim[1] = wide.dim[2] = most;
    add(&a, "w", w);
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, NULL);
    sg_bind_tensor(b, &t, SG_F32, "w", 4, 3);
#define PATCH(scale, ...) ((sg_patch){"l.safetensors", "w", NULL, scale, {__VA_ARGS__}})
#define FIT(is) "l.safetensors|tensor \"w\"|" is "|[4, 3]"
#define TYPE(scale) "l.safetensors|tensor \"w\"|F32|F16|BF16|FP8|scale " scale " finite"
    refuse_patch(b, PATCH(1, {down, up}), SG_E_FORMAT, FIT("[2, 3] by [4, 2]"));
    refuse_patch(b, PATCH(1, {up, up}), SG_E_FORMAT, FIT("[4, 2] by [4, 2]"));
    refuse_patch(b, PATCH(1, {up, &none}), SG_E_FORMAT, FIT("[4, 2] by []"));
    refuse_patch(b, PATCH(1, {column, row}), SG_E_FORMAT, FIT("[4, 0] by [0, 3]"));
    refuse_patch(b, PATCH(1, {down, NULL}), SG_E_FORMAT, FIT("[2, 3]"));
    refuse_patch(b, PATCH(1, {up, NULL}, {down, NULL}), SG_E_FORMAT, FIT("[4, 2] and [2, 3]"));
    refuse_patch(b, PATCH(1, {up, down}, {down, NULL}), SG_E_FORMAT, FIT("[4, 2] by [2, 3]|and [2, 3]"));
    refuse_patch(b, PATCH(1, {&wide, down}), SG_E_FORMAT,
                 FIT("[4, 9223372036854775807, 9223372036854775807]|by [2, 3]"));
    refuse_patch(b, PATCH(1, {up, &vast}), SG_E_FORMAT, FIT("[4, 2] by [9223372036854775807, 9223372036854775807]"));
    refuse_patch(b, PATCH((double)INFINITY, {up, down}), SG_E_FORMAT, TYPE("inf"));
    byte.rank = 2;
    refuse_patch(b, PATCH(1, {&byte, NULL}), SG_E_FORMAT, TYPE("1"));
    sg_patch other = PATCH(1, {up, down});
    other.name = "none";
    refuse_patch(b, other, SG_E_ARG, "l.safetensors|tensor \"none\"");
    load(b, &devices[0]);
    assert_ptr_equal(t.data, x); /* none of these was taken */
    refuse_patch(b, PATCH(1, {up, down}), SG_E_ARG, "l.safetensors|tensor \"w\"");
    sg_bind_unload(b);
    sg_bind_tensor(b, &huge, SG_F32, "huge", most, most);
    other = PATCH(1, {&vast, NULL});
    other.name = "huge";
    refuse_patch(b, other, SG_E_FORMAT,
                 "l.safetensors|tensor \"huge\"|is [9223372036854775807, 9223372036854775807]|[9223372036854775807, "
                 "9223372036854775807]");
    close_both(&b, &s);
}

static void numbers_of_patches_must_be_finite(void **state)
{
    static const char *const words[] = {"l|tensor \"w\"|NaN", "l|tensor \"w\"|NaN", "arrays|tensor \"w\"|NaN|element 3",
                                        "arrays|tensor \"w\"|F32"};
    for (int i = 0; i < 4; i++) {
        float     w[4] = {1, 1, 1, i == 2 ? NAN : 1}, x[4] = {1, 1, 1, i < 2 ? NAN : 3e38f};
        arrays    a = {.count = 0};
        sg_tensor t;
        add(&a, "w", (sg_tensor){w, SG_F32, 2, {2, 2}});
        sg_source     *s = open_arrays(&a);
        sg_bind       *b = bind_to(s, NULL);
        const sg_patch p = {.path = "l", .name = "w", .scale = 2, .factor = {{SQUARE(x), i == 1 ? SQUARE(x) : NULL}}};
        sg_bind_tensor(b, &t, SG_F32, "w", 2, 2);
        assert_int_equal(sg_bind_patch(b, &p, NULL), SG_OK);
        refuse_load(b, SG_E_NUMERIC, words[i]);
        assert_null(t.data);
        close_both(&b, &s);
    }
}

/* Products and sums of F32 in one order, by whatever vectors. */
static void every_processor_gives_the_same_bits(void **state)
{
    static const char *const levels[] = {"base", "avx2f32", "avx512", "all"};
    static float             want[O * I], y[O * I];
    const sg_tensor          up = numbers(up_data, SG_F32, O, RANK), down = numbers(down_data, SG_F32, RANK, I);
    float *const             panels = malloc(sg_low_rank_panels(RANK, I) * sizeof *panels);
    for (int i = 0; i < O * I; i++)
        for (int r = 0; r < RANK; r++) {
            volatile const float product = sg_load(&up, i / I * RANK + r) * sg_load(&down, r * I + i % I);
            want[i] += product;
        }
    sg_low_rank_pack(panels, down_data, RANK, I);
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        sg_low_rank(y, up_data, panels, RANK, I, 0, O * I, sg_cpu_features_of(sg_cpu_mask_of(levels[i])), 2);
        assert_memory_equal(y, want, sizeof y);
        memset(y, 0, sizeof y);
    }
    free(panels);
}

/* So that --cpumask shows what a lesser machine does, patches go by the backend's features. */
static void a_mask_is_for_all_that_the_host_does(void **state)
{
    static const char *const names[] = {"cpu", "ref"};
    for (int i = 0; i < 2; i++) {
        sg_error    e = {0};
        sg_backend *b = NULL;
        assert_done(sg_backend_open(&b, &(sg_backend_options){.name = names[i], .cpu_mask = SG_CPU_BASE}, &e), &e);
        assert_int_equal(b->features, SG_CPU_BASE);
        sg_backend_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patches_are_added_as_the_header_says),
        cmocka_unit_test(every_form_is_added_as_the_header_says),
        cmocka_unit_test(order_and_rounding_of_patches_are_fixed),
        cmocka_unit_test(patches_that_do_not_fit_are_refused),
        cmocka_unit_test(numbers_of_patches_must_be_finite),
        cmocka_unit_test(every_processor_gives_the_same_bits),
        cmocka_unit_test(a_mask_is_for_all_that_the_host_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
