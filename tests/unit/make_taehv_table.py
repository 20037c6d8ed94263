#!/usr/bin/env python3
"""Writes taehv_table.h: what TAEHV's decoder, written here after taehv.py of github.com/madebyollin/taehv, makes of made-up
weights and latents.

    python tests/unit/make_taehv_table.py > tests/unit/taehv_table.h

Numbers are made as in make_t5_table.py, but those of a matrix are divided by half the root of
a row's length, and the last bias is about a half. In float64.
"""
import torch
import torch.nn.functional as F

from make_t5_table import made_up, rows

WIDTHS = (6, 5, 4, 3)
CASES = ((5, 1), (7, 2))  # latent channels, patch
FRAMES, HEIGHT, WIDTH = 3, 2, 3


def tensor(name, *shape):
    t = torch.from_numpy(made_up(name, torch.Size(shape).numel())).double().reshape(shape)
    return 2 * t / t[0].numel() ** 0.5 if len(shape) > 1 else t / 4 + (0.5 if ".22." in name else 0)


def conv(name, x, o, i, bias=True):
    return F.conv2d(x, tensor(f"decoder.{name}.weight", o, i, 3, 3), tensor(f"decoder.{name}.bias", o) if bias else None,
                    padding=1)


def block(n, x):
    c = x.shape[1]
    past = torch.cat((torch.zeros_like(x[:1]), x[:-1]))
    y = torch.relu(conv(f"{n}.conv.0", torch.cat((x, past), 1), c, 2 * c))
    return torch.relu(conv(f"{n}.conv.4", torch.relu(conv(f"{n}.conv.2", y, c, c)), c, c) + x)


def decode(z, channels, patch):
    x = torch.relu(conv("1", 3 * torch.tanh(z / 3), WIDTHS[0], channels))
    for stage, frames in enumerate((1, 2, 2)):
        n, c = 3 + 6 * stage, WIDTHS[stage]
        for k in range(3):
            x = block(n + k, x)
        x = F.interpolate(x, scale_factor=2.0)
        x = F.conv2d(x, tensor(f"decoder.{n + 4}.conv.weight", frames * c, c, 1, 1))
        x = x.reshape(-1, c, *x.shape[2:])
        x = conv(str(n + 5), x, WIDTHS[stage + 1], c, bias=False)
    x = F.pixel_shuffle(conv("22", torch.relu(x), 3 * patch * patch, WIDTHS[3]), patch)
    return x.clamp(0, 1)[3:]


def main():
    print("/* taehv_table.h - made by make_taehv_table.py. */")
    print("#ifndef SG_TAEHV_TABLE_H\n#define SG_TAEHV_TABLE_H\n")
    print(f"enum {{ TABLE_CASES = {len(CASES)}, TABLE_PICKS = 24 }};\n")
    print("/* Sum and sum of squares of the frames, and every so-manieth number from the first on. */")
    print("static const struct {\n    double sum, squares, pick[TABLE_PICKS];\n} taehv_table[TABLE_CASES] = {")
    for channels, patch in CASES:
        z = 4 * torch.from_numpy(made_up("latents", FRAMES * HEIGHT * WIDTH * channels)).double()
        z = z.reshape(FRAMES, HEIGHT, WIDTH, channels).permute(0, 3, 1, 2)
        y = decode(z, channels, patch).permute(0, 2, 3, 1).flatten()
        picks = y[::len(y) // 24][:24]
        print(f"    {{{y.sum().item():.12g}, {(y * y).sum().item():.12g}, {{\n{rows(picks.tolist(), '.9g', 8)}\n    }}}},")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
