/* eval_log.h - which clips of an evaluation are done, and the lines that record it: DIR/results.jsonl (eval_results.h).
 *
 * With several ranks each writes results-RANK.jsonl, and each reads all of them. A line is one write, flushed to the
 * disk before the next clip begins. */
#ifndef SG_EVAL_LOG_H
#define SG_EVAL_LOG_H

#include "line_log.h"
#include "rank.h"

#include <jansson.h>
#include <stddef.h>

typedef enum sg_eval_state { SG_EVAL_MISSING, SG_EVAL_FAILED, SG_EVAL_DONE } sg_eval_state;

/* state is [prompts][per_prompt][arms], of sg_eval_state. file is the own one; its fd is -1 before all else. */
typedef struct sg_eval_log {
    int         prompts, per_prompt, arms;
    uint8_t    *state;
    sg_line_log file;
} sg_eval_log;

/* Makes the log of so many clips, all missing. Returns SG_E_ARG for more than 2^28, or SG_E_MEMORY. The caller closes,
 * after a failure too. */
sg_status sg_eval_log_make(sg_eval_log *l, int prompts, int per_prompt, int arms, sg_error *e) SG_MUST_USE;

/* Reads the states from all files in the folder. Returns SG_E_FORMAT, with file and line, for a line that is not of
 * this evaluation, SG_E_FILE or SG_E_MEMORY. */
sg_status sg_eval_log_read(sg_eval_log *l, const char *folder, sg_error *e) SG_MUST_USE;

/* Opens the rank's own file for writing, which no other process may have open, and removes an incomplete last line.
 * Returns SG_E_FILE. */
sg_status sg_eval_log_open(sg_eval_log *l, const char *folder, const sg_rank *r, sg_error *e) SG_MUST_USE;

/* Returns what every line begins with, or NULL where there is no memory. */
json_t *sg_eval_line(const char *arm, int arm_index, int prompt, int clip, const char *status, const char *text);

/* Takes the line of a clip, writes it and flushes it to the disk. After SG_E_FILE none of it is written. Returns
 * SG_E_MEMORY also where line is NULL. */
sg_status sg_eval_log_add(sg_eval_log *l, json_t *line, sg_error *e) SG_MUST_USE;

uint8_t *sg_eval_log_state(const sg_eval_log *l, int prompt, int clip, int arm);

/* Tells whether all arms have done this clip. */
bool   sg_eval_log_done(const sg_eval_log *l, int prompt, int clip);
size_t sg_eval_log_count(const sg_eval_log *l, sg_eval_state s);
void   sg_eval_log_close(sg_eval_log *l);

#endif
