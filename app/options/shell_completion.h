/* shell_completion.h - completion of the command line in shells, written from the tables of commands and options. */
#ifndef SG_SHELL_COMPLETION_H
#define SG_SHELL_COMPLETION_H

#include <stdio.h>

void sg_completion_bash(FILE *out); /* to be sourced, or put into bash-completion's folder as sparge-gen */
void sg_completion_zsh(FILE *out);  /* to be put into a folder of fpath as _sparge-gen */

#endif
