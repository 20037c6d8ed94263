/* writer_jpeg.c - JPEG by libjpeg: one picture, 4:4:4, its settings as comments, which hold so many bytes each. */
#include "base/text.h"
#include "writer.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { QUALITY = 95, MAX_COMMENT = 65533, MAX_SETTINGS = 16 << 20 };
enum { START = 0xD8, TEMPORARY = 0x01, RESTART_0 = 0xD0, END = 0xD9, SCAN = 0xDA }; /* markers */

/* A picture on its way through libjpeg, which leaves by a jump when it fails: what must survive the jump lies here. */
typedef struct state {
    const sg_clip              *clip;
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       manager;
    char                       *bytes; /* of the file */
    size_t                      size;
    sg_error                    error;
    jmp_buf                     jump;
} state;

/* ---- writing ---- */

static sg_status jpeg_check(const sg_clip *clip, sg_error *e)
{
    if (clip->frames > 1)
        return sg_error_set(e, SG_E_ARG, "--output: %s is one picture, but the clip has %d frames; add --frames 1",
                            clip->path, clip->frames);
    return SG_OK;
}

/* libjpeg's rows. */
static size_t jpeg_bytes(const sg_clip *clip) { return (size_t)clip->width * 100; }

static _Noreturn void on_error(j_common_ptr j)
{
    state *const s = j->client_data;
    char         text[JMSG_LENGTH_MAX];
    j->err->format_message(j, text);
    const int  why = j->err->msg_code; /* what is written to is memory, too */
    const bool memory = why == JERR_OUT_OF_MEMORY || why == JERR_FILE_WRITE;
    (void)sg_error_set(&s->error, memory ? SG_E_MEMORY : SG_E_FILE, "%s: cannot be written: %s", s->clip->path, text);
    longjmp(s->jump, 1);
}

static void put_settings(j_compress_ptr j, const char *settings)
{
    for (size_t left = settings ? strlen(settings) : 0; left;) {
        const size_t n = left < MAX_COMMENT ? left : MAX_COMMENT;
        jpeg_write_marker(j, JPEG_COM, (const JOCTET *)settings, (unsigned)n);
        settings += n;
        left -= n;
    }
}

static void compress(state *s, FILE *to, const uint8_t *rgb)
{
    j_compress_ptr const j = &s->jpeg;
    jpeg_create_compress(j);
    jpeg_stdio_dest(j, to);
    j->image_width = (JDIMENSION)s->clip->width;
    j->image_height = (JDIMENSION)s->clip->height;
    j->input_components = 3;
    j->in_color_space = JCS_RGB;
    jpeg_set_defaults(j);
    jpeg_set_quality(j, QUALITY, TRUE);
    for (int i = 0; i < j->num_components; i++) j->comp_info[i].h_samp_factor = j->comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(j, TRUE);
    put_settings(j, s->clip->settings);
    while (j->next_scanline < j->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + sg_image_bytes(s->clip->width, (int)j->next_scanline));
        jpeg_write_scanlines(j, &row, 1);
    }
    jpeg_finish_compress(j);
}

static sg_status jpeg_write(void *context, const sg_clip *clip, sg_output_file *file, int index, const uint8_t *rgb,
                            sg_error *e)
{
    state *const s = context;
    FILE *const  to = open_memstream(&s->bytes, &s->size);
    (void)index;
    if (!to) return sg_error_memory(e, clip->path);
    s->clip = clip;
    s->jpeg.err = jpeg_std_error(&s->manager);
    s->manager.error_exit = on_error;
    s->jpeg.client_data = s;
    if (setjmp(s->jump) == 0) compress(s, to, rgb);
    jpeg_destroy_compress(&s->jpeg);
    const bool whole = fclose(to) == 0;
    SG_TRY(sg_error_copy(e, &s->error));
    if (!whole) return sg_error_memory(e, clip->path);
    return sg_output_file_write(file, s->bytes, s->size, e);
}

static void jpeg_close(void *context) { free(((state *)context)->bytes); }

/* ---- reading ---- */

/* Puts all comments before the pixels into text, one behind the other. */
static sg_status find_settings(const char *path, const sg_map *file, sg_textbuf *text, sg_error *e)
{
    const uint8_t *const in = file->data;
    for (size_t at = 0, n;; at += n) {
        const bool marked = at < file->size && in[at] == 0xFF;
        while (at < file->size && in[at] == 0xFF) at++; /* fill bytes */
        const int marker = marked && at < file->size ? in[at++] : EOF;
        if (marker == SCAN || marker == END) return SG_OK;
        n = 0;
        if (marker == START || marker == TEMPORARY || (marker >= RESTART_0 && marker < START)) continue;
        n = marker != EOF && file->size - at >= 2 ? (size_t)in[at] * 256 + in[at + 1] : 0;
        if (n < 2) return sg_error_set(e, SG_E_FORMAT, "%s: broken JPEG: it ends before its pixels", path);
        if (marker != JPEG_COM) continue;
        if (n > file->size - at) return sg_error_set(e, SG_E_FORMAT, "%s: broken JPEG: it ends within a comment", path);
        if (text->len + n > MAX_SETTINGS)
            return sg_error_set(e, SG_E_FORMAT, "%s: has comments of more than %d bytes", path, MAX_SETTINGS);
        sg_textbuf_put(text, (const char *)in + at + 2, n - 2);
    }
}

static sg_status jpeg_read(const char *path, const sg_map *file, char **out, sg_error *e)
{
    sg_textbuf text = {0};
    sg_status  status = find_settings(path, file, &text, e);
    if (status == SG_OK && text.failed) status = sg_error_memory(e, path);
    if (status == SG_OK && text.len && strlen(text.data) == text.len) /* comments of others may hold anything */
        *out = text.data;
    else
        sg_textbuf_free(&text);
    return status;
}

const sg_writer_type sg_writer_jpeg = {
    .name = "JPEG",
    .endings = ".jpg .jpeg",
    .max_side = 65500,
    .state_size = sizeof(state),
    .code = (320 << 10) + sizeof(state), /* and libjpeg's tables */
    .pixel = 6, /* the file, whose memory doubles as it grows: noise takes as much as its samples */
    .bytes = jpeg_bytes,
    .check = jpeg_check,
    .write = jpeg_write,
    .close = jpeg_close,
    .magic = "\xff\xd8\xff",
    .read = jpeg_read,
};
