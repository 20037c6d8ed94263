/* clip_model.h - CLIP as a judge (Radford et al., 2021, arXiv:2103.00020), a part of spargegen.h, whose rules hold here.
 * Texts and pictures become rows of numbers, and the cosine of two rows tells how near they are. It is transformers'
 * CLIPModel; the rows are its text_embeds and image_embeds. */
#ifndef SG_CLIP_MODEL_H
#define SG_CLIP_MODEL_H

#include "status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sg_engine_options;

/* A model serves one thread at a time. */
typedef struct sg_clip_model sg_clip_model;

/* Opens a folder of transformers' CLIPModel and checks all of it; the weights are loaded with the first row. Of o only
 * those members count that say which device and how much of it: backend, threads, cpu_mask, gpu_mask, device,
 * local_rank, memory_limit. Products are in F32. SG_E_FILE, SG_E_FORMAT, SG_E_SHAPE, SG_E_UNSUPPORTED of the model's
 * files, SG_E_DEVICE, SG_E_ARG; SG_E_MEMORY tells what it takes and what there is. */
SG_PUBLIC sg_status sg_clip_model_open(sg_clip_model **out, const char *folder, const struct sg_engine_options *o,
                                       sg_error *e) SG_MUST_USE;
/* Frees all of *m, which becomes NULL and may be it already. */
SG_PUBLIC void sg_clip_model_close(sg_clip_model **m);

/* Return how many numbers a row has, and how many tokens of a text are read at most. */
SG_PUBLIC int sg_clip_model_size(const sg_clip_model *m);
SG_PUBLIC int sg_clip_model_tokens(const sg_clip_model *m);

/* Tells models apart by their weights and by how they prepare pictures. Rows of one can be compared. */
SG_PUBLIC uint64_t sg_clip_model_hash(const sg_clip_model *m);

/* These are for people: the device and what both encoders are; and what sg_model_info has as passed. They live as long
 * as m. */
SG_PUBLIC const char *sg_clip_model_describe(const sg_clip_model *m);
SG_PUBLIC const char *sg_clip_model_passed(const sg_clip_model *m);

/* Makes the row [size], of length 1, of a text in UTF-8. *cut, if cut is not NULL, gets how many of its tokens were not
 * read. SG_E_ARG if it is not UTF-8. This and the next: SG_E_MEMORY, SG_E_DEVICE, and SG_E_NUMERIC of a row that has no
 * length. */
SG_PUBLIC sg_status sg_clip_model_text(sg_clip_model *m, const char *text, float *row, int *cut,
                                       sg_error *e) SG_MUST_USE;

/* Makes the row [size], of length 1, of the picture rgb [height][width][3], whose shorter side is resized and whose
 * middle is cut out, as the model's preprocessor_config.json has it. SG_E_ARG if it has no pixels, or is too long and
 * narrow. */
SG_PUBLIC sg_status sg_clip_model_picture(sg_clip_model *m, const uint8_t *rgb, int width, int height, float *row,
                                          sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
