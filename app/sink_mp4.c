/* sink_mp4.c - MP4 with H.264 by FFmpeg's libraries: yuv420p, BT.709 in limited range and tagged so, the index in
 * front. */
#include "output_file.h"
#include "sink.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_KEY "comment"
/* The same file comes out on every machine, whatever its number of cores: x264 splits its work by this. */
enum { ENCODER_THREADS = 4 };
/* The usual 40 frames would leave most of a short clip to encode when its last frame has been decoded. */
#define LOOKAHEAD "8"

typedef struct state {
    sg_output_file    *file;
    AVFormatContext   *format;
    AVStream          *stream;
    AVCodecContext    *codec;
    struct SwsContext *convert;
    AVFrame           *frame; /* yuv420p */
    AVPacket          *packet;
    const char        *path;
    int                width;
} state;

static sg_status fail(const state *s, sg_error *e, sg_status code, const char *what, int av)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(av, text, sizeof text);
    return sg_error_set(e, code, "%s: %s: %s", s->path, what, text);
}

static sg_status not_written(const state *s, sg_error *e, int av)
{
    return fail(s, e, SG_E_FILE, "cannot be written", av);
}

static sg_status mp4_check(const sg_clip *clip, sg_error *e)
{
    if (clip->width % 2 || clip->height % 2)
        return sg_error_set(e, SG_E_ARG, "--output: %s: MP4 needs even sizes, not %dx%d; .y4m and .png do without",
                            clip->path, clip->width, clip->height);
    return SG_OK;
}

/* x264 looks 8 frames ahead and keeps 8 more for its threads and B frames, and about 11 pictures beside: each of 3.4
 * bytes a pixel, with 32 pixels more on all sides, and some tables. Measured from 64x64 to 832x480, within 6 MiB. */
static size_t mp4_bytes(const sg_clip *clip)
{
    enum { CODE = 7 << 20, AHEAD = 16, BESIDE = 11, MARGIN = 64, TABLES = 1 << 16 };
    const size_t pixels = ((size_t)clip->width + MARGIN) * ((size_t)clip->height + MARGIN);
    const size_t pictures = (size_t)(clip->frames < AHEAD ? clip->frames : AHEAD) + BESIDE;
    return CODE + pictures * (pixels * 34 / 10 + TABLES);
}

static sg_status open_codec(state *s, const sg_clip *clip, sg_error *e)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
    if (!codec) codec = avcodec_find_encoder(AV_CODEC_ID_H264);
    if (!codec) return sg_error_set(e, SG_E_UNSUPPORTED, "MP4: this FFmpeg has no H.264 encoder; use .y4m or .png");
    AVCodecContext *c = s->codec = avcodec_alloc_context3(codec);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    c->width = clip->width;
    c->height = clip->height;
    c->pix_fmt = AV_PIX_FMT_YUV420P;
    c->time_base = (AVRational){1, clip->fps};
    c->framerate = (AVRational){clip->fps, 1};
    c->sample_aspect_ratio = (AVRational){1, 1};
    c->color_primaries = AVCOL_PRI_BT709;
    c->color_trc = AVCOL_TRC_BT709;
    c->colorspace = AVCOL_SPC_BT709;
    c->color_range = AVCOL_RANGE_MPEG;
    c->chroma_sample_location = AVCHROMA_LOC_LEFT;
    c->thread_count = ENCODER_THREADS;
    c->bit_rate = (int64_t)clip->width * clip->height * clip->fps / 4; /* only for encoders that know no crf */
    if (s->format->oformat->flags & AVFMT_GLOBALHEADER) c->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (av_opt_set(c->priv_data, "crf", "17", 0) >= 0) c->bit_rate = 0;
    av_opt_set(c->priv_data, "preset", "medium", 0);
    av_opt_set(c->priv_data, "rc-lookahead", LOOKAHEAD, 0);
    const int av = avcodec_open2(c, codec, NULL);
    return av < 0 ? fail(s, e, SG_E_UNSUPPORTED, "the H.264 encoder refuses", av) : SG_OK;
}

static sg_status open_converter(state *s, const sg_clip *clip, sg_error *e)
{
    s->convert =
        sws_getContext(clip->width, clip->height, AV_PIX_FMT_RGB24, clip->width, clip->height, AV_PIX_FMT_YUV420P,
                       SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    if (!s->convert) return sg_error_set(e, SG_E_UNSUPPORTED, "%s: FFmpeg does not convert RGB to yuv420p", clip->path);
    const int *bt709 = sws_getCoefficients(SWS_CS_ITU709);
    enum { FULL = 1, LIMITED = 0, ONE = 1 << 16 };
    if (sws_setColorspaceDetails(s->convert, bt709, FULL, bt709, LIMITED, 0, ONE, ONE) < 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: libswscale has no BT.709", clip->path);
    s->frame = av_frame_alloc();
    s->packet = av_packet_alloc();
    if (!s->frame || !s->packet) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    s->frame->format = AV_PIX_FMT_YUV420P;
    s->frame->width = clip->width;
    s->frame->height = clip->height;
    s->frame->color_primaries = AVCOL_PRI_BT709;
    s->frame->color_trc = AVCOL_TRC_BT709;
    s->frame->colorspace = AVCOL_SPC_BT709;
    s->frame->color_range = AVCOL_RANGE_MPEG;
    const int av = av_frame_get_buffer(s->frame, 0);
    return av < 0 ? fail(s, e, SG_E_MEMORY, "no memory for a frame", av) : SG_OK;
}

static sg_status open_container(state *s, const sg_clip *clip, sg_error *e)
{
    s->stream = avformat_new_stream(s->format, NULL);
    if (!s->stream) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    s->stream->time_base = s->codec->time_base;
    s->stream->avg_frame_rate = s->codec->framerate;
    int av = avcodec_parameters_from_context(s->stream->codecpar, s->codec);
    if (av >= 0 && clip->settings) av = av_dict_set(&s->format->metadata, SETTINGS_KEY, clip->settings, 0);
    if (av >= 0) av = av_dict_set(&s->format->metadata, "encoder", "sparge-gen " SG_VERSION, 0);
    if (av >= 0) av = avio_open(&s->format->pb, s->format->url, AVIO_FLAG_WRITE);
    if (av < 0) return not_written(s, e, av);
    AVDictionary *options = NULL;
    av_dict_set(&options, "movflags", "+faststart+write_colr", 0);
    av = avformat_write_header(s->format, &options);
    av_dict_free(&options);
    return av < 0 ? not_written(s, e, av) : SG_OK;
}

static sg_status mp4_open(void *context, const sg_clip *clip, sg_error *e)
{
    state *s = context;
    s->path = clip->path;
    s->width = clip->width;
    av_log_set_level(AV_LOG_QUIET);
    SG_TRY(sg_output_file_open(&s->file, clip->path, e));
    const char *name = sg_output_file_name_now(s->file);
    if (!name)
        return sg_error_set(e, SG_E_ARG, "--output: %s: MP4 needs a file that can be rewound; .y4m does not",
                            clip->path);
    /* Moving the index to the front opens the file again by its name, which must not be taken for a protocol. */
    const size_t size = strlen(name) + sizeof "file:";
    char        *url = malloc(size);
    if (!url) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    snprintf(url, size, "file:%s", name);
    const int av = avformat_alloc_output_context2(&s->format, NULL, "mp4", url);
    free(url);
    if (av < 0) return fail(s, e, SG_E_UNSUPPORTED, "this FFmpeg writes no MP4", av);
    SG_TRY(open_codec(s, clip, e));
    SG_TRY(open_converter(s, clip, e));
    return open_container(s, clip, e);
}

/* Hands frame (NULL: no more) to the encoder and what it gives back to the file. */
static sg_status encode(state *s, const AVFrame *frame, sg_error *e)
{
    int av = avcodec_send_frame(s->codec, frame);
    if (av < 0) return fail(s, e, SG_E_DEVICE, "encoding failed", av);
    while ((av = avcodec_receive_packet(s->codec, s->packet)) >= 0) {
        av_packet_rescale_ts(s->packet, s->codec->time_base, s->stream->time_base);
        s->packet->stream_index = s->stream->index;
        av = av_interleaved_write_frame(s->format, s->packet);
        if (av >= 0) av = s->format->pb->error;
        if (av < 0) return not_written(s, e, av);
    }
    return av == AVERROR(EAGAIN) || av == AVERROR_EOF ? SG_OK : fail(s, e, SG_E_DEVICE, "encoding failed", av);
}

static sg_status mp4_write(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    state    *s = context;
    const int av = av_frame_make_writable(s->frame);
    if (av < 0) return fail(s, e, SG_E_MEMORY, "no memory for a frame", av);
    sws_scale(s->convert, (const uint8_t *const[]){rgb}, (const int[]){s->width * 3}, 0, s->frame->height,
              s->frame->data, s->frame->linesize);
    s->frame->pts = index;
    return encode(s, s->frame, e);
}

static sg_status mp4_finish(void *context, sg_error *e)
{
    state *s = context;
    SG_TRY(encode(s, NULL, e));
    int av = av_write_trailer(s->format);
    if (av >= 0) av = s->format->pb->error;
    const int closed = avio_closep(&s->format->pb);
    if (av >= 0) av = closed;
    if (av < 0) return not_written(s, e, av);
    return sg_output_file_complete(s->file, e);
}

static sg_status mp4_publish(void *context, sg_error *e)
{
    state *s = context;
    return sg_output_file_publish(&s->file, e);
}

static void mp4_close(void *context)
{
    state *s = context;
    av_packet_free(&s->packet);
    av_frame_free(&s->frame);
    sws_freeContext(s->convert);
    avcodec_free_context(&s->codec);
    if (s->format) avio_closep(&s->format->pb);
    avformat_free_context(s->format);
    sg_output_file_discard(&s->file);
}

static bool mp4_claims(const uint8_t *head, size_t bytes) { return bytes >= 8 && memcmp(head + 4, "ftyp", 4) == 0; }

static sg_status mp4_read(const char *path, char **out, sg_error *e)
{
    *out = NULL;
    av_log_set_level(AV_LOG_QUIET);
    const size_t size = strlen(path) + sizeof "file:";
    char        *url = malloc(size);
    if (!url) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    snprintf(url, size, "file:%s", path);
    AVFormatContext *format = NULL;
    const int        av = avformat_open_input(&format, url, av_find_input_format("mp4"), NULL);
    free(url);
    if (av < 0) return sg_error_set(e, SG_E_FORMAT, "%s: broken MP4", path);
    const AVDictionaryEntry *entry = av_dict_get(format->metadata, SETTINGS_KEY, NULL, 0);
    const bool               found = entry != NULL;
    if (found) *out = strdup(entry->value);
    avformat_close_input(&format);
    return found && !*out ? sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path) : SG_OK;
}

const sg_sink_type sg_sink_mp4 = {
    .name = "MP4",
    .endings = ".mp4 .m4v",
    .state_size = sizeof(state),
    .bytes = mp4_bytes,
    .check = mp4_check,
    .open = mp4_open,
    .write = mp4_write,
    .finish = mp4_finish,
    .publish = mp4_publish,
    .close = mp4_close,
    .claims = mp4_claims,
    .read = mp4_read,
};
