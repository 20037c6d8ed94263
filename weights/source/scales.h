/* scales.h - quantised weights in safetensors: which tensor is the scale of which. It is internal to this folder.
 *
 * X.weight of type F8_E4M3, F8_E5M2 or I8 is multiplied by X.scale_weight or X.weight_scale, F32: one number, or one for each
 * row ([rows] or [rows, 1]). FP8 may stand alone. The kinds that people have: ComfyUI's scaled FP8 (scale_weight, and a
 * marker scaled_fp8); its mixed files (weight_scale, and the format as JSON in X.comfy_quant or in the metadata
 * _quantization_metadata); LightX2V's FP8 and INT8 (weight_scale by row). Scales of activations (X.scale_input,
 * X.input_scale) are not used. */
#ifndef SG_SCALES_H
#define SG_SCALES_H

#include "tensor_source.h"

/* Sets scale, scales and attached of s's tensors, which are sorted. Returns SG_E_FORMAT for a scale of another shape,
 * type or value, or without its weight, and SG_E_UNSUPPORTED, with its name, for another kind of quantisation. */
sg_status sg_scales_attach(sg_source *s, sg_error *e) SG_MUST_USE;

#endif
