"""Stage 1: train the video autoencoder. Run by train.py, alone or under torchrun."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import captions
import guided
import onepass
import world
from runtime import Average, Budget, Context, Muon, load, parser, picture, psnr, save


ZOOMS = (.5, 1., .5, .75)                      # of the crops: .5 is the scale of 256 x 256
# Weight of a frame by its place in the chunk of four: the first and the third are harder.
PLACES = (6., .2, 4., .12)


def quickened(spec, generator, share):
    """A share of the clips with one object get what leaves the clearest traces: it bounces before plain gray."""
    changed = dict(motion=world.MOTION["bouncing"], background=world.BACKGROUND["on a plain gray background"], camera=0)
    quick = dict(spec, **{k: torch.full_like(spec[k], value) for k, value in changed.items()})
    chosen = torch.rand(spec["second"].shape, generator=generator, device=spec["second"].device) < share
    chosen &= (spec["second"] == 0) & ~world.held_out(quick)
    return {k: torch.where(chosen, quick[k], v) for k, v in spec.items()}


def crops(args, context, generator):
    """Crops of the world near an object and their objects' coverage, one batch after the other, without end.

    Drawing takes many small kernels, so that eight batches cost hardly more than one.
    """
    step = 0
    while True:
        spec = quickened(world.draw_spec(8 * args.batch, generator, context.device), generator, args.quick)
        drawn = world.render(spec, args.frames, args.size, args.size, context.device, generator,
                             ZOOMS[step % len(ZOOMS)], follow=True)
        yield from zip(*(part.split(args.batch) for part in drawn))
        step += 1


def weight_of(cover, args):
    """The loss weight of each pixel.

    The outline and its surroundings count as the object; where it was or will be counts too, against after-images.
    """
    mask = F.max_pool3d(cover.amax(1, keepdim=True).float(), (1, 5, 5), 1, (0, 2, 2))
    trail = F.max_pool3d(mask, (9, 1, 1), 1, (4, 0, 0))
    weight = 1 + args.object_weight * ((1 - args.trail_weight) * mask + args.trail_weight * trail)
    for k, share in enumerate(PLACES):
        weight[:, :, 1 + k::4] *= share
    return weight / weight.mean()


def errors(out, clip, weight):
    """|e| + 12 e^2 and gradient errors. Beyond white or black there is no error: what is shown is clamped."""
    e = out.float() - clip.float()
    e = torch.where((clip.float() * e > 0) & (clip.abs() > .996), 0., e)
    loss = ((e.abs() + 12 * e * e) * weight).mean()
    loss = loss + .5 * ((e[..., 1:] - e[..., :-1]).abs() * weight[..., 1:]).mean()
    loss = loss + .5 * ((e[..., 1:, :] - e[..., :-1, :]).abs() * weight[..., 1:, :]).mean()
    return loss + .25 * ((e[:, :, 1:] - e[:, :, :-1]).abs() * weight[:, :, 1:]).mean(), (e * e).mean()


def loss_of(vae, clip, weight, noise, share, kl_weight, context):
    """Errors weighted towards the object, plus a little KL. Returns loss and mean e^2.

    share: noise beyond the encoder's own, as a share of each channel's standard deviation.
    """
    with context.autocast():
        mean, log_variance = onepass.encode(vae, clip).float().chunk(2, 1)
        log_variance = log_variance.clamp(-12, 4)
        added = share * mean.detach().std((0, 2, 3, 4), keepdim=True)
        z = mean + (log_variance.exp() + added ** 2).sqrt() * noise
        out = onepass.decode(vae, z)
    loss, error = errors(out, clip, weight)
    kl = .5 * (mean * mean + log_variance.exp() - 1 - log_variance).mean()
    return loss + kl_weight * kl, error


def guided_loss(vae, latents, clip, weight, context):
    """The same of latents that a denoiser made: what the decoder is to show of them."""
    with context.autocast():
        out = onepass.decode(vae, latents)
    return errors(out, clip, weight)


@torch.no_grad()
def evaluate(vae, context, size, frames, count, sheet=None):
    """PSNR over pooled errors of held-out clips: whole frame, worst clip, inside the objects, where an object was or
    will be within 4 frames (after-images), the same from latents with a tenth of their standard deviation as noise, by
    place in the chunk of four frames, by background. Returns the latents."""
    generator = torch.Generator(context.device).manual_seed(99)
    sums, latents, shown, clips = {}, [], [], []

    def add(name, error, weight=None):
        total = sums.setdefault(name, [0., 0.])
        total[0] += (error if weight is None else error * weight).sum().item()
        total[1] += error.numel() if weight is None else weight.sum().item()

    for _ in range(0, count, 4):
        spec = world.draw_spec(4, generator, context.device, "test")
        clip, cover = world.render(spec, frames, size, size, context.device, generator, dtype=torch.float32)
        with context.autocast():
            centre = onepass.encode(vae, clip).chunk(2, 1)[0].float()
            out = onepass.decode(vae, centre).float().clamp(-1, 1)
            noise = .1 * centre.std((0, 2, 3, 4), keepdim=True) * torch.randn_like(centre)
            noisy = onepass.decode(vae, centre + noise).float().clamp(-1, 1)
        e, mask = ((out - clip) ** 2).mean(1), (cover.amax(1) > .5).float()
        near = F.max_pool3d(mask, (9, 1, 1), 1, (4, 0, 0)) * (1 - F.max_pool3d(mask, (1, 5, 5), 1, (0, 2, 2)))
        clips += e.mean((1, 2, 3)).tolist()
        add("object", e, mask)
        add("trail", e, near)
        add("noisy trail", ((noisy - clip) ** 2).mean(1), near)
        for k in range(4):
            if frames > 1:
                add(f"place {k}", e[:, 1 + k::4])
        for k, b in enumerate(spec["background"].tolist()):
            add(captions.BACKGROUNDS[b][0], e[k])
        latents.append(centre)
        shown = shown or [torch.cat((clip, out), 3)]
    if sheet:
        picture(sheet, shown[0], (0, frames // 2, frames - 1))
    dB = {name: psnr(total / max(n, 1)) for name, (total, n) in sums.items()}
    context.log(f"vae {frames}x{size}x{size}, {len(clips)} held-out clips: whole {psnr(sum(clips) / len(clips)):.2f}",
                f"dB, worst {psnr(max(clips)):.2f},", ", ".join(f"{name} {value:.2f}" for name, value in dB.items()))
    return torch.cat(latents)


def train(vae, args, context, checkpoint):
    vae.requires_grad_(True)
    for frozen in (vae.encoder, vae.quant_conv) if args.decoder_only else ():
        frozen.requires_grad_(False)
    started_from = load(args.work / "vae_start.pt")
    if started_from:
        vae.load_state_dict({k: v.float() for k, v in started_from["weights"].items()})
    context.broadcast([p.data for p in vae.parameters()])
    pool = guided.Pool(args, context, vae) if args.guided else None
    trained = [(name, p) for name, p in vae.named_parameters() if p.requires_grad]
    optimiser, average = Muon(trained, args.lr, adam_lr=args.lr / 2), Average(p for _, p in trained)
    step, elapsed, resumed = 0, 0., load(checkpoint)
    if resumed:
        vae.load_state_dict(resumed["weights"])
        optimiser.restore(resumed["optimiser"])
        for mine, other in zip(average.values, resumed["average"]):
            mine.copy_(other)
        step, elapsed = resumed["step"], resumed["elapsed"]
    first, budget = step, Budget(context, args.seconds, elapsed)
    generator = torch.Generator(context.device).manual_seed(args.seed + 17 * step + 1000 * context.rank)
    drawn = crops(args, context, generator)
    compute, mend = (torch.compile(f) if args.compile else f for f in (loss_of, guided_loss))
    saved = began = time.time()
    grid = (args.batch, vae.config.z_dim, (args.frames - 1) // 4 + 1, args.size // 8, args.size // 8)
    while True:
        progress = budget.progress(step)
        if progress >= 1:
            break
        if pool and step % 2:
            loss, error = mend(vae, *pool.draw(max(args.batch // 4, 1)), context)
        else:
            clip, cover = next(drawn)
            noise = torch.randn(grid, device=context.device)
            # Half of the clips get none, the others up to as much: a denoiser leaves latents a little off.
            share = args.latent_noise * (2 * torch.rand(args.batch, 1, 1, 1, 1, device=context.device) - 1).clamp(min=0)
            if pool:
                loss, error = mend(vae, *pool.kept(clip, share, noise), context)
            else:
                loss, error = compute(vae, clip, weight_of(cover, args), noise, share, args.kl_weight, context)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        context.mean_gradients(average.parameters)
        nn.utils.clip_grad_norm_(average.parameters, 1.)
        for group in optimiser.param_groups:      # constant, then falling to nearly nothing over the last 60 %
            group["lr"] = args.lr * min(1, (step - first + 1) / 100) * min(1., (1 - progress) / .6 + .004)
        optimiser.step()
        step += 1
        average.update(.99, step)
        if step == first + 5:
            budget.start()
            context.log(f"vae: first 5 steps {time.time() - began:.0f} s")
        if step % 250 == 0:
            context.log(f"vae: step {step}, {budget.spent():.0f} GPU-s, loss {loss.item():.4f}, "
                        f"{psnr(error.item()):.2f} dB")
        if context.rank == 0 and time.time() - saved > args.save_every:
            saved = time.time()
            save(checkpoint, dict(weights=vae.state_dict(), optimiser=optimiser.snapshot(), average=average.values,
                                  step=step, elapsed=budget.spent()))
    average.install()
    context.log(f"vae: {step} steps of {args.batch} clips on {context.world} processes, "
                f"{budget.spent():.0f} GPU-seconds")


def main():
    args = parser(
        __doc__, seconds=(1350., "GPU-seconds of training after compilation"),
        batch=(32, "clips a step and process"), lr=(2e-3, "Muon's rate"),
        guided=(0, "clips of latents that guidance made; every second step is on them"),
        kl_weight=(1e-4, "of the latents' KL divergence"), frames=(17, "of a crop"), size=(128, "of a crop"),
        object_weight=(14., "extra loss weight inside the object"),
        trail_weight=(.3, "as much of it where an object was or will be"),
        latent_noise=(0., "most noise in the latents, in standard deviations"),
        quick=(0., "share of the single objects that bounce before plain gray"), eval_count=(100, "held-out clips"),
        save_every=(120., "seconds between checkpoints"),
        decoder_only=(False, "leave the latents as they are in vae_start.pt")).parse_args()
    path = args.work / "vae.pt"
    if path.exists():
        return
    context = Context(args.seed)
    vae = onepass.new_vae().to(context.device)
    train(vae, args, context, args.work / "vae_training.pt")
    if context.rank == 0:
        vae.eval()
        for p in vae.parameters():                # judge what is exported
            p.data = p.data.bfloat16().float()
        latents = evaluate(vae, context, 2 * args.size, 2 * args.frames - 1, args.eval_count, args.work / "vae.png")
        if args.eval_count >= 8:
            evaluate(vae, context, args.size, 2 * args.frames - 1, args.eval_count)
            evaluate(vae, context, 2 * args.size, 1, args.eval_count)
        mean, std = latents.mean((0, 2, 3, 4)), latents.std((0, 2, 3, 4))
        if args.decoder_only:
            mean, std = (load(args.work / "vae_start.pt")[k].to(context.device) for k in ("mean", "std"))
        context.log(f"vae: latents' standard deviation {std.min():.2f} to {std.max():.2f}")
        vae.register_to_config(latents_mean=mean.tolist(), latents_std=std.tolist())
        save(path, dict(weights={k: v.bfloat16() for k, v in vae.state_dict().items()}, mean=mean.cpu(), std=std.cpu()))
    context.close()


if __name__ == "__main__":
    main()
