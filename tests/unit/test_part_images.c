/* test_part_images.c - files of Flux.1 and of Stable Diffusion 3: their configs from the shapes of published models, which text encoder is
 * which, and what is refused. */
#include "part_files.h"

#include "file_names.h"
#include "flux_names.h"
#include "gguf_file.h"
#include "sd3_names.h"

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
    if (sg_checkpoint_open_parts(&c, NULL, &parts, sg_file_parts, &e)) fail_msg("%s", e.text);
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

typedef struct published {
    int64_t width, layers, side; /* places of the picture, a row */
    int     duals;
    bool    norms;
} published;

static void write_sd3(const char *path, const published *p)
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
    static const published   of[] = {{2432, 38, 19, 0, true},   /* 3.5 large, of fewer places */
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

/* ---- what is missing or does not fit ---- */

static void what_goes_with_the_denoiser_is_asked_for(void **state)
{
    assert_int_equal(system("mkdir -p alone"), 0);
    write_flux("alone/flux.safetensors", 64, true, "scale");
    write_sd3("alone/sd3.safetensors", &(published){1536, 2, 8, 0, true});
    write_component("alone/clip.safetensors", HUNYUAN, "text_encoder_2", NULL, 0, "");
    refused("alone/flux.safetensors", NULL, "the text encoder: give it by --text-encoder (t5xxl_fp16.safetensors");
    refused("alone/flux.safetensors", NULL, "the CLIP-L text encoder: give it by --clip-l (clip_l.safetensors)");
    refused("alone/flux.safetensors", NULL,
            "the tokenizer: give it by --tokenizer (spiece.model, or google/t5-v1_1-xxl/ beside the text encoder)");
    refused("alone/flux.safetensors", NULL,
            "the tokenizer of the CLIP-L text encoder: give it by --clip-tokenizer (clip-vit-large-patch14/ beside");
    refused("alone/flux.safetensors", NULL, "the VAE: give it by --vae (ae.safetensors");
    refused("alone/flux.safetensors", &(sg_model_parts){.clip_g = "alone/clip.safetensors"},
            "--clip-g: alone/clip.safetensors: this model has no CLIP-G text encoder");
    refused("alone/sd3.safetensors", NULL, "the CLIP-G text encoder: give it by --clip-g (clip_g.safetensors)");
    refused("alone/sd3.safetensors", NULL, "the tokenizer of the CLIP-G text encoder: give it by --clip-tokenizer");
    /* T5 may be missing */
    sg_error             e = {0};
    sg_checkpoint       *c = NULL;
    const sg_model_parts parts = {.vae = HUNYUAN "/vae",
                                  .clip_l = "alone/clip.safetensors",
                                  .clip_g = "alone/clip.safetensors",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    if (sg_checkpoint_open_parts(&c, "alone/sd3.safetensors", &parts, sg_file_parts, &e)) fail_msg("%s", e.text);
    assert_true(sg_checkpoint_has(c, "text_encoder_2"));
    assert_false(sg_checkpoint_has(c, "text_encoder_3"));
    assert_false(sg_checkpoint_has(c, "tokenizer_3"));
    sg_checkpoint_close(&c);
    /* a file of CLIP may be either of the two, and is no model */
    refused("alone/clip.safetensors", NULL, "the denoiser: give it by --diffusion-model");
}

static void variants_are_refused_by_name(void **state)
{
    const sg_model_parts parts = {.vae = HUNYUAN "/vae",
                                  .text_encoder = COG "/text_encoder",
                                  .tokenizer = COG "/tokenizer",
                                  .clip_l = HUNYUAN "/text_encoder_2",
                                  .clip_tokenizer = HUNYUAN "/tokenizer_2"};
    write_flux("fill.safetensors", 384, true, "scale");
    refused("fill.safetensors", &parts,
            "fill.safetensors: has 384 numbers a token where it gives 64: this is Flux.1 Fill");
    put_shape("double_blocks.0.img_attn.norm.key_norm.scale", 1, 128, 0, 0, 0);
    put_shape("distilled_guidance_layer.norms.0.scale", 1, 1, 0, 0, 0);
    write_out(&now, "chroma.safetensors");
    refused("chroma.safetensors", &parts, "chroma.safetensors: is Chroma, which is not supported");
    put_shape("single_transformer_blocks.0.attn.norm_q.weight", 1, 128, 0, 0, 0);
    put_shape("controlnet_blocks.0.weight", 2, 1, 1, 0, 0);
    write_out(&now, "control.safetensors");
    refused("control.safetensors", &parts, "control.safetensors: is a ControlNet, which is not supported");
    put_shape("controlnet_blocks.0.weight", 2, 1, 1, 0, 0);
    write_out(&now, "control.safetensors");
    refused("control.safetensors", &parts, "; by its tensors it is a ControlNet");
    write_flux("canny.safetensors", 128, true, NULL);
    refused("canny.safetensors", &parts, "this is Flux.1 Canny or Depth, which is not supported; dev and schnell are");
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
        char              command[1024];
        snprintf(command, sizeof command,
                 "rm -rf files && mkdir -p files/google && cp -rL '%s/tokenizer_2' files/google/t5-v1_1-xxl && cp -rL "
                 "'%s/tokenizer' files/clip-vit-large-patch14",
                 dir, dir);
        assert_int_equal(system(command), 0);
        write_component("files/flux1.safetensors", dir, "transformer", &sg_flux_dit_names, 0, "");
        write_component("files/ae.safetensors", dir, "vae", &sg_ldm_vae_names, of[i].levels, "");
        write_component("files/clip_l.safetensors", dir, "text_encoder", NULL, 0, "");
        write_component("files/t5xxl_fp16.safetensors", dir, "text_encoder_2", NULL, 0, "");
        write_beside("files", dir, configs_of(dir, flux_parts));
        const sg_model_parts parts = {.vae = "files/ae.safetensors",
                                      .text_encoder = "files/t5xxl_fp16.safetensors",
                                      .clip_l = "files/clip_l.safetensors"};
        renders_as(dir, "files/flux1.safetensors", &parts);
        /* all in one, as ComfyUI has it */
        put_component(&now, dir, "transformer", i ? &sg_flux_dit_names : &sg_flux_dit_saved_names, 0,
                      "model.diffusion_model.");
        put_component(&now, dir, "vae", &sg_ldm_vae_names, of[i].levels, "vae.");
        put_component(&now, dir, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
        put_component(&now, dir, "text_encoder_2", NULL, 0, "text_encoders.t5xxl.transformer.");
        write_out(&now, "files/all.safetensors");
        renders_as(dir, "files/all.safetensors", NULL);
        /* in place of a folder's, in Diffusers' names and in GGUF */
        put_component(&now, dir, "transformer", &sg_flux_dit_names, 0, "");
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
    static const char *const kinds[2][2] = {{"down", "up"}, {"lora_down", "lora_up"}};
    static float             x[5 * WIDTH * RANK];
    static frames            seen[3];
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)((int)(i * 7 % 11) - 5) / 8;
    for (int names = 0; names < 2; names++) {
        for (size_t i = 0; i < sizeof of / sizeof *of; i++)
            for (int up = 0; up < 2; up++) {
                char            key[128];
                const sg_tensor t = {.data = x,
                                     .dtype = SG_F32,
                                     .rank = 2,
                                     .dim = {up ? of[i].up * WIDTH : RANK, up ? RANK : of[i].down * WIDTH}};
                snprintf(key, sizeof key, "%s.%s.weight", names ? of[i].kohya : of[i].xlabs, kinds[names][up]);
                put(&now, key, t);
            }
        write_out(&now, "lora.safetensors");
        with_lora = (sg_lora_option){.path = "lora.safetensors", .strength = 1};
        render(&seen[names], FLUX, NULL);
        with_lora.path = NULL;
    }
    render(&seen[2], FLUX, NULL);
    assert_memory_equal(seen[0].rgb, seen[1].rgb, seen[0].used);
    assert_memory_not_equal(seen[0].rgb, seen[2].rgb, seen[0].used);
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
    assert_int_equal(system("mkdir -p sd35/google && cp -rL " SD35
                            "/tokenizer_3 sd35/google/t5-v1_1-xxl && cp -rL " SD35
                            "/tokenizer sd35/clip-vit-large-patch14"),
                     0);
    write_component("sd35/dit.safetensors", SD35, "transformer", &sg_sd3_dit_names, 3, "model.diffusion_model.");
    write_component("sd35/vae.safetensors", SD35, "vae", &sg_ldm_vae_names, 4, "");
    write_component("sd35/clip_l.safetensors", SD35, "text_encoder", NULL, 0, "");
    write_component("sd35/clip_g.safetensors", SD35, "text_encoder_2", NULL, 0, "");
    write_component("sd35/t5xxl.safetensors", SD35, "text_encoder_3", NULL, 0, "");
    write_beside("sd35", SD35, configs_of(SD35, sd35_parts));
    renders_as(SD35, "sd35/dit.safetensors", &parts);
    /* all in one, beside the tokenizers' folders */
    put_component(&now, SD35, "transformer", &sg_sd3_dit_names, 3, "model.diffusion_model.");
    put_component(&now, SD35, "vae", &sg_ldm_vae_names, 4, "first_stage_model.");
    put_component(&now, SD35, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
    put_component(&now, SD35, "text_encoder_2", NULL, 0, "text_encoders.clip_g.transformer.");
    put_component(&now, SD35, "text_encoder_3", NULL, 0, "text_encoders.t5xxl.transformer.");
    write_out(&now, "sd35/all.safetensors");
    renders_as(SD35, "sd35/all.safetensors", NULL);
    /* the original repository, whose denoiser has the VAE in its file */
    assert_int_equal(
        system("mkdir -p repository/text_encoders && cp sd35/sparge-gen.json repository && cd sd35 && cp "
               "clip_l.safetensors "
               "clip_g.safetensors t5xxl.safetensors google clip-vit-large-patch14 -r ../repository/text_encoders"),
        0);
    put_component(&now, SD35, "transformer", &sg_sd3_dit_names, 3, "model.diffusion_model.");
    put_component(&now, SD35, "vae", &sg_ldm_vae_names, 4, "first_stage_model.");
    write_out(&now, "repository/sd3.5_medium.safetensors");
    renders_as(SD35, "repository", NULL);
    /* parts in place of a folder's, in Diffusers' names and in GGUF */
    write_component("sd35/named.safetensors", SD35, "transformer", NULL, 0, "");
    renders_as(SD35, SD35, &(sg_model_parts){.diffusion_model = "sd35/named.safetensors", .vae = parts.vae});
    put_component(&now, SD35, "transformer", &sg_sd3_dit_names, 3, "");
    gguf_write("sd35/dit.gguf", &(gguf_key){.name = "general.architecture", .kind = 's', .text = "sd3"}, 1, now.all,
               now.count);
    take_out(&now);
    renders_as(SD35, SD35, &(sg_model_parts){.diffusion_model = "sd35/dit.gguf"});
}

/* SD3 medium without T5, in one file of F16. */
static void one_file_without_t5_renders(void **state)
{
    assert_int_equal(system("mkdir -p sd3"), 0);
    put_component(&now, SD3, "transformer", &sg_sd3_dit_names, 2, "model.diffusion_model.");
    put_component(&now, SD3, "vae", &sg_ldm_vae_names, 4, "first_stage_model.");
    put_component(&now, SD3, "text_encoder", NULL, 0, "text_encoders.clip_l.transformer.");
    put_component(&now, SD3, "text_encoder_2", NULL, 0, "text_encoders.clip_g.transformer.");
    write_out(&now, "sd3/all.safetensors");
    write_beside("sd3", SD3, configs_of(SD3, sd3_parts));
    renders_as(SD3, "sd3/all.safetensors", &(sg_model_parts){.clip_tokenizer = SD3 "/tokenizer"});
}

/* Of a file without a projection it is the identity. */
static void clip_l_without_a_projection_renders(void **state)
{
    enum { WIDTH = 24 };
    static float         one[WIDTH * WIDTH];
    static frames        with;
    const sg_tensor      t = {.data = one, .dtype = SG_F32, .rank = 2, .dim = {WIDTH, WIDTH}};
    const sg_model_parts parts[2] = {{.clip_l = "clip/with.safetensors"}, {.clip_l = "clip/without.safetensors"}};
    for (int i = 0; i < WIDTH; i++) one[i * WIDTH + i] = 1;
    assert_int_equal(system("cp -rL " SD3 " clip"), 0);
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
    assert_memory_equal(with.rgb, file_frames.rgb, with.used);
    render(&folder_frames, SD3, NULL); /* whose projection is another */
    assert_memory_not_equal(with.rgb, folder_frames.rgb, with.used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_flux_give_the_config),
        cmocka_unit_test(shapes_of_sd3_give_the_config),
        cmocka_unit_test(what_goes_with_the_denoiser_is_asked_for),
        cmocka_unit_test(variants_are_refused_by_name),
        cmocka_unit_test(files_and_one_file_of_flux_render),
        cmocka_unit_test(a_lora_by_the_names_of_xlabs_renders),
        cmocka_unit_test(files_and_one_file_of_sd35_render),
        cmocka_unit_test(one_file_without_t5_renders),
        cmocka_unit_test(clip_l_without_a_projection_renders),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
