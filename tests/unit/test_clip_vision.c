/* test_clip_vision.c - CLIP's image encoder: states against transformers from the picture on, names, refusals, memory. */
#include "clip_vision.h"

#include "backend.h"
#include "clip_vision_table.h"
#include "meta.h"

#include "made_file.h"

/* ---- a made-up checkpoint: as in make_clip_vision_table.py ---- */

enum {
    HIDDEN = 12,
    LAYERS = 3,
    FFN = 20,
    IMAGE = 12,
    PATCH = 4,
    WIDTH = 31,
    HEIGHT = 23,
    NUMBERS = TABLE_TOKENS * HIDDEN
};

#define SIZES                                                                                                          \
    "\"hidden_size\": 12, \"num_hidden_layers\": 3, \"intermediate_size\": 20, \"image_size\": 12, \"patch_size\": 4"
#define HEADS ", \"num_attention_heads\": 3"

typedef struct made {
    const char *prefix, *config, *processor; /* of names; the JSON files. processor NULL: there is none */
    const char *without;                     /* a tensor that is left out */
} made;

static const made cases[TABLE_CASES] = {
    {"vision_model.", "{" SIZES HEADS ", \"hidden_act\": \"gelu\", \"model_type\": \"clip_vision_model\"}", NULL, NULL},
    {"", "{" SIZES HEADS "}",
     "{\"size\": {\"shortest_edge\": 17}, \"crop_size\": {\"height\": 12, \"width\": 12}, \"resample\": 3,"
     "\"image_mean\": [0.5, 0.25, 0.125], \"image_std\": [0.5, 0.75, 1.5], \"do_resize\": true}",
     NULL},
};

static void put(made_file *f, const made *m, const char *name, int rank, const int64_t *dim)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", m->prefix, name);
    if (!m->without || strcmp(name, m->without) != 0) made_file_put(f, full, name, SG_F32, rank, dim);
}

static void put_linear(made_file *f, const made *m, const char *name, int64_t o, int64_t i)
{
    char full[104];
    snprintf(full, sizeof full, "%s.weight", name);
    put(f, m, full, i ? 2 : 1, (int64_t[]){o, i});
    snprintf(full, sizeof full, "%s.bias", name);
    put(f, m, full, 1, &o);
}

static void write_weights(const made *m)
{
    static const struct {
        const char *name;
        int         o, i;
    } parts[] = {{"layer_norm1", HIDDEN, 0},
                 {"layer_norm2", HIDDEN, 0},
                 {"self_attn.q_proj", HIDDEN, HIDDEN},
                 {"self_attn.k_proj", HIDDEN, HIDDEN},
                 {"self_attn.v_proj", HIDDEN, HIDDEN},
                 {"self_attn.out_proj", HIDDEN, HIDDEN},
                 {"mlp.fc1", FFN, HIDDEN},
                 {"mlp.fc2", HIDDEN, FFN}};
    static made_file f;
    char             name[96];
    put(&f, m, "embeddings.class_embedding", 1, (int64_t[]){HIDDEN});
    put(&f, m, "embeddings.patch_embedding.weight", 4, (int64_t[]){HIDDEN, 3, PATCH, PATCH});
    put(&f, m, "embeddings.position_embedding.weight", 2, (int64_t[]){TABLE_TOKENS, HIDDEN});
    put_linear(&f, m, "pre_layrnorm", HIDDEN, 0);
    put_linear(&f, m, "post_layernorm", HIDDEN, 0);
    for (int l = 0; l < LAYERS; l++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            snprintf(name, sizeof name, "encoder.layers.%d.%s", l, parts[i].name);
            put_linear(&f, m, name, parts[i].o, parts[i].i);
        }
    made_file_write(&f, "image_encoder/model.safetensors");
}

static void write_checkpoint(const made *m)
{
    write_weights(m);
    write_text("image_encoder/config.json", m->config);
    remove("image_processor/preprocessor_config.json");
    remove("image_processor");
    if (!m->processor) return;
    write_text("image_processor/preprocessor_config.json", m->processor);
}

static const uint8_t *picture(void)
{
    static uint8_t rgb[WIDTH * HEIGHT * 3];
    for (uint32_t i = 0; i < sizeof rgb; i++) rgb[i] = (uint8_t)((made_up("picture", i) + 1.0f) * 128.0f);
    return rgb;
}

/* ---- running it ---- */

enum { SCRATCH = 1 << 18 };

static sg_backend *backend;

static sg_clip_vision *open_made(const made *m, sg_dtype act)
{
    sg_clip_vision *v = NULL;
    sg_error        e = {0};
    write_checkpoint(m);
    if (sg_clip_vision_open(&v, from, "image_encoder", false, act, &e) != SG_OK) fail_msg("%s", e.text);
    return v;
}

static sg_stream encode(sg_clip_vision *v, float *y, const uint8_t *rgb, int width, int height)
{
    static _Alignas(SG_ALIGN) unsigned char buffer[SCRATCH];
    sg_error                                e = {0};
    if (sg_bind_load(sg_clip_vision_component(v)->bind, backend, NULL, NULL, &e) != SG_OK) fail_msg("%s", e.text);
    sg_stream s = sg_stream_of(backend);
    s.scratch = (sg_arena){.base = (uintptr_t)buffer, .cap = SCRATCH};
    sg_clip_vision_encode(v, &s, (sg_tensor){.data = y, .rank = 2, .dim = {TABLE_TOKENS, HIDDEN}}, rgb, width, height);
    assert_int_equal(s.scratch.used, 0);
    return s;
}

static double distance_of(int i, sg_dtype act)
{
    float           y[NUMBERS];
    double          apart = 0.0, size = 0.0;
    sg_clip_vision *v = open_made(&cases[i], act);
    const sg_stream s = encode(v, y, picture(), WIDTH, HEIGHT);
    if (s.status) fail_msg("%s", s.why);
    for (int k = 0; k < NUMBERS; k++) {
        apart += ((double)y[k] - table_states[i][k]) * ((double)y[k] - table_states[i][k]);
        size += table_states[i][k] * table_states[i][k];
    }
    sg_clip_vision_close(&v);
    return sqrt(apart / size);
}

static void states_are_those_of_transformers(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(i, SG_F32);
        if (!(d <= 1e-6)) fail_msg("case %d: relative distance %g", i, d);
    }
}

/* Eight bits of mantissa over two layers. */
static void bf16_is_near(void **state)
{
    for (int i = 0; i < TABLE_CASES; i++) {
        const double d = distance_of(i, SG_BF16);
        if (!(d <= 5e-2 && d > 1e-5)) fail_msg("case %d: relative distance %g", i, d);
    }
}

static void a_plan_asks_for_what_it_takes(void **state)
{
    float           y[NUMBERS];
    sg_clip_vision *v = open_made(&cases[0], SG_F32);
    sg_plan_totals  totals = {0};
    sg_stream       plan = sg_plan_stream(&totals);
    const sg_tensor states = sg_alloc(&plan, &plan.keep, SG_F32, 2, (int64_t[]){TABLE_TOKENS, HIDDEN});
    sg_clip_vision_encode(v, &plan, states, NULL, 0, 0);
    assert_int_equal(plan.status, SG_OK);
    assert_int_equal(plan.scratch.peak, encode(v, y, picture(), WIDTH, HEIGHT).scratch.peak);
    sg_clip_vision_close(&v);
}

/* What it would be resized to has 12 x 12 x 6000 pixels. */
static void a_picture_that_is_too_narrow_is_refused(void **state)
{
    float                y[NUMBERS];
    static const uint8_t line[6000 * 3];
    sg_clip_vision      *v = open_made(&cases[0], SG_F32);
    assert_int_equal(encode(v, y, line, 1, 6000).status, SG_E_ARG);
    assert_int_equal(encode(v, y, line, 5000, 1).status, SG_OK);
    assert_int_equal(encode(v, y, line, 1, 1).status, SG_OK);
    sg_clip_vision_close(&v);
}

static void refuse(made m, const char *word)
{
    sg_clip_vision *v = NULL;
    sg_error        e = {0};
    write_checkpoint(&m);
    assert_refused(sg_clip_vision_open(&v, from, "image_encoder", false, SG_F32, &e), SG_E_FORMAT, &e, word);
    assert_null(v);
}

static void files_are_refused_by_field_and_tensor(void **state)
{
    static const struct {
        const char *config, *processor, *without, *word;
    } bad[] = {
        {"{" SIZES ", \"num_attention_heads\": 5}", NULL, NULL, "num_attention_heads"},
        {"{" SIZES HEADS ", \"hidden_act\": \"relu\"}", NULL, NULL, "hidden_act"},
        {"{" SIZES HEADS ", \"model_type\": \"siglip\"}", NULL, NULL, "siglip"},
        {"{" SIZES HEADS ", \"num_channels\": 4}", NULL, NULL, "num_channels"},
        {"{\"image_size\": 12, \"patch_size\": 13}", NULL, NULL, "patch_size"},
        {"{\"num_hidden_layers\": 4000}", NULL, NULL, "num_hidden_layers"},
        {NULL, "{\"size\": [12]}", NULL, "size"},
        {NULL, "{\"size\": 11}", NULL, "size"},
        {NULL, "{\"crop_size\": 8}", NULL, "crop_size"},
        {NULL, "{\"size\": {\"shortest_edge\": 11}}", NULL, "size"},
        {NULL, "{\"crop_size\": {\"height\": 12, \"width\": 8}}", NULL, "crop_size"},
        {NULL, "{\"resample\": 2}", NULL, "resample"},
        {NULL, "{\"do_rescale\": false}", NULL, "do_rescale"},
        {NULL, "{\"image_std\": [1, 0, 1]}", NULL, "image_std"},
        {NULL, "{\"image_mean\": [0.5]}", NULL, "image_mean"},
        {NULL, NULL, "pre_layrnorm.bias", "vision_model.pre_layrnorm.bias"},
        {NULL, NULL, "encoder.layers.1.mlp.fc2.weight", "vision_model.encoder.layers.1.mlp.fc2.weight"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        made m = cases[0];
        if (bad[i].config) m.config = bad[i].config;
        m.processor = bad[i].processor;
        m.without = bad[i].without;
        refuse(m, bad[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_those_of_transformers),
        cmocka_unit_test(bf16_is_near),
        cmocka_unit_test(a_plan_asks_for_what_it_takes),
        cmocka_unit_test(a_picture_that_is_too_narrow_is_refused),
        cmocka_unit_test(files_are_refused_by_field_and_tensor),
    };
    sg_error e = {0};
    if (sg_backend_open(&backend, &(sg_backend_options){.name = "ref", .threads = 1}, &e) != SG_OK) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    const int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
    sg_backend_close(&backend);
    return failed;
}
