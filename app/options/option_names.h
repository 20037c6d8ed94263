/* option_names.h - the library's failures name its members; the command's name its options. */
#ifndef SG_OPTION_NAMES_H
#define SG_OPTION_NAMES_H

#include "options.h"

/* Puts the option of command c, "--clip-vision", in the place of the member that e begins with: "clip_vision: " or
 * "clip_vision has ". */
void sg_option_names_first(sg_error *e, sg_command c);

/* Does this with an SG_E_ARG, and puts "--clip-vision FILE" in the place of each "clip_vision=FILE", where what stands for
 * the value is as in the option's help. What files and users named is of other forms. */
void sg_option_names(sg_error *e, sg_command c);

#endif
