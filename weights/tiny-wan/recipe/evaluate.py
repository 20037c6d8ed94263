"""Judge an exported folder: held-out prompts through diffusers' own WanPipeline, marked by the judge.

Each of --samplers is STEPS:CFG. Alone or under torchrun; --dtype float32 on a CPU, bfloat16 on a GPU.
"""
import random
import time
from pathlib import Path

import torch
from diffusers import WanPipeline
from diffusers.utils import logging

import captions
import judge
import world
from runtime import Context, parser, picture


@torch.no_grad()
def clips_of(pipe, prompts, seed, args, steps, cfg, context):
    """Generated clips [b, 3, t, h, w] in [-1, 1], on the CPU."""
    generator = torch.Generator(context.device).manual_seed(seed)
    out = pipe(prompts, negative_prompt=[""] * len(prompts), height=args.size, width=args.size,
               num_frames=args.frames, num_inference_steps=steps, guidance_scale=cfg, generator=generator,
               output_type="pt").frames
    out = out.float().cpu()
    assert out.isfinite().all()
    return out.transpose(1, 2) * 2 - 1


def main():
    p = parser(__doc__, folder=("..", "the model folder"), count=(200, "held-out prompts"),
               batch=(8, "prompts at once"), size=(256, "frame size"), frames=(33, "frames"),
               samplers=("12:3", "STEPS:CFG, separated by commas"),
               dtype=("bfloat16", "of the pipeline"), sheet=("", "picture of the first clips"),
               captions=("canonical", "wording: canonical or varied"))
    args = p.parse_args()
    context = Context(args.seed)
    logging.disable_progress_bar()
    pipe = WanPipeline.from_pretrained(Path(args.folder), torch_dtype=getattr(torch, args.dtype)).to(context.device)
    pipe.set_progress_bar_config(disable=True)
    marker = judge.load_judge(args.work / "judge.pt", context.device)
    spec = world.draw_spec(args.count, torch.Generator().manual_seed(args.seed + 5), which="test")
    canonical = args.captions == "canonical"
    prompts = captions.canonical(spec) if canonical else captions.varied(spec, random.Random(args.seed))
    mine = range(context.rank, args.count, context.world)
    for sampler in args.samplers.split(","):
        steps, cfg = int(sampler.split(":")[0]), float(sampler.split(":")[1])
        began, marks, shown = time.time(), {}, []
        for k in range(0, len(mine), args.batch):
            index = list(mine[k:k + args.batch])
            clips = clips_of(pipe, [prompts[i] for i in index], 1000 * args.seed + index[0], args, steps, cfg, context)
            right = judge.verdicts(marker, clips, {a: v[index] for a, v in spec.items()}, context)
            for a, v in right.items():
                marks.setdefault(a, []).append(v)
            shown += list(clips) if len(shown) < 16 else []
            if context.rank == 0 and args.count <= 32:
                for i, v in zip(index, right["all_four"].tolist()):
                    context.log("  right:" if v else "  WRONG:", prompts[i])
        totals = {a: context.total(torch.cat(v).sum()) / args.count for a, v in marks.items()}
        context.log(f"{args.count} held-out {args.captions} prompts, {args.frames}x{args.size}x{args.size}, "
                    f"{steps} steps, CFG {cfg}: " + " ".join(f"{a} {v * 100:.1f}" for a, v in totals.items())
                    + f" ({time.time() - began:.0f} s)")
        if args.sheet and context.rank == 0:
            last = args.frames - 1
            picture(args.sheet, shown[:12], sorted({last * k // 4 for k in range(5)}), max(args.size // 128, 1))
            args.sheet = ""
    context.close()


if __name__ == "__main__":
    main()
