"""HunyuanVideo: minis, hooks, decoding.

The passes are forwards of their own, the prompt's first. The text encoders see pads, which nothing is taken of.
"""
import json
import math
import os

import diffusers
import torch
import transformers
from diffusers.models import embeddings, normalization
from diffusers.models.transformers import transformer_hunyuan_video
from diffusers.pipelines.hunyuan_video import pipeline_hunyuan_video
from transformers.models.llama import modeling_llama

import byte_level
from parts import WEIGHT_DTYPES, build, fan_in, random_request, to_dtype
from taps import Wide, channels_last, drawn_as_f32, hook_vae

PIPELINE, VAE = diffusers.HunyuanVideoPipeline, diffusers.AutoencoderKLHunyuanVideo
LEAST_STEPS = 1
LOW_VAE = True
TEMPLATE = pipeline_hunyuan_video.DEFAULT_PROMPT_TEMPLATE
CROP, SKIP = TEMPLATE["crop_start"], 2
BYTE_LEVEL = {"ids": "llama", "merges": 260, "clip_merges": 200}

CASES = {
    # As published but for sizes: embedded guidance, one pass; a thousand times 4 is exact in bfloat16.
    "hunyuan_hd16": {
        "family": "hunyuan", "seed": 1616, "dtype": "F32", "tokenizer": BYTE_LEVEL,
        "text": dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=8, intermediate_size=40,
                     num_hidden_layers=4),
        "clip_text": dict(hidden_size=16, num_attention_heads=2, intermediate_size=28, num_hidden_layers=2, eos_token_id=2),
        "dit": dict(num_attention_heads=3, attention_head_dim=16, num_layers=2, num_single_layers=2, num_refiner_layers=2,
                    rope_axes_dim=(4, 6, 6)),
        "vae": dict(block_out_channels=(8, 8, 16, 16), layers_per_block=1, norm_num_groups=4), "clip": 21,
        "request": dict(prompt="two dogs running through shallow water at sunset", negative_prompt="", width=48,
                        height=32, frames=21, steps=3, cfg_scale=1.0, guidance=4.0, seed=51),
    },
    # A negative prompt beside the guidance; whole decode.
    "hunyuan_hd128": {
        "family": "hunyuan", "seed": 12828, "dtype": "BF16", "shard": "900KB", "tokenizer": BYTE_LEVEL,
        "text": dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=48,
                     num_hidden_layers=3),
        "clip_text": dict(hidden_size=24, num_attention_heads=3, intermediate_size=40, num_hidden_layers=1),
        "dit": dict(num_attention_heads=1, attention_head_dim=128, num_layers=1, num_single_layers=1,
                    num_refiner_layers=1, mlp_ratio=3.0),
        "vae": dict(block_out_channels=(8, 16, 16, 24), layers_per_block=1, norm_num_groups=2), "clip": 13,
        "request": dict(prompt="wind in the tall grass", negative_prompt="blurry", width=32, height=48, frames=13, steps=2,
                        cfg_scale=3.0, guidance=8.0, seed=52),
    },
}


def fill_text(model, draw):
    for name, p in model.named_parameters():
        if name.endswith(("norm.weight", "norm1.weight", "norm2.weight")):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        elif "embed" in name:
            draw(name, p, 1.0)
        else:
            draw(name, p, (1.5 if "q_proj" in name else 1.0) / fan_in(p) ** 0.5)


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; attention is not flat."""
    for name, p in model.named_parameters():
        if "attn.norm_" in name:
            draw(name, p, 0.2, 1.3)
        elif ".norm1.weight" in name or ".norm2.weight" in name:
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            draw(name, p, 1.0 / fan_in(p) ** 0.5)


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
    rule, own = spec["tokenizer"], dict(spec["text"])
    if "layers" in own:  # that are run
        own["num_hidden_layers"] = own.pop("layers") + SKIP
    tokenizer = byte_level.make_llama(os.path.join(folder, "tokenizer"), rule, TEMPLATE["template"])
    tokenizer_2 = byte_level.make_clip(os.path.join(folder, "tokenizer_2"), {"merges": rule["clip_merges"]})
    llama = transformers.LlamaConfig(vocab_size=len(tokenizer), rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None,
                                     pad_token_id=None, use_cache=False, max_position_embeddings=512,
                                     rope_parameters=dict(rope_type="default", rope_theta=500000.0), **own)
    own = {"hidden_act": "quick_gelu", "eos_token_id": tokenizer_2.eos_token_id, **spec["clip_text"]}
    clip = transformers.CLIPTextConfig(vocab_size=len(tokenizer_2), bos_token_id=None, pad_token_id=None,
                                       max_position_embeddings=77, **own)
    made = {"text_encoder": build(lambda: transformers.LlamaModel(llama), fill_text, draw("text_encoder", 1), device),
            "text_encoder_2": build(lambda: transformers.CLIPTextModel(clip), fill_text, draw("text_encoder_2", 3), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return {**made, "tokenizer": tokenizer, "tokenizer_2": tokenizer_2}


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoders and tokenizers."""
    channels = spec["vae"].get("latent_channels", 4)
    vae = {"latent_channels": channels, **spec["vae"]}
    levels = len(vae["block_out_channels"])
    vae.update({f"{way.lower()}_block_types": (f"HunyuanVideo{way}Block3D",) * levels for way in ("Up", "Down")})
    dit = {"in_channels": channels, "out_channels": channels, "text_embed_dim": spec["text"]["hidden_size"],
           "pooled_projection_dim": spec["clip_text"]["hidden_size"], **spec["dit"]}
    made = {"transformer": build(lambda: diffusers.HunyuanVideoTransformer3DModel(**dit), fill_transformer,
                                 draw("transformer", 2), device),
            "vae": build(lambda: diffusers.AutoencoderKLHunyuanVideo(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return {**made, "scheduler": diffusers.FlowMatchEulerDiscreteScheduler(shift=spec.get("shift", 7.0))}


def llama_rms(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def sinusoid(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
    """Guidance is a timestep of 6000 or so, where the roundings of an angle show: each of them is to the nearest float32."""
    half = embedding_dim // 2
    i = torch.arange(half, dtype=torch.float32, device=timesteps.device)
    rate = torch.exp((-math.log(max_period) * i / (half - downscale_freq_shift)).double()).to(torch.float32)
    angle = (scale * timesteps[:, None].to(torch.float32) * rate[None, :]).double()
    assert flip_sin_to_cos
    return torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    named = (embeddings, normalization, transformer_hunyuan_video, pipeline_hunyuan_video)
    return [*((m, "torch", Wide()) for m in named), *drawn_as_f32(pipeline_hunyuan_video),
            (embeddings, "get_timestep_embedding", sinusoid), (modeling_llama.LlamaRMSNorm, "forward", llama_rms)]


def widen_model(pipe):
    pipe.transformer.double()
    pipe.text_encoder_2.double()
    c, rotary = pipe.text_encoder.config, pipe.text_encoder.rotary_emb
    place = torch.arange(0, c.head_dim, 2, dtype=torch.float64)
    rotary.inv_freq = c.rope_parameters["rope_theta"] ** (-place / c.head_dim)


def grid(x):
    """Latents as the pipeline has them, to [c, f, y, x]."""
    return x[0]


def schedule(sampler):
    return {"sigmas": sampler.sigmas, "timesteps": sampler.timesteps}


def hook_clip(taps, encoder, state, end):
    model = getattr(encoder, "text_model", encoder)
    first = lambda name: lambda: name if len(state["text_len"]) == 1 else None
    cut = lambda x: x[0, :state["clip_len"]]

    def before(_, args, kwargs):
        ids = args[0] if args else kwargs["input_ids"]
        state["clip_len"] = int((ids[0] == end).nonzero()[0]) + 1
    encoder.register_forward_pre_hook(before, with_kwargs=True)
    taps.out(model.embeddings, first("clip.embed"), cut)
    for i, b in enumerate(model.encoder.layers):
        b.layer_norm2.register_forward_pre_hook(
            lambda _, args, name=first(f"clip.block.{i}.attn"): name() and taps.put(name(), cut(args[0])))
        taps.out(b, first(f"clip.block.{i}.ff"), cut)
    taps.out(model.final_layer_norm, first("clip.final"), cut)
    encoder.register_forward_hook(
        lambda _, args, output: taps.put(("clip.row", "clip_u.row")[len(state["text_len"]) - 1], output.pooler_output))


def hook_text(taps, pipe, state):
    llama = pipe.text_encoder
    cut = lambda x: x[0, :state["text_len"][-1]]
    first = lambda name: lambda: name if len(state["text_len"]) == 1 else None

    def before(_, args, kwargs):
        state["text_len"].append(int(kwargs["attention_mask"].sum()))
    llama.register_forward_pre_hook(before, with_kwargs=True)
    taps.out(llama.embed_tokens, first("text.embed"), cut)
    last = len(llama.layers) - 1 - SKIP
    for i, b in enumerate(llama.layers[:last + 1]):
        b.post_attention_layernorm.register_forward_pre_hook(
            lambda _, args, name=first(f"text.block.{i}.attn"): name() and taps.put(name(), cut(args[0])))
        taps.out(b, first(f"text.block.{i}.ff"), cut)
    taps.out(llama.layers[last], lambda: ("text.final", "text_u.final")[len(state["text_len"]) - 1], cut)
    hook_clip(taps, pipe.text_encoder_2, state, pipe.tokenizer_2.eos_token_id)


def hook_dit(taps, pipe, state, passes):
    model = pipe.transformer

    def put(name, value, both=False, text=False):
        call = state["dit_call"]
        if call == 0 or (call == 1 and both and passes == 2):
            n = state["text_len"][call] - CROP
            taps.put(f"{'dit_u' if call else 'dit'}.{name}", value[0, :n] if text else value[0])

    def out(module, name, pick=lambda output: output, **how):
        module.register_forward_hook(lambda _, args, output: put(name, pick(output), **how))

    def into(module, name, **how):
        module.register_forward_pre_hook(lambda _, args: put(name, args[0], **how))
    c = model.context_embedder
    out(c.time_text_embed, "text_temb", both=True)
    out(c.proj_in, "text_in", text=True)
    for i, b in enumerate(c.token_refiner.refiner_blocks):
        into(b.norm2, f"refiner.{i}.attn", text=True)
        out(b, f"refiner.{i}.ff", both=True, text=True)
    out(model.time_text_embed, "temb", lambda o: o[0], both=True)
    out(model.x_embedder, "patch_embed")
    for i, b in enumerate(model.transformer_blocks):
        into(b.norm2, f"block.{i}.attn1", both=True)
        into(b.norm2_context, f"block.{i}.attn1_text", both=True, text=True)
        out(b, f"block.{i}.ff", lambda o: o[0], both=True)
        out(b, f"block.{i}.ff_text", lambda o: o[1], both=True, text=True)
    for i, b in enumerate(model.single_transformer_blocks, len(model.transformer_blocks)):
        out(b, f"block.{i}.out", lambda o: o[0], both=True)
        out(b, f"block.{i}.out_text", lambda o: o[1], both=True, text=True)
    out(model.proj_out, "proj_out")

    def before(*_):
        state["dit_call"] += 1

    def v_name():
        k, second = divmod(state["dit_call"], passes)
        return f"step.{k}.v_uncond" if second else f"step.{k}.v_cond"
    model.register_forward_pre_hook(before)
    taps.out(model, v_name, grid)


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded."""
    return latents


def way(noise, latents):
    """What the denoiser has made of the noise, up to a factor."""
    return latents.double() - noise.double()


def decode(vae, latents, dtype):
    z = latents[None].to(vae.device, dtype) / vae.config.scaling_factor
    return channels_last(vae.decode(z, return_dict=False)[0]).clamp(-1, 1).cpu()


def clip_shape(spec):
    """Of the encoder's input."""
    return (spec["clip"], 16, 24, 3) if "clip" in spec else None


def encode(vae, clip, dtype):
    x = clip.permute(3, 0, 1, 2)[None].to(vae.device, dtype)
    return channels_last(vae.encode(x).latent_dist.mode() * vae.config.scaling_factor).cpu()


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    return {"guidance_scale": request.get("guidance", 6.0), "true_cfg_scale": request["cfg_scale"]}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open."""
    with open(os.path.join(folder, "transformer", "config.json"), encoding="utf-8") as f:
        guided = json.load(f)["guidance_embeds"]
    return dict(width=1280, height=720, frames=129, steps=50, cfg_scale=1.0, **({"guidance": 6.0} if guided else {}))


def random_spec(r):
    head, heads, patch = r.choice([8, 12, 16, 32, 64, 128]), r.choice([1, 2, 3, 5]), r.choice([1, 2, 2, 2])
    axis = 2 * r.randrange(1, head // 4)
    second = 2 * r.randrange(1, (head - axis) // 2)
    groups, keys, llama_head = r.choice([1, 2, 4]), r.choice([1, 2]), r.choice([4, 8, 12])
    guided = r.random() < 0.8
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": BYTE_LEVEL, "shift": r.choice([7.0, 3.0, 1.0]),
            "text": dict(hidden_size=r.choice([16, 24, 36]), num_attention_heads=keys * r.choice([1, 2, 3]),
                         num_key_value_heads=keys, head_dim=llama_head, intermediate_size=r.choice([24, 37, 64]),
                         num_hidden_layers=r.choice([3, 4, 5])),
            "clip_text": dict(hidden_size=r.choice([12, 24]), num_attention_heads=r.choice([1, 2, 3]),
                              intermediate_size=r.choice([24, 40]), num_hidden_layers=r.choice([1, 2, 3]),
                              hidden_act=r.choice(["quick_gelu", "gelu"])),
            "dit": dict(num_attention_heads=heads, attention_head_dim=head, num_layers=r.choice([1, 2]),
                        num_single_layers=r.choice([1, 2, 3]), num_refiner_layers=r.choice([1, 2]),
                        mlp_ratio=r.choice([4.0, 4.0, 2.5]), patch_size=patch, guidance_embeds=guided,
                        rope_theta=r.choice([256.0, 10000.0]), rope_axes_dim=(axis, second, head - axis - second)),
            "vae": dict(block_out_channels=tuple(groups * r.choice([1, 2, 3]) for _ in range(4)),
                        layers_per_block=r.choice([1, 2]), norm_num_groups=groups, latent_channels=r.choice([3, 4, 16]),
                        scaling_factor=r.choice([0.476986, 0.8])),
            "request": random_request(r, 16, 1 + 4 * r.choice([0, 1, 3, 5]), range(1, 9))}
    spec["request"]["cfg_scale"] = r.choice([1.0, 1.0, 3.5])
    if guided:
        spec["request"]["guidance"] = r.choice([1.0, 4.5, 6.0, 7.0])
    if r.random() < 0.5:
        spec["shard"] = "400KB"
    if spec["request"]["frames"] > 1 and r.random() < 0.4:  # latent frames are even then
        spec["dit"]["patch_size_t"] = 2
    return spec
