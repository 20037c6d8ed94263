#!/usr/bin/env python3
"""Writes few_steps_table.h: latents of a mini checkpoint after each of few steps, its denoiser run by diffusers.

    python tests/unit/make_few_steps_table.py build/dev/tests/fixtures/wan21_hd12 > tests/unit/few_steps_table.h

The prompt is "a cat", 32 x 48 pixels, 5 frames, seed 7, without guidance; in float64 but for the noise and what diffusers
pins to float32. The steps are written out here as LightX2V and rCM have them; neither the program's nor diffusers'
schedulers are asked. Of the latents [c, f, y, x] there are the sum, the sum of squares, and the numbers at a quarter and at
a half of them.
"""
import sys

import torch
from diffusers import WanPipeline

SIGMAS = {"lightx2v": (1, .9375, 2.5 / 3, .625, 0),
          "rcm": (80 / 81, .933781061416858, .852895394823775, .608979049230431, 0)}


@torch.no_grad()
def table(pipe, name):
    generator = torch.Generator().manual_seed(7)
    text, _ = pipe.encode_prompt("a cat", do_classifier_free_guidance=False, max_sequence_length=512)
    draw = lambda: torch.randn(1, pipe.transformer.config.in_channels, 2, 6, 4, generator=generator).double()
    x, sigmas = draw(), SIGMAS[name]
    if name == "rcm":
        x = x * sigmas[0]
    for s, after in zip(sigmas, sigmas[1:]):
        v = pipe.transformer(x, torch.tensor([1000 * s], dtype=torch.float64), text, return_dict=False)[0]
        x = x + (after - s) * v if name == "lightx2v" else (1 - after) * (x - s * v) + after * draw()
        flat = x.flatten()
        quarter = flat.numel() // 4
        yield flat.sum(), (flat * flat).sum(), flat[quarter], flat[2 * quarter]


def main():
    pipe = WanPipeline.from_pretrained(sys.argv[1]).to(torch.float64)
    print("/* few_steps_table.h - made by make_few_steps_table.py, which tells what is rendered. */")
    print("static const struct {\n    int    preset; /* by its place in sg_step_preset_names */")
    print("    double after[4][4]; /* each step: sum, sum of squares, two numbers */\n} few_steps_table[] = {")
    for name, place in ("lightx2v", 0), ("rcm", 2):
        rows = ", ".join("{" + ", ".join(f"{v:.9g}" for v in row) + "}" for row in table(pipe, name))
        print(f"    {{{place}, {{{rows}}}}},")
    print("};")


main()
