"""The other half of `parity`: renders with diffusers and with sparge-gen, and compares. Options: see `main`."""
import argparse
import glob
import json
import math
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import checkpoint
import make
import oracle
import parts
import prompts

REQUEST = ("prompt", "negative_prompt", "width", "height", "frames", "steps", "cfg_scale", "cfg_scale_2", "flow_shift",
           "seed")
F32_GATE = 50.0  # dB on decoded frames, our float32 against diffusers'
LOW_GATE = 1.0   # dB that our bfloat16 may lose more than diffusers' bfloat16 loses, each against its own float32


# ---- a checkpoint nobody has seen ----

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


def random_text(r):
    return {"kind": r.choice(["umt5", "umt5", "t5"]), "act": r.choice(["gated-gelu", "gated-gelu", "relu"]),
            "width": r.choice([16, 24, 32, 48]), "head": r.choice([4, 8, 16]), "heads": r.choice([1, 2, 3, 4]),
            "ff": r.choice([24, 37, 64]), "layers": r.choice([1, 2, 3]), "buckets": r.choice([16, 32]),
            "distance": r.choice([64, 128])}


def random_request(r, spec, patch):
    v = spec["vae"]
    m = math.lcm(16, v["scale_factor_spatial"] * patch)
    texts = [p for p in prompts.prompts() if p.strip() and len(p) < 300]
    request = dict(prompt=r.choice(texts), negative_prompt=r.choice(["", r.choice(texts)]),
                   width=m * r.choice([1, 2, 3]), height=m * r.choice([1, 2]),
                   frames=1 + v["scale_factor_temporal"] * r.choice([0, 1, 2, 3]),
                   steps=r.choice([1, 2, 3, 4, 7]), cfg_scale=r.choice([1.0, 3.5, 5.0, 7.5]), seed=r.randrange(2**63))
    if spec["experts"]:
        request["cfg_scale_2"] = r.choice([2.0, 4.0])
    return request


def random_spec(seed):
    r = random.Random(seed)
    channels, head = r.choice([4, 8, 9, 16, 48]), r.choice([8, 12, 20, 32, 40, 64, 80, 96, 128])
    heads = r.choice([n for n in (1, 2, 3, 4) if n * head <= 256])
    experts = r.random() < 0.25
    patch = r.choice([[1, 2, 2], [1, 2, 2], [1, 2, 2], [1, 1, 1]])
    spec = {"seed": seed, "dtype": r.choice(["F32", "F16", "BF16"]), "experts": experts,
            "tokenizer": r.choice([parts.T5, parts.UMT5, parts.BYTES, parts.SMALL]),
            "sampler": {"kind": r.choice(["unipc", "unipc", "euler"]), "shift": r.choice([1.0, 3.0, 5.0, 8.0])},
            "text": random_text(r), "vae": random_vae(r, channels),
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
    spec["request"] = random_request(r, spec, patch[1])
    return spec


def make_unseen(folder, seed):
    spec = random_spec(seed)
    checkpoint.make_checkpoint(folder, spec)
    with open(os.path.join(folder, "parity.json"), "w") as f:
        json.dump(spec["request"], f, indent=2)
    print(f"made {folder}: {json.dumps({k: v for k, v in spec.items() if k != 'request'})}")


# ---- what to render ----

def read_json(folder, name):
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def request_of(args):
    """Options, else the folder's parity.json, else its sparge-gen.json, else WanPipeline's own defaults."""
    request = dict(prompt="a red ball bouncing on green grass", negative_prompt="", width=832, height=480, frames=81,
                   steps=50, cfg_scale=5.0, seed=0)
    for name in ("sparge-gen.json", "parity.json"):
        request.update({k: v for k, v in read_json(args.dir, name).items() if k in REQUEST})
    if args.size:
        request["width"], request["height"] = (int(v) for v in args.size.split("x"))
    request.update({k: getattr(args, k) for k in REQUEST if getattr(args, k, None) is not None})
    return request


def reshift(pipe, shift):
    if shift is not None:
        key = "flow_shift" if "flow_shift" in pipe.scheduler.config else "shift"
        pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config, **{key: shift})


def by_diffusers(folder, request, name, out):
    """Latents [c, f, y, x] and frames [f, y, x, 3] in 0..255, rounded as diffusers' image processor rounds."""
    dtype = oracle.DTYPES[name]
    pipe = oracle.load(folder, dtype)          # bf16 takes the VAE along, as torch_dtype=torch.bfloat16 does and as ours does
    reshift(pipe, request.get("flow_shift"))
    latents = oracle.latents(pipe, request)
    image = (oracle.decode(pipe, latents, dtype, request).float() * 0.5 + 0.5).clamp(0, 1)
    frames = np.ascontiguousarray((image.numpy() * 255).round().astype(np.uint8))
    save_file({"latents": latents.contiguous(), "frames": torch.from_numpy(frames)},
              os.path.join(out, f"diffusers-{name}.safetensors"))
    return latents, frames


def sparge_gen(*options):
    program = os.environ.get("SPARGE_GEN", os.path.join(make.HERE, "..", "..", "build", "release", "sparge-gen"))
    command = [program, *options]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    except OSError as e:
        raise SystemExit(f"parity: {program}: {e.strerror}; build it (cmake --preset release && cmake --build "
                         "--preset release) or name it in SPARGE_GEN")
    if done.returncode != 0:
        raise SystemExit(f"parity: exit {done.returncode} of {' '.join(command)}\n{done.stderr}")


def pictures(prefix):
    paths = sorted(glob.glob(prefix + "-*.png"))
    return np.stack([np.asarray(Image.open(p).convert("RGB")) for p in paths])


def by_us(folder, request, name, out, threads):
    prefix = os.path.join(out, f"ours-{name}")
    latents = prefix + ".safetensors"
    for old in glob.glob(prefix + "*"):
        os.remove(old)
    command = ["--model", folder, "--size", f"{request['width']}x{request['height']}", "--dtype", name,
               "-o", prefix + "-%04d.png", "--latents", latents]
    guided = max(request["cfg_scale"], request.get("cfg_scale_2") or 0) > 1
    for option in REQUEST:
        if option in ("width", "height") or (option == "negative_prompt" and not guided):
            continue
        if request.get(option) is not None:
            command += ["--" + option.replace("_", "-"), str(request[option])]
    if threads:
        command += ["--threads", str(threads)]
    sparge_gen(*command)
    return load_file(latents)["latents"], pictures(prefix)


def psnr(a, b):
    if a.shape != b.shape:
        return -math.inf
    mse = float(((a.astype(np.float64) - b) ** 2).mean()) / 255**2
    return 10 * math.log10(1 / mse) if mse else math.inf


def distance(a, b):
    return oracle.relative(a, b) if a.shape == b.shape else math.inf


def row(what, ours, reference):
    db = psnr(ours[1], reference[1])
    most = int(np.abs(ours[1].astype(int) - reference[1]).max()) if ours[1].shape == reference[1].shape else -1
    print(f"{what:<34} {distance(ours[0], reference[0]):>12.2e} {db:>10.2f} {most:>9}")
    return db


def compare(args, out):
    request = request_of(args)
    print("request " + json.dumps(request, ensure_ascii=False))
    reference = {n: by_diffusers(args.dir, request, n, out) for n in (["f32", "bf16"] if args.bf16 else ["f32"])}
    ours = {n: by_us(args.dir, request, n, out, args.threads) for n in reference}
    print(f"{'':<34} {'latents L2':>12} {'PSNR dB':>10} {'most /255':>9}")
    failed = []
    if not row("ours f32 to diffusers f32", ours["f32"], reference["f32"]) >= F32_GATE:
        failed.append(f"f32 is under {F32_GATE:.0f} dB")
    if args.bf16:
        theirs = row("diffusers bf16 to diffusers f32", reference["bf16"], reference["f32"])
        if not row("ours bf16 to ours f32", ours["bf16"], ours["f32"]) >= theirs - LOW_GATE:
            failed.append(f"bf16 is more than {LOW_GATE:.0f} dB under diffusers' own")
    spread = reference["f32"][1].astype(float).std()
    print(f"frames {reference['f32'][1].shape}, standard deviation {spread:.0f} of 255")
    print("FAILED: " + "; ".join(failed) if failed else "passed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(prog="parity", description="Renders a Wan checkpoint with diffusers and with "
                                     "sparge-gen from the same noise, and compares latents and frames.")
    parser.add_argument("dir", metavar="DIR", help="a checkpoint in Diffusers layout")
    parser.add_argument("--make", type=int, metavar="SEED", help="if DIR is not there, make a small one with random "
                        "weights and a random configuration")
    parser.add_argument("--prompt")
    parser.add_argument("--negative-prompt")
    parser.add_argument("--size", metavar="WxH")
    parser.add_argument("--frames", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--cfg-scale", type=float)
    parser.add_argument("--cfg-scale-2", type=float)
    parser.add_argument("--flow-shift", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--bf16", action="store_true", help="compare bfloat16 as well")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of both (default: diffusers 1, ours all)")
    parser.add_argument("--out", metavar="FOLDER", help="keep latents and frames here")
    args = parser.parse_args()
    oracle.setup(args.threads or 1)
    if not os.path.isdir(args.dir):
        if args.make is None:
            parser.error(f"{args.dir} is not a folder; --make SEED would make one")
        make_unseen(args.dir, args.make)
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        return compare(args, args.out)
    with tempfile.TemporaryDirectory() as out:
        return compare(args, out)


if __name__ == "__main__":
    sys.exit(main())
