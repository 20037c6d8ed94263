/* hostile_opensora.h - the cases of hostile.c for Open-Sora-Plan: what its own readers must refuse. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "patch_size") ABSURD(DIT, "patch_size_t") ABSURD(DIT, "caption_channels") ABSURD(DIT, "sparse_n")
ABSURD(DIT, "interpolation_scale_t") ABSURD(DIT, "sample_size_h") ABSURD(DIT, "sample_size_w") ABSURD(DIT,
    "sample_size_t")
ABSURD(VAE, "latent_dim") ABSURD(VAE, "base_channels") ABSURD(VAE, "decoder_num_resblocks") ABSURD(VAE,
    "encoder_energy_flow_hidden_size")
ABSURD(VAE, "decoder_energy_flow_hidden_size")
ABSURD(SCHEDULER, "num_train_timesteps") ABSURD(SCHEDULER, "beta_start")

/* ---- the denoiser ---- */
BAD("heads of another number", set, DIT, "num_attention_heads", "3",
    DIT ": cross_attention_dim: 192, but the width of all heads is 288: they should agree")
AT("heads that three axes do not divide", swap, DIT,
    "\"attention_head_dim\": 96,\n  \"caption_channels\": 32,\n  \"cross_attention_dim\": 192",
    "\"attention_head_dim\": 64, \"caption_channels\": 32, \"cross_attention_dim\": 128",
    "attention_head_dim: 64 is no multiple of 6")
BAD("a layer more", set, DIT, "num_layers", "5", "|missing: transformer_blocks.4.attn1.")
BAD("a layer less", set, DIT, "num_layers", "3", "|extra: transformer_blocks.3.")
AT("patches of two frames", set, DIT, "patch_size_t", "2", "patch_size_t: 2: |it should be 1")
BAD("patches of 3", set, DIT, "patch_size", "3",
    "|misshapen: pos_embed.proj.weight is [192, 8, 2, 2], should be [192, 8, 3, 3]")
AT("no input", set, DIT, "in_channels", NULL, "in_channels: ")
AT("as many out as in", set, DIT, "out_channels", "4", "out_channels: 4, but in_channels is 8")
BAD("text of another width", set, DIT, "caption_channels", "40", "|misshapen: caption_projection.linear_1.weight")
AT("groups by 3", set, DIT, "sparse_n", "3", "sparse_n: 3 groups of tokens|1 and 4 alone")
AT("groups by the default", set, DIT, "sparse_n", NULL, "sparse_n: 2 groups of tokens|1 and 4 alone")
AT("groups a text", set, DIT, "sparse1d", "\"yes\"", "sparse1d: should be true or false")
AT("another activation", set, DIT, "activation_fn", "\"geglu\"", "activation_fn: \"geglu\"|gelu-approximate")
AT("norms with numbers", set, DIT, "norm_elementwise_affine", "true", "norm_elementwise_affine: true is not supported|only false")
AT("no bias", set, DIT, "attention_bias", "false", "attention_bias: false is not supported|only true")
AT("self-attention twice", set, DIT, "double_self_attention", "true", "double_self_attention: true is not supported|only false")
AT("epsilon negative", set, DIT, "norm_eps", "-1", "norm_eps: should be a number from 0 to 1")
GOOD("no groups", set, DIT, "sparse1d", "false")
AT("denoiser of 1.2", set, DIT, "_class_name", "\"OpenSoraT2V\"", "_class_name: |OpenSoraT2V_v1_3 is")
AT("denoiser that begins with a picture", set, DIT, "_class_name", "\"OpenSoraInpaint_v1_3\"",
    "_class_name: |OpenSoraT2V_v1_3 is")
BAD("denoiser of Mochi", other, "transformer", NULL,
    "mochi_hd16/transformer", DIT ": _class_name: |MochiTransformer3DModel|OpenSoraT2V_v1_3 is")

/* ---- the VAE ---- */
AT("scales of 7", set, VAE, "scale", "[1,1,1,1,1,1,1]", "scale: should be a list of 8 entries, has 7")
AT("scales of 9", set, VAE, "scale", "[1,1,1,1,1,1,1,1,1]", "scale: should be a list of 8 entries, has 9")
AT("scale by 0", set, VAE, "scale", "[0,1,1,1,1,1,1,1]", "scale: entry 0")
AT("one scale for all", set, VAE, "scale", "0.18215", "scale: should be a list of 8 entries")
AT("shifts of 7", set, VAE, "shift", "[0,0,0,0,0,0,0]", "shift: should be a list of 8 entries, has 7")
AT("a shift beyond all", set, VAE, "shift", "[0,0,0,0,0,0,0,1e30]", "shift: entry 7")
AT("latents of 16", set, VAE, "latent_dim", "16", "scale: should be a list of 16 entries, has 8")
AT("another norm", set, VAE, "norm_type", "\"aelayernorm\"", "norm_type: \"aelayernorm\" is not supported")
AT("groups that do not divide", set, VAE, "norm_type", "\"groupnorm\"", "base_channels: 12 is no multiple of 32 groups")
AT("cubic in time", set, VAE, "t_interpolation", "\"cubic\"", "t_interpolation: \"cubic\" is not supported")
AT("another wavelet", set, VAE, "l2_upsample_wavelet", "\"InverseHaarWaveletTransform2D\"",
    "l2_upsample_wavelet: \"InverseHaarWaveletTransform2D\"|InverseHaarWaveletTransform3D")
AT("a wavelet with terminal codes", set, VAE, "l1_upsample_wavelet", "\"\\u001b[2J\"", "l1_upsample_wavelet: \"?[2J\"")
AT("another way up", set, VAE, "l1_upsample_block", "\"Spatial2xTime2x3DUpsample\"", "l1_upsample_block: |\"Upsample\"")
AT("another attention", set, VAE, "attention_type", "\"AttnBlock3D\"", "attention_type: \"AttnBlock3D\"|AttnBlock3DFix")
BAD("no attention", set, VAE, "use_attention", "false", "|missing: |decoder.mid.1.conv1.conv.")
BAD("a block more", set, VAE, "decoder_num_resblocks", "3", "|decoder.up2.")
BAD("a block that connects more", set, VAE, "connect_res_layer_num", "2", "|missing: decoder.connect_l1.1.")
BAD("energy of another width", set, VAE, "decoder_energy_flow_hidden_size", "11",
    "|misshapen: decoder.mid.2.conv1.conv.weight is [58, 48, 3, 3, 3]")
BAD("decoder of Mochi", other, "vae", NULL, "mochi_hd16/vae", VAE ": _class_name: |AutoencoderKLMochi|WFVAEModel is")

/* ---- texts, scheduler, pipeline ---- */
BAD("encoder of another width", other, "text_encoder", NULL, "mochi_hd16/text_encoder",
    "the width of text_encoder is 24, but |" DIT ": caption_channels is 32")
BAD("encoder of fewer pieces", other, "text_encoder", NULL, "opensora_hd24/text_encoder",
    "the tokenizer has 1000 ids, but the table of the text encoder |only 936 rows")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, PIECES)
BAD("scheduler of Mochi", other, "scheduler", NULL, "mochi_hd16/scheduler",
    SCHEDULER ": _class_name: \"FlowMatchEulerDiscreteScheduler\" is not supported; EulerAncestralDiscreteScheduler is")
AT("scheduler of samples", set, SCHEDULER, "prediction_type", "\"sample\"",
    "prediction_type: \"sample\" is not supported")
AT("scheduler of other betas", set, SCHEDULER, "beta_schedule", "\"squaredcos_cap_v2\"",
    "beta_schedule: \"squaredcos_cap_v2\" is not supported")
AT("scheduler of given betas", set, SCHEDULER, "trained_betas", "[0.1]", "trained_betas: is not supported")
AT("pipeline of Mochi", set, INDEX, "_class_name", "\"MochiPipeline\"", "text_encoder: |MT5EncoderModel|T5EncoderModel")
AT("pipeline with another encoder", set, INDEX, "text_encoder", "[\"transformers\",\"UMT5EncoderModel\"]",
    "text_encoder: |UMT5EncoderModel|MT5EncoderModel")

/* ---- wishes ---- */
WISH("sampler of flow matching", 2, "sampler: unipc is not for this model; euler_a is", OPENSORA " --sampler unipc")
WISH("flow shift", 2, "--flow-shift|euler_a", OPENSORA " --flow-shift 3")
WISH("a picture", 2, "image: this model does not take a picture", OPENSORA " --image ../" PICTURE)
WISH("tiles", 0, "", OPENSORA " --vae-tiling on")
WISH("frames between", 2, "frames: 6: this model makes 4 n + 1; nearest is 5", OPENSORA " --strict --frames 6")
WISH("too large to hold", 1, "this render needs|GiB may be used", OPENSORA " --size 1024x1024 --memory-limit 100M")
