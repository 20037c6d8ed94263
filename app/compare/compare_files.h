/* compare_files.h - the folder that `compare` fills: a clip of each arm, side.mp4, frames.png, report.json, report.html;
 * image.png and last-image.png where the clips begin and end with a picture. */
#ifndef SG_COMPARE_FILES_H
#define SG_COMPARE_FILES_H

#include "report_arms.h"
#include "sink.h"

#include <limits.h>

/* A file of the folder on its way. */
typedef struct sg_compare_file {
    char     name[SG_ARM_NAME + 8]; /* in the folder */
    char     path[PATH_MAX];
    char    *settings;
    sg_sink *sink;
} sg_compare_file;

typedef struct sg_compare_files {
    char           *folder; /* owned */
    bool            made;   /* created by us, and removed unless it is filled */
    int             count;
    sg_compare_file file[SG_ARMS_MAX + 2 + SG_IMAGES]; /* of the arms, then side, frames, pictures */
} sg_compare_files;

/* Chooses and checks all names. c has request and arms; it gets the names and the sizes of side and sheet. folder NULL:
 * "compare-" and the seed. SG_E_ARG or SG_E_FILE. */
sg_status sg_compare_files_name(sg_compare_files *f, sg_comparison *c, const char *folder, sg_error *e) SG_MUST_USE;

/* Memory that writing takes. */
size_t sg_compare_files_bytes(const sg_compare_files *f, const sg_comparison *c);

/* Creates the folder if it does not exist. */
sg_status sg_compare_files_open(sg_compare_files *f, sg_error *e) SG_MUST_USE;

/* Writes everything, and the report to json as well unless that is NULL. All files are whole before the first of them takes
 * its name. */
sg_status sg_compare_files_write(sg_compare_files *f, const sg_comparison *c, const char *json,
                                 sg_error *e) SG_MUST_USE;

void sg_compare_files_close(sg_compare_files *f); /* zero is fine */

#endif
