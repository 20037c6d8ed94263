#!/usr/bin/env python3
"""Writes clip_vision_table.h: what transformers' CLIPVisionModel gives for made-up weights and a made-up picture.

    python tests/unit/make_clip_vision_table.py > tests/unit/clip_vision_table.h

Numbers are made as in make_t5_table.py. The encoders run in float64. Versions: tests/golden/requirements.txt.
"""
import numpy as np
import torch
from PIL import Image
from transformers import CLIPVisionConfig, CLIPVisionModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from make_t5_table import made_up, rows

SIZES = dict(hidden_size=12, num_attention_heads=3, num_hidden_layers=3, intermediate_size=20, image_size=12, patch_size=4)
WIDTH, HEIGHT = 31, 23
CASES = (  # activation, image processor
    ("gelu", dict(size={"shortest_edge": 12}, crop_size={"height": 12, "width": 12})),
    ("quick_gelu", dict(size={"shortest_edge": 17}, crop_size={"height": 12, "width": 12},
                        image_mean=[0.5, 0.25, 0.125], image_std=[0.5, 0.75, 1.5])),
)


def picture():
    return ((made_up("picture", WIDTH * HEIGHT * 3) + 1) * 128).astype(np.uint8).reshape(HEIGHT, WIDTH, 3)


def states(act, processor):
    model = CLIPVisionModel(CLIPVisionConfig(hidden_act=act, **SIZES)).double().eval()
    for name, p in model.named_parameters():
        name = name.removeprefix("vision_model.")
        p.data = torch.from_numpy(made_up(name, p.numel())).double().reshape(p.shape)
    pixels = CLIPImageProcessorPil(**processor)(images=Image.fromarray(picture()), return_tensors="pt").pixel_values
    with torch.no_grad():
        y = model(pixel_values=pixels.double(), output_hidden_states=True).hidden_states[-2][0]
    assert y.dtype == torch.float64
    return y


def main():
    tokens = 1 + (SIZES["image_size"] // SIZES["patch_size"]) ** 2
    print("/* clip_vision_table.h - made by make_clip_vision_table.py. */")
    print("#ifndef SG_CLIP_VISION_TABLE_H\n#define SG_CLIP_VISION_TABLE_H\n")
    print(f"enum {{ TABLE_TOKENS = {tokens}, TABLE_CASES = {len(CASES)} }};\n")
    print("static const double table_states[TABLE_CASES][TABLE_TOKENS * %d] = {" % SIZES["hidden_size"])
    for case in CASES:
        print("    {\n" + rows(states(*case).flatten().tolist(), ".9g", 8) + "\n    },")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
