/* cogvideox_files.c - see cogvideox_files.h: by which tensor each part of CogVideoX is known, and its config from the shapes
 * of others.
 *
 * What bites:
 *  - the VAE of 2B scales its latents otherwise than that of 5B, and only the denoiser tells the two apart;
 *  - patches of two frames (1.5) are a matrix, those of one frame a convolution;
 *  - the original repository keeps sines for positions (2B) among the weights, where image to video has learned positions;
 *  - no file says for which size a denoiser was trained, nor how many groups the norms of a VAE have. */
#include "cogvideox_files.h"
#include "cogvideox_names.h"
#include "file_parts.h"

enum { BLOCKS_MAX = 4096, LEVELS_MAX = 16, PATCH = 4 /* 2 x 2 */, WIDTH_2B = 1920 };

/* ---- the denoiser ---- */

/* What the file says. */
typedef struct shapes {
    int64_t width, head, in, out, text, time;
    int64_t frames; /* of a patch */
    int64_t offset; /* 0, or of 1.5's image to video */
    int     layers;
    bool    places; /* there are some among the weights */
} shapes;

static shapes shapes_of(const sg_found_part *p)
{
    const sg_source_tensor *const patch = sg_found_tensor(p, "patch_embed.proj.weight");
    shapes        s = {.width = sg_found_rows(p, "proj_out.weight") ? sg_found_rows(p, "norm_final.weight") : 0,
                       .head = sg_found_rows(p, "transformer_blocks.0.attn1.norm_q.weight"),
                       .frames = patch && patch->rank == 2 ? 2 : 1,
                       .places = sg_found_tensor(p, "patch_embed.pos_embedding") != NULL};
    const int64_t d = s.width ? s.width : 1;
    s.in = sg_found_count(p, "patch_embed.proj.weight") / d / PATCH / s.frames;
    s.out = sg_found_rows(p, "proj_out.bias") / PATCH / s.frames;
    s.text = sg_found_count(p, "patch_embed.text_proj.weight") / d;
    s.time = sg_found_rows(p, "time_embedding.linear_1.bias");
    s.offset = s.time ? sg_found_count(p, "ofs_embedding.linear_1.weight") / s.time : 0;
    while (s.layers < BLOCKS_MAX && sg_found_tensor(p, "transformer_blocks.%d.norm1.norm.weight", s.layers)) s.layers++;
    return s;
}

static const char *text_of(bool b) { return b ? "true" : "false"; }

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const shapes s = shapes_of(p);
    const bool   image = s.in != s.out, small = s.width == WIDTH_2B, late = s.frames == 2;
    const bool   sines = !image && (s.places || small);
    (void)e;
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"num_layers\": %d, \"in_channels\": %lld, \"out_channels\": %lld, \"text_embed_dim\": %lld, "
        "\"time_embed_dim\": %lld, \"patch_size\": 2, \"patch_bias\": %s, \"attention_bias\": %s, "
        "\"use_rotary_positional_embeddings\": %s, \"use_learned_positional_embeddings\": %s, \"sample_frames\": %d, "
        "\"sample_height\": %d, \"sample_width\": %d",
        p->component, s.layers, (long long)s.in, (long long)s.out, (long long)s.text, (long long)s.time,
        text_of(sg_found_tensor(p, "patch_embed.proj.bias")),
        text_of(sg_found_tensor(p, "transformer_blocks.0.attn1.to_q.bias")), text_of(!sines),
        text_of(image && s.places), late ? 81 : 49, late ? 300 : 60, late ? 300 : 90);
    sg_textbuf_printf(json, ", \"num_attention_heads\": %lld, \"attention_head_dim\": %lld",
                      (long long)(s.head && s.width % s.head == 0 ? s.width / s.head : 0), (long long)s.head);
    if (late) sg_textbuf_printf(json, ", \"patch_size_t\": 2");
    if (s.offset) sg_textbuf_printf(json, ", \"ofs_embed_dim\": %lld", (long long)s.offset);
    /* its authors render 2B by DDIM, the others by DPM */
    sg_textbuf_printf(json,
                      "}, \"scheduler\": {\"_class_name\": \"%s\", \"beta_start\": 0.00085, \"beta_end\": 0.012, "
                      "\"beta_schedule\": \"scaled_linear\", \"prediction_type\": \"v_prediction\", "
                      "\"rescale_betas_zero_snr\": true, \"timestep_spacing\": \"trailing\", \"clip_sample\": false, "
                      "\"set_alpha_to_one\": true, \"snr_shift_scale\": %s}, \"vae\": {\"scaling_factor\": %s, "
                      "\"invert_scale_latents\": %s}, \"model_index\": {\"_class_name\": \"%s\"}}",
                      sines ? "CogVideoXDDIMScheduler" : "CogVideoXDPMScheduler", sines ? "3.0" : "1.0",
                      sines ? "1.15258426" : "0.7", text_of(late),
                      image ? "CogVideoXImageToVideoPipeline" : "CogVideoXPipeline");
    return SG_OK;
}

static const sg_file_part *const with[] = {&sg_t5_file, &sg_cogvideox_vae_diffusers_file, NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of CogVideoX", .class_name = "CogVideoXTransformer3DModel",          \
    .usual = "CogVideoX_5b_bf16.safetensors, transformer/1000/mp_rank_00_model_states.pt, ...",                        \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit, .with = with

const sg_file_part sg_cogvideox_dit_file = {DENOISER, .probe = "mixins.patch_embed.proj.weight",
                                            .names = &sg_cogvideox_dit_names};
const sg_file_part sg_cogvideox_dit_diffusers_file = {DENOISER, .probe = "patch_embed.text_proj.weight"};

/* ---- the VAE ---- */

static sg_status describe_vae(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const sg_source_tensor *const in = sg_found_tensor(p, "decoder.conv_in.conv.weight");
    int                           blocks = 0, levels = 0;
    (void)e;
    while (blocks < BLOCKS_MAX && sg_found_tensor(p, "decoder.up_blocks.0.resnets.%d.conv1.conv.bias", blocks))
        blocks++;
    while (levels < LEVELS_MAX && sg_found_tensor(p, "decoder.up_blocks.%d.resnets.0.conv1.conv.bias", levels))
        levels++;
    sg_textbuf_printf(json,
                      "{\"vae\": {\"latent_channels\": %lld, \"layers_per_block\": %d, \"out_channels\": %lld, "
                      "\"block_out_channels\": [",
                      (long long)(in && in->rank > 1 ? in->dim[1] : 0), blocks - 1,
                      (long long)sg_found_rows(p, "decoder.conv_out.conv.bias"));
    for (int i = levels; i-- > 0;)
        sg_textbuf_printf(json, "%lld%s",
                          (long long)sg_found_rows(p, "decoder.up_blocks.%d.resnets.0.conv1.conv.bias", i),
                          i ? ", " : "");
    sg_textbuf_printf(json, "]}}");
    return SG_OK;
}

#define VAE                                                                                                            \
    .component = "vae", .what = "VAE of CogVideoX", .class_name = "AutoencoderKLCogVideoX",                            \
    .usual = "cogvideox_vae_bf16.safetensors or vae/3d-vae.pt", .prefixes = sg_vae_prefixes, .describe = describe_vae

const sg_file_part sg_cogvideox_vae_file = {VAE, .probe = "decoder.mid.block_1.norm1.conv_y.conv.weight",
                                            .names = &sg_cogvideox_vae_names,
                                            .span = "decoder.up_blocks.0.resnets.0.conv1.conv.weight"};
const sg_file_part sg_cogvideox_vae_diffusers_file = {VAE,
                                                      .probe = "decoder.mid_block.resnets.0.norm1.conv_y.conv.weight"};
