/* test_part_files.c - files of CLIP's image encoder, of Wan 2.1 image to video, of CogVideoX, of Mochi and of HunyuanVideo: they render as the
 * Diffusers folders that they are made of. */
#include "part_files.h"

#include "cogvideox_names.h"
#include "file_names.h"
#include "flux_names.h"
#include "hunyuan_names.h"
#include "lora.h"
#include "mochi_names.h"
#include "sd3_names.h"
#include "wan_names.h"

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
    assert_int_equal(system("mkdir -p I2V/google comfy && cp -rL " I2V "/tokenizer I2V/google/umt5-xxl"), 0);
    write_component("I2V/diffusion_pytorch_model.safetensors", I2V, "transformer", &sg_wan_dit_names, 0, "");
    write_component("I2V/models_t5.safetensors", I2V, "text_encoder", &sg_wan_t5_names, 0, "");
    write_component("I2V/Wan2.1_VAE.safetensors", I2V, "vae", &sg_wan_vae_names, 3, "");
    write_clip("I2V/models_clip.safetensors", &sg_wan_clip_vision_names, "visual.");
    write_beside("I2V", I2V, clip_own);
    renders_as(I2V, "I2V", NULL);
    /* ComfyUI's files */
    write_component("comfy/dit.safetensors", I2V, "transformer", &sg_wan_dit_names, 0, "model.diffusion_model.");
    write_clip("comfy/clip_vision_h.safetensors", NULL, "vision_model.");
    write_beside("comfy", I2V, clip_own);
    const sg_model_parts parts = {.diffusion_model = "comfy/dit.safetensors",
                                  .vae = "I2V/Wan2.1_VAE.safetensors",
                                  .text_encoder = "I2V/models_t5.safetensors",
                                  .clip_vision = "comfy/clip_vision_h.safetensors"};
    renders_as(I2V, NULL, &parts);
    /* beside a folder that knows no image encoder */
    assert_int_equal(system("cp -rL " SG_FIXTURES "/wan21_hd12 t2v"), 0);
    write_beside("t2v", I2V, clip_own);
    assert_int_equal(system("cp -rL " I2V "/text_encoder " I2V "/vae t2v"), 0);
    renders_as(I2V, "t2v",
               &(sg_model_parts){.diffusion_model = parts.diffusion_model, .clip_vision = parts.clip_vision});
}

/* The names of two spellings, and the numbers of their places. */
static void first_and_last_frame_renders(void **state)
{
    enum { TOKENS = 2 * 17, WIDTH = 16 };
    static frames        seen[2];
    static float         place[TOKENS * WIDTH];
    const sg_tensor      places = {.data = place, .dtype = SG_F32, .rank = 3, .dim = {1, TOKENS, WIDTH}};
    const sg_model_parts parts[2] = {{.diffusion_model = "flf.safetensors"}, {.diffusion_model = "named.safetensors"}};
    for (int i = 0; i < TOKENS * WIDTH; i++) place[i] = (float)(i % 13 - 6) / 8;
    put_component(&now, I2V, "transformer", &sg_wan_dit_names, 0, "");
    put(&now, "img_emb.emb_pos", places);
    write_out(&now, parts[0].diffusion_model);
    put_component(&now, I2V, "transformer", NULL, 0, "");
    put(&now, "condition_embedder.image_embedder.pos_embed", places);
    write_out(&now, parts[1].diffusion_model);
    assert_int_equal(system("cp -rL " I2V " flf"), 0);
    write_text("flf/sparge-gen.json", "{\"transformer\": {\"num_attention_heads\": 2, \"attention_head_dim\": 12, "
                                      "\"rope_max_seq_len\": 32}}");
    for (int i = 0; i < 2; i++) render(&seen[i], "flf", &parts[i]);
    assert_int_equal(seen[0].used, seen[1].used);
    assert_memory_equal(seen[0].rgb, seen[1].rgb, seen[0].used);
    render(&folder_frames, I2V, NULL); /* which sees the first picture alone */
    assert_memory_not_equal(seen[0].rgb, folder_frames.rgb, seen[0].used);
}

static void image_to_video_of_two_experts_renders(void **state)
{
    static const char dir[] = SG_FIXTURES "/wan22_i2v";
    assert_int_equal(system("mkdir -p two"), 0);
    write_component("two/high_noise.safetensors", dir, "transformer", &sg_wan_dit_names, 0, "");
    write_component("two/low_noise.safetensors", dir, "transformer_2", &sg_wan_dit_names, 0, "");
    write_beside("two", dir, ", \"model_index\": {\"boundary_ratio\": 0.875}");
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
        char              command[512];
        snprintf(
            command, sizeof command,
            "rm -rf sat && mkdir -p sat/transformer/1000 sat/vae && cp -rL '%s/text_encoder' sat/t5-v1_1-xxl && cp "
            "'%s/tokenizer/spiece.model' sat/t5-v1_1-xxl",
            dir, dir);
        assert_int_equal(system(command), 0);
        put_component(&now, dir, "transformer", &sg_cogvideox_dit_names, 0, "model.diffusion_model.");
        put(&now,
            i ? "model.diffusion_model.mixins.pos_embed.freqs_sin"
              : "model.diffusion_model.mixins.pos_embed.pos_embedding",
            two);
        write_out(&now, "sat/transformer/1000/mp_rank_00_model_states.safetensors");
        put_component(&now, dir, "vae", &sg_cogvideox_vae_names, cogs[i].levels, "");
        put(&now, "loss.logvar", two);
        write_out(&now, "sat/vae/3d-vae.safetensors");
        write_beside("sat", dir, cogs[i].own);
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

/* Of the small one's VAE. */
static const char *mochi_own(void)
{
    static char more[2048];
    char *const vae = text_of(MOCHI, "vae/config.json");
    snprintf(more, sizeof more, ", \"vae\": %s", vae);
    free(vae);
    return more;
}

static void an_original_repository_and_one_file_of_mochi_render(void **state)
{
    assert_int_equal(system("mkdir -p mochi/google && cp -rL " MOCHI "/tokenizer mochi/google/t5-v1_1-xxl"), 0);
    write_component("mochi/dit.safetensors", MOCHI, "transformer", &sg_mochi_dit_names, 0, "");
    write_component("mochi/decoder.safetensors", MOCHI, "vae", &sg_mochi_vae_names, 0, "");
    write_component("mochi/t5xxl_fp16.safetensors", MOCHI, "text_encoder", NULL, 0, "");
    write_beside("mochi", MOCHI, mochi_own());
    renders_as(MOCHI, "mochi", &(sg_model_parts){.text_encoder = "mochi/t5xxl_fp16.safetensors"});
    put_component(&now, MOCHI, "transformer", &sg_mochi_dit_names, 0, "model.diffusion_model.");
    put_component(&now, MOCHI, "vae", &sg_mochi_vae_names, 0, "vae.decoder.");
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
    assert_int_equal(system("mkdir -p hunyuan/transformers hunyuan/vae"), 0);
    write_component("hunyuan/transformers/mp_rank_00_model_states.safetensors", HUNYUAN, "transformer",
                    &sg_hunyuan_dit_names, 0, "");
    write_component("hunyuan/vae/pytorch_model.safetensors", HUNYUAN, "vae", NULL, 0, "vae.");
    write_component("hunyuan/llava_llama3.safetensors", HUNYUAN, "text_encoder", NULL, 0, "model.");
    write_component("hunyuan/clip_l.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "text_model.");
    write_beside("hunyuan", HUNYUAN, hunyuan_own());
    renders_as(HUNYUAN, "hunyuan", &parts);
    /* one file, as ComfyUI has it, beside the tokenizers' folders */
    assert_int_equal(system("mkdir hunyuan/all && cp -rL " HUNYUAN
                            "/tokenizer hunyuan/all/llava-llama-3-8b-text-encoder-tokenizer && cp -rL " HUNYUAN
                            "/tokenizer_2 hunyuan/all/clip-vit-large-patch14"),
                     0);
    put_component(&now, HUNYUAN, "transformer", &sg_hunyuan_dit_names, 0, "model.diffusion_model.");
    put_component(&now, HUNYUAN, "vae", &sg_ldm_vae_names, 4, "vae.");
    put_component(&now, HUNYUAN, "text_encoder", NULL, 0, "text_encoders.llama.transformer.model.");
    put_component(&now, HUNYUAN, "text_encoder_2", NULL, 0, "text_encoders.clip_l.transformer.text_model.");
    write_out(&now, "hunyuan/all/all.safetensors");
    write_beside("hunyuan/all", HUNYUAN, hunyuan_own());
    renders_as(HUNYUAN, "hunyuan/all/all.safetensors", NULL);
    /* the denoiser as ComfyUI saves it, today and before */
    static const sg_name_map *const saved[] = {&sg_hunyuan_dit_saved_names, &sg_hunyuan_dit_saved_before_names};
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

static void same_number(const char *key, sg_config *a, sg_config *b)
{
    const int64_t none = -1;
    const int64_t x = sg_config_int(a, key, -1, 1 << 24, &none), y = sg_config_int(b, key, -1, 1 << 24, &none);
    if (x != y) fail_msg("%s: %lld in the folder, %lld from the file", key, (long long)x, (long long)y);
}

static void same_list(const char *key, sg_config *a, sg_config *b)
{
    int64_t   x[8] = {0}, y[8] = {0};
    const int n = sg_config_ints(a, key, 1, 1 << 20, x, 1, 8);
    assert_int_equal(sg_config_ints(b, key, 1, 1 << 20, y, 1, 8), n);
    assert_memory_equal(x, y, sizeof x);
}

/* Nothing beside the files says it. Keys of lists begin with []. */
static void shapes_give_the_config(void **state)
{
    static const struct {
        const char        *dir, *component;
        const sg_name_map *names;
        int                span;
        const char        *prefix, *key[14];
    } of[] = {
        {I2V,
         "transformer",
         &sg_wan_dit_names,
         0,
         "",
         {"ffn_dim", "num_layers", "in_channels", "out_channels", "image_dim", "added_kv_proj_dim",
          "pos_embed_seq_len"}},
        {I2V,
         "image_encoder",
         &sg_wan_clip_vision_names,
         0,
         "visual.",
         {"hidden_size", "num_hidden_layers", "intermediate_size", "patch_size", "image_size"}},
        {SG_FIXTURES "/cogvideox_2b",
         "transformer",
         &sg_cogvideox_dit_names,
         0,
         "",
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "out_channels", "text_embed_dim",
          "time_embed_dim", "patch_size", "patch_size_t", "ofs_embed_dim"}},
        {SG_FIXTURES "/cogvideox_15",
         "transformer",
         NULL,
         0,
         "",
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "out_channels", "text_embed_dim",
          "time_embed_dim", "patch_size", "patch_size_t", "ofs_embed_dim"}},
        {SG_FIXTURES "/cogvideox_5b",
         "vae",
         &sg_cogvideox_vae_names,
         3,
         "",
         {"latent_channels", "layers_per_block", "out_channels", "[]block_out_channels"}},
        {MOCHI,
         "transformer",
         &sg_mochi_dit_names,
         0,
         "",
         {"num_attention_heads", "attention_head_dim", "num_layers", "in_channels", "pooled_projection_dim",
          "text_embed_dim", "time_embed_dim", "patch_size"}},
        {HUNYUAN,
         "transformer",
         &sg_hunyuan_dit_names,
         0,
         "",
         {"num_attention_heads", "attention_head_dim", "num_layers", "num_single_layers", "num_refiner_layers",
          "in_channels", "out_channels", "text_embed_dim", "pooled_projection_dim", "patch_size", "patch_size_t"}},
        {HUNYUAN,
         "vae",
         &sg_ldm_vae_names,
         4,
         "",
         {"latent_channels", "layers_per_block", "out_channels", "[]block_out_channels"}},
        {MOCHI,
         "vae",
         &sg_mochi_vae_names,
         0,
         "decoder.",
         {"latent_channels", "out_channels", "[]layers_per_block", "[]decoder_block_out_channels",
          "[]temporal_expansions", "[]spatial_expansions"}},
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        sg_error       e = {0};
        sg_checkpoint *c[2] = {NULL, NULL};
        sg_config     *f[2] = {NULL, NULL};
        sg_model_parts parts = {.diffusion_model = SG_FIXTURES "/wan21_i2v/transformer"};
        const char   **to = strcmp(of[i].component, "vae") == 0             ? &parts.vae
                            : strcmp(of[i].component, "image_encoder") == 0 ? &parts.clip_vision
                                                                            : &parts.diffusion_model;
        assert_int_equal(system("mkdir -p alone && rm -f alone/sparge-gen.json"), 0);
        *to = "alone/part.safetensors";
        write_component(*to, of[i].dir, of[i].component, of[i].names, of[i].span, of[i].prefix);
        assert_int_equal(sg_checkpoint_open(&c[0], of[i].dir, &e), SG_OK);
        if (sg_checkpoint_open_parts(&c[1], of[i].dir, &parts, sg_file_parts, &e)) fail_msg("%s", e.text);
        for (int k = 0; k < 2; k++) assert_int_equal(sg_checkpoint_config(c[k], of[i].component, &f[k], &e), SG_OK);
        for (const char *const *key = of[i].key; *key; key++)
            if (**key == '[')
                same_list(*key + 2, f[0], f[1]);
            else
                same_number(*key, f[0], f[1]);
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
        if (sg_checkpoint_open_parts(&c, NULL, &parts, sg_file_parts, &e)) fail_msg("%s", e.text);
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
    } of[] = {{I2V, &sg_wan_dit_names},         {COG, &sg_cogvideox_dit_names}, {MOCHI, &sg_mochi_dit_names},
              {HUNYUAN, &sg_hunyuan_dit_names}, {FLUX, &sg_flux_dit_names},     {SD35, &sd3}};
    static frames named;
    sd3 = sg_sd3_dit_names;
    sd3.span = 3;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        write_loras(of[i].dir, of[i].names, "named.safetensors", "joined.safetensors");
        with_lora = (sg_lora_option){.path = "named.safetensors", .strength = 0.5};
        render(&named, of[i].dir, NULL);
        with_lora.path = "joined.safetensors";
        render(&file_frames, of[i].dir, NULL);
        with_lora.path = NULL;
        render(&folder_frames, of[i].dir, NULL);
        assert_int_equal(named.used, file_frames.used);
        assert_memory_equal(named.rgb, file_frames.rgb, named.used);
        assert_memory_not_equal(named.rgb, folder_frames.rgb, named.used);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_original_repository_of_image_to_video_renders),
        cmocka_unit_test(first_and_last_frame_renders),
        cmocka_unit_test(image_to_video_of_two_experts_renders),
        cmocka_unit_test(an_original_repository_of_cogvideox_renders),
        cmocka_unit_test(an_original_repository_and_one_file_of_mochi_render),
        cmocka_unit_test(files_and_one_file_of_hunyuan_render),
        cmocka_unit_test(shapes_give_the_config),
        cmocka_unit_test(published_sizes_of_cogvideox_are_told_apart),
        cmocka_unit_test(loras_go_by_either_names),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
