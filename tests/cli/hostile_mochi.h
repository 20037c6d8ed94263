/* hostile_mochi.h - the cases of hostile.c for Mochi: what its own readers must refuse. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "patch_size") ABSURD(DIT, "time_embed_dim") ABSURD(DIT, "text_embed_dim") ABSURD(DIT,
    "pooled_projection_dim")
ABSURD(VAE, "latent_channels") ABSURD(VAE, "out_channels") ABSURD(VAE, "scaling_factor")
ABSURD(SCHEDULER, "num_train_timesteps") ABSURD(SCHEDULER, "shift")

/* ---- the denoiser ---- */
BAD("heads of another width", set, DIT, "num_attention_heads",
    "4", ONE_W "|misshapen: patch_embed.proj.weight is [48, 12, 2, 2], should be [64, 12, 2, 2]")
AT("odd heads", set, DIT, "attention_head_dim", "15", "attention_head_dim: 15 is odd")
BAD("a layer more", set, DIT, "num_layers",
    "3", ONE_W "|24 missing, 2 extra|missing: transformer_blocks.1.norm1_context.linear.weight")
BAD("a layer less", set, DIT, "num_layers",
    "1", ONE_W "|2 missing, 24 extra|missing: transformer_blocks.0.norm1_context.linear_1.weight")
AT("as many out as in", set, DIT, "out_channels", "4", "out_channels: 4, but in_channels is 12")
AT("text that the pool does not divide", set, DIT, "text_embed_dim", "20",
    "text_embed_dim: 20 is no multiple of the 8 heads")
BAD("text of another width", set, DIT, "text_embed_dim", "32", ONE_W "|misshapen: time_embed.pooler.to_kv.weight")
BAD("patches of 3", set, DIT, "patch_size",
    "3", ONE_W "|misshapen: patch_embed.proj.weight is [48, 12, 2, 2], should be [48, 12, 3, 3]")
AT("another norm", set, DIT, "qk_norm", "\"layer_norm\"", "qk_norm: \"layer_norm\"|rms_norm")
AT("another activation", set, DIT, "activation_fn", "\"gelu\"", "activation_fn: \"gelu\"|swiglu")
BAD("denoiser of CogVideoX", other, "transformer", NULL,
    "cogvideox_2b/transformer", DIT ": _class_name: |CogVideoXTransformer3DModel|MochiTransformer3DModel is")

/* ---- the decoder ---- */
AT("no levels", set, VAE, "decoder_block_out_channels", "[]",
    "decoder_block_out_channels: should be a list of 2 to 7 entries")
AT("groups that do not divide", set, VAE, "decoder_block_out_channels", "[32,32,64,100]",
    "decoder_block_out_channels: entry 3 is 100, no multiple of 32")
AT("a level of 2^40", set, VAE, "decoder_block_out_channels", "[32,32,64,1099511627776]",
    "decoder_block_out_channels: entry 3")
AT("three levels", set, VAE, "decoder_block_out_channels", "[32,64,96]",
    "layers_per_block: has 5 entries, but decoder_block_out_channels wants 4")
AT("layers of four parts", set, VAE, "layers_per_block", "[1,1,1,1]",
    "layers_per_block: has 4 entries, but decoder_block_out_channels wants 5")
AT("no layers", set, VAE, "layers_per_block", "[1,1,1,1,0]", "layers_per_block: entry 4")
BAD("a layer of the decoder more", set, VAE, "layers_per_block",
    "[1,1,1,1,2]", VAE_W "|missing: decoder.block_in.resnets.1.")
AT("two expansions", set, VAE, "spatial_expansions", "[2,2]",
    "spatial_expansions: has 2 entries, but decoder_block_out_channels wants 3")
AT("expansion by 0", set, VAE, "temporal_expansions", "[1,2,0]", "temporal_expansions: entry 2")
AT("expansion by 2^40", set, VAE, "spatial_expansions", "[2,2,1099511627776]", "spatial_expansions: entry 2")
BAD("expansion by 3", set, VAE, "spatial_expansions",
    "[2,2,3]", VAE_W "|misshapen: decoder.up_blocks.0.proj.weight is [768, 96], should be [1728, 96]")
AT("means of 11", set, VAE, "latents_mean", "[0,0,0,0,0,0,0,0,0,0,0]",
    "latents_mean: should be a list of 12 entries, has 11")
AT("divided by 0", set, VAE, "latents_std", "[0,1,1,1,1,1,1,1,1,1,1,1]", "latents_std: entry 0")
AT("latents of 16", set, VAE, "latent_channels", "16", "latents_mean: should be a list of 16 entries")
BAD("decoder of CogVideoX", other, "vae", NULL,
    "cogvideox_2b/vae", VAE ": _class_name: |AutoencoderKLCogVideoX|AutoencoderKLMochi is")

/* ---- texts, scheduler, pipeline ---- */
BAD("encoder of another width", other, "text_encoder", NULL, "cogvideox_2b/text_encoder",
    "the width of text_encoder is 32, but |" DIT ": text_embed_dim is 24")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, PIECES)
BAD("scheduler of CogVideoX", other, "scheduler", NULL,
    "cogvideox_2b/scheduler", SCHEDULER ": _class_name: \"CogVideoXDDIMScheduler\" is not supported; only \"FlowMatchEulerDiscreteScheduler\" is")
BAD("scheduler of Wan", other, "scheduler", NULL, "wan21_hd64/scheduler", SCHEDULER ": invert_sigmas: |should be true")
AT("scheduler of other shifts", set, SCHEDULER, "use_dynamic_shifting", "true", "use_dynamic_shifting: true")
AT("scheduler of other sigmas", set, SCHEDULER, "use_karras_sigmas", "true", "use_karras_sigmas: true")
AT("scheduler of noise", set, SCHEDULER, "stochastic_sampling", "true", "stochastic_sampling: true")
AT("zeros a text", set, INDEX, "force_zeros_for_empty_prompt", "\"yes\"",
    "force_zeros_for_empty_prompt: should be true or false")
AT("pipeline of CogVideoX", set, INDEX, "_class_name", "\"CogVideoXPipeline\"", "transformer: |MochiTransformer3DModel")

/* ---- wishes ---- */
WISH("one step", 2, "1 step: |begins with 2", SAY " --size 32x32 --frames 7 --steps 1 -q -o clip.y4m")
WISH("sampler of CogVideoX", 2, "sampler: ddim is not for this model; euler is", MOCHI " --sampler ddim")
WISH("guidance by step", 2, "dynamic-cfg: |mochi", MOCHI " --dynamic-cfg")
WISH("frames between", 2, "frames: 8: this model makes 6 n + 1; nearest is 7", MOCHI " --strict --frames 8")
WISH("too large to hold", 1, "this render needs|GiB may be used", MOCHI " --size 1024x1024 --memory-limit 100M")
