/* prompt_reader.h - what the readers of all formats share: records that become prompts, lines that are skipped. It is
 * for prompts/ only.
 *
 * Strings end up in the file's own text: a decoded string is never longer than its source and its quotes, and what is
 * kept is written behind what was read. */
#ifndef SG_PROMPT_READER_H
#define SG_PROMPT_READER_H

#include "prompt_set.h"

typedef enum sg_prompt_field {
    SG_PROMPT_TEXT,
    SG_PROMPT_NEGATIVE,
    SG_PROMPT_SEED,
    SG_PROMPT_SIZE,
    SG_PROMPT_WIDTH,
    SG_PROMPT_HEIGHT,
    SG_PROMPT_FRAMES,
    SG_PROMPT_GROUP,
    SG_PROMPT_IMAGE,
    SG_PROMPT_LAST_IMAGE,
    SG_PROMPT_VIDEO,
    SG_PROMPT_STRENGTH,
    SG_PROMPT_IMAGE_ID,
    SG_PROMPT_FIELDS /* none of these */
} sg_prompt_field;

/* What a field holds. */
typedef enum sg_prompt_kind {
    SG_PROMPT_STRING,
    SG_PROMPT_NAME,  /* of a file */
    SG_PROMPT_ID,    /* a whole number from 0 on */
    SG_PROMPT_COUNT, /* a whole number from 1 on */
    SG_PROMPT_SHARE, /* a number up to 1 */
    SG_PROMPT_PAIR,  /* "832x480" */
    SG_PROMPT_LIST   /* of names */
} sg_prompt_kind;

typedef struct sg_prompt_reader {
    sg_prompt_set           *set;
    const sg_prompt_options *options;
    const char              *file;
    char                    *end;     /* of set->text, where a NUL is */
    char                    *kept;    /* where the next decoded string goes; NULL: strings stay where they are */
    bool                     foreign; /* a set of others, whose other members nobody misspelt */
    size_t                   capacity, member_capacity, members;
} sg_prompt_reader;

/* Holds one prompt while its members come in. */
typedef struct sg_prompt_record {
    sg_prompt   prompt;
    const char *given[SG_PROMPT_FIELDS]; /* the names by which they were given; NULL: not */
    const char *group[SG_PROMPT_GROUPS];
    char        where[48]; /* "line 3" */
    sg_error    why;       /* what is wrong with it */
} sg_prompt_record;

/* Starts a record of this line. entry is its number in a list; 0 where there is none. */
void sg_prompt_record_start(sg_prompt_record *c, int line, size_t entry);

/* Returns the field of this name, or notes in the set that there was another. */
sg_prompt_field sg_prompt_field_of(sg_prompt_reader *r, const char *name);
sg_prompt_kind  sg_prompt_kind_of(sg_prompt_field f);

/* Sets a field. The strings are borrowed until the record is done. Returns SG_E_ARG for a value that is none of this
 * field, and for a second one; `why` says it. */
sg_status sg_prompt_record_set(sg_prompt_record *c, sg_prompt_field f, const char *name, const char *value) SG_MUST_USE;

/* Puts the record into the set if status is SG_OK and it makes sense; otherwise tells or skips it, with its line before
 * `why`. What the readers tell names no file: sg_prompt_set_open does. */
sg_status sg_prompt_record_done(sg_prompt_reader *r, sg_prompt_record *c, sg_status status, sg_error *e) SG_MUST_USE;

/* Returns the line at *at, without its end, and moves *at to the next one or NULL. */
char *sg_prompt_line(char **at);

sg_status sg_prompt_read_jsonl(sg_prompt_reader *r, char *text, sg_error *e) SG_MUST_USE;
sg_status sg_prompt_read_json(sg_prompt_reader *r, char *text, sg_error *e) SG_MUST_USE;
sg_status sg_prompt_read_csv(sg_prompt_reader *r, char *text, sg_error *e) SG_MUST_USE;

#endif
