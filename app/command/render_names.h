/* render_names.h - the files of a render. Clips of a prompt file and of --batch are numbered, even if it is one. */
#ifndef SG_RENDER_NAMES_H
#define SG_RENDER_NAMES_H

#include "options.h"

/* A render of clips, each of so many frames; 0: that is not known yet. output is the name before numbers, and usual the
 * one that it would have by default; NULL: it was asked for. The caller frees output. */
typedef struct sg_render_names {
    int         clips, frames;
    bool        numbered;
    const char *usual;
    char       *output;
} sg_render_names;

/* Chooses output. Where none was asked for, the next is taken by which no clip replaces a file that is there. */
sg_status sg_render_names_choose(sg_render_names *n, const sg_settings *s, int frames, sg_error *e) SG_MUST_USE;

/* Checks all names, without and with numbers: none takes another's place. SG_E_ARG, SG_E_FILE. */
sg_status sg_render_names_check(const sg_render_names *n, const sg_settings *s, bool decode_only,
                                sg_error *e) SG_MUST_USE;

/* Returns what path becomes for a clip, from 0. The caller frees; NULL: no memory, or no path. */
char *sg_render_name(const sg_render_names *n, const char *path, int i);

/* Does the same for a report; but a device or a pipe takes those of all clips, as stdout does, one after the other. */
char *sg_render_report_name(const sg_render_names *n, const char *path, int i);

#endif
