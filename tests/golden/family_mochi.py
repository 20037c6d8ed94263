"""Mochi: minis, hooks, decoding.

The passes are one batch, the negative prompt first; the denoiser sees of either text only its own tokens.
"""
import diffusers
import torch
from diffusers.models import embeddings, normalization
from diffusers.models.transformers import transformer_mochi
from diffusers.pipelines.mochi import pipeline_mochi

from parts import GATED_T5, RELU_T5, T5, WEIGHT_DTYPES, build, fan_in, latent_statistics, random_request, \
    random_text, to_dtype
from taps import Wide, channels_last, hook_calls, in_batch, drawn_as_f32

PIPELINE, VAE = diffusers.MochiPipeline, diffusers.AutoencoderKLMochi
MASKED_TEXT = True  # the text encoder runs on the tokens of the prompt alone
LEAST_STEPS = 2     # of one its schedule divides by zero
LOW_VAE = True      # a bfloat16 render decodes in bfloat16, and its frames are a tap

CASES = {
    # Texts of two lengths; levels as the published decoder has them.
    "mochi_hd16": {
        "family": "mochi", "seed": 1600, "dtype": "F32", "tokenizer": T5,
        "text": {**GATED_T5, "width": 24, "head": 8, "heads": 3, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=3, attention_head_dim=16, num_layers=2, pooled_projection_dim=20,
                    time_embed_dim=32),
        "vae": dict(decoder_block_out_channels=[32, 32, 64, 96], layers_per_block=[1, 1, 1, 1, 1],
                    temporal_expansions=[1, 2, 3], spatial_expansions=[2, 2, 2]),
        "request": dict(prompt="two dogs running through shallow water at sunset", negative_prompt="blurry", width=32,
                        height=16, frames=7, steps=4, cfg_scale=4.5, seed=41),
    },
    # An empty negative prompt without any token; two up-blocks, uneven layers, an odd number of steps and latent frames.
    "mochi_hd64": {
        "family": "mochi", "seed": 6464, "dtype": "BF16", "shard": "400KB", "tokenizer": T5,
        "force_zeros_for_empty_prompt": True,
        "text": {**RELU_T5, "width": 40, "head": 8, "heads": 3, "ff": 56, "layers": 1},
        "dit": dict(num_attention_heads=3, attention_head_dim=64, num_layers=2, pooled_projection_dim=36,
                    time_embed_dim=64),
        "vae": dict(decoder_block_out_channels=[32, 32, 64], layers_per_block=[1, 1, 2, 1], temporal_expansions=[3, 2],
                    spatial_expansions=[2, 4], scaling_factor=0.9),
        "request": dict(prompt="wind in the tall grass", negative_prompt="", width=16, height=32, frames=13, steps=3,
                        cfg_scale=3.5, seed=42),
    },
}


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; gates vary by channel; attention is not flat; angles of several turns."""
    for name, p in model.named_parameters():
        if name == "pos_frequencies":
            draw(name, p, 0.1)
        elif "attn1.norm_" in name:
            draw(name, p, 0.2, 1.3)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 1.4 if "linear_2" in name else 1.0
            draw(name, p, gain / fan_in(p) ** 0.5)


def fill_vae(model, draw):
    for name, p in model.named_parameters():
        if name.endswith("norm_layer.weight"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 0.1 if name.endswith("proj_out.weight") else 1.0 if "proj" in name or "conv_in" in name else 1.3
            draw(name, p, gain / fan_in(p) ** 0.5)


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoder and tokenizer."""
    vae = {**spec["vae"], **latent_statistics(12, spec["seed"] + 4)}
    levels = len(vae["decoder_block_out_channels"])
    vae.update(encoder_block_out_channels=[32] * levels, add_attention_block=[False] * (levels + 1))
    made = {"transformer": build(lambda: diffusers.MochiTransformer3DModel(text_embed_dim=spec["text"]["width"],
                                                                           **spec["dit"]),
                                 fill_transformer, draw("transformer", 2), device),
            "vae": build(lambda: diffusers.AutoencoderKLMochi(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return {**made, "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(invert_sigmas=True),
            "force_zeros_for_empty_prompt": spec.get("force_zeros_for_empty_prompt", False)}


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    named = (embeddings, normalization, transformer_mochi, pipeline_mochi)
    return [*((m, "torch", Wide()) for m in named), *drawn_as_f32(pipeline_mochi)]


def widen_model(pipe):
    pipe.transformer.double()


def grid(x):
    """Latents as the pipeline has them, to [c, f, y, x]."""
    return x[0]


def schedule(sampler):
    """Mochi's scheduler counts what is clean; sigmas are the shares of noise."""
    return {"sigmas": 1 - sampler.sigmas.double(), "timesteps": sampler.timesteps}


def hook_dit(taps, pipe, state, passes):
    model, put = pipe.transformer, in_batch(taps, state, passes)
    hook_calls(taps, model, state, passes, grid)
    text = lambda: state["text_len"][::-1]  # of the batch: the negative prompt first
    model.patch_embed.register_forward_hook(
        lambda _, args, output: put("patch_embed", output.unflatten(0, (passes, -1)).flatten(1, 2)))

    def embedded(_, args, output):
        put("temb", output[0], both=True)
        put("text", output[1], rows=text())
    model.time_embed.register_forward_hook(embedded)
    for i, b in enumerate(model.transformer_blocks):
        b.norm3.register_forward_pre_hook(lambda _, args, i=i: put(f"block.{i}.attn1", args[0], both=True))

        def after_ff(_, args, output, i=i, last=b.context_pre_only):
            put(f"block.{i}.ff", output[0], both=True)
            if not last:  # the last block leaves the text as it is
                put(f"block.{i}.ff_text", output[1], both=True, rows=text())
        b.register_forward_hook(after_ff)
        if not b.context_pre_only:
            b.norm3_context.register_forward_pre_hook(
                lambda _, args, i=i: put(f"block.{i}.attn1_text", args[0], both=True, rows=text()))
    model.proj_out.register_forward_hook(lambda _, args, output: put("proj_out", output))


def hook_vae(taps, vae):
    d = vae.decoder
    taps.out(d.conv_in, "vae.conv_in")
    taps.out(d.block_in, "vae.block_in")
    for i, b in enumerate(d.up_blocks):
        taps.out(b, f"vae.up.{i}")
    taps.out(d.block_out, "vae.block_out")
    taps.out(d.proj_out, "vae.conv_out", lambda x: x.permute(0, 4, 1, 2, 3))  # frames that are dropped later are there


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded."""
    return latents


def way(noise, latents):
    """What the denoiser has made of the noise, up to a factor."""
    return latents.double() - noise.double()


def decode(vae, latents, dtype):
    c = vae.config
    mean, std = (torch.tensor(v, dtype=torch.float32).view(1, 12, 1, 1, 1).to(vae.device, dtype)
                 for v in (c.latents_mean, c.latents_std))
    z = latents[None].to(mean)
    return channels_last(vae.decode(z * std / c.scaling_factor + mean, return_dict=False)[0]).clamp(-1, 1).cpu()


def clip_shape(spec):
    """No encoder is compared."""
    return None


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    return {}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open."""
    return dict(width=848, height=480, frames=19, steps=64, cfg_scale=4.5)


def random_vae(r):
    """The pipeline counts on 6 frames and 8 pixels a latent."""
    temporal = r.choice([[6], [2, 3], [6, 1], [1, 2, 3], [3, 2, 1], [1, 1, 6]])
    spatial = r.choice({1: [[8]], 2: [[2, 4], [4, 2], [8, 1]], 3: [[2, 2, 2], [2, 2, 2], [4, 1, 2]]}[len(temporal)])
    return dict(decoder_block_out_channels=[32 * r.choice([1, 1, 2, 3]) for _ in range(len(temporal) + 1)],
                layers_per_block=[r.choice([1, 1, 2]) for _ in range(len(temporal) + 2)], temporal_expansions=temporal,
                spatial_expansions=spatial, scaling_factor=r.choice([1.0, 0.8]))


def random_spec(r):
    head, patch = r.choice([8, 12, 16, 20, 32, 64, 128]), r.choice([1, 2, 2, 2])
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": T5,
            "force_zeros_for_empty_prompt": r.random() < 0.5,
            "text": random_text(r, ["t5"], (16, 24, 40, 64)),
            "dit": dict(num_attention_heads=r.choice([n for n in range(1, 7) if n * head <= 256]), attention_head_dim=head,
                        num_layers=r.choice([1, 2, 3]), pooled_projection_dim=r.choice([12, 20, 36, 64]),
                        time_embed_dim=r.choice([16, 64, 256]), patch_size=patch),
            "vae": random_vae(r),
            "request": random_request(r, 8 * patch, 1 + 6 * r.choice([0, 1, 2, 3]), range(2, 11))}
    if r.random() < 0.5:
        spec["shard"] = "400KB"
    return spec
