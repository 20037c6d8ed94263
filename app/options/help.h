/* help.h - what the program says about its command line, written from option_table.h and command_table.h. */
#ifndef SG_HELP_H
#define SG_HELP_H

#include "options.h"

#include <stdio.h>

/* Prints what topic names: "all", every option of a render; "man", the manual page as roff; "bash" or "zsh", completion
 * for that shell; a word, what sg_help_word finds; NULL, the help of command c, where a render shows the options that
 * are used most. */
void sg_help(FILE *out, sg_command c, const char *topic);

/* Finds commands whose line has the word, and the section of a render's options whose heading has it, or else the
 * options of this name. Returns whether there are any; prints them unless out is NULL. */
bool sg_help_word(FILE *out, const char *word);

#endif
