#!/usr/bin/env python3
"""Writes what tests/cli/published holds: of published models the configurations, and names, shapes and types of all tensors.

    python published.py OUT

A line is `json PATH VALUE`, `tokenizer NAME FIXTURE` (that of a mini), `pieces NAME ROWS` (a mini's, with as many pieces as
the text encoder has rows), `file PATH`, or, after it, `NAME TYPE SHAPE` of a tensor; {0-39} in a name stands for each of
these numbers. lib.sh makes a checkpoint of it, whose weights are holes in sparse files.
"""
import json
import os
import re
import sys
import tempfile

import torch
import transformers

import checkpoint
import families
import family_wan
import fullsize

LLAMA = dict(fullsize.LLAMA, num_hidden_layers=32)
MODELS = {
    "wan-1.3b": {**fullsize.SHAPES["1.3b"]},
    "wan-14b": {**fullsize.SHAPES["14b"]},
    "wan-5b": {**fullsize.SHAPES["1.3b"], "latent_statistics": True, "expand_timesteps": True,
               "sampler": {"kind": "unipc", "shift": 5.0},
               "dit": dict(fullsize.WAN, num_attention_heads=24, ffn_dim=14336, in_channels=48, out_channels=48,
                           num_layers=30),
               "vae": dict(base_dim=160, decoder_base_dim=256, z_dim=48, dim_mult=[1, 2, 4, 4], num_res_blocks=2,
                           temperal_downsample=[False, True, True], is_residual=True, patch_size=2, in_channels=12,
                           out_channels=12, scale_factor_temporal=4, scale_factor_spatial=16)},
    "mochi": {**fullsize.SHAPES["mochi"]},
    "hunyuan": {**fullsize.SHAPES["hunyuan"], "minis": "hunyuan_hd16", "vocab": 128320},
    "opensora": {**fullsize.SHAPES["opensora"], "dtype": "F32"},
    "flux": {**fullsize.SHAPES["flux"], "minis": "flux_dev", "clip": {**fullsize.SHAPES["flux"]["clip"], "num_hidden_layers": 12}},
}


def draw(part, k):
    return lambda *_: None


def texts(spec):
    text = spec["text"]
    if "width" in text:
        t5 = checkpoint.make_text({**text, "layers": 24}, text["vocab"], draw("", 0), "meta")
        if "clip" not in spec:
            return {"text_encoder": t5}
        clip = transformers.CLIPTextConfig(hidden_act="quick_gelu", eos_token_id=2, vocab_size=49408, **spec["clip"])
        with torch.device("meta"):
            return {"text_encoder": transformers.CLIPTextModel(clip), "text_encoder_2": t5}
    llama = transformers.LlamaConfig(vocab_size=spec["vocab"], rms_norm_eps=1e-5,
                                     rope_parameters=dict(rope_type="default", rope_theta=500000.0), **LLAMA)
    clip = transformers.CLIPTextConfig(hidden_act="quick_gelu", eos_token_id=2, **spec["clip_text"])
    with torch.device("meta"):
        return {"text_encoder": transformers.LlamaModel(llama), "text_encoder_2": transformers.CLIPTextModel(clip)}


def tensors(model, dtype):
    keep = getattr(model, "_keep_in_fp32_modules", None) or []
    seen = set()
    for name, t in model.state_dict().items():
        if name.endswith("embed_tokens.weight") and "shared.weight" in seen:
            continue
        seen.add(name)
        yield name, "F32" if any(k in name for k in keep) else dtype, ",".join(map(str, t.shape))


def ranges(rows):
    """Rows whose names differ in the number of a layer alone, as one."""
    groups = {}
    for name, dtype, shape in rows:
        number = re.search(r"(?<=\.)\d+(?=\.)", name)
        key = (name[:number.start()], name[number.end():], dtype, shape) if number else (name, None, dtype, shape)
        groups.setdefault(key, []).append(int(number.group()) if number else None)
    for (head, tail, dtype, shape), at in groups.items():
        if tail is None:
            yield f"{head} {dtype} {shape}"
            continue
        while at:
            n = next((i for i, k in enumerate(at) if k != at[0] + i), len(at))
            yield f"{head}{at[0] if n == 1 else f'{{{at[0]}-{at[n - 1]}}}'}{tail} {dtype} {shape}"
            at = at[n:]


def write(path, spec):
    family = families.NAMED[spec.get("family", "wan")]
    spec = {"seed": 1, "dtype": "BF16", "sampler": family_wan.UNIPC, "latent_statistics": False, **spec}
    parts = {**texts(spec), **family.components(spec, draw, "meta")}
    index = {"_class_name": family.PIPELINE.__name__}
    with open(path, "w") as f:
        def put(name, value):
            f.write(f"json {name} {json.dumps(value)}\n")
        for name, part in parts.items():
            if not hasattr(part, "config"):
                if part is not None:
                    index[name] = part
                continue
            index[name] = [type(part).__module__.split(".")[0], type(part).__name__]
            with tempfile.TemporaryDirectory() as folder:
                (part.config.save_pretrained if name.startswith("text") else part.save_config)(folder)
                file = os.listdir(folder)[0]
                with open(os.path.join(folder, file)) as g:
                    put(f"{name}/{file}", json.load(g))
            if isinstance(part, torch.nn.Module):
                kind = "model" if name.startswith("text") else "diffusion_pytorch_model"
                f.write(f"file {name}/{kind}.safetensors\n")
                f.writelines(line + "\n" for line in ranges(tensors(part, spec["dtype"])))
        for name in ["tokenizer", "tokenizer_2"][:1 + ("text_encoder_2" in parts)]:
            index[name] = ["transformers", "AutoTokenizer"]
            rows = parts["text_encoder" + name[9:]].config.vocab_size
            t5 = "T5" in index["text_encoder" + name[9:]][1]
            f.write(f"pieces {name} {rows}\n" if t5 else f"tokenizer {name} {spec['minis']}\n")
        put("model_index.json", index)


for name, spec in MODELS.items():
    write(os.path.join(sys.argv[1], name), spec)
