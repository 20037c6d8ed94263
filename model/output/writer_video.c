/* writer_video.c - what FFmpeg's libraries write: MP4 with H.264, or with AV1 where no encoder of H.264 opens,
 * yuv420p, BT.709 in limited range and tagged so, the index in front; Matroska with FFV1, the pixels as they are,
 * nothing lost; WebP, an animation that repeats, or one picture. */
#include "base/bytes.h"
#include "mp4_encoder.h"

#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_KEY "comment"

/* All that a container needs; starts zeroed. */
typedef struct video {
    const sg_clip     *clip;
    sg_output_file    *file;
    AVFormatContext   *format;
    AVStream          *stream;
    AVCodecContext    *codec;
    struct SwsContext *convert;
    AVFrame           *frame; /* what the encoder is given */
    AVPacket          *packet;
    bool               fed; /* the encoder has had a frame */
} video;

/* what, and FFmpeg's reason. */
static sg_status fail(const video *v, sg_error *e, sg_status code, const char *what, int av)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(av, text, sizeof text);
    return sg_error_set(e, code, "%s: %s: %s", v->clip->path, what, text);
}

static sg_status not_written(const video *v, sg_error *e, int av)
{
    return fail(v, e, SG_E_FILE, "cannot be written", av);
}

/* A name that is not taken for a protocol; the caller frees. */
static char *url_of(const char *name)
{
    char *url;
    return asprintf(&url, "file:%s", name) < 0 ? NULL : url;
}

/* An empty container in the file. */
static sg_status open_container(video *v, const sg_writer_type *type, const sg_clip *clip, sg_output_file *file,
                                sg_error *e)
{
    const char *const now = sg_output_file_name_now(file);
    char              what[64];
    v->clip = clip;
    v->file = file;
    av_log_set_level(AV_LOG_QUIET);
    if (!now)
        return sg_error_set(e, SG_E_ARG, "path: %s: %s needs a file that can be rewound; .y4m does not", clip->path,
                            type->name);
    char *const url = url_of(now);
    if (!url) return sg_error_memory(e, clip->path);
    const int av = avformat_alloc_output_context2(&v->format, NULL, type->format, url);
    free(url);
    if (av >= 0) return SG_OK;
    snprintf(what, sizeof what, "this FFmpeg writes no %s", type->name);
    return fail(v, e, SG_E_UNSUPPORTED, what, av);
}

/* An encoder of RGB, whose pictures are not converted but for the order of their bytes; a format sets the rest
 * before begin. */
static sg_status open_rgb(video *v, const char *encoder, enum AVPixelFormat pixels, sg_error *e)
{
    v->codec = sg_video_context(avcodec_find_encoder_by_name(encoder), v->clip, pixels);
    if (!v->codec) return sg_error_memory(e, v->clip->path);
    if (v->format->oformat->flags & AVFMT_GLOBALHEADER) v->codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    v->codec->color_trc = AVCOL_TRC_IEC61966_2_1;
    v->codec->colorspace = AVCOL_SPC_RGB;
    v->codec->color_range = AVCOL_RANGE_JPEG;
    return SG_OK;
}

/* It takes its colours from the encoder's. */
static sg_status open_frame(video *v, sg_error *e)
{
    const AVCodecContext *const c = v->codec;
    v->frame = av_frame_alloc();
    v->packet = av_packet_alloc();
    if (!v->frame || !v->packet) return sg_error_memory(e, v->clip->path);
    v->frame->format = c->pix_fmt;
    v->frame->width = c->width;
    v->frame->height = c->height;
    v->frame->color_primaries = c->color_primaries;
    v->frame->color_trc = c->color_trc;
    v->frame->colorspace = c->colorspace;
    v->frame->color_range = c->color_range;
    const int av = av_frame_get_buffer(v->frame, 0);
    return av < 0 ? fail(v, e, SG_E_MEMORY, "no memory for a frame", av) : SG_OK;
}

static sg_status open_converter(video *v, sg_error *e)
{
    enum { FULL = 1, LIMITED = 0, ONE = 1 << 16 };
    const AVFrame *const f = v->frame;
    const int *const     bt709 = sws_getCoefficients(SWS_CS_ITU709);
    v->convert =
        sws_getContext(f->width, f->height, AV_PIX_FMT_RGB24, f->width, f->height, (enum AVPixelFormat)f->format,
                       SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    if (!v->convert)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: FFmpeg does not convert RGB to the encoder's", v->clip->path);
    if (f->color_range == AVCOL_RANGE_MPEG &&
        sws_setColorspaceDetails(v->convert, bt709, FULL, bt709, LIMITED, 0, ONE, ONE) < 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: libswscale has no BT.709", v->clip->path);
    return SG_OK;
}

static sg_status open_stream(video *v, sg_error *e)
{
    AVDictionary **const metadata = &v->format->metadata;
    const char *const    settings = v->clip->settings;
    v->stream = avformat_new_stream(v->format, NULL);
    if (!v->stream) return sg_error_memory(e, v->clip->path);
    v->stream->time_base = v->codec->time_base;
    v->stream->avg_frame_rate = v->codec->framerate;
    int av = avcodec_parameters_from_context(v->stream->codecpar, v->codec);
    if (av >= 0 && settings) av = av_dict_set(metadata, SETTINGS_KEY, settings, 0);
    if (av >= 0) av = av_dict_set(metadata, "encoder", "sparge-gen " SG_VERSION, 0);
    if (av >= 0) av = av_dict_set(&v->stream->metadata, "encoder", v->codec->codec->name, 0);
    if (av >= 0) av = avio_open(&v->format->pb, v->format->url, AVIO_FLAG_WRITE);
    return av < 0 ? not_written(v, e, av) : SG_OK;
}

static sg_status refused(const video *v, const char *encoder, int av, sg_error *e)
{
    char what[64];
    snprintf(what, sizeof what, "the encoder %s refuses", encoder);
    return fail(v, e, SG_E_UNSUPPORTED, what, av);
}

/* Opens the encoder, unless it is open, and writes the container's head, with one option and the settings. */
static sg_status begin(video *v, const char *option, const char *value, sg_error *e)
{
    AVDictionary *options = NULL;
    int           av = avcodec_is_open(v->codec) ? 0 : avcodec_open2(v->codec, v->codec->codec, NULL);
    if (av < 0) return refused(v, v->codec->codec->name, av, e);
    SG_TRY(open_frame(v, e));
    SG_TRY(open_converter(v, e));
    SG_TRY(open_stream(v, e));
    if (option) av_dict_set(&options, option, value, 0);
    av = avformat_write_header(v->format, &options);
    av_dict_free(&options);
    return av < 0 ? not_written(v, e, av) : SG_OK;
}

/* Hands frame (NULL: no more) to the encoder and what it gives back to the file. */
static sg_status encode(video *v, const AVFrame *frame, sg_error *e)
{
    int av = avcodec_send_frame(v->codec, frame);
    v->fed = true;
    if (av < 0) return fail(v, e, SG_E_DEVICE, "encoding failed", av);
    while ((av = avcodec_receive_packet(v->codec, v->packet)) >= 0) {
        av_packet_rescale_ts(v->packet, v->codec->time_base, v->stream->time_base);
        v->packet->stream_index = v->stream->index;
        av = av_interleaved_write_frame(v->format, v->packet);
        if (av >= 0) av = v->format->pb->error;
        if (av < 0) return not_written(v, e, av);
    }
    if (av == AVERROR(EAGAIN) || av == AVERROR_EOF) return SG_OK;
    return fail(v, e, SG_E_DEVICE, "encoding failed", av);
}

static sg_status video_write(void *context, const sg_clip *clip, sg_output_file *file, int index, const uint8_t *rgb,
                             sg_error *e)
{
    video *const   v = context;
    AVFrame *const f = v->frame;
    const int      av = av_frame_make_writable(f);
    (void)clip, (void)file;
    if (av < 0) return fail(v, e, SG_E_MEMORY, "no memory for a frame", av);
    sws_scale(v->convert, (const uint8_t *const[]){rgb}, (const int[]){f->width * 3}, 0, f->height, f->data,
              f->linesize);
    f->pts = index;
    return encode(v, f, e);
}

static sg_status video_finish(void *context, sg_error *e)
{
    video *const v = context;
    SG_TRY(encode(v, NULL, e));
    int av = av_write_trailer(v->format);
    if (av >= 0) av = v->format->pb->error;
    const int closed = avio_closep(&v->format->pb);
    if (av >= 0) av = closed;
    return av < 0 ? not_written(v, e, av) : SG_OK;
}

static void video_close(void *context)
{
    video *const v = context;
    sws_freeContext(v->convert);
    av_packet_free(&v->packet);
    av_frame_free(&v->frame);
    sg_video_encoder_close(&v->codec, v->fed);
    if (v->format) avio_closep(&v->format->pb);
    avformat_free_context(v->format);
}

/* Of an MP4 or a Matroska. */
static sg_status video_read(const char *path, const sg_map *file, char **out, sg_error *e)
{
    const bool       mkv = memcmp(file->data, sg_writer_mkv.magic, 4) == 0;
    AVFormatContext *in = NULL;
    char *const      url = url_of(path);
    if (!url) return sg_error_memory(e, path);
    av_log_set_level(AV_LOG_QUIET);
    const int av = avformat_open_input(&in, url, av_find_input_format(mkv ? "matroska" : "mp4"), NULL);
    free(url);
    if (av < 0) return sg_error_set(e, SG_E_FORMAT, "%s: broken %s", path, mkv ? "MKV" : "MP4");
    const AVDictionaryEntry *const entry = av_dict_get(in->metadata, SETTINGS_KEY, NULL, 0);
    const bool                     found = entry != NULL;
    if (found) *out = strdup(entry->value);
    avformat_close_input(&in);
    return found && !*out ? sg_error_memory(e, path) : SG_OK;
}

const char *sg_writer_ffmpeg(void) { return av_version_info(); }

/* What all of them have. */
#define VIDEO .state_size = sizeof(video), .write = video_write, .close = video_close

/* ---- MP4 ---- */

static sg_status mp4_check(const sg_clip *clip, sg_error *e)
{
    if (clip->width % 2 || clip->height % 2)
        return sg_error_set(e, SG_E_ARG, "path: %s: MP4 needs even sizes, not %dx%d; .mkv, .y4m and .png do without",
                            clip->path, clip->width, clip->height);
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    if (!codec)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "MP4: this FFmpeg has no encoder of H.264 or AV1 that opens%s; use .mkv, .y4m or .png",
                            clip->width ? " at this size" : "");
    if (clip->has_crf && !sg_mp4_encoder_has_crf(codec))
        return sg_error_set(e, SG_E_UNSUPPORTED, "crf: this FFmpeg's encoder of MP4, %s, has no such thing",
                            codec->name);
    return SG_OK;
}

static size_t mp4_bytes(const sg_clip *clip)
{
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    return codec ? sg_mp4_encoder_bytes(codec, clip) : 0;
}

static const char *mp4_encoder(const sg_clip *clip, const char **what)
{
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    *what = codec && codec->id == AV_CODEC_ID_H264 ? "H.264" : "AV1";
    return codec ? codec->name : NULL;
}

static sg_status mp4_open(void *context, const sg_clip *clip, sg_output_file *file, sg_error *e)
{
    video *const         v = context;
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    SG_TRY(open_container(v, &sg_writer_mp4, clip, file, e));
    const int av = codec ? sg_mp4_encoder_open(&v->codec, codec, clip) : AVERROR_ENCODER_NOT_FOUND;
    if (av < 0) return refused(v, codec ? codec->name : "of MP4", av, e);
    return begin(v, "movflags", "+faststart+write_colr", e);
}

const sg_writer_type sg_writer_mp4 = {
    VIDEO,
    .name = "MP4",
    .endings = ".mp4 .m4v",
    .format = "mp4",
    .has_crf = true,
    .bytes = mp4_bytes,
    .check = mp4_check,
    .encoder = mp4_encoder,
    .open = mp4_open,
    .finish = video_finish,
    .magic = "ftyp",
    .magic_at = 4,
    .read = video_read,
};

/* ---- Matroska ---- */

static sg_status check_encoder(const char *container, const char *encoder, const char *instead, sg_error *e)
{
    if (avcodec_find_encoder_by_name(encoder)) return SG_OK;
    return sg_error_set(e, SG_E_UNSUPPORTED, "%s: this FFmpeg has no %s encoder; use %s", container, encoder, instead);
}

static sg_status mkv_check(const sg_clip *clip, sg_error *e)
{
    (void)clip;
    return check_encoder("MKV", "ffv1", ".png, which loses nothing either", e);
}

static sg_status mkv_open(void *context, const sg_clip *clip, sg_output_file *file, sg_error *e)
{
    video *const v = context;
    SG_TRY(open_container(v, &sg_writer_mkv, clip, file, e));
    v->format->flags |= AVFMT_FLAG_BITEXACT; /* no random numbers, which Matroska would have as names of its parts */
    SG_TRY(open_rgb(v, "ffv1", AV_PIX_FMT_BGR0, e));
    v->codec->level = 3; /* the version of RFC 9043 */
    v->codec->gop_size = 1;
    v->codec->slices = 4; /* one a thread */
    av_opt_set_int(v->codec->priv_data, "slicecrc", 1, 0);
    return begin(v, NULL, NULL, e);
}

const sg_writer_type sg_writer_mkv = {
    VIDEO,
    .name = "MKV",
    .endings = ".mkv",
    .format = "matroska",
    /* The encoder's tables and room for the largest packets, and the part of the file that Matroska keeps back.
     * Measured from 64x64 to 832x480, within 6 MiB. */
    .code = 5 << 20,
    .pixel = 150,
    .check = mkv_check,
    .open = mkv_open,
    .finish = video_finish,
    .magic = "\x1a\x45\xdf\xa3",
    .read = video_read,
};

/* ---- WebP ---- */

/* libwebp_anim is not it: what it keeps of the frame before shows seams, 35 dB where whole frames have 41. FFmpeg
 * keeps no settings in a WebP: they are a chunk at its end, which others leave alone (RFC 9649, section 2.7.1.6). */
#define WEBP_ENCODER "libwebp"
#define SETTINGS_CHUNK "sgen"
enum { QUALITY = 90, RIFF_HEAD = 12, CHUNK_HEAD = 8, MAX_SETTINGS = 16 << 20 };

static sg_status webp_check(const sg_clip *clip, sg_error *e)
{
    (void)clip;
    return check_encoder("WebP", WEBP_ENCODER, ".mkv, .y4m or .png", e);
}

static sg_status webp_open(void *context, const sg_clip *clip, sg_output_file *file, sg_error *e)
{
    video *const v = context;
    SG_TRY(open_container(v, &sg_writer_webp, clip, file, e));
    SG_TRY(open_rgb(v, WEBP_ENCODER, AV_PIX_FMT_BGRA, e));
    av_opt_set_double(v->codec->priv_data, "quality", QUALITY, 0);
    return begin(v, "loop", "0", e); /* without end */
}

static void put_u32(uint8_t *out, uint32_t n)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(n >> 8 * i);
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
    const video *const v = context;
    SG_TRY(video_finish(context, e));
    if (!v->clip->settings) return SG_OK;
    FILE *const f = fopen(sg_output_file_name_now(v->file), "r+b");
    bool        done = f && append(f, v->clip->settings);
    int         cause = errno;
    if (f && fclose(f) != 0 && done) done = false, cause = errno;
    return done ? SG_OK : sg_error_set(e, SG_E_FILE, "%s: cannot be written: %s", v->clip->path, strerror(cause));
}

static sg_status webp_read(const char *path, const sg_map *file, char **out, sg_error *e)
{
    for (size_t at = RIFF_HEAD, n; at < file->size; at += n + n % 2) {
        const uint8_t *const head = file->data + at;
        at += CHUNK_HEAD;
        n = at <= file->size ? (size_t)sg_little_endian(head + 4, 4) : 0;
        if (at > file->size || n > file->size - at)
            return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: it ends within a chunk", path);
        if (memcmp(head, SETTINGS_CHUNK, 4) != 0) continue;
        if (n > MAX_SETTINGS) return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: settings of %zu bytes", path, n);
        if (memchr(head + CHUNK_HEAD, '\0', n))
            return sg_error_set(e, SG_E_FORMAT, "%s: broken WebP: its settings are no text", path);
        *out = strndup((const char *)head + CHUNK_HEAD, n);
        return *out ? SG_OK : sg_error_memory(e, path);
    }
    return SG_OK;
}

const sg_writer_type sg_writer_webp = {
    VIDEO,           .name = "WebP",      .endings = ".webp", .format = "webp",      .max_side = 16383,
    .code = 5 << 20, /* libwebp's, and its pictures and tables, at most */
    .pixel = 22,     .check = webp_check, .open = webp_open,  .finish = webp_finish, .magic = "WEBP",
    .magic_at = 8,   .read = webp_read,
};
