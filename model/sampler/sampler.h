/* sampler.h - a sampler is host arithmetic in double that emits coefficients; the device sees y = sum of a[i] x[i]. */
#ifndef SG_SAMPLER_H
#define SG_SAMPLER_H

#include "checkpoint.h"
#include "engine.h"
#include "op.h"

/* What scheduler/scheduler_config.json says. A caller may change kind, flow_shift and sigmas before sg_sampler_init. */
typedef struct sg_sampler_config {
    /* Of solver.h: a family's own, which a request does not change; NULL: that of kind. */
    const struct sg_solver *solver;
    sg_sampler_kind         kind;        /* from _class_name */
    double                  flow_shift;  /* flow_shift of UniPC, shift of the others; above 0 */
    int                     train_steps; /* num_train_timesteps */
    int                     order;       /* UniPC's solver_order, 1 or 2; 2 where the file is another's */
    sg_sigmas               sigmas;      /* of the request */
} sg_sampler_config;

/* Reads the config of c's component "scheduler", which is UniPCMultistepScheduler's, FlowMatchEulerDiscreteScheduler's or
 * FlowMatchLCMScheduler's of diffusers. What this program does not do (dynamic shift, karras sigmas, another
 * prediction type, ...) is refused with the field's name. */
sg_status sg_sampler_config_read(sg_sampler_config *out, const sg_checkpoint *checkpoint, sg_error *e) SG_MUST_USE;

/* SG_E_ARG tells which sigma is not what a list wants. An empty list will do. */
sg_status sg_sigmas_check(const sg_sigmas *s, sg_error *e) SG_MUST_USE;

/* All numbers of a run of `steps` steps. */
typedef struct sg_sampler {
    sg_sampler_config config;
    int               steps;
    double            sigma[SG_STEPS_MAX + 1]; /* as the solver uses them: rounded to F32, falling; the last is 0 */
    double timestep[SG_STEPS_MAX]; /* what the model is given: whole numbers with UniPC, 1000 sigma or so with others */
} sg_sampler;

/* sigmas_old: UniPC's base sigmas of diffusers before 0.37. SG_E_ARG when steps is not 1..SG_STEPS_MAX, when the shift is
 * so extreme that two sigmas of UniPC fall together, and when c's sigmas are not a list for it. */
sg_status sg_sampler_init(sg_sampler *out, const sg_sampler_config *c, int steps, bool sigmas_old,
                          sg_error *e) SG_MUST_USE;

/* The state of a run: F32 tensors of one latent's shape. x stays at its address; the others change roles. */
typedef struct sg_sampler_state {
    sg_tensor x;    /* the current sample: the model's input. The caller fills it with noise before step 0 */
    sg_tensor last; /* the (corrected) sample that the last predictor started from */
    sg_tensor spare;
    sg_tensor m[3];  /* UniPC: predictions of the clean sample, newest first */
    sg_tensor noise; /* absent but with a solver that draws: normals, which the caller renews before each step */
} sg_sampler_state;

/* Takes the state's tensors from s->keep. shape is [c, f, y, x]. */
sg_sampler_state sg_sampler_state_new(const sg_sampler *p, sg_stream *s, const int64_t shape[4]);

/* Before step 0, when x is noise. */
void sg_sampler_begin(const sg_sampler *p, sg_sampler_state *st, sg_stream *s);

/* x becomes the sample of step i + 1; v F32 is the model's output (after guidance) for step i = 0, 1, ... in turn. */
void sg_sampler_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v);

#endif
