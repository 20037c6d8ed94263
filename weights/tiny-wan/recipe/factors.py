"""Colours of the latents, for previews without a decoder: least squares of decoded 8x8 pixel means on normalised latents.

python3 factors.py --folder ..        puts them into a folder's sparge-gen.json; export.py does so, too
"""
import json
from pathlib import Path

import torch
from diffusers import AutoencoderKLWan

import onepass
import world
from runtime import parser, psnr

BATCH = 4


@torch.no_grad()
def samples(vae, clips, frames, size, seed):
    """Normalised latents [n, z] of clips of the world, and the mean colour of the pixels that come of each, [n, 3]."""
    generator = torch.Generator().manual_seed(seed)
    mean, std = (torch.tensor(v).view(1, -1, 1, 1, 1) for v in (vae.config.latents_mean, vae.config.latents_std))
    latents, colours = [], []
    for _ in range(clips // BATCH):
        spec = world.draw_spec(BATCH, generator, which="all")
        clip = world.render(spec, frames, size, size, "cpu", generator, dtype=torch.float32)[0]
        z = onepass.encode(vae, clip).chunk(2, 1)[0]
        pixels = onepass.decode(vae, z).clamp(-1, 1)
        pixels = torch.nn.functional.avg_pool3d(pixels, (1, 8, 8))
        rest = pixels[:, :, 1:].unflatten(2, (-1, 4)).mean(3)
        colour = torch.cat((pixels[:, :, :1], rest), 2)
        latents.append(((z - mean) / std).transpose(0, 1).flatten(1).T)
        colours.append(colour.transpose(0, 1).flatten(1).T)
    return torch.cat(latents).double(), torch.cat(colours).double()


def with_one(x):
    return torch.cat((x, torch.ones_like(x[:, :1])), 1)


def fit(vae, clips=48, frames=17, size=128):
    """For sparge-gen.json: red, green and blue of each channel, and of none."""
    vae = vae.float().eval()
    x, y = samples(vae, clips, frames, size, 0)
    solution = torch.linalg.lstsq(with_one(x), y).solution
    x, y = samples(vae, 2 * BATCH, frames, size, 1)
    error = ((with_one(x) @ solution - y) ** 2).mean().item()
    print(f"colours of latents: {psnr(error):.1f} dB on other clips, where one colour for all has {psnr(y.var(0).mean().item()):.1f}")
    numbers = [round(v, 4) for v in solution.flatten().tolist()]
    return dict(latent_rgb_factors=numbers[:-3], latent_rgb_factors_bias=numbers[-3:])


def main():
    args = parser(__doc__, folder=("..", "the model folder")).parse_args()
    path = Path(args.folder) / "sparge-gen.json"
    value = json.loads(path.read_text())
    value.update(fit(AutoencoderKLWan.from_pretrained(args.folder, subfolder="vae", torch_dtype=torch.float32)))
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
