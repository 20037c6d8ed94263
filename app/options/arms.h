/* arms.h - what `compare` and `eval` render from the same noise: kinds of attention with options of their own.
 *
 *   list  = arm { "," arm }
 *   arm   = kind { ":" key "=" value }
 *   kind  = "dense" | "sage" | "sparge"
 *   key   = an option of sampling or self-attention without its dashes, as topk, sparse-config, steps, cfg-scale or
 *           cache; or "name"
 *   value = what the option takes; a backslash takes the commas, colons and backslashes in it as they are
 *
 * "dense,sage,sparge:topk=0.3,sparge:tau=0.95:tail=off:name=mine". */
#ifndef SG_ARMS_H
#define SG_ARMS_H

#include "options.h"

#define SG_ARMS_DEFAULT "dense,sparge"
enum { SG_ARMS_MAX = 8, SG_ARM_NAME = 120 };

typedef struct sg_arm {
    /* name is the arm as the list has it, or what its key "name" says. file is the same as a file's name: letters,
     * digits, "=", ".", "_" and "-". */
    char name[SG_ARM_NAME + 1], file[SG_ARM_NAME + 1];
    /* The arm's own settings, and the command's where they concern this kind of attention. */
    sg_settings settings;
} sg_arm;

typedef struct sg_arms {
    int    count;
    sg_arm arm[SG_ARMS_MAX];
    char  *text; /* holds the values; owned */
} sg_arms;

/* Reads the list, which is UTF-8. base has the command's settings; their strings are borrowed. Names and files of arms
 * are unique, and none is "side". SG_E_ARG names --arms, the arm and the key. The caller closes, after a failure
 * too. */
sg_status sg_arms_open(sg_arms *out, const char *list, const sg_settings *base, sg_error *e) SG_MUST_USE;
void      sg_arms_close(sg_arms *a);

#endif
