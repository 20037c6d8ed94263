"""Tries the recipe's parts on any machine: python3 check.py --data work [--folder ..]

Recall draws what it promises; the decoder is transformers' Llama, as written and read again; a folder fits its limits.
"""
import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import torch

from decoder import Decoder, Shape
from recall import ASKED, TEXT, Recall, read


def check_recall(data):
    recall = Recall(read(data / "heldout.u16.xz"), data / "tokenizer.json")
    words = set(recall.words.tolist())
    for seed, (length, share, asks, far) in enumerate(((256, .7, 2, False), (4096, .4, 1, False), (16384, .15, 1, True))):
        ids, kinds = recall.draw(np.random.default_rng(seed), length, share, asks, far)
        assert len(ids) == len(kinds) == length + 1
        told, asked = {}, 0
        records = (kinds != TEXT).nonzero()[0].reshape(-1, 6)
        for record in records:
            line, at, *rest = ids[record].tolist()
            assert line == recall.line and at == recall.at and words.issuperset(rest)
            key, value = tuple(rest[:2]), rest[2:]
            asks_for = kinds[record].tolist()[4:] == [ASKED, ASKED]
            assert asks_for == (key in told), "the first record of a key tells, the others ask"
            assert told.setdefault(key, value) == value
            asked += asks_for
        assert asked == asks * len(told) and abs(len(records) * 6 / length - share) < .1
    again = recall.draw(np.random.default_rng(2), 16384, .15, 1, True)[0]
    assert (again == ids).all(), "a seed gives one sequence"


def check_decoder():
    from transformers import LlamaForCausalLM
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        model = Decoder(Shape(vocab=300, layers=2, ffn=64))
        for p in model.parameters():
            torch.nn.init.normal_(p, std=.1)
        model.save(folder)
        model, other = Decoder.load(folder), LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
        ids = torch.randint(300, (2, 130))
        with torch.no_grad():
            ours, theirs = model.logits(model(ids)).view(2, 130, -1), other(ids).logits
    error = ((ours - theirs).norm() / theirs.norm()).item()
    assert error < 1e-5, error


def check_folder(folder):
    size = sum((folder / name).stat().st_size for name in ("model.safetensors", "tokenizer.json"))
    assert size <= 4 << 20, size
    config, tokenizer = (json.loads((folder / name).read_text()) for name in ("config.json", "tokenizer.json"))
    assert config == Shape().config() and len(tokenizer["model"]["vocab"]) == config["vocab_size"]
    Decoder.load(folder)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--folder", type=Path, help="a trained model")
    args = p.parse_args()
    check_recall(args.data)
    check_decoder()
    if args.folder:
        check_folder(args.folder)
    print("recall, decoder" + (", folder" if args.folder else "") + ": as they should be")


if __name__ == "__main__":
    main()
