#!/usr/bin/env python3
"""Writes clip_model_table.h: what transformers' CLIPModel makes of texts and pictures by the weights of a fixture.

    python tests/unit/make_clip_model_table.py > tests/unit/clip_model_table.h
    python tests/unit/make_clip_model_table.py --fixture     # also writes tests/golden/fixtures/judge/clip

Numbers of weights and pictures are those of tests/golden/counter.py. The model runs in float64. Versions:
tests/golden/requirements.txt.
"""
import json
import math
import pathlib
import sys

import torch
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
import counter  # noqa: E402
from make_t5_table import rows  # noqa: E402

FIXTURE = pathlib.Path(__file__).resolve().parent.parent / "golden" / "fixtures" / "judge" / "clip"
TEXTS = ("a red ball", "A cat, and a dog!", "", "the end of this text is not read, for it has more tokens than there are "
         "places")
PICTURES = ((45, 33), (32, 32), (20, 57))  # width, height
FRAMES = 4  # of 40x32: a clip
# The encoders' own projection_dim is not what counts, and of two values that of the older member is.
CONFIG = dict(
    architectures=["CLIPModel"], model_type="clip", projection_dim=12,
    text_config=dict(model_type="clip_text_model", hidden_size=16, num_attention_heads=2, num_hidden_layers=3,
                     intermediate_size=24, max_position_embeddings=20, vocab_size=0, hidden_act="quick_gelu",
                     eos_token_id=2, projection_dim=512),
    vision_config=dict(model_type="clip_vision_model", hidden_size=24, num_attention_heads=3, num_hidden_layers=7,
                       intermediate_size=20, image_size=32, patch_size=8, hidden_act="gelu"),
    vision_config_dict=dict(num_hidden_layers=2, hidden_size=24, num_attention_heads=3, intermediate_size=20, image_size=32,
                            patch_size=8, hidden_act="gelu"))
PROCESSOR = dict(crop_size=32, do_center_crop=True, do_normalize=True, do_resize=True, resample=3, size=36,
                 image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])


def deviation(name, shape):
    """Of a weight, and its mean."""
    if "norm" in name and name.endswith("weight"):
        return 0.2, 1.0
    if name.endswith("bias"):
        return 0.2, 0.0
    return (1.0, 0.0) if "embedding" in name and "patch" not in name else (1.3 / math.sqrt(math.prod(shape[1:])), 0.0)


def filled(config, dtype):
    """The model, and its rules by name."""
    model, rules = CLIPModel(config).to(dtype).eval(), {}
    for name, p in model.named_parameters():
        if name == "logit_scale":
            continue
        rules[name] = list(p.shape), counter.rule(*deviation(name, p.shape))
        p.data = torch.from_numpy(counter.numbers(f"clip/./{name}", tuple(p.shape), rules[name][1])).to(dtype)
    return model, rules


def write_fixture():
    FIXTURE.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        link = FIXTURE / name
        link.unlink(missing_ok=True)
        link.symlink_to(pathlib.Path("../../hunyuan_hd16/tokenizer_2") / name)
    CONFIG["text_config"]["vocab_size"] = len(json.loads((FIXTURE / "vocab.json").read_text()))
    (FIXTURE / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (FIXTURE / "preprocessor_config.json").write_text(json.dumps(PROCESSOR, indent=2) + "\n")
    lines = ["file ./model.safetensors"]
    for name, (shape, rule) in sorted(filled(CLIPConfig.from_pretrained(FIXTURE), torch.float32)[1].items()):
        lines.append(" ".join([name, "F32", ",".join(map(str, shape)), *map(str, rule)]))
    (FIXTURE / "weights.txt").write_text("\n".join(lines) + "\n")


def text_rows(model, tokenizer):
    for text in TEXTS:
        cut = len(tokenizer(text).input_ids) - CONFIG["text_config"]["max_position_embeddings"]
        ids = tokenizer(text, truncation=True, max_length=CONFIG["text_config"]["max_position_embeddings"],
                        return_tensors="pt")
        y = model.get_text_features(**ids)
        yield max(cut, 0), getattr(y, "pooler_output", y)[0]


def picture_rows(model, processor, pictures):
    for picture in pictures:
        y = model.get_image_features(processor(images=picture, return_tensors="pt").pixel_values.double())
        yield getattr(y, "pooler_output", y)[0]


def of_length_1(x):
    return (x / x.norm()).tolist()


def main():
    if "--fixture" in sys.argv:
        write_fixture()
    model = filled(CLIPConfig.from_pretrained(FIXTURE), torch.float64)[0]
    tokenizer, processor = CLIPTokenizer.from_pretrained(FIXTURE), CLIPImageProcessorPil.from_pretrained(FIXTURE)
    with torch.no_grad():
        texts = list(text_rows(model, tokenizer))
        single = [counter.pictures(f"picture.{i}", (1, h, w, 3))[0] for i, (w, h) in enumerate(PICTURES)]
        seen = torch.stack(list(picture_rows(model, processor, single)))
        clip = torch.stack(list(picture_rows(model, processor, counter.pictures("clip", (FRAMES, 32, 40, 3)))))
    clip, text = clip / clip.norm(dim=-1, keepdim=True), texts[0][1] / texts[0][1].norm()
    width = CONFIG["projection_dim"]
    print("/* clip_model_table.h - made by make_clip_model_table.py. */")
    print("#ifndef SG_CLIP_MODEL_TABLE_H\n#define SG_CLIP_MODEL_TABLE_H\n")
    print(f"enum {{ TABLE_ROW = {width}, TABLE_TEXTS = {len(TEXTS)}, TABLE_PICTURES = {len(PICTURES)}, "
          f"TABLE_FRAMES = {FRAMES} }};\n")
    print("static const struct {\n    const char *text;\n    int         cut;\n    double      row[TABLE_ROW];\n} "
          "table_text[TABLE_TEXTS] = {")
    for (cut, row), words in zip(texts, TEXTS):
        print(f"    {{{json.dumps(words)}, {cut},\n     {{\n" + rows(of_length_1(row), ".9g", 6) + "\n     }},")
    print("};\n\nstatic const struct {\n    int    width, height;\n    double row[TABLE_ROW];\n} "
          "table_picture[TABLE_PICTURES] = {")
    for (w, h), row in zip(PICTURES, seen):
        print(f"    {{{w}, {h},\n     {{\n" + rows(of_length_1(row), ".9g", 6) + "\n     }},")
    print("};\n\n/* Of the clip, with the first text: cosines of its frames and the text, of neighbours. */")
    print(f"static const double table_clipsim = {(clip @ text).mean().item():.9g}, table_clip_t = "
          f"{(clip[1:] * clip[:-1]).sum(-1).mean().item():.9g};\n\n#endif")


if __name__ == "__main__":
    main()
