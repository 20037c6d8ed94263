/* test_clip_reader.c - frames written by a writer come back from the file; damaged files are refused. */
#include "clip_reader.h"
#include "metrics.h"
#include "picture_file.h"
#include "unit.h"
#include "writer.h"

enum { WIDTH = 96, HEIGHT = 64, FRAMES = 12, BYTES = WIDTH * HEIGHT * 3 };

static bool has_mp4(void)
{
    char known[80];
    return strstr(sg_writer_endings(known, sizeof known), ".mp4") != NULL;
}

/* Six flat patches, far apart under a wrong matrix or range. */
static const uint8_t colour[6][3] = {{200, 30, 40}, {30, 180, 60},   {40, 50, 210},
                                     {0, 0, 0},     {255, 255, 255}, {220, 200, 30}};

static void patches(uint8_t *rgb, int frame)
{
    (void)frame;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) memcpy(rgb + 3 * (y * WIDTH + x), colour[x / 32 + 3 * (y / 32)], 3);
}

/* Smooth waves that move. */
static void waves(uint8_t *rgb, int frame)
{
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            uint8_t *const p = rgb + 3 * (y * WIDTH + x);
            p[0] = (uint8_t)(128 + 90 * sin((x + 2 * frame) / 11.0));
            p[1] = (uint8_t)(128 + 80 * sin((y - frame) / 9.0));
            p[2] = (uint8_t)(128 + 70 * cos((x + y) / 17.0));
        }
}

static void write_clip(const char *path, void (*draw)(uint8_t *rgb, int frame))
{
    static uint8_t rgb[BYTES];
    const sg_clip  clip = {
         .size = sizeof(sg_clip), .path = path, .width = WIDTH, .height = HEIGHT, .frames = FRAMES, .fps = 8};
    sg_writer *s = NULL;
    sg_error   e = {0};
    sg_status  status = sg_writer_open(&s, &clip, &e);
    for (int i = 0; i < FRAMES && status == SG_OK; i++) {
        draw(rgb, i);
        status = sg_writer_write(s, i, rgb, &e);
    }
    if (status == SG_OK) status = sg_writer_finish(s, &e);
    sg_writer_close(&s);
    if (status != SG_OK) fail_msg("%s", e.text);
}

/* The least PSNR of the clip to the frames that were drawn. Patches: in the middle of each the samples must come back to
 * within off levels. */
static double read_back(const char *path, void (*draw)(uint8_t *rgb, int frame), int off)
{
    static uint8_t  rgb[BYTES];
    sg_clip_reader *r = NULL;
    sg_error        e = {0};
    double          least = INFINITY;
    const sg_image *frame = NULL, drawn = {WIDTH, HEIGHT, rgb};
    if (sg_clip_reader_open(&r, path, &e) != SG_OK) fail_msg("%s", e.text);
    assert_null(sg_clip_reader_list(r));
    for (;;) {
        if (sg_clip_reader_next(r, &frame, &e) != SG_OK) fail_msg("%s", e.text);
        if (!frame) break;
        assert_true(frame->width == WIDTH && frame->height == HEIGHT);
        draw(rgb, r->count - 1);
        least = fmin(least, sg_psnr(&drawn, frame));
        for (int i = 0; i < 6 && off >= 0; i++)
            for (int c = 0; c < 3; c++) {
                const int at = 3 * ((16 + i / 3 * 32) * WIDTH + 16 + i % 3 * 32) + c;
                if (abs(rgb[at] - frame->rgb[at]) > off)
                    fail_msg("%s: patch %d, channel %d: %d became %d", path, i, c, rgb[at], frame->rgb[at]);
            }
    }
    assert_int_equal(r->count, FRAMES);
    assert_int_equal(sg_clip_reader_next(r, &frame, &e), SG_OK);
    assert_null(frame);
    assert_non_null(strstr(sg_clip_reader_where(r), ": frame 11"));
    sg_clip_reader_close(&r);
    return least;
}

static void y4m_comes_back(void **state)
{
    write_clip("patches.y4m", patches);
    write_clip("waves.y4m", waves);
    const double flat = read_back("patches.y4m", patches, 1), moving = read_back("waves.y4m", waves, -1);
    print_message("Y4M: %.2f and %.2f dB\n", flat, moving);
    assert_true(flat > 49 && moving > 49); /* an error of one level everywhere is 48.13 dB */
}

/* BT.601's own numbers of red, green and blue are what is written, with the comment that says so, and become these
 * colours again, also where no comment is. A header of version 0.1 tells BT.709; FFmpeg's, of the same clip, does not. */
static void y4m_has_a_matrix(void **state)
{
    enum { SIDE = 16, COUNT = SIDE * SIDE };
    static const uint8_t pure[3][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
    static const uint8_t of[2][3][3] = {{{81, 90, 240}, {145, 54, 34}, {41, 240, 110}},   /* BT.601 */
                                        {{63, 102, 240}, {173, 42, 26}, {32, 240, 118}}}; /* BT.709 */
    static const struct {
        const char *end;
        int         matrix;
    } headers[] = {{" XCOLORRANGE=LIMITED XSPARGE=601", 0},
                   {"", 0},
                   {" XCOLORRANGE=LIMITED", 1},
                   {" XYSCSS=444 XCOLORRANGE=LIMITED", 0}};
    for (int k = 0; k < 3; k++) {
        static uint8_t rgb[3 * COUNT];
        sg_writer     *w = NULL;
        sg_error       e = {0};
        sg_map         map;
        for (int i = 0; i < 3 * COUNT; i++) rgb[i] = pure[k][i % 3];
        assert_int_equal(
            sg_writer_open(
                &w,
                &(sg_clip){
                    .size = sizeof(sg_clip), .path = "c.y4m", .width = SIDE, .height = SIDE, .frames = 1, .fps = 8},
                &e),
            SG_OK);
        assert_int_equal(sg_writer_write(w, 0, rgb, &e), SG_OK);
        assert_int_equal(sg_writer_finish(w, &e), SG_OK);
        sg_writer_close(&w);
        assert_int_equal(sg_map_open(&map, "c.y4m", &e), SG_OK);
        static const char start[] = "YUV4MPEG2 W16 H16 F8:1 Ip A1:1 C444 XCOLORRANGE=LIMITED XSPARGE=601\nFRAME\n";
        assert_int_equal(map.size, strlen(start) + 3 * COUNT);
        assert_memory_equal(map.data, start, strlen(start));
        for (int c = 0; c < 3; c++) assert_int_equal(map.data[strlen(start) + (size_t)c * COUNT], of[0][k][c]);
        sg_map_close(&map);
        for (size_t h = 0; h < sizeof headers / sizeof *headers; h++) {
            sg_clip_reader *r = NULL;
            const sg_image *f = NULL;
            FILE *const     out = fopen("broken.y4m", "wb");
            assert_non_null(out);
            fprintf(out, "YUV4MPEG2 W16 H16 F8:1 Ip A1:1 C444%s\nFRAME\n", headers[h].end);
            for (int i = 0; i < 3 * COUNT; i++) fputc(of[headers[h].matrix][k][i / COUNT], out);
            assert_int_equal(fclose(out), 0);
            if (sg_clip_reader_open(&r, "broken.y4m", &e) != SG_OK) fail_msg("%s", e.text);
            if (sg_clip_reader_next(r, &f, &e) != SG_OK) fail_msg("%s", e.text);
            for (int c = 0; c < 3; c++)
                if (abs(f->rgb[c] - pure[k][c]) > 2)
                    fail_msg("header %zu, colour %d: channel %d is %d", h, k, c, f->rgb[c]);
            sg_clip_reader_close(&r);
        }
    }
}

/* The wrong matrix moves the patches by up to 30 levels, the wrong range by 16. */
static void mp4_comes_back(void **state)
{
    if (!has_mp4()) skip();
    write_clip("patches.mp4", patches);
    write_clip("waves.mp4", waves);
    const double flat = read_back("patches.mp4", patches, 2), moving = read_back("waves.mp4", waves, -1);
    print_message("MP4: %.2f and %.2f dB\n", flat, moving);
    assert_true(flat > 25); /* chroma of half the resolution at the edges */
    assert_true(moving > 40);
}

/* ---- pictures: written by several threads ---- */

enum { PICTURES = 23 };

/* Opens a writer of PICTURES frames for name and writes the first count of them; the first failure. */
static sg_status write_pictures(sg_writer **s, const char *name, int level, int count, sg_error *e)
{
    static uint8_t rgb[BYTES];
    const sg_clip  clip = {.size = sizeof(sg_clip),
                           .path = name,
                           .width = WIDTH,
                           .height = HEIGHT,
                           .frames = PICTURES,
                           .fps = 8,
                           .settings = "{\"seed\": 7}",
                           .has_png_level = level >= 0,
                           .png_level = level};
    SG_TRY(sg_writer_open(s, &clip, e));
    for (int i = 0; i < count; i++) {
        waves(rgb, i);
        SG_TRY(sg_writer_write(*s, i, rgb, e));
    }
    return SG_OK;
}

/* Removes the folder, in which nothing must be left. */
static void expect_empty(const char *folder)
{
    if (rmdir(folder) != 0) fail_msg("%s is not empty", folder);
}

static void every_picture_has_its_number(void **state)
{
    static uint8_t drawn[BYTES];
    for (int level = -1; level <= 9; level++) {
        sg_writer *s = NULL;
        sg_error   e = {0};
        assert_int_equal(mkdir("numbers", 0700), 0);
        if (write_pictures(&s, "numbers/%02d.png", level, PICTURES, &e) != SG_OK) fail_msg("%s", e.text);
        if (sg_writer_finish(s, &e) != SG_OK) fail_msg("%s", e.text);
        sg_writer_close(&s);
        for (int i = 0; i < PICTURES; i++) {
            char     name[32], *settings = NULL;
            sg_image read = {0};
            snprintf(name, sizeof name, "numbers/%02d.png", i + 1);
            if (read_image(&read, name, &e) != SG_OK) fail_msg("%s", e.text);
            waves(drawn, i);
            assert_true(read.width == WIDTH && read.height == HEIGHT);
            assert_memory_equal(read.rgb, drawn, BYTES);
            sg_image_close(&read);
            assert_int_equal(sg_writer_read_settings(name, &settings, &e), SG_OK);
            assert_string_equal(settings, "{\"seed\": 7}");
            free(settings);
            unlink(name);
        }
        expect_empty("numbers");
    }
}

/* One name that cannot be had fails the clip, and the caller learns it whatever it does next; no other picture stays. */
static void a_failed_picture_fails_the_clip(void **state)
{
    static const int failing[] = {1, 2, 10, PICTURES};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        char       name[32];
        sg_writer *s = NULL;
        sg_error   e = {0};
        assert_int_equal(mkdir("failed", 0700), 0);
        snprintf(name, sizeof name, "failed/%d.png", failing[i]);
        assert_int_equal(mkdir(name, 0700), 0);
        sg_status status = write_pictures(&s, "failed/%d.png", -1, PICTURES, &e);
        if (s && status == SG_OK) status = sg_writer_complete(s, &e);
        assert_refused(status, SG_E_FILE, &e, name);
        if (s) assert_int_equal(sg_writer_finish(s, NULL), SG_E_FILE);
        sg_writer_close(&s);
        assert_int_equal(rmdir(name), 0);
        expect_empty("failed");
    }
}

static void given_up_leaves_no_picture(void **state)
{
    for (int count = 0; count < PICTURES; count += 3) {
        sg_writer *s = NULL;
        sg_error   e = {0};
        assert_int_equal(mkdir("given_up", 0700), 0);
        assert_int_equal(write_pictures(&s, "given_up/%d.png", 9, count, &e), SG_OK);
        if (count % 2) assert_int_equal(sg_writer_complete(s, &e), SG_E_SHAPE);
        sg_writer_close(&s);
        expect_empty("given_up");
    }
}

static void pictures_come_one_by_one(void **state)
{
    sg_clip_reader *r = NULL;
    const sg_image *frame = NULL;
    sg_error        e = {0};
    assert_int_equal(sg_clip_reader_open(&r, SG_PICTURES, &e), SG_OK);
    const sg_frame_list *const l = sg_clip_reader_list(r);
    assert_true(l && l->count > 10);
    for (int i = 0; i < l->count; i++) {
        assert_int_equal(sg_clip_reader_next(r, &frame, &e), SG_OK);
        assert_non_null(frame);
        assert_string_equal(sg_clip_reader_where(r), l->path[i]);
    }
    assert_int_equal(sg_clip_reader_next(r, &frame, &e), SG_OK);
    assert_null(frame);
    sg_clip_reader_close(&r);

    assert_int_equal(sg_clip_reader_open(&r, SG_PICTURES "/scene.png", &e), SG_OK);
    assert_int_equal(sg_clip_reader_list(r)->count, 1);
    sg_clip_reader_close(&r);
}

/* Reads to the end; a failure must name the file. */
static sg_status read_all(const char *path, char *text, size_t size)
{
    sg_clip_reader *r = NULL;
    const sg_image *frame = NULL;
    sg_error        e = {0};
    sg_status       status = sg_clip_reader_open(&r, path, &e);
    if (status == SG_OK) do
            status = sg_clip_reader_next(r, &frame, &e);
        while (status == SG_OK && frame);
    sg_clip_reader_close(&r);
    if (status != SG_OK && (e.code != status || !strstr(e.text, path))) fail_msg("%s: \"%s\"", path, e.text);
    snprintf(text, size, "%.255s", e.text);
    return status;
}

/* The same picture as PNG and in every other format that the build reads, recognised by content; the last is lossy. */
static void frames_of_every_format(void **state)
{
    static const char *const names[] = {
        "rgb.png", "ppm.ppm", "bmp24.bmp", "bmp_top.bmp", "tga_rle.tga", "webp_lossless.webp", "webp_lossy.webp"};
    sg_clip_reader *r = NULL;
    const sg_image *f = NULL;
    sg_error        e = {0};
    sg_image        first = {0};
    int             count = 0;
    assert_int_equal(mkdir("kinds", 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char     path[256], copy[64];
        sg_map   map;
        sg_image image;
        snprintf(path, sizeof path, "%s/image/%s", SG_CORPUS, names[i]);
        snprintf(copy, sizeof copy, "kinds/%zu%s", i, i % 2 ? ".PNG" : strrchr(names[i], '.'));
        if (sg_map_open(&map, path, &e) != SG_OK) fail_msg("%s", e.text);
        assert_true(sg_image_is(&map));
        const sg_status status = sg_image_decode(&image, &map, path, false, &e);
        if (status == SG_OK) write_bytes(copy, map.data, map.size);
        if (status != SG_OK && !strstr(e.text, "; this build has no ")) fail_msg("%s", e.text);
        count += status == SG_OK;
        sg_map_close(&map);
        if (i)
            sg_image_close(&image);
        else
            first = image;
    }
    if (sg_clip_reader_open(&r, "kinds", &e) != SG_OK) fail_msg("%s", e.text);
    assert_int_equal(sg_clip_reader_list(r)->count, count);
    for (int i = 0; i < count; i++) {
        if (sg_clip_reader_next(r, &f, &e) != SG_OK) fail_msg("%s", e.text);
        assert_true(f && f->width == first.width && f->height == first.height);
        const bool lossy = has_mp4() && i == count - 1;
        assert_int_equal(r->last.loss, lossy ? SG_CLIP_COMPRESSED : SG_CLIP_STORED);
        if (!lossy) assert_memory_equal(f->rgb, first.rgb, sg_image_bytes(f->width, f->height));
    }
    sg_clip_reader_close(&r);
    sg_image_close(&first);
}

/* 4:2:0 of odd sides: luma by pixel, chroma by four of them. The green of red and of blue is that of BT.601; by BT.709 it
 * would be 19 and 60. */
static void subsampled_y4m(void **state)
{
    enum { W = 33, H = 17, CW = 17, CH = 9, SIZE = W * H + 2 * CW * CH };
    static const char *const chroma[] = {"", " C420", " C420jpeg", " C420mpeg2", " C420paldv XYSCSS=420"};
    static uint8_t           planes[SIZE];
    uint8_t *const u = planes + W * H, *const v = u + CW * CH;
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) planes[y * W + x] = x < 16 ? 80 : y < 8 ? 16 : 235;
    for (int y = 0; y < CH; y++)
        for (int x = 0; x < CW; x++) {
            u[y * CW + x] = x >= 8 ? 128 : y < 4 ? 110 : 240;
            v[y * CW + x] = x >= 8 ? 128 : y < 4 ? 240 : 110;
        }
    for (size_t i = 0; i < sizeof chroma / sizeof *chroma; i++) {
        sg_clip_reader *r = NULL;
        const sg_image *f = NULL;
        sg_error        e = {0};
        FILE *const     out = fopen("broken.y4m", "wb");
        assert_non_null(out);
        fprintf(out, "YUV4MPEG2 W%d H%d F8:1 Ip A1:1%s\n", W, H, chroma[i]);
        for (int k = 0; k < 2; k++) fputs("FRAME\n", out), fwrite(planes, 1, SIZE, out);
        assert_int_equal(fclose(out), 0);
        if (sg_clip_reader_open(&r, "broken.y4m", &e) != SG_OK) fail_msg("%s", e.text);
        for (int k = 0; k < 2; k++) {
            if (sg_clip_reader_next(r, &f, &e) != SG_OK) fail_msg("%s", e.text);
            assert_true(f && f->width == W && f->height == H);
            const uint8_t *const red = f->rgb + 3 * (2 * W + 2), *const blue = f->rgb + 3 * (14 * W + 2);
            const uint8_t *const black = f->rgb + 3 * (W - 1), *const white = f->rgb + 3 * (W * H - 1);
            assert_true(red[0] > 250 && red[1] < 5 && abs(red[2] - 38) < 4);
            assert_true(abs(blue[0] - 46) < 4 && abs(blue[1] - 45) < 4 && blue[2] > 250);
            assert_true(black[0] < 3 && black[1] < 3 && black[2] < 3);
            assert_true(white[0] > 252 && white[1] > 252 && white[2] > 252);
        }
        assert_true(fabs(r->last.time - 0.125) < 1e-6);
        assert_int_equal(r->last.loss, SG_CLIP_CONVERTED);
        assert_int_equal(sg_clip_reader_next(r, &f, &e), SG_OK);
        assert_null(f);
        sg_clip_reader_close(&r);
        assert_int_equal(truncate("broken.y4m", 60 + 6 + SIZE), 0);
        char text[256];
        assert_int_equal(read_all("broken.y4m", text, sizeof text), SG_E_FORMAT);
        assert_non_null(strstr(text, "file ends"));
    }
}

/* What only FFmpeg reads. */
static void other_y4m(void **state)
{
    static const char *const chroma[] = {"C422", "Cmono", "C420p10", "C444 XCOLORRANGE=FULL"};
    for (size_t i = 0; i < sizeof chroma / sizeof *chroma; i++) {
        static const uint8_t zero[16 * 16 * 3];
        static const int     bytes[] = {16 * 16 * 2, 16 * 16, 16 * 16 * 3, 16 * 16 * 3};
        char                 text[256];
        FILE *const          out = fopen("broken.y4m", "wb");
        assert_non_null(out);
        fprintf(out, "YUV4MPEG2 W16 H16 F8:1 %s\nFRAME\n", chroma[i]);
        fwrite(zero, 1, (size_t)bytes[i], out);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(read_all("broken.y4m", text, sizeof text), has_mp4() ? SG_OK : SG_E_UNSUPPORTED);
        assert_true(has_mp4() || strstr(text, "without FFmpeg"));
    }
}

static void y4m_refused(void **state)
{
    static const struct {
        const char *content, *why; /* "": FFmpeg's words, where it is */
    } of[] = {
        {"YUV4MPEG2", "no end"},
        {"YUV4MPEG2 W4 H2 C444", "no end"},
        {"YUV4MPEG2\n", ""},
        {"YUV4MPEG2 W4 H2\n", ""},
        {"YUV4MPEG2 W4 H2 C420jpeg\n", ""},
        {"YUV4MPEG2 W4 H2 C444p10\n", ""},
        {"YUV4MPEG2 W4 H2 C\n", ""},
        {"YUV4MPEG2 W4 H2 C444 XCOLORRANGE=FULL\n", ""},
        {"YUV4MPEG2 C444\n", "no pixels"},
        {"YUV4MPEG2 W4 C444\n", "no pixels"},
        {"YUV4MPEG2 W-4 H2 C444\n", "no pixels"},
        {"YUV4MPEG2 W4x H2 C444\n", "no pixels"},
        {"YUV4MPEG2 W99999999 H2 C444\n", "no pixels"},
        {"YUV4MPEG2 W999999 H999999 C444\n", "at most 16384"},
        {"YUV4MPEG2 W16384 H16384 C444\n", "holds no frame"},
        {"YUV4MPEG2 W2 H1 C444\n", "holds no frame"},
        {"YUV4MPEG2 W2 H1 C444\nFRAM\nabcdef", "no FRAME after 0"},
        {"YUV4MPEG2 W2 H1 C444\nFRAMES\nabcdef", "no FRAME after 0"},
        {"YUV4MPEG2 W2 H1 C444\nFRAMEabcdef", "no FRAME after 0"},
        {"YUV4MPEG2 W2 H1 C444\nFRAME\nabcde", "ends within a frame, after 0"},
        {"YUV4MPEG2 W2 H1 C444\nFRAME\nabcdefFRAME\nabcde", "ends within a frame, after 1"},
        {"YUV4MPEG2 W2 H1 C444\nFRAME\nabcdef ", "no FRAME after 1"},
        {"YUV4MPEG2 W2 H1  Ip C444 XYSCSS=444\nFRAME\nabcdefFRAME Ixyz\nghijkl", NULL},
    };
    char text[256];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_bytes("broken.y4m", of[i].content, strlen(of[i].content));
        const sg_status status = read_all("broken.y4m", text, sizeof text);
        if ((status == SG_OK) != !of[i].why || (of[i].why && !strstr(text, of[i].why)))
            fail_msg("%s: \"%s\"", of[i].content, text);
    }
}

static void mp4_refused(void **state)
{
    if (!has_mp4()) skip();
    size_t         size;
    uint8_t *const data = (uint8_t *)read_file("waves.mp4", &size);
    char           text[256];
    unsigned       seed = 1;
    for (size_t n = 1; n < size; n += 1 + size / 97) { /* wherever it is cut, it is refused */
        write_bytes("broken.mp4", data, n);
        if (read_all("broken.mp4", text, sizeof text) == SG_OK)
            fail_msg("cut to %zu of %zu bytes, it is read", n, size);
    }
    int refused = 0;
    for (int i = 0; i < 400; i++) { /* whatever the damage, it is read or refused */
        const size_t  at = (size_t)rand_r(&seed) % (i % 2 ? size : 2000);
        const uint8_t was = data[at];
        data[at] = (uint8_t)(i % 5 ? was ^ (1 << rand_r(&seed) % 8) : 0xff);
        write_bytes("broken.mp4", data, size);
        refused += read_all("broken.mp4", text, sizeof text) != SG_OK;
        data[at] = was;
    }
    print_message("%d of 400 damaged MP4s refused\n", refused);
    assert_in_range(refused, 40, 400);
    free(data);
}

/* The frames that went in, bit by bit; and a file that was cut passes for whole only if all of them are there. */
static void mkv_loses_nothing(void **state)
{
    if (!has_mp4()) skip();
    size_t size;
    char   text[256];
    write_clip("patches.mkv", patches);
    write_clip("waves.mkv", waves);
    assert_true(isinf(read_back("patches.mkv", patches, 0)) && isinf(read_back("waves.mkv", waves, -1)));
    uint8_t *const data = (uint8_t *)read_file("waves.mkv", &size);
    for (size_t n = 1; n < size; n += 1 + size / 97) {
        write_bytes("broken.mkv", data, n);
        if (read_all("broken.mkv", text, sizeof text) == SG_OK)
            assert_true(n > size - 200 && isinf(read_back("broken.mkv", waves, -1)));
    }
    free(data);
}

static void no_clips(void **state)
{
    char text[256];
    assert_int_equal(read_all("missing.mp4", text, sizeof text), SG_E_FILE);
    write_bytes("empty.mp4", "", 0);
    assert_int_equal(read_all("empty.mp4", text, sizeof text), SG_E_FORMAT);
    write_bytes("text.mp4", "no clip at all", 14);
    assert_int_equal(read_all("text.mp4", text, sizeof text), has_mp4() ? SG_E_FORMAT : SG_E_UNSUPPORTED);
    assert_non_null(strstr(text, "is no picture"));
    assert_non_null(strstr(text, has_mp4() ? "AVI or Y4M" : "no Y4M; this build has no FFmpeg"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(y4m_comes_back),
        cmocka_unit_test(y4m_has_a_matrix),
        cmocka_unit_test(mp4_comes_back),
        cmocka_unit_test(every_picture_has_its_number),
        cmocka_unit_test(a_failed_picture_fails_the_clip),
        cmocka_unit_test(given_up_leaves_no_picture),
        cmocka_unit_test(pictures_come_one_by_one),
        cmocka_unit_test(frames_of_every_format),
        cmocka_unit_test(subsampled_y4m),
        cmocka_unit_test(other_y4m),
        cmocka_unit_test(y4m_refused),
        cmocka_unit_test(mp4_refused),
        cmocka_unit_test(no_clips),
        cmocka_unit_test(mkv_loses_nothing),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
