/* command_table.h - every command, as data: the parser, the help, the man page and the shells' completions read it. */
#ifndef SG_COMMAND_TABLE_H
#define SG_COMMAND_TABLE_H

#include "command.h"

enum { SG_USAGES_MAX = 2 };

typedef struct sg_command_row {
    sg_command      command;
    sg_command_run *run;
    const char     *name;                  /* "compare", "bench step"; "" for a render */
    const char     *usage[SG_USAGES_MAX];  /* what follows the program's name, one for each form */
    const char     *effect[SG_USAGES_MAX]; /* what each form does, one line */
    const char     *text;                  /* what else to know, lines parted by \n; may be NULL */
    const char     *example[2];            /* whole command lines; may be NULL */
} sg_command_row;

extern const sg_command_row sg_command_table[]; /* a render first */
extern const int            sg_command_count;

/* The row of c, which is one bit. */
const sg_command_row *sg_command_row_of(sg_command c);

/* First words of commands, NULL-ended: "info" .. "bench", without a render. */
extern const char *const sg_command_words[];

#endif
