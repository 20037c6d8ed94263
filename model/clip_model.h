/* clip_model.h - CLIP as a judge (Radford et al., 2021, arXiv:2103.00020): texts and pictures become rows of numbers, and the
 * cosine of two rows tells how near they are. It is transformers' CLIPModel; the rows are its text_embeds and image_embeds.
 *
 *   sg_clip_model *m = NULL;
 *   sg_error       e = {0};
 *   if (sg_clip_model_open(&m, "clip-vit-base-patch32", &(sg_engine_options){0}, &e)) puts(e.text);
 *   sg_clip_model_text(m, "a red ball", text, NULL, &e);
 *   sg_clip_model_picture(m, rgb, width, height, picture, &e);
 *   sg_clip_model_close(&m);
 *
 * A model serves one thread at a time. */
#ifndef SG_CLIP_MODEL_H
#define SG_CLIP_MODEL_H

#include "engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_clip_model sg_clip_model;

/* Opens a folder as sg_checkpoint_open_clip has it and checks all of it; the weights are loaded with the first row. Of
 * o only those members count that say which device and how much of it: backend, threads, cpu_mask, gpu_mask, device,
 * local_rank, memory_limit. Products are in F32. The message of SG_E_MEMORY tells what it takes and what there is;
 * other failures are SG_E_FILE, SG_E_FORMAT and SG_E_UNSUPPORTED. On failure *out stays NULL. */
sg_status sg_clip_model_open(sg_clip_model **out, const char *folder, const sg_engine_options *o,
                             sg_error *e) SG_MUST_USE;
void      sg_clip_model_close(sg_clip_model **m);

typedef struct sg_clip_model_info {
    int      pooled;    /* numbers of a row */
    int      tokens;    /* of a text, that are read at most */
    int      image;     /* sides of the square that is seen of a picture, pixels */
    uint64_t hash;      /* of the weights (sg_source_hash) and of how pictures are prepared */
    char     text[208]; /* for people: what both encoders are */
    char     device[160];
    char     passed[256]; /* as of sg_model_info */
} sg_clip_model_info;
sg_clip_model_info sg_clip_model_describe(const sg_clip_model *m);

/* Makes the row [pooled], of length 1, of a text in UTF-8. *cut, if cut is not NULL, gets how many of its tokens were
 * not read. */
sg_status sg_clip_model_text(sg_clip_model *m, const char *text, float *row, int *cut, sg_error *e) SG_MUST_USE;

/* Makes the row [pooled], of length 1, of the picture rgb [height][width][3], whose shorter side is resized and whose
 * middle is cut out, as preprocessor_config.json has it. Returns SG_E_ARG if it is too long and narrow. */
sg_status sg_clip_model_picture(sg_clip_model *m, const uint8_t *rgb, int width, int height, float *row,
                                sg_error *e) SG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
