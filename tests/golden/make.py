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
from safetensors.torch import save_file

import checkpoint
import counter
import families
import oracle
import prompts
from families import CASES

HERE = os.path.dirname(os.path.abspath(__file__))
TINY_WAN = os.path.join(HERE, "..", "..", "weights", "tiny-wan")
SOURCES = ["make.py", "oracle.py", "checkpoint.py", "counter.py", "prompts.py", "parts.py", "taps.py"]
LIBRARIES = ["torch", "diffusers", "transformers", "tokenizers", "ftfy", "sentencepiece", "safetensors"]

def run(folder, family, spec, name, device):
    """Taps and frames of a render at one precision; the VAE's taps start afresh, from latents and a clip of counter.h."""
    request, dtype, shape = spec["request"], oracle.DTYPES[name], family.clip_shape(spec)
    pipe, taps = oracle.denoise(folder, request, dtype, device)
    wide = torch.float32 if dtype == torch.bfloat16 and not family.LOW_VAE else dtype
    with oracle.widen(wide, family):
        pipe.vae.to(wide)
    last = family.decoded(pipe, taps[f"step.{oracle.steps_done(request, family) - 1}.latents"], request)
    frames = oracle.decode(pipe, last, wide)
    if family.LOW_VAE:
        taps["render.frames"] = frames
    latents = torch.from_numpy(counter.numbers("latents", tuple(last.shape), counter.LATENTS))
    clip = shape and torch.from_numpy(counter.numbers("clip", shape, counter.CLIP))
    taps.update(oracle.vae_taps(pipe, latents, clip, dtype))
    del pipe
    gc.collect()  # hooks and what they hook into hold each other
    return taps, frames


def record(folder, spec, device="cpu"):
    """All taps at float64, and the distance of the float32 and bfloat16 runs from them."""
    family = families.of(folder)
    runs = {name: run(folder, family, spec, name, device) for name in ("f64", "f32", "bf16")}
    truth, whole = runs.pop("f64")
    for n, (r, _) in runs.items():
        assert all(torch.equal(truth[tap], r[tap]) for tap in ("text.ids", "text_u.ids") if tap in r), n
        assert oracle.relative(r["noise"], truth["noise"]) < (2**-8 if n == "bf16" else 1e-30), n
    truth = {t: v for t, v in truth.items() if not t.endswith(".ids")}
    err = {n: {t: float(f"{oracle.relative(r[t], truth[t]):.3g}") for t in truth} for n, (r, _) in runs.items()}
    return truth, err, {n: oracle.psnr(frames, whole) for n, (_, frames) in runs.items()}, whole, family.clip_shape(spec)


def metadata(name, spec, truth, err, psnr, clip):
    digest = hashlib.sha256()
    family = families.NAMED[spec.get("family", "wan")]
    for source in SOURCES + [family.__name__ + ".py"]:
        with open(os.path.join(HERE, source), "rb") as f:
            digest.update(f.read())
    sampler = spec.get("sampler", {})
    meta = {"case": name, "script_sha256": digest.hexdigest(),
            "versions": json.dumps({x: version(x) for x in LIBRARIES}),
            "sampler": str(sampler.get("kind", "")), "shift": str(sampler.get("shift", "")),
            "boundary_ratio": str(spec.get("boundary_ratio", "")),
            "expand_timesteps": str(spec.get("expand_timesteps", False)).lower(), "cfg_scale_2": "",
            "clip": "x".join(str(n) for n in clip or []), "dynamic_cfg": "false",
            "pictures": "0",
            "max_sequence_length": str(spec.get("dit", {}).get("max_text_seq_length", "")),
            **({"channels": str(spec["channels"])} if "channels" in spec else {}),
            **{k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in spec["request"].items()}}
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
    for part in ("tokenizer", "tokenizer_2", "tokenizer_3"):
        if os.path.isdir(os.path.join(out, name, part)):
            link_to_earlier(out, name, part)


def link_to_earlier(out, name, part):
    own = os.path.join(out, name, part)
    for other in CASES:
        there = os.path.join(out, other, part)
        if other == name:
            return
        if os.path.isdir(there) and CASES[other]["tokenizer"] == CASES[name]["tokenizer"]:
            assert all(filecmp.cmp(os.path.join(own, f), os.path.join(there, f), False) for f in files_of(own))
            shutil.rmtree(own)
            os.symlink(os.path.join("..", other, part), own)
            return


def make_case(out, name, keep=None):
    start, spec, folder, rules = time.time(), CASES[name], os.path.join(out, name), {}
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as whole:
        whole = os.path.join(whole, name)
        checkpoint.make_checkpoint(whole, spec, rules=rules)
        truth, err, psnr, frames, clip = record(whole, spec)
        if keep:
            shutil.copytree(whole, os.path.join(keep, name))
            save_file({t: v.float().contiguous() for t, v in truth.items()}, os.path.join(keep, name + ".safetensors"))
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
    parser.add_argument("--keep", metavar="DIR", help="put the whole checkpoint into DIR/CASE, whole taps into "
                        "DIR/CASE.safetensors")
    parser.add_argument("--check", metavar="DIR", help="compare with what golden_fixtures wrote, "
                        "for example build/dev/tests/fixtures")
    args = parser.parse_args()
    oracle.setup()
    if args.check:
        return min(1, check(args.check, args.case or CASES))
    for name in args.case or CASES:
        make_case(args.out, name, args.keep)
    if not args.case:
        own = {c: os.path.join(args.out, c, "tokenizer") for c in CASES}
        own = {c: t for c, t in own.items() if not os.path.islink(t) and CASES[c]["tokenizer"].get("ids") in checkpoint.IDS}
        own["tiny-wan"] = os.path.join(TINY_WAN, "tokenizer")
        prompts.write(os.path.join(args.out, "prompts_200.txt"), own,
                      {c: os.path.join(args.out, c, "tokenizer") for c in ("cogvideox_2b",)})
    print(f"total {size_of(args.out) / 2**20:.2f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
