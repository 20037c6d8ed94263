/* option_rules.h - rules on option values beyond their type, and on combinations of options. */
#ifndef SG_OPTION_RULES_H
#define SG_OPTION_RULES_H

#include "options.h"

/* Returns SG_E_ARG for options that exclude each other, and for options that others make ineffective. */
sg_status sg_options_check(const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Returns SG_E_ARG where an option that was asked for has no effect by values that are known only from the model. */
sg_status sg_options_check_effects(const sg_settings *asked, const sg_settings *resolved, sg_error *e) SG_MUST_USE;

/* Unsets the options of these phases that do nothing in s, which is resolved. */
void sg_settings_drop_idle(sg_settings *s, unsigned phases);

/* Lists the options that do something with --slg-scale only; NULL-ended. */
extern const char *const sg_options_of_slg[];

/* The name of such a file has to end in it. */
#define SG_SAFETENSORS ".safetensors"

/* Splits "4:6:qkv.safetensors" of --capture-qkv; *file points into text. */
bool sg_options_capture(const char *text, int *layer, int *step, const char **file);

#endif
