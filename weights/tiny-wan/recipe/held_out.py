"""Print held-out prompts as a prompt set in CSV, grouped by motion: drawn as evaluate.py draws its own, each once.

python3 held_out.py > ../../../prompts/tiny-wan-held-out.csv
"""
import torch

import captions
import world
from runtime import parser


def main():
    args = parser(__doc__, count=(200, "prompts")).parse_args()
    spec = world.draw_spec(2 * args.count, torch.Generator().manual_seed(args.seed + 5), which="test")
    motion = [captions.MOTIONS[m][0] for m in spec["motion"].tolist()]
    rows = list(dict(zip(captions.canonical(spec), motion)).items())[:args.count]
    assert len(rows) == args.count
    print("prompt,group")
    for prompt, group in rows:
        print(f"{prompt},{group}")


if __name__ == "__main__":
    main()
