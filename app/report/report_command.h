/* report_command.h - settings as the command that makes the same again, to paste into a shell. */
#ifndef SG_REPORT_COMMAND_H
#define SG_REPORT_COMMAND_H

#include <jansson.h>
#include <stdio.h>

/* text with the control characters that could steer a terminal as \n, \t or \xNN, and those of `more` behind a backslash. */
void sg_command_escaped(FILE *f, const char *text, const char *more);

/* A word for a shell: as it is, 'in quotes', or $'escaped' where control characters make it necessary. */
void sg_command_word(FILE *f, const char *word);

/* A value for a reader: a string escaped, all others as JSON has them. */
void sg_command_value(FILE *f, const json_t *v);

/* The settings (report.h) that are options of the same meaning, " --name value" for each. Options that would have no effect
 * are left out. */
void sg_command_options(FILE *f, const json_t *settings);

#endif
