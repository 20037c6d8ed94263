/* eval_files.h - file names in an evaluation's folder, and what a unit keeps there until it is done.
 *
 *   ARM/NAME-INDEX.mp4          a clip (.y4m in a build without FFmpeg)
 *   frames/ARM/NAME-INDEX.png   a few of its frames
 *   image, last_image           eval_pictures.h
 *   .frames-PROMPT-CLIP-ARM     all frames of an arm, uncompressed, and its line as far as it is known: they wait for
 *                               the first arm's, to be compared with, and the first arm's for all others */
#ifndef SG_EVAL_FILES_H
#define SG_EVAL_FILES_H

#include "eval.h"

#include <limits.h>

/* A name within the folder has fewer bytes. */
enum { SG_EVAL_NAME_BYTES = SG_ARM_NAME + SG_CLIP_NAME + 64 };

/* Returns SG_E_ARG if an arm's folder would have another file's name. */
sg_status sg_eval_files_check(const sg_eval *v, sg_error *e) SG_MUST_USE;

/* These write full paths. They return the name within the evaluation's folder, which is the end of path. */
const char *sg_eval_clip_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm);
const char *sg_eval_picture_path(char path[PATH_MAX], const sg_eval *v, int prompt, int clip, int arm);

/* Does the same for the picture that an entry's clips begin or end with. */
const char *sg_eval_image_path(char path[PATH_MAX], const sg_eval *v, int prompt, int image);

/* Creates the folders of all arms, and those of the entries' pictures. Returns SG_E_FILE. */
sg_status sg_eval_folders_make(const sg_eval *v, sg_error *e) SG_MUST_USE;

/* Removes files that a killed run left, of units that this rank renders or that are done: temporary files of clips, and
 * frames. */
void sg_eval_files_clean(const sg_eval *v);

/* Writes the frames of a unit by an arm, which have r's size, and its line. Returns SG_E_FILE. */
sg_status sg_eval_frames_save(const sg_eval *v, int prompt, int clip, int arm, const sg_request *r, uint8_t *rgb,
                              char *line, sg_error *e) SG_MUST_USE;

/* Reads them. *line, which the caller frees, may not be wanted: NULL. Returns SG_E_FILE when they are not there,
 * SG_E_FORMAT when they are of another size, or damaged, or SG_E_MEMORY. */
sg_status sg_eval_frames_load(const sg_eval *v, int prompt, int clip, int arm, const sg_request *r, uint8_t *rgb,
                              char **line, sg_error *e) SG_MUST_USE;

/* Removes them. */
void sg_eval_frames_remove(const sg_eval *v, int prompt, int clip, int arm);

#endif
