#!/usr/bin/env python3
"""Compares language models with transformers: random configurations of Llama, Qwen2 and Qwen3 with random weights.

    venv/bin/python tests/golden/language.py BUILD/tests/golden_language [--cases N] [--seed N] [--backend cpu]

Each is saved by transformers, at times in shards, and as a GGUF by gguf-py; both are read whole and in pieces. In f32 the
likelihoods of a prompt and the logits behind it have to be within 1e-4 of transformers' float64, relative to the largest, and 64
greedy tokens equal, up to where transformers' two likeliest tokens are nearer than that. Versions: requirements.txt, gguf 0.19.
"""
import argparse
import copy
import json
import os
import random
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
         "qwen3": (Qwen3Config, Qwen3ForCausalLM)}
GATE, GREEDY = 1e-4, 64
NAMES = (("embed_tokens.", "token_embd."), ("layers.", "blk."), ("input_layernorm", "attn_norm"),
         ("post_attention_layernorm", "ffn_norm"), ("self_attn.q_norm", "attn_q_norm"),
         ("self_attn.k_norm", "attn_k_norm"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
         ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_output"), ("mlp.gate_proj", "ffn_gate"),
         ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("lm_head.", "output."))


def draw(rng):
    kind = rng.choice(("llama", "llama", "qwen2", "qwen3"))
    key_heads, head = rng.choice((1, 2, 3, 4)), rng.choice((8, 16, 32, 64, 128))
    heads = key_heads * rng.choice((1, 2, 4))
    own = kind != "qwen2" and rng.random() < 0.6
    rope = {"rope_type": "default", "rope_theta": rng.choice((10000.0, 500000.0, 1000000.0))}
    if kind == "llama" and rng.random() < 0.6:
        rope |= {"rope_type": "llama3", "factor": rng.choice((2.0, 8.0, 32.0)), "low_freq_factor": 1.0,
                 "high_freq_factor": rng.choice((2.0, 4.0)), "original_max_position_embeddings": rng.choice((64, 512))}
    fields = dict(hidden_size=heads * (rng.choice((8, 24, 40)) if own else head), num_hidden_layers=rng.randint(1, 4),
                  num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=head,
                  intermediate_size=rng.randint(16, 600), vocab_size=rng.choice((100, 997, 4096, 5000)),
                  rms_norm_eps=rng.choice((1e-5, 1e-6)), max_position_embeddings=2048, rope_parameters=rope,
                  tie_word_embeddings=rng.random() < 0.5, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    if kind == "qwen2":
        fields.pop("head_dim")
    return kind, fields


def make(kind, fields, seed, bf16):
    config, model = KINDS[kind]
    torch.manual_seed(seed)
    made = model(config(**fields, attn_implementation="eager")).eval()
    for name, p in made.named_parameters():
        scale = 0.25 if "norm" in name else p.shape[-1] ** -0.5 if p.dim() == 2 else 0.3
        p.data = torch.randn(p.shape) * scale + (1 if "norm" in name else 0)
        if "embed" in name:
            p.data = torch.randn(p.shape)
        if bf16:
            p.data = p.data.bfloat16().float()
    made.tie_weights()
    return made


def write_tokenizer(folder):
    vocabulary = {**{chr(c): c - 33 for c in range(33, 127)}, "!!": 94}
    steps = {"type": "ByteLevel", "add_prefix_space": False}
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump({"pre_tokenizer": steps, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}, f)


def write_gguf(path, kind, model, bf16):
    c = model.config
    head = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    w = gguf.GGUFWriter(path, kind)
    w.add_context_length(c.max_position_embeddings)
    w.add_head_count(c.num_attention_heads)
    w.add_key_length(head)
    w.add_layer_norm_rms_eps(c.rms_norm_eps)
    w.add_rope_freq_base(c.rope_parameters["rope_theta"])
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe" if kind == "llama" else "qwen2")
    w.add_token_list([chr(c) for c in range(33, 127)] + ["!!"])
    w.add_token_types([1] * 95)
    w.add_token_merges(["! !"])
    for name, t in model.state_dict().items():
        if name == "lm_head.weight" and c.tie_word_embeddings:
            continue
        short = name.removeprefix("model.")
        for ours, theirs in NAMES:
            short = short.replace(ours, theirs)
        short = "output_norm.weight" if short == "norm.weight" else short
        if kind == "llama" and ("attn_q." in short or "attn_k." in short):
            t = t.reshape(-1, 2, head // 2, t.shape[1]).swapaxes(1, 2).reshape(t.shape)
        data = t.float().contiguous().numpy()
        if bf16 and t.dim() == 2:
            w.add_tensor(short, gguf.quants.quantize(data, gguf.GGMLQuantizationType.BF16),
                         raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            w.add_tensor(short, data)
    rope = c.rope_parameters
    if rope["rope_type"] == "llama3":
        wave = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, head, 2) / head)
        before, low, high = rope["original_max_position_embeddings"], rope["low_freq_factor"], rope["high_freq_factor"]
        smooth = (before / wave - low) / (high - low)
        factors = np.where(wave < before / high, 1, np.where(
            wave > before / low, rope["factor"], 1 / ((1 - smooth) / rope["factor"] + smooth)))
        w.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


@torch.no_grad()
def reference(model, ids):
    """Likelihoods, logits, greedy tokens, and the gap between the two likeliest at each."""
    model = model.double()
    first = model(input_ids=torch.tensor([ids]), use_cache=True)
    logits, cache = first.logits[0], first.past_key_values
    logp = torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), ids[1:]]
    last, greedy, gaps = logits[-1], [], []
    for _ in range(GREEDY):
        top = last.topk(2).values
        gaps.append(float((top[0] - top[1]) / last.abs().max()))
        greedy.append(int(last.argmax()))
        last = model(input_ids=torch.tensor([[greedy[-1]]]), past_key_values=cache, use_cache=True).logits[0, -1]
    return logp.numpy(), logits[-1].numpy(), greedy, gaps


def ours(program, path, backend, piece, ids):
    text = subprocess.run([program, path, backend, "f32", str(piece), str(GREEDY)], check=True, text=True,
                          input=" ".join(map(str, ids)), stdout=subprocess.PIPE).stdout.splitlines()
    return [np.array(line.split(), dtype=float) for line in text]


def distance(y, wanted):
    return float(np.abs(y - wanted).max() / np.abs(wanted).max())


def compare(args, seed, folder):
    rng = random.Random(seed)
    kind, fields = draw(rng)
    bf16, n = rng.random() < 0.4, rng.randint(20, 700)
    model = make(kind, fields, seed, bf16)
    ids = [rng.randrange(fields["vocab_size"]) for _ in range(n)]
    path = os.path.join(folder, "model.gguf")
    saved = copy.deepcopy(model) if bf16 else model  # whose frequencies stay F32
    (saved.bfloat16() if bf16 else saved).save_pretrained(folder, max_shard_size=rng.choice(("300KB", "5GB")))
    write_tokenizer(folder)
    write_gguf(path, kind, model, bf16)
    logp, logits, greedy, gaps = reference(model, ids)
    sure = next((i for i, gap in enumerate(gaps) if gap < GATE), GREEDY)
    worst, same = 0.0, True
    for model_path, piece in ((folder, 0), (folder, rng.choice((1, 16, 100, 128))), (path, 0)):
        got = ours(args.program, model_path, args.backend, piece, ids)
        worst = max(worst, distance(got[0], logp), distance(got[1], logits))
        same = same and got[2].astype(int).tolist()[:sure] == greedy[:sure]
    passed = worst <= GATE and same
    print(f"{'ok' if passed else 'FAILED'}: seed {seed}, {kind}, {n} tokens, {worst:.1e}, {sure} greedy tokens "
          f"{'equal' if same else 'DIFFER'}, {json.dumps(fields)}", flush=True)
    return passed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--cases", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--backend", default="cpu")
    args = p.parse_args()
    failed = 0
    for seed in range(args.seed, args.seed + args.cases):
        with tempfile.TemporaryDirectory() as folder:
            failed += not compare(args, seed, folder)
    print(f"{args.cases - failed} of {args.cases} passed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
