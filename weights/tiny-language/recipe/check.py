"""Tries the recipe's parts on any machine: python3 check.py --data work

Recall draws what it promises; the decoder is transformers' Llama, as written and read again.
"""
import argparse
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


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    check_recall(p.parse_args().data)
    check_decoder()
    print("recall, decoder: as they should be")


if __name__ == "__main__":
    main()
