/* compare.h - `sparge-gen compare --prompt`: each arm renders from the same noise, and one folder shows them: a clip of
 * each arm, side.mp4, frames.png, report.json, report.html; image.png and last-image.png where the clips begin and end
 * with a picture. */
#ifndef SG_COMPARE_H
#define SG_COMPARE_H

#include "arm_run.h"
#include "collage.h"

#include <limits.h>

/* This is a clip or a picture of the folder on its way. name is within the folder; clip borrows path and settings from
 * here. picture is what it shows, or NULL where it shows frames of arms. */
typedef struct sg_compare_file {
    char            name[SG_ARM_NAME + 8];
    char            path[PATH_MAX];
    sg_clip         clip;
    const sg_image *picture;
    char           *settings;
    sg_writer      *writer;
} sg_compare_file;

#define SG_COMPARE_REPORT "report.json"

/* plan is that of the arm that needs most. repeat is how many rounds were asked for, or 0. settings are what all arms
 * have, arm_settings what an arm has. These and folder are owned. made says that the folder was created here, and
 * is removed unless something is in it. begun says that it keeps what is finished, the times since kept_at, and unkept
 * that it cannot. file has the clips of the arms first; side, sheet and picture point into it, and are
 * NULL where there is none. rgb has each arm's frames, of which the collage is made. same is a
 * list of {a, b: names of arms that ran the same, why}; it is owned. */
typedef struct sg_comparison {
    sg_arm_run       run;
    sg_plan          plan;
    int              repeat;
    json_t          *settings, *arm_settings[SG_ARMS_MAX];
    char            *folder;
    bool             made, begun, unkept;
    double           kept_at;
    int              files;
    sg_compare_file  file[SG_ARMS_MAX + 2 + SG_IMAGES];
    sg_compare_file *side, *sheet, *picture[SG_IMAGES];
    const uint8_t   *rgb[SG_ARMS_MAX];
    sg_collage       collage;
    json_t          *same;
} sg_comparison;

/* Writes a clip of each arm, side.mp4, frames.png, report.json (report_arms.h) and report.html into s->output, all at
 * the end. Returns SG_E_ARG, before any heavy work, if two arms would run the same kernels throughout, and
 * SG_E_MISMATCH, after all files are written, if two arms turn out to have done so. */
sg_status sg_compare_arms(const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Chooses and checks all names. c has request and arms; it gets the folder, the files and the collage. Where folder is
 * NULL its name is "compare-" and the seed. Returns SG_E_ARG or SG_E_FILE. */
sg_status sg_compare_files_name(sg_comparison *c, const char *folder, sg_error *e) SG_MUST_USE;

/* Returns SG_E_ARG if the folder is there and not that of a comparison, finished or not. */
sg_status sg_compare_state_check(const char *folder, sg_error *e) SG_MUST_USE;

/* Returns the seed of the unfinished comparison in a folder, or -1. */
int64_t sg_compare_state_seed(const char *folder);

/* Finds out whether the folder has an unfinished comparison, which is to go on. Returns SG_E_ARG if it is one by other
 * settings, SG_E_FORMAT or SG_E_MEMORY. */
sg_status sg_compare_state_open(sg_comparison *c, sg_error *e) SG_MUST_USE;

/* Takes up the arms and the times that are there; what is damaged is rendered again. An arm that is there has a first
 * total; all have the number of whole rounds. */
void sg_compare_state_load(sg_comparison *c);

/* Keeps what this arm has just rendered; of short rounds the times of some a second. */
void sg_compare_state_keep(sg_comparison *c, int arm);

/* Removes all that was kept. */
void sg_compare_state_remove(sg_comparison *c);

/* Returns the memory that writing takes. */
size_t sg_compare_files_bytes(const sg_comparison *c);

/* Writes everything into the folder, which is there, and the report to json as well unless that is NULL. All files are
 * whole before the first of them takes its name. */
sg_status sg_compare_files_write(sg_comparison *c, const char *json, sg_error *e) SG_MUST_USE;

/* Removes the folder if it was made and not filled. c may be zero. */
void sg_compare_files_close(sg_comparison *c);

#endif
