/* solver.h - what sampler.c asks of each solver. */
#ifndef SG_SOLVER_H
#define SG_SOLVER_H

#include "sampler.h"

/* Fill sigma[0 .. steps - 1] and timestep[] of p, whose config and steps are set. */
void sg_unipc_sigmas(sg_sampler *p, bool old);
void sg_flow_euler_sigmas(sg_sampler *p);

/* sg_sampler_step of each. */
void sg_unipc_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v);
void sg_flow_euler_step(const sg_sampler *p, sg_sampler_state *st, sg_stream *s, int i, sg_tensor v);

#endif
