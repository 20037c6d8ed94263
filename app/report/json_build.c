/* json_build.c - see json_build.h. */
#include "json_build.h"

static void drop_if(json_t **j, int failed)
{
    if (!failed) return;
    json_decref(*j);
    *j = NULL;
}

void sg_json_append(json_t **array, json_t *value) { drop_if(array, json_array_append_new(*array, value)); }

void sg_json_set(json_t **object, const char *key, json_t *value)
{
    drop_if(object, json_object_set_new(*object, key, value));
}

void sg_json_join(json_t **object, json_t *members) { drop_if(object, json_object_update_new(*object, members)); }
