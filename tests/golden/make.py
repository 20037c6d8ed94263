#!/usr/bin/env python3
"""Makes the golden fixtures: mini checkpoints, what diffusers computes with them at every sublayer, the prompt list.

    python make.py --out fixtures [--case NAME ...]
    python make.py --check DIR        makes the checkpoints again and compares every byte with those in DIR
"""
import argparse
import filecmp
import gc
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from importlib.metadata import version

import torch

import checkpoint
import counter
import oracle
import prompts

HERE = os.path.dirname(os.path.abspath(__file__))
TINY_WAN = os.path.join(HERE, "..", "..", "weights", "tiny-wan")
SOURCES = ["make.py", "oracle.py", "checkpoint.py", "counter.py", "prompts.py"]
LIBRARIES = ["torch", "diffusers", "transformers", "tokenizers", "ftfy", "sentencepiece", "safetensors"]

ALL = 0x110000
T5 = {"ids": "t5", "pieces": 900, "below": ALL, "extra_ids": 100, "bytes": False, "rule": "identity", "json": False}
UMT5 = {"ids": "umt5", "pieces": 1000, "below": ALL, "extra_ids": 20, "bytes": False, "rule": "nmt_nfkc", "json": True}
BYTES = {"ids": "umt5", "pieces": 500, "below": 0x600, "extra_ids": 3, "bytes": True, "rule": "identity", "json": True}
SMALL = {"ids": "umt5", "pieces": 300, "below": 0x250, "extra_ids": 1, "bytes": False, "rule": "identity", "json": True}
GATED = {"kind": "umt5", "act": "gated-gelu", "buckets": 32, "distance": 128}
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


def record(folder, spec, device="cpu"):
    """All taps at float64, and the distance of the float32 and bfloat16 runs from them. The VAE starts afresh, from
    latents and a clip of counter.py."""
    request, last = spec["request"], f"step.{spec['request']['steps'] - 1}.latents"
    vae = spec["vae"]
    scale = vae.get("scale_factor_spatial", 8)
    rows = 1 if scale == 16 else 2
    shape = (9 if vae.get("scale_factor_temporal", 4) == 4 else 5, rows * scale, (rows + 1) * scale, 3)
    movie = torch.from_numpy(counter.numbers("clip", shape, counter.CLIP))
    runs, frames = {}, {}
    for name in ("f64", "f32", "bf16"):
        dtype = oracle.DTYPES[name]
        pipe, taps = oracle.denoise(folder, request, dtype, device)
        wide = torch.float32 if dtype == torch.bfloat16 else dtype
        with oracle.widen(wide):
            pipe.vae.to(wide)
        frames[name] = oracle.decode(pipe, taps[last], wide)
        latents = torch.from_numpy(counter.numbers("latents", tuple(taps[last].shape), counter.LATENTS))
        taps.update(oracle.vae_taps(pipe, latents, movie, dtype))
        runs[name] = taps
        del pipe
        gc.collect()  # hooks and what they hook into hold each other
    truth = runs.pop("f64")
    for tap in ("text.ids", "text_u.ids", "noise"):
        assert all(torch.equal(truth[tap].float(), r[tap].float()) for r in runs.values()), tap
    truth = {t: v for t, v in truth.items() if not t.endswith(".ids")}
    err = {n: {t: float(f"{oracle.relative(r[t], truth[t]):.3g}") for t in truth} for n, r in runs.items()}
    return truth, err, {n: oracle.psnr(frames[n], frames["f64"]) for n in runs}, frames["f64"], shape


def metadata(name, spec, truth, err, psnr, clip):
    digest = hashlib.sha256()
    for source in SOURCES:
        with open(os.path.join(HERE, source), "rb") as f:
            digest.update(f.read())
    meta = {"case": name, "script_sha256": digest.hexdigest(),
            "versions": json.dumps({x: version(x) for x in LIBRARIES}),
            "sampler": spec["sampler"]["kind"], "shift": str(spec["sampler"]["shift"]),
            "boundary_ratio": str(spec.get("boundary_ratio", "")),
            "expand_timesteps": str(spec.get("expand_timesteps", False)).lower(), "cfg_scale_2": "",
            "clip": "x".join(str(n) for n in clip), **{k: str(v) for k, v in spec["request"].items()}}
    for run in err:
        meta["psnr_" + run] = f"{psnr[run]:.2f}"
    meta["taps"] = json.dumps({t: {"shape": list(v.shape), "norm": float(f"{float(v.double().norm()):.9g}"),
                                   **{run: err[run][t] for run in err}} for t, v in sorted(truth.items())},
                              separators=(",", ":"))
    return meta


def save(path, taps, meta):
    """safetensors with a sorted header: the library orders metadata by chance, which would spoil equal bytes."""
    header, blobs, at = {"__metadata__": dict(sorted(meta.items()))}, [], 0
    for name in sorted(taps):
        value = counter.sketch(name, taps[name].double().numpy()).astype("<f4")
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, at + value.nbytes]}
        blobs.append(value.tobytes())
        at += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def is_weights(path):
    return path.endswith(".safetensors") and os.path.basename(path) != "taps.safetensors"


def files_of(folder):
    """Paths below the folder, links to folders followed."""
    return sorted(os.path.relpath(os.path.join(d, f), folder)
                  for d, _, files in os.walk(folder, followlinks=True) for f in files)


def write_spec(path, folder, rules):
    """What fixtures.c makes the folder's weights from."""
    with open(path, "w") as out:
        for name in filter(is_weights, files_of(folder)):
            with open(os.path.join(folder, name), "rb") as f:
                header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
            assert header.pop("__metadata__") == {"format": "pt"}
            out.write(f"file {name}\n")
            for tensor, entry in header.items():
                rule = rules[f"{os.path.basename(folder)}/{os.path.dirname(name)}/{tensor}"]
                shape = ",".join(map(str, entry["shape"]))
                out.write(" ".join([tensor, entry["dtype"], shape, *map(str, rule)]) + "\n")


def size_of(folder):
    return sum(os.lstat(os.path.join(d, f)).st_size for d, _, files in os.walk(folder) for f in files)


def report(name, folder, truth, err, psnr, frames, seconds):
    spread = f"frames {frames.min():.2f}..{frames.max():.2f} std {frames.std():.2f}"
    taps = os.path.getsize(os.path.join(folder, "taps.safetensors"))
    print(f"{name}: {size_of(folder) / 1024:.0f} KiB, {len(truth)} taps in {taps / 1024:.0f} KiB, "
          f"{seconds:.0f} s; {spread}")
    for run, e in err.items():
        by = sorted((v, k) for k, v in e.items() if v)
        print(f"  {run}: err {by[0][0]:.1e} ({by[0][1]}) .. {by[-1][0]:.1e} ({by[-1][1]}), PSNR {psnr[run]:.1f} dB")


def link_tokenizer(out, name):
    """A case with the tokenizer of one before it has a link to that one's."""
    own = os.path.join(out, name, "tokenizer")
    for other in CASES:
        there = os.path.join(out, other, "tokenizer")
        if other == name:
            return
        if os.path.isdir(there) and CASES[other]["tokenizer"] == CASES[name]["tokenizer"]:
            assert all(filecmp.cmp(os.path.join(own, f), os.path.join(there, f), False) for f in files_of(own))
            shutil.rmtree(own)
            os.symlink(os.path.join("..", other, "tokenizer"), own)
            return


def make_case(out, name):
    start, spec, folder, rules = time.time(), CASES[name], os.path.join(out, name), {}
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as whole:
        whole = os.path.join(whole, name)
        checkpoint.make_checkpoint(whole, spec, rules=rules)
        truth, err, psnr, frames, clip = record(whole, spec)
        shutil.copytree(whole, folder, ignore=lambda d, files: [f for f in files if is_weights(f)])
        write_spec(os.path.join(folder, "weights.txt"), whole, rules)
    link_tokenizer(out, name)
    save(os.path.join(folder, "taps.safetensors"), truth, metadata(name, spec, truth, err, psnr, clip))
    report(name, folder, truth, err, psnr, frames, time.time() - start)


def check(folder, names):
    """What fixtures.c made, against diffusers, transformers and safetensors with the numbers of counter.py."""
    failed = 0
    counter.check()
    for name in names:
        with tempfile.TemporaryDirectory() as whole:
            whole, made = os.path.join(whole, name), os.path.join(folder, name)
            checkpoint.make_checkpoint(whole, CASES[name], rules={})
            files, there = files_of(whole), files_of(made)
            same = lambda f: f in there and filecmp.cmp(os.path.join(whole, f), os.path.join(made, f), False)
            wrong = [f for f in files if not same(f)]
            wrong += [f for f in there if f not in files and f != "taps.safetensors"]
        print(f"{name}: {len(files)} files, " + (f"not the same: {', '.join(wrong)}" if wrong else "the same bytes"))
        failed += bool(wrong)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=os.path.join(HERE, "fixtures"), help="folder for the fixtures")
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this case; may be repeated")
    parser.add_argument("--check", metavar="DIR", help="compare with what golden_fixtures wrote, "
                        "for example build/dev/tests/fixtures")
    args = parser.parse_args()
    oracle.setup()
    if args.check:
        return min(1, check(args.check, args.case or CASES))
    for name in args.case or CASES:
        make_case(args.out, name)
    if not args.case:
        own = {c: os.path.join(args.out, c, "tokenizer") for c in CASES}
        own = {c: t for c, t in own.items() if not os.path.islink(t)}
        own["tiny-wan"] = os.path.join(TINY_WAN, "tokenizer")
        prompts.write(os.path.join(args.out, "prompts_200.txt"), own)
    print(f"total {size_of(args.out) / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
