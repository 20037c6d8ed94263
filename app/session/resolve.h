/* resolve.h - from what is asked for to what is in effect, and to what makes it: one struct, filled in by the engine's
 * defaults. */
#ifndef SG_RESOLVE_H
#define SG_RESOLVE_H

#include "forecast.h"
#include "options.h"

enum { SG_SIGMAS_TEXT = SG_SIGMAS_MAX * 24 };

/* A rendering has settings, and the request that they make: without the prompt, which comes with each clip, and without
 * pictures. It is zero but for settings to begin with, and stays where it is, since its parts borrow from one
 * another. */
typedef struct sg_rendering {
    sg_settings settings;
    sg_request  request;
    char        sigmas[SG_SIGMAS_TEXT];
    sg_plan     plan;
} sg_rendering;

/* Gives every option that the settings' command has, and that the engine knows, its effective value: what is asked for,
 * or the engine's default. Where the command has arms, attention stays as asked for: arms settle it. Draws the seed
 * where it is to be random. SG_E_ARG names an option that would have no effect; SG_E_FILE or SG_E_FORMAT a file. */
sg_status sg_resolve(sg_rendering *r, const sg_engine *engine, sg_error *e) SG_MUST_USE;

/* Resolves attention alone, whose policy r's request has. */
sg_status sg_resolve_attention(sg_rendering *r, sg_error *e) SG_MUST_USE;

/* Returns the decimal number that was asked for, not the float next to it: the shortest that is read as this float. */
double sg_decimal(float v);

/* Makes the plan of r's request. */
sg_status sg_rendering_plan(sg_rendering *r, sg_engine *engine, sg_error *e) SG_MUST_USE;

/* Returns what is kept of r, whose plan is made: attention is what will run; options without effect on it, and a
 * negative prompt without guidance, are not given. */
sg_settings sg_rendering_kept(const sg_rendering *r);

/* Makes *out the shared request, rendered as r says: what options of RENDER set is r's. */
void sg_rendering_request(sg_request *out, const sg_request *shared, const sg_rendering *r);

/* Commands that render clips by themselves do so many steps or more with SG_CACHE_USUAL, unless another
 * cache is asked for. */
enum { SG_CACHE_USUAL_FROM = 30 };

#endif
