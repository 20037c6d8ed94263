"""The whole-render fixture: what diffusers makes of a checkpoint at its own defaults, seed 0.

python3 whole.py MODEL FIXTURE.safetensors

Keeps the last latents (F32 [c, f, y, x]), the first, middle and last frame (U8 [3, y, x, 3]), the prompt, and the PSNR of
diffusers' bfloat16 render (text encoder, denoiser and VAE alike) against its float32 render over all frames.
"""
import argparse
import json
import time

import torch
from safetensors.torch import save_file

import oracle
import parity

PROMPT = "a red ball bouncing on green grass"


def render(folder, name, request):
    """Latents, and all frames as bytes."""
    began, dtype = time.time(), oracle.DTYPES[name]
    pipe = oracle.load(folder, dtype)
    latents = pipe(**oracle.arguments(request)).frames[0].float()
    image = (oracle.decode(pipe, latents, dtype).float() * 0.5 + 0.5).clamp(0, 1)
    print(f"{name}: {time.time() - began:.0f} s")
    return latents, (image * 255).round().to(torch.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("fixture")
    args = parser.parse_args()
    request = dict(parity.read_json(args.model, "sparge-gen.json"), prompt=PROMPT, seed=0)
    request.pop("fps", None)
    latents, frames = render(args.model, "f32", request)
    middle = len(frames) // 2
    tensors = {"latents": latents.contiguous(), "frames": frames[[0, middle, len(frames) - 1]].contiguous()}
    save_file(tensors, args.fixture, {"prompt": PROMPT, "seed": "0", "psnr_bf16": "inf"})
    _, low = render(args.model, "bf16", request)
    db = parity.psnr(low.numpy(), frames.numpy())
    print(json.dumps({"psnr_bf16": db}))
    save_file(tensors, args.fixture, {"prompt": PROMPT, "seed": "0", "psnr_bf16": f"{db:.3f}"})


if __name__ == "__main__":
    with torch.inference_mode():
        main()
