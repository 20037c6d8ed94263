/* test_image.c - what is read of sound pictures, and what is said of others. The pictures are those of the fuzz target;
 * the sums of samples are Pillow's, but for the 16-bit ones, which Pillow cuts down and we round. Those that a build has
 * no library for are refused, which is all that is tested of them there. */
#include "base/file.h"
#include "picture.h"
#include "picture_file.h"
#include "unit.h"
#include "vision/resample.h"

typedef struct sound {
    const char *name;
    int         width, height;
    uint64_t    sum;
} sound;

static const sound sounds[] = {
    {"rgb.png", 13, 9, 44179},
    {"grey.png", 13, 9, 44082},
    {"palette.png", 13, 9, 43934},
    {"one_bit.png", 13, 9, 43605},
    {"alpha.png", 13, 9, 44179},
    {"grey_alpha.png", 13, 9, 44082},
    {"interlaced.png", 13, 9, 44760},
    {"sixteen.png", 5, 4, 8406},
    {"trns.png", 5, 4, 8406},
    {"text.png", 5, 4, 8406},
    {"animated.png", 4, 4, 120},
    {"base.jpg", 13, 9, 44192},
    {"full.jpg", 13, 9, 44181},
    {"rgb.jpg", 13, 9, 44180},
    {"progressive.jpg", 13, 9, 44192},
    {"grey.jpg", 13, 9, 44079},
    {"rotated.jpg", 13, 9, 44192},
    {"restart.jpg", 13, 9, 44192},
    {"stray.jpg", 13, 9, 44192},
    {"apart.jpg", 8, 8, 24576},
    {"bmp24.bmp", 13, 9, 44179},
    {"bmp8.bmp", 13, 9, 44042},
    {"bmp4.bmp", 13, 9, 44042},
    {"bmp1.bmp", 13, 9, 43605},
    {"bmp_top.bmp", 13, 9, 44179},
    {"bmp32.bmp", 13, 9, 44179},
    {"bmp_alpha.bmp", 13, 9, 44179},
    {"gif.gif", 13, 9, 44042},
    {"gif_interlaced.gif", 13, 9, 44042},
    {"gif_animated.gif", 13, 9, 44042},
    {"gif_small.gif", 20, 15, 44042},
    {"ppm.ppm", 13, 9, 44179},
    {"pgm.pgm", 13, 9, 44082},
    {"pnm_comment.ppm", 13, 9, 44179},
    {"pnm_few.pgm", 2, 2, 1530},
    {"pnm_sixteen.ppm", 2, 1, 403},
    {"tga.tga", 13, 9, 44179},
    {"tga_rle.tga", 13, 9, 44179},
    {"tga_alpha.tga", 13, 9, 44179},
    {"tga_grey.tga", 13, 9, 44082},
    {"tga_palette.tga", 13, 9, 44042},
    {"tga_opaque.tga", 13, 9, 44179},
    {"tga_id.tga", 13, 9, 44179},
    {"tga_sixteen.tga", 13, 9, 44084},
    {"webp_lossless.webp", 13, 9, 44179},
    {"webp_alpha.webp", 13, 9, 44179},
};

/* libwebp, which Pillow has, enlarges chroma in another way; five bits become eight in more than one. */
static const sound nearly[] = {
    {"webp_lossy.webp", 13, 9, 44283}, {"webp_lossy_alpha.webp", 13, 9, 44289}, {"bmp565.bmp", 13, 9, 44059}};

static const char *const broken[][2] = {
    {"none", "the file is empty"},
    {"bitmap.bmp", "the file ends within the picture"},
    {"signature.png", "the file ends within the picture"},
    {"cut.png", "the file ends within the picture"},
    {"endless.png", "the file ends within the picture"},
    {"crc.png", "damaged PNG: IDAT: "},
    {"short.png", "damaged PNG: Not enough image data"},
    {"palette_gone.png", "damaged PNG: IDAT: Missing PLTE before IDAT"},
    {"zero.png", "damaged PNG: Invalid IHDR data"},
    {"wide.png", "is 16385x1 pixels; at most 16384 a side are read"},
    {"huge.png", "is 65535x65535 pixels; at most 16384 a side are read"},
    {"vast.png", "is 2147483647x2147483647 pixels; at most 16384 a side are read"},
    {"announced.png", "is 68 bytes, too few for 8192x8192 pixels"},
    {"start.jpg", "damaged JPEG: Premature end of JPEG file"},
    {"header.jpg", "damaged JPEG: Premature end of JPEG file"},
    {"cut.jpg", "damaged JPEG: Premature end of JPEG file"},
    {"endless.jpg", "damaged JPEG: Premature end of JPEG file"},
    {"huffman.jpg", "damaged JPEG: Bogus Huffman table definition"},
    {"repeated.jpg", "damaged JPEG: Inconsistent progression sequence"},
    {"scans.jpg", "a JPEG of more than 100 scans is not read"},
    {"zero.jpg", "damaged JPEG: Empty JPEG image"},
    {"huge.jpg", "is 65500x65500 pixels; at most 16384 a side are read"},
    {"announced.jpg", "is 319 bytes, too few for 8000x8000 pixels"},
    {"cmyk.jpg", "a JPEG of 4 channels that are neither grey, YCbCr nor RGB is not read"},
    {"arithmetic.jpg", "a JPEG with arithmetic coding is not read"},
    {"bmp_announced.bmp", "is 118 bytes, too few for 8000x8000 pixels"},
    {"bmp_before.bmp", "damaged BMP: its pixels are not where they should be"},
    {"bmp_bits.bmp", "damaged BMP"},
    {"bmp_core.bmp", "a BMP with a header of another version is not read"},
    {"bmp_cut.bmp", "is 200 bytes, too few for 13x9 pixels"},
    {"bmp_far.bmp", "damaged BMP: its pixels are not where they should be"},
    {"bmp_huge.bmp", "is 70000x70000 pixels; at most 16384 a side are read"},
    {"bmp_index.bmp", "damaged BMP: a pixel has a colour that is not in the palette"},
    {"bmp_lowest.bmp", "is 1x2147483648 pixels; at most 16384 a side are read"},
    {"bmp_masks.bmp", "damaged BMP"},
    {"bmp_negative.bmp", "is 4294967295x1 pixels; at most 16384 a side are read"},
    {"bmp_planes.bmp", "damaged BMP"},
    {"bmp_rle.bmp", "a compressed BMP is not read"},
    {"bmp_start.bmp", "the file ends within the picture"},
    {"bmp_zero.bmp", "has no pixels (0x1)"},
    {"gif_announced.gif", "is 164 bytes, too few for 8000x8000 pixels"},
    {"gif_codes.gif", "damaged GIF: more data than its picture has pixels"},
    {"gif_control.gif", "damaged GIF: its control block is not 4 bytes"},
    {"gif_cut.gif", "the file ends within the picture"},
    {"gif_none.gif", "the file ends within the picture"},
    {"gif_outside.gif", "damaged GIF"},
    {"gif_size.gif", "damaged GIF"},
    {"gif_start.gif", "the file ends within the picture"},
    {"gif_table.gif", "damaged GIF"},
    {"gif_wide.gif", "is 65535x65535 pixels; at most 16384 a side are read"},
    {"pnm_announced.pgm", "is 368 bytes, too few for 8000x8000 pixels"},
    {"pnm_blank.ppm", "damaged PNM: its header is not three numbers"},
    {"pnm_cut.ppm", "is 362 bytes, too few for 13x9 pixels"},
    {"pnm_dark.pgm", "damaged PNM: a sample is above its largest value"},
    {"pnm_huge.ppm", "is 99999x99999 pixels; at most 16384 a side are read"},
    {"pnm_negative.pgm", "damaged PNM: its header is not three numbers"},
    {"pnm_overflow.ppm", "is 999999x1 pixels; at most 16384 a side are read"},
    {"pnm_start.ppm", "the file ends within the picture"},
    {"pnm_text.ppm", "a PNM other than P5 and P6 is not read"},
    {"pnm_zero.pgm", "has no pixels (0x4)"},
    {"tga_announced.tga", "is 369 bytes, too few for 8000x8000 pixels"},
    {"tga_cut.tga", "is 368 bytes, too few for 13x9 pixels"},
    {"tga_index.tga", "damaged TGA: a pixel has a colour that is not in the palette"},
    {"tga_interleaved.tga", "is no picture"},
    {"tga_mirrored.tga", "a TGA whose rows go from right to left is not read"},
    {"tga_rle_cut.tga", "the file ends within the picture"},
    {"tga_rle_over.tga", "damaged TGA: more pixels than it has room for"},
    {"tga_start.tga", "is no picture"},
    {"tga_wide.tga", "is 65535x1 pixels; at most 16384 a side are read"},
    {"tga_zero.tga", "is no picture"},
    {"webp_announced.webp", "is 113 bytes, too few for 5712x6736 pixels"},
    {"webp_animated.webp", "an animated WebP is not read"},
    {"webp_cut.webp", "the file ends within the picture"},
    {"webp_empty.webp", "the file ends within the picture"},
    {"webp_other.webp", "damaged WebP"},
    {"webp_size.webp", "is 16383x16383 pixels; at most 67108864 in all are read"},
    {"webp_start.webp", "the file ends within the picture"},
    {"webp_zero.webp", "has no pixels (0x0)"},
    {"no such file", "cannot be opened: No such file or directory"},
    {".", "is a folder, should be a file"},
};

static void path_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s", SG_CORPUS "/image", name);
}

/* A library that a build lacks is told, in words of this build alone. */
static bool is_lacking(const char *text) { return strstr(text, "; this build has no ") != NULL; }

static void compare_sound(const sound *of, double off)
{
    char     path[1024];
    sg_image i;
    sg_error e = {0};
    uint64_t sum = 0;
    path_of(path, sizeof path, of->name);
    if (read_image(&i, path, &e) != SG_OK) {
        if (!is_lacking(e.text)) fail_msg("%s", e.text);
        return;
    }
    const size_t count = sg_image_bytes(i.width, i.height);
    for (size_t n = 0; n < count; n++) sum += i.rgb[n];
    if (i.width != of->width || i.height != of->height || fabs((double)sum - (double)of->sum) > off * (double)count)
        fail_msg("%s: %dx%d, sum %llu", path, i.width, i.height, (unsigned long long)sum);
    sg_image_close(&i);
}

static void sound_pictures(void **state)
{
    for (size_t k = 0; k < sizeof sounds / sizeof *sounds; k++) compare_sound(&sounds[k], 0);
    for (size_t k = 0; k < sizeof nearly / sizeof *nearly; k++) compare_sound(&nearly[k], 1);
}

static void broken_pictures(void **state)
{
    for (size_t k = 0; k < sizeof broken / sizeof *broken; k++) {
        char     path[1024];
        sg_image i;
        sg_error e = {0};
        path_of(path, sizeof path, broken[k][0]);
        const sg_status status = read_image(&i, path, &e);
        if (status == SG_OK || i.rgb || status != e.code) fail_msg("%s: not refused", path);
        const size_t n = strlen(path);
        if (strncmp(e.text, path, n) != 0 || strncmp(e.text + n, ": ", 2) != 0 ||
            (strncmp(e.text + n + 2, broken[k][1], strlen(broken[k][1])) != 0 && !is_lacking(e.text)))
            fail_msg("%s", e.text);
    }
}

/* 16384 x 16384 within the limit of a side and above that of all pixels; a file above its own limit, all holes. */
static void too_large(void **state)
{
    static const uint8_t png[] = "\211PNG\r\n\032\n\0\0\0\015IHDR\0\0\100\0\0\0\100\0\010\0\0\0\0\214\243\117\130"
                                 "\0\0\0\0IDAT\065\257\006\036";
    sg_image             i;
    sg_error             e = {0};
    assert_refused(sg_image_decode(&i, &(sg_map){png, sizeof png - 1}, "x", false, &e), SG_E_FORMAT, &e,
                   "x: |16384x16384|67108864");
    write_text("large.png", "");
    assert_int_equal(truncate("large.png", ((off_t)256 << 20) + 1), 0);
    assert_refused(read_image(&i, "large.png", &e), SG_E_FORMAT, &e, "large.png|256 MiB");
}

/* Tells pixels in another order apart as well. */
static uint64_t weighted(const uint8_t *rgb, int width, int height)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < (size_t)width * (size_t)height * 3; k++) sum += rgb[k] * (1 + k % 251);
    return sum;
}

/* Sums of what Pillow's exif_transpose gives, and of alpha over white; EXIF that lies is none. */
static void upright_pictures(void **state)
{
    static const sound upright[] = {
        {"exif.jpg", 16, 24, 5379331},        {"exif.png", 16, 24, 5437875},
        {"clear.png", 4, 3, 113472},          {"pixel.png", 1, 1, 550},
        {"exif_offset.jpg", 24, 16, 0},       {"exif_count.jpg", 24, 16, 0},
        {"bmp24.bmp", 13, 9, 4622429},        {"bmp8.bmp", 13, 9, 4619442},
        {"bmp_top.bmp", 13, 9, 4622429},      {"bmp32.bmp", 13, 9, 4622429},
        {"bmp_alpha.bmp", 13, 9, 7027806},    {"gif_clear.gif", 13, 9, 5293416},
        {"gif_small.gif", 20, 15, 21652107},  {"gif_interlaced.gif", 13, 9, 4619442},
        {"gif_animated.gif", 13, 9, 4619442}, {"pgm.pgm", 13, 9, 4615365},
        {"tga.tga", 13, 9, 4622429},          {"tga_rle.tga", 13, 9, 4622429},
        {"tga_alpha.tga", 13, 9, 7027806},    {"tga_opaque.tga", 13, 9, 4622429},
        {"tga_id.tga", 13, 9, 4622429},       {"webp_alpha.webp", 13, 9, 7027806},
        {"webp_exif.webp", 16, 24, 5437875},
    };
    for (size_t k = 0; k < sizeof upright / sizeof *upright; k++) {
        char     path[1024];
        sg_map   map;
        sg_image i;
        sg_error e = {0};
        path_of(path, sizeof path, upright[k].name);
        if (sg_map_open(&map, path, &e) != SG_OK) fail_msg("%s", e.text);
        const sg_status status = sg_image_decode(&i, &map, path, true, &e);
        sg_map_close(&map);
        if (status != SG_OK && is_lacking(e.text)) continue;
        if (status != SG_OK) fail_msg("%s", e.text);
        const uint64_t sum = weighted(i.rgb, i.width, i.height);
        if (i.width != upright[k].width || i.height != upright[k].height || (upright[k].sum && sum != upright[k].sum))
            fail_msg("%s: %dx%d, sum %llu", path, i.width, i.height, (unsigned long long)sum);
        sg_image_close(&i);
    }
}

/* The sums are Pillow 13's, of bicubic and of Lanczos. */
static void resampled(void **state)
{
    static const struct {
        int      from[2], to[2];
        uint64_t sum[2];
    } cases[] = {
        {{13, 9}, {32, 16}, {24809654, 24780142}},
        {{40, 50}, {7, 5}, {710182, 710373}},
        {{20, 60}, {30, 10}, {13672015, 13662995}},
        {{9, 9}, {9, 4}, {865395, 867795}},
        {{9, 9}, {23, 9}, {8773589, 8772649}},
        {{5, 5}, {5, 5}, {247300, 247300}},
        {{1, 1}, {3, 2}, {5307, 5307}},
        {{60, 3}, {2, 40}, {3731270, 3725119}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const int *const from = cases[k].from, *const to = cases[k].to;
        uint8_t in[3 * 64 * 64], out[3 * 64 * 64];
        for (int y = 0, i = 0; y < from[1]; y++)
            for (int x = 0; x < from[0]; x++)
                for (int c = 0; c < 3; c++) in[i++] = (uint8_t)(7 * x + 13 * y + 29 * c + x * y);
        for (int f = 0; f < 2; f++) {
            assert_true(sg_resample_rgb8(out, to[0], to[1], in, from[0], from[1], (sg_resample_filter)f));
            if (weighted(out, to[0], to[1]) != cases[k].sum[f])
                fail_msg("%dx%d to %dx%d, filter %d: sum %llu", from[0], from[1], to[0], to[1], f,
                         (unsigned long long)weighted(out, to[0], to[1]));
        }
    }
}

static void sides_of_no_picture_are_refused(void **state)
{
    static const int bad[][4] = {{0, 1, 1, 1}, {1, -1, 1, 1}, {1, 1, (1 << 24) + 1, 1}, {1, 1, 1, -7}};
    const uint8_t    in[3] = {1, 2, 3};
    uint8_t          out[3] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sg_error e = {0};
        assert_refused(sg_picture_resize(out, bad[i][0], bad[i][1], in, bad[i][2], bad[i][3], &e), SG_E_ARG, &e,
                       "side");
    }
    assert_int_equal(sg_picture_resize(out, 1, 1, in, 1, 1, NULL), SG_OK);
    assert_memory_equal(out, in, 3);
}

/* Cut out of a panorama that in the height of the clip is 26,214 pixels long; one that would take more memory is refused. */
static void panoramas_are_cropped(void **state)
{
    enum { LONG = 16384, HIGH = 20, SIDE = 32 };
    sg_image from = {LONG, HIGH, malloc(sg_image_bytes(LONG, HIGH))}, out = {0};
    sg_error e = {0};
    assert_non_null(from.rgb);
    for (size_t i = 0; i < sg_image_bytes(LONG, HIGH); i++) from.rgb[i] = (uint8_t)(i / 3 % LONG < LONG / 2 ? 10 : 200);
    assert_int_equal(sg_picture_fit(&out, &from, "crop", SIDE, SIDE, &e), SG_OK);
    assert_true(out.width == SIDE && out.height == SIDE);
    for (int x = 0; x < SIDE; x++)
        if (abs(x - SIDE / 2) > 5) assert_int_equal(out.rgb[3 * (5 * SIDE + x)], x < SIDE / 2 ? 10 : 200);
    from.height = 1;
    assert_refused(sg_picture_fit(&out, &from, "crop", SIDE, 832, &e), SG_E_FORMAT, &e, "13631488x832|67108864");
    assert_int_equal(sg_picture_fit(&out, &from, "stretch", SIDE, SIDE, &e), SG_OK);
    sg_image_close(&out);
    sg_image_close(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_pictures),
        cmocka_unit_test(broken_pictures),
        cmocka_unit_test(too_large),
        cmocka_unit_test(upright_pictures),
        cmocka_unit_test(resampled),
        cmocka_unit_test(sides_of_no_picture_are_refused),
        cmocka_unit_test(panoramas_are_cropped),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
