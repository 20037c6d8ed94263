/* arm_setup.h - shared by the commands with arms: what they do before an arm renders, and right after. */
#ifndef SG_ARM_SETUP_H
#define SG_ARM_SETUP_H

#include "progress.h"
#include "report_arms.h"

/* If the model's default clip has too few tokens to skip any, doubles the sides of r until it has enough. Sides that s
 * gives are kept. */
sg_status sg_arms_size(sg_request *r, sg_engine *engine, const sg_settings *s, sg_error *e) SG_MUST_USE;

/* Fills policy, cache, steps, guidance, slg_scale, files and forecast of r from its arm, for shared, whose attention is the model's, and plan with
 * what a render would need. SG_E_ARG, SG_E_FILE or SG_E_FORMAT, naming the arm. Files are r's, after a failure too. */
sg_status sg_arm_setup(sg_arm_result *r, sg_plan *plan, sg_engine *engine, const sg_request *shared,
                       sg_error *e) SG_MUST_USE;

/* Puts what the arm of r, set up, asks for into a request that all arms share. */
void sg_arm_apply(const sg_arm_result *r, sg_request *request);

/* Whether two arms, set up, would run the same kernels on the same blocks in all layers and steps, as far as it is known
 * before: why is the reason, or "" if not. plan is that of a render. SG_E_MEMORY. */
sg_status sg_arms_would_be_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b,
                                const sg_model_info *info, const sg_plan *plan, sg_error *e) SG_MUST_USE;

/* Prints each arm's attention, warnings about its thresholds, and that of the cache if it is the model's own. */
void sg_arms_say(sg_progress *p, const sg_arm_result *r, int count, const sg_request *shared, int64_t tokens,
                 const sg_model_path *model);

/* Runs a step and a latent frame of r that count for no arm: this reads the weights' pages, packs the weights and
 * encodes r's texts. out is its report. SG_E_CANCELLED on an interrupt. */
sg_status sg_arms_warm_up(sg_report *out, sg_engine *engine, const sg_request *r, sg_progress *p,
                          sg_error *e) SG_MUST_USE;

/* Copies the attention counts of engine's last render to r. SG_E_MEMORY. */
sg_status sg_arm_keep_counts(sg_arm_result *r, const sg_engine *engine, sg_error *e) SG_MUST_USE;

#endif
