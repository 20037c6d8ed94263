"""Fills a checkpoint whose weights are holes (published, published_gguf in tests/cli/lib.sh) with random ones, made on the GPU if
there is one.

    python fill.py FILE...

Matrices keep the size of what they see, so nothing overflows; norms are one.
"""
import json
import math
import struct
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


def gguf_tensors(f):
    """Name, shape, type and place of each, of a file with one key of text."""
    def number(form):
        return struct.unpack("<" + form, f.read(struct.calcsize(form)))[0]

    def text():
        return f.read(number("Q")).decode()
    f.seek(8)
    tensors = []
    count, _ = number("Q"), number("Q")
    text(), number("I"), text()
    for _ in range(count):
        name, rank = text(), number("I")
        tensors.append((name, [number("Q") for _ in range(rank)][::-1], number("I"), number("Q")))
    start = -(-f.tell() // 32) * 32
    return [(name, shape, kind, start + at) for name, shape, kind, at in tensors]


def blocks(shape, elements, size, scales, of_one):
    """Random blocks with the F16 scales, by place, of weights that have the deviation `of_one` where these are one."""
    b = torch.randint(256, (math.prod(shape) // elements, size), generator=generator, device=device, dtype=torch.uint8)
    for at, scale in scales.items():
        value = torch.tensor([scale * shape[1] ** -0.5 / of_one], dtype=torch.float16, device=device)
        b[:, at:at + 2] = value.view(torch.uint8)
    return b.cpu()


def fill_safetensors(f):
    size = int.from_bytes(f.read(8), "little")
    header = json.loads(f.read(size))
    for name, t in header.items():
        dtype = {"BF16": torch.bfloat16, "F32": torch.float32}[t["dtype"]]
        f.seek(8 + size + t["data_offsets"][0])
        weights(name, t["shape"], dtype).flatten().view(torch.uint8).numpy().tofile(f)


def fill_gguf(f):
    for name, shape, kind, at in gguf_tensors(f):
        f.seek(at)
        if kind == 8:  # Q8_0
            w = blocks(shape, 32, 34, {0: 1}, 74)
        elif kind == 12:  # Q4_K: a mean of 32 by 7.5, less 7.5 by 32
            w = blocks(shape, 256, 144, {0: 1, 2: 7.5}, 257)
        else:
            w = weights(name, shape, {0: torch.float32, 30: torch.bfloat16}[kind])
        w.flatten().view(torch.uint8).numpy().tofile(f)


for path in sys.argv[1:]:
    with open(path, "r+b") as f:
        (fill_gguf if path.endswith(".gguf") else fill_safetensors)(f)
