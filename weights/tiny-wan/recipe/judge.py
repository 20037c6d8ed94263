"""The judge: a classifier of shape, colour, motion, background and size, trained on true clips only.

Obedience figures are its verdicts on generated clips. Input: 17 frames (every second one of 33) of 128 x 128.
"""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import world
from runtime import Context, load, parser, save


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [5, 32, 64, 128, 192, 256]
        self.stages = nn.ModuleList(nn.Sequential(
            nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.GELU(),
            nn.Conv2d(b, b, 3, 1, 1), nn.GroupNorm(8, b), nn.GELU()) for a, b in zip(widths, widths[1:]))
        layer = nn.TransformerEncoderLayer(256, 4, 512, 0., batch_first=True, norm_first=True)
        self.over_time = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.position = nn.Parameter(torch.randn(1, 17, 256) * .02)
        self.look, self.gather = nn.Conv2d(256, 8, 1), nn.Linear(256 * 8, 256)
        self.heads = nn.ModuleDict({k: nn.Linear(256, n) for k, n in world.COUNTS.items()})

    def forward(self, x):
        b, _, t, h, w = x.shape
        x = x.transpose(1, 2).flatten(0, 1)
        # Where things are must be seen to judge motion: two more channels give the place.
        grid = torch.linspace(-1, 1, h, device=x.device, dtype=x.dtype)
        rows, columns = grid.view(1, 1, h, 1).expand(b * t, 1, h, w), grid.view(1, 1, 1, w).expand(b * t, 1, h, w)
        x = torch.cat((x, rows, columns), 1).contiguous(memory_format=torch.channels_last)
        for stage in self.stages:
            x = stage(x)
        weight = self.look(x).flatten(2).softmax(-1)
        x = self.gather(torch.einsum("nkp,ncp->nkc", weight, x.flatten(2)).flatten(1)).view(b, t, 256)
        x = self.over_time(x + self.position).mean(1)
        return {k: head(x) for k, head in self.heads.items()}


def seen(clip):
    """What the judge is shown of a clip [b, 3, 33, s, s]: 17 frames, 128 x 128."""
    clip = clip[:, :, ::2].float()
    factor = clip.shape[-1] // 128
    return F.avg_pool3d(clip, (1, factor, factor)) if factor > 1 else clip


def load_judge(path, device):
    judge = Judge().to(device)
    judge.load_state_dict({k: v.float() for k, v in load(path).items()})
    return judge.eval()


@torch.no_grad()
def verdicts(judge, clips, spec, context):
    """Right or wrong (0/1 float tensors) for each attribute; all_four: shape, colour, motion and background."""
    found = []
    for k in range(0, len(clips), 32):
        with context.autocast():
            found.append({a: v.argmax(-1) for a, v in judge(seen(clips[k:k + 32].to(context.device))).items()})
    right = {a: (torch.cat([f[a] for f in found]).cpu() == spec[a].cpu()).float() for a in world.COUNTS}
    right["all_four"] = right["shape"] * right["colour"] * right["motion"] * right["background"]
    return right


def main():
    args = parser(__doc__, seconds=(150., "training time"), batch=(64, "clips a step")).parse_args()
    path = args.work / "judge.pt"
    if path.exists():
        return
    context = Context(args.seed)
    device = context.device
    judge = Judge().to(device)
    optimiser = torch.optim.AdamW(judge.parameters(), 1e-3, weight_decay=.02)
    generator = torch.Generator(device).manual_seed(args.seed + 3)
    started, step, progress = time.time(), 0, 0.
    while progress < 1:
        spec = world.draw_spec(args.batch, generator, device, "all")
        clip = world.render(spec, 33, 128, 128, device, generator)[0][:, :, ::2].float()
        if step % 2:                             # blur and noise, so that a decoder's softness is not another class
            small = F.interpolate(clip, scale_factor=(1, .6, .6), mode="trilinear", align_corners=False)
            clip = F.interpolate(small, size=clip.shape[2:], mode="trilinear", align_corners=False)
            clip = clip + torch.randn_like(clip) * .04 * torch.rand(len(clip), 1, 1, 1, 1, device=device)
        with context.autocast():
            out = judge(clip)
        loss = sum(F.cross_entropy(out[k].float(), spec[k]) for k in out)
        optimiser.param_groups[0]["lr"] = 1e-3 * min(1, (step + 1) / 200) * (1 - progress) + 1e-6
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(judge.parameters(), 1.)
        optimiser.step()
        step, progress = step + 1, (time.time() - started) / args.seconds
        if step % 200 == 0:
            context.log(f"judge: step {step}, {time.time() - started:.0f} s, loss {loss.item():.3f}")
    judge.eval()
    generator.manual_seed(77)
    for size in (128, 256):
        marks = []
        for _ in range(max(args.batch // 4, 1)):
            spec = world.draw_spec(min(32, args.batch), generator, device, "all")
            clip = world.render(spec, 33, size, size, device, generator)[0]
            marks.append(verdicts(judge, clip, spec, context))
        marks = {k: sum(m[k].mean().item() for m in marks) / len(marks) for k in marks[0]}
        context.log(f"judge on true clips, {size}:", " ".join(f"{k} {v:.4f}" for k, v in marks.items()))
    save(path, {k: v.bfloat16() for k, v in judge.state_dict().items()})


if __name__ == "__main__":
    main()
