#!/usr/bin/env python3
"""Writes t5_table.h: buckets of T5's position bias, and what transformers' encoders give for made-up weights.

    python tests/unit/make_t5_table.py > tests/unit/t5_table.h

`made_up` is repeated in made_up.h. The encoders run in float64. Versions: tests/golden/requirements.txt.
"""
import pathlib
import sys

import numpy as np
import torch
from transformers import T5Config, T5EncoderModel, UMT5Config, UMT5EncoderModel
from transformers.models.t5.modeling_t5 import T5Attention

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import oracle  # noqa: E402

BUCKETS = ((32, 128), (8, 20), (8, 128), (16, 64), (4, 2), (10, 77), (64, 500), (30, 100))
REACH = 600
SIZES = dict(d_model=12, d_kv=5, num_heads=3, num_layers=2, d_ff=21, vocab_size=23,
             relative_attention_num_buckets=8, relative_attention_max_distance=12)
TOKENS = 24
CASES = (  # class, config, feed-forward, dtype of the file
    (UMT5EncoderModel, UMT5Config, "gated-gelu", torch.float32),
    (T5EncoderModel, T5Config, "relu", torch.float32),
    (T5EncoderModel, T5Config, "gated-gelu", torch.bfloat16),
    (UMT5EncoderModel, UMT5Config, "relu", torch.float16),
)


def made_up(name, count):
    """Numbers in [-1, 1) from a hash of the tensor's name and the place, exact in float32."""
    seed = 2166136261
    for c in name.encode():
        seed = (seed ^ c) * 16777619 % 2**32
    h = (seed + np.arange(count, dtype=np.uint64) * 0x9E3779B9) % 2**32
    for shift, factor in (16, 0x85EBCA6B), (13, 0xC2B2AE35):
        h = (h ^ (h >> shift)) * factor % 2**32
    u = ((h ^ (h >> 16)) >> 8).astype(np.float32) * np.float32(2**-23) - np.float32(1)
    return 1 + u / 4 if "norm" in name else u


def encoder(kind, config, feed_forward, dtype):
    model = kind(config(**SIZES, feed_forward_proj=feed_forward)).double().eval()
    for name, p in model.named_parameters():
        p.data = torch.from_numpy(made_up(name, p.numel())).to(dtype).double().reshape(p.shape)
    return model


def rows(values, form, width):
    texts = [format(v, form) for v in values]
    return "\n".join("    " + ", ".join(texts[i:i + width]) + "," for i in range(0, len(texts), width))


def turns(buckets, distance):
    """The distances 0 .. REACH at which a new bucket begins."""
    found = T5Attention._relative_position_bucket(torch.arange(REACH + 1), True, buckets, distance).tolist()
    left = T5Attention._relative_position_bucket(-torch.arange(REACH + 1), True, buckets, distance).tolist()
    assert left[0] == found[0] == 0 and all(a - buckets // 2 == b for a, b in zip(found[1:], left[1:]))
    steps = [i for i in range(1, REACH + 1) if left[i] != left[i - 1]]
    assert len(steps) == buckets // 2 - 1
    return steps + [0]


def main():
    oracle.setup()
    print("/* t5_table.h - made by make_t5_table.py. */\n#ifndef SG_T5_TABLE_H\n#define SG_T5_TABLE_H\n")
    print(f"enum {{ TABLE_REACH = {REACH}, TABLE_TOKENS = {TOKENS}, TABLE_CASES = {len(CASES)} }};\n")
    print("/* Buckets, max_distance. */")
    print("static const int table_bias[][2] = {" + ", ".join(f"{{{a}, {b}}}" for a, b in BUCKETS) + "};\n")
    print("/* For each in turn the distances, 1 and up, at which the next bucket begins; 0 ends a list. */")
    print("static const int table_turns[] = {\n" + "\n".join(rows(turns(*b), "d", 16) for b in BUCKETS) + "\n};\n")
    ids = torch.arange(TOKENS) * 7 % SIZES["vocab_size"]
    print("static const double table_hidden[TABLE_CASES][TABLE_TOKENS * %d] = {" % SIZES["d_model"])
    for case in CASES:
        model = encoder(*case)
        with oracle.widen(torch.float64):
            y = model(input_ids=ids[None]).last_hidden_state[0]
        assert y.dtype == torch.float64
        print("    {\n" + rows(y.flatten().tolist(), ".9g", 8) + "\n    },")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
