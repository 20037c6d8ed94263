/* shell_completion.h - completion of the command line in shells, written from the tables of commands and options. */
#ifndef SG_SHELL_COMPLETION_H
#define SG_SHELL_COMPLETION_H

#include <stdio.h>

/* Users source the text for bash, or put it into bash-completion's folder as sparge-gen. That for zsh goes into a
 * folder of fpath as _sparge-gen. */
void sg_completion_bash(FILE *out);
void sg_completion_zsh(FILE *out);

#endif
