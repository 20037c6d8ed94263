"""Stage 1: train the video autoencoder. Run by train.py, alone or under torchrun."""
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

import onepass
import world
from runtime import Average, Budget, Context, Muon, load, parser, picture, psnr, save


def batch(args, step, context, generator):
    """Crops of the world near the object, mostly at the scale of 256 x 256, and the loss weight of each pixel."""
    zoom = (.5, .5, .5, .75, .5, .5, .5, 1.)[step % 8]
    spec = world.draw_spec(args.batch, generator, context.device)
    clip, mask = world.render(spec, args.frames, args.size, args.size, context.device, generator, zoom, follow=True)
    mask = F.max_pool3d(mask.float(), (1, 5, 5), 1, (0, 2, 2))         # the outline and its surroundings count too
    weight = 1 + args.object_weight * mask
    return clip, weight / weight.mean()


def loss_of(vae, clip, weight, noise, kl_weight, context):
    """|e| + 2 e^2 and gradient errors, weighted towards the object, plus a little KL. Returns loss and mean e^2."""
    with context.autocast():
        mean, log_variance = onepass.encode(vae, clip).float().chunk(2, 1)
        log_variance = log_variance.clamp(-12, 4)
        out = onepass.decode(vae, mean + torch.exp(.5 * log_variance) * noise)
    e = out.float() - clip.float()
    loss = ((e.abs() + 2 * e * e) * weight).mean()
    loss = loss + .5 * ((e[..., 1:] - e[..., :-1]).abs() * weight[..., 1:]).mean()
    loss = loss + .5 * ((e[..., 1:, :] - e[..., :-1, :]).abs() * weight[..., 1:, :]).mean()
    loss = loss + .25 * ((e[:, :, 1:] - e[:, :, :-1]).abs() * weight[:, :, 1:]).mean()
    kl = .5 * (mean * mean + log_variance.exp() - 1 - log_variance).mean()
    return loss + kl_weight * kl, (e * e).mean()


@torch.no_grad()
def evaluate(vae, context, size, frames, count, sheet=None):
    """PSNR over pooled errors of held-out clips, whole frame and inside the object. Returns their latents."""
    generator = torch.Generator(context.device).manual_seed(99)
    whole, inside, latents, shown = [], [], [], []
    for _ in range(0, count, 4):
        spec = world.draw_spec(4, generator, context.device, "test")
        clip, mask = world.render(spec, frames, size, size, context.device, generator, dtype=torch.float32)
        with context.autocast():
            centre = onepass.encode(vae, clip).chunk(2, 1)[0].float()
            out = onepass.decode(vae, centre).float().clamp(-1, 1)
        e, mask = (out - clip) ** 2, (mask > .5).float()
        whole += e.mean((1, 2, 3, 4)).tolist()
        inside += ((e * mask).sum((1, 2, 3, 4)) / (3 * mask.sum((1, 2, 3, 4))).clamp(min=1)).tolist()
        latents.append(centre)
        shown = shown or [torch.cat((clip, out), 3)]
    if sheet:
        picture(sheet, shown[0], (0, frames // 2, frames - 1))
    mean = lambda values: sum(values) / len(values)
    context.log(f"vae {frames}x{size}x{size}, {len(whole)} held-out clips: whole {psnr(mean(whole)):.2f} dB, "
                f"worst {psnr(max(whole)):.2f}, object {psnr(mean(inside)):.2f}")
    return torch.cat(latents)


def train(vae, args, context, checkpoint):
    vae.requires_grad_(True)
    context.broadcast([p.data for p in vae.parameters()])
    optimiser = Muon(vae.named_parameters(), args.lr, adam_lr=1e-3)
    average = Average(vae.parameters())
    step, elapsed = 0, 0.
    resumed = load(checkpoint)
    if resumed:
        vae.load_state_dict(resumed["weights"])
        optimiser.restore(resumed["optimiser"])
        for mine, other in zip(average.values, resumed["average"]):
            mine.copy_(other)
        step, elapsed = resumed["step"], resumed["elapsed"]
    first, budget = step, Budget(context, args.seconds, elapsed)
    generator = torch.Generator(context.device).manual_seed(args.seed + 17 * step + 1000 * context.rank)
    compute = torch.compile(loss_of) if args.compile else loss_of
    saved = began = time.time()
    grid = (args.batch, vae.config.z_dim, (args.frames - 1) // 4 + 1, args.size // 8, args.size // 8)
    while True:
        progress = budget.progress(step)
        if progress >= 1:
            break
        clip, weight = batch(args, step, context, generator)
        loss, error = compute(vae, clip, weight, torch.randn(grid, device=context.device), args.kl_weight, context)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        context.mean_gradients(average.parameters)
        nn.utils.clip_grad_norm_(average.parameters, 1.)
        for group in optimiser.param_groups:      # constant, then falling to nearly nothing over the last 60 %
            group["lr"] = args.lr * min(1, (step + 1) / 100) * min(1., (1 - progress) / .6 + .004)
        optimiser.step()
        step += 1
        average.update(.99, step)
        if step == first + 5:
            budget.start()
            context.log(f"vae: first 5 steps {time.time() - began:.0f} s")
        if step % 250 == 0:
            context.log(f"vae: step {step}, {budget.spent():.0f} s, loss {loss.item():.4f}, "
                        f"{psnr(error.item()):.2f} dB")
        if context.rank == 0 and time.time() - saved > args.save_every:
            saved = time.time()
            save(checkpoint, dict(weights=vae.state_dict(), optimiser=optimiser.snapshot(), average=average.values,
                                  step=step, elapsed=budget.spent()))
    average.install()
    context.log(f"vae: {step} steps of {args.batch} clips on {context.world} processes, {budget.spent():.0f} s")


def main():
    args = parser(__doc__, seconds=(290., "training time after compilation"), batch=(32, "clips a step and process"),
                  lr=(2e-3, "Muon's rate"), kl_weight=(1e-4, "of the latents' KL divergence"), frames=(17, "of a crop"),
                  size=(128, "of a crop"), object_weight=(12., "extra loss weight inside the object"),
                  eval_count=(48, "held-out clips"), save_every=(120., "seconds between checkpoints")).parse_args()
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
        context.log(f"vae: latents' standard deviation {std.min():.2f} to {std.max():.2f}")
        vae.register_to_config(latents_mean=mean.tolist(), latents_std=std.tolist())
        save(path, dict(weights={k: v.bfloat16() for k, v in vae.state_dict().items()}, mean=mean.cpu(), std=std.cpu()))
    context.close()


if __name__ == "__main__":
    main()
