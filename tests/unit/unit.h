/* unit.h - what unit tests share: cmocka with all that it needs, a folder of a test's own, files in it, and refusals.
 * */
#ifndef SG_UNIT_H
#define SG_UNIT_H

#include "status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- files ---- */

/* Setup and teardown of a group of tests: a new folder becomes the working directory, and goes with all that is in
 * it. */
int enter_folder(void **state);
int leave_folder(void **state);

/* Writes a file; the folders of its path are made. */
void write_bytes(const char *path, const void *bytes, size_t n);
void write_text(const char *path, const char *text);
void write_format(const char *path, const char *fmt, ...) SG_PRINTF(2, 3);

/* Makes the folders that a file of that path lies in. */
void make_folders(const char *path);

/* Writes the JSON object of the file `from` to the file `to`, with `key` set to value, which is JSON; NULL: left out.
 * */
void write_changed(const char *to, const char *from, const char *key, const char *value);

/* All of a file, with a NUL behind it. size may be NULL. The caller frees. */
char *read_file(const char *path, size_t *size);

/* How many files and folders are in a folder, hidden ones too. */
int files_in(const char *folder);

/* Runs a command of the shell, which has to succeed. */
void shell(const char *fmt, ...) SG_PRINTF(1, 2);

/* Runs what(context) where the decimal point is a comma. False where the C library does not take such a locale. */
bool with_decimal_comma(void (*what)(void *context), void *context);

/* ---- what is done and what is refused ---- */

/* That a call succeeded, or the test fails with its message. */
#define assert_done(call, e) assert_done_(call, e, __FILE__, __LINE__)
void assert_done_(sg_status status, const sg_error *e, const char *file, int line);

/* That a call was refused with this code, and that its message names these: the file, the field, the value; and a
 * term of the cause where nothing else tells two cases apart. A row of a table has several in one text, with | between.
 * No test compares sentences, so a name of more than four words fails. e is empty afterwards. */
#define assert_refused(call, code, e, ...)                                                                             \
    assert_refused_(call, code, e, (const char *const[]){__VA_ARGS__, NULL}, __FILE__, __LINE__)
void assert_refused_(sg_status status, sg_status code, sg_error *e, const char *const *names, const char *file,
                     int line);

#endif
