#!/usr/bin/env python3
"""Writes dequantise_table.h: sums over what gguf-py (0.19) and torch make of blocks of made-up bits.

usage: make_dequantise_table.py >dequantise_table.h

Needs gguf and torch. test_dequantise.c makes the same bits: bytes of a linear congruential generator whose state begins
with 1 for each type; then each F16 scale that is not finite loses bit 14. The sum runs over the elements' bits as F32:
sum = (sum xor bits) * 0x100000001b3, from 0xcbf29ce484222325 on, modulo 2^64. The other sum is over the bytes of Q8_0
that gguf-py makes of made-up numbers: see numbers_to_pack."""
import gguf
import numpy as np
import torch

BLOCKS = 512
# type: where its F16 scales are
SCALES = {"Q8_0": [0], "Q6_K": [208], "Q5_K": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q4_0": [0],
          "Q4_1": [0, 2], "Q3_K": [108], "Q2_K": [80, 82], "IQ4_NL": [0], "IQ4_XS": [0]}


def bits(size, scales):
    state, out = 1, bytearray()
    for _ in range(BLOCKS * size):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state >> 24)
    for block in range(BLOCKS):
        for at in scales:
            i = block * size + at + 1
            if out[i] & 0x7c == 0x7c:
                out[i] &= 0xbf
    return np.frombuffer(bytes(out), np.uint8).reshape(BLOCKS, size)


def total(values):
    out = 0xcbf29ce484222325
    assert np.isfinite(values).all()
    for u in np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32).tolist():
        out = (out ^ u) * 0x100000001b3 % 2**64
    return out


def numbers_to_pack():
    """Of the same generator: from block to block the numbers grow from 2^-40 to 2^19; one block is of zeros, the next
    has ties, 0.5 to 30.5 with both signs, and 127."""
    state, out = 1, []
    for block in range(BLOCKS):
        for _ in range(32):
            state = (state * 1664525 + 1013904223) % 2**32
            out.append(((state >> 8) / 2**23 - 1) * 2.0**(block % 60 - 40))
    out[:32] = [0.0] * 32
    out[32:64] = [(i + 0.5) * (-1)**i for i in range(31)] + [127.0]
    return np.array(out, np.float32).reshape(BLOCKS, 32)


def byte_values(name):
    """Every byte but those that are no finite number."""
    dtype = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "I8": torch.int8}[name]
    values = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).to(torch.float32)
    return values[torch.isfinite(values)].numpy()


print("""/* dequantise_table.h - made by make_dequantise_table.py. */
#ifndef SG_DEQUANTISE_TABLE_H
#define SG_DEQUANTISE_TABLE_H

#include <stdint.h>

enum { TABLE_BLOCKS = %d };

/* Where the F16 scales of a block are, -1: there is no second one; the sum over the elements. Types of single bytes have no
 * scale, and the sum is over all bytes, in order, that are finite numbers. */
static const struct {
    const char *type;
    int         block, bytes, scale[2];
    uint64_t    sum;
} table[] = {""" % BLOCKS)
for name, scales in SCALES.items():
    kind = gguf.GGMLQuantizationType[name]
    block, size = gguf.GGML_QUANT_SIZES[kind]
    values = gguf.quants.dequantize(bits(size, scales), kind)
    second = scales[1] if len(scales) > 1 else -1
    print(f'    {{"{name}", {block}, {size}, {{{scales[0]}, {second}}}, 0x{total(values):016x}u}},')
for name in ("F8_E4M3", "F8_E5M2", "I8"):
    print(f'    {{"{name}", 1, 1, {{-1, -1}}, 0x{total(byte_values(name)):016x}u}},')
packed = gguf.quants.quantize(numbers_to_pack(), gguf.GGMLQuantizationType.Q8_0)
total_of_bytes = 0xcbf29ce484222325
for byte in packed.reshape(-1).tolist():
    total_of_bytes = (total_of_bytes ^ byte) * 0x100000001b3 % 2**64
print(f"""}};

static const uint64_t packed_sum = 0x{total_of_bytes:016x}u;

#endif""")
