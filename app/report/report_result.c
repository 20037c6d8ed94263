/* report_result.c - see report_result.h. */
#include "report_result.h"

#include <math.h>
#include <stdio.h>

static const char *clip(const sg_result *r) { return r->images ? "image" : "clip"; }

static const char *plural(int n) { return n == 1 ? "" : "s"; }

/* "attention 2.10x as fast, clip 1.27x" */
static int add_time(char *text, size_t size, const sg_result *r)
{
    const bool part = !isnan(r->part_speed.mean), whole = !isnan(r->clip_speed.mean);
    char       of_part[96] = "", of_clip[64];
    if (!part && !whole) return snprintf(text, size, "not distinguishable in time");
    if (part)
        snprintf(of_part, sizeof of_part, "%.20s %.2fx as fast, ", r->part, r->part_speed.mean);
    else if (!isnan(r->part_speed.low))
        snprintf(of_part, sizeof of_part, "%.20s not distinguishable in time, ", r->part);
    if (whole)
        snprintf(of_clip, sizeof of_clip, "%s %.2fx%s", clip(r), r->clip_speed.mean, part ? "" : " as fast");
    else
        snprintf(of_clip, sizeof of_clip, "%s not distinguishable in time", clip(r));
    return snprintf(text, size, "%s%s", of_part, of_clip);
}

const char *sg_result_text(char *text, const sg_result *r)
{
    const size_t size = SG_RESULT_TEXT;
    int          n = snprintf(text, size, "%.120s: ", r->arm);
    if (isnan(r->psnr)) {
        snprintf(text + n, size - (size_t)n, "nothing was compared with %.120s", r->first);
        return text;
    }
    n += add_time(text + n, size - (size_t)n, r);
    if (isinf(r->psnr))
        n += snprintf(text + n, size - (size_t)n, ", every %s equal to that of %.120s", r->images ? "image" : "frame",
                      r->first);
    else
        n += snprintf(text + n, size - (size_t)n, ", %.1f dB to %.120s", r->psnr, r->first);
    const int counted = r->clips - (isinf(r->psnr) ? 0 : r->identical);
    if (counted > 0)
        n += snprintf(text + n, size - (size_t)n, " %s %d %s%s", isinf(r->psnr) ? "in" : "over", counted, clip(r),
                      plural(counted));
    if (isfinite(r->psnr) && r->identical)
        snprintf(text + n, size - (size_t)n, ", %d equal %.20s%s not counted", r->identical,
                 r->images ? "image" : r->what, plural(r->identical));
    return text;
}
