"""What a run of diffusers shows: hooks, and the shapes in which taps are kept."""
import contextlib

import torch
from diffusers.utils.torch_utils import randn_tensor


@contextlib.contextmanager
def patched(*changes):
    """changes: (object, attribute, value); puts the old values back at the end."""
    old = [(o, a, o.__dict__[a]) for o, a, _ in changes]
    try:
        for o, a, v in changes:
            setattr(o, a, v)
        yield
    finally:
        for o, a, v in old:
            setattr(o, a, v)


class Taps(dict):
    """Tap name to the list of tensors seen under it; `grid` taps of several chunks are joined over frames."""

    def put(self, name, value):
        self.setdefault(name, []).append(value.detach().clone().cpu())

    def out(self, module, name, pick=None):
        def hook(_, args, output):
            value = output[0] if isinstance(output, tuple) else output
            at = name() if callable(name) else name
            if at:
                self.put(at, value if pick is None else pick(value))
        return module.register_forward_hook(hook)

    def into(self, module, name):
        def hook(_, args):
            if name():
                self.put(name(), args[0])
        return module.register_forward_pre_hook(hook)


def all_equal(rows):
    """Equal rows go through one product, whose last rows may still be rounded by another kernel."""
    return (rows - rows[:1]).abs().max() <= 1e-2 * rows.abs().max()


def channels_last(x):
    """[1, c, f, y, x], or an image's [1, c, y, x], to [f, y, x, c]."""
    return (x if x.ndim == 5 else x[:, :, None])[0].permute(1, 2, 3, 0)


class Wide:
    """torch with float64 under the name of float32, for modules that ask for float32 by name."""
    float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def drawn_as_f32(*modules):
    """What makes `randn_tensor` in these modules draw its numbers in float32 for a tensor of any precision."""
    def draw(shape, generator=None, device=None, dtype=None, **_):
        return randn_tensor(shape, generator=generator, device=device, dtype=torch.float32).to(dtype)
    return [(m, "randn_tensor", draw) for m in modules]


def in_batch(taps, state, passes):
    """put(name, value, both, rows): of a batch [negative, prompt] at the first step, the prompt as dit.NAME and, if both, the
    negative as dit_u.NAME. `rows`: how many rows of either count; with none there is no tap."""
    def put(name, value, both=False, rows=None):
        if state["dit_call"] != 0:
            return
        for k, prefix in ((-1, "dit"), (0, "dit_u")) if both and passes == 2 else ((-1, "dit"),):
            kept = value[k] if rows is None else value[k, :rows[k]]
            if kept.numel():
                taps.put(f"{prefix}.{name}", kept)
    return put


def hook_calls(taps, model, state, passes, grid):
    """Counts the calls of a model whose passes are one batch, and keeps what it puts out."""
    def before(*_):
        state["dit_call"] += 1

    def after(_, args, output):
        k = state["dit_call"]
        taps.put(f"step.{k}.v_cond", grid(output[0][-1:]))
        if passes == 2:
            taps.put(f"step.{k}.v_uncond", grid(output[0][:1]))
    model.register_forward_pre_hook(before)
    model.register_forward_hook(after)


def hook_vae(taps, vae):
    """Of an autoencoder with blocks, a middle and, where it has them, convolutions outside of both halves."""
    d, e = vae.decoder, vae.encoder
    if getattr(vae, "post_quant_conv", None):
        taps.out(vae.post_quant_conv, "vae.post_quant")
    taps.out(d.conv_in, "vae.conv_in")
    taps.out(d.mid_block, "vae.mid")
    for i, b in enumerate(d.up_blocks):
        taps.out(b, f"vae.up.{i}")
    taps.out(d.conv_out, "vae.conv_out")
    taps.out(e.conv_in, "enc.conv_in")
    for i, b in enumerate(e.down_blocks):
        taps.out(b, f"enc.down.{i}")
    taps.out(e.mid_block, "enc.mid")
    taps.out(getattr(vae, "quant_conv", None) or e.conv_out, "enc.quant")
