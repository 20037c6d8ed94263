/* help.h - what the program says about its command line, written from option_table.h and command_table.h. */
#ifndef SG_HELP_H
#define SG_HELP_H

#include "options.h"

#include <stdio.h>

/* topic NULL: the help of command c, of a render the options that are used most. "all": every option of a render. "man":
 * the manual page, roff. "bash", "zsh": completion for these shells. */
void sg_help(FILE *out, sg_command c, const char *topic);

#endif
