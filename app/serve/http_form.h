/* http_form.h - collects the body of a form (multipart/form-data): fields in memory, uploads in files, both within
 * limits. The client's name of a file is not used. */
#ifndef SG_HTTP_FORM_H
#define SG_HTTP_FORM_H

#include "base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_HTTP_FIELDS = 64, SG_HTTP_UPLOADS = 8, SG_HTTP_NAME = 65 };

typedef struct sg_http_field {
    char       name[SG_HTTP_NAME]; /* letters, digits, "_-.[]" */
    sg_textbuf value;              /* without zero bytes; its data is not NULL */
} sg_http_field;

typedef struct sg_http_upload {
    char   name[SG_HTTP_NAME]; /* of the field */
    char  *path; /* of the file, in the folder of uploads; sg_http_form_free removes it, unless it was renamed */
    size_t bytes;
} sg_http_upload;

typedef struct sg_http_form_limits {
    size_t field_bytes;  /* of all fields */
    size_t upload_bytes; /* of all uploads */
} sg_http_form_limits;

typedef struct sg_http_form {
    sg_http_field       field[SG_HTTP_FIELDS];
    sg_http_upload      upload[SG_HTTP_UPLOADS];
    int                 fields, uploads;
    const char         *folder; /* of uploads */
    sg_http_form_limits limits;
    size_t              field_bytes, upload_bytes; /* so far */
    bool                in_upload;                 /* the part at hand is a file */
    int                 file;                      /* its descriptor; -1: none is open */
    int                 status;                    /* 0, or the HTTP status for what is wrong, which `problem` says */
    char                problem[160];
} sg_http_form;

/* An empty form. The folder has to be there while the form is. */
void sg_http_form_init(sg_http_form *f, const char *folder, sg_http_form_limits limits);

/* Closes and removes the uploads that nobody renamed. */
void sg_http_form_free(sg_http_form *f);

/* Takes bytes of a part, at `offset` in it; 0 begins a part. file_name is NULL for a field; its text is ignored. Does
 * nothing once the form has a problem. */
void sg_http_form_take(sg_http_form *f, const char *name, const char *file_name, uint64_t offset, const char *data,
                       size_t bytes);

/* The form is complete: closes the last file, and checks the fields. */
void sg_http_form_end(sg_http_form *f);

#endif
