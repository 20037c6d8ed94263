"""Procedural captioned clips of one or two moving objects, drawn on the GPU, each sample with its own attributes.

Coordinates: x to the right, y down, half of the frame's shorter side is 1, the origin its centre; time in seconds at
16 fps. draw_spec gives the attributes (int tensors), render the clip [b, 3, frames, height, width] in [-1, 1] and the
objects' coverage [b, 2, frames, height, width] in [0, 1]. Of two objects the first is the left one. objects.py draws
what moves, scenery.py what is behind.
"""
import torch

import captions
import objects
import scenery

FPS = 16.0
COUNTS = dict(shape=len(captions.SHAPES), colour=len(captions.COLOURS), motion=len(captions.MOTIONS),
              background=len(captions.BACKGROUNDS), size=len(captions.SIZES), camera=len(captions.CAMERAS))
RADIUS = (.17, .24, .33)
MOTION = {name: k for k, name in enumerate(captions.names("motion"))}
BACKGROUND = {name: k for k, name in enumerate(captions.names("background"))}
PANS, ZOOMS = (0., -1., 1., 0., 0.), (0., 0., 0., -1., 1.)                 # by camera


def held_out(spec):
    """Whether any object of a sample shows a pair of captions.HELD_OUT."""
    found = torch.zeros_like(spec["shape"], dtype=torch.bool)
    second = spec["second"] > 0
    for a, va, b, vb in captions.HELD_OUT:
        va, vb = captions.names(a).index(va), captions.names(b).index(vb)
        found |= (spec[a] == va) & (spec[b] == vb)
        found |= second & (spec.get(a + "2", spec[a]) == va) & (spec.get(b + "2", spec[b]) == vb)
    return found


def draw_spec(count, generator, device="cpu", which="train", pairs=.3, moving_camera=.5):
    """Random attributes: which = "train" (no held-out pair), "test" (at least one in each sample) or "all".

    pairs: share of two-object samples; moving_camera: share of samples whose camera pans or zooms, where it may.
    """
    drawn = count if which == "all" else count * (2 if which == "train" else 12) + 64

    def chance(share):
        return torch.rand(drawn, generator=generator, device=device) < share

    def number(n):
        return torch.randint(0, n, (drawn,), generator=generator, device=device)

    spec = {k: number(n) for k, n in COUNTS.items()}
    spec["second"] = chance(pairs).long()
    spec.update(shape2=number(COUNTS["shape"]), motion2=number(COUNTS["motion"]), size2=number(2),
                colour2=(spec["colour"] + 1 + number(COUNTS["colour"] - 1)) % COUNTS["colour"])
    sideways = lambda motion: (motion == MOTION["moving left"]) | (motion == MOTION["moving right"])
    resized = lambda motion: (motion == MOTION["growing"]) | (motion == MOTION["shrinking"])
    same = chance(.5) | sideways(spec["motion"]) | sideways(spec["motion2"])
    spec["motion2"] = torch.where(same, spec["motion"], spec["motion2"])
    two = spec["second"] > 0
    spec["size"] = torch.where(two, spec["size"] % 2, spec["size"])
    for k in ("shape2", "motion2", "size2", "colour2"):
        spec[k] = torch.where(two, spec[k], 0)
    # What the camera does must not be mistaken for what an object does.
    still = ~chance(moving_camera) | (spec["background"] == BACKGROUND["on a plain gray background"])
    still |= (spec["camera"] <= 2) & sideways(spec["motion"])
    still |= (spec["camera"] >= 3) & (resized(spec["motion"]) | (two & resized(spec["motion2"])))
    spec["camera"] = torch.where(still, 0, spec["camera"])
    if which == "all":
        return spec
    held = held_out(spec)
    index = (held if which == "test" else ~held).nonzero()[:, 0][:count]
    assert len(index) == count
    return {k: v[index] for k, v in spec.items()}


def path(spec, suffix, side, times, stage, generator):
    """One object's way through the clip: x, y, radius, yaw, height over the floor [b, frames], floor [b, 1], rgb.

    side [b, 1]: 0 alone, -1 and 1 the left and the right one of two; times [b, frames]; stage: extents and floor.
    """
    device, count = times.device, len(times)
    random = torch.rand(count, 12, generator=generator, device=device)

    def uniform(column, low, high):
        return low + (high - low) * random[:, column:column + 1]

    pick = lambda table, index: objects.constant(table, device)[index][:, None]
    motion, shape = spec["motion" + suffix][:, None], spec["shape" + suffix]
    alone, ax, ay, floor = side == 0, stage["across"], stage["down"], stage["floor"]
    solid_ground, u = stage["solid"], times * stage["pace"]
    radius = pick(RADIUS, spec["size" + suffix]) * uniform(0, .93, 1.07) * torch.where(alone, 1., .88)
    scale = torch.ones_like(times)

    def when(name, value, otherwise):
        return torch.where(motion == MOTION[name], value, otherwise)

    scale = when("growing", .5 + .42 * u, scale)
    scale = when("shrinking", 1.34 - .42 * u, scale)
    radius = radius * scale
    foot = pick(objects.FOOT, shape) * radius
    rest = floor - foot
    on_ground = solid_ground & ((uniform(1, 0, 1) < .75) | (motion == MOTION["standing still"]))
    x = torch.where(alone, uniform(2, -.45, .45), side * uniform(2, .38, .5)) * ax + 0 * u
    y = torch.where(on_ground, rest, uniform(3, -.35, .25) * ay + 0 * u)
    hop = (times * uniform(4, .9, 1.25) + uniform(5, 0, 1)) % 1
    y = when("bouncing", rest - uniform(6, .55, .85) * 4 * hop * (1 - hop), y)
    # Two that move sideways keep their distance, so the stage gives them one speed.
    start, shift = torch.where(alone, uniform(7, .62, .78), .45), stage["speed"] * torch.where(alone, 1., .65) * u
    x = when("moving left", (side * .38 + start - shift) * ax, x)
    x = when("moving right", (side * .38 - start + shift) * ax, x)
    speed = uniform(8, .48, .66) * ay
    y = when("rising", torch.where(solid_ground, rest, .62 * ay + 0 * u) - speed * u, y)
    fall = -.78 * ay + speed * u
    y = when("falling", torch.where(solid_ground, torch.minimum(fall, rest), fall), y)
    orbit, phase = torch.where(alone, uniform(9, .34, .46), .2), uniform(10, 0, 6.28)
    x = when("circling", torch.where(alone, .2 * x, x) + orbit * torch.cos(phase + times * 2.6), x)
    y = when("circling", -.08 + orbit * torch.sin(phase + times * 2.6), y)
    wide = pick((6.28, .5, .5, .9, .9, .9), shape)
    yaw = pick((0., .55, .55, -.45, -.45, -.45), shape) + wide * uniform(11, 0, 1) + 0 * u
    turning = torch.where(random[:, 1:2] < .5, -1., 1.) * uniform(4, 2.6, 4.2)
    yaw = when("spinning", yaw + turning * times, yaw)
    rgb = objects.constant(objects.RGB, device)[spec["colour" + suffix]]
    return dict(x=x, y=y, radius=radius, yaw=yaw, height=floor - foot - y, floor=floor, rgb=rgb)


class View:
    """Where the camera looks: world coordinates of the pixels at every moment.

    left, top [b, frames]: the frame's corner in the plane of the objects; step [b, frames]: a pixel's size;
    pan [b, frames]: how far the camera has moved aside. What is far away moves less: see at.
    """

    def __init__(self, height, width, centre_x, centre_y, zoom, pan):
        self.height, self.width, self.pan = height, width, pan
        self.step = 2 * zoom / min(height, width)
        self.left = centre_x + pan - self.step * width / 2
        self.top = centre_y - self.step * height / 2

    def of(self, i):
        other = object.__new__(View)
        other.height, other.width = self.height, self.width
        other.step, other.left, other.top, other.pan = self.step[i], self.left[i], self.top[i], self.pan[i]
        return other

    def at(self, near=1.):
        """x [b, frames, 1, width] and y [b, frames, height, 1] of a layer: near = 1 moves as the objects do."""
        device, grid = self.step.device, lambda v: v[..., None, None]
        columns = torch.arange(self.width, device=device) + .5
        rows = (torch.arange(self.height, device=device) + .5)[:, None]
        x = grid(self.left + (near - 1) * self.pan) + columns * grid(self.step)
        return x, grid(self.top) + rows * grid(self.step)


@torch.no_grad()
def render(spec, frames, height, width, device, generator, zoom=1., follow=False, every=1, dtype=torch.bfloat16):
    """Draw a batch. zoom is the window's half height (1 shows all); follow puts the window near the object; every = 2
    draws every second of the frames only."""
    count, short = len(spec["shape"]), min(height, width)
    random = torch.rand(count, 8, generator=generator, device=device)
    uniform = lambda column, low, high: low + (high - low) * random[:, column:column + 1]
    duration = (frames - 1) / FPS
    times = torch.arange(0, frames, every, device=device)[None] / FPS + uniform(0, 0, 1) * max(0., 2 - duration)
    background = spec["background"]
    low, high, ground = scenery.floors(background, device)
    stage = dict(across=1 + .6 * (width / short - 1), down=1 + .6 * (height / short - 1), solid=ground > 0,
                 floor=low + (high - low) * random[:, 1:2], pace=min(1., 2 / max(duration, .1)),
                 speed=uniform(2, .55, .72))
    two = spec["second"] > 0
    side = -1. * two[:, None]
    bodies = [path(spec, "", side, times, stage, generator), path(spec, "2", -side, times, stage, generator)]
    bodies[0]["there"], bodies[1]["there"] = torch.ones_like(two), two
    pick = lambda table: objects.constant(table, device)[spec["camera"]][:, None]
    progress = (times * stage["pace"] / 2).clamp(0, 1)
    pan = pick(PANS) * uniform(4, .36, .5) * (progress - .5)
    zooming = torch.where(pick(ZOOMS) > 0, 1 - progress, progress) * (pick(ZOOMS) != 0)
    scale = 1 - uniform(5, .22, .3) * zooming
    focus_x = torch.where(two[:, None], 0., bodies[0]["x"].mean(1, keepdim=True)).clamp(-.6, .6)
    focus_y = bodies[0]["y"].mean(1, keepdim=True).clamp(-.5, .6)
    centre_x, centre_y = (1 - scale) * focus_x, (1 - scale) * focus_y
    if follow:
        middle = times.shape[1] // 2
        jitter = (torch.rand(count, 2, generator=generator, device=device) - .5) * zoom * 1.4
        target = torch.stack((bodies[0]["x"][:, middle] - pan[:, middle], bodies[0]["y"][:, middle]), 1) + jitter
        target = target.clamp(-(1 - zoom), 1 - zoom)
        centre_x, centre_y = centre_x + target[:, :1], centre_y + target[:, 1:]
    view = View(height, width, centre_x, centre_y, scale * zoom, pan)
    image = scenery.paint(background, view, times, stage["floor"], generator)
    light = scenery.light(background, device)
    cover = torch.zeros(2, count, times.shape[1], height, width, device=device, dtype=dtype)
    for k in (1, 0):
        objects.draw(image, cover[k], view, spec["shape" + "2" * k], bodies[k], light, light["shadow"])
    cover[1] *= 1 - cover[0]
    return (image.permute(0, 4, 1, 2, 3) * 2 - 1).to(dtype), cover.permute(1, 0, 2, 3, 4)
