/* scales.c - quantised weights in safetensors: which tensor is the scale of which.
 *
 * X.weight of type F8_E4M3, F8_E5M2 or I8 is multiplied by X.scale_weight, X.weight_scale or X.weight_scale_inv, F32:
 * one number, one for each row ([rows] or [rows, 1]), or one for each block of 128 rows and 128 columns. FP8 may stand
 * alone. The kinds that people have: ComfyUI's scaled FP8 (scale_weight, and a marker scaled_fp8); its mixed files
 * (weight_scale, and the format as JSON in X.comfy_quant or in the metadata _quantization_metadata); LightX2V's FP8 and
 * INT8 (weight_scale by row); FP8 by blocks (weight_scale_inv). Scales of activations (X.scale_input, X.input_scale)
 * are not used. */
#include "base/json_input.h"
#include "base/text.h"
#include "source_state.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 512, JSON_MAX = 1 << 16, VALUES_MAX = 1 << 14 }; /* of JSON: bytes, values */

static const char *const scale_names[] = {".scale_weight", ".weight_scale", ".weight_scale_inv"};
static const char *const markers[] = {"scaled_fp8", "scale_input", "input_scale", "comfy_quant"};

/* JSON's names of the formats that are read. */
static const struct {
    const char *format, *type;
} formats[] = {{"float8_e4m3fn", "F8_E4M3"}, {"float8_e5m2", "F8_E5M2"}, {"int8_tensorwise", "I8"}};

/* Tensors that only formats have which are not read. */
static const struct {
    const char *ends, *format;
} refused[] = {{".weight_scale_2", "nvfp4"}, {".pre_quant_scale", "awq"}};

#define bad(e, s, t, ...) sg_error_at(e, SG_E_FORMAT, sg_source_path(s), "tensor", (t)->name, __VA_ARGS__)

static sg_status not_read(sg_error *e, const sg_source *s, const char *where, const char *format)
{
    return sg_error_set(e, SG_E_UNSUPPORTED,
                        "%s: \"%s\": the format %s is not read; FP8, scaled FP8, INT8 with scales and GGUF are",
                        sg_source_path(s), sg_show(where), sg_show(format));
}

static bool is_quantised(const sg_source_tensor *t)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(t->type->name, formats[i].type) == 0) return true;
    return false;
}

/* ---- scales ---- */

enum { BLOCK = 128 };

/* [rows / BLOCK, columns / BLOCK], rounded up. */
static bool is_of_blocks(const sg_source_tensor *scale, const sg_source_tensor *weight)
{
    return weight->rank == 2 && scale->rank == 2 && scale->dim[0] == sg_div_up(weight->dim[0], BLOCK) &&
           scale->dim[1] == sg_div_up(weight->dim[1], BLOCK);
}

static bool has_shape(const sg_source_tensor *scale, const sg_source_tensor *weight)
{
    int64_t count = 1;
    for (int i = 0; i < scale->rank; i++) count *= scale->dim[i];
    if (count == 1) return true;
    return weight->rank >= 1 && scale->rank >= 1 && scale->rank <= 2 && scale->dim[0] == weight->dim[0] &&
           (scale->rank == 1 || scale->dim[1] == 1);
}

static sg_status attach(const sg_source *s, sg_source_tensor *weight, sg_source_tensor *scale, sg_error *e)
{
    char            shape[120];
    const sg_tensor is = sg_source_shape(scale);
    sg_shape_text(shape, sizeof shape, is.rank, is.dim);
    if (weight->scale) return bad(e, s, scale, "is the second scale of %s", sg_show(weight->name));
    if (strcmp(scale->type->name, "F32") != 0)
        return bad(e, s, scale, "is %s; a scale should be F32", scale->type->name);
    const bool blocks = !has_shape(scale, weight) && is_of_blocks(scale, weight);
    if (!blocks && !has_shape(scale, weight))
        return bad(e, s, scale, "is a scale of shape %s; one number, one for each row or for 128x128 of %s are read",
                   shape, sg_show(weight->name));
    for (uint64_t i = 0; i < scale->bytes / sizeof(float); i++) {
        float x;
        memcpy(&x, scale->data + i * sizeof x, sizeof x);
        if (!isfinite(x) || x < 0)
            return bad(e, s, scale, "the scale %g, number %llu, should be finite and not negative", (double)x,
                       (unsigned long long)i);
    }
    weight->scale = scale->data;
    weight->scales = (int64_t)(scale->bytes / sizeof(float));
    weight->scale_block = blocks ? BLOCK : 0;
    scale->attached = true;
    return SG_OK;
}

/* t, if it is a scale, to its weight. */
static sg_status attach_if_scale(const sg_source *s, sg_source_tensor *t, sg_error *e)
{
    char weight[NAME_MAX_BYTES];
    for (size_t i = 0; i < sizeof scale_names / sizeof *scale_names; i++) {
        if (!sg_text_ends(t->name, scale_names[i])) continue;
        const int n =
            snprintf(weight, sizeof weight, "%.*s.weight", (int)(strlen(t->name) - strlen(scale_names[i])), t->name);
        const int64_t of = n < (int)sizeof weight ? sg_source_index(s, weight) : -1;
        if (of < 0) return bad(e, s, t, "is the scale of a weight that is not there");
        if (!is_quantised(&s->tensor[of]))
            return bad(e, s, t, "is a scale, but its weight is %s, not FP8 or I8", s->tensor[of].type->name);
        return attach(s, &s->tensor[of], t, e);
    }
    return SG_OK;
}

/* ---- formats by name ---- */

static const char *type_of(const char *format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].format, format) == 0) return formats[i].type;
    return NULL;
}

/* {"format": ...}; weight may be NULL. "convrot": true says that rows were rotated before they were quantised. */
static sg_status check_format(const sg_source *s, const char *where, const json_t *object,
                              const sg_source_tensor *weight, sg_error *e)
{
    const char *const format = json_string_value(json_object_get(object, "format"));
    if (!format)
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\": should be an object with a format", sg_source_path(s),
                            sg_show(where));
    const char *const type = type_of(format);
    if (!type) return not_read(e, s, where, format);
    if (json_is_true(json_object_get(object, "convrot"))) return not_read(e, s, where, "convrot");
    if (weight && strcmp(weight->type->name, type) != 0)
        return bad(e, s, weight, "is %s, but by %s it is %s", weight->type->name, sg_show(where), type);
    return SG_OK;
}

static sg_status parse(const sg_source *s, const char *where, const char *text, size_t size, json_t **out, sg_error *e)
{
    sg_json_fault f;
    if (size > JSON_MAX)
        return sg_error_set(e, SG_E_FORMAT, "%s: \"%s\": takes %zu bytes; at most %d are read", sg_source_path(s),
                            sg_show(where), size, JSON_MAX);
    const sg_status status = sg_json_parse(out, text, size, VALUES_MAX, 0, &f);
    return status ? sg_error_set(e, status, "%s: \"%s\": %s", sg_source_path(s), sg_show(where), f.text) : SG_OK;
}

/* X.comfy_quant. */
static sg_status check_marker(const sg_source *s, const sg_source_tensor *t, sg_error *e)
{
    char      weight[NAME_MAX_BYTES];
    json_t   *json = NULL;
    const int n =
        snprintf(weight, sizeof weight, "%.*sweight", (int)(strlen(t->name) - strlen("comfy_quant")), t->name);
    const int64_t of = n < (int)sizeof weight ? sg_source_index(s, weight) : -1;
    if (strcmp(t->type->name, "U8") != 0) return bad(e, s, t, "should be text, U8");
    SG_TRY(parse(s, t->name, (const char *)t->data, (size_t)t->bytes, &json, e));
    const sg_status status = check_format(s, t->name, json, of < 0 ? NULL : sg_source_at(s, (size_t)of), e);
    json_decref(json);
    return status;
}

static sg_status check_metadata(const sg_source *s, sg_error *e)
{
    static const char key[] = "_quantization_metadata";
    const char *const text = sg_source_metadata(s, key);
    json_t           *json = NULL, *layer;
    const char       *name;
    if (!text) return SG_OK;
    SG_TRY(parse(s, key, text, strlen(text), &json, e));
    sg_status status = SG_OK;
    json_object_foreach(json_object_get(json, "layers"), name, layer)
    {
        if (status == SG_OK) status = check_format(s, name, layer, NULL, e);
    }
    json_decref(json);
    return status;
}

/* ---- all ---- */

static sg_status look_at(const sg_source *s, sg_source_tensor *t, sg_error *e)
{
    const char *const dot = strrchr(t->name, '.'), *const last = dot ? dot + 1 : t->name;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (sg_text_ends(t->name, refused[i].ends)) return not_read(e, s, t->name, refused[i].format);
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++)
        if (strcmp(last, markers[i]) == 0) t->attached = true;
    if (strcmp(last, "comfy_quant") == 0) SG_TRY(check_marker(s, t, e));
    return attach_if_scale(s, t, e);
}

sg_status sg_scales_attach(sg_source *s, sg_error *e)
{
    SG_TRY(check_metadata(s, e));
    for (size_t i = 0; i < s->count; i++) SG_TRY(look_at(s, &s->tensor[i], e));
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->tensor[i].type->name, "I8") == 0 && !s->tensor[i].scale &&
            sg_text_ends(s->tensor[i].name, ".weight"))
            return bad(e, s, &s->tensor[i], "is I8 without a scale (%s, %s or %s)", scale_names[0], scale_names[1],
                       scale_names[2]);
    return SG_OK;
}
