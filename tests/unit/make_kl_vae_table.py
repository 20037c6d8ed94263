#!/usr/bin/env python3
"""Writes kl_vae_table.h: what diffusers' AutoencoderKL decodes and encodes with made-up weights.

    python tests/unit/make_kl_vae_table.py > tests/unit/kl_vae_table.h

Numbers are made as in make_t5_table.py. The models run in float64. Versions: tests/golden/requirements.txt.
"""
import math

import torch
from diffusers import AutoencoderKL

from make_hunyuan_vae_table import write
from make_t5_table import made_up

LATENT = 3
MODELS = (  # as in test_kl_vae.c
    dict(block_out_channels=(4, 4, 8), sample_size=16, scaling_factor=0.75),
    dict(block_out_channels=(4, 8, 4, 6), sample_size=32, scaling_factor=0.375, shift_factor=0.125, use_quant_conv=False,
         use_post_quant_conv=False, mid_block_add_attention=False),
    dict(block_out_channels=(6,), sample_size=8, scaling_factor=1.5, shift_factor=-0.25),
)
CASES = (  # model, frames, rows, columns, in tiles: of latents
    (0, 1, 1, 3, False),
    (0, 2, 4, 3, False),
    (0, 1, 4, 4, True),
    (0, 2, 3, 5, True),
    (0, 1, 11, 7, True),
    (1, 1, 2, 3, False),
    (1, 1, 6, 8, True),
    (2, 1, 5, 4, False),
    (2, 1, 9, 17, True),
)
CLIPS = (  # the same of pixels
    (0, 1, 4, 12, False),
    (0, 2, 8, 12, False),
    (0, 1, 44, 20, True),
    (1, 1, 16, 8, False),
    (1, 1, 56, 40, True),
    (2, 1, 4, 3, False),
    (2, 1, 9, 14, True),
)


def model(of, tiled):
    config, ways = MODELS[of], (("down", "DownEncoderBlock2D"), ("up", "UpDecoderBlock2D"))
    kinds = {f"{way}_block_types": (kind,) * len(config["block_out_channels"]) for way, kind in ways}
    m = AutoencoderKL(latent_channels=LATENT, layers_per_block=1, norm_num_groups=2, **kinds, **config)
    m = m.double().eval().requires_grad_(False)
    for name, p in m.named_parameters():
        p.copy_(torch.from_numpy(made_up(name, p.numel())).double().reshape(p.shape))
        if "conv_out" in name:
            p /= 8
    m.use_tiling = tiled
    return m, config["scaling_factor"], config.get("shift_factor", 0)


def decoded(case):
    of, f, y, x, tiled = case
    m, scaling, shift = model(of, tiled)
    z = torch.from_numpy(made_up("latents", f * y * x * LATENT)).double().reshape(f, y, x, LATENT) * 2
    frames = m.decode(z.permute(0, 3, 1, 2) / scaling + shift, return_dict=False)[0]
    assert frames.dtype == torch.float64
    return frames.permute(0, 2, 3, 1).clamp(-1, 1).flatten()


def encoded(case):
    of, f, h, w, tiled = case
    m, scaling, shift = model(of, tiled)
    x = torch.from_numpy(made_up("clip", f * h * w * 3)).double().reshape(f, h, w, 3)
    mean, log_variance = m.encode(x.permute(0, 3, 1, 2)).latent_dist.parameters.chunk(2, 1)
    assert mean.dtype == torch.float64
    z = torch.cat([(mean - shift) * scaling, log_variance + 2 * math.log(scaling)], 1)
    return z.permute(0, 2, 3, 1).flatten()


def main():
    write("kl", LATENT, [(c, decoded(c)) for c in CASES], [(c, encoded(c)) for c in CLIPS])


if __name__ == "__main__":
    main()
