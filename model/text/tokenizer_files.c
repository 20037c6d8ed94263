/* tokenizer_files.c - see tokenizer_files.h. */
#include "tokenizer_files.h"
#include "base/json_input.h"
#include "base/path.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE_BYTES = 64 << 20, MAX_JSON_VALUES = 1 << 21, MAX_EXTRA_IDS = 65536 };

static const char CONFIG[] = "tokenizer_config.json", SPECIAL[] = "special_tokens_map.json";

const char *const sg_special_names[SG_SPECIALS] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                   "pad_token", "cls_token", "mask_token"};

/* Loads a JSON file. *out stays NULL when there is no such file. */
sg_status sg_tokenizer_files_load(const sg_tokenizer_files *c, const char *name, json_t **out, sg_error *e)
{
    char path[4096];
    SG_TRY(sg_path_join(path, sizeof path, c->dir, name, e));
    if (access(path, F_OK)) return SG_OK;
    /* integers are read as reals, since a model_max_length of 10^30 is common */
    return sg_json_open(out, path, MAX_FILE_BYTES, MAX_JSON_VALUES, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, e);
}

bool sg_tokenizer_files_is(const json_t *object, const char *type)
{
    const char *const have = json_string_value(json_object_get(object, "type"));
    return have && strcmp(have, type) == 0;
}

bool sg_tokenizer_files_int(const json_t *value, int max, int *out)
{
    const double v = json_real_value(value);
    if (!json_is_real(value) || !(v >= 0 && v <= max) || v != floor(v)) return false;
    *out = (int)v;
    return true;
}

sg_status sg_tokenizer_files_extra_ids(const sg_tokenizer_files *c, int *count, sg_error *e)
{
    const json_t *field = json_object_get(c->config, "extra_ids");
    *count = 100;
    if (!field || json_is_null(field)) return SG_OK;
    if (!sg_tokenizer_files_int(field, MAX_EXTRA_IDS, count))
        return sg_error_set(e, SG_E_FORMAT, "%s/%s: extra_ids: not a whole number from 0 to 65536", c->dir,
                            json_object_get(c->special, "extra_ids") ? SPECIAL : CONFIG);
    return SG_OK;
}

const json_t *sg_tokenizer_files_special(const sg_tokenizer_files *c, const char *name)
{
    const json_t *value = json_object_get(c->special, name);
    if (!value || json_is_null(value)) value = json_object_get(c->config, name);
    return !value || json_is_null(value) ? NULL : value;
}

const char *sg_tokenizer_files_special_text(const sg_tokenizer_files *c, int special)
{
    const json_t *value = sg_tokenizer_files_special(c, sg_special_names[special]);
    if (!value) return c->defaults ? c->defaults[special] : NULL;
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

sg_status sg_tokenizer_files_open(sg_tokenizer_files *c, const char *dir, sg_error *e)
{
    c->dir = dir;
    SG_TRY(sg_tokenizer_files_load(c, CONFIG, &c->config, e));
    SG_TRY(sg_tokenizer_files_load(c, "tokenizer.json", &c->tokenizer, e));
    c->has_decoder = json_object_get(c->config, "added_tokens_decoder");
    if (c->has_decoder) return SG_OK;
    SG_TRY(sg_tokenizer_files_load(c, SPECIAL, &c->special, e));
    return sg_tokenizer_files_load(c, "added_tokens.json", &c->added, e);
}

void sg_tokenizer_files_close(sg_tokenizer_files *c)
{
    json_decref(c->config);
    json_decref(c->tokenizer);
    json_decref(c->special);
    json_decref(c->added);
    *c = (sg_tokenizer_files){0};
}
