/* component.c - opening one component of a checkpoint. */
#include "component.h"

#include <stdio.h>
#include <string.h>

sg_status sg_component_open(sg_component *p, const sg_checkpoint *c, const char *name, const char *class_name,
                            sg_dtype act, sg_config **config, sg_error *e)
{
    p->act = act;
    snprintf(p->name, sizeof p->name, "%s", name);
    SG_TRY(sg_checkpoint_place(c, name, p->dir, sizeof p->dir, e));
    SG_TRY(sg_checkpoint_config(c, name, config, e));
    const char *const class = class_name ? sg_config_string(*config, "_class_name", class_name) : NULL;
    if (class && strcmp(class, class_name) != 0)
        sg_config_fail(*config, "_class_name", "is \"%s\", which is not read here; %s is", class, class_name);
    SG_TRY(sg_config_status(*config));
    SG_TRY(sg_checkpoint_source(c, name, &p->source, &p->map, e));
    return sg_bind_open(&p->bind, p->source, p->map, e);
}

void sg_component_close(sg_component *p)
{
    sg_bind_close(&p->bind);
    sg_source_close(&p->source);
}
