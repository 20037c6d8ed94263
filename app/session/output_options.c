/* output_options.c - see output_options.h. */
#include "output_options.h"
#include "option_names.h"

#include <unistd.h>

#define STDOUT "stdout" /* in messages */

sg_status sg_output_options_open(sg_output_file **out, const char *path, sg_error *e)
{
    return sg_output_is_stdout(path) ? sg_output_file_open_descriptor(out, STDOUT_FILENO, STDOUT, e)
                                     : sg_output_file_open(out, path, e);
}

void sg_output_options_clip(sg_clip *clip, const sg_request *r, const char *path)
{
    sg_clip_of(clip, r, path);
    if (!sg_output_is_stdout(path)) return;
    clip->path = STDOUT;
    clip->has_descriptor = true;
    clip->descriptor = STDOUT_FILENO;
}

sg_status sg_output_options_name(sg_error *e, sg_status status)
{
    if (status != SG_OK) sg_option_names_first(e, SG_COMMAND_RENDER);
    return status;
}
