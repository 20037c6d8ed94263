/* option_rules.h - what option values have to be beyond their type, and what options mean together. */
#ifndef SG_OPTION_RULES_H
#define SG_OPTION_RULES_H

#include "options.h"

/* Refuses options that exclude each other, and those that others leave without effect. SG_E_ARG. */
sg_status sg_options_check(const sg_settings *s, sg_error *e) SG_MUST_USE;

#define SG_SAFETENSORS ".safetensors" /* what the name of such a file has to end in */

/* Splits "4:6:qkv.safetensors" of --capture-qkv; *file points into text. */
bool sg_options_capture(const char *text, int *layer, int *step, const char **file);

#endif
