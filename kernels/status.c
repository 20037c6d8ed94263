/* status.c - error texts. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

sg_status sg_error_set(sg_error *e, sg_status code, const char *fmt, ...)
{
    if (!e || e->code != SG_OK) return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->text, sizeof e->text, fmt, ap);
    va_end(ap);
    return e->code = code;
}
