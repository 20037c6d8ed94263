/* hostile_sd3.h - the cases of hostile.c for SD3.5: what its own readers must refuse. */
/* clang-format off */

/* ---- numbers ---- */
ABSURD(DIT, "num_attention_heads") ABSURD(DIT, "attention_head_dim") ABSURD(DIT, "num_layers") ABSURD(DIT,
    "in_channels")
ABSURD(DIT, "patch_size") ABSURD(DIT, "joint_attention_dim") ABSURD(DIT, "pooled_projection_dim")
ABSURD(DIT, "caption_projection_dim") ABSURD(DIT, "pos_embed_max_size") ABSURD(DIT, "sample_size")
ABSURD(VAE, "latent_channels") ABSURD(VAE, "scaling_factor")
AT("a projection below none", set, TEXT, "projection_dim", "-1", "projection_dim: should be a ")
AT("a projection beyond memory", set, TEXT, "projection_dim", "1099511627776", "projection_dim: should be a ")
ABSURD("text_encoder_3/config.json", "d_model")

/* ---- the denoiser ---- */
BAD("positions of another square", set, DIT, "pos_embed_max_size", "14",
    ONE_W "|misshapen: pos_embed.pos_embed is [169, 48], should be [196, 48]")
BAD("positions of the largest square", set, DIT, "pos_embed_max_size", "4096", ONE_W "|misshapen: pos_embed.pos_embed")
AT("a second attention behind the last block", set, DIT, "dual_attention_layers", "[0,3]", "dual_attention_layers: ")
AT("a second attention before the first block", set, DIT, "dual_attention_layers", "[-1]", "dual_attention_layers: ")
AT("more second attentions than blocks", set, DIT, "dual_attention_layers", "[0,1,2,0]", "dual_attention_layers: ")
AT("a second attention, as a word", set, DIT, "dual_attention_layers", "\"0\"", "dual_attention_layers: ")
GOOD("a second attention that is named twice", set, DIT, "dual_attention_layers", "[0,1,0]")
BAD("a second attention that is not there", set, DIT, "dual_attention_layers", "[0,1,2]",
    ONE_W "|missing: transformer_blocks.2.attn2.to_q.weight")
BAD("a second attention that nobody wants", set, DIT, "dual_attention_layers", "[]",
    ONE_W "|extra: transformer_blocks.0.attn2.")
BAD("no norm of heads", set, DIT, "qk_norm", "null", ONE_W "|extra: transformer_blocks.0.attn.norm_")
AT("another norm of heads", set, DIT, "qk_norm", "\"layer_norm\"", "qk_norm: \"layer_norm\"|rms_norm")
BAD("a block more", set, DIT, "num_layers", "4", ONE_W "|missing: transformer_blocks.2.ff_context.net.0.proj.weight")
BAD("a block less", set, DIT, "num_layers", "2", ONE_W "|extra: transformer_blocks.")
AT("more blocks than tensors", set, DIT, "num_layers", "4096", "num_layers: 4096, but the weights are ")
AT("as many out as in", set, DIT, "out_channels", "5", "out_channels: 5, but in_channels is 4")
AT("text of another width than the tokens", set, DIT, "caption_projection_dim", "40",
    "caption_projection_dim: 40, but the 3 heads of 16 channels have 48")
BAD("patches of another size", set, DIT, "patch_size", "1", ONE_W "|misshapen: pos_embed.proj.weight")
BAD("denoiser of HunyuanVideo", other, "transformer", NULL, "hunyuan_hd16/transformer",
    DIT ": _class_name: |HunyuanVideoTransformer3DModel|SD3Transformer2DModel is")

/* ---- texts, scheduler, pipeline ---- */
BAD("CLIP too wide for T5", set, DIT, "joint_attention_dim", "35", ONE_W "|misshapen: context_embedder.weight")
BAD("T5 of another width", other, "text_encoder_3", NULL, "mochi_hd16/text_encoder",
    "the width of text_encoder_3 is 24, but |" DIT ": joint_attention_dim is 40")
BAD("CLIP of another model", other, "text_encoder", NULL, "sd3_medium/text_encoder",
    "the width of text_encoder and text_encoder_2 together is |" DIT ": ")
BAD("CLIP without a projection of its own", set, TEXT, "projection_dim", "0",
    "the pooled width of text_encoder and text_encoder_2 together is 36, but |" DIT ": pooled_projection_dim is 32")
BAD("CLIP of one layer less", set, TEXT, "num_hidden_layers", "1", TEXT_W "|extra")
BAD("CLIP without a projection", other, "text_encoder", NULL, "hunyuan_hd16/text_encoder_2", "text_encoder")
BAD("no tokenizer", gone, "tokenizer", NULL, NULL, "tokenizer")
BAD("no second tokenizer", gone, "tokenizer_2", NULL, NULL, "tokenizer_2")
BAD("no third tokenizer", gone, "tokenizer_3", NULL, NULL, "tokenizer_3")
BAD("no third encoder", gone, "text_encoder_3", NULL, NULL, "text_encoder_3")
GOOD("a folder of image to image", set, INDEX, "_class_name", "\"StableDiffusion3Img2ImgPipeline\"")
GOOD("a third encoder that is null", set, INDEX, "text_encoder_3", "[null, null]")
AT("a third encoder of another class", set, INDEX, "text_encoder_3", "[\"transformers\", \"UMT5EncoderModel\"]",
    "text_encoder_3: |T5EncoderModel")
AT("encoder of another class", set, INDEX, "text_encoder", "[\"transformers\", \"T5EncoderModel\"]",
    "text_encoder: |CLIPTextModelWithProjection")
BAD("decoder of HunyuanVideo", other, "vae", NULL, "hunyuan_hd16/vae",
    VAE ": _class_name: |AutoencoderKLHunyuanVideo|AutoencoderKL is")
BAD("latents of the other mini", other, "vae", NULL, "sd3_medium/vae",
    VAE ": latent_channels is 16, but |" DIT ": in_channels is 4")
BAD("scheduler of CogVideoX", other, "scheduler", NULL, "cogvideox_2b/scheduler",
    SCHEDULER ": _class_name: \"CogVideoXDDIMScheduler\" is not supported")

/* ---- wishes ---- */
WISH("a size between", 2, "size: 36x32: width and height must be multiples of 8 for this model", SD3 " --strict --size 36x32")
WISH("a size beyond the positions", 2, "size: 112x32: this model has positions for pictures of up to 104x104", SD3 " --size 112x32")
WISH("a clip", 2, "this model makes images, of one frame", SD3 " --strict --frames 5")
WISH("sampler of CogVideoX", 2, "sampler: ddim is not for this model", SD3 " --sampler ddim")
WISH("guidance that it is not given", 2, "guidance: ", SD3 " --guidance 3")
WISH("skipped layers without a scale", 2, "--skip-layers has no effect without --slg-scale", SD3 " --skip-layers 1")
WISH("skipped layers that are not there", 2, "skip-layers: '7-9' names layer 9, but this model has 0 to 2",
    SD3 " --steps 8 --slg-scale 2")
WISH("skipped layers that are no list", 2, "--skip-layers: '1x2' is not a list of layers", SD3 " --slg-scale 2 --skip-layers 1x2")
WISH("skipped layers without guidance", 2, "slg-scale: skip-layer guidance goes with --cfg-scale X above 1, which is 1",
    SD3 " --steps 8 --slg-scale 2 --skip-layers 1 --cfg-scale 1")
WISH("skipped layers in no step", 2, "slg-scale: of 2 steps, counted from 0, none is above 0.01 (--skip-layer-start X) and below 0.2",
    SD3 " --steps 2 --slg-scale 2 --skip-layers 1")
WISH("too large to hold", 1, "this render needs|GiB may be used", SD3 " --size 64x64 --memory-limit 1M")
