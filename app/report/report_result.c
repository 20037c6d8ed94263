/* report_result.c - see report_result.h. */
#include "report_result.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

static const char *clip(const sg_result *r) { return r->images ? "image" : "clip"; }

/* "attention 2.10x as fast, clip 1.27x" */
static void add_time(char *text, const sg_result *r)
{
    const bool part = !isnan(r->part_speed.mean), whole = !isnan(r->clip_speed.mean);
    if (r->same_kernels) {
        sg_text_append(text, SG_RESULT_TEXT, "same kernels");
        return;
    }
    if (part)
        sg_text_append(text, SG_RESULT_TEXT, "%.20s %.2fx as fast, ", r->part, r->part_speed.mean);
    else if (whole && !isnan(r->part_speed.low))
        sg_text_append(text, SG_RESULT_TEXT, "%.20s not distinguishable in time, ", r->part);
    if (whole)
        sg_text_append(text, SG_RESULT_TEXT, "%s %.2fx%s", clip(r), r->clip_speed.mean, part ? "" : " as fast");
    else
        sg_text_append(text, SG_RESULT_TEXT, "%s%snot distinguishable in time", part ? clip(r) : "", part ? " " : "");
}

const char *sg_result_text(char *text, const sg_result *r)
{
    const bool same = isinf(r->psnr);
    const int  counted = r->clips - (same ? 0 : r->identical);
    snprintf(text, SG_RESULT_TEXT, "%.120s: ", r->arm);
    if (isnan(r->psnr)) {
        sg_text_append(text, SG_RESULT_TEXT, "nothing was compared with %.120s", r->first);
        return text;
    }
    add_time(text, r);
    if (same)
        sg_text_append(text, SG_RESULT_TEXT, ", every %s equal to that of %.120s", r->images ? "image" : "frame",
                       r->first);
    else
        sg_text_append(text, SG_RESULT_TEXT, ", %.1f dB to %.120s", r->psnr, r->first);
    if (counted > 0)
        sg_text_append(text, SG_RESULT_TEXT, " %s %d %s%s", same ? "in" : "over", counted, clip(r), sg_plural(counted));
    if (!same && r->identical)
        sg_text_append(text, SG_RESULT_TEXT, ", %d equal %.20s%s not counted", r->identical,
                       r->images ? "image" : r->what, sg_plural(r->identical));
    return text;
}
