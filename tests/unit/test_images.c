/* test_images.c - images out: JPEG and what it keeps, the grid of a batch, clips to a descriptor, outputs that would be
 * one file or replace an input. */
#include "base/output_file.h"
#include "collage.h"
#include "picture_file.h"
#include "unit.h"
#include "writer.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

/* ---- JPEG ---- */

enum { WIDTH = 50, HEIGHT = 34, LONG = 200000 };

/* More than one comment holds, and colours that change from pixel to pixel, which 4:2:0 would lose. */
static void a_jpeg_keeps_colours_and_settings(void **state)
{
    static uint8_t rgb[WIDTH * HEIGHT * 3];
    static char    settings[LONG + 1];
    sg_image       again = {0};
    char          *kept = NULL;
    sg_error       e = {0};
    double         sum = 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++) rgb[3 * i + 2 * (i % 2)] = 200;
    for (int i = 0; i < LONG; i++) settings[i] = (char)('a' + i % 23);
    if (sg_writer_save_picture("a.jpg", rgb, WIDTH, HEIGHT, settings, &e)) fail_msg("%s", e.text);
    if (sg_writer_read_settings("a.jpg", &kept, &e)) fail_msg("%s", e.text);
    assert_string_equal(kept, settings);
    free(kept);
    if (read_image(&again, "a.jpg", &e)) fail_msg("%s", e.text);
    assert_true(again.width == WIDTH && again.height == HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) sum += abs(again.rgb[i] - rgb[i]);
    assert_true(sum / (WIDTH * HEIGHT * 3) < 4);
    sg_image_close(&again);
}

static void a_jpeg_is_one_picture(void **state)
{
    sg_error e = {0};
    assert_refused(
        sg_writer_check(
            &(sg_clip){.size = sizeof(sg_clip), .path = "a.jpeg", .width = 8, .height = 8, .frames = 2, .fps = 1}, &e),
        SG_E_ARG, &e, "path: a.jpeg|2 frames|frames to 1");
    assert_int_equal(
        sg_writer_check(&(sg_clip){.size = sizeof(sg_clip), .path = "a.jpg", .width = 65501, .height = 8, .frames = 1},
                        &e),
        SG_E_ARG);
    assert_string_equal(sg_writer_default_name(1), "out.png");
    assert_string_not_equal(sg_writer_default_name(2), "out.png");
}

#define HEAD "\xff\xd8\xff\xe0\0\4ab"
#define FRAME "\xff\xc0\0\13\10\0\1\0\1\1\1\21\0" /* of one pixel */
#define SCAN FRAME "\xff\xda\0\10\1\1\0\0\77\0"
#define BYTES(text) (text), sizeof(text) - 1

/* Files of others: whatever they hold, an answer. */
static void comments_are_found(void **state)
{
    static const struct {
        const char *bytes;
        size_t      size;
        const char *kept, *refused;
    } cases[] = {
        {BYTES(HEAD "\xff\xfe\0\4{}" SCAN), "{}", NULL},
        {BYTES(HEAD "\xff\xff\xff\xfe\0\3{\xff\xfe\0\3}" SCAN), "{}", NULL},
        {BYTES(HEAD "\xff\x01\xff\xd0\xff\xfe\0\4{}" SCAN), "{}", NULL},
        {BYTES(HEAD SCAN "\xff\xfe\0\4{}"), NULL, "keeps no settings"},
        {BYTES(HEAD "\xff\xfe\0\4\0}" SCAN), NULL, "keeps no settings"},
        {BYTES(HEAD "\xff\xfe\0\xff{}"), NULL, "broken JPEG"}, /* ends within a comment */
        {BYTES(HEAD "\xff\xfe\0\1{}" SCAN), NULL, "broken JPEG"},
        {BYTES(HEAD "\xff\xe1\xff\xff"), NULL, "broken JPEG"},
        {BYTES(HEAD "{}"), NULL, "broken JPEG"},
        {BYTES(HEAD "\xff"), NULL, "broken JPEG"},
        {BYTES(HEAD), NULL, "broken JPEG"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char    *kept = NULL;
        sg_error e = {0};
        write_bytes("b.jpg", cases[i].bytes, cases[i].size);
        const sg_status status = sg_writer_read_settings("b.jpg", &kept, &e);
        if (cases[i].kept) {
            if (status) fail_msg("case %zu: %s", i, e.text);
            assert_string_equal(kept, cases[i].kept);
        } else {
            assert_refused(status, SG_E_FORMAT, &e, cases[i].refused);
        }
        free(kept);
    }
}

/* ---- the grid ---- */

static void expect_grid(int count, int width, int height, int across, int down)
{
    const sg_collage c = {.width = width, .height = height, .frames = 1, .arms = count};
    int              size[2];
    sg_collage_grid_size(&c, &size[0], &size[1]);
    assert_int_equal(size[0], across);
    assert_int_equal(size[1], down);
}

static void a_grid_is_nearly_square(void **state)
{
    expect_grid(2, 30, 20, 64, 20);
    expect_grid(3, 30, 20, 64, 44);
    expect_grid(5, 30, 20, 98, 44);
    expect_grid(9, 30, 20, 98, 68);
    expect_grid(10, 30, 20, 132, 68);
    expect_grid(4, 4000, 16, 8004, 36);
    expect_grid(4, 4096, 16, 4100, 20); /* half as large */
    expect_grid(10000, 1024, 1024, 100 * 73 + 99 * 4, 100 * 73 + 99 * 4);
}

/* Picture k has the colour k + 1 everywhere; between them it is black. */
static void pictures_stand_in_order(void **state)
{
    enum { COUNT = 3, W = 6, H = 4, ACROSS = 16, DOWN = 12 };
    const sg_collage c = {.width = W, .height = H, .frames = 1, .arms = COUNT};
    uint8_t          rgb[ACROSS * DOWN * 3] = {0}, one[W * H * 3];
    const sg_image   on = {ACROSS, DOWN, rgb};
    for (int k = 0; k < COUNT; k++) {
        memset(one, k + 1, sizeof one);
        sg_collage_grid_put(&on, &c, k, one);
    }
    for (int y = 0; y < DOWN; y++)
        for (int x = 0; x < ACROSS; x++) {
            const bool gap = (x >= W && x < W + 4) || (y >= H && y < H + 4);
            const int  k = (y > H) * 2 + (x > W);
            assert_int_equal(rgb[3 * (y * ACROSS + x) + 1], gap || k >= COUNT ? 0 : k + 1);
        }
}

/* ---- a descriptor ---- */

/* A pipe gets what a file would, and is open afterwards; no name stands for stdout. */
static void a_descriptor_gets_a_clip(void **state)
{
    static const uint8_t rgb[2 * 2 * 2 * 3] = {1, 2, 3, 200};
    sg_error             e = {0};
    int                  end[2];
    char                 got[256] = "";
    size_t               n;
    sg_clip              clip = {.size = sizeof clip, .path = "a.y4m", .width = 2, .height = 2, .frames = 2, .fps = 8};
    assert_done(sg_writer_save(&clip, rgb, &e), &e);
    char *const want = read_file("a.y4m", &n);
    assert_int_equal(pipe(end), 0);
    clip.path = NULL;
    clip.beside = "b.y4m";
    clip.has_descriptor = true;
    clip.descriptor = end[1];
    assert_done(sg_writer_check(&clip, &e), &e);
    assert_int_equal(
        sg_writer_bytes(&clip),
        sg_writer_bytes(&(sg_clip){.size = sizeof clip, .path = "a.y4m", .width = 2, .height = 2, .frames = 2}));
    assert_done(sg_writer_save(&clip, rgb, &e), &e);
    assert_int_equal(write(end[1], ".", 1), 1);
    assert_int_equal(read(end[0], got, sizeof got), n + 1);
    assert_memory_equal(got, want, n);
    free(want);
    clip.descriptor = end[0];
    assert_refused(sg_writer_save(&clip, rgb, &e), SG_E_FILE, &e, "descriptor: ");
    close(end[0]);
    close(end[1]);
    clip.has_descriptor = false;
    assert_refused(sg_writer_save(&clip, rgb, &e), SG_E_ARG, &e, "path: ");
    clip.path = "-";
    assert_refused(sg_writer_save(&clip, rgb, &e), SG_E_ARG, &e, "path: '-'|ending");
}

/* ---- names ---- */

static void outputs_may_be_one_file(void **state)
{
    assert_int_equal(mkdir("there", 0700), 0);
    assert_int_equal(symlink("there/a.png", "link.png"), 0);
    assert_int_equal(symlink("there", "same"), 0);
    assert_true(sg_output_file_same("a.png", "./a.png"));
    assert_true(sg_output_file_same("there/../a.png", "a.png"));
    assert_true(sg_output_file_same("link.png", "same/a.png"));
    write_text("there/a.png", "");
    assert_true(sg_output_file_same("link.png", "same/a.png"));
    assert_false(sg_output_file_same("a.png", "b.png"));
    assert_false(sg_output_file_same("a.png", "there/a.png"));
    assert_false(sg_output_file_same("-", "-"));
    assert_false(sg_output_file_same("/dev/null", "/dev/null"));
    assert_false(sg_output_file_same("no/a.png", "no/a.png")); /* which is refused for another reason */
}

static void expect_numbered(const char *path, int index, int frames, const char *name)
{
    char *const got = sg_writer_numbered(path, index, frames);
    assert_string_equal(got, name);
    free(got);
}

static void clips_are_numbered(void **state)
{
    expect_numbered("a.mp4", 0, 5, "a-0001.mp4");
    expect_numbered("there.d/a", 9999, 5, "there.d/a-10000");
    expect_numbered("a%d.mp4", 1, 1, "a%d-0002.mp4"); /* no pattern but in a PNG's name */
    expect_numbered("a%d.png", 1, 1, "a2.png");
    expect_numbered("a-%04d.PNG", 11, 1, "a-0012.PNG");
    expect_numbered("there/%03d.png", 1, 5, "there/0002-%03d.png");
    expect_numbered("100%.png", 0, 5, "100%-0001.png");
}

static void expect_text(const char *path, const char *text)
{
    char        got[8] = "";
    FILE *const f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(got, sizeof got, f));
    fclose(f);
    assert_string_equal(got, text);
}

static void publish_beside(const char *path, const char *text, const char *first, const char *name)
{
    sg_error        e = {0};
    sg_output_file *f;
    char           *got = NULL;
    if (sg_output_file_open(&f, path, &e) || sg_output_file_write(f, text, strlen(text), &e) ||
        sg_output_file_publish_beside(&f, first, &got, &e))
        fail_msg("%s", e.text);
    assert_string_equal(got, name);
    free(got);
    expect_text(name, text);
}

/* What came while the file was written stays, a link that leads nowhere too. */
static void a_file_beside_others_replaces_none(void **state)
{
    publish_beside("new.y4m", "a", "new.y4m", "new.y4m");
    publish_beside("new.y4m", "b", "new.y4m", "new-1.y4m");
    assert_int_equal(symlink("nowhere", "new-2.y4m"), 0);
    publish_beside("new-2.y4m.d", "c", "new.y4m", "new-3.y4m");
    expect_text("new.y4m", "a");
    expect_text("new-1.y4m", "b");
    assert_int_equal(access("nowhere", F_OK), -1);
}

enum { PROTECTING = 4, PROTECTED = 200 };

/* Protects files, each of which is refused at once. *context becomes the number of those that were not. */
static void *protect_files(void *context)
{
    int *const at = context, first = *at;
    for (int i = *at = 0; i < PROTECTED; i++) {
        char        path[16];
        sg_error    e = {0};
        FILE *const f = (snprintf(path, sizeof path, "in-%d", first + i), fopen(path, "w"));
        if (f) fclose(f);
        if (!f || sg_output_file_protect(path, "a test", &e) || sg_output_file_check(path, "x", &e) != SG_E_ARG) ++*at;
    }
    return NULL;
}

static void engines_of_several_threads_protect_their_files(void **state)
{
    pthread_t thread[PROTECTING];
    int       at[PROTECTING];
    for (int i = 0; i < PROTECTING; i++) {
        at[i] = i * PROTECTED;
        assert_int_equal(pthread_create(&thread[i], NULL, protect_files, &at[i]), 0);
    }
    for (int i = 0; i < PROTECTING; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_int_equal(at[i], 0);
    }
    for (int i = 0; i < PROTECTING * PROTECTED; i++) {
        char     path[16];
        sg_error e = {0};
        snprintf(path, sizeof path, "in-%d", i);
        assert_refused(sg_output_file_check(path, "x", &e), SG_E_ARG, &e, "a test");
    }
}

/* ---- what is no clip, and calls in no order ---- */

static void clips_that_cannot_be_are_refused(void **state)
{
    static const struct {
        sg_clip     clip;
        const char *names;
    } cases[] = {
        {{.path = "c.y4m", .width = -1, .height = 2, .frames = 1, .fps = 1}, "size|-1x2"},
        {{.path = "c.y4m", .width = 2, .height = INT_MAX, .frames = 1, .fps = 1}, "size|2x2147483647"},
        {{.path = "c.y4m", .height = 2, .frames = 1, .fps = 1}, "clip|0x2"},
        {{.path = "c.y4m", .width = 2, .height = 2, .fps = 1}, "clip|0 frames"},
        {{.path = "c-%d.png", .width = 2, .height = 2, .frames = INT_MAX, .fps = 1}, "frames|2147483647"},
        {{.path = "c.y4m", .width = 2, .height = 2, .frames = 1}, "clip|0 a second"},
        {{.path = "c.y4m", .width = 2, .height = 2, .frames = 1, .fps = -1}, "fps|-1"},
        {{.path = "c.mp4", .width = 2, .height = 2, .frames = 1, .fps = 1, .has_crf = true, .crf = NAN}, "crf|nan"},
        {{.path = "c.mp4", .width = 2, .height = 2, .frames = 1, .fps = 1, .has_crf = true, .crf = 52}, "crf|52"},
        {{.path = "c.png", .width = 2, .height = 2, .frames = 1, .fps = 1, .has_png_level = true, .png_level = INT_MAX},
         "png_level|2147483647"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_clip    clip = cases[i].clip;
        sg_writer *w = NULL;
        sg_error   e = {0};
        clip.size = sizeof clip;
        assert_refused(sg_writer_open(&w, &clip, &e), SG_E_ARG, &e, cases[i].names);
        assert_null(w);
    }
}

/* A clip of two frames that is finished before, in time and again. */
static void a_writer_ends_once(void **state)
{
    enum { FRAMES = 6 };
    static const uint8_t     rgb[2 * 2 * 3];
    static const char *const path[] = {"d.y4m", "d-%d.png"};
    for (int k = 0; k < 4; k++) {
        const bool whole = k / 2;
        sg_error   e = {0};
        sg_writer *w = NULL;
        sg_clip clip = {.size = sizeof clip, .path = path[k % 2], .width = 2, .height = 2, .frames = FRAMES, .fps = 1};
        clip.beside = whole && k % 2 == 0 ? "e.y4m" : NULL;
        assert_done(sg_writer_open(&w, &clip, &e), &e);
        for (int i = 0; i < (whole ? FRAMES : 1); i++) assert_done(sg_writer_write(w, i, rgb, &e), &e);
        assert_null(sg_writer_file(w, 0));
        assert_int_equal(sg_writer_finish(w, &e), whole ? SG_OK : SG_E_SHAPE);
        assert_true(whole == (sg_writer_file(w, 0) != NULL));
        for (int i = 1; i < FRAMES; i++) {
            e = (sg_error){0};
            assert_refused(sg_writer_write(w, i, rgb, &e), SG_E_ARG, &e, path[k % 2]); /* there is room for four */
        }
        e = (sg_error){0};
        assert_refused(sg_writer_finish(w, &e), whole ? SG_E_ARG : SG_E_SHAPE, &e, path[k % 2]);
        assert_null(sg_writer_file(w, -1));
        sg_writer_close(&w);
        assert_int_equal(access(k % 2 ? "d-1.png" : "e.y4m", F_OK) == 0, whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_jpeg_keeps_colours_and_settings),
        cmocka_unit_test(a_jpeg_is_one_picture),
        cmocka_unit_test(comments_are_found),
        cmocka_unit_test(a_descriptor_gets_a_clip),
        cmocka_unit_test(a_grid_is_nearly_square),
        cmocka_unit_test(pictures_stand_in_order),
        cmocka_unit_test(outputs_may_be_one_file),
        cmocka_unit_test(clips_are_numbered),
        cmocka_unit_test(a_file_beside_others_replaces_none),
        cmocka_unit_test(clips_that_cannot_be_are_refused),
        cmocka_unit_test(a_writer_ends_once),
        cmocka_unit_test(engines_of_several_threads_protect_their_files),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
