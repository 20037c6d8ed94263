/* test_capture.c - q, k and v of a layer as they go into a file. */
#include "backend.h"
#include "render.h"
#include "tensor_source.h"
#include "unit.h"

/* The video's tokens go back to their places, text before and behind them stays where it is, and the file tells how much
 * of it there is. */
static void text_is_captured_in_place(void **state)
{
    static const char        path[] = "out.safetensors";
    sg_backend              *oracle = NULL;
    sg_source               *file = NULL;
    sg_error                 e = {0};
    float                    rows[6] = {10, 11, 12, 13, 14, 15};
    const float              back[6] = {10, 11, 14, 12, 13, 15};
    const int32_t            order[] = {1, 2, 0};
    const sg_tensor          t = {.data = rows, .rank = 3, .dim = {6, 1, 1}};
    sg_capture               c = {.order = order};
    const int64_t            grid[3] = {1, 1, 3};
    static const char *const metadata[][2] = {
        {"grid", "1,1,3"}, {"text_prefix", "2"}, {"text_suffix", "1"}, {"layer", "0"}, {"step", "0"}};
    assert_int_equal(sg_backend_open(&oracle, &(sg_backend_options){.name = "ref"}, &e), SG_OK);
    sg_stream s = sg_stream_of(oracle);
    sg_capture_hook(&c, &s, &(sg_attention_shape){.text_prefix = 2, .text_suffix = 1}, 0, 0, 0, 1,
                    &(sg_attend_args){.q = t, .k = t, .v = t});
    assert_int_equal(s.status, SG_OK);
    assert_memory_equal(c.q.data, back, sizeof back);
    assert_memory_equal(c.v.data, back, sizeof back);
    if (sg_capture_write(&c, path, grid, &e) || sg_source_open(&file, path, &e)) fail_msg("%s", e.text);
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++) {
        const char *const has = sg_source_metadata(file, metadata[i][0]);
        if (!has || strcmp(has, metadata[i][1]) != 0) fail_msg("%s is %s", metadata[i][0], has ? has : "missing");
    }
    sg_source_close(&file);
    sg_capture_free(&c);
    sg_backend_close(&oracle);
}

/* Rows of a group stay as they attend, a grid of one row: its curves are that order. */
static void a_group_is_captured_as_it_attends(void **state)
{
    static const char path[] = "group.safetensors";
    sg_backend       *oracle = NULL;
    sg_source        *file = NULL;
    sg_error          e = {0};
    float             rows[3] = {8, 0, 4};
    const int32_t     order[] = {8, 1, 0, 4, 2, 3, 5, 6, 7};
    const sg_tensor   t = {.data = rows, .rank = 3, .dim = {3, 1, 1}};
    sg_capture        c = {.order = order};
    const int64_t     grid[3] = {1, 3, 3};
    assert_int_equal(sg_backend_open(&oracle, &(sg_backend_options){.name = "ref"}, &e), SG_OK);
    sg_stream                s = sg_stream_of(oracle);
    const sg_attention_shape shape = {.n = 3, .groups = {4, 1}};
    for (int pass = 0; pass < 2; pass++) { /* the second is another group */
        sg_capture_hook(&c, &s, &shape, 0, 0, pass, 1, &(sg_attend_args){.q = t, .k = t, .v = t});
        assert_memory_equal(c.q.data, ((const float[]){8, 0, 4}), sizeof rows);
        rows[0] = 9;
    }
    assert_int_equal(s.status, SG_OK);
    if (sg_capture_write(&c, path, grid, &e) || sg_source_open(&file, path, &e)) fail_msg("%s", e.text);
    assert_string_equal(sg_source_metadata(file, "grid"), "1,1,3");
    sg_source_close(&file);
    sg_capture_free(&c);
    sg_backend_close(&oracle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(text_is_captured_in_place),
                                       cmocka_unit_test(a_group_is_captured_as_it_attends)};
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
