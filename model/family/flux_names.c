/* flux_names.c - see flux_names.h. Sources: the modules of black-forest-labs/flux (src/flux/model.py) and diffusers' converter;
 * ComfyUI (comfy/supported_models.py) for what it saves. */
#include "flux_names.h"
#include "flux_rules.h"

static const sg_name_rule dit[] = {SG_FLUX_RULES("scale"), AS("context_embedder", "txt_in")};
const sg_name_map         sg_flux_dit_names = {MAP(dit)};

static const sg_name_rule saved[] = {SG_FLUX_RULES("weight"), AS("context_embedder", "txt_in")};
const sg_name_map         sg_flux_dit_saved_names = {MAP(saved)};
