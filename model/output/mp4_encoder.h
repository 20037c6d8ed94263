/* mp4_encoder.h - by which of FFmpeg's encoders an MP4 is written: of H.264 where one opens, else of AV1. A library may
 * have an encoder that does not open: for want of a driver, or at a size that it does not take. So each is tried with a
 * frame of the clip's size before it is chosen. */
#ifndef SG_MP4_ENCODER_H
#define SG_MP4_ENCODER_H

#include "writer.h"

#include <libavcodec/avcodec.h>

/* Returns the first of clip->encoders, or of the usual ones, that takes a frame of the clip's size, or of 640x480 where
 * the clip has no size yet. NULL: none does. The last answer is kept. Any thread may call. */
const AVCodec *sg_mp4_encoder_find(const sg_clip *clip);

/* Tells whether --crf means anything to it. */
bool sg_mp4_encoder_has_crf(const AVCodec *encoder);

/* Returns the memory that it takes for the clip. */
size_t sg_mp4_encoder_bytes(const AVCodec *encoder, const sg_clip *clip);

/* Opens it for the clip: yuv420p, BT.709 in limited range. *out is to be given to sg_video_encoder_close, also after a
 * failure, which is FFmpeg's error code. */
int sg_mp4_encoder_open(AVCodecContext **out, const AVCodec *encoder, const sg_clip *clip);

/* Returns an encoder's context, of any format, with size, rate and pixel format, not open; NULL when memory runs out.
 * */
AVCodecContext *sg_video_context(const AVCodec *codec, const sg_clip *clip, enum AVPixelFormat pixels);

/* Frees a context. An open encoder that has not been fed gets a picture first: SVT-AV1 1.4 waits for one without
 * end. */
void sg_video_encoder_close(AVCodecContext **c, bool fed);

#endif
