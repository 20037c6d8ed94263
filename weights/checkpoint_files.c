/* checkpoint_files.c - see checkpoint_files.h: which part a file holds, and the config that follows from it. */
#include "base/file.h"
#include "checkpoint_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { SPAN_MAX = 256 };

/* ---- which part ---- */

static bool has(const sg_source *s, const char *prefix, const char *name)
{
    char full[SG_NAME_MAX];
    return name && snprintf(full, sizeof full, "%s%s", prefix, name) < (int)sizeof full &&
           sg_source_index(s, full) >= 0;
}

/* The span of the file's lists. */
static int span_of(const sg_source *s, const sg_file_part *part, sg_name_map map)
{
    char                file[SG_NAME_MAX];
    const sg_name_rule *rule;
    bool                before = false;
    for (map.span = 1; part->span && map.span <= SPAN_MAX + 1; map.span++) {
        const bool here = sg_name_map_find(&map, part->span, file, &rule) && sg_source_index(s, file) >= 0;
        if (before && !here) return map.span - 1;
        before = here;
    }
    return 0;
}

const sg_file_part *sg_next_part(sg_known_files *known, const sg_file_part *part, const char *component)
{
    const sg_model_files *files;
    bool                  behind = !part;
    for (int i = 0; (files = known(i)); i++)
        for (const sg_file_part *p = files->part; p < files->part + files->parts; p++) {
            if (behind && strcmp(p->component, component) == 0) return p;
            behind = behind || p == part;
        }
    return NULL;
}

sg_status sg_place_recognise(sg_place *p, bool *found, const sg_source *s, const char *component, sg_known_files *known,
                             sg_error *e)
{
    *found = false;
    for (const sg_file_part *part = NULL; (part = sg_next_part(known, part, component));) {
        for (const char *const *prefix = part->prefixes; *prefix; prefix++) {
            if (!has(s, *prefix, part->probe) || has(s, *prefix, part->not_probe)) continue;
            if (*found)
                return sg_error_set(e, SG_E_FORMAT, "%s: holds two of the part \"%s\": %s%s and %s%s",
                                    sg_source_path(s), component, p->prefix, p->part->probe, *prefix, part->probe);
            *found = true;
            p->part = part;
            snprintf(p->prefix, sizeof p->prefix, "%s", *prefix);
        }
    }
    if (!*found) return SG_OK;
    if (p->part->names) p->map = *p->part->names;
    p->map.prefix = p->prefix;
    p->map.span = span_of(s, p->part, p->map);
    return SG_OK;
}

/* ---- its shapes ---- */

const sg_source_tensor *sg_found_tensor(const sg_found_part *p, const char *fmt, ...)
{
    char                name[SG_NAME_MAX], file[SG_NAME_MAX];
    const sg_name_rule *rule;
    va_list             ap;
    va_start(ap, fmt);
    const int n = vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    if (n < 0 || n >= SG_NAME_MAX || !sg_name_map_find(p->map, name, file, &rule)) return NULL;
    const int64_t i = sg_source_index(p->source, file);
    return i < 0 ? NULL : sg_source_at(p->source, (size_t)i);
}

int64_t sg_source_rows(const sg_source_tensor *t) { return !t ? 0 : t->rank ? t->dim[0] : 1; }

int64_t sg_source_elements(const sg_source_tensor *t)
{
    int64_t n = t != NULL;
    for (int i = 0; t && i < t->rank; i++) n *= t->dim[i]; /* sources have checked the product */
    return n;
}

int64_t sg_found_row(const sg_found_part *p, int64_t rows, const char *name)
{
    return rows ? sg_found_count(p, "%s", name) / rows : 0;
}

int sg_found_list(const sg_found_part *p, int most, const char *list, const char *name)
{
    int n = 0;
    while (n < most && sg_found_tensor(p, "%s.%d.%s", list, n, name)) n++;
    return n;
}

bool sg_found_any(const sg_found_part *p, const char *begins)
{
    const size_t prefix = strlen(p->map->prefix), n = strlen(begins);
    for (size_t i = 0; i < sg_source_count(p->source); i++) {
        const char *const name = sg_source_at(p->source, i)->name;
        if (strncmp(name, p->map->prefix, prefix) == 0 && strncmp(name + prefix, begins, n) == 0) return true;
    }
    return false;
}

/* ---- its config ---- */

sg_status sg_checkpoint_open_beside(sg_config **out, const char *path, const char *name, sg_error *e)
{
    char beside[SG_PATH_BYTES + 32];
    *out = NULL;
    if (!sg_file_beside(path, name, beside, sizeof beside) || access(beside, F_OK) != 0) return SG_OK;
    return sg_config_open(out, beside, e);
}

static sg_status describe_part(sg_checkpoint *c, const sg_place *p, sg_config *beside, sg_error *e)
{
    sg_source *source = NULL;
    SG_TRY(sg_source_open(&source, p->path, e));
    const sg_status status = p->part->describe(&(sg_found_part){.component = p->component,
                                                                .source = source,
                                                                .map = &p->map,
                                                                .beside = beside,
                                                                .two = sg_checkpoint_has(c, SECOND_EXPERT),
                                                                .made = c->made,
                                                                .e = e});
    sg_source_close(&source);
    return status;
}

static void add_class(sg_checkpoint *c, const sg_place *p, const char *name)
{
    sg_config_set(c->made, "model_index", SG_TEXTS(p->component, ((const char *const[]){"", name}), 2));
    sg_config_set(c->made, p->component, SG_TEXT("_class_name", name));
}

/* A component's folder, whose config.json says the class: that of diffusers, or that of transformers. Of a T5 as a whole,
 * "MT5ForConditionalGeneration", the encoder is meant. */
static sg_status add_folder(sg_checkpoint *c, const sg_place *p, sg_error *e)
{
    sg_config *config = NULL;
    SG_TRY(sg_checkpoint_config(c, p->component, &config, e));
    const char *const architecture = sg_config_string_at(config, "architectures", 0);
    const char *const class = sg_config_string(config, "_class_name", architecture ? architecture : "");
    const bool plain = class[strspn(class, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")] == '\0';
    if (!plain) sg_config_fail(config, "_class_name", "is no name of a class");
    const sg_status   status = sg_config_status(config);
    const char *const whole = strstr(class, "T5ForConditionalGeneration");
    char              name[128];
    snprintf(name, sizeof name, "%.*s%s", (int)(whole ? whole - class : (ptrdiff_t)strlen(class)), class,
             whole ? "T5EncoderModel" : "");
    if (status == SG_OK) add_class(c, p, name);
    sg_config_close(&config);
    return status;
}

static bool is_of_class(sg_config *config, const sg_place *p)
{
    return config && strcmp(sg_config_string(config, "_class_name", ""), p->part->class_name) == 0;
}

/* The latents of a folder's denoiser are scaled as the folder's own VAE has it, which no file says. */
static sg_status add_own_vae(sg_checkpoint *c, const sg_place *p, sg_error *e)
{
    sg_config *own = NULL;
    if (!c->diffusers || strcmp(p->component, "vae") != 0) return SG_OK;
    SG_TRY(sg_checkpoint_open_beside(&own, c->path, "vae/config.json", e));
    const sg_status status = is_of_class(own, p) ? sg_config_update(c->made, p->component, own, NULL, e) : SG_OK;
    sg_config_close(&own);
    return status;
}

static sg_status add_part(sg_checkpoint *c, const sg_place *p, sg_error *e)
{
    sg_config *beside = NULL;
    SG_TRY(add_own_vae(c, p, e));
    /* ComfyUI's folders are for files of every kind: a config.json there that cannot be read is none */
    if (sg_checkpoint_open_beside(&beside, p->path, "config.json", NULL) == SG_E_MEMORY)
        return sg_error_memory(e, p->path);
    sg_status status = describe_part(c, p, beside, e);
    /* a file out of a Diffusers folder may still be beside its config */
    if (status == SG_OK && is_of_class(beside, p)) status = sg_config_update(c->made, p->component, beside, NULL, e);
    sg_config_close(&beside);
    add_class(c, p, p->part->class_name);
    return status;
}

/* What the owner knows that no file says. */
static sg_status add_own(sg_checkpoint *c, sg_error *e)
{
    sg_config *own = NULL;
    SG_TRY(sg_checkpoint_open_beside(&own, c->path, "sparge-gen.json", e));
    if (!own) return SG_OK;
    sg_status status = sg_config_update(c->made, "model_index", own, "model_index", e);
    if (status == SG_OK) status = sg_config_update(c->made, "scheduler", own, "scheduler", e);
    for (int i = 0; status == SG_OK && i < c->places; i++)
        status = sg_config_update(c->made, c->place[i].component, own, c->place[i].component, e);
    sg_config_close(&own);
    return status;
}

sg_status sg_checkpoint_describe(sg_checkpoint *c, sg_error *e)
{
    SG_TRY(sg_config_empty(&c->made, c->path, e));
    for (int i = 0; i < c->places; i++) {
        const sg_place *const p = &c->place[i];
        if (p->part)
            SG_TRY(add_part(c, p, e));
        else if (strncmp(p->component, "tokenizer", strlen("tokenizer")) != 0)
            SG_TRY(add_folder(c, p, e));
    }
    SG_TRY(sg_config_status(c->made));
    return add_own(c, e);
}
