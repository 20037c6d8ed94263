/* sink_webp.c - WebP by FFmpeg's libraries and libwebp: an animation that repeats, or one picture. FFmpeg keeps no settings in
 * a WebP: they are a chunk at its end, which others leave alone (RFC 9649, section 2.7.1.6). */
#include "sink_video.h"

#include <libavutil/opt.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* libwebp_anim is not it: what it keeps of the frame before shows seams, 35 dB where whole frames have 41. */
#define ENCODER "libwebp"
#define SETTINGS_CHUNK "sgen"
enum { MAX_SIDE = 16383, QUALITY = 90, RIFF_HEAD = 12, CHUNK_HEAD = 8, MAX_SETTINGS = 16 << 20 };

typedef struct state {
    sg_video    video; /* first */
    const char *settings;
} state;

static sg_status webp_check(const sg_clip *clip, sg_error *e)
{
    if (!avcodec_find_encoder_by_name(ENCODER))
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "WebP: this FFmpeg has no " ENCODER " encoder; use .mkv, .y4m or .png");
    if (clip->width > MAX_SIDE || clip->height > MAX_SIDE)
        return sg_error_set(e, SG_E_ARG, "--output: %s: WebP holds at most %d pixels a side, not %dx%d", clip->path,
                            MAX_SIDE, clip->width, clip->height);
    return SG_OK;
}

/* libwebp's code, pictures and tables, at most. */
static size_t webp_bytes(const sg_clip *clip)
{
    enum { CODE = 5 << 20, PIXEL = 22 };
    const size_t pixels = (size_t)clip->width * (size_t)clip->height;
    return CODE + pixels * PIXEL;
}

static sg_status webp_open(void *context, const sg_clip *clip, sg_error *e)
{
    state *const    s = context;
    sg_video *const v = &s->video;
    AVDictionary   *options = NULL;
    s->settings = clip->settings;
    SG_TRY(sg_video_open(v, clip, "webp", "WebP", e));
    SG_TRY(sg_video_codec(v, clip, avcodec_find_encoder_by_name(ENCODER), AV_PIX_FMT_BGRA, e));
    sg_video_srgb(v);
    av_opt_set_double(v->codec->priv_data, "quality", QUALITY, 0);
    av_dict_set(&options, "loop", "0", 0); /* without end */
    return sg_video_begin(v, clip, options, e);
}

static void put_u32(uint8_t *out, uint32_t n)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(n >> 8 * i);
}

static uint32_t get_u32(const uint8_t *in)
{
    return in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

/* Puts the chunk behind all others, and the new size of them all into the head. */
static bool append(FILE *f, const char *settings)
{
    uint8_t      head[CHUNK_HEAD] = SETTINGS_CHUNK;
    const size_t n = strlen(settings);
    put_u32(head + 4, (uint32_t)n);
    if (fseek(f, 0, SEEK_END) != 0 || fwrite(head, 1, CHUNK_HEAD, f) != CHUNK_HEAD) return false;
    if (fwrite(settings, 1, n, f) != n || (n % 2 && fputc(0, f) == EOF)) return false;
    const long size = ftell(f);
    if (size < RIFF_HEAD || (uint64_t)size > UINT32_MAX) return errno = EFBIG, false;
    put_u32(head, (uint32_t)size - CHUNK_HEAD);
    return fseek(f, 4, SEEK_SET) == 0 && fwrite(head, 1, 4, f) == 4;
}

static sg_status webp_finish(void *context, sg_error *e)
{
    state *const s = context;
    SG_TRY(sg_video_end(&s->video, e));
    if (s->settings) {
        FILE *const f = fopen(sg_output_file_name_now(s->video.file), "r+b");
        bool        done = f && append(f, s->settings);
        int         cause = errno;
        if (f && fclose(f) != 0 && done) done = false, cause = errno;
        if (!done) return sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", s->video.path, strerror(cause));
    }
    return sg_output_file_complete(s->video.file, e);
}

static bool webp_claims(const uint8_t *head, size_t bytes)
{
    return bytes >= RIFF_HEAD && memcmp(head, "RIFF", 4) == 0 && memcmp(head + 8, "WEBP", 4) == 0;
}

/* Walks the chunks of a file of size bytes. */
static sg_status find_settings(FILE *f, const char *path, uint64_t size, char **out, sg_error *e)
{
    uint64_t at = RIFF_HEAD;
    while (at < size) {
        uint8_t    head[CHUNK_HEAD];
        const bool read = fseek(f, (long)at, SEEK_SET) == 0 && fread(head, 1, CHUNK_HEAD, f) == CHUNK_HEAD;
        at += CHUNK_HEAD;
        const uint32_t n = read ? get_u32(head + 4) : 0;
        if (!read || n > size - at)
            return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: it ends within a chunk", path);
        at += (uint64_t)n + n % 2;
        if (memcmp(head, SETTINGS_CHUNK, 4) != 0) continue;
        if (n > MAX_SETTINGS) return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: settings of %u bytes", path, n);
        if (!(*out = malloc((size_t)n + 1))) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
        (*out)[n] = '\0';
        if (fread(*out, 1, n, f) == n && strlen(*out) == n) return SG_OK;
        free(*out);
        *out = NULL;
        return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: its settings are no text", path);
    }
    return SG_OK;
}

static sg_status webp_read(const char *path, char **out, sg_error *e)
{
    struct stat st;
    *out = NULL;
    FILE *const f = fopen(path, "rb");
    if (!f) return sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    const sg_status status = fstat(fileno(f), &st) == 0 ? find_settings(f, path, (uint64_t)st.st_size, out, e)
                                                        : sg_error_set(e, SG_E_FILE, "%s: %s", path, strerror(errno));
    fclose(f);
    return status;
}

const sg_sink_type sg_sink_webp = {
    .name = "WebP",
    .endings = ".webp",
    .state_size = sizeof(state),
    .bytes = webp_bytes,
    .check = webp_check,
    .open = webp_open,
    .write = sg_video_write_bgr,
    .finish = webp_finish,
    .publish = sg_video_publish,
    .close = sg_video_close,
    .claims = webp_claims,
    .read = webp_read,
};
