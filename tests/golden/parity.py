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
import counter
import families
import make
import oracle
import parts

REQUEST = ("prompt", "negative_prompt", "width", "height", "frames", "steps", "cfg_scale", "cfg_scale_2", "flow_shift",
           "seed", "guidance", "dynamic_cfg", "slg_scale", "skip_layers", "skip_layer_start", "skip_layer_end", "strength",
           "pictures")
PICTURES = ("--image", "--last-image")
F32_GATE = 50.0  # dB on decoded frames, our float32 against diffusers'
OWN_GATE = 70.0  # the same, of a small checkpoint of its own making
LOW_GATE = 1.0   # dB that our bfloat16 may lose more than diffusers' bfloat16 loses, each against its own float32


# ---- a checkpoint nobody has seen ----

def make_unseen(folder, seed, family, image):
    draw = families.NAMED[family].random_image_spec if image else families.NAMED[family].random_spec
    spec = {"family": family, "seed": seed, **draw(random.Random(seed))}
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
    """Options, else the folder's parity.json, else its sparge-gen.json, else the pipeline's own defaults."""
    request = dict(prompt="a red ball bouncing on green grass", negative_prompt="", seed=0,
                   **families.of(args.dir).defaults(args.dir))
    for name in ("sparge-gen.json", "parity.json"):
        request.update({k: v for k, v in read_json(args.dir, name).items() if k in REQUEST})
    if args.size:
        request["width"], request["height"] = (int(v) for v in args.size.split("x"))
    request.update({k: getattr(args, k) for k in REQUEST if getattr(args, k, None) is not None})
    if "strength" in request:  # no pipeline that starts from something has skip-layer guidance
        request.pop("slg_scale", None)
    if not request.get("slg_scale"):
        request = {k: v for k, v in request.items() if not k.startswith("skip_layer")}
    return request


def reshift(pipe, shift):
    if shift is not None:
        key = "flow_shift" if "flow_shift" in pipe.scheduler.config else "shift"
        pipe.scheduler = type(pipe.scheduler).from_config(pipe.scheduler.config, **{key: shift})


def by_diffusers(folder, request, name, out):
    """Latents [c, f, y, x] and frames [f, y, x, 3] in 0..255, rounded as diffusers' image processor rounds."""
    dtype = oracle.DTYPES[name]
    pipe = oracle.load(folder, dtype, video="strength" in request)  # bf16 takes the VAE along, as torch_dtype=torch.bfloat16 does and as ours does
    reshift(pipe, request.get("flow_shift"))
    latents = oracle.latents(pipe, request)
    image = (oracle.decode(pipe, latents, dtype).float() * 0.5 + 0.5).clamp(0, 1)
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
               "--cache", "off", "-o", prefix + "-%04d.png", "--latents", latents]
    if "strength" in request and getattr(families.of(folder), "IMAGES", False):
        parts.video(request)[0].save(prefix + ".start.png")
        command += ["--image", prefix + ".start.png"]
    elif "strength" in request:
        clip = os.path.join(out, "video")
        os.makedirs(clip, exist_ok=True)
        for k, picture in enumerate(parts.video(request)):
            picture.save(os.path.join(clip, f"{k:04}.png"))
        command += ["--video", clip]
    guided = max(request["cfg_scale"], request.get("cfg_scale_2") or 0) > 1
    for option in REQUEST:
        if option in ("width", "height") or (option == "negative_prompt" and not guided):
            continue
        if option == "dynamic_cfg":
            command += ["--dynamic-cfg"] if guided and request.get(option) else []
        elif option == "pictures":
            for k, picture in enumerate(parts.pictures(request)):
                picture.save(f"{prefix}.picture.{k}.png")
                command += [PICTURES[k], f"{prefix}.picture.{k}.png"]
        elif request.get(option) is not None:
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
    failed, gate = [], OWN_GATE if read_json(args.dir, "parity.json") else F32_GATE
    if not row("ours f32 to diffusers f32", ours["f32"], reference["f32"]) >= gate:
        failed.append(f"f32 is under {gate:.0f} dB")
    if args.bf16:
        theirs = row("diffusers bf16 to diffusers f32", reference["bf16"], reference["f32"])
        if not row("ours bf16 to ours f32", ours["bf16"], ours["f32"]) >= theirs - LOW_GATE:
            failed.append(f"bf16 is more than {LOW_GATE:.0f} dB under diffusers' own")
    spread = reference["f32"][1].astype(float).std()
    print(f"frames {reference['f32'][1].shape}, standard deviation {spread:.0f} of 255")
    print("FAILED: " + "; ".join(failed) if failed else "passed")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(prog="parity", description="Renders a checkpoint with diffusers and with "
                                     "sparge-gen from the same noise, and compares latents and frames.")
    parser.add_argument("dir", metavar="DIR", help="a checkpoint in Diffusers layout")
    parser.add_argument("--make", type=int, metavar="SEED", help="if DIR is not there, make a small one with random "
                        "weights and a random configuration")
    parser.add_argument("--family", choices=list(families.NAMED), default="wan", help="of what --make makes (wan)")
    parser.add_argument("--image", action="store_true", help="let it be a Wan 2.1 of image to video")
    parser.add_argument("--prompt")
    parser.add_argument("--negative-prompt")
    parser.add_argument("--size", metavar="WxH")
    parser.add_argument("--frames", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--cfg-scale", type=float)
    parser.add_argument("--cfg-scale-2", type=float)
    parser.add_argument("--guidance", type=float)
    parser.add_argument("--flow-shift", type=float)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--dynamic-cfg", action="store_true", default=None)
    parser.add_argument("--strength", type=float, help="start from a made-up video, or image, at this strength")
    parser.add_argument("--bf16", action="store_true", help="compare bfloat16 as well")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of both (default: diffusers 1, ours all)")
    parser.add_argument("--out", metavar="FOLDER", help="keep latents and frames here")
    args = parser.parse_args()
    oracle.setup(args.threads or 1)
    if not os.path.isdir(args.dir):
        if args.make is None:
            parser.error(f"{args.dir} is not a folder; --make SEED would make one")
        if args.image and not hasattr(families.NAMED[args.family], "random_image_spec"):
            parser.error(f"--image: {args.family} has none")
        make_unseen(args.dir, args.make, args.family, args.image)
    if args.out:
        os.makedirs(args.out, exist_ok=True)
        return compare(args, args.out)
    with tempfile.TemporaryDirectory() as out:
        return compare(args, out)


if __name__ == "__main__":
    sys.exit(main())
