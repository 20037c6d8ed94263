/* option_table.h - every option of every command, as data. Read by options.c, option_rules.c and help.c. */
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

/* What an option decides, as bits. An arm may set RENDER, which is SAMPLING and ATTENTION; INPUT is equal in all arms. The
 * manifest of eval keeps LOAD, INPUT and RENDER, the metadata of a clip OUTPUT as well. */
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

/* How sg_request has what an option sets. */
typedef enum sg_request_type {
    SG_AS_NOTHING, /* it has not, or not in one member */
    SG_AS_INT,
    SG_AS_REAL,   /* double */
    SG_AS_FLOAT,  /* float, that stands for the shortest decimal number that is read as it */
    SG_AS_BOOL,   /* of a flag */
    SG_AS_SWITCH, /* bool: whether it is the second choice */
    SG_AS_INDEX,  /* enum: the choice's place */
    SG_AS_TEXT    /* const char *; NULL counts as not given */
} sg_request_type;

/* Whether an option's text names a file. */
enum {
    SG_READS = 1,
    SG_READS_FRAMES = 2, /* or the pictures of a folder */
    SG_READS_MODEL = 4,  /* or those of a model's folder, or of a part's */
    SG_READS_ANY = SG_READS | SG_READS_FRAMES | SG_READS_MODEL,
    SG_WRITES = 8,         /* with SG_READS: unless it is there */
    SG_WRITES_CAPTURE = 16 /* LAYER:STEP:FILE */
};

typedef struct sg_option {
    const char        *name;     /* without dashes */
    const char        *alias[3]; /* names that other programs have for it */
    char               letter;   /* 0: none */
    bool               usual;    /* in the short help of a render */
    sg_option_kind     kind;
    unsigned           commands; /* bits of sg_command */
    size_t             offset;   /* in sg_settings */
    sg_option_phase    phase;
    size_t             request; /* offset in sg_request of what it sets, which has the type `as` */
    sg_request_type    as;
    size_t             hash;   /* offset in sg_settings of the hash of its file; 0: none is kept */
    double             lo, hi; /* an int of 0, or of -1 where lo is 0, and a NAN are not given */
    const char *const *choices;
    unsigned           files; /* what file_options.h goes by */
    const char        *value; /* what help calls the value */
    const char        *help;  /* lines parted by \n, each at most 90 characters */
    /* More such lines, for help that lists what is known only when it is asked for. Returns text. May be NULL. */
    const char *(*more)(char *text, size_t size);
} sg_option;

extern const sg_option sg_option_table[];
extern const int       sg_option_count;

/* The next option of command c from row *i on, and *i behind it; NULL: no more. */
const sg_option *sg_option_next(sg_command c, int *i);

/* The option of command c whose name or alias the first n bytes of name are, or NULL. An underscore in name is read as a
 * hyphen. */
const sg_option *sg_option_find(const char *name, size_t n, sg_command c);

#endif
