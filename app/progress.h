/* progress.h - what a person sees while it works, on stderr: one line that changes on a terminal, else a few lines. */
#ifndef SG_PROGRESS_H
#define SG_PROGRESS_H

#include "engine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct sg_progress {
    bool     quiet, terminal;
    bool     shown; /* a changing line stands on the terminal */
    sg_stage stage;
    bool     begun;                           /* stage means something */
    int      base_done;                       /* units of this stage that were done at base_time, as far as seen */
    double   base_time, last_time, last_line; /* seconds */
    char     row[256];                        /* of many renders, what stands before the stage; or empty */
} sg_progress;

/* Is stderr a terminal that takes control sequences? */
bool sg_progress_terminal(void);

void sg_progress_init(sg_progress *p, bool quiet);

/* done of total units of this stage are over. */
void sg_progress_update(sg_progress *p, sg_stage stage, int done, int total);

/* Of many renders: this text stands before the stage from now on. Without a terminal it is a line every few seconds at
 * most, or at once when it is due, and stages are not told. */
void sg_progress_row(sg_progress *p, bool due, const char *fmt, ...) SG_PRINTF(3, 4);

/* A line that stays, unless quiet; printed as by sg_print. */
void sg_progress_say(sg_progress *p, const char *fmt, ...) SG_PRINTF(2, 3);

/* Takes the changing line away. */
void sg_progress_clear(sg_progress *p);

/* What is about to be rendered, by which model on what. tokens 0: not told. A seed that was drawn is told even if quiet. */
void sg_progress_say_start(sg_progress *p, const char *model, const sg_model_info *info, const sg_request *r,
                           int64_t tokens, bool drawn);

/* What of the model stays on the host, if anything does. */
void sg_progress_say_offload(sg_progress *p, const sg_plan *plan);

/* fprintf for text that may hold what comes from files and arguments: control characters, which a terminal would obey, become
 * question marks, newlines excepted. Nothing where memory is out. */
void sg_print(FILE *out, const char *fmt, ...) SG_PRINTF(2, 3);

/* "s" but for 1. */
const char *sg_plural(int64_t n);

/* "0.8 s", "3 min 20 s", "2 h 05 min". Returns text. */
const char *sg_duration(char *text, size_t size, double seconds);

#endif
