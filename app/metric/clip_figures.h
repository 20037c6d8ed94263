/* clip_figures.h - figures of one clip, computed frame by frame; one frame is kept.
 *
 * Flicker: VBench's temporal_flickering (vbench/temporal_flickering.py), of clips meant to stand still:
 *
 *   (255 - mean over all pairs of neighbours of MAE) / 255, MAE = mean |next - this| over all samples of R, G and B
 *
 * No unit; 1: nothing changes. Frozen: a pair whose MAE is at most 0.255, the default noise of FFmpeg's freezedetect
 * (0.001 of the range). Equal frames are that.
 *
 * Sharpness: the variance of the Laplacian of the grey picture, in squared levels of 0 to 255: OpenCV's
 * cv2.Laplacian(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var(). Grey is 0.299 R + 0.587 G + 0.114 B rounded
 * as OpenCV does. The kernel is 0 1 0, 1 -4 1, 0 1 0; pixels outside are mirrored at the outermost ones.
 *
 * Black: at least 98 % of the pixels have a grey of at most 25, a tenth of the range: the defaults of FFmpeg's
 * blackdetect. */
#ifndef SG_CLIP_FIGURES_H
#define SG_CLIP_FIGURES_H

#include "base/image.h"

typedef struct sg_clip_figures {
    int    frames, black, frozen; /* frozen: pairs of neighbours */
    double sharpness;             /* mean over the frames */
    double flicker;               /* NaN for a single frame, and where the frames differ in size */
} sg_clip_figures;

typedef struct sg_clip_watch {
    int      frames, black, frozen, pairs; /* pairs: neighbours of the same size */
    double   sharpness, mae;               /* sums */
    sg_image previous;
    uint8_t *grey;
} sg_clip_watch; /* zero: nothing seen */

/* Adds the next frame. SG_E_MEMORY. */
sg_status sg_clip_watch_add(sg_clip_watch *w, const sg_image *frame, sg_error *e) SG_MUST_USE;

/* Takes the means over the frames so far, one at least. */
sg_clip_figures sg_clip_watch_figures(const sg_clip_watch *w);

void sg_clip_watch_close(sg_clip_watch *w); /* zero is fine */

/* Sharpness of a grey picture [height][width]. */
double sg_grey_sharpness(const uint8_t *grey, int width, int height);

#endif
