/* mp4_encoder.c - see mp4_encoder.h. */
#include "mp4_encoder.h"

#include <libavutil/opt.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Any encoder of H.264 that is not in the list. */
#define OTHERS "h264"

static const char *const usual[] = {"libx264",   "libopenh264", "h264_nvenc", OTHERS,
                                    "libsvtav1", "libaom-av1",  "librav1e",   NULL};

/* How an encoder is asked for quality, about the same of all: 42 dB of a clip that has 41.6 by x264. What has no crf
 * gets a bit rate. The usual 40 frames that x264 looks ahead would leave most of a short clip to encode when its last
 * frame has been decoded. Memory of those of AV1, measured from 64x64 to 1280x720 with 33 frames, on two cores: code,
 * and bytes a pixel. */
static const struct settings {
    const char *name;
    double      crf;
    const char *option[3][2];
    size_t      code, pixel; /* 0: x264_bytes */
} known[] = {
    {.name = "libx264", .crf = 17, .option = {{"preset", "medium"}, {"rc-lookahead", "8"}}},
    {.name = "libsvtav1",
     .crf = 22,
     .option = {{"preset", "8"}, {"svtav1-params", "lp=4:lookahead=8"}},
     .code = 36 << 20,
     .pixel = 172},
    {.name = "libaom-av1",
     .crf = 22,
     .option = {{"cpu-used", "6"}, {"row-mt", "1"}, {"lag-in-frames", "8"}},
     .code = 18 << 20,
     .pixel = 131},
    {.name = "librav1e",
     .option = {{"speed", "10"}, {"rav1e-params", "rdo_lookahead_frames=8"}},
     .code = 32 << 20,
     .pixel = 400},
    {.name = ""},
};

/* The same file comes out on every machine, whatever its number of cores: encoders split their work by this. */
enum { ENCODER_THREADS = 4 };

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

/* Hands an open encoder a picture of zeros; FFmpeg's error code. */
static int feed_blank(AVCodecContext *c)
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
    if (*c && !fed && avcodec_is_open(*c)) (void)feed_blank(*c);
    avcodec_free_context(c);
}

static const struct settings *settings_of(const AVCodec *encoder)
{
    const struct settings *s = known;
    while (*s->name && strcmp(s->name, encoder->name) != 0) s++;
    return s;
}

bool sg_mp4_encoder_has_crf(const AVCodec *encoder)
{
    return av_opt_find((void *)(uintptr_t)&encoder->priv_class, "crf", NULL, 0, AV_OPT_SEARCH_FAKE_OBJ) != NULL;
}

/* x264 looks 8 frames ahead and keeps 8 more for its threads and B frames, and about 11 pictures beside: each of 3.4
 * bytes a pixel, with 32 pixels more on all sides, and some tables. Measured from 64x64 to 832x480, within 6 MiB. */
static size_t x264_bytes(const sg_clip *clip)
{
    enum { CODE = 7 << 20, AHEAD = 16, BESIDE = 11, MARGIN = 64, TABLES = 1 << 16 };
    const size_t pixels = ((size_t)clip->width + MARGIN) * ((size_t)clip->height + MARGIN);
    const size_t pictures = (size_t)(clip->frames < AHEAD ? clip->frames : AHEAD) + BESIDE;
    return CODE + pictures * (pixels * 34 / 10 + TABLES);
}

size_t sg_mp4_encoder_bytes(const AVCodec *encoder, const sg_clip *clip)
{
    const struct settings *const s = settings_of(encoder);
    return s->code ? s->code + s->pixel * (size_t)clip->width * (size_t)clip->height : x264_bytes(clip);
}

int sg_mp4_encoder_open(AVCodecContext **out, const AVCodec *encoder, const sg_clip *clip)
{
    const struct settings *const s = settings_of(encoder);
    AVCodecContext *const        c = *out = sg_video_context(encoder, clip, AV_PIX_FMT_YUV420P);
    if (!c) return AVERROR(ENOMEM);
    c->flags |= AV_CODEC_FLAG_GLOBAL_HEADER; /* an MP4 has them in its index */
    c->color_trc = AVCOL_TRC_BT709;
    c->colorspace = AVCOL_SPC_BT709;
    c->color_range = AVCOL_RANGE_MPEG;
    c->chroma_sample_location = AVCHROMA_LOC_LEFT;
    c->bit_rate = (int64_t)clip->width * clip->height * clip->fps / 4; /* only for encoders that know no crf */
    const double crf = clip->has_crf ? clip->crf : s->crf;
    if ((clip->has_crf || s->crf > 0) && av_opt_set_double(c->priv_data, "crf", crf, 0) >= 0) c->bit_rate = 0;
    for (int i = 0; i < 3 && s->option[i][0]; i++) av_opt_set(c->priv_data, s->option[i][0], s->option[i][1], 0);
    return avcodec_open2(c, encoder, NULL);
}

static bool takes_a_frame(const AVCodec *encoder, const sg_clip *clip)
{
    AVCodecContext *c = NULL;
    const bool      taken = sg_mp4_encoder_open(&c, encoder, clip) >= 0 && feed_blank(c) >= 0;
    sg_video_encoder_close(&c, taken);
    return taken;
}

/* The first of the list that takes a frame. */
static const AVCodec *find(const char *const *name, const sg_clip *clip)
{
    av_log_set_level(AV_LOG_QUIET);
    for (; *name; name++) {
        void          *at = NULL;
        const bool     others = strcmp(*name, OTHERS) == 0;
        const AVCodec *c = others ? av_codec_iterate(&at) : avcodec_find_encoder_by_name(*name);
        for (; c; c = others ? av_codec_iterate(&at) : NULL)
            if ((!others || (c->id == AV_CODEC_ID_H264 && av_codec_is_encoder(c))) && takes_a_frame(c, clip)) return c;
    }
    return NULL;
}

const AVCodec *sg_mp4_encoder_find(const sg_clip *clip)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static sg_clip         of; /* these are of the last answer by the usual list */
    static const AVCodec  *found;
    sg_clip sized = clip->width ? *clip : (sg_clip){.size = sizeof(sg_clip), .width = 640, .height = 480, .fps = 16};
    pthread_mutex_lock(&mutex);
    if (clip->encoders || of.width != sized.width || of.height != sized.height || of.fps != sized.fps) {
        found = find(clip->encoders ? clip->encoders : usual, &sized);
        of = clip->encoders ? (sg_clip){0} : sized;
    }
    const AVCodec *const answer = found;
    pthread_mutex_unlock(&mutex);
    return answer;
}
