/* test_lora.c - files with LoRA and its relatives: every spelling of their keys, what each kind adds, against a plain
 * computation in double; and those that are refused. */
#include "lora.h"
#include "lora_file.h"
#include "lora_state.h"
#include "memory_source.h"

/* ---- a model ---- */

enum { TENSORS = 11, O = 8, I = 12, R = 3, NUMBERS = 256 };

static const struct {
    const char *name;
    int         rank;
    int64_t     dim[5];
} wanted[TENSORS] = {
    {"patch_embedding.weight", 5, {O, 2, 1, 2, 2}},
    {"blocks.0.attn1.to_q.weight", 2, {O, I}},
    {"blocks.0.attn1.to_q.bias", 1, {O}},
    {"blocks.0.attn1.norm_q.weight", 1, {O}},
    {"blocks.0.norm2.weight", 1, {O}},
    {"blocks.0.norm2.bias", 1, {O}},
    {"blocks.0.scale_shift_table", 3, {1, 6, 4}},
    {"blocks.0.ffn.net.0.proj.weight", 2, {2 * O, O}},
    {"scale_shift_table", 3, {1, 2, 4}},
    {"blocks.12.attn2.to_k.weight", 2, {O, I}},
    {"proj_out.weight", 2, {O, I}},
};

static float numbers_of[TENSORS][NUMBERS];

typedef struct bench {
    arrays     a;
    sg_source *s;
    sg_bind   *b;
    sg_tensor  t[TENSORS];
    sg_lora   *l;
} bench;

static void open_bench(bench *m)
{
    *m = (bench){.a = {.count = 0}};
    for (int i = 0; i < TENSORS; i++) {
        sg_tensor t = {numbers_of[i], SG_F32, wanted[i].rank, {0}};
        memcpy(t.dim, wanted[i].dim, sizeof wanted[i].dim);
        for (int64_t k = 0; k < sg_count(t); k++) numbers_of[i][k] = (float)((k * 7 + i) % 11) / 11;
        add(&m->a, wanted[i].name, t);
    }
    m->s = open_arrays(&m->a);
    m->b = bind_to(m->s, NULL);
    for (int i = 0; i < TENSORS; i++)
        sg_bind_tensor_(m->b, &m->t[i], SG_F32, wanted[i].name, wanted[i].rank, wanted[i].dim);
}

static void close_bench(bench *m)
{
    sg_bind_close(&m->b);
    sg_lora_close(&m->l);
    sg_source_close(&m->s);
}

static int place(const char *name)
{
    int i = 0;
    while (strcmp(wanted[i].name, name) != 0) i++;
    return i;
}

/* What was added to number k of tensor `name`. */
static double added(const bench *m, const char *name, int64_t k)
{
    const int i = place(name);
    return (double)sg_load(&m->t[i], k) - (double)numbers_of[i][k];
}

/* ---- a file ---- */

static const char path[] = "sg_lora_file";

static float value(int seed, int64_t k) { return (float)((k * 5 + seed * 3) % 13 - 6) / 8; }

/* Numbers of value(seed, ...), F32. */
static void put(lora_file *f, const char *name, int seed, int64_t rows, int64_t row)
{
    float x[NUMBERS];
    for (int64_t k = 0; k < rows * (row ? row : 1); k++) x[k] = value(seed, k);
    lora_put(f, name, "F32", row ? 2 : 1, (int64_t[]){rows, row}, x, (size_t)(rows * (row ? row : 1)) * sizeof *x);
}

static void put_float(lora_file *f, const char *name, float x) { lora_put(f, name, "F32", 0, NULL, &x, sizeof x); }

/* up [., r] down [r, row] of put's numbers. */
static double product(int up, int down, int64_t r, int64_t row, int64_t y, int64_t x)
{
    double sum = 0;
    for (int64_t k = 0; k < r; k++) sum += (double)value(up, y * r + k) * (double)value(down, k * row + x);
    return sum;
}

static sg_status try_adding(bench *m, const char *component, double strength, sg_error *e)
{
    SG_TRY(sg_lora_open(&m->l, path, 1, e));
    SG_TRY(sg_lora_add(m->l, m->b, component, sg_files_wan.names, strength, e));
    return sg_lora_check(m->l, e);
}

/* f, which becomes empty, on a new model. */
static void merge_as(bench *m, lora_file *f, const char *metadata, const char *component, double strength)
{
    sg_error e = {0};
    lora_save(f, path, metadata);
    open_bench(m);
    if (try_adding(m, component, strength, &e)) fail_msg("%s", e.text);
    load(m->b, &devices[0]);
}

static void merge(bench *m, lora_file *f, const char *metadata) { merge_as(m, f, metadata, "transformer", 1); }

static void near(double is, double should)
{
    if (!(fabs(is - should) < 1e-6)) fail_msg("%.9g, not %.9g", is, should);
}

/* to_q of block 0 got scale times the LoRA of seeds 1 and 2, and nothing else of it changed. */
static void check_to_q(bench *m, double scale)
{
    for (int64_t k = 0; k < O * I; k++)
        near(added(m, "blocks.0.attn1.to_q.weight", k), scale * product(2, 1, R, I, k / I, k % I));
    near(added(m, "blocks.0.attn1.to_q.bias", 3), 0);
    near(added(m, "blocks.12.attn2.to_k.weight", 3), 0);
    assert_int_equal(sg_lora_describe(m->l).tensors, 1);
    assert_int_equal(sg_lora_describe(m->l).unused, 0);
}

/* ---- what fits ---- */

static void every_spelling_means_its_module(void **state)
{
    static const char *const pairs[][2] = {
        {"transformer.blocks.0.attn1.to_q.lora_A.weight", "transformer.blocks.0.attn1.to_q.lora_B.weight"},
        {"blocks.0.attn1.to_q.lora.down.weight", "blocks.0.attn1.to_q.lora.up.weight"},
        {"blocks.0.attn1.to_q_lora.down.weight", "blocks.0.attn1.to_q_lora.up.weight"},
        {"transformer.blocks.0.attn1.to_q.lora_linear_layer.down.weight",
         "transformer.blocks.0.attn1.to_q.lora_linear_layer.up.weight"},
        {"diffusion_model.blocks.0.self_attn.q.lora_down.weight",
         "diffusion_model.blocks.0.self_attn.q.lora_up.weight"},
        {"model.diffusion_model.blocks.0.self_attn.q.lora_A", "model.diffusion_model.blocks.0.self_attn.q.lora_B"},
        {"base_model.model.blocks.0.self_attn.q.lora_A.default.weight",
         "base_model.model.blocks.0.self_attn.q.lora_B.default.weight"},
        {"pipe.dit.blocks.0.self_attn.q.lora_A.weight", "pipe.dit.blocks.0.self_attn.q.lora_B.weight"},
        {"lora_unet_blocks_0_self_attn_q.lora_down.weight", "lora_unet_blocks_0_self_attn_q.lora_up.weight"},
        {"lora_unet__blocks_0_self_attn_q.lora_down.weight", "lora_unet__blocks_0_self_attn_q.lora_up.weight"},
        {"lora_unet_blocks_0.self_attn.q.lora_down.weight", "lora_unet_blocks_0.self_attn.q.lora_up.weight"},
        {"lycoris_blocks_0_attn1_to_q.lora_down.weight", "lycoris_blocks_0_attn1_to_q.lora_up.weight"},
        {"lora_transformer_blocks_0_attn1_to_q.lora_down.weight",
         "lora_transformer_blocks_0_attn1_to_q.lora_up.weight"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bench     m;
        lora_file f = {.size = 0};
        put(&f, pairs[i][0], 1, R, I);
        put(&f, pairs[i][1], 2, O, R);
        merge(&m, &f, NULL);
        check_to_q(&m, 1);
        close_bench(&m);
    }
}

static void put_pair(lora_file *f)
{
    put(f, "transformer.blocks.0.attn1.to_q.lora_A.weight", 1, R, I);
    put(f, "transformer.blocks.0.attn1.to_q.lora_B.weight", 2, O, R);
}

static void alpha_comes_from_a_key_or_the_metadata(void **state)
{
    static const struct {
        const char *config;
        double      scale;
    } of[] = {
        {"{}", 1},
        {"{\\\"transformer.r\\\": 3, \\\"transformer.lora_alpha\\\": 6}", 2},
        {"{\\\"transformer.lora_alpha\\\": 6.0, \\\"transformer.use_rslora\\\": true}", 3.46410161513775},
        {"{\\\"transformer.lora_alpha\\\": 6, \\\"transformer.alpha_pattern\\\": {\\\"attn1.to_q\\\": 9}}", 3},
        {"{\\\"transformer.lora_alpha\\\": 6, \\\"transformer.alpha_pattern\\\": {\\\"^blocks.0.attn1.to_q\\\": 9}}",
         3},
        {"{\\\"transformer.lora_alpha\\\": 6, \\\"transformer.alpha_pattern\\\": {\\\"^to_q\\\": 9, \\\"o_q\\\": 12}}",
         2},
    };
    static const struct {
        const char *type;
        uint8_t     bytes[8];
        size_t      size;
    } alpha[] = {{"F32", {0, 0, 0xc0, 0x3f}, 4},
                 {"BF16", {0xc0, 0x3f}, 2},
                 {"F8_E4M3", {0x3c}, 1},
                 {"F64", {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8}}; /* 1.5 */
    bench     m;
    lora_file f = {.size = 0};
    char      metadata[400];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        snprintf(metadata, sizeof metadata, "{\"lora_adapter_metadata\":\"%s\"}", of[i].config);
        put_pair(&f);
        merge(&m, &f, metadata);
        check_to_q(&m, of[i].scale);
        close_bench(&m);
    }
    for (size_t i = 0; i < sizeof alpha / sizeof *alpha; i++) {
        put_pair(&f);
        lora_put(&f, "transformer.blocks.0.attn1.to_q.alpha", alpha[i].type, (int)(i % 2), (int64_t[]){1},
                 alpha[i].bytes, alpha[i].size);
        merge_as(&m, &f, metadata, "transformer", -2); /* the key counts, not the metadata */
        check_to_q(&m, -2 * 1.5 / R);
        close_bench(&m);
    }
}

static void factors_have_any_float_type(void **state)
{
    static const uint8_t fp8[] = {0x38, 0xb8, 0x40}; /* 1, -1, 2 in F8_E4M3 */
    const double         of_fp8[] = {1, -1, 2};
    uint8_t              down[R * I], up[2 * O * R];
    bench                m;
    lora_file            f = {.size = 0};
    sg_tensor            half = {up, SG_F16, 2, {O, R}};
    for (int k = 0; k < R * I; k++) down[k] = fp8[k % 3];
    for (int k = 0; k < O * R; k++) sg_store(&half, k, value(2, k));
    lora_put(&f, "blocks.0.attn1.to_q.lora_A.weight", "F8_E4M3", 2, (int64_t[]){R, I}, down, sizeof down);
    lora_put(&f, "blocks.0.attn1.to_q.lora_B.weight", "F16", 2, (int64_t[]){O, R}, up, sizeof up);
    merge(&m, &f, NULL);
    for (int64_t k = 0; k < O * I; k++) {
        double sum = 0;
        for (int64_t r = 0; r < R; r++) sum += (double)value(2, k / I * R + r) * of_fp8[(r * I + k % I) % 3];
        near(added(&m, "blocks.0.attn1.to_q.weight", k), sum);
    }
    close_bench(&m);
}

/* Weights, biases, norms, both modulations, by both namings; a bias beside a LoRA; a LoRA of a convolution. */
static void differences_of_all_parameters_are_added(void **state)
{
    static const struct {
        const char *key, *tensor;
        int         seed;
        double      scale;
    } of[] = {{"diffusion_model.blocks.0.norm3.diff", "blocks.0.norm2.weight", 3, 0.5},
              {"diffusion_model.blocks.0.norm3.diff_b", "blocks.0.norm2.bias", 4, 0.5},
              {"diffusion_model.blocks.0.self_attn.norm_q.diff", "blocks.0.attn1.norm_q.weight", 5, 0.5},
              {"diffusion_model.blocks.0.diff_m", "blocks.0.scale_shift_table", 6, 0.5},
              {"diffusion_model.head.modulation.diff", "scale_shift_table", 7, 0.5},
              {"transformer.proj_out.diff", "proj_out.weight", 8, 0.5},
              {"blocks.0.self_attn.q.lora_B.bias", "blocks.0.attn1.to_q.bias", 9, 0.5 * 1.5 / R}};
    const int64_t down[] = {R, 2, 1, 2, 2}, up[] = {O, R, 1, 1, 1};
    float         x[NUMBERS];
    bench         m;
    lora_file     f = {.size = 0};
    put(&f, "blocks.0.self_attn.q.lora_A.weight", 1, R, I);
    put(&f, "blocks.0.self_attn.q.lora_B.weight", 2, O, R);
    put_float(&f, "blocks.0.self_attn.q.alpha", 1.5f);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const int t = place(of[i].tensor);
        size_t    n = 1;
        for (int k = 0; k < wanted[t].rank; k++) n *= (size_t)wanted[t].dim[k];
        for (size_t k = 0; k < n; k++) x[k] = value(of[i].seed, (int64_t)k);
        lora_put(&f, of[i].key, "F32", wanted[t].rank, wanted[t].dim, x, n * sizeof *x);
    }
    for (int k = 0; k < R * 8; k++) x[k] = value(1, k);
    lora_put(&f, "lora_unet_patch_embedding.lora_down.weight", "F32", 5, down, x, R * 8 * sizeof *x);
    for (int k = 0; k < O * R; k++) x[k] = value(2, k);
    lora_put(&f, "lora_unet_patch_embedding.lora_up.weight", "F32", 5, up, x, O * R * sizeof *x);
    merge_as(&m, &f, NULL, "transformer", 0.5);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (int64_t k = 0; k < sg_count(m.t[place(of[i].tensor)]); k++)
            near(added(&m, of[i].tensor, k), of[i].scale * (double)value(of[i].seed, k));
    for (int64_t k = 0; k < O * 8; k++)
        near(added(&m, "patch_embedding.weight", k), 0.5 * product(2, 1, R, 8, k / 8, k % 8));
    assert_int_equal(sg_lora_describe(m.l).tensors, 9);
    assert_int_equal(sg_lora_describe(m.l).unused, 0);
    close_bench(&m);
}

static void loha_and_lokr_are_added(void **state)
{
    bench     m;
    lora_file f = {.size = 0};
    put(&f, "lora_unet_blocks_0_self_attn_q.hada_w1_a", 1, O, R);
    put(&f, "lora_unet_blocks_0_self_attn_q.hada_w1_b", 2, R, I);
    put(&f, "lora_unet_blocks_0_self_attn_q.hada_w2_a", 3, O, R);
    put(&f, "lora_unet_blocks_0_self_attn_q.hada_w2_b", 4, R, I);
    put_float(&f, "lora_unet_blocks_0_self_attn_q.alpha", 6);
    put(&f, "lora_unet_blocks_12_cross_attn_k.lokr_w1", 1, 2, 3); /* both whole: without alpha */
    put(&f, "lora_unet_blocks_12_cross_attn_k.lokr_w2", 2, O / 2, I / 3);
    put_float(&f, "lora_unet_blocks_12_cross_attn_k.alpha", 100);
    put(&f, "lora_unet_blocks_0_ffn_0.lokr_w1_a", 1, 4, 1);
    put(&f, "lora_unet_blocks_0_ffn_0.lokr_w1_b", 2, 1, 2);
    put(&f, "lora_unet_blocks_0_ffn_0.lokr_w2_a", 3, 4, 2); /* its rank counts */
    put(&f, "lora_unet_blocks_0_ffn_0.lokr_w2_b", 4, 2, 4);
    put_float(&f, "lora_unet_blocks_0_ffn_0.alpha", 1);
    merge(&m, &f, NULL);
    for (int64_t k = 0; k < O * I; k++) {
        const int64_t y = k / I, x = k % I;
        near(added(&m, "blocks.0.attn1.to_q.weight", k), 2 * product(1, 2, R, I, y, x) * product(3, 4, R, I, y, x));
        near(added(&m, "blocks.12.attn2.to_k.weight", k),
             (double)value(1, y / 4 * 3 + x / 4) * (double)value(2, y % 4 * 4 + x % 4));
    }
    for (int64_t k = 0; k < 2 * O * O; k++)
        near(added(&m, "blocks.0.ffn.net.0.proj.weight", k),
             0.5 * product(1, 2, 1, 2, k / O / 4, k % O / 4) * product(3, 4, 2, 4, k / O % 4, k % O % 4));
    assert_int_equal(sg_lora_describe(m.l).rank[0], 2);
    assert_int_equal(sg_lora_describe(m.l).rank[1], 3);
    close_bench(&m);
}

/* Files of two experts, by both of their components. */
static void experts_get_their_own(void **state)
{
    static const char *const names[] = {"transformer", "transformer_2"};
    for (int i = 0; i < 2; i++) {
        bench     m;
        lora_file f = {.size = 0};
        for (int k = 0; k < 2; k++) {
            char key[80];
            snprintf(key, sizeof key, "%s.blocks.0.attn1.norm_q.diff", names[k]);
            put(&f, key, k + 1, O, 0);
        }
        put(&f, "blocks.0.norm2.diff", 3, O, 0); /* for both */
        merge_as(&m, &f, NULL, names[i], 1);
        near(added(&m, "blocks.0.attn1.norm_q.weight", 5), (double)value(i + 1, 5));
        near(added(&m, "blocks.0.norm2.weight", 5), (double)value(3, 5));
        assert_int_equal(sg_lora_describe(m.l).unused, 1); /* the other expert's, which is not open */
        close_bench(&m);
    }
}

/* A file's matrix of q, k and v; the model has them apart, and v before q in one of its own. */
static void fused_matrices_are_cut(void **state)
{
    static const sg_name_rule rules[] = {{"blocks.%d.attn1.to_q", "blocks.%d.qkv", 3, {{1, 1}}},
                                         {"blocks.%d.ffn.net.0.proj", "blocks.%d.qkv2", 3, {{2, 1}, {0, 1}}}};
    const sg_name_map         map = {.rules = rules, .count = 2};
    sg_error                  e = {0};
    bench                     m;
    lora_file                 f = {.size = 0};
    put(&f, "lora_unet_blocks_0_qkv.lora_down.weight", 1, R, I);
    put(&f, "lora_unet_blocks_0_qkv.lora_up.weight", 2, 3 * O, R);
    put(&f, "blocks.0.qkv.diff_b", 3, 3 * O, 0);
    put(&f, "blocks.0.qkv2.diff", 4, 3 * O, O);
    lora_save(&f, path, NULL);
    open_bench(&m);
    assert_int_equal(sg_lora_open(&m.l, path, 1, &e), SG_OK);
    if (sg_lora_add(m.l, m.b, "transformer", &map, 1, &e)) fail_msg("%s", e.text);
    load(m.b, &devices[1]);
    for (int64_t k = 0; k < O * I; k++)
        near(added(&m, "blocks.0.attn1.to_q.weight", k), product(2, 1, R, I, O + k / I, k % I));
    for (int64_t k = 0; k < O; k++) near(added(&m, "blocks.0.attn1.to_q.bias", k), (double)value(3, O + k));
    for (int64_t k = 0; k < 2 * O * O; k++)
        near(added(&m, "blocks.0.ffn.net.0.proj.weight", k), (double)value(4, k + (k < O * O ? 2 : -1) * O * O));
    assert_int_equal(sg_lora_describe(m.l).unused, 0);
    close_bench(&m);
}

/* The names of 40 blocks with underscores for dots, in both namings. */
static void names_stay_different_without_dots(void **state)
{
    static const char *const of_block[] = {"scale_shift_table", "norm2.weight", "norm2.bias", "ffn.net.0.proj.weight",
                                           "ffn.net.2.weight"};
    static const char *const of_attention[] = {"to_q",   "to_k",       "to_v",       "to_out.0",    "norm_q",
                                               "norm_k", "add_k_proj", "add_v_proj", "norm_added_k"};
    static const char *const other[] = {"patch_embedding", "condition_embedder.time_proj", "proj_out",
                                        "condition_embedder.text_embedder.linear_1",
                                        "condition_embedder.time_embedder.linear_1"};
    static sg_tensor         t;
    arrays                   a = {.count = 0};
    sg_lora_names            n = {0};
    char                     name[96];
    sg_source               *s = open_arrays(&a);
    sg_bind                 *b = bind_to(s, NULL);
    for (int i = 0; i < 40; i++) {
        sg_bind_prefix(b, "blocks.%d.", i);
        for (size_t k = 0; k < sizeof of_block / sizeof *of_block; k++) sg_bind_tensor(b, &t, SG_F32, of_block[k], 1);
        for (size_t k = 0; k < 2 * sizeof of_attention / sizeof *of_attention; k++)
            for (int bias = 0; bias < 2; bias++) {
                snprintf(name, sizeof name, "attn%zu.%s.%s", k % 2 + 1, of_attention[k / 2], bias ? "bias" : "weight");
                sg_bind_tensor(b, &t, SG_F32, name, 1);
            }
    }
    sg_bind_prefix(b, "%s", "");
    sg_bind_tensor(b, &t, SG_F32, "scale_shift_table", 1);
    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        snprintf(name, sizeof name, "%s.weight", other[k]);
        sg_bind_tensor(b, &t, SG_F32, name, 1);
    }
    assert_true(sg_lora_names_open(&n, b, sg_files_wan.names));
    assert_true(n.count > 2500);
    for (size_t i = 1; i < n.count; i++)
        if (strcmp(n.name[i - 1].flat, n.name[i].flat) == 0) fail_msg("%s: twice", n.name[i].flat);
    sg_lora_names_free(&n);
    close_both(&b, &s);
}

/* ---- what does not ---- */

static void what_fits_nothing_is_counted_and_named(void **state)
{
    static const char *const keys[] = {"diffusion_model.blocks.0.cross_attn.k_img.lora_down.weight",
                                       "diffusion_model.blocks.99.ffn.0.diff_b",
                                       "lora_te_text_model_encoder_layers_0_mlp_fc1.alpha",
                                       "blocks.007.attn1.to_q.diff",
                                       "blocks.0.attn1.norm_q.diff_b", /* which has no bias */
                                       "blocks.12.attn2.to_k.alpha",   /* of no factors */
                                       "blocks.0.attn1.to_q.loose"};
    const size_t             n = sizeof keys / sizeof *keys;
    bench                    m;
    lora_file                f = {.size = 0};
    size_t                   found = 0;
    const char              *key;
    for (size_t i = 0; i < n; i++) put(&f, keys[i], 1, O, 0);
    put_pair(&f);
    merge(&m, &f, NULL);
    for (size_t at = 0; (key = sg_lora_unused(m.l, &at)) != NULL;)
        for (size_t i = 0; i < n; i++) found += strcmp(key, keys[i]) == 0;
    assert_int_equal(found, n);
    assert_int_equal(sg_lora_describe(m.l).unused, n);
    assert_int_equal(sg_lora_describe(m.l).text, 1);
    assert_int_equal(sg_lora_describe(m.l).keys, n + 2);
    close_bench(&m);
}

static void refuse(lora_file *f, const char *metadata, sg_status code, const char *words)
{
    sg_error e = {0};
    bench    m;
    lora_save(f, path, metadata);
    open_bench(&m);
    assert_refused(try_adding(&m, "transformer", 1, &e), code, &e, words);
    close_bench(&m);
}

#define Q "blocks.0.attn1.to_q"

static void files_that_do_not_fit_are_refused(void **state)
{
    lora_file f = {.size = 0};
    put(&f, "blocks.50.attn1.to_q.lora_A.weight", 1, R, I);
    refuse(&f, NULL, SG_E_FORMAT, "1 tensors|\"blocks.50.");
    put(&f, "text_encoder.layers.0.q.lora_A.weight", 1, R, I);
    refuse(&f, NULL, SG_E_FORMAT, "text encoder");
    refuse(&f, NULL, SG_E_FORMAT, "has 0 tensors");
    put(&f, Q ".lora_A.weight", 1, R, I);
    refuse(&f, NULL, SG_E_FORMAT, "\"" Q ".lora_A.weight\"");
    put(&f, Q ".lokr_w2_b", 1, R, I);
    refuse(&f, NULL, SG_E_FORMAT, "\"" Q ".lokr_w2_b\"");
    put(&f, Q ".hada_w1_a", 1, O, R);
    refuse(&f, NULL, SG_E_FORMAT, "\"" Q ".hada_w1_a\"");
    put(&f, Q ".lora_B.bias", 1, O, 0);
    refuse(&f, NULL, SG_E_FORMAT, "\"" Q ".lora_B.bias\"");
    put_pair(&f);
    put(&f, "lora_unet_blocks_0_self_attn_q.lora_down.weight", 1, R, I);
    refuse(&f, NULL, SG_E_FORMAT, "same tensor");
    put_pair(&f);
    put(&f, Q ".dora_scale", 1, O, 1);
    refuse(&f, NULL, SG_E_UNSUPPORTED, "\"" Q ".dora_scale\"|DoRA");
    put(&f, Q ".oft_blocks", 1, O, 1);
    refuse(&f, NULL, SG_E_UNSUPPORTED, "OFT");
}

static void numbers_and_shapes_that_do_not_fit_are_refused(void **state)
{
    lora_file f = {.size = 0};
    put(&f, Q ".lora_A.weight", 1, 0, I);
    put(&f, Q ".lora_B.weight", 2, O, R);
    refuse(&f, NULL, SG_E_FORMAT, "\"" Q "\"|rank 0");
    put(&f, Q ".lora_A.weight", 1, R + 1, I);
    put(&f, Q ".lora_B.weight", 2, O, R);
    refuse(&f, NULL, SG_E_FORMAT, "tensor \"" Q ".weight\"|[8, 3]|[4, 12]|[8, 12]");
    put(&f, Q ".lora_A.weight", 1, R, 2 * I);
    put(&f, Q ".lora_B.weight", 2, 2 * O, R);
    refuse(&f, NULL, SG_E_FORMAT, "[16, 3]|[3, 24]|[8, 12]");
    put(&f, Q ".lokr_w1", 1, 3, 4);
    put(&f, Q ".lokr_w2", 2, 3, 3);
    refuse(&f, NULL, SG_E_FORMAT, "[3, 4]|[3, 3]|[8, 12]");
    put(&f, "blocks.0.diff_m", 1, 5, 4);
    refuse(&f, NULL, SG_E_FORMAT, "is [5, 4]|[1, 6, 4]");
    put_pair(&f);
    put_float(&f, "transformer." Q ".alpha", NAN);
    refuse(&f, NULL, SG_E_FORMAT, "\"transformer." Q ".alpha\"|finite");
    put_pair(&f);
    put(&f, "transformer." Q ".alpha", 1, 2, 0);
    refuse(&f, NULL, SG_E_FORMAT, "finite");
    put(&f, Q ".lora_A.weight", 1, R, I);
    lora_put(&f, Q ".lora_B.weight", "I32", 2, (int64_t[]){O, R}, (int32_t[O * R]){0}, O * R * sizeof(int32_t));
    refuse(&f, NULL, SG_E_FORMAT, "F32|F16|BF16|FP8");
}

static void metadata_that_cannot_be_read_is_refused(void **state)
{
    static const struct {
        const char *config, *words;
        sg_status   code;
    } of[] = {
        {"{", "lora_adapter_metadata: ", SG_E_FORMAT},
        {"{\\\"transformer.lora_alpha\\\": \\\"8\\\"}", "lora_alpha|finite", SG_E_FORMAT},
        {"{\\\"transformer.use_dora\\\": true}", "DoRA", SG_E_UNSUPPORTED},
        {"{\\\"transformer.lora_alpha\\\": 8, \\\"transformer.alpha_pattern\\\": {\\\".*to_q\\\": 9}}",
         "\".*to_q\"|expression", SG_E_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        char      metadata[300];
        lora_file f = {.size = 0};
        snprintf(metadata, sizeof metadata, "{\"lora_adapter_metadata\":\"%s\"}", of[i].config);
        put_pair(&f);
        refuse(&f, metadata, of[i].code, of[i].words);
    }
}

static void many_keys_take_little_time(void **state)
{
    enum { MANY = 100000 };
    bench     m;
    lora_file f = {.size = 0};
    char      key[80];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "lora_unet_blocks_%d_self_attn_q.lora_down.weight", i + 1000);
        lora_put(&f, key, "F32", 2, (int64_t[]){0, I}, NULL, 0);
    }
    put_pair(&f);
    merge(&m, &f, NULL);
    assert_int_equal(sg_lora_describe(m.l).unused, MANY);
    close_bench(&m);
}

static void files_are_known_by_hash_and_name(void **state)
{
    static const char *const of[] = {"{\"ss_output_name\":\"RCM\"}", NULL, NULL, "{\"lora_adapter_metadata\":\"{}\"}"};
    uint64_t                 hash[4];
    lora_file                f = {.size = 0};
    bench                    m;
    for (int i = 0; i < 4; i++) {
        if (i == 1) put(&f, "blocks.0.norm2.diff", 3, O, 0);
        put_pair(&f);
        if (i != 1) put(&f, "blocks.0.norm2.diff", i == 2 ? 4 : 3, O, 0);
        merge(&m, &f, of[i]);
        hash[i] = sg_lora_describe(m.l).hash;
        assert_int_equal(sg_lora_describe(m.l).few_steps, i == 0);
        close_bench(&m);
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2] && hash[0] != hash[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_means_its_module),
        cmocka_unit_test(alpha_comes_from_a_key_or_the_metadata),
        cmocka_unit_test(factors_have_any_float_type),
        cmocka_unit_test(differences_of_all_parameters_are_added),
        cmocka_unit_test(loha_and_lokr_are_added),
        cmocka_unit_test(experts_get_their_own),
        cmocka_unit_test(fused_matrices_are_cut),
        cmocka_unit_test(names_stay_different_without_dots),
        cmocka_unit_test(what_fits_nothing_is_counted_and_named),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
        cmocka_unit_test(numbers_and_shapes_that_do_not_fit_are_refused),
        cmocka_unit_test(metadata_that_cannot_be_read_is_refused),
        cmocka_unit_test(many_keys_take_little_time),
        cmocka_unit_test(files_are_known_by_hash_and_name),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
