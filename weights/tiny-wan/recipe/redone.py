"""Latents as the denoiser leaves them, each beside its true clip: what the decoder trains on besides the encoder's own.

A clip's latents are noised a part of the way and denoised again by the default steps with guidance. The scene stays as
it was, but what the last steps get wrong is in it: an outline has dents, a stripe is bent.
"""
import random

import torch
import torch.nn.functional as F

import captions
import denoiser
import distill
import world
from runtime import load

STEPS = 12                                       # the default's
LAST = (1, 2, 3, 4)                              # of them, so many are done again
CHUNK = 32                                       # clips at once


class Pool:
    """Clips of one shape with their latents and the objects' places; fresh ones replace the oldest."""

    def __init__(self, args, context, size, frames, capacity):
        self.context, self.shape, self.made = context, (size, frames), 0
        self.latents = denoiser.Latents(load(args.work / "vae_start.pt"), context)
        self.tokenizer, model, self.encoder = denoiser.trained(args.work, context)
        nothing = denoiser.encode_text(self.encoder, self.tokenizer([""]), context).float()
        self.teacher = distill.Teacher(model, nothing, 3., context)
        seed = args.seed + 61 + 1000 * context.rank + size
        self.generator, self.rng = torch.Generator(context.device).manual_seed(seed), random.Random(seed)
        empty = lambda *shape: torch.empty(capacity, *shape, dtype=torch.bfloat16, device=context.device)
        self.clip, self.cover = empty(3, frames, size, size), empty(1, frames, size, size)
        self.near = torch.empty(capacity, (size // 8) ** 2, device=context.device)
        self.z = empty(self.latents.vae.config.z_dim, (frames - 1) // 4 + 1, size // 8, size // 8).float()

    @torch.no_grad()
    def add(self, count, quickened):
        for begin in range(0, count, CHUNK):
            n, (size, frames) = min(CHUNK, count - begin), self.shape
            spec = quickened(world.draw_spec(n, self.generator, self.context.device), self.generator)
            clip, cover = world.render(spec, frames, size, size, self.context.device, self.generator)
            text = denoiser.encode_text(self.encoder, self.tokenizer(captions.varied(spec, self.rng)), self.context)
            z, k = self.latents.encode(clip), self.rng.choice(LAST)
            s = distill.shifted(k / STEPS)
            z = self.teacher.solve((1 - s) * z + s * torch.randn_like(z), text.float(),
                                   [j / STEPS for j in range(k, -1, -1)])
            place = torch.arange(self.made, self.made + n, device=z.device) % len(self.z)
            self.z[place], self.clip[place] = z * self.latents.std + self.latents.mean, clip.bfloat16()
            self.cover[place] = cover = cover.amax(1, keepdim=True).bfloat16()
            self.near[place] = F.avg_pool2d(cover.float().amax((1, 2)), 8).flatten(1) + 1e-4
            self.made += n

    def draw(self, count, size):
        """Crops around a place where an object is at some moment: latents (not normalised), clip, coverage."""
        chosen, side = torch.randint(0, min(self.made, len(self.z)), (count,)), size // 8
        places = torch.multinomial(self.near[chosen.to(self.near.device)], 1)[:, 0].tolist()
        crops = []
        for k, place in zip(chosen.tolist(), places):
            y, x = (min(max(v - side // 2, 0), self.z.shape[-1] - side) for v in divmod(place, self.z.shape[-1]))
            crops.append([v[k, :, :, y * unit:(y + side) * unit, x * unit:(x + side) * unit]
                          for v, unit in ((self.z, 1), (self.clip, 8), (self.cover, 8))])
        return [torch.stack(part) for part in zip(*crops)]
