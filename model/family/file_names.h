/* file_names.h - how text and image encoders, which several families share, are called where they are not a Diffusers folder; and
 * what tables of such names are written with. */
#ifndef SG_FILE_NAMES_H
#define SG_FILE_NAMES_H

#include "name_map.h"

/* Rows of a table: one name for another; a part of `of` of the file's rows; and the table as a map. */
/* clang-format off */
#define AS(bound_, file_) {.bound = (bound_), .file = (file_)}
#define PART(bound_, file_, part_, of_) {.bound = (bound_), .file = (file_), .of = (of_), .rows = {{(part_), 1}}}
/* clang-format on */
#define MAP(table) .rules = (table), .count = sizeof(table) / sizeof *(table)

extern const sg_name_map sg_wan_t5_names;          /* UMT5 as Wan's own repository spells it */
extern const sg_name_map sg_t5_gguf_names;         /* T5 and UMT5 as llama.cpp spells them */
extern const sg_name_map sg_wan_clip_vision_names; /* CLIP's image encoder as Wan's own repository spells it */

#endif
