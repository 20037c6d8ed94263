/* test_trace.c - what the trace counts. */
#include "meta.h"
#include "unit.h"

enum { N = 3, I = 4, O = 5 };

static float numbers[8][N * I * O];

static sg_tensor matrix(int which, int64_t rows, int64_t columns)
{
    return (sg_tensor){.data = numbers[which], .dtype = SG_F32, .rank = 2, .dim = {rows, columns}};
}

static sg_stream traced(sg_trace *t)
{
    sg_stream s = {.ops = &sg_ref_ops};
    sg_trace_wrap(&s, t);
    return s;
}

static void rows_by_op_and_shape(void **state)
{
    sg_trace        t = {0};
    sg_stream       s = traced(&t);
    const sg_tensor y = matrix(0, N, O), x = matrix(1, N, I), w = matrix(2, O, I), z = matrix(3, N, O);
    for (int i = 0; i < 2; i++) sg_linear(&s, .y = y, .x = x, .w = w);
    sg_linear(&s, .y = y, .x = x, .w = w, .add = true);
    sg_copy(&s, .y = z, .x = y);
    int32_t         found = 0;
    const sg_tensor non_finite = {.data = &found, .dtype = SG_I32, .rank = 1, .dim = {1}};
    sg_norm(&s, .y = z, .non_finite = non_finite, .x = y, .kind = SG_NORM_LAYER, .eps = 1e-6f);
    assert_int_equal(s.status, SG_OK);
    assert_int_equal(t.rows, 4);

    const sg_trace_row *const r = t.row;
    const double              all = sizeof(float) * (N * O + N * I + O * I);
    assert_string_equal(r[0].op, "linear");
    assert_int_equal(r[0].calls, 2);
    assert_false(r[0].adds);
    assert_true(r[0].seconds > 0);
    assert_float_equal(r[0].flops, 2 * 2.0 * N * I * O, 0);
    assert_float_equal(r[0].bytes, 2 * all, 0);
    assert_int_equal(r[0].t[2].dim[0], O);
    assert_null(r[0].t[2].data);
    assert_int_equal(r[0].t[3].rank, 0);

    assert_true(r[1].adds);
    assert_int_equal(r[1].calls, 1);
    assert_float_equal(r[1].bytes, all + sizeof(float) * N * O, 0); /* the output is read as well */

    assert_string_equal(r[2].op, "copy");
    assert_float_equal(r[2].flops, 0, 0);
    assert_float_equal(r[2].bytes, sizeof(float) * 2 * N * O, 0);

    assert_string_equal(r[3].op, "norm");
    assert_false(r[3].adds);
    assert_float_equal(r[3].bytes, sizeof(float) * 2 * N * O + sizeof(int32_t), 0); /* y is not read, though found is */
    sg_trace_free(&t);
    assert_null(t.row);
}

static void more_terms_and_looked_up_rows(void **state)
{
    sg_trace        t = {0};
    sg_stream       s = traced(&t);
    int32_t         id[N] = {1, 0, 1};
    const sg_tensor ids = {.data = id, .dtype = SG_I32, .rank = 1, .dim = {N}}, x = matrix(1, N, O);
    sg_combine(&s, .y = matrix(0, N, O), .x = {x, matrix(2, N, O), x}, .a = {1, 2, 3}, .count = 3);
    sg_embed(&s, .y = matrix(0, N, O), .w = matrix(3, 11, O), .ids = ids);
    assert_int_equal(s.status, SG_OK);
    assert_float_equal(t.row[0].bytes, sizeof(float) * 4 * N * O, 0);
    assert_float_equal(t.row[1].bytes, sizeof(float) * (2 * N * O + N), 0); /* of the table only what is looked up */
    sg_trace_free(&t);
}

static void pauses_and_clears(void **state)
{
    sg_trace        t = {.paused = true};
    sg_stream       s = traced(&t);
    const sg_tensor y = matrix(0, N, O), x = matrix(1, N, O);
    numbers[1][0] = 7;
    sg_copy(&s, .y = y, .x = x);
    assert_float_equal(numbers[0][0], 7, 0);
    assert_int_equal(t.rows, 0);
    t.paused = false;
    sg_copy(&s, .y = y, .x = x);
    assert_int_equal(t.rows, 1);
    sg_trace_clear(&t);
    assert_int_equal(t.rows, 0);
    for (int n = 1; n <= 100; n++) sg_copy(&s, .y = matrix(0, 1, n % 60 + 1), .x = matrix(1, 1, n % 60 + 1));
    assert_int_equal(t.rows, 60);
    assert_int_equal(t.row[0].calls, 2);
    sg_trace_free(&t);
}

/* A backend that does not read x at twice its size gets what upsample makes of it, in scratch. */
static void a_conv_at_twice_the_size_is_whole_or_in_two(void **state)
{
    enum { C = 2, SIDE = 3, BIG = 2 * SIDE };
    static char   room[C * BIG * BIG * sizeof(float) + SG_ALIGN] __attribute__((aligned(SG_ALIGN)));
    static float  y[2][O * BIG * BIG], x[C * SIDE * SIDE], w[O * C * 9];
    const int64_t once = SIDE, twice = BIG;
    sg_ops        in_two = sg_ref_ops;
    in_two.conv_twice = NULL;
    for (int i = 0; i < C * SIDE * SIDE; i++) x[i] = (float)(i * 5 % 7);
    for (int i = 0; i < O * C * 9; i++) w[i] = (float)(i * 3 % 11 - 5);
    for (int whole = 0; whole < 2; whole++) {
        sg_trace     t = {0};
        sg_stream    s = {.ops = whole ? &sg_ref_ops : &in_two, .scratch = {(uintptr_t)room, sizeof room, 0, 0}};
        sg_conv_args a = {.y = {y[whole], SG_F32, 4, {1, twice, twice, O}},
                          .x = {x, SG_F32, 4, {1, once, once, C}},
                          .w = {w, SG_F32, 5, {O, C, 1, 3, 3}},
                          .stride = {1, 1, 1},
                          .pad = {1, 1, 1, 1},
                          .twice = true};
        sg_trace_wrap(&s, &t);
        sg_conv_(&s, &a);
        assert_int_equal(s.status, SG_OK);
        assert_int_equal(t.rows, whole ? 1 : 2);
        assert_string_equal(t.row[0].op, whole ? "conv" : "upsample");
        assert_string_equal(t.row[t.rows - 1].op, "conv");
        assert_int_equal(s.scratch.used, 0);
        assert_int_equal(s.scratch.peak > 0, !whole);
        a.twice = false;
        sg_conv_(&s, &a);
        assert_int_equal(s.status, SG_E_SHAPE);
        sg_trace_free(&t);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_by_op_and_shape),
        cmocka_unit_test(more_terms_and_looked_up_rows),
        cmocka_unit_test(pauses_and_clears),
        cmocka_unit_test(a_conv_at_twice_the_size_is_whole_or_in_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
