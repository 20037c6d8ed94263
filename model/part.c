/* part.c - opening one component of a checkpoint. */
#include "part.h"

#include <stdio.h>
#include <string.h>

sg_status sg_part_open(sg_part *p, const char *model_dir, const char *name, const char *stem, const char *class_name,
                       sg_dtype act, sg_config **config, sg_error *e)
{
    char path[sizeof p->dir + 16];
    p->act = act;
    snprintf(p->name, sizeof p->name, "%s", name);
    if (snprintf(p->dir, sizeof p->dir, "%s/%s", model_dir, name) >= (int)sizeof p->dir)
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", model_dir);
    snprintf(path, sizeof path, "%s/config.json", p->dir);
    SG_TRY(sg_config_open(config, path, e));
    const char *const class = class_name ? sg_config_string(*config, "_class_name", class_name) : NULL;
    if (class && strcmp(class, class_name) != 0)
        sg_config_fail(*config, "_class_name", "is \"%s\", which is not read here; %s is", class, class_name);
    SG_TRY(sg_config_status(*config));
    SG_TRY(sg_weights_open(&p->weights, p->dir, stem, e));
    return sg_bind_open(&p->bind, p->weights, e);
}

void sg_part_close(sg_part *p)
{
    sg_bind_close(&p->bind);
    sg_weights_close(&p->weights);
}
