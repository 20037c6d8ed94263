/* build_facts.h - what this build can do: --version and info tell it. */
#ifndef SG_BUILD_FACTS_H
#define SG_BUILD_FACTS_H

#include <jansson.h>
#include <stddef.h>

enum { SG_BUILD_TEXT = 512 };

/* Writes a line each about CUDA, oneDNN and FFmpeg, all but the first after indent. It says what is not there. Returns
 * text. */
const char *sg_build_facts_text(char text[SG_BUILD_TEXT], const char *indent);

/* Returns the same facts, null for what is not there; NULL when memory runs out. */
json_t *sg_build_facts_json(void);

#endif
