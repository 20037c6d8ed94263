/* tune_result.h - thresholds of each head that tune finds, of a video, image or language model: how they are looked for, and
 * shown as a table, a file and a report. */
#ifndef SG_TUNE_RESULT_H
#define SG_TUNE_RESULT_H

#include "options.h"
#include "progress.h"
#include "setup.h"
#include "thresholds/thresholds.h"
#include "tune.h"

#include <jansson.h>

/* bound is that of the errors: l1, l2. seconds are those of all that was looked at, looking included. Both are the caller's
 * to set. found and figure, [buckets, layers, heads], are tune's. */
typedef struct sg_tune_result {
    double                bound[2], seconds;
    sg_tune              *tune;
    const sg_thresholds  *found;
    const sg_tune_figure *figure;
} sg_tune_result;

/* Opens r->tune as s says, by policy p, of which it makes what thresholds are for. The caller closes r->tune. */
sg_status sg_tune_result_open(sg_tune_result *r, const sg_settings *s, sg_policy *p, sg_error *e) SG_MUST_USE;

/* Returns what has to see attention. */
sg_attention_watch sg_tune_result_watch(const sg_tune_result *r);

/* Sets found and figure by all that was seen. */
sg_status sg_tune_result_choose(sg_tune_result *r, sg_error *e) SG_MUST_USE;

/* Prints them as a table, and says on p that path has them. */
void sg_tune_result_print(const sg_tune_result *r);
void sg_tune_result_say(const sg_tune_result *r, sg_progress *p, const char *path);

/* Returns their part of the report. */
json_t *sg_tune_result_json(const sg_tune_result *r);

/* Puts them into f, found with policy p; the values stay tune's, and are not f's to free. */
void sg_tune_result_fill(const sg_tune_result *r, const sg_policy *p, sg_thresholds_file *f);

/* Writes f. A file in the usual place is dated, so that the next tune knows it for its own. */
sg_status sg_tune_result_write(sg_thresholds_file *f, const char *path, bool dated, sg_error *e) SG_MUST_USE;

/* Tunes the language model of --model by the text of --text, into path. The bounds are r's. */
sg_status sg_tune_text(sg_tune_result *r, const sg_settings *s, const sg_model_path *model, const char *path,
                       bool dated, sg_error *e) SG_MUST_USE;

#endif
