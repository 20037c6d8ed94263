/* writer_y4m.c - YUV4MPEG2, 4:4:4, BT.601 in limited range: raw video that every player and encoder reads, and that
 * needs no library. The format has no field for the matrix, so it is the one that FFmpeg assumes, and a comment names
 * it. mpv assumes BT.709 of more than 576 lines or at least 1280 columns. */
#include "writer.h"

#include <stdio.h>
#include <stdlib.h>

static sg_status y4m_open(void *context, const sg_clip *clip, sg_output_file *file, sg_error *e)
{
    uint8_t **const planes = context; /* y, u, v, each [height, width] */
    char            header[128];
    *planes = malloc(sg_image_bytes(clip->width, clip->height));
    if (!*planes) return sg_error_set(e, SG_E_MEMORY, "%s: no memory for a frame", clip->path);
    const int n =
        snprintf(header, sizeof header, "YUV4MPEG2 W%d H%d F%d:1 Ip A1:1 C444 XCOLORRANGE=LIMITED XSPARGE=601\n",
                 clip->width, clip->height, clip->fps);
    return sg_output_file_write(file, header, (size_t)n, e);
}

static uint8_t quantise(double v) { return (uint8_t)(v + 0.5); }

/* y' = .299 r + .587 g + .114 b; Y = 16 + 219 y'; U = 128 + 224 (b - y') / 1.772; V = 128 + 224 (r - y') / 1.402
 * (ITU-R BT.601-7, items 2.5.1 to 2.5.3). */
static sg_status y4m_write(void *context, const sg_clip *clip, sg_output_file *file, int index, const uint8_t *rgb,
                           sg_error *e)
{
    uint8_t *const y4m = *(uint8_t **)context;
    const size_t   n = (size_t)clip->width * (size_t)clip->height;
    (void)index;
    for (size_t i = 0; i < n; i++) {
        const double r = rgb[3 * i] / 255.0, g = rgb[3 * i + 1] / 255.0, b = rgb[3 * i + 2] / 255.0;
        const double y = 0.299 * r + 0.587 * g + 0.114 * b;
        y4m[i] = quantise(16 + 219 * y);
        y4m[n + i] = quantise(128 + 224 * (b - y) / 1.772);
        y4m[2 * n + i] = quantise(128 + 224 * (r - y) / 1.402);
    }
    SG_TRY(sg_output_file_write(file, "FRAME\n", 6, e));
    return sg_output_file_write(file, y4m, 3 * n, e);
}

static void y4m_close(void *context) { free(*(uint8_t **)context); }

const sg_writer_type sg_writer_y4m = {
    .name = "Y4M",
    .endings = ".y4m",
    .state_size = sizeof(uint8_t *),
    .open = y4m_open,
    .write = y4m_write,
    .close = y4m_close,
};
