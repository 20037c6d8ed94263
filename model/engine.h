/* engine.h - what the tools of this repository see of an engine beside spargegen.h: traces, hooks, shapes for
 * measurements. It is not installed. */
#ifndef SG_ENGINE_H
#define SG_ENGINE_H

#include "attention_error.h"
#include "frame_rule.h"
#include "run.h"
#include "spargegen/spargegen.h"
#include "thresholds/thresholds.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_trace sg_trace;

/* The choices of spargegen.h. */
typedef int sg_offload, sg_cache, sg_sampler_kind, sg_tiling, sg_image_use, sg_stage;

enum { SG_CACHE_RUN = 2 }; /* as many steps in a row with SG_CACHE_USUAL */

/* From now on t takes the time of every op of engine's renders (meta.h), unless it checks; NULL: nothing does. It is
 * borrowed, and nothing else is timed. */
void sg_engine_trace(sg_engine *engine, sg_trace *t);

/* From now on w looks at the self-attention of the denoisers in renders and plans of engine, until another does; zero:
 * nobody does. Tokens are in order for on_begin also where all attention is dense. */
void sg_engine_watch(sg_engine *engine, const sg_attention_watch *w);

/* Self-attention of a well-known model, for measurements. */
typedef struct sg_known_shape {
    const char *name; /* "mochi" */
    int         heads, head_dim, layers;
    int64_t     grid[3];                  /* tokens: frames, rows, columns of the denoiser's patches */
    int64_t     text_prefix, text_suffix; /* tokens of text before and behind them */
} sg_known_shape;

/* Returns the i-th, from 0, of those that the families offer; NULL past the last. */
const sg_known_shape *sg_known_shape_at(int i);

#ifdef __cplusplus
}
#endif
#endif
