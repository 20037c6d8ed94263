/* wan_files.c - Wan in files: the names of its tensors, by which of them each part is known, and its config from the
 * shapes of others. Source of the names: the modules of Wan2.1 and Wan2.2 (wan/modules), and diffusers' converters; of
 * the colours: comfy/latent_formats.py.
 *
 * What bites:
 *  - no single file says how many heads there are: published models have heads of 128;
 *  - 2.1 T2V 14B and both experts of 2.2 A14B have the same names and shapes, and so have 2.1's image to video for
 *    480p and for 720p, of which the first has a flow shift of 3, the second 5;
 *  - a file may have a tensor in another shape of as many numbers (GGUF): counts and biases are surer than dimensions;
 *  - no file of a VAE has the mean and the deviation of its latents. */
#include "family_files.h"

#include <stdio.h>

enum { LEVELS_MAX = 8, RESNETS_MAX = 9, HEAD = 128, PATCH = 4 /* 1 x 2 x 2 */ };

/* ---- names of the denoiser ---- */

#define C "condition_embedder."
#define B "blocks.%d."

static const sg_name_rule dit[] = {
    AS(C "text_embedder.linear_1", "text_embedding.0"),
    AS(C "text_embedder.linear_2", "text_embedding.2"),
    AS(C "time_embedder.linear_1", "time_embedding.0"),
    AS(C "time_embedder.linear_2", "time_embedding.2"),
    AS(C "time_proj", "time_projection.1"),
    AS("proj_out", "head.head"),
    AS("scale_shift_table", "head.modulation"),
    AS(C "image_embedder.norm1", "img_emb.proj.0"),
    AS(C "image_embedder.ff.net.0.proj", "img_emb.proj.1"),
    AS(C "image_embedder.ff.net.2", "img_emb.proj.3"),
    AS(C "image_embedder.norm2", "img_emb.proj.4"),
    AS(C "image_embedder.pos_embed", "img_emb.emb_pos"),
    AS(B "scale_shift_table", B "modulation"),
    AS(B "norm2", B "norm3"),
    AS(B "attn1.to_q", B "self_attn.q"),
    AS(B "attn1.to_k", B "self_attn.k"),
    AS(B "attn1.to_v", B "self_attn.v"),
    AS(B "attn1.to_out.0", B "self_attn.o"),
    AS(B "attn1.norm_q", B "self_attn.norm_q"),
    AS(B "attn1.norm_k", B "self_attn.norm_k"),
    AS(B "attn2.to_q", B "cross_attn.q"),
    AS(B "attn2.to_k", B "cross_attn.k"),
    AS(B "attn2.to_v", B "cross_attn.v"),
    AS(B "attn2.to_out.0", B "cross_attn.o"),
    AS(B "attn2.norm_q", B "cross_attn.norm_q"),
    AS(B "attn2.norm_k", B "cross_attn.norm_k"),
    AS(B "attn2.add_k_proj", B "cross_attn.k_img"),
    AS(B "attn2.add_v_proj", B "cross_attn.v_img"),
    AS(B "attn2.norm_added_k", B "cross_attn.norm_k_img"),
    AS(B "ffn.net.0.proj", B "ffn.0"),
    AS(B "ffn.net.2", B "ffn.2"),
};
static const sg_name_map dit_names = {MAP(dit)};

/* ---- names of the VAE, of 2.1 and of 2.2; spans are those of the published files ---- */

#define RESNET(bound, file)                                                                                            \
    AS(bound ".norm1", file ".residual.0"), AS(bound ".conv1", file ".residual.2"),                                    \
        AS(bound ".norm2", file ".residual.3"), AS(bound ".conv2", file ".residual.6"),                                \
        AS(bound ".conv_shortcut", file ".shortcut")
#define CODER(side)                                                                                                    \
    AS(side ".conv_in", side ".conv1"), AS(side ".norm_out", side ".head.0"), AS(side ".conv_out", side ".head.2"),    \
        RESNET(side ".mid_block.resnets.0", side ".middle.0"), RESNET(side ".mid_block.resnets.1", side ".middle.2"),  \
        AS(side ".mid_block.attentions.0", side ".middle.1")
#define BOTH AS("quant_conv", "conv1"), AS("post_quant_conv", "conv2"), CODER("encoder"), CODER("decoder")

static const sg_name_rule vae[] = {
    BOTH,
    RESNET("encoder.down_blocks.%d", "encoder.downsamples.%d"),
    AS("encoder.down_blocks.%d", "encoder.downsamples.%d"), /* resample.1, time_conv */
    RESNET("decoder.up_blocks.%d.resnets.%d", "decoder.upsamples.%p"),
    AS("decoder.up_blocks.%d.upsamplers.0", "decoder.upsamples.%p"),
};
static const sg_name_map vae_names = {MAP(vae), .span = 4};

static const sg_name_rule vae_residual[] = {
    BOTH,
    RESNET("encoder.down_blocks.%d.resnets.%d", "encoder.downsamples.%d.downsamples.%d"),
    AS("encoder.down_blocks.%d.downsampler", "encoder.downsamples.%d.downsamples.%2"),
    RESNET("decoder.up_blocks.%d.resnets.%d", "decoder.upsamples.%d.upsamples.%d"),
    AS("decoder.up_blocks.%d.upsampler", "decoder.upsamples.%d.upsamples.%1"),
};
static const sg_name_map vae_residual_names = {MAP(vae_residual), .span = 4};

/* ---- the denoiser ---- */

#define EMBEDDER "condition_embedder.image_embedder."

/* What is not rendered, by what the names of its tensors begin with. */
static const struct {
    const char *begins, *what;
} variants[] = {{"vace_patch_embedding.", "VACE"},
                {"control_adapter.", "camera control"},
                {"casual_audio_encoder.", "S2V (speech to video)"},
                {"audio_proj.", "HuMo"},
                {"face_adapter.", "Animate"},
                {"ref_conv.", "Fun with a reference image"}};

static sg_status refuse(const sg_found_part *p, const char *what)
{
    return sg_error_set(p->e, SG_E_UNSUPPORTED,
                        "%s: is Wan %s, which is not rendered; Wan text to video and image to video are",
                        sg_source_path(p->source), what);
}

/* Which channels go in where a model sees pictures through CLIP, its parts check among themselves. */
static sg_status check_variant(const sg_found_part *p, int64_t in, int64_t out, bool clip)
{
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (sg_found_any(p, variants[i].begins)) return refuse(p, variants[i].what);
    if (in == out || (in == 36 && out == 16) || clip) return SG_OK;
    char what[96];
    snprintf(what, sizeof what, "of %lld channels in and %lld out", (long long)in, (long long)out);
    return refuse(p, what);
}

/* The heads where somebody says it: an original repository's config.json. */
static int64_t heads_of(const sg_found_part *p, int64_t width)
{
    const int64_t unknown = width % HEAD == 0 ? width / HEAD : 0;
    if (!p->beside || strcmp(sg_config_string(p->beside, "_class_name", ""), "WanModel") != 0) return unknown;
    const int64_t heads = sg_config_int(p->beside, "num_heads", 1, 1024, &unknown);
    return heads && width % heads == 0 ? heads : unknown;
}

static sg_status describe_dit(const sg_found_part *p)
{
    const int64_t width = sg_found_rows(p, "patch_embedding.bias"), heads = heads_of(p, width);
    const int64_t in = sg_found_row(p, width, "patch_embedding.weight") / PATCH;
    const int64_t out = sg_found_rows(p, "proj_out.bias") / PATCH;
    /* of pictures: numbers of a token, and how many tokens have places of their own */
    const int64_t image_dim = sg_found_rows(p, EMBEDDER "norm1.weight");
    const int64_t places = sg_found_row(p, image_dim, EMBEDDER "pos_embed");
    SG_TRY(check_variant(p, in, out, image_dim > 0));
    const bool ti2v = in == 48 && out == 48, image = in != out;
    const int  shift = places ? 16 : ti2v || (image && !image_dim) ? 5 : p->two ? 12 : 3;
    sg_config_set(
        p->made, p->component, SG_NUMBERS("patch_size", ((const int64_t[]){1, 2, 2}), 3),
        SG_NUMBER("ffn_dim", sg_found_rows(p, "blocks.0.ffn.net.0.proj.bias")),
        SG_NUMBER("num_layers", sg_found_list(p, SG_BLOCKS_MAX, "blocks", "scale_shift_table")),
        SG_NUMBER("in_channels", in), SG_NUMBER("out_channels", out),
        SG_NUMBER("text_dim", sg_found_row(p, width, "condition_embedder.text_embedder.linear_1.weight")),
        SG_NUMBER("freq_dim", sg_found_row(p, width, "condition_embedder.time_embedder.linear_1.weight")),
        SG_NUMBER(image_dim ? "image_dim" : NULL, image_dim), SG_NUMBER(image_dim ? "added_kv_proj_dim" : NULL, width),
        SG_NUMBER(places ? "pos_embed_seq_len" : NULL, places), SG_NUMBER(heads ? "num_attention_heads" : NULL, heads),
        SG_NUMBER(heads ? "attention_head_dim" : NULL, heads ? width / heads : 0));
    sg_config_set(p->made, "scheduler", SG_TEXT("_class_name", "UniPCMultistepScheduler"),
                  SG_TEXT("prediction_type", "flow_prediction"), SG_BOOL("use_flow_sigmas", true),
                  SG_NUMBER("flow_shift", shift));
    sg_config_set(p->made, "model_index", SG_TEXT("_class_name", "WanPipeline"), SG_BOOL("expand_timesteps", ti2v),
                  SG_REAL(p->two ? "boundary_ratio" : NULL, image ? 0.9 : 0.875));
    return SG_OK;
}

/* ---- the VAE ---- */

/* These are the means and deviations of the latents of 2.1 and 2.2, from wan/modules/vae2_1.py and vae2_2.py. */
static const double mean16[] = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
static const double std16[] = {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
                               3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.916};
static const double mean48[] = {-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174,  0.1838,  0.1557,  -0.1382, 0.0542,
                                0.2813,  0.0891,  0.157,   -0.0098, 0.0375,  -0.1825, -0.2246, -0.1207, -0.0698, 0.5109,
                                0.2665,  -0.2108, -0.2158, 0.2502,  -0.2055, -0.0322, 0.1109,  0.1567,  -0.0729, 0.0899,
                                -0.2799, -0.123,  -0.0313, -0.1649, 0.0117,  0.0723,  -0.2839, -0.2083, -0.052,  0.3748,
                                0.0152,  0.1957,  0.1433,  -0.2944, 0.3573,  -0.0548, -0.1681, -0.0667};
static const double std48[] = {0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.499,  0.4818, 0.5013, 0.8158, 1.0344,
                               0.5894, 1.0901, 0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804,
                               0.5833, 1.4146, 0.8986, 0.5659, 0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999,
                               0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944, 0.5726, 1.2042, 0.5458, 1.6887,
                               0.3971, 1.06,   0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744};

/* The encoder's level: where its first block, and its way to the next level, stand. */
static const sg_source_tensor *block_of(const sg_found_part *p, bool residual, int level, int blocks)
{
    if (residual) return sg_found_tensor(p, "encoder.down_blocks.%d.resnets.0.conv1.bias", level);
    return sg_found_tensor(p, "encoder.down_blocks.%d.conv1.bias", level * (blocks + 1));
}

static bool halves_time(const sg_found_part *p, bool residual, int level, int blocks)
{
    if (residual) return sg_found_tensor(p, "encoder.down_blocks.%d.downsampler.time_conv.weight", level) != NULL;
    return sg_found_tensor(p, "encoder.down_blocks.%d.time_conv.weight", level * (blocks + 1) + blocks) != NULL;
}

static int64_t dim_of(const sg_source_tensor *t, int i) { return t && t->rank > i ? t->dim[i] : 0; }

static sg_status describe_vae_as(const sg_found_part *p, bool residual)
{
    const int64_t       base = sg_found_rows(p, "encoder.conv_in.bias"), z = sg_found_rows(p, "post_quant_conv.bias");
    const int64_t       in = dim_of(sg_found_tensor(p, "encoder.conv_in.weight"), 1);
    const int           blocks = sg_found_list(p, RESNETS_MAX, "decoder.up_blocks.0.resnets", "conv1.bias") - 1;
    const int           levels = sg_found_list(p, LEVELS_MAX, "decoder.up_blocks", "resnets.0.conv1.bias");
    const double *const mean = z == 16 ? mean16 : z == 48 ? mean48 : NULL;
    int64_t             mult[LEVELS_MAX] = {1};
    bool                halves[LEVELS_MAX];
    int                 patch = 1, time = 1;
    for (int i = 0; i < levels; i++) mult[i] = base ? dim_of(block_of(p, residual, i, blocks), 0) / base : 0;
    for (int i = 0; i + 1 < levels; i++) time <<= halves[i] = halves_time(p, residual, i, blocks);
    while (patch < 32 && 3 * patch * patch < in) patch++;
    sg_config_set(
        p->made, "vae", SG_NUMBER("base_dim", base),
        SG_NUMBER("decoder_base_dim", mult[0] ? sg_found_count(p, "decoder.norm_out.gamma") / mult[0] : 0),
        SG_NUMBER("z_dim", z), SG_NUMBER("num_res_blocks", blocks), SG_NUMBER("patch_size", patch),
        SG_BOOL("is_residual", residual), SG_NUMBER("in_channels", in),
        SG_NUMBER("out_channels", sg_found_rows(p, "decoder.conv_out.bias")), SG_NUMBERS("dim_mult", mult, levels),
        SG_BOOLS("temperal_downsample", halves, levels ? levels - 1 : 0), SG_NUMBER("scale_factor_temporal", time),
        SG_NUMBER("scale_factor_spatial", levels ? patch << (levels - 1) : 1),
        SG_REALS(mean ? "latents_mean" : NULL, mean, (int)z),
        SG_REALS(mean ? "latents_std" : NULL, z == 16 ? std16 : std48, (int)z));
    return SG_OK;
}

static sg_status describe_vae(const sg_found_part *p) { return describe_vae_as(p, false); }
static sg_status describe_residual(const sg_found_part *p) { return describe_vae_as(p, true); }

/* ---- parts ---- */

enum { VAE, ALL = 8 };
static const sg_file_part        parts[ALL];
static const sg_file_part *const with[] = {SHARED(UMT5), &parts[VAE], NULL};
static const sg_file_part *const with_image[] = {SHARED(UMT5), &parts[VAE], SHARED(CLIP_VISION), NULL};

#define DENOISER                                                                                                       \
    .component = "transformer", .what = "denoiser of Wan", .class_name = "WanTransformer3DModel",                      \
    .prefixes = sg_denoiser_prefixes, .describe = describe_dit
#define USUAL .usual = "wan2.1_t2v_1.3B_fp16.safetensors, Wan2.2-T2V-A14B-HighNoise-Q4_K_M.gguf, ..."
#define USUAL_IMAGE .usual = "wan2.1_i2v_480p_14B_fp16.safetensors, wan2.1-flf2v-14b-720p-Q4_K_M.gguf, ..."

#define A_VAE                                                                                                          \
    .component = "vae", .what = "VAE of Wan", .class_name = "AutoencoderKLWan", .prefixes = sg_vae_prefixes,           \
    .usual = "wan_2.1_vae.safetensors or Wan2.1_VAE.pth; for 2.2 5B wan2.2_vae.safetensors or Wan2.2_VAE.pth"
#define RESIDUAL "decoder.upsamples.0.upsamples.0.residual.2.weight" /* only 2.2 has levels in lists */
#define RESIDUAL_DIFFUSERS "encoder.down_blocks.0.resnets.0.conv1.weight"

static const sg_file_part parts[ALL] = {
    [VAE] = {A_VAE, .probe = "decoder.middle.0.residual.0.gamma", .not_probe = RESIDUAL, .names = &vae_names,
             .span = "decoder.up_blocks.0.upsamplers.0.resample.1.weight", .describe = describe_vae},
    {DENOISER, USUAL, .probe = "head.modulation", .not_probe = "img_emb.proj.0.weight", .names = &dit_names,
     .with = with},
    {DENOISER, USUAL, .probe = "condition_embedder.time_proj.weight", .not_probe = EMBEDDER "norm1.weight",
     .with = with},
    /* 2.1 image to video, which sees the pictures through CLIP too */
    {DENOISER, USUAL_IMAGE, .probe = "img_emb.proj.0.weight", .names = &dit_names, .with = with_image},
    {DENOISER, USUAL_IMAGE, .probe = EMBEDDER "norm1.weight", .with = with_image},
    {A_VAE, .probe = RESIDUAL, .names = &vae_residual_names, .span = "decoder.up_blocks.0.upsampler.resample.1.weight",
     .describe = describe_residual},
    {A_VAE, .probe = "decoder.mid_block.resnets.0.norm1.gamma", .not_probe = RESIDUAL_DIFFUSERS,
     .describe = describe_vae},
    {A_VAE, .probe = RESIDUAL_DIFFUSERS, .describe = describe_residual}};

/* ---- the family ---- */

static const sg_repository_file repository[] = {{"transformer", "high_noise_model", "diffusion_pytorch_model", ""},
                                                {"transformer_2", "low_noise_model", "diffusion_pytorch_model", ""},
                                                {"transformer", ".", "diffusion_pytorch_model", ""},
                                                {SG_TEXT_ENCODER, ".", "models_t5", ""},
                                                {"image_encoder", ".", "models_clip", ""},
                                                {"vae", ".", "", "VAE"}};

/* 2.1, 2.2 */
static const sg_latent_rgb rgb[] = {
    {.z = 16,
     .bias = {-0.1835f, -0.0868f, -0.3360f},
     .factor = {{-0.1299f, -0.1692f, 0.2932f},
                {0.0671f, 0.0406f, 0.0442f},
                {0.3568f, 0.2548f, 0.1747f},
                {0.0372f, 0.2344f, 0.1420f},
                {0.0313f, 0.0189f, -0.0328f},
                {0.0296f, -0.0956f, -0.0665f},
                {-0.3477f, -0.4059f, -0.2925f},
                {0.0166f, 0.1902f, 0.1975f},
                {-0.0412f, 0.0267f, -0.1364f},
                {-0.1293f, 0.0740f, 0.1636f},
                {0.0680f, 0.3019f, 0.1128f},
                {0.0032f, 0.0581f, 0.0639f},
                {-0.1251f, 0.0927f, 0.1699f},
                {0.0060f, -0.0633f, 0.0005f},
                {0.3477f, 0.2275f, 0.2950f},
                {0.1984f, 0.0913f, 0.1861f}}},
    {.z = 48,
     .bias = {0.0317f, -0.0878f, -0.1388f},
     .factor = {{0.0119f, 0.0103f, 0.0046f},    {-0.1062f, -0.0504f, 0.0165f},  {0.0140f, 0.0409f, 0.0491f},
                {-0.0813f, -0.0677f, 0.0607f},  {0.0656f, 0.0851f, 0.0808f},    {0.0264f, 0.0463f, 0.0912f},
                {0.0295f, 0.0326f, 0.0590f},    {-0.0244f, -0.0270f, 0.0025f},  {0.0443f, -0.0102f, 0.0288f},
                {-0.0465f, -0.0090f, -0.0205f}, {0.0359f, 0.0236f, 0.0082f},    {-0.0776f, 0.0854f, 0.1048f},
                {0.0564f, 0.0264f, 0.0561f},    {0.0006f, 0.0594f, 0.0418f},    {-0.0319f, -0.0542f, -0.0637f},
                {-0.0268f, 0.0024f, 0.0260f},   {0.0539f, 0.0265f, 0.0358f},    {-0.0359f, -0.0312f, -0.0287f},
                {-0.0285f, -0.1032f, -0.1237f}, {0.1041f, 0.0537f, 0.0622f},    {-0.0086f, -0.0374f, -0.0051f},
                {0.0390f, 0.0670f, 0.2863f},    {0.0069f, 0.0144f, 0.0082f},    {0.0006f, -0.0167f, 0.0079f},
                {0.0313f, -0.0574f, -0.0232f},  {-0.1454f, -0.0902f, -0.0481f}, {0.0714f, 0.0827f, 0.0447f},
                {-0.0304f, -0.0574f, -0.0196f}, {0.0401f, 0.0384f, 0.0204f},    {-0.0758f, -0.0297f, -0.0014f},
                {0.0568f, 0.1307f, 0.1372f},    {-0.0055f, -0.0310f, -0.0380f}, {0.0239f, -0.0305f, 0.0325f},
                {-0.0663f, -0.0673f, -0.0140f}, {-0.0416f, -0.0047f, -0.0023f}, {0.0166f, 0.0112f, -0.0093f},
                {-0.0211f, 0.0011f, 0.0331f},   {0.1833f, 0.1466f, 0.2250f},    {-0.0368f, 0.0370f, 0.0295f},
                {-0.3441f, -0.3543f, -0.2008f}, {-0.0479f, -0.0489f, -0.0420f}, {-0.0660f, -0.0153f, 0.0800f},
                {-0.0101f, 0.0068f, 0.0156f},   {-0.0690f, -0.0452f, -0.0927f}, {-0.0145f, 0.0041f, 0.0015f},
                {0.0421f, 0.0451f, 0.0373f},    {0.0504f, -0.0483f, -0.0356f},  {-0.0837f, 0.0168f, 0.0055f}}},
    {.z = 0}};

const sg_family_files sg_files_wan = {
    .checkpoint =
        {PARTS(parts), REPOSITORY(repository),
         .repository_usual =
             "diffusion_pytorch_model.safetensors, models_t5_*.pth or *VAE.pth of an original repository of Wan"},
    .names = &dit_names,
    .rgb = rgb};
