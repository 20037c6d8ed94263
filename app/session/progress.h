/* progress.h - what a person sees while it works, on stderr. On a terminal one line changes, with a bar, and the line
 * above it tells what the stages took that are over; else there are a few lines. */
#ifndef SG_PROGRESS_H
#define SG_PROGRESS_H

#include "base/text.h"

#include <pthread.h>
#include <spargegen/spargegen.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct sg_progress {
    bool quiet, terminal;
    /* A changing line is shown on the terminal; the line above it has the sum of stages that are over; both went when
     * Ctrl-C was answered. */
    bool shown, summed, stopping;
    /* Returns seconds; tests have their own. */
    double (*clock)(void);
    /* Without a terminal a line was last written then. */
    double last_line;
    /* Warnings, a line each, also where they are not said; the first came at warned_at, and so many lines after it. */
    sg_textbuf warnings;
    double     warned_at;
    int        lines;
    /* Where there are many renders, it stands before the stage; else it is empty. */
    char row[256];

    /* The stage at work has begun if `begun`, and all of its units are over if `over`. */
    int  stage;
    bool begun, over;
    int  done, total;
    /* base units were over when the stage began, at start; first when the first was seen to end, at first_time. The
     * last unit was over at last_time, or else the stage began then. */
    int    base, first;
    double start, first_time, last_time;

    /* The render: seconds and steps are those of stages that are over. share is the time of decoding by that of
     * denoising, by the plan; 0: it is not known. */
    double seconds[SG_STAGES], share;
    int    steps;
    /* The job that it belongs to: it is one of count renders, or of none where that is 0. past are over; they took
     * past_seconds without loading, and past_stage has the stages of the last. */
    int    index, count, past;
    double past_seconds, past_stage[SG_STAGES];

    /* The ticker draws the line anew every tick_ms, from the first unit of a render to sg_progress_clear; 0: not at
     * all. The lock is for all of this while it ticks. */
    int             tick_ms;
    bool            ticks, stop;
    pthread_t       ticker;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
} sg_progress;

/* Tells whether stderr is a terminal that takes control sequences. */
bool sg_progress_terminal(void);

void sg_progress_init(sg_progress *p, bool quiet);

/* The next render begins: the index-th of a job of count, from 0, whose renders are much the same; or, with count 0,
 * one that belongs to no job. plan, which may be NULL, tells how long decoding takes by the side of denoising. From
 * here on Ctrl-C is answered, unless quiet. */
void sg_progress_render(sg_progress *p, int index, int count, const sg_plan *plan);

/* done of total units of this stage are over. */
void sg_progress_update(sg_progress *p, int stage, int done, int total);

/* Does the same and shows nothing; total is 1 at least. */
void sg_progress_take(sg_progress *p, int stage, int done, int total);

/* Returns how many seconds the job still takes; negative: it is not known yet. */
double sg_progress_left(const sg_progress *p);

/* Sets the text before the stage, where there are many renders. Without a terminal it prints a line at most every few
 * seconds, and no stages. */
void sg_progress_row(sg_progress *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* Prints a permanent line by sg_print, unless quiet. */
void sg_progress_say(sg_progress *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* Does the same with what a person should not miss: sg_progress_end says it again. */
void sg_progress_warn(sg_progress *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* The command is over. Warnings are said again if the first was said a minute or a screen of 24 lines ago. */
void sg_progress_end(sg_progress *p);

/* Takes the changing line away. Call it after every render. */
void sg_progress_clear(sg_progress *p);

enum { SG_CLIP_TEXT = 64 };

/* Says what r renders: "832x480, 81 frames at 16 fps", "image of 512x512". Returns text. */
const char *sg_clip_text(char text[SG_CLIP_TEXT], const sg_request *r);

enum { SG_GUIDANCE_TEXT = 64 };

/* Says the guidance of r: "6", or "6, cfg scale 3" where a model has embedded guidance and a second pass. Returns
 * text. */
const char *sg_guidance_text(char text[SG_GUIDANCE_TEXT], const sg_request *r);

/* Returns whose weights a phase keeps on the host: "denoiser" or "text encoder". */
const char *sg_offloaded_part(const sg_phase_plan *p);

/* Returns "image" for one frame, else "clip". */
const char *sg_clip_noun(int frames);

/* Prints text from files and arguments: control characters but newlines, which a terminal would interpret, become
 * question marks. Prints nothing when memory is short. */
void sg_print(FILE *out, const char *fmt, ...) SG_PRINTF(2, 3);

/* Puts "0.8 s", "3 min 20 s" or "2 h 05 min" into text, and returns it. */
const char *sg_duration(char text[32], double seconds);

#endif
