/* option_table.h - every option of every command, as data. */
#ifndef SG_OPTION_TABLE_H
#define SG_OPTION_TABLE_H

#include "options.h"

typedef enum sg_option_kind {
    SG_OPTION_HEADING, /* a heading in help for the options that follow */
    SG_OPTION_FLAG,    /* bool */
    SG_OPTION_TEXT,    /* const char * */
    SG_OPTION_LIST,    /* sg_text_list: may be given several times */
    SG_OPTION_CHOICE,  /* const char *, one of choices */
    SG_OPTION_INT,     /* int in [lo, hi] */
    SG_OPTION_INT64,   /* int64_t */
    SG_OPTION_REAL,    /* double in [lo, hi] */
    SG_OPTION_SIZE,    /* int[2] in [lo, hi]: 832x480 or 832*480 */
    SG_OPTION_BYTES    /* size_t: 8G, 512M, 1.5GiB */
} sg_option_kind;

/* A phase says what an option decides, as a bit. An arm may set RENDER, which is SAMPLING and ATTENTION; INPUT is equal
 * in all arms. The manifest of eval keeps LOAD, INPUT and RENDER, the metadata of a clip OUTPUT as well. */
typedef enum sg_option_phase {
    SG_OPTION_RUN = 0,       /* how the command works; nothing of it is kept */
    SG_OPTION_LOAD = 1,      /* the model, and what computes it: bits may depend on all of it */
    SG_OPTION_INPUT = 2,     /* prompt, pictures, size, frames, seed */
    SG_OPTION_SAMPLING = 4,  /* steps, guidance, sampler, decoder */
    SG_OPTION_ATTENTION = 8, /* the policy of self-attention */
    SG_OPTION_OUTPUT = 16,   /* what is made of the frames */
    SG_OPTION_RENDER = SG_OPTION_SAMPLING | SG_OPTION_ATTENTION,
    SG_OPTION_KEPT = SG_OPTION_LOAD | SG_OPTION_INPUT | SG_OPTION_RENDER | SG_OPTION_OUTPUT
} sg_option_phase;

/* These bits say how an option's text names a file. FRAMES is a file or the pictures of a folder, MODEL a file or those
 * of a model's folder, CAPTURE has the form LAYER:STEP:FILE. What has SG_READS and SG_WRITES is read if it is there. */
enum {
    SG_READS = 1,
    SG_READS_FRAMES = 2,
    SG_READS_MODEL = 4,
    SG_READS_ANY = SG_READS | SG_READS_FRAMES | SG_READS_MODEL,
    SG_WRITES = 8,
    SG_WRITES_CAPTURE = 16
};

typedef struct sg_option {
    const char    *name;     /* without dashes */
    const char    *alias[4]; /* names that other programs have for it; NULL-ended */
    char           letter;   /* 0: none */
    bool           usual;    /* the short help of a render has it */
    sg_option_kind kind;
    unsigned       commands; /* bits of sg_command */
    /* offset is the value's place in sg_settings, and hash that of its file's hash, or 0. request is the place in
     * sg_request of what the option sets, and request_size the size of that, or 0 where there is none, or several: as
     * in sg_settings, but for a REAL a double or a float, which stands for the shortest decimal number that is read as
     * it, and for a CHOICE its place, an int or an enum, or a bool. */
    size_t          offset, hash, request, request_size;
    sg_option_phase phase;
    /* An int of 0, or of -1 where lo is 0, and a NAN are not given. */
    double             lo, hi;
    const char *const *choices; /* or, of the library's: */
    const char        *names;   /* of sg_names */
    unsigned           files;
    /* Help shows value in the place of the value, and help in lines parted by \n of at most 90 characters. */
    const char *value, *help;
    /* Returns more such lines in text, for what is known only when help is asked for. May be NULL. */
    const char *(*more)(char *text, size_t size);
} sg_option;

extern const sg_option sg_option_table[];
extern const int       sg_option_count;

/* Returns what a CHOICE takes, NULL behind the last; of others NULL. */
const char *const *sg_option_choices(const sg_option *o);

/* Returns the next option of command c from row *i on and puts *i behind it; NULL: there are no more. */
const sg_option *sg_option_next(sg_command c, int *i);

/* Returns the option of command c whose name or alias the first n bytes of name are, or NULL. An underscore in name is
 * read as a hyphen. */
const sg_option *sg_option_find(const char *name, size_t n, sg_command c);

#endif
