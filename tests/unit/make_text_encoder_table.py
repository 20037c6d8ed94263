#!/usr/bin/env python3
"""Writes text_encoder_table.h: what transformers' Llama and CLIP make of tokens by made-up weights.

    python tests/unit/make_text_encoder_table.py > tests/unit/text_encoder_table.h

Numbers are made as in make_t5_table.py. The encoders run in float64; rotations stay float32, as transformers has them.
Versions: tests/golden/requirements.txt.
"""
import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, LlamaConfig, LlamaModel

from make_t5_table import made_up, rows

TOKENS, VOCAB, LLAMA_WIDTH, CLIP_WIDTH, PROJECTED = 19, 23, 12, 12, 7
LLAMA = dict(hidden_size=LLAMA_WIDTH, num_hidden_layers=3, intermediate_size=14, vocab_size=VOCAB, rms_norm_eps=1e-5,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA_CASES = (  # heads of queries, of keys, their size, rotation, layers left out
    (4, 2, 6, dict(rope_type="default", rope_theta=500.0), 0),
    (3, 1, 8, dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=3.0,
                   original_max_position_embeddings=16), 2),
)
CLIP = dict(hidden_size=CLIP_WIDTH, num_attention_heads=3, num_hidden_layers=3, intermediate_size=20, vocab_size=VOCAB,
            max_position_embeddings=TOKENS + 2, projection_dim=PROJECTED, bos_token_id=None, pad_token_id=None)
CLIP_CASES = (  # activation, eos_token_id, with a projection, layers left out
    ("quick_gelu", 2, False, 0),
    ("gelu", 14, True, 1),
    ("gelu", 3, False, 2),
)


def ids():
    return torch.tensor([[i * 7 % VOCAB for i in range(TOKENS)]])


def filled(model):
    for name, p in model.named_parameters():
        p.data = torch.from_numpy(made_up(name.removeprefix("text_model."), p.numel())).double().reshape(p.shape)
    return model.double().eval()


def llama(heads, key_heads, size, rope, skip):
    model = filled(LlamaModel(LlamaConfig(num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=size,
                                          rope_parameters=rope, **LLAMA)))
    with torch.no_grad():
        return model(input_ids=ids(), output_hidden_states=True).hidden_states[-1 - skip][0]


def clip(act, eos, projected, skip):
    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    model = filled(kind(CLIPTextConfig(hidden_act=act, eos_token_id=eos, **CLIP)))
    with torch.no_grad():
        y = model(input_ids=ids(), output_hidden_states=True)
    states = y.hidden_states[-1 - skip] if skip else y.last_hidden_state
    row = y.text_embeds if projected else y.pooler_output
    return torch.cat([states[0].flatten(), row[0]])


def table(name, cases, numbers):
    print(f"static const double {name}[][{numbers}] = {{")
    for case in cases:
        values = case.flatten().tolist()
        print("    {\n" + rows(values, ".9g", 8) + "\n    },")
    print("};\n")


def main():
    print("/* text_encoder_table.h - made by make_text_encoder_table.py. */")
    print("#ifndef SG_TEXT_ENCODER_TABLE_H\n#define SG_TEXT_ENCODER_TABLE_H\n")
    print(f"enum {{ TABLE_TOKENS = {TOKENS}, TABLE_VOCAB = {VOCAB}, LLAMA_WIDTH = {LLAMA_WIDTH}, "
          f"CLIP_WIDTH = {CLIP_WIDTH}, PROJECTED = {PROJECTED} }};\n")
    table("table_llama", [llama(*case) for case in LLAMA_CASES], "TABLE_TOKENS * LLAMA_WIDTH")
    print("/* The states, then the row. */")
    table("table_clip", [clip(*case) for case in CLIP_CASES], "TABLE_TOKENS * CLIP_WIDTH + CLIP_WIDTH")
    print("#endif")


if __name__ == "__main__":
    main()
