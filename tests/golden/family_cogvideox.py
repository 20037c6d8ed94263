"""CogVideoX 2B, 5B and 1.5, of text, of an image and of a video: minis, hooks, decoding.

The passes are one batch, the negative prompt first. Pads of a text are tokens like others; how many there are in all
`max_text_seq_length` of the denoiser's configuration says here, as nothing else does. Noise is drawn in the model's
precision, after a draw of the latents of a picture or a video; torch draws that of bfloat16 as float32 and rounds, where there are 16 n
numbers. So there are in these minis.
"""
import functools
import math

import diffusers
import torch
from diffusers.models import embeddings
from diffusers.models.autoencoders import vae as distribution
from diffusers.pipelines.cogvideo import pipeline_cogvideox, pipeline_cogvideox_image2video, pipeline_cogvideox_video2video
from diffusers.schedulers import scheduling_dpm_cogvideox

from parts import GATED_T5, RELU_T5, T5, WEIGHT_DTYPES, build, fan_in, pictures, random_request, random_text, to_dtype, \
    video
from taps import Wide, channels_last, drawn_as_f32, hook_calls, hook_vae, in_batch

PIPELINE, VAE = diffusers.CogVideoXPipeline, diffusers.AutoencoderKLCogVideoX
IMAGE_PIPELINE = diffusers.CogVideoXImageToVideoPipeline
MASKED_TEXT = False
LEAST_STEPS = 1
LOW_VAE = True  # a bfloat16 render decodes in bfloat16, and its frames are a tap

CASES = {
    # Sine and cosine positions, float16, DDIM; five latent frames, which are decoded as three and two; scales other than the published ones.
    "cogvideox_2b": {
        "family": "cogvideox", "seed": 2000, "dtype": "F16", "tokenizer": T5,
        "sampler": {"kind": "ddim", "snr_shift_scale": 3.0, "rescale_betas_zero_snr": True},
        "text": {**GATED_T5, "width": 32, "head": 8, "heads": 4, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=3, attention_head_dim=16, in_channels=6, out_channels=6, time_embed_dim=20,
                    num_layers=2, sample_width=10, sample_height=8, sample_frames=9, max_text_seq_length=24,
                    spatial_interpolation_scale=1.5, temporal_interpolation_scale=0.8, norm_eps=1e-4),
        "vae": dict(block_out_channels=[8, 12, 16, 20], latent_channels=6, layers_per_block=1, norm_num_groups=4,
                    sample_height=64, sample_width=80, scaling_factor=1.15258426),
        "request": dict(prompt="A panda plays the guitar", negative_prompt="", width=48, height=32, frames=17, steps=3,
                        cfg_scale=6.0, seed=31),
    },
    # Rotary positions on a cropped grid, bfloat16 in shards, DPM, guidance that follows the timestep; an even number of
    # latent frames, three levels.
    "cogvideox_5b": {
        "family": "cogvideox", "seed": 5500, "dtype": "BF16", "shard": "300KB", "tokenizer": T5,
        "sampler": {"kind": "dpm", "snr_shift_scale": 1.0, "rescale_betas_zero_snr": True},
        "text": {**GATED_T5, "width": 24, "head": 8, "heads": 3, "ff": 40, "layers": 1},
        "dit": dict(num_attention_heads=3, attention_head_dim=64, in_channels=4, out_channels=4, time_embed_dim=36,
                    num_layers=1, sample_width=12, sample_height=13, sample_frames=9, max_text_seq_length=20,
                    use_rotary_positional_embeddings=True),
        "vae": dict(block_out_channels=[8, 16, 24], latent_channels=4, layers_per_block=2, norm_num_groups=2,
                    sample_height=52, sample_width=48, scaling_factor=0.7),
        "request": dict(prompt="Ein Boot treibt den Fluss hinab", negative_prompt="blurry, low quality, a very long list",
                        width=40, height=24, frames=8, steps=4, cfg_scale=7.0, seed=32, dynamic_cfg=True),
    },
    # 1.5: patches of two frames, of which the first is filled up, a linear map with a bias in spite of patch_bias.
    "cogvideox_15": {
        "family": "cogvideox", "seed": 1500, "dtype": "F32", "tokenizer": T5,
        "sampler": {"kind": "ddim", "snr_shift_scale": 1.0, "rescale_betas_zero_snr": True},
        "text": {**RELU_T5, "width": 40, "head": 8, "heads": 3, "ff": 56, "layers": 1},
        "dit": dict(num_attention_heads=5, attention_head_dim=16, in_channels=4, out_channels=4, time_embed_dim=24,
                    num_layers=2, sample_width=24, sample_height=20, sample_frames=9, max_text_seq_length=18,
                    patch_size_t=2, patch_bias=False, use_rotary_positional_embeddings=True),
        "vae": dict(block_out_channels=[8, 8, 12, 16], latent_channels=4, layers_per_block=1, norm_num_groups=4,
                    sample_height=160, sample_width=192, scaling_factor=0.7, invert_scale_latents=True),
        "request": dict(prompt="Snow falls", negative_prompt="loud colours, text", width=48, height=32, frames=9, steps=3,
                        cfg_scale=5.0, seed=33),
    },
}

# Image to video. pictures: how many; a clip begins with it. clip: frames of the encoder's input.
CASES["cogvideox_i2v"] = {
    # Learned positions beside rotary ones; the encoder's chunks are 9 and 8 frames.
    "family": "cogvideox", "seed": 5502, "dtype": "BF16", "tokenizer": T5, "clip": 17,
    "sampler": {"kind": "dpm", "snr_shift_scale": 1.0, "rescale_betas_zero_snr": True},
    "text": {**GATED_T5, "width": 24, "head": 8, "heads": 3, "ff": 40, "layers": 1},
    "dit": dict(num_attention_heads=3, attention_head_dim=48, in_channels=8, out_channels=4, time_embed_dim=28,
                num_layers=2, sample_width=10, sample_height=6, sample_frames=9, max_text_seq_length=21,
                use_rotary_positional_embeddings=True, use_learned_positional_embeddings=True),
    "vae": dict(block_out_channels=[8, 12, 20], latent_channels=4, layers_per_block=1, norm_num_groups=4,
                norm_eps=1e-4, sample_height=24, sample_width=40, scaling_factor=0.7),
    "request": dict(prompt="A kite over the sea", negative_prompt="blurry", width=40, height=24, frames=9, steps=4,
                    cfg_scale=6.0, seed=34, pictures=1),
}
CASES["cogvideox_15_i2v"] = {
    # 1.5: an offset, latents that are divided by their scale, a picture beside the frame that fills up a patch. The encoder
    # has one chunk, of an even number of frames.
    **CASES["cogvideox_15"], "seed": 1502, "clip": 12,
    "dit": {**CASES["cogvideox_15"]["dit"], "num_attention_heads": 3, "in_channels": 8, "ofs_embed_dim": 24},
    "request": dict(prompt="Snow falls", negative_prompt="", width=48, height=48, frames=9, steps=3, cfg_scale=5.0,
                    seed=35, pictures=1),
}
# Video to video: the last of the steps, from a clip of counter.py with noise.
CASES["cogvideox_video"] = {
    **CASES["cogvideox_5b"], "seed": 5501,
    "request": dict(prompt="Ein Boot treibt den Fluss hinab", negative_prompt="blurry", width=40, height=24, frames=9,
                    steps=5, cfg_scale=7.0, seed=36, strength=0.7),
}


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; gates and shifts vary by channel; attention is not flat."""
    for name, p in model.named_parameters():
        if name.endswith("weight") and ("norm_q" in name or "norm_k" in name):
            draw(name, p, 0.2, 1.3)
        elif name.endswith("norm.weight") or name == "norm_final.weight":
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 0.5 if ".linear." in name else 1.4 if "ff.net.2" in name or "linear_2" in name else 1.0
            draw(name, p, gain / fan_in(p) ** 0.5)
    if model.config.use_learned_positional_embeddings:
        draw("patch_embed.pos_embedding", model.patch_embed.pos_embedding, 0.7)


def fill_vae(model, draw):
    for name, p in model.named_parameters():
        if p.ndim == 1 and name.endswith("weight"):
            draw(name, p, 0.2, 1.0)
        elif name.endswith("conv_y.conv.bias"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 0.4 if "conv_y" in name or "conv_b" in name else 0.6 if "conv_out" in name else \
                1.0 if "shortcut" in name else 1.3
            draw(name, p, gain / fan_in(p) ** 0.5)


def make_sampler(spec):
    kind = diffusers.CogVideoXDPMScheduler if spec["kind"] == "dpm" else diffusers.CogVideoXDDIMScheduler
    return kind(prediction_type="v_prediction", timestep_spacing="trailing", clip_sample=False,
                **{k: v for k, v in spec.items() if k != "kind"})


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoder and tokenizer."""
    vae = dict(spec["vae"])
    vae["down_block_types"] = ["CogVideoXDownBlock3D"] * len(vae["block_out_channels"])
    vae["up_block_types"] = ["CogVideoXUpBlock3D"] * len(vae["block_out_channels"])
    made = {"transformer": build(lambda: diffusers.CogVideoXTransformer3DModel(text_embed_dim=spec["text"]["width"],
                                                                               **spec["dit"]),
                                 fill_transformer, draw("transformer", 2), device),
            "vae": build(lambda: diffusers.AutoencoderKLCogVideoX(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    if spec["dit"].get("use_learned_positional_embeddings"):  # no parameter, but it is saved
        embed = made["transformer"].patch_embed
        embed.pos_embedding = embed.pos_embedding.to(WEIGHT_DTYPES[spec["dtype"]])
    return {**made, "scheduler": make_sampler(spec["sampler"])}


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    angles = functools.partial(embeddings.get_1d_rotary_pos_embed, freqs_dtype=torch.float64)
    return [(embeddings, "torch", Wide()), (embeddings, "get_1d_rotary_pos_embed", angles),
            *drawn_as_f32(pipeline_cogvideox, pipeline_cogvideox_image2video, pipeline_cogvideox_video2video, distribution,
                          scheduling_dpm_cogvideox)]


def widen_model(pipe):
    model = pipe.transformer.double()
    embed, c = model.patch_embed, model.config
    if hasattr(embed, "pos_embedding") and not c.use_learned_positional_embeddings:
        embed.pos_embedding = embed._get_positional_embeddings(c.sample_height, c.sample_width, c.sample_frames)


def grid(x):
    """Latents as the pipeline has them, [1, f, c, y, x], to [c, f, y, x]."""
    return x[0].transpose(0, 1)


def schedule(sampler):
    """sigmas: the shares of noise of the samples, and 0."""
    clean, noise = (x[sampler.timesteps].sqrt() for x in (sampler.alphas_cumprod, 1 - sampler.alphas_cumprod))
    return {"timesteps": sampler.timesteps, "sigmas": torch.cat([noise / (clean + noise), noise.new_zeros(1)])}


def hook_dit(taps, pipe, state, passes):
    model, put = pipe.transformer, in_batch(taps, state, passes)
    hook_calls(taps, model, state, passes, grid)

    def embedded(_, args, output):
        n = args[0].shape[1]
        put("text", output[:, :n])
        put("patch_embed", output[:, n:])
    model.patch_embed.register_forward_hook(embedded)
    model.time_embedding.register_forward_hook(lambda _, args, output: put("temb", output))
    if model.ofs_embedding is not None:
        model.ofs_embedding.register_forward_hook(lambda _, args, output: put("offset", output))
    for i, b in enumerate(model.transformer_blocks):
        def after_attention(_, args, i=i):
            put(f"block.{i}.attn1", args[0], both=True)
            put(f"block.{i}.attn1_text", args[1], both=True)

        def after_ff(_, args, output, i=i):
            put(f"block.{i}.ff", output[0], both=True)
            put(f"block.{i}.ff_text", output[1], both=True)
        b.norm2.register_forward_pre_hook(after_attention)
        b.register_forward_hook(after_ff)
    model.proj_out.register_forward_hook(lambda _, args, output: put("proj_out", output))


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded: without the frames that fill up patches of several frames."""
    frames = (request["frames"] - 1) // pipe.vae.config.temporal_compression_ratio + 1
    return latents[:, -frames % (pipe.transformer.config.patch_size_t or 1):]


def way(noise, latents):
    """What the denoiser has made of the noise: nothing of it is left after one step from where there is nothing but noise."""
    return latents


def decode(vae, latents, dtype):
    z = 1 / vae.config.scaling_factor * latents[None].to(vae.device, dtype)
    return channels_last(vae.decode(z).sample).clamp(-1, 1).cpu()


def clip_shape(spec):
    """Of the encoder's input; the first minis have none."""
    scale = 2 ** (len(spec["vae"].get("block_out_channels", range(4))) - 1)
    return (spec["clip"], 2 * scale, 3 * scale, 3) if "clip" in spec else None


def encode(vae, clip, dtype):
    """The taps have all of it: mean and logarithm of the variance are one tensor."""
    vae.encode(clip.permute(3, 0, 1, 2)[None].to(vae.device, dtype))


def from_video(pipe):
    made = diffusers.CogVideoXVideoToVideoPipeline(**pipe.components)
    made.set_progress_bar_config(disable=True)
    made.made_of = type(pipe).__name__
    return made


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    given = {"video": video(request), "strength": request["strength"]} if "strength" in request else \
        dict(zip(("image",), pictures(request)))
    return {**given, "use_dynamic_cfg": request.get("dynamic_cfg", False),
            "max_sequence_length": pipe.transformer.config.max_text_seq_length}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open."""
    model = diffusers.CogVideoXTransformer3DModel.load_config(folder, subfolder="transformer")
    scale = 2 ** (len(diffusers.AutoencoderKLCogVideoX.load_config(folder, subfolder="vae")["block_out_channels"]) - 1)
    return dict(width=model["sample_width"] * scale, height=model["sample_height"] * scale, frames=model["sample_frames"],
                steps=50, cfg_scale=6.0)


def random_vae(r):
    levels, groups = r.choice([2, 3, 4, 4]), r.choice([1, 2, 4])
    return dict(block_out_channels=[groups * r.choice([2, 3, 4, 6]) for _ in range(levels)], norm_num_groups=groups,
                latent_channels=r.choice([4, 5, 8, 16]), layers_per_block=r.choice([1, 1, 2]),
                temporal_compression_ratio=2 ** r.choice([k for k in (1, 2, 2, 2, 3) if k < levels]),
                scaling_factor=r.choice([0.7, 1.15258426]))


def random_dit(r, channels, patch_t):
    rope = patch_t is not None or r.random() < 0.6
    head = r.choice([16, 32, 48, 64, 80, 96, 128] if rope else [8, 16, 20, 24, 32, 40, 64, 128])
    heads = r.choice([n for n in range(1, 9) if n * head <= 256 and n * head % 16 == 0])
    dit = dict(num_attention_heads=heads, attention_head_dim=head, in_channels=channels, out_channels=channels,
               time_embed_dim=r.choice([16, 36, 64]), num_layers=r.choice([1, 2, 3]), patch_size=r.choice([1, 2, 2, 2]),
               max_text_seq_length=r.choice([8, 17, 40, 226]), norm_eps=r.choice([1e-5, 1e-5, 1e-4]),
               patch_bias=r.random() < 0.7, use_rotary_positional_embeddings=rope, sample_frames=r.choice([9, 17, 49]),
               spatial_interpolation_scale=r.choice([1.0, 1.5, 1.875]),
               temporal_interpolation_scale=r.choice([1.0, 0.75, 2.0]))
    if patch_t is not None:
        dit["patch_size_t"] = patch_t
    return dit


def add_picture(r, spec, scale):
    """Makes it one of image to video; 1.5's positions are never learned, and only 1.5 has an offset."""
    dit, vae, request = spec["dit"], spec["vae"], spec["request"]
    dit["in_channels"] *= 2
    vae.update(norm_eps=r.choice([1e-6, 1e-5]), invert_scale_latents=r.random() < 0.5)
    request["pictures"] = 1
    if "patch_size_t" in dit and r.random() < 0.7:
        dit["ofs_embed_dim"] = dit["time_embed_dim"]
    if "patch_size_t" not in dit and dit["use_rotary_positional_embeddings"] and r.random() < 0.7:
        latents = (request["frames"] - 1) // vae["temporal_compression_ratio"] + 1
        dit.update(use_learned_positional_embeddings=True, temporal_compression_ratio=r.choice([2, 4]),
                   sample_height=request["height"] // scale, sample_width=request["width"] // scale)
        if r.random() < 0.7:
            dit["sample_frames"] = (latents - 1) * dit["temporal_compression_ratio"] + 1


def random_spec(r):
    vae = random_vae(r)
    dit = random_dit(r, vae["latent_channels"], r.choice([None, None, 2]))
    scale, time = 2 ** (len(vae["block_out_channels"]) - 1), vae["temporal_compression_ratio"]
    latents = r.choice([1, 2, 3, 4, 5])
    request = random_request(r, math.lcm(8, scale * dit["patch_size"]),
                             time * latents if latents % 2 == 0 else time * (latents - 1) + 1, range(1, 11),
                             dynamic_cfg=r.random() < 0.3)
    # Positions of 1.5 are those of a table as large as the sample; others are squeezed into it.
    least = [request[side] // scale if "patch_size_t" in dit else dit["patch_size"] for side in ("height", "width")]
    dit["sample_height"], dit["sample_width"] = (n + r.randrange(12) for n in least)
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": T5,
            "sampler": {"kind": r.choice(["ddim", "dpm"]), "snr_shift_scale": r.choice([1.0, 3.0]),
                        "rescale_betas_zero_snr": r.random() < 0.7},
            "text": random_text(r, ["t5"]), "dit": dit, "vae": vae, "request": request}
    if r.random() < 0.5:
        spec["shard"] = "200KB"
    if r.random() < 0.5:
        add_picture(r, spec, scale)
    return spec
