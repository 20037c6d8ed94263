"""Open-Sora-Plan 1.3 by its authors' code, which tests/golden/family_opensora.py imports from OPEN_SORA_PLAN.

It gives each call of scaled_dot_product_attention a mask, of zeros where nothing is padded, and asks for the kernel
that takes one. Beside it runs the same code without both, where PyTorch chooses among its kernels. Every token of the
text is real.
"""
import contextlib
import importlib
import os

import torch
import torch.nn.functional as F

import models
import fullsize  # of tests/golden
from family_opensora import VAE, theirs

MASKED, PLAIN, COMPILED = "as it is", "without masks", "torch.compile"
choose = torch.backends.cuda.sdp_kernel


class Plain:
    """What their attention asks torch and torch.nn.functional for, without the mask and the choice of a kernel."""
    pad = staticmethod(F.pad)

    @staticmethod
    def scaled_dot_product_attention(q, k, v, attn_mask=None, **_):
        return F.scaled_dot_product_attention(q, k, v)

    class backends:
        class cuda:
            @staticmethod
            def sdp_kernel(**_):
                return contextlib.nullcontext()


def attention():
    """Their module of attention."""
    theirs()
    return importlib.import_module("opensora.models.diffusion.opensora_v1_3.modules")


def masks(on, device):
    """Whether a model's attention gets masks. The kernel that they ask for is one of a GPU."""
    torch.backends.cuda.sdp_kernel = choose
    attention().F, attention().torch = F if on else Plain, torch if on and device == "cuda" else Plain


def attention_of(bench, forward):
    """What the calls of attention take of a forward, each waited for: batch, queries, keys."""
    was, taken = attention().F, {}

    class Timed:
        pad = was.pad

        @staticmethod
        def scaled_dot_product_attention(q, k, v, **rest):
            o = []
            run = bench.timed(lambda: o.append(was.scaled_dot_product_attention(q, k, v, **rest)))
            taken.setdefault(f"{q.shape[0]} x {q.shape[2]} to {k.shape[2]}", []).append(run())
            return o[0]
    attention().F = Timed
    forward()
    attention().F = was
    return ", ".join(f"{shape}: {len(t)} in {1e3 * sum(t):.1f} ms" for shape, t in taken.items())


def ways(bench, folder, size):
    """The denoiser: as it is, without masks, and that compiled."""
    theirs()
    model = models.load_denoiser(folder, bench.device)
    call = models.call_of(model, "opensora", size, bench.device)

    def forward(model, masked):
        masks(masked, bench.device)
        model(**call)
    found = {MASKED: lambda: forward(model, True), PLAIN: lambda: forward(model, False)}
    notes = {}
    for name, way in found.items():
        way()
        notes[name] = attention_of(bench, lambda: model(**call))
    if not bench.args.no_compile:
        compiled = torch.compile(model)
        found[COMPILED] = lambda: forward(compiled, False)
    return found, notes


def decoders(bench, folder, size):
    """The decoder, of the whole clip at once and by chunks."""
    (channels, time), (width, height, frames) = fullsize.LATENTS["opensora"], size
    vae = VAE.from_pretrained(os.path.join(folder, "vae"), torch_dtype=torch.bfloat16).to(bench.device).eval()
    shape = (1, channels, (frames - 1) // time + 1, height // 8, width // 8)
    z = torch.randn(shape, device=bench.device).to(torch.bfloat16)

    def decode(chunks):
        vae.enable_tiling(chunks)
        vae.decode(z)
    return {"whole": lambda: decode(False), "enable_tiling": lambda: decode(True)}
