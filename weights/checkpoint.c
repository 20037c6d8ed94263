/* checkpoint.c - see checkpoint.h: the layout of a Diffusers folder, and where a component is. */
#include "checkpoint_state.h"

#include "base/path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define INDEX "model_index.json"

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
    if (strlen(path) >= SG_PATH_BYTES)
        return sg_error_set(e, SG_E_ARG, "the path of the model is longer than %d bytes", SG_PATH_BYTES - 1);
    sg_checkpoint *const c = calloc(1, sizeof *c);
    if (!c) return sg_error_memory(e, path);
    memcpy(c->path, path, strlen(path) + 1);
    c->diffusers = true;
    *out = c;
    return SG_OK;
}

void sg_checkpoint_close(sg_checkpoint **c)
{
    if (!*c) return;
    sg_config_close(&(*c)->made);
    free(*c);
    *c = NULL;
}

static bool is_in(const char *folder, const char *name)
{
    char path[SG_PATH_BYTES + 64];
    return sg_path_join(path, sizeof path, folder, name, NULL) == SG_OK && access(path, F_OK) == 0;
}

static sg_status open_config(const char *folder, const char *name, sg_config **out, sg_error *e)
{
    char path[SG_PATH_BYTES + 128];
    *out = NULL;
    if (sg_path_join(path, sizeof path, folder, name, NULL) != SG_OK)
        return sg_error_set(e, SG_E_ARG, "%s: the path is too long", folder);
    return sg_config_open(out, path, e);
}

/* ---- CLIPModel: one folder, one config.json, one set of weights ---- */

static void put_in_folder(sg_checkpoint *c, const char *component, const char *member)
{
    sg_place *const p = &c->place[c->places++];
    *p = (sg_place){.component = component, .member = member};
    memcpy(p->path, c->path, sizeof p->path);
}

/* As transformers reads it: in old files there is a text_config_dict, too, whose fields count before those of
 * text_config; the model's own projection_dim counts, not that of an encoder. */
static sg_status make_clip_configs(sg_checkpoint *c, sg_config *all, sg_error *e)
{
    char dict[64];
    sg_config_only(all, "model_type", "clip", NULL);
    const int64_t dim = sg_config_int(all, "projection_dim", 1, 1 << 16, &(int64_t){512});
    SG_TRY(sg_config_status(all));
    SG_TRY(sg_config_empty(&c->made, c->path, e));
    for (int i = 0; i < c->places; i++) {
        const sg_place *const p = &c->place[i];
        if (!p->member) continue;
        snprintf(dict, sizeof dict, "%s_dict", p->member);
        SG_TRY(sg_config_update(c->made, p->component, all, p->member, e));
        SG_TRY(sg_config_update(c->made, p->component, all, dict, e));
        sg_config_set(c->made, p->component, SG_NUMBER("projection_dim", dim));
    }
    return sg_config_status(c->made);
}

static sg_status open_clip(sg_checkpoint *c, sg_error *e)
{
    sg_config *all = NULL;
    put_in_folder(c, "text_encoder", "text_config");
    put_in_folder(c, "image_encoder", "vision_config");
    put_in_folder(c, "tokenizer", NULL);
    if (is_in(c->path, "preprocessor_config.json") || is_in(c->path, "processor_config.json"))
        put_in_folder(c, "image_processor", NULL);
    SG_TRY(open_config(c->path, "config.json", &all, e));
    const sg_status status = make_clip_configs(c, all, e);
    sg_config_close(&all);
    return status;
}

sg_status sg_checkpoint_open_clip(sg_checkpoint **out, const char *folder, sg_error *e)
{
    SG_TRY(sg_checkpoint_open(out, folder, e));
    const sg_status status = open_clip(*out, e);
    if (status != SG_OK) sg_checkpoint_close(out);
    return status;
}

const char *sg_checkpoint_path(const sg_checkpoint *c) { return c->path; }

bool sg_checkpoint_is(const char *path)
{
    char index[PATH_MAX];
    return sg_path_join(index, sizeof index, path, INDEX, NULL) == SG_OK && access(index, R_OK) == 0;
}

const sg_place *sg_place_find(const sg_checkpoint *c, const char *component)
{
    for (int i = 0; i < c->places; i++)
        if (strcmp(c->place[i].component, component) == 0) return &c->place[i];
    return NULL;
}

static bool in_folder(const sg_checkpoint *c, const char *component)
{
    return c->diffusers && is_in(c->path, component);
}

sg_status sg_checkpoint_index(const sg_checkpoint *c, sg_config **out, sg_error *e)
{
    if (!c->diffusers) return sg_config_member(out, c->made, "model_index", c->path, e);
    SG_TRY(open_config(c->path, INDEX, out, e));
    /* two experts in place of the folder's denoiser, or an image encoder beside it: the index does not know of them */
    int known = 0;
    while (known < c->places && in_folder(c, c->place[known].component)) known++;
    const sg_status status = known < c->places ? sg_config_update(*out, NULL, c->made, "model_index", e) : SG_OK;
    if (status != SG_OK) sg_config_close(out);
    return status;
}

sg_status sg_checkpoint_place(const sg_checkpoint *c, const char *component, char *out, size_t size, sg_error *e)
{
    const sg_place *const p = sg_place_find(c, component);
    if (p && strlen(p->path) < size) {
        memcpy(out, p->path, strlen(p->path) + 1);
        return SG_OK;
    }
    if (!p && sg_path_join(out, size, c->path, component, NULL) == SG_OK) return SG_OK;
    return sg_error_set(e, SG_E_ARG, "%s: the path is too long", c->path);
}

const char *sg_checkpoint_pad(const sg_checkpoint *c, const char *tokenizer)
{
    const sg_place *const p = sg_place_find(c, tokenizer);
    return p ? p->pad : NULL;
}

bool sg_checkpoint_has(const sg_checkpoint *c, const char *component)
{
    return sg_place_find(c, component) || in_folder(c, component);
}

sg_status sg_checkpoint_config(const sg_checkpoint *c, const char *component, sg_config **out, sg_error *e)
{
    const sg_place *const p = sg_place_find(c, component);
    const char *const     file = layout[layout_of(component)].config;
    char                  folder[SG_PATH_BYTES + 64];
    *out = NULL;
    if (p && p->member) {
        snprintf(folder, sizeof folder, "%s/config.json: %s", p->path, p->member);
        return sg_config_member(out, c->made, component, folder, e);
    }
    if (p ? p->part != NULL : !c->diffusers) return sg_config_member(out, c->made, component, p ? p->path : c->path, e);
    SG_TRY(sg_checkpoint_place(c, component, folder, sizeof folder, e));
    return open_config(folder, file, out, e);
}

sg_status sg_checkpoint_source(const sg_checkpoint *c, const char *component, sg_source **out, const sg_name_map **map,
                               sg_error *e)
{
    const sg_place *const p = sg_place_find(c, component);
    char                  dir[SG_PATH_BYTES + 64];
    const char *const     stem = layout[layout_of(component)].stem;
    *out = NULL;
    *map = NULL;
    if (p && p->part) {
        *map = &p->map;
        return sg_source_open(out, p->path, e);
    }
    SG_TRY(sg_checkpoint_place(c, component, dir, sizeof dir, e));
    if (!stem) return sg_error_set(e, SG_E_ARG, "%s: has no weights", dir);
    if (p && strcmp(stem, "model") == 0 && !is_in(dir, "model.safetensors") &&
        !is_in(dir, "model.safetensors.index.json") && is_in(dir, "pytorch_model.bin")) {
        SG_TRY(sg_path_join(dir, sizeof dir, p->path, "pytorch_model.bin", e));
        return sg_source_open(out, dir, e);
    }
    return sg_source_open_stem(out, dir, stem, e);
}
