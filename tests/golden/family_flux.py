"""Flux.1 dev and schnell: minis, hooks, decoding.

The passes are forwards of their own, the prompt's first. T5's pads count as tokens do; of CLIP, whose pads nothing is taken
of, only the row of the whole text is used. Latents are packed in the pipeline: `grid` unpacks them to the size that was
asked for last.
"""
import json
import os

import diffusers
import torch
import transformers
from diffusers.models import embeddings, normalization
from diffusers.models.transformers import transformer_flux
from diffusers.pipelines.flux import pipeline_flux

import byte_level
import checkpoint
import family_hunyuan
from family_hunyuan import fill_transformer
from family_sd3 import clip_shape, decode, decoded, encode, fill_clip, fill_vae, hook_vae, schedule, way
from parts import GATED_T5, RELU_T5, T5, WEIGHT_DTYPES, build, random_request, random_text, to_dtype, video
from taps import Wide, drawn_as_f32

PIPELINE, VAE = diffusers.FluxPipeline, diffusers.AutoencoderKL
IMAGES = True
LEAST_STEPS = 1
LOW_VAE = True
TOKENIZERS = {"merges": 160, "t5": T5}
asked = {}

CASES = {
    # As dev: guidance that the denoiser is told, a shift by tokens; a negative prompt besides.
    "flux_dev": {
        "family": "flux", "seed": 1024, "dtype": "F32", "tokenizer": TOKENIZERS, "shift": 3.0, "dynamic": True,
        "clip": dict(hidden_size=16, num_attention_heads=2, intermediate_size=28, num_hidden_layers=2, eos_token_id=2),
        "text": {**GATED_T5, "width": 24, "head": 8, "heads": 3, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=3, attention_head_dim=20, num_layers=2, num_single_layers=2,
                    guidance_embeds=True, axes_dims_rope=(4, 10, 6)),
        "vae": dict(block_out_channels=(8, 16, 16), layers_per_block=1, norm_num_groups=4, latent_channels=4),
        "clip_frame": (32, 24),
        "request": dict(prompt="two dogs running through shallow water at sunset!", negative_prompt="blurry", width=40,
                        height=56, frames=1, steps=3, cfg_scale=2.5, guidance=4.0, seed=71),
    },
    # As schnell: neither, and texts half as long.
    "flux_schnell": {
        "family": "flux", "seed": 4444, "dtype": "BF16", "shard": "400KB", "tokenizer": TOKENIZERS, "shift": 1.0,
        "clip": dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=1),
        "text": {**RELU_T5, "width": 40, "head": 8, "heads": 3, "ff": 56, "layers": 1},
        "dit": dict(num_attention_heads=1, attention_head_dim=128, num_layers=1, num_single_layers=1),
        "vae": dict(block_out_channels=(8, 8, 16, 16), layers_per_block=2, norm_num_groups=2, latent_channels=16,
                    mid_block_add_attention=False),
        "request": dict(prompt="wind in the tall grass", negative_prompt="", width=64, height=48, frames=1, steps=4,
                        cfg_scale=1.0, seed=72),
    },
}


def texts(folder, spec, draw, device):
    """Text encoders and tokenizers; the folders of these are made."""
    rule = spec["tokenizer"]
    tokenizer = byte_level.make_clip(os.path.join(folder, "tokenizer"), {"merges": rule["merges"]})
    tokenizer_2 = checkpoint.make_tokenizer(os.path.join(folder, "tokenizer_2"), rule["t5"])
    own = {"hidden_act": "quick_gelu", "eos_token_id": tokenizer.eos_token_id, **spec["clip"]}
    clip = transformers.CLIPTextConfig(vocab_size=len(tokenizer), bos_token_id=None, pad_token_id=None,
                                       max_position_embeddings=77, **own)
    vocab = spec["text"].get("vocab", -(-len(tokenizer_2) // 8) * 8)
    made = {"text_encoder": build(lambda: transformers.CLIPTextModel(clip), fill_clip, draw("text_encoder", 1), device),
            "text_encoder_2": checkpoint.make_text(spec["text"], vocab, draw("text_encoder_2", 3), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return {**made, "tokenizer": tokenizer, "tokenizer_2": tokenizer_2}


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoders and tokenizers."""
    vae = {"use_quant_conv": False, "use_post_quant_conv": False, "scaling_factor": 0.3611, "shift_factor": 0.1159,
           "sample_size": 64, **spec["vae"]}
    levels = len(vae["block_out_channels"])
    vae.update(down_block_types=("DownEncoderBlock2D",) * levels, up_block_types=("UpDecoderBlock2D",) * levels)
    dit = {"in_channels": 4 * vae["latent_channels"], "joint_attention_dim": spec["text"]["width"],
           "pooled_projection_dim": spec["clip"]["hidden_size"], **spec["dit"]}
    made = {"transformer": build(lambda: diffusers.FluxTransformer2DModel(**dit), fill_transformer,
                                 draw("transformer", 2), device),
            "vae": build(lambda: diffusers.AutoencoderKL(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    dynamic = spec.get("dynamic", False)
    points = dict(zip(("base_shift", "max_shift", "base_image_seq_len", "max_image_seq_len"), spec.get("points", ())))
    return {**made, "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=spec["shift"], use_dynamic_shifting=dynamic,
                                                                           **points)}


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    named = (embeddings, normalization, transformer_flux, pipeline_flux)
    return [*((m, "torch", Wide()) for m in named), *drawn_as_f32(pipeline_flux),
            (embeddings, "get_timestep_embedding", family_hunyuan.sinusoid)]


def widen_model(pipe):
    pipe.transformer.double()
    pipe.text_encoder_2.double()


def grid(x):
    """Packed latents as the pipeline has them, [1, y x, c 2 2], to [c, f, y, x]."""
    y, x_ = asked["grid"]
    c = x.shape[-1] // 4
    return x[0].view(y, x_, c, 2, 2).permute(2, 0, 3, 1, 4).reshape(c, 1, 2 * y, 2 * x_)


def hook_text(taps, pipe, state):
    import oracle
    own = {"text_len": []}  # calls of CLIP
    pipe.text_encoder.register_forward_pre_hook(lambda *_: own["text_len"].append(None))
    family_hunyuan.hook_clip(taps, pipe.text_encoder, own, pipe.tokenizer.eos_token_id)
    oracle.hook_text(taps, pipe.text_encoder_2, state, False)


def hook_dit(taps, pipe, state, passes):
    model = pipe.transformer

    def put(name, value, both=False):
        call = state["dit_call"]
        if call == 0 or (call == 1 and both and passes == 2):
            taps.put(f"{'dit_u' if call else 'dit'}.{name}", value[0])

    def out(module, name, pick=lambda output: output, **how):
        module.register_forward_hook(lambda _, args, output: put(name, pick(output), **how))

    def into(module, name, **how):
        module.register_forward_pre_hook(lambda _, args: put(name, args[0], **how))
    out(model.context_embedder, "text", both=True)
    out(model.time_text_embed, "temb", both=True)
    out(model.x_embedder, "patch_embed")
    for i, b in enumerate(model.transformer_blocks):
        into(b.norm2, f"block.{i}.attn1", both=True)
        into(b.norm2_context, f"block.{i}.attn1_text", both=True)
        out(b, f"block.{i}.ff", lambda o: o[1], both=True)
        out(b, f"block.{i}.ff_text", lambda o: o[0], both=True)
    for i, b in enumerate(model.single_transformer_blocks, len(model.transformer_blocks)):
        out(b, f"block.{i}.out", lambda o: o[1], both=True)
        out(b, f"block.{i}.out_text", lambda o: o[0], both=True)
    out(model.proj_out, "proj_out")

    def before(*_):
        state["dit_call"] += 1

    def v_name():
        k, second = divmod(state["dit_call"], passes)
        return f"step.{k}.v_uncond" if second else f"step.{k}.v_cond"
    model.register_forward_pre_hook(before)
    model.register_forward_hook(lambda _, args, output: taps.put(v_name(), grid(output[0])))


def is_schnell(pipe):
    """Its card asks for texts of 256 tokens and 4 steps."""
    return not pipe.transformer.config.guidance_embeds and not pipe.scheduler.config.use_dynamic_shifting


def from_video(pipe):
    """As that of image to image."""
    made = diffusers.FluxImg2ImgPipeline(**pipe.components)
    made.set_progress_bar_config(disable=True)
    made.made_of = type(pipe).__name__
    return made


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    start = {"image": video(request)[0], "strength": request["strength"]} if "strength" in request else {}
    asked["grid"] = [request[side] // pipe.vae_scale_factor // 2 for side in ("height", "width")]
    return {**start, "guidance_scale": request.get("guidance", 3.5), "true_cfg_scale": request["cfg_scale"],
            "max_sequence_length": 256 if is_schnell(pipe) else 512}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open, but for steps and guidance, which are those of the cards."""
    def config(*part):
        with open(os.path.join(folder, *part), encoding="utf-8") as f:
            return json.load(f)
    guided = config("transformer", "config.json")["guidance_embeds"]
    dynamic = config("scheduler", "scheduler_config.json")["use_dynamic_shifting"]
    return dict(width=1024, height=1024, frames=1, steps=28 if guided or dynamic else 4, cfg_scale=1.0,
                **({"guidance": 3.5} if guided else {}))


def random_spec(r):
    head, heads = r.choice([8, 12, 16, 20, 32, 64, 128]), r.choice([1, 2, 3, 5])
    axis = 2 * r.randrange(1, head // 4)
    second = 2 * r.randrange(1, (head - axis) // 2)
    groups, scales, clip = r.choice([1, 2, 4]), r.choice([2, 3, 4]), r.choice([12, 24])
    guided, dynamic = r.random() < 0.6, r.random() < 0.6
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": TOKENIZERS, "shift": r.choice([3.0, 1.0]),
            "dynamic": dynamic, "points": r.choice([(), (0.3, 1.5, 4, 64)]),
            "clip": dict(hidden_size=clip, num_attention_heads=r.choice([1, 2, 3]), intermediate_size=r.choice([24, 40]),
                         num_hidden_layers=r.choice([1, 2, 3]), hidden_act=r.choice(["quick_gelu", "gelu"])),
            "text": random_text(r, ["t5"]),
            "dit": dict(num_attention_heads=heads, attention_head_dim=head, num_layers=r.choice([1, 2, 3]),
                        num_single_layers=r.choice([0, 1, 2, 3]), guidance_embeds=guided,
                        axes_dims_rope=(axis, second, head - axis - second)),
            "vae": dict(block_out_channels=tuple(groups * r.choice([1, 2, 3]) for _ in range(scales)),
                        layers_per_block=r.choice([1, 2]), norm_num_groups=groups, latent_channels=r.choice([4, 16]),
                        mid_block_add_attention=r.random() < 0.7, use_post_quant_conv=r.random() < 0.3,
                        scaling_factor=r.choice([0.3611, 0.8]), shift_factor=r.choice([0.1159, -0.2])),
            "request": random_request(r, 2 ** scales, 1, range(1, 9))}
    request, unit = spec["request"], 2 ** scales
    request["width"], request["height"] = (unit * r.choice([1, 2, 3, 5, 8]) for _ in range(2))
    request["cfg_scale"] = r.choice([1.0, 1.0, 3.5])
    if guided:
        request["guidance"] = r.choice([1.0, 3.5, 5.0])
    if r.random() < 0.5:
        spec["shard"] = "400KB"
    return spec
