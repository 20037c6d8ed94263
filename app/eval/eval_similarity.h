/* eval_similarity.h - the scores of an evaluation by CLIP: clip_similarity.h, of the clips' files, that is after compression.
 * They are made when the clips are there, and without the model, so that its memory is free: of clips that were made before,
 * too. */
#ifndef SG_EVAL_SIMILARITY_H
#define SG_EVAL_SIMILARITY_H

#include "eval.h"

/* Opens the folder of --clip and closes it again. *out, the caller's, is what the manifest has of it: {name, hash}. */
sg_status sg_eval_similarity_check(json_t **out, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* What came of scoring. */
typedef struct sg_eval_scored {
    int      scored, failed; /* of this rank's clips */
    int      left;           /* of other ranks' clips, that are not scored yet */
    sg_error first;          /* why the first failed */
} sg_eval_scored;

/* Scores the clips of the rank that are done and have no scores, a line each; v's log is open for writing. A file that cannot
 * be read is told and counted, and is no failure; SG_E_CANCELLED, SG_E_FILE of the log, SG_E_MEMORY and SG_E_DEVICE are. */
sg_status sg_eval_similarity_make(sg_eval *v, sg_eval_scored *out, sg_error *e) SG_MUST_USE;

/* SG_E_FORMAT if some failed. */
sg_status sg_eval_similarity_status(const sg_eval *v, const sg_eval_scored *s, sg_error *e) SG_MUST_USE;

/* sparge-gen eval --merge DIR --clip CLIP: scores what is there, in a folder with a manifest, and writes the report. v is as
 * sg_eval_open takes it. */
sg_status sg_eval_similarity_merge(sg_eval *v, sg_error *e) SG_MUST_USE;

#endif
