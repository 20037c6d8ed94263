/* family.c - the registry. */
#include "family_files.h"

#define FAMILY(name) &sg_family_##name,
const sg_family *const sg_families[] = {SG_FAMILIES(FAMILY) NULL};
enum { FAMILIES = sizeof sg_families / sizeof *sg_families - 1 };

const sg_model_files *sg_files_of(int i)
{
    return i < FAMILIES ? &sg_families[i]->files->checkpoint : i == FAMILIES ? &sg_shared_files : NULL;
}

const sg_known_shape *sg_known_shape_at(int i)
{
    for (int f = 0; sg_families[f]; f++)
        for (const sg_known_shape *s = sg_families[f]->shapes; s && s->name; s++)
            if (i-- == 0) return s;
    return NULL;
}
