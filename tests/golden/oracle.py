"""Runs a WanPipeline folder in diffusers at one precision and keeps what every sublayer puts out.

float64 is taken as truth. diffusers and transformers pin parts of their forward passes to float32 whatever the
dtype of the weights; `widen` lifts each of them, save the bucket of T5's relative positions, which is an integer
that float32 decides.
"""
import contextlib
import math
import os
import warnings

import numpy as np
import torch
import diffusers
import diffusers.models.embeddings as embeddings
import transformers
from transformers.models.t5 import modeling_t5
from transformers.models.umt5 import modeling_umt5

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}


def setup(threads=1):
    """One thread, and the same bits come out again. On a GPU float32 is float32, not TF32."""
    torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)


def sinusoid(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
    half = embedding_dim // 2
    i = torch.arange(half, dtype=torch.float64, device=timesteps.device)
    rate = torch.exp(-math.log(max_period) * i / (half - downscale_freq_shift))
    angle = scale * timesteps[:, None].double() * rate[None, :]
    parts = [torch.cos(angle), torch.sin(angle)] if flip_sin_to_cos else [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


def rms(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


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


def narrow(function):
    """The function as it was, with Tensor.float meaning float32 again."""
    inner, static = (function.__func__, True) if isinstance(function, staticmethod) else (function, False)

    def call(*args, **kwargs):
        with patched((torch.Tensor, "float", lambda t, **_: t.to(torch.float32))):
            return inner(*args, **kwargs)
    return staticmethod(call) if static else call


@contextlib.contextmanager
def widen(dtype):
    if dtype != torch.float64:
        yield
        return
    t5, umt5 = modeling_t5.T5Attention, modeling_umt5.UMT5Attention
    bucket = "_relative_position_bucket"
    before = torch.get_default_dtype()
    torch.Tensor.float = torch.Tensor.float  # a class attribute of its own, so that `patched` can put it back
    try:
        torch.set_default_dtype(torch.float64)
        with patched((torch.Tensor, "float", torch.Tensor.double),
                     (embeddings, "get_timestep_embedding", sinusoid),
                     (modeling_t5.T5LayerNorm, "forward", rms), (modeling_umt5.UMT5LayerNorm, "forward", rms),
                     (t5, bucket, narrow(t5.__dict__[bucket])), (umt5, bucket, narrow(umt5.__dict__[bucket]))):
            yield
    finally:
        torch.set_default_dtype(before)


def load(folder, dtype, vae_dtype=None, device="cpu"):
    """A pipeline of modules at `dtype`; bfloat16 as diffusers loads it, with its float32 islands."""
    pipe = diffusers.WanPipeline.from_pretrained(
        folder, torch_dtype=torch.bfloat16 if dtype == torch.bfloat16 else torch.float32, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    pipe.vae = diffusers.AutoencoderKLWan.from_pretrained(folder, subfolder="vae", torch_dtype=torch.float32)
    pipe.vae.to(vae_dtype or dtype)
    pipe.to(device)
    if dtype == torch.float64:
        for m in (pipe.text_encoder, pipe.transformer, pipe.transformer_2):
            if m is not None:
                m.double()
                if hasattr(m, "rope"):
                    c = m.config
                    m.rope = type(m.rope)(c.attention_head_dim, c.patch_size, c.rope_max_seq_len).to(device)
    return pipe


def widen_sampler(pipe):
    """Sampler arithmetic in float64 on the float32 sigmas that the sampler itself chose."""
    sampler, choose = pipe.scheduler, pipe.scheduler.set_timesteps

    def set_timesteps(*args, **kwargs):
        choose(*args, **kwargs)
        sampler.sigmas = sampler.sigmas.double()

    def euler(v, t, x, return_dict=False):
        k = sampler.k
        sampler.k += 1
        return (x + (sampler.sigmas[k + 1] - sampler.sigmas[k]) * v,)

    sampler.set_timesteps = set_timesteps
    if isinstance(sampler, diffusers.FlowMatchEulerDiscreteScheduler):
        sampler.k = 0
        sampler.step = euler
    draw = pipe.prepare_latents
    pipe.prepare_latents = lambda *args, **kwargs: draw(*args, **kwargs).double()


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


def one_row(x):
    """Time embeddings come per token with expand_timesteps; in text-to-video all rows are one."""
    if x.ndim == 3:
        assert all_equal(x[0])
        x = x[:, 0]
    return x[0]


def hook_text(taps, encoder, state):
    n, block = (lambda: state["text_len"]), encoder.encoder.block
    cut = lambda x: x[0, :n()]
    first = lambda name: lambda: name if state["text_pass"] == 0 else None
    taps.out(encoder.encoder.embed_tokens, first("text.embed"), cut)
    for i, b in enumerate(block):
        taps.out(b.layer[0], first(f"text.block.{i}.attn"), cut)
        taps.out(b.layer[-1], first(f"text.block.{i}.ff"), cut)
    taps.out(encoder.encoder.final_layer_norm, lambda: ("text.final", "text_u.final")[state["text_pass"]], cut)

    def before(_, args):
        state["text_pass"] += 1
        ids, mask = args[0][0], args[1][0]
        state["text_len"] = int(mask.sum())
        taps.put(("text.ids", "text_u.ids")[state["text_pass"]], ids[:n()].to(torch.int32))
        if state["text_pass"] == 0:
            state["prompt_len"] = n()
    encoder.register_forward_pre_hook(before)


def hook_dit(taps, model, state, passes):
    def at(name, both=False):
        def when():
            call = state["dit_call"]
            if call == 0:
                return f"dit.{name}"
            return f"dit_u.{name}" if call == 1 and both and passes == 2 else None
        return when

    def pad_row(x):
        n = state["prompt_len"]
        assert all_equal(x[0, n:])
        return x[0, :n + 1]
    c = model.condition_embedder
    taps.out(model.patch_embedding, at("patch_embed"), lambda x: x[0].flatten(1).T)
    taps.out(c.time_embedder, at("temb"), one_row)
    taps.out(c.time_proj, at("time_proj"), lambda x: one_row(x).unflatten(0, (6, -1)))
    taps.out(c.text_embedder, at("text"), pad_row)
    for i, b in enumerate(model.blocks):
        taps.into(b.norm2, at(f"block.{i}.attn1", True))
        taps.into(b.norm3, at(f"block.{i}.attn2", True))
        taps.out(b, at(f"block.{i}.ffn", True))
    taps.out(model.proj_out, at("proj_out"))

    def before(*_):
        state["dit_call"] += 1

    def v_name():
        k, second = divmod(state["dit_call"], passes)
        return f"step.{k}.v_uncond" if second else f"step.{k}.v_cond"
    model.register_forward_pre_hook(before)
    taps.out(model, v_name, lambda x: x[0])


def hook_vae(taps, vae):
    taps.out(vae.post_quant_conv, "vae.post_quant")
    taps.out(vae.decoder.conv_in, "vae.conv_in")
    taps.out(vae.decoder.mid_block, "vae.mid")
    for i, b in enumerate(vae.decoder.up_blocks):
        taps.out(b, f"vae.up.{i}")
    taps.out(vae.decoder.conv_out, "vae.conv_out")
    taps.out(vae.encoder.conv_in, "enc.conv_in")
    for k, b in enumerate(vae.encoder.down_blocks):
        taps.out(b, f"enc.down.{k}")
    taps.out(vae.encoder.mid_block, "enc.mid")
    taps.out(vae.quant_conv, "enc.quant")


def channels_last(x):
    return x[0].permute(1, 2, 3, 0)


def statistics(vae, dtype):
    shape = (1, vae.config.z_dim, 1, 1, 1)
    c = vae.config
    return [torch.tensor(v).view(shape).to(vae.device, dtype) for v in (c.latents_mean, c.latents_std)]


def decode(pipe, latents, dtype):
    """[c, f, y, x] to frames [f, y, x, 3] in [-1, 1], with the pipeline's own arithmetic."""
    mean, std = statistics(pipe.vae, dtype)
    with widen(dtype):
        z = latents[None].to(mean) / (1.0 / std) + mean
        return channels_last(pipe.vae.decode(z, return_dict=False)[0]).cpu()


def encode(pipe, clip, dtype):
    """[f, y, x, 3] to the normalised mean [f, y, x, c]."""
    mean, std = statistics(pipe.vae, dtype)
    with widen(dtype):
        mu = pipe.vae.encode(clip.permute(3, 0, 1, 2)[None].to(mean)).latent_dist.mode()
        return channels_last((mu - mean) * (1.0 / std)).cpu()


def arguments(request):
    """What WanPipeline is called with, up to the latents."""
    return dict(prompt=request["prompt"], negative_prompt=request["negative_prompt"], width=request["width"],
                height=request["height"], num_frames=request["frames"], num_inference_steps=request["steps"],
                guidance_scale=request["cfg_scale"], guidance_scale_2=request.get("cfg_scale_2"), output_type="latent",
                generator=torch.Generator("cpu").manual_seed(request["seed"]))


def denoise(folder, request, dtype, device="cpu"):
    """Prompt to latents; returns the pipeline and all taps up to the last step's latents."""
    with widen(dtype):
        pipe = load(folder, dtype, device=device)
        taps, state = Taps(), {"text_pass": -1, "dit_call": -1}
        if dtype == torch.float64:
            widen_sampler(pipe)
        passes = 2 if request["cfg_scale"] > 1 else 1
        hook_text(taps, pipe.text_encoder, state)
        for m in (pipe.transformer, pipe.transformer_2):
            if m is not None:
                hook_dit(taps, m, state, passes)
        draw = pipe.prepare_latents

        def noise(*args, **kwargs):
            x = draw(*args, **kwargs)
            taps.put("noise", x[0])
            return x
        pipe.prepare_latents = noise

        def after(_, k, t, values):
            taps.put(f"step.{k}.latents", values["latents"][0])
            return values
        pipe(**arguments(request), callback_on_step_end=after)
        taps.put("sigmas", pipe.scheduler.sigmas)
        taps.put("timesteps", pipe.scheduler.timesteps)
    flat = {}
    for name, seen in taps.items():
        assert len(seen) == 1, name
        flat[name] = seen[0][0] if seen[0].ndim == 3 and seen[0].shape[0] == 1 and name.startswith("dit") else seen[0]
    return pipe, flat


def vae_taps(pipe, latents, clip, dtype):
    """Decoder from the given latents and encoder from the given clip, all taps with channels last."""
    with widen(dtype):
        pipe.vae.to(dtype)
    taps = Taps()
    hook_vae(taps, pipe.vae)
    frames = decode(pipe, latents, dtype)
    mean = encode(pipe, clip, dtype)
    flat = {name: torch.cat([channels_last(x) for x in seen]) for name, seen in taps.items()}
    flat["vae.frames"] = frames
    flat["enc.mean"] = mean
    return flat


def relative(x, truth):
    x, truth = x.double(), truth.double()
    norm = float(truth.norm())
    return float((x - truth).norm()) / norm if norm else float((x - truth).norm())


def psnr(x, truth):
    """dB of frames in [-1, 1], as images in [0, 1]."""
    mse = float(((x.double() - truth.double()) * 0.5).pow(2).mean())
    return 10 * math.log10(1 / mse) if mse else math.inf


def numpy(x):
    return np.ascontiguousarray(x.to(torch.int32 if x.dtype == torch.int32 else torch.float32).numpy())
