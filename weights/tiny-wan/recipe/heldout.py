"""The prompts that the model is judged by: python3 heldout.py writes them into the folder prompts/.

single: one object, each prompt with at least one pair of attributes that no training clip showed; double: two
objects of different shapes, without such pairs. All with a still camera and in the canonical wording.
"""
from pathlib import Path

import torch

import captions
import world

FOLDER = Path(__file__).resolve().parents[3] / "prompts"


def specs(kind, count):
    """The first prompts of a kind as int tensors; the order is that of the files."""
    generator = torch.Generator().manual_seed(5)
    if kind == "single":
        return world.draw_spec(count, generator, which="test", pairs=0., moving_camera=0.)
    spec = world.draw_spec(2 * count + 64, generator, pairs=1., moving_camera=0.)
    keep = (spec["shape"] != spec["shape2"]).nonzero()[:count, 0]
    return {k: v[keep] for k, v in spec.items()}


def texts():
    """File names and what is in them."""
    pairs = [f"{va} + {vb}" for _, va, _, vb in captions.HELD_OUT]
    return {"tiny-wan-held-out-pairs.txt": pairs, "tiny-wan-single.txt": captions.canonical(specs("single", 400)),
            "tiny-wan-double.txt": captions.canonical(specs("double", 200))}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, lines in texts().items():
        (FOLDER / name).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
