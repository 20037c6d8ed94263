/* hostile_cogvideox.h - the cases of hostile.c for CogVideoX: what its own readers must refuse. What is the same for all
 * families, as broken files, is in hostile_cases.h. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "patch_size") ABSURD(DIT, "time_embed_dim") ABSURD(DIT, "text_embed_dim") ABSURD(DIT, "max_text_seq_length")
ABSURD(DIT, "sample_width") ABSURD(DIT, "sample_height") ABSURD(DIT, "sample_frames") ABSURD(DIT, "patch_size_t")
ABSURD(DIT, "spatial_interpolation_scale")
ABSURD(VAE, "latent_channels") ABSURD(VAE, "layers_per_block") ABSURD(VAE, "norm_num_groups") ABSURD(VAE,
    "out_channels")
ABSURD(VAE, "temporal_compression_ratio") ABSURD(VAE, "scaling_factor")
ABSURD(SCHEDULER, "num_train_timesteps") ABSURD(SCHEDULER, "beta_start") ABSURD(SCHEDULER, "snr_shift_scale")

/* ---- the denoiser ---- */
BAD("heads of another width", set, DIT, "num_attention_heads",
    "4", ONE_W "|misshapen: patch_embed.proj.weight is [48, 6, 2, 2], should be [64, 6, 2, 2]")
AT("heads that sines do not fit", set, DIT, "attention_head_dim", "8",
    "attention_head_dim: 3 heads of 8 are no multiple of 16")
BAD("a layer more", set, DIT, "num_layers", "3", ONE_W "|24 missing|missing: transformer_blocks.2.norm1.linear.weight")
BAD("a layer less", set, DIT, "num_layers", "1", ONE_W "|24 extra|extra: transformer_blocks.1.")
BAD("norms without numbers", set, DIT, "norm_elementwise_affine", "false", ONE_W "|extra: norm_final.bias")
BAD("text of another width", set, DIT, "text_embed_dim",
    "24", ONE_W "|misshapen: patch_embed.text_proj.weight is [48, 32], should be [48, 24]")
AT("as many out as in", set, DIT, "out_channels", "4", "in_channels: 6 in and 4 out: |text to video|image to video")
AT("an offset of text to video", set, DIT, "ofs_embed_dim", "20", "ofs_embed_dim: is for image to video")
AT("learned positions with sines", set, DIT, "use_learned_positional_embeddings", "true",
    "use_learned_positional_embeddings: |use_rotary_positional_embeddings")
AT("rotary a text", set, DIT, "use_rotary_positional_embeddings", "\"yes\"",
    "use_rotary_positional_embeddings: should be true or false")
AT("patches of two frames with sines", set, DIT, "patch_size_t", "2", "patch_size_t: |use_rotary_positional_embeddings")
AT("another activation", set, DIT, "activation_fn", "\"geglu\"", "activation_fn: \"geglu\"|gelu-approximate")
AT("epsilon negative", set, DIT, "norm_eps", "-1", "norm_eps: should be a number from 0 to 1")
BAD("denoiser of Mochi", other, "transformer", NULL,
    "mochi_hd16/transformer", DIT ": _class_name: |MochiTransformer3DModel|CogVideoXTransformer3DModel is")

/* ---- the VAE ---- */
AT("groups that do not divide", set, VAE, "norm_num_groups", "5",
    "block_out_channels: 8 is no multiple of the 5 norm_num_groups")
AT("no levels", set, VAE, "block_out_channels", "[]", "block_out_channels: should be a list of 1 to 8 entries")
AT("a level of 0", set, VAE, "block_out_channels", "[8,0,16,20]", "block_out_channels: entry 1")
AT("a level of 2^40", set, VAE, "block_out_channels", "[8,12,16,1099511627776]", "block_out_channels: entry 3")
AT("three levels", set, VAE, "block_out_channels", "[8,12,16]",
    "up_block_types: 4 of them, but block_out_channels has 3")
AT("time by 3", set, VAE, "temporal_compression_ratio", "3", "temporal_compression_ratio: 3|powers of 2 up to 8")
BAD("latents of 4", set, VAE, "latent_channels",
    "4", VAE_W "|misshapen: decoder.conv_in.conv.weight is [20, 6, 3, 3, 3], should be [20, 4, 3, 3, 3]")
BAD("two resnets a level", set, VAE, "layers_per_block", "2", VAE_W "|missing: decoder.up_blocks.0.resnets.2.")
AT("levels of another kind", set, VAE, "down_block_types",
    "[\"CogVideoXDownBlock3D\",\"DownBlock2D\",\"CogVideoXDownBlock3D\",\"CogVideoXDownBlock3D\"]",
    "down_block_types: \"DownBlock2D\"|CogVideoXDownBlock3D")
AT("pixels of 4", set, VAE, "in_channels", "4", "in_channels: only 3, of RGB frames")
AT("another convolution at the end", set, VAE, "use_quant_conv", "true", "use_quant_conv: true")
AT("VAE's epsilon negative", set, VAE, "norm_eps", "-1", "norm_eps: should be a number from 0 to 1")
AT("another convolution", set, VAE, "use_post_quant_conv", "true", "use_post_quant_conv: true")
BAD("decoder of other latents", other, "vae", NULL,
    "cogvideox_5b/vae", VAE ": latent_channels is 4, but |" DIT ": out_channels is 6")
BAD("decoder of Wan", other, "vae", NULL,
    "wan21_hd64/vae", VAE ": _class_name: |AutoencoderKLWan|AutoencoderKLCogVideoX is")

/* ---- texts, scheduler, pipeline ---- */
BAD("encoder of another width", other, "text_encoder", NULL, "mochi_hd16/text_encoder",
    "the width of text_encoder is 24, but |" DIT ": text_embed_dim is 32")
AT("encoder of another kind", set, TEXT, "model_type", "\"clip_text_model\"", "model_type: |clip_text_model")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, PIECES)
BAD("scheduler of Mochi", other, "scheduler", NULL,
    "mochi_hd16/scheduler", SCHEDULER ": _class_name: \"FlowMatchEulerDiscreteScheduler\" is not supported; CogVideoXDDIMScheduler and ")
AT("scheduler unknown", set, SCHEDULER, "_class_name", "\"DDIMScheduler\"",
    "_class_name: \"DDIMScheduler\" is not supported; CogVideoXDDIMScheduler and ")
AT("scheduler of noise", set, SCHEDULER, "prediction_type", "\"epsilon\"", "prediction_type: \"epsilon\"|v_prediction")
AT("scheduler of other betas", set, SCHEDULER, "beta_schedule", "\"linear\"", "beta_schedule: \"linear\"|scaled_linear")
AT("scheduler of given betas", set, SCHEDULER, "trained_betas", "[0.1]", "trained_betas: is not supported")
AT("steps from the front", set, SCHEDULER, "timestep_spacing", "\"leading\"", "timestep_spacing: \"leading\"|trailing")
AT("pipeline of control", set, INDEX, "_class_name", "\"CogVideoXFunControlPipeline\"",
    "_class_name: |CogVideoXPipeline")
AT("pipeline of Mochi", set, INDEX, "_class_name", "\"MochiPipeline\"", "transformer: |CogVideoXTransformer3DModel")
AT("pipeline with another encoder", set, INDEX, "text_encoder", "[\"transformers\",\"UMT5EncoderModel\"]",
    "text_encoder: |UMT5EncoderModel|T5EncoderModel")

/* ---- wishes ---- */
WISH("sampler of flow matching", 2,
    "sampler: unipc is not for this model; ddim and dpm are", COGVIDEOX " --sampler unipc")
WISH("flow shift", 2, "--flow-shift|ddim", COGVIDEOX " --flow-shift 3")
WISH("noise levels", 2, "--sigmas", SAY " --size 32x32 --frames 9 -q -o clip.y4m --sigmas 1,0.5")
WISH("tiles", 2, "vae-tiling: |AutoencoderKLCogVideoX", COGVIDEOX " --vae-tiling on")
WISH("frames between", 2, "frames: 3: this model makes ", COGVIDEOX " --strict --frames 3")
WISH("too large to hold", 1, "this render needs|GiB may be used", COGVIDEOX " --size 1024x1024 --memory-limit 100M")
