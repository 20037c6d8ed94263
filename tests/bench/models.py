"""Checkpoints of the published shapes with random weights, made in seconds on the device that they are measured on.

Denoiser and VAE are those of tests/golden/fullsize.py. Text encoders are small, only as wide as the denoiser wants its
text, and have the tokenizers of tests/golden/fixtures: a step does not see the difference.
"""
import contextlib
import json
import os
import shutil
import sys

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN = os.path.join(ROOT, "tests", "golden")
sys.path.insert(0, GOLDEN)
import transformers  # noqa: E402
import checkpoint  # noqa: E402
import families  # noqa: E402
import family_sd3  # noqa: E402
import fullsize  # noqa: E402
import parts  # noqa: E402

# Whose configurations and tokenizers: the fixture of a family.
FIXTURES = {"wan": "wan21_hd12", "flux": "flux_dev", "mochi": "mochi_hd16", "sd3": "sd35_medium", "opensora": "opensora_hd96"}
T5_TOKENIZER = "wan22_hd128"  # of the fixtures without one


@contextlib.contextmanager
def default_dtype(dtype):
    was = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(was)


def text_width(spec, config):
    """What the denoiser wants of the text encoder of this configuration."""
    if config["model_type"].endswith("t5"):
        return {"d_model": spec["text"]["width"]}
    own = spec["clip_g"] if config["hidden_act"] == "gelu" else spec["clip"]
    return {k: own[k] for k in ("hidden_size", "num_attention_heads", "projection_dim") if k in own}


def fill(model, draw):
    (checkpoint.fill_text if model.config.model_type.endswith("t5") else family_sd3.fill_clip)(model, draw)


def make_texts(folder, fixture, spec, device):
    for part in sorted(os.listdir(fixture)):
        if part.startswith("tokenizer"):
            shutil.copytree(os.path.join(fixture, part), os.path.join(folder, part))
        if part.startswith("text_encoder"):
            with open(os.path.join(fixture, part, "config.json"), encoding="utf-8") as f:
                config = json.load(f)
            kind = getattr(transformers, config["architectures"][0])
            made = kind.config_class(**{**config, **text_width(spec, config)})
            model = parts.build(lambda: kind(made), fill, parts.by_torch(len(part), device), device)
            model.to(torch.bfloat16).save_pretrained(os.path.join(folder, part))
    if not os.path.isdir(os.path.join(folder, "tokenizer")):
        shutil.copytree(os.path.join(fixture, "..", T5_TOKENIZER, "tokenizer"), os.path.join(folder, "tokenizer"))


def make(folder, shape, device):
    """A folder in Diffusers' layout, in BF16. Kept if it is there."""
    if os.path.isdir(folder):
        return folder
    spec = {"seed": 1, "dtype": "BF16", "sampler": fullsize.family_wan.UNIPC, "latent_statistics": False,
            **fullsize.SHAPES[shape]}
    name, part = spec.get("family", "wan"), folder + ".part"
    family, fixture = families.NAMED[name], os.path.join(GOLDEN, "fixtures", FIXTURES[name])
    shutil.rmtree(part, ignore_errors=True)
    os.makedirs(part)
    shutil.copy(os.path.join(fixture, "model_index.json"), part)
    make_texts(part, fixture, spec, device)
    with default_dtype(torch.bfloat16):
        made = family.components(spec, lambda part, k: parts.by_torch(1 + k, device), device)
    for key in ("transformer", "vae", "scheduler"):
        made[key].save_pretrained(os.path.join(part, key), **({} if key == "scheduler" else {"max_shard_size": "5GB"}))
    os.rename(part, folder)
    return folder


# ---- a call of diffusers' denoiser ----

def wan(config, width, height, frames, randn):
    return dict(hidden_states=randn(1, 16, (frames - 1) // 4 + 1, height // 8, width // 8), timestep=[900],
                encoder_hidden_states=randn(1, 512, config.text_dim))


def flux(config, width, height, frames, randn):
    y, x = height // 16, width // 16
    ids = torch.zeros(y, x, 3)
    ids[..., 1], ids[..., 2] = torch.arange(y)[:, None], torch.arange(x)
    return dict(hidden_states=randn(1, y * x, config.in_channels), timestep=[0.9], guidance=[3.5],
                encoder_hidden_states=randn(1, 512, config.joint_attention_dim),
                pooled_projections=randn(1, config.pooled_projection_dim), img_ids=ids.view(-1, 3),
                txt_ids=torch.zeros(512, 3))


def mochi(config, width, height, frames, randn):
    mask = torch.zeros(1, 256, dtype=torch.bool)
    mask[:, :20] = True  # a prompt's own tokens: its attention leaves out the rest
    return dict(hidden_states=randn(1, 12, (frames - 1) // 6 + 1, height // 8, width // 8), timestep=[100],
                encoder_hidden_states=randn(1, 256, config.text_embed_dim), encoder_attention_mask=mask)


def sd3(config, width, height, frames, randn):
    return dict(hidden_states=randn(1, 16, height // 8, width // 8), timestep=[900],
                encoder_hidden_states=randn(1, 333, config.joint_attention_dim),
                pooled_projections=randn(1, config.pooled_projection_dim))


def opensora(config, width, height, frames, randn):
    f, y, x = (frames - 1) // 4 + 1, height // 8, width // 8
    return dict(hidden_states=randn(1, config.in_channels, f, y, x), timestep=[900],
                encoder_hidden_states=randn(1, 1, 512, config.caption_channels), attention_mask=torch.ones(1, f, y, x),
                encoder_attention_mask=torch.ones(1, 1, 512))


CALLS = {"wan": wan, "flux": flux, "mochi": mochi, "sd3": sd3, "opensora": opensora}


def load_denoiser(folder, device):
    """diffusers' denoiser in BF16, as its pipeline has it."""
    import diffusers
    with open(os.path.join(folder, "model_index.json"), encoding="utf-8") as f:
        kind = getattr(diffusers, json.load(f)["transformer"][1])
    model = kind.from_pretrained(folder, subfolder="transformer", torch_dtype=torch.bfloat16, local_files_only=True)
    return model.to(device)


def call_of(model, family, size, device):
    """Arguments of one call: noise, and the text as its pipeline gives it."""
    g = torch.Generator(device).manual_seed(0)
    randn = lambda *shape: torch.randn(shape, generator=g, device=device).to(torch.bfloat16)
    args = CALLS[family](model.config, *size, randn)
    return {k: (torch.tensor(v, device=device) if isinstance(v, list) else v.to(device)) for k, v in args.items()} | {
        "return_dict": False}
