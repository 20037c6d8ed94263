"""Procedural captioned clips of one moving object, drawn on the GPU, each sample of a batch with its own attributes.

Coordinates: x to the right, y down, the frame's half height is 1, the origin its centre; time in seconds at 16 fps.
draw_spec gives the attributes (int tensors), render the clip [b, 3, frames, height, width] in [-1, 1] and the object's
coverage [b, 1, frames, height, width] in [0, 1].
"""
import math

import torch

from captions import BACKGROUNDS, COLOURS, MOTIONS, SHAPES, SIZES

FPS = 16.0
COUNTS = dict(shape=len(SHAPES), colour=len(COLOURS), motion=len(MOTIONS), background=len(BACKGROUNDS), size=len(SIZES))
RGB = [(.86, .12, .12), (.10, .60, .15), (.12, .25, .90), (.96, .85, .12),
       (.55, .15, .75), (.98, .50, .05), (.96, .96, .96), (.98, .50, .72)]
RADIUS = [.14, .20, .28]
GRASS, NIGHT, OCEAN, DESERT, CHECKER, SNOW, GRAY = range(7)
FLOOR = [.55, .70, .30, .60, .60, .65, .65]          # where a bouncing object touches ground, by background
BALL, SQUARE, TRIANGLE, STAR, HEART, RING = range(6)
MOTION = {phrases[0]: k for k, phrases in enumerate(MOTIONS)}


def is_held_out(spec):
    """One in ten combinations of shape, colour, motion and background is never trained on."""
    return (spec["shape"] * 131 + spec["colour"] * 37 + spec["motion"] * 71 + spec["background"] * 17) % 10 == 3


def draw_spec(count, generator, device="cpu", which="train"):
    """Random attributes: which = "train" (no held-out combination), "test" (held-out ones only) or "all"."""
    drawn = count if which == "all" else int(count * (1.3 if which == "train" else 14)) + 64
    spec = {k: torch.randint(0, n, (drawn,), generator=generator, device=device) for k, n in COUNTS.items()}
    if which == "all":
        return spec
    held = is_held_out(spec)
    index = (held if which == "test" else ~held).nonzero()[:, 0][:count]
    assert len(index) == count
    return {k: v[index] for k, v in spec.items()}


def signed_distance(shape, x, y):
    """Distance to a unit-sized shape's outline, negative inside."""
    if shape == BALL:
        return torch.sqrt(x * x + y * y + 1e-9) - .92
    if shape == SQUARE:
        return torch.maximum(x.abs(), y.abs()) - .8
    if shape == TRIANGLE:
        return torch.maximum(y - .1, .866 * x.abs() - .5 * (y - .1)) - .52
    if shape == STAR:
        wedge = 2 * math.pi / 5
        radius, angle = torch.sqrt(x * x + y * y + 1e-9), torch.atan2(x, -y)
        angle = (torch.remainder(angle + wedge / 2, wedge) - wedge / 2).abs()
        px, py = radius * torch.cos(angle), radius * torch.sin(angle)
        ex, ey = .45 * math.cos(wedge / 2) - 1.05, .45 * math.sin(wedge / 2)
        length = math.hypot(ex, ey)
        return (px - 1.05) * (ey / length) - py * (ex / length)
    if shape == HEART:
        x, y = x.abs() / 1.55, -y / 1.55 + .56
        lobe = torch.sqrt((x - .25) ** 2 + (y - .75) ** 2 + 1e-9) - math.sqrt(2) / 4
        m = .5 * (x + y).clamp(min=0)
        point = torch.sqrt(torch.minimum(x * x + (y - 1) ** 2, (x - m) ** 2 + (y - m) ** 2) + 1e-9) * torch.sign(x - y)
        return torch.where(x + y > 1, lobe, point) * 1.55
    return (torch.sqrt(x * x + y * y + 1e-9) - .68).abs() - .25


@torch.no_grad()
def paths(spec, frames, device, generator):
    """Centre x and y, radius and rotation of the object, each [b, frames], and the floor's height [b, 1]."""
    count = len(spec["shape"])
    t = (torch.arange(frames, device=device) / FPS)[None]
    random = torch.rand(count, 12, generator=generator, device=device)

    def uniform(column, low, high):
        return (low + (high - low) * random[:, column])[:, None]

    motion = spec["motion"][:, None]
    floor = torch.tensor(FLOOR, device=device)[spec["background"]][:, None]
    radius = torch.tensor(RADIUS, device=device)[spec["size"]][:, None] * uniform(0, .92, 1.08)
    x, y = uniform(1, -.45, .45) + 0 * t, uniform(2, -.35, .3) + 0 * t
    rotation, scale = 0 * x, 1 + 0 * x
    phase, speed, rate = uniform(3, 0, 6.28), uniform(4, .5, .75), uniform(5, .9, 1.3)

    def when(name, value, otherwise):
        return torch.where(motion == MOTION[name], value, otherwise)

    hop = (t * rate + uniform(6, 0, 1)) % 1
    y = when("bouncing", floor - radius - uniform(7, .6, .9) * 4 * hop * (1 - hop), y)
    x = when("moving left", uniform(8, .65, .8) - speed * t, x)
    x = when("moving right", uniform(8, -.8, -.65) + speed * t, x)
    y = when("rising", uniform(8, .6, .75) - speed * t, y)
    y = when("falling", uniform(8, -.8, -.65) + speed * t, y)
    rotation = when("spinning", uniform(9, 0, 6.28) + t * uniform(5, 2.5, 4.), rotation)
    orbit = uniform(8, .35, .5)
    x = when("circling", orbit * torch.cos(phase + t * 2.6), x)
    y = when("circling", orbit * torch.sin(phase + t * 2.6) * .9, y)
    scale = when("growing", .45 + .42 * t, scale)
    scale = when("shrinking", (1.35 - .42 * t).clamp(min=.25), scale)
    return x, y, radius * scale, rotation, floor


def colour(*rgb, device):
    return torch.tensor(rgb, device=device).view(1, 3, 1, 1, 1)


def over(image, layer, alpha):
    """layer over image; alpha has no channel axis."""
    return torch.lerp(image, layer.expand_as(image), alpha.unsqueeze(1).expand_as(image))


def dots(x, y, px, py, sigma):
    """Sum of round spots at px, py [b, t, n] on the grid x [b, 1, 1, w], y [b, 1, h, 1]."""
    gx = torch.exp(-((x[:, :, 0, None, :] - px[..., None]) / sigma) ** 2)
    gy = torch.exp(-((y[:, :, :, 0][:, :, None] - py[..., None]) / sigma) ** 2)
    return torch.einsum("btnh,btnw->bthw", gy.expand(-1, max(gx.shape[1], gy.shape[1]), -1, -1), gx)


def background(kind, x, y, t, u, spots, soft, aspect):
    """One kind of background [b, 3, t, h, w].

    u: random numbers [b, 8, 1, 1, 1]; spots [b, 48, 4] place stars and flakes; soft: width of a soft edge.
    """
    device, rgb = x.device, colour
    lift = lambda a: a.unsqueeze(1)

    def edge(distance):
        return torch.sigmoid(distance / soft * 2)

    if kind == GRASS:
        sky = rgb(.45, .7, .95, device=device) * (1 - .25 * (lift(y) + 1)) + .12
        blades = .85 + .10 * torch.sin(26 * x + u[:, 0] * 6 + 4 * torch.sin(y * 22 + u[:, 1] * 6)) + .3 * (y - .25)
        cloud_x = torch.remainder(.15 * t + u[:, 2] * 2.8, 2.8) - 1.4
        cloud = .8 * torch.exp(-(((x - cloud_x) / .35) ** 2 + ((y + .65 + .2 * (u[:, 3] - .5)) / .12) ** 2))
        image = torch.lerp(sky, rgb(.25, .6, .2, device=device) * lift(blades), lift(edge(y - .25)))
        return over(image.expand(-1, -1, t.shape[1], -1, -1), torch.ones_like(image[:, :, :1]), cloud)
    if kind == NIGHT:
        sky = rgb(.03, .04, .14, device=device) + rgb(.05, .05, .12, device=device) * lift(y + 1) * .5
        twinkle = .5 + .5 * torch.sin(t[:, :, 0] * 4 + spots[:, None, :24, 2] * 20)
        gx = torch.exp(-((x[:, 0, 0, None, :] - ((spots[:, :24, 0] * 2 - 1) * aspect)[..., None]) / .018) ** 2)
        gy = torch.exp(-((y[:, 0, :, 0][:, None] - (spots[:, :24, 1] * 2 - 1)[..., None]) / .018) ** 2)
        return sky + lift(torch.einsum("btn,bnh,bnw->bthw", twinkle, gy, gx)) * .9
    if kind == OCEAN:
        depth = (y - .1).clamp(min=0)
        waves = torch.sin(9 * torch.log(depth + .08) * 2.2 + 3 * t + 2 * torch.sin(5 * x + t + u[:, 0] * 6))
        sky = rgb(.6, .8, .95, device=device) * (1 - .2 * (lift(y) + 1))
        sea = rgb(.05, .3, .55, device=device) * (1 + .35 * lift(waves)) + .04
        return over(sky.expand_as(sea), sea, edge(y - .1 - .02 * torch.sin(6 * x + 2 * t)))
    if kind == DESERT:
        up = lift((1 - (y + 1) / 1.4).clamp(0, 1))
        sky = rgb(.98, .55, .25, device=device) * (1 - .5 * up) + rgb(.1, .0, .2, device=device) * up
        sun = edge(.16 - torch.sqrt((x - (u[:, 1] * 1.2 - .6)) ** 2 + (y - .05) ** 2))
        dune = .35 + .06 * torch.sin(3 * x + u[:, 0] * 6)
        image = torch.lerp(sky, rgb(1., .9, .5, device=device), lift(sun))
        return torch.lerp(image, rgb(.75, .5, .25, device=device) * lift(1 - .3 * (y - dune)), lift(edge(y - dune)))
    if kind == CHECKER:
        depth = 1 / (y + .05).clamp(min=.04)

        def tiles(q, blur):                      # a square wave whose edges soften as the tiles get small
            wave = torch.asin(torch.sin(math.pi * q).clamp(-1, 1) * .9999) * (2 / math.pi)
            return (wave / blur.clamp(min=1e-3)).clamp(-1, 1)

        blur_x, blur_y = (soft * depth * 2.4).clamp(max=4.), (soft * depth * depth * 4).clamp(max=4.)
        check = tiles(x * depth * 1.2 + u[:, 0], blur_x) * tiles(depth * 2, blur_y) * torch.exp(-(blur_y * .8) ** 2)
        floor = (.495 + .275 * check) * (1 - .5 * torch.exp(-(y + .05) * 8))
        wall = rgb(.75, .8, .88, device=device)
        return torch.lerp(wall, lift(floor).clamp(0, 1), lift(edge(y + .05)))
    if kind == SNOW:
        px = (spots[:, None, :, 0] * 2 - 1) * aspect + .05 * torch.sin(t[:, :, 0] * 2 + spots[:, None, :, 2] * 9)
        py = torch.remainder(spots[:, None, :, 1] * 2.2 + t[:, :, 0] * (.3 + .4 * spots[:, None, :, 2]), 2.2) - 1.1
        flakes = dots(x, y, px, py, .024).clamp(max=1.) * .9
        sky = rgb(.62, .68, .78, device=device) * (1 - .15 * lift(y))
        return over(sky.expand(-1, -1, flakes.shape[1], -1, flakes.shape[3]), torch.ones_like(sky[:, :, :1]), flakes)
    return rgb(.5, .5, .52, device=device) * (1 - .1 * lift(y)) * (.9 + .2 * u[:, 0].unsqueeze(1))


@torch.no_grad()
def render(spec, frames, height, width, device, generator, zoom=1., follow=False, dtype=torch.bfloat16):
    """Draw a batch. zoom is the window's half height (1 shows all); follow puts the window near the object."""
    count = len(spec["shape"])
    px, py, radius, rotation, floor = paths(spec, frames, device, generator)
    centre = torch.zeros(count, 2, device=device)
    if follow:
        jitter = (torch.rand(count, 2, generator=generator, device=device) - .5) * zoom * 1.4
        centre = (torch.stack((px[:, frames // 2], py[:, frames // 2]), 1) + jitter).clamp(-(1 - zoom), 1 - zoom)
    aspect = width / height
    ys = ((torch.arange(height, device=device) + .5) / height * 2 - 1) * zoom
    xs = ((torch.arange(width, device=device) + .5) / width * 2 - 1) * zoom * aspect
    x = (xs[None] + centre[:, :1])[:, None, None, :]
    y = (ys[None] + centre[:, 1:])[:, None, :, None]
    soft = 2.2 * zoom / height
    t = (torch.arange(frames, device=device) / FPS)[None, :, None, None]
    random = torch.rand(count, 8, generator=generator, device=device)
    spots = torch.rand(count, 48, 4, generator=generator, device=device)
    image = torch.empty(count, 3, frames, height, width, device=device)
    for kind in range(len(BACKGROUNDS)):
        i = (spec["background"] == kind).nonzero()[:, 0]
        if len(i):
            u = random[i][:, :, None, None, None]
            drawn = background(kind, x[i], y[i], t, u, spots[i], soft, aspect)
            image[i] = drawn.expand(len(i), 3, frames, height, width)
    return draw_object(image, spec, x, y, px, py, radius, rotation, floor, soft, dtype)


def draw_object(image, spec, x, y, px, py, radius, rotation, floor, soft, dtype):
    """Shadow on the ground, then the shaded shape over it."""
    grid = lambda a: a[:, :, None, None]
    px, py, radius, rotation, floor = map(grid, (px, py, radius, rotation, floor))
    local_x, local_y = (x - px) / radius, (y - py) / radius
    c, s = torch.cos(rotation), torch.sin(rotation)
    turned_x, turned_y = c * local_x - s * local_y, s * local_x + c * local_y
    distance = torch.empty(image.shape[0], *image.shape[2:], device=image.device)
    for shape in range(len(SHAPES)):
        i = (spec["shape"] == shape).nonzero()[:, 0]
        if len(i):
            distance[i] = signed_distance(shape, turned_x[i], turned_y[i]).expand(len(i), *image.shape[2:])
    alpha = torch.sigmoid(-distance * radius / soft * 2.5)
    shape = spec["shape"][:, None, None, None]
    ball, turnless = (shape == BALL).float(), ((shape == BALL) | (shape == RING)).float()
    two_tone = 1 - .35 * turnless * torch.sigmoid(turned_x * radius / soft * 2)      # else their spin could not be seen
    normal_z = torch.sqrt((1 - local_x * local_x - local_y * local_y).clamp(min=0))
    light = (-.45 * local_x - .6 * local_y + .66 * normal_z).clamp(0, 1)
    flat = .92 + .12 * (-local_y).clamp(-1, 1) - .18 * torch.exp(distance.clamp(max=0) * 9)
    shade = ball * (.4 + .65 * light) + (1 - ball) * flat
    rgb = torch.tensor(RGB, device=image.device)[spec["colour"]][:, :, None, None, None]
    body = rgb * (shade * two_tone).unsqueeze(1) + (ball * .45 * light ** 24).unsqueeze(1)
    ground = ((spec["background"] != NIGHT) & (spec["background"] != OCEAN)).float()[:, None, None, None]
    shadow = ground * .45 * torch.exp(-(((x - px) / (radius * 1.1)) ** 2 + ((y - floor - .02) / .06) ** 2))
    image = torch.lerp(image * (1 - shadow.unsqueeze(1)), body, alpha.unsqueeze(1)).clamp(0, 1)
    return (image * 2 - 1).to(dtype), alpha.unsqueeze(1).to(dtype)
