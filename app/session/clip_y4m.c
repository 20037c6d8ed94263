/* clip_y4m.c - frames out of YUV4MPEG2, see clip_reader.h and writer_y4m.c. */
#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "clip_reader.h"

#include <string.h>

enum { MAX_HEADER = 1024, MAX_FRAME_HEADER = 256 }; /* bytes */

/* What Y has of red and of blue. */
typedef struct matrix {
    double red, blue;
} matrix;

static const matrix bt601 = {0.299, 0.114}, bt709 = {0.2126, 0.0722};

/* So ended the first line of version 0.1's files, which are BT.709. FFmpeg's have XYSCSS=444 behind C444. */
#define OLD_END " Ip A1:1 C444 XCOLORRANGE=LIMITED"

typedef struct state {
    const char *path;
    sg_map      map;
    size_t      at;          /* in map */
    size_t      bytes;       /* of a frame */
    int         count, half; /* half 1: the sides of U and V are halves, rounded up */
    matrix      matrix;
    sg_image    frame;
    double      luma[256]; /* of each Y, 0 to 255 */
    double      period;    /* seconds of a frame; 0: unknown */
} state;

/* The text up to the end of the line at s->at, which moves behind it. False: none within size bytes. */
static bool take_line(state *s, char *line, size_t size)
{
    const char *const from = (const char *)s->map.data + s->at;
    const size_t      left = s->map.size - s->at;
    const char *const end = memchr(from, '\n', left < size ? left : size);
    if (!end) return false;
    memcpy(line, from, (size_t)(end - from));
    line[end - from] = '\0';
    s->at += (size_t)(end - from) + 1;
    return true;
}

/* 0: no number, or one that no side has. */
static size_t number(const char *text)
{
    int64_t value = 0;
    (void)sg_number_int(text, strlen(text), 1, 999999, &value);
    return (size_t)value;
}

/* Of "30000:1001". */
static double period(const char *rate)
{
    int of[2]; /* frames, seconds */
    return sg_number_pair(rate, ":", 1, 999999, of) ? (double)of[1] / of[0] : 0;
}

static sg_status refuse(const state *s, const char *word, const char *why, sg_error *e)
{
    return sg_error_set(e, SG_E_UNSUPPORTED, "%s: Y4M with %s: %s", s->path, sg_show(word), why);
}

/* FFmpeg reads whatever this does not, and enlarges chroma better. */
static sg_status read_chroma(state *s, const char *word, sg_error *e)
{
    static const char *const halves[] = {"C420", "C420jpeg", "C420mpeg2", "C420paldv"};
    s->half = 0;
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) s->half |= strcmp(word, halves[i]) == 0;
    if (strcmp(word, "C444") == 0 || (s->half && !SG_FFMPEG)) return SG_OK;
    return refuse(s, word, "only C444 and 4:2:0 in 8 bits are read without FFmpeg", e);
}

static sg_status read_header(state *s, size_t *width, size_t *height, sg_error *e)
{
    char        header[MAX_HEADER], *rest;
    const char *chroma = "C420"; /* of a header without one */
    if (!take_line(s, header, sizeof header))
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: the first line has no end", s->path);
    const size_t n = strlen(header), old = strlen(OLD_END);
    s->matrix = n > old && strcmp(header + n - old, OLD_END) == 0 ? bt709 : bt601;
    (void)strtok_r(header, " ", &rest);
    for (const char *word; (word = strtok_r(NULL, " ", &rest)) != NULL;) {
        if (*word == 'W') *width = number(word + 1);
        if (*word == 'H') *height = number(word + 1);
        if (*word == 'F') s->period = period(word + 1);
        if (*word == 'C') chroma = word;
        if (strcmp(word, "XCOLORRANGE=FULL") == 0)
            return refuse(s, word, "only the limited range is read without FFmpeg", e);
    }
    return read_chroma(s, chroma, e);
}

/* Samples of U, or of V. */
static size_t chroma_size(const state *s, size_t width, size_t height)
{
    const size_t half = (size_t)s->half;
    return ((width + half) >> half) * ((height + half) >> half);
}

static sg_status y4m_open(void *context, const char *path, sg_error *e)
{
    state *const s = context;
    size_t       width = 0, height = 0;
    s->path = path;
    SG_TRY(sg_map_open(&s->map, path, e));
    SG_TRY(read_header(s, &width, &height, e));
    for (int y = 0; y < 256; y++) s->luma[y] = (y - 16) / 219.0 * 255;
    /* A side has six digits at most, so nothing overflows; nothing is allocated for a frame larger than the file. */
    s->bytes = width * height + 2 * chroma_size(s, width, height);
    if (width && height && width <= SG_IMAGE_MAX_SIDE && height <= SG_IMAGE_MAX_SIDE && s->bytes > s->map.size - s->at)
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: holds no frame of %zux%zu pixels", path, width, height);
    return sg_error_in(e, sg_image_alloc(&s->frame, width, height, e), path);
}

static uint8_t quantise(double v) { return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5); }

/* The formulas of writer_y4m.c solved for r, g, b, by the matrix. */
static void to_rgb(state *s, const uint8_t *planes)
{
    const size_t         width = (size_t)s->frame.width, height = (size_t)s->frame.height, half = (size_t)s->half;
    const uint8_t *const u = planes + width * height, *const v = u + chroma_size(s, width, height);
    const double kr = s->matrix.red, kb = s->matrix.blue, kg = 1 - kr - kb, chroma = 2 * 255 / 224.0;
    uint8_t     *out = s->frame.rgb;
    for (size_t line = 0, i = 0; line < height; line++)
        for (size_t x = 0; x < width; x++, i++, out += 3) {
            const size_t at = (line >> half) * ((width + half) >> half) + (x >> half);
            const double y = s->luma[planes[i]];
            const double b = (u[at] - 128) * (1 - kb) * chroma, r = (v[at] - 128) * (1 - kr) * chroma;
            out[0] = quantise(y + r);
            out[1] = quantise(y - (kr * r + kb * b) / kg);
            out[2] = quantise(y + b);
        }
}

static sg_status y4m_next(void *context, sg_clip_frame *frame, sg_error *e)
{
    state *const s = context;
    char         line[MAX_FRAME_HEADER];
    if (s->at == s->map.size) return SG_OK;
    if (!take_line(s, line, sizeof line) || strncmp(line, "FRAME", 5) != 0 || (line[5] && line[5] != ' '))
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: no FRAME after %d frame%s", s->path, s->count,
                            sg_plural(s->count));
    if (s->map.size - s->at < s->bytes)
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: the file ends within a frame, after %d whole one%s", s->path,
                            s->count, sg_plural(s->count));
    to_rgb(s, s->map.data + s->at);
    s->at += s->bytes;
    *frame = (sg_clip_frame){&s->frame, s->period > 0 ? s->count * s->period : -1, SG_CLIP_CONVERTED};
    s->count++;
    return SG_OK;
}

static void y4m_close(void *context)
{
    state *const s = context;
    sg_image_close(&s->frame);
    sg_map_close(&s->map);
}

const sg_clip_type sg_clip_y4m = {.state_size = sizeof(state), .open = y4m_open, .next = y4m_next, .close = y4m_close};
