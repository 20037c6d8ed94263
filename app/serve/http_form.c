/* http_form.c - see http_form.h. */
#include "http_form.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sg_http_form_init(sg_http_form *f, const char *folder, sg_http_form_limits limits)
{
    *f = (sg_http_form){.folder = folder, .limits = limits, .file = -1};
}

static void close_file(sg_http_form *f)
{
    if (f->file >= 0) close(f->file);
    f->file = -1;
}

void sg_http_form_free(sg_http_form *f)
{
    close_file(f);
    for (int i = 0; i < f->fields; i++) sg_textbuf_free(&f->field[i].value);
    for (int i = 0; i < f->uploads; i++) {
        if (f->upload[i].path) unlink(f->upload[i].path);
        free(f->upload[i].path);
    }
    f->fields = f->uploads = 0;
}

static void refuse(sg_http_form *f, int status, const char *fmt, ...) SG_PRINTF(3, 4);

static void refuse(sg_http_form *f, int status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(f->problem, sizeof f->problem, fmt, args);
    va_end(args);
    f->status = status;
    close_file(f);
}

/* ---- parts ---- */

static bool name_is_valid(const char *name)
{
    const size_t n = strlen(name);
    return n >= 1 && n < SG_HTTP_NAME &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.[]") == n;
}

static void begin_upload(sg_http_form *f, const char *name)
{
    sg_http_upload *const u = &f->upload[f->uploads];
    if (f->uploads == SG_HTTP_UPLOADS) {
        refuse(f, 400, "more than %d files", SG_HTTP_UPLOADS);
        return;
    }
    *u = (sg_http_upload){0};
    if (asprintf(&u->path, "%s/upload-XXXXXX", f->folder) < 0) {
        u->path = NULL;
        refuse(f, 500, "out of memory");
        return;
    }
    snprintf(u->name, sizeof u->name, "%s", name);
    f->file = mkostemp(u->path, O_CLOEXEC);
    if (f->file >= 0) {
        f->uploads++;
        return;
    }
    free(u->path);
    refuse(f, 500, "%s: no file for it: %s", name, strerror(errno));
}

static void begin_part(sg_http_form *f, const char *name, bool upload)
{
    close_file(f);
    f->in_upload = upload;
    if (!name || !name_is_valid(name)) {
        refuse(f, 400, "a field of the form has no name of 1 to %d letters, digits, and _-.[]", SG_HTTP_NAME - 1);
    } else if (upload) {
        begin_upload(f, name);
    } else if (f->fields == SG_HTTP_FIELDS) {
        refuse(f, 400, "more than %d fields", SG_HTTP_FIELDS);
    } else {
        sg_http_field *const field = &f->field[f->fields++];
        *field = (sg_http_field){0};
        snprintf(field->name, sizeof field->name, "%s", name);
        sg_textbuf_put(&field->value, "", 0);
    }
}

/* Where a part's first bytes come later than its head, libmicrohttpd begins it twice, the first time without bytes. */
static bool has_begun(const sg_http_form *f, const char *name, bool upload)
{
    if (!name || upload != f->in_upload) return false;
    if (upload)
        return f->file >= 0 && !f->upload[f->uploads - 1].bytes && !strcmp(f->upload[f->uploads - 1].name, name);
    return f->fields && !f->field[f->fields - 1].value.len && !strcmp(f->field[f->fields - 1].name, name);
}

static void take_bytes(sg_http_form *f, const char *data, size_t bytes)
{
    sg_http_upload *const u = f->in_upload ? &f->upload[f->uploads - 1] : NULL;
    if (u) {
        if (bytes > f->limits.upload_bytes - f->upload_bytes) {
            refuse(f, 413, "%s: files of more than %zu bytes", u->name, f->limits.upload_bytes);
            return;
        }
        for (size_t done = 0; done < bytes;) {
            const ssize_t n = write(f->file, data + done, bytes - done);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) {
                refuse(f, errno == ENOSPC || errno == EDQUOT ? 507 : 500, "%s: %s", u->name, strerror(errno));
                return;
            }
            done += (size_t)n;
        }
        u->bytes += bytes;
        f->upload_bytes += bytes;
        return;
    }
    sg_http_field *const field = &f->field[f->fields - 1];
    if (bytes > f->limits.field_bytes - f->field_bytes) {
        refuse(f, 413, "%s: fields of more than %zu bytes", field->name, f->limits.field_bytes);
    } else if (bytes && memchr(data, '\0', bytes)) {
        refuse(f, 400, "%s: a zero byte", field->name);
    } else {
        sg_textbuf_put(&field->value, data, bytes);
        f->field_bytes += bytes;
        if (field->value.failed) refuse(f, 500, "out of memory");
    }
}

void sg_http_form_take(sg_http_form *f, const char *name, const char *file_name, uint64_t offset, const char *data,
                       size_t bytes)
{
    if (!f->status && !offset && !has_begun(f, name, file_name != NULL)) begin_part(f, name, file_name != NULL);
    if (!f->status && offset && (f->in_upload ? f->file < 0 : !f->fields))
        refuse(f, 400, "a part without its beginning");
    if (!f->status) take_bytes(f, data, bytes);
}

void sg_http_form_end(sg_http_form *f)
{
    size_t bad;
    close_file(f);
    for (int i = 0; i < f->fields && !f->status; i++) {
        const sg_textbuf *const v = &f->field[i].value;
        if (!v->data)
            refuse(f, 500, "out of memory");
        else if (!sg_utf8_check(v->data, v->len, &bad))
            refuse(f, 400, "%s: is not UTF-8", f->field[i].name);
    }
}
