/* sink_mp4.c - MP4 with H.264 by FFmpeg's libraries: yuv420p, BT.709 in limited range and tagged so, the index in
 * front. */
#include "sink_video.h"

#include <libavutil/opt.h>
#include <libswscale/swscale.h>

#include <string.h>

/* The usual 40 frames would leave most of a short clip to encode when its last frame has been decoded. */
#define LOOKAHEAD "8"
static const double CRF = 17;

typedef struct state {
    sg_video           video;
    struct SwsContext *convert;
} state;

static const AVCodec *find_encoder(void)
{
    const AVCodec *const x264 = avcodec_find_encoder_by_name("libx264");
    return x264 ? x264 : avcodec_find_encoder(AV_CODEC_ID_H264);
}

static sg_status mp4_check(const sg_clip *clip, sg_error *e)
{
    const AVCodec *const codec = find_encoder();
    if (!codec)
        return sg_error_set(e, SG_E_UNSUPPORTED, "MP4: this FFmpeg has no H.264 encoder; use .mkv, .y4m or .png");
    if (clip->has_crf && !av_opt_find((void *)(uintptr_t)&codec->priv_class, "crf", NULL, 0, AV_OPT_SEARCH_FAKE_OBJ))
        return sg_error_set(e, SG_E_UNSUPPORTED, "--crf: this FFmpeg's H.264 encoder, %s, has no such thing",
                            codec->name);
    if (clip->width % 2 || clip->height % 2)
        return sg_error_set(e, SG_E_ARG,
                            "--output: %s: MP4 needs even sizes, not %dx%d; .mkv, .y4m and .png do without", clip->path,
                            clip->width, clip->height);
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

static sg_status open_codec(sg_video *v, const sg_clip *clip, sg_error *e)
{
    SG_TRY(sg_video_codec(v, clip, find_encoder(), AV_PIX_FMT_YUV420P, e));
    AVCodecContext *const c = v->codec;
    c->color_trc = AVCOL_TRC_BT709;
    c->colorspace = AVCOL_SPC_BT709;
    c->color_range = AVCOL_RANGE_MPEG;
    c->chroma_sample_location = AVCHROMA_LOC_LEFT;
    c->bit_rate = (int64_t)clip->width * clip->height * clip->fps / 4; /* only for encoders that know no crf */
    if (av_opt_set_double(c->priv_data, "crf", clip->has_crf ? clip->crf : CRF, 0) >= 0) c->bit_rate = 0;
    av_opt_set(c->priv_data, "preset", "medium", 0);
    av_opt_set(c->priv_data, "rc-lookahead", LOOKAHEAD, 0);
    return SG_OK;
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
    .open = mp4_open,
    .write = mp4_write,
    .finish = sg_video_finish,
    .publish = sg_video_publish,
    .close = mp4_close,
    .claims = mp4_claims,
    .read = mp4_read,
};
