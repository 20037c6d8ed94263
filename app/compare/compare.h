/* compare.h - `sparge-gen compare --prompt`: each arm renders from the same noise, and one folder shows them: a clip of each
 * arm, side.mp4, frames.png, report.json, report.html; image.png and last-image.png where the clips begin and end with a
 * picture. */
#ifndef SG_COMPARE_H
#define SG_COMPARE_H

#include "arm_run.h"
#include "collage.h"

#include <limits.h>

typedef struct sg_same_kernel {
    int  a, b; /* places of arms */
    char why[512];
} sg_same_kernel;

/* A clip or a picture of the folder on its way. */
typedef struct sg_compare_file {
    char            name[SG_ARM_NAME + 8]; /* in the folder */
    char            path[PATH_MAX];
    sg_clip         clip;     /* path and settings are those here */
    const sg_image *picture;  /* what it shows; NULL: frames of arms */
    char           *settings; /* owned */
    sg_sink        *sink;
} sg_compare_file;

typedef struct sg_comparison {
    sg_arm_run       run;
    sg_plan          plan;     /* of the arm that needs most */
    json_t          *settings; /* of all arms; owned, as the next are */
    json_t          *arm_settings[SG_ARMS_MAX];
    json_t          *attention[SG_ARMS_MAX]; /* sg_report_attention of the first round */
    char            *folder;
    bool             made; /* the folder was created, and is removed unless it is filled */
    int              files;
    sg_compare_file  file[SG_ARMS_MAX + 2 + SG_IMAGES]; /* the arms' come first */
    sg_compare_file *side, *sheet, *picture[SG_IMAGES]; /* those of file; NULL: there is none */
    const uint8_t   *rgb[SG_ARMS_MAX];                  /* frames of an arm */
    sg_collage       collage;                           /* of these */
    int              same_count;
    sg_same_kernel   same[SG_ARMS_MAX * (SG_ARMS_MAX - 1) / 2];
} sg_comparison;

/* Writes a clip of each arm, side.mp4, frames.png, report.json (report_arms.h) and report.html into s->output, all at the
 * end. SG_E_ARG, before any heavy work, if two arms would run the same kernels throughout. SG_E_MISMATCH, after all
 * files are written, if two arms turn out to have done so. */
sg_status sg_compare_arms(const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Chooses and checks all names. c has request and arms; it gets the folder, the files and the collage. folder NULL:
 * "compare-" and the seed. SG_E_ARG or SG_E_FILE. */
sg_status sg_compare_files_name(sg_comparison *c, const char *folder, sg_error *e) SG_MUST_USE;

/* Returns the memory that writing takes. */
size_t sg_compare_files_bytes(const sg_comparison *c);

/* Writes everything into the folder, which is there, and the report to json as well unless that is NULL. All files are
 * whole before the first of them takes its name. */
sg_status sg_compare_files_write(sg_comparison *c, const char *json, sg_error *e) SG_MUST_USE;

/* Removes the folder if it was made and not filled. */
void sg_compare_files_close(sg_comparison *c); /* zero is fine */

#endif
