/* frame_rule.c - see frame_rule.h. */
#include "frame_rule.h"

#include <limits.h>
#include <stdio.h>

int64_t sg_frame_rule_count(sg_frame_rule rule, int64_t l)
{
    return rule.pairs && l % 2 == 0 ? rule.step * l : rule.step * (l - 1) + 1;
}

/* With pairs no count is nearer than that of (frames - 1) / step + 1 latent frames. */
int sg_frame_rule_nearest(sg_frame_rule rule, int frames)
{
    if (!rule.step) return 1;
    int64_t l = ((int64_t)frames - 1 + (rule.pairs ? 0 : rule.step / 2)) / rule.step + 1;
    while (sg_frame_rule_count(rule, l) > INT_MAX) l--;
    return (int)sg_frame_rule_count(rule, l);
}

const char *sg_frame_rule_text(char *text, size_t size, sg_frame_rule rule)
{
    if (rule.pairs)
        snprintf(text, size, "%d n or %d n + 1", 2 * rule.step, 2 * rule.step);
    else if (rule.step)
        snprintf(text, size, "%d n + 1", rule.step);
    else
        snprintf(text, size, "1");
    return text;
}
