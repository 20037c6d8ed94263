/* test_checkpoint_files.c - models that are not a Diffusers folder: files of each part, all in one, original repositories. */
#include "file_names.h"
#include "part_files.h"
#include "wan_names.h"

static void a_file_for_each_part_renders_as_the_folder(void **state)
{
    const sg_model_parts parts = {.diffusion_model = "dit.safetensors",
                                  .vae = "vae.safetensors",
                                  .text_encoder = "t5.safetensors",
                                  .tokenizer = SG_FIXTURES "/wan21_hd12/tokenizer"};
    write_component("dit.safetensors", model, "transformer", &sg_wan_dit_names, 0, "model.diffusion_model.");
    write_component("vae.safetensors", model, "vae", &sg_wan_vae_names, 3, "");
    write_component("t5.safetensors", model, "text_encoder", &sg_wan_t5_names, 0, "");
    write_own("sparge-gen.json", model, "");
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
    put_component(&now, dir, "transformer", &sg_wan_dit_names, 0, "model.diffusion_model.");
    put_component(&now, dir, "vae", &sg_wan_vae_residual_names, 3, "first_stage_model.");
    put_component(&now, dir, "text_encoder", NULL, 0, "text_encoders.umt5xxl.transformer.");
    write_out(&now, "all.safetensors");
    char *const vae = text_of(dir, "vae/config.json"); /* with a mean and deviation of its own */
    char        more[8300];
    snprintf(more, sizeof more, ", \"vae\": %s", vae);
    write_own("sparge-gen.json", dir, more);
    free(vae);
    /* what lies beside the file does not make a Diffusers folder of it */
    assert_int_equal(system("mkdir -p transformer && echo '{}' >model_index.json"), 0);
    renders_as(dir, "all.safetensors", &(sg_model_parts){.tokenizer = SG_FIXTURES "/wan22_ti2v/tokenizer"});
    assert_int_equal(system("rmdir transformer && rm model_index.json"), 0);
}

static void an_original_repository_of_two_experts_renders(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    assert_int_equal(system("mkdir -p A14B/high_noise_model A14B/low_noise_model A14B/google && cp -r " SG_FIXTURES
                            "/wan22_a14b/tokenizer A14B/google/umt5-xxl"),
                     0);
    write_component("A14B/high_noise_model/diffusion_pytorch_model.safetensors", dir, "transformer", &sg_wan_dit_names,
                    0, "");
    write_component("A14B/low_noise_model/diffusion_pytorch_model.safetensors", dir, "transformer_2", &sg_wan_dit_names,
                    0, "");
    write_component("A14B/models_t5_umt5-xxl-enc-bf16.safetensors", dir, "text_encoder", &sg_wan_t5_names, 0, "");
    write_component("A14B/Wan2.1_VAE.safetensors", dir, "vae", &sg_wan_vae_names, 3, "");
    write_own("A14B/sparge-gen.json", dir, "");
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
        const char *low, *high, *says;
    } wrong[] = {
        {parts.high_noise_diffusion_model, parts.diffusion_model, "the other way round"},
        {parts.diffusion_model, NULL, "the expert for low noise, one of two; the one for high noise is missing"},
        {parts.high_noise_diffusion_model, NULL,
         "the expert for high noise, one of two; the one for low noise is missing"},
        {NULL, parts.high_noise_diffusion_model, "--diffusion-model FILE gives the other"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sg_error   e = {0};
        sg_engine *g = NULL;
        parts.diffusion_model = wrong[i].low;
        parts.high_noise_diffusion_model = wrong[i].high;
        assert_int_not_equal(sg_engine_open(&g, &(sg_engine_options){.parts = parts, .backend = "cpu"}, &e), SG_OK);
        if (!strstr(e.text, wrong[i].says)) fail_msg("%s", e.text);
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
        write_component("d.safetensors", dir, "transformer", &sg_wan_dit_names, 0, "");
        write_component("v.safetensors", dir, "vae", residual ? &sg_wan_vae_residual_names : &sg_wan_vae_names,
                        strcmp(models[m], "wan21_hd64") == 0 ? 4 : 3, "");
        write_component("t.safetensors", dir, "text_encoder", NULL, 0, "");
        assert_int_equal(sg_checkpoint_open(&c[0], dir, &e), SG_OK);
        if (sg_checkpoint_open_parts(&c[1], NULL, &parts, sg_file_parts, &e)) fail_msg("%s", e.text);
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

/* ---- what is refused ---- */

static void what_is_missing_is_named_with_its_option(void **state)
{
    unlink("sparge-gen.json");
    write_component("dit.safetensors", model, "transformer", &sg_wan_dit_names, 0, "");
    write_component("vae.safetensors", model, "vae", &sg_wan_vae_names, 3, "");
    refused("dit.safetensors", NULL, "the text encoder: give it by --text-encoder (umt5_xxl_");
    refused("dit.safetensors", NULL, "the VAE: give it by --vae (wan_2.1_vae.safetensors");
    refused("vae.safetensors", NULL, "the denoiser: give it by --diffusion-model (wan2.1_t2v_1.3B");
    refused(NULL, &(sg_model_parts){.vae = "vae.safetensors"}, "--model PATH or --diffusion-model FILE");
    refused(NULL,
            &(sg_model_parts){.diffusion_model = "dit.safetensors",
                              .vae = "vae.safetensors",
                              .text_encoder = SG_FIXTURES "/wan21_hd12/text_encoder"},
            "the tokenizer: give it by --tokenizer (spiece.model");
    refused("dit.safetensors", &(sg_model_parts){.vae = "dit.safetensors"},
            "holds no VAE that this program knows (VAE of Wan, VAE of CogVideoX, VAE of Mochi, VAE of HunyuanVideo, "
            "VAE of Flux.1 or Stable Diffusion 3); by "
            "its tensors it is the denoiser of Wan");
    refused("nowhere", NULL, "nowhere: No such file or directory");
    refused("dit.safetensors", &(sg_model_parts){.tokenizer = "nowhere"}, "--tokenizer: nowhere: No such file");
    assert_int_equal(system("mkdir -p empty"), 0);
    refused("empty", NULL, "empty: is no model: it has neither model_index.json");
}

#define HIGH "A14B/high_noise_model/diffusion_pytorch_model.safetensors"
#define LOW "A14B/low_noise_model/diffusion_pytorch_model.safetensors"

/* Of what an_original_repository_of_two_experts_renders has left. */
static void an_expert_alone_is_refused(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    assert_int_equal(rename("A14B/HighNoise.safetensors", HIGH), 0);
    refused("A14B", NULL, "the expert for high noise, one of two; the one for low noise is missing");
    refused("A14B/high_noise_model", NULL, "the one for low noise is missing");
    refused(dir, &(sg_model_parts){.high_noise_diffusion_model = "A14B/low_noise.safetensors"}, "the other way round");
    refused(dir, &(sg_model_parts){.diffusion_model = HIGH}, "the other way round");
    assert_int_equal(rename("A14B/low_noise.safetensors", "A14B/other.safetensors"), 0);
    renders_as(dir, "A14B", &(sg_model_parts){.diffusion_model = "A14B/other.safetensors"});
    assert_int_equal(rename("A14B/other.safetensors", LOW), 0);
    assert_int_equal(rename(HIGH, "A14B/HighNoise.safetensors"), 0);
    refused("A14B", NULL, "the expert for low noise, one of two; the one for high noise is missing");
}

/* Its model_index.json knows of no second one. */
static void two_experts_take_the_place_of_the_denoiser_of_a_folder(void **state)
{
    const char *const dir = SG_FIXTURES "/wan22_a14b";
    assert_int_equal(system("cp -rL " SG_FIXTURES "/wan22_a14b one && rm -r one/transformer_2 && cp " SG_FIXTURES
                            "/wan21_hd12/model_index.json one"),
                     0);
    write_own("one/sparge-gen.json", dir, "");
    renders_as(dir, "one",
               &(sg_model_parts){.high_noise_diffusion_model = "A14B/HighNoise.safetensors", .diffusion_model = LOW});
    sg_error                e = {0};
    sg_engine              *g = NULL;
    const sg_engine_options folders = {.model_dir = "one",
                                       .parts = {.high_noise_diffusion_model = SG_FIXTURES "/wan22_a14b/transformer",
                                                 .diffusion_model = SG_FIXTURES "/wan22_a14b/transformer_2"},
                                       .backend = "cpu"};
    assert_int_equal(sg_engine_open(&g, &folders, &e), SG_E_FORMAT);
    if (!strstr(e.text, "boundary_ratio: there are two experts, and nothing says")) fail_msg("%s", e.text);
}

/* A denoiser with one tensor more. */
static void refused_with(const char *name, const char *says)
{
    const float x = 1;
    put_component(&now, model, "transformer", &sg_wan_dit_names, 0, "");
    put(&now, name, (sg_tensor){.data = (void *)(uintptr_t)&x, .dtype = SG_F32, .rank = 1, .dim = {1}});
    write_out(&now, "strange.safetensors");
    refused(model, &(sg_model_parts){.diffusion_model = "strange.safetensors"}, says);
}

static void variants_that_are_not_rendered_are_refused_by_name(void **state)
{
    refused_with("vace_patch_embedding.weight", "is Wan VACE, which is not rendered; Wan text to video and");
    refused_with("face_adapter.x", "is Wan Animate");
    refused_with("model.diffusion_model.head.modulation", "holds two of the part \"transformer\"");
    refused_with("condition_embedder.time_proj.weight", "holds two of the part \"transformer\"");
}

static void names_beyond_the_model_are_extra(void **state)
{
    static const char *const names[] = {"blocks.9.modulation", "blocks.007.modulation"};
    const float              x = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char       says[64];
        sg_error   e = {0};
        sg_engine *g = NULL;
        put_component(&now, model, "transformer", &sg_wan_dit_names, 0, "");
        put(&now, names[i], (sg_tensor){.data = (void *)(uintptr_t)&x, .dtype = SG_F32, .rank = 1, .dim = {1}});
        write_out(&now, "more.safetensors");
        write_own("sparge-gen.json", model, "");
        const sg_engine_options o = {.parts = {.diffusion_model = "more.safetensors",
                                               .vae = SG_FIXTURES "/wan21_hd12/vae",
                                               .text_encoder = SG_FIXTURES "/wan21_hd12/text_encoder",
                                               .tokenizer = SG_FIXTURES "/wan21_hd12/tokenizer"},
                                     .backend = "cpu"};
        assert_int_equal(sg_engine_open(&g, &o, &e), SG_E_FORMAT);
        snprintf(says, sizeof says, "1 extra\n  extra: %s [1]", names[i]);
        if (!strstr(e.text, says)) fail_msg("%s", e.text);
    }
}

static void tokenizers_inside_a_file_are_bytes(void **state)
{
    sg_engine  *g = NULL;
    float       x[4] = {0};
    const char *says[] = {"\"spiece_model\" should be a list of U8", "not a SentencePiece model"};
    for (int i = 0; i < 2; i++) {
        sg_error e = {0};
        put_component(&now, model, "text_encoder", NULL, 0, "");
        put(&now, "spiece_model",
            (sg_tensor){.data = memset(x, i ? 0xff : 0, sizeof x), .dtype = i ? SG_U8 : SG_F32, .rank = 1, .dim = {4}});
        write_out(&now, "t5.safetensors");
        const sg_engine_options o = {.model_dir = "dit.safetensors",
                                     .parts = {.vae = "vae.safetensors", .text_encoder = "t5.safetensors"},
                                     .backend = "cpu"};
        assert_int_equal(sg_engine_open(&g, &o, &e), SG_E_FORMAT);
        if (!strstr(e.text, says[i])) fail_msg("%s", e.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    return cmocka_run_group_tests(tests, enter, leave);
}
