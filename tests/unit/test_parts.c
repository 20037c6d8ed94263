/* test_parts.c - models that are not a Diffusers folder: files of each part in other names, all in one, original
 * repositories, GGUF. They render as the folders that they are made of, quantised ones as their numbers; what shapes say
 * of a config; what is missing, another family's or does not fit is refused by its name. */
#include "base/path.h"
#include "bpe_tokenizer.h"
#include "engine_fixture.h"
#include "gguf_file.h"
#include "lora.h"
#include "part_names.h"
#include "safetensors_write.h"

#include <math.h>
#include <stddef.h>

#define I2V SG_FIXTURES "/wan21_i2v"
#define COG SG_FIXTURES "/cogvideox_2b"
#define HUNYUAN SG_FIXTURES "/hunyuan_hd16"
#define MOCHI SG_FIXTURES "/mochi_hd16"
#define FLUX SG_FIXTURES "/flux_dev"
#define SCHNELL SG_FIXTURES "/flux_schnell"
#define SD35 SG_FIXTURES "/sd35_medium"
#define SD3 SG_FIXTURES "/sd3_medium"

enum { TENSORS_MAX = 600, FILES_MAX = 8 };

/* ---- a component of a Diffusers folder in other names ---- */

typedef struct contents {
    sg_named_tensor all[TENSORS_MAX];
    char           *name[TENSORS_MAX];
    void           *joined[TENSORS_MAX]; /* numbers of several tensors; or NULL */
    int             count;
    sg_source      *source[FILES_MAX];
    int             sources;
} contents;

static void put(contents *c, const char *name, sg_tensor t)
{
    assert_true(c->count < TENSORS_MAX);
    c->name[c->count] = strdup(name);
    c->all[c->count] = (sg_named_tensor){c->name[c->count], t};
    c->count++;
}

/* t among the rows of the file's tensor that rule means, of which the others come from others. */
static void put_rows(contents *c, const char *file, const sg_name_rule *rule, sg_tensor t)
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
static void put_component(contents *c, const char *model_dir, const char *component, const sg_name_map *names, int span,
                          const char *prefix)
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

static void take_out(contents *c)
{
    for (int i = 0; i < c->count; i++) free(c->name[i]);
    for (int i = 0; i < c->count; i++) free(c->joined[i]);
    for (int i = 0; i < c->sources; i++) sg_source_close(&c->source[i]);
    *c = (contents){.count = 0};
}

static void write_out(contents *c, const char *path)
{
    sg_error e = {0};
    if (sg_safetensors_write_all(path, c->all, c->count, NULL, &e)) fail_msg("%s", e.text);
    take_out(c);
}

static contents now; /* that is made */

static void write_component(const char *path, const char *model_dir, const char *component, const sg_name_map *names,
                            int span, const char *prefix)
{
    put_component(&now, model_dir, component, names, span, prefix);
    write_out(&now, path);
}

static char *text_of(const char *folder, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_file(path, NULL);
}

/* What no file says of the small models of the tests, to sparge-gen.json of a folder, with `more` behind it. */
static void write_own(const char *folder, const char *model_dir, const char *more)
{
    char        path[128];
    char *const dit = text_of(model_dir, "transformer/config.json");
    char *const sampler = text_of(model_dir, "scheduler/scheduler_config.json");
    snprintf(path, sizeof path, "%s/sparge-gen.json", folder);
    write_format(path, "{\"transformer\": %s, \"transformer_2\": %s, \"scheduler\": %s%s}", dit, dit, sampler, more);
    free(dit);
    free(sampler);
}

/* The configs of these components of a small model, NULL-ended, as they follow in sparge-gen.json. */
static const char *configs_of(const char *model_dir, const char *const *name)
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
static const char *hunyuan_own(void)
{
    return configs_of(HUNYUAN, (const char *const[]){"vae", "text_encoder", "text_encoder_2", NULL});
}

static const char clip_own[] = ", \"image_encoder\": {\"num_attention_heads\": 2, \"hidden_act\": \"gelu\"}";

/* ---- components, as files name their tensors ---- */

typedef enum kind {
    I2V_DIT,
    I2V_CLIP,
    I2V_CLIP_NAMED,
    COG_DIT,
    COG15_DIT,
    COG_VAE,
    COG5B_VAE,
    MOCHI_DIT,
    MOCHI_VAE,
    HUNYUAN_DIT,
    HUNYUAN_VAE,
    FLUX_DIT,
    SD35_DIT,
    SD35_VAE
} kind;

static const struct {
    const char        *dir, *component;
    const sg_name_map *names;
    int                span;
    const char        *prefix, *own; /* own: what no file says, in sparge-gen.json */
} kinds[] = {
    [I2V_DIT] = {I2V, "transformer", &wan_dit_names, 0, "", clip_own},
    [I2V_CLIP] = {I2V, "image_encoder", &wan_clip_vision_names, 0, "visual.", clip_own},
    [I2V_CLIP_NAMED] = {I2V, "image_encoder", NULL, 0, "", ""},
    [COG_DIT] = {COG, "transformer", &cogvideox_dit_names, 0, "", ""},
    [COG15_DIT] = {SG_FIXTURES "/cogvideox_15", "transformer", NULL, 0, "", ""},
    [COG_VAE] = {COG, "vae", &cogvideox_vae_names, 4, "", ", \"vae\": {\"norm_num_groups\": 4}"},
    [COG5B_VAE] = {SG_FIXTURES "/cogvideox_5b", "vae", &cogvideox_vae_names, 3, "", ""},
    [MOCHI_DIT] = {MOCHI, "transformer", &mochi_dit_names, 0, "", ""},
    [MOCHI_VAE] = {MOCHI, "vae", &mochi_vae_names, 0, "decoder.", ""},
    [HUNYUAN_DIT] = {HUNYUAN, "transformer", &hunyuan_dit_names, 0, "",
                     ", \"transformer\": {\"rope_axes_dim\": [4, 6, 6]}"},
    [HUNYUAN_VAE] = {HUNYUAN, "vae", &ldm_vae_names, 4, "", ", \"vae\": {\"norm_num_groups\": 4}"},
    [FLUX_DIT] = {FLUX, "transformer", &flux_dit_names, 0, "", ", \"transformer\": {\"axes_dims_rope\": [4, 10, 6]}"},
    [SD35_DIT] = {SD35, "transformer", &sd3_dit_names, 3, "", ""},
    [SD35_VAE] = {SD35, "vae", &ldm_vae_names, 4, "", ""},
};

static const char **part_of(sg_model_parts *p, kind k)
{
    if (strcmp(kinds[k].component, "vae") == 0) return &p->vae;
    return strcmp(kinds[k].component, "image_encoder") == 0 ? &p->clip_vision : &p->diffusion_model;
}

/* ---- rendering ---- */

static sg_lora_option with_lora; /* of all renders; without a path: none */
static const char    *with_dtype = "f32";
static int            with_weights; /* SG_WEIGHTS_AUTO .. */

/* Noise, as the first picture or the last one. */
static void put_picture(sg_request *r, int which)
{
    static uint8_t rgb[SG_IMAGES][64 * 64 * 3];
    for (size_t i = 0; i < sizeof *rgb; i++) rgb[which][i] = (uint8_t)((i + 7) * (i + 3) * 2654435761u >> (11 + which));
    r->image[which].rgb = rgb[which];
}

/* Returns the bytes of the weights of all phases. */
static size_t render(film *f, const char *path, const sg_model_parts *parts)
{
    size_t                  bytes = 0;
    sg_error                e = {0};
    sg_engine              *g = NULL;
    sg_report               report = {.size = sizeof report};
    const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                 .model_dir = path,
                                 .parts = parts ? *parts : (sg_model_parts){0},
                                 .backend = "cpu",
                                 .dtype = with_dtype,
                                 .weights_as = with_weights,
                                 .threads = 1,
                                 .lora = {with_lora},
                                 .loras = with_lora.path != NULL};
    g = open_engine(&o);
    sg_request r = small(g);
    sg_engine_nearest_size(g, &r.width, &r.height, &r.frames);
    for (int i = 0; i < SG_IMAGES; i++)
        if (sg_engine_info(g)->image[i] == SG_IMAGE_NEEDED) put_picture(&r, i);
    assert_done(render_film(g, &r, f, &report, &e), &e);
    for (int i = 0; i < report.plan.phases; i++) bytes += report.plan.phase[i].weights + report.plan.phase[i].mapped;
    sg_engine_close(&g);
    return bytes;
}

static film folder_frames, file_frames;

static void renders_as(const char *model_dir, const char *path, const sg_model_parts *parts)
{
    render(&folder_frames, model_dir, NULL);
    render(&file_frames, path, parts);
    assert_true(folder_frames.frames > 0);
    assert_memory_equal(&folder_frames, &file_frames, sizeof folder_frames);
}

/* ---- what is refused ---- */

static void refused(const char *path, const sg_model_parts *parts, sg_status code, const char *names)
{
    sg_error       e = {0};
    sg_checkpoint *c = NULL;
    assert_refused(sg_checkpoint_open_parts(&c, path, parts, sg_files_of, &e), code, &e, names);
    assert_null(c);
}

static void refused_by_the_engine(const char *dir, sg_model_parts parts, sg_status code, const char *names)
{
    engine_refused(
        &(sg_engine_options){.size = sizeof(sg_engine_options), .model_dir = dir, .parts = parts, .backend = "cpu"},
        code, names);
}

/* ---- Wan from words ---- */

static void a_file_for_each_part_renders_as_the_folder(void **state)
{
    const sg_model_parts parts = {.diffusion_model = "dit.safetensors",
                                  .vae = "vae.safetensors",
                                  .text_encoder = "t5.safetensors",
                                  .tokenizer = SG_FIXTURES "/wan21_hd12/tokenizer"};
    write_component("dit.safetensors", model, "transformer", &wan_dit_names, 0, "model.diffusion_model.");
    write_component("vae.safetensors", model, "vae", &wan_vae_names, 3, "");
    write_component("t5.safetensors", model, "text_encoder", &wan_t5_names, 0, "");
    write_own(".", model, "");
    renders_as(model, NULL, &parts);
    renders_as(model, "dit.safetensors", &parts);
    /* a folder's component in place of a file, and a file in place of a folder's component */
    renders_as(model, NULL,
               &(sg_model_parts){.diffusion_model = "dit.safetensors",
                                 .vae = SG_FIXTURES "/wan21_hd12/vae",
                                 .text_encoder = SG_FIXTURES "/wan21_hd12/text_encoder",
                                 .tokenizer = parts.tokenizer});
    renders_as(model, model, &(sg_model_parts){.vae = "vae.safetensors", .text_encoder = "t5.safetensors"});
    /* one of a folder, beside its config */
    renders_as(model, model,
               &(sg_model_parts){.diffusion_model =
                                     SG_FIXTURES "/wan21_hd12/transformer/diffusion_pytorch_model.safetensors"});
}

static void one_file_with_all_parts_renders(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_ti2v";
    put_component(&now, dir, "transformer", &wan_dit_names, 0, "model.diffusion_model.");
    put_component(&now, dir, "vae", &wan_vae_residual_names, 3, "first_stage_model.");
    put_component(&now, dir, "text_encoder", NULL, 0, "text_encoders.umt5xxl.transformer.");
    write_out(&now, "all.safetensors");
    write_own(".", dir, configs_of(dir, (const char *const[]){"vae", NULL})); /* with a mean and deviation of its own */
    /* what lies beside the file does not make a Diffusers folder of it */
    shell("mkdir -p transformer && echo '{}' >model_index.json");
    renders_as(dir, "all.safetensors", &(sg_model_parts){.tokenizer = SG_FIXTURES "/wan22_ti2v/tokenizer"});
    shell("rmdir transformer && rm model_index.json");
}

static void an_original_repository_of_two_experts_renders(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    shell("mkdir -p A14B/high_noise_model A14B/low_noise_model A14B/google && cp -r " SG_FIXTURES
          "/wan22_a14b/tokenizer A14B/google/umt5-xxl");
    write_component("A14B/high_noise_model/diffusion_pytorch_model.safetensors", dir, "transformer", &wan_dit_names, 0,
                    "");
    write_component("A14B/low_noise_model/diffusion_pytorch_model.safetensors", dir, "transformer_2", &wan_dit_names, 0,
                    "");
    write_component("A14B/models_t5_umt5-xxl-enc-bf16.safetensors", dir, "text_encoder", &wan_t5_names, 0, "");
    write_component("A14B/Wan2.1_VAE.safetensors", dir, "vae", &wan_vae_names, 3, "");
    write_own("A14B", dir, "");
    renders_as(dir, "A14B", NULL);
    /* by options, and the wrong way round */
    sg_model_parts parts = {.diffusion_model = "A14B/low_noise.safetensors",
                            .high_noise_diffusion_model = "A14B/HighNoise.safetensors",
                            .vae = "A14B/Wan2.1_VAE.safetensors",
                            .text_encoder = "A14B/models_t5_umt5-xxl-enc-bf16.safetensors"};
    assert_int_equal(rename("A14B/high_noise_model/diffusion_pytorch_model.safetensors", "A14B/HighNoise.safetensors"),
                     0);
    assert_int_equal(rename("A14B/low_noise_model/diffusion_pytorch_model.safetensors", "A14B/low_noise.safetensors"),
                     0);
    renders_as(dir, NULL, &parts);
    renders_as(dir, parts.diffusion_model, &parts);
    renders_as(dir, parts.diffusion_model,
               &(sg_model_parts){.high_noise_diffusion_model = parts.high_noise_diffusion_model,
                                 .vae = parts.vae,
                                 .text_encoder = parts.text_encoder});
    const struct {
        const char *low, *high;
        sg_status   code;
        const char *says;
    } wrong[] = {
        {parts.high_noise_diffusion_model, parts.diffusion_model, SG_E_ARG, "way round"},
        {parts.diffusion_model, NULL, SG_E_FILE, "expert for low noise|high noise is missing"},
        {parts.high_noise_diffusion_model, NULL, SG_E_FILE, "expert for high noise|low noise is missing"},
        {NULL, parts.high_noise_diffusion_model, SG_E_ARG, "high_noise_diffusion_model: |diffusion_model=FILE"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        parts.diffusion_model = wrong[i].low;
        parts.high_noise_diffusion_model = wrong[i].high;
        engine_refused(&(sg_engine_options){.size = sizeof(sg_engine_options), .parts = parts, .backend = "cpu"},
                       wrong[i].code, wrong[i].says);
    }
}

/* ---- configs ---- */

static void same_ints(const char *key, sg_config *a, sg_config *b, const int64_t *fallback)
{
    const int64_t x = sg_config_int(a, key, 0, 1 << 24, fallback), y = sg_config_int(b, key, 0, 1 << 24, fallback);
    if (x != y) fail_msg("%s: %lld in the folder, %lld from the file", key, (long long)x, (long long)y);
}

/* Nothing beside the file says it. */
static void shapes_give_the_config(void **state)
{
    static const char *const models[] = {"wan21_hd12", "wan21_hd64", "wan22_a14b", "wan22_ti2v", "wan22_hd128"};
    static const char *const keys[][10] = {
        {"transformer", "ffn_dim", "num_layers", "in_channels", "out_channels", "text_dim", "freq_dim"},
        {"text_encoder", "d_model", "vocab_size", "num_layers", "num_heads", "d_kv", "d_ff",
         "relative_attention_num_buckets"},
        {"vae", "base_dim", "z_dim", "num_res_blocks", "in_channels", "out_channels", "scale_factor_temporal",
         "scale_factor_spatial"}};
    unlink("sparge-gen.json");
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char dir[512], tokenizer[600];
        snprintf(dir, sizeof dir, "%s/%s", SG_FIXTURES, models[m]);
        snprintf(tokenizer, sizeof tokenizer, "%s/tokenizer", dir);
        sg_error             e = {0};
        sg_checkpoint       *c[2] = {NULL, NULL};
        const bool           residual = strncmp(models[m], "wan22_a", 7) > 0;
        const sg_model_parts parts = {.diffusion_model = "d.safetensors",
                                      .vae = "v.safetensors",
                                      .text_encoder = "t.safetensors",
                                      .tokenizer = tokenizer};
        write_component("d.safetensors", dir, "transformer", &wan_dit_names, 0, "");
        write_component("v.safetensors", dir, "vae", residual ? &wan_vae_residual_names : &wan_vae_names,
                        strcmp(models[m], "wan21_hd64") == 0 ? 4 : 3, "");
        write_component("t.safetensors", dir, "text_encoder", NULL, 0, "");
        assert_int_equal(sg_checkpoint_open(&c[0], dir, &e), SG_OK);
        if (sg_checkpoint_open_parts(&c[1], NULL, &parts, sg_files_of, &e)) fail_msg("%s", e.text);
        for (size_t k = 0; k < 3; k++) {
            sg_config *f[2];
            for (int i = 0; i < 2; i++) assert_int_equal(sg_checkpoint_config(c[i], keys[k][0], &f[i], &e), SG_OK);
            for (const char *const *key = keys[k] + 1; *key; key++) same_ints(*key, f[0], f[1], NULL);
            if (k == 2) {
                int64_t   list[2][SG_MAX_RANK * 2];
                bool      halves[2][8];
                const int n = sg_config_ints(f[0], "dim_mult", 1, 64, list[0], 1, 8);
                assert_int_equal(sg_config_ints(f[1], "dim_mult", 1, 64, list[1], 1, 8), n);
                assert_memory_equal(list[0], list[1], (size_t)n * sizeof *list[0]);
                for (int i = 0; i < 2; i++)
                    assert_int_equal(sg_config_bools(f[i], "temperal_downsample", halves[i], n - 1, n - 1), n - 1);
                assert_memory_equal(halves[0], halves[1], (size_t)(n - 1));
                same_ints("patch_size", f[0], f[1], &(int64_t){1});
                same_ints("decoder_base_dim", f[0], f[1], &(int64_t){4}); /* the base where the folder does not say */
                assert_true(sg_config_bool(f[1], "is_residual", NULL) == residual);
            }
            for (int i = 0; i < 2; i++) assert_int_equal(sg_config_status(f[i]), SG_OK);
            for (int i = 0; i < 2; i++) sg_config_close(&f[i]);
        }
        for (int i = 0; i < 2; i++) sg_checkpoint_close(&c[i]);
    }
}

static void what_is_missing_is_named_with_its_option(void **state)
{
    unlink("sparge-gen.json");
    write_component("dit.safetensors", model, "transformer", &wan_dit_names, 0, "");
    write_component("vae.safetensors", model, "vae", &wan_vae_names, 3, "");
    refused("dit.safetensors", NULL, SG_E_FILE, "text_encoder=FILE (umt5_xxl_|vae=FILE (wan_2.1_vae.safetensors");
    refused("vae.safetensors", NULL, SG_E_FILE, "diffusion_model=FILE (wan2.1_t2v_1.3B");
    refused(NULL, &(sg_model_parts){.vae = "vae.safetensors"}, SG_E_ARG, "path of a model|diffusion_model=FILE");
    refused(NULL,
            &(sg_model_parts){.diffusion_model = "dit.safetensors",
                              .vae = "vae.safetensors",
                              .text_encoder = SG_FIXTURES "/wan21_hd12/text_encoder"},
            SG_E_FILE, "tokenizer=PATH (spiece.model");
    refused("dit.safetensors", &(sg_model_parts){.vae = "dit.safetensors"}, SG_E_UNSUPPORTED,
            "VAE of Wan|VAE of CogVideoX|VAE of Mochi|VAE of HunyuanVideo|VAE of Flux.1|Stable Diffusion 3|denoiser of "
            "Wan");
    refused("nowhere", NULL, SG_E_FILE, "nowhere");
    refused("dit.safetensors", &(sg_model_parts){.tokenizer = "nowhere"}, SG_E_FILE, "nowhere: ");
    shell("mkdir -p empty");
    refused("empty", NULL, SG_E_FILE, "empty|model_index.json");
}

#define HIGH "A14B/high_noise_model/diffusion_pytorch_model.safetensors"
#define LOW "A14B/low_noise_model/diffusion_pytorch_model.safetensors"

/* Of what an_original_repository_of_two_experts_renders has left. */
static void an_expert_alone_is_refused(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    assert_int_equal(rename("A14B/HighNoise.safetensors", HIGH), 0);
    refused("A14B", NULL, SG_E_FILE, "expert for high noise|low noise is missing");
    refused("A14B/high_noise_model", NULL, SG_E_FILE, "low noise is missing");
    refused(dir, &(sg_model_parts){.high_noise_diffusion_model = "A14B/low_noise.safetensors"}, SG_E_ARG, "way round");
    refused(dir, &(sg_model_parts){.diffusion_model = HIGH}, SG_E_ARG, "way round");
    assert_int_equal(rename("A14B/low_noise.safetensors", "A14B/other.safetensors"), 0);
    renders_as(dir, "A14B", &(sg_model_parts){.diffusion_model = "A14B/other.safetensors"});
    assert_int_equal(rename("A14B/other.safetensors", LOW), 0);
    assert_int_equal(rename(HIGH, "A14B/HighNoise.safetensors"), 0);
    refused("A14B", NULL, SG_E_FILE, "expert for low noise|high noise is missing");
}

/* Its model_index.json knows of no second one. */
static void two_experts_take_the_place_of_the_denoiser_of_a_folder(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    shell("cp -rL " SG_FIXTURES "/wan22_a14b one && rm -r one/transformer_2 && cp " SG_FIXTURES
          "/wan21_hd12/model_index.json one");
    write_own("one", dir, "");
    renders_as(dir, "one",
               &(sg_model_parts){.high_noise_diffusion_model = "A14B/HighNoise.safetensors", .diffusion_model = LOW});
    const sg_engine_options folders = {.size = sizeof(sg_engine_options),
                                       .model_dir = "one",
                                       .parts = {.high_noise_diffusion_model = SG_FIXTURES "/wan22_a14b/transformer",
                                                 .diffusion_model = SG_FIXTURES "/wan22_a14b/transformer_2"},
                                       .backend = "cpu"};
    engine_refused(&folders, SG_E_FORMAT, "boundary_ratio|experts");
}

/* A denoiser with one tensor more. */
static void refused_with(const char *name, sg_status code, const char *names)
{
    const float x = 1;
    put_component(&now, model, "transformer", &wan_dit_names, 0, "");
    put(&now, name, (sg_tensor){.data = (void *)(uintptr_t)&x, .dtype = SG_F32, .rank = 1, .dim = {1}});
    write_out(&now, "strange.safetensors");
    refused(model, &(sg_model_parts){.diffusion_model = "strange.safetensors"}, code, names);
}

static void variants_that_are_not_rendered_are_refused_by_name(void **state)
{
    refused_with("vace_patch_embedding.weight", SG_E_UNSUPPORTED, "Wan VACE");
    refused_with("face_adapter.x", SG_E_UNSUPPORTED, "Wan Animate");
    refused_with("model.diffusion_model.head.modulation", SG_E_FORMAT, "two|\"transformer\"");
    refused_with("condition_embedder.time_proj.weight", SG_E_FORMAT, "two|\"transformer\"");
}

static void names_beyond_the_model_are_extra(void **state)
{
    static const char *const names[] = {"blocks.9.modulation", "blocks.007.modulation"};
    const float              x = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sg_error   e = {0};
        sg_engine *g = NULL;
        put_component(&now, model, "transformer", &wan_dit_names, 0, "");
        put(&now, names[i], (sg_tensor){.data = (void *)(uintptr_t)&x, .dtype = SG_F32, .rank = 1, .dim = {1}});
        write_out(&now, "more.safetensors");
        write_own(".", model, "");
        const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                     .parts = {.diffusion_model = "more.safetensors",
                                               .vae = SG_FIXTURES "/wan21_hd12/vae",
                                               .text_encoder = SG_FIXTURES "/wan21_hd12/text_encoder",
                                               .tokenizer = SG_FIXTURES "/wan21_hd12/tokenizer"},
                                     .backend = "cpu"};
        assert_refused(sg_engine_open(&g, &o, &e), SG_E_FORMAT, &e, "1 extra\n", names[i]);
    }
}

static void tokenizers_inside_a_file_are_bytes(void **state)
{
    float       x[4] = {0};
    const char *says[] = {"\"spiece_model\"|U8", "SentencePiece"};
    for (int i = 0; i < 2; i++) {
        put_component(&now, model, "text_encoder", NULL, 0, "");
        put(&now, "spiece_model",
            (sg_tensor){.data = memset(x, i ? 0xff : 0, sizeof x), .dtype = i ? SG_U8 : SG_F32, .rank = 1, .dim = {4}});
        write_out(&now, "t5.safetensors");
        const sg_engine_options o = {.size = sizeof(sg_engine_options),
                                     .model_dir = "dit.safetensors",
                                     .parts = {.vae = "vae.safetensors", .text_encoder = "t5.safetensors"},
                                     .backend = "cpu"};
        engine_refused(&o, SG_E_FORMAT, says[i]);
    }
}

/* With what a file of CLIP has beside its image encoder's states. */
static void write_clip(const char *path, const sg_name_map *names, const char *prefix)
{
    static const char *const rest[] = {"visual.head", "visual.post_norm.weight", "textual.norm.bias", "log_scale"};
    static const float       x[3];
    put_component(&now, I2V, "image_encoder", names, 0, prefix);
    for (size_t i = 0; names && i < sizeof rest / sizeof *rest; i++)
        put(&now, rest[i], (sg_tensor){.data = (void *)(uintptr_t)x, .dtype = SG_F32, .rank = 1, .dim = {3}});
    write_out(&now, path);
}

/* ---- Wan ---- */

static void an_original_repository_of_image_to_video_renders(void **state)
{
    shell("mkdir -p I2V/google comfy && cp -rL " I2V "/tokenizer I2V/google/umt5-xxl");
    write_component("I2V/diffusion_pytorch_model.safetensors", I2V, "transformer", &wan_dit_names, 0, "");
    write_component("I2V/models_t5.safetensors", I2V, "text_encoder", &wan_t5_names, 0, "");
    write_component("I2V/Wan2.1_VAE.safetensors", I2V, "vae", &wan_vae_names, 3, "");
    write_clip("I2V/models_clip.safetensors", &wan_clip_vision_names, "visual.");
    write_own("I2V", I2V, clip_own);
    renders_as(I2V, "I2V", NULL);
    /* ComfyUI's files */
    write_component("comfy/dit.safetensors", I2V, "transformer", &wan_dit_names, 0, "model.diffusion_model.");
    write_clip("comfy/clip_vision_h.safetensors", NULL, "vision_model.");
    write_own("comfy", I2V, clip_own);
    const sg_model_parts parts = {.diffusion_model = "comfy/dit.safetensors",
                                  .vae = "I2V/Wan2.1_VAE.safetensors",
                                  .text_encoder = "I2V/models_t5.safetensors",
                                  .clip_vision = "comfy/clip_vision_h.safetensors"};
    renders_as(I2V, NULL, &parts);
    /* beside a folder that knows no image encoder */
    shell("cp -rL " SG_FIXTURES "/wan21_hd12 t2v");
    write_own("t2v", I2V, clip_own);
    shell("cp -rL " I2V "/text_encoder " I2V "/vae t2v");
    renders_as(I2V, "t2v",
               &(sg_model_parts){.diffusion_model = parts.diffusion_model, .clip_vision = parts.clip_vision});
}

/* The names of two spellings, and the numbers of their places. */
static void first_and_last_frame_renders(void **state)
{
    enum { TOKENS = 2 * 17, WIDTH = 16 };
    static film          seen[2];
    static float         place[TOKENS * WIDTH];
    const sg_tensor      places = {.data = place, .dtype = SG_F32, .rank = 3, .dim = {1, TOKENS, WIDTH}};
    const sg_model_parts parts[2] = {{.diffusion_model = "flf.safetensors"}, {.diffusion_model = "named.safetensors"}};
    for (int i = 0; i < TOKENS * WIDTH; i++) place[i] = (float)(i % 13 - 6) / 8;
    put_component(&now, I2V, "transformer", &wan_dit_names, 0, "");
    put(&now, "img_emb.emb_pos", places);
    write_out(&now, parts[0].diffusion_model);
    put_component(&now, I2V, "transformer", NULL, 0, "");
    put(&now, "condition_embedder.image_embedder.pos_embed", places);
    write_out(&now, parts[1].diffusion_model);
    shell("cp -rL " I2V " flf");
    write_text("flf/sparge-gen.json", "{\"transformer\": {\"num_attention_heads\": 2, \"attention_head_dim\": 12, "
                                      "\"rope_max_seq_len\": 32}}");
    for (int i = 0; i < 2; i++) render(&seen[i], "flf", &parts[i]);
    assert_memory_equal(&seen[0], &seen[1], sizeof seen[0]);
    render(&folder_frames, I2V, NULL); /* which sees the first picture alone */
    assert_memory_not_equal(&seen[0], &folder_frames, sizeof seen[0]);
}

static void image_to_video_of_two_experts_renders(void **state)
{
    static const char dir[] = SG_FIXTURES "/wan22_i2v";
    shell("mkdir -p two");
    write_component("two/high_noise.safetensors", dir, "transformer", &wan_dit_names, 0, "");
    write_component("two/low_noise.safetensors", dir, "transformer_2", &wan_dit_names, 0, "");
    write_own("two", dir, ", \"model_index\": {\"boundary_ratio\": 0.875}");
    renders_as(dir, NULL,
               &(sg_model_parts){.high_noise_diffusion_model = "two/high_noise.safetensors",
                                 .diffusion_model = "two/low_noise.safetensors",
                                 .vae = SG_FIXTURES "/wan22_i2v/vae",
                                 .text_encoder = SG_FIXTURES "/wan22_i2v/text_encoder",
                                 .tokenizer = SG_FIXTURES "/wan22_i2v/tokenizer"});
}

/* ---- CogVideoX ---- */

static const struct {
    const char *dir;
    int         levels;
    const char *own; /* of its VAE */
} cogs[] = {{SG_FIXTURES "/cogvideox_2b", 4, ", \"vae\": {\"norm_num_groups\": 4, \"scaling_factor\": 1.15258426}"},
            {SG_FIXTURES "/cogvideox_5b", 3, ", \"vae\": {\"norm_num_groups\": 2}"},
            {SG_FIXTURES "/cogvideox_15", 4, ", \"vae\": {\"norm_num_groups\": 4}"}};

static void an_original_repository_of_cogvideox_renders(void **state)
{
    static const float x[2];
    for (size_t i = 0; i < sizeof cogs / sizeof *cogs; i++) {
        const char *const dir = cogs[i].dir;
        const sg_tensor   two = {.data = (void *)(uintptr_t)x, .dtype = SG_F32, .rank = 1, .dim = {2}};
        shell("rm -rf sat && mkdir -p sat/transformer/1000 sat/vae && cp -rL '%s/text_encoder' sat/t5-v1_1-xxl && cp "
              "'%s/tokenizer/spiece.model' sat/t5-v1_1-xxl",
              dir, dir);
        put_component(&now, dir, "transformer", &cogvideox_dit_names, 0, "model.diffusion_model.");
        put(&now,
            i ? "model.diffusion_model.mixins.pos_embed.freqs_sin"
              : "model.diffusion_model.mixins.pos_embed.pos_embedding",
            two);
        write_out(&now, "sat/transformer/1000/mp_rank_00_model_states.safetensors");
        put_component(&now, dir, "vae", &cogvideox_vae_names, cogs[i].levels, "");
        put(&now, "loss.logvar", two);
        write_out(&now, "sat/vae/3d-vae.safetensors");
        write_own("sat", dir, cogs[i].own);
        renders_as(dir, "sat", NULL);
        /* in Diffusers' names, some of them in place of a folder's */
        write_component("sat/named.safetensors", dir, "transformer", NULL, 0, "");
        write_component("sat/vae.safetensors", dir, "vae", NULL, 0, "");
        write_component("sat/t5.safetensors", dir, "text_encoder", NULL, 0, "");
        renders_as(dir, "sat/named.safetensors",
                   &(sg_model_parts){.vae = "sat/vae.safetensors",
                                     .text_encoder = "sat/t5.safetensors",
                                     .tokenizer = "sat/t5-v1_1-xxl/spiece.model"});
    }
}

/* ---- Mochi ---- */

static void an_original_repository_and_one_file_of_mochi_render(void **state)
{
    shell("mkdir -p mochi/google && cp -rL " MOCHI "/tokenizer mochi/google/t5-v1_1-xxl");
    write_component("mochi/dit.safetensors", MOCHI, "transformer", &mochi_dit_names, 0, "");
    write_component("mochi/decoder.safetensors", MOCHI, "vae", &mochi_vae_names, 0, "");
    write_component("mochi/t5xxl_fp16.safetensors", MOCHI, "text_encoder", NULL, 0, "");
    write_own("mochi", MOCHI, configs_of(MOCHI, (const char *const[]){"vae", NULL}));
    renders_as(MOCHI, "mochi", &(sg_model_parts){.text_encoder = "mochi/t5xxl_fp16.safetensors"});
    put_component(&now, MOCHI, "transformer", &mochi_dit_names, 0, "model.diffusion_model.");
    put_component(&now, MOCHI, "vae", &mochi_vae_names, 0, "vae.decoder.");
    put_component(&now, MOCHI, "text_encoder", NULL, 0, "text_encoders.t5xxl.transformer.");
    write_out(&now, "mochi/all.safetensors");
    renders_as(MOCHI, "mochi/all.safetensors", NULL);
}

/* ---- HunyuanVideo ---- */

static void files_and_one_file_of_hunyuan_render(void **state)
{
    const sg_model_parts parts = {.text_encoder = "hunyuan/llava_llama3.safetensors",
                                  .tokenizer = HUNYUAN "/tokenizer",
                                  .clip_l = "hunyuan/clip_l.safetensors",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    /* the original repository, with text encoders beside it */
    shell("mkdir -p hunyuan/transformers hunyuan/vae");
    write_component("hunyuan/transformers/mp_rank_00_model_states.safetensors", HUNYUAN, "transformer",
                    &hunyuan_dit_names, 0, "");
    write_component("hunyuan/vae/pytorch_model.safetensors", HUNYUAN, "vae", NULL, 0, "vae.");
    write_component("hunyuan/llava_llama3.safetensors", HUNYUAN, "text_encoder", NULL, 0, "model.");
    write_component("hunyuan/clip_l.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "text_model.");
    write_own("hunyuan", HUNYUAN, hunyuan_own());
    renders_as(HUNYUAN, "hunyuan", &parts);
    /* one file, as ComfyUI has it, beside the tokenizers' folders */
    shell("mkdir hunyuan/all && cp -rL " HUNYUAN
          "/tokenizer hunyuan/all/llava-llama-3-8b-text-encoder-tokenizer && cp -rL " HUNYUAN
          "/tokenizer_2 hunyuan/all/clip-vit-large-patch14");
    put_component(&now, HUNYUAN, "transformer", &hunyuan_dit_names, 0, "model.diffusion_model.");
    put_component(&now, HUNYUAN, "vae", &ldm_vae_names, 4, "vae.");
    put_component(&now, HUNYUAN, "text_encoder", NULL, 0, "text_encoders.llama.transformer.model.");
    put_component(&now, HUNYUAN, "text_encoder_2", NULL, 0, "text_encoders.clip_l.transformer.text_model.");
    write_out(&now, "hunyuan/all/all.safetensors");
    write_own("hunyuan/all", HUNYUAN, hunyuan_own());
    renders_as(HUNYUAN, "hunyuan/all/all.safetensors", NULL);
    /* the denoiser as ComfyUI saves it, today and before */
    static const sg_name_map *const saved[] = {&hunyuan_dit_saved_names, &hunyuan_dit_saved_before_names};
    sg_model_parts                  named = parts;
    named.vae = "hunyuan/vae/pytorch_model.safetensors";
    for (int i = 0; i < 2; i++) {
        write_component("hunyuan/saved.safetensors", HUNYUAN, "transformer", saved[i], 0, i ? "" : "model.model.");
        renders_as(HUNYUAN, "hunyuan/saved.safetensors", &named);
    }
    /* Diffusers' names */
    write_component("hunyuan/named.safetensors", HUNYUAN, "transformer", NULL, 0, "");
    renders_as(HUNYUAN, "hunyuan/named.safetensors", &named);
}

/* ---- configs ---- */

static void same_list(const char *key, sg_config *a, sg_config *b)
{
    int64_t   x[8] = {0}, y[8] = {0};
    const int n = sg_config_ints(a, key, 1, 1 << 20, x, 1, 8);
    assert_int_equal(sg_config_ints(b, key, 1, 1 << 20, y, 1, 8), n);
    assert_memory_equal(x, y, sizeof x);
}

/* Nothing beside the files says it. Keys of lists begin with []. */
static void shapes_of_each_family_give_the_config(void **state)
{
    static const struct {
        kind        kind;
        const char *key[14];
    } of[] = {
        {I2V_DIT,
         {"ffn_dim", "num_layers", "in_channels", "out_channels", "image_dim", "added_kv_proj_dim",
          "pos_embed_seq_len"}},
        {I2V_CLIP, {"hidden_size", "num_hidden_layers", "intermediate_size", "patch_size", "image_size"}},
        {COG_DIT,
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "out_channels", "text_embed_dim",
          "time_embed_dim", "patch_size", "patch_size_t", "ofs_embed_dim"}},
        {COG15_DIT,
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "out_channels", "text_embed_dim",
          "time_embed_dim", "patch_size", "patch_size_t", "ofs_embed_dim"}},
        {COG5B_VAE, {"latent_channels", "layers_per_block", "out_channels", "[]block_out_channels"}},
        {MOCHI_DIT,
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "pooled_projection_dim",
          "text_embed_dim", "time_embed_dim", "patch_size"}},
        {HUNYUAN_DIT,
         {"num_attention_heads", "attention_head_dim", "num_layers", "num_single_layers", "num_refiner_layers",
          "in_channels", "out_channels", "text_embed_dim", "pooled_projection_dim", "patch_size", "patch_size_t"}},
        {HUNYUAN_VAE, {"latent_channels", "layers_per_block", "out_channels", "[]block_out_channels"}},
        {MOCHI_VAE,
         {"latent_channels", "out_channels", "[]layers_per_block", "[]decoder_block_out_channels",
          "[]temporal_expansions", "[]spatial_expansions"}},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_error       e = {0};
        sg_checkpoint *c[2] = {NULL, NULL};
        sg_config     *f[2] = {NULL, NULL};
        sg_model_parts parts = {.diffusion_model = SG_FIXTURES "/wan21_i2v/transformer"};
        const kind     k0 = of[i].kind;
        shell("mkdir -p alone && rm -f alone/sparge-gen.json");
        *part_of(&parts, k0) = "alone/part.safetensors";
        write_component("alone/part.safetensors", kinds[k0].dir, kinds[k0].component, kinds[k0].names, kinds[k0].span,
                        kinds[k0].prefix);
        assert_int_equal(sg_checkpoint_open(&c[0], kinds[k0].dir, &e), SG_OK);
        if (sg_checkpoint_open_parts(&c[1], kinds[k0].dir, &parts, sg_files_of, &e)) fail_msg("%s", e.text);
        for (int k = 0; k < 2; k++) assert_int_equal(sg_checkpoint_config(c[k], kinds[k0].component, &f[k], &e), SG_OK);
        for (const char *const *key = of[i].key; *key; key++)
            if (**key == '[')
                same_list(*key + 2, f[0], f[1]);
            else
                same_ints(*key, f[0], f[1], &(int64_t){-1});
        for (int k = 0; k < 2; k++) {
            assert_int_equal(sg_config_status(f[k]), SG_OK);
            sg_config_close(&f[k]);
            sg_checkpoint_close(&c[k]);
        }
    }
}

/* A denoiser of CogVideoX's published sizes, as far as its config follows from it. */
typedef struct published {
    int64_t     width, in, frames; /* frames of a patch */
    bool        places, offset;
    const char *class_name, *scheduler;
    double      scaling;
    bool        rotary, learned;
} published;

static void put_numbers(const char *name, sg_tensor shape)
{
    static uint8_t any[3072 * 32 * 4 * 2];
    shape.data = any;
    shape.dtype = SG_U8;
    assert_true(sg_bytes(shape) <= sizeof any);
    put(&now, name, shape);
}

static void write_published(const char *path, const published *p)
{
    const int64_t w = p->width, in = p->in;
    put_numbers("patch_embed.proj.weight", p->frames > 1 ? (sg_tensor){.rank = 2, .dim = {w, in * 8}}
                                                         : (sg_tensor){.rank = 4, .dim = {w, in, 2, 2}});
    put_numbers("patch_embed.text_proj.weight", (sg_tensor){.rank = 2, .dim = {w, 8}});
    put_numbers("norm_final.weight", (sg_tensor){.rank = 1, .dim = {w}});
    put_numbers("proj_out.weight", (sg_tensor){.rank = 2, .dim = {1, w}});
    put_numbers("proj_out.bias", (sg_tensor){.rank = 1, .dim = {64 * p->frames}});
    put_numbers("time_embedding.linear_1.bias", (sg_tensor){.rank = 1, .dim = {512}});
    put_numbers("transformer_blocks.0.attn1.norm_q.weight", (sg_tensor){.rank = 1, .dim = {64}});
    if (p->places) put_numbers("patch_embed.pos_embedding", (sg_tensor){.rank = 3, .dim = {1, 8, w}});
    if (p->offset) put_numbers("ofs_embedding.linear_1.weight", (sg_tensor){.rank = 2, .dim = {512, 512}});
    write_out(&now, path);
}

static void published_sizes_of_cogvideox_are_told_apart(void **state)
{
    static const char      text[] = "CogVideoXPipeline", image[] = "CogVideoXImageToVideoPipeline";
    static const char      ddim[] = "CogVideoXDDIMScheduler", dpm[] = "CogVideoXDPMScheduler";
    static const published of[] = {
        {1920, 16, 1, false, false, text, ddim, 1.15258426, false, false}, /* 2B */
        {3072, 16, 1, false, false, text, dpm, 0.7, true, false},          /* 5B */
        {3072, 16, 2, false, false, text, dpm, 0.7, true, false},          /* 1.5 */
        {3072, 32, 1, true, false, image, dpm, 0.7, true, true},           /* 5B from an image */
        {3072, 32, 2, false, true, image, dpm, 0.7, true, false},          /* 1.5 from an image */
    };
    const sg_model_parts parts = {.diffusion_model = "published.safetensors",
                                  .vae = "vae.safetensors",
                                  .text_encoder = COG "/text_encoder",
                                  .tokenizer = COG "/tokenizer"};
    write_component(parts.vae, COG, "vae", NULL, 0, "");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        static const char *const name[] = {"transformer", "scheduler", "vae"};
        sg_error                 e = {0};
        sg_checkpoint           *c = NULL;
        sg_config               *f[4] = {NULL, NULL, NULL, NULL};
        const double             none = 0;
        write_published(parts.diffusion_model, &of[i]);
        if (sg_checkpoint_open_parts(&c, NULL, &parts, sg_files_of, &e)) fail_msg("%s", e.text);
        for (int k = 0; k < 3; k++) assert_int_equal(sg_checkpoint_config(c, name[k], &f[k], &e), SG_OK);
        assert_int_equal(sg_checkpoint_index(c, &f[3], &e), SG_OK);
        assert_int_equal(sg_config_int(f[0], "num_attention_heads", 1, 1024, NULL), of[i].width / 64);
        assert_int_equal(sg_config_int(f[0], "in_channels", 1, 1024, NULL), of[i].in);
        assert_int_equal(sg_config_int(f[0], "out_channels", 1, 1024, NULL), 16);
        assert_int_equal(sg_config_int(f[0], "sample_height", 1, 1024, NULL), of[i].frames > 1 ? 300 : 60);
        assert_true(sg_config_has(f[0], "patch_size_t") == (of[i].frames > 1));
        assert_true(sg_config_has(f[0], "ofs_embed_dim") == of[i].offset);
        assert_true(sg_config_bool(f[0], "use_rotary_positional_embeddings", NULL) == of[i].rotary);
        assert_true(sg_config_bool(f[0], "use_learned_positional_embeddings", NULL) == of[i].learned);
        assert_string_equal(sg_config_string(f[1], "_class_name", ""), of[i].scheduler);
        assert_true(sg_config_real(f[2], "scaling_factor", 0, 2, &none) == of[i].scaling);
        assert_string_equal(sg_config_string(f[3], "_class_name", ""), of[i].class_name);
        for (int k = 0; k < 4; k++) assert_int_equal(sg_config_status(f[k]), SG_OK);
        for (int k = 0; k < 4; k++) sg_config_close(&f[k]);
        sg_checkpoint_close(&c);
    }
}

/* ---- LoRA ---- */

/* The same differences by the model's names and by those of the file, whose matrices are joined. */
static void write_loras(const char *dir, const sg_name_map *names, const char *named, const char *joined)
{
    enum { RANK = 2, NUMBERS = 1 << 16 };
    static float        down[NUMBERS], up[NUMBERS];
    static contents     by_file;
    const sg_name_map  *none;
    const sg_name_rule *rule;
    sg_error            e = {0};
    sg_checkpoint      *from = NULL;
    sg_source          *s = NULL;
    for (int i = 0; i < NUMBERS; i++) {
        down[i] = (float)(i % 7 - 3) / 16;
        up[i] = (float)(i % 11 - 5) / 16;
    }
    assert_int_equal(sg_checkpoint_open(&from, dir, &e), SG_OK);
    assert_int_equal(sg_checkpoint_source(from, "transformer", &s, &none, &e), SG_OK);
    for (size_t i = 0; i < sg_source_count(s); i++) {
        char                          name[SG_NAME_MAX], file[SG_NAME_MAX], full[2 * SG_NAME_MAX];
        const sg_source_tensor *const t = sg_source_at(s, i);
        snprintf(name, sizeof name, "%s", t->name);
        char *const end = strstr(name, ".weight");
        if (t->rank != 2 || !end) continue;
        *end = '\0';
        const sg_tensor a = {.data = down, .dtype = SG_F32, .rank = 2, .dim = {RANK, t->dim[1]}};
        const sg_tensor b = {.data = up, .dtype = SG_F32, .rank = 2, .dim = {t->dim[0], RANK}};
        assert_true(t->dim[0] * RANK <= NUMBERS && t->dim[1] * RANK <= NUMBERS);
        snprintf(full, sizeof full, "transformer.%s.lora_A.weight", name);
        put(&now, full, a);
        snprintf(full, sizeof full, "transformer.%s.lora_B.weight", name);
        put(&now, full, b);
        assert_true(sg_name_map_find(names, name, file, &rule));
        for (char *p = file; *p; p++)
            if (*p == '.') *p = '_';
        snprintf(full, sizeof full, "lora_unet_%s.lora_down.weight", file);
        int k = 0;
        while (k < by_file.count && strcmp(by_file.name[k], full) != 0) k++;
        if (k == by_file.count) put(&by_file, full, a);
        snprintf(full, sizeof full, "lora_unet_%s.lora_up.weight", file);
        if (rule && rule->of)
            put_rows(&by_file, full, rule, b);
        else
            put(&by_file, full, b);
    }
    assert_true(now.count >= by_file.count);
    write_out(&now, named);
    write_out(&by_file, joined);
    sg_source_close(&s);
    sg_checkpoint_close(&from);
}

static void loras_go_by_either_names(void **state)
{
    static sg_name_map sd3; /* of three blocks */
    static const struct {
        const char        *dir;
        const sg_name_map *names;
    } of[] = {{I2V, &wan_dit_names},         {COG, &cogvideox_dit_names}, {MOCHI, &mochi_dit_names},
              {HUNYUAN, &hunyuan_dit_names}, {FLUX, &flux_dit_names},     {SD35, &sd3}};
    static film named;
    sd3 = sd3_dit_names;
    sd3.span = 3;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_loras(of[i].dir, of[i].names, "named.safetensors", "joined.safetensors");
        with_lora = (sg_lora_option){.path = "named.safetensors", .strength = 0.5};
        render(&named, of[i].dir, NULL);
        with_lora.path = "joined.safetensors";
        render(&file_frames, of[i].dir, NULL);
        with_lora.path = NULL;
        render(&folder_frames, of[i].dir, NULL);
        assert_memory_equal(&named, &file_frames, sizeof named);
        assert_memory_not_equal(&named, &folder_frames, sizeof named);
    }
}

/* ---- Flux.1 and Stable Diffusion 3 ---- */

/* ---- what the shapes of a published denoiser say ---- */

/* Name and shape of a tensor of bytes, as many as the config follows from. */
static void put_shape(const char *name, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    static uint8_t  any[3072 * 384];
    const sg_tensor t = {.data = any, .dtype = SG_U8, .rank = rank, .dim = {a, b, c, d}};
    assert_true(sg_bytes(t) <= sizeof any);
    put(&now, name, t);
}

static void put_block(const char *list, int i, const char *tensor, int64_t rows)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%d.%s", list, i, tensor);
    put_shape(name, 1, rows, 0, 0, 0);
}

/* The denoiser of Flux.1 that takes `in` numbers a token, in names whose norms have `norm`; NULL: Diffusers'. */
static void write_flux(const char *path, int64_t in, bool guided, const char *norm)
{
    enum { WIDTH = 3072, HEAD = 128, DOUBLES = 19, SINGLES = 38 };
    const bool named = !norm;
    char       key[64];
    snprintf(key, sizeof key, "img_attn.norm.query_norm.%s", norm ? norm : "");
    put_shape(named ? "x_embedder.weight" : "img_in.weight", 2, WIDTH, in, 0, 0);
    put_shape(named ? "x_embedder.bias" : "img_in.bias", 1, WIDTH, 0, 0, 0);
    put_shape(named ? "context_embedder.weight" : "txt_in.weight", 2, WIDTH, 40, 0, 0);
    put_shape(named ? "time_text_embed.text_embedder.linear_1.weight" : "vector_in.in_layer.weight", 2, WIDTH, 24, 0,
              0);
    put_shape(named ? "proj_out.bias" : "final_layer.linear.bias", 1, 64, 0, 0, 0);
    if (guided)
        put_shape(named ? "time_text_embed.guidance_embedder.linear_1.weight" : "guidance_in.in_layer.weight", 2, WIDTH,
                  256, 0, 0);
    for (int i = 0; i < DOUBLES; i++)
        put_block(named ? "transformer_blocks" : "double_blocks", i, named ? "attn.norm_q.weight" : key, HEAD);
    snprintf(key, sizeof key, "norm.query_norm.%s", norm ? norm : "");
    for (int i = 0; i < SINGLES; i++)
        put_block(named ? "single_transformer_blocks" : "single_blocks", i, named ? "attn.norm_q.weight" : key, HEAD);
    snprintf(key, sizeof key, "double_blocks.0.img_attn.norm.key_norm.%s", norm ? norm : "");
    if (!named) put_shape(key, 1, HEAD, 0, 0, 0);
    write_out(&now, path);
}

/* Opens a denoiser's file beside text encoders and a VAE that are not looked into, and config f[i] of name[i]. */
static sg_checkpoint *open_denoiser(const char *path, int count, const char *const *name, sg_config **f)
{
    const sg_model_parts parts = {.diffusion_model = path,
                                  .vae = HUNYUAN "/vae",
                                  .text_encoder = COG "/text_encoder",
                                  .tokenizer = COG "/tokenizer",
                                  .clip_l = HUNYUAN "/text_encoder_2",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2",
                                  .clip_g = strstr(path, "sd3") ? HUNYUAN "/text_encoder_2" : NULL};
    sg_error             e = {0};
    sg_checkpoint       *c = NULL;
    if (sg_checkpoint_open_parts(&c, NULL, &parts, sg_files_of, &e)) fail_msg("%s", e.text);
    for (int i = 0; i < count; i++) assert_int_equal(sg_checkpoint_config(c, name[i], &f[i], &e), SG_OK);
    return c;
}

static void close_denoiser(sg_checkpoint *c, int count, sg_config **f)
{
    for (int i = 0; i < count; i++) {
        assert_int_equal(sg_config_status(f[i]), SG_OK);
        sg_config_close(&f[i]);
    }
    sg_checkpoint_close(&c);
}

static void is_at(const sg_checkpoint *c, const char *component, const char *path)
{
    char     there[1024];
    sg_error e = {0};
    assert_int_equal(sg_checkpoint_place(c, component, there, sizeof there, &e), SG_OK);
    assert_string_equal(there, path);
}

static int64_t number(sg_config *c, const char *key) { return sg_config_int(c, key, 0, 1 << 20, NULL); }

static double real(sg_config *c, const char *key) { return sg_config_real(c, key, 0, 100, NULL); }

static void shapes_of_flux_give_the_config(void **state)
{
    static const char *const name[] = {"transformer", "scheduler"}, *const norm[] = {"scale", "weight", NULL};
    for (int i = 0; i < 6; i++) {
        const bool dev = i < 3;
        sg_config *f[2];
        int64_t    axes[3];
        write_flux("flux.safetensors", 64, dev, norm[i % 3]);
        sg_checkpoint *const c = open_denoiser("flux.safetensors", 2, name, f);
        assert_int_equal(number(f[0], "num_layers"), 19);
        assert_int_equal(number(f[0], "num_single_layers"), 38);
        assert_int_equal(number(f[0], "num_attention_heads"), 24);
        assert_int_equal(number(f[0], "attention_head_dim"), 128);
        assert_int_equal(number(f[0], "in_channels"), 64);
        assert_int_equal(number(f[0], "joint_attention_dim"), 40);
        assert_int_equal(number(f[0], "pooled_projection_dim"), 24);
        assert_true(sg_config_bool(f[0], "guidance_embeds", NULL) == dev);
        assert_int_equal(sg_config_ints(f[0], "axes_dims_rope", 1, 64, axes, 3, 3), 3);
        assert_true(axes[0] == 16 && axes[1] == 56 && axes[2] == 56);
        assert_true(sg_config_bool(f[1], "use_dynamic_shifting", NULL) == dev);
        assert_true(real(f[1], "shift") == (dev ? 3 : 1) && real(f[1], "max_shift") == 1.15);
        /* CLIP comes first here */
        is_at(c, "text_encoder", HUNYUAN "/text_encoder_2");
        is_at(c, "tokenizer", HUNYUAN "/tokenizer_2");
        is_at(c, "text_encoder_2", COG "/text_encoder");
        is_at(c, "tokenizer_2", COG "/tokenizer");
        close_denoiser(c, 2, f);
    }
}

typedef struct sd3_sizes {
    int64_t width, layers, side; /* places of the picture, a row */
    int     duals;
    bool    norms;
} sd3_sizes;

static void write_sd3(const char *path, const sd3_sizes *p)
{
    const int64_t w = p->width;
    put_shape("pos_embed", 3, 1, p->side * p->side, w, 0);
    put_shape("x_embedder.proj.weight", 4, w, 16, 2, 2);
    put_shape("x_embedder.proj.bias", 1, w, 0, 0, 0);
    put_shape("context_embedder.weight", 2, w, 40, 0, 0);
    put_shape("y_embedder.mlp.0.weight", 2, w, 32, 0, 0);
    put_shape("final_layer.linear.bias", 1, 64, 0, 0, 0);
    put_shape("joint_blocks.0.context_block.attn.qkv.weight", 1, 1, 0, 0, 0);
    for (int i = 0; i < p->layers; i++) {
        put_block("joint_blocks", i, "x_block.adaLN_modulation.1.bias", 6 * w);
        put_block("joint_blocks", i, "x_block.adaLN_modulation.1.weight", 6 * w);
        if (p->norms) put_block("joint_blocks", i, "x_block.attn.ln_q.weight", 64);
        if (i < p->duals) put_block("joint_blocks", i, "x_block.attn2.qkv.weight", 3 * w);
    }
    write_out(&now, path);
}

static void shapes_of_sd3_give_the_config(void **state)
{
    static const sd3_sizes   of[] = {{2432, 38, 19, 0, true},   /* 3.5 large, of fewer places */
                                     {1536, 24, 24, 13, true},  /* 3.5 medium */
                                     {1536, 24, 19, 0, false}}; /* SD3 medium */
    static const char *const name[] = {"transformer", "scheduler"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_config *f[2];
        int64_t    dual[64];
        write_sd3("sd3.safetensors", &of[i]);
        sg_checkpoint *const c = open_denoiser("sd3.safetensors", 2, name, f);
        assert_int_equal(number(f[0], "num_layers"), of[i].layers);
        assert_int_equal(number(f[0], "num_attention_heads"), of[i].width / 64);
        assert_int_equal(number(f[0], "attention_head_dim"), 64);
        assert_int_equal(number(f[0], "caption_projection_dim"), of[i].width);
        assert_int_equal(number(f[0], "in_channels"), 16);
        assert_int_equal(number(f[0], "out_channels"), 16);
        assert_int_equal(number(f[0], "joint_attention_dim"), 40);
        assert_int_equal(number(f[0], "pooled_projection_dim"), 32);
        assert_int_equal(number(f[0], "pos_embed_max_size"), of[i].side);
        assert_int_equal(sg_config_ints(f[0], "dual_attention_layers", 0, 63, dual, 0, 64), of[i].duals);
        for (int k = 0; k < of[i].duals; k++) assert_int_equal(dual[k], k);
        assert_string_equal(sg_config_string(f[0], "qk_norm", "none"), of[i].norms ? "rms_norm" : "none");
        assert_true(real(f[1], "shift") == 3);
        is_at(c, "text_encoder", HUNYUAN "/text_encoder_2");
        is_at(c, "text_encoder_2", HUNYUAN "/text_encoder_2");
        is_at(c, "text_encoder_3", COG "/text_encoder");
        is_at(c, "tokenizer_2", HUNYUAN "/tokenizer_2");
        is_at(c, "tokenizer_3", COG "/tokenizer");
        assert_null(sg_checkpoint_pad(c, "tokenizer"));
        assert_string_equal(sg_checkpoint_pad(c, "tokenizer_2"), "!");
        close_denoiser(c, 2, f);
    }
}

/* Its tiles have that many pixels a side; diffusers' own default is 32. */
static void a_vae_of_pictures_has_the_published_size(void **state)
{
    static const char *const of[] = {"flux.safetensors", "sd3.safetensors"};
    unlink("sparge-gen.json");
    write_flux(of[0], 64, true, "scale");
    write_sd3(of[1], &(sd3_sizes){1536, 24, 24, 13, true});
    write_component("pictures.safetensors", SD35, "vae", &ldm_vae_names, 4, "");
    for (int i = 0; i < 2; i++) {
        const sg_model_parts parts = {.diffusion_model = of[i],
                                      .vae = "pictures.safetensors",
                                      .text_encoder = COG "/text_encoder",
                                      .tokenizer = COG "/tokenizer",
                                      .clip_l = HUNYUAN "/text_encoder_2",
                                      .clip_tokenizer = HUNYUAN "/tokenizer_2",
                                      .clip_g = i ? HUNYUAN "/text_encoder_2" : NULL};
        sg_error             e = {0};
        sg_checkpoint       *c = NULL;
        sg_config           *f = NULL;
        assert_done(sg_checkpoint_open_parts(&c, NULL, &parts, sg_files_of, &e), &e);
        assert_done(sg_checkpoint_config(c, "vae", &f, &e), &e);
        assert_int_equal(number(f, "sample_size"), 1024);
        assert_true(real(f, "scaling_factor") == (i ? 1.5305 : 0.3611));
        close_denoiser(c, 1, &f);
    }
}

static void check_ratio(void *context)
{
    sg_config *f;
    (void)context;
    sg_checkpoint *const c = open_denoiser("hunyuan.safetensors", 1, (const char *const[]){"transformer"}, &f);
    assert_true(real(f, "mlp_ratio") == 22 / 7.0);
    close_denoiser(c, 1, &f);
}

/* Whatever the locale's decimal point is. */
static void a_ratio_of_many_digits_is_whole(void **state)
{
    put_shape("context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight", 1, 1, 0, 0, 0);
    put_shape("x_embedder.proj.bias", 1, 7, 0, 0, 0);
    put_shape("transformer_blocks.0.ff.net.0.proj.bias", 1, 22, 0, 0, 0);
    write_out(&now, "hunyuan.safetensors");
    check_ratio(NULL);
    if (!with_decimal_comma(check_ratio, NULL)) print_message("there is no such locale here\n");
}

/* ---- what is missing or does not fit ---- */

static void what_goes_with_the_denoiser_is_asked_for(void **state)
{
    shell("mkdir -p alone");
    write_flux("alone/flux.safetensors", 64, true, "scale");
    write_sd3("alone/sd3.safetensors", &(sd3_sizes){1536, 2, 8, 0, true});
    write_component("alone/clip.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "");
    refused("alone/flux.safetensors", NULL, SG_E_FILE,
            "text_encoder=FILE (t5xxl_fp16.safetensors|clip_l=FILE (clip_l.safetensors)|tokenizer=PATH (spiece.model|"
            "google/t5-v1_1-xxl/|clip_tokenizer=FOLDER (clip-vit-large-patch14/|vae=FILE (ae.safetensors");
    refused("alone/flux.safetensors", &(sg_model_parts){.clip_g = "alone/clip.safetensors"}, SG_E_ARG,
            "clip_g: alone/clip.safetensors|no CLIP-G");
    refused("alone/sd3.safetensors", NULL, SG_E_FILE,
            "clip_g=FILE (clip_g.safetensors)|CLIP-G text encoder|clip_tokenizer");
    /* T5 may be missing */
    sg_error             e = {0};
    sg_checkpoint       *c = NULL;
    const sg_model_parts parts = {.vae = HUNYUAN "/vae",
                                  .clip_l = "alone/clip.safetensors",
                                  .clip_g = "alone/clip.safetensors",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    if (sg_checkpoint_open_parts(&c, "alone/sd3.safetensors", &parts, sg_files_of, &e)) fail_msg("%s", e.text);
    assert_true(sg_checkpoint_has(c, "text_encoder_2"));
    assert_false(sg_checkpoint_has(c, "text_encoder_3"));
    assert_false(sg_checkpoint_has(c, "tokenizer_3"));
    sg_checkpoint_close(&c);
    /* a file of CLIP may be either of the two, and is no model */
    refused("alone/clip.safetensors", NULL, SG_E_FILE, "denoiser|diffusion_model");
}

static void variants_are_refused_by_name(void **state)
{
    const sg_model_parts parts = {.vae = HUNYUAN "/vae",
                                  .text_encoder = COG "/text_encoder",
                                  .tokenizer = COG "/tokenizer",
                                  .clip_l = HUNYUAN "/text_encoder_2",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    write_flux("fill.safetensors", 384, true, "scale");
    refused("fill.safetensors", &parts, SG_E_UNSUPPORTED, "fill.safetensors|384|64|Flux.1 Fill");
    put_shape("double_blocks.0.img_attn.norm.key_norm.scale", 1, 128, 0, 0, 0);
    put_shape("distilled_guidance_layer.norms.0.scale", 1, 1, 0, 0, 0);
    write_out(&now, "chroma.safetensors");
    refused("chroma.safetensors", &parts, SG_E_UNSUPPORTED, "chroma.safetensors|Chroma");
    put_shape("single_transformer_blocks.0.attn.norm_q.weight", 1, 128, 0, 0, 0);
    put_shape("controlnet_blocks.0.weight", 2, 1, 1, 0, 0);
    write_out(&now, "control.safetensors");
    refused("control.safetensors", &parts, SG_E_UNSUPPORTED, "control.safetensors|ControlNet|supported");
    put_shape("controlnet_blocks.0.weight", 2, 1, 1, 0, 0);
    write_out(&now, "control.safetensors");
    refused("control.safetensors", &parts, SG_E_UNSUPPORTED, "a ControlNet");
    write_flux("canny.safetensors", 128, true, NULL);
    refused("canny.safetensors", &parts, SG_E_UNSUPPORTED, "Flux.1 Canny|dev and schnell");
}

/* ---- whole files of Flux.1 ---- */

static const char *const flux_parts[] = {"vae", "text_encoder", "text_encoder_2", NULL};

static void files_and_one_file_of_flux_render(void **state)
{
    static const struct {
        const char *dir;
        int         levels; /* of the VAE */
    } of[] = {{FLUX, 3}, {SCHNELL, 4}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *const dir = of[i].dir;
        shell("rm -rf files && mkdir -p files/google && cp -rL '%s/tokenizer_2' files/google/t5-v1_1-xxl && cp -rL "
              "'%s/tokenizer' files/clip-vit-large-patch14",
              dir, dir);
        write_component("files/flux1.safetensors", dir, "transformer", &flux_dit_names, 0, "");
        write_component("files/ae.safetensors", dir, "vae", &ldm_vae_names, of[i].levels, "");
        write_component("files/clip_l.safetensors", dir, "text_encoder", NULL, 0, "");
        write_component("files/t5xxl_fp16.safetensors", dir, "text_encoder_2", NULL, 0, "");
        write_own("files", dir, configs_of(dir, flux_parts));
        const sg_model_parts parts = {.vae = "files/ae.safetensors",
                                      .text_encoder = "files/t5xxl_fp16.safetensors",
                                      .clip_l = "files/clip_l.safetensors"};
        renders_as(dir, "files/flux1.safetensors", &parts);
        /* all in one, as ComfyUI has it */
        put_component(&now, dir, "transformer", i ? &flux_dit_names : &flux_dit_saved_names, 0,
                      "model.diffusion_model.");
        put_component(&now, dir, "vae", &ldm_vae_names, of[i].levels, "vae.");
        put_component(&now, dir, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
        put_component(&now, dir, "text_encoder_2", NULL, 0, "text_encoders.t5xxl.transformer.");
        write_out(&now, "files/all.safetensors");
        renders_as(dir, "files/all.safetensors", NULL);
        /* in place of a folder's, in Diffusers' names and in GGUF */
        put_component(&now, dir, "transformer", &flux_dit_names, 0, "");
        gguf_write("files/flux.gguf", &(gguf_key){.name = "general.architecture", .kind = 's', .text = "flux"}, 1,
                   now.all, now.count);
        take_out(&now);
        renders_as(dir, "files/flux.gguf", &parts);
        write_component("files/named.safetensors", dir, "transformer", NULL, 0, "");
        renders_as(dir, "files/named.safetensors", &parts);
        renders_as(dir, dir, &(sg_model_parts){.vae = "files/ae.safetensors"});
        /* components' folders, whose places follow from the denoiser's config */
        char folder[3][512];
        for (int k = 0; k < 3; k++)
            snprintf(folder[k], sizeof folder[k], "%s/%s", dir, k ? flux_parts[k] : "transformer");
        renders_as(dir, dir,
                   &(sg_model_parts){.diffusion_model = folder[0], .clip_l = folder[1], .text_encoder = folder[2]});
    }
}

/* Of one block each, by XLabs' names and by kohya's. */
static void a_lora_by_the_names_of_xlabs_renders(void **state)
{
    enum { RANK = 2, WIDTH = 60 };
    static const struct {
        const char *xlabs, *kohya;
        int         up, down; /* times WIDTH */
    } of[] = {{"double_blocks.1.processor.qkv_lora1", "lora_unet_double_blocks_1_img_attn_qkv", 3, 1},
              {"double_blocks.1.processor.qkv_lora2", "lora_unet_double_blocks_1_txt_attn_qkv", 3, 1},
              {"double_blocks.1.processor.proj_lora1", "lora_unet_double_blocks_1_img_attn_proj", 1, 1},
              {"double_blocks.0.processor.proj_lora2", "lora_unet_double_blocks_0_txt_attn_proj", 1, 1},
              {"single_blocks.1.processor.proj_lora", "lora_unet_single_blocks_1_linear2", 1, 5}};
    static const char *const side[2][2] = {{"down", "up"}, {"lora_down", "lora_up"}};
    static float             x[5 * WIDTH * RANK];
    static film              seen[3];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((int)(i * 7 % 11) - 5) / 8;
    for (int names = 0; names < 2; names++) {
        for (size_t i = 0; i < sizeof of / sizeof *of; i++)
            for (int up = 0; up < 2; up++) {
                char            key[128];
                const sg_tensor t = {.data = x,
                                     .dtype = SG_F32,
                                     .rank = 2,
                                     .dim = {up ? of[i].up * WIDTH : RANK, up ? RANK : of[i].down * WIDTH}};
                snprintf(key, sizeof key, "%s.%s.weight", names ? of[i].kohya : of[i].xlabs, side[names][up]);
                put(&now, key, t);
            }
        write_out(&now, "lora.safetensors");
        with_lora = (sg_lora_option){.path = "lora.safetensors", .strength = 1};
        render(&seen[names], FLUX, NULL);
        with_lora.path = NULL;
    }
    render(&seen[2], FLUX, NULL);
    assert_memory_equal(&seen[0], &seen[1], sizeof seen[0]);
    assert_memory_not_equal(&seen[0], &seen[2], sizeof seen[0]);
}

/* ---- whole files of Stable Diffusion 3 ---- */

static const char *const sd3_parts[] = {"vae", "text_encoder", "text_encoder_2", NULL};
static const char *const sd35_parts[] = {"vae", "text_encoder", "text_encoder_2", "text_encoder_3", NULL};

static void files_and_one_file_of_sd35_render(void **state)
{
    const sg_model_parts parts = {.vae = "sd35/vae.safetensors",
                                  .text_encoder = "sd35/t5xxl.safetensors",
                                  .tokenizer = SD35 "/tokenizer_3",
                                  .clip_l = "sd35/clip_l.safetensors",
                                  .clip_g = "sd35/clip_g.safetensors",
                                  .clip_tokenizer = SD35 "/tokenizer"};
    shell("mkdir -p sd35/google && cp -rL " SD35 "/tokenizer_3 sd35/google/t5-v1_1-xxl && cp -rL " SD35
          "/tokenizer sd35/clip-vit-large-patch14");
    write_component("sd35/dit.safetensors", SD35, "transformer", &sd3_dit_names, 3, "model.diffusion_model.");
    write_component("sd35/vae.safetensors", SD35, "vae", &ldm_vae_names, 4, "");
    write_component("sd35/clip_l.safetensors", SD35, "text_encoder", NULL, 0, "");
    write_component("sd35/clip_g.safetensors", SD35, "text_encoder_2", NULL, 0, "");
    write_component("sd35/t5xxl.safetensors", SD35, "text_encoder_3", NULL, 0, "");
    write_own("sd35", SD35, configs_of(SD35, sd35_parts));
    renders_as(SD35, "sd35/dit.safetensors", &parts);
    /* all in one, beside the tokenizers' folders */
    put_component(&now, SD35, "transformer", &sd3_dit_names, 3, "model.diffusion_model.");
    put_component(&now, SD35, "vae", &ldm_vae_names, 4, "first_stage_model.");
    put_component(&now, SD35, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
    put_component(&now, SD35, "text_encoder_2", NULL, 0, "text_encoders.clip_g.transformer.");
    put_component(&now, SD35, "text_encoder_3", NULL, 0, "text_encoders.t5xxl.transformer.");
    write_out(&now, "sd35/all.safetensors");
    renders_as(SD35, "sd35/all.safetensors", NULL);
    /* the original repository, whose denoiser has the VAE in its file */
    shell("mkdir -p repository/text_encoders && cp sd35/sparge-gen.json repository && cd sd35 && cp "
          "clip_l.safetensors "
          "clip_g.safetensors t5xxl.safetensors google clip-vit-large-patch14 -r ../repository/text_encoders");
    put_component(&now, SD35, "transformer", &sd3_dit_names, 3, "model.diffusion_model.");
    put_component(&now, SD35, "vae", &ldm_vae_names, 4, "first_stage_model.");
    write_out(&now, "repository/sd3.5_medium.safetensors");
    renders_as(SD35, "repository", NULL);
    /* parts in place of a folder's, in Diffusers' names and in GGUF */
    write_component("sd35/named.safetensors", SD35, "transformer", NULL, 0, "");
    renders_as(SD35, SD35, &(sg_model_parts){.diffusion_model = "sd35/named.safetensors", .vae = parts.vae});
    put_component(&now, SD35, "transformer", &sd3_dit_names, 3, "");
    gguf_write("sd35/dit.gguf", &(gguf_key){.name = "general.architecture", .kind = 's', .text = "sd3"}, 1, now.all,
               now.count);
    take_out(&now);
    renders_as(SD35, SD35, &(sg_model_parts){.diffusion_model = "sd35/dit.gguf"});
}

/* SD3 medium without T5, in one file of F16. */
static void one_file_without_t5_renders(void **state)
{
    shell("mkdir -p sd3");
    put_component(&now, SD3, "transformer", &sd3_dit_names, 2, "model.diffusion_model.");
    put_component(&now, SD3, "vae", &ldm_vae_names, 4, "first_stage_model.");
    put_component(&now, SD3, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
    put_component(&now, SD3, "text_encoder_2", NULL, 0, "text_encoders.clip_g.transformer.");
    write_out(&now, "sd3/all.safetensors");
    write_own("sd3", SD3, configs_of(SD3, sd3_parts));
    renders_as(SD3, "sd3/all.safetensors", &(sg_model_parts){.clip_tokenizer = SD3 "/tokenizer"});
}

/* Of a file without a projection it is the identity. */
static void clip_l_without_a_projection_renders(void **state)
{
    enum { WIDTH = 24 };
    static float         one[WIDTH * WIDTH];
    static film          with;
    const sg_tensor      t = {.data = one, .dtype = SG_F32, .rank = 2, .dim = {WIDTH, WIDTH}};
    const sg_model_parts parts[2] = {{.clip_l = "clip/with.safetensors"}, {.clip_l = "clip/without.safetensors"}};
    for (int i = 0; i < WIDTH; i++) one[i * WIDTH + i] = 1;
    shell("cp -rL " SD3 " clip");
    for (int i = 0; i < 2; i++) {
        put_component(&now, SD3, "text_encoder", NULL, 0, "");
        int k = 0;
        while (strcmp(now.name[k], "text_projection.weight") != 0) k++;
        now.all[k].t = t;
        if (i) {
            free(now.name[k]);
            now.name[k] = strdup("logit_scale");
            now.all[k] = (sg_named_tensor){now.name[k], {.data = one, .dtype = SG_F32, .rank = 1, .dim = {1}}};
        }
        write_out(&now, parts[i].clip_l);
    }
    write_text("clip/sparge-gen.json", "{\"text_encoder\": {\"num_attention_heads\": 3, \"eos_token_id\": 673}}");
    render(&with, "clip", &parts[0]);
    render(&file_frames, "clip", &parts[1]);
    assert_memory_equal(&with, &file_frames, sizeof with);
    render(&folder_frames, SD3, NULL); /* whose projection is another */
    assert_memory_not_equal(&with, &folder_frames, sizeof with);
}

/* ---- Llama in GGUF ---- */

/* Rows of heads of d in the order of llama.cpp: those that are rotated together side by side. */
static void put_in_pairs(contents *c, int i, int64_t d)
{
    const sg_tensor from = c->all[i].t;
    const int64_t   row = from.dim[1];
    float *const    to = calloc((size_t)sg_count(from), sizeof *to);
    for (int64_t r = 0; r < from.dim[0]; r++) {
        const int64_t at = r % d, pair = at % (d / 2), second = at / (d / 2);
        memcpy(to + (r - at + 2 * pair + second) * row, (const float *)from.data + r * row, (size_t)row * sizeof *to);
    }
    c->joined[i] = to;
    c->all[i].t.data = to;
}

enum { HEAD, EPSILON, THETA, MODEL, PRE, TOKENS, TYPES, MERGES, BOS, KEYS };

/* As llama.cpp converts the folder's text encoder and tokenizer. */
static void make_keys(gguf_key key[KEYS])
{
    json_error_t        why;
    json_t *const       file = json_load_file(HUNYUAN "/tokenizer/tokenizer.json", 0, &why);
    json_t *const       vocabulary = json_object_get(json_object_get(file, "model"), "vocab");
    const json_t *const added = json_object_get(file, "added_tokens");
    json_t *const tokens = json_array(), *const types = json_array(), *const merges = json_array();
    const char *text;
    json_t     *id;
    assert_non_null(file);
    for (size_t i = 0; i < json_object_size(vocabulary); i++) json_array_append_new(tokens, json_null());
    json_object_foreach(vocabulary, text, id)
    {
        json_array_set_new(tokens, (size_t)json_integer_value(id), json_string(text));
        json_array_append_new(types, json_integer(1));
    }
    for (size_t i = 0; i < json_array_size(added); i++) {
        json_array_append(tokens, json_object_get(json_array_get(added, i), "content"));
        json_array_append_new(types, json_integer(3));
    }
    json_array_append_new(tokens, json_string("[PAD571]"));
    json_array_append_new(types, json_integer(5));
    const json_t *const pairs = json_object_get(json_object_get(file, "model"), "merges");
    for (size_t i = 0; i < json_array_size(pairs); i++) {
        const json_t *const pair = json_array_get(pairs, i);
        json_array_append_new(merges, json_sprintf("%s %s", json_string_value(json_array_get(pair, 0)),
                                                   json_string_value(json_array_get(pair, 1))));
    }
    const gguf_key made[KEYS] = {
        [HEAD] = {.name = "llama.rope.dimension_count", .kind = 'u', .number = 8},
        [EPSILON] = {.name = "llama.attention.layer_norm_rms_epsilon", .kind = 'f', .number = 1e-5},
        [THETA] = {.name = "llama.rope.freq_base", .kind = 'f', .number = 500000},
        [MODEL] = {.name = "tokenizer.ggml.model", .kind = 's', .text = "gpt2"},
        [PRE] = {.name = "tokenizer.ggml.pre", .kind = 's', .text = "llama-bpe"},
        [TOKENS] = {.name = "tokenizer.ggml.tokens", .kind = 'S', .list = tokens},
        [TYPES] = {.name = "tokenizer.ggml.token_type", .kind = 'I', .list = types},
        [MERGES] = {.name = "tokenizer.ggml.merges", .kind = 'S', .list = merges},
        [BOS] = {.name = "tokenizer.ggml.bos_token_id", .kind = 'u', .number = 565},
    };
    memcpy(key, made, sizeof made);
    json_decref(file);
}

static void free_keys(gguf_key key[KEYS])
{
    for (int i = 0; i < KEYS; i++) json_decref(key[i].list);
}

static void write_llama(const char *path, const gguf_key key[KEYS])
{
    static const float factors[4] = {1, 1, 1, 1};
    put_component(&now, HUNYUAN, "text_encoder", &llama_gguf_names, 0, "");
    for (int i = 0; i < now.count; i++)
        if (strstr(now.name[i], ".attn_q.") || strstr(now.name[i], ".attn_k.")) put_in_pairs(&now, i, 8);
    put(&now, "rope_freqs.weight",
        (sg_tensor){.data = (void *)(uintptr_t)factors, .dtype = SG_F32, .rank = 1, .dim = {4}});
    gguf_write(path, key, KEYS, now.all, now.count);
    take_out(&now);
}

static void llama_in_gguf_renders(void **state)
{
    gguf_key key[KEYS];
    make_keys(key);
    write_llama("llama.gguf", key);
    renders_as(HUNYUAN, HUNYUAN, &(sg_model_parts){.text_encoder = "llama.gguf"});
    /* without the folder, whose tokenizer is then in the file */
    shell("mkdir -p parts");
    write_component("parts/dit.safetensors", HUNYUAN, "transformer", NULL, 0, "");
    write_component("parts/vae.safetensors", HUNYUAN, "vae", NULL, 0, "");
    write_component("parts/clip_l.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "");
    write_own("parts", HUNYUAN, configs_of(HUNYUAN, (const char *const[]){"vae", "text_encoder_2", NULL}));
    const sg_model_parts parts = {.vae = "parts/vae.safetensors",
                                  .text_encoder = "llama.gguf",
                                  .clip_l = "parts/clip_l.safetensors",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    renders_as(HUNYUAN, "parts/dit.safetensors", &parts);
    free_keys(key);
}

/* ---- quantised files ---- */

/* t in blocks of Q8_0, and the numbers that these stand for. */
static void *make_q8_0(const sg_tensor *t, float *wide)
{
    const int64_t  n = sg_count(*t);
    uint8_t *const data = malloc(sg_quant_bytes(SG_QUANT_Q8_0, n));
    for (int64_t i = 0; i < n; i++) wide[i] = sg_load(t, i);
    assert_true(sg_quant_pack(data, wide, (size_t)n));
    sg_quant_widen(wide, SG_QUANT_Q8_0, data, (size_t)n);
    return data;
}

/* In FP8 with a scale for all or for each row, the same way. */
static void *make_fp8(const sg_tensor *t, float *wide, float *scale, int64_t scales)
{
    const int64_t  n = sg_count(*t), row = n / scales;
    uint8_t *const data = malloc((size_t)n);
    for (int64_t r = 0; r < scales; r++) {
        float most = 0;
        for (int64_t i = 0; i < row; i++) most = fmaxf(most, fabsf(sg_load(t, r * row + i)));
        scale[r] = most / 448;
        for (int64_t i = r * row; i < (r + 1) * row; i++) {
            data[i] = sg_f32_to_f8(scale[r] > 0 ? sg_load(t, i) / scale[r] : 0);
            wide[i] = sg_f8_to_f32(data[i]) * scale[r];
        }
    }
    return data;
}

typedef struct quantised {
    const char        *dir, *component;
    const sg_name_map *names; /* of a GGUF of Q8_0; NULL: a folder in FP8 */
    size_t             part;  /* of sg_model_parts, which takes its place */
    int                pairs; /* channels of a head of which llama.cpp makes pairs */
} quantised;

static void save(const quantised *q, const char *path, int count)
{
    const gguf_key keys[] = {{.name = "llama.rope.dimension_count", .kind = 'u', .number = q->pairs},
                             {.name = "llama.attention.layer_norm_rms_epsilon", .kind = 'f', .number = 1e-5},
                             {.name = "llama.rope.freq_base", .kind = 'f', .number = 500000}};
    const bool     denoiser = strcmp(q->component, "transformer") == 0;
    char           file[64];
    sg_error       e = {0};
    snprintf(file, sizeof file, "%s/%s.safetensors", path, denoiser ? "diffusion_pytorch_model" : "model");
    if (!q->names) shell("mkdir -p %s && cp -L %s/%s/config.json %s", path, q->dir, q->component, path);
    if (q->names)
        gguf_write(path, keys, q->pairs ? 3 : 0, now.all, count);
    else if (sg_safetensors_write_all(file, now.all, count, NULL, &e))
        fail_msg("%s", e.text);
}

/* Writes the component with every matrix quantised whose rows are whole blocks, and as the numbers that stand there. */
static void write_both(const quantised *q, const char *kept, const char *wide)
{
    static float   *numbers[TENSORS_MAX], *scales[TENSORS_MAX];
    static uint8_t *data[TENSORS_MAX];
    char            name[SG_NAME_MAX];
    put_component(&now, q->dir, q->component, q->names, 0, "");
    const int count = now.count;
    for (int i = 0; i < count; i++) {
        sg_tensor *const t = &now.all[i].t;
        const bool       gguf = q->names != NULL;
        if (q->pairs && (strstr(now.name[i], ".attn_q.") || strstr(now.name[i], ".attn_k.")))
            put_in_pairs(&now, i, q->pairs);
        numbers[i] = scales[i] = NULL;
        data[i] = NULL;
        if (t->rank != 2 || t->dim[1] % (gguf ? 32 : 16) || !strstr(now.name[i], ".weight")) continue;
        const int64_t rows = i % 2 ? t->dim[0] : 1;
        numbers[i] = malloc((size_t)sg_count(*t) * sizeof(float));
        scales[i] = malloc((size_t)rows * sizeof(float));
        data[i] = gguf ? make_q8_0(t, numbers[i]) : make_fp8(t, numbers[i], scales[i], rows);
        *t = (sg_tensor){.data = data[i], .dtype = gguf ? SG_F32 : SG_F8, .rank = 2, .dim = {t->dim[0], t->dim[1]}};
        if (gguf) t->quant.type = SG_QUANT_Q8_0;
        snprintf(name, sizeof name, "%.*sscale_weight", (int)strlen(now.name[i]) - 6, now.name[i]);
        if (!gguf) put(&now, name, (sg_tensor){.data = scales[i], .rank = 2, .dim = {rows, 1}});
    }
    save(q, kept, now.count);
    for (int i = 0; i < count; i++)
        if (numbers[i])
            now.all[i].t =
                (sg_tensor){.data = numbers[i], .rank = 2, .dim = {now.all[i].t.dim[0], now.all[i].t.dim[1]}};
    save(q, wide, count);
    take_out(&now);
    for (int i = 0; i < count; i++) {
        free(numbers[i]);
        free(scales[i]);
        free(data[i]);
    }
}

/* Rendered as it is, and widened, it is the file of its numbers. */
static void quantised_files_render_as_their_numbers(void **state)
{
#define AT(name) offsetof(sg_model_parts, name)
    static const char wan[] = SG_FIXTURES "/wan21_hd64", hunyuan[] = SG_FIXTURES "/hunyuan_hd128";
    const quantised   all[] = {{wan, "text_encoder", &t5_gguf_names, AT(text_encoder), 0},
                               {wan, "text_encoder", NULL, AT(text_encoder), 0},
                               {wan, "transformer", &wan_dit_names, AT(diffusion_model), 0},
                               {wan, "transformer", NULL, AT(diffusion_model), 0},
                               {hunyuan, "text_encoder", &llama_gguf_names, AT(text_encoder), 12},
                               {hunyuan, "text_encoder", NULL, AT(text_encoder), 0},
                               {SD3, "text_encoder_2", NULL, AT(clip_g), 0},
                               {FLUX, "transformer", NULL, AT(diffusion_model), 0},
                               {SG_FIXTURES "/cogvideox_15", "transformer", NULL, AT(diffusion_model), 0},
                               {SG_FIXTURES "/mochi_hd64", "transformer", NULL, AT(diffusion_model), 0},
                               {SG_FIXTURES "/opensora_hd96", "transformer", NULL, AT(diffusion_model), 0},
                               {SD35, "transformer", NULL, AT(diffusion_model), 0},
                               {hunyuan, "transformer", NULL, AT(diffusion_model), 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *const path[] = {all[i].names ? "kept.gguf" : "kept", all[i].names ? "wide.gguf" : "wide"};
        static film       clip[3];
        size_t            bytes[3];
        write_both(&all[i], path[0], path[1]);
        for (int dtype = 0; dtype < 2; dtype++) {
            with_dtype = dtype ? "bf16" : "f32";
            for (int k = 0; k < 3; k++) {
                sg_model_parts parts = {0};
                *(const char **)(void *)((char *)&parts + all[i].part) = path[k == 2];
                with_weights = k ? SG_WEIGHTS_BF16 : SG_WEIGHTS_FILE;
                bytes[k] = render(&clip[k], all[i].dir, &parts);
            }
            assert_true(clip[0].frames > 0 && bytes[0] < bytes[1]);
            if (memcmp(&clip[0], &clip[1], sizeof clip[0]) != 0) fail_msg("%zu: widened, it is another clip", i);
            if (memcmp(&clip[0], &clip[2], sizeof clip[0]) != 0) fail_msg("%zu: its numbers are another clip", i);
        }
    }
    with_dtype = "f32";
    with_weights = SG_WEIGHTS_AUTO;
#undef AT
}

/* The largest difference of two clips of one size. */
static int apart(const film *a, const film *b)
{
    int most = 0;
    for (size_t i = 0; i < (size_t)a->frames * a->bytes; i++)
        if (abs(a->rgb[i] - b->rgb[i]) > most) most = abs(a->rgb[i] - b->rgb[i]);
    return most;
}

/* Beside matrices that stay it is what it is when it is added to them, but for rounding. */
static void a_lora_of_a_quantised_file_renders(void **state)
{
    static const struct {
        const char        *dir;
        const sg_name_map *names;
    } of[] = {{SG_FIXTURES "/wan21_hd64", &wan_dit_names},
              {SG_FIXTURES "/cogvideox_15", &cogvideox_dit_names},
              {SG_FIXTURES "/mochi_hd64", &mochi_dit_names},
              {FLUX, &flux_dit_names},
              {SG_FIXTURES "/hunyuan_hd128", &hunyuan_dit_names}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const quantised      q = {of[i].dir, "transformer"};
        const sg_model_parts parts = {.diffusion_model = "kept"};
        static film          beside, merged, none;
        write_both(&q, "kept", "wide");
        write_loras(of[i].dir, of[i].names, "named.safetensors", "joined.safetensors");
        render(&none, of[i].dir, &parts);
        with_lora = (sg_lora_option){.path = "named.safetensors", .strength = 0.5};
        render(&beside, of[i].dir, &parts);
        with_weights = SG_WEIGHTS_BF16;
        render(&merged, of[i].dir, &parts);
        with_lora.path = NULL;
        with_weights = SG_WEIGHTS_AUTO;
        assert_true(apart(&beside, &merged) <= 2 && apart(&beside, &none) > 8);
    }
}

/* What a GGUF's tokenizer must not be. */
static void a_tokenizer_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        int         key;
        char        kind; /* 0: as it is */
        const char *text;
        double      number;
        sg_status   code;
        const char *says;
    } of[] = {
        {PRE, 's', "deepseek-llm", 0, SG_E_UNSUPPORTED, "tokenizer.ggml.pre|deepseek-llm|llama-bpe|Llama"},
        {PRE, 0, NULL, 0, SG_E_UNSUPPORTED, "tokenizer.ggml.pre is missing"},
        {MODEL, 's', "llama", 0, SG_E_UNSUPPORTED, "tokenizer.ggml.model|llama|gpt2"},
        {TOKENS, 0, NULL, 0, SG_E_FORMAT, "key \"tokenizer.ggml.tokens\"|missing"},
        {TOKENS, 's', "a", 0, SG_E_FORMAT, "key \"tokenizer.ggml.token_type\"|number"},
        {TYPES, 0, NULL, 0, SG_E_FORMAT, "key \"tokenizer.ggml.token_type\"|missing"},
        {MERGES, 'u', NULL, 3, SG_E_FORMAT, "key \"tokenizer.ggml.merges\"|texts"},
        {BOS, 'u', NULL, 572, SG_E_FORMAT, "key \"tokenizer.ggml.bos_token_id\"|token"},
    };
    gguf_key key[KEYS];
    make_keys(key);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_error          e = {0};
        sg_bpe_tokenizer *t = NULL;
        const gguf_key    was = key[of[i].key];
        key[of[i].key].kind = of[i].kind;
        key[of[i].key].text = of[i].text;
        key[of[i].key].number = of[i].number;
        gguf_write("bad.gguf", key, KEYS, NULL, 0);
        assert_refused(sg_bpe_tokenizer_open_inside(&t, "bad.gguf", &e), of[i].code, &e, "bad.gguf", of[i].says);
        assert_null(t);
        key[of[i].key] = was;
    }
    free_keys(key);
}

/* ---- the tokenizer of CLIP-L for CLIP-G ---- */

static int ids_of(const sg_bpe_tokenizer *t, const char *text, int32_t out[32])
{
    sg_error e = {0};
    int32_t *ids = NULL;
    int      count = 0;
    assert_int_equal(sg_bpe_tokenizer_encode(t, text, strlen(text), 32, &ids, &count, &e), SG_OK);
    memcpy(out, ids, (size_t)count * sizeof *out);
    free(ids);
    return count;
}

/* As Stable Diffusion 3's tokenizer_2, which says that "!" is its pad token. */
static void a_pad_token_takes_the_place_of_the_folders(void **state)
{
    static const char *const config[] = {"{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"!\"}",
                                         "{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"<|endoftext|>\"}",
                                         "{\"tokenizer_class\": \"CLIPTokenizer\", \"pad_token\": \"<|endoftext|>\", "
                                         "\"added_tokens_decoder\": {\"256\": "
                                         "{\"content\": \"<|endoftext|>\", \"special\": true}}}"};
    static const char        text[] = "wow! a cat!!";
    int32_t                  want[32], have[32];
    int                      count = 0;
    shell("cp -rL " HUNYUAN "/tokenizer_2 pads");
    for (size_t i = 0; i < sizeof config / sizeof *config; i++) {
        sg_error          e = {0};
        sg_bpe_tokenizer *t = NULL;
        write_text("pads/tokenizer_config.json", config[i]);
        if (sg_bpe_tokenizer_open_padded(&t, "pads", i ? "!" : NULL, &e)) fail_msg("%s", e.text);
        assert_int_equal(sg_bpe_tokenizer_pad(t), 0);
        if (i == 0) count = ids_of(t, text, want);
        assert_int_equal(ids_of(t, text, have), count);
        assert_memory_equal(have, want, (size_t)count * sizeof *have);
        sg_bpe_tokenizer_close(&t);
        if (sg_bpe_tokenizer_open(&t, "pads", &e)) fail_msg("%s", e.text);
        assert_true((i == 0) == (sg_bpe_tokenizer_pad(t) == 0)); /* the folder says otherwise */
        sg_bpe_tokenizer_close(&t);
    }
}

/* ---- parts that are missing, another family's, or lie ---- */

static void what_is_missing_is_named_by_its_family(void **state)
{
    shell("mkdir -p alone && rm -f alone/sparge-gen.json");
    write_component("alone/i2v.safetensors", I2V, "transformer", &wan_dit_names, 0, "");
    write_component("alone/cog.safetensors", COG, "transformer", &cogvideox_dit_names, 0, "");
    write_component("alone/mochi.safetensors", MOCHI, "transformer", &mochi_dit_names, 0, "");
    refused("alone/i2v.safetensors", NULL, SG_E_FILE,
            "clip_vision=FILE (clip_vision_h.safetensors|text_encoder=FILE (umt5_xxl_");
    refused("alone/cog.safetensors", NULL, SG_E_FILE,
            "text_encoder=FILE (t5xxl_fp16.safetensors|tokenizer=PATH (spiece.model|google/t5-v1_1-xxl/|"
            "vae=FILE (cogvideox_vae_bf16.safetensors");
    refused("alone/mochi.safetensors", NULL, SG_E_FILE, "vae=FILE (mochi_vae.safetensors");
    write_component("alone/hunyuan.safetensors", HUNYUAN, "transformer", &hunyuan_dit_names, 0, "");
    refused("alone/hunyuan.safetensors", NULL, SG_E_FILE,
            "text_encoder=FILE (llava_llama3_fp8_scaled|tokenizer=PATH (llava-llama-3-8b-text-encoder-tokenizer/|"
            "clip_l=FILE (clip_l.safetensors)|clip_tokenizer=FOLDER (clip-vit-large-patch14/|"
            "vae=FILE (hunyuan_video_vae_bf16.safetensors");
    refused("alone/hunyuan.safetensors", &(sg_model_parts){.clip_tokenizer = "nowhere"}, SG_E_FILE,
            "nowhere: ");
    /* a folder that lost it, and a denoiser in a folder that never had it */
    shell("cp -rL " I2V " lost && rm -r lost/image_encoder");
    refused_by_the_engine("lost", (sg_model_parts){.vae = NULL}, SG_E_FILE,
                          "clip_vision=FILE (clip_vision_h.safetensors)");
}

/* A component with one tensor of another shape, which has as few numbers as can be; rank 0: without it. */
static void write_wrong(const char *path, kind of, const char *name, int rank, const int64_t *dim)
{
    static const float x[4096];
    put_component(&now, kinds[of].dir, kinds[of].component, kinds[of].names, kinds[of].span, "");
    int i = 0;
    while (i < now.count && strcmp(now.name[i], name) != 0) i++;
    assert_true(i < now.count);
    if (rank) {
        now.all[i].t = (sg_tensor){.data = (void *)(uintptr_t)x, .dtype = SG_F32, .rank = rank};
        memcpy(now.all[i].t.dim, dim, (size_t)rank * sizeof *dim);
    } else {
        free(now.name[i]);
        free(now.joined[i]);
        now.count--;
        now.all[i] = now.all[now.count];
        now.name[i] = now.name[now.count];
        now.joined[i] = now.joined[now.count];
        now.joined[now.count] = NULL;
    }
    write_out(&now, path);
}

/* A file of each component with one tensor that is wrong, and what is said of it. */
static const struct {
    kind        of;
    const char *name;
    int         rank;
    int64_t     dim[5];
    const char *says;
} wrong[] = {
    {I2V_CLIP, "transformer.1.mlp.0.bias", 0, {0}, "missing: encoder.layers.1.mlp.fc1.bias|[24]"},
    {I2V_CLIP,
     "transformer.0.attn.to_qkv.bias",
     1,
     {47},
     "misshapen: encoder.layers.0.self_attn.q_proj.bias|part 1 of 3"},
    {I2V_CLIP, "pos_embedding", 2, {16, 16}, "pos_embedding|16|tokens"},
    {I2V_CLIP, "pos_embedding", 1, {0}, "pos_embedding|0|tokens"},
    {I2V_CLIP, "cls_embedding", 1, {0}, "hidden_size|number|1"},
    {I2V_CLIP_NAMED, "embeddings.class_embedding", 0, {0}, "hidden_size|number|1"},
    {I2V_CLIP_NAMED, "pre_layrnorm.bias", 0, {0}, "num_attention_heads|number|1"},
    {I2V_DIT, "img_emb.proj.1.bias", 0, {0}, "missing: condition_embedder.image_embedder.ff.net.0.proj.bias"},
    {I2V_DIT, "blocks.1.cross_attn.norm_k_img.weight", 1, {12}, "misshapen: blocks.1.attn2.norm_added_k.weight|[12]"},
    {I2V_DIT, "img_emb.proj.0.weight", 1, {9}, "misshapen: condition_embedder.image_embedder.norm1.weight|[9]"},
    {COG_DIT,
     "transformer.layers.1.attention.query_key_value.bias",
     1,
     {100},
     "misshapen: transformer_blocks.1.attn1.to_q.bias|part 1 of 3"},
    {COG_DIT,
     "mixins.adaln_layer.adaLN_modulations.0.1.weight",
     2,
     {24, 20},
     "misshapen: transformer_blocks.0.norm1.linear.weight|part 1 to 3|7 to 9|of 12"},
    {COG_DIT, "mixins.adaln_layer.query_layernorm_list.0.weight", 1, {0}, "num_attention_heads|number|1"},
    {COG_DIT, "time_embed.0.bias", 0, {0}, "time_embed_dim"},
    {COG_VAE, "decoder.up.3.block.0.conv1.conv.bias", 0, {0}, "block_out_channels"},
    {COG_VAE, "decoder.up.1.upsample.conv.bias", 0, {0}, "missing: decoder.up_blocks.2.upsamplers.0.conv.bias"},
    {MOCHI_DIT,
     "blocks.0.mlp_y.w1.weight",
     2,
     {7, 20},
     "misshapen: transformer_blocks.0.ff_context.net.0.proj.weight|part 2, 1|of 2"},
    {HUNYUAN_DIT,
     "single_blocks.0.linear1.weight",
     2,
     {13, 48},
     "misshapen: single_transformer_blocks.0.attn.to_q.weight|part 1 of 7"},
    {HUNYUAN_VAE,
     "decoder.up.3.upsample.conv.conv.bias",
     0,
     {0},
     "missing: decoder.up_blocks.0.upsamplers.0.conv.conv.bias"},
    {MOCHI_DIT, "pos_frequencies", 0, {0}, "missing: pos_frequencies|[3, 3, 8]"},
    {FLUX_DIT,
     "single_blocks.1.linear1.bias",
     1,
     {421},
     "misshapen: single_transformer_blocks.1.proj_mlp.bias|part 4 to 7|of 7"},
    {FLUX_DIT,
     "double_blocks.0.txt_attn.qkv.bias",
     1,
     {60},
     "misshapen: transformer_blocks.0.attn.add_k_proj.bias|part 2 of 3"},
    {FLUX_DIT,
     "double_blocks.1.img_attn.norm.key_norm.scale",
     0,
     {0},
     "missing: transformer_blocks.1.attn.norm_k.weight|[20]"},
    {FLUX_DIT, "guidance_in.out_layer.bias", 0, {0}, "missing: time_text_embed.guidance_embedder.linear_2.bias"},
    {FLUX_DIT, "img_in.bias", 0, {0}, "num_attention_heads"},
    {FLUX_DIT, "double_blocks.0.img_attn.norm.query_norm.scale", 1, {7}, "num_attention_heads"},
    {FLUX_DIT, "final_layer.adaLN_modulation.1.bias", 1, {121}, "misshapen: norm_out.linear.bias|part 2, 1|of 2"},
    {SD35_DIT,
     "joint_blocks.2.context_block.adaLN_modulation.1.bias",
     1,
     {97},
     "misshapen: transformer_blocks.2.norm1_context.linear.bias|part 2, 1|of 2"},
    {SD35_DIT,
     "joint_blocks.1.x_block.attn2.qkv.bias",
     1,
     {100},
     "misshapen: transformer_blocks.1.attn2.to_q.bias|part 1 of 3"},
    {SD35_DIT,
     "joint_blocks.1.context_block.mlp.fc1.bias",
     0,
     {0},
     "missing: transformer_blocks.1.ff_context.net.0.proj.bias"},
    {SD35_DIT, "pos_embed", 3, {1, 8, 48}, "pos_embed"},
    {SD35_DIT, "x_embedder.proj.bias", 0, {0}, "num_attention_heads"},
    {SD35_VAE, "decoder.conv_in.weight", 0, {0}, "latent_channels"},
    {SD35_VAE, "decoder.mid.attn_1.q.bias", 0, {0}, "missing: decoder.mid_block.attentions.0.to_q.bias"},
};

static void files_that_do_not_fit_are_refused(void **state)
{
    static const char bad[] = "bad/part.safetensors";
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const kind     of = wrong[i].of;
        sg_model_parts parts = {.vae = NULL};
        char           names[512];
        *part_of(&parts, of) = bad;
        shell("rm -rf bad && cp -rL '%s' bad", kinds[of].dir);
        write_wrong(bad, of, wrong[i].name, wrong[i].rank, wrong[i].dim);
        write_format("bad/sparge-gen.json", "{\"scheduler\": {}%s}", kinds[of].own);
        if (of == I2V_DIT) write_own("bad", I2V, kinds[of].own);
        snprintf(names, sizeof names, "%s|%s|%s", bad, wrong[i].says,
                 strncmp(wrong[i].says, "mis", 3) ? "" : wrong[i].name);
        refused_by_the_engine("bad", parts, SG_E_FORMAT, names);
    }
}

static void parts_of_another_family_are_refused(void **state)
{
    write_component("alone/clip.safetensors", I2V, "image_encoder", NULL, 0, "");
    write_component("alone/umt5.safetensors", I2V, "text_encoder", NULL, 0, "");
    write_component("alone/wan_vae.safetensors", I2V, "vae", &wan_vae_names, 3, "");
    refused(I2V, &(sg_model_parts){.clip_vision = "alone/i2v.safetensors"}, SG_E_UNSUPPORTED,
            "image encoder of CLIP|denoiser of Wan");
    refused(I2V, &(sg_model_parts){.vae = "alone/clip.safetensors"}, SG_E_UNSUPPORTED,
            "it is the image|encoder of CLIP");
    refused_by_the_engine(I2V, (sg_model_parts){.diffusion_model = "alone/cog.safetensors"}, SG_E_FORMAT,
                          "alone/cog.safetensors|_class_name|\"CogVideoXTransformer3DModel\"");
    refused_by_the_engine(SG_FIXTURES "/wan21_hd12", (sg_model_parts){.clip_vision = I2V "/image_encoder"}, SG_E_ARG,
                          "image_encoder|no image encoder");
    refused_by_the_engine(COG, (sg_model_parts){.clip_l = HUNYUAN "/text_encoder_2"}, SG_E_ARG, "clip_l|no CLIP-L");
    refused_by_the_engine(COG, (sg_model_parts){.tokenizer = SG_FIXTURES "/wan22_a14b/tokenizer"}, SG_E_FORMAT,
                          "wan22_a14b/tokenizer|290 ids");
    refused_by_the_engine(MOCHI, (sg_model_parts){.vae = "alone/wan_vae.safetensors"}, SG_E_FORMAT,
                          "alone/wan_vae.safetensors|_class_name|\"AutoencoderKLWan\"|AutoencoderKLMochi");
    write_wrong("alone/from_image.safetensors", HUNYUAN_DIT, "img_in.proj.weight", 5, (int64_t[]){48, 9, 1, 2, 2});
    refused_by_the_engine(HUNYUAN, (sg_model_parts){.diffusion_model = "alone/from_image.safetensors"},
                          SG_E_UNSUPPORTED, "alone/from_image.safetensors|9 channels|gives 4|HunyuanVideo");
}

int main(void)
{
    const struct CMUnitTest wan[] = {
        cmocka_unit_test(a_file_for_each_part_renders_as_the_folder),
        cmocka_unit_test(one_file_with_all_parts_renders),
        cmocka_unit_test(an_original_repository_of_two_experts_renders),
        cmocka_unit_test(an_expert_alone_is_refused),
        cmocka_unit_test(two_experts_take_the_place_of_the_denoiser_of_a_folder),
        cmocka_unit_test(shapes_give_the_config),
        cmocka_unit_test(what_is_missing_is_named_with_its_option),
        cmocka_unit_test(variants_that_are_not_rendered_are_refused_by_name),
        cmocka_unit_test(names_beyond_the_model_are_extra),
        cmocka_unit_test(tokenizers_inside_a_file_are_bytes),
    };
    const struct CMUnitTest families[] = {
        cmocka_unit_test(an_original_repository_of_image_to_video_renders),
        cmocka_unit_test(first_and_last_frame_renders),
        cmocka_unit_test(image_to_video_of_two_experts_renders),
        cmocka_unit_test(an_original_repository_of_cogvideox_renders),
        cmocka_unit_test(an_original_repository_and_one_file_of_mochi_render),
        cmocka_unit_test(files_and_one_file_of_hunyuan_render),
        cmocka_unit_test(shapes_of_each_family_give_the_config),
        cmocka_unit_test(published_sizes_of_cogvideox_are_told_apart),
        cmocka_unit_test(loras_go_by_either_names),
        cmocka_unit_test(shapes_of_flux_give_the_config),
        cmocka_unit_test(shapes_of_sd3_give_the_config),
        cmocka_unit_test(a_vae_of_pictures_has_the_published_size),
        cmocka_unit_test(a_ratio_of_many_digits_is_whole),
        cmocka_unit_test(what_goes_with_the_denoiser_is_asked_for),
        cmocka_unit_test(variants_are_refused_by_name),
        cmocka_unit_test(files_and_one_file_of_flux_render),
        cmocka_unit_test(a_lora_by_the_names_of_xlabs_renders),
        cmocka_unit_test(files_and_one_file_of_sd35_render),
        cmocka_unit_test(one_file_without_t5_renders),
        cmocka_unit_test(clip_l_without_a_projection_renders),
        cmocka_unit_test(llama_in_gguf_renders),
        cmocka_unit_test(quantised_files_render_as_their_numbers),
        cmocka_unit_test(a_lora_of_a_quantised_file_renders),
        cmocka_unit_test(a_tokenizer_that_does_not_fit_is_refused),
        cmocka_unit_test(a_pad_token_takes_the_place_of_the_folders),
        cmocka_unit_test(what_is_missing_is_named_by_its_family),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(parts_of_another_family_are_refused),
    };
    const int failed = cmocka_run_group_tests(wan, enter_folder, leave_folder);
    return failed + cmocka_run_group_tests(families, enter_folder, leave_folder);
}
