/* sized.c - see sized.h. */
#include "sized.h"

#include <stdbool.h>
#include <string.h>

/* Of memory that nobody has set, it is small or beyond what any version has. */
static bool is_set(size_t size) { return size >= sizeof size && size <= 1 << 20; }

sg_status sg_sized_check(const void *given, const char *name, sg_error *e)
{
    size_t has;
    memcpy(&has, given, sizeof has);
    return !is_set(has) ? sg_error_set(e, SG_E_ARG, "%s: its size is not set", name) : SG_OK;
}

static sg_status check_zero(const char *bytes, size_t from, size_t to, const char *name, sg_error *e)
{
    while (from < to && !bytes[from]) from++;
    if (from >= to) return SG_OK;
    return sg_error_set(e, SG_E_UNSUPPORTED, "%s: something is set that this version does not know", name);
}

sg_status sg_reserved_check(const void *reserved, size_t size, const char *name, sg_error *e)
{
    return check_zero(reserved, 0, size, name, e);
}

sg_status sg_sized_take(void *own, size_t size, const void *given, const char *name, sg_error *e)
{
    size_t has;
    SG_TRY(sg_sized_check(given, name, e));
    memcpy(&has, given, sizeof has);
    SG_TRY(check_zero(given, size, has, name, e));
    memset(own, 0, size);
    memcpy(own, given, has < size ? has : size);
    memcpy(own, &size, sizeof size);
    return SG_OK;
}

void sg_sized_give(void *out, const void *own, size_t size)
{
    size_t has;
    memcpy(&has, out, sizeof has);
    if (!is_set(has)) return;
    memset((char *)out + sizeof has, 0, has - sizeof has);
    memcpy((char *)out + sizeof has, (const char *)own + sizeof has, (has < size ? has : size) - sizeof has);
}
