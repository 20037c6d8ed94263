/* test_opensora_files.c - Open-Sora-Plan in files: its repository, single files, what shapes and configs beside them say,
 * what is refused by its name; the template and the defaults of its scripts. */
#include "opensora_files.h"
#include "safetensors_write.h"
#include "unit.h"

/* ---- files ---- */

enum { TENSORS = 64 };
static sg_named_tensor made[TENSORS];
static char            name[TENSORS][80];
static int             count;

static void put(const char *prefix, const char *tensor, int rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    static uint8_t zeros[1 << 16];
    sg_tensor      t = {.data = zeros, .dtype = SG_U8, .rank = rank, .dim = {a, b, c, d}};
    if (rank == 5) t.dim[4] = d;
    assert_true(count < TENSORS && sg_bytes(t) <= sizeof zeros);
    snprintf(name[count], sizeof *name, "%s%s", prefix, tensor);
    made[count] = (sg_named_tensor){name[count], t};
    count++;
}

static void save(const char *path)
{
    sg_error e = {0};
    make_folders(path);
    assert_done(sg_safetensors_write_all(path, made, count, NULL, &e), &e);
    count = 0;
}

/* 2 heads of 96, 2 blocks, patches of 2 x 2, 8 channels; texts of 16. */
static void save_denoiser(const char *path, const char *prefix, bool picture)
{
    put(prefix, "pos_embed.proj.weight", 4, 192, 8, 2, 2);
    put(prefix, "caption_projection.linear_1.weight", 2, 192, 16, 0, 0);
    put(prefix, "transformer_blocks.0.scale_shift_table", 2, 6, 192, 0, 0);
    put(prefix, "transformer_blocks.0.attn1.to_q.bias", 1, 192, 0, 0, 0);
    put(prefix, "transformer_blocks.1.scale_shift_table", 2, 6, 192, 0, 0);
    put(prefix, "proj_out.bias", 1, 32, 0, 0, 0);
    if (picture) put(prefix, "pos_embed_mask.0.proj.weight", 4, 192, 4, 2, 2);
    save(path);
}

/* 4 base channels, 8 of latents, 3 and 1 resnets, 5 and 6 of the energy. */
static void save_vae(const char *path, const char *prefix, bool layer, bool attention)
{
    put(prefix, "encoder.down1.0.weight", 4, 4, 24, 3, 3);
    put(prefix, "encoder.down1.1.conv1.weight", 4, 4, 4, 3, 3);
    put(prefix, "encoder.down1.2.conv1.weight", 4, 4, 4, 3, 3);
    put(prefix, "encoder.down1.3.conv1.weight", 4, 4, 4, 3, 3);
    put(prefix, "encoder.down1.4.conv.weight", 4, 4, 4, 3, 3);
    put(prefix, "encoder.connect_l1.bias", 1, 5, 0, 0, 0);
    put(prefix, "decoder.conv_in.conv.weight", 5, 16, 8, 3, 3);
    put(prefix, "decoder.conv_in.conv.bias", 1, 16, 0, 0, 0);
    put(prefix, layer ? "decoder.mid.0.norm1.norm.weight" : "decoder.mid.0.norm1.weight", 1, 16, 0, 0, 0);
    if (attention) put(prefix, "decoder.mid.1.q.conv.weight", 5, 16, 16, 1, 1);
    put(prefix, "decoder.up2.0.conv1.conv.weight", 5, 16, 16, 3, 3);
    put(prefix, "decoder.up2.1.conv.conv.weight", 5, 16, 16, 3, 3);
    put(prefix, "decoder.up2.2.conv1.conv.weight", 5, 16, 16, 3, 3);
    put(prefix, "decoder.connect_l2.0.conv1.conv.weight", 5, 6, 6, 3, 3);
    put(prefix, "decoder.connect_l2.1.conv1.conv.weight", 5, 6, 6, 3, 3);
    put(prefix, "decoder.connect_l2.2.weight", 4, 24, 6, 3, 3);
    save(path);
}

/* As google/mt5-xxl: encoder and decoder in pytorch_model.bin. It is safetensors here, since its format goes by content. */
static void save_text_encoder(void)
{
    put("", "encoder.block.0.layer.0.SelfAttention.q.weight", 2, 4, 4, 0, 0);
    put("", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 2, 8, 2, 0, 0);
    put("", "shared.weight", 2, 8, 4, 0, 0);
    put("", "lm_head.weight", 2, 8, 4, 0, 0);
    save("mt5-xxl/pytorch_model.bin");
    write_text("mt5-xxl/config.json",
               "{\"architectures\": [\"MT5ForConditionalGeneration\"], \"model_type\": \"mt5\"}");
    write_text("mt5-xxl/spiece.model", "");
}

static const sg_model_parts text = {.text_encoder = "mt5-xxl"};

static int64_t whole(sg_config *c, const char *key) { return sg_config_int(c, key, 0, 1 << 20, NULL); }

static void opens(sg_checkpoint **c, const char *path, const sg_model_parts *parts)
{
    sg_error e = {0};
    assert_done(sg_checkpoint_open_parts(c, path, parts, sg_files_of, &e), &e);
}

static sg_config *config_of(const sg_checkpoint *c, const char *component)
{
    sg_config *f = NULL;
    sg_error   e = {0};
    assert_done(sg_checkpoint_config(c, component, &f, &e), &e);
    return f;
}

static void closes(sg_config *f)
{
    assert_int_equal(sg_config_status(f), SG_OK);
    sg_config_close(&f);
}

static void has_class(const sg_checkpoint *c, const char *component, const char *class)
{
    sg_config *f = NULL;
    sg_error   e = {0};
    assert_done(sg_checkpoint_index(c, &f, &e), &e);
    assert_string_equal(sg_config_string(f, "_class_name", ""), "OpenSoraPipeline");
    assert_string_equal(sg_config_string_at(f, component, 1), class);
    closes(f);
}

static void check_denoiser(const sg_checkpoint *c, int head, int sparse)
{
    sg_config *const f = config_of(c, "transformer");
    assert_int_equal(whole(f, "num_layers"), 2);
    assert_int_equal(whole(f, "num_attention_heads"), 192 / head);
    assert_int_equal(whole(f, "attention_head_dim"), head);
    assert_int_equal(whole(f, "in_channels"), 8);
    assert_int_equal(whole(f, "out_channels"), 8);
    assert_int_equal(whole(f, "patch_size"), 2);
    assert_int_equal(whole(f, "caption_channels"), 16);
    assert_int_equal(whole(f, "sparse_n"), sparse);
    assert_true(sg_config_bool(f, "attention_bias", NULL) && sg_config_bool(f, "sparse1d", NULL));
    closes(f);
    has_class(c, "transformer", "OpenSoraT2V_v1_3");
}

static void check_vae(const sg_checkpoint *c, bool layer, bool attention)
{
    sg_config *const f = config_of(c, "vae");
    assert_int_equal(whole(f, "latent_dim"), 8);
    assert_int_equal(whole(f, "base_channels"), 4);
    assert_int_equal(whole(f, "encoder_num_resblocks"), 3);
    assert_int_equal(whole(f, "encoder_energy_flow_hidden_size"), 5);
    assert_int_equal(whole(f, "decoder_num_resblocks"), 1);
    assert_int_equal(whole(f, "decoder_energy_flow_hidden_size"), 6);
    assert_int_equal(whole(f, "connect_res_layer_num"), 2);
    assert_true(sg_config_bool(f, "use_attention", NULL) == attention);
    assert_string_equal(sg_config_string(f, "norm_type", ""), layer ? "layernorm" : "groupnorm");
    assert_string_equal(sg_config_string(f, "t_interpolation", ""), "trilinear");
    closes(f);
    has_class(c, "vae", "WFVAEModel");
}

/* ---- the repository ---- */

#define DIT "diffusion_pytorch_model.safetensors"

static void the_repository_opens(void **state)
{
    sg_checkpoint     *c = NULL;
    sg_source         *s = NULL;
    const sg_name_map *map;
    sg_error           e = {0};
    save_denoiser("plan/any93x640x640/" DIT, "", false);
    save_denoiser("plan/any93x640x640_i2v/" DIT, "", true);
    save_vae("plan/vae/checkpoint-1.ckpt", "module.", true, true);
    write_text("plan/vae/config.json", "{\"_class_name\": \"WFVAEModel\", \"t_interpolation\": \"trilinear\"}");
    save_text_encoder();
    opens(&c, "plan", &text);
    check_denoiser(c, 96, 4);
    check_vae(c, true, true);
    has_class(c, "text_encoder", "MT5EncoderModel");
    sg_config *const f = config_of(c, "scheduler");
    assert_string_equal(sg_config_string(f, "_class_name", ""), "EulerAncestralDiscreteScheduler");
    assert_string_equal(sg_config_string(f, "prediction_type", ""), "v_prediction");
    assert_true(sg_config_bool(f, "rescale_betas_zero_snr", NULL));
    closes(f);
    assert_done(sg_checkpoint_source(c, "text_encoder", &s, &map, &e), &e);
    assert_int_equal(sg_source_count(s), 4);
    sg_source_close(&s);
    assert_done(sg_checkpoint_source(c, "vae", &s, &map, &e), &e);
    assert_string_equal(map->prefix, "module.");
    sg_source_close(&s);
    sg_checkpoint_close(&c);

    /* what config.json says counts, where it is of the model's class; a .ckpt comes after safetensors */
    write_text("plan/any93x640x640/config.json",
               "{\"_class_name\": \"OpenSoraT2V_v1_3\", \"attention_head_dim\": 48, \"num_attention_heads\": 4,"
               "\"sparse_n\": 1}");
    save_vae("plan/vae/" DIT, "", false, false);
    opens(&c, "plan", &text);
    check_denoiser(c, 48, 1);
    check_vae(c, false, false);
    sg_checkpoint_close(&c);

    /* the denoiser's folder alone, with the VAE by an option */
    opens(&c, "plan/any93x640x640", &(sg_model_parts){.text_encoder = "mt5-xxl", .vae = "plan/vae/checkpoint-1.ckpt"});
    check_denoiser(c, 48, 1);
    sg_checkpoint_close(&c);
}

static void files_open(void **state)
{
    sg_checkpoint *c = NULL;
    save_denoiser("dit.safetensors", "model.diffusion_model.", false);
    save_vae("vae.safetensors", "vae.", true, false);
    save_text_encoder();
    opens(&c, NULL,
          &(sg_model_parts){.diffusion_model = "dit.safetensors",
                            .vae = "vae.safetensors",
                            .text_encoder = "mt5-xxl/pytorch_model.bin"});
    check_denoiser(c, 96, 4);
    check_vae(c, true, false);
    has_class(c, "text_encoder", "T5EncoderModel");
    sg_checkpoint_close(&c);
}

static void refused(const char *path, const sg_model_parts *parts, sg_status code, const char *names)
{
    sg_checkpoint *c = NULL;
    sg_error       e = {0};
    assert_refused(sg_checkpoint_open_parts(&c, path, parts, sg_files_of, &e), code, &e, names);
    assert_null(c);
}

static void other_models_are_refused(void **state)
{
    save_text_encoder();
    save_vae("picture/vae/" DIT, "", true, true);
    save_denoiser("picture/any93x640x640_i2v/" DIT, "", true);
    refused("picture", &text, SG_E_UNSUPPORTED, "any93x640x640_i2v|OpenSoraInpaint_v1_3|OpenSoraT2V_v1_3");
    save_denoiser("before/" DIT, "", false);
    write_text("before/config.json", "{\"_class_name\": \"OpenSoraT2V\"}");
    refused("before", &(sg_model_parts){.text_encoder = "mt5-xxl", .vae = "picture/vae/" DIT}, SG_E_UNSUPPORTED,
            "before|denoiser OpenSoraT2V;|OpenSoraT2V_v1_3");
    save_denoiser("plain/any93x640x640/" DIT, "", false);
    save_vae("plain/vae/" DIT, "", true, true);
    refused("plain", NULL, SG_E_FILE, "text_encoder=FILE|google/mt5-xxl|tokenizer=PATH");
    refused("plain", &(sg_model_parts){.vae = "plain/any93x640x640/" DIT}, SG_E_UNSUPPORTED,
            "denoiser of Open-Sora-Plan|WF-VAE of Open-Sora-Plan");
    shell("mkdir empty");
    refused("empty", NULL, SG_E_FILE, "empty|any93x640x640/ of Open-Sora-Plan's");
}

/* ---- beside the networks ---- */

static void the_prompt_has_a_template(void **state)
{
    char    *out = NULL;
    size_t   size = 0;
    sg_error e = {0};
    assert_done(sg_opensora_prompt(NULL, 0, 0, "a red ball", &out, &size, &e), &e);
    assert_string_equal(out, "high quality, high aesthetic, a red ball");
    assert_int_equal(size, strlen(out));
    free(out);
    out = NULL;
    assert_done(sg_opensora_prompt(NULL, 0, 1, "blurry", &out, &size, &e), &e);
    assert_null(out);
}

static void defaults_are_those_of_the_scripts(void **state)
{
    const sg_components c = {
        .patch = {1, 2, 2}, .frames = {.step = 4}, .vae.info = {.scale_space = 8, .scale_time = 4}};
    const struct {
        const char *config;
        int         width, height, frames;
    } of[] = {{"{}", 640, 640, 93},
              {"{\"sample_size_h\": 45, \"sample_size_w\": 80, \"sample_size_t\": 8}", 640, 352, 29}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_config *f = NULL;
        sg_error   e = {0};
        write_text("config.json", of[i].config);
        assert_done(sg_config_open(&f, "config.json", &e), &e);
        const sg_request r = sg_opensora_defaults(&c, f);
        assert_int_equal(r.width, of[i].width);
        assert_int_equal(r.height, of[i].height);
        assert_int_equal(r.frames, of[i].frames);
        assert_true(r.fps == 18 && r.steps == 100 && r.cfg_scale == 7.5);
        assert_non_null(strstr(r.negative_prompt, "nsfw, lowres, "));
        closes(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_repository_opens),
        cmocka_unit_test(files_open),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(the_prompt_has_a_template),
        cmocka_unit_test(defaults_are_those_of_the_scripts),
    };
    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
