/* language_run.h - `sparge-gen language`: what its files share. An item is a text that every arm reads, one after the other: it
 * is scored by likelihoods, by places whose tokens have to be the likeliest, or by an answer to it. */
#ifndef SG_LANGUAGE_RUN_H
#define SG_LANGUAGE_RUN_H

#include "answer_score.h"
#include "arms.h"
#include "language.h"
#include "line_log.h"
#include "progress.h"
#include "resolve.h"

#include <jansson.h>

enum { SG_ITEM_GROUP = 80, SG_ITEM_LIST = 64, SG_LANGUAGE_LENGTHS = 64, SG_LANGUAGE_LINE_VERSION = 1 };

typedef enum sg_item_kind { SG_ITEM_TEXT, SG_ITEM_ASKED, SG_ITEM_ANSWER } sg_item_kind;

/* ids, [n], are the tokens that are read; owned. Of a text, tokens from `from` on are scored. asked, [asked_count], are places in
 * ids; owned. An answer has at most `most` tokens, of which perhaps only the first line counts, and is scored by metric against the
 * expected. about has what lines say
 * of the item beside figures; it is owned. Strings are the task's. */
typedef struct sg_language_item {
    sg_item_kind     kind;
    char             group[SG_ITEM_GROUP];
    int32_t         *ids;
    int64_t          n, from;
    int64_t         *asked;
    int              asked_count;
    sg_answer_metric metric;
    int              most;
    bool             first_line;
    const char      *expected[SG_ITEM_LIST], *choices[SG_ITEM_LIST];
    int              expected_count, choice_count;
    json_t          *about;
} sg_language_item;

typedef struct sg_language_task sg_language_task;

/* settings are the command's; the policy of arm i is that of rendering[i].request. hash is of what the task reads. text is a
 * file's or a folder's, ids [n] its tokens, rows the objects of a .jsonl; all are owned. tokens is the room that the task asks
 * for; capped: less would do. line is [items][arms], what results.jsonl has; NULL: nothing yet. made items were read since start. */
typedef struct sg_language_run {
    const sg_settings      *settings;
    const sg_language_task *task;
    sg_progress             progress;
    sg_arms                 arms;
    sg_rendering            rendering[SG_ARMS_MAX];
    sg_language            *model;
    sg_language_info        info;
    uint64_t                hash;
    char                   *text;
    size_t                  bytes;
    int32_t                *ids;
    int64_t                 n;
    json_t                 *rows;
    double                  length[SG_LANGUAGE_LENGTHS], depth[SG_LANGUAGE_LENGTHS];
    int                     lengths, depths;
    int64_t                 tokens;
    bool                    capped;
    int                     items;
    json_t                **line;
    char                   *folder;
    sg_line_log             log;
    double                  start;
    int                     made;
} sg_language_run;

/* read takes what is asked for, before the model is open, and sets tokens, capped and hash. count sets items, by the model's
 * tokenizer. make makes item i, which the caller frees, after a failure too. */
struct sg_language_task {
    const char *name;
    bool        file;     /* it has one for an operand */
    const char *takes[8]; /* the options that not all tasks have */
    sg_status (*read)(sg_language_run *r, sg_error *e);
    sg_status (*count)(sg_language_run *r, sg_error *e);
    sg_status (*make)(sg_language_run *r, int i, sg_language_item *out, sg_error *e);
};

/* The tasks; the name of the last is NULL. That of a .jsonl file has its ending for a name; prefill has no items. */
extern const sg_language_task sg_language_tasks[];

void sg_language_item_free(sg_language_item *item);

/* Opens arms and, with room for r->tokens, the model. */
sg_status sg_language_run_open(sg_language_run *r, sg_error *e) SG_MUST_USE;
void      sg_language_run_close(sg_language_run *r);

/* Reads item i with every arm, and takes its lines. Returns SG_E_CANCELLED on an interrupt. */
sg_status sg_language_item_run(sg_language_run *r, int i, sg_error *e) SG_MUST_USE;

/* Attends by arm a from now on, to a new sequence. */
sg_status sg_language_arm(sg_language_run *r, int a, sg_error *e) SG_MUST_USE;

/* Returns the share of the visible pairs of blocks that were computed since then; NAN: no memory. */
double sg_language_density(const sg_language_run *r);

/* ---- results (language_results.c) ---- */

/* Checks a line of results.jsonl, which it takes, and keeps it at its place. Returns SG_E_FORMAT, which names the member. */
sg_status sg_language_line_take(sg_language_run *r, json_t *line, sg_error *e) SG_MUST_USE;

/* Makes the summary {arms, groups, figures, rows} of the lines; NULL: no memory. */
json_t *sg_language_summary(const sg_language_run *r);

/* Prints it as tables, one for each group. */
void sg_language_print(const json_t *summary);

/* ---- prefill (language_prefill.c) ---- */

/* Measures how long each arm takes to read random tokens, of each of --lengths, and to make the logits behind them. */
sg_status sg_language_prefill(sg_language_run *r, sg_error *e) SG_MUST_USE;

#endif
