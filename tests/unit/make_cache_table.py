#!/usr/bin/env python3
"""Writes cache_table.h: the filtered latents and the skipped steps of diffusers' SeaCache (0.42.1) on made-up latents.

usage: make_cache_table.py >cache_table.h

Latents of step i of N: x = (1 - s) clean + s noise with s = 5 u / (1 + 4 u), u = 1 - i / N, each product and sum rounded to
F32. clean[c, f, y, x] = cos(0.7 c + 0.31 f + 0.17 y + 0.11 x), noise is counter.py's of the name "cache". No sum of
distances lies within one in a thousand of its threshold, so rounding decides nothing."""
import math
import sys
from pathlib import Path

import numpy as np
import torch
from diffusers.hooks.sea_cache import SeaCacheConfig, SeaCacheContextState, SeaCacheSharedState
from diffusers.hooks.sea_cache import _apply_sea_filter, _SeaCacheForwardMetadata

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))
import counter

# shape, steps, first, threshold, longest
CASES = [
    ((4, 5, 8, 12), 50, 10, 0.25, 2), ((4, 5, 8, 12), 50, 2, 0.1, 2), ((4, 5, 8, 12), 50, 10, 0.35, 3),
    ((3, 1, 9, 7), 30, 6, 0.25, 2), ((3, 4, 6, 15), 16, 4, 0.25, 2), ((2, 9, 8, 8), 40, 8, 0.02, 2),
]
FILTERED = [((2, 5, 6, 9), 0.9), ((2, 5, 6, 9), 0.05), ((1, 8, 4, 10), 1.0), ((3, 1, 7, 8), 0.0)]


def clean_and_noise(shape):
    c, f, y, x = np.meshgrid(*[np.arange(n) for n in shape], indexing="ij")
    clean = np.cos(0.7 * c + 0.31 * f + 0.17 * y + 0.11 * x).astype(np.float32)
    noise = counter.numbers("cache", shape, counter.LATENTS)
    return clean, noise


def latents(shape, sigma):
    clean, noise = clean_and_noise(shape)
    return np.float32(1 - sigma) * clean + np.float32(sigma) * noise


def sigma(i, steps):
    u = 1 - i / steps
    return 5 * u / (1 + 4 * u)


def indicator(shape, s):
    return _apply_sea_filter(torch.from_numpy(latents(shape, s)).movedim(0, -1), s, 3.0)


def skips(shape, steps, first, threshold, longest):
    config = SeaCacheConfig(threshold=threshold, retention_steps=first, cache_end_steps=1, max_consecutive_cached=longest)
    shared, state, out = SeaCacheSharedState(), SeaCacheContextState(), ""
    for i in range(steps):
        before = state.accumulated_distance
        seen = state.previous_indicator
        now = [indicator(shape, sigma(i, steps))]
        computes = shared.resolve_gate(state, _SeaCacheForwardMetadata(i, sigma(i, steps), steps, now), now, config)
        state.consecutive_cached = 0 if computes else state.consecutive_cached + 1
        out += "." if computes else "s"
        if seen is not None:
            moved = (now[0] - seen[0]).abs().mean() / seen[0].abs().mean()
            assert abs(before + float(moved) - threshold) > 1e-3 * threshold, (i, before, moved)
    return out


def main():
    print("/* cache_table.h - written by make_cache_table.py from diffusers 0.42.1. */")
    print("static const struct {\n    int shape[4], steps, first;\n    double threshold;\n    int longest;\n    const char *steps_skipped; /* s: skipped */")
    print("} skip_table[] = {")
    for shape, *rest in CASES:
        numbers = ", ".join(str(v) for v in rest)
        print(f"    {{{{{', '.join(map(str, shape))}}}, {numbers}, \"{skips(shape, *rest)}\"}},")
    print("};\n\n/* As filtered: sum and sum of squares of F, and F at the first place and in the middle, [c, f, y, x] */")
    print("static const struct {\n    int shape[4];\n    double sigma, sum, squares, first, middle;\n} filter_table[] = {")
    for shape, s in FILTERED:
        x = torch.from_numpy(latents(shape, s)).movedim(0, -1).double()
        f = _apply_sea_filter(x.float(), s, 3.0).movedim(-1, 0).double().contiguous().flatten()
        print(f"    {{{{{', '.join(map(str, shape))}}}, {s}, {f.sum():.9g}, {(f * f).sum():.9g}, {f[0]:.9g}, {f[f.numel() // 2]:.9g}}},")
    print("};")


main()
