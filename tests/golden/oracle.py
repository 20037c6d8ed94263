"""Runs a pipeline folder in diffusers at one precision and keeps what every sublayer puts out.

float64 is taken as truth. diffusers and transformers pin parts of their forward passes to float32 whatever the
dtype of the weights; `widen` lifts each of them, save the bucket of T5's relative positions, which is an integer
that float32 decides.
"""
import contextlib
import functools
import math
import os
import warnings

import numpy as np
import tokenizers
import torch
import diffusers
import diffusers.models.embeddings as embeddings
import transformers
from transformers.models.mt5 import modeling_mt5
from transformers.models.t5 import modeling_t5, tokenization_t5
from transformers.models.umt5 import modeling_umt5

import families
from taps import Taps, channels_last, patched

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}


def unigram(vocab, unk_id, byte_fallback):
    """T5Tokenizer of transformers 5 takes id 2 for unknown, which is <s> of UMT5; 4 took that of <unk>, as SentencePiece."""
    return tokenizers.models.Unigram(vocab, unk_id=[text for text, _ in vocab].index("<unk>"),
                                     byte_fallback=byte_fallback)


def without_empty_map(init):
    """T5Tokenizer of transformers 5.17 does not take a model whose map of characters is empty; 5.23 does."""
    @functools.wraps(init)
    def wrapped(self, *args, _spm_precompiled_charsmap=None, **options):
        init(self, *args, _spm_precompiled_charsmap=_spm_precompiled_charsmap or None, **options)
    return wrapped


def setup(threads=1):
    """One thread, and the same bits come out again. On a GPU float32 is float32, not TF32."""
    torch.set_num_threads(threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    tokenization_t5.Unigram = unigram
    tokenization_t5.T5Tokenizer.__init__ = without_empty_map(tokenization_t5.T5Tokenizer.__init__)
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    transformers.utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="In CPU autocast")


def sinusoid(timesteps, embedding_dim, flip_sin_to_cos=False, downscale_freq_shift=1, scale=1, max_period=10000):
    half = embedding_dim // 2
    i = torch.arange(half, dtype=torch.float64, device=timesteps.device)
    rate = torch.exp(-math.log(max_period) * i / (half - downscale_freq_shift))
    angle = scale * timesteps[:, None].double() * rate[None, :]
    parts = [torch.cos(angle), torch.sin(angle)] if flip_sin_to_cos else [torch.sin(angle), torch.cos(angle)]
    return torch.cat(parts, dim=-1)


def rms(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def narrow(function):
    """The function as it was, with Tensor.float meaning float32 again."""
    inner, static = (function.__func__, True) if isinstance(function, staticmethod) else (function, False)

    def call(*args, **kwargs):
        with patched((torch.Tensor, "float", lambda t, **_: t.to(torch.float32))):
            return inner(*args, **kwargs)
    return staticmethod(call) if static else call


@contextlib.contextmanager
def widen(dtype, family=None):
    if dtype != torch.float64:
        yield
        return
    attentions = (modeling_t5.T5Attention, modeling_umt5.UMT5Attention, modeling_mt5.MT5Attention)
    norms = (modeling_t5.T5LayerNorm, modeling_umt5.UMT5LayerNorm, modeling_mt5.MT5LayerNorm)
    bucket = "_relative_position_bucket"
    before = torch.get_default_dtype()
    torch.Tensor.float = torch.Tensor.float  # a class attribute of its own, so that `patched` can put it back
    try:
        torch.set_default_dtype(torch.float64)
        with patched((torch.Tensor, "float", torch.Tensor.double),
                     (embeddings, "get_timestep_embedding", sinusoid),
                     *((norm, "forward", rms) for norm in norms),
                     *((a, bucket, narrow(a.__dict__[bucket])) for a in attentions),
                     *(family.wide() if family else [])):
            yield
    finally:
        torch.set_default_dtype(before)


def load(folder, dtype, device="cpu", video=False):
    """A pipeline of modules at `dtype`, of video to video if asked; bfloat16 as diffusers loads it, with its float32 islands."""
    family = families.of(folder)
    pipe = (getattr(diffusers, families.class_of(folder), None) or family.PIPELINE).from_pretrained(
        folder, torch_dtype=torch.bfloat16 if dtype == torch.bfloat16 else torch.float32, local_files_only=True,
        **dict.fromkeys(families.absent_in(folder)))
    pipe.set_progress_bar_config(disable=True)
    pipe.vae = type(pipe.vae).from_pretrained(folder, subfolder="vae", torch_dtype=torch.float32)
    pipe.vae.to(dtype)
    pipe.to(device)
    if dtype == torch.float64:
        pipe.text_encoder.double()
        family.widen_model(pipe)
    return family.from_video(pipe) if video else pipe


def widen_sampler(pipe):
    """Sampler arithmetic in float64 on the float32 sigmas that the sampler itself chose."""
    sampler, choose = pipe.scheduler, pipe.scheduler.set_timesteps

    @functools.wraps(choose)
    def set_timesteps(*args, **kwargs):
        choose(*args, **kwargs)
        if hasattr(sampler, "sigmas"):
            sampler.sigmas = sampler.sigmas.double()

    def euler(v, t, x, return_dict=False):
        k = sampler.k + (sampler.begin_index or 0)
        sampler.k += 1
        return (x + (sampler.sigmas[k + 1] - sampler.sigmas[k]) * v,)

    sampler.set_timesteps = set_timesteps
    if isinstance(sampler, diffusers.FlowMatchEulerDiscreteScheduler):
        sampler.k = 0
        sampler.step = euler
    draw = pipe.prepare_latents

    def double(*args, **kwargs):
        x = draw(*args, **kwargs)  # with a picture: noise, its latents, and of a held frame which one that is
        return tuple(v.double() for v in x) if isinstance(x, tuple) else x.double()
    pipe.prepare_latents = double


def hook_text(taps, encoder, state, masked):
    """masked: only the tokens of the prompt count, not its pads."""
    n, block = (lambda: state["text_len"][-1]), encoder.encoder.block
    cut = lambda x: x[0, :n()]

    def named(*names):
        return lambda: names[len(state["text_len"]) - 1] if n() else None
    taps.out(encoder.encoder.embed_tokens, named("text.embed", None), cut)
    for i, b in enumerate(block):
        taps.out(b.layer[0], named(f"text.block.{i}.attn", None), cut)
        taps.out(b.layer[-1], named(f"text.block.{i}.ff", None), cut)
    taps.out(encoder.encoder.final_layer_norm, named("text.final", "text_u.final"), cut)

    def before(_, args, kwargs):
        ids, mask = args[0][0], kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        state["text_len"].append(int(mask.sum()) if masked else len(ids))
        name = named("text.ids", "text_u.ids")()
        if name:
            taps.put(name, ids[:n()].to(torch.int32))
    encoder.register_forward_pre_hook(before, with_kwargs=True)


def arguments(pipe, request):
    """What the pipeline is called with, up to the latents."""
    images = getattr(families.of_pipe(pipe), "IMAGES", False)
    frames = {} if "strength" in request or images else {"num_frames": request["frames"]}
    return dict(prompt=request["prompt"], negative_prompt=request["negative_prompt"], width=request["width"],
                height=request["height"], **frames, num_inference_steps=request["steps"],
                guidance_scale=request["cfg_scale"], output_type="latent",
                generator=torch.Generator("cpu").manual_seed(request["seed"])
                ) | families.of_pipe(pipe).arguments(pipe, request)


def latents(pipe, request):
    """Of a whole render, float32 [c, f, y, x], those that are decoded."""
    family = families.of_pipe(pipe)
    return family.decoded(pipe, family.grid(pipe(**arguments(pipe, request))[0]), request).float()


@contextlib.contextmanager
def seen_mixture(sampler):
    """What a pipeline that starts from a video, or from an image, mixes: its latents and noise."""
    seen = []
    name = next((name for name in ("add_noise", "scale_noise") if hasattr(sampler, name)), None)
    if not name:
        yield seen
        return
    mix = getattr(sampler, name)

    def add_noise(video, *others):
        seen.extend((("video", video), ("noise", next(o for o in others if o.ndim > 1))))
        return mix(video, *others)
    setattr(sampler, name, add_noise)
    try:
        yield seen
    finally:
        setattr(sampler, name, mix)


def steps_done(request, family):
    """Of a request's steps: of a video's rounded down, of an image's rounded up."""
    steps, done = request["steps"], min(request["steps"] * request.get("strength", 1), request["steps"])
    return steps - int(steps - done) if getattr(family, "IMAGES", False) else int(done)


def denoise(folder, request, dtype, device="cpu"):
    """Prompt to latents; returns the pipeline and all taps up to the last step's latents."""
    family = families.of(folder)
    with widen(dtype, family):
        pipe = load(folder, dtype, device=device, video="strength" in request)
        taps, state = Taps(), {"text_len": [], "dit_call": -1}
        if dtype == torch.float64:
            widen_sampler(pipe)
        passes = 2 if request["cfg_scale"] > 1 else 1
        if hasattr(family, "hook_text"):
            family.hook_text(taps, pipe, state)
        else:
            hook_text(taps, pipe.text_encoder, state, family.MASKED_TEXT)
        family.hook_dit(taps, pipe, state, passes)
        draw = pipe.prepare_latents

        def noise(*args, **kwargs):
            with seen_mixture(pipe.scheduler) as mixed:
                x = draw(*args, **kwargs)
            noise, *image = x if isinstance(x, tuple) else (x,)
            if getattr(family, "IMAGES", False):  # Flux has the tokens' places there
                image = []
            for name, value in mixed:
                taps.put(name, family.grid(value))
            if not mixed:
                taps.put("noise", family.grid(state.get("drawn", noise)))
            if image:
                taps.put("image", family.grid(image[0]))
            state["held"] = image[0] if len(image) > 1 else None
            return x
        pipe.prepare_latents = noise

        def after(_, k, t, values):
            x = values["latents"]
            if state["held"] is not None:  # by the pipeline, in what the denoiser sees and after the last step
                x = torch.cat([state["held"].to(x), x[:, :, 1:]], dim=2)
            if hasattr(family, "sample"):
                x = family.sample(pipe.scheduler, k, x)
            taps.put(f"step.{k}.latents", family.grid(x))
            return values
        pipe(**arguments(pipe, request), callback_on_step_end=after)
        for name, value in family.schedule(pipe.scheduler).items():
            taps.put(name, value)
    flat = {}
    for name, seen in taps.items():
        assert len(seen) == 1, name
        flat[name] = seen[0][0] if seen[0].ndim == 3 and seen[0].shape[0] == 1 and name.startswith("dit") else seen[0]
    return pipe, flat


def decode(pipe, latents, dtype):
    """[c, f, y, x] to frames [f, y, x, 3] in [-1, 1], with the pipeline's own arithmetic."""
    family = families.of_pipe(pipe)
    with widen(dtype, family):
        return family.decode(pipe.vae, latents, dtype)


def vae_taps(pipe, latents, clip, dtype):
    """Decoder from the given latents and, where there is a clip, encoder from it; all taps with channels last."""
    family, taps = families.of_pipe(pipe), Taps()
    with widen(dtype, family):
        pipe.vae.to(dtype)
        family.hook_vae(taps, pipe.vae)
        frames = family.decode(pipe.vae, latents, dtype)
        mean = family.encode(pipe.vae, clip, dtype) if clip is not None else None
    flat = {name: torch.cat([channels_last(x) for x in seen]) for name, seen in taps.items()}
    flat["vae.frames"] = frames
    if mean is not None:
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
