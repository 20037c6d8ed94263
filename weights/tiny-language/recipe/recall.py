"""Multi-key recall in real text. A record is a line of its own,

    @ key key value value

of four words, each one token with its space. Every key stands in two records or more: the first tells its value, the others
ask for it, and the value is right where both of its tokens are the likeliest. Keys and values are drawn anew for every
sequence, so that only attention to the first record answers.
"""
import json
import lzma
import re
from pathlib import Path

import numpy as np

RECORD = 6                     # tokens: line break, @, two of the key, two of the value
TEXT, ASKED, TOLD = 0, 1, 2    # kinds of a token: text; value of a record that asks; every other one of a record


def read(path):
    return np.frombuffer(lzma.decompress(Path(path).read_bytes()), "<u2").astype(np.int64)


class Recall:
    """Draws sequences from tokens of text."""

    def __init__(self, tokens, tokenizer):
        vocab = json.loads(Path(tokenizer).read_text())["model"]["vocab"]
        self.tokens = tokens
        self.words = np.array(sorted(i for t, i in vocab.items() if re.fullmatch("\u0120[a-z]{3,}", t)))
        self.line, self.at = vocab["\u010a"], vocab["@"]
        opens = np.zeros(len(vocab), bool)
        opens[[i for t, i in vocab.items() if t.startswith("\u010a")]] = True
        self.opens = opens[tokens]     # a record stands before a token that begins with a line break

    def draw(self, rng, length, share, asks=1, far=False, start=None):
        """ids and kinds of length + 1 tokens, about `share` of them in records; each key is asked for `asks` times.
        far: all records that tell stand before all that ask. start: where the text begins."""
        keys = max(1, int(length * share / RECORD / (1 + asks)))
        records = keys * (1 + asks)
        text = length + 1 - records * RECORD
        if start is None:
            start = rng.integers(len(self.tokens) - text)
        places = np.flatnonzero(self.opens[start:start + text])
        if not len(places):
            places = np.array([0, text])
        places = np.sort(rng.choice(places, records))
        w = len(self.words)
        key = np.unique(rng.integers(w * w, size=keys + keys // 8 + 8))
        key = rng.permutation(key)[:keys]
        value = rng.integers(w, size=(keys, 2))
        if far:
            slots = np.stack([np.arange(keys), *(keys + rng.permutation(keys * asks).reshape(asks, keys))], 1)
        else:
            slots = np.sort(rng.permutation(records).reshape(keys, 1 + asks), 1)
        rows = np.empty((records, RECORD), np.int64)
        kinds = np.full((records, RECORD), TOLD, np.int64)
        whole = np.stack([np.full(keys, self.line), np.full(keys, self.at), self.words[key // w], self.words[key % w],
                          *self.words[value].T], 1)
        rows[slots] = whole[:, None]
        kinds[slots[:, 1:].reshape(-1), 4:] = ASKED
        ids = np.insert(self.tokens[start:start + text], np.repeat(places, RECORD), rows.reshape(-1))
        return ids, np.insert(np.zeros(text, np.int64), np.repeat(places, RECORD), kinds.reshape(-1))

    def batch(self, rng, count, *args, **options):
        """ids, kinds: [count, length + 1] each."""
        return (np.stack(part) for part in zip(*(self.draw(rng, *args, **options) for _ in range(count))))
