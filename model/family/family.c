/* family.c - the registry. */
#include "family.h"

#include "cogvideox_files.h"
#include "file_parts.h"
#include "flux_files.h"
#include "hunyuan_files.h"
#include "mochi_files.h"
#include "sd3_files.h"
#include "wan_files.h"

#include <stddef.h>

const sg_family *const sg_families[] = {&sg_family_wan,  &sg_family_cogvideox, &sg_family_mochi, &sg_family_hunyuan,
                                        &sg_family_flux, &sg_family_sd3,       NULL};

const sg_file_part *const sg_file_parts[] = {
    SG_WAN_FILE_PARTS,  SG_COGVIDEOX_FILE_PARTS, SG_MOCHI_FILE_PARTS,  SG_HUNYUAN_FILE_PARTS,
    SG_FLUX_FILE_PARTS, SG_SD3_FILE_PARTS,       SG_SHARED_FILE_PARTS, NULL};

const sg_known_shape *sg_known_shape_at(int i)
{
    for (int f = 0; sg_families[f]; f++)
        for (const sg_known_shape *s = sg_families[f]->shapes; s && s->name; s++)
            if (i-- == 0) return s;
    return NULL;
}
