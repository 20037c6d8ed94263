/* image_webp.c - WebP by FFmpeg's decoder, see image_decoders.h. The container is RFC 9649's. */
#include "image_decoders.h"

#include <stdlib.h>
#include <string.h>

/* A lossy picture has at least 1.6 bits for 256 pixels: for the modes of their luma and chroma (RFC 6386, section 11). */
enum { RIFF_HEADER = 12, CHUNK_HEADER = 8, PIXELS_PER_BYTE = 2048 };

const uint8_t *sg_image_webp_chunk(const sg_map *file, const char *name, size_t *size)
{
    for (size_t at = RIFF_HEADER, n; file->size >= CHUNK_HEADER && at <= file->size - CHUNK_HEADER;
         at += CHUNK_HEADER + n + n % 2) {
        const uint8_t *const chunk = file->data + at;
        n = sg_image_number(chunk + 4, 4, false);
        if (n > file->size - at - CHUNK_HEADER) return NULL;
        *size = n;
        if (!name || memcmp(chunk, name, 4) == 0) return chunk + CHUNK_HEADER;
    }
    return NULL;
}

#if SG_FFMPEG
#include <libavcodec/avcodec.h>
#include <libswscale/swscale.h>

static const char ENDS[] = "the file ends within the picture";

static sg_status refuse(sg_error *e, const char *why) { return sg_error_set(e, SG_E_FORMAT, "%s", why); }

/* By the first chunk: that of a simple file, or the header of one with more in it. */
static sg_status read_size(const sg_map *file, size_t size[2], sg_error *e)
{
    enum { HEADER = 10, ANIMATED = 2, SIDE = 0x3FFF };
    size_t               n;
    const uint8_t *const d = sg_image_webp_chunk(file, NULL, &n);
    if (!d || n < HEADER || sg_image_number(file->data + 4, 4, false) > file->size - CHUNK_HEADER)
        return refuse(e, ENDS);
    if (memcmp(d - CHUNK_HEADER, "VP8X", 4) == 0) {
        if (d[0] & ANIMATED) return refuse(e, "an animated WebP is not read");
        for (int i = 0; i < 2; i++) size[i] = 1 + (size_t)sg_image_number(d + 4 + 3 * i, 3, false);
    } else if (memcmp(d - CHUNK_HEADER, "VP8L", 4) == 0) {
        const uint32_t bits = sg_image_number(d + 1, 4, false);
        for (int i = 0; i < 2; i++) size[i] = 1 + (bits >> 14 * i & SIDE);
    } else {
        for (int i = 0; i < 2; i++) size[i] = sg_image_number(d + 6 + 2 * i, 2, false) & SIDE;
    }
    return SG_OK;
}

/* What is decoded, on the way to RGBA. */
typedef struct work {
    AVCodecContext    *codec;
    AVPacket          *packet;
    AVFrame           *decoded, *rgba;
    struct SwsContext *convert;
} work;

static sg_status decode(work *w, const sg_map *file, sg_error *e)
{
    const AVCodec *const codec = avcodec_find_decoder(AV_CODEC_ID_WEBP);
    AVDictionary        *options = NULL;
    if (!codec) return refuse(e, "is a WebP, and this FFmpeg has no decoder of it");
    av_log_set_level(AV_LOG_QUIET);
    w->codec = avcodec_alloc_context3(codec);
    w->packet = av_packet_alloc();
    w->decoded = av_frame_alloc();
    w->rgba = av_frame_alloc();
    if (!w->codec || !w->packet || !w->decoded || !w->rgba || av_new_packet(w->packet, (int)file->size) < 0)
        return sg_error_set(e, SG_E_MEMORY, "out of memory");
    memcpy(w->packet->data, file->data, file->size);
    av_dict_set_int(&options, "max_pixels", SG_IMAGE_MAX_PIXELS, 0);
    av_dict_set(&options, "threads", "1", 0);
    int av = avcodec_open2(w->codec, codec, &options);
    av_dict_free(&options);
    if (av >= 0) av = avcodec_send_packet(w->codec, w->packet);
    if (av >= 0) av = avcodec_receive_frame(w->codec, w->decoded);
    if (av == AVERROR(ENOMEM)) return sg_error_set(e, SG_E_MEMORY, "out of memory");
    return av < 0 || w->decoded->decode_error_flags ? refuse(e, "damaged WebP") : SG_OK;
}

static sg_status convert(work *w, const sg_image *size, uint8_t **out, sg_error *e)
{
    const AVFrame *const f = w->decoded;
    AVFrame *const       r = w->rgba;
    if (f->width != size->width || f->height != size->height) return refuse(e, "damaged WebP: its size changes");
    r->format = AV_PIX_FMT_RGBA;
    r->width = f->width;
    r->height = f->height;
    w->convert = sws_getContext(f->width, f->height, (enum AVPixelFormat)f->format, f->width, f->height,
                                AV_PIX_FMT_RGBA, SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    const size_t row = 4 * (size_t)f->width;
    if (!w->convert || av_frame_get_buffer(r, 0) < 0 || !(*out = malloc(row * (size_t)f->height)))
        return sg_error_set(e, SG_E_MEMORY, "out of memory");
    if (sws_scale(w->convert, (const uint8_t *const *)f->data, f->linesize, 0, f->height, r->data, r->linesize) < 0)
        return refuse(e, "a WebP that does not become RGB");
    for (int y = 0; y < f->height; y++) memcpy(*out + (size_t)y * row, r->data[0] + (ptrdiff_t)y * r->linesize[0], row);
    return SG_OK;
}

sg_status sg_image_webp(sg_image *out, uint8_t **rgba, const sg_map *file, sg_error *e)
{
    size_t size[2] = {0}, n;
    work   w = {0};
    SG_TRY(read_size(file, size, e));
    if (sg_image_webp_chunk(file, "VP8 ", &n) && size[0] * size[1] / PIXELS_PER_BYTE > n)
        return sg_error_set(e, SG_E_FORMAT, "is %zu bytes, too few for %zux%zu pixels", file->size, size[0], size[1]);
    SG_TRY(sg_image_alloc(out, size[0], size[1], e));
    sg_status status = decode(&w, file, e);
    if (status == SG_OK) status = convert(&w, out, rgba, e);
    sws_freeContext(w.convert);
    av_frame_free(&w.rgba);
    av_frame_free(&w.decoded);
    av_packet_free(&w.packet);
    avcodec_free_context(&w.codec);
    return status;
}
#else
sg_status sg_image_webp(sg_image *out, uint8_t **rgba, const sg_map *file, sg_error *e)
{
    (void)out, (void)rgba, (void)file;
    return sg_error_set(e, SG_E_FORMAT, "is a WebP; this build has no FFmpeg to read it");
}
#endif
