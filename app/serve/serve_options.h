/* serve_options.h - what a job may ask for, as JSON: the options of a render that are its input or say how it is
 * rendered, except those that name files. A member is an option's name with underscores, or an alias. Others are
 *
 *   model                  a name of --models
 *   lora, high_noise_lora  names of --loras, [NAME or NAME:STRENGTH, ...]
 *   output_format          "mp4", ...; the default is MP4 for a clip, PNG for an image */
#ifndef SG_SERVE_OPTIONS_H
#define SG_SERVE_OPTIONS_H

#include "option_table.h"

#include <jansson.h>

/* The files that may be uploaded with a job, which are no members. */
enum { SG_JOB_IMAGE, SG_JOB_LAST_IMAGE, SG_JOB_VIDEO, SG_JOB_INPUTS };

/* Their names; NULL-ended. */
extern const char *const sg_job_inputs[];

/* Tells whether a job may have this option. */
bool sg_serve_option_allowed(const sg_option *o);

/* Sets the members of object in s, settings of a render, which borrow its strings. model and LoRAs become names, not
 * paths. output becomes the name of the result's file, or stays NULL for the usual one. form: all values are strings.
 * SG_E_ARG names the member. */
sg_status sg_serve_options_read(sg_settings *s, const json_t *object, bool form, sg_error *e) SG_MUST_USE;

/* Returns the members of s that are options. */
json_t *sg_serve_options_json(const sg_settings *s);

/* Returns [{name, kind, lo, hi, choices, help, default}, ...]; what an option lacks is left out. defaults are the
 * resolved settings of a render. */
json_t *sg_serve_options_list(const sg_settings *defaults);

/* Makes a failure's text name members as JSON has them: "--cfg-scale" becomes "cfg_scale". */
void sg_serve_options_spell(sg_error *e);

/* Removes a path of the server, which is not a client's to know, from a failure's text: "image: PATH: no picture"
 * becomes "image: no picture". path may be NULL. */
void sg_serve_options_hide(sg_error *e, const char *path);

#endif
