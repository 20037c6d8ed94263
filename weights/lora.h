/* lora.h - LoRA and its relatives in a file: which tensors of a model its keys mean, and the patches that they are.
 *
 *   sg_lora *l = NULL;
 *   SG_TRY(sg_lora_open(&l, path, threads, e));
 *   SG_TRY(sg_lora_add(l, bind, "transformer", &names, strength, e));   for each denoiser
 *   status = sg_lora_check(l, e);
 *   sg_lora_close(&l);                                                  after the bindings
 *
 * A key is prefix, module, kind. Modules go by the model's names of a Diffusers folder or by those of its original
 * repository, with dots or, as kohya and musubi write them, with underscores, which are looked up and never split. Kinds: LoRA with
 * alpha, rank-stabilised too; whole differences of weights, biases, norms and modulation; LoHa; LoKr. Others, DoRA for
 * example, are refused by name. */
#ifndef SG_LORA_H
#define SG_LORA_H

#include "bind.h"
#include "model_parts.h"

typedef struct sg_lora sg_lora;

/* Opens a LoRA in any format of tensor_source.h. Returns SG_E_UNSUPPORTED for a kind that is not read here. */
sg_status sg_lora_open(sg_lora **out, const char *path, int threads, sg_error *e) SG_MUST_USE;
void      sg_lora_close(sg_lora **l);

/* Patches b with strength times what the file has for its tensors; b must not outlive l. component is its name in a
 * Diffusers folder: keys of a file that tells "transformer" and "transformer_2" apart go to their own. names, which may
 * be NULL, says how the original repository calls its tensors. Returns SG_E_FORMAT if half of a pair is missing, a
 * tensor is patched twice in the same way, or a shape does not fit. */
sg_status sg_lora_add(sg_lora *l, sg_bind *b, const char *component, const sg_name_map *names, double strength,
                      sg_error *e) SG_MUST_USE;

/* Returns SG_E_FORMAT if nothing of the file fitted any tensor. */
sg_status sg_lora_check(const sg_lora *l, sg_error *e) SG_MUST_USE;

/* Returns the path of its file, as its patches have it. */
const char *sg_lora_file(const sg_lora *l);

/* Tells what was added so far, but for name, strength, denoisers, fast and beside. */
sg_lora_info sg_lora_describe(const sg_lora *l);

/* Returns the next key from number *at on that fits nothing, and moves *at behind it; NULL where there are no more. */
const char *sg_lora_unused(const sg_lora *l, size_t *at);

#endif
