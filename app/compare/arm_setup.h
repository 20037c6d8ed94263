/* arm_setup.h - shared by the commands with arms: what they do before an arm renders, and right after. */
#ifndef SG_ARM_SETUP_H
#define SG_ARM_SETUP_H

#include "report_arms.h"
#include "session.h"

/* If the model's default clip has too few tokens to skip any, doubles the sides of r, resolved, until it has enough. Sides
 * that asked gives are kept. */
sg_status sg_arms_size(sg_rendering *r, sg_engine *engine, const sg_settings *asked, sg_error *e) SG_MUST_USE;

/* Resolves the settings of r's arm, with the inputs of shared, which is resolved, and plans its request with shared's pictures.
 * SG_E_ARG, SG_E_FILE or SG_E_FORMAT, naming the arm. The caller closes r's rendering, after a failure too. */
sg_status sg_arm_setup(sg_arm_result *r, sg_session *x, const sg_rendering *shared, sg_error *e) SG_MUST_USE;

/* Whether two arms, set up, would run the same kernels on the same blocks: why is the reason, or "" if they differ. */
void sg_arms_would_be_same(char *why, size_t size, const sg_arm_result *a, const sg_arm_result *b);

/* Prints each arm's attention, warnings about its thresholds, and that of the cache if it is the model's own. */
void sg_arms_say(sg_session *x, const sg_arm_result *r, int count);

/* Runs a step and a latent frame of r that count for no arm: this reads the weights' pages, packs the weights and
 * encodes r's texts. out is its report. SG_E_CANCELLED on an interrupt. */
sg_status sg_arms_warm_up(sg_report *out, sg_engine *engine, const sg_request *r, sg_progress *p,
                          sg_error *e) SG_MUST_USE;

/* Copies the attention counts of engine's last render to r. SG_E_MEMORY. */
sg_status sg_arm_keep_counts(sg_arm_result *r, const sg_engine *engine, sg_error *e) SG_MUST_USE;

#endif
