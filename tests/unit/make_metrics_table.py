#!/usr/bin/env python3
"""Writes metrics_table.h: what scikit-image says of the pictures in tests/unit/pictures, read by Pillow.

    python tests/unit/make_metrics_table.py [--pictures] > tests/unit/metrics_table.h

With --pictures the pictures are made first: a scene of edges and gradients, and what noise, blur, a shift of brightness
and JPEG make of it. scikit-image was 0.26.0; the other versions: tests/golden/requirements.txt.
"""
import pathlib
import sys

import numpy as np
from PIL import Image, ImageFilter
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

FOLDER = pathlib.Path(__file__).parent / "pictures"
PAIRS = [(a, b) for a in ("scene.png",) for b in ("noisy.png", "blurred.png", "brighter.png", "coded.jpg", "grey.jpg")]
PAIRS += [("noisy.png", "coded.jpg"), ("small_a.png", "small_b.png")]


def scene(height, width):
    y, x = np.mgrid[0:height, 0:width]
    rgb = np.stack([4.0 * x, 5.0 * y, 128 + 90 * np.sin(x / 3) * np.cos(y / 4)], axis=-1)
    rgb[(x - width / 2) ** 2 + (y - height / 2) ** 2 < (height / 4) ** 2] = (230, 40, 60)
    return np.clip(rgb, 0, 255).round().astype(np.uint8)


def make_pictures():
    rng = np.random.default_rng(11)
    whole = scene(37, 53)
    Image.fromarray(whole).save(FOLDER / "scene.png", optimize=True)
    noisy = np.clip(whole + rng.normal(0, 9, whole.shape), 0, 255).round().astype(np.uint8)
    Image.fromarray(noisy).save(FOLDER / "noisy.png", optimize=True)
    Image.fromarray(whole).filter(ImageFilter.GaussianBlur(1)).save(FOLDER / "blurred.png", optimize=True)
    Image.fromarray(np.minimum(whole.astype(int) + 6, 255).astype(np.uint8)).save(FOLDER / "brighter.png", optimize=True)
    Image.fromarray(whole).save(FOLDER / "coded.jpg", quality=40)
    Image.fromarray(whole).convert("L").save(FOLDER / "grey.jpg", quality=90, progressive=True)
    for name in ("small_a.png", "small_b.png"):  # one window in height, two in width
        Image.fromarray(rng.integers(0, 256, (11, 12, 3), dtype=np.uint8)).save(FOLDER / name, optimize=True)


def main():
    if "--pictures" in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        make_pictures()
    print("/* metrics_table.h - made by make_metrics_table.py. */")
    print("#ifndef SG_METRICS_TABLE_H\n#define SG_METRICS_TABLE_H\n")
    print("typedef struct pair {\n    const char *a, *b;\n    double      psnr, ssim;\n} pair;\n")
    print("static const pair table_pairs[] = {")
    for pair in PAIRS:
        a, b = (np.asarray(Image.open(FOLDER / name).convert("RGB")) for name in pair)
        psnr = peak_signal_noise_ratio(a, b, data_range=255)
        ssim = structural_similarity(a, b, gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
                                     data_range=255, channel_axis=2)
        print(f'    {{"{pair[0]}", "{pair[1]}", {psnr:.15g}, {ssim:.15g}}},')
    print("};\n")
    values = [31.5, 40.25, 28.0, 33.125, 36.0, 29.5, 41.0]
    print(f"static const double table_values[] = {{{', '.join(map(str, values))}}};")
    print(f"static const double table_mean = {np.mean(values):.17g}, table_percentile_5 = {np.percentile(values, 5):.17g};")
    print("\n#endif")


if __name__ == "__main__":
    main()
