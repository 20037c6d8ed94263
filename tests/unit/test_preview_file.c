/* test_preview_file.c - previews in a file: a strip's size and places, the newest last, nothing half done, refusals. */
#include "preview_file.h"
#include "unit.h"

#include "picture_file.h"
#include "writer.h"

static const char path[] = "p-%d.png"; /* a name, no pattern */

static const sg_request request = {.frames = 33, .fps = 16, .width = 48, .height = 32};

/* Frame f, row y, column x of a preview after `step`. */
static uint8_t shade(int step, int f, int y, int x) { return (uint8_t)(step * 50 + f * 9 + y * 3 + x); }

static uint8_t *make(sg_preview *p, int step, int frames, int height, int width)
{
    uint8_t *const rgb = malloc((size_t)frames * (size_t)height * (size_t)width * 3), *at = rgb;
    for (int f = 0; f < frames; f++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++, at += 3) at[0] = at[1] = at[2] = shade(step, f, y, x);
    *p = (sg_preview){.step = step, .frames = frames, .height = height, .width = width, .rgb = rgb};
    return rgb;
}

static void show(sg_preview_file *f, int step, int frames, int height, int width)
{
    sg_preview     p;
    uint8_t *const rgb = make(&p, step, frames, height, width);
    sg_error       e = {0};
    if (sg_preview_file_show(f, &p, &e) != SG_OK) fail_msg("%s", e.text);
    free(rgb); /* it was copied */
}

static void a_strip_has_all_frames_of_the_last(void **state)
{
    enum { FRAMES = 9, HEIGHT = 4, WIDTH = 6 };
    sg_preview_file *f = NULL;
    sg_error         e = {0};
    sg_image         got;
    assert_int_equal(sg_preview_file_open(&f, path, &request, &e), SG_OK);
    assert_int_equal(files_in("."), 0);
    for (int step = 0; step < 4; step++) show(f, step, FRAMES, HEIGHT, WIDTH);
    sg_preview_file_close(&f, true, &e);
    assert_int_equal(e.code, SG_OK);
    assert_int_equal(files_in("."), 1);
    assert_int_equal(read_image(&got, path, &e), SG_OK);
    assert_true(got.width == FRAMES * WIDTH && got.height == HEIGHT);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < got.width; x++)
            assert_int_equal(got.rgb[3 * (y * got.width + x)], shade(3, x / WIDTH, y, x % WIDTH));
    sg_image_close(&got);
}

/* From the first to the last of them. */
static void a_strip_is_no_wider_than_pictures_may_be(void **state)
{
    enum { FRAMES = 9, WIDTH = 5000 };
    sg_preview_file *f = NULL;
    sg_error         e = {0};
    sg_image         got;
    assert_int_equal(sg_preview_file_open(&f, path, &request, &e), SG_OK);
    show(f, 0, FRAMES, 1, WIDTH);
    sg_preview_file_close(&f, true, &e);
    assert_int_equal(read_image(&got, path, &e), SG_OK);
    assert_true(got.width == 3 * WIDTH && got.height == 1);
    for (int k = 0; k < 3; k++) assert_int_equal(got.rgb[3 * k * WIDTH], shade(0, 4 * k, 0, 0));
    sg_image_close(&got);
}

static void what_waits_when_all_ends_is_not_written(void **state)
{
    sg_preview_file *f = NULL;
    remove(path);
    assert_int_equal(sg_preview_file_open(&f, path, &request, NULL), SG_OK);
    sg_preview_file_close(&f, false, NULL);
    assert_int_equal(files_in("."), 0);
    sg_preview_file_close(&f, true, NULL);
}

static void a_failure_is_told_and_leaves_nothing(void **state)
{
    sg_preview_file *f = NULL;
    sg_error         e = {0};
    assert_int_equal(sg_preview_file_open(&f, "/nowhere/p.png", &request, &e), SG_OK);
    show(f, 0, 1, 2, 2);
    sg_preview_file_close(&f, true, &e);
    assert_refused(e.code, SG_E_FILE, &e, "/nowhere");
}

static void names_and_sizes_are_refused(void **state)
{
    sg_error e = {0};
    size_t   bytes = 0;
    assert_refused(sg_preview_file_check("p.gif", &e), SG_E_ARG, &e, "--preview: 'p.gif'");
    assert_int_equal(sg_preview_file_plan(path, &request, (const int[]){9, 32, 48}, &bytes, NULL), SG_OK);
    assert_true(bytes >= 3 * 9 * 32 * 48 * 3);
    assert_int_equal(sg_preview_file_plan(path, &request, (const int[]){1, 512, 512}, &bytes, NULL), SG_OK);
    assert_true(bytes < 6 * 512 * 512 * 3); /* two previews, the strip, one frame on its way, and the encoder */
    if (strcmp(sg_writer_default_name(2), "out.mp4") != 0) return; /* a build without FFmpeg */
    e = (sg_error){0};
    assert_refused(sg_preview_file_plan("/tmp/p.mp4", &request, (const int[]){9, 31, 48}, &bytes, &e), SG_E_ARG, &e,
                   "48x31");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strip_has_all_frames_of_the_last),
        cmocka_unit_test(a_strip_is_no_wider_than_pictures_may_be),
        cmocka_unit_test(what_waits_when_all_ends_is_not_written),
        cmocka_unit_test(a_failure_is_told_and_leaves_nothing),
        cmocka_unit_test(names_and_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
