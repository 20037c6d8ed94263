#!/usr/bin/env python3
"""Writes language_table.h: what transformers' Llama, Qwen2 and Qwen3 make of tokens by made-up weights.

    python tests/unit/make_language_table.py > tests/unit/language_table.h

For each configuration: the log-likelihoods of a prompt's tokens, the logits behind it, and the greedy tokens that follow.
Numbers are made as in make_t5_table.py. The models run in float64; rotations stay float32, as transformers has them.
Versions: tests/golden/requirements.txt.
"""
import json
import random
import sys

import torch
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

from make_t5_table import made_up, rows

TOKENS, GREEDY, LONGEST, CASES = 24, 64, 96, 24
GAP = 1e-4  # between the two likeliest tokens, of logits: what float32 cannot turn round
KINDS = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM),
         "qwen3": (Qwen3Config, Qwen3ForCausalLM)}


def draw(rng, kind):
    """A configuration, as its config.json has it."""
    key_heads = rng.choice((1, 2, 3))
    heads = key_heads * rng.choice((1, 2, 3))
    head = 2 * rng.randint(2, 6)
    own = kind == "qwen3" or (kind == "llama" and rng.random() < 0.5)
    width = heads * (rng.choice((4, 7, 10)) if own else head)
    rope = {"rope_type": "default", "rope_theta": rng.choice((100.0, 10000.0, 500000.0))}
    if kind == "llama" and rng.random() < 0.6:
        low = rng.choice((1.0, 1.5))
        rope = {**rope, "rope_type": "llama3", "factor": rng.choice((2.0, 8.0)), "low_freq_factor": low,
                "high_freq_factor": low + rng.choice((1.0, 3.0)), "original_max_position_embeddings": rng.choice((16, 40))}
    config = {"model_type": kind, "hidden_size": width, "num_hidden_layers": rng.randint(1, 3),
              "num_attention_heads": heads, "num_key_value_heads": key_heads, "intermediate_size": rng.randint(8, 40),
              "vocab_size": rng.choice((31, 40, 64)), "rms_norm_eps": rng.choice((1e-5, 1e-6)),
              "max_position_embeddings": LONGEST, "tie_word_embeddings": rng.random() < 0.5, "eos_token_id": None,
              "bos_token_id": None}
    if own:
        config["head_dim"] = head
    if rng.random() < 0.5:  # as files of transformers before 5 have it
        config["rope_theta"] = rope.pop("rope_theta")
        if rope["rope_type"] != "default":
            config["rope_scaling"] = rope
    else:
        config["rope_parameters"] = rope
    return config


def model_of(config):
    kind, model_class = KINDS[config["model_type"]]
    fields = {k: v for k, v in config.items() if k not in ("model_type", "rope_theta", "rope_scaling")}
    if "rope_theta" in config:
        fields["rope_parameters"] = {"rope_type": "default", **config.get("rope_scaling", {}),
                                     "rope_theta": config["rope_theta"]}
    model = model_class(kind(**fields, attn_implementation="eager", pad_token_id=None))
    for name, p in model.named_parameters():
        p.data = torch.from_numpy(made_up(name.removeprefix("model."), p.numel())).double().reshape(p.shape)
    model.tie_weights()
    return model.double().eval()


@torch.no_grad()
def run(config):
    model = model_of(config)
    ids = [(i * 7 + 3) % config["vocab_size"] for i in range(TOKENS)]
    logits = model(input_ids=torch.tensor([ids])).logits[0]
    logp = torch.log_softmax(logits, -1)[torch.arange(TOKENS - 1), ids[1:]]
    greedy, gap = [], 1.0
    for _ in range(GREEDY):
        last = model(input_ids=torch.tensor([ids + greedy])).logits[0, -1]
        top = last.topk(2).values
        gap = min(gap, float(top[0] - top[1]))
        greedy.append(int(last.argmax()))
    return logp.tolist(), logits[-1].tolist(), greedy, gap


def main():
    rng, done = random.Random(51), 0
    print("/* language_table.h - made by make_language_table.py. */")
    print("#ifndef SG_LANGUAGE_TABLE_H\n#define SG_LANGUAGE_TABLE_H\n\n#include <stdbool.h>\n#include <stdint.h>\n")
    print(f"enum {{ TABLE_TOKENS = {TOKENS}, TABLE_GREEDY = {GREEDY}, TABLE_VOCAB = 64 }};\n")
    print("typedef struct language_case {\n    const char *config; /* config.json */")
    print("    int         width, layers, heads, key_heads, head_dim, ffn, vocab;")
    print("    bool        tied;\n    double      logp[TABLE_TOKENS - 1], logits[TABLE_VOCAB];")
    print("    int32_t     greedy[TABLE_GREEDY];\n} language_case;\n")
    print("static const language_case language_cases[] = {")
    while done < CASES:
        config = draw(rng, ("llama", "llama", "qwen2", "qwen3")[done % 4])
        logp, logits, greedy, gap = run(config)
        if gap < GAP:
            print(f"{gap:g} between two tokens: another configuration", file=sys.stderr)
            continue
        text = json.dumps({k: v for k, v in config.items() if v is not None}).replace('"', '\\"')
        cut = [text[i:i + 100] for i in range(0, len(text), 100)]
        cut = " ".join(f'"{part}"' for part in fix_escapes(cut))
        head = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
        print(f"    {{{cut},\n     {config['hidden_size']}, {config['num_hidden_layers']}, "
              f"{config['num_attention_heads']}, {config['num_key_value_heads']}, {head}, "
              f"{config['intermediate_size']}, {config['vocab_size']}, {str(config['tie_word_embeddings']).lower()},")
        print("     {\n" + rows(logp, ".9g", 8) + "\n     },\n     {\n" + rows(logits, ".9g", 8) + "\n     },\n     {\n"
              + rows(greedy, "d", 24) + "\n     }},")
        done += 1
    print("};\n\n#endif")


def fix_escapes(parts):
    """No part may end between a backslash and what it escapes."""
    for i in range(len(parts) - 1):
        if parts[i].endswith("\\"):
            parts[i], parts[i + 1] = parts[i][:-1], "\\" + parts[i + 1]
    return parts


if __name__ == "__main__":
    main()
