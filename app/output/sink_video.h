/* sink_video.h - what the sinks share that write by FFmpeg's libraries: file, container, encoder. A sink fills in a codec
 * and a frame of its own between open and begin. */
#ifndef SG_SINK_VIDEO_H
#define SG_SINK_VIDEO_H

#include "base/output_file.h"
#include "sink.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

/* Starts zeroed. A sink's state begins with it. */
typedef struct sg_video {
    const char      *path;
    sg_output_file  *file;
    AVFormatContext *format;
    AVStream        *stream;
    AVCodecContext  *codec;
    AVFrame         *frame; /* what the encoder is given */
    AVPacket        *packet;
    bool             fed; /* the encoder has had a frame */
} sg_video;

/* what, and FFmpeg's reason. */
sg_status sg_video_fail(const sg_video *v, sg_error *e, sg_status code, const char *what, int av);

/* The file and an empty container; format is FFmpeg's name of it, name that for people. */
sg_status sg_video_open(sg_video *v, const sg_clip *clip, const char *format, const char *name,
                        sg_error *e) SG_MUST_USE;

/* An encoder's context with size, rate and pixel format, not open. NULL: no memory. */
AVCodecContext *sg_video_context(const AVCodec *codec, const sg_clip *clip, enum AVPixelFormat pixels);

/* Hands an open encoder a picture of zeros; FFmpeg's error code. */
int sg_video_feed_blank(AVCodecContext *c);

/* Frees a context. An open encoder that has not been fed gets a picture first: SVT-AV1 1.4 waits for one without end. */
void sg_video_encoder_close(AVCodecContext **c, bool fed);

/* v's context; a sink sets the rest, and then calls sg_video_begin. */
sg_status sg_video_codec(sg_video *v, const sg_clip *clip, const AVCodec *codec, enum AVPixelFormat pixels,
                         sg_error *e) SG_MUST_USE;

/* The encoder's colours: those of the pictures, not converted. */
void sg_video_srgb(sg_video *v);

/* Opens the encoder, unless it is open, gets memory for the frame, which takes its colours from the encoder's, and writes the container's
 * head with the settings. options are the container's, and freed. */
sg_status sg_video_begin(sg_video *v, const sg_clip *clip, AVDictionary *options, sg_error *e) SG_MUST_USE;

/* The frame may be written into. */
sg_status sg_video_frame(sg_video *v, sg_error *e) SG_MUST_USE;

/* Encodes the frame as that of this number. */
sg_status sg_video_encode(sg_video *v, int index, sg_error *e) SG_MUST_USE;

/* As sg_sink_type has it, for an encoder of four bytes a pixel: blue, green, red, opaque; v is the state. */
sg_status sg_video_write_bgr(void *v, int index, const uint8_t *rgb, sg_error *e) SG_MUST_USE;

/* The file's last bytes; more can be added by its name before it is completed. */
sg_status sg_video_end(sg_video *v, sg_error *e) SG_MUST_USE;

/* As sg_sink_type has them; v is the state. */
sg_status sg_video_finish(void *v, sg_error *e) SG_MUST_USE;
sg_status sg_video_publish(void *v, sg_error *e) SG_MUST_USE;
void      sg_video_close(void *v);

/* The settings kept in a file that FFmpeg reads as this format: *out as in sg_sink_type. */
sg_status sg_video_read(const char *path, const char *format, const char *name, char **out, sg_error *e) SG_MUST_USE;

#endif
