"""The objects of the world: shaded solids and their soft shadows, drawn into small windows of a clip.

An object's own coordinates have its size as the unit; z points at the viewer. A shape function maps x [n, t, 1, w],
y [n, t, h, 1], yaw and pixel size [n, t, 1, 1] to the distance from the outline (negative inside), the three parts of
the surface normal, and the share of a second tone of the colour or None, each [n, t, h, w].
"""
import functools
import math

import torch

BALL, CUBE, PYRAMID, STAR, HEART, RING = range(6)
FOOT = (.92, .86, .70, .80, .86, .92)                # from the centre down to the lowest point, by shape
RGB = ((.84, .09, .10), (.09, .58, .16), (.10, .25, .88), (.98, .82, .08), (.47, .13, .72),
       (.97, .46, .05), (.93, .93, .93), (.97, .47, .69), (.07, .07, .08), (.08, .76, .82))
PITCH = .42                                          # solids are seen a little from above


@functools.lru_cache(maxsize=None)
def constant(values, device):
    """A tensor of (nested tuples of) numbers, made once: bringing it to the device takes as long as much drawing."""
    return torch.tensor(values, device=device)


def turn(points, yaw):
    """Points (a tuple of triples) rotated about the vertical axis and tilted to the viewer: x, y, z, each [n, t, k]."""
    x, y, z = constant(points, yaw.device).unbind(1)
    c, s = torch.cos(yaw)[:, :, 0], torch.sin(yaw)[:, :, 0]
    x, z = c * x + s * z, c * z - s * x
    c, s = math.cos(PITCH), math.sin(PITCH)
    return x, y * c + z * s, z * c - y * s


def solid(x, y, yaw, pix, corners, edges, faces):
    """A convex solid: its outline from those projected edges that bound it, its surface from the nearest face.

    corners [k, 3]; edges: pairs of corners; faces: outward normal and distance from the centre.
    """
    cx, cy, _ = turn(corners, yaw)
    a, b = constant(tuple(edges), x.device).unbind(1)
    dx, dy = cx[..., b] - cx[..., a], cy[..., b] - cy[..., a]
    length = torch.sqrt(dx * dx + dy * dy).clamp(min=1e-4)
    nx, ny = dy / length, -dx / length
    offset = nx * cx[..., a] + ny * cy[..., a]
    side = nx[..., None] * cx[:, :, None] + ny[..., None] * cy[:, :, None] - offset[..., None]
    sign = torch.where(side.sum(-1) > 0, -1., 1.)                        # make the normals point outward
    bounds = (side * sign[..., None]).amax(-1) < 1e-3
    nx, ny, offset = (v * sign for v in (nx, ny, offset))
    offset = offset + 9. * ~bounds
    grid = lambda v, k: v[..., k, None, None]
    distance = None
    for k in range(len(edges)):
        line = grid(nx, k) * x + (grid(ny, k) * y - grid(offset, k))
        distance = line if distance is None else torch.maximum(distance, line)
    normals, offsets = turn(tuple(n for n, _ in faces), yaw), constant(tuple(d for _, d in faces), x.device)
    # A face that looks away lies far in front, where it is never the nearest.
    seen = normals[2] > .02
    slope_x, slope_y = (torch.where(seen, v / normals[2], 0.) for v in normals[:2])
    level = torch.where(seen, offsets / normals[2], 9.)
    depths = [grid(level, k) - grid(slope_x, k) * x - grid(slope_y, k) * y for k in range(len(faces))]
    nearest = functools.reduce(torch.minimum, depths)
    weights = [torch.exp((nearest - depth) * 14) for depth in depths]    # edges are rounded a little
    total = sum(weights)
    parts = (sum(w * grid(v, k) for k, w in enumerate(weights)) / total for v in normals)
    return distance, *parts, None


def cube(x, y, yaw, pix):
    s = .62
    corners = tuple((s * (1 if k & 1 else -1), s * (1 if k & 2 else -1), s * (1 if k & 4 else -1)) for k in range(8))
    edges = [(a, a | bit) for bit in (1, 2, 4) for a in range(8) if not a & bit]
    faces = [((1., 0., 0.), s), ((-1., 0., 0.), s), ((0., 0., 1.), s), ((0., 0., -1.), s), ((0., -1., 0.), s)]
    return solid(x, y, yaw, pix, corners, edges, faces)


def pyramid(x, y, yaw, pix):
    top, base, s = -.95, .62, .76
    corners = (0., top, 0.), (s, base, s), (-s, base, s), (-s, base, -s), (s, base, -s)
    edges = [(0, k) for k in range(1, 5)] + [(1, 2), (2, 3), (3, 4), (4, 1)]
    slope = math.hypot(s, base - top)
    up, out = -s / slope, (base - top) / slope
    faces = [((out * dx, up, out * dz), -top * -up) for dx, dz in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    return solid(x, y, yaw, pix, corners, edges, faces)


def ball(x, y, yaw, pix):
    """A beach ball: a plain one could not be seen spinning."""
    x, y = x / .92, y / .92
    r = torch.sqrt(x * x + y * y + 1e-9)
    z = torch.sqrt((1 - r * r).clamp(min=1e-4))
    c, s = math.cos(PITCH), math.sin(PITCH)
    up, near = y * c - z * s, z * c + y * s
    sector = torch.sin(3 * (torch.atan2(x.expand_as(near), near) - yaw))
    cap = torch.sqrt(x * x + near * near)                                # the poles are dark too
    stripe = .5 - .5 * (sector * cap * .23 / pix.clamp(max=.1)).clamp(-1, 1)
    return (r - 1) * .92, x, y, z, stripe


def bevelled(distance, pix, inward, face):
    """Normal of a body that rises from its outline as a quarter circle over the width inward, its face tilted."""
    gy, gx = torch.gradient(distance, dim=(2, 3))
    steep = torch.sqrt(gx * gx + gy * gy + 1e-12)
    distance = distance / (steep / pix)                                  # true distance, also where x is compressed
    rise = (1 + distance / inward).clamp(0, 1)
    tilt = rise / steep * .93
    nx, ny = gx * tilt + face * (1 - rise), gy * tilt
    return distance, nx, ny, torch.sqrt((1 - nx * nx - ny * ny).clamp(min=.02)), None


def coin(x, yaw):
    """x of a flat body rotated by yaw, which is never quite seen from its edge, and the tilt of its face."""
    c, s = torch.cos(yaw), torch.sin(yaw)
    width = torch.sqrt(c * c + .09 * s * s)
    return x / width, .8 * s * torch.tanh(4 * c)


def star(x, y, yaw, pix):
    x, face = coin(x, yaw)
    wedge = 2 * math.pi / 5
    radius, angle = torch.sqrt(x * x + y * y + 1e-9), torch.atan2(x.expand(-1, -1, y.shape[2], -1), -y)
    angle = (torch.remainder(angle + wedge / 2, wedge) - wedge / 2).abs()
    ex, ey = .5 * math.cos(wedge / 2) - 1.02, .5 * math.sin(wedge / 2)
    length = math.hypot(ex, ey)
    edge = (radius * torch.cos(angle) - 1.02) * (ey / length) - radius * torch.sin(angle) * (ex / length)
    distance, nx, ny, nz, _ = bevelled(edge, pix, .42, face)
    facet = .5 + .5 * torch.sigmoid(distance * 20 + 2)                   # flat facets that meet in ridges
    return distance, nx * facet, ny * facet, nz, None


def heart(x, y, yaw, pix):
    x, face = coin(x, yaw)
    x, y = x.abs() / 1.6, -y / 1.6 + .56
    lobe = torch.sqrt((x - .25) ** 2 + (y - .75) ** 2 + 1e-9) - math.sqrt(2) / 4
    m = .5 * (x + y).clamp(min=0)
    point = torch.sqrt(torch.minimum(x * x + (y - 1) ** 2, (x - m) ** 2 + (y - m) ** 2) + 1e-9) * torch.sign(x - y)
    distance = torch.where(x + y > 1, lobe, point) * 1.6
    return bevelled(distance, pix, .6, face)


def ring(x, y, yaw, pix):
    """A torus with a vertical axis to turn about: its circle is seen as an ellipse, its tube stays as thick."""
    a, b, tube = .66 * torch.cos(yaw).abs().clamp(min=.04), .66, .25
    k1 = torch.sqrt((x / a) ** 2 + (y / b) ** 2 + 1e-9)
    k2 = torch.sqrt((x / (a * a)) ** 2 + (y / (b * b)) ** 2 + 1e-9)
    distance = (k1 * (k1 - 1) / k2).abs() - tube
    gy, gx = torch.gradient(distance, dim=(2, 3))
    across = ((distance + tube) / tube).clamp(0, 1) / torch.sqrt(gx * gx + gy * gy + 1e-12).clamp(min=pix * .5)
    nx, ny = gx * across, gy * across
    return distance, nx, ny, torch.sqrt((1 - nx * nx - ny * ny).clamp(min=.02)), None


DRAWN = [ball, cube, pyramid, star, heart, ring]


def window(view, i, px, py, half_x, half_y):
    """Windows of the clip around points: indices [n, t, h, w] into [n, t, h, w] arrays, world x and y of their pixels.

    half_x, half_y: half sizes in world units, one for all.
    """
    step = view.step[i]
    least = step.amin().item()
    count_x = min(view.width, 2 * math.ceil(half_x / least) + 4)
    count_y = min(view.height, 2 * math.ceil(half_y / least) + 4)
    column = ((px - view.left[i]) / step - count_x / 2).round().long().clamp(0, view.width - count_x)
    row = ((py - view.top[i]) / step - count_y / 2).round().long().clamp(0, view.height - count_y)
    columns = column[..., None, None] + torch.arange(count_x, device=px.device)
    rows = row[..., None, None] + torch.arange(count_y, device=px.device)[:, None]
    frames = torch.arange(px.shape[1], device=px.device)[None, :, None, None]
    grid = lambda v: v[..., None, None]
    x = grid(view.left[i]) + (columns + .5) * grid(step)
    y = grid(view.top[i]) + (rows + .5) * grid(step)
    return (i[:, None, None, None], frames, rows, columns), x, y


def cast_shadow(image, view, i, body, strength):
    """Darken the ground under the objects i: the higher they are, the wider and fainter."""
    px, radius = body["x"][i], body["radius"][i]
    floor, height = body["floor"][i].expand_as(px), body["height"][i].clamp(min=0)
    wide = radius * (.95 + .35 * height)
    px, py = px + .25 * height, floor - .05 * radius
    half = wide.amax().item() * 1.75
    at, x, y = window(view, i, px, py, half, half * .34)
    grid = lambda v: v[..., None, None]
    q = ((x - grid(px)) / grid(wide)) ** 2 + ((y - grid(py)) / grid(wide * .3)) ** 2
    soft = grid(.55 + .8 * height)
    dark = ((1 + soft - q) / (2 * soft)).clamp(0, 1)
    dark = dark * dark * (3 - 2 * dark) * grid(strength[:, None] / (1 + 1.6 * height))
    image[at] = image[at] * (1 - dark[..., None])


def draw_shape(image, cover, view, i, shape, body, light):
    """Draw the objects i, all of one shape, over the image; cover [b, t, h, w] gets their coverage."""
    px, py, radius = body["x"][i], body["y"][i], body["radius"][i]
    half = 1.1 * radius.amax().item()
    at, x, y = window(view, i, px, py, half, half)
    grid = lambda v: v[..., None, None]
    pix = grid(view.step[i] / radius)
    distance, nx, ny, nz, stripe = DRAWN[shape]((x - grid(px)) / grid(radius), (y - grid(py)) / grid(radius),
                                              grid(body["yaw"][i]), pix)
    alpha = (.5 - distance / (1.25 * pix)).clamp(0, 1)
    image[at] = torch.lerp(image[at], shaded(body["rgb"][i], nx, ny, nz, stripe, light, i), alpha[..., None])
    cover[at] = alpha.to(cover.dtype)


def shaded(rgb, nx, ny, nz, stripe, light, i):
    """Colour of a surface under a key light, a sky above and a ground below, with a highlight and a lit rim."""
    grid = lambda v: v[i][:, None, None, None]
    lx, ly, lz = (grid(v)[..., None][..., 0] for v in light["direction"].unbind(1))
    diffuse = ((nx * lx + ny * ly + nz * lz) * .8 + .2).clamp(min=0)
    length = torch.sqrt(lx * lx + ly * ly + (lz + 1) ** 2)
    shine = ((nx * lx + ny * ly + nz * (lz + 1)) / length).clamp(0, 1) ** 28
    rim = (1 - nz.clamp(0, 1)) ** 3
    sky, ground, key = grid(light["sky"]), grid(light["ground"]), grid(light["key"])
    ambient = torch.lerp(ground, sky, (.5 - .5 * ny)[..., None])
    rgb = rgb[:, None, None, None]
    if stripe is not None:                                               # darker, but lighter on black
        rgb = torch.lerp(rgb, torch.where(rgb.amax(-1, keepdim=True) < .15, rgb + .2, .58 * rgb), stripe[..., None])
    body = rgb * (key * diffuse[..., None] + ambient)
    return (body + key * (.34 * shine)[..., None] + sky * (.30 * rim)[..., None]).clamp(0, 1)


def draw(image, cover, view, spec, body, light, shadow):
    """Shadows and bodies of one object a sample into image [b, t, h, w, 3]; body["there"]: which samples have it."""
    grounded = (body["there"] & (shadow > 0)).nonzero()[:, 0]
    if len(grounded):
        cast_shadow(image, view, grounded, body, shadow[grounded])
    for shape in range(len(DRAWN)):
        i = (body["there"] & (spec == shape)).nonzero()[:, 0]
        if len(i):
            draw_shape(image, cover, view, i, shape, body, light)
