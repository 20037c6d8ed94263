/* serve_options.h - what a job may ask for, as JSON: the options of a render that are its input or say how it is
 * rendered and that name no file. A member is an option's name with underscores, or an alias. Beside them there are
 *
 *   model                  a name of --models
 *   lora, high_noise_lora  names of --loras, [NAME or NAME:STRENGTH, ...]
 *   output_format          "mp4", ...; a clip is an MP4 unless it says other, an image a PNG */
#ifndef SG_SERVE_OPTIONS_H
#define SG_SERVE_OPTIONS_H

#include "option_table.h"

#include <jansson.h>

/* Files that a job may come with, which are no members: image, last_image, video. */
enum { SG_JOB_IMAGE, SG_JOB_LAST_IMAGE, SG_JOB_VIDEO, SG_JOB_INPUTS };

/* Their names; NULL-ended. */
extern const char *const sg_job_inputs[];

/* Tells whether a job may have this option. */
bool sg_serve_option_allowed(const sg_option *o);

/* Gives to s, which is of a render, what object has; strings are borrowed from it. model and LoRAs are names still;
 * output is the name of the result's file, NULL for the usual. form: all values are strings, as a form has them.
 * SG_E_ARG names the member. */
sg_status sg_serve_options_read(sg_settings *s, const json_t *object, bool form, sg_error *e) SG_MUST_USE;

/* Returns the members of s that are options. */
json_t *sg_serve_options_json(const sg_settings *s);

/* Returns [{name, kind, lo, hi, choices, help, default}, ...]; what an option lacks is left out. defaults is of a
 * render, resolved. */
json_t *sg_serve_options_list(const sg_settings *defaults);

/* Makes a failure's text name members as JSON has them: "--cfg-scale" becomes "cfg_scale". */
void sg_serve_options_spell(sg_error *e);

/* Takes path out of it, which is the server's and says nothing to a client, with a colon behind it: "image: PATH: no
 * picture". path may be NULL. */
void sg_serve_options_hide(sg_error *e, const char *path);

#endif
