/* report.h - JSON for machines: the settings of a clip (kept in the file itself), and the report of a render. */
#ifndef SG_REPORT_H
#define SG_REPORT_H

#include "engine.h"
#include "picture.h"
#include "setup.h"
#include "video_input.h"

#include <jansson.h>

/* The settings needed to render the same clip again. note is that of the latents that r decodes, or NULL. The caller
 * owns *out. SG_E_MEMORY. */
sg_status sg_report_settings(json_t **out, const sg_request *r, const char *note, const sg_model_path *model,
                             const sg_model_info *info, sg_error *e) SG_MUST_USE;

/* The files that p and v were read from, by their names and hashes, how they are fitted, and with how much strength r starts
 * from one; nothing without them. */
sg_status sg_report_add_inputs(json_t *settings, const sg_pictures *p, const sg_video_input *v, const sg_request *r,
                               sg_error *e) SG_MUST_USE;

/* As one line of text, the caller's to free. */
sg_status sg_report_text(char **out, const json_t *settings, sg_error *e) SG_MUST_USE;

enum { SG_SIGMAS_TEXT = SG_SIGMAS_MAX * 24 };

/* As --sigmas has them. Returns text. */
const char *sg_report_sigmas(char *text, size_t size, const sg_sigmas *s);

/* A file's name as JSON, which is UTF-8: of other names only ASCII is kept. NULL: no memory. */
json_t *sg_report_name(const char *name);

/* Returns j if it is complete; otherwise drops j and returns NULL. */
json_t *sg_report_if_complete(json_t *j, bool whole);

/* [step, ...], from 0: those that the cache skipped. */
json_t *sg_report_skipped_steps(const sg_report *r);

/* JSON has no infinity and no NaN: null. */
json_t *sg_report_number(double v);

sg_status sg_report_plan(json_t **out, const sg_plan *p, sg_error *e) SG_MUST_USE;

/* Writes j as text to path; "-" is stdout. */
sg_status sg_report_save(const char *path, const json_t *j, sg_error *e) SG_MUST_USE;

/* Writes the report of a render to path in the same way. settings stays the caller's; takes attention, which may be
 * NULL. */
sg_status sg_report_write(const char *path, json_t *settings, const char *clip, const sg_report *r, json_t *attention,
                          sg_error *e) SG_MUST_USE;

#endif
