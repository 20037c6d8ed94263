"""Stage: a LoRA with which the denoiser goes on from a picture, as Wan 2.2's TI2V-5B does.

The first frame of the latents is the picture's, without noise, and its tokens have timestep 0; the others are denoised.
Clips are drawn as for the denoiser. Some begin in the middle of what happens, since a picture may show any moment, and
some captions tell the motion alone, since the picture shows the rest.
Marks, where work/judge.pt is there: pictures of prompts that no training clip showed, as a sheet and as image.json.
Run by train.py, on one GPU; goes on from what an interrupted run left in the work folder.
"""
import contextlib
import json
import random
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from diffusers import UniPCMultistepScheduler
from safetensors.torch import load_file

import captions
import denoiser
import distill
import heldout
import judge
import onepass
import world
from runtime import Budget, Context, load, parser, picture, psnr

STARTED = time.time()
LEADS = (0, 0, 0, 16, 32)                        # frames before a clip
TERSE = .2                                       # share of captions that tell the motion alone

# Marks: what is asked for of how many prompts. moment: the picture is of any moment, not of the clip's beginning; terse:
# the prompt is the motion; true: drawn clips, to know the judge's own errors; steps and guidance, or the four steps with the LoRA of distill.py; plain: no LoRA of ours.
SETS = dict(
    default=dict(count=200), terse=dict(count=100, terse=True), fast=dict(count=200, fast=True),
    true=dict(count=200, true_clips=True), small=dict(count=100, size=(128, 128)), moment=dict(count=100, moment=True),
    plain=dict(count=40, plain=True), unguided=dict(count=100, guidance=1.), double=dict(count=80, kind="double"),
    few=dict(count=80, steps=8), wide=dict(count=32, size=(256, 448)), large=dict(count=30, size=(512, 512)),
    long=dict(count=32, frames=65))


def told(spec, rng):
    """Training captions, of which some tell the motion alone."""
    texts = captions.varied(spec, rng)
    for k, row in enumerate(captions.rows(spec)):
        if not row["second"] and rng.random() < TERSE:
            camera = captions.CAMERAS[row["camera"]][0]
            texts[k] = rng.choice(("", "it is ")) + captions.phrase_of(rng.choice(captions.MOTIONS[row["motion"]]))
            texts[k] += f", {camera}" if camera else ""
    return texts


def velocity(model, first, x, levels, text, context):
    """The model's for latents x at these noise levels, whose first frame is the picture's."""
    x = torch.cat((first, x[:, :, 1:]), 2)
    noisy = torch.ones(x.shape[2], device=x.device)
    noisy[0] = 0
    steps = (1000 * levels[:, None] * noisy).repeat_interleave(x.shape[3] // 2 * (x.shape[4] // 2), 1)
    with context.autocast():
        return model(x, steps, text, return_dict=False)[0].float()


class Trainer(distill.Adaptation):
    def __init__(self, args, context):
        super().__init__(args, context)
        self.latents = denoiser.Latents(load(args.work / "vae.pt"), context)
        self.rng = random.Random(args.seed + 51 + self.step)
        self.nothing = self.tokenizer([""])

    def pools(self):
        """By clip shape; one frame alone has nothing to learn."""
        generator = torch.Generator(self.context.device).manual_seed(self.args.seed + 52)
        pools = {}
        for shape, plan in denoiser.plans(self.args).items():
            if shape[2] > 1:
                pools[shape] = denoiser.Pool(self.latents, self.tokenizer, generator, self.rng, shape, plan,
                                             self.args.pairs, told, LEADS if shape[2] == 33 else (0,))
                pools[shape].add(max(plan.capacity // 4, plan.chunk))
        return pools

    def take(self, pool, rate):
        x, ids, _, mask = pool.draw()
        ids = torch.where(torch.rand(len(x))[:, None] < .1, self.nothing, ids)
        with torch.no_grad():
            text = denoiser.encode_text(self.encoder, ids, self.context).float()
        levels = denoiser.noise_levels(len(x), pool.shape, x.device, self.args.large_shift)
        s, noise = levels.view(-1, 1, 1, 1, 1), torch.randn_like(x)
        out = velocity(self.student, x[:, :, :1], (1 - s) * x + s * noise, levels, text, self.context)
        weight = 1 + self.args.object_weight * mask[:, :, 1:]
        loss = ((out - (noise - x))[:, :, 1:] ** 2 * (weight / weight.mean())).mean()
        loss.backward()
        self.learn(rate)
        return loss.detach()


def train(trainer, args, context):
    began, pools = time.time(), trainer.pools()
    context.log(f"image: pools filled in {time.time() - began:.0f} s")
    compiled = list(pools)[:2]
    warm_up, usual = [k for k in compiled for _ in range(3)], compiled[1]
    seconds = 60 * args.minutes - args.marks if args.minutes else args.seconds
    budget, saved, lossy, counts = Budget(context, seconds), time.time(), [], dict.fromkeys(pools, 0)
    began = time.time()
    while True:
        if len(warm_up) == trainer.step:
            context.log(f"image: first steps (compilation) {time.time() - began:.0f} s")
            if args.minutes:
                budget.seconds -= time.time() - STARTED
            budget.start()
        progress = budget.progress(trainer.step)
        if progress >= 1 or (args.minutes and time.time() - STARTED > seconds):
            break
        shape = denoiser.schedule(trainer.step, progress, args)
        shape = warm_up[trainer.step] if trainer.step < len(warm_up) else shape if shape in pools else usual
        if trainer.step >= len(warm_up) and counts[shape] % 16 == 15:
            pools[shape].add(pools[shape].refresh)
        # Only the usual shapes are worth their compilation.
        eager = args.compile and shape not in compiled
        with torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext():
            loss = trainer.take(pools[shape], min(1., (1 - progress) / .5 + .004))
        counts[shape] += 1
        lossy += [loss] if shape == usual else []
        if trainer.step % 100 == 0 and lossy:
            context.log(f"image: step {trainer.step}, {budget.spent():.0f} s, loss of the last {len(lossy)} at "
                        f"{usual[1]}x{usual[0]} {torch.stack(lossy).mean().item():.4f}")
            lossy = []
        if time.time() - saved > args.save_every:
            saved = time.time()
            trainer.save(args.unfinished)
    trainer.save(args.product)
    args.unfinished.unlink(missing_ok=True)
    made = ", ".join(f"{counts[k]} of {p.batch} at {k[1]}x{k[0]}x{k[2]} ({p.made} drawn)" for k, p in pools.items())
    context.log(f"image: {trainer.step} steps, {budget.spent():.0f} s: {made}")


@torch.no_grad()
def clips_from(trainer, pictures, texts, frames, noise, context, steps=12, guidance=3., fast=False):
    """Clips [b, 3, t, h, w] in [-1, 1] that begin with the pictures [b, 3, 1, h, w]."""
    model, latents = trainer.student, trainer.latents
    first, text = latents.encode(pictures), trainer.encoded(texts)
    nothing = trainer.encoded([""]).expand_as(text)
    x = torch.randn(*first.shape[:2], (frames - 1) // 4 + 1, *first.shape[3:], generator=noise, device=first.device)
    if fast:
        for s, after in zip(distill.SIGMAS, distill.SIGMAS[1:]):
            levels = torch.full((len(x),), s, device=x.device)
            x = x + (after - s) * velocity(model, first, x, levels, text, context)
    else:
        scheduler = UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                            flow_shift=distill.FLOW_SHIFT)
        scheduler.set_timesteps(steps, device=x.device)
        for t in scheduler.timesteps:
            levels = (t / 1000.).repeat(len(x))
            v = velocity(model, first, x, levels, text, context)
            if guidance != 1:
                untold = velocity(model, first, x, levels, nothing, context)
                v = untold + guidance * (v - untold)
            x = scheduler.step(v, t, x).prev_sample
    x = torch.cat((first, x[:, :, 1:]), 2) * latents.std + latents.mean
    dtype = latents.vae.quant_conv.weight.dtype
    out = torch.cat([onepass.decode(latents.vae, part.to(dtype)).float().cpu() for part in x.split(8)])
    assert out.isfinite().all()
    return out.clamp(-1, 1)


def goes_on(marker, clips, true, context):
    """Whether clips go on from their first frame, 0 or 1 each. start: the object of the second frame is where that of the
    first is, and as large; scene: all frames show what the first does, as much as true clips of more than one frame do.
    """
    with context.autocast():
        pair = judge.seen(clips.to(context.device))[:, :, :1], F.adaptive_avg_pool3d(
            clips[:, :, 1:2].to(context.device), (None, judge.SIZE, judge.SIZE))
        marked = marker.finder(torch.cat(pair, 2).transpose(1, 2).flatten(0, 1).float())[:, 0].float().cpu() > 0
    marked = marked.float().unflatten(0, (-1, 2))                                     # [b, 2, 64, 64]
    area, grid = marked.sum((2, 3)).clamp(min=1), torch.linspace(0, 1, marked.shape[-1])
    x, y = (marked * grid).sum((2, 3)) / area, (marked * grid[:, None]).sum((2, 3)) / area
    moved, grown = ((x[:, 1] - x[:, 0]) ** 2 + (y[:, 1] - y[:, 0]) ** 2).sqrt(), area[:, 1] / area[:, 0]
    found = dict(start=((moved < .15) & (grown > .5) & (grown < 2)).float())
    if true.shape[2] > 1:
        def changed(clip):                       # what all but the fifth of the pixels that changes most stays below
            change = (clip[:, :, 1:, ::4, ::4].float() - clip[:, :, :1, ::4, ::4].float()).abs().mean(1)
            return change.flatten(1).quantile(.8, 1).cpu()
        found["scene"] = (changed(clips) < changed(true) + .05).float()
    return found


def mark(trainer, marker, context, count, kind="single", size=(256, 256), frames=33, terse=False, moment=False,
         true_clips=False, **options):
    """Shares of right verdicts over prompts of a kind; the clips of the first ones."""
    spec = heldout.specs(kind, count)
    texts = captions.canonical(spec)
    if terse:
        texts = [captions.names("motion")[row["motion"]] for row in captions.rows(spec)]
    noise = torch.Generator(context.device).manual_seed(77)
    marks, shown, batch = {}, [], max(40 * 65536 * 33 // (size[0] * size[1] * frames), 1)
    for k in range(0, count, batch):
        part = {a: v[k:k + batch] for a, v in spec.items()}
        drawn = {a: v.to(context.device) for a, v in part.items()}
        true, _ = world.render(drawn, 1 if moment else frames, *size, context.device, noise)
        pictures = ((true[:, :, :1].float() * .5 + .5) * 255).round() / 255 * 2 - 1
        clips = true.float().cpu() if true_clips else clips_from(
            trainer, pictures, texts[k:k + batch], frames, noise, context, **options)
        found = judge.verdicts(marker, clips, part, context) | goes_on(marker, clips, true, context)
        found["picture"] = torch.tensor(
            [psnr(e) for e in (clips[:, :, :1] - pictures.cpu()).square().mean((1, 2, 3, 4)).tolist()])
        found["identity"] = found["shape"] * found["colour"] * found["background"]
        kept = found["bound"] if kind == "double" else found["identity"] * found["motion"]
        found["right"] = kept * found["start"] * found.get("scene", 1)
        for a, v in found.items():
            marks.setdefault(a, []).append(v)
        shown += list(clips) if len(shown) < 40 else []
    totals = {a: torch.cat(v).mean().item() for a, v in marks.items()}
    wrong = (1 - torch.cat(marks["right"])).nonzero()[:, 0].tolist()
    return dict(totals, prompts=count, wrong=[texts[i] for i in wrong[:12]]), shown


def report(trainer, args, context):
    """Marks of all sets, as far as there is time, into image.json; the first clips into image.png."""
    path = args.judge or args.work / "judge.pt"
    if not path.exists():
        context.log(f"image: no {path}, no marks")
        return
    marker, marks = judge.load_judge(path, context.device), {}
    ours = load_file(args.product)
    fast = args.fast or args.work / "fast.safetensors"
    fast = load_file(fast) if fast.exists() else {}
    modules = dict(trainer.student.named_modules())

    def install(scale):
        with torch.no_grad():
            for k, v in ours.items():
                trainer.factors[k].copy_(v * scale if "lora_B" in k else v)

    def add_fast(sign):
        for k in [k for k in fast if "lora_A" in k]:
            linear = modules[k.removeprefix("transformer.").removesuffix(".lora_A.weight")].linear
            b = fast[k.replace("lora_A", "lora_B")].float()
            linear.weight.data += sign * (b @ fast[k].float()).to(linear.weight)

    for name in args.sets.split(",") if args.sets else SETS:
        began, options = time.time(), dict(SETS[name])
        if args.minutes and began - STARTED > 60 * args.minutes - 8:
            context.log(f"image: no time for {name} and those after it")
            break
        if options.get("fast") and not fast:
            continue
        options["count"] = min(options["count"], args.count)
        size = options.get("size", (256, 256))
        options["size"] = tuple(n * args.unit // 128 for n in size)
        install(0. if options.pop("plain", False) else 1.)
        add_fast(1 if options.get("fast") else 0)
        with torch.compiler.set_stance("force_eager"):
            marks[name], shown = mark(trainer, marker, context, **options)
        add_fast(-1 if options.get("fast") else 0)
        context.log(f"image: {name}:", " ".join(f"{a} {v * 100:.1f}" for a, v in marks[name].items()
                                                if a not in ("picture", "prompts", "wrong")),
                    f"; first frame {marks[name]['picture']:.1f} dB ({time.time() - began:.0f} s)")
        (args.out / "image.json").write_text(json.dumps(marks, indent=1) + "\n")
        if name in ("default", "terse", "fast", "moment"):
            last = shown[0].shape[1] - 1
            picture(args.out / f"image-{name}.jpg", shown[:24], [last * k // 4 for k in range(5)], 2, 4)


def main():
    args = parser(
        __doc__, seconds=(600., "of training, after compilation"), rank=(32, "of the LoRA"), lr=(2e-3, "Muon's rate"),
        minutes=(0., "for all, from the start to the last mark, in place of --seconds; 0: none"),
        marks=(70., "seconds that --minutes leaves for marks"), object_weight=(3., "extra loss weight on the object"),
        average=(.99, "decay of the LoRA's moving average"), unit=(128, "smallest frame size"),
        pool=(1024, "scale of the latent pools"), batch=(192, "clips a step at the smallest size"),
        until_base=(.25, "share of the time at the smallest size"),
        until_large=(.5, "share of the time before the largest size joins"),
        large=(.06, "share of the steps at the largest size from then on"), large_shift=(6., "as the denoiser's"),
        pairs=(.25, "share of clips with two objects"), count=(200, "prompts of a set at most"),
        sets=("", "names of SETS, separated by commas; none: all"),
        judge=(Path(), "the judge, if it is not the work folder's"),
        fast=(Path(), "the LoRA of distill.py, likewise"), out=(Path(), "where its products go, if it is not the work folder"),
        save_every=(60., "seconds between checkpoints")).parse_args()
    for name, otherwise in dict(judge=None, fast=None, out=args.work).items():
        setattr(args, name, otherwise if getattr(args, name) == Path() else getattr(args, name))
    args.lengths = [33]
    args.product, args.unfinished = args.out / "image.safetensors", args.out / "image_training.safetensors"
    context = Context(args.seed)
    context.prefer_cudnn()
    trainer = Trainer(args, context)
    if not args.product.exists():
        train(trainer, args, context)
    report(trainer, args, context)


if __name__ == "__main__":
    main()
