"""SD3 and SD3.5: minis, hooks, decoding.

The passes are one batch, the negative prompt first; that of skip-layer guidance is a forward of its own. All texts are
filled up with pads, which count as tokens do.
"""
import json
import os

import diffusers
import torch
import transformers
from diffusers.models import embeddings, normalization
from diffusers.models.autoencoders import vae as distribution
from diffusers.pipelines.stable_diffusion_3 import pipeline_stable_diffusion_3, pipeline_stable_diffusion_3_img2img

import byte_level
import checkpoint
from parts import GATED_T5, RELU_T5, T5, WEIGHT_DTYPES, build, fan_in, random_request, random_text, to_dtype, video
from taps import Wide, channels_last, drawn_as_f32, hook_vae as hook_coders, in_batch

PIPELINE, VAE = diffusers.StableDiffusion3Pipeline, diffusers.AutoencoderKL
IMAGES = True
LEAST_STEPS = 1
LOW_VAE = True
TOKENIZERS = {"ids": "clip", "merges": 160, "t5": T5}
SKIPPING = {"slg_scale": "skip_layer_guidance_scale", "skip_layer_start": "skip_layer_guidance_start",
            "skip_layer_end": "skip_layer_guidance_stop"}

CASES = {
    # As SD3.5 medium: a second attention in the first blocks; skip-layer guidance in steps 1 and 2 of 4.
    "sd35_medium": {
        "family": "sd3", "seed": 3501, "dtype": "F32", "tokenizer": TOKENIZERS,
        "clip": dict(hidden_size=16, num_attention_heads=2, intermediate_size=28, num_hidden_layers=2, projection_dim=12,
                     eos_token_id=2),
        "clip_g": dict(hidden_size=20, num_attention_heads=5, intermediate_size=36, num_hidden_layers=3,
                       projection_dim=20, hidden_act="gelu"),
        "text": {**GATED_T5, "width": 40, "head": 8, "heads": 3, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=3, attention_head_dim=16, num_layers=3, dual_attention_layers=(0, 1),
                    qk_norm="rms_norm", sample_size=16, pos_embed_max_size=13),
        "vae": dict(block_out_channels=(8, 16, 16), layers_per_block=1, norm_num_groups=4, latent_channels=4),
        "clip_frame": (32, 24),
        "request": dict(prompt="two dogs running through shallow water at sunset!", negative_prompt="blurry", width=40,
                        height=56, frames=1, steps=4, cfg_scale=4.5, seed=61, slg_scale=2.8, skip_layers="1",
                        skip_layer_start=0.01, skip_layer_end=0.6),
    },
    # As SD3 medium without its T5: no norm of queries and keys.
    "sd3_medium": {
        "family": "sd3", "seed": 3000, "dtype": "F16", "shard": "400KB", "tokenizer": TOKENIZERS,
        "clip": dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=1, projection_dim=24),
        "clip_g": dict(hidden_size=32, num_attention_heads=2, intermediate_size=48, num_hidden_layers=2,
                       projection_dim=28, hidden_act="gelu"),
        "dit": dict(num_attention_heads=1, attention_head_dim=64, num_layers=2, joint_attention_dim=60, sample_size=8,
                    pos_embed_max_size=8),
        "vae": dict(block_out_channels=(8, 8, 16, 16), layers_per_block=2, norm_num_groups=2, latent_channels=16),
        "request": dict(prompt="wind in the tall grass", negative_prompt="", width=64, height=48, frames=1, steps=3,
                        cfg_scale=7.0, seed=62),
    },
}


# From an image: the last 3 of 5 steps, half a step rounded up.
CASES["sd35_image"] = {
    **CASES["sd35_medium"], "seed": 3502,
    "request": dict(prompt="Ein Boot treibt den Fluss hinab", negative_prompt="", width=40, height=24, frames=1, steps=5,
                    cfg_scale=5.0, seed=63, strength=0.5),
}


def fill_clip(model, draw):
    for name, p in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        elif "embedding" in name:
            draw(name, p, 1.0)
        else:
            draw(name, p, (1.5 if "q_proj" in name else 1.0) / fan_in(p) ** 0.5)


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; attention is not flat."""
    for name, p in model.named_parameters():
        if ".norm_" in name and p.ndim == 1 and name.endswith("weight"):
            draw(name, p, 0.2, 1.3)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            draw(name, p, 1.0 / fan_in(p) ** 0.5)
    draw("pos_embed.pos_embed", model.pos_embed.pos_embed, 0.7)


def fill_vae(model, draw):
    for name, p in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 0.3 if "decoder.conv_out" in name else 1.0
            draw(name, p, gain / fan_in(p) ** 0.5)


def texts(folder, spec, draw, device):
    """Text encoders and tokenizers; the folders of these are made."""
    made, rule = {}, spec["tokenizer"]
    for k, (part, pad) in enumerate((("clip", "<|endoftext|>"), ("clip_g", "!"))):
        end = f"_{k + 1}" if k else ""
        tokenizer = byte_level.make_clip(os.path.join(folder, "tokenizer" + end), {"merges": rule["merges"], "pad": pad})
        own = {"hidden_act": "quick_gelu", "eos_token_id": tokenizer.eos_token_id, **spec[part]}
        c = transformers.CLIPTextConfig(vocab_size=len(tokenizer), bos_token_id=None, pad_token_id=None,
                                        max_position_embeddings=77, **own)
        made["tokenizer" + end] = tokenizer
        made["text_encoder" + end] = build(lambda: transformers.CLIPTextModelWithProjection(c), fill_clip,
                                           draw("text_encoder" + end, 1 + 2 * k), device)
    made["text_encoder_3"] = made["tokenizer_3"] = None
    if "text" in spec:
        made["tokenizer_3"] = checkpoint.make_tokenizer(os.path.join(folder, "tokenizer_3"), rule["t5"])
        vocab = spec["text"].get("vocab", -(-len(made["tokenizer_3"]) // 8) * 8)
        made["text_encoder_3"] = checkpoint.make_text(spec["text"], vocab, draw("text_encoder_3", 4), device)
    for name, model in made.items():
        if name.startswith("text") and model is not None:
            to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return made


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoders and tokenizers."""
    vae = {"use_quant_conv": False, "use_post_quant_conv": False, "scaling_factor": 1.5305, "shift_factor": 0.0609,
           "sample_size": 64, **spec["vae"]}
    levels, channels = len(vae["block_out_channels"]), vae["latent_channels"]
    vae.update(down_block_types=("DownEncoderBlock2D",) * levels, up_block_types=("UpDecoderBlock2D",) * levels)
    dit = {"in_channels": channels, "out_channels": channels,
           "caption_projection_dim": spec["dit"]["num_attention_heads"] * spec["dit"]["attention_head_dim"],
           "pooled_projection_dim": spec["clip"]["projection_dim"] + spec["clip_g"]["projection_dim"],
           **({"joint_attention_dim": spec["text"]["width"]} if "text" in spec else {}), **spec["dit"]}
    dtype = WEIGHT_DTYPES[spec["dtype"]]
    made = {"transformer": build(lambda: diffusers.SD3Transformer2DModel(**dit), fill_transformer,
                                 draw("transformer", 2), device),
            "vae": build(lambda: diffusers.AutoencoderKL(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, dtype, [])
    embed = made["transformer"].pos_embed
    embed.pos_embed = embed.pos_embed.to(dtype)  # no parameter, but it is saved
    return {**made, "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=spec.get("shift", 3.0))}


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    return [(embeddings, "torch", Wide()), (normalization, "torch", Wide()),
            *drawn_as_f32(pipeline_stable_diffusion_3, pipeline_stable_diffusion_3_img2img, distribution)]


def widen_model(pipe):
    for model in (pipe.transformer, pipe.text_encoder_2, pipe.text_encoder_3):
        if model is not None:
            model.double()


def grid(x):
    """Latents as the pipeline has them, to [c, f, y, x]."""
    return x[0][:, None]


def schedule(sampler):
    return {"sigmas": sampler.sigmas, "timesteps": sampler.timesteps}


def hook_clip(taps, encoder, prefix):
    model, calls = getattr(encoder, "text_model", encoder), []
    first = lambda name: lambda: name if len(calls) == 1 else None
    encoder.register_forward_pre_hook(lambda *_: calls.append(None))
    taps.out(model.embeddings, first(f"{prefix}.embed"), lambda x: x[0])
    for i, b in enumerate(model.encoder.layers):
        b.layer_norm2.register_forward_pre_hook(
            lambda _, args, name=first(f"{prefix}.block.{i}.attn"): name() and taps.put(name(), args[0][0]))
        taps.out(b, first(f"{prefix}.block.{i}.ff"), lambda x: x[0])

    def after(_, args, output):
        own = prefix if len(calls) == 1 else prefix + "_u"
        taps.put(f"{own}.final", output.hidden_states[-2][0])
        taps.put(f"{own}.row", output.text_embeds)
    encoder.register_forward_hook(after)


def hook_text(taps, pipe, state):
    import oracle
    hook_clip(taps, pipe.text_encoder, "clip")
    hook_clip(taps, pipe.text_encoder_2, "clip_g")
    if pipe.text_encoder_3 is not None:
        oracle.hook_text(taps, pipe.text_encoder_3, state, False)


def hook_block(put, b, i):
    held = {}
    b.register_forward_pre_hook(lambda _, args, kwargs: held.update(x=kwargs["hidden_states"]), with_kwargs=True)
    b.norm1.register_forward_hook(lambda _, args, output: held.update(gate=output[1]))
    b.attn.register_forward_hook(
        lambda _, args, output: put(f"block.{i}.attn1", held["x"] + held["gate"][:, None] * output[0], both=True))
    if b.attn2 is not None:
        b.norm2.register_forward_pre_hook(lambda _, args: put(f"block.{i}.attn2", args[0], both=True))
    if not b.context_pre_only:
        b.norm2_context.register_forward_pre_hook(lambda _, args: put(f"block.{i}.attn1_text", args[0], both=True))

    def after(_, args, output):
        put(f"block.{i}.ff", output[1], both=True)
        if output[0] is not None:
            put(f"block.{i}.ff_text", output[0], both=True)
    b.register_forward_hook(after)


def hook_dit(taps, pipe, state, passes):
    model, put = pipe.transformer, in_batch(taps, state, passes)

    def before(_, args, kwargs):
        state["skips"] = kwargs.get("skip_layers") is not None
        state["dit_call"] += not state["skips"]

    def after(_, args, output):
        k = state["dit_call"]
        if state["skips"]:
            taps.put(f"step.{k}.v_skip", grid(output[0]))
            return
        taps.put(f"step.{k}.v_cond", grid(output[0][-1:]))
        if passes == 2:
            taps.put(f"step.{k}.v_uncond", grid(output[0][:1]))
    model.register_forward_pre_hook(before, with_kwargs=True)
    model.register_forward_hook(after)
    model.pos_embed.register_forward_hook(lambda _, args, output: put("patch_embed", output))
    model.context_embedder.register_forward_hook(lambda _, args, output: put("text", output, both=True))
    model.time_text_embed.register_forward_hook(lambda _, args, output: put("temb", output, both=True))
    for i, b in enumerate(model.transformer_blocks):
        hook_block(put, b, i)
    model.proj_out.register_forward_hook(lambda _, args, output: put("proj_out", output))


def hook_vae(taps, vae):
    if vae.post_quant_conv is None:
        taps.into(vae.decoder.conv_in, lambda: "vae.post_quant")
    hook_coders(taps, vae)


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded."""
    return latents


def way(noise, latents):
    """What the denoiser has made of the noise, up to a factor."""
    return latents.double() - noise.double()


def decode(vae, latents, dtype):
    z = latents[None, :, 0].to(vae.device, dtype) / vae.config.scaling_factor + vae.config.shift_factor
    return channels_last(vae.decode(z, return_dict=False)[0]).clamp(-1, 1).cpu()


def clip_shape(spec):
    """Of the encoder's input."""
    return (1, *spec["clip_frame"], 3) if "clip_frame" in spec else None


def encode(vae, clip, dtype):
    """The taps have all of it: mean and logarithm of the variance are one tensor."""
    vae.encode(clip.permute(0, 3, 1, 2).to(vae.device, dtype))


def from_video(pipe):
    """As that of image to image."""
    made = diffusers.StableDiffusion3Img2ImgPipeline(**pipe.components)
    made.set_progress_bar_config(disable=True)
    made.made_of = type(pipe).__name__
    return made


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    if "strength" in request:
        return {"image": video(request)[0], "strength": request["strength"]}
    if not request.get("slg_scale"):
        return {}
    return {"skip_guidance_layers": [int(i) for i in request["skip_layers"].split(",")],
            **{theirs: request[ours] for ours, theirs in SKIPPING.items()}}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open."""
    def config(part):
        with open(os.path.join(folder, part, "config.json"), encoding="utf-8") as f:
            return json.load(f)
    size = config("transformer")["sample_size"] * 2 ** (len(config("vae")["block_out_channels"]) - 1)
    return dict(width=size, height=size, frames=1, steps=28, cfg_scale=7.0)


def random_spec(r):
    head, heads, layers = r.choice([8, 12, 16, 32, 64]), r.choice([1, 2, 3, 5]), r.choice([1, 2, 3, 4])
    groups, scales, patch = r.choice([1, 2, 4]), r.choice([2, 3, 4]), r.choice([1, 2, 2, 2, 3])
    clip, clip_g, most = r.choice([12, 24]), r.choice([16, 24, 36]), r.choice([5, 6, 9, 13])
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": TOKENIZERS, "shift": r.choice([3.0, 3.0, 1.0, 6.0]),
            "clip": dict(hidden_size=clip, num_attention_heads=r.choice([1, 2, 3]), intermediate_size=r.choice([24, 40]),
                         num_hidden_layers=r.choice([1, 2, 3]), projection_dim=r.choice([12, 24])),
            "clip_g": dict(hidden_size=clip_g, num_attention_heads=r.choice([1, 2, 4]),
                           intermediate_size=r.choice([24, 40]), num_hidden_layers=r.choice([1, 2, 3]),
                           projection_dim=r.choice([16, 20]), hidden_act="gelu"),
            "dit": dict(num_attention_heads=heads, attention_head_dim=head, num_layers=layers, patch_size=patch,
                        qk_norm=r.choice([None, "rms_norm", "rms_norm"]), sample_size=16, pos_embed_max_size=most,
                        dual_attention_layers=tuple(i for i in range(layers) if r.random() < 0.5)),
            "vae": dict(block_out_channels=tuple(groups * r.choice([1, 2, 3]) for _ in range(scales)),
                        layers_per_block=r.choice([1, 2]), norm_num_groups=groups, latent_channels=r.choice([4, 16]),
                        scaling_factor=r.choice([1.5305, 0.8]), shift_factor=r.choice([0.0609, 0.0609, -0.2])),
            "request": random_request(r, patch * 2 ** (scales - 1), 1, range(1, 9))}
    if r.random() < 0.6:
        spec["text"] = random_text(r, ["t5"], (clip + clip_g, clip + clip_g + 8))
    else:
        spec["dit"]["joint_attention_dim"] = clip + clip_g + r.choice([0, 5])
    request, unit = spec["request"], patch * 2 ** (scales - 1)
    request["width"], request["height"] = (unit * r.choice([2, 3, 4, min(most, 8), most]) for _ in range(2))
    if request["cfg_scale"] > 1 and request["steps"] > 2 and r.random() < 0.7:
        request.update(slg_scale=r.choice([2.8, 1.0]), skip_layer_start=0.01, skip_layer_end=r.choice([0.7, 1.0]),
                       skip_layers=",".join(str(i) for i in sorted(r.sample(range(layers), r.randint(1, layers)))))
    if r.random() < 0.5:
        spec["shard"] = "400KB"
    return spec
