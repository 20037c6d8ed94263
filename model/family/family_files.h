/* family_files.h - what the X_files.c of the families are written with, and what several families share: prefixes of
 * names, encoders of texts and pictures, the VAE of models of pictures. */
#ifndef SG_FAMILY_FILES_H
#define SG_FAMILY_FILES_H

#include "family.h"

/* ---- tables of names ---- */

/* These write rows of a table. AS puts one name for another. PART takes a part of `of` of the file's rows. QKV_OF takes
 * q, k and v, the first three of `of` parts, and QKV of three. SWAPPED takes the halves of the file's rows, the second
 * one first. MAP makes the table a map. */
/* clang-format off */
#define AS(bound_, file_) {.bound = (bound_), .file = (file_)}
#define PART(bound_, file_, part_, of_) {.bound = (bound_), .file = (file_), .of = (of_), .rows = {{(part_), 1}}}
#define QKV_OF(q_, k_, v_, file_, of_) PART(q_, file_, 0, of_), PART(k_, file_, 1, of_), PART(v_, file_, 2, of_)
#define QKV(q_, k_, v_, file_) QKV_OF(q_, k_, v_, file_, 3)
#define SWAPPED(bound_, file_) {.bound = (bound_), .file = (file_), .of = 2, .rows = {{1, 1}, {0, 1}}}
#define MAP(table) .rules = (table), .count = sizeof(table) / sizeof *(table)
/* These make them members of an sg_family_files. */
#define PARTS(table) .part = (table), .parts = sizeof(table) / sizeof *(table)
#define REPOSITORY(table) .repository = (table), .in_repository = sizeof(table) / sizeof *(table)
/* clang-format on */

extern const sg_name_map sg_ldm_vae_names; /* a VAE as its authors (latent-diffusion) and ComfyUI spell it */

/* ---- parts ---- */

enum { SG_BLOCKS_MAX = 4096, SG_LEVELS_MAX = 16 };

/* The names of a part may begin with these in a file that has others too. The lists are NULL-ended. */
extern const char *const sg_denoiser_prefixes[], *const sg_vae_prefixes[];

/* Of each two of CLIP the first has "text_model." in front of its names, the "bare" one has not. */
enum {
    SG_UMT5,
    SG_UMT5_GGUF,
    SG_UMT5_WAN,
    SG_T5,
    SG_T5_GGUF,
    SG_LLAMA,
    SG_LLAMA_GGUF,
    SG_CLIP_L_TEXT,
    SG_CLIP_L_BARE,
    SG_CLIP_G_TEXT,
    SG_CLIP_G_BARE,
    SG_CLIP_VISION,
    SG_CLIP_VISION_WAN,
    SG_KL_VAE,
    SG_KL_VAE_DIFFUSERS,
    SG_STRANGERS,
    SG_SHARED_PARTS = SG_STRANGERS + 3
};
extern const sg_file_part   sg_shared_parts[SG_SHARED_PARTS];
extern const sg_model_files sg_shared_files;
#define SHARED(which) &sg_shared_parts[SG_##which]

/* Returns how many heads a width makes; 0 where it makes no whole number of them. */
static inline int64_t sg_heads_of(int64_t width, int64_t head) { return head && width % head == 0 ? width / head : 0; }

/* Describes a VAE with the levels of latent-diffusion, whose convolutions are causal: their names end in ".conv". */
sg_status sg_describe_causal_vae(const sg_found_part *p);

#endif
