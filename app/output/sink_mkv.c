/* sink_mkv.c - Matroska with FFV1 by FFmpeg's libraries: the pixels as they are, RGB of 8 bits, nothing lost. */
#include "sink_video.h"

#include <libavutil/opt.h>

#include <string.h>

static sg_status mkv_check(const sg_clip *clip, sg_error *e)
{
    (void)clip;
    if (avcodec_find_encoder(AV_CODEC_ID_FFV1)) return SG_OK;
    return sg_error_set(e, SG_E_UNSUPPORTED,
                        "MKV: this FFmpeg has no FFV1 encoder; use .png, which loses nothing either");
}

/* The encoder's tables and room for the largest packets, and the part of the file that Matroska keeps back. Measured from
 * 64x64 to 832x480, within 6 MiB. */
static size_t mkv_bytes(const sg_clip *clip)
{
    enum { CODE = 5 << 20, PIXEL = 150 };
    return CODE + (size_t)clip->width * (size_t)clip->height * PIXEL;
}

static sg_status mkv_open(void *context, const sg_clip *clip, sg_error *e)
{
    sg_video *const v = context;
    SG_TRY(sg_video_open(v, clip, "matroska", "MKV", e));
    v->format->flags |= AVFMT_FLAG_BITEXACT; /* no random numbers, which Matroska would have as names of its parts */
    SG_TRY(sg_video_codec(v, clip, avcodec_find_encoder(AV_CODEC_ID_FFV1), AV_PIX_FMT_BGR0, e));
    AVCodecContext *const c = v->codec;
    sg_video_srgb(v);
    c->level = 3; /* the version of RFC 9043 */
    c->gop_size = 1;
    c->slices = 4; /* one a thread */
    av_opt_set_int(c->priv_data, "slicecrc", 1, 0);
    return sg_video_begin(v, clip, NULL, e);
}

static bool mkv_claims(const uint8_t *head, size_t bytes)
{
    return bytes >= 4 && memcmp(head, "\x1a\x45\xdf\xa3", 4) == 0;
}

static sg_status mkv_read(const char *path, char **out, sg_error *e)
{
    return sg_video_read(path, "matroska", "MKV", out, e);
}

const sg_sink_type sg_sink_mkv = {
    .name = "MKV",
    .endings = ".mkv",
    .state_size = sizeof(sg_video),
    .bytes = mkv_bytes,
    .check = mkv_check,
    .open = mkv_open,
    .write = sg_video_write_bgr,
    .finish = sg_video_finish,
    .publish = sg_video_publish,
    .close = sg_video_close,
    .claims = mkv_claims,
    .read = mkv_read,
};
