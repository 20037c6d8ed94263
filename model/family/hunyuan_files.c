/* hunyuan_files.c - see hunyuan_files.h: by which tensor each part of HunyuanVideo is known, and its config from the shapes of
 * others.
 *
 * What bites:
 *  - a denoiser of image to video has the names of one of text to video, and more channels or no guidance;
 *  - no file says how many groups the norms of a VAE have. */
#include "hunyuan_files.h"
#include "file_names.h"
#include "file_parts.h"
#include "hunyuan_names.h"

enum { BLOCKS_MAX = 4096, LEVELS_MAX = 16, PATCH = 4 /* 2 x 2 */ };

/* ---- the denoiser ---- */

/* Blocks whose tensor of this name is there. */
static int blocks_of(const sg_found_part *p, const char *list, const char *tensor)
{
    int n = 0;
    while (n < BLOCKS_MAX && sg_found_tensor(p, "%s.%d.%s", list, n, tensor)) n++;
    return n;
}

static sg_status describe_dit(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const int64_t width = sg_found_rows(p, "x_embedder.proj.bias"), d = width ? width : 1;
    const int64_t head = sg_found_rows(p, "transformer_blocks.0.attn.norm_q.weight");
    const int64_t in = sg_found_count(p, "x_embedder.proj.weight") / d / PATCH;
    const int64_t out = sg_found_rows(p, "proj_out.bias") / PATCH;
    if (in > out && out)
        return sg_error_set(e, SG_E_UNSUPPORTED,
                            "%s: has %lld channels where it gives %lld: this is HunyuanVideo for image to video, which "
                            "is not supported; text to video is",
                            sg_source_path(p->source), (long long)in, (long long)out);
    sg_textbuf_printf(
        json,
        "{\"%s\": {\"patch_size\": 2, \"patch_size_t\": 1, \"num_layers\": %d, \"num_single_layers\": %d, "
        "\"num_refiner_layers\": %d, \"in_channels\": %lld, \"out_channels\": %lld, \"text_embed_dim\": %lld, "
        "\"pooled_projection_dim\": %lld, \"mlp_ratio\": %g, \"guidance_embeds\": %s",
        p->component, blocks_of(p, "transformer_blocks", "attn.norm_q.weight"),
        blocks_of(p, "single_transformer_blocks", "attn.norm_q.weight"),
        blocks_of(p, "context_embedder.token_refiner.refiner_blocks", "norm1.weight"), (long long)in, (long long)out,
        (long long)(sg_found_count(p, "context_embedder.proj_in.weight") / d),
        (long long)(sg_found_count(p, "time_text_embed.text_embedder.linear_1.weight") / d),
        (double)sg_found_rows(p, "transformer_blocks.0.ff.net.0.proj.bias") / (double)d,
        sg_found_tensor(p, "time_text_embed.guidance_embedder.linear_1.weight") ? "true" : "false");
    sg_textbuf_printf(
        json,
        ", \"num_attention_heads\": %lld, \"attention_head_dim\": %lld}, \"scheduler\": {\"_class_name\": "
        "\"FlowMatchEulerDiscreteScheduler\", \"shift\": 7.0}, \"model_index\": {\"_class_name\": "
        "\"HunyuanVideoPipeline\"}}",
        (long long)(head && width % head == 0 ? width / head : 0), (long long)head);
    return SG_OK;
}

static const sg_file_part *const with[] = {&sg_llama_file, &sg_clip_l_file, &sg_hunyuan_vae_file, NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of HunyuanVideo", .class_name = "HunyuanVideoTransformer3DModel",    \
    .usual = "hunyuan_video_t2v_720p_bf16.safetensors, mp_rank_00_model_states.pt, ...",                               \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit, .with = with

const sg_file_part sg_hunyuan_dit_file = {DENOISER, .probe = "double_blocks.0.img_attn_qkv.weight",
                                          .names = &sg_hunyuan_dit_names};
#define SAVED DENOISER, .probe = "txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight"
#define NORM "double_blocks.0.img_attn.norm.key_norm."
const sg_file_part sg_hunyuan_dit_saved_file = {SAVED, .not_probe = NORM "scale", .names = &sg_hunyuan_dit_saved_names};
const sg_file_part sg_hunyuan_dit_saved_before_file = {SAVED, .not_probe = NORM "weight",
                                                       .names = &sg_hunyuan_dit_saved_before_names};
const sg_file_part sg_hunyuan_dit_diffusers_file = {
    DENOISER, .probe = "context_embedder.token_refiner.refiner_blocks.0.attn.to_q.weight"};

/* ---- the VAE ---- */

static sg_status describe_vae(sg_textbuf *json, const sg_found_part *p, sg_error *e)
{
    const sg_source_tensor *const in = sg_found_tensor(p, "decoder.conv_in.conv.weight");
    int                           levels = 0;
    (void)e;
    while (levels < LEVELS_MAX && sg_found_tensor(p, "decoder.up_blocks.%d.resnets.0.conv1.conv.bias", levels))
        levels++;
    sg_textbuf_printf(json,
                      "{\"vae\": {\"latent_channels\": %lld, \"layers_per_block\": %d, \"out_channels\": %lld, "
                      "\"block_out_channels\": [",
                      (long long)(in && in->rank > 1 ? in->dim[1] : 0),
                      blocks_of(p, "decoder.up_blocks.0.resnets", "conv1.conv.bias") - 1,
                      (long long)sg_found_rows(p, "decoder.conv_out.conv.bias"));
    for (int i = levels; i-- > 0;)
        sg_textbuf_printf(json, "%lld%s",
                          (long long)sg_found_rows(p, "decoder.up_blocks.%d.resnets.0.conv1.conv.bias", i),
                          i ? ", " : "");
    sg_textbuf_printf(json, "]}}");
    return SG_OK;
}

#define VAE                                                                                                            \
    .component = "vae", .what = "VAE of HunyuanVideo", .class_name = "AutoencoderKLHunyuanVideo",                      \
    .usual = "hunyuan_video_vae_bf16.safetensors or vae/pytorch_model.pt", .prefixes = sg_vae_prefixes,                \
    .describe = describe_vae

const sg_file_part sg_hunyuan_vae_file = {VAE, .probe = "decoder.mid.block_1.conv1.conv.weight",
                                          .not_probe = "decoder.mid.block_1.norm1.conv_y.conv.weight", /* CogVideoX */
                                          .names = &sg_ldm_vae_names,
                                          .span = "decoder.up_blocks.0.resnets.0.conv1.conv.weight"};
const sg_file_part sg_hunyuan_vae_diffusers_file = {VAE, .probe = "decoder.mid_block.attentions.0.group_norm.weight",
                                                    .not_probe =
                                                        "decoder.mid_block.resnets.0.conv1.weight" /* of pictures */};
