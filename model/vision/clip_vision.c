/* clip_vision.c - see clip_vision.h.
 *
 * Tensors, each but the last with or without "vision_model." in front (transformers 5 leaves it out), l = 0 .. layers - 1:
 *   embeddings.class_embedding [width], embeddings.patch_embedding.weight [width, 3, patch, patch]
 *   embeddings.position_embedding.weight [tokens, width]
 *   pre_layrnorm.{weight,bias} [width], as it is spelt
 *   encoder.layers.l.{layer_norm1,layer_norm2}.{weight,bias} [width]
 *   encoder.layers.l.self_attn.{q,k,v,out}_proj.{weight,bias} [width, width] [width]
 *   encoder.layers.l.mlp.{fc1,fc2}.{weight,bias} [ffn, width] [width, ffn]
 *   post_layernorm.{weight,bias} [width], with a projection
 *   visual_projection.weight [pooled, width], with a projection
 *
 * Without a projection the last layer and what follows it do not touch the states that are wanted: they are not loaded. */
#include "clip_vision.h"
#include "base/text.h"

#include "base/hash.h"
#include "base/path.h"
#include "clip_layer.h"
#include "resample.h"
#include "text_layers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOKENS_MAX = 1 << 14, RESIZED_MAX = 1 << 16 };

/* ---- config ---- */

/* From a picture to the numbers of the first layer. */
typedef struct preparation {
    int                edge; /* pixels of the shorter side, before the middle is cut out */
    sg_resample_filter filter;
    double             scale; /* of a byte */
    double             mean[3], deviation[3];
} preparation;

struct sg_clip_vision {
    sg_component        component;
    sg_clip_vision_info size;
    preparation         prepare;
    sg_clip_kind        kind;
    int                 layers;    /* that run: all with a projection, otherwise all but the last */
    sg_clip_layer      *layer;     /* [layers] */
    sg_tensor class, patch, place; /* [width] [width, 3, patch, patch] [tokens, width] */
    sg_tensor before_w, before_b;  /* [width] */
    sg_tensor after_w, after_b;    /* [width]? */
    sg_tensor projection;          /* [pooled, width]? */
};

static int whole(sg_config *c, const char *key, int64_t hi, int64_t usual)
{
    return (int)sg_config_int(c, key, 1, hi, &usual);
}

static void read_config(sg_clip_vision *v, sg_config *c, bool projected)
{
    v->size = (sg_clip_vision_info){.width = whole(c, "hidden_size", 1 << 16, 768),
                                    .layers = whole(c, "num_hidden_layers", 1 << 12, 12),
                                    .heads = whole(c, "num_attention_heads", 1 << 12, 12),
                                    .ffn = whole(c, "intermediate_size", 1 << 20, 3072),
                                    .image = whole(c, "image_size", 1 << 12, 224),
                                    .patch = whole(c, "patch_size", 1 << 12, 32)};
    const char *const type = sg_config_string(c, "model_type", "clip_vision_model");
    const int         side = v->size.image / v->size.patch;
    v->size.tokens = 1 + side * side;
    v->size.pooled = projected ? whole(c, "projection_dim", 1 << 16, 512) : 0;
    v->layers = v->size.layers - !projected;
    v->kind = (sg_clip_kind){v->component.act, v->size.width, v->size.heads, v->size.ffn, 0, SG_ACT_NONE};
    sg_clip_kind_read(&v->kind, c);
    if (type && strcmp(type, "clip_vision_model") != 0)
        sg_config_fail(c, "model_type", "\"%s\" is not supported; clip_vision_model is", type);
    if (whole(c, "num_channels", 1 << 12, 3) != 3) sg_config_fail(c, "num_channels", "should be 3");
    if (side < 1 || v->size.tokens > TOKENS_MAX)
        sg_config_fail(c, "patch_size", "%d pixels make %d patches of a picture of %d; 1 to %d are supported",
                       v->size.patch, side * side, v->size.image, TOKENS_MAX - 1);
}

/* ---- how pictures are prepared ---- */

/* An entry of an object: required where the object is there. Old files have the number itself. */
static int entry(sg_config *c, const char *object, const char *key, const char *path, int usual, sg_error *e)
{
    char       where[1300];
    sg_config *member = NULL;
    if (!sg_config_has(c, object)) return usual;
    if (sg_config_counts(c, object)) return (int)sg_config_int(c, object, 1, RESIZED_MAX, NULL);
    snprintf(where, sizeof where, "%s: %s", path, object);
    const bool there = sg_config_member(&member, c, object, where, e) == SG_OK;
    const int  value = there ? (int)sg_config_int(member, key, 1, RESIZED_MAX, NULL) : usual;
    if (!there || sg_config_status(member)) sg_config_fail(c, object, "should be an object with %s", key);
    sg_config_close(&member);
    return value;
}

static void read_preparation(preparation *p, sg_config *c, const char *path, int image, sg_error *e)
{
    static const char *const steps[] = {"do_resize", "do_center_crop", "do_rescale", "do_normalize"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!sg_config_bool(c, steps[i], &(bool){true})) sg_config_fail(c, steps[i], "should be true");
    const int64_t filter = sg_config_int(c, "resample", 0, 5, &(int64_t){3}); /* as Pillow counts them */
    if (filter != 3 && filter != 1)
        sg_config_fail(c, "resample", "%d is not supported; 3 (bicubic) and 1 (Lanczos) are", (int)filter);
    p->filter = filter == 1 ? SG_RESAMPLE_LANCZOS : SG_RESAMPLE_BICUBIC;
    p->scale = sg_config_real(c, "rescale_factor", 1e-6, 1.0, &p->scale);
    if (sg_config_has(c, "image_mean")) sg_config_reals(c, "image_mean", -1e3, 1e3, p->mean, 3, 3);
    if (sg_config_has(c, "image_std")) sg_config_reals(c, "image_std", 1e-6, 1e3, p->deviation, 3, 3);
    p->edge = entry(c, "size", "shortest_edge", path, image, e);
    const int height = entry(c, "crop_size", "height", path, image, e);
    const int width = entry(c, "crop_size", "width", path, image, e);
    if (height != image || width != image)
        sg_config_fail(c, "crop_size", "%dx%d, but the encoder takes pictures of %dx%d", width, height, image, image);
    if (p->edge < image)
        sg_config_fail(c, "size", "a side of %d pixels is shorter than the %d that are cut out", p->edge, image);
}

/* As transformers finds it: image_processor of processor_config.json, where CLIPProcessor has it since transformers 5, before
 * preprocessor_config.json. path names what was read. */
static sg_status open_processor(sg_config **out, const char *folder, char *path, size_t size, sg_error *e)
{
    char       file[1100];
    sg_config *both = NULL; /* of pictures and texts */
    sg_status  status = SG_OK;
    SG_TRY(sg_path_join(file, sizeof file, folder, "processor_config.json", e));
    if (access(file, F_OK) == 0) SG_TRY(sg_config_open(&both, file, e));
    const bool nested = both && sg_config_has(both, "image_processor");
    snprintf(path, size, "%s: image_processor", file);
    if (nested) status = sg_config_empty(out, path, e);
    if (nested && status == SG_OK) status = sg_config_update(*out, NULL, both, "image_processor", e);
    sg_config_close(&both);
    if (nested) return status;
    SG_TRY(sg_path_join(path, size, folder, "preprocessor_config.json", e));
    return sg_config_open(out, path, e);
}

static sg_status open_preparation(sg_clip_vision *v, const sg_checkpoint *from, sg_error *e)
{
    char       folder[1024], path[1200];
    sg_config *c = NULL;
    v->prepare = (preparation){.edge = v->size.image,
                               .filter = SG_RESAMPLE_BICUBIC,
                               .scale = 1.0 / 255,
                               .mean = {0.48145466, 0.4578275, 0.40821073},
                               .deviation = {0.26862954, 0.26130258, 0.27577711}};
    if (!sg_checkpoint_has(from, "image_processor")) return SG_OK;
    SG_TRY(sg_checkpoint_place(from, "image_processor", folder, sizeof folder, e));
    sg_status status = open_processor(&c, folder, path, sizeof path, e);
    if (status == SG_OK) {
        read_preparation(&v->prepare, c, path, v->size.image, e);
        status = sg_config_status(c);
    }
    sg_config_close(&c);
    return status;
}

/* The middle of `from` [height][width][3], image x image pixels, cut into patches. */
static void cut(const sg_clip_vision *v, float *patches, const uint8_t *from, int width, int height)
{
    const preparation *const p = &v->prepare;
    const int                image = v->size.image, patch = v->size.patch, side = image / patch;
    const int                top = (height - image) / 2, left = (width - image) / 2;
    for (int i = 0; i < side * side; i++)
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < patch * patch; k++) {
                const int     y = top + i / side * patch + k / patch, x = left + i % side * patch + k % patch;
                const uint8_t byte = from[((size_t)y * (size_t)width + (size_t)x) * 3 + (size_t)c];
                *patches++ = ((float)(byte * p->scale) - (float)p->mean[c]) / (float)p->deviation[c];
            }
}

sg_status sg_clip_vision_prepare(const sg_clip_vision *v, float *patches, const uint8_t *rgb, int width, int height,
                                 sg_error *e)
{
    const int64_t edge = v->prepare.edge, shorter = width < height ? width : height;
    const int64_t w = width == shorter ? edge : edge * width / height;
    const int64_t h = height == shorter ? edge : edge * height / width;
    if (w > RESIZED_MAX || h > RESIZED_MAX)
        return sg_error_set(e, SG_E_ARG, "a picture of %dx%d is too long and narrow for the image encoder", width,
                            height);
    uint8_t *const resized = malloc((size_t)w * (size_t)h * 3);
    const bool     done = resized && sg_resample_rgb8(resized, (int)w, (int)h, rgb, width, height, v->prepare.filter);
    if (done) cut(v, patches, resized, (int)w, (int)h);
    free(resized);
    return done ? SG_OK : sg_error_set(e, SG_E_MEMORY, "no memory for a picture of %dx%d", (int)w, (int)h);
}

/* ---- weights ---- */

/* What does not run without a projection. */
static void ignore_end(const sg_clip_vision *v)
{
    sg_bind *const      b = v->component.bind;
    char                last[64], file[SG_NAME_MAX];
    const sg_name_rule *rule;
    snprintf(last, sizeof last, "encoder.layers.%d.", v->layers);
    sg_bind_ignore(b, sg_name_map_find(v->component.map, last, file, &rule) ? file : last);
    sg_bind_ignore(b, "post_layernorm.");
    sg_bind_ignore(b, "visual_projection.");
}

static void want_weights(sg_clip_vision *v)
{
    sg_bind *const            b = v->component.bind;
    const sg_clip_vision_info z = v->size;
    const sg_dtype            act = v->component.act;
    sg_bind_prefix(b, "%s", "");
    const char *const prefix = sg_bind_has(b, "vision_model.embeddings.class_embedding") ? "vision_model." : "";
    sg_bind_prefix(b, "%s", prefix);
    sg_bind_tensor(b, &v->class, SG_F32, "embeddings.class_embedding", z.width);
    sg_bind_tensor(b, &v->patch, act, "embeddings.patch_embedding.weight", z.width, 3, z.patch, z.patch);
    sg_bind_tensor(b, &v->place, SG_F32, "embeddings.position_embedding.weight", z.tokens, z.width);
    sg_want_clip_norm(b, &v->before_w, &v->before_b, "pre_layrnorm", z.width);
    for (int i = 0; i < v->layers; i++) {
        sg_bind_prefix(b, "%sencoder.layers.%d.", prefix, i);
        sg_want_clip_layer(b, &v->layer[i], &v->kind);
    }
    if (z.pooled) {
        sg_bind_prefix(b, "%s", prefix);
        sg_want_clip_norm(b, &v->after_w, &v->after_b, "post_layernorm", z.width);
        sg_bind_prefix(b, "%s", "");
        sg_bind_tensor(b, &v->projection, act, "visual_projection.weight", z.pooled, z.width);
    } else {
        ignore_end(v);
    }
    sg_bind_ignore(b, "embeddings.position_ids");
    sg_bind_ignore(b, "text_model."); /* of a CLIPModel, which has both encoders in one file */
    sg_bind_ignore(b, "text_projection.");
    sg_bind_ignore(b, "logit_scale");
}

static sg_status open_into(sg_clip_vision *v, const sg_checkpoint *from, const char *name, bool projected, sg_dtype act,
                           sg_error *e)
{
    sg_config *c = NULL;
    sg_status  status = sg_component_open(&v->component, from, name, NULL, act, &c, e);
    if (status == SG_OK) {
        read_config(v, c, projected);
        status = sg_config_status(c);
    }
    sg_config_close(&c);
    SG_TRY(status);
    SG_TRY(open_preparation(v, from, e));
    const int n = v->size.layers;
    v->layer = sg_layers_new(&v->component, "num_hidden_layers", n, n, sizeof *v->layer, &status, e);
    SG_TRY(status);
    want_weights(v);
    return sg_bind_check(v->component.bind, e);
}

sg_status sg_clip_vision_open(sg_clip_vision **out, const sg_checkpoint *c, const char *name, bool projected,
                              sg_dtype act, sg_error *e)
{
    sg_clip_vision *v = calloc(1, sizeof *v);
    *out = NULL;
    if (!v) return sg_error_set(e, SG_E_MEMORY, "no memory for %s", name);
    const sg_status status = open_into(v, c, name, projected, act, e);
    if (status) {
        sg_clip_vision_close(&v);
        return status;
    }
    const sg_clip_vision_info z = v->size;
    snprintf(v->component.summary, sizeof v->component.summary,
             "%d layer%s, width %d, %d heads x %d, ffn %d, %d tokens", z.layers, sg_plural(z.layers), z.width, z.heads,
             z.width / z.heads, z.ffn, z.tokens);
    *out = v;
    return SG_OK;
}

void sg_clip_vision_close(sg_clip_vision **v)
{
    if (!*v) return;
    sg_component_close(&(*v)->component);
    free((*v)->layer);
    free(*v);
    *v = NULL;
}

sg_component *sg_clip_vision_component(sg_clip_vision *v) { return &v->component; }

sg_clip_vision_info sg_clip_vision_describe(const sg_clip_vision *v) { return v->size; }

uint64_t sg_clip_vision_hash(const sg_clip_vision *v, uint64_t hash)
{
    const preparation *const p = &v->prepare;
    hash = sg_hash(hash, &p->edge, sizeof p->edge);
    hash = sg_hash(hash, &p->filter, sizeof p->filter);
    hash = sg_hash(hash, &p->scale, sizeof p->scale);
    hash = sg_hash(hash, p->mean, sizeof p->mean);
    return sg_hash(hash, p->deviation, sizeof p->deviation);
}

/* ---- encoder ---- */

static void upload_picture(const sg_clip_vision *v, sg_stream *s, sg_tensor patches, const uint8_t *rgb, int width,
                           int height)
{
    sg_error     e = {0};
    float *const host = malloc(sg_bytes(patches));
    if (!host)
        sg_fail(s, SG_E_MEMORY, "no memory for a picture of %d pixels", v->size.image);
    else if (sg_clip_vision_prepare(v, host, rgb, width, height, &e))
        sg_fail(s, e.code, "%s", e.text);
    else
        sg_upload(s, patches, host);
    free(host);
}

/* x [tokens, width]: the class, then each patch by the matrix; plus what stands for their places. */
static void embed(const sg_clip_vision *v, sg_stream *s, sg_tensor x, const uint8_t *rgb, int width, int height)
{
    const size_t    mark = s->scratch.used;
    const int64_t   n = x.dim[0], c = x.dim[1], area = 3 * (int64_t)v->size.patch * v->size.patch;
    const sg_tensor token = sg_new(s, SG_F32, n, c), placed = sg_new(s, SG_F32, n, c);
    const sg_tensor patches = sg_new(s, SG_F32, n - 1, area);
    if (rgb && !s->status) upload_picture(v, s, patches, rgb, width, height);
    sg_copy(s, .y = sg_rows(token, 0, 1), .x = v->class);
    sg_linear(s, .y = sg_rows(token, 1, n - 1), .x = patches, .w = sg_reshape(v->patch, c, area));
    sg_add(s, .y = placed, .a = token, .b = v->place);
    sg_norm(s, .y = x, .x = placed, .w = v->before_w, .b = v->before_b, .kind = SG_NORM_LAYER, .eps = v->kind.eps);
    s->scratch.used = mark;
}

void sg_clip_vision_encode(const sg_clip_vision *v, sg_stream *s, sg_tensor y, const uint8_t *rgb, int width,
                           int height)
{
    embed(v, s, y, rgb, width, height);
    sg_tap(s, y, "vision.embed");
    for (int i = 0; i < v->layers; i++) {
        sg_clip_attend(&v->layer[i], &v->kind, s, y, false);
        sg_clip_feed_forward(&v->layer[i], &v->kind, s, y);
        sg_tap(s, y, "vision.block.%d", i);
    }
}

void sg_clip_vision_row(const sg_clip_vision *v, sg_stream *s, sg_tensor row, const uint8_t *rgb, int width, int height)
{
    const size_t    mark = s->scratch.used;
    const sg_tensor x = sg_new(s, SG_F32, v->size.tokens, v->size.width);
    const sg_tensor y = sg_new(s, v->kind.dtype, 1, v->size.width);
    sg_clip_vision_encode(v, s, x, rgb, width, height);
    sg_norm(s, .y = y, .x = sg_rows(x, 0, 1), .w = v->after_w, .b = v->after_b, .kind = SG_NORM_LAYER,
            .eps = v->kind.eps);
    sg_linear(s, .y = row, .x = y, .w = v->projection);
    sg_tap(s, row, "vision.row");
    s->scratch.used = mark;
}
