/* preview_file.h - the previews of a render in one file, which each of them replaces once it is whole: .png, a strip of
 * the frames side by side; .mp4 or .webp, a small clip. A thread writes; what comes while it does waits, and only the
 * newest. */
#ifndef SG_PREVIEW_FILE_H
#define SG_PREVIEW_FILE_H

#include <spargegen/spargegen.h>

typedef struct sg_preview_file sg_preview_file;

/* A preview, as sg_callbacks has it. */
typedef struct sg_preview {
    int            step, frames, height, width;
    const uint8_t *rgb; /* [frames][height][width][3] */
} sg_preview;

/* Checks what is seen without the model: a known ending. Returns SG_E_ARG. */
sg_status sg_preview_file_check(const char *path, sg_error *e) SG_MUST_USE;

/* Sets *bytes to the memory that previews of size, as sg_engine_preview_size has it, take here for the clip of r.
 * Returns SG_E_ARG or SG_E_UNSUPPORTED where the format does not hold them. */
sg_status sg_preview_file_plan(const char *path, const sg_request *r, const int size[3], size_t *bytes,
                               sg_error *e) SG_MUST_USE;

/* Starts the thread; nothing is written yet. path and r are borrowed until it is closed. */
sg_status sg_preview_file_open(sg_preview_file **out, const char *path, const sg_request *r, sg_error *e) SG_MUST_USE;

/* Takes a copy. A failure is that of a preview before it: none is written after that. */
sg_status sg_preview_file_show(sg_preview_file *f, const sg_preview *p, sg_error *e) SG_MUST_USE;

/* Waits for the thread, which writes the one that waits only if `all`. e, which may be NULL, gets what show would
 * return. *f may be NULL. */
void sg_preview_file_close(sg_preview_file **f, bool all, sg_error *e);

#endif
