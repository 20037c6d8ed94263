/* file_names.h - how text and image encoders, which several families share, are called where they are not a Diffusers folder; and
 * what tables of such names are written with. */
#ifndef SG_FILE_NAMES_H
#define SG_FILE_NAMES_H

#include "name_map.h"

/* These write rows of a table. AS puts one name for another. PART takes a part of `of` of the file's rows. QKV_OF takes
 * q, k and v, the first three of `of` parts, and QKV of three. SWAPPED takes the halves of the file's rows, the second
 * one first. MAP makes the table a map. */
/* clang-format off */
#define AS(bound_, file_) {.bound = (bound_), .file = (file_)}
#define PART(bound_, file_, part_, of_) {.bound = (bound_), .file = (file_), .of = (of_), .rows = {{(part_), 1}}}
#define QKV_OF(q_, k_, v_, file_, of_) PART(q_, file_, 0, of_), PART(k_, file_, 1, of_), PART(v_, file_, 2, of_)
#define QKV(q_, k_, v_, file_) QKV_OF(q_, k_, v_, file_, 3)
#define SWAPPED(bound_, file_) {.bound = (bound_), .file = (file_), .of = 2, .rows = {{1, 1}, {0, 1}}}
/* clang-format on */
#define MAP(table) .rules = (table), .count = sizeof(table) / sizeof *(table)

extern const sg_name_map sg_wan_t5_names;          /* UMT5 as Wan's own repository spells it */
extern const sg_name_map sg_t5_gguf_names;         /* T5 and UMT5 as llama.cpp spells them */
extern const sg_name_map sg_llama_gguf_names;      /* Llama as llama.cpp spells it */
extern const sg_name_map sg_ldm_vae_names;         /* a VAE as its authors (latent-diffusion) and ComfyUI spell it */
extern const sg_name_map sg_wan_clip_vision_names; /* CLIP's image encoder as Wan's own repository spells it */

#endif
