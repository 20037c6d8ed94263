/* arm_same.c - arms that would run the same kernels are refused before anything is rendered. */
#include "arm_run.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

/* Makes r the least size of its shape with so many tokens; false: the model renders none. Tokens grow no faster than the
 * area, so nothing below the first size that is tried has enough. */
static bool enlarge(const sg_arm_run *x, sg_request *r, int64_t tokens, int64_t now)
{
    const int    m = x->session.info.multiple;
    const long   first = lround(r->width * sqrt((double)tokens / (double)now)) / m * m;
    const double shape = (double)r->height / r->width;
    sg_plan      plan = {.size = sizeof plan};
    sg_error     why = {0};
    for (long width = first; plan.tokens < tokens; width += m) {
        r->width = (int)width;
        r->height = (int)lround(fmax(1, shape * (double)width / m)) * m;
        if (sg_engine_check_request(x->session.engine, r, &why) || sg_engine_plan(x->session.engine, r, &plan, &why))
            return false;
    }
    return true;
}

/* Of two arms that are dense since there are too few tokens, the one that needs fewer: where it is not dense they
 * differ. */
static void name_size(char why[SG_FORECAST_TEXT], const sg_arm_run *x, int a, int b)
{
    const sg_rendering *const of[] = {&x->arm[a].now, &x->arm[b].now};
    int64_t                   tokens = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t own = of[i]->request.attention.named ? SG_NAMED_TOKENS : SG_TOKENS;
        if (of[i]->plan.attention_why == SG_WHY_SHORT && (!tokens || own < tokens)) tokens = own;
    }
    sg_request r = x->shared.request;
    if (tokens && enlarge(x, &r, tokens, x->arm[b].now.plan.tokens))
        sg_text_append(why, SG_FORECAST_TEXT, "; the smallest size of this shape where they differ is %dx%d", r.width,
                       r.height);
}

sg_status sg_arms_refuse_same(const sg_arm_run *x, sg_error *e)
{
    for (int b = 1; b < x->arms.count; b++)
        for (int a = 0; a < b; a++) {
            char why[SG_FORECAST_TEXT];
            if (!*sg_arms_would_be_same(why, &x->arm[a], &x->arm[b])) continue;
            name_size(why, x, a, b);
            return sg_error_set(e, SG_E_ARG, "--arms: %s and %s would run the same kernels throughout: %s",
                                x->arms.arm[a].name, x->arms.arm[b].name, why);
        }
    return SG_OK;
}
