"""counter.h in numpy: numbers that follow from a name and a place, the same bits as there."""
import math

import numpy as np
import PIL.Image

SUMS, SAMPLES = 256, 64
WHOLE = SUMS + SAMPLES
DEVIATION = math.sqrt((4096**2 - 1) / 3)  # of the sum of four integers in 0..4095
LATENTS, CLIP = (887, 0, 21), (1, 0, 13)
# test_rng.c expects the same: name, place, rule, bits of the place and of the number in F32; sums 0 and 255 and
# the last sample of the sketch of 0, 1, ..., 9999 under the name "pinned".
PINNED = (
    ("", 0, (1, 0, 0), 0xc3817c016ba4ff30, 0x45258000),
    ("wan21_hd12/transformer/blocks.0.attn1.to_q.weight", 575, (611, -70001, 23), 0x86ae8b6eb50a6d59, 0x3d9ae720),
    ("latents", 1000000, LATENTS, 0x13ba7dc4894b3055, 0xbf072100),
    ("clip", 7, CLIP, 0xb2e8caf1fe211a9a, 0x3e52c000),
)
PINNED_SKETCH = (-1970.0, 52138.0, 4614.0)


def seed(name):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def bits(start, count):
    """Of places 0 to count - 1."""
    with np.errstate(over="ignore"):
        z = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
        return z ^ z >> np.uint64(31)


def rule(deviation, mean=0.0):
    """Scale, offset and shift that come nearest with ten bits for the scale, or fewer where the mean is far from 0."""
    shift = math.floor(math.log2(1023.5 * DEVIATION / deviation))
    while True:
        scale, offset = round(deviation / DEVIATION * 2**shift), round(mean * 2**shift)
        if scale < 1024 and 8190 * scale + abs(offset) < 2**24:
            return scale, offset, shift
        shift -= 1


def numbers(name, shape, of):
    """float32, exact."""
    scale, offset, shift = of
    z = bits(seed(name), math.prod(shape))
    n = sum((z >> np.uint64(at) & np.uint64(4095)).astype(np.int64) for at in (0, 16, 32, 48)) - 8190
    return np.ldexp((n * scale + offset).astype(np.float32), -shift).reshape(shape)


def pictures(name, shape):
    """Of [n, y, x, 3]."""
    x = numbers(name, shape, CLIP).astype(np.float64)
    return [PIL.Image.fromarray(one) for one in np.floor((x + 1) * 127.5).astype(np.uint8)]


def sketch(name, values):
    """What is kept of a tap in float64: all of it where it is small, else sums and samples."""
    x = np.ascontiguousarray(values, dtype=np.float64).ravel()
    if x.size <= WHOLE:
        return x
    z = bits(seed(name), x.size)
    signed = np.where(z >> np.uint64(63) != 0, -x, x)
    sums = np.bincount((z % np.uint64(SUMS)).astype(np.int64), weights=signed, minlength=SUMS)
    at = (bits(seed(name) ^ (2**64 - 1), SAMPLES) % np.uint64(x.size)).astype(np.int64)
    return np.concatenate([sums, x[at]])


def check():
    """That this file has not drifted from counter.h."""
    for name, place, of, wide, narrow in PINNED:
        assert int(bits(seed(name), place + 1)[place]) == wide, name
        assert int(numbers(name, (place + 1,), of)[place].view(np.uint32)) == narrow, name
    made = sketch("pinned", np.arange(10000))
    assert (made[0], made[SUMS - 1], made[WHOLE - 1]) == PINNED_SKETCH
