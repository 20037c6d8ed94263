/* test_kl_vae.c - AutoencoderKL: frames and latents against diffusers', whole and in tiles; memory; configs that it
 * refuses. */
#include "kl_vae_table.h"

#include "kl_fixture.h"

static const sg_vae_ops *ops = &sg_kl_vae_ops;

/* ---- made-up models: as in make_kl_vae_table.py ---- */

#define UP "\"UpDecoderBlock2D\""
#define DOWN "\"DownEncoderBlock2D\""
#define COMMON                                                                                                         \
    "\"_class_name\": \"AutoencoderKL\", \"latent_channels\": 3, \"layers_per_block\": 1, \"norm_num_groups\": 2,"

static const kl_made models[] = {
    {.attention = true,
     .levels = 3,
     .channels = {4, 4, 8},
     .changes = {true, true},
     .config = "{" COMMON "\"block_out_channels\": [4, 4, 8], \"sample_size\": 16, \"scaling_factor\": 0.75,"
               "\"up_block_types\": [" UP "," UP "," UP "], \"down_block_types\": [" DOWN "," DOWN "," DOWN "]}"},
    {.plain = true,
     .levels = 4,
     .channels = {4, 8, 4, 6},
     .changes = {true, true, true},
     .config = "{" COMMON "\"block_out_channels\": [4, 8, 4, 6], \"sample_size\": 32, \"scaling_factor\": 0.375,"
               "\"shift_factor\": 0.125, \"use_quant_conv\": false, \"use_post_quant_conv\": false,"
               "\"mid_block_add_attention\": false, \"force_upcast\": true, \"latents_mean\": null,"
               "\"up_block_types\": [" UP "," UP "," UP "," UP "],"
               "\"down_block_types\": [" DOWN "," DOWN "," DOWN "," DOWN "]}"},
    {.attention = true,
     .levels = 1,
     .channels = {6},
     .config = "{" COMMON "\"block_out_channels\": [6], \"sample_size\": 8, \"scaling_factor\": 1.5,"
               "\"shift_factor\": -0.25}"}};

static sg_vae open_vae(int model)
{
    sg_vae v;
    e = (sg_error){0};
    write_model(&models[model]);
    if (sg_vae_open(&v, ops, from, SG_F32, &e)) fail_msg("%s", e.text);
    return v;
}

/* ---- frames ---- */

static void frames_are_those_of_diffusers(void **state)
{
    for (size_t k = 0; k < sizeof table_decoded / sizeof *table_decoded; k++) check_case(&table_decoded[k], false);
}

static void latents_are_those_of_diffusers(void **state)
{
    for (size_t k = 0; k < sizeof table_encoded / sizeof *table_encoded; k++) check_case(&table_encoded[k], true);
}

static void what_it_tells_of_itself(void **state)
{
    const int scale[] = {4, 8, 1};
    for (int k = 0; k < 3; k++) {
        const sg_vae v = open_vae(k);
        assert_int_equal(v.info.z, TABLE_LATENT);
        assert_int_equal(v.info.scale_time, 1);
        assert_int_equal(v.info.scale_space, scale[k]);
        assert_int_equal(ops->chunk(v.of, 3, 0), 1);
        assert_int_equal(ops->encode_chunk(v.of, 3, 2), 1);
        assert_string_equal(ops->component(v.of)->name, "vae");
        ops->close(v.of);
    }
}

/* ---- memory ---- */

/* Of decoding y x x latents, or encoding what makes them. */
static size_t planned(const sg_vae *v, bool encodes, bool tiled, int64_t y, int64_t x)
{
    const int      m = encodes ? v->info.scale_space : 1;
    sg_plan_totals totals = {0};
    sg_stream      s = sg_plan_stream(&totals);
    assert_true(ops->set_tiles(v->of, tiled));
    work(v, encodes, &s, 1, y * m, x * m, NULL);
    return s.scratch.peak;
}

/* Beyond one tile only what is given and made grows, and the rows that a tile leaves to the next row's. */
static void tiles_take_less_memory(void **state)
{
    const sg_vae v = open_vae(1);
    for (int encodes = 0; encodes < 2; encodes++) {
        assert_true(planned(&v, encodes, true, 40, 80) < planned(&v, encodes, false, 40, 80) / 8);
        const size_t more = planned(&v, encodes, true, 80, 80) - planned(&v, encodes, true, 40, 80);
        const size_t given = 40 * 80 * sizeof(float) * (encodes ? 2 * TABLE_LATENT : 8 * 8 * 3);
        assert_in_range(more, given, 2 * given + 4096);
    }
    ops->close(v.of);
}

static void a_tile_may_be_larger_than_the_image(void **state)
{
    sg_vae v;
    write_model(&models[1]);
    write_with(&models[1], "sample_size", "65536");
    if (sg_vae_open(&v, ops, from, SG_F32, &e)) fail_msg("%s", e.text);
    for (int encodes = 0; encodes < 2; encodes++)
        assert_true(planned(&v, encodes, true, 4, 4) < planned(&v, encodes, false, 4, 4) * 2);
    ops->close(v.of);
}

/* diffusers' tiles fit together where the quarter of one is a whole number of latents. */
static void tiles_that_do_not_fit_are_not_taken(void **state)
{
    static const struct {
        const char *size;
        bool        fits;
    } of[] = {{"32", true}, {"64", true}, {"1024", true}, {"16", false}, {"36", false}, {"48", false}, {"33", false}};
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        sg_vae v;
        write_model(&models[1]);
        write_with(&models[1], "sample_size", of[k].size);
        if (sg_vae_open(&v, ops, from, SG_F32, &e)) fail_msg("%s", e.text);
        assert_int_equal(ops->set_tiles(v.of, true), of[k].fits);
        assert_true(ops->set_tiles(v.of, false));
        sg_vae_close(&v);
    }
}

/* ---- what is refused ---- */

static void wrong_latents_latch(void **state)
{
    const sg_vae  v = open_vae(0);
    const int64_t bad[] = {1, 1, 2, TABLE_LATENT + 1};
    for (int encodes = 0; encodes < 2; encodes++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        void          *run = NULL;
        assert_int_equal((encodes ? ops->encode_open : ops->decode_open)(&run, v.of, &s, 4, 8, &e), SG_OK);
        const sg_tensor x = sg_alloc(&s, &s.scratch, SG_F32, 4, bad);
        if (encodes)
            ops->encode_next(run, &s, x);
        else
            ops->decode_next(run, &s, x, true);
        assert_int_equal(s.status, SG_E_SHAPE);
        (encodes ? ops->encode_close : ops->decode_close)(&run);
        assert_null(run);
    }
    ops->close(v.of);
}

static void impossible_sizes_are_refused(void **state)
{
    const sg_vae v = open_vae(1);
    for (int encodes = 0; encodes < 2; encodes++)
        SIZES_REFUSED(ops, v.of, encodes, {0, 8}, {8, -8}, {8, (1 << 16) + 8}, {INT64_MAX, 8}, {8, INT64_MIN});
    SIZES_REFUSED(ops, v.of, true, {12, 8}); /* as many latents can be decoded */
    ops->close(v.of);
}

/* Opens the second model with one field more in its config. */
static sg_status open_with(const char *key, const char *value)
{
    sg_vae v = {0};
    write_with(&models[1], key, value);
    const sg_status st = sg_vae_open(&v, ops, from, SG_F32, &e);
    assert_true(st ? !v.of : !!v.of);
    sg_vae_close(&v);
    return st;
}

static void odd_configs_are_refused(void **state)
{
    static const struct {
        const char *key, *value, *says;
    } bad[] = {{"_class_name", "\"AutoencoderTiny\"", "_class_name: is \"AutoencoderTiny\""},
               {"block_out_channels", "null", "block_out_channels: is missing"},
               {"block_out_channels", "[]", "block_out_channels|list"},
               {"block_out_channels", "[4, 8, 0, 6]", "block_out_channels|entry 2"},
               {"block_out_channels", "[4, 8, 3, 6]", "block_out_channels: 3|norm_num_groups"},
               {"block_out_channels", "[4, 8, 4, 100000]", "block_out_channels|entry 3"},
               {"block_out_channels", "[4, 8, 4]", "up_block_types: 4|block_out_channels|has 3"},
               {"block_out_channels", "[4, 8, 4, 8]", "misshapen: decoder.conv_in.weight"},
               {"norm_num_groups", "0", "norm_num_groups: should be"},
               {"norm_num_groups", "4", "the 4 norm_num_groups"},
               {"layers_per_block", "0", "layers_per_block: should be"},
               {"layers_per_block", "[1, 1, 1, 1]", "layers_per_block: should be"},
               {"layers_per_block", "2", "missing: decoder.up_blocks.0.resnets.2.norm1.weight"},
               {"latent_channels", "0", "latent_channels: should be"},
               {"latent_channels", "1000000", "latent_channels: should be"},
               {"latent_channels", "4", "misshapen: decoder.conv_in.weight"},
               {"scaling_factor", "0", "scaling_factor: should be"},
               {"shift_factor", "\"0.1\"", "shift_factor: should be"},
               {"shift_factor", "1e9", "shift_factor: should be"},
               {"sample_size", "0", "sample_size: should be"},
               {"sample_size", "[32, 32]", "sample_size: should be"},
               {"in_channels", "4", "in_channels: only 3"},
               {"out_channels", "4", "out_channels: only 3"},
               {"act_fn", "\"gelu\"", "act_fn: \"gelu\""},
               {"mid_block_add_attention", "true", "missing: decoder.mid_block.attentions.0"},
               {"use_quant_conv", "true", "missing: quant_conv.weight"},
               {"use_post_quant_conv", "true", "missing: post_quant_conv.weight"},
               {"use_post_quant_conv", "1", "use_post_quant_conv: should be"},
               {"latents_mean", "[0, 0, 0]", "latents_mean|null"},
               {"latents_std", "[1, 1, 1]", "latents_std|null"},
               {"up_block_types", "null", "up_block_types: 1|block_out_channels|has 4"},
               {"up_block_types", "[" UP "," UP "," UP ",\"AttnUpDecoderBlock2D\"]",
                "up_block_types: \"AttnUpDecoderBlock2D\""},
               {"down_block_types", "[]", "down_block_types|list"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_with(bad[i].key, bad[i].value), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    static const struct {
        const char *key, *value;
    } good[] = {{"unheard_of", "{}"},       {"act_fn", "\"swish\""}, {"shift_factor", "null"},
                {"scaling_factor", "null"}, {"in_channels", "3"},    {"norm_num_groups", "1"},
                {"force_upcast", "false"},  {"sample_size", "null"}, {"sample_size", "1000"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_with(good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_are_those_of_diffusers),
                                       cmocka_unit_test(latents_are_those_of_diffusers),
                                       cmocka_unit_test(what_it_tells_of_itself),
                                       cmocka_unit_test(tiles_take_less_memory),
                                       cmocka_unit_test(a_tile_may_be_larger_than_the_image),
                                       cmocka_unit_test(tiles_that_do_not_fit_are_not_taken),
                                       cmocka_unit_test(wrong_latents_latch),
                                       cmocka_unit_test(impossible_sizes_are_refused),
                                       cmocka_unit_test(odd_configs_are_refused),
                                       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
