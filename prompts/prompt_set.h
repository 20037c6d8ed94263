/* prompt_set.h - prompts from files, with what single lines ask for.
 *
 *   text   one prompt a line; blank lines do not count, and lines that begin with "#" are comments;
 *          with a space before it "#" is a character like others
 *   JSONL  one object a line: {"prompt": "a red ball", "seed": 7, "size": "832x480", "group": "motion"}
 *   CSV    RFC 4180 with a header line that names the columns; an empty field is not given
 *   JSON   [object, ...], as VBench_full_info.json is, or {"annotations": [object, ...]}, as COCO's captions are
 *
 * Members and columns, in any case: prompt (or prompt_en, caption, text); negative_prompt (negative); seed; size, or width
 * and height; frames (num_frames); image (image_name, file_name), last_image and video, files; strength, of the video; group
 * (dimension, category, type), in JSON also a list; image_id, by which eval names files. Others are passed over. */
#ifndef SG_PROMPT_SET_H
#define SG_PROMPT_SET_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum sg_prompt_format {
    SG_PROMPTS_BY_NAME, /* by the file's ending: .jsonl, .ndjson, .csv, .json; else text */
    SG_PROMPTS_TEXT,
    SG_PROMPTS_JSONL,
    SG_PROMPTS_CSV,
    SG_PROMPTS_JSON
} sg_prompt_format;

/* This is one prompt. Zero, NULL and, for numbers that may be zero, -1 mean "not given". */
typedef struct sg_prompt {
    const char *text;               /* UTF-8, not blank */
    const char *negative;           /* UTF-8; may be empty */
    const char *image, *last_image; /* names of files as they stand there, UTF-8, not empty; nothing is looked up */
    const char *video;              /* the same */
    double      strength;           /* of a video, at most 1 */
    int64_t     seed;               /* -1: not given */
    int64_t     image_id;           /* COCO's; -1: not given */
    int         width, height;      /* pixels */
    int         frames;
    int         line;                /* of the file, from 1; of an object its first */
    int         first_group, groups; /* those of member[first_group, ...) */
} sg_prompt;

enum { SG_PROMPT_GROUPS = 256 }; /* in a set; bounds those of a prompt too, each of which counts once */

/* This is a set of prompts. Zero is an empty set. */
typedef struct sg_prompt_set {
    int         count;
    sg_prompt  *prompt;                  /* [count], in the file's order */
    int         groups;                  /* names, in the order in which they come first */
    const char *group[SG_PROMPT_GROUPS]; /* [groups] */
    int        *member;                  /* indices of groups */
    int         skipped;                 /* malformed lines, with skip_bad */
    int         comments;                /* lines that begin with "#", of text */
    sg_error    first_skipped;           /* why the first of them was */
    char        unread[64];              /* a member or column that was passed over, fit for a message; or empty */
    char       *text;                    /* the file's, in which all strings lie */
} sg_prompt_set;

typedef struct sg_prompt_options {
    const char      *what; /* the option that named the file, for messages */
    sg_prompt_format format;
    size_t           max_bytes; /* of the file, in whole MiB; 0: 256 MiB */
    bool             skip_bad;  /* pass malformed lines over, and count them */
    bool             dash;      /* the file "-" is stdin */
} sg_prompt_options;

/* Reads a file, which may be a pipe, of at most 2^20 prompts; a byte-order mark does not count, CRLF ends a line as LF
 * does. Returns SG_E_ARG, with file, line and reason, for a malformed line, text that is not UTF-8, a zero byte, and a
 * file without a prompt; SG_E_FILE for an unreadable one; or SG_E_MEMORY. After a failure the set is empty. Takes
 * memory in proportion to the file's size. The caller closes. */
sg_status sg_prompt_set_open(sg_prompt_set *out, const char *file, const sg_prompt_options *o, sg_error *e) SG_MUST_USE;
/* Makes the set of this one prompt, which is borrowed. Returns SG_E_ARG, in the name of `what`, unless it is UTF-8. */
sg_status sg_prompt_set_single(sg_prompt_set *out, const char *text, const char *what, sg_error *e) SG_MUST_USE;
void      sg_prompt_set_close(sg_prompt_set *s);

/* Returns SG_E_ARG, with the first bad byte's position, unless text is UTF-8 without overlong forms and surrogates. */
sg_status sg_prompt_check(const char *text, const char *what, sg_error *e) SG_MUST_USE;

#endif
