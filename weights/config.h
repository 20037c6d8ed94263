/* config.h - a strictly read JSON object: every getter names file, field and reason when it fails, and the first
 * failure latches, so that a reader checks once at its end. */
#ifndef SG_CONFIG_H
#define SG_CONFIG_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_config sg_config;

/* Reads a file of at most 16 MiB and 65,535 values whose root is an object; duplicate keys are refused. e is kept and
 * filled by the getters: it must outlive the config. */
sg_status sg_config_open(sg_config **out, const char *path, sg_error *e) SG_MUST_USE;
/* Makes one without fields; `path` names it in messages. */
sg_status sg_config_empty(sg_config **out, const char *path, sg_error *e) SG_MUST_USE;
void      sg_config_close(sg_config **c);
sg_status sg_config_status(const sg_config *c); /* the latched failure */

bool sg_config_has(const sg_config *c, const char *key);    /* present and not null */
bool sg_config_counts(const sg_config *c, const char *key); /* a whole number */

/* A fallback of NULL makes the field required; null in the file counts as absent. Out of [lo, hi] or of another type is
 * a failure. After a failure the getters return the fallback or lo. */
int64_t     sg_config_int(sg_config *c, const char *key, int64_t lo, int64_t hi, const int64_t *fallback);
double      sg_config_real(sg_config *c, const char *key, double lo, double hi, const double *fallback);
bool        sg_config_bool(sg_config *c, const char *key, const bool *fallback);
const char *sg_config_string(sg_config *c, const char *key, const char *fallback); /* lives as long as c */
/* Checks that the field, or where it is absent the fallback (NULL: it must be there), is this string. */
void sg_config_only(sg_config *c, const char *key, const char *wanted, const char *fallback);
/* Checks that it is one of two strings, and tells whether it is the first. */
bool sg_config_either(sg_config *c, const char *key, const char *one, const char *other, const char *fallback);
/* Checks that the field, where it is there, has this value. */
void sg_config_only_bool(sg_config *c, const char *key, bool wanted);

/* These read lists of min to max entries, and return the count. It is 0 when the list is absent, which is a failure
 * unless min is 0 and leaves out[] as it is. After a failure all of out[max] holds lo, or false. */
int sg_config_ints(sg_config *c, const char *key, int64_t lo, int64_t hi, int64_t *out, int min, int max);
int sg_config_reals(sg_config *c, const char *key, double lo, double hi, double *out, int min, int max);
int sg_config_bools(sg_config *c, const char *key, bool *out, int min, int max);
/* The strings live as long as c; an entry that is null is a failure, too. After a failure all of out[max] is NULL. */
int sg_config_strings(sg_config *c, const char *key, const char **out, int min, int max);
/* Returns entry i of a list of strings, or NULL when the field is absent, shorter, or that entry is null. */
const char *sg_config_string_at(sg_config *c, const char *key, int i);

/* Makes the object under key a config of its own, which `path` names in messages. It is empty where there is none, or null.
 * SG_E_FORMAT if it is no object. */
sg_status sg_config_member(sg_config **out, const sg_config *c, const char *key, const char *path,
                           sg_error *e) SG_MUST_USE;

/* Puts what the object over[key] has in the place of the same fields of c[as], objects field by field; no key and no
 * `as` mean the whole. Does nothing where there is no over[key]. Returns SG_E_FORMAT if it is no object, or
 * SG_E_MEMORY. */
sg_status sg_config_update(sg_config *c, const char *as, const sg_config *over, const char *key,
                           sg_error *e) SG_MUST_USE;

/* This is a field to be put into a config: one value, or a list. Numbers go in as they are and not as text, so that
 * none loses a digit, whatever the locale. */
typedef struct sg_field {
    const char *key;   /* NULL: the field is left out */
    int         count; /* of a list; negative: it is one value */
    /* Its values are one of these. */
    const int64_t     *number;
    const double      *real;
    const bool        *yes;
    const char *const *text;
} sg_field;

/* clang-format off */
#define SG_NUMBERS(key_, list_, count_) {.key = (key_), .count = (count_), .number = (list_)}
#define SG_REALS(key_, list_, count_) {.key = (key_), .count = (count_), .real = (list_)}
#define SG_BOOLS(key_, list_, count_) {.key = (key_), .count = (count_), .yes = (list_)}
#define SG_TEXTS(key_, list_, count_) {.key = (key_), .count = (count_), .text = (list_)}
#define SG_NUMBER(key_, x_) SG_NUMBERS(key_, ((const int64_t[]){x_}), -1)
#define SG_REAL(key_, x_) SG_REALS(key_, ((const double[]){x_}), -1)
#define SG_BOOL(key_, x_) SG_BOOLS(key_, ((const bool[]){x_}), -1)
#define SG_TEXT(key_, x_) SG_TEXTS(key_, ((const char *const[]){x_}), -1)
/* clang-format on */

/* Puts fields into the object c[object], which is made where there is none. Latches SG_E_MEMORY. */
void sg_config_put(sg_config *c, const char *object, const sg_field *field, size_t count);
#define sg_config_set(c, object, ...)                                                                                  \
    sg_config_put(c, object, (const sg_field[]){__VA_ARGS__},                                                          \
                  sizeof((const sg_field[]){__VA_ARGS__}) / sizeof(sg_field))

/* Latches a failure in the words "FILE: KEY: reason". */
void sg_config_fail(sg_config *c, const char *key, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
