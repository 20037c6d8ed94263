/* hostile_flux.h - the cases of hostile.c for Flux.1: what its own readers must refuse. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "joint_attention_dim") ABSURD(DIT, "pooled_projection_dim")
ABSURD(VAE, "latent_channels") ABSURD(VAE, "scaling_factor")
ABSURD(TEXT, "num_hidden_layers") ABSURD("text_encoder_2/config.json", "d_model")
ABSURD(SCHEDULER, "num_train_timesteps") ABSURD(SCHEDULER, "base_image_seq_len")

/* ---- the denoiser ---- */
AT("heads of another width", set, DIT, "attention_head_dim", "18", "axes_dims_rope: the three are 20 together, but ")
AT("odd axes", set, DIT, "axes_dims_rope", "[3,11,6]", "axes_dims_rope: 3 is odd")
AT("two axes", set, DIT, "axes_dims_rope", "[10,10]", "axes_dims_rope: should be a list of 3 entries")
BAD("more heads", set, DIT, "num_attention_heads",
    "4", ONE_W "|misshapen: time_text_embed.timestep_embedder.linear_1.weight is [60, 256], should be [80, 256]")
BAD("a block of two streams more", set, DIT, "num_layers",
    "3", ONE_W "|missing: transformer_blocks.2.norm1.linear.weight")
BAD("a block of one stream less", set, DIT, "num_single_layers", "1", ONE_W "|extra: single_transformer_blocks.1.")
AT("fewer than no blocks", set, DIT, "num_single_layers", "-1", "num_single_layers: should be a ")
BAD("no guidance", set, DIT, "guidance_embeds", "false", ONE_W "|extra: time_text_embed.guidance_embedder.linear_1.bias")
AT("guidance as a number", set, DIT, "guidance_embeds", "3.5", "guidance_embeds: should be true or false")
AT("of a picture beside the latents", set, DIT, "out_channels", "8", "out_channels: 8, but in_channels is 16: |picture")
AT("half a patch", set, DIT, "in_channels", "18", "in_channels: 18 is no multiple of 4")
AT("patches of patches", set, DIT, "patch_size", "2", "patch_size: should be ")
BAD("text of another width", set, DIT, "joint_attention_dim", "32", ONE_W "|misshapen: context_embedder.weight")
BAD("denoiser of HunyuanVideo", other, "transformer", NULL, "hunyuan_hd16/transformer",
    DIT ": _class_name: |HunyuanVideoTransformer3DModel|FluxTransformer2DModel is")

/* ---- texts, scheduler, pipeline ---- */
BAD("T5 of another width", other, "text_encoder_2", NULL, "flux_schnell/text_encoder_2",
    "the width of text_encoder_2 is 40, but |" DIT ": joint_attention_dim is 24")
BAD("CLIP of another width", other, "text_encoder", NULL, "flux_schnell/text_encoder",
    "the pooled width of text_encoder is 24, but |" DIT ": pooled_projection_dim is 16")
BAD("latents of the other mini", other, "vae", NULL, "flux_schnell/vae",
    VAE ": latent_channels is 16, but a fourth of |" DIT ": in_channels is 4")
BAD("decoder of HunyuanVideo", other, "vae", NULL, "hunyuan_hd16/vae",
    VAE ": _class_name: |AutoencoderKLHunyuanVideo|AutoencoderKL is")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, "tokenizer")
BAD("no second tokenizer", gone, "tokenizer_2", NULL, NULL, "tokenizer_2")
BAD("no second encoder", gone, "text_encoder_2", NULL, NULL, "text_encoder_2")
BAD("tokenizer of T5 for CLIP", other, "tokenizer", NULL, "flux_dev/tokenizer_2", "tokenizer")
BAD("scheduler of CogVideoX", other, "scheduler", NULL, "cogvideox_2b/scheduler",
    SCHEDULER ": _class_name: \"CogVideoXDDIMScheduler\" is not supported; only \"FlowMatchEulerDiscreteScheduler\" is")
AT("a schedule of one point", set, SCHEDULER, "max_image_seq_len", "256", "max_image_seq_len: 256 is base_image_seq_len, too")
AT("a shift beyond numbers", set, SCHEDULER, "max_shift", "1e9", "max_shift: should be a number from -16 to 16")
AT("a linear shift", set, SCHEDULER, "time_shift_type", "\"linear\"", "time_shift_type: \"linear\"|\"exponential\"")
AT("a schedule that ends early", set, SCHEDULER, "shift_terminal", "0.02", "shift_terminal: ")
AT("a schedule upside down", set, SCHEDULER, "invert_sigmas", "true", "invert_sigmas: true")
AT("pipeline of SD3", set, INDEX, "_class_name", "\"StableDiffusion3Pipeline\"", "text_encoder_2: |CLIPTextModelWithProjection")
AT("encoder of another class", set, INDEX, "text_encoder_2", "[\"transformers\", \"UMT5EncoderModel\"]",
    "text_encoder_2: |T5EncoderModel")

/* ---- wishes ---- */
WISH("a size between", 2, "size: 36x32: width and height must be multiples of 8 for this model", FLUX " --strict --size 36x32")
WISH("a clip", 2, "this model makes images, of one frame", FLUX " --strict --frames 5")
WISH("sampler of CogVideoX", 2, "sampler: ddim is not for this model; euler is", FLUX " --sampler ddim")
WISH("guidance of 0", 2, "--guidance", FLUX " --guidance 0")
WISH("no flow shift", 2, "--flow-shift", FLUX " --flow-shift 0")
WISH("too large to hold", 1, "this render needs|GiB may be used", FLUX " --size 64x64 --memory-limit 1M")
