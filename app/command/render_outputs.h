/* render_outputs.h - the names of what a render writes: of several clips each has its own, and none takes another's place. */
#ifndef SG_RENDER_OUTPUTS_H
#define SG_RENDER_OUTPUTS_H

#include "options.h"

/* With several clips ball.mp4 becomes ball-0001.mp4, ball-0002.mp4, ... The caller frees; NULL: no memory. */
char *sg_output_numbered(const char *path, int index, int count);

/* The same of reports; but stdout, a device or a pipe takes those of all clips, one after the other. */
char *sg_report_numbered(const char *path, int index, int count);

/* Whether output, for so many clips, and what else s has written may all be: SG_E_ARG where two are one file, SG_E_FILE. */
sg_status sg_outputs_check(const sg_settings *s, const char *output, bool saves_latents, int count,
                           sg_error *e) SG_MUST_USE;

#endif
