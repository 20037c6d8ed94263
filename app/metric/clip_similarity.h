/* clip_similarity.h - how well a clip follows its text and how steady it is, as CLIP sees it, frame by frame.
 *
 *   CLIPSIM = mean over the frames of cos(frame, text)
 *   CLIP-T  = mean over neighbours of cos(this, next)
 *   CLIP score = 100 max(0, cos(picture, text))
 *
 * The first two are of videos, EvalCrafter's CLIP-Score and CLIP-Temp (Liu et al., 2024, arXiv:2310.11440), which SpargeAttn's
 * paper has by these names: in [-1, 1], of all frames, neither cut at 0 nor multiplied. Frames are prepared as CLIP's own
 * preprocessor_config.json has it, where EvalCrafter squeezes them to 224x224 and leaves their samples in 0 to 255: its
 * numbers are on another scale. The last is of pictures, clips of one frame: torchmetrics' CLIPScore, after Hessel et al.
 * (2021, arXiv:2104.08718). */
#ifndef SG_CLIP_SIMILARITY_H
#define SG_CLIP_SIMILARITY_H

#include "base/image.h"

#include <spargegen/spargegen.h>

typedef struct sg_similarity_totals {
    double clipsim, clip_t, clip_score; /* NAN: not of such a clip, or without a text */
} sg_similarity_totals;

/* A clip on its way. Zero but for model and text: nothing seen. */
typedef struct sg_clip_similarity {
    sg_clip_model *model;  /* borrowed */
    const float   *text;   /* row of the text, borrowed; NULL: there is none */
    float         *row[2]; /* of the last frames; owned */
    int            frames;
    double         to_text, to_next; /* sums */
} sg_clip_similarity;

/* Adds the next frame. Errors as sg_clip_model_picture's, and SG_E_MEMORY. */
sg_status sg_clip_similarity_add(sg_clip_similarity *s, const sg_image *frame, sg_error *e) SG_MUST_USE;

/* Takes the means over the frames so far, one at least. */
sg_similarity_totals sg_clip_similarity_total(const sg_clip_similarity *s);

void sg_clip_similarity_close(sg_clip_similarity *s); /* zero is fine */

#endif
