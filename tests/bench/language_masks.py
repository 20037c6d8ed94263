"""What a language model's texts lose with block masks of fixed density: those that an oracle would choose, which knows the mass of
each block, and sink + window. `sparge-gen language FILE.jsonl` has the figures of sparge beside which these stand.

python3 tests/bench/language_masks.py FILE.jsonl -m weights/tiny-language --density .2 .3 .5
FILE.jsonl has "ids", "asked" and "group" (weights/tiny-language/recipe/evaluate.py --write). A block of 128 queries keeps the
share of its visible blocks of 64 keys, rounded down, 1 at least, and those on the diagonal.
"""
import argparse
import collections
import json
import math

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, AutoModelForCausalLM

BLOCK_Q, BLOCK_K, ROWS = 128, 64, 2048
CHOICE, SHARE = "dense", 1.0


def keep(mass, first, n):
    """Which blocks a strip of queries from `first` on keeps: mass [heads, strips, blocks] -> the same of booleans."""
    strip = first // BLOCK_Q + torch.arange(mass.shape[1], device=mass.device)[:, None]
    block = torch.arange(mass.shape[2], device=mass.device)[None]
    end = torch.clamp((strip + 1) * BLOCK_Q, max=n)
    visible = (end + BLOCK_K - 1) // BLOCK_K
    count = torch.clamp((SHARE * visible).floor().long(), min=1)
    diagonal = (block >= (strip * BLOCK_Q + 1) // BLOCK_K) & (block < visible)
    if CHOICE == "window":
        return ((block == 0) | ((block > visible - count) & (block < visible)) | diagonal)[None].expand_as(mass)
    order = mass.masked_fill(block >= visible, -1).argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    return ((order < count) & (block < visible)) | diagonal


def attend(module, query, key, value, attention_mask=None, scaling=None, dropout=0.0, **_):
    """Causal attention [1, heads, n, d] by the blocks that CHOICE keeps."""
    groups, n = query.shape[1] // key.shape[1], query.shape[2]
    if CHOICE == "dense":
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=True)
        return y.transpose(1, 2).contiguous(), None
    k, v = (x.repeat_interleave(groups, 1)[0].float() for x in (key, value))
    blocks = -(-n // BLOCK_K)
    out = torch.empty_like(query[0], dtype=torch.float32)
    for first in range(0, n, ROWS):
        q = query[0, :, first:first + ROWS].float()
        rows = first + torch.arange(q.shape[1], device=q.device)
        p = q @ k.transpose(1, 2) * scaling
        p = p.masked_fill(torch.arange(n, device=q.device)[None] > rows[:, None], -math.inf)
        mass = F.pad(p.softmax(-1), (0, blocks * BLOCK_K - n, 0, -q.shape[1] % BLOCK_Q))
        mass = mass.unflatten(2, (blocks, BLOCK_K)).sum(3).unflatten(1, (-1, BLOCK_Q)).sum(2)
        kept = keep(mass, first, n).repeat_interleave(BLOCK_K, 2)[:, :, :n].repeat_interleave(BLOCK_Q, 1)[:, :q.shape[1]]
        out[:, first:first + ROWS] = p.masked_fill(~kept, -math.inf).softmax(-1) @ v
    return out.to(query.dtype).transpose(0, 1)[None], None


@torch.inference_mode()
def read(model, row):
    """Nats and tokens of a text, or right answers and how many; of an answer all tokens have to be the likeliest."""
    ids, asked = torch.tensor(row["ids"], device=model.device), row["asked"]
    states = model.model(input_ids=ids[None]).last_hidden_state[0]
    if not asked:
        nats = sum(F.cross_entropy(model.lm_head(states[i:i + ROWS]).float()[:len(ids) - 1 - i], ids[i + 1:i + 1 + ROWS], reduction="sum").item()
                   for i in range(0, len(ids) - 1, ROWS))
        return nats, len(ids) - 1
    place = torch.tensor(asked, device=ids.device)
    right = (model.lm_head(states[place - 1]).argmax(-1) == ids[place]).tolist()
    answers = []
    for i, ok in zip(asked, right):
        answers = answers[:-1] + [(i, answers[-1][1] and ok)] if answers and answers[-1][0] == i - 1 else answers + [(i, ok)]
    return sum(ok for _, ok in answers), len(answers)


def main():
    global CHOICE, SHARE
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--density", type=float, nargs="+", default=[.2, .3, .5])
    p.add_argument("--texts", type=int, default=1 << 30, help="of each group at most")
    args = p.parse_args()
    AttentionInterface.register("blocks", attend)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.bfloat16 if device == "cuda" else torch.float32, attn_implementation="blocks").to(device).eval()
    rows, seen = [json.loads(line) for line in open(args.file, encoding="utf-8")], collections.Counter()
    rows = [row for row in rows if seen.update([row["group"]]) or seen[row["group"]] <= args.texts]
    for choice, share in [("dense", 1.0)] + [(c, d) for c in ("oracle", "window") for d in args.density]:
        CHOICE, SHARE, sums = choice, share, {}
        for row in rows:
            a, b = sums.get(row["group"], (0, 0))
            x, y = read(model, row)
            sums[row["group"]] = a + x, b + y
        print(choice, share, {g: round(math.exp(a / b), 3) if g.startswith("text") else round(a / b, 4) for g, (a, b) in sums.items()}, flush=True)


if __name__ == "__main__":
    main()
