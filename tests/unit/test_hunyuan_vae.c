/* test_hunyuan_vae.c - HunyuanVideo's VAE: frames and latents against diffusers', whole, in windows and in tiles; chunks and
 * memory; configs that it refuses. */
#include "hunyuan_vae_table.h"

#include "kl_fixture.h"

static const sg_vae_ops *ops = &sg_hunyuan_vae_ops;

/* ---- made-up models: as in make_hunyuan_vae_table.py ---- */

#define UP "\"HunyuanVideoUpBlock3D\""
#define DOWN "\"HunyuanVideoDownBlock3D\""
#define COMMON                                                                                                         \
    "\"_class_name\": \"AutoencoderKLHunyuanVideo\", \"latent_channels\": 3, \"layers_per_block\": 1,"                 \
    "\"norm_num_groups\": 2, \"scaling_factor\": 0.75, \"temporal_compression_ratio\": 4,"

static const kl_made models[] = {
    {.video = true,
     .levels = 3,
     .channels = {4, 4, 8},
     .changes = {true, true},
     .attention = true,
     .config = "{" COMMON "\"block_out_channels\": [4, 4, 8], \"spatial_compression_ratio\": 2,"
               "\"up_block_types\": [" UP "," UP "," UP "], \"down_block_types\": [" DOWN "," DOWN "," DOWN "]}"},
    {.video = true,
     .levels = 4,
     .channels = {4, 8, 4, 6},
     .changes = {true, true, true},
     .config = "{" COMMON "\"block_out_channels\": [4, 8, 4, 6], \"mid_block_add_attention\": false}"},
};

static sg_vae open_vae(int model)
{
    sg_vae v;
    e = (sg_error){0};
    write_model(&models[model]);
    if (sg_vae_open(&v, ops, from, SG_F32, &e)) fail_msg("%s", e.text);
    return v;
}

/* ---- frames ---- */

static size_t decode(const sg_vae *v, sg_stream *s, int64_t f, int64_t y, int64_t x, float *out)
{
    return work(v, false, s, f, y, x, out);
}

static float *decoded(const sg_vae *v, sg_backend *b, int64_t f, int64_t y, int64_t x, size_t *numbers)
{
    return worked(v, false, b, f, y, x, numbers);
}

static void frames_are_those_of_diffusers(void **state)
{
    for (size_t k = 0; k < sizeof table_decoded / sizeof *table_decoded; k++) check_case(&table_decoded[k], false);
}

static void latents_are_those_of_diffusers(void **state)
{
    for (size_t k = 0; k < sizeof table_encoded / sizeof *table_encoded; k++) check_case(&table_encoded[k], true);
}

/* ---- windows ---- */

static void chunks_and_frames_of_latents(void **state)
{
    static const int64_t chunks[][5] = {{1},    {2},       {3},       {4},       {5},          {5, 1},      {5, 2},
                                        {5, 3}, {5, 3, 1}, {5, 3, 2}, {5, 3, 3}, {5, 3, 3, 1}, {5, 3, 3, 2}};
    const sg_vae         v = open_vae(0);
    for (int64_t f = 1; f <= (int64_t)(sizeof chunks / sizeof *chunks); f++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        int            k = 0;
        for (int64_t done = 0; done < f; done += chunks[f - 1][k++])
            assert_int_equal(ops->chunk(v.of, f, done), chunks[f - 1][k]);
        assert_int_equal(decode(&v, &s, f, 1, 2, NULL), (4 * (f - 1) + 1) * 2 * 4 * 3);
    }
    ops->close(v.of);
}

/* What is planned for the first chunks and the last holds for all; only what is given, which is the engine's, grows. */
static void memory_is_flat(void **state)
{
    const sg_vae v = open_vae(1);
    for (int tiled = 0; tiled < 2; tiled++)
        for (int64_t f = 9; f < 12; f++) {
            sg_plan_totals totals = {0};
            sg_stream      few = sg_plan_stream(&totals), many = sg_plan_stream(&totals);
            assert_true(ops->set_tiles(v.of, tiled));
            decode(&v, &few, f, 40, 4, NULL);
            decode(&v, &many, f + 60, 40, 4, NULL);
            assert_int_equal(few.scratch.peak, many.scratch.peak);
            assert_int_equal(many.keep.peak - few.keep.peak, 60 * 40 * 4 * TABLE_LATENT * sizeof(float));
        }
    sg_plan_totals totals = {0};
    sg_stream      few = sg_plan_stream(&totals), many = sg_plan_stream(&totals);
    work(&v, true, &few, 29, 16, 8, NULL);
    work(&v, true, &many, 29 + 48, 16, 8, NULL);
    assert_int_equal(few.scratch.peak, many.scratch.peak);
    assert_int_equal(many.keep.peak - few.keep.peak, 48 * 16 * 8 * 3 * sizeof(float));
    ops->close(v.of);
}

static void tiles_take_less_memory(void **state)
{
    const sg_vae v = open_vae(1);
    size_t       peak[2];
    for (int tiled = 0; tiled < 2; tiled++) {
        sg_plan_totals totals = {0};
        sg_stream      s = sg_plan_stream(&totals);
        assert_true(ops->set_tiles(v.of, tiled));
        decode(&v, &s, 8, 90, 160, NULL);
        peak[tiled] = s.scratch.peak;
    }
    assert_true(peak[1] < peak[0] / 2);
    ops->close(v.of);
}

/* Frames of a chunk do not see the chunks after it; those that no window has to itself are blends of both. */
static void windows_follow_the_past_alone(void **state)
{
    const sg_vae v = open_vae(0);
    const size_t frame = 2 * 4 * 3;
    size_t       n[3];
    float *const few = decoded(&v, backend[1], 5, 1, 2, &n[0]), *const more = decoded(&v, backend[1], 8, 1, 2, &n[1]),
                 *const most = decoded(&v, backend[1], 9, 1, 2, &n[2]);
    char *const a = (char *)few, *const b = (char *)more, *const c = (char *)most;
    const size_t bytes = frame * sizeof(float);
    assert_memory_equal(a, b, 14 * bytes); /* the first blended frame is the earlier window's */
    assert_memory_not_equal(a + 14 * bytes, b + 14 * bytes, 3 * bytes);
    assert_memory_equal(b, c, 26 * bytes);
    assert_memory_not_equal(b + 26 * bytes, c + 26 * bytes, 3 * bytes);
    free(few), free(more), free(most);
    ops->close(v.of);
}

static void wrong_latents_latch(void **state)
{
    const sg_vae v = open_vae(0);
    LATCHES(ops, v.of, 1, 2, false, {2, 1, 2, TABLE_LATENT + 1}, {5, 1, 3, TABLE_LATENT}, {5, 2, 2, TABLE_LATENT});
    ops->close(v.of);
}

static void impossible_sizes_are_refused(void **state)
{
    const sg_vae v = open_vae(1);
    for (int encodes = 0; encodes < 2; encodes++)
        SIZES_REFUSED(ops, v.of, encodes, {0, 1}, {1, -1}, {1, (1 << 13) + 1}, {INT64_MAX, 1}, {1, INT64_MIN});
    ops->close(v.of);
}

/* ---- refused configs ---- */

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
    } bad[] = {{"_class_name", "\"AutoencoderKLWan\"", "_class_name: is \"AutoencoderKLWan\""},
               {"block_out_channels", "null", "block_out_channels: is missing"},
               {"block_out_channels", "[2, 2, 2, 2, 2, 2, 2, 2, 2]", "block_out_channels|list"},
               {"block_out_channels", "[4, 8, 3, 6]", "block_out_channels: 3|norm_num_groups"},
               {"block_out_channels", "[4, 8, 4, 100000]", "block_out_channels|entry 3"},
               {"block_out_channels", "[4, 8]", "block_out_channels: 2|temporal_compression_ratio"},
               {"block_out_channels", "[4, 8, 4]", "up_block_types: 4|block_out_channels|has 3"},
               {"temporal_compression_ratio", "8", "temporal_compression_ratio: 8|4"},
               {"spatial_compression_ratio", "32", "spatial_compression_ratio: 32|4 levels|16"},
               {"spatial_compression_ratio", "6", "spatial_compression_ratio: 6|4 levels"},
               {"spatial_compression_ratio", "16", "missing: decoder.up_blocks.3.upsamplers.0.conv.conv.weight"},
               {"spatial_compression_ratio", "0", "spatial_compression_ratio: should be"},
               {"norm_num_groups", "0", "norm_num_groups: should be"},
               {"norm_num_groups", "4", "the 4 norm_num_groups"},
               {"layers_per_block", "0", "layers_per_block: should be"},
               {"layers_per_block", "9", "layers_per_block: should be"},
               {"layers_per_block", "2", "tensors do not fit"},
               {"latent_channels", "0", "latent_channels: should be"},
               {"latent_channels", "7", "misshapen: post_quant_conv.weight"},
               {"scaling_factor", "0", "scaling_factor: should be"},
               {"in_channels", "4", "in_channels: only 3"},
               {"out_channels", "4", "out_channels: only 3"},
               {"act_fn", "\"gelu\"", "act_fn: \"gelu\""},
               {"mid_block_add_attention", "true", "missing: decoder.mid_block.attentions.0"},
               {"mid_block_add_attention", "1", "mid_block_add_attention: should be"},
               {"up_block_types", "[" UP "]", "up_block_types: 1|block_out_channels|has 4"},
               {"up_block_types", "[" UP ", " UP ", " UP ", " DOWN "]", "up_block_types: " DOWN},
               {"down_block_types", "[]", "down_block_types|list"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_refused(open_with(bad[i].key, bad[i].value), SG_E_FORMAT, &e, bad[i].says);
}

static void harmless_changes_are_taken(void **state)
{
    static const struct {
        const char *key, *value;
    } good[] = {{"unheard_of", "{}"}, {"act_fn", "\"swish\""},  {"act_fn", "null"},        {"scaling_factor", "null"},
                {"in_channels", "3"}, {"norm_num_groups", "1"}, {"up_block_types", "null"}};
    write_model(&models[1]);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_with(good[i].key, good[i].value)) fail_msg("%s: %s", good[i].key, e.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_those_of_diffusers), cmocka_unit_test(latents_are_those_of_diffusers),
        cmocka_unit_test(chunks_and_frames_of_latents),  cmocka_unit_test(memory_is_flat),
        cmocka_unit_test(tiles_take_less_memory),        cmocka_unit_test(windows_follow_the_past_alone),
        cmocka_unit_test(wrong_latents_latch),           cmocka_unit_test(impossible_sizes_are_refused),
        cmocka_unit_test(odd_configs_are_refused),       cmocka_unit_test(harmless_changes_are_taken)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
