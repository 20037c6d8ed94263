/* frame_rule.h - how many frames a model makes. Of l latent frames it makes step (l - 1) + 1; or, where its decoder takes
 * them in pairs and l is even, step l. A model of images has step 0: it makes one. */
#ifndef SG_FRAME_RULE_H
#define SG_FRAME_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_frame_rule {
    int  step;
    bool pairs;
} sg_frame_rule;

/* Returns the frames of l latent frames, which are 1 or more. */
int64_t sg_frame_rule_count(sg_frame_rule rule, int64_t l);

/* Returns the count nearest to `frames`, 1 or more; of two as near it returns the larger. */
int sg_frame_rule_nearest(sg_frame_rule rule, int frames);

/* Writes the counts for people: "4 n + 1", "8 n or 8 n + 1", "1". text has room for size bytes, and is returned. */
const char *sg_frame_rule_text(char *text, size_t size, sg_frame_rule rule);

#endif
