"""CogVideoX 2B, 5B and 1.5: minis, hooks, decoding.

The passes are one batch, the negative prompt first. Noise is drawn in the precision of the text encoder's output, frame by
frame, and with DPM again at each step; pads of a prompt are tokens like others. The pipeline is not told how many tokens
a text has: `max_text_seq_length` of the denoiser's configuration says it here.
"""
import functools

import diffusers
import torch
from diffusers.models import embeddings
from diffusers.pipelines.cogvideo import pipeline_cogvideox
from diffusers.schedulers import scheduling_dpm_cogvideox

from parts import GATED_T5, RELU_T5, T5, WEIGHT_DTYPES, build, fan_in, to_dtype
from taps import Wide, channels_last, hook_calls, in_batch, randn_as

PIPELINE = diffusers.CogVideoXPipeline
MASKED_TEXT = False
LOW_VAE = True        # a bfloat16 render decodes in bfloat16, and its frames are a tap
NOISE_BY_DTYPE = True

CASES = {
    # Sine and cosine positions, float16, DDIM; an odd number of latent frames; scales other than the published ones.
    "cogvideox_2b": {
        "family": "cogvideox", "seed": 2000, "dtype": "F16", "tokenizer": T5,
        "sampler": {"kind": "ddim", "snr_shift_scale": 3.0, "rescale_betas_zero_snr": True},
        "text": {**GATED_T5, "width": 32, "head": 8, "heads": 4, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=3, attention_head_dim=16, in_channels=6, out_channels=6, time_embed_dim=20,
                    num_layers=2, sample_width=10, sample_height=8, sample_frames=9, max_text_seq_length=24,
                    spatial_interpolation_scale=1.5, temporal_interpolation_scale=0.8, norm_eps=1e-4),
        "vae": dict(block_out_channels=[8, 12, 16, 20], latent_channels=6, layers_per_block=1, norm_num_groups=4,
                    sample_height=64, sample_width=80, scaling_factor=1.15258426),
        "request": dict(prompt="A panda plays the guitar", negative_prompt="", width=48, height=32, frames=9, steps=3,
                        cfg_scale=6.0, seed=31),
    },
    # Rotary positions on a cropped grid, bfloat16 in shards, DPM, guidance that follows the timestep; an even number of
    # latent frames, three levels.
    "cogvideox_5b": {
        "family": "cogvideox", "seed": 5500, "dtype": "BF16", "shard": "300KB", "tokenizer": T5,
        "sampler": {"kind": "dpm", "snr_shift_scale": 1.0, "rescale_betas_zero_snr": True},
        "text": {**GATED_T5, "width": 24, "head": 8, "heads": 3, "ff": 40, "layers": 1},
        "dit": dict(num_attention_heads=3, attention_head_dim=64, in_channels=5, out_channels=5, time_embed_dim=36,
                    num_layers=1, sample_width=12, sample_height=13, sample_frames=9, max_text_seq_length=20,
                    use_rotary_positional_embeddings=True),
        "vae": dict(block_out_channels=[8, 16, 24], latent_channels=5, layers_per_block=2, norm_num_groups=2,
                    sample_height=52, sample_width=48, scaling_factor=0.7),
        "request": dict(prompt="Ein Boot treibt den Fluss hinab", negative_prompt="blurry, low quality, a very long list",
                        width=40, height=24, frames=5, steps=4, cfg_scale=7.0, seed=32, dynamic_cfg=True),
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
    return {**made, "scheduler": make_sampler(spec["sampler"])}


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    angles = functools.partial(embeddings.get_1d_rotary_pos_embed, freqs_dtype=torch.float64)
    return [(embeddings, "torch", Wide()), (embeddings, "get_1d_rotary_pos_embed", angles)]


def drawn_as(dtype):
    """What makes pipeline and sampler draw their noise in `dtype`."""
    return randn_as(dtype, pipeline_cogvideox, scheduling_dpm_cogvideox)


def widen_model(pipe):
    model = pipe.transformer.double()
    embed, c = model.patch_embed, model.config
    if hasattr(embed, "pos_embedding"):
        embed.pos_embedding = embed._get_positional_embeddings(c.sample_height, c.sample_width, c.sample_frames)


def grid(x):
    """Latents as the pipeline has them, [1, f, c, y, x], to [c, f, y, x]."""
    return x[0].transpose(0, 1)


def schedule(sampler):
    return {"timesteps": sampler.timesteps, "alphas_cumprod": sampler.alphas_cumprod[sampler.timesteps]}


def hook_dit(taps, pipe, state, passes):
    model, put = pipe.transformer, in_batch(taps, state, passes)
    hook_calls(taps, model, state, passes, grid)

    def embedded(_, args, output):
        n = args[0].shape[1]
        put("text", output[:, :n])
        put("patch_embed", output[:, n:])
    model.patch_embed.register_forward_hook(embedded)
    model.time_embedding.register_forward_hook(lambda _, args, output: put("temb", output))
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


def hook_vae(taps, vae):
    d = vae.decoder
    taps.out(d.conv_in, "vae.conv_in")
    taps.out(d.mid_block, "vae.mid")
    for i, b in enumerate(d.up_blocks):
        taps.out(b, f"vae.up.{i}")
    taps.out(d.conv_out, "vae.conv_out")


def filled_up(pipe, request):
    """Latent frames that the pipeline adds in front for patches of several frames."""
    frames = (request["frames"] - 1) // pipe.vae.config.temporal_compression_ratio + 1
    return -frames % (pipe.transformer.config.patch_size_t or 1)


def decode(pipe, latents, dtype, request):
    z = latents.transpose(0, 1)[None, filled_up(pipe, request):].to(pipe.vae.device, dtype)
    return channels_last(pipe.decode_latents(z)).cpu()


def clip_shape(spec):
    """No encoder is compared."""
    return None


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    return {"use_dynamic_cfg": request.get("dynamic_cfg", False),
            "max_sequence_length": pipe.transformer.config.max_text_seq_length}
