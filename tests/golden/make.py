#!/usr/bin/env python3
"""Makes the golden fixtures: mini checkpoints, what diffusers computes with them at every sublayer, the prompt list.

    python make.py --out fixtures [--case NAME ...]
"""
import argparse
import gc
import hashlib
import json
import os
import shutil
import sys
import time
from importlib.metadata import version

import torch

import checkpoint
import oracle
import prompts

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ["make.py", "oracle.py", "checkpoint.py", "prompts.py"]
LIBRARIES = ["torch", "diffusers", "transformers", "tokenizers", "ftfy", "sentencepiece", "safetensors"]

ALL = 0x110000
T5 = {"ids": "t5", "pieces": 900, "below": ALL, "extra_ids": 100, "bytes": False, "rule": "identity", "json": False}
UMT5 = {"ids": "umt5", "pieces": 1000, "below": ALL, "extra_ids": 20, "bytes": False, "rule": "nmt_nfkc", "json": True}
BYTES = {"ids": "umt5", "pieces": 500, "below": 0x600, "extra_ids": 3, "bytes": True, "rule": "identity", "json": True}
SMALL = {"ids": "umt5", "pieces": 300, "below": 0x250, "extra_ids": 1, "bytes": False, "rule": "identity", "json": True}
GATED = {"kind": "umt5", "act": "gated-gelu", "buckets": 32, "distance": 128}
UNIPC = {"kind": "unipc", "shift": 3.0}

# experts: a transformer_2 as well. latent_statistics: False keeps AutoencoderKLWan's own mean and deviation of latents.
# negative_blocks: keep dit_u.*. largest: bytes of the largest tap kept; without: taps left out for their size.
CASES = {
    # The plain Wan 2.1: float32, one file a part.
    "wan21_hd12": {
        "seed": 1200, "dtype": "F32", "tokenizer": UMT5, "sampler": UNIPC, "latent_statistics": False,
        "text": {**GATED, "width": 32, "head": 8, "heads": 4, "ff": 40, "layers": 2},
        "dit": dict(num_attention_heads=2, attention_head_dim=12, in_channels=16, out_channels=16, freq_dim=32,
                    ffn_dim=48, num_layers=2, rope_max_seq_len=32),
        "vae": dict(base_dim=4, z_dim=16, dim_mult=[1, 2, 2, 2], num_res_blocks=1,
                    temperal_downsample=[False, True, True]),
        "request": dict(prompt="A red ball bouncing on green grass, “slow motion”…",
                        negative_prompt="blurry, low quality", width=48, height=32, frames=9, steps=4, cfg_scale=5.0,
                        seed=42),
        "negative_blocks": True, "without": ["vae.up.2", "enc.down.0"],
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
        "seed": 12800, "dtype": "F16", "without": ["vae.up.1"], "tokenizer": T5,
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
        "largest": 24 << 10, "latent_statistics": False,
        "text": {**GATED, "width": 16, "head": 8, "heads": 2, "ff": 24, "layers": 1},
        "dit": dict(num_attention_heads=2, attention_head_dim=16, in_channels=16, out_channels=16, freq_dim=32,
                    ffn_dim=48, num_layers=1, eps=1e-5),
        "vae": dict(base_dim=4, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1,
                    temperal_downsample=[False, True, True]),
        "request": dict(prompt="a cat, a dog & a bird", negative_prompt="", width=32, height=32, frames=5, steps=5,
                        cfg_scale=4.0, cfg_scale_2=3.0, seed=0),
    },
    # TI2V-5B's layout: a timestep for each token (all alike without an image), four levels, 48 channels.
    "wan22_ti2v": {
        "seed": 5000, "dtype": "BF16", "tokenizer": SMALL, "sampler": {"kind": "unipc", "shift": 5.0},
        "expand_timesteps": True, "largest": 24 << 10,
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


def clip(frames, height, width):
    """A smooth clip that no axis of is symmetric: three drifting waves, one a colour."""
    f, y, x = torch.meshgrid(torch.arange(frames).double(), torch.arange(height).double() / height,
                             torch.arange(width).double() / width, indexing="ij")
    red = torch.sin(6.0 * x + 3.0 * y + 0.5 * f)
    green = torch.cos(9.0 * y - 2.0 * x - 0.4 * f)
    blue = torch.sin(7.0 * x * y + 0.3 * f)
    return torch.stack([red, green, blue], dim=-1).float()


def record(folder, spec, device="cpu"):
    """All taps at float64, and the distance of the float32 and bfloat16 runs from them."""
    request, last = spec["request"], f"step.{spec['request']['steps'] - 1}.latents"
    scale = spec["vae"].get("scale_factor_spatial", 8)
    rows = 1 if scale == 16 else 2
    movie = clip(9 if spec["vae"].get("scale_factor_temporal", 4) == 4 else 5, rows * scale, (rows + 1) * scale)
    runs, frames, truth_latents = {}, {}, None
    for name in ("f64", "f32", "bf16"):
        dtype = oracle.DTYPES[name]
        pipe, taps = oracle.denoise(folder, request, dtype, device)
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        with oracle.widen(wide):
            pipe.vae.to(wide)
        frames[name] = oracle.decode(pipe, taps[last], wide)
        if truth_latents is None:
            truth_latents = taps[last].float()
        taps.update(oracle.vae_taps(pipe, truth_latents, movie, dtype))
        runs[name] = taps
        del pipe
        gc.collect()  # hooks and what they hook into hold each other
    truth = runs.pop("f64")
    for tap in ("text.ids", "text_u.ids", "noise"):
        assert all(torch.equal(truth[tap].float(), r[tap].float()) for r in runs.values()), tap
    err = {n: {t: float(f"{oracle.relative(r[t], truth[t]):.3g}") for t in truth} for n, r in runs.items()}
    if not spec.get("negative_blocks"):
        truth = {t: v for t, v in truth.items() if not t.startswith("dit_u")}
    limit, without = spec.get("largest", 1 << 30), spec.get("without", [])
    truth = {t: v for t, v in truth.items() if t == "vae.frames" or v.numel() * 4 <= limit and t not in without}
    err = {n: {t: e for t, e in v.items() if t in truth} for n, v in err.items()}
    truth["enc.clip"] = movie
    return truth, err, {n: oracle.psnr(frames[n], frames["f64"]) for n in runs}, frames["f64"]


def metadata(name, spec, err, psnr):
    digest = hashlib.sha256()
    for source in SOURCES:
        with open(os.path.join(HERE, source), "rb") as f:
            digest.update(f.read())
    meta = {"case": name, "script_sha256": digest.hexdigest(),
            "versions": json.dumps({x: version(x) for x in LIBRARIES}),
            "sampler": spec["sampler"]["kind"], "shift": str(spec["sampler"]["shift"]),
            "boundary_ratio": str(spec.get("boundary_ratio", "")),
            "expand_timesteps": str(spec.get("expand_timesteps", False)).lower(), "cfg_scale_2": "",
            **{k: str(v) for k, v in spec["request"].items()}}
    for run in err:
        meta["err_" + run] = json.dumps(err[run])
        meta["psnr_" + run] = f"{psnr[run]:.2f}"
    return meta


def save(path, tensors, meta):
    """safetensors with a sorted header: the library orders metadata by chance, which would spoil equal bytes."""
    header, blobs, at = {"__metadata__": dict(sorted(meta.items()))}, [], 0
    for name in sorted(tensors):
        value = oracle.numpy(tensors[name])
        header[name] = {"dtype": "I32" if value.dtype == "int32" else "F32", "shape": list(value.shape),
                        "data_offsets": [at, at + value.nbytes]}
        blobs.append(value.tobytes())
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def size_of(folder):
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(folder) for f in files)


def report(name, folder, truth, err, psnr, frames, seconds):
    spread = f"frames {frames.min():.2f}..{frames.max():.2f} std {frames.std():.2f}"
    taps = os.path.getsize(os.path.join(folder, "taps.safetensors"))
    print(f"{name}: {size_of(folder) / 1024:.0f} KiB, {len(truth)} taps in {taps / 1024:.0f} KiB, "
          f"{seconds:.0f} s; {spread}")
    for run, e in err.items():
        by = sorted((v, k) for k, v in e.items() if v)
        print(f"  {run}: err {by[0][0]:.1e} ({by[0][1]}) .. {by[-1][0]:.1e} ({by[-1][1]}), PSNR {psnr[run]:.1f} dB")


def make_case(out, name):
    start, spec, folder = time.time(), CASES[name], os.path.join(out, name)
    shutil.rmtree(folder, ignore_errors=True)
    checkpoint.make_checkpoint(folder, spec)
    truth, err, psnr, frames = record(folder, spec)
    save(os.path.join(folder, "taps.safetensors"), truth, metadata(name, spec, err, psnr))
    report(name, folder, truth, err, psnr, frames, time.time() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "fixtures"), help="folder for the fixtures")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    args = parser.parse_args()
    oracle.setup()
    for name in args.case or CASES:
        make_case(args.out, name)
    if not args.case:
        prompts.write(os.path.join(args.out, "prompts_200.txt"),
                      {c: os.path.join(args.out, c, "tokenizer") for c in CASES})
    print(f"total {size_of(args.out) / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
