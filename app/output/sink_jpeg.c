/* sink_jpeg.c - JPEG by libjpeg: one picture, 4:4:4, its settings as comments, which hold so many bytes each. */
#include "base/output_file.h"
#include "sink.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

enum { QUALITY = 95, MAX_SIDE = 65500, MAX_COMMENT = 65533, MAX_SETTINGS = 16 << 20, BUFFER = 1 << 16 };
enum { START = 0xD8, TEMPORARY = 0x01, RESTART_0 = 0xD0, END = 0xD9, SCAN = 0xDA }; /* markers */

/* A picture on its way through libjpeg, which leaves by a jump when it fails: what must survive the jump lies here. */
typedef struct state {
    sg_clip                     clip;
    sg_output_file             *file;
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr       manager;
    struct jpeg_destination_mgr to;
    uint8_t                     buffer[BUFFER];
    sg_error                    error;
    jmp_buf                     jump;
} state;

/* ---- writing ---- */

static sg_status jpeg_check(const sg_clip *clip, sg_error *e)
{
    if (clip->frames > 1)
        return sg_error_set(e, SG_E_ARG, "--output: %s is one picture, but the clip has %d frames; add --frames 1",
                            clip->path, clip->frames);
    if (clip->width <= MAX_SIDE && clip->height <= MAX_SIDE) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "--output: %s: JPEG holds at most %d pixels a side, not %dx%d", clip->path,
                        MAX_SIDE, clip->width, clip->height);
}

/* libjpeg's code and tables, and its rows. */
static size_t jpeg_bytes(const sg_clip *clip)
{
    enum { CODE = 320 << 10, ROW = 100 };
    return CODE + sizeof(state) + (size_t)clip->width * ROW;
}

static sg_status jpeg_open(void *context, const sg_clip *clip, sg_error *e)
{
    state *const s = context;
    s->clip = *clip;
    return sg_output_file_open(&s->file, clip->path, e);
}

static void flush(state *s, size_t bytes)
{
    if (sg_output_file_write(s->file, s->buffer, bytes, &s->error) != SG_OK) longjmp(s->jump, 1);
}

static void begin(j_compress_ptr j)
{
    state *const s = j->client_data;
    s->to.next_output_byte = s->buffer;
    s->to.free_in_buffer = BUFFER;
}

static boolean on_full(j_compress_ptr j)
{
    flush(j->client_data, BUFFER);
    begin(j);
    return TRUE;
}

static void on_end(j_compress_ptr j)
{
    state *const s = j->client_data;
    flush(s, BUFFER - s->to.free_in_buffer);
}

static _Noreturn void on_error(j_common_ptr j)
{
    state *const s = j->client_data;
    char         text[JMSG_LENGTH_MAX];
    j->err->format_message(j, text);
    const sg_status code = j->err->msg_code == JERR_OUT_OF_MEMORY ? SG_E_MEMORY : SG_E_FILE;
    (void)sg_error_set(&s->error, code, "%s: cannot be written: %s", s->clip.path, text);
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

static void write_picture(state *s, const uint8_t *rgb)
{
    j_compress_ptr const j = &s->jpeg;
    jpeg_create_compress(j);
    j->dest = &s->to;
    j->image_width = (JDIMENSION)s->clip.width;
    j->image_height = (JDIMENSION)s->clip.height;
    j->input_components = 3;
    j->in_color_space = JCS_RGB;
    jpeg_set_defaults(j);
    jpeg_set_quality(j, QUALITY, TRUE);
    for (int i = 0; i < j->num_components; i++) j->comp_info[i].h_samp_factor = j->comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(j, TRUE);
    put_settings(j, s->clip.settings);
    while (j->next_scanline < j->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(rgb + (size_t)j->next_scanline * (size_t)s->clip.width * 3);
        jpeg_write_scanlines(j, &row, 1);
    }
    jpeg_finish_compress(j);
}

static sg_status jpeg_write(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    state *const s = context;
    (void)index;
    s->jpeg.err = jpeg_std_error(&s->manager);
    s->manager.error_exit = on_error;
    s->jpeg.client_data = s;
    s->to.init_destination = begin;
    s->to.empty_output_buffer = on_full;
    s->to.term_destination = on_end;
    if (setjmp(s->jump) == 0) write_picture(s, rgb);
    jpeg_destroy_compress(&s->jpeg);
    return s->error.code == SG_OK ? SG_OK : sg_error_set(e, s->error.code, "%s", s->error.text);
}

static sg_status jpeg_finish(void *context, sg_error *e)
{
    state *const s = context;
    return sg_output_file_complete(s->file, e);
}

static sg_status jpeg_publish(void *context, sg_error *e)
{
    state *const s = context;
    return sg_output_file_publish(&s->file, e);
}

static void jpeg_close(void *context)
{
    state *const s = context;
    sg_output_file_discard(&s->file);
}

/* ---- reading ---- */

static bool jpeg_claims(const uint8_t *head, size_t bytes)
{
    return bytes >= 3 && head[0] == 0xFF && head[1] == START && head[2] == 0xFF;
}

/* The next marker; EOF: the file ends, or something else is there. */
static int next_marker(FILE *f)
{
    int c = fgetc(f);
    if (c != 0xFF) return EOF;
    while (c == 0xFF) c = fgetc(f); /* fill bytes */
    return c;
}

/* Appends a comment of n bytes to *text. */
static sg_status take_comment(FILE *f, const char *path, size_t n, char **text, size_t *size, sg_error *e)
{
    if (*size + n > MAX_SETTINGS)
        return sg_error_set(e, SG_E_FORMAT, "%s: has comments of more than %d bytes", path, MAX_SETTINGS);
    char *const more = realloc(*text, *size + n + 1);
    if (!more) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    *text = more;
    if (fread(more + *size, 1, n, f) != n)
        return sg_error_set(e, SG_E_FORMAT, "%s: broken JPEG: it ends within a comment", path);
    *size += n;
    more[*size] = '\0';
    return SG_OK;
}

/* All comments before the pixels, one behind the other. */
static sg_status find_settings(FILE *f, const char *path, char **text, size_t *size, sg_error *e)
{
    for (int marker = next_marker(f); marker != SCAN && marker != END; marker = next_marker(f)) {
        const bool bare = marker == START || marker == TEMPORARY || (marker >= RESTART_0 && marker < START);
        if (bare) continue;
        const int high = fgetc(f), low = fgetc(f);
        if (marker == EOF || high == EOF || low == EOF || high * 256 + low < 2)
            return sg_error_set(e, SG_E_FORMAT, "%s: broken JPEG: it ends before its pixels", path);
        const int n = high * 256 + low - 2;
        if (marker == JPEG_COM)
            SG_TRY(take_comment(f, path, (size_t)n, text, size, e));
        else if (fseek(f, n, SEEK_CUR) != 0)
            return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    }
    return SG_OK;
}

static sg_status jpeg_read(const char *path, char **out, sg_error *e)
{
    char  *text = NULL;
    size_t size = 0;
    *out = NULL;
    FILE *const f = fopen(path, "rb");
    if (!f) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    const sg_status status = find_settings(f, path, &text, &size, e);
    fclose(f);
    if (status == SG_OK && text && strlen(text) == size) /* comments of others may hold anything */
        *out = text;
    else
        free(text);
    return status;
}

const sg_sink_type sg_sink_jpeg = {
    .name = "JPEG",
    .endings = ".jpg .jpeg",
    .state_size = sizeof(state),
    .bytes = jpeg_bytes,
    .check = jpeg_check,
    .open = jpeg_open,
    .write = jpeg_write,
    .finish = jpeg_finish,
    .publish = jpeg_publish,
    .close = jpeg_close,
    .claims = jpeg_claims,
    .read = jpeg_read,
};
