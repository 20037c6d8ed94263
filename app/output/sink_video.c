/* sink_video.c - see sink_video.h. */
#include "sink_video.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_KEY "comment"
/* The same file comes out on every machine, whatever its number of cores: encoders split their work by this. */
enum { ENCODER_THREADS = 4 };

sg_status sg_video_fail(const sg_video *v, sg_error *e, sg_status code, const char *what, int av)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(av, text, sizeof text);
    return sg_error_set(e, code, "%s: %s: %s", v->path, what, text);
}

static sg_status not_written(const sg_video *v, sg_error *e, int av)
{
    return sg_video_fail(v, e, SG_E_FILE, "cannot be written", av);
}

/* A name that is not taken for a protocol; the caller frees. */
static char *url_of(const char *name)
{
    const size_t size = strlen(name) + sizeof "file:";
    char *const  url = malloc(size);
    if (url) snprintf(url, size, "file:%s", name);
    return url;
}

sg_status sg_video_open(sg_video *v, const sg_clip *clip, const char *format, const char *name, sg_error *e)
{
    v->path = clip->path;
    av_log_set_level(AV_LOG_QUIET);
    SG_TRY(sg_output_file_open(&v->file, clip->path, e));
    const char *const now = sg_output_file_name_now(v->file);
    if (!now)
        return sg_error_set(e, SG_E_ARG, "--output: %s: %s needs a file that can be rewound; .y4m does not", clip->path,
                            name);
    char *const url = url_of(now);
    if (!url) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    const int av = avformat_alloc_output_context2(&v->format, NULL, format, url);
    free(url);
    if (av >= 0) return SG_OK;
    char what[64];
    snprintf(what, sizeof what, "this FFmpeg writes no %s", name);
    return sg_video_fail(v, e, SG_E_UNSUPPORTED, what, av);
}

AVCodecContext *sg_video_context(const AVCodec *codec, const sg_clip *clip, enum AVPixelFormat pixels)
{
    AVCodecContext *const c = avcodec_alloc_context3(codec);
    if (!c) return NULL;
    c->width = clip->width;
    c->height = clip->height;
    c->pix_fmt = pixels;
    c->time_base = (AVRational){1, clip->fps};
    c->framerate = (AVRational){clip->fps, 1};
    c->sample_aspect_ratio = (AVRational){1, 1};
    c->color_primaries = AVCOL_PRI_BT709;
    c->thread_count = ENCODER_THREADS;
    return c;
}

sg_status sg_video_codec(sg_video *v, const sg_clip *clip, const AVCodec *codec, enum AVPixelFormat pixels, sg_error *e)
{
    v->codec = sg_video_context(codec, clip, pixels);
    if (!v->codec) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    if (v->format->oformat->flags & AVFMT_GLOBALHEADER) v->codec->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    return SG_OK;
}

int sg_video_feed_blank(AVCodecContext *c)
{
    AVFrame *f = av_frame_alloc();
    if (!f) return AVERROR(ENOMEM);
    f->format = c->pix_fmt;
    f->width = c->width;
    f->height = c->height;
    f->pts = 0;
    int av = av_frame_get_buffer(f, 0);
    for (int i = 0; av >= 0 && i < AV_NUM_DATA_POINTERS && f->buf[i]; i++) memset(f->buf[i]->data, 0, f->buf[i]->size);
    if (av >= 0) av = avcodec_send_frame(c, f);
    av_frame_free(&f);
    return av;
}

void sg_video_encoder_close(AVCodecContext **c, bool fed)
{
    if (*c && !fed && avcodec_is_open(*c)) (void)sg_video_feed_blank(*c);
    avcodec_free_context(c);
}

static sg_status open_frame(sg_video *v, sg_error *e)
{
    const AVCodecContext *const c = v->codec;
    v->frame = av_frame_alloc();
    v->packet = av_packet_alloc();
    if (!v->frame || !v->packet) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", v->path);
    v->frame->format = c->pix_fmt;
    v->frame->width = c->width;
    v->frame->height = c->height;
    v->frame->color_primaries = c->color_primaries;
    v->frame->color_trc = c->color_trc;
    v->frame->colorspace = c->colorspace;
    v->frame->color_range = c->color_range;
    const int av = av_frame_get_buffer(v->frame, 0);
    return av < 0 ? sg_video_fail(v, e, SG_E_MEMORY, "no memory for a frame", av) : SG_OK;
}

static sg_status open_stream(sg_video *v, const sg_clip *clip, sg_error *e)
{
    AVDictionary **const metadata = &v->format->metadata;
    v->stream = avformat_new_stream(v->format, NULL);
    if (!v->stream) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", clip->path);
    v->stream->time_base = v->codec->time_base;
    v->stream->avg_frame_rate = v->codec->framerate;
    int av = avcodec_parameters_from_context(v->stream->codecpar, v->codec);
    if (av >= 0 && clip->settings) av = av_dict_set(metadata, SETTINGS_KEY, clip->settings, 0);
    if (av >= 0) av = av_dict_set(metadata, "encoder", "sparge-gen " SG_VERSION, 0);
    if (av >= 0) av = av_dict_set(&v->stream->metadata, "encoder", v->codec->codec->name, 0);
    if (av >= 0) av = avio_open(&v->format->pb, v->format->url, AVIO_FLAG_WRITE);
    return av < 0 ? not_written(v, e, av) : SG_OK;
}

static sg_status open_codec(sg_video *v, sg_error *e)
{
    const int av = avcodec_is_open(v->codec) ? 0 : avcodec_open2(v->codec, v->codec->codec, NULL);
    char      what[64];
    if (av >= 0) return SG_OK;
    snprintf(what, sizeof what, "the encoder %s refuses", v->codec->codec->name);
    return sg_video_fail(v, e, SG_E_UNSUPPORTED, what, av);
}

const char *sg_sink_ffmpeg(void) { return av_version_info(); }

void sg_video_srgb(sg_video *v)
{
    v->codec->color_trc = AVCOL_TRC_IEC61966_2_1;
    v->codec->colorspace = AVCOL_SPC_RGB;
    v->codec->color_range = AVCOL_RANGE_JPEG;
}

sg_status sg_video_begin(sg_video *v, const sg_clip *clip, AVDictionary *options, sg_error *e)
{
    sg_status status = open_codec(v, e);
    if (status == SG_OK) status = open_frame(v, e);
    if (status == SG_OK) status = open_stream(v, clip, e);
    const int av = status == SG_OK ? avformat_write_header(v->format, &options) : 0;
    av_dict_free(&options);
    return av < 0 ? not_written(v, e, av) : status;
}

sg_status sg_video_frame(sg_video *v, sg_error *e)
{
    const int av = av_frame_make_writable(v->frame);
    return av < 0 ? sg_video_fail(v, e, SG_E_MEMORY, "no memory for a frame", av) : SG_OK;
}

/* Hands frame (NULL: no more) to the encoder and what it gives back to the file. */
static sg_status encode(sg_video *v, const AVFrame *frame, sg_error *e)
{
    int av = avcodec_send_frame(v->codec, frame);
    v->fed = true;
    if (av < 0) return sg_video_fail(v, e, SG_E_DEVICE, "encoding failed", av);
    while ((av = avcodec_receive_packet(v->codec, v->packet)) >= 0) {
        av_packet_rescale_ts(v->packet, v->codec->time_base, v->stream->time_base);
        v->packet->stream_index = v->stream->index;
        av = av_interleaved_write_frame(v->format, v->packet);
        if (av >= 0) av = v->format->pb->error;
        if (av < 0) return not_written(v, e, av);
    }
    if (av == AVERROR(EAGAIN) || av == AVERROR_EOF) return SG_OK;
    return sg_video_fail(v, e, SG_E_DEVICE, "encoding failed", av);
}

sg_status sg_video_encode(sg_video *v, int index, sg_error *e)
{
    v->frame->pts = index;
    return encode(v, v->frame, e);
}

sg_status sg_video_write_bgr(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    sg_video *const v = context;
    AVFrame *const  f = v->frame;
    SG_TRY(sg_video_frame(v, e));
    for (int y = 0; y < f->height; y++) {
        uint8_t *const out = f->data[0] + (ptrdiff_t)y * f->linesize[0];
        for (size_t x = 0; x < (size_t)f->width; x++, rgb += 3) {
            out[4 * x] = rgb[2];
            out[4 * x + 1] = rgb[1];
            out[4 * x + 2] = rgb[0];
            out[4 * x + 3] = 255;
        }
    }
    return sg_video_encode(v, index, e);
}

sg_status sg_video_end(sg_video *v, sg_error *e)
{
    SG_TRY(encode(v, NULL, e));
    int av = av_write_trailer(v->format);
    if (av >= 0) av = v->format->pb->error;
    const int closed = avio_closep(&v->format->pb);
    if (av >= 0) av = closed;
    return av < 0 ? not_written(v, e, av) : SG_OK;
}

sg_status sg_video_finish(void *context, sg_error *e)
{
    sg_video *const v = context;
    SG_TRY(sg_video_end(v, e));
    return sg_output_file_complete(v->file, e);
}

sg_status sg_video_publish(void *context, sg_error *e)
{
    sg_video *const v = context;
    return sg_output_file_publish(&v->file, e);
}

void sg_video_close(void *context)
{
    sg_video *const v = context;
    av_packet_free(&v->packet);
    av_frame_free(&v->frame);
    sg_video_encoder_close(&v->codec, v->fed);
    if (v->format) avio_closep(&v->format->pb);
    avformat_free_context(v->format);
    sg_output_file_discard(&v->file);
}

sg_status sg_video_read(const char *path, const char *format, const char *name, char **out, sg_error *e)
{
    *out = NULL;
    av_log_set_level(AV_LOG_QUIET);
    char *const url = url_of(path);
    if (!url) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    AVFormatContext *in = NULL;
    const int        av = avformat_open_input(&in, url, av_find_input_format(format), NULL);
    free(url);
    if (av < 0) return sg_error_set(e, SG_E_FORMAT, "%s: broken %s", path, name);
    const AVDictionaryEntry *entry = av_dict_get(in->metadata, SETTINGS_KEY, NULL, 0);
    const bool               found = entry != NULL;
    if (found) *out = strdup(entry->value);
    avformat_close_input(&in);
    return found && !*out ? sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path) : SG_OK;
}
