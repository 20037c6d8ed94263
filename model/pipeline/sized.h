/* sized.h - structs of spargegen.h across versions: each opens with the size that its maker knew. */
#ifndef SG_SIZED_H
#define SG_SIZED_H

#include "status.h"

#include <stddef.h>

/* Looks whether a caller's struct, of that type, has its size set: SG_E_ARG. */
sg_status sg_sized_check(const void *given, const char *name, sg_error *e) SG_MUST_USE;

/* Copies a caller's struct to own, of size bytes; what the caller's does not have becomes 0. name is its type's. SG_E_ARG
 * if its size is not set, SG_E_UNSUPPORTED if it has more, which is not 0. */
sg_status sg_sized_take(void *own, size_t size, const void *given, const char *name, sg_error *e) SG_MUST_USE;

/* Looks whether the reserved members of a struct of that type are 0: SG_E_UNSUPPORTED. */
sg_status sg_reserved_check(const void *reserved, size_t size, const char *name, sg_error *e) SG_MUST_USE;

/* Copies own, of size bytes, to a caller's struct, as much as that has; what own does not have becomes 0. Its size stays,
 * and nothing is copied where that is not set. */
void sg_sized_give(void *out, const void *own, size_t size);

#endif
