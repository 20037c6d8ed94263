/* progress.h - what a person sees while it works, on stderr. On a terminal one line changes, with a bar, and the line
 * above it tells what the stages took that are over; else there are a few lines. */
#ifndef SG_PROGRESS_H
#define SG_PROGRESS_H

#include "base/text.h"
#include "engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct sg_progress {
    bool quiet, terminal;
    bool shown;            /* a changing line stands on the terminal */
    bool summed;           /* the line above it tells of stages that are over */
    bool stopping;         /* Ctrl-C was answered, which took both lines away */
    double (*clock)(void); /* seconds; tests have their own */
    double last_line;      /* when a line was last written without a terminal */
    char   row[256];       /* of many renders, what stands before the stage; or empty */

    /* the stage at work */
    sg_stage stage;
    bool     begun, over;       /* stage means something; all of its units are over */
    int      done, total;       /* units */
    int      base, first;       /* units that were over when the stage began, and when the first was seen to end */
    double   start, first_time; /* when that was */
    double   last_time;         /* when the last unit was over, or the stage began */

    /* the render, and the job that it belongs to */
    double seconds[SG_STAGES];    /* of stages that are over */
    int    steps;                 /* of them */
    int    index, count;          /* which render of how many; 0 of 0: it belongs to none */
    double share;                 /* time of decoding by that of denoising, by the plan; 0: not known */
    int    past;                  /* renders of the job that are over */
    double past_seconds;          /* that they took, without loading */
    double past_stage[SG_STAGES]; /* the last of them */

    /* draws the line anew every tick_ms, from the first unit of a render to sg_progress_clear */
    int             tick_ms; /* 0: not at all */
    bool            ticks, stop;
    pthread_t       ticker;
    pthread_mutex_t lock; /* of all of this while it ticks */
    pthread_cond_t  wake;
} sg_progress;

/* Is stderr a terminal that takes control sequences? */
bool sg_progress_terminal(void);

void sg_progress_init(sg_progress *p, bool quiet);

/* The next render begins: the index-th of a job of count, from 0, whose renders are much the same; or, with count 0,
 * one that belongs to no job. plan, which may be NULL, tells how long decoding takes by the side of denoising. From
 * here on Ctrl-C is answered, unless quiet. */
void sg_progress_render(sg_progress *p, int index, int count, const sg_plan *plan);

/* done of total units of this stage are over. */
void sg_progress_update(sg_progress *p, sg_stage stage, int done, int total);

/* Of many renders: sets the text before the stage. Without a terminal it prints a line at most every few seconds, or at
 * once when it is due, and no stages. */
void sg_progress_row(sg_progress *p, bool due, const char *fmt, ...) SG_PRINTF(3, 4);

/* Prints a permanent line by sg_print, unless quiet. */
void sg_progress_say(sg_progress *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* Takes the changing line away. After every render. */
void sg_progress_clear(sg_progress *p);

enum { SG_CLIP_TEXT = 64 };

/* What r renders, for people: "832x480, 81 frames at 16 fps", "image of 512x512". Returns text. */
const char *sg_clip_text(char *text, size_t size, const sg_request *r);

enum { SG_GUIDANCE_TEXT = 64 };

/* The guidance of r for people: "6"; of a model with embedded guidance and a second pass, "6, cfg scale 3". Returns
 * text. */
const char *sg_guidance_text(char *text, size_t size, const sg_request *r);

/* Whose weights a phase keeps on the host: "denoiser" or "text encoder". */
const char *sg_offloaded_part(const sg_phase_plan *p);

/* "image" of one frame, else "clip". */
const char *sg_clip_noun(int frames);

/* Prints which model is on which device, and why it is not on the NVIDIA card that is there. */
void sg_progress_say_device(sg_progress *p, const char *model, const sg_model_info *info);

/* Prints what will be rendered, with which model, on which device. tokens 0: unknown. A random seed is printed even if
 * quiet. */
void sg_progress_say_start(sg_progress *p, const char *model, const sg_model_info *info, const sg_request *r,
                           int64_t tokens, bool drawn);

/* Prints what the plan does so that memory suffices: how much of the model stays on the host, whether decoding is in
 * tiles. */
void sg_progress_say_plan(sg_progress *p, const sg_plan *plan);

/* fprintf for text from files and arguments: control characters but newlines, which a terminal would interpret, are
 * replaced by question marks. Prints nothing when memory is short. */
void sg_print(FILE *out, const char *fmt, ...) SG_PRINTF(2, 3);

/* "0.8 s", "3 min 20 s", "2 h 05 min". Returns text. */
const char *sg_duration(char *text, size_t size, double seconds);

#endif
