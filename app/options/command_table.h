/* command_table.h - every command, as data: the parser, the help, the man page and the shells' completions read it. */
#ifndef SG_COMMAND_TABLE_H
#define SG_COMMAND_TABLE_H

#include "options.h"

enum { SG_USAGES_MAX = 2 };

typedef struct sg_command_row {
    sg_command  command;
    const char *name;    /* "compare", "bench step"; "" for a render */
    int         version; /* of its reports; grows when a member changes its meaning or goes. 0: it has none */
    /* Each form of the command has a usage, which follows the program's name, and a line on its effect. */
    const char *usage[SG_USAGES_MAX], *effect[SG_USAGES_MAX];
    /* text says what else to know, in lines parted by \n. Examples are whole command lines. Both may be NULL. */
    const char *text, *example[2];
} sg_command_row;

/* The first row is that of a render. */
extern const sg_command_row sg_command_table[];
extern const int            sg_command_count;

/* Returns the row of c, which is one bit; NULL for others. */
const sg_command_row *sg_command_row_of(sg_command c);

/* Lists the first words of commands, "help" with them; a render has none. NULL-ended. */
extern const char *const sg_command_words[];

#endif
