/* writer_png.c - PNG by libpng: one picture, or one a frame where the name holds a number's pattern as in
 * frame-%04d.png, which counts from 1. The pattern is read here and never handed to printf. */
#include "base/path.h"
#include "writer.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define KEYWORD "sparge-gen"
enum { WIDEST = 9, USUAL_LEVEL = 1 };

/* name = path[0..before) number path[after..] */
typedef struct pattern {
    bool   found, twice;
    size_t before, after;
    int    width;
    bool   zeros;
} pattern;

static pattern find_pattern(const sg_clip *clip)
{
    const char *const path = clip->path;
    pattern           p = {0};
    for (const char *at = path; !clip->literal && (at = strchr(at, '%')) != NULL; at++) {
        const char *const end = at + 1 + strspn(at + 1, "0123456789");
        const long        width = end > at + 1 ? strtol(at + 1, NULL, 10) : 0;
        if (*end != 'd' || width > WIDEST) continue;
        if (p.found)
            p.twice = true;
        else
            p = (pattern){true, false, (size_t)(at - path), (size_t)(end + 1 - path), (int)width, at[1] == '0'};
    }
    return p;
}

/* Bytes of two frames of 512x512, one like a photograph and one of tiny-wan's, and time of one thread of a Xeon with AMX:
 *   0   788 KB   0.5 ms |  788 KB   0.5 ms        4   342 KB    25 ms |  122 KB    12 ms
 *   1   392 KB   7.4 ms |  110 KB   4.0 ms        6   335 KB    66 ms |  112 KB    32 ms
 *   2   341 KB   9.3 ms |  115 KB   5.4 ms        9   329 KB   228 ms |  101 KB   408 ms
 *   3   340 KB    11 ms |  114 KB   7.1 ms
 * The usual level is 1: two threads write the photograph in 5.4 ms, the file and its fsync included. Level 2 makes smaller
 * files than zlib's levels 1 to 3 do without Z_RLE. Level 6 is libpng's own. */
static const struct {
    int zlib, strategy, filters;
} levels[] = {
    {0, Z_DEFAULT_STRATEGY, PNG_FILTER_NONE},
    {1, Z_RLE, PNG_FILTER_SUB},
    {1, Z_RLE, PNG_FILTER_PAETH},
    {1, Z_RLE, PNG_ALL_FILTERS},
    {4, Z_FILTERED, PNG_ALL_FILTERS},
    {5, Z_FILTERED, PNG_ALL_FILTERS},
    {6, Z_FILTERED, PNG_ALL_FILTERS},
    {7, Z_FILTERED, PNG_ALL_FILTERS},
    {8, Z_FILTERED, PNG_ALL_FILTERS},
    {9, Z_FILTERED, PNG_ALL_FILTERS},
};

/* zlib's window, its hash table and codes, and libpng's rows, of each thread. */
static size_t png_bytes(const sg_clip *clip)
{
    enum { CODE = 320 << 10, ROWS = 4 };
    const size_t threads = clip->frames > 1 ? SG_WRITER_THREADS : 1;
    return threads * (CODE + ROWS * sg_image_bytes(clip->width, 1));
}

static sg_status png_check(const sg_clip *clip, sg_error *e)
{
    const pattern p = find_pattern(clip);
    if (p.twice)
        return sg_error_set(e, SG_E_ARG, "path: %s: the frame's number can stand in one place only", clip->path);
    if (p.found && strchr(clip->path + p.after, '/'))
        return sg_error_set(e, SG_E_ARG, "path: %s: the frame's number belongs in the name, not in the folder",
                            clip->path);
    if (!p.found && clip->frames > 1)
        return sg_error_set(e, SG_E_ARG,
                            "path: %s is one picture, but the clip has %d frames; write %.*s-%%04d.png, or set "
                            "frames to 1",
                            clip->path, clip->frames, (int)strlen(clip->path) - 4, clip->path);
    return SG_OK;
}

static char *png_file_name(const sg_clip *clip, int index)
{
    const pattern p = find_pattern(clip);
    if (!p.found) return strdup(clip->path);
    char number[32], *name;
    snprintf(number, sizeof number, p.zeros ? "%0*d" : "%*d", p.width, index + 1);
    const int n = asprintf(&name, "%.*s%s%s", (int)p.before, clip->path, number, clip->path + p.after);
    return n < 0 ? NULL : name;
}

char *sg_writer_numbered(const char *path, int index, int frames)
{
    const sg_clip clip = {
        .size = sizeof(sg_clip), .path = path, .literal = strcasecmp(sg_path_extension(path), ".png") != 0};
    const pattern     p = find_pattern(&clip);
    const char *const at = p.found ? path + p.before : sg_path_extension(path);
    char             *name;
    if (p.found && frames == 1) return png_file_name(&clip, index);
    const int n =
        asprintf(&name, p.found ? "%.*s%04u-%s" : "%.*s-%04u%s", (int)(at - path), path, (unsigned)index + 1, at);
    return n < 0 ? NULL : name;
}

/* One picture on its way through libpng, which leaves by a jump when it fails: what must survive the jump lies here. */
typedef struct job {
    const char     *name;
    png_structp     png;
    png_infop       info;
    sg_output_file *out; /* writing these */
    const sg_clip  *clip;
    const uint8_t  *rgb;
    FILE           *in; /* reading */
    sg_error        error;
    jmp_buf         jump;
} job;

static void on_write(png_structp png, png_bytep data, size_t bytes)
{
    job *j = png_get_io_ptr(png);
    if (sg_output_file_write(j->out, data, bytes, &j->error) != SG_OK) longjmp(j->jump, 1);
}

static void on_flush(png_structp png) { (void)png; }

static _Noreturn void on_error(png_structp png, png_const_charp text)
{
    job *j = png_get_error_ptr(png);
    if (j->in)
        (void)sg_error_set(&j->error, SG_E_FORMAT, "%s: broken PNG: %s", j->name, text);
    else
        (void)sg_error_set(&j->error, SG_E_FILE, "%s: cannot be written: %s", j->name, text);
    longjmp(j->jump, 1);
}

static void on_warning(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void open_info(job *j)
{
    if (j->png) j->info = png_create_info_struct(j->png);
    if (j->info) return;
    (void)sg_error_memory(&j->error, j->name);
    longjmp(j->jump, 1);
}

static void write_picture(job *j)
{
    const sg_clip *const clip = j->clip;
    const int            level = clip->has_png_level ? clip->png_level : USUAL_LEVEL;
    char                 keyword[] = KEYWORD, software_key[] = "Software", software[] = "sparge-gen " SG_VERSION;
    const png_text       text[] = {
              {.compression = PNG_TEXT_COMPRESSION_NONE, .key = software_key, .text = software},
              /* libpng declares the text as writable, but only reads it */
              {.compression = PNG_ITXT_COMPRESSION_NONE, .key = keyword, .text = (png_charp)(uintptr_t)clip->settings}};
    j->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    open_info(j);
    png_set_write_fn(j->png, j, on_write, on_flush);
    png_set_IHDR(j->png, j->info, (png_uint_32)clip->width, (png_uint_32)clip->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(j->png, levels[level].zlib);
    png_set_compression_strategy(j->png, levels[level].strategy);
    png_set_filter(j->png, PNG_FILTER_TYPE_BASE, levels[level].filters);
    png_set_sRGB(j->png, j->info, PNG_sRGB_INTENT_PERCEPTUAL);
    png_set_text(j->png, j->info, text, clip->settings ? 2 : 1);
    png_write_info(j->png, j->info);
    for (int y = 0; y < clip->height; y++) png_write_row(j->png, j->rgb + sg_image_bytes(clip->width, y));
    png_write_end(j->png, j->info);
}

/* Only this frame holds the jump's target, and it changes no local after setting it. */
static void caught(job *j, void (*work)(job *j))
{
    if (setjmp(j->jump) == 0) work(j);
}

static sg_status png_write(void *state, const sg_clip *clip, sg_output_file *file, int index, const uint8_t *rgb,
                           sg_error *e)
{
    job j = {.name = clip->path, .out = file, .clip = clip, .rgb = rgb};
    (void)state, (void)index;
    caught(&j, write_picture);
    png_destroy_write_struct(&j.png, &j.info);
    return sg_error_copy(e, &j.error);
}

static void read_head(job *j)
{
    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, on_error, on_warning);
    open_info(j);
    png_init_io(j->png, j->in);
    png_read_info(j->png, j->info);
}

static sg_status png_read(const char *path, const sg_map *file, char **out, sg_error *e)
{
    job j = {.name = path, .in = fmemopen((void *)(uintptr_t)file->data, file->size, "rb")};
    if (!j.in) return sg_error_memory(e, path);
    caught(&j, read_head);
    png_textp text = NULL;
    int       n = 0;
    if (j.error.code == SG_OK) png_get_text(j.png, j.info, &text, &n);
    for (int i = 0; i < n && !*out; i++)
        if (strcmp(text[i].key, KEYWORD) == 0 && !(*out = strdup(text[i].text))) (void)sg_error_memory(&j.error, path);
    png_destroy_read_struct(&j.png, &j.info, NULL);
    fclose(j.in);
    return sg_error_copy(e, &j.error);
}

const sg_writer_type sg_writer_png = {
    .name = "PNG",
    .endings = ".png",
    .has_png_level = true,
    .bytes = png_bytes,
    .check = png_check,
    .file_name = png_file_name,
    .write = png_write,
    .magic = "\211PNG\r\n\032\n",
    .read = png_read,
};
