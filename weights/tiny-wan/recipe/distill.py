"""Stage: a LoRA with which the denoiser takes 4 steps without guidance for its many steps with guidance.

No clip is drawn for it. The student, which is the denoiser plus the LoRA, renders training captions from fresh noise by
4 Euler steps. From where each of them begins the teacher, the denoiser alone, goes on with guidance in several smaller
steps, and the student's velocity learns to lead to where the teacher got. It thus meets its own errors, and is never
asked for a clip that its first steps have already ruled out.
Run by train.py, on one GPU; goes on from what an interrupted run left in the work folder.
"""
import contextlib
import copy
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import captions
import denoiser
import world
from runtime import Average, Budget, Context, Muon, parser

FLOW_SHIFT = 5.
TEACHER_STEPS = (3, 3, 3, 5)                     # for each step of the student


def shifted(u):
    return FLOW_SHIFT * u / (1 + (FLOW_SHIFT - 1) * u)


SIGMAS = tuple(shifted(1 - k / 4) for k in range(5))            # 1, .9375, .8333, .625, 0


class Adapted(nn.Module):
    """A linear layer whose weight is frozen W plus B A."""

    def __init__(self, linear, rank):
        super().__init__()
        outputs, inputs = linear.weight.shape
        self.linear = linear.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.randn(rank, inputs) / math.sqrt(inputs))
        self.lora_B = nn.Parameter(torch.zeros(outputs, rank))

    def forward(self, x):
        return F.linear(x, self.linear.weight + self.lora_B @ self.lora_A, self.linear.bias)


def adapt(model, rank):
    """Puts a LoRA on every linear layer of a denoiser; its factors by their names in a file."""
    model.requires_grad_(False)
    factors = {}
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear):
            adapted = Adapted(module, rank)
            model.set_submodule(name, adapted)
            for k in ("lora_A", "lora_B"):
                factors[f"transformer.{name}.{k}.weight"] = getattr(adapted, k)
    return factors


def velocity(model, x, sigma, text, context):
    steps = torch.full((len(x),), sigma * 1000, device=x.device)
    with context.autocast():
        return model(x, steps, text, return_dict=False)[0].float()


class Teacher:
    """The denoiser with guidance, by DPM-Solver++ of second order."""

    def __init__(self, model, nothing, guidance, context):
        self.model, self.nothing, self.guidance, self.context = model, nothing, guidance, context

    def clean(self, x, sigma, text):
        """The clip that x at this noise level seems to be."""
        both = torch.cat((text, self.nothing.expand_as(text)))
        told, untold = velocity(self.model, x.repeat(2, 1, 1, 1, 1), sigma, both, self.context).chunk(2)
        return x - sigma * (untold + self.guidance * (told - untold))

    def lead(self, x, text, k):
        """From SIGMAS[k] to SIGMAS[k + 1]."""
        n = TEACHER_STEPS[k]
        return self.solve(x, text, [1 - (k + j / n) / 4 for j in range(n + 1)])

    @torch.no_grad()
    def solve(self, x, text, ways):
        """Through the noise levels shifted(way)."""
        before, last = None, math.inf
        for s, after in zip(map(shifted, ways), map(shifted, ways[1:])):
            clean = seen = self.clean(x, s, text)
            gain = math.log((1 - after) / after * s / (1 - s)) if after > 1e-9 and s < 1 else math.inf
            if before is not None and gain < math.inf:
                clean = seen + (seen - before) * (gain / last / 2)
            before, last = seen, gain
            x = after / s * x + (1 - after / s) * clean
        return x


def own_way(student, x, text, context):
    """The student's four steps: where each begins, and where it gets, with the gradient of that step alone."""
    for k, (s, after) in enumerate(zip(SIGMAS, SIGMAS[1:])):
        reached = x + (after - s) * velocity(student, x, s, text, context)
        yield k, x, reached
        x = reached.detach()


class Adaptation:
    """The frozen text encoder, the denoiser with a LoRA (student) and without (model), and where the training stands."""

    def __init__(self, args, context):
        self.args, self.context, device = args, context, context.device
        self.tokenizer, self.model, self.encoder = denoiser.trained(args.work, context)
        self.student = copy.deepcopy(self.model)
        self.factors = adapt(self.student, args.rank)
        self.student.to(device)
        if args.unfinished.exists():
            with torch.no_grad():
                for k, v in load_file(args.unfinished).items():
                    self.factors[k].copy_(v)
        if args.compile:
            torch._dynamo.config.automatic_dynamic_shapes = False  # else the second batch size gets slow dynamic kernels
            torch._dynamo.config.recompile_limit = 64
            self.student.compile_repeated_blocks(fullgraph=True)
        self.optimiser = Muon(self.factors.items(), args.lr, adam_lr=args.lr / 3)
        self.average, self.step = Average(self.factors.values()), 0

    @torch.no_grad()
    def encoded(self, texts):
        return denoiser.encode_text(self.encoder, self.tokenizer(texts), self.context).float()

    def learn(self, rate):
        """One step along the gradients that there are; rate: of the largest learning rate."""
        nn.utils.clip_grad_norm_(self.factors.values(), 1.)
        for group in self.optimiser.param_groups:
            group["lr"] = self.args.lr * min(1, (self.step + 1) / 50) * rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.average.update(self.args.average, self.step)

    def save(self, path):
        values = {k: v.bfloat16().contiguous() for k, v in zip(self.factors, self.average.values)}
        part = path.with_suffix(".part")
        save_file(values, part, metadata=dict(format="pt"))
        part.chmod(0o644)
        part.replace(path)


class Trainer(Adaptation):
    """Teacher and student."""

    def __init__(self, args, context):
        super().__init__(args, context)
        self.rng, self.generator = random.Random(args.seed), torch.Generator().manual_seed(args.seed + 41)
        model = self.model.to(context.device).requires_grad_(False)
        if args.compile:
            model.compile_repeated_blocks(fullgraph=True)
        self.teacher = Teacher(model, self.encoded([""]), args.guidance, context)

    def draw(self, shape, count):
        """Noise and text states."""
        height, width, frames = shape
        spec = world.draw_spec(count, self.generator, pairs=self.args.pairs)
        text = self.encoded(captions.varied(spec, self.rng))
        channels = self.student.config.in_channels
        return torch.randn(count, channels, (frames - 1) // 4 + 1, height // 8, width // 8, device=text.device), text

    def take(self, shape, count, rate):
        """One step of the optimiser on the mean pseudo-Huber distance of the student's velocities."""
        noise, text = self.draw(shape, count)
        total, huber = 0., self.args.huber
        for k, x, reached in own_way(self.student, noise, text, self.context):
            error = (reached - self.teacher.lead(x, text, k)) / (SIGMAS[k] - SIGMAS[k + 1])
            loss = (torch.sqrt(error ** 2 + huber ** 2) - huber).mean()
            loss.backward()
            total += loss.detach()
        self.learn(rate)
        return total

    @torch.no_grad()
    def distance(self, noise, text):
        """Of the student's clips from the teacher's from the same noise, over that of the teacher's from 0."""
        own, wanted = [p.clone() for p in self.factors.values()], noise
        self.average.install()
        for k, _, reached in own_way(self.student, noise, text, self.context):
            wanted = self.teacher.lead(wanted, text, k)
        for p, value in zip(self.factors.values(), own):
            p.copy_(value)
        return ((reached - wanted).square().mean() / wanted.square().mean()).sqrt().item()


def shapes(args):
    """Clip shapes (height, width, frames): clips a step, and share of the steps."""
    u, wide, n = args.unit, 7 * args.unit // 2, args.batch
    return {(2 * u, 2 * u, 33): (n, .66), (u, u, 33): (2 * n, .10), (2 * u, wide, 33): (max(n // 2, 1), .05),
            (wide, 2 * u, 33): (max(n // 2, 1), .05), (4 * u, 4 * u, 33): (max(n // 6, 1), .08),
            (2 * u, 2 * u, 1): (2 * n, .03), (2 * u, 2 * u, 65): (max(n // 2, 1), .03)}


def train(args, context):
    trainer, began = Trainer(args, context), time.time()
    table = shapes(args)
    usual = next(iter(table))
    unseen = trainer.draw(usual, args.batch)
    context.log(f"distill: distance {trainer.distance(*unseen):.4f} at the start, {time.time() - began:.0f} s")
    budget, saved = Budget(context, args.seconds), time.time()
    while (progress := budget.progress(trainer.step)) < 1:
        shape = trainer.rng.choices(list(table), [share for _, share in table.values()])[0] if trainer.step else usual
        # Only the usual shape is worth its compilation.
        eager = args.compile and shape != usual
        with torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext():
            loss = trainer.take(shape, table[shape][0], min(1., (1 - progress) / .7 + .004))
        if trainer.step == 1:
            budget.start()
        if trainer.step % 50 == 0:
            context.log(f"distill: step {trainer.step}, {budget.spent():.0f} s, {shape[1]}x{shape[0]}x{shape[2]}, "
                        f"loss {loss.item():.4f}, distance {trainer.distance(*unseen):.4f}")
        if time.time() - saved > args.save_every:
            saved = time.time()
            trainer.save(args.unfinished)
    trainer.save(args.work / "fast.safetensors")
    context.log(f"distill: {trainer.step} steps, {budget.spent():.0f} s, distance {trainer.distance(*unseen):.4f}")


def main():
    args = parser(
        __doc__, seconds=(330., "of training, after compilation"), rank=(16, "of the LoRA"), lr=(2e-3, "Muon's rate"),
        guidance=(3., "of the teacher"), huber=(.1, "where the loss turns from squared to absolute"),
        average=(.99, "decay of the LoRA's moving average"), unit=(128, "smallest frame size"),
        batch=(16, "clips a step at 256x256"), pairs=(.3, "share of clips with two objects"),
        save_every=(60., "seconds between checkpoints")).parse_args()
    args.unfinished = args.work / "fast_training.safetensors"
    if (args.work / "fast.safetensors").exists():
        return
    context = Context(args.seed)
    context.prefer_cudnn()
    train(args, context)


if __name__ == "__main__":
    main()
