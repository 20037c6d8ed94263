/* file_options.h - the files that options name. The option table says which are read and which are written. */
#ifndef SG_FILE_OPTIONS_H
#define SG_FILE_OPTIONS_H

#include "options.h"

/* From now on no output takes the place of what s's command reads: files of options, arms and operands, the model's own
 * and the thresholds beside it, unless the command is tune, which writes these. What is not there is let be. Then
 * checks that what is to be written can be, each under its option's name: SG_E_FILE, SG_E_ARG. Those who choose a
 * clip's name or an output folder check it. */
sg_status sg_file_options_check(const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Protects a video, which is a file or the pictures of a folder; `what` reads it. */
sg_status sg_file_options_protect_frames(const char *path, const char *what, sg_error *e) SG_MUST_USE;

#endif
