"""The prompts that the model is judged and tuned by: python3 heldout.py writes them into the folder prompts/.

single: one object, each prompt with at least one pair of attributes that no training clip showed; double: two
objects of different shapes, without such pairs. All with a still camera, in the canonical wording, each once.
"""
from pathlib import Path

import torch

import captions
import world

FOLDER = Path(__file__).resolve().parents[3] / "prompts"
COUNT = dict(single=400, double=200)


def taken(spec, index):
    return {k: v[index] for k, v in spec.items()}


def specs(kind, count):
    """The first prompts of a kind as int tensors, in the order of the files."""
    generator, drawn = torch.Generator().manual_seed(5), 2 * COUNT[kind] + 64
    if kind == "single":
        spec = world.draw_spec(drawn, generator, which="test", pairs=0., moving_camera=0.)
    else:
        spec = world.draw_spec(drawn, generator, pairs=1., moving_camera=0.)
        spec = taken(spec, (spec["shape"] != spec["shape2"]).nonzero()[:, 0])
    first = {}
    for k, text in enumerate(captions.canonical(spec)):
        first.setdefault(text, k)
    return taken(spec, list(first.values())[:COUNT[kind]][:count])


def for_tuning():
    """Twelve captions of what training shows, every background and motion among them."""
    spec = world.draw_spec(4000, torch.Generator().manual_seed(6), pairs=.25, moving_camera=.25)

    def first(k):
        fits = [spec[a] == k % world.COUNTS[a] for a in ("background", "motion")]
        return (fits[0] & fits[1]).nonzero()[0, 0].item()
    return captions.canonical(taken(spec, [first(k) for k in range(12)]))


def grouped(kind):
    """A set in CSV: single by motion, double by whether both do the same."""
    spec = specs(kind, COUNT[kind])
    motions = captions.names("motion")
    groups = [motions[m] if kind == "single" else "one motion" if m == n else "two motions"
              for m, n in zip(spec["motion"].tolist(), spec["motion2"].tolist())]
    return ["prompt,group"] + [f"{text},{group}" for text, group in zip(captions.canonical(spec), groups)]


def texts():
    """File names and what is in them."""
    pairs = [f"{va} + {vb}" for _, va, _, vb in captions.HELD_OUT]
    return {"tiny-wan-held-out-pairs.txt": pairs, "tiny-wan-held-out.csv": grouped("single"),
            "tiny-wan-two-objects.csv": grouped("double"), "tiny-wan-tune.txt": for_tuning()}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, lines in texts().items():
        (FOLDER / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
