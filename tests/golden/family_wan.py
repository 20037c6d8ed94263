"""Wan 2.1 and 2.2: minis, hooks, decoding."""
import math

import diffusers
import torch
import transformers
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from parts import BYTES, GATED, SMALL, T5, UMT5, WEIGHT_DTYPES, build, fan_in, latent_statistics, pictures, \
    random_request, random_text, to_dtype, video
from taps import all_equal, channels_last, hook_vae

PIPELINE, VAE = diffusers.WanPipeline, diffusers.AutoencoderKLWan
IMAGE_PIPELINE = diffusers.WanImageToVideoPipeline
MASKED_TEXT = True  # the text encoder runs on the tokens of the prompt alone
LEAST_STEPS = 1
LOW_VAE = False     # bfloat16 renders decode in float32, as diffusers' documentation has it
UNIPC = {"kind": "unipc", "shift": 3.0}


# experts: a transformer_2 as well. latent_statistics: False keeps AutoencoderKLWan's own mean and deviation of latents.
CASES = {
    # The plain Wan 2.1: float32, one file a part.
    "wan21_hd12": {
        "seed": 1200, "dtype": "F32", "tokenizer": {**UMT5, "narrow": True}, "sampler": UNIPC, "latent_statistics": False,
        "text": {**GATED, "width": 32, "head": 8, "heads": 4, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, freq_dim=32,
                    ffn_dim=48, num_layers=2, rope_max_seq_len=32),
        "vae": dict(base_dim=4, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
                    temperal_downsample=[False, True, True]),
        "request": dict(prompt="A red ball bouncing on green grass, “slow motion”…",
                        negative_prompt="blurry, low quality", width=48, height=32, frames=9, steps=4, cfg_scale=5.0,
                        seed=42),
    },
    # bfloat16 with float32 islands, in shards; Euler; two temporal and four spatial pixels a latent.
    "wan21_hd64": {
        "seed": 6400, "dtype": "BF16", "shard": "250KB", "tokenizer": BYTES, "sampler": {"kind": "euler", "shift": 7.0},
        "text": {**GATED, "width": 32, "head": 16, "heads": 3, "ff": 64, "layers": 2, "buckets": 16, "distance": 64},
        "dit": dict(num_attention_heads=2, attention_head_dim=64, in_channels=16, out_channels=16, freq_dim=64,
                    ffn_dim=80, num_layers=1),
        "vae": dict(base_dim=4, z_dim=16, dim_mult=[1, 2, 2], num_res_blocks=2, temperal_downsample=[True, False],
                    scale_factor_temporal=2, scale_factor_spatial=4),
        "request": dict(prompt="雪山と湖、ドローン撮影 🏔️ café", negative_prompt="", width=32, height=16, frames=5, steps=3,
                        cfg_scale=6.0, seed=7),
    },
    # float16; T5 with its bias in the first layer and a plain relu feed-forward; the residual VAE with patches.
    "wan22_hd128": {
        "seed": 12800, "dtype": "F16", "tokenizer": T5,
        "sampler": {"kind": "unipc", "shift": 5.0},
        "text": {"kind": "t5", "act": "relu", "width": 24, "head": 8, "heads": 3, "ff": 56, "layers": 3, "buckets": 32,
                 "distance": 128},
        "dit": dict(num_attention_heads=1, attention_head_dim=128, in_channels=9, out_channels=9, freq_dim=64,
                    ffn_dim=144, num_layers=1),
        "vae": dict(base_dim=4, decoder_base_dim=6, z_dim=9, dim_mult=[1, 2, 2], num_res_blocks=1,
                    temperal_downsample=[True, True], is_residual=True, patch_size=2, in_channels=12, out_channels=12,
                    scale_factor_temporal=4, scale_factor_spatial=8),
        "request": dict(prompt="Ein roter Ball   hüpft &amp; rollt\tüber <extra_id_0> Gras",
                        negative_prompt="плохое качество", width=48, height=32, frames=9, steps=4, cfg_scale=5.0,
                        seed=123456789),
    },
    # Two denoisers with a boundary between them, each with its own guidance.
    "wan22_a14b": {
        "seed": 1400, "dtype": "F32", "tokenizer": SMALL, "sampler": UNIPC, "experts": True, "boundary_ratio": 0.875,
        "latent_statistics": False,
        "text": {**GATED, "width": 16, "head": 8, "heads": 2, "ff": 24, "layers": 1},
        "dit": dict(num_attention_heads=2, attention_head_dim=16, in_channels=16, out_channels=16, freq_dim=32,
                    ffn_dim=48, num_layers=1, eps=1e-5),
        "vae": dict(base_dim=4, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
                    temperal_downsample=[False, True, True]),
        "request": dict(prompt="a cat, a dog & a bird", negative_prompt="", width=32, height=32, frames=5, steps=5,
                        cfg_scale=4.0, cfg_scale_2=3.0, seed=0),
    },
    # TI2V-5B's layout: a timestep for each token (all equal without an image), four levels, 48 channels.
    "wan22_ti2v": {
        "seed": 5000, "dtype": "BF16", "tokenizer": SMALL, "sampler": {"kind": "unipc", "shift": 5.0},
        "expand_timesteps": True,
        "text": {**GATED, "width": 16, "head": 8, "heads": 2, "ff": 24, "layers": 1},
        "dit": dict(num_attention_heads=2, attention_head_dim=20, in_channels=48, out_channels=48, freq_dim=256,
                    ffn_dim=64, num_layers=2),
        "vae": dict(base_dim=3, decoder_base_dim=4, z_dim=48, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
                    temperal_downsample=[False, True, True], is_residual=True, patch_size=2, in_channels=12,
                    out_channels=12, scale_factor_temporal=4, scale_factor_spatial=16),
        "request": dict(prompt="waves", negative_prompt="", width=64, height=64, frames=5, steps=3, cfg_scale=5.0,
                        seed=4294967297),
    },
}

# Image to video. pictures: how many; the clip begins with the first, and ends with the second.
CASES["wan22_i2v"] = {
    **CASES["wan22_a14b"], "seed": 1401,
    "dit": {**CASES["wan22_a14b"]["dit"], "in_channels": 36, "num_layers": 2},
    "request": dict(prompt="a cat, a dog & a bird", negative_prompt="", width=32, height=48, frames=9, steps=4,
                    cfg_scale=4.0, cfg_scale_2=3.0, seed=3, pictures=2),
}
CASES["wan21_i2v"] = {
    **CASES["wan21_hd12"], "seed": 1201,
    "dit": {**CASES["wan21_hd12"]["dit"], "in_channels": 36, "image_dim": 16, "added_kv_proj_dim": 24},
    "clip": dict(hidden_size=16, num_attention_heads=2, num_hidden_layers=3, intermediate_size=24, image_size=28,
                 patch_size=7, hidden_act="gelu"),
    "request": dict(prompt="a cat, a dog & a bird", negative_prompt="blurry", width=48, height=32, frames=5, steps=3,
                    cfg_scale=5.0, seed=7, pictures=1),
}
CASES["wan22_ti2v_image"] = {
    **CASES["wan22_ti2v"], "seed": 5001,
    "request": dict(prompt="waves", negative_prompt="", width=96, height=64, frames=9, steps=3, cfg_scale=5.0, seed=11,
                    pictures=1),
}


# Video to video: the last of the steps, from a clip of counter.py with noise.
CASES["wan21_video"] = {
    **CASES["wan21_hd12"], "seed": 1202,
    "request": dict(prompt="a cat, a dog & a bird", negative_prompt="blurry", width=48, height=32, frames=9, steps=5,
                    cfg_scale=5.0, seed=9, strength=0.7),
}


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; gates and shifts vary by channel; attention is not flat."""
    for name, p in model.named_parameters():
        if "norm_q" in name or "norm_k" in name or "norm_added_k" in name:
            draw(name, p, 0.2, 2.0 if "attn2" in name else 1.3)
        elif name.endswith(("norm1.weight", "norm2.weight")):
            draw(name, p, 0.2, 1.0)
        elif "scale_shift_table" in name:
            draw(name, p, 0.4)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 0.5 if "time_proj" in name else 1.4 if "ffn.net.2" in name or "linear_2" in name else 1.0
            draw(name, p, gain / fan_in(p) ** 0.5)


def fill_clip(model, draw):
    for name, p in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            draw(name, p, 1.0 / fan_in(p) ** 0.5)


def image_encoder(spec, draw, device):
    """CLIP's, and what prepares its pictures."""
    config = transformers.CLIPVisionConfig(**spec["clip"])
    model = build(lambda: transformers.CLIPVisionModel(config), fill_clip, draw("image_encoder", 6), device)
    to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    side = spec["clip"]["image_size"]
    return dict(image_encoder=model, image_processor=CLIPImageProcessorPil(size={"shortest_edge": side},
                                                                           crop_size={"height": side, "width": side}))


def fill_vae(model, draw):
    for name, p in model.named_parameters():
        if name.endswith("gamma"):
            draw(name, p, 0.2, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 1.0 if "conv_out" in name or "quant" in name or "shortcut" in name else 1.3
            draw(name, p, gain / fan_in(p) ** 0.5)


def make_sampler(spec):
    if spec["kind"] == "unipc":
        return diffusers.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                                 num_train_timesteps=1000, flow_shift=spec["shift"])
    return diffusers.FlowMatchEulerDiscreteScheduler(shift=spec["shift"])


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoder and tokenizer."""
    vae = dict(spec["vae"])
    if spec.get("latent_statistics", True):
        vae.update(latent_statistics(vae["z_dim"], spec["seed"] + 4))
    dtype = WEIGHT_DTYPES[spec["dtype"]]

    def dit(part, k):
        model = build(lambda: diffusers.WanTransformer3DModel(text_dim=spec["text"]["width"], **spec["dit"]),
                      fill_transformer, draw(part, k), device)
        to_dtype(model, dtype, model._keep_in_fp32_modules or [])
        return model
    decoder = build(lambda: diffusers.AutoencoderKLWan(**vae), fill_vae, draw("vae", 5), device)
    to_dtype(decoder, dtype, [])
    return dict(transformer=dit("transformer", 2),
                transformer_2=dit("transformer_2", 3) if spec.get("experts") else None,
                vae=decoder, scheduler=make_sampler(spec["sampler"]), boundary_ratio=spec.get("boundary_ratio"),
                expand_timesteps=spec.get("expand_timesteps", False),
                **(image_encoder(spec, draw, device) if "clip" in spec else {}))


def wide():
    """What float64 changes beside what the oracle changes for all families."""
    return []


def widen_model(pipe):
    for m in (pipe.transformer, pipe.transformer_2):
        if m is not None:
            m.double()
            c = m.config
            m.rope = type(m.rope)(c.attention_head_dim, c.patch_size, c.rope_max_seq_len).to(pipe.device)
    if getattr(pipe, "image_encoder", None):
        pipe.image_encoder.double()


def grid(x):
    """Latents as the pipeline has them, to [c, f, y, x]."""
    return x[0]


def one_row(x):
    """Time embeddings come per token with expand_timesteps; in text-to-video all rows are one, and a held frame has its
    own, which comes second."""
    if x.ndim == 3:
        tokens = x[0]
        held = int((tokens - tokens[-1]).abs().amax(1).gt(0).sum())
        return torch.stack([tokens[-1], tokens[0]]) if held and not all_equal(tokens) else tokens[0]
    return x[0]


def hook_clip(taps, model):
    """The states before the last layer are those that count."""
    taps.out(model.pre_layrnorm, "vision.embed", lambda x: x[0])
    for i, b in enumerate(model.encoder.layers[:-1]):
        taps.out(b, f"vision.block.{i}", lambda x: x[0])


def hook_dit(taps, pipe, state, passes):
    if getattr(pipe, "image_encoder", None):
        hook_clip(taps, pipe.image_encoder)
    for model in (pipe.transformer, pipe.transformer_2):
        if model is not None:
            hook_model(taps, model, state, passes)


def hook_model(taps, model, state, passes):
    def at(name, both=False):
        def when():
            call = state["dit_call"]
            if call == 0:
                return f"dit.{name}"
            return f"dit_u.{name}" if call == 1 and both and passes == 2 else None
        return when

    def pad_row(x):
        n = state["text_len"][0]
        assert all_equal(x[0, n:])
        return x[0, :n + 1]
    c = model.condition_embedder
    taps.out(model.patch_embedding, at("patch_embed"), lambda x: x[0].flatten(1).T)
    taps.out(c.time_embedder, at("temb"), one_row)
    taps.out(c.time_proj, at("time_proj"), lambda x: one_row(x).unflatten(-1, (6, -1)))
    taps.out(c.text_embedder, at("text"), pad_row)
    if c.image_embedder is not None:
        taps.out(c.image_embedder, at("image"), lambda x: x[0])
    for i, b in enumerate(model.blocks):
        taps.into(b.norm2, at(f"block.{i}.attn1", True))
        taps.into(b.norm3, at(f"block.{i}.attn2", True))
        taps.out(b, at(f"block.{i}.ffn", True))
    taps.out(model.proj_out, at("proj_out"))

    def before(*_):
        state["dit_call"] += 1

    def v_name():
        k, second = divmod(state["dit_call"], passes)
        return f"step.{k}.v_uncond" if second else f"step.{k}.v_cond"
    model.register_forward_pre_hook(before)
    taps.out(model, v_name, lambda x: x[0])


def statistics(vae, dtype):
    shape = (1, vae.config.z_dim, 1, 1, 1)
    c = vae.config
    return [torch.tensor(v, dtype=torch.float32).view(shape).to(vae.device, dtype) for v in (c.latents_mean, c.latents_std)]


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded."""
    return latents


def way(noise, latents):
    """What the denoiser has made of the noise, up to a factor."""
    return latents.double() - noise.double()


def decode(vae, latents, dtype):
    mean, std = statistics(vae, dtype)
    z = latents[None].to(mean) / (1.0 / std) + mean
    return channels_last(vae.decode(z, return_dict=False)[0]).cpu()


def clip_shape(spec):
    """Of the encoder's input."""
    vae = spec["vae"]
    scale = vae.get("scale_factor_spatial", 8)
    rows = 1 if scale == 16 else 2
    return (9 if vae.get("scale_factor_temporal", 4) == 4 else 5, rows * scale, (rows + 1) * scale, 3)


def encode(vae, clip, dtype):
    """[f, y, x, 3] to the normalised mean [f, y, x, c]."""
    mean, std = statistics(vae, dtype)
    mu = vae.encode(clip.permute(3, 0, 1, 2)[None].to(mean)).latent_dist.mode()
    return channels_last((mu - mean) * (1.0 / std)).cpu()


def from_video(pipe):
    """The parts of a WanPipeline, as one that starts from a video. Its own sizes leave out what the VAE's patches make."""
    if getattr(pipe, "transformer_2", None):
        raise SystemExit("diffusers' video to video of Wan has one denoiser, and this model two")
    parts = {k: v for k, v in pipe.components.items() if k in ("tokenizer", "text_encoder", "transformer", "vae", "scheduler")}
    made = diffusers.WanVideoToVideoPipeline(**parts)
    made.set_progress_bar_config(disable=True)
    made.made_of, made.transformer_2 = type(pipe).__name__, None
    made.vae_scale_factor_spatial = pipe.vae.config.scale_factor_spatial
    return made


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    if "strength" in request:
        if request["frames"] % 4 != 1:  # AutoencoderKLWan encodes so many at once, whatever its scale in time, and drops the rest
            raise SystemExit(f"diffusers starts from videos of 4 n + 1 frames alone, not of {request['frames']}")
        return {"video": video(request), "strength": request["strength"]}
    return {"guidance_scale_2": request.get("cfg_scale_2"), **dict(zip(("image", "last_image"), pictures(request)))}


def defaults(folder):
    """What the pipeline makes of a call that leaves it open."""
    return dict(width=832, height=480, frames=81, steps=50, cfg_scale=5.0)


def schedule(sampler):
    return {"sigmas": sampler.sigmas, "timesteps": sampler.timesteps}


def random_vae(r, channels):
    levels, residual = r.choice([2, 3, 3, 4, 4]), r.random() < 0.5
    mult = [r.choice([1, 2])]
    while len(mult) < levels:
        mult.append(r.choice([m for m in (1, 2, 4) if m >= mult[-1] or residual is False]))
    if residual:
        mult[-1] = r.choice([m for m in (1, 2, 4) if m <= mult[-2]])  # the last level averages whole groups
    down = [r.random() < 0.6 for _ in range(levels - 1)]
    down[r.randrange(len(down))] = True
    while sum(down) > 2:
        down[r.randrange(len(down))] = False
    patch = r.choice([None, 2])
    vae = dict(base_dim=r.choice([4, 6, 8]), z_dim=channels, dim_mult=mult, num_res_blocks=r.choice([1, 1, 2]),
               temperal_downsample=down, is_residual=residual, scale_factor_temporal=2 ** sum(down),
               scale_factor_spatial=2 ** (levels - 1) * (patch or 1))
    if patch:
        vae.update(patch_size=patch, in_channels=3 * patch**2, out_channels=3 * patch**2)
    if r.random() < 0.5:
        vae["decoder_base_dim"] = r.choice([4, 6, 8])
    return vae


def random_spec(r):
    channels, head = r.choice([4, 8, 9, 16, 48]), r.choice([8, 12, 20, 32, 40, 64, 80, 96, 128])
    heads = r.choice([n for n in (1, 2, 3, 4) if n * head <= 256])
    experts = r.random() < 0.25
    patch = r.choice([[1, 2, 2], [1, 2, 2], [1, 2, 2], [1, 1, 1]])
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "experts": experts,
            "tokenizer": r.choice([T5, UMT5, BYTES, SMALL]),
            "sampler": {"kind": r.choice(["unipc", "unipc", "euler"]), "shift": r.choice([1.0, 3.0, 5.0, 8.0])},
            "text": random_text(r, ["umt5", "umt5", "t5"]), "vae": random_vae(r, channels),
            "dit": dict(num_attention_heads=heads, attention_head_dim=head, in_channels=channels, out_channels=channels,
                        freq_dim=r.choice([32, 64, 256]), ffn_dim=r.choice([48, 100, 256]),
                        num_layers=r.choice([1, 2, 3]), eps=r.choice([1e-6, 1e-5]),
                        cross_attn_norm=r.random() < 0.8, patch_size=patch)}
    if r.random() < 0.5:
        spec["shard"] = "200KB"
    if experts:
        spec["boundary_ratio"] = r.choice([0.5, 0.875, 0.95])
    elif patch[1] == 2 and r.random() < 0.25:
        spec["expand_timesteps"] = True
    v = spec["vae"]
    request = random_request(r, math.lcm(16, v["scale_factor_spatial"] * patch[1]),
                             1 + v["scale_factor_temporal"] * r.choice([0, 1, 2, 3]), [1, 2, 3, 4, 7])
    if experts:
        request["cfg_scale_2"] = r.choice([2.0, 4.0])
    spec["request"] = request
    return spec


def random_clip(r):
    """Of an image encoder: hidden size, heads, layers, a picture of whole patches."""
    head, patch = r.choice([4, 8, 12, 16, 40]), r.choice([4, 7, 8, 14])
    heads = r.choice([1, 2, 3])
    return dict(hidden_size=head * heads, num_attention_heads=heads, num_hidden_layers=r.choice([2, 3, 4]),
                intermediate_size=r.choice([24, 40, 64]), patch_size=patch, image_size=patch * r.choice([2, 3, 4, 5]),
                hidden_act=r.choice(["gelu", "quick_gelu"]), layer_norm_eps=r.choice([1e-5, 1e-6]))


def random_image_spec(r):
    """Wan 2.1 from a picture to a video, or from a first and a last one; tokens of CLIP for each. diffusers encodes clips
    four frames at a time, whatever the VAE."""
    spec = random_spec(r)
    while (spec["experts"] or spec.get("expand_timesteps") or spec["dit"]["patch_size"][1] == 1 or
           spec["vae"]["scale_factor_temporal"] != 4):
        spec = random_spec(r)
    dit, clip, both = spec["dit"], random_clip(r), r.random() < 0.5
    tokens = 1 + (clip["image_size"] // clip["patch_size"]) ** 2
    dit.update(in_channels=2 * dit["in_channels"] + spec["vae"]["scale_factor_temporal"], image_dim=clip["hidden_size"],
               added_kv_proj_dim=dit["num_attention_heads"] * dit["attention_head_dim"])
    if both:
        dit["pos_embed_seq_len"] = 2 * tokens
        spec["request"]["frames"] = max(spec["request"]["frames"], 1 + spec["vae"]["scale_factor_temporal"])
    spec["clip"] = clip
    spec["request"]["pictures"] = 1 + both
    return spec
