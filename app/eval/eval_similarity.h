/* eval_similarity.h - scores an evaluation by CLIP (clip_similarity.h), whose figures are of the clips' files, that is
 * after compression. Clips are scored when all are there, those that were made before too, and without the model, so
 * that its memory is free. */
#ifndef SG_EVAL_SIMILARITY_H
#define SG_EVAL_SIMILARITY_H

#include "eval.h"

/* Opens the folder of --clip and closes it again. *out is what the manifest has of it, {name, hash}, and the
 * caller's. */
sg_status sg_eval_similarity_check(json_t **out, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* scored and failed count this rank's clips, and left those of other ranks that are not scored yet. first is why the
 * first of them failed. */
typedef struct sg_eval_scored {
    int      scored, failed, left;
    sg_error first;
} sg_eval_scored;

/* Scores the clips of the rank that are done and have no scores, and writes a line for each; v's log is open for
 * writing. A file that cannot be read is reported and counted, and is no failure; SG_E_CANCELLED, SG_E_FILE of the log,
 * SG_E_MEMORY and SG_E_DEVICE are. */
sg_status sg_eval_similarity_make(sg_eval *v, sg_eval_scored *out, sg_error *e) SG_MUST_USE;

/* Returns SG_E_FORMAT if some failed. */
sg_status sg_eval_similarity_status(const sg_eval *v, const sg_eval_scored *s, sg_error *e) SG_MUST_USE;

/* Does `sparge-gen eval --merge DIR --clip CLIP`: scores what is there, in a folder with a manifest, and writes the
 * report. v is as sg_eval_open takes it. */
sg_status sg_eval_similarity_merge(sg_eval *v, sg_error *e) SG_MUST_USE;

#endif
