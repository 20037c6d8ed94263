"""The whole-render fixture: what diffusers makes of a checkpoint at its own defaults, and of a small clip without and with a
picture, seed 0.

python3 whole.py MODEL FIXTURE.safetensors

Keeps pixels of the first, middle and last frame (U8 [3, n, 3]) and the prompt: of each eight in a row one, which counter.py
chooses. One clip in bfloat16 says little: its PSNR against float32 spreads over 20 dB from seed to seed. So small clips of
seeds 0 to 7 are rendered by diffusers in both (text encoder, denoiser and VAE), and the mean of their PSNRs is kept.
"""
import argparse
import json
import os
import time

import diffusers
import numpy as np
import torch
from safetensors.torch import load_file, save_file

import counter
import oracle
import parity

PROMPT = "a red ball bouncing on green grass"
SMALL = {"width": 128, "height": 128, "frames": 9}
SEEDS = 8
STRIDE = 8


def sampled(frames):
    """[3, y, x, 3] to [3, n, 3]."""
    rows = frames.reshape(-1, STRIDE, 3)
    at = (counter.bits(counter.seed("pixels"), len(rows)) % np.uint64(STRIDE)).astype(np.int64)
    return rows[torch.arange(len(rows)), torch.from_numpy(at)].reshape(len(frames), -1, 3).contiguous()


def ends(frames):
    return sampled(frames[[0, len(frames) // 2, len(frames) - 1]])


def with_picture(pipe, file):
    """The pipeline that goes on from a picture, with the model's LoRA for that."""
    factors = load_file(file)
    for name in factors:
        if name.endswith(".lora_A.weight"):
            a, b = (factors[name.replace("lora_A", k)].float() for k in ("lora_A", "lora_B"))
            weight = pipe.transformer.get_parameter(name.removeprefix("transformer.").replace("lora_A.", ""))
            weight += b @ a
    parts = {k: pipe.components[k] for k in ("tokenizer", "text_encoder", "transformer", "vae", "scheduler")}
    pipe = diffusers.WanImageToVideoPipeline(**parts, expand_timesteps=True)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def render(folder, name, request):
    """All frames as bytes."""
    began, dtype = time.time(), oracle.DTYPES[name]
    pipe = oracle.load(folder, dtype)
    if request.get("pictures"):
        pipe = with_picture(pipe, os.path.join(folder, request["image_lora"]))
    latents = oracle.latents(pipe, request)
    image = (oracle.decode(pipe, latents, dtype).float() * 0.5 + 0.5).clamp(0, 1)
    print(f"{name}: {time.time() - began:.0f} s")
    return (image * 255).round().to(torch.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("fixture")
    args = parser.parse_args()
    request = dict(parity.read_json(args.model, "sparge-gen.json"), prompt=PROMPT, seed=0)
    for name in ("fps", "world", "vocabulary"):
        request.pop(name, None)
    frames = render(args.model, "f32", request)
    tensors = {"pixels": ends(frames), "small_pixels": ends(render(args.model, "f32", dict(request, **SMALL))),
               "image_pixels": ends(render(args.model, "f32", dict(request, **SMALL, pictures=1)))}
    psnrs = []
    for seed in range(SEEDS):
        small = dict(request, **SMALL, seed=seed)
        low, high = (render(args.model, name, small).numpy() for name in ("bf16", "f32"))
        psnrs.append(parity.psnr(low, high))
    print(json.dumps({"psnr_bf16": psnrs}))
    save_file(tensors, args.fixture, {"prompt": PROMPT, "seed": "0", "psnr_bf16": f"{sum(psnrs) / SEEDS:.3f}",
                                      "width": str(SMALL["width"]), "height": str(SMALL["height"]),
                                      "frames": str(SMALL["frames"]), "seeds": str(SEEDS)})


if __name__ == "__main__":
    with torch.inference_mode():
        main()
