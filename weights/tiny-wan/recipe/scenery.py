"""The backgrounds of the world, their light and their ground.

A painter gets the View of its samples, the times [n, t, 1, 1], random numbers u [n, 8, 1, 1, 1], random spots
[n, 60, 4], smooth random textures and the floor's height [n, 1, 1, 1]; it returns colours [n, t, h, w, 3] in [0, 1].
Layers move with the camera by how near they are. Everything is smooth at the scale of a pixel.
"""
import math

import torch
import torch.nn.functional as F

from objects import constant

# Key light: direction (towards the light, y down, z to the viewer) and colour; ambient light of sky and ground;
# how dark shadows are (0: no ground); and between which heights objects touch the floor.
LIGHT = [
    ((-.45, -.70, .55), (.62, .60, .52), (.46, .50, .56), (.30, .38, .22), .50, .50, .72),   # grass
    ((-.40, -.50, .77), (.60, .62, .74), (.42, .44, .62), (.20, .20, .34), .00, .60, .70),   # night
    ((-.50, -.65, .57), (.62, .60, .54), (.46, .50, .54), (.22, .36, .46), .30, .50, .70),   # ocean
    ((.60, -.40, .69), (.68, .58, .47), (.45, .40, .44), (.40, .32, .26), .45, .52, .72),    # desert
    ((-.45, -.70, .55), (.60, .59, .56), (.46, .47, .50), (.34, .34, .36), .50, .50, .72),   # checkerboard
    ((-.30, -.80, .52), (.50, .52, .56), (.50, .53, .58), (.46, .48, .52), .32, .52, .72),   # snow
    ((-.50, -.65, .57), (.60, .60, .60), (.44, .44, .45), (.32, .32, .33), .42, .50, .70),   # gray
    ((-.10, -.80, .59), (.60, .63, .62), (.42, .50, .53), (.20, .30, .34), .28, .60, .76),   # under water
    ((.50, -.50, .71), (.66, .58, .54), (.48, .46, .52), (.34, .32, .40), .00, .60, .70),    # mountains
    ((-.20, -.70, .68), (.60, .68, .66), (.46, .58, .56), (.28, .34, .40), .25, .58, .74),    # northern lights
    ((-.65, -.55, .53), (.62, .59, .53), (.43, .43, .44), (.38, .33, .27), .48, .50, .72),   # table
]


def light(background, device):
    """Light of each sample as objects.shaded takes it, and the strength of shadows."""
    part = lambda k: constant(tuple(row[k] for row in LIGHT), device)[background]
    return dict(direction=part(0), key=part(1), sky=part(2), ground=part(3), shadow=part(4))


def floors(background, device):
    """Lowest and highest floor, and the strength of shadows on it, each [b, 1]."""
    return [constant(tuple(row[k] for row in LIGHT), device)[background][:, None] for k in (5, 6, 4)]


def rgb(*values, like):
    return constant(values, like.device)


def mix(a, b, share):
    """Colours a to b by share, which has no colour axis."""
    return a + (b - a) * share.unsqueeze(-1)


def smooth(low, high, x):
    x = ((x - low) / (high - low)).clamp(0, 1)
    return x * x * (3 - 2 * x)


def textures(count, device, generator, cells=(5, 10, 20, 36), size=192):
    """Two smooth random textures a sample [n, 2, size, size] with values of about -1 to 1: sums of octaves."""
    total = 0.
    for k, n in enumerate(cells):
        noise = torch.randn(count, 2, n, n, generator=generator, device=device)
        total = total + .62 * .55 ** k * F.interpolate(noise, size=(size, size), mode="bicubic", align_corners=False)
    return total


def sample(texture, x, y, channel=0):
    """A texture at x, y, which broadcast to [n, t, h, w]; one unit is half its side, mirrored beyond."""
    x, y = torch.broadcast_tensors(x, y)
    n, t, h, w = x.shape
    grid = torch.stack((x, y), -1).reshape(n, t * h, w, 2)
    out = F.grid_sample(texture[:, channel:channel + 1], grid, padding_mode="reflection", align_corners=False)
    return out.reshape(n, t, h, w)


def spots_of(x, y, px, py, sigma, weight):
    """Sum of round soft spots at px, py [n, t, k] with radii sigma and weights that broadcast to them."""
    gx = torch.exp(-((x[:, :, 0, None, :] - px[..., None]) / sigma[..., None]) ** 2)
    gy = torch.exp(-((y[:, :, :, 0][:, :, None] - py[..., None]) / sigma[..., None]) ** 2)
    return torch.einsum("ntkh,ntkw->nthw", gy * weight[..., None], gx)


def below(y, line, pixel):
    """1 under a horizon line, 0 above, with a soft edge of about two pixels."""
    return (.5 + (y - line) / (2.2 * pixel)).clamp(0, 1)


class Ground:
    """A plane seen in perspective: depth, and x along it, which moves with the camera as the objects do at floor."""

    def __init__(self, view, horizon, floor, least=.03):
        x, y = view.at()
        self.v = (y - horizon).clamp(min=least)
        self.depth = 1 / self.v
        pan = view.pan[..., None, None]
        self.x = (x - pan) * self.depth + pan / (floor - horizon)
        self.near = smooth(.02, .5, self.v)            # fades details out towards the horizon
        self.shown = below(y, horizon, view.step[..., None, None])


def grass(view, t, u, spots, noise, floor):
    horizon = .12 + .1 * (u[:, 0] - .5)
    x, y = view.at(.25)
    up = smooth(-1., .25, y)
    image = mix(rgb(.22, .50, .90, like=x), rgb(.74, .88, .98, like=x), up)
    cloud = sample(noise, x * .45 + .07 * t, y * .9 + u[:, 1]) + .35 * sample(noise, x * .9 + .1 * t, y * 1.8, 1)
    image = mix(image, rgb(1., 1., 1., like=x), .92 * smooth(.0, .85, cloud + .25) * (1 - .6 * up))
    hx, _ = view.at(.5)
    ridge = horizon - .05 - .05 * torch.sin(2.1 * hx + 6 * u[:, 2]) - .03 * torch.sin(5.3 * hx + 6 * u[:, 3])
    image = mix(image, rgb(.40, .64, .52, like=x), below(y, ridge, view.step[..., None, None]))
    g = Ground(view, horizon, floor)
    blades = sample(noise, g.x * .55 + .02 * torch.sin(2 * t + 3 * g.x), g.depth * .5)
    fine = sample(noise, g.x * 1.1 + .03 * torch.sin(3 * t + 4 * g.x), g.depth * .9, 1)
    tone = .92 + (.16 * blades + .14 * fine) * g.near + .12 * g.v
    return mix(image, rgb(.34, .62, .20, like=x) * tone.unsqueeze(-1), g.shown)


def night(view, t, u, spots, noise, floor):
    x, y = view.at(.3)
    haze = smooth(-.1, 1.4, sample(noise, x * .4 + u[:, 0], y * .5 + u[:, 1] + .4 * x))
    image = mix(rgb(.03, .04, .15, like=x), rgb(.15, .16, .36, like=x), smooth(-1., 1.1, y))
    image = image + rgb(.20, .12, .30, like=x) * (.55 * haze).unsqueeze(-1)
    s = spots[:, None, :44]
    wide = 1.2 * view.width / min(view.width, view.height)
    tall = 1.2 * view.height / min(view.width, view.height)
    twinkle = .55 + .45 * torch.sin(t[..., 0] * (3 + 4 * s[..., 3]) + 20 * s[..., 2])
    sigma = .014 + .012 * s[..., 2] ** 3
    stars = spots_of(x, y, (s[..., 0] * 2 - 1) * wide, (s[..., 1] * 2 - 1) * tall, sigma, twinkle)
    return image + rgb(.95, .95, .85, like=x) * stars.clamp(max=1).unsqueeze(-1)


def ocean(view, t, u, spots, noise, floor):
    horizon = .02 + .12 * (u[:, 0] - .5)
    x, y = view.at(.2)
    image = mix(rgb(.36, .62, .92, like=x), rgb(.86, .93, .97, like=x), smooth(-1., .1, y))
    cloud = sample(noise, x * .4 + .04 * t, y * 1.2 + u[:, 1])
    image = mix(image, rgb(1., 1., 1., like=x), .7 * smooth(.1, 1.1, cloud))
    g = Ground(view, horizon, floor)
    swell = sample(noise, g.x * .26 + .10 * t, g.depth * .42 + .26 * t) + sample(noise, g.x * .38 - .12 * t,
                                                                                g.depth * .5 + .17 * t, 1)
    swell = swell * smooth(.03, .4, g.v)
    sea = mix(rgb(.16, .48, .66, like=x), rgb(.03, .27, .46, like=x), g.near)
    sea = sea * (1 + .32 * swell).clamp(min=.5).unsqueeze(-1)
    sea = mix(sea, rgb(.92, .98, 1., like=x), .55 * smooth(.75, 1.6, swell))
    return mix(image, sea, g.shown)


def desert(view, t, u, spots, noise, floor):
    x, y = view.at(.15)
    image = mix(rgb(.30, .22, .48, like=x), rgb(.98, .52, .30, like=x), smooth(-1.1, -.1, y))
    image = mix(image, rgb(1., .80, .46, like=x), smooth(-.3, .3, y))
    sun_x, sun_y = 1.2 * u[:, 0] - .6, .16
    r = torch.sqrt((x - sun_x) ** 2 + (y - sun_y) ** 2 + 1e-6)
    sun = (.75 * torch.exp(-3.2 * r) + 1.2 * (1 - smooth(.15, .19, r))).clamp(max=1)
    image = mix(image, rgb(1., .93, .66, like=x), sun)
    pixel = view.step[..., None, None]
    streak = smooth(.3, 1.2, sample(noise, x * .25 + .03 * t, y * 2.2 + u[:, 1]))
    image = mix(image, rgb(.98, .66, .52, like=x), .5 * streak * (1 - smooth(-.2, .2, y)))
    fx, _ = view.at(.45)
    far = .17 + .05 * torch.sin(2.4 * fx + 6 * u[:, 2]) + .02 * torch.sin(6 * fx + 6 * u[:, 3])
    image = mix(image, rgb(.66, .36, .24, like=x), below(y, far, pixel))
    nx, _ = view.at(.8)
    near = .32 + .07 * torch.sin(1.6 * nx + 6 * u[:, 4])
    g = Ground(view, .12, floor)
    ripple = torch.sin(5 * g.depth + 2.2 * sample(noise, g.x * .3, g.depth * .3) + 1.2 * g.x - .8 * t) * g.near
    tone = .94 + .10 * ripple + .22 * (y - .6) + .08 * sample(noise, g.x * .3, g.depth * .3, 1)
    return mix(image, rgb(.83, .52, .29, like=x) * tone.unsqueeze(-1), below(y, near, pixel))


def checker(view, t, u, spots, noise, floor):
    horizon = .10 + .1 * (u[:, 0] - .5)
    x, y = view.at(.3)
    cool = smooth(-1.5, 1.5, sample(noise, x * .1 + .05 * t, y * .12 + u[:, 1]))
    image = mix(rgb(.70, .77, .88, like=x), rgb(.90, .86, .82, like=x), cool)
    image = image * (.86 + .14 * smooth(-1.2, .3, y)).unsqueeze(-1)
    g = Ground(view, horizon, floor, .025)

    def wave(q, blur):                            # a square wave whose edges blur as the tiles get small
        triangle = torch.asin(torch.sin(math.pi * q) * .9999) * (2 / math.pi)
        return (triangle / blur.clamp(min=1e-3)).clamp(-1, 1)

    pixel = view.step[..., None, None]
    blur_x, blur_y = (pixel * g.depth * 2.4).clamp(max=4), (pixel * g.depth ** 2 * 2.4).clamp(max=4)
    tiles = wave(g.x * .8 + u[:, 2], blur_x) * wave(g.depth * .8 + u[:, 3], blur_y) * torch.exp(-(.7 * blur_y) ** 2)
    tone = (.60 + .18 * tiles) * (.88 + .16 * g.near)
    return mix(image, rgb(1.0, .97, .92, like=x) * tone.unsqueeze(-1), g.shown)


def snow(view, t, u, spots, noise, floor):
    horizon = .18 + .1 * (u[:, 0] - .5)
    x, y = view.at(.3)
    pixel = view.step[..., None, None]
    image = mix(rgb(.52, .60, .72, like=x), rgb(.80, .84, .90, like=x), smooth(-1., .3, y))
    tooth = torch.asin(torch.sin(9 * x + 6 * u[:, 1]) * .999) * .05 + .07 * sample(noise, x * .5, u[:, 2])
    image = mix(image, rgb(.42, .52, .58, like=x), .8 * below(y, horizon - .12 + tooth, 5 * pixel))
    g = Ground(view, horizon, floor)
    tone = .93 + .07 * sample(noise, g.x * .3, g.depth * .4) * g.near
    image = mix(image, rgb(.93, .95, 1., like=x) * tone.unsqueeze(-1), below(y, horizon, 3 * pixel))
    s, time = spots[:, None, :46], t[..., 0]
    wide = 1.25 * view.width / min(view.width, view.height)
    tall = 1.25 * view.height / min(view.width, view.height)
    near = .4 + .6 * s[..., 3]                    # near flakes are larger, faster, and move more with the camera
    px = (s[..., 0] * 2 - 1) * wide + .06 * torch.sin(2 * time + 9 * s[..., 2])
    py = torch.remainder(s[..., 1] * 2 * tall + time * .75 * near, 2 * tall) - tall
    fx, fy = view.at(.7)
    flakes = spots_of(fx, fy, px, py, .016 + .018 * near ** 2, .9 * near ** .5)
    return mix(image, rgb(1., 1., 1., like=x), flakes.clamp(max=1))


def gray(view, t, u, spots, noise, floor):
    x, y = view.at()
    wall = .58 + .10 * (u[:, 0] - .5) - .07 * (x * x + (y + .2) ** 2)
    table = .66 + .10 * (u[:, 0] - .5) - .12 * x * x - .10 * (y - .4)
    tone = torch.lerp(wall, table, smooth(.0, .55, y))
    return tone.unsqueeze(-1) * rgb(1., 1., 1.02, like=x)


def water(view, t, u, spots, noise, floor):
    x, y = view.at(.5)
    image = mix(rgb(.20, .66, .74, like=x), rgb(.03, .22, .40, like=x), smooth(-1.2, .8, y))
    slant = x * .38 + .15 * y
    rays = sample(noise, slant + .06 * t, .12 * t + u[:, 0]) + sample(noise, 1.6 * slant - .07 * t, .1 * t + u[:, 1], 1)
    image = image + rgb(.22, .30, .26, like=x) * (smooth(-1.4, 1.8, rays) * (1 - smooth(-1.1, .75, y))).unsqueeze(-1)
    g = Ground(view, .42, floor, .05)
    caustic = (sample(noise, g.x * .35 + .1 * t, g.depth * .3 + .07 * t)
               - sample(noise, g.x * .35 - .09 * t, g.depth * .3 - .05 * t, 1)).abs()
    tone = .85 + .30 * (1 - smooth(.0, .6, caustic)) * g.near
    bed = mix(rgb(.05, .26, .42, like=x), rgb(.40, .54, .48, like=x), g.near) * tone.unsqueeze(-1)
    image = mix(image, bed, smooth(.44, .58, y))
    s, time = spots[:, None, :18], t[..., 0]
    wide = 1.2 * view.width / min(view.width, view.height)
    tall = 1.2 * view.height / min(view.width, view.height)
    px = (s[..., 0] * 2 - 1) * wide + .04 * torch.sin(4 * time + 9 * s[..., 2])
    py = tall - torch.remainder(s[..., 1] * 2 * tall + time * (.35 + .35 * s[..., 3]), 2 * tall)
    bubbles = spots_of(x, y, px, py, .016 + .016 * s[..., 3], .75 + 0 * px)
    return mix(image, rgb(.82, .96, .98, like=x), bubbles.clamp(max=1))


def mountains(view, t, u, spots, noise, floor):
    x, y = view.at(.1)
    pixel = view.step[..., None, None]
    image = mix(rgb(.56, .66, .86, like=x), rgb(.99, .82, .74, like=x), smooth(-1., .1, y))
    cloud = sample(noise, x * .3 + .04 * t, y * 1.3 + u[:, 5])
    image = mix(image, rgb(1., .90, .84, like=x), .6 * smooth(.2, 1.2, cloud))
    layers = (((.72, .68, .80), -.20, .30, 1.0, .2), ((.52, .52, .70), .10, .26, 1.2, .4),
              ((.32, .38, .56), .40, .22, 1.4, .65), ((.16, .24, .36), .72, .16, 1.7, .9))
    for k, (colour, height, rise, rate, near) in enumerate(layers):
        lx, _ = view.at(near)
        ridge = height + .1 * (u[:, 0] - .5) - rise * sample(noise, lx * .32 * rate + .37 * k, u[:, k] * 2 - 1, k % 2)
        foot = rgb(*colour, like=x) * .55 + rgb(.96, .84, .82, like=x) * .45
        drift = smooth(.0, .5, y - ridge + .12 * sample(noise, lx * .4 + .06 * t, y * .6 + .3 * k))
        layer = mix(rgb(*colour, like=x), foot, drift * (.9 - .2 * k))
        image = mix(image, layer, below(y, ridge, pixel))
    return image


def aurora(view, t, u, spots, noise, floor):
    x, y = view.at(.25)
    pixel = view.step[..., None, None]
    image = mix(rgb(.03, .05, .14, like=x), rgb(.07, .20, .26, like=x), smooth(-1., .5, y))
    for k, (low, high) in enumerate((((.10, .80, .45), (.30, .25, .65)), ((.10, .62, .58), (.45, .20, .60)))):
        bend = .1 * torch.sin(3.7 * x - .7 * t + 6 * u[:, 2 + k])
        lift = .02 - .42 * k + .22 * torch.sin(1.5 * x + .5 * t + 6 * u[:, k]) + bend - y
        shine = smooth(-.06, .05, lift) * torch.exp(-1.9 * lift.clamp(min=0))
        folds = .65 + .35 * sample(noise, x * 1.1 + .16 * t + k, .12 * t + u[:, 4], k)
        hue = mix(rgb(*low, like=x), rgb(*high, like=x), smooth(.05, .75, lift))
        image = image + hue * (.85 * shine * folds).unsqueeze(-1)
    hx, _ = view.at(.8)
    hill = .40 + .06 * torch.sin(1.7 * hx + 6 * u[:, 5]) + .03 * torch.sin(4.3 * hx + 6 * u[:, 6])
    g = Ground(view, .3, floor)
    glow = .9 + .12 * sample(noise, g.x * .3, g.depth * .4) + .1 * torch.sin(1.5 * x + .5 * t + 6 * u[:, 0])
    return mix(image, rgb(.17, .30, .37, like=x) * glow.unsqueeze(-1), below(y, hill, pixel))


def table(view, t, u, spots, noise, floor):
    horizon = .16 + .1 * (u[:, 0] - .5)
    x, y = view.at(.3)
    pixel = view.step[..., None, None]
    image = mix(rgb(.50, .44, .38, like=x), rgb(.66, .56, .46, like=x), smooth(-.8, .8, sample(noise, x * .2, y * .2)))
    sway = .06 * torch.sin(1.3 * t + 6 * u[:, 1])
    window = smooth(.62, .40, (x - u[:, 2] + .5 - .2 * sway).abs()) * smooth(.50, .30, (y + .45).abs())
    leaves = .75 + .25 * sample(noise, x * .7 + sway, y * .7 + .5 * sway, 1)
    image = mix(image, rgb(.98, .95, .82, like=x), .8 * window * leaves)
    g = Ground(view, horizon, floor)
    grain = sample(noise, g.x * .14 + .3 * torch.floor(g.depth * 1.3 + u[:, 3]), g.depth * 1.2)
    plank = (torch.remainder(g.depth * 1.3 + u[:, 3], 1) - .5).abs()
    seam = smooth(.46 - 2 * pixel * g.depth ** 2, .5, plank) * smooth(.15, .45, g.v)
    tone = .95 + .13 * grain * g.near - .26 * seam + .10 * sample(noise, g.x * .2, g.depth * .3, 1)
    wood = mix(rgb(.58, .38, .22, like=x), rgb(.70, .47, .27, like=x), g.near)
    return mix(image, wood * tone.unsqueeze(-1), g.shown)


PAINTERS = [grass, night, ocean, desert, checker, snow, gray, water, mountains, aurora, table]


def paint(background, view, times, floor, generator):
    """Backgrounds of a batch [b, t, h, w, 3]."""
    device, count = times.device, len(times)
    image = torch.empty(count, times.shape[1], view.height, view.width, 3, device=device)
    random = torch.rand(count, 8, generator=generator, device=device)
    spots = torch.rand(count, 60, 4, generator=generator, device=device)
    noise = textures(count, device, generator)
    for kind, painter in enumerate(PAINTERS):
        i = (background == kind).nonzero()[:, 0]
        if len(i):
            image[i] = painter(view.of(i), times[i][..., None, None], random[i][:, :, None, None, None], spots[i],
                               noise[i], floor[i][..., None, None]).clamp(0, 1)
    return image
