"""Open-Sora-Plan 1.3 with random weights, and its authors' code (github.com/PKU-YuanGroup/Open-Sora-Plan at f7fa604f).

Of the code the network, the decoder and what these import are needed, and in Python einops. The code gives each call
of scaled_dot_product_attention a mask, of zeros where nothing is padded, and asks for the kernel that takes one. Beside
it runs the same code without both, where PyTorch chooses among its kernels.
"""
import contextlib
import json
import os
import shutil
import sys
import types

import torch
import torch.nn.functional as F

import models
import parts  # of tests/golden

TEXT, TOKENS, CHANNELS = 4096, 512, 8
DIT = dict(num_attention_heads=24, attention_head_dim=96, cross_attention_dim=2304, num_layers=32, in_channels=CHANNELS,
           out_channels=CHANNELS, sample_size_h=80, sample_size_w=80, sample_size_t=24, patch_size=2, patch_size_t=1,
           attention_bias=True, activation_fn="gelu-approximate", norm_elementwise_affine=False, norm_eps=1e-6,
           caption_channels=TEXT, sparse1d=True, sparse_n=4)
VAE = dict(latent_dim=CHANNELS, base_channels=128, encoder_energy_flow_hidden_size=128, norm_type="layernorm",
           t_interpolation="trilinear")
SHAPES = {"full-opensora": (DIT, VAE),
          "small-opensora": (dict(DIT, num_attention_heads=2, attention_head_dim=48, cross_attention_dim=96,
                                  num_layers=4), dict(
                                      VAE, base_channels=32, encoder_energy_flow_hidden_size=32,
                                      decoder_energy_flow_hidden_size=32))}
MASKED, PLAIN, COMPILED = "as it is", "without masks", "torch.compile"


# ---- the authors' code ----

class Plain:
    """What their attention asks torch and torch.nn.functional for, without the mask and the choice of a kernel."""
    pad = staticmethod(F.pad)

    @staticmethod
    def scaled_dot_product_attention(q, k, v, attn_mask=None, **_):
        return F.scaled_dot_product_attention(q, k, v)

    class backends:
        class cuda:
            @staticmethod
            def sdp_kernel(**_):
                return contextlib.nullcontext()


def install(root):
    """Makes the code in that folder importable, without what its packages import beside the model."""
    if not root or not os.path.isdir(os.path.join(root, "opensora", "models")):
        raise SystemExit("row: this row needs --opensora DIR, a checkout of github.com/PKU-YuanGroup/Open-Sora-Plan")
    for name in ("", ".models", ".models.diffusion", ".models.diffusion.opensora_v1_3", ".models.causalvideovae",
                 ".models.causalvideovae.model", ".models.causalvideovae.model.vae", ".utils"):
        package = types.ModuleType("opensora" + name)
        package.__path__ = [os.path.join(root, *package.__name__.split("."))]
        sys.modules[package.__name__] = package
    sys.modules["opensora.utils.utils"] = utils = types.ModuleType("opensora.utils.utils")  # it imports loggers
    utils.to_2tuple = lambda x: x if hasattr(x, "__iter__") else (x, x)


def classes():
    from opensora.models.causalvideovae.model.vae.modeling_wfvae import WFVAEModel
    from opensora.models.diffusion.opensora_v1_3.modeling_opensora import OpenSoraT2V_v1_3
    return OpenSoraT2V_v1_3, WFVAEModel


def masks(on, device):
    """Whether a model's attention gets masks. The kernel that they ask for is one of a GPU."""
    from opensora.models.diffusion.opensora_v1_3 import modules
    modules.F, modules.torch = F if on else Plain, torch if on and device == "cuda" else Plain


# ---- a folder ----

def fill(model, draw):
    for name, p in model.named_parameters():
        if "wavelet" in name:  # constants
            continue
        vector = p.ndim == 1
        draw(name, p, 0.1 if vector else parts.fan_in(p) ** -0.5, float(vector and "norm" in name and "weight" in name))


def make(folder, shape, device):
    """In Diffusers' layout, in BF16, with a small text encoder. Kept if it is there."""
    if os.path.isdir(folder):
        return
    import diffusers
    import transformers
    part, tokens = folder + ".part", os.path.join(models.GOLDEN, "fixtures", models.T5_TOKENIZER)
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(os.path.join(tokens, "tokenizer"), os.path.join(part, "tokenizer"))
    text = transformers.T5Config.from_pretrained(os.path.join(tokens, "text_encoder")).to_dict()
    text = transformers.MT5Config(**{**text, "model_type": "mt5", "d_model": TEXT})
    made = {"text_encoder": (lambda: transformers.MT5EncoderModel(text), models.checkpoint.fill_text)}
    for key, kind, config in zip(("transformer", "vae"), classes(), SHAPES[shape]):
        made[key] = lambda kind=kind, config=config: kind(**config), fill
    index = {"_class_name": "OpenSoraPipeline", "tokenizer": ["transformers", "T5Tokenizer"],
             "scheduler": ["diffusers", "EulerAncestralDiscreteScheduler"]}
    for i, (key, (new, numbers)) in enumerate(made.items()):
        with models.default_dtype(torch.bfloat16):
            model = parts.build(new, numbers, parts.by_torch(i, device), device)
        model.save_pretrained(os.path.join(part, key), max_shard_size="8GB")
        index[key] = ["transformers" if key == "text_encoder" else "diffusers", type(model).__name__]
    diffusers.EulerAncestralDiscreteScheduler(
        beta_start=1e-4, beta_end=0.02, prediction_type="v_prediction", timestep_spacing="trailing",
        rescale_betas_zero_snr=True).save_pretrained(os.path.join(part, "scheduler"))
    with open(os.path.join(part, "model_index.json"), "w", encoding="utf-8") as f:
        json.dump(index, f, indent=2)
    os.rename(part, folder)


def load(folder, part, device, **more):
    kind = dict(zip(("transformer", "vae"), classes()))[part]
    return kind.from_pretrained(os.path.join(folder, part), torch_dtype=torch.bfloat16, **more).to(device).eval()


# ---- their ways ----

def drawn(bench, *shape):
    g = torch.Generator(bench.device).manual_seed(0)
    return torch.randn(shape, generator=g, device=bench.device).to(torch.bfloat16)


def latents(bench, size):
    width, height, frames = size
    return drawn(bench, 1, CHANNELS, (frames - 1) // 4 + 1, height // 8, width // 8)


def attention_of(bench, forward):
    """What the calls of attention take of a forward, each waited for: batch, queries, keys."""
    from opensora.models.diffusion.opensora_v1_3 import modules
    was, taken = modules.F, {}

    class Timed:
        pad = was.pad

        @staticmethod
        def scaled_dot_product_attention(q, k, v, **rest):
            o = []
            run = bench.timed(lambda: o.append(was.scaled_dot_product_attention(q, k, v, **rest)))
            taken.setdefault(f"{q.shape[0]} x {q.shape[2]} to {k.shape[2]}", []).append(run())
            return o[0]
    modules.F = Timed
    forward()
    modules.F = was
    return ", ".join(f"{shape}: {len(t)} in {1e3 * sum(t):.1f} ms" for shape, t in taken.items())


def calls(bench, folder, _, size):
    """The denoiser: as it is, without masks, and that compiled. Every token of the text is real."""
    model, x = load(folder, "transformer", bench.device), latents(bench, size)
    ones = lambda *shape: torch.ones(shape, device=bench.device)
    call = dict(hidden_states=x, timestep=torch.tensor([900], device=bench.device), return_dict=False,
                encoder_hidden_states=drawn(bench, 1, 1, TOKENS, TEXT), attention_mask=ones(1, *x.shape[2:]),
                encoder_attention_mask=ones(1, 1, TOKENS))

    def forward(model, masked):
        masks(masked, bench.device)
        model(**call)
    ways = {MASKED: lambda: forward(model, True), PLAIN: lambda: forward(model, False)}
    notes = {}
    for name, way in ways.items():
        way()
        notes[name] = attention_of(bench, lambda: model(**call))
    if not bench.args.no_compile:
        compiled = torch.compile(model)
        ways[COMPILED] = lambda: forward(compiled, False)
    return ways, notes


def decoders(bench, folder, size):
    """The decoder, of the whole clip at once and by chunks."""
    vae = load(folder, "vae", bench.device, low_cpu_mem_usage=False)  # its wavelets are set while it is made
    z = latents(bench, size)

    def decode(chunks):
        vae.enable_tiling(chunks)
        vae.decode(z)
    return {"whole": lambda: decode(False), "enable_tiling": lambda: decode(True)}
