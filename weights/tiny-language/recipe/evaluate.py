"""Held-out figures with exact attention: python3 evaluate.py --data work --models work/seed0 work/seed1

Perplexity over the held-out text, recall at several lengths (every key is told in the first half of the records and asked for
in the second), and of two models how far they agree. --write FILE.jsonl writes the same sequences for other programs instead,
a JSON object a line: "group", "ids" (tokens), "text" (what they decode to, if the package tokenizers finds the same ids in it), and
"asked" (places of value tokens in ids; recall is right where both of a pair are the likeliest given all before them).
"""
import argparse
import json
import math
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from decoder import Decoder
from recall import ASKED, Recall, read

SHARE, SEED = .15, 1000     # of tokens in records; of the held-out draws


def text_windows(tokens, length, most):
    """Neighbouring windows of length + 1 tokens, each beginning with the last token of the one before."""
    return [tokens[i:i + length + 1] for i in range(0, min(most, len(tokens) - 1) - length + 1, length)]


def recall_sequences(recall, length, queries):
    """Yields ids and places of asked tokens until there are enough queries; the text goes on from sequence to sequence."""
    rng, start = np.random.default_rng((SEED, length)), 0
    while queries > 0:
        start = start if start + length < len(recall.tokens) else 0
        ids, kinds = recall.draw(rng, length, SHARE, far=True, start=start)
        asked = np.flatnonzero(kinds == ASKED)
        yield ids, asked
        start, queries = start + length, queries - len(asked) // 2


def write(path, args, recall):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(args.data / "tokenizer.json"))
    rows = [("text", n, ids, []) for n in args.lengths[-1:] for ids in text_windows(recall.tokens, n, args.text)]
    rows += [("recall", n, *pair) for n in args.lengths for pair in recall_sequences(recall, n, args.queries)]
    with open(path, "w") as file:
        for kind, length, ids, asked in rows:
            text = tokenizer.decode(ids.tolist(), skip_special_tokens=False)
            row = dict(group=f"{kind} {length}", ids=ids.tolist(), asked=[int(i) for i in asked])
            if tokenizer.encode(text).ids == row["ids"]:
                row["text"] = text
            file.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(f"{path}: {len(rows)} sequences")


def pieces(model, ids, device, rows=16384):
    """Yields logits [rows, vocab] and their targets of one sequence."""
    ids = torch.from_numpy(ids).to(device)
    with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
        hidden = model(ids[None, :-1])
        for i in range(0, len(hidden), rows):
            yield model.logits(hidden[i:i + rows]), ids[1 + i:1 + i + rows]


@torch.no_grad()
def text_figures(models, windows, device):
    """Perplexity of each model; of two, the mean KL of the second from the first and how often their likeliest agree."""
    loss, kl, agree, count = torch.zeros(len(models), dtype=torch.float64), 0.0, 0.0, 0
    for window in windows:
        for each in zip(*(pieces(model, window, device) for model in models)):
            for m, (logits, target) in enumerate(each):
                loss[m] += F.cross_entropy(logits, target, reduction="sum").item()
            count += len(each[0][1])
            if len(models) == 2:
                p, q = (F.log_softmax(logits, -1) for logits, _ in each)
                kl += (p.exp() * (p - q)).sum().item()
                agree += (p.argmax(-1) == q.argmax(-1)).sum().item()
    figures = dict(tokens=count, perplexity=[math.exp(x) for x in (loss / count).tolist()])
    return figures | (dict(kl=kl / count, agree=agree / count) if len(models) == 2 else {})


@torch.no_grad()
def recall_figures(model, recall, length, queries, device):
    """Share of queries of which both tokens are right, its Wilson interval of 95 %."""
    right = []
    for ids, asked in recall_sequences(recall, length, queries):
        logits = torch.cat([part.argmax(-1) == target for part, target in pieces(model, ids, device)])
        right.append(logits[torch.from_numpy(asked - 1).to(device)].view(-1, 2).all(-1).cpu())
    right = torch.cat(right).double()
    n, p, z = len(right), right.mean().item(), 1.96
    middle, half = (p + z * z / 2 / n) / (1 + z * z / n), z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / 4 / n / n)
    return dict(queries=n, right=p, interval=[middle - half, middle + half])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--models", type=Path, nargs="*", default=[])
    p.add_argument("--lengths", type=int, nargs="+", default=[4096, 16384, 32768, 65536])
    p.add_argument("--queries", type=int, default=2000, help="at least so many a length")
    p.add_argument("--text", type=int, default=1 << 20, help="tokens of text")
    p.add_argument("--write", type=Path)
    p.add_argument("--out", type=Path, help="figures as JSON")
    args = p.parse_args()
    recall = Recall(read(args.data / "heldout.u16.xz"), args.data / "tokenizer.json")
    if args.write:
        write(args.write, args, recall)
    if not args.models:
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    models = [Decoder.load(folder, device) for folder in args.models]
    figures = dict(models=[folder.name for folder in args.models])
    windows = text_windows(recall.tokens, args.lengths[-1], args.text)
    figures["text"] = text_figures(models, windows, device)
    print(json.dumps(figures), flush=True)
    for length in args.lengths:
        figures[f"recall {length}"] = [recall_figures(model, recall, length, args.queries, device) for model in models]
        print(json.dumps({f"recall {length}": figures[f"recall {length}"]}), flush=True)
    if args.out:
        args.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
