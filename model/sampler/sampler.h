/* sampler.h - a sampler is host arithmetic in double that emits coefficients; the device sees y = sum of a[i] x[i]. */
#ifndef SG_SAMPLER_H
#define SG_SAMPLER_H

#include "checkpoint.h"
#include "engine.h"
#include "op.h"

/* These sets say which samplers go with a model, by bits of sg_sampler_kind. */
enum {
    SG_SAMPLERS_FLOW = 1 << SG_SAMPLER_UNIPC | 1 << SG_SAMPLER_EULER | 1 << SG_SAMPLER_LCM,
    SG_SAMPLERS_BETAS = 1 << SG_SAMPLER_DDIM | 1 << SG_SAMPLER_DPM
};

/* Describes a schedule of betas. alpha_bar_t is the product over s <= t of 1 - beta_s, sqrt(beta_s), or beta_s itself
 * where they are linear, going from that of start to that of end in even steps. Then it becomes alpha_bar / (shift +
 * (1 - shift) alpha_bar). The last four members are EULER_A's. */
typedef struct sg_betas {
    double start, end;
    double shift;    /* snr_shift_scale; 1 of EULER_A */
    bool   zero_snr; /* rescaled so that the last one is 0, or as `least` says */
    double least;
    bool   linear;
    bool   leading; /* timestep_spacing, else trailing; the first sample is then the noise as it is */
    bool   epsilon; /* the model predicts the noise, else v */
    int    offset;  /* steps_offset, which leading timesteps have */
} sg_betas;

/* Describes a flow shift that goes by the picture's tokens: e^mu, where mu is on the line through these two points. */
typedef struct sg_token_shift {
    bool   on;
    double tokens[2]; /* base_image_seq_len, max_image_seq_len, which differ */
    double mu[2];     /* base_shift, max_shift */
} sg_token_shift;

/* A request's sigmas. */
typedef struct sg_sigmas {
    int    count; /* 0: the sampler's schedule */
    double at[SG_SIGMAS_MAX];
} sg_sigmas;

/* Holds what scheduler/scheduler_config.json says. A caller may change kind, flow_shift, sigmas and sigmas_old, and
 * sets tokens, before sg_sampler_init. */
typedef struct sg_sampler_config {
    /* A family's own solver (solver.h), which a request does not change, stands here; NULL stands for that of kind. */
    const struct sg_solver *solver;
    sg_sampler_kind         kind;        /* from _class_name */
    unsigned                kinds;       /* that may be asked for instead */
    double                  flow_shift;  /* flow_shift of UniPC, shift of Euler and LCM, 1 of the others; above 0 */
    sg_token_shift          by_tokens;   /* on: a flow_shift of 0 stands for this */
    int64_t                 tokens;      /* of the picture, for by_tokens */
    sg_betas                betas;       /* of DDIM, DPM and EULER_A */
    int                     train_steps; /* num_train_timesteps */
    int                     order;       /* UniPC's solver_order, 1 or 2; 2 where the file is another's */
    sg_sigmas               sigmas;      /* of the request */
    bool                    sigmas_old;  /* UniPC: the base sigmas of diffusers before 0.37 */
} sg_sampler_config;

/* Reads the config of c's component "scheduler", which is one of diffusers', of these kinds. What this program does not do
 * (dynamic shift, karras sigmas, another prediction type, ...) is refused with the field's name. */
sg_status sg_sampler_config_read(sg_sampler_config *out, const sg_checkpoint *checkpoint, unsigned kinds,
                                 sg_error *e) SG_MUST_USE;

/* Does the same for a family with a solver of its own, which no request changes. */
sg_status sg_sampler_config_read_own(sg_sampler_config *out, const sg_checkpoint *checkpoint,
                                     const struct sg_solver *own, sg_error *e) SG_MUST_USE;

extern const char *const sg_step_preset_names[]; /* "lightx2v", ..., NULL: their makers' names */

/* Checks a list of sigmas. SG_E_ARG tells which one is not what a list wants. An empty list will do. */
sg_status sg_sigmas_check(const sg_sigmas *s, sg_error *e) SG_MUST_USE;

/* Holds all numbers of a run of `steps` steps; config.flow_shift is the shift that they have. sigma is the share of
 * noise: up to a factor, a sample is (1 - sigma) times clean sample plus sigma times noise. With betas it is sqrt(1 -
 * alpha_bar) / (sqrt(alpha_bar) + sqrt(1 - alpha_bar)). */
typedef struct sg_sampler {
    sg_sampler_config config;
    int               steps;
    /* Step i starts from sigma[i]. They fall; those of flow matching are rounded to F32, and the last is 0. */
    double sigma[SG_STEPS_MAX + 1];
    /* With a schedule of betas step i ends at end[i]: diffusers' is not always sigma[i + 1]. */
    double end[SG_STEPS_MAX];
    /* The model is given timestep[i], about 1000 sigma: a whole number but with Euler and LCM. */
    double timestep[SG_STEPS_MAX];
} sg_sampler;

/* Computes the numbers of a run. Returns SG_E_ARG when steps is not 1..SG_STEPS_MAX, or more than a schedule of betas
 * has; when the shift is so extreme that two sigmas of UniPC fall together; when c's sigmas are not a list for it; and
 * when c's kind is none of its kinds. */
sg_status sg_sampler_init(sg_sampler *out, const sg_sampler_config *c, int steps, sg_error *e) SG_MUST_USE;

/* Leaves the first `first` of the steps out: step 0 is now step `first`. */
void sg_sampler_skip(sg_sampler *p, int first);

/* Returns the timestep of step i, of 1000, which falls, however the model counts. Attention goes by it. */
double sg_sampler_of_1000(const sg_sampler *p, int i);

/* Holds the state of a run, F32 tensors of one latent's shape. x stays at its address; the others change roles. */
typedef struct sg_sampler_state {
    sg_tensor x;    /* the current sample: the model's input. The caller fills it with noise before step 0 */
    sg_tensor last; /* the (corrected) sample that the last predictor started from */
    sg_tensor spare;
    sg_tensor m[3];  /* UniPC, DPM, EULER_A: predictions of the clean sample, newest first */
    sg_tensor noise; /* absent but with a solver that draws: normals, which the caller renews: sg_sampler_draws */
} sg_sampler_state;

/* Takes the state's tensors from s->keep. shape is [c, f, y, x]. */
sg_sampler_state sg_sampler_state_new(const sg_sampler *p, sg_stream *s, const int64_t shape[4]);

/* Call it before step 0, when x is noise. It makes x the sample that step 0 starts from, which has as much of `clean`
 * as its sigma says; where that is absent, x is noise alone. It changes last. */
void sg_sampler_begin(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, sg_tensor clean);

/* Returns how often the caller fills st->noise before step i. The last time counts; the others are those of diffusers
 * too. */
int sg_sampler_draws(const sg_sampler *p, int i);

/* Finds a: the clean sample that the model's output v for x at step i stands for is a[0] x + a[1] v. */
void sg_sampler_clean(const sg_sampler *p, int i, double a[2]);

/* Finds a so that a[0] x + a[1] v changes slowly from step to step. It is the model's output v itself; but where noise
 * is drawn, which the output holds, it is the clean sample. a[1] is not 0. */
void sg_sampler_smooth(const sg_sampler *p, int i, double a[2]);

/* Returns how much a change of step i's v changes the final sample, to first order. */
double sg_sampler_weight(const sg_sampler *p, int i);

/* Makes x the sample of step i + 1. v F32 is the model's output (after guidance) for step i = 0, 1, ... in turn. */
void sg_sampler_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v);

#endif
