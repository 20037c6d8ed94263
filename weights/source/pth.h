/* pth.h - the file that torch.save writes: a zip of a pickle and of the bytes of its tensors. It is internal to this
 * folder. */
#ifndef SG_PTH_H
#define SG_PTH_H

#include "one_file.h"
#include "zip.h"

sg_status sg_pth_source(sg_source **out, const char *path, sg_error *e) SG_MUST_USE;

/* Refuses the older form, which is all pickle, and says what to do. */
sg_status sg_old_pth_source(sg_source **out, const char *path, sg_error *e) SG_MUST_USE;

#endif
