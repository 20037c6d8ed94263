/* part_files.h - components of the mini checkpoints in files of other names, and renders of both to be compared. */
#ifndef SG_PART_FILES_H
#define SG_PART_FILES_H

#include "base/path.h"
#include "engine_fixture.h"
#include "safetensors_write.h"
#include "unit.h"

#define I2V SG_FIXTURES "/wan21_i2v"
#define COG SG_FIXTURES "/cogvideox_2b"
#define HUNYUAN SG_FIXTURES "/hunyuan_hd16"
#define MOCHI SG_FIXTURES "/mochi_hd16"
#define FLUX SG_FIXTURES "/flux_dev"
#define SCHNELL SG_FIXTURES "/flux_schnell"
#define SD35 SG_FIXTURES "/sd35_medium"
#define SD3 SG_FIXTURES "/sd3_medium"

enum { TENSORS_MAX = 600, FILES_MAX = 8 };

/* A folder of the test's own, as the working directory. */
static char temporary[] = "/tmp/sg_files_XXXXXX", home[1024];

static inline int enter(void **state)
{
    if (!getcwd(home, sizeof home) || !mkdtemp(temporary)) return -1;
    return chdir(temporary);
}

static inline int leave(void **state)
{
    char command[64];
    if (chdir(home) != 0) return -1;
    snprintf(command, sizeof command, "rm -rf '%s'", temporary);
    return system(command);
}

/* ---- a component of a Diffusers folder in other names ---- */

typedef struct contents {
    sg_named_tensor all[TENSORS_MAX];
    char           *name[TENSORS_MAX];
    void           *joined[TENSORS_MAX]; /* numbers of several tensors; or NULL */
    int             count;
    sg_source      *source[FILES_MAX];
    int             sources;
} contents;

static inline void put(contents *c, const char *name, sg_tensor t)
{
    assert_true(c->count < TENSORS_MAX);
    c->name[c->count] = strdup(name);
    c->all[c->count] = (sg_named_tensor){c->name[c->count], t};
    c->count++;
}

/* t among the rows of the file's tensor that rule means, of which the others come from others. */
static inline void put_rows(contents *c, const char *file, const sg_name_rule *rule, sg_tensor t)
{
    int i = 0, parts = 0;
    for (int k = 0; k < SG_NAME_ROWS; k++) parts += rule->rows[k].count;
    const size_t   part = sg_bytes(t) / (size_t)parts;
    const uint8_t *from = t.data;
    while (i < c->count && strcmp(c->name[i], file) != 0) i++;
    if (i == c->count) {
        sg_tensor all = t;
        all.dim[0] = t.dim[0] / parts * rule->of;
        all.data = calloc((size_t)rule->of, part);
        put(c, file, all);
        c->joined[i] = all.data;
    }
    for (int k = 0; k < SG_NAME_ROWS && rule->rows[k].count; k++) {
        const size_t n = (size_t)rule->rows[k].count * part;
        memcpy((uint8_t *)c->joined[i] + (size_t)rule->rows[k].first * part, from, n);
        from += n;
    }
}

/* The tensors of a component, whose names go through map (NULL: they stay) and get a prefix. */
static inline void put_component(contents *c, const char *model_dir, const char *component, const sg_name_map *names,
                                 int span, const char *prefix)
{
    sg_error            e = {0};
    sg_checkpoint      *from = NULL;
    const sg_name_map  *none;
    const sg_name_rule *rule;
    sg_name_map         map = names ? *names : (sg_name_map){0};
    map.prefix = prefix;
    map.span = span;
    assert_int_equal(sg_checkpoint_open(&from, model_dir, &e), SG_OK);
    if (sg_checkpoint_source(from, component, &c->source[c->sources], &none, &e)) fail_msg("%s", e.text);
    const sg_source *const s = c->source[c->sources++];
    for (size_t i = 0; i < sg_source_count(s); i++) {
        char              file[SG_NAME_MAX];
        const char *const name = sg_source_at(s, i)->name;
        if (strcmp(name, "encoder.embed_tokens.weight") == 0) continue;
        assert_true(sg_name_map_find(&map, name, file, &rule));
        if (strcmp(component, "vae") == 0 && prefix && strstr(prefix, "decoder.") && !rule) continue; /* the encoder */
        if (rule && rule->of)
            put_rows(c, file, rule, sg_source_view(s, i));
        else
            put(c, file, sg_source_view(s, i));
    }
    sg_checkpoint_close(&from);
}

static inline void take_out(contents *c)
{
    for (int i = 0; i < c->count; i++) free(c->name[i]);
    for (int i = 0; i < c->count; i++) free(c->joined[i]);
    for (int i = 0; i < c->sources; i++) sg_source_close(&c->source[i]);
    *c = (contents){.count = 0};
}

static inline void write_out(contents *c, const char *path)
{
    sg_error e = {0};
    if (sg_safetensors_write_all(path, c->all, c->count, NULL, &e)) fail_msg("%s", e.text);
    take_out(c);
}

static contents now; /* that is made */

static inline void write_component(const char *path, const char *model_dir, const char *component,
                                   const sg_name_map *names, int span, const char *prefix)
{
    put_component(&now, model_dir, component, names, span, prefix);
    write_out(&now, path);
}

static inline char *text_of(const char *folder, const char *name)
{
    char        path[512];
    char *const text = calloc(1, 8192);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *const f = fopen(path, "rb");
    assert_non_null(f);
    assert_true(fread(text, 1, 8191, f) > 0);
    fclose(f);
    return text;
}

/* What no file says of the small models of the tests. */
static inline void write_own(const char *path, const char *model_dir, const char *more)
{
    char *const dit = text_of(model_dir, "transformer/config.json");
    char *const sampler = text_of(model_dir, "scheduler/scheduler_config.json");
    FILE *const f = fopen(path, "wb");
    fprintf(f, "{\"transformer\": %s, \"transformer_2\": %s, \"scheduler\": %s%s}", dit, dit, sampler, more);
    assert_int_equal(fclose(f), 0);
    free(dit);
    free(sampler);
}

/* sparge-gen.json with the folder's denoiser and scheduler, and with `more` behind them. */
static inline void write_beside(const char *folder, const char *model_dir, const char *more)
{
    char path[128];
    snprintf(path, sizeof path, "%s/sparge-gen.json", folder);
    write_own(path, model_dir, more);
}

/* The configs of these components of a small model, NULL-ended, as they follow in sparge-gen.json. */
static inline const char *configs_of(const char *model_dir, const char *const *name)
{
    static char more[8192];
    size_t      n = 0;
    for (*more = '\0'; *name; name++) {
        char config[64];
        snprintf(config, sizeof config, "%s/config.json", *name);
        char *const text = text_of(model_dir, config);
        n += (size_t)snprintf(more + n, sizeof more - n, ", \"%s\": %s", *name, text);
        assert_true(n < sizeof more);
        free(text);
    }
    return more;
}

/* Of the small HunyuanVideo, beside its denoiser. */
static inline const char *hunyuan_own(void)
{
    return configs_of(HUNYUAN, (const char *const[]){"vae", "text_encoder", "text_encoder_2", NULL});
}

static const char clip_own[] = ", \"image_encoder\": {\"num_attention_heads\": 2, \"hidden_act\": \"gelu\"}";

/* ---- rendering ---- */

typedef struct frames {
    uint8_t rgb[8 * 64 * 64 * 3];
    size_t  used, frame; /* bytes */
} frames;

static inline sg_status keep_frame(void *context, int index, const uint8_t *rgb, sg_error *e)
{
    frames *const f = context;
    (void)index;
    (void)e;
    assert_true(f->used + f->frame <= sizeof f->rgb);
    memcpy(f->rgb + f->used, rgb, f->frame);
    f->used += f->frame;
    return SG_OK;
}

static sg_lora_option with_lora; /* of all renders; without a path: none */

/* Noise, as the first picture or the last one. */
static inline void put_picture(sg_request *r, int which)
{
    static uint8_t rgb[SG_IMAGES][64 * 64 * 3];
    for (size_t i = 0; i < sizeof *rgb; i++) rgb[which][i] = (uint8_t)((i + 7) * (i + 3) * 2654435761u >> (11 + which));
    r->image[which].rgb = rgb[which];
}

static inline void render(frames *f, const char *path, const sg_model_parts *parts)
{
    sg_error                e = {0};
    sg_engine              *g = NULL;
    sg_report               report;
    const sg_engine_options o = {.model_dir = path,
                                 .parts = parts ? *parts : (sg_model_parts){0},
                                 .backend = "cpu",
                                 .dtype = "f32",
                                 .threads = 1,
                                 .lora = {with_lora},
                                 .loras = with_lora.path != NULL};
    if (sg_engine_open(&g, &o, &e)) fail_msg("%s", e.text);
    sg_request r = small(g);
    sg_engine_nearest_size(g, &r.width, &r.height, &r.frames);
    for (int i = 0; i < SG_IMAGES; i++)
        if (sg_engine_info(g).image[i] == SG_IMAGE_NEEDED) put_picture(&r, i);
    f->frame = (size_t)r.width * (size_t)r.height * 3;
    f->used = 0;
    if (sg_engine_render(g, &r, &(sg_callbacks){.context = f, .frame = keep_frame}, &report, &e))
        fail_msg("%s", e.text);
    sg_engine_close(&g);
}

static frames folder_frames, file_frames;

static inline void renders_as(const char *model_dir, const char *path, const sg_model_parts *parts)
{
    render(&folder_frames, model_dir, NULL);
    render(&file_frames, path, parts);
    assert_true(folder_frames.used > 0);
    assert_int_equal(folder_frames.used, file_frames.used);
    assert_memory_equal(folder_frames.rgb, file_frames.rgb, file_frames.used);
}

/* ---- what is refused ---- */

static inline void refused(const char *path, const sg_model_parts *parts, const char *says)
{
    sg_error       e = {0};
    sg_checkpoint *c = NULL;
    assert_int_not_equal(sg_checkpoint_open_parts(&c, path, parts, sg_file_parts, &e), SG_OK);
    assert_null(c);
    if (!strstr(e.text, says)) fail_msg("\"%s\" lacks \"%s\"", e.text, says);
}

#endif
