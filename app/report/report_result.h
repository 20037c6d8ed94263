/* report_result.h - what came of an arm in one sentence, which the terminal, the JSON and the page open with:
 *
 *   sparge: attention 2.10x as fast, clip 1.27x, 24.1 dB to dense
 *   sage: not distinguishable in time, 44.0 dB to dense over 6 clips
 *   sage: same kernels, every frame equal to that of dense
 *
 * The decibels are PSNR, of the frames before compression. */
#ifndef SG_REPORT_RESULT_H
#define SG_REPORT_RESULT_H

#include "interval.h"

#include <stdbool.h>

enum { SG_RESULT_TEXT = 640 };

typedef struct sg_result {
    const char *arm, *first; /* names: of the arm, and of the one that it is compared with */
    const char *part;        /* of a render: "attention", "denoising" */
    sg_interval part_speed;  /* speed-ups as sg_speedup_clear leaves them; low is NAN: not measured */
    sg_interval clip_speed;
    double      psnr;         /* INFINITY: every frame is the same; NAN: nothing was compared */
    int         identical;    /* how many were left out of a finite psnr */
    const char *what;         /* of them: "frame", "clip" */
    bool        images;       /* clips are of one frame */
    int         clips;        /* that were compared, the identical ones too; 0: not said */
    bool        same_kernels; /* both arms ran the same: nothing is said of time */
} sg_result;

/* text has SG_RESULT_TEXT bytes; returns it. */
const char *sg_result_text(char *text, const sg_result *r);

#endif
