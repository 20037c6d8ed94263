/* cogvideox_files.c - CogVideoX in files: the names of its tensors, by which of them each part is known, and its
 * config from the shapes of others. Sources of the names: the modules of CogVideo (sat/dit_video_concat.py,
 * sat/vae_modules) and diffusers' converter; of the colours: ComfyUI-CogVideoXWrapper (latent_preview.py), to four
 * digits and without a bias.
 *
 * What bites:
 *  - the VAE of 2B scales its latents otherwise than that of 5B, and only the denoiser tells the two apart;
 *  - patches of two frames (1.5) are a matrix, those of one frame a convolution;
 *  - the original repository keeps sines for positions (2B) among the weights, where image to video has learned
 *    positions;
 *  - no file says for which size a denoiser was trained, nor how many groups the norms of a VAE have. */
#include "family_files.h"

enum { PATCH = 4 /* 2 x 2 */, WIDTH_2B = 1920 };

/* ---- names of the denoiser ---- */

#define B "transformer_blocks.%d."
#define L "transformer.layers.%d."
#define M "mixins."
#define N "mixins.adaln_layer."

static const sg_name_rule dit[] = {
    AS("patch_embed", M "patch_embed"),
    AS("patch_embed.pos_embedding", M "pos_embed.pos_embedding"),
    AS("norm_final", "transformer.final_layernorm"),
    AS("time_embedding.linear_1", "time_embed.0"),
    AS("time_embedding.linear_2", "time_embed.2"),
    AS("ofs_embedding.linear_1", "ofs_embed.0"),
    AS("ofs_embedding.linear_2", "ofs_embed.2"),
    AS(B "norm1.norm", L "input_layernorm"),
    AS(B "norm2.norm", L "post_attention_layernorm"),
    /* shift, scale, gate of attention, the same of the feed-forward; the six of the video, then of the text */
    {B "norm1.linear", N "adaLN_modulations.%d.1", 12, {{0, 3}, {6, 3}}},
    {B "norm2.linear", N "adaLN_modulations.%d.1", 12, {{3, 3}, {9, 3}}},
    PART(B "attn1.to_q", L "attention.query_key_value", 0, 3),
    PART(B "attn1.to_k", L "attention.query_key_value", 1, 3),
    PART(B "attn1.to_v", L "attention.query_key_value", 2, 3),
    AS(B "attn1.to_out.0", L "attention.dense"),
    AS(B "attn1.norm_q", N "query_layernorm_list.%d"),
    AS(B "attn1.norm_k", N "key_layernorm_list.%d"),
    AS(B "ff.net.0.proj", L "mlp.dense_h_to_4h"),
    AS(B "ff.net.2", L "mlp.dense_4h_to_h"),
    AS("norm_out.norm", M "final_layer.norm_final"),
    AS("norm_out.linear", M "final_layer.adaLN_modulation.1"),
    AS("proj_out", M "final_layer.linear"),
};
static const sg_name_map dit_names = {MAP(dit)};

/* ---- names of the VAE ---- */

/* Levels of the decoder count from the other end. */
static const sg_name_rule vae[] = {
    AS("encoder.mid_block.resnets.0", "encoder.mid.block_1"),
    AS("encoder.mid_block.resnets.1", "encoder.mid.block_2"),
    AS("decoder.mid_block.resnets.0", "decoder.mid.block_1"),
    AS("decoder.mid_block.resnets.1", "decoder.mid.block_2"),
    AS("encoder.down_blocks.%d.resnets.%d", "encoder.down.%d.block.%d"),
    AS("encoder.down_blocks.%d.resnets.%d.conv_shortcut", "encoder.down.%d.block.%d.nin_shortcut"),
    AS("encoder.down_blocks.%d.downsamplers.0", "encoder.down.%d.downsample"),
    AS("decoder.up_blocks.%d.resnets.%d", "decoder.up.%r.block.%d"),
    AS("decoder.up_blocks.%d.resnets.%d.conv_shortcut", "decoder.up.%r.block.%d.nin_shortcut"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.up.%r.upsample"),
    {.file = "loss"},
};
static const sg_name_map vae_names = {MAP(vae), .span = 4};

/* ---- the denoiser ---- */

static sg_status describe_dit(const sg_found_part *p)
{
    const sg_source_tensor *const patch = sg_found_tensor(p, "patch_embed.proj.weight");
    const int64_t                 frames = patch && patch->rank == 2 ? 2 : 1; /* of a patch */
    const int64_t width = sg_found_rows(p, "proj_out.weight") ? sg_found_rows(p, "norm_final.weight") : 0;
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn1.norm_q.weight");
    const int64_t time = sg_found_rows(p, "time_embedding.linear_1.bias");
    const int64_t in = sg_found_row(p, width, "patch_embed.proj.weight") / PATCH / frames;
    const int64_t out = sg_found_rows(p, "proj_out.bias") / PATCH / frames;
    const int64_t offset = sg_found_row(p, time, "ofs_embedding.linear_1.weight");  /* of 1.5's image to video, or 0 */
    const bool    places = sg_found_tensor(p, "patch_embed.pos_embedding") != NULL; /* among the weights */
    const bool    image = in != out, small = width == WIDTH_2B, late = frames == 2;
    const bool    sines = !image && (places || small);
    sg_config_set(p->made, p->component,
                  SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "norm1.norm.weight")),
                  SG_NUMBER("in_channels", in), SG_NUMBER("out_channels", out),
                  SG_NUMBER("text_embed_dim", sg_found_row(p, width, "patch_embed.text_proj.weight")),
                  SG_NUMBER("time_embed_dim", time), SG_NUMBER("patch_size", 2),
                  SG_BOOL("patch_bias", sg_found_tensor(p, "patch_embed.proj.bias") != NULL),
                  SG_BOOL("attention_bias", sg_found_tensor(p, "transformer_blocks.0.attn1.to_q.bias") != NULL),
                  SG_BOOL("use_rotary_positional_embeddings", !sines),
                  SG_BOOL("use_learned_positional_embeddings", image && places),
                  SG_NUMBER("sample_frames", late ? 81 : 49), SG_NUMBER("sample_height", late ? 300 : 60),
                  SG_NUMBER("sample_width", late ? 300 : 90),
                  SG_NUMBER("num_attention_heads", sg_heads_of(width, head)), SG_NUMBER("attention_head_dim", head),
                  SG_NUMBER(late ? "patch_size_t" : NULL, 2), SG_NUMBER(offset ? "ofs_embed_dim" : NULL, offset));
    /* its authors render 2B by DDIM, the others by DPM */
    sg_config_set(p->made, "scheduler",
                  SG_TEXT("_class_name", sines ? "CogVideoXDDIMScheduler" : "CogVideoXDPMScheduler"),
                  SG_REAL("beta_start", 0.00085), SG_REAL("beta_end", 0.012), SG_TEXT("beta_schedule", "scaled_linear"),
                  SG_TEXT("prediction_type", "v_prediction"), SG_BOOL("rescale_betas_zero_snr", true),
                  SG_TEXT("timestep_spacing", "trailing"), SG_BOOL("clip_sample", false),
                  SG_BOOL("set_alpha_to_one", true), SG_REAL("snr_shift_scale", sines ? 3 : 1));
    sg_config_set(p->made, "vae", SG_REAL("scaling_factor", sines ? 1.15258426 : 0.7),
                  SG_BOOL("invert_scale_latents", late));
    sg_config_set(p->made, "model_index",
                  SG_TEXT("_class_name", image ? "CogVideoXImageToVideoPipeline" : "CogVideoXPipeline"));
    return SG_OK;
}

/* ---- parts ---- */

enum { VAE, ALL = 4 };
static const sg_file_part        parts[ALL];
static const sg_file_part *const with[] = {SHARED(T5), &parts[VAE], NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of CogVideoX", .class_name = "CogVideoXTransformer3DModel",          \
    .usual = "CogVideoX_5b_bf16.safetensors, transformer/1000/mp_rank_00_model_states.pt, ...",                        \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit, .with = with

#define A_VAE                                                                                                          \
    .component = "vae", .what = "VAE of CogVideoX", .class_name = "AutoencoderKLCogVideoX",                            \
    .usual = "cogvideox_vae_bf16.safetensors or vae/3d-vae.pt", .prefixes = sg_vae_prefixes,                           \
    .describe = sg_describe_causal_vae

static const sg_file_part parts[ALL] = {[VAE] = {A_VAE, .probe = "decoder.mid.block_1.norm1.conv_y.conv.weight",
                                                 .names = &vae_names,
                                                 .span = "decoder.up_blocks.0.resnets.0.conv1.conv.weight"},
                                        {A_VAE, .probe = "decoder.mid_block.resnets.0.norm1.conv_y.conv.weight"},
                                        {DENOISER, .probe = "mixins.patch_embed.proj.weight", .names = &dit_names},
                                        {DENOISER, .probe = "patch_embed.text_proj.weight"}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{"transformer", "transformer/1000", "mp_rank_00", ""},
                                                {"transformer", "transformer_t2v/1000", "mp_rank_00", ""},
                                                {SG_TEXT_ENCODER, "t5-v1_1-xxl", "model", ""},
                                                {"vae", "vae", "3d-vae", ""}};

static const sg_latent_rgb rgb[] = {{.z = 16,
                                     .factor = {{0.1195f, 0.0992f, -0.0048f},
                                                {-0.0012f, 0.0550f, 0.0213f},
                                                {-0.0141f, -0.0087f, -0.0210f},
                                                {0.0306f, 0.1219f, 0.0140f},
                                                {0.0927f, 0.0303f, 0.0508f},
                                                {0.0379f, 0.0494f, 0.0586f},
                                                {0.0177f, 0.0088f, 0.0360f},
                                                {0.1061f, 0.0234f, 0.0572f},
                                                {0.1274f, -0.0110f, 0.0433f},
                                                {-0.0187f, 0.0822f, 0.1061f},
                                                {0.0084f, 0.0762f, 0.0930f},
                                                {0.1294f, 0.1236f, 0.0448f},
                                                {0.0457f, 0.0411f, -0.0177f},
                                                {0.0002f, -0.0140f, 0.0533f},
                                                {0.0808f, 0.1155f, -0.0215f},
                                                {-0.0152f, -0.0058f, 0.0722f}}},
                                    {.z = 0}};

const sg_family_files sg_files_cogvideox = {
    .checkpoint = {PARTS(parts), REPOSITORY(repository), .repository_usual = "transformer/1000/ of CogVideoX's"},
    .names = &dit_names,
    .rgb = rgb};
