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

/* How libjpeg fails: it leaves by a jump, and what must survive that lies on the heap. */
typedef struct failure {
    struct jpeg_error_mgr manager; /* first: a pointer to it is one to this */
    jmp_buf               back;
    char                  text[JMSG_LENGTH_MAX];
} failure;

static _Noreturn void on_error(j_common_ptr j)
{
    failure *const f = (failure *)j->err;
    j->err->format_message(j, f->text);
    longjmp(f->back, 1);
}

/* A picture on its way through libjpeg. */
typedef struct state {
    const sg_clip              *clip;
    struct jpeg_compress_struct jpeg;
    failure                     failure;
    char                       *bytes; /* of the file */
    size_t                      size;
} state;

/* ---- writing ---- */

static sg_status jpeg_check(const sg_clip *clip, sg_error *e)
{
    if (clip->frames > 1)
        return sg_error_set(e, SG_E_ARG, "path: %s is one picture, but the clip has %d frames; set frames to 1",
                            clip->path, clip->frames);
    return SG_OK;
}

/* libjpeg's rows. */
static size_t jpeg_bytes(const sg_clip *clip) { return (size_t)clip->width * 100; }

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
    s->jpeg.err = jpeg_std_error(&s->failure.manager);
    s->failure.manager.error_exit = on_error;
    if (setjmp(s->failure.back) == 0) compress(s, to, rgb);
    jpeg_destroy_compress(&s->jpeg);
    const bool whole = fclose(to) == 0;
    if (s->failure.text[0]) { /* what is written to is memory, too */
        const int  why = s->failure.manager.msg_code;
        const bool memory = why == JERR_OUT_OF_MEMORY || why == JERR_FILE_WRITE;
        return sg_error_set(e, memory ? SG_E_MEMORY : SG_E_FILE, "%s: cannot be written: %s", clip->path,
                            s->failure.text);
    }
    if (!whole) return sg_error_memory(e, clip->path);
    return sg_output_file_write(file, s->bytes, s->size, e);
}

static void jpeg_close(void *context) { free(((state *)context)->bytes); }

/* ---- reading ---- */

typedef struct reading {
    struct jpeg_decompress_struct jpeg;
    failure                       failure;
    sg_textbuf                    text;
} reading;

/* A file that is not as it should be is refused as a whole. */
static void on_message(j_common_ptr j, int level)
{
    if (level < 0) on_error(j);
}

/* Puts all comments before the pixels into r->text, one behind the other. */
static sg_status read_comments(reading *r, const sg_map *file, const char *path, sg_error *e)
{
    j_decompress_ptr const j = &r->jpeg;
    j->err = jpeg_std_error(&r->failure.manager);
    j->err->error_exit = on_error;
    j->err->emit_message = on_message;
    jpeg_create_decompress(j);
    jpeg_mem_src(j, file->data, (unsigned long)file->size);
    jpeg_save_markers(j, JPEG_COM, 0xFFFF);
    jpeg_read_header(j, FALSE);
    for (jpeg_saved_marker_ptr m = j->marker_list; m; m = m->next) {
        if (r->text.len + m->data_length > MAX_SETTINGS)
            return sg_error_set(e, SG_E_FORMAT, "%s: has comments of more than %d bytes", path, MAX_SETTINGS);
        sg_textbuf_put(&r->text, (const char *)m->data, m->data_length);
    }
    return r->text.failed ? sg_error_memory(e, path) : SG_OK;
}

static sg_status jpeg_read(const char *path, const sg_map *file, char **out, sg_error *e)
{
    reading *const r = calloc(1, sizeof *r);
    sg_status      status;
    if (!r) return sg_error_memory(e, path);
    if (setjmp(r->failure.back) == 0)
        status = read_comments(r, file, path, e);
    else if (r->failure.manager.msg_code == JERR_OUT_OF_MEMORY)
        status = sg_error_memory(e, path);
    else
        status = sg_error_set(e, SG_E_FORMAT, "%s: broken JPEG: %s", path, r->failure.text);
    jpeg_destroy_decompress(&r->jpeg);
    if (status == SG_OK && r->text.len && strlen(r->text.data) == r->text.len) /* those of others may hold anything */
        *out = r->text.data;
    else
        sg_textbuf_free(&r->text);
    free(r);
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
