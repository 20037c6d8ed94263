/* test_checkpoint.c - a checkpoint's components; names through a map and rows of fused matrices. */
#include "base/file.h"
#include "checkpoint.h"
#include "memory_source.h"

#include "safetensors_write.h"

#include <limits.h>

/* ---- names ---- */

static const sg_name_rule rules[] = {
    {"blocks.%d.attn1.to_q", "layers.%d.attn.qkv", 3, {{0, 1}}},
    {"blocks.%d.attn1.to_k", "layers.%d.attn.qkv", 3, {{1, 1}}},
    {"blocks.%d.attn1.to_v", "layers.%d.attn.qkv", 3, {{2, 1}}},
    {"blocks.%d", "layers.%d", 0, {{0}}},
    {"blocks.1.last", "final", 0, {{0}}},
    {"norm_out.linear", "final.mod", 2, {{1, 1}, {0, 1}}},
    {"up.%d.resnets.%d", "up.%d.block.%d", 0, {{0}}},
    {NULL, "rope.%d", 0, {{0}}},
};
static const sg_name_map map = {.prefix = "model.", .rules = rules, .count = sizeof rules / sizeof *rules};

static void names_follow_the_rules(void **state)
{
    static const struct {
        const char *wanted, *file;
    } pairs[] = {
        {"blocks.12.attn1.to_k.weight", "model.layers.12.attn.qkv.weight"},
        {"blocks.12.attn1.to_out.0.bias", "model.layers.12.attn1.to_out.0.bias"},
        {"blocks.0", "model.layers.0"},
        {"blocks.1.last.w", "model.final.w"}, /* more components */
        {"blocks.2.last.w", "model.layers.2.last.w"},
        {"up.3.resnets.1.conv", "model.up.3.block.1.conv"},
        {"up.3.resnets.01.conv", "model.up.3.resnets.01.conv"}, /* not a number */
        {"blocks.x.last", "model.blocks.x.last"},
        {"blocks", "model.blocks"},
        {"blocks2.1.w", "model.blocks2.1.w"},
        {"proj_out", "model.proj_out"},
    };
    char                file[SG_NAME_MAX], name[SG_NAME_MAX + 1];
    const sg_name_rule *rule;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        assert_true(sg_name_map_find(&map, pairs[i].wanted, file, &rule));
        assert_string_equal(file, pairs[i].file);
    }
    assert_true(sg_name_map_find(&map, "blocks.1.attn1.to_v.weight", file, &rule) && rule == &rules[2]);
    assert_true(sg_name_map_find(NULL, "blocks.1.w", file, &rule) && !rule);
    assert_string_equal(file, "blocks.1.w");
    assert_true(sg_name_map_drops(&map, "model.rope.7.freqs") && sg_name_map_drops(&map, "vae.conv"));
    assert_false(sg_name_map_drops(&map, "model.rope.x") || sg_name_map_drops(&map, "model.blocks.1.w"));
    assert_false(sg_name_map_drops(NULL, "rope.7"));
    memset(name, 'n', SG_NAME_MAX);
    name[SG_NAME_MAX - sizeof "model." + 1] = '\0';
    assert_false(sg_name_map_find(&map, name, file, &rule));
    name[SG_NAME_MAX - sizeof "model."] = '\0';
    assert_true(sg_name_map_find(&map, name, file, &rule));
}

static void rules_that_cut_beyond_the_rows_are_refused(void **state)
{
    static const sg_name_rule bad[] = {
        {"w", "f", 3, {{3, 1}}},          {"w", "f", 3, {{-1, 1}}},        {"w", "f", 3, {{0, 4}}},
        {"w", "f", 3, {{0, 0}}},          {"w", "f", 3, {{0, 1}, {2, 2}}}, {"w", "f", -1, {{0, 1}}},
        {"w", "f", 2, {{0, 1}, {0, -1}}}, {"w", "f.%d", 0, {{0}}},         {"w", "f", 2, {{1, INT_MAX}}}};
    float x[12] = {0};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const sg_name_map one = {.rules = &bad[i], .count = 1};
        arrays            a = {.count = 0};
        sg_error          e = {0};
        sg_tensor         t;
        add(&a, "f", numbers(x, SG_F32, 6, 2));
        sg_source *s = open_arrays(&a);
        sg_bind   *b = bind_to(s, &one);
        sg_bind_tensor(b, &t, SG_F32, "w", 2, 2);
        assert_refused(sg_bind_check(b, &e), SG_E_ARG, &e, "arrays|map");
        close_both(&b, &s);
    }
}

/* ---- the same numbers, whatever they are called and however they lie ---- */

enum { C = 6 };

typedef struct layer {
    sg_tensor q, k, v, bias, up, mod;
} layer;

static void want_layer(sg_bind *b, layer *l, sg_dtype as)
{
    sg_bind_prefix(b, "blocks.%d.", 0);
    sg_bind_tensor(b, &l->q, as, "attn1.to_q.weight", C, C);
    sg_bind_tensor(b, &l->k, as, "attn1.to_k.weight", C, C);
    sg_bind_tensor(b, &l->v, as, "attn1.to_v.weight", C, C);
    sg_bind_tensor(b, &l->bias, as, "attn1.to_k.bias", C);
    sg_bind_tensor(b, &l->up, as, "up.weight", 2, C);
    sg_bind_prefix(b, "%s", "");
    sg_bind_tensor(b, &l->mod, as, "norm_out.linear.weight", 4, C);
}

static void same(sg_tensor a, sg_tensor b)
{
    assert_int_equal(sg_bytes(a), sg_bytes(b));
    assert_memory_equal(a.data, b.data, sg_bytes(a));
}

/* The fused file, and the folder's: q, k and v apart, and the halves of mod the other way round. */
static void fill_both(arrays *fused, arrays *apart, float *qkv, float *bias, float *mod, float *halves, sg_dtype type)
{
    const sg_tensor w = numbers(qkv, type, 3 * C, C), m = numbers(mod, type, 4, C);
    sg_tensor       b = numbers(bias, type, 3 * C, 1), h = m;
    const size_t    half = sg_bytes(m) / 2;
    b.rank = 1;
    h.data = halves;
    memcpy(halves, (char *)mod + half, half);
    memcpy((char *)halves + half, mod, half);
    *fused = *apart = (arrays){.count = 0};
    add(fused, "model.layers.0.attn.qkv.weight", w);
    add(fused, "model.layers.0.attn.qkv.bias", b);
    add(fused, "model.layers.0.up.weight", sg_rows(w, 1, 2));
    add(fused, "model.final.mod.weight", m);
    add(fused, "model.rope.0.freqs", m);
    add(fused, "vae.conv", m);
    add(apart, "blocks.0.attn1.to_q.weight", sg_rows(w, 0, C));
    add(apart, "blocks.0.attn1.to_k.weight", sg_rows(w, C, C));
    add(apart, "blocks.0.attn1.to_v.weight", sg_rows(w, 2 * C, C));
    add(apart, "blocks.0.attn1.to_k.bias", sg_rows(b, C, C));
    add(apart, "blocks.0.up.weight", sg_rows(w, 1, 2));
    add(apart, "norm_out.linear.weight", h);
}

static void check_layers(sg_dtype type, sg_dtype as, const sg_backend *device)
{
    float  qkv[3 * C * C], bias[3 * C], mod[4 * C], halves[4 * C];
    arrays from[2];
    layer  l[2];
    size_t mapped[2], bytes[2];
    fill_both(&from[0], &from[1], qkv, bias, mod, halves, type);
    sg_source *s[2];
    sg_bind   *b[2];
    for (int i = 0; i < 2; i++) {
        s[i] = open_arrays(&from[i]);
        b[i] = bind_to(s[i], i ? NULL : &map);
        want_layer(b[i], &l[i], as);
        bytes[i] = sg_bind_bytes(b[i], device, &mapped[i]);
        load(b[i], device);
    }
    same(l[0].q, l[1].q);
    same(l[0].k, l[1].k);
    same(l[0].v, l[1].v);
    same(l[0].bias, l[1].bias);
    same(l[0].up, l[1].up);
    same(l[0].mod, l[1].mod);
    const bool   serves = device->host_memory && type == as;
    const size_t of_mod = 4 * C * sg_dtype_size(as);
    assert_int_equal(mapped[1], serves ? (3 * C * C + C + 2 * C) * sg_dtype_size(as) + of_mod : 0);
    assert_int_equal(mapped[0], serves ? mapped[1] - of_mod : 0); /* two runs are no single piece */
    assert_true(serves ? bytes[0] >= of_mod && !bytes[1] : bytes[0] == bytes[1]);
    for (int i = 0; i < 2; i++) close_both(&b[i], &s[i]);
}

static void fused_and_renamed_numbers_are_the_same(void **state)
{
    static const sg_dtype all[] = {SG_F32, SG_F16, SG_BF16};
    for (int from = 0; from < 3; from++)
        for (int as = 0; as < 3; as += 2)
            for (int device = 0; device < 2; device++) check_layers(all[from], all[as], &devices[device]);
}

static void peeking_goes_through_the_map(void **state)
{
    float  qkv[3 * C * C], bias[3 * C], mod[4 * C], halves[4 * C];
    arrays fused, apart;
    fill_both(&fused, &apart, qkv, bias, mod, halves, SG_F32);
    fused.tensor[2].type = &unread;
    sg_source *s = open_arrays(&fused);
    sg_bind   *b = bind_to(s, &map);
    sg_bind_prefix(b, "blocks.%d.", 0);
    float        row[C];
    sg_bind_rows r = sg_bind_peek(b, "attn1.to_v.weight");
    assert_string_equal(r.type, "F32");
    assert_true(r.rank == 2 && r.dim[0] == C && r.dim[1] == C);
    assert_true(sg_bind_row(&r, 3, row));
    assert_memory_equal(row, qkv + 2 * C * C + 3 * C, sizeof row);
    qkv[2 * C * C + 3 * C] = INFINITY;
    assert_false(sg_bind_row(&r, 3, row));
    assert_null(sg_bind_peek(b, "none").type);
    r = sg_bind_peek(b, "up.weight");
    assert_int_equal(r.rank, 0);
    assert_string_equal(r.type, "IQ2_XS");
    assert_true(sg_bind_has(b, "attn1.to_q.bias") && !sg_bind_has(b, "attn2.to_q.bias"));
    assert_string_equal(sg_source_metadata(s, "format"), "arrays");
    close_both(&b, &s);
}

static void all_troubles_are_listed_under_a_map(void **state)
{
    float    x[64] = {0};
    arrays   a = {.count = 0};
    sg_error e = {0};
    layer    l;
    add(&a, "model.layers.0.attn.qkv.weight", numbers(x, SG_F32, 10, C)); /* no thirds */
    add(&a, "model.layers.0.attn.qkv.bias", numbers(x, SG_F32, 3, 5));
    add(&a, "model.layers.0.up.weight", numbers(x, SG_F32, 2, C));
    add(&a, "model.layers.00.up.weight", numbers(x, SG_F32, 2, C));
    add(&a, "model.rope.0", numbers(x, SG_F32, 1, 1));
    add(&a, "text_encoder.w", numbers(x, SG_F32, 1, 1));
    a.tensor[2].type = &unread;
    sg_source *s = open_arrays(&a);
    sg_bind   *b = bind_to(s, &map);
    want_layer(b, &l, SG_F32);
    assert_int_equal(sg_bind_check(b, &e), SG_E_FORMAT);
    assert_string_equal(
        e.text,
        "arrays: the tensors do not fit this model: 1 missing, 4 misshapen, 1 of the wrong type, 1 extra\n"
        "  missing: norm_out.linear.weight (in the file model.final.mod.weight) [4, 6]\n"
        "  misshapen: blocks.0.attn1.to_q.weight is part 1 of 3 of model.layers.0.attn.qkv.weight [10, 6], should be "
        "[6, 6]\n"
        "  misshapen: blocks.0.attn1.to_k.weight is part 2 of 3 of model.layers.0.attn.qkv.weight [10, 6], should be "
        "[6, 6]\n"
        "  misshapen: blocks.0.attn1.to_v.weight is part 3 of 3 of model.layers.0.attn.qkv.weight [10, 6], should be "
        "[6, 6]\n"
        "  misshapen: blocks.0.attn1.to_k.bias is part 2 of 3 of model.layers.0.attn.qkv.bias [3, 5], should be [6]\n"
        "  wrong type: blocks.0.up.weight (in the file model.layers.0.up.weight) is IQ2_XS, should be " SG_TYPES_READ
        "\n"
        "  extra: model.layers.00.up.weight [2, 6]");
    close_both(&b, &s);
}

static void names_that_stand_twice_are_refused(void **state)
{
    float      x[1] = {0};
    arrays     a = {.count = 0};
    sg_error   e = {0};
    sg_source *s = NULL;
    for (int i = 0; i < 3; i++) add(&a, i == 1 ? "other" : "x", numbers(x, SG_F32, 1, 1));
    assert_refused(put_arrays(&s, &a, &e), SG_E_FORMAT, &e, "arrays|tensor \"x\"|twice");
    sg_source_close(&s);
    assert_null(s);
}

/* ---- a Diffusers folder ---- */

static void components_have_their_files(void **state)
{
    static const struct {
        const char *name, *config, *weights;
    } parts[] = {{"transformer", "config.json", "diffusion_pytorch_model.safetensors"},
                 {"vae", "config.json", "diffusion_pytorch_model.safetensors"},
                 {"text_encoder_2", "config.json", "model.safetensors"},
                 {"image_encoder", "config.json", "model.safetensors"},
                 {"scheduler", "scheduler_config.json", NULL}};
    static const char  dir[] = "model";
    char               path[128];
    float              x[1] = {1};
    sg_error           e = {0};
    sg_checkpoint     *c = NULL;
    sg_config         *config = NULL;
    sg_source         *source = NULL;
    const sg_name_map *names;
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_false(sg_checkpoint_is(dir));
    assert_true(sg_file_beside(dir, "model_index.json", path, sizeof path));
    write_text(path, "{\"_class_name\": \"X\"}");
    assert_true(sg_checkpoint_is(dir));
    assert_int_equal(sg_checkpoint_open(&c, dir, &e), SG_OK);
    assert_string_equal(sg_checkpoint_path(c), dir);
    assert_int_equal(sg_checkpoint_index(c, &config, &e), SG_OK);
    assert_string_equal(sg_config_string(config, "_class_name", NULL), "X");
    sg_config_close(&config);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        assert_false(sg_checkpoint_has(c, parts[i].name));
        assert_int_equal(sg_checkpoint_place(c, parts[i].name, path, sizeof path, &e), SG_OK);
        const size_t n = strlen(path);
        assert_int_equal(mkdir(path, 0700), 0);
        assert_true(sg_checkpoint_has(c, parts[i].name));
        snprintf(path + n, sizeof path - n, "/%s", parts[i].config);
        write_text(path, "{\"number\": 7}");
        assert_int_equal(sg_checkpoint_config(c, parts[i].name, &config, &e), SG_OK);
        assert_int_equal(sg_config_int(config, "number", 0, 9, NULL), 7);
        sg_config_close(&config);
        if (!parts[i].weights) {
            assert_int_equal(sg_checkpoint_source(c, parts[i].name, &source, &names, &e), SG_E_ARG);
            continue;
        }
        snprintf(path + n, sizeof path - n, "/%s", parts[i].weights);
        assert_int_equal(sg_safetensors_write(path, "x", (sg_tensor){x, SG_F32, 1, {1}}, NULL, &e), SG_OK);
        assert_int_equal(sg_checkpoint_source(c, parts[i].name, &source, &names, &e), SG_OK);
        assert_null(names);
        assert_string_equal(sg_source_path(source), path);
        sg_source_close(&source);
        assert_int_equal(sg_source_open(&source, path, &e), SG_OK); /* this file, whatever stands beside it */
        assert_int_equal(sg_source_count(source), 1);
        sg_source_close(&source);
    }
    sg_checkpoint_close(&c);
    assert_null(c);
}

static void long_paths_are_refused(void **state)
{
    char           path[2000], small[8];
    sg_error       e = {0};
    sg_checkpoint *c = NULL;
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_refused(sg_checkpoint_open(&c, path, &e), SG_E_ARG, &e, "longer|1023 bytes");
    assert_null(c);
    assert_false(sg_checkpoint_is(path));
    assert_false(sg_file_beside("folder", "name", small, sizeof small));
    path[1000] = '\0';
    assert_int_equal(sg_checkpoint_open(&c, path, &e), SG_OK);
    assert_int_equal(sg_checkpoint_place(c, "transformer", small, sizeof small, NULL), SG_E_ARG);
    sg_checkpoint_close(&c);
    sg_source *s = NULL;
    assert_int_equal(sg_source_open(&s, "/nowhere/x.safetensors", &e), SG_E_FILE);
    assert_int_equal(sg_source_open(&s, "/nowhere/x.safetensors.index.json", &e), SG_E_FILE);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_rules),
        cmocka_unit_test(rules_that_cut_beyond_the_rows_are_refused),
        cmocka_unit_test(fused_and_renamed_numbers_are_the_same),
        cmocka_unit_test(peeking_goes_through_the_map),
        cmocka_unit_test(all_troubles_are_listed_under_a_map),
        cmocka_unit_test(names_that_stand_twice_are_refused),
        cmocka_unit_test(components_have_their_files),
        cmocka_unit_test(long_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
