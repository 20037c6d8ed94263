/* tune_cache.h - the threshold of the step cache for an error of the final latents.
 *
 * Each prompt is rendered once with all steps computed. That gives the latents to compare with, and the distance of each
 * step (step_cache.h). Up to the least distance no step is skipped. From the largest sum of distances of as many steps as
 * may be skipped in a row, only their number ends a run. Between the two the threshold is bisected by further renders,
 * until it is known to a tenth of itself. An error is measured, never estimated, and the largest of the prompts' counts. It
 * need not rise with the threshold: what is found holds the bound, and need not be the largest that does. */
#ifndef SG_TUNE_CACHE_H
#define SG_TUNE_CACHE_H

#include "session.h"

enum { SG_CACHE_TRIALS = 32 };

/* A threshold that was tried. The first prompt with too large an error ended its trial. */
typedef struct sg_cache_trial {
    double threshold;
    double error;   /* relative L2 of the final latents, the largest */
    double skipped; /* share of the steps */
} sg_cache_trial;

/* Renders of which the steps are of use, but not the frames: each ends with its last step. */
typedef struct sg_tune_renders {
    sg_session           session; /* these three are given */
    sg_rendering         now;
    const sg_prompt_set *prompts;
    float               *latents; /* at the end of the last one; NULL: not kept */
    size_t               count;   /* of the latents' numbers */
    int                  renders;
    double               seconds; /* of all their steps, looking included */
    bool                 seen;    /* all steps of the one at work */
} sg_tune_renders;

/* Renders a prompt, of so many that each are rendered once, or 0. */
sg_status sg_tune_render(sg_tune_renders *r, int prompt, int of, sg_report *report, sg_error *e) SG_MUST_USE;

typedef struct sg_cache_search {
    sg_tune_renders *render; /* given */
    double           bound;  /* of the error; given */
    sg_cache_tuned   found;
    int              trials;
    sg_cache_trial   trial[SG_CACHE_TRIALS];
    float           *first; /* [prompts, latents]: with all steps computed; owned */
} sg_cache_search;

/* Fills found and trials. SG_E_ARG where no step may be skipped or the bound is too small for any, SG_E_MEMORY,
 * SG_E_CANCELLED. The caller closes, after a failure too. */
sg_status sg_cache_search_run(sg_cache_search *s, sg_error *e) SG_MUST_USE;
void      sg_cache_search_close(sg_cache_search *s);

#endif
