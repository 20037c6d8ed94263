#!/usr/bin/env python3
"""Writes metrics_table.h: what public implementations say of the pictures in tests/unit/pictures, read by Pillow.

    python -O tests/unit/make_metrics_table.py [--pictures] > tests/unit/metrics_table.h

-O because pytorch-msssim asserts that five scales fit, whatever the weights. With --pictures the pictures are made
first: scenes of edges and gradients, and what noise, blur, a shift of brightness, a move and JPEG make of them.

PSNR, SSIM: scikit-image 0.26.0. MS-SSIM: pytorch-msssim 1.0.0 in double precision. Sharpness and the mean absolute
difference that VBench's temporal_flickering takes: OpenCV 5.0.0 (opencv-python-headless). Relative L2 and cosine: torch.
The other versions: tests/golden/requirements.txt.
"""
import pathlib
import sys

import cv2
import numpy as np
import torch
from PIL import Image, ImageFilter
from pytorch_msssim import ms_ssim
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

FOLDER = pathlib.Path(__file__).parent / "pictures"
PAIRS = [(a, b) for a in ("scene.png",) for b in ("noisy.png", "blurred.png", "brighter.png", "coded.jpg", "grey.jpg")]
PAIRS += [("noisy.png", "coded.jpg"), ("small_a.png", "small_b.png"), ("scene.png", "inverted.png")]
PAIRS += [("middle.png", "middle.jpg"), ("large.png", "large_blurred.png"), ("large.png", "large.jpg")]
CLIP = ["large.png", "large_moved.png", "large_moved.png", "large_blurred.png", "large.jpg"]
GREY = sorted({name for pair in PAIRS for name in pair})
WANG = [0.0448, 0.2856, 0.3001, 0.2363, 0.1333]


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
    Image.fromarray(255 - whole).save(FOLDER / "inverted.png", optimize=True)
    middle = Image.fromarray(scene(61, 90))  # three scales
    middle.save(FOLDER / "middle.png", optimize=True)
    middle.save(FOLDER / "middle.jpg", quality=30)
    wide = scene(163, 179)  # five scales, both sides odd at some of them
    large = Image.fromarray(wide[:, 2:])
    large.save(FOLDER / "large.png", optimize=True)
    large.save(FOLDER / "large.jpg", quality=50)
    large.filter(ImageFilter.GaussianBlur(0.8)).save(FOLDER / "large_blurred.png", optimize=True)
    Image.fromarray(wide[:, :-2]).save(FOLDER / "large_moved.png", optimize=True)


def multiscale(a, b):
    """Wang's weights over as many scales as fit, and how many those are."""
    scales = sum(min(a.shape[:2]) > 10 * 2 ** s for s in range(5))
    weights = WANG if scales == 5 else [w / sum(WANG[:scales]) for w in WANG[:scales]]
    taps = torch.exp(-(torch.arange(11, dtype=torch.float64) - 5) ** 2 / (2 * 1.5 ** 2))
    window = (taps / taps.sum()).reshape(1, 1, 1, 11).repeat(3, 1, 1, 1)
    x, y = (torch.from_numpy(v.astype(np.float64)).permute(2, 0, 1)[None] for v in (a, b))
    return ms_ssim(x, y, data_range=255, win=window, weights=weights).item(), scales


def sharpness(rgb):
    return cv2.Laplacian(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var()


def flicker(frames):
    """VBench's temporal_flickering; in double precision, where VBench's mean over a frame is in single."""
    differences = [cv2.absdiff(a.astype(np.float64), b.astype(np.float64)).mean() for a, b in zip(frames, frames[1:])]
    return (255.0 - np.mean(differences).item()) / 255.0


def read(name):
    return np.asarray(Image.open(FOLDER / name).convert("RGB"))


def print_clip():
    print("typedef struct sharp {\n    const char *name;\n    double      sharpness;\n} sharp;\n")
    print("static const sharp table_sharp[] = {")
    for name in GREY:
        print(f'    {{"{name}", {sharpness(read(name)):.15g}}},')
    print("};\n")
    print(f"static const char *const table_clip[] = {{{', '.join(chr(34) + name + chr(34) for name in CLIP)}}};")
    print(f"static const double table_flicker = {flicker([read(name) for name in CLIP]):.15g};\n")


def print_arrays():
    rng = np.random.default_rng(7)
    a = rng.standard_normal(40).astype(np.float32)
    b = (a + 0.25 * rng.standard_normal(40)).astype(np.float32)
    x, y = torch.from_numpy(a).double(), torch.from_numpy(b).double()
    for name, values in (("a", a), ("b", b)):
        print(f"static const float table_{name}[] = {{{', '.join(f'{v:.9g}f' for v in values)}}};")
    l2 = (torch.linalg.vector_norm(y - x) / torch.linalg.vector_norm(x)).item()
    cosine = torch.nn.functional.cosine_similarity(x, y, dim=0).item()
    print(f"static const double table_relative_l2 = {l2:.15g}, table_cosine = {cosine:.15g};\n")


def main():
    if __debug__:
        sys.exit("run it by python -O")
    if "--pictures" in sys.argv:
        FOLDER.mkdir(exist_ok=True)
        make_pictures()
    print("/* metrics_table.h - made by make_metrics_table.py. */")
    print("#ifndef SG_METRICS_TABLE_H\n#define SG_METRICS_TABLE_H\n")
    print("typedef struct pair {\n    const char *a, *b;\n    double      psnr, ssim, ms_ssim;\n    int         scales;\n} pair;\n")
    print("static const pair table_pairs[] = {")
    for pair in PAIRS:
        a, b = (read(name) for name in pair)
        psnr = peak_signal_noise_ratio(a, b, data_range=255)
        ssim = structural_similarity(a, b, gaussian_weights=True, sigma=1.5, use_sample_covariance=False,
                                     data_range=255, channel_axis=2)
        several, scales = multiscale(a, b)
        print(f'    {{"{pair[0]}", "{pair[1]}", {psnr:.15g}, {ssim:.15g}, {several:.15g}, {scales}}},')
    print("};\n")
    print_clip()
    print_arrays()
    values = [31.5, 40.25, 28.0, 33.125, 36.0, 29.5, 41.0]
    print(f"static const double table_values[] = {{{', '.join(map(str, values))}}};")
    print(f"static const double table_mean = {np.mean(values):.17g}, table_p5 = {np.percentile(values, 5):.17g};")
    print("\n#endif")


if __name__ == "__main__":
    main()
