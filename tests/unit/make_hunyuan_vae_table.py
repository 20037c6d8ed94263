#!/usr/bin/env python3
"""Writes hunyuan_vae_table.h: what diffusers' AutoencoderKLHunyuanVideo decodes and encodes with made-up weights.

    python tests/unit/make_hunyuan_vae_table.py > tests/unit/hunyuan_vae_table.h

Numbers are made as in make_t5_table.py. The models run in float64. Versions: tests/golden/requirements.txt.
"""
import torch
from diffusers import AutoencoderKLHunyuanVideo

from make_t5_table import made_up, rows

LATENT, SUMS, SCALING = 3, 61, 0.75
MODELS = (  # channels, pixels per latent, attention
    ((4, 4, 8), 2, True),
    ((4, 8, 4, 6), 8, False),
)
CASES = (  # model, latent frames, rows, columns, in tiles
    (0, 1, 1, 3, False),
    (0, 4, 3, 2, False),
    (0, 5, 1, 2, False),
    (0, 8, 2, 3, False),
    (0, 9, 3, 1, False),
    (1, 6, 2, 3, False),
    (0, 4, 128, 1, True),
    (1, 6, 33, 2, True),
    (1, 2, 2, 51, True),
)
CLIPS = (  # model, frames, rows, columns
    (0, 1, 4, 6),
    (0, 13, 2, 6),
    (0, 17, 4, 2),
    (0, 41, 2, 4),
    (1, 25, 16, 8),
)


def model(channels, space, attention):
    kinds = {f"{way.lower()}_block_types": [f"HunyuanVideo{way}Block3D"] * len(channels) for way in ("Up", "Down")}
    m = AutoencoderKLHunyuanVideo(block_out_channels=channels, spatial_compression_ratio=space, latent_channels=LATENT,
                                  layers_per_block=1, norm_num_groups=2, mid_block_add_attention=attention, **kinds)
    m = m.double().eval().requires_grad_(False)
    for name, p in m.named_parameters():
        p.copy_(torch.from_numpy(made_up(name, p.numel())).double().reshape(p.shape))
        if "conv_out" in name:
            p /= 8
    return m


def decoded(case):
    of, f, y, x, tiled = case
    m = model(*MODELS[of])
    z = torch.from_numpy(made_up("latents", f * y * x * LATENT)).double().reshape(f, y, x, LATENT) * 2
    m.use_tiling = tiled
    frames = m.decode(z.permute(3, 0, 1, 2)[None] / SCALING, return_dict=False)[0]
    assert frames.dtype == torch.float64
    return frames[0].permute(1, 2, 3, 0).clamp(-1, 1).flatten()


def encoded(case):
    of, f, h, w = case
    x = torch.from_numpy(made_up("clip", f * h * w * 3)).double().reshape(f, h, w, 3)
    z = model(*MODELS[of]).encode(x.permute(3, 0, 1, 2)[None]).latent_dist.mode() * SCALING
    assert z.dtype == torch.float64
    return z[0].permute(1, 2, 3, 0).flatten()


def sums_of(y):
    return rows(torch.bincount(torch.arange(len(y)) % SUMS, weights=y, minlength=SUMS).tolist(), ".9g", 10)


def write(name, latent, decodes, encodes):
    """name_vae_table.h; the two are pairs of a case (model, frames, rows, columns, in tiles) and its numbers."""
    print(f"/* {name}_vae_table.h - made by make_{name}_vae_table.py. */")
    guard = f"SG_{name.upper()}_VAE_TABLE_H"
    print(f"#ifndef {guard}\n#define {guard}\n\n#include <stdbool.h>\n")
    print(f"enum {{ TABLE_LATENT = {latent}, TABLE_SUMS = {SUMS} }};\n")
    print("/* Sums of the numbers of frames or latents: the i-th enters sum i % TABLE_SUMS. */\ntypedef struct table_case {")
    print("    int    model, f, y, x;\n    bool   tiled;\n    int    numbers;\n    double sum[TABLE_SUMS];\n} table_case;")
    for kind, cases in ("decoded", decodes), ("encoded", encodes):
        print(f"\nstatic const table_case table_{kind}[] = {{")
        for (*shape, tiled), y in cases:
            print(f"    {{{', '.join(map(str, shape))}, {str(tiled).lower()}, {len(y)},\n     {{\n{sums_of(y)}}}}},")
        print("};")
    print("\n#endif")


def main():
    write("hunyuan", LATENT, [(c, decoded(c)) for c in CASES], [((*c, False), encoded(c)) for c in CLIPS])


if __name__ == "__main__":
    main()
