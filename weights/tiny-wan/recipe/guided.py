"""Latents that guidance leads beyond any true clip's, and what the decoder is to show of them.

The decoder goes on straight there: red and green pass white while blue bends down, and snow gets yellow patches. It is
to show what it showed before, but white where that happens. No true clip has a pixel of these colours.
"""
import copy
import random

import torch
import torch.nn.functional as F

import captions
import denoiser
import distill
import onepass
import world
from runtime import load

STEPS = 12                                       # the default's
LENGTHS = (17, 33, 17)                           # frames; the shorter the clip, the farther guidance leads
GUIDANCE = (3., 2., 3., 5., 3., 4.)
CHUNK = 32                                       # clips at once
BENT = 40.                                       # extra loss weight of a pixel that bends


def mended(clip):
    """What a decoder put out, in [-1, 1], with white for the pixels that bend, and these pixels."""
    light = clip * .5 + .5
    top = light[:, :2].amin(1, keepdim=True).clamp(max=1)
    blue = light[:, 2:]
    bent = (top > .97) & (blue > .5) & (blue < top - .01)
    light = torch.cat((light[:, :2], torch.where(bent, top, blue)), 1)
    return (light * 2 - 1).clamp(-1, 1), bent


def snowed(spec, generator):
    """Half of the clips in falling snow."""
    snow = dict(spec, background=torch.full_like(spec["background"], world.BACKGROUND["in falling snow"]))
    chosen = torch.rand(spec["second"].shape, generator=generator, device=spec["second"].device) < .5
    chosen &= ~world.held_out(snow)
    return dict(spec, background=torch.where(chosen, snow["background"], spec["background"]))


class Pool:
    """Latents of each denoiser*.pt of the work folder, what the decoder is to show of them, and the loss's weights."""

    @torch.no_grad()
    def __init__(self, args, context, vae):
        seed = args.seed + 61 + context.rank
        generator, rng = torch.Generator(context.device).manual_seed(seed), random.Random(seed)
        self.context, self.old = context, copy.deepcopy(vae).requires_grad_(False)
        state = load(args.work / "vae_start.pt")
        mean, std = (state[k].to(context.device).view(1, -1, 1, 1, 1) for k in ("mean", "std"))
        paths, chunk = sorted(args.work.glob("denoiser*.pt")), min(CHUNK, args.guided)
        self.parts, turn, bends = [], 0, 0.
        for path in paths:
            tokenizer, model, encoder = denoiser.trained(args.work, context, path.name)
            encoded = lambda texts: denoiser.encode_text(encoder, tokenizer(texts), context).float()
            for _ in range(max(args.guided // chunk // len(paths), 1)):
                spec = snowed(world.draw_spec(chunk, generator, context.device), generator)
                teacher = distill.Teacher(model, encoded([""]), GUIDANCE[turn % len(GUIDANCE)], context)
                grid = (LENGTHS[turn % len(LENGTHS)] - 1) // 4 + 1, args.size // 4, args.size // 4
                z = torch.randn(chunk, len(mean[0]), *grid, device=context.device)
                z = teacher.solve(z, encoded(captions.varied(spec, rng)), [k / STEPS for k in range(STEPS, -1, -1)])
                z = z * std + mean
                with context.autocast():
                    shown = [mended(onepass.decode(vae, part).float()) for part in z.split(4)]
                clip, bent = (torch.cat(part) for part in zip(*shown))
                self.parts.append((z, clip.half(), bent))
                turn, bends = turn + 1, bends + bent.float().mean().item()
        context.log(f"vae: {turn * chunk} clips with guidance, {100 * bends / turn:.3f} % of the pixels bend")

    @torch.no_grad()
    def kept(self, clip, share, noise):
        """The same of true clips, with noise in their latents: all stays as it was."""
        with self.context.autocast():
            z = onepass.encode(self.old, clip).float().chunk(2, 1)[0]
            z = z + share * z.std((0, 2, 3, 4), keepdim=True) * noise
            shown = onepass.decode(self.old, z).float().clamp(-1, 1)
        return z, shown, torch.ones_like(shown[:, :1])

    def draw(self, count):
        """Latents (not normalised), clips and weights."""
        z, clip, bent = random.choice(self.parts)
        chosen = torch.randperm(len(z))[:max(count * 17 // clip.shape[2], 1)].to(z.device)
        near = F.max_pool3d(bent[chosen].float(), (1, 3, 3), 1, (0, 1, 1))
        return z[chosen], clip[chosen].float(), 1 + BENT * near
