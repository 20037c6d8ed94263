/* build_facts.h - what this build can do: --version and info tell it. */
#ifndef SG_BUILD_FACTS_H
#define SG_BUILD_FACTS_H

#include <jansson.h>
#include <stddef.h>

enum { SG_BUILD_TEXT = 512 };

/* A line each of CUDA, oneDNN and FFmpeg, which begins with indent, but the first. What is not there is said. Returns text. */
const char *sg_build_facts_text(char *text, size_t size, const char *indent);

/* The same; null for what is not there. NULL: no memory. */
json_t *sg_build_facts_json(void);

#endif
