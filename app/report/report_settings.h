/* report_settings.h - settings as JSON, which clips keep, and as the command that makes the same again. Both are loops
 * over the option table: a key is an option's name with underscores. A file is {file: its name, hash: of its bytes; of
 * a model, of its tensors; path: the whole one, for the owner's eyes}, or its name alone; a LoRA has its strength too.
 * Beside options there are
 *
 *   program          that made it, with its version
 *   device           what computed it, for people
 *   tuned            {file, hash} of the thresholds beside the model, where attention went by them
 *   cache_threshold  {file, hash, threshold} of those that the step cache went by */
#ifndef SG_REPORT_SETTINGS_H
#define SG_REPORT_SETTINGS_H

#include "option_table.h"
#include "resolve.h"

#include <jansson.h>
#include <stdio.h>

/* Adds the options of these phases to an object, as json_build.h does; paths: a file's whole path, too. */
void sg_settings_put(json_t **j, const sg_settings *s, unsigned phases, bool paths);

/* Adds this option, if s has it. */
void sg_settings_put_option(json_t **j, const sg_settings *s, const sg_option *o, bool paths);

/* Returns the key of an option: "cfg_scale". */
const char *sg_settings_key(char key[48], const sg_option *o);

/* Gives to o the value that v has. Strings are borrowed from v. SG_E_ARG names the option: v is of another type, out of its
 * range or none of its choices. Lists are left to others. */
sg_status sg_settings_get_option(sg_settings *s, const sg_option *o, const json_t *v, sg_error *e) SG_MUST_USE;

/* Returns what `kept` has in phases that are kept, and what a clip keeps beside; NULL when memory runs out. */
json_t *sg_report_settings(const sg_settings *kept, const sg_request *r, const sg_model_info *info, bool paths);

/* Returns the settings of a clip whose latents, r's latents_in, were read and decoded. note is what their file tells of
 * them; NULL: it tells nothing. */
json_t *sg_report_decoding(const sg_settings *kept, const sg_request *r, const char *note, const sg_model_info *info,
                           bool paths);

/* Prints the command of settings, "sparge-gen COMMAND --name value ...", without options that would have no effect.
 * output is for -o, or for --grid where the settings are those of a grid. */
void sg_settings_print(FILE *f, json_t *settings, sg_command command, const char *output);

/* Returns the same as JSON; NULL when memory runs out. */
json_t *sg_settings_command(json_t *settings, sg_command command, const char *output);

/* Makes settings one line of text, the caller's to free. Returns SG_E_MEMORY, also where settings is NULL. */
sg_status sg_report_text(char **out, const json_t *settings, sg_error *e) SG_MUST_USE;

/* Prints text with the control characters that could steer a terminal as \n, \t or \xNN, and those of `more` behind a
 * backslash. */
void sg_print_escaped(FILE *f, const char *text, const char *more);

/* Prints a word for a shell: as it is, 'in quotes', or $'escaped' where control characters make it necessary. */
void sg_print_word(FILE *f, const char *word);

/* Prints a value for a reader: a string escaped, all others as JSON has them. */
void sg_print_value(FILE *f, const json_t *v);

#endif
