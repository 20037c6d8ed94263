/* clip_y4m.c - frames out of YUV4MPEG2, see clip_reader.h and sink_y4m.c. */
#include "base/file.h"
#include "base/text.h"
#include "clip_reader.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 1024, MAX_FRAME_HEADER = 256 }; /* bytes */

typedef struct state {
    const char *path;
    sg_map      map;
    size_t      at;          /* in map */
    int         count, half; /* half 1: the sides of U and V are halves, rounded up */
    sg_image    frame;
    double      luma[256]; /* of each Y, 0 to 255 */
    double      period;    /* seconds of a frame; 0: unknown */
} state;

typedef struct word {
    const char *text;
    size_t      size;
} word;

static bool is(const word *w, const char *text)
{
    return w->size == strlen(text) && memcmp(w->text, text, w->size) == 0;
}

/* The bytes up to the end of the line at s->at, which moves behind it; NULL: none within most bytes. */
static const char *take_line(state *s, size_t most, size_t *size)
{
    const char *const line = (const char *)s->map.data + s->at;
    const size_t      left = s->map.size - s->at;
    const char *const end = memchr(line, '\n', left < most ? left : most);
    if (!end) return NULL;
    *size = (size_t)(end - line);
    s->at += *size + 1;
    return line;
}

/* 0: no number, or one that no side has. */
static size_t number(const word *w)
{
    size_t value = 0;
    if (w->size > 7) return 0;
    for (size_t i = 1; i < w->size; i++) {
        if (w->text[i] < '0' || w->text[i] > '9') return 0;
        value = value * 10 + (size_t)(w->text[i] - '0');
    }
    return value;
}

/* Of "F30000:1001". */
static double period(const word *w)
{
    const char *const colon = memchr(w->text, ':', w->size);
    if (!colon) return 0;
    const word   rate = {w->text, (size_t)(colon - w->text)}, scale = {colon, w->size - rate.size};
    const size_t frames = number(&rate), seconds = number(&scale);
    return frames ? (double)seconds / (double)frames : 0;
}

static sg_status refuse(const state *s, const word *w, const char *why, sg_error *e)
{
    char text[64] = {0};
    memcpy(text, w->text, w->size < sizeof text ? w->size : sizeof text - 1);
    return sg_error_set(e, SG_E_UNSUPPORTED, "%s: Y4M with %s: %s", s->path, sg_show(text), why);
}

/* FFmpeg reads whatever this does not, and enlarges chroma better. */
static sg_status read_chroma(state *s, const word *w, sg_error *e)
{
    static const char *const halves[] = {"C420", "C420jpeg", "C420mpeg2", "C420paldv"};
    s->half = 0;
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) s->half |= is(w, halves[i]);
    if (is(w, "C444") || (s->half && !SG_FFMPEG)) return SG_OK;
    return refuse(s, w, "only C444 and 4:2:0 in 8 bits are read without FFmpeg", e);
}

static sg_status read_header(state *s, size_t *width, size_t *height, sg_error *e)
{
    size_t            size = 0;
    const char *const line = take_line(s, MAX_HEADER, &size);
    word              chroma = {"C420", 4}; /* of a header without one */
    if (!line) return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: the first line has no end", s->path);
    for (size_t at = 0, next; at < size; at = next + 1) {
        const char *const blank = memchr(line + at, ' ', size - at);
        next = blank ? (size_t)(blank - line) : size;
        const word w = {line + at, next - at};
        if (!at || !w.size) continue;
        if (*w.text == 'W') *width = number(&w);
        if (*w.text == 'H') *height = number(&w);
        if (*w.text == 'F') s->period = period(&w);
        if (*w.text == 'C') chroma = w;
        if (is(&w, "XCOLORRANGE=FULL")) return refuse(s, &w, "only the limited range is read without FFmpeg", e);
    }
    return read_chroma(s, &chroma, e);
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
    sg_error     why = {0};
    s->path = path;
    SG_TRY(sg_map_open(&s->map, path, e));
    SG_TRY(read_header(s, &width, &height, e));
    for (int y = 0; y < 256; y++) s->luma[y] = (y - 16) / 219.0 * 255;
    /* A side has six digits at most, so nothing overflows; nothing is allocated for a frame larger than the file. */
    if (width && height && width <= SG_IMAGE_MAX_SIDE && height <= SG_IMAGE_MAX_SIDE &&
        width * height + 2 * chroma_size(s, width, height) > s->map.size - s->at)
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: holds no frame of %zux%zu pixels", path, width, height);
    if (sg_image_alloc(&s->frame, width, height, &why) != SG_OK)
        return sg_error_set(e, why.code, "%s: Y4M: %s", path, why.text);
    return SG_OK;
}

static uint8_t quantise(double v) { return (uint8_t)(v <= 0 ? 0 : v >= 255 ? 255 : v + 0.5); }

/* The formulas of sink_y4m.c solved for r, g, b. */
static void to_rgb(state *s, const uint8_t *planes)
{
    const size_t         width = (size_t)s->frame.width, height = (size_t)s->frame.height, half = (size_t)s->half;
    const uint8_t *const u = planes + width * height, *const v = u + chroma_size(s, width, height);
    uint8_t *out = s->frame.rgb;
    for (size_t line = 0, i = 0; line < height; line++)
        for (size_t x = 0; x < width; x++, i++, out += 3) {
            const size_t at = (line >> half) * ((width + half) >> half) + (x >> half);
            const double y = s->luma[planes[i]];
            const double b = (u[at] - 128) * (1.8556 * 255 / 224), r = (v[at] - 128) * (1.5748 * 255 / 224);
            out[0] = quantise(y + r);
            out[1] = quantise(y - (0.2126 * r + 0.0722 * b) / 0.7152);
            out[2] = quantise(y + b);
        }
}

static sg_status y4m_next(void *context, const sg_image **frame, sg_error *e)
{
    state *const s = context;
    const size_t width = (size_t)s->frame.width, height = (size_t)s->frame.height;
    const size_t bytes = width * height + 2 * chroma_size(s, width, height);
    size_t       size = 0;
    *frame = NULL;
    if (s->at == s->map.size) return SG_OK;
    const char *const line = take_line(s, MAX_FRAME_HEADER, &size);
    if (!line || size < 5 || memcmp(line, "FRAME", 5) != 0 || (size > 5 && line[5] != ' '))
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: no FRAME after %d frame%s", s->path, s->count,
                            sg_plural(s->count));
    if (s->map.size - s->at < bytes)
        return sg_error_set(e, SG_E_FORMAT, "%s: Y4M: the file ends within a frame, after %d whole one%s", s->path,
                            s->count, sg_plural(s->count));
    to_rgb(s, s->map.data + s->at);
    s->at += bytes;
    s->count++;
    *frame = &s->frame;
    return SG_OK;
}

static sg_clip_loss y4m_loss(const void *context)
{
    (void)context;
    return SG_CLIP_CONVERTED;
}

static double y4m_time(const void *context)
{
    const state *const s = context;
    return s->period > 0 ? (s->count - 1) * s->period : -1;
}

static void y4m_close(void *context)
{
    state *const s = context;
    sg_image_close(&s->frame);
    sg_map_close(&s->map);
}

const sg_clip_type sg_clip_y4m = {.state_size = sizeof(state),
                                  .open = y4m_open,
                                  .next = y4m_next,
                                  .loss = y4m_loss,
                                  .time = y4m_time,
                                  .close = y4m_close};
