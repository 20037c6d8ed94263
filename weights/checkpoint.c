/* checkpoint.c - see checkpoint.h: the layout of a Diffusers folder. */
#include "checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MAX_PATH = 1024 }; /* bytes */

#define INDEX "model_index.json"

struct sg_checkpoint {
    char path[MAX_PATH];
};

/* By the beginning of a component's name: its config, and how its weights are called. */
static const struct {
    const char *begins, *config, *stem;
} layout[] = {{"scheduler", "scheduler_config.json", NULL},
              {"text_encoder", "config.json", "model"}, /* of transformers */
              {"image_encoder", "config.json", "model"},
              {"", "config.json", "diffusion_pytorch_model"}}; /* of diffusers */

static size_t layout_of(const char *component)
{
    size_t i = 0;
    while (strncmp(component, layout[i].begins, strlen(layout[i].begins)) != 0) i++;
    return i;
}

sg_status sg_checkpoint_open(sg_checkpoint **out, const char *path, sg_error *e)
{
    *out = NULL;
    if (strlen(path) >= MAX_PATH)
        return sg_error_set(e, SG_E_ARG, "the path of the model is longer than %d bytes", MAX_PATH - 1);
    sg_checkpoint *const c = calloc(1, sizeof *c);
    if (!c) return sg_error_set(e, SG_E_MEMORY, "%s: out of memory", path);
    memcpy(c->path, path, strlen(path) + 1);
    *out = c;
    return SG_OK;
}

void sg_checkpoint_close(sg_checkpoint **c)
{
    free(*c);
    *c = NULL;
}

const char *sg_checkpoint_path(const sg_checkpoint *c) { return c->path; }

bool sg_checkpoint_beside(const char *path, const char *name, char *out, size_t size)
{
    const int n = snprintf(out, size, "%s/%s", path, name);
    return n >= 0 && (size_t)n < size;
}

bool sg_checkpoint_is(const char *path)
{
    char index[PATH_MAX];
    return sg_checkpoint_beside(path, INDEX, index, sizeof index) && access(index, R_OK) == 0;
}

static sg_status open_config(const sg_checkpoint *c, const char *name, sg_config **out, sg_error *e)
{
    char path[MAX_PATH + 128];
    *out = NULL;
    if (!sg_checkpoint_beside(c->path, name, path, sizeof path))
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", c->path);
    return sg_config_open(out, path, e);
}

sg_status sg_checkpoint_index(const sg_checkpoint *c, sg_config **out, sg_error *e)
{
    return open_config(c, INDEX, out, e);
}

sg_status sg_checkpoint_place(const sg_checkpoint *c, const char *component, char *out, size_t size, sg_error *e)
{
    if (sg_checkpoint_beside(c->path, component, out, size)) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: the path is too long", c->path);
}

bool sg_checkpoint_has(const sg_checkpoint *c, const char *component)
{
    char path[MAX_PATH + 64];
    return sg_checkpoint_beside(c->path, component, path, sizeof path) && access(path, F_OK) == 0;
}

sg_status sg_checkpoint_config(const sg_checkpoint *c, const char *component, sg_config **out, sg_error *e)
{
    char name[128];
    *out = NULL;
    if (snprintf(name, sizeof name, "%s/%s", component, layout[layout_of(component)].config) >= (int)sizeof name)
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", c->path);
    return open_config(c, name, out, e);
}

sg_status sg_checkpoint_source(const sg_checkpoint *c, const char *component, sg_source **out, const sg_name_map **map,
                               sg_error *e)
{
    char              dir[MAX_PATH + 64];
    const char *const stem = layout[layout_of(component)].stem;
    *out = NULL;
    *map = NULL;
    SG_TRY(sg_checkpoint_place(c, component, dir, sizeof dir, e));
    if (!stem) return sg_error_set(e, SG_E_ARG, "%s: has no weights", dir);
    return sg_source_open_stem(out, dir, stem, e);
}
