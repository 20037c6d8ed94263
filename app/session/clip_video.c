/* clip_video.c - frames out of videos by FFmpeg's libraries, see clip_reader.h. Nothing but the file itself is opened,
 * and only by a few well-worn readers and decoders. */
#include "base/text.h"
#include "clip_reader.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avstring.h>
#include <libavutil/parseutils.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINERS "mov,matroska,avi,yuv4mpegpipe"
#define DECODERS "h264,libopenh264,hevc,vp8,vp9,libdav1d,libaom-av1,mpeg4,mjpeg,ffv1,prores,png,rawvideo"

typedef struct state {
    const char        *path;
    AVFormatContext   *format;
    AVStream          *stream;
    AVCodecContext    *codec;
    struct SwsContext *convert;
    AVFrame           *decoded, *rgb;
    AVPacket          *packet;
    sg_image_rotation  rotation;
    bool               drained;
    int                packets, frames; /* so far */
    int64_t            end, last;       /* of the packets so far, and how long the last lasts: in the stream's unit */
    int64_t            behind;          /* the packets so far, in the file */
    int64_t           first, now; /* timestamps of the frames: the first, the last that came; AV_NOPTS_VALUE: unknown */
    int               pixels;     /* these three of the first frame */
    enum AVColorSpace space;
    enum AVColorRange range;
    sg_image          image;
} state;

static sg_status fail(const state *s, sg_error *e, const char *what, int av)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    if (av == AVERROR(ENOMEM)) return sg_error_set(e, SG_E_MEMORY, "%s: %s: out of memory", s->path, what);
    av_strerror(av, text, sizeof text);
    return sg_error_set(e, SG_E_FORMAT, "%s: %s: %s", s->path, what, text);
}

static sg_status damaged(const state *s, sg_error *e, int av)
{
    char what[64];
    snprintf(what, sizeof what, "damaged video after %d frame%s", s->frames, sg_plural(s->frames));
    return fail(s, e, what, av);
}

/* What avformat and avcodec may do with the file. */
static void limit(AVDictionary **options)
{
    av_dict_set_int(options, "max_pixels", SG_IMAGE_MAX_PIXELS, 0);
    av_dict_parse_string(options, "threads=1:err_detect=crccheck+bitstream+buffer+explode", "=", ":", 0);
    av_dict_set(options, "codec_whitelist", DECODERS, 0);
}

static sg_status open_container(state *s, sg_error *e)
{
    AVDictionary *options = NULL;
    char         *url = NULL;
    if (asprintf(&url, "file:%s", s->path) < 0) return fail(s, e, "a frame", AVERROR(ENOMEM));
    av_dict_set(&options, "protocol_whitelist", "file", 0);
    av_dict_set(&options, "format_whitelist", CONTAINERS, 0);
    av_dict_set(&options, "codec_whitelist", DECODERS, 0);
    const int av = avformat_open_input(&s->format, url, NULL, &options);
    av_dict_free(&options);
    free(url);
    if (av < 0) return fail(s, e, "is no picture, and not an MP4, MOV, MKV, WebM, AVI or Y4M that can be read", av);
    return SG_OK;
}

/* Looks into the streams, which decodes a little of them, and picks the best. */
static sg_status probe(state *s, sg_error *e)
{
    const unsigned count = s->format->nb_streams;
    AVDictionary **option = calloc((size_t)count + 1, sizeof *option);
    if (!option) return fail(s, e, "a frame", AVERROR(ENOMEM));
    for (unsigned i = 0; i < count; i++) {
        limit(&option[i]);
        if (s->format->streams[i]->codecpar->codec_type != AVMEDIA_TYPE_VIDEO)
            s->format->streams[i]->discard = AVDISCARD_ALL;
    }
    const int av = avformat_find_stream_info(s->format, option);
    for (unsigned i = 0; i < count; i++) av_dict_free(&option[i]);
    free(option);
    if (av < 0) return fail(s, e, "damaged video", av);
    const int best = av_find_best_stream(s->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    if (best < 0) return sg_error_set(e, SG_E_FORMAT, "%s: holds no video", s->path);
    for (unsigned i = 0; i < count; i++)
        if ((int)i != best) s->format->streams[i]->discard = AVDISCARD_ALL;
    s->stream = s->format->streams[best];
    return SG_OK;
}

/* FFmpeg 6.1 moved it to the codec's parameters, and warns of the old place. */
static const int32_t *display_matrix(const AVStream *stream)
{
#if LIBAVFORMAT_VERSION_INT >= AV_VERSION_INT(60, 15, 100)
    const AVPacketSideData *const d = av_packet_side_data_get(
        stream->codecpar->coded_side_data, stream->codecpar->nb_coded_side_data, AV_PKT_DATA_DISPLAYMATRIX);
    return d && d->size >= 9 * sizeof(int32_t) ? (const int32_t *)d->data : NULL;
#else
    size_t               size = 0;
    const uint8_t *const d = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
    return d && size >= 9 * sizeof(int32_t) ? (const int32_t *)(const void *)d : NULL;
#endif
}

/* The matrix takes pixel (p, q) to (a p + c q, b p + d q), and what is left of the picture or above back into it. */
static sg_status find_rotation(state *s, sg_error *e)
{
    const int32_t *const m = display_matrix(s->stream);
    if (!m) return SG_OK;
    const int32_t a = m[0], b = m[1], c = m[3], d = m[4];
    if (a && d && !b && !c)
        s->rotation = (sg_image_rotation){false, a < 0, d < 0};
    else if (b && c && !a && !d)
        s->rotation = (sg_image_rotation){true, c < 0, b < 0};
    else
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: is rotated by other than quarters, which is not read", s->path);
    return SG_OK;
}

static sg_status open_codec(state *s, sg_error *e)
{
    const AVCodecParameters *const p = s->stream->codecpar;
    const AVCodec *const           decoder = avcodec_find_decoder(p->codec_id);
    AVDictionary                  *options = NULL;
    if (!decoder || !av_match_name(decoder->name, DECODERS))
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: is coded as %s, which is not read", s->path,
                            avcodec_get_name(p->codec_id));
    if (p->width > SG_IMAGE_MAX_SIDE || p->height > SG_IMAGE_MAX_SIDE ||
        (int64_t)p->width * p->height > SG_IMAGE_MAX_PIXELS)
        return sg_error_set(e, SG_E_FORMAT, "%s: is %dx%d pixels; at most %d a side and %d in all are read", s->path,
                            p->width, p->height, SG_IMAGE_MAX_SIDE, SG_IMAGE_MAX_PIXELS);
    s->codec = avcodec_alloc_context3(decoder);
    s->decoded = av_frame_alloc();
    s->rgb = av_frame_alloc();
    s->packet = av_packet_alloc();
    if (!s->codec || !s->decoded || !s->rgb || !s->packet) return fail(s, e, "a frame", AVERROR(ENOMEM));
    int av = avcodec_parameters_to_context(s->codec, p);
    if (av < 0) return fail(s, e, "damaged video", av);
    limit(&options);
    av = avcodec_open2(s->codec, decoder, &options);
    av_dict_free(&options);
    return av < 0 ? fail(s, e, "its decoder refuses", av) : SG_OK;
}

static sg_status video_open(void *context, const char *path, sg_error *e)
{
    state *const s = context;
    s->path = path;
    av_log_set_level(AV_LOG_QUIET);
    SG_TRY(open_container(s, e));
    SG_TRY(probe(s, e));
    SG_TRY(find_rotation(s, e));
    return open_codec(s, e);
}

/* libswscale's number for a matrix, or -1. */
static int matrix_of(enum AVColorSpace space)
{
    switch (space) {
    case AVCOL_SPC_BT709: return SWS_CS_ITU709;
    case AVCOL_SPC_RGB:
    case AVCOL_SPC_UNSPECIFIED:
    case AVCOL_SPC_BT470BG:
    case AVCOL_SPC_SMPTE170M: return SWS_CS_ITU601;
    case AVCOL_SPC_FCC: return SWS_CS_FCC;
    case AVCOL_SPC_SMPTE240M: return SWS_CS_SMPTE240M;
    case AVCOL_SPC_BT2020_NCL: return SWS_CS_BT2020;
    default: return -1;
    }
}

/* By what the first frame is. */
static sg_status open_converter(state *s, sg_error *e)
{
    const AVFrame *const f = s->decoded;
    const int            matrix = matrix_of(f->colorspace), w = f->width, h = f->height;
    const char *const    space = av_color_space_name(f->colorspace);
    if (matrix < 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: its colour matrix, %s, is not read", s->path,
                            space ? space : "unknown");
    const enum AVPixelFormat from = (enum AVPixelFormat)f->format;
    s->convert =
        sws_getContext(w, h, from, w, h, AV_PIX_FMT_RGB24,
                       SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    const char *const name = av_get_pix_fmt_name(from);
    if (!s->convert)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: its pixels, %s, do not become RGB", s->path,
                            name ? name : "unknown");
    int *inverse, *table, full, to_full, brightness, contrast,
        saturation; /* full: libswscale knows it of some formats */
    if (sws_getColorspaceDetails(s->convert, &inverse, &full, &table, &to_full, &brightness, &contrast, &saturation) >=
        0)
        (void)sws_setColorspaceDetails(s->convert, sws_getCoefficients(matrix),
                                       full || f->color_range == AVCOL_RANGE_JPEG, table, to_full, brightness, contrast,
                                       saturation);
    s->pixels = f->format;
    s->space = f->colorspace;
    s->range = f->color_range;
    s->rgb->format = AV_PIX_FMT_RGB24;
    s->rgb->width = w;
    s->rgb->height = h;
    const int av = av_frame_get_buffer(s->rgb, 0);
    if (av < 0) return fail(s, e, "no frame", av);
    const size_t width = (size_t)(s->rotation.exchange ? h : w), height = (size_t)(s->rotation.exchange ? w : h);
    return sg_error_in(e, sg_image_alloc(&s->image, width, height, e), s->path);
}

static sg_status take_frame(state *s, sg_error *e)
{
    const AVFrame *const f = s->decoded;
    if ((f->flags & AV_FRAME_FLAG_CORRUPT) || f->decode_error_flags) return damaged(s, e, AVERROR_INVALIDDATA);
    if (!s->convert) SG_TRY(open_converter(s, e));
    const AVFrame *const r = s->rgb;
    if (f->width != r->width || f->height != r->height)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: frame %d is %dx%d pixels, and those before %dx%d", s->path,
                            s->frames, f->width, f->height, r->width, r->height);
    if (f->format != s->pixels || f->colorspace != s->space || f->color_range != s->range)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: the format of its pixels changes at frame %d", s->path,
                            s->frames);
    if (sws_scale(s->convert, (const uint8_t *const *)f->data, f->linesize, 0, f->height, r->data, r->linesize) < 0)
        return sg_error_set(e, SG_E_UNSUPPORTED, "%s: frame %d does not become RGB", s->path, s->frames);
    sg_image_copy_rotated(&s->image, r->data[0], r->linesize[0], s->rotation);
    s->now = f->best_effort_timestamp;
    if (!s->frames) s->first = s->now;
    s->frames++;
    return SG_OK;
}

/* Where the container says how long its video is, as Matroska does, frames until then must have come. FFmpeg drops the
 * part of a frame at the end of a Y4M. */
static bool ends_early(const state *s)
{
    if (s->packets && strcmp(s->format->iformat->name, "yuv4mpegpipe") == 0)
        return s->behind != avio_size(s->format->pb);
    const AVDictionaryEntry *const said = av_dict_get(s->stream->metadata, "DURATION", NULL, 0);
    int64_t                        duration;
    if (!said || s->last <= 0 || av_parse_time(&duration, said->value, 1) < 0) return false;
    return 2 * s->end + s->last < 2 * av_rescale_q(duration, AV_TIME_BASE_Q, s->stream->time_base);
}

/* Hands the decoder the next packet of the stream, or the end. */
static sg_status feed(state *s, sg_error *e)
{
    int av;
    do {
        av_packet_unref(s->packet);
        av = av_read_frame(s->format, s->packet);
    } while (av >= 0 && s->packet->stream_index != s->stream->index);
    if (av == AVERROR_EOF) {
        /* Where the container lists its frames, all of them must have come. */
        if (s->packets < avformat_index_get_entries_count(s->stream))
            return sg_error_set(e, SG_E_FORMAT, "%s: the file ends after %d of %d frames", s->path, s->packets,
                                avformat_index_get_entries_count(s->stream));
        if (ends_early(s))
            return sg_error_set(e, SG_E_FORMAT, "%s: the file ends after %d frame%s, before its video does", s->path,
                                s->packets, sg_plural(s->packets));
        s->drained = true;
        av = avcodec_send_packet(s->codec, NULL);
        return av < 0 ? damaged(s, e, av) : SG_OK;
    }
    if (av >= 0 && (s->packet->flags & AV_PKT_FLAG_CORRUPT)) av = AVERROR_INVALIDDATA;
    const AVPacket *const p = s->packet;
    s->last = p->duration;
    s->behind = p->pos + p->size;
    if (p->pts != AV_NOPTS_VALUE && p->pts + p->duration > s->end) s->end = p->pts + p->duration;
    if (av >= 0) av = avcodec_send_packet(s->codec, s->packet);
    s->packets++;
    return av < 0 ? damaged(s, e, av) : SG_OK;
}

static sg_clip_loss loss_of(const state *s)
{
    const AVCodecDescriptor *const codec = avcodec_descriptor_get(s->codec->codec_id);
    const AVPixFmtDescriptor      *pixels = av_pix_fmt_desc_get((enum AVPixelFormat)s->pixels);
    if (!codec || !(codec->props & AV_CODEC_PROP_LOSSLESS) || (codec->props & AV_CODEC_PROP_LOSSY))
        return SG_CLIP_COMPRESSED;
    return pixels && (pixels->flags & AV_PIX_FMT_FLAG_RGB) ? SG_CLIP_STORED : SG_CLIP_CONVERTED;
}

static double time_of(const state *s)
{
    const AVRational rate = s->stream->avg_frame_rate;
    if (s->first != AV_NOPTS_VALUE && s->now != AV_NOPTS_VALUE)
        return ((double)s->now - (double)s->first) * av_q2d(s->stream->time_base);
    return rate.num > 0 && rate.den > 0 ? (s->frames - 1) / av_q2d(rate) : -1;
}

static sg_status video_next(void *context, sg_clip_frame *frame, sg_error *e)
{
    state *const s = context;
    int          av;
    while ((av = avcodec_receive_frame(s->codec, s->decoded)) == AVERROR(EAGAIN) && !s->drained) SG_TRY(feed(s, e));
    if (av == AVERROR_EOF && s->frames) return SG_OK;
    if (av == AVERROR_EOF) return sg_error_set(e, SG_E_FORMAT, "%s: holds no frame", s->path);
    if (av < 0) return damaged(s, e, av);
    SG_TRY(take_frame(s, e));
    *frame = (sg_clip_frame){&s->image, time_of(s), loss_of(s)};
    return SG_OK;
}

static void video_close(void *context)
{
    state *const s = context;
    sg_image_close(&s->image);
    av_packet_free(&s->packet);
    av_frame_free(&s->rgb);
    av_frame_free(&s->decoded);
    sws_freeContext(s->convert);
    avcodec_free_context(&s->codec);
    avformat_close_input(&s->format);
}

const sg_clip_type sg_clip_video = {
    .state_size = sizeof(state), .open = video_open, .next = video_next, .close = video_close};
