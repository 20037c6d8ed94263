/* setup.h - from the command line's options to what is opened: model, engine, prompts. */
#ifndef SG_SETUP_H
#define SG_SETUP_H

#include "options.h"
#include "prompt_set.h"

#include <limits.h>

/* A LoRA of --lora or --high-noise-lora, as sg_lora_option has it. */
typedef struct sg_lora_path {
    char     path[PATH_MAX];
    double   strength;
    unsigned denoisers;
} sg_lora_path;

/* The path is what to open: --model, else the file of --diffusion-model, else $SPARGE_GEN_MODEL, else the bundled
 * model, beside the program or in the source tree; the parts that options replace; and the LoRAs, whose files are
 * there. */
typedef struct sg_model_path {
    /* dir is a folder or a file, and name its own name. */
    char           dir[PATH_MAX], name[NAME_MAX + 1];
    sg_model_parts parts;
    sg_lora_path   lora[SG_LORAS_MAX];
    int            loras;
    enum { SG_MODEL_OF_OPTION, SG_MODEL_OF_ENVIRONMENT, SG_MODEL_BUNDLED } from;
} sg_model_path;

/* Returns the own name of a file or folder: the last of path, even if it is a link's, since a cache of downloads has
 * links to files that are named by their hash; of "." the folder's. The result lies in room. */
const char *sg_setup_own_name(char room[PATH_MAX], const char *path);

/* Finds the model that s asks for. */
sg_status sg_setup_model(sg_model_path *out, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Makes engine options of s, which borrow from model; NULL where no engine is opened. Without --device the local rank
 * of rank.h selects the GPU. */
sg_status sg_setup_options(sg_engine_options *out, const sg_model_path *model, const sg_settings *s,
                           sg_error *e) SG_MUST_USE;

/* Tells whether the model makes images: its clips have one frame. */
bool sg_setup_makes_images(const sg_model_info *info);

/* Opens the engine by options that sg_setup_options made of model. The caller closes. */
sg_status sg_setup_engine(sg_engine **out, const sg_model_path *model, const sg_engine_options *o,
                          sg_error *e) SG_MUST_USE;

/* Opens the model of --clip, on the device that s asks for; threads 0: all cores. The caller closes. */
sg_status sg_setup_clip(sg_clip_model **out, const sg_settings *s, int threads, sg_error *e) SG_MUST_USE;

/* Checks one safetensors file, which option names. SG_E_ARG for a name with another ending, SG_E_FILE. */
sg_status sg_setup_safetensors(const char *path, const char *option, sg_error *e) SG_MUST_USE;

/* Reads the prompt of --prompt, or those of --prompt-file, one a line; one of the two is given. The caller closes. */
sg_status sg_setup_prompts(sg_prompt_set *out, const sg_settings *s, sg_error *e) SG_MUST_USE;

#endif
