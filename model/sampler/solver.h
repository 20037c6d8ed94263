/* solver.h - what sampler.c asks of each solver: one file and one line of the table in sampler.c each. */
#ifndef SG_SOLVER_H
#define SG_SOLVER_H

#include "sampler.h"

typedef struct sg_solver {
    const char *class_name;      /* of diffusers' scheduler: _class_name */
    bool        list;            /* takes a list of sigmas */
    bool        noise;           /* a step wants fresh normals in st->noise */
    bool        starts_at_sigma; /* the first sample is not noise but sigma[0] times noise */
    bool        rises;           /* the model's timesteps go by 1 - sigma, from 0 on */
    /* read takes from scheduler_config.json what is this solver's alone; faults are noted in c. */
    void (*read)(sg_sampler_config *out, sg_config *c);
    /* schedule fills sigma[0 .. steps - 1] and timestep[] of p, whose config and steps are set. */
    sg_status (*schedule)(sg_sampler *p, sg_error *e);
    /* draws answers sg_sampler_draws. NULL means once, with a solver that draws noise. */
    int (*draws)(const sg_sampler *p, int i);
    /* step does what sg_sampler_step says. */
    void (*step)(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v);
} sg_solver;

extern const sg_solver sg_solver_unipc, sg_solver_flow_euler, sg_solver_flow_lcm, sg_solver_cog_ddim, sg_solver_cog_dpm,
    sg_solver_euler_ancestral;
/* These belong to families, and a request has no name for them. flow_even and flow_flux are Euler whose sigmas are 1,
 * (N - 1)/N, .. 1/N, shifted once; those of flow_flux are shifted by the tokens where the file has
 * use_dynamic_shifting. */
extern const sg_solver sg_solver_flow_mochi, sg_solver_flow_even, sg_solver_flow_flux;

/* These are for read. They tell what the field must say to be supported; a fault is noted in c. */
void   sg_solver_absent(sg_config *c, const char *key); /* null, or not there */
double sg_solver_shift(sg_config *c, const char *key);  /* 1 where it is not there */

/* Sets sigma[i] and its timestep, which is not rounded to a whole number. */
void sg_solver_set(sg_sampler *p, int i, float sigma);

/* Returns s under c's flow shift, with products and quotients in diffusers' order. */
float sg_solver_shifted(const sg_sampler_config *c, float s);

/* These are what all of diffusers' schedulers named FlowMatch... read, and their schedule. */
void      sg_solver_flow_read(sg_sampler_config *out, sg_config *c);
sg_status sg_solver_flow_schedule(sg_sampler *p, sg_error *e);

/* These are what both of diffusers' schedulers named CogVideoX... read, and the schedule of all with betas. */
void      sg_solver_betas_read(sg_sampler_config *out, sg_config *c);
sg_status sg_solver_betas_schedule(sg_sampler *p, sg_error *e);

/* Does what sg_sampler_clean says, of a schedule of betas. */
void sg_solver_betas_clean(const sg_sampler *p, int i, double a[2]);

/* Steps by the formula of cog_dpm.c. The clean sample is extrapolated: `more` times its last change is added. */
void sg_solver_reverse_sde(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v, double more);

/* Describes a sample as clean sample times `clean` plus noise times `noise`. The sum of the squares of the two numbers
 * is 1. */
typedef struct sg_mixture {
    double clean, noise;
} sg_mixture;
sg_mixture sg_mixture_at(double sigma);

#endif
