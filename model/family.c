/* family.c - the registry. */
#include "family.h"

#include <stddef.h>

const sg_family *const sg_families[] = {&sg_family_wan, NULL};
