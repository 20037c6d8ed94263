/* output_file.h - a file that has its name only once it is complete; what the program writes goes through here. Bytes go
 * to a file without a name in the same folder, which takes the name at the end or disappears with the process, however that
 * ends. File systems without such files get a hidden neighbour, .NAME.12345678.part, which only SIGKILL leaves behind.
 *
 *   the name is a symbolic link   what it leads to is written, there or not yet, in the folder where that is; the link stays
 *   there is a file already       it is there until the new one is whole, which then takes its place with its permissions
 *                                 and, where the system allows, its owner and group; other hard links keep the old bytes
 *   it may not be written, or its folder may not      refused, before the work
 *   it is an input of this run                        refused: sg_output_file_protect
 *   a device, a pipe, a socket    written in place, byte by byte as they come
 *   the disk is full, a limit     the write fails and nothing is left; for the limit the process has to ignore SIGXFSZ
 *   a signal                      whoever handles it calls sg_output_file_unlink_all before the process ends
 *
 * Several threads may have files open. */
#ifndef SG_OUTPUT_FILE_H
#define SG_OUTPUT_FILE_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

typedef struct sg_output_file sg_output_file;

/* Tells whether path is "-". */
bool sg_output_is_stdout(const char *path);

/* Checks whether path would do: what it leads to has a folder that is there and writable, is no folder itself, and its
 * name is not too long. Writes nothing. Returns SG_E_FILE otherwise; `what` names the option in the message. */
sg_status sg_output_file_check(const char *path, const char *what, sg_error *e) SG_MUST_USE;

/* Tells whether these outputs would be one file, which may be there already or not. Stdout, devices and pipes are never
 * the same. */
bool sg_output_file_same(const char *a, const char *b);

/* From now on no output takes the place of this file, which `what` reads: sg_output_file_check and _open refuse its name. A
 * file that is not there, or is no regular one, is let be. */
sg_status sg_output_file_protect(const char *path, const char *what, sg_error *e) SG_MUST_USE;

/* The caller publishes or discards. */
sg_status sg_output_file_open(sg_output_file **out, const char *path, sg_error *e) SG_MUST_USE;

/* Writes in place to an open descriptor, which stays the caller's; name is for messages. */
sg_status sg_output_file_open_descriptor(sg_output_file **out, int descriptor, const char *name,
                                         sg_error *e) SG_MUST_USE;
sg_status sg_output_file_write(sg_output_file *f, const void *data, size_t bytes, sg_error *e) SG_MUST_USE;

/* Sets the time of its last change, as others will see it. Call it after the last write. Does nothing for devices and
 * pipes. */
void sg_output_file_set_time(sg_output_file *f, struct timespec time);

/* Returns a path to the bytes until they are complete; NULL where they lie in no regular file. */
const char *sg_output_file_name_now(const sg_output_file *f);

/* Flushes to the disk and closes. The file is a hidden neighbour from then on: its name is not taken yet, so that files of
 * one clip can appear together. */
sg_status sg_output_file_complete(sg_output_file *f, sg_error *e) SG_MUST_USE;

/* Completes if that was not done, and gives the file its name. f becomes NULL in any case. */
sg_status sg_output_file_publish(sg_output_file **f, sg_error *e) SG_MUST_USE;

/* Returns the i-th name that is tried where those before it are taken: ball.mp4, ball-1.mp4, ball-2.mp4, ... The caller
 * frees; NULL: no memory. */
char *sg_output_name_next(const char *path, int i);

/* Publishes under the first of the names that come of `first` that nobody has at that moment: no file is replaced.
 * *name, the caller's to free, is what it is called. */
sg_status sg_output_file_publish_beside(sg_output_file **f, const char *first, char **name, sg_error *e) SG_MUST_USE;
void      sg_output_file_discard(sg_output_file **f);

/* Writes a whole file at once. */
sg_status sg_output_file_save(const char *path, const void *data, size_t bytes, sg_error *e) SG_MUST_USE;

/* Checks a folder that is to be filled. *out becomes path without slashes at its end, and is the caller's to free.
 * Returns SG_E_ARG when path is empty or leaves less than `reserve` bytes for the names of what is in it, and SG_E_FILE
 * unless it is a folder or its own folder takes it. */
sg_status sg_output_folder_check(char **out, const char *path, size_t reserve, const char *what,
                                 sg_error *e) SG_MUST_USE;

/* Makes it unless it is there; *made, which may be NULL, tells. */
sg_status sg_output_folder_make(const char *path, bool *made, const char *what, sg_error *e) SG_MUST_USE;

/* Removes whatever is unpublished; for signal handlers that are about to end the process. */
void sg_output_file_unlink_all(void);

#endif
