/* json_build.h - JSON put together piece by piece: a failure, which is one of memory, leaves NULL, and what is added
 * to NULL is dropped, so that one look at the end suffices. json_pack, too, makes NULL of a NULL under "o". */
#ifndef SG_JSON_BUILD_H
#define SG_JSON_BUILD_H

#include <jansson.h>

/* All of these take what they add. */
void sg_json_append(json_t **array, json_t *value);
void sg_json_set(json_t **object, const char *key, json_t *value);

/* Adds the members of another object. */
void sg_json_join(json_t **object, json_t *members);

#endif
