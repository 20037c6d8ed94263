/* test_video_input.c - which frames of a video are those of a clip of another rate, and where a video is too short. */
#include "picture.h"
#include "unit.h"
#include "video_input.h"
#include "writer.h"

enum { SIDE = 8, GREY = 10 }; /* the second: from a frame to the next */

static sg_engine *engine;

static void write_video(const char *path, int frames, int fps)
{
    const sg_clip clip = {
        .size = sizeof(sg_clip), .path = path, .width = SIDE, .height = SIDE, .frames = frames, .fps = fps};
    uint8_t    rgb[SIDE * SIDE * 3];
    sg_writer *s = NULL;
    sg_error   e = {0};
    sg_status  status = sg_writer_open(&s, &clip, &e);
    for (int i = 0; i < frames && status == SG_OK; i++) {
        memset(rgb, GREY * i, sizeof rgb);
        status = sg_writer_write(s, i, rgb, &e);
    }
    if (status == SG_OK) status = sg_writer_finish(s, &e);
    sg_writer_close(&s);
    if (status != SG_OK) fail_msg("%s", e.text);
}

/* The frames that a clip takes of a video, as digits; of a refusal its message. */
static const char *taken(const char *path, int frames, int fps)
{
    static char    text[4096];
    sg_request     r = {.width = 2 * SIDE, .height = SIDE, .frames = frames, .fps = fps};
    sg_video_input v;
    sg_error       e = {0};
    sg_status      status = sg_video_input_open(&v, path, "--video", &e);
    if (status == SG_OK) status = sg_video_input_read(&v, engine, &r, sg_picture_fits[0], &e);
    for (int i = 0; i < frames && status == SG_OK; i++) {
        const uint8_t *const frame = r.start_video + (size_t)i * 2 * SIDE * SIDE * 3;
        text[i] = (char)('0' + (frame[0] + GREY / 2) / GREY);
        assert_int_equal(frame[2 * SIDE * SIDE * 3 - 1], frame[0]);
        text[i + 1] = '\0';
    }
    sg_video_input_close(&v);
    if (status != SG_OK) snprintf(text, sizeof text, "%s", e.text);
    return text;
}

static bool reads_videos(void) { return strstr(sg_writer_endings((char[80]){0}, 80), ".mkv") != NULL; }

static void nearest_frames(void **state)
{
    for (int k = 0; k < 1 + reads_videos(); k++) {
        const char *const path = k ? "video.mkv" : "video.y4m";
        write_video(path, 9, 8);
        assert_string_equal(taken(path, 9, 8), "012345678");
        assert_string_equal(taken(path, 5, 8), "01234");
        assert_string_equal(taken(path, 5, 4), "02468");
        assert_string_equal(taken(path, 9, 16), "011223344");
        assert_string_equal(taken(path, 13, 12), "0112334556778"); /* 0, 2/3, 4/3, 2, ... */
        assert_string_equal(taken(path, 1, 24), "0");
    }
}

/* The last frame is shown as long as the others, to the end of that time. */
static void the_end(void **state)
{
    write_video("video.y4m", 8, 8);
    assert_string_equal(taken("video.y4m", 9, 8), "012345677");
    assert_string_equal(taken("video.y4m", 13, 8),
                        "--video: video.y4m: makes 8 frames at 8 fps, and the clip has 13; --frames 5 would do");
    write_video("video.y4m", 1, 8);
    assert_string_equal(taken("video.y4m", 1, 8), "0");
    assert_string_equal(taken("video.y4m", 5, 8),
                        "--video: video.y4m: makes 1 frame at 8 fps, and the clip has 5; --frames 1 would do");
}

static void a_video_that_is_cut_is_named_once(void **state)
{
    struct stat st;
    write_video("video.y4m", 9, 8);
    assert_int_equal(stat("video.y4m", &st), 0);
    assert_int_equal(truncate("video.y4m", st.st_size - 1), 0);
    assert_string_equal(taken("video.y4m", 9, 8),
                        "--video: video.y4m: Y4M: the file ends within a frame, after 8 whole ones");
}

/* What a look at the video says, which reads so many pixels of it at most. */
static const char *checked(int frames, size_t pixels)
{
    static char      text[4096];
    const sg_request r = {.width = SIDE, .height = SIDE, .frames = frames, .fps = 8};
    sg_video_input   v;
    sg_error         e = {0};
    assert_done(sg_video_input_open(&v, "video.y4m", "--video", &e), &e);
    const sg_status status = sg_video_input_check(&v, engine, &r, pixels, &e);
    assert_null(v.rgb);
    assert_int_equal(status, e.code);
    sg_video_input_close(&v);
    snprintf(text, sizeof text, "%s", e.text);
    return text;
}

/* The first frame is read when the video is opened. */
static void a_check_reads_so_much(void **state)
{
    const size_t frame = SIDE * SIDE;
    write_video("video.y4m", 5, 8);
    assert_string_equal(checked(5, SIZE_MAX), "");
    assert_string_equal(checked(9, SIZE_MAX), taken("video.y4m", 9, 8));
    assert_string_equal(checked(9, 4 * frame), taken("video.y4m", 9, 8));
    assert_string_equal(checked(9, 4 * frame - 1), "");
}

static int clean(void **state)
{
    sg_engine_close(&engine);
    return leave_folder(state);
}

static int open_model(void **state)
{
    return enter_folder(state) || sg_engine_open(&engine,
                                                 &(sg_engine_options){.size = sizeof(sg_engine_options),
                                                                      .model_dir = SG_FIXTURES "/wan21_hd12",
                                                                      .backend = "cpu"},
                                                 NULL) != SG_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nearest_frames), cmocka_unit_test(the_end),
                                       cmocka_unit_test(a_video_that_is_cut_is_named_once),
                                       cmocka_unit_test(a_check_reads_so_much)};
    return cmocka_run_group_tests(tests, open_model, clean);
}
