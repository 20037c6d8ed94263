/* clip_vision.h - CLIP's image encoder (Radford et al., 2021): transformers' CLIPVisionModel, for the states that a denoiser
 * attends to beside the text, and CLIPVisionModelWithProjection, for the row that stands for a picture beside those of texts. */
#ifndef SG_CLIP_VISION_H
#define SG_CLIP_VISION_H

#include "component.h"
#include "op.h"

typedef struct sg_clip_vision sg_clip_vision;

/* Opens component `name` of c: config and weights; loads nothing (sg_bind_load on sg_clip_vision_component does). With
 * `projected` it is for sg_clip_vision_row, and all layers and visual_projection are there; otherwise it is for
 * sg_clip_vision_encode. Pictures are prepared as processor_config.json or preprocessor_config.json of component
 * image_processor says, or as CLIP's models are published. */
sg_status     sg_clip_vision_open(sg_clip_vision **out, const sg_checkpoint *c, const char *name, bool projected,
                                  sg_dtype act, sg_error *e) SG_MUST_USE;
void          sg_clip_vision_close(sg_clip_vision **v);
sg_component *sg_clip_vision_component(sg_clip_vision *v);

typedef struct sg_clip_vision_info {
    int width, layers, heads, ffn, image, patch;
    int tokens; /* one for the class, and one for each patch */
    int pooled; /* numbers of a row; 0: not projected */
} sg_clip_vision_info;
sg_clip_vision_info sg_clip_vision_describe(const sg_clip_vision *v);

/* Goes on with a hash by how pictures are prepared. */
uint64_t sg_clip_vision_hash(const sg_clip_vision *v, uint64_t hash);

/* Makes patches [tokens - 1, 3 patch patch], a row for each patch, row by row, channels outermost. They are of the
 * picture rgb [height][width][3] as CLIPImageProcessor makes it: its shorter side is resized, the middle cut out, each
 * channel normalised. Returns SG_E_ARG if the picture is too long and narrow, or SG_E_MEMORY. */
sg_status sg_clip_vision_prepare(const sg_clip_vision *v, float *patches, const uint8_t *rgb, int width, int height,
                                 sg_error *e) SG_MUST_USE;

/* Computes y F32 [tokens, width] = hidden_states[-2], the states before the last layer (of a projected one those after
 * it), of the picture rgb [height][width][3], which is NULL on a plan. Uses s->scratch, leaves nothing in it; failures
 * are latched in s. Taps "vision.embed", "vision.block.%d". */
void sg_clip_vision_encode(const sg_clip_vision *v, sg_stream *s, sg_tensor y, const uint8_t *rgb, int width,
                           int height);

/* Computes row F32 [1, pooled] = image_embeds before they are normalised: visual_projection of the norm of the class's
 * state after all layers. All else is as above; it also taps "vision.row". */
void sg_clip_vision_row(const sg_clip_vision *v, sg_stream *s, sg_tensor row, const uint8_t *rgb, int width,
                        int height);

#endif
