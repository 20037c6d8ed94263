/* compare_files.h - the folder that `compare` fills: a clip of each arm, side.mp4, frames.png, report.json, report.html;
 * image.png and last-image.png where the clips begin and end with a picture. */
#ifndef SG_COMPARE_FILES_H
#define SG_COMPARE_FILES_H

#include "report_arms.h"

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
