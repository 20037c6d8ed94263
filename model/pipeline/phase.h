/* phase.h - the phases of a render in the order of their work, and the weights that each works with. */
#ifndef SG_PHASE_H
#define SG_PHASE_H

#include "family.h"

typedef enum sg_phase_kind {
    SG_PHASE_TEXT,
    SG_PHASE_START, /* of renders that start from an image or a video */
    SG_PHASE_ADDED,
    SG_PHASE_DENOISE,
    SG_PHASE_DECODE
} sg_phase_kind;

/* A phase of a render has memory of its own. */
typedef struct sg_phase {
    sg_phase_kind kind;
    int           index;         /* of the text encoder, or of what the family adds */
    const char   *name;          /* as sg_phase_plan has it */
    sg_stage      stage;         /* in which its time and its progress are counted */
    size_t        keep, scratch; /* bytes of its arenas, as the plan found them */
    int           units; /* of its work that progress tells of, as the plan found them; not of the last two kinds */
} sg_phase;

/* Lists the phases of r, and returns how many: each text encoder, the start, what the family adds, denoising, decoding.
 * Latents that are there already are only decoded. r NULL: all that the model has. */
int sg_phases_of(const sg_components *components, const sg_request *r, sg_phase phase[SG_PHASES_MAX]);

/* Returns the weights that a phase works with. i counts denoisers, which take turns; any other phase has one. NULL is
 * past the last. */
sg_component *sg_phase_component(const sg_components *components, const sg_phase *phase, int i);

/* Returns "image" or "video": what r starts from, for names and messages. */
const char *sg_start_name(const sg_request *r);

/* Returns the number of the denoiser that works at this timestep of the sampler. */
int sg_denoiser_at(const sg_components *components, double timestep);

/* Returns how many layers of self-attention the denoisers before this one have. Where `denoiser` is the number of
 * denoisers, these are all of them. */
int sg_first_layer(const sg_components *components, int denoiser);

#endif
