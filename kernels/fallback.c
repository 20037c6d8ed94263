/* fallback.c - see fallback.h. */
#include "fallback.h"

#include "base/text.h"

#include <string.h>

void sg_fallback_count(sg_fallbacks *f, const char *what) { sg_fallbacks_add(f, &(sg_fallbacks){.row = {{what, 1}}}); }

void sg_fallbacks_add(sg_fallbacks *f, const sg_fallbacks *g)
{
    for (int k = 0; k < SG_FALLBACKS && g->row[k].what; k++) {
        int i = 0;
        while (i < SG_FALLBACKS - 1 && f->row[i].what && strcmp(f->row[i].what, g->row[k].what) != 0) i++;
        if (!f->row[i].what) f->row[i].what = g->row[k].what;
        f->row[i].calls += g->row[k].calls;
    }
}

void sg_fallbacks_describe(const sg_fallbacks *f, char *text, size_t size)
{
    for (int i = 0; i < SG_FALLBACKS && f->row[i].what; i++)
        sg_text_append(text, size, "%s%s (%lld call%s)", *text ? "; " : "", f->row[i].what, (long long)f->row[i].calls,
                       sg_plural(f->row[i].calls));
}
