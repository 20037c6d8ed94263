/* output_options.c - see output_options.h. */
#include "output_options.h"

#include <stdio.h>
#include <string.h>
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
    static const char *const names[][2] = {{"path", "--output"}, {"crf", "--crf"}, {"png_level", "--png-level"}};
    for (size_t i = 0; status != SG_OK && i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i][0]);
        if (strncmp(e->text, names[i][0], n) != 0 || (e->text[n] != ':' && e->text[n] != ' ')) continue;
        const sg_error member = *e;
        snprintf(e->text, sizeof e->text, "%s%.4000s", names[i][1], member.text + n);
        break;
    }
    return status;
}
