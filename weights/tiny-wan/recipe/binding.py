"""Who has what: keeps the text encoder from becoming a bag of words.

Only the places of words tell "a red ball and a blue cube" from "a blue ball and a red cube", and the flow's loss hardly
asks for them. So linear heads, which no export has, read each object's attributes off its own words.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

import captions
import world

SIDES = ("alone", "left", "right")
COUNTS = {**{k: world.COUNTS[k] for k in ("size", "colour", "shape", "motion")}, "side": len(SIDES)}
MOST_Q, MOST_K = .016, .125              # root mean squares of the weights: twice as large as they start at width 256


def attributes(spec):
    """What the heads must tell: [b, 2 objects, len(COUNTS)]."""
    spec = dict(spec, side=spec["second"], side2=torch.full_like(spec["second"], SIDES.index("right")))
    return torch.stack([torch.stack([spec[k + suffix] for k in COUNTS], 1) for suffix in ("", "2")], 1)


class Binding(nn.Module):
    """Linear heads on the states at each shape's word and at the word before it, mostly the colour."""

    def __init__(self, tokenizer, width):
        super().__init__()
        self.heads = nn.Linear(width, sum(COUNTS.values()))
        self.names_shape = torch.zeros(len(tokenizer), dtype=torch.bool)
        self.names_shape[[tokenizer.model.piece_to_id("▁" + word) for word in sum(captions.SHAPES, [])]] = True

    def forward(self, states, ids, told):
        """Mean cross entropy. states [b, >= l, width]; ids [b, l] and told, as attributes gives it, on the CPU."""
        shape = self.names_shape[ids]
        row, column = (shape | F.pad(shape[:, 1:], (0, 1))).nonzero(as_tuple=True)
        before = (shape.cumsum(1) - shape.long())[row, column]            # a caption names the left object first
        target = told[row, before.clamp(max=1)].to(states.device)
        logits = self.heads(states[row.to(states.device), column.to(states.device)].float())
        losses = [F.cross_entropy(x, y, reduction="sum")
                  for x, y in zip(logits.split(list(COUNTS.values()), 1), target.unbind(1))]
        return sum(losses) / max(len(COUNTS) * len(row), 1)


@torch.no_grad()
def bound_scores(encoder):
    """Keep the queries and keys of a UMT5 encoder small.

    Its scores have no 1 / sqrt(width), so Muon's equal steps drive them to hundreds: each word then looks at one kind
    of word alone, and neither the bias by distance nor any gradient counts.
    """
    for block in encoder.encoder.block:
        attention = block.layer[0].SelfAttention
        for weight, most in ((attention.q.weight, MOST_Q), (attention.k.weight, MOST_K)):
            weight.mul_((most / weight.square().mean().sqrt()).clamp(max=1))
