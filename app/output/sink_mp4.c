/* sink_mp4.c - MP4 with H.264, or with AV1 where no encoder of H.264 opens, by FFmpeg's libraries: yuv420p, BT.709 in limited range and tagged so, the index in
 * front. */
#include "mp4_encoder.h"
#include "sink_video.h"

#include <libswscale/swscale.h>

#include <stdio.h>
#include <string.h>

typedef struct state {
    sg_video           video;
    struct SwsContext *convert;
} state;

static sg_status mp4_check(const sg_clip *clip, sg_error *e)
{
    if (clip->width % 2 || clip->height % 2)
        return sg_error_set(e, SG_E_ARG,
                            "--output: %s: MP4 needs even sizes, not %dx%d; .mkv, .y4m and .png do without", clip->path,
                            clip->width, clip->height);
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    if (!codec)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "MP4: this FFmpeg has no encoder of H.264 or AV1 that opens%s; use .mkv, .y4m or .png",
                            clip->width ? " at this size" : "");
    if (clip->has_crf && !sg_mp4_encoder_has_crf(codec))
        return sg_error_set(e, SG_E_UNSUPPORTED, "--crf: this FFmpeg's encoder of MP4, %s, has no such thing",
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

static sg_status open_codec(sg_video *v, const sg_clip *clip, sg_error *e)
{
    const AVCodec *const codec = sg_mp4_encoder_find(clip);
    const int            av = codec ? sg_mp4_encoder_open(&v->codec, codec, clip) : AVERROR_ENCODER_NOT_FOUND;
    char                 what[64];
    if (av >= 0) return SG_OK;
    snprintf(what, sizeof what, "the encoder %s refuses", codec ? codec->name : "of MP4");
    return sg_video_fail(v, e, SG_E_UNSUPPORTED, what, av);
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
    return SG_OK;
}

static sg_status mp4_open(void *context, const sg_clip *clip, sg_error *e)
{
    state *const    s = context;
    sg_video *const v = &s->video;
    AVDictionary   *options = NULL;
    SG_TRY(sg_video_open(v, clip, "mp4", "MP4", e));
    SG_TRY(open_codec(v, clip, e));
    SG_TRY(open_converter(s, clip, e));
    av_dict_set(&options, "movflags", "+faststart+write_colr", 0);
    return sg_video_begin(v, clip, options, e);
}

static sg_status mp4_write(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    state *const   s = context;
    AVFrame *const f = s->video.frame;
    SG_TRY(sg_video_frame(&s->video, e));
    sws_scale(s->convert, (const uint8_t *const[]){rgb}, (const int[]){f->width * 3}, 0, f->height, f->data,
              f->linesize);
    return sg_video_encode(&s->video, index, e);
}

static void mp4_close(void *context)
{
    state *const s = context;
    sws_freeContext(s->convert);
    sg_video_close(&s->video);
}

static bool mp4_claims(const uint8_t *head, size_t bytes) { return bytes >= 8 && memcmp(head + 4, "ftyp", 4) == 0; }

static sg_status mp4_read(const char *path, char **out, sg_error *e)
{
    return sg_video_read(path, "mp4", "MP4", out, e);
}

const sg_sink_type sg_sink_mp4 = {
    .name = "MP4",
    .endings = ".mp4 .m4v",
    .has_crf = true,
    .state_size = sizeof(state),
    .bytes = mp4_bytes,
    .check = mp4_check,
    .encoder = mp4_encoder,
    .open = mp4_open,
    .write = mp4_write,
    .finish = sg_video_finish,
    .publish = sg_video_publish,
    .close = mp4_close,
    .claims = mp4_claims,
    .read = mp4_read,
};
