/* clip_names.c - see clip_names.h. */
#include "clip_names.h"
#include "base/utf8.h"
#include "json_build.h"

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
        const size_t got = sg_utf8_next(p, 4, &c);
        const bool   safe = got && !is_unsafe(c);
        const size_t bytes = safe ? got : 1;
        if (n + bytes > SG_CLIP_STEM) break;
        memcpy(out + n, safe ? p : "_", bytes);
        n += bytes;
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

/* first: by prompt the index after the clips that it has so far. stems: by stem its prompts, each with its twin. */
static void name_entry(sg_clip_name *n, const sg_prompt *p, int per_prompt, json_t **first, json_t **stems)
{
    if (p->image_id < 0)
        sg_clip_stem(n->stem, p->text);
    else
        snprintf(n->stem, sizeof n->stem, "%" PRId64, p->image_id);
    if (!json_object_get(*stems, n->stem)) sg_json_set(stems, n->stem, json_object());
    json_t *const twins = json_object_get(*stems, n->stem), *const known = json_object_get(twins, p->text);
    const int others = (int)json_object_size(twins);
    n->twin = known ? (int)json_integer_value(known) : others ? others + 1 : 0;
    if (json_object_set_new(twins, p->text, json_integer(n->twin)) != 0) sg_json_join(stems, NULL);
    n->first = (int)json_integer_value(json_object_get(*first, p->text));
    sg_json_set(first, p->text, json_integer(n->first + per_prompt));
}

sg_status sg_clip_names_make(sg_clip_name **out, const sg_prompt_set *set, int per_prompt, sg_error *e)
{
    sg_clip_name *const names = calloc((size_t)set->count, sizeof *names);
    json_t             *first = json_object(), *stems = json_object();
    for (int i = 0; names && i < set->count; i++) name_entry(&names[i], &set->prompt[i], per_prompt, &first, &stems);
    const bool whole = names && first && stems;
    json_decref(first);
    json_decref(stems);
    *out = whole ? names : NULL;
    if (whole) return SG_OK;
    free(names);
    return sg_error_set(e, SG_E_MEMORY, "out of memory");
}
