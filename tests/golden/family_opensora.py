"""Open-Sora-Plan 1.3: minis, hooks, decoding.

diffusers has only its scheduler. The rest is the authors' own code, which is not part of this repository: OPEN_SORA_PLAN names
a clone of https://github.com/PKU-YuanGroup/Open-Sora-Plan at commit f7fa604f. Of it only what a render needs is imported, and
only when it is used. The passes are one batch, the negative prompt first.
"""
import contextlib
import functools
import hashlib
import importlib
import json
import os
import sys
import types

import diffusers
import torch
from diffusers.models import embeddings
from diffusers.schedulers import scheduling_euler_ancestral_discrete as scheduling

from parts import GATED, T5, UMT5, WEIGHT_DTYPES, build, fan_in, random_request, random_text, to_dtype
from taps import Wide, channels_last, drawn_as_f32, hook_calls, in_batch, patched

DIT, VAE_FILE, PIPE = ("opensora.models.diffusion.opensora_v1_3.modeling_opensora",
                       "opensora.models.causalvideovae.model.vae.modeling_wfvae", "opensora.sample.pipeline_opensora")
DIGEST = "06447cdc5ab0471f6e10d4b4bdb2d3f103d2da938b103567af48a6e6a6207ced"  # of the files that these three import
BARE = ("opensora", "opensora.models", "opensora.models.diffusion", "opensora.models.diffusion.opensora_v1_3",
        "opensora.models.causalvideovae", "opensora.models.causalvideovae.model", "opensora.models.causalvideovae.model.vae",
        "opensora.sample", "opensora.utils")


def stand_in(name, **members):
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(members)


def digest(root):
    """Of the path and the bytes of every file of theirs that is imported."""
    files = [m.__file__ for n, m in sys.modules.items() if n.startswith("opensora.") and getattr(m, "__file__", None)]
    sums = hashlib.sha256()
    for path in sorted(files):
        sums.update(os.path.relpath(path, root).encode() + b"\0")
        with open(path, "rb") as f:
            sums.update(f.read())
    return sums.hexdigest()


def constants(vae):
    """The filters of wavelets are numbers in a checkpoint too: those that the classes have, whatever the file has."""
    for name, module in vae.named_modules():
        if name.rpartition(".")[2].startswith(("wavelet_", "inverse_wavelet_")):
            module.load_state_dict(type(module)().state_dict())
    return vae


@functools.cache
def theirs():
    """Imports the authors' code. Packages of theirs whose __init__ wants trainers get a bare one."""
    root = os.environ.get("OPEN_SORA_PLAN")
    if not root or not os.path.isdir(os.path.join(root, "opensora")):
        raise SystemExit("OPEN_SORA_PLAN: name a clone of https://github.com/PKU-YuanGroup/Open-Sora-Plan at f7fa604f there")
    for name in BARE:
        stand_in(name, __path__=[os.path.join(root, *name.split("."))])
    stand_in("opensora.utils.utils", to_2tuple=lambda x: x if isinstance(x, (tuple, list)) else (x, x))
    transformers = importlib.import_module("transformers")
    transformers.MT5Tokenizer = transformers.T5Tokenizer  # an annotation names what transformers 5 has no more
    torch.backends.cuda.sdp_kernel = lambda **_: contextlib.nullcontext()  # theirs allows kernels of GPUs alone
    modules = {name: importlib.import_module(name) for name in (DIT, VAE_FILE, PIPE)}
    if digest(root) != DIGEST:
        raise SystemExit(f"OPEN_SORA_PLAN: the files of {root} are not those of commit f7fa604f ({digest(root)})")
    vae, library = modules[VAE_FILE].WFVAEModel, importlib.import_module("diffusers")
    for part in (vae, modules[DIT].OpenSoraT2V_v1_3):  # model_index.json names no other library that can be loaded from
        part.__module__ = library.__name__
        setattr(library, part.__name__, part)
    vae.vae_scale_factor = [4, 8, 8]  # their scripts set it
    load = vae.from_pretrained
    vae.from_pretrained = lambda *args, **options: constants(load(*args, **{**options, "low_cpu_mem_usage": False}))
    return modules


class Theirs:
    """A class of theirs."""
    def __init__(self, module, name):
        self.module, self.__name__ = module, name

    def __call__(self, **parts):
        return getattr(theirs()[self.module], self.__name__)(**parts)

    def from_pretrained(self, *args, **options):
        return getattr(theirs()[self.module], self.__name__).from_pretrained(*args, **options)


PIPELINE, VAE, TRANSFORMER = Theirs(PIPE, "OpenSoraPipeline"), Theirs(VAE_FILE, "WFVAEModel"), Theirs(DIT, "OpenSoraT2V_v1_3")
MASKED_TEXT = True  # the states of pads are masked
LEAST_STEPS = 1
LOW_VAE = True      # a bfloat16 render decodes in bfloat16, and its frames are a tap
TEMPLATE = "high quality, high aesthetic, {}"  # their sample_utils.py has it between two lines' ends, which are white space
SAMPLER = dict(prediction_type="v_prediction", rescale_betas_zero_snr=True, timestep_spacing="trailing")
MT5 = {**GATED, "kind": "mt5"}

CASES = {
    # The published head; both groupings of tokens, 45 of them; a decoder as published, of three latent frames.
    "opensora_hd96": {
        "family": "opensora", "seed": 9600, "dtype": "F32", "shard": "4MB", "tokenizer": T5,
        "text": {**MT5, "width": 32, "head": 8, "heads": 3, "ff": 48, "layers": 2},
        "dit": dict(num_attention_heads=2, attention_head_dim=96, num_layers=4, sparse1d=True, sparse_n=4),
        "vae": dict(base_channels=12, encoder_num_resblocks=1, encoder_energy_flow_hidden_size=8, decoder_num_resblocks=2,
                    decoder_energy_flow_hidden_size=10, norm_type="layernorm", t_interpolation="trilinear"),
        "request": dict(prompt="two dogs running through shallow water at sunset", negative_prompt="", width=80, height=48,
                        frames=9, steps=3, cfg_scale=7.5, seed=51),
    },
    # No groups, patches of one latent, scaled places, of which two axes of the same length share the first one's scale; a
    # decoder with norms of groups of channels, of which there are at least 128 then, without attention; an encoder.
    "opensora_hd24": {
        "family": "opensora", "seed": 2400, "dtype": "BF16", "shard": "4MB", "tokenizer": {**UMT5, "narrow": True},
        "text": {**MT5, "width": 40, "head": 16, "heads": 2, "ff": 37, "layers": 1},
        "dit": dict(num_attention_heads=3, attention_head_dim=24, num_layers=3, patch_size=1, norm_eps=1e-5, sparse_n=1,
                    interpolation_scale_t=0.5, interpolation_scale_h=1.5, interpolation_scale_w=2.0),
        "vae": dict(base_channels=32, encoder_num_resblocks=1, encoder_energy_flow_hidden_size=32, decoder_num_resblocks=1,
                    decoder_energy_flow_hidden_size=32, norm_type="groupnorm", t_interpolation="nearest",
                    use_attention=False, connect_res_layer_num=2),
        "statistics": True, "clip": 9, "channels": 160,
        "request": dict(prompt="wind in the tall grass", negative_prompt="blurry, low quality", width=40, height=16,
                        frames=5, steps=4, cfg_scale=7.5, seed=52),
    },
}


def fill_transformer(model, draw):
    """Linear maps keep the size of what they see; gates vary by channel; attention is not flat."""
    for name, p in model.named_parameters():
        if "scale_shift_table" in name:
            draw(name, p, 0.4)
        elif p.ndim == 1:
            draw(name, p, 0.1)
        else:
            gain = 1.4 if name.endswith(("to_q.weight", "linear_2.weight", "ff.net.2.weight")) else \
                0.3 if "attn2.to_out" in name else 1.0  # prompts differ seven times as much in what guidance makes of them
            draw(name, p, gain / fan_in(p) ** 0.5)


def fill_vae(model, draw):
    for name, p in (*model.named_parameters(), *model.named_buffers()):
        if "wavelet_transform" in name:  # see constants
            draw(name, p, 0.35)
        elif p.ndim == 1:
            draw(name, p, *((0.2, 1.0) if "norm" in name and name.endswith("weight") else (0.1,)))
        else:
            last = name.startswith("decoder.connect") and name.count(".") == 3
            gain = 0.4 if name.startswith("decoder.conv_out") else 0.06 if last else \
                model.config.scale[0] if "conv_in" in name else 0.5 if "conv2" in name else 1.3
            draw(name, p, gain / fan_in(p) ** 0.5)


def latent_statistics(channels, seed):
    g = torch.Generator("cpu").manual_seed(seed)
    scale, shift = torch.rand(channels, generator=g) + 0.5, torch.randn(channels, generator=g) * 0.5
    return {"scale": [round(v, 4) for v in scale.tolist()], "shift": [round(v, 4) for v in shift.tolist()]}


def components(spec, draw, device):
    """Arguments of the pipeline beside text encoder and tokenizer."""
    vae = dict(spec["vae"])
    channels = vae.get("latent_dim", 8)
    vae.setdefault("scale", [0.18215] * channels)
    vae.setdefault("shift", [0.0] * channels)
    if spec.get("statistics"):
        vae.update(latent_statistics(channels, spec["seed"] + 4))
    dit = {"in_channels": channels, "out_channels": channels, "patch_size": 2, "patch_size_t": 1,
           "activation_fn": "gelu-approximate", "caption_channels": spec["text"]["width"],
           "sample_size_h": 80, "sample_size_w": 80, "sample_size_t": 24, **spec["dit"]}
    dit["cross_attention_dim"] = dit["num_attention_heads"] * dit["attention_head_dim"]
    made = {"transformer": build(lambda: TRANSFORMER(**dit), fill_transformer, draw("transformer", 2), device),
            "vae": build(lambda: VAE(**vae), fill_vae, draw("vae", 5), device)}
    for model in made.values():
        to_dtype(model, WEIGHT_DTYPES[spec["dtype"]], [])
    return {**made, "scheduler": diffusers.EulerAncestralDiscreteScheduler(**spec.get("schedule", SAMPLER))}


def wide():
    """What float64 changes beside what the oracle changes for all families. The scheduler's betas stay in float32."""
    step = scheduling.EulerAncestralDiscreteScheduler.step

    @functools.wraps(step)
    def wide_step(*args, **options):
        with patched((scheduling, "torch", Wide())):
            return step(*args, **options)
    return [(embeddings, "torch", Wide()), (scheduling.EulerAncestralDiscreteScheduler, "step", wide_step),
            *drawn_as_f32(theirs()[PIPE], scheduling)]


def widen_model(pipe):
    pipe.transformer.double()


def grid(x):
    """Latents as the pipeline has them, to [c, f, y, x]."""
    return x[0]


def schedule(sampler):
    """sigmas: the shares of noise."""
    s = sampler.sigmas.double()
    return {"sigmas": s / (1 + s), "timesteps": sampler.timesteps}


def sample(sampler, k, x):
    """After step k: as the model would be given it, a mixture whose squares of shares add up to 1."""
    return x.double() / (sampler.sigmas[k + 1].double() ** 2 + 1) ** 0.5


def see_draw(pipe, state):
    """The first latents are the noise times the first sigma."""
    prepare, module = pipe.prepare_latents, theirs()[PIPE]
    draw = module.randn_tensor

    def drawn(*args, **options):
        state["drawn"] = draw(*args, **options)
        return state["drawn"]

    def prepare_latents(*args, **options):
        with patched((module, "randn_tensor", drawn)):
            return prepare(*args, **options)
    pipe.prepare_latents = prepare_latents


def hook_dit(taps, pipe, state, passes):
    """Blocks have the batch in the second place."""
    model, put = pipe.transformer, in_batch(taps, state, passes)
    rows = lambda name, x: put(name, x.transpose(0, 1), both=True)
    see_draw(pipe, state)
    hook_calls(taps, model, state, passes, grid)
    model.pos_embed.register_forward_hook(lambda _, args, output: put("patch_embed", output))
    model.adaln_single.register_forward_hook(lambda _, args, output: put("temb", output[1]))
    model.caption_projection.register_forward_hook(
        lambda _, args, output: put("text", output[:, 0], rows=state["text_len"][::-1]))
    for i, b in enumerate(model.transformer_blocks):
        b.attn2.register_forward_pre_hook(lambda _, args, i=i: rows(f"block.{i}.attn1", args[0]))
        b.norm2.register_forward_pre_hook(lambda _, args, i=i: rows(f"block.{i}.attn2", args[0]))
        b.register_forward_hook(lambda _, args, output, i=i: rows(f"block.{i}.ffn", output))
    model.proj_out.register_forward_hook(lambda _, args, output: put("proj_out", output))


def hook_vae(taps, vae):
    d, e = vae.decoder, vae.encoder
    taps.out(d.conv_in, "vae.conv_in")
    taps.out(d.inverse_wavelet_transform_l2, "vae.l2")
    taps.out(d.inverse_wavelet_transform_l1, "vae.l1")
    taps.out(d.conv_out, "vae.conv_out")
    for part in ("mid", "up2", "up1", "layer"):
        for i, b in enumerate(getattr(d, part)):
            taps.out(b, f"vae.{part}.{i}")
    for part in ("connect_l2", "connect_l1"):
        for i, b in enumerate(getattr(d, part)[:-1]):
            taps.out(b, f"vae.{part}.{i}")
    for part in ("down1", "down2", "mid"):
        for i, b in enumerate(getattr(e, part)):
            taps.out(b, f"enc.{part}.{i}")
    taps.out(e.connect_l1, "enc.l1")
    taps.out(e.connect_l2, "enc.l2")
    taps.out(e.conv_out, "enc.conv_out")


def decoded(pipe, latents, request):
    """Those of the last step's latents that are decoded."""
    return latents


def way(noise, latents):
    """What the denoiser has made of the noise: nothing of it is left after one step from where there is nothing but noise."""
    return latents


def statistics(vae, like):
    return (torch.tensor(v, dtype=torch.float32).view(1, -1, 1, 1, 1).to(like) for v in (vae.config.scale, vae.config.shift))


def decode(vae, latents, dtype):
    z = latents[None].to(vae.device, dtype)
    scale, shift = statistics(vae, z)
    return channels_last(vae.decode(z / scale + shift)).clamp(-1, 1).cpu()


def clip_shape(spec):
    """Of the encoder's input."""
    return (spec["clip"], 16, 24, 3) if "clip" in spec else None


def encode(vae, clip, dtype):
    x = clip.permute(3, 0, 1, 2)[None].to(vae.device, dtype)
    scale, shift = statistics(vae, x)
    return channels_last((vae.encode(x).mean - shift) * scale).cpu()


def arguments(pipe, request):
    """What the pipeline is called with beside what all are."""
    return {"prompt": TEMPLATE.format(request["prompt"])}


def defaults(folder):
    """What the pipeline, and their scripts, make of a call that leaves it open."""
    with open(os.path.join(folder, "transformer", "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    return dict(width=8 * c["sample_size_w"], height=8 * c["sample_size_h"], frames=4 * c["sample_size_t"] - 3, steps=100,
                cfg_scale=7.5)


def random_vae(r):
    base, norm = r.choice([(32, "groupnorm"), (32, "layernorm"), (12, "layernorm"), (20, "layernorm")])
    flow = [32, 64] if norm == "groupnorm" else [5, 8, 16, 32]
    return dict(base_channels=base, norm_type=norm, latent_dim=r.choice([8, 8, 4, 16]),
                t_interpolation=r.choice(["trilinear", "trilinear", "nearest"]), use_attention=r.random() < 0.7,
                encoder_num_resblocks=r.choice([1, 2]), encoder_energy_flow_hidden_size=r.choice(flow),
                decoder_num_resblocks=r.choice([1, 2, 3]), decoder_energy_flow_hidden_size=r.choice(flow),
                connect_res_layer_num=r.choice([1, 1, 2]))


def random_dit(r):
    head, groups = r.choice([24, 48, 96, 96, 6, 18, 30, 72, 120]), r.random() < 0.75
    deep = r.random() < 0.15
    scaled = r.random() < 0.3
    dit = dict(attention_head_dim=head, num_attention_heads=1 if deep else r.choice([n for n in range(1, 6) if n * head <= 288]),
               num_layers=r.choice([32, 33, 34]) if deep else r.choice([1, 2, 3, 4, 5, 6]), patch_size=r.choice([2, 2, 2, 1]),
               sparse1d=groups, sparse_n=4 if groups else 1, norm_eps=r.choice([1e-6, 1e-6, 1e-5]))
    if scaled:
        dit.update({f"interpolation_scale_{axis}": r.choice([0.5, 1.0, 1.5, 2.0]) for axis in "thw"})
    return dit


def random_spec(r):
    dit, vae = random_dit(r), random_vae(r)
    scale = 8 * dit["patch_size"]
    spec = {"dtype": r.choice(["F32", "F16", "BF16"]), "tokenizer": T5, "statistics": r.random() < 0.5,
            "text": {**random_text(r, ["mt5"], (16, 24, 40, 64)), "act": "gated-gelu"}, "dit": dit, "vae": vae,
            "schedule": SAMPLER if r.random() < 0.8 else dict(SAMPLER, timestep_spacing="leading", rescale_betas_zero_snr=False),
            "request": random_request(r, scale, 1 + 4 * r.choice([0, 1, 2, 3]), range(2, 9))}
    wide = r.choice([0, 0, 22, 30, 40])  # tokens; of the groups' lattices 40 alone is a multiple of 4
    if wide:
        spec["request"].update(width=wide * scale, height=scale * r.choice([2, 3, 5]))
    if r.random() < 0.5:
        spec["shard"] = "900KB"
    return spec
