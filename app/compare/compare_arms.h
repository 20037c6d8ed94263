/* compare_arms.h - `sparge-gen compare --prompt`: each arm renders from the same noise, and one folder shows them. */
#ifndef SG_COMPARE_ARMS_H
#define SG_COMPARE_ARMS_H

#include "options.h"

/* Writes a clip of each arm, side.mp4, frames.png, report.json (report_arms.h) and report.html into s->output, all at the
 * end. Two arms that would run the same kernels throughout are SG_E_ARG, before anything heavy; that they did,
 * which only a render shows, is SG_E_MISMATCH, after all was written. */
sg_status sg_compare_arms(const sg_settings *s, sg_error *e) SG_MUST_USE;

#endif
