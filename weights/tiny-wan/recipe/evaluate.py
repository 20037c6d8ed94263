"""Judge an exported folder: the prompts of heldout.py through diffusers' own WanPipeline, marked by the judge.

Each of --samplers is STEPS:CFG; --fast takes the LoRA of distill.py and its steps without guidance instead. Alone or under
torchrun; --dtype float32 on a CPU, bfloat16 on a GPU. --true measures the judge itself on true clips that went through the
folder's autoencoder.
"""
import random
import time
from pathlib import Path

import torch
from diffusers import FlowMatchEulerDiscreteScheduler, UniPCMultistepScheduler, WanPipeline
from diffusers.utils import logging
from safetensors.torch import load_file

import captions
import distill
import heldout
import judge
import onepass
from runtime import Context, parser, picture


@torch.no_grad()
def clips_of(pipe, prompts, seed, args, steps, cfg, context):
    """Generated clips [b, 3, t, h, w] in [-1, 1], on the CPU."""
    width, height = map(int, args.size.split("x"))
    generator = torch.Generator(context.device).manual_seed(seed)
    out = pipe(prompts, negative_prompt=[""] * len(prompts), height=height, width=width,
               num_frames=args.frames, num_inference_steps=steps, guidance_scale=cfg, generator=generator,
               output_type="pt").frames
    out = out.float().cpu()
    assert out.isfinite().all()
    return out.transpose(1, 2) * 2 - 1


def make_fast(pipe, path):
    """Merges a LoRA of distill.py into the pipeline and has it take the LoRA's steps; as one of --samplers."""
    factors = load_file(path)
    with torch.no_grad():
        for name in factors:
            if name.endswith(".lora_A.weight"):
                stem = name.removesuffix(".lora_A.weight")
                a, b = (factors[f"{stem}.lora_{k}.weight"].float() for k in "AB")
                weight = pipe.transformer.get_parameter(stem.removeprefix("transformer.") + ".weight")
                weight.copy_((weight.float().cpu() + b @ a).to(weight))
    pipe.scheduler = FlowMatchEulerDiscreteScheduler(shift=1.)
    stepped = pipe.scheduler.set_timesteps
    pipe.scheduler.set_timesteps = lambda count, device: stepped(sigmas=list(distill.SIGMAS[:-1]), device=device)
    return f"{len(distill.SIGMAS) - 1}:1"


def mark(pipe, marker, sampler, args, context):
    """Marks of one sampler over all prompts of the kind, spread over the processes; one line of shares."""
    steps, cfg = int(sampler.split(":")[0]), float(sampler.split(":")[1])
    spec = heldout.specs(args.kind, args.count)
    prompts = captions.varied(spec, random.Random(args.seed)) if args.varied else captions.canonical(spec)
    mine, began, marks, shown = range(context.rank, args.count, context.world), time.time(), {}, []
    for k in range(0, len(mine), args.batch):
        index = list(mine[k:k + args.batch])
        clips = clips_of(pipe, [prompts[i] for i in index], 1000 * args.seed + index[0], args, steps, cfg, context)
        for a, v in judge.verdicts(marker, clips, {a: v[index] for a, v in spec.items()}, context).items():
            marks.setdefault(a, []).append(v)
        shown += list(clips) if len(shown) < args.shown else []
        if context.rank == 0 and args.count <= 32:
            told = judge.verdicts(marker, clips, {a: v[index] for a, v in spec.items()}, context)
            for i, v, n in zip(index, told["bound" if args.kind == "double" else "all_four"], told["count"]):
                context.log("  right:" if v * n else "  WRONG:", prompts[i])
    totals = {a: context.total(torch.cat(v).sum()) / args.count for a, v in marks.items()}
    context.log(f"{args.count} {args.kind} prompts{', varied' * args.varied}, {args.size}x{args.frames},",
                f"{steps} steps, CFG {cfg}, shift {args.shift}:",
                " ".join(f"{a} {v * 100:.1f}" for a, v in totals.items()) + f" ({time.time() - began:.0f} s)")
    return shown


def main():
    p = parser(__doc__, folder=("..", "the model folder"), count=(400, "prompts"), kind=("single", "or double"),
               batch=(8, "prompts at once"), size=("256x256", "width x height"), frames=(33, "frames"),
               samplers=("12:3", "STEPS:CFG, separated by commas"), shift=(0., "flow shift of the sigmas; 0: the folder's"),
               dtype=("bfloat16", "of the pipeline"), sheet=("", "picture of the first clips"),
               shown=(40, "clips in the picture"), true=(0, "true clips through the autoencoder"),
               true_sizes=("128,256", "their sides"))
    p.add_argument("--fast", type=Path, help="the LoRA of distill.py")
    p.add_argument("--varied", action="store_true", help="free wording instead of the canonical one")
    args = p.parse_args()
    context = Context(args.seed)
    logging.disable_progress_bar()
    pipe = WanPipeline.from_pretrained(Path(args.folder), torch_dtype=getattr(torch, args.dtype)).to(context.device)
    pipe.set_progress_bar_config(disable=True)
    args.shift = args.shift or pipe.scheduler.config.flow_shift
    pipe.scheduler = UniPCMultistepScheduler.from_config(pipe.scheduler.config, flow_shift=args.shift)
    if args.fast:
        args.samplers = make_fast(pipe, args.fast)
    marker = judge.load_judge(args.work / "judge.pt", context.device)
    if args.true:
        @torch.no_grad()
        def through(clip):
            z = onepass.encode(pipe.vae, clip.to(pipe.vae.dtype)).chunk(2, 1)[0]
            return onepass.decode(pipe.vae, z).float().clamp(-1, 1)
        judge.report(marker, args.true, context, through, "true clips through the autoencoder",
                     map(int, args.true_sizes.split(",")))
    for sampler in args.samplers.split(",") if args.samplers else []:
        shown = mark(pipe, marker, sampler, args, context)
        if args.sheet and context.rank == 0:
            width, last = int(args.size.split("x")[0]), args.frames - 1
            columns = 4 if args.shown > 10 else 1
            picture(args.sheet, shown[:args.shown], sorted({last * k // 2 for k in range(3)}), max(width // 128, 1),
                    columns)
            args.sheet = ""
    context.close()


if __name__ == "__main__":
    main()
