/* clip_names.c - see clip_names.h. */
#include "clip_names.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* ---- one name ---- */

static bool is_unsafe(int32_t c)
{
    if (c < 0x80) return c < ' ' || c == 127 || strchr("/\\:*?\"<>|~", (char)c);
    const utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_ZL ||
           k == UTF8PROC_CATEGORY_ZP || k == UTF8PROC_CATEGORY_CN || k == UTF8PROC_CATEGORY_CO;
}

void sg_clip_stem(char out[SG_CLIP_STEM + 1], const char *prompt)
{
    size_t n = 0;
    for (const char *p = prompt; *p;) {
        int32_t      c;
        const size_t got = sg_utf8_next(p, 4, &c), bytes = got && !is_unsafe(c) ? got : 0;
        if (n + (bytes ? bytes : 1) > SG_CLIP_STEM) break;
        if (bytes)
            memcpy(out + n, p, bytes);
        else
            out[n] = '_';
        n += bytes ? bytes : 1;
        p += got ? got : 1;
    }
    out[n] = '\0';
    if (out[0] == '.' || out[0] == '-' || !n) out[0] = '_';
    if (!n) out[1] = '\0';
}

void sg_clip_name_write(char out[SG_CLIP_NAME], const sg_clip_name *n, int k, const char *ending)
{
    char twin[16] = "";
    if (n->twin) snprintf(twin, sizeof twin, "~%d", n->twin);
    snprintf(out, SG_CLIP_NAME, "%s%s-%d%.8s", n->stem, twin, n->first + k, ending);
}

/* ---- those of a set ---- */

typedef struct named {
    const char *stem, *prompt;
    int         entry;
    int         leader; /* the first entry of this prompt */
} named;

static int by_prompt(const void *a, const void *b)
{
    const named *const x = a, *const y = b;
    const int order = strcmp(x->prompt, y->prompt);
    return order ? order : x->entry - y->entry;
}

static int by_stem(const void *a, const void *b)
{
    const named *const x = a, *const y = b;
    const int order = strcmp(x->stem, y->stem);
    return order ? order : x->leader != y->leader ? x->leader - y->leader : x->entry - y->entry;
}

/* Counts clips of the same prompt on, and prompts of the same stem. */
static void number_twins(named *all, sg_clip_name *names, int count, int per_prompt)
{
    qsort(all, (size_t)count, sizeof *all, by_prompt);
    for (int i = 0; i < count; i++) {
        const bool again = i && strcmp(all[i].prompt, all[i - 1].prompt) == 0;
        all[i].leader = again ? all[i - 1].leader : all[i].entry;
        names[all[i].entry].first = again ? names[all[i - 1].entry].first + per_prompt : 0;
    }
    qsort(all, (size_t)count, sizeof *all, by_stem);
    for (int i = 0; i < count; i++) {
        const bool          same_stem = i && strcmp(all[i].stem, all[i - 1].stem) == 0;
        const bool          again = same_stem && all[i].leader == all[i - 1].leader;
        sg_clip_name *const n = &names[all[i].entry];
        if (!same_stem) continue;
        const sg_clip_name *const before = &names[all[i - 1].entry];
        n->twin = again ? before->twin : before->twin ? before->twin + 1 : 2;
    }
}

sg_status sg_clip_names_make(sg_clip_name **out, const sg_prompt_set *set, int per_prompt, sg_error *e)
{
    const size_t        count = (size_t)set->count;
    sg_clip_name *const names = *out = calloc(count, sizeof *names);
    named *const        all = names ? calloc(count, sizeof *all) : NULL;
    if (!all) {
        free(names);
        *out = NULL;
        return sg_error_set(e, SG_E_MEMORY, "out of memory");
    }
    for (int i = 0; i < set->count; i++) {
        const sg_prompt *const p = &set->prompt[i];
        if (p->image_id < 0)
            sg_clip_stem(names[i].stem, p->text);
        else
            snprintf(names[i].stem, sizeof names[i].stem, "%" PRId64, p->image_id);
        all[i] = (named){.stem = names[i].stem, .prompt = set->prompt[i].text, .entry = i};
    }
    number_twins(all, names, set->count, per_prompt);
    free(all);
    return SG_OK;
}
