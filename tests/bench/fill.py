"""Fills a checkpoint whose weights are holes (published in tests/cli/lib.sh) with random ones, made on the GPU if there is one.

    python fill.py FOLDER

Matrices keep the size of what they see, so nothing overflows; norms are one.
"""
import glob
import json
import math
import sys

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
generator = torch.Generator(device).manual_seed(1)


def weights(name, shape, dtype):
    if len(shape) < 2 or math.prod(shape) == shape[0]:
        value = 1.0 if name.endswith((".weight", ".gamma")) else 0.0
        return torch.full(shape, value, dtype=dtype)
    w = torch.randn(shape, generator=generator, device=device, dtype=dtype)
    return w.mul_(math.prod(shape[1:]) ** -0.5).cpu()


for path in glob.glob(f"{sys.argv[1]}/*/*.safetensors"):
    with open(path, "r+b") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
        for name, t in header.items():
            dtype = {"BF16": torch.bfloat16, "F32": torch.float32}[t["dtype"]]
            f.seek(8 + size + t["data_offsets"][0])
            weights(name, t["shape"], dtype).flatten().view(torch.uint8).numpy().tofile(f)
