/* clip_names.h - names for the clips of a prompt set, in VBench's layout: ARM/PROMPT-INDEX.mp4.
 *
 * A name is the prompt, made safe. "_" replaces "/" and "\", characters that other systems refuse (: * ? " < > | ~),
 * control, invisible and direction characters, and a leading dot or dash, which would hide the file or look like an
 * option. The name is cut between characters to at most SG_CLIP_STEM bytes; all of VBench's prompts are shorter.
 * An entry with an image_id has that for its name. Prompts with the same name get "~2", "~3", ... in their order.
 * Entries with the same prompt share its name, unless they have ids, and continue its indices. Names may differ in case
 * only, as two of VBench's do: file systems must be case-sensitive. */
#ifndef SG_CLIP_NAMES_H
#define SG_CLIP_NAMES_H

#include "prompt_set.h"

/* These are the bytes of a prompt in a name, and of a whole name with its NUL. */
enum { SG_CLIP_STEM = 224, SG_CLIP_NAME = 256 };

/* twin is 0, or the number among those of the same name, from 2; first is the index of the first clip. */
typedef struct sg_clip_name {
    char stem[SG_CLIP_STEM + 1];
    int  twin, first;
} sg_clip_name;

/* Makes names for per_prompt clips, at most 1000, of each entry, [set->count]. They depend on the whole set and on
 * nothing else, so all ranks agree. Returns SG_E_MEMORY. The caller frees. */
sg_status sg_clip_names_make(sg_clip_name **out, const sg_prompt_set *set, int per_prompt, sg_error *e) SG_MUST_USE;

/* Writes the name of clip k < per_prompt; ending is at most 8 bytes, as ".mp4". */
void sg_clip_name_write(char out[SG_CLIP_NAME], const sg_clip_name *n, int k, const char *ending);

/* Writes a prompt's safe stem alone. Bytes that are not UTF-8 become "_". */
void sg_clip_stem(char out[SG_CLIP_STEM + 1], const char *prompt);

#endif
