/* status.c - error texts. */
#include "status.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Texts quote names from foreign files, and terminals obey control characters. */
static void disarm(char *text)
{
    for (char *c = text; *c; c++)
        if (*c != '\n') memset(c, '?', sg_utf8_control(c));
}

sg_status sg_error_set(sg_error *e, sg_status code, const char *fmt, ...)
{
    if (!e || e->code != SG_OK) return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    disarm(e->text);
    return e->code = code;
}

sg_status sg_error_in(sg_error *e, sg_status status, const char *where)
{
    if (status == SG_OK || !e) return status;
    const sg_error why = *e;
    e->code = SG_OK;
    return sg_error_set(e, status, "%s: %s", where, why.text);
}

sg_status sg_error_copy(sg_error *e, const sg_error *from)
{
    return from->code == SG_OK ? SG_OK : sg_error_set(e, from->code, "%s", from->text);
}

sg_status sg_error_memory(sg_error *e, const char *what)
{
    return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", what);
}
