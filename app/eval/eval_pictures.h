/* eval_pictures.h - the pictures that clips of a set begin and end with, and the videos that they are made from: an
 * entry's own, or those of --image, --last-image and --video. All arms and clips of an entry have the same.
 *
 *   where they are   a name stands for a file in --image-folder, or beside the set. With --image-folder an entry that names
 *                    no picture has PROMPT.jpg there: VBench-I2V's layout
 *   in the folder    image/NAME-INDEX.png and last_image/NAME-INDEX.png: an entry's, in the size of its clips, under the name
 *                    of its first clip; nothing of a video */
#ifndef SG_EVAL_PICTURES_H
#define SG_EVAL_PICTURES_H

#include "eval.h"

/* Reads the inputs of entry p, which is to be the set's `prompt`th, notes their hashes, and checks that r's clip can be
 * made with them. Returns SG_E_ARG, SG_E_FILE or SG_E_FORMAT with field, file and reason if not. */
sg_status sg_eval_pictures_check(sg_eval *v, const sg_prompt *p, int prompt, const sg_request *r,
                                 sg_error *e) SG_MUST_USE;

/* Gives the inputs of this entry to r, which borrows them until the next call, and writes the pictures into the folder
 * unless they are there. Returns SG_E_FORMAT where they cannot be read any more or have changed, or SG_E_MEMORY. */
sg_status sg_eval_pictures_take(sg_eval *v, int prompt, sg_request *r, sg_error *e) SG_MUST_USE;

/* Gives to s the pictures and the video of this entry, if they were taken. */
void sg_eval_pictures_note(const sg_eval *v, int prompt, sg_settings *s);

/* Adds to a line of results, which has these pictures, where they are in the folder. */
void sg_eval_pictures_add(const sg_eval *v, int prompt, json_t *line);

#endif
