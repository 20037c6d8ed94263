/* compare_arms.h - `sparge-gen compare --prompt`: each arm renders from the same noise, and one folder shows them. */
#ifndef SG_COMPARE_ARMS_H
#define SG_COMPARE_ARMS_H

#include "options.h"

/* Writes a clip of each arm, side.mp4, frames.png, report.json (report_arms.h) and report.html into s->output, all at the
 * end. SG_E_ARG, before any heavy work, if two arms would run the same kernels throughout. SG_E_MISMATCH, after all
 * files are written, if two arms turn out to have done so. */
sg_status sg_compare_arms(const sg_settings *s, sg_error *e) SG_MUST_USE;

#endif
