"""The judge: two small networks, trained on true clips only, whose verdicts on generated clips measure obedience.

A classifier tells the attributes of a clip with one object. A finder marks the pixels of objects in single frames, with
the colour and the shape of the object that each belongs to: its connected blobs are counted, and with two objects it
tells which shape bears which colour. Both see 17 frames of 128 x 128, whatever the clip's size.
"""
import time

import scipy.ndimage
import torch
import torch.nn as nn
import torch.nn.functional as F

import captions
import world
from runtime import Context, Muon, load, parser, save

FRAMES, SIZE = 17, 128
COLOURS, SHAPES = world.COUNTS["colour"], world.COUNTS["shape"]


def halving(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(8, b), nn.GELU(),
                         nn.Conv2d(b, b, 3, 1, 1), nn.GroupNorm(8, b), nn.GELU())


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [5, 32, 64, 128, 192, 256]
        self.stages = nn.ModuleList(halving(a, b) for a, b in zip(widths, widths[1:]))
        layer = nn.TransformerEncoderLayer(256, 4, 512, 0., batch_first=True, norm_first=True)
        self.over_time = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.position = nn.Parameter(torch.randn(1, FRAMES, 256) * .02)
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


class Finder(nn.Module):
    """Pixels of objects in frames [n, 3, 128, 128]: logits [n, 1 + COLOURS + SHAPES, 64, 64]."""

    def __init__(self):
        super().__init__()
        widths = [3, 32, 64, 96, 128]
        self.down = nn.ModuleList(halving(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.Sequential(nn.Conv2d(b + a, a, 3, 1, 1), nn.GroupNorm(8, a), nn.GELU())
                                for a, b in zip(widths[1:-1], widths[2:]))
        self.out = nn.Conv2d(widths[1], 1 + COLOURS + SHAPES, 1)

    def forward(self, x):
        kept = []
        for stage in self.down:
            x = stage(x)
            kept.append(x)
        for stage, skip in zip(reversed(self.up), reversed(kept[:-1])):
            x = stage(torch.cat((F.interpolate(x, scale_factor=2), skip), 1))
        return self.out(x)


class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.classifier, self.finder = Classifier(), Finder()


def seen(clip):
    """What the judge is shown of a clip [b, 3, t, h, w]: 17 frames, squeezed to 128 x 128."""
    frames = torch.linspace(0, clip.shape[2] - 1, FRAMES, device=clip.device).round().long()
    clip = clip[:, :, frames].float()
    return clip if clip.shape[-2:] == (SIZE, SIZE) else F.adaptive_avg_pool3d(clip, (None, SIZE, SIZE))


def load_judge(path, device):
    judge = Judge().to(device)
    judge.load_state_dict({k: v.float() for k, v in load(path).items()})
    return judge.eval()


def blobs(logits):
    """Connected objects in one frame's logits; specks under 12 pixels or an eighth of the largest do not count."""
    marked, count = scipy.ndimage.label((logits > 0).numpy())
    areas = sorted((marked == k).sum() for k in range(1, count + 1))
    return sum(bool(a >= max(12, areas[-1] / 8)) for a in areas)


def bearer(logits, colour):
    """The shape that most pixels of a colour belong to, over the frames of a clip [t, ...]; None if there are few."""
    inside, colours, shapes = logits.split((1, COLOURS, SHAPES), 1)
    pixels = (inside[:, 0] > 0) & (colours.argmax(1) == colour)
    if pixels.sum() < 20:
        return None
    return shapes.argmax(1)[pixels].bincount(minlength=SHAPES).argmax().item()


@torch.no_grad()
def verdicts(judge, clips, spec, context):
    """Right or wrong (0/1 float tensors) for each attribute of the clips.

    all_four: shape, colour, motion and background; count: no frame shows more blobs than there are objects, and at
    least half of the frames as many; bound: each named colour is borne by the right shape, and count holds.
    """
    found, right_count, bound, rows = [], [], [], captions.rows(spec)
    for k in range(0, len(clips), 32):
        part = seen(clips[k:k + 32].to(context.device))
        with context.autocast():
            found.append({a: v.float() for a, v in judge.classifier(part).items()})
            frames = part[:, :, ::2]
            logits = judge.finder(frames.transpose(1, 2).flatten(0, 1)).float().unflatten(0, (len(part), -1)).cpu()
        for clip, row in zip(logits, rows[k:k + 32]):
            counts, n = [blobs(frame[0]) for frame in clip], 1 + row["second"]
            bound.append(float(all(bearer(clip, c) == s for _, c, s, _ in captions.objects(row))))
            right_count.append(float(max(counts) <= n and sum(c == n for c in counts) * 2 >= len(counts)))
    found = {a: torch.cat([f[a] for f in found]).cpu() for a in found[0]}
    right = {a: (found[a].argmax(-1) == spec[a].cpu()).float() for a in world.COUNTS}
    right["all_four"] = right["shape"] * right["colour"] * right["motion"] * right["background"]
    right["count"] = torch.tensor(right_count)
    right["bound"] = torch.tensor(bound) * right["count"]
    return right


def softened(clip, device):
    """Blur and noise, so that a decoder's softness is not another class."""
    small = F.interpolate(clip, scale_factor=(1, .6, .6), mode="trilinear", align_corners=False)
    clip = F.interpolate(small, size=clip.shape[2:], mode="trilinear", align_corners=False)
    return clip + torch.randn_like(clip) * .04 * torch.rand(len(clip), 1, 1, 1, 1, device=device)


def losses(judge, clip, cover, spec, context):
    """Cross entropies: attributes of single objects, pixels of objects in two frames a clip, their colour and shape."""
    alone = (spec["second"] == 0).float()
    shown = torch.randint(0, FRAMES, (2,)).tolist()
    with context.autocast():
        out = judge.classifier(clip)
        marked = judge.finder(clip[:, :, shown].transpose(1, 2).flatten(0, 1)).float()
    loss = 0.
    for k in world.COUNTS:
        each = F.cross_entropy(out[k].float(), spec[k], reduction="none")
        loss = loss + (each if k in ("background", "camera") else each * alone).mean()
    cover = F.avg_pool2d(cover[:, :, shown].transpose(1, 2).flatten(0, 1), 2)              # [2 b, 2, 64, 64]
    inside, owner = (cover.amax(1) > .5).float(), cover.argmax(1)
    loss = loss + F.binary_cross_entropy_with_logits(marked[:, 0], cover.sum(1).clamp(max=1))
    for name, logits in (("colour", marked[:, 1:1 + COLOURS]), ("shape", marked[:, 1 + COLOURS:])):
        first, second = (spec[k].repeat_interleave(2)[:, None, None] for k in (name, name + "2"))
        each = F.cross_entropy(logits, torch.where(owner == 0, first, second), reduction="none")
        loss = loss + (each * inside).sum() / inside.sum().clamp(min=1)
    return loss


def batches(args, device, generator):
    """Clips, coverage and attributes, one batch after the other; eight are drawn at once, which is cheaper."""
    long, turn = 7 * SIZE // 4, 0
    while True:
        height, width = ((SIZE, SIZE), (SIZE, long), (SIZE, SIZE), (long, SIZE))[turn % 4]
        spec = world.draw_spec(8 * args.batch, generator, device, "all")
        clip, cover = world.render(spec, 2 * FRAMES - 1, height, width, device, generator, every=2)
        for k in range(0, 8 * args.batch, args.batch):
            part = slice(k, k + args.batch)
            yield seen(clip[part]), seen(cover[part]), {name: v[part] for name, v in spec.items()}
        turn += 1


def train(judge, args, context):
    device = context.device
    started_from = load(args.work / "judge_start.pt")
    if started_from:
        judge.load_state_dict({k: v.float() for k, v in started_from.items()})
    optimiser = Muon(judge.named_parameters(), args.lr, adam_lr=1e-3, weight_decay=.02)
    generator = torch.Generator(device).manual_seed(args.seed + 3)
    drawn, started, step, progress = batches(args, device, generator), time.time(), 0, 0.
    while progress < 1:
        clip, cover, spec = next(drawn)
        clip = softened(clip, device) if step % 2 else clip
        loss = losses(judge, clip, cover, spec, context)
        for group in optimiser.param_groups:
            group["lr"] = args.lr * min(1, (step + 1) / 200) * (1 - progress) + 1e-6
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(judge.parameters(), 1.)
        optimiser.step()
        step, progress = step + 1, (time.time() - started) / args.seconds
        if step % 200 == 0:
            context.log(f"judge: step {step}, {time.time() - started:.0f} s, loss {loss.item():.3f}")


def marks_of(judge, count, size, context, through=lambda clip: clip, pairs=0., seed=77):
    """Share of right verdicts on true clips, each of which goes through a function first."""
    generator = torch.Generator(context.device).manual_seed(seed)
    marks = {}
    for _ in range(0, count, 16):
        spec = world.draw_spec(16, generator, context.device, "all", pairs=pairs, moving_camera=.3)
        clip = through(world.render(spec, 2 * FRAMES - 1, size, size, context.device, generator)[0])
        for k, v in verdicts(judge, clip, spec, context).items():
            marks.setdefault(k, []).append(v)
    return {k: torch.cat(v).mean().item() for k, v in marks.items()}


def report(judge, count, context, through=lambda clip: clip, what="true clips", sizes=(128, 256)):
    for size in sizes:
        marks = marks_of(judge, count, size, context, through)
        bound = marks_of(judge, count // 2, size, context, through, pairs=1.)
        context.log(f"judge on {count} {what}, {size}:", " ".join(f"{k} {v * 100:.1f}" for k, v in marks.items()),
                    f"; two objects: count {bound['count'] * 100:.1f} bound {bound['bound'] * 100:.1f}")


def main():
    args = parser(__doc__, seconds=(600., "training time"), batch=(64, "clips a step"), lr=(2e-3, "Muon's rate"),
                  count=(512, "clips of its own test")).parse_args()
    path = args.work / "judge.pt"
    if path.exists():
        return
    context = Context(args.seed)
    judge = Judge().to(context.device)
    train(judge, args, context)
    judge.eval()
    report(judge, args.count, context)
    save(path, {k: v.bfloat16() for k, v in judge.state_dict().items()})


if __name__ == "__main__":
    main()
