/* clip_scores.h - the distance of two clips, computed frame by frame; memory grows by three numbers a frame. */
#ifndef SG_CLIP_SCORES_H
#define SG_CLIP_SCORES_H

#include "clip_figures.h"
#include "metrics.h"

typedef struct sg_clip_scores {
    int           count, identical;      /* frames */
    int           scales;                /* of MS-SSIM; the least, where frames differ in size */
    double       *psnr, *ssim, *ms_ssim; /* [count] */
    size_t        capacity;              /* for so many */
    sg_clip_watch watch[2];              /* of the first clip and of the second */
} sg_clip_scores;                        /* zero: nothing seen */

typedef struct sg_clip_totals {
    sg_summary      psnr, ssim, ms_ssim;
    sg_clip_figures of[2]; /* the first clip and the second */
} sg_clip_totals;

/* Adds the next frame of each. SG_E_SHAPE for sizes that differ or are smaller than a window, SG_E_MEMORY. */
sg_status sg_clip_scores_add(sg_clip_scores *s, const sg_image *a, const sg_image *b, sg_error *e) SG_MUST_USE;

/* Sums up the frames so far, one at least. SG_E_MEMORY. */
sg_status sg_clip_scores_total(const sg_clip_scores *s, sg_clip_totals *out, sg_error *e) SG_MUST_USE;

void sg_clip_scores_close(sg_clip_scores *s); /* zero is fine */

#endif
