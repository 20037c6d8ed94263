/* hostile_hunyuan.h - the cases of hostile.c for HunyuanVideo: what its own readers must refuse. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "patch_size") ABSURD(DIT, "patch_size_t") ABSURD(DIT, "text_embed_dim") ABSURD(DIT,
    "pooled_projection_dim")
ABSURD(DIT, "rope_theta") ABSURD(DIT, "mlp_ratio")
ABSURD(VAE, "latent_channels") ABSURD(VAE, "scaling_factor")
ABSURD(TEXT, "num_hidden_layers") ABSURD(TEXT, "hidden_size")
ABSURD(SCHEDULER, "num_train_timesteps") ABSURD(SCHEDULER, "shift")

/* ---- the denoiser ---- */
AT("heads of another width", set, DIT, "attention_head_dim", "18", "rope_axes_dim: the three are 16 together, but ")
AT("odd axes", set, DIT, "rope_axes_dim", "[3,7,6]", "rope_axes_dim: 3 is odd")
AT("two axes", set, DIT, "rope_axes_dim", "[8,8]", "rope_axes_dim: should be a list of 3 entries")
BAD("more heads", set, DIT, "num_attention_heads",
    "4", ONE_W "|misshapen: time_text_embed.timestep_embedder.linear_1.weight is [48, 256], should be [64, 256]")
BAD("a block of two streams more", set, DIT, "num_layers",
    "3", ONE_W "|missing: transformer_blocks.2.norm1.linear.weight")
BAD("a block of one stream less", set, DIT, "num_single_layers", "1", ONE_W "|extra")
AT("fewer than no blocks", set, DIT, "num_single_layers", "-1", "num_single_layers: should be a ")
AT("2^40 blocks", set, DIT, "num_refiner_layers", "1099511627776", "num_refiner_layers: should be a ")
BAD("no refiner", set, DIT, "num_refiner_layers", "0", ONE_W "|extra: context_embedder.token_refiner.refiner_blocks.0.")
BAD("no guidance", set, DIT, "guidance_embeds", "false", ONE_W "|extra: time_text_embed.guidance_embedder.linear_1.bias")
BAD("another feed-forward", set, DIT, "mlp_ratio", "3.5", ONE_W "|misshapen: transformer_blocks.0.ff.net.0.proj.weight")
AT("as many out as in", set, DIT, "out_channels", "5", "out_channels: 5, but in_channels is 4")
BAD("patches of two frames", set, DIT, "patch_size_t", "2", ONE_W "|misshapen: x_embedder.proj.weight")
AT("another norm", set, DIT, "qk_norm", "\"layer_norm\"", "qk_norm: \"layer_norm\"|rms_norm")
AT("of an image", set, DIT, "image_condition_type", "\"latent_concat\"", "image_condition_type: is not null: |image to video")
BAD("text of another width", set, DIT, "text_embed_dim", "32", ONE_W "|misshapen: context_embedder.")
BAD("denoiser of Mochi", other, "transformer", NULL,
    "mochi_hd16/transformer", DIT ": _class_name: |MochiTransformer3DModel|HunyuanVideoTransformer3DModel is")

/* ---- texts, scheduler, pipeline ---- */
BAD("encoder of another width", other, "text_encoder", NULL, "hunyuan_hd128/text_encoder",
    "the width of text_encoder is 32, but |" DIT ": text_embed_dim is 24")
BAD("row of another width", other, "text_encoder_2", NULL, "hunyuan_hd128/text_encoder_2",
    "the pooled width of text_encoder_2 is 24, but |" DIT ": pooled_projection_dim is 16")
BAD("encoder of too few layers", set, TEXT, "num_hidden_layers", "1", TEXT ": num_hidden_layers: |2")
BAD("encoder of Mochi", other, "text_encoder", NULL, "mochi_hd16/text_encoder", TEXT)
BAD("decoder of Mochi", other, "vae", NULL,
    "mochi_hd16/vae", VAE ": _class_name: |AutoencoderKLMochi|AutoencoderKLHunyuanVideo is")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, "tokenizer")
BAD("no second tokenizer", gone, "tokenizer_2", NULL, NULL, "tokenizer_2")
BAD("tokenizer of CLIP", other, "tokenizer", NULL, "hunyuan_hd16/tokenizer_2", "tokenizer")
BAD("scheduler of CogVideoX", other, "scheduler", NULL,
    "cogvideox_2b/scheduler", SCHEDULER ": _class_name: \"CogVideoXDDIMScheduler\" is not supported; only \"FlowMatchEulerDiscreteScheduler\" is")
BAD("scheduler of Mochi", other, "scheduler", NULL, "mochi_hd16/scheduler", SCHEDULER ": invert_sigmas: true")
AT("scheduler of other shifts", set, SCHEDULER, "use_dynamic_shifting", "true", "use_dynamic_shifting: true")
AT("pipeline of Mochi", set, INDEX, "_class_name", "\"MochiPipeline\"", "text_encoder: |T5EncoderModel")
AT("encoder of another class", set, INDEX, "text_encoder", "[\"transformers\", \"T5EncoderModel\"]", "text_encoder: |LlamaModel")

/* ---- wishes ---- */
WISH("sampler of CogVideoX", 2, "sampler: ddim is not for this model; euler is", HUNYUAN " --sampler ddim")
WISH("guidance by step", 2, "dynamic-cfg: |hunyuan", HUNYUAN " --dynamic-cfg --cfg-scale 2")
WISH("guidance of 0", 2, "--guidance", HUNYUAN " --guidance 0")
WISH("frames between", 2, "frames: 8: this model makes 4 n + 1; nearest is 9", HUNYUAN " --strict --frames 8")
WISH("too large to hold", 1, "this render needs|GiB may be used", HUNYUAN " --size 1024x1024 --memory-limit 100M")
