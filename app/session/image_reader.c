/* image_reader.c - see image_reader.h. libpng and libjpeg leave by longjmp; whatever must outlive that lies in a
 * source. */
#include "image_reader.h"
#include "image_decoders.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

enum { MAX_SIDE = SG_IMAGE_MAX_SIDE, MAX_PIXELS = SG_IMAGE_MAX_PIXELS, MAX_SCANS = 100 };
#define MAX_FILE ((size_t)256 << 20)

/* No more pixels can come of a byte. Deflate: at most 1032 bytes, of eight pixels each. Huffman-coded JPEG: a block
 * takes at least a bit, and at most 128 pixels share one. */
enum { PNG_PIXELS_PER_BYTE = 8 * 1032, JPEG_PIXELS_PER_BYTE = 8 * 128 };

typedef struct source {
    const sg_map  *file;
    const uint8_t *data; /* of the file, as size */
    size_t         size, at;
    sg_image       image;
    bool           upright;
    uint8_t       *rgba;        /* of a picture that may have alpha */
    unsigned       orientation; /* of EXIF, 1 to 8; 0: not given */
    png_structp    png;
    png_infop      info;

    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr         jpeg_error;
    struct jpeg_progress_mgr      jpeg_progress;

    sg_status code;
    char      reason[256];
    jmp_buf   back;
} source;

static _Noreturn SG_PRINTF(3, 4) void leave(source *s, sg_status code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->reason, sizeof s->reason, fmt, args);
    va_end(args);
    s->code = code;
    longjmp(s->back, 1);
}

static void take_room(source *s, size_t width, size_t height, size_t pixels_per_byte)
{
    if (width <= MAX_SIDE && height <= MAX_SIDE && width * height <= MAX_PIXELS &&
        width * height / pixels_per_byte > s->size)
        leave(s, SG_E_FORMAT, "is %zu bytes, too few for %zux%zu pixels", s->size, width, height);
    sg_error why = {0};
    if (sg_image_alloc(&s->image, width, height, &why) != SG_OK) leave(s, why.code, "%s", why.text);
}

static uint8_t *row(const source *s, size_t y) { return s->image.rgb + y * (size_t)s->image.width * 3; }

/* ---- which way is up ---- */

/* The orientation in EXIF's TIFF of size bytes, or 0. */
static unsigned orientation_of(const uint8_t *tiff, size_t size)
{
    enum { HEADER = 8, COUNT = 2, ENTRY = 12, TAG = 0x0112, SHORT = 3 };
    const bool big = size >= HEADER && memcmp(tiff, "MM\0*", 4) == 0;
    if (size < HEADER || (!big && memcmp(tiff, "II*\0", 4) != 0)) return 0;
    const size_t list = sg_image_number(tiff + 4, 4, big);
    if (list > size - COUNT) return 0;
    const size_t room = (size - list - COUNT) / ENTRY, said = sg_image_number(tiff + list, COUNT, big);
    for (size_t i = 0; i < said && i < room; i++) {
        const uint8_t *const entry = tiff + list + COUNT + i * ENTRY;
        if (sg_image_number(entry, 2, big) != TAG || sg_image_number(entry + 2, 2, big) != SHORT) continue;
        const unsigned v = sg_image_number(entry + 8, 2, big);
        return v <= 8 ? v : 0;
    }
    return 0;
}

static void turn(source *s)
{
    const unsigned o = s->orientation;
    const bool     exchange = o >= 5; /* of columns and rows; then from the right, from below */
    const size_t   width = (size_t)s->image.width, height = (size_t)s->image.height;
    sg_image       out;
    sg_error       why = {0};
    if (o < 2) return;
    if (sg_image_alloc(&out, exchange ? height : width, exchange ? width : height, &why) != SG_OK)
        leave(s, why.code, "%s", why.text);
    sg_image_copy_rotated(&out, s->image.rgb, (ptrdiff_t)width * 3,
                          (sg_image_rotation){exchange, o % 4 == 2 || o % 4 == 3, o % 4 == 3 || o % 4 == 0});
    sg_image_close(&s->image);
    s->image = out;
}

/* The picture from rgba, over white if it is to be upright. */
static void blend(source *s)
{
    const size_t count = (size_t)s->image.width * (size_t)s->image.height;
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < 3; c++) {
            const unsigned alpha = s->upright ? s->rgba[4 * i + 3] : 255;
            s->image.rgb[3 * i + c] = (uint8_t)((s->rgba[4 * i + c] * alpha + 255 * (255 - alpha) + 127) / 255);
        }
}

/* ---- PNG ---- */

static void png_failed(png_structp png, png_const_charp text)
{
    if (strstr(text, "memory")) leave(png_get_error_ptr(png), SG_E_MEMORY, "out of memory");
    leave(png_get_error_ptr(png), SG_E_FORMAT, "damaged PNG: %s", text);
}

static void png_warned(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void png_take(png_structp png, png_bytep out, size_t n)
{
    source *const s = png_get_io_ptr(png);
    if (n > s->size - s->at) leave(s, SG_E_FORMAT, "the file ends within the picture");
    memcpy(out, s->data + s->at, n);
    s->at += n;
}

static void read_png(source *s)
{
    s->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, s, png_failed, png_warned);
    s->info = s->png ? png_create_info_struct(s->png) : NULL;
    if (!s->info) leave(s, SG_E_MEMORY, "out of memory");
    png_set_user_limits(s->png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); /* take_room has the limits and better words */
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    if (s->upright) png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "eXIf", 1);
    png_set_read_fn(s->png, s, png_take);
    png_read_info(s->png, s->info);
    const size_t width = png_get_image_width(s->png, s->info), height = png_get_image_height(s->png, s->info);
    take_room(s, width, height, PNG_PIXELS_PER_BYTE);
    png_set_scale_16(s->png);
    png_set_palette_to_rgb(s->png);
    png_set_expand_gray_1_2_4_to_8(s->png);
    png_set_gray_to_rgb(s->png);
    if (s->upright && !(s->rgba = malloc(width * height * 4))) leave(s, SG_E_MEMORY, "out of memory");
    if (s->upright) {
        png_set_tRNS_to_alpha(s->png);
        png_set_add_alpha(s->png, 0xFF, PNG_FILLER_AFTER);
    } else {
        png_set_strip_alpha(s->png);
    }
    const int passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
    if (png_get_rowbytes(s->png, s->info) != width * (s->upright ? 4 : 3))
        leave(s, SG_E_FORMAT, "a PNG that does not become RGB");
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < height; y++) png_read_row(s->png, s->rgba ? s->rgba + y * width * 4 : row(s, y), NULL);
    png_read_end(s->png, s->info);
    if (!s->upright) return;
    blend(s);
    png_uint_32 size = 0;
    png_bytep   exif = NULL;
    if (png_get_eXIf_1(s->png, s->info, &size, &exif)) s->orientation = orientation_of(exif, size);
}

/* ---- JPEG ---- */

static void jpeg_failed(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    if (jpeg->err->msg_code == JERR_OUT_OF_MEMORY) leave(jpeg->client_data, SG_E_MEMORY, "out of memory");
    jpeg->err->format_message(jpeg, text);
    leave(jpeg->client_data, SG_E_FORMAT, "damaged JPEG: %s", text);
}

/* Damage that libjpeg would paint over is a failure here; stray bytes between segments do no harm. */
static void jpeg_said(j_common_ptr jpeg, int level)
{
    if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA) jpeg_failed(jpeg);
}

/* Each scan goes over the whole picture, and a few bytes make one. */
static void jpeg_advanced(j_common_ptr jpeg)
{
    source *const s = jpeg->client_data;
    if (s->jpeg.input_scan_number > MAX_SCANS)
        leave(s, SG_E_FORMAT, "a JPEG of more than %d scans is not read", MAX_SCANS);
}

static void read_jpeg(source *s)
{
    struct jpeg_decompress_struct *const j = &s->jpeg;
    j->err = jpeg_std_error(&s->jpeg_error);
    s->jpeg_error.error_exit = jpeg_failed;
    s->jpeg_error.emit_message = jpeg_said;
    j->client_data = s;
    jpeg_create_decompress(j);
    s->jpeg_progress.progress_monitor = jpeg_advanced;
    j->progress = &s->jpeg_progress;
    jpeg_mem_src(j, s->data, (unsigned long)s->size);
    if (s->upright) jpeg_save_markers(j, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(j, TRUE);
    static const char exif[] = "Exif\0"; /* and a NUL more; none is there unless it was asked for */
    for (jpeg_saved_marker_ptr m = j->marker_list; m && !s->orientation; m = m->next)
        if (m->data_length >= sizeof exif && memcmp(m->data, exif, sizeof exif) == 0)
            s->orientation = orientation_of(m->data + sizeof exif, m->data_length - sizeof exif);
    if (j->jpeg_color_space != JCS_GRAYSCALE && j->jpeg_color_space != JCS_YCbCr && j->jpeg_color_space != JCS_RGB)
        leave(s, SG_E_FORMAT, "a JPEG of %d channels that are neither grey, YCbCr nor RGB is not read",
              j->num_components);
    if (j->arith_code) leave(s, SG_E_FORMAT, "a JPEG with arithmetic coding is not read");
    take_room(s, j->image_width, j->image_height, JPEG_PIXELS_PER_BYTE);
    j->out_color_space = JCS_RGB;
    jpeg_start_decompress(j);
    while (j->output_scanline < j->output_height) {
        JSAMPROW at = row(s, j->output_scanline);
        jpeg_read_scanlines(j, &at, 1);
    }
    jpeg_finish_decompress(j);
}

/* ---- all ---- */

static void read_rgba(source *s, sg_image_decoder *decode)
{
    sg_error        why = {0};
    const sg_status status = decode(&s->image, &s->rgba, s->file, &why);
    if (status != SG_OK) leave(s, status, "%s", why.text);
    blend(s);
}

static void read_webp(source *s)
{
    size_t               size = 0;
    const uint8_t *const exif = s->upright ? sg_image_webp_chunk(s->file, "EXIF", &size) : NULL;
    read_rgba(s, sg_image_webp);
    if (exif) s->orientation = orientation_of(exif, size);
}

static void read_stb(source *s) { read_rgba(s, sg_image_stb); }

static bool begins(const sg_map *m, const char *with, size_t n)
{
    return m->size >= n && memcmp(m->data, with, n) == 0;
}

static bool is_webp(const sg_map *m)
{
    return m->size >= 12 && begins(m, "RIFF", 4) && !memcmp(m->data + 8, "WEBP", 4);
}

static bool is_jpeg(const sg_map *m) { return begins(m, "\xff\xd8\xff", 3); }

static void (*reader_of(const sg_map *m))(source *s)
{
    return begins(m, "\211PNG\r\n\032\n", 8) ? read_png
           : is_jpeg(m)                      ? read_jpeg
           : is_webp(m)                      ? read_webp
           : sg_image_is_stb(m)              ? read_stb
                                             : NULL;
}

bool sg_image_is(const sg_map *file) { return reader_of(file) != NULL; }

bool sg_image_is_lossy(const sg_map *file)
{
    size_t size;
    return is_jpeg(file) || (is_webp(file) && !sg_image_webp_chunk(file, "VP8L", &size));
}

static void read_any(source *s)
{
    void (*const read)(source *) = reader_of(s->file);
    if (s->size > MAX_FILE) leave(s, SG_E_FORMAT, "is larger than %zu MiB", MAX_FILE >> 20);
    if (!read) leave(s, SG_E_FORMAT, "is no picture: neither PNG, JPEG, WebP, BMP, GIF, PNM nor TGA");
    read(s);
    turn(s);
}

sg_status sg_image_decode(sg_image *out, const sg_map *file, const char *name, bool upright, sg_error *e)
{
    *out = (sg_image){0};
    source *const s = calloc(1, sizeof *s);
    if (!s) return sg_error_memory(e, name);
    s->file = file;
    s->data = file->data;
    s->size = file->size;
    s->upright = upright;
    if (setjmp(s->back) == 0) read_any(s);
    if (s->png) png_destroy_read_struct(&s->png, &s->info, NULL);
    jpeg_destroy_decompress(&s->jpeg); /* one that was never made is fine */
    const sg_status status = s->code == SG_OK ? SG_OK : sg_error_set(e, s->code, "%s: %s", name, s->reason);
    if (status == SG_OK)
        *out = s->image;
    else
        sg_image_close(&s->image);
    free(s->rgba);
    free(s);
    return status;
}
