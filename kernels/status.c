/* status.c - error texts. */
#include "status.h"

#include <stdarg.h>
#include <stdio.h>

/* Texts quote names from foreign files; terminals obey control characters, U+0080 to U+009F among them. */
static void disarm(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if ((*c < 0x20 && *c != '\n') || *c == 0x7f)
            *c = '?';
        else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
            c[0] = c[1] = '?';
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
