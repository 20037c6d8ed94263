/* test_mp4_encoder.c - MP4 by whichever encoder opens here: frames come back, the next takes the place of one that does
 * not. */
#include "clip_reader.h"
#include "unit.h"
#include "writer.h"

enum { SIDE = 96, FRAMES = 11 };

static const char path[] = "a.mp4";

static bool has_mp4(void) { return strstr(sg_writer_endings((char[80]){0}, 80), ".mp4") != NULL; }

/* A slope of colour that moves, for which a chroma sample for four pixels is enough. */
static uint8_t sample(int frame, int y, int x, int c)
{
    return (uint8_t)(c == 0 ? 40 + x + 4 * frame : c == 1 ? 200 - y : 60 + (x + y) / 2);
}

static sg_clip clip_by(const char *const *encoders)
{
    return (sg_clip){.size = sizeof(sg_clip),
                     .path = path,
                     .width = SIDE,
                     .height = SIDE,
                     .frames = FRAMES,
                     .fps = 12,
                     .settings = "{\"a\": 1}",
                     .encoders = encoders};
}

static void write_clip(const sg_clip *clip)
{
    static uint8_t rgb[SIDE * SIDE * 3];
    sg_error       e = {0};
    sg_writer     *s = NULL;
    if (sg_writer_open(&s, clip, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < FRAMES; i++) {
        for (int k = 0; k < SIDE * SIDE * 3; k++) rgb[k] = sample(i, k / 3 / SIDE, k / 3 % SIDE, k % 3);
        if (sg_writer_write(s, i, rgb, &e)) fail_msg("%s", e.text);
    }
    if (sg_writer_finish(s, &e)) fail_msg("%s", e.text);
    sg_writer_close(&s);
}

/* Wrong colours, by another matrix or range, would differ by far more. */
static void expect_frames(const char *encoder)
{
    sg_error        e = {0};
    sg_clip_reader *r = NULL;
    const sg_image *f = NULL;
    char           *kept = NULL;
    if (sg_clip_reader_open(&r, path, &e)) fail_msg("%s: %s", encoder, e.text);
    for (int i = 0; i < FRAMES; i++) {
        double sum = 0;
        if (sg_clip_reader_next(r, &f, &e) || !f) fail_msg("%s: frame %d: %s", encoder, i, e.text);
        assert_true(f->width == SIDE && f->height == SIDE);
        for (int k = 0; k < SIDE * SIDE * 3; k++) sum += abs(f->rgb[k] - sample(i, k / 3 / SIDE, k / 3 % SIDE, k % 3));
        if (sum > 3.0 * SIDE * SIDE * 3) fail_msg("%s: frame %d is %g off", encoder, i, sum / (SIDE * SIDE * 3));
    }
    if (sg_clip_reader_next(r, &f, &e)) fail_msg("%s: %s", encoder, e.text);
    assert_null(f);
    sg_clip_reader_close(&r);
    if (sg_writer_read_settings(path, &kept, &e)) fail_msg("%s", e.text);
    assert_string_equal(kept, "{\"a\": 1}");
    free(kept);
}

/* The name of the encoder that a list comes to, or NULL. */
static const char *found(const char *const *encoders)
{
    const char   *what;
    const sg_clip clip = clip_by(encoders);
    return sg_writer_encoder(&clip, &what);
}

static void what_opens_writes_frames_that_come_back(void **state)
{
    static const char *const name[][2] = {{"libx264"},   {"libopenh264"}, {"h264_nvenc"},
                                          {"libsvtav1"}, {"libaom-av1"},  {"librav1e"}};
    int                      opened = 0;
    if (!has_mp4()) skip();
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const sg_clip clip = clip_by(name[i]);
        const char *what = NULL, *const encoder = sg_writer_encoder(&clip, &what);
        sg_error e = {0};
        if (!encoder) {
            assert_refused(sg_writer_check(&clip, &e), SG_E_UNSUPPORTED, &e, "H.264|AV1|this size");
            continue;
        }
        opened++;
        assert_string_equal(encoder, name[i][0]);
        assert_string_equal(what, i < 3 ? "H.264" : "AV1");
        if (sg_writer_check(&clip, &e)) fail_msg("%s", e.text);
        write_clip(&clip);
        expect_frames(encoder);
    }
    if (!opened) skip();
}

static void one_that_does_not_open_is_passed_over(void **state)
{
    static const char *const none[] = {"no such", "libx264rgb", NULL}; /* the second takes no yuv420p */
    static const char *const all[] = {"no such", "libx264rgb", "libx264", "libopenh264", "libaom-av1", NULL};
    static const char *const good[] = {"libx264", "libopenh264", "libaom-av1", NULL};
    static const char *const others[] = {"h264", NULL};
    const char              *what;
    if (!has_mp4()) skip();
    assert_null(found(none));
    if (!found(good)) skip();
    assert_string_equal(found(all), found(good));
    const sg_clip clip = clip_by(all), unsized = {.size = sizeof unsized, .path = "a.mp4"};
    write_clip(&clip);
    expect_frames(found(all));
    assert_non_null(sg_writer_encoder(&unsized, &what));
    assert_null(sg_writer_encoder(&(sg_clip){.size = sizeof(sg_clip), .path = "a.mkv"}, &what));
    if (strcmp(found(good), "libx264") == 0) assert_non_null(found(others));
}

/* A program may keep its lists in one array. */
static void a_list_is_what_it_says_now(void **state)
{
    const char *list[] = {"libx264", NULL};
    if (!has_mp4() || !found(list)) skip();
    list[0] = "no such";
    assert_null(found(list));
}

static void crf_is_refused_where_the_encoder_has_none(void **state)
{
    static const char *const with[][2] = {{"libx264"}, {"libsvtav1"}, {"libaom-av1"}};
    static const char *const without[][2] = {{"libopenh264"}, {"h264_nvenc"}, {"librav1e"}};
    if (!has_mp4()) skip();
    for (int i = 0; i < 6; i++) {
        sg_clip  clip = clip_by(i < 3 ? with[i] : without[i - 3]);
        sg_error e = {0};
        if (!found(clip.encoders)) continue;
        clip.has_crf = true;
        clip.crf = 51;
        const sg_status status = sg_writer_check(&clip, &e);
        if (i < 3 && status) fail_msg("%s", e.text);
        if (i < 3) continue;
        assert_refused(status, SG_E_UNSUPPORTED, &e, "crf: ", clip.encoders[0]);
    }
}

/* As a render that is cancelled in its first step does it; SVT-AV1 1.4 would wait without end. */
static void a_clip_without_a_frame_can_be_given_up(void **state)
{
    static const char *const name[][2] = {{"libx264"},   {"libopenh264"}, {"h264_nvenc"},
                                          {"libsvtav1"}, {"libaom-av1"},  {"librav1e"}};
    if (!has_mp4()) skip();
    unlink(path);
    alarm(60);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        const sg_clip clip = clip_by(name[i]);
        sg_error      e = {0};
        sg_writer    *s = NULL;
        if (!found(name[i])) continue;
        if (sg_writer_open(&s, &clip, &e)) fail_msg("%s", e.text);
        sg_writer_close(&s);
        assert_int_equal(files_in("."), 0);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_opens_writes_frames_that_come_back),
        cmocka_unit_test(one_that_does_not_open_is_passed_over),
        cmocka_unit_test(a_list_is_what_it_says_now),
        cmocka_unit_test(crf_is_refused_where_the_encoder_has_none),
        cmocka_unit_test(a_clip_without_a_frame_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
