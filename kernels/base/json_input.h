/* json_input.h - JSON from outside: objects and lists taken apart without a tree, and trees of bounded size. It is for
 * the readers of foreign files only. */
#ifndef SG_JSON_INPUT_H
#define SG_JSON_INPUT_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_member {
    const char *name;  /* decoded */
    const char *value; /* unchecked, except that brackets and quotes are closed: parse it or refuse it */
    size_t      size;  /* of value, bytes */
} sg_member;

typedef struct sg_members {
    sg_member *item; /* sorted by name, each name once */
    size_t     count;
    char      *names; /* all of them; malloc'd, may be taken over */
} sg_members;

/* Takes the JSON object that fills text[size] apart, in O(n log n), with memory in proportion to size. path and what
 * name it in messages. Zero is an empty set; the caller frees, after a failure too. */
sg_status sg_members_read(sg_members *m, const char *text, size_t size, const char *path, const char *what,
                          sg_error *e) SG_MUST_USE;
void      sg_members_free(sg_members *m);

/* Goes through a JSON list, an entry at a time, without a tree and without memory. */
typedef struct sg_items {
    const char *at, *end;
    const char *value;   /* the entry: unchecked, as that of sg_member */
    size_t      size;    /* of value, bytes */
    const char *problem; /* what is malformed; NULL: nothing so far */
    bool        begun;
} sg_items;

/* text[size] is all of the list. sg_items_next returns false behind the last entry, and where there is a problem. */
void sg_items_start(sg_items *l, const char *text, size_t size);
bool sg_items_next(sg_items *l);

struct json_t;

/* Says what is wrong with JSON text, in the words of a message, and where. Lines and columns count from 1, and are 0
 * where no place is to blame. */
typedef struct sg_json_fault {
    int  line, column;
    char text[160];
} sg_json_fault;

/* Parses the JSON that fills text[size]. It may have at most so many values, no zero byte, and each name of an object
 * once. `flags` are more of Jansson's for decoding. Returns SG_E_FORMAT, and *f says why, or SG_E_MEMORY. The caller
 * drops the reference. */
sg_status sg_json_parse(struct json_t **out, const char *text, size_t size, size_t values, size_t flags,
                        sg_json_fault *f) SG_MUST_USE;

/* Parses the JSON object that is all of the file. It may have at most so many bytes, and is otherwise as sg_json_parse
 * has it. */
sg_status sg_json_open(struct json_t **out, const char *path, size_t bytes, size_t values, size_t flags,
                       sg_error *e) SG_MUST_USE;

/* Returns v as text, by the flags of json_dumps. It is NULL where memory ran out on the way, when json_dumps gives a
 * text with holes. The caller frees. */
char *sg_json_text(const struct json_t *v, size_t flags);

/* Decodes the JSON string that fills text[size] to out, which has room for size bytes. Returns its end, or NULL with
 * the reason in why[160]. */
char *sg_json_string(char *out, const char *text, size_t size, char *why);

/* Tells whether a tree of this JSON text has at most so many values. A value takes up to 150 bytes of memory, and as
 * little as two of text. */
bool sg_json_fits(const char *text, size_t size, size_t values);

/* Checks that a member that nobody reads is sound JSON of a modest size. */
sg_status sg_json_check(const sg_member *m, const char *path, sg_error *e) SG_MUST_USE;

#endif
