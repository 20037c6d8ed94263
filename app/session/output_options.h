/* output_options.h - what the command writes: "-" is stdout, and members of a clip go by the names of options. */
#ifndef SG_OUTPUT_OPTIONS_H
#define SG_OUTPUT_OPTIONS_H

#include "base/output_file.h"
#include "spargegen/spargegen.h"

/* Opens path as sg_output_file_open does; "-" is stdout. */
sg_status sg_output_options_open(sg_output_file **out, const char *path, sg_error *e) SG_MUST_USE;

/* Does what sg_clip_of does; "-" is stdout. */
void sg_output_options_clip(sg_clip *clip, const sg_request *r, const char *path);

/* Names the option in a failure that a writer has just filled e with, where that begins with a member of its clip.
 * Returns status. */
sg_status sg_output_options_name(sg_error *e, sg_status status);

#endif
