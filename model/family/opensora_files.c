/* opensora_files.c - Open-Sora-Plan 1.3 in files: by which tensor each part is known, and its config from the shapes of
 * others; what its scripts have beside its networks. Its own repository has the names that the model has.
 *
 * What bites:
 *  - 1.2's denoiser and the one that begins with a picture have the names of 1.3's: a config.json beside the weights
 *    tells 1.2 apart, the embedding of a mask the other;
 *  - there is no text encoder in the repository, and no scheduler;
 *  - the VAE may be a checkpoint of a training, whose averaged weights (ema_state_dict) have "module." before every name;
 *  - no file says how large a head is, that attention is sparse in groups of 4, nor how the VAE makes frames. */
#include "opensora_files.h"
#include "base/text.h"
#include "family_files.h"
#include "prompt_clean.h"

#include <string.h>

enum { HEAD = 96, TAPS = 27 /* of a causal convolution */, AREA = 9 /* of a plain one */ };

/* ---- the denoiser ---- */

#define CLASS "OpenSoraT2V_v1_3"

static sg_status refuse_others(const sg_found_part *p)
{
    const char *class = p->beside ? sg_config_string(p->beside, "_class_name", CLASS) : CLASS;
    if (sg_found_tensor(p, "pos_embed_mask.0.proj.weight")) class = "OpenSoraInpaint_v1_3";
    if (!class || strcmp(class, CLASS) == 0) return SG_OK;
    return sg_error_set(p->e, SG_E_UNSUPPORTED,
                        "%s: is the denoiser %s; of Open-Sora-Plan only text to video of 1.3 (" CLASS
                        ", any93x640x640/) is rendered",
                        sg_source_path(p->source), sg_show(class));
}

static sg_status describe_dit(const sg_found_part *p)
{
    const sg_source_tensor *const patch = sg_found_tensor(p, "pos_embed.proj.weight");
    const int64_t                 width = sg_source_rows(patch), side = patch && patch->rank == 4 ? patch->dim[3] : 0;
    const int64_t                 area = side > 0 && side < 64 ? side * side : 1;
    SG_TRY(refuse_others(p));
    sg_config_set(p->made, p->component,
                  SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "transformer_blocks", "scale_shift_table")),
                  SG_NUMBER("num_attention_heads", sg_heads_of(width, HEAD)), SG_NUMBER("attention_head_dim", HEAD),
                  SG_NUMBER("in_channels", sg_found_row(p, width, "pos_embed.proj.weight") / area),
                  SG_NUMBER("out_channels", sg_found_rows(p, "proj_out.bias") / area), SG_NUMBER("patch_size", side),
                  SG_NUMBER("patch_size_t", 1), SG_NUMBER("cross_attention_dim", width),
                  SG_NUMBER("caption_channels", sg_found_row(p, width, "caption_projection.linear_1.weight")),
                  SG_BOOL("attention_bias", sg_found_tensor(p, "transformer_blocks.0.attn1.to_q.bias") != NULL),
                  SG_TEXT("activation_fn", "gelu-approximate"), SG_BOOL("sparse1d", true), SG_NUMBER("sparse_n", 4),
                  SG_NUMBER("sample_size_t", 24), SG_NUMBER("sample_size_h", 80), SG_NUMBER("sample_size_w", 80));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "EulerAncestralDiscreteScheduler"),
                  SG_TEXT("prediction_type", "v_prediction"), SG_BOOL("rescale_betas_zero_snr", true),
                  SG_TEXT("timestep_spacing", "trailing"));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "OpenSoraPipeline"));
    return SG_OK;
}

/* ---- the VAE ---- */

/* The residual blocks of a list that has one other member before them. */
static int blocks_behind(const sg_found_part *p, const char *list)
{
    int n = 0;
    while (n < SG_BLOCKS_MAX && sg_found_tensor(p, "%s.%d.conv1.weight", list, n + 1)) n++;
    return n;
}

static sg_status describe_vae(const sg_found_part *p)
{
    static const char *const res = "conv1.conv.weight";
    const int64_t            wide = sg_found_rows(p, "decoder.conv_in.conv.bias");
    const int                connect = sg_found_list(p, SG_BLOCKS_MAX, "decoder.connect_l2", res);
    const bool               layer = sg_found_tensor(p, "decoder.mid.0.norm1.norm.weight") != NULL;
    sg_config_set(p->made, "vae", SG_NUMBER("latent_dim", sg_found_row(p, wide, "decoder.conv_in.conv.weight") / TAPS),
                  SG_NUMBER("base_channels", wide / 4),
                  SG_NUMBER("encoder_num_resblocks", blocks_behind(p, "encoder.down1")),
                  SG_NUMBER("encoder_energy_flow_hidden_size", sg_found_rows(p, "encoder.connect_l1.bias")),
                  SG_NUMBER("decoder_num_resblocks", sg_found_list(p, SG_BLOCKS_MAX, "decoder.up2", res)),
                  SG_NUMBER("decoder_energy_flow_hidden_size",
                            sg_found_count(p, "decoder.connect_l2.%d.weight", connect) / 24 / AREA),
                  SG_NUMBER("connect_res_layer_num", connect),
                  SG_BOOL("use_attention", sg_found_tensor(p, "decoder.mid.1.q.conv.weight") != NULL),
                  SG_TEXT("norm_type", layer ? "layernorm" : "groupnorm"), SG_TEXT("t_interpolation", "trilinear"));
    return SG_OK;
}

/* ---- parts ---- */

enum { VAE, ALL = 2 };
/* A file with any T5 is found as that of all families; this one is for messages. */
static const sg_file_part        mt5 = {.component = SG_TEXT_ENCODER,
                                        .what = "text encoder of the T5 family",
                                        .class_name = "MT5EncoderModel",
                                        .usual = "the folder of google/mt5-xxl",
                                        .tokenizer = "google/mt5-xxl",
                                        .pieces = true};
static const sg_file_part        parts[ALL];
static const sg_file_part *const with[] = {&mt5, &parts[VAE], NULL};
static const char *const         vae_prefixes[] = {"", "module.", "vae.", "first_stage_model.", NULL};

static const sg_file_part parts[ALL] = {[VAE] = {.component = "vae",
                                                 .what = "WF-VAE of Open-Sora-Plan",
                                                 .class_name = "WFVAEModel",
                                                 .usual = "diffusion_pytorch_model.safetensors or the .ckpt of vae/",
                                                 .probe = "decoder.up2.0.conv1.conv.weight",
                                                 .prefixes = vae_prefixes,
                                                 .describe = describe_vae},
                                        {.component = "transformer",
                                         .what = "denoiser of Open-Sora-Plan",
                                         .class_name = CLASS,
                                         .usual = "any93x640x640/diffusion_pytorch_model.safetensors.index.json",
                                         .probe = "caption_projection.linear_1.weight",
                                         .not_probe = "patchify_proj.weight", /* of LTX-Video */
                                         .prefixes = sg_denoiser_prefixes,
                                         .describe = describe_dit,
                                         .with = with}};

/* The second denoiser is refused, which says more than that there is none. */
static const sg_repository_file repository[] = {{"transformer", "any93x640x640", "diffusion_pytorch_model", ""},
                                                {"transformer", "any93x640x640_i2v", "diffusion_pytorch_model", ""},
                                                {"vae", "vae", "diffusion_pytorch_model", ""},
                                                {"vae", "vae", "", ".ckpt"}};

const sg_family_files sg_files_opensora = {
    .checkpoint = {PARTS(parts), REPOSITORY(repository), .repository_usual = "any93x640x640/ of Open-Sora-Plan's"}};

/* ---- beside the networks ---- */

/* 640x640 and 640x352, 93 frames. Most layers attend within each of four groups of tokens; the first size has them too. */
const sg_known_shape sg_opensora_shapes[] = {{"opensora", 24, HEAD, 32, {24, 40, 40}, 0, 0},
                                             {"opensora-group", 24, HEAD, 32, {24, 40, 10}, 0, 0},
                                             {"opensora-352", 24, HEAD, 32, {24, 22, 40}, 0, 0},
                                             {0}};
const sg_known_width sg_opensora_widths[] = {{"Open-Sora-Plan 1.2 and 1.3", 24 * HEAD}, {0}};

sg_status sg_opensora_prompt(const void *model, int encoder, int pass, const char *text, char **out, size_t *size,
                             sg_error *e)
{
    (void)model;
    (void)encoder;
    return pass ? SG_OK : sg_prompt_in_template("high quality, high aesthetic, ", text, "", out, size, e);
}

sg_request sg_opensora_defaults(const sg_components *c, sg_config *config)
{
    const int64_t height = sg_config_int(config, "sample_size_h", 1, 4096, &(int64_t){80});
    const int64_t width = sg_config_int(config, "sample_size_w", 1, 4096, &(int64_t){80});
    const int64_t frames = sg_config_int(config, "sample_size_t", 1, 4096, &(int64_t){24}),
                  scale = c->vae.info.scale_space;
    return (sg_request){.width = (int)(width / c->patch[2] * c->patch[2] * scale),
                        .height = (int)(height / c->patch[1] * c->patch[1] * scale),
                        .frames = (int)sg_frame_rule_count(c->frames, frames),
                        .fps = 18,
                        .steps = 100,
                        .cfg_scale = 7.5,
                        .negative_prompt =
                            "nsfw, lowres, bad anatomy, bad hands, text, error, missing fingers, extra digit, fewer "
                            "digits, cropped, worst quality, low quality, normal quality, jpeg artifacts, signature, "
                            "watermark, username, blurry."};
}
