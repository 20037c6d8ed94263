#!/usr/bin/env python3
"""Parity at full size, by checkpoints of the published shapes with random weights.

    python fullsize.py make DIR SHAPE [options]     makes one: real layout, in shards
    python fullsize.py compare DIR [options]        runs diffusers and sparge-gen over it, stage by stage

Stages: sublayers (a small clip, every sublayer of text encoder, denoiser and VAE, against diffusers in float64),
forward (one step of the whole clip, or two where there are no fewer: what the denoiser makes of the noise), decode (latents
of the whole clip to frames), speed (seconds and memory of both in bfloat16; no clip is compared). Diffusers runs first and
leaves the device before sparge-gen starts.
"""
import argparse
import contextlib
import gc
import glob
import json
import os
import shutil
import subprocess
import sys
import time

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import checkpoint
import families
import family_flux
import family_hunyuan
import family_sd3
import family_wan
import make
import oracle
import parity
import parts
from taps import Taps, patched

WAN = dict(attention_head_dim=128, in_channels=16, out_channels=16, freq_dim=256)
VAE = dict(base_dim=96, z_dim=16, dim_mult=[1, 2, 4, 4], num_res_blocks=2, temperal_downsample=[False, True, True])
XXL = {**parts.GATED, "width": 4096, "head": 64, "heads": 64, "ff": 10240, "vocab": 256384}
WIDE = {**parts.UMT5, "total": 256000, "extra_ids": 300}
XXL_T5 = {**XXL, "kind": "t5", "vocab": 32128}
COG = dict(attention_head_dim=64, time_embed_dim=512, use_rotary_positional_embeddings=True)
COG_SAMPLER = {"kind": "dpm", "snr_shift_scale": 1.0, "rescale_betas_zero_snr": True}
LLAMA = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336)
CLIP_L = dict(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_hidden_layers=12)
SHAPES = {
    "1.3b": {"dit": dict(WAN, num_attention_heads=12, ffn_dim=8960, num_layers=30), "text": XXL, "vae": VAE,
             "tokenizer": WIDE},
    "14b": {"dit": dict(WAN, num_attention_heads=40, ffn_dim=13824, num_layers=40), "text": XXL, "vae": VAE,
            "tokenizer": WIDE},
    "small": {"dit": dict(WAN, num_attention_heads=2, ffn_dim=448, num_layers=2),
              "text": {**parts.GATED, "width": 64, "head": 16, "heads": 4, "ff": 160},
              "vae": dict(VAE, base_dim=8, num_res_blocks=1), "tokenizer": {**parts.UMT5, "total": 4000}},
    "cogvideox-5b": {"family": "cogvideox", "dit": dict(COG, num_attention_heads=48, num_layers=42), "text": XXL_T5,
                     "vae": dict(scaling_factor=0.7, block_out_channels=[128, 256, 256, 512]),
                     "tokenizer": {**parts.T5, "total": 32000}, "sampler": COG_SAMPLER},
    "small-cogvideox": {"family": "cogvideox", "dit": dict(COG, num_attention_heads=2, num_layers=2),
                        "text": {**parts.GATED_T5, "width": 64, "head": 16, "heads": 4, "ff": 160},
                        "vae": dict(scaling_factor=0.7, block_out_channels=[16, 32, 32, 64], norm_num_groups=8,
                                    layers_per_block=1), "tokenizer": parts.T5, "sampler": COG_SAMPLER},
    "mochi": {"family": "mochi", "dit": {}, "text": XXL_T5,
              "vae": dict(decoder_block_out_channels=[128, 256, 512, 768]), "tokenizer": {**parts.T5, "total": 32000}},
    "small-mochi": {"family": "mochi", "dit": dict(num_attention_heads=2, num_layers=2, pooled_projection_dim=96),
                    "text": {**parts.GATED_T5, "width": 64, "head": 16, "heads": 4, "ff": 160},
                    "vae": dict(decoder_block_out_channels=[32, 32, 64, 96], layers_per_block=[1] * 5),
                    "tokenizer": parts.T5},
    "hunyuan": {"family": "hunyuan", "dit": {}, "text": LLAMA, "clip_text": CLIP_L,
                "vae": dict(block_out_channels=(128, 256, 512, 512), latent_channels=16),
                "tokenizer": family_hunyuan.BYTE_LEVEL},
    "small-hunyuan": {"family": "hunyuan", "dit": dict(num_attention_heads=2, num_layers=2, num_single_layers=2),
                      "text": dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, intermediate_size=160),
                      "clip_text": dict(hidden_size=32, num_attention_heads=4, intermediate_size=96, num_hidden_layers=2),
                      "vae": dict(block_out_channels=(16, 32, 32, 64), norm_num_groups=8, layers_per_block=1,
                                  latent_channels=16), "tokenizer": family_hunyuan.BYTE_LEVEL},
}
MMDIT = dict(qk_norm="rms_norm", sample_size=128, pos_embed_max_size=192)
SHAPES["sd35-large"] = {
    "family": "sd3", "dit": dict(MMDIT, num_attention_heads=38, attention_head_dim=64, num_layers=38),
    "text": XXL_T5, "clip": dict(CLIP_L, projection_dim=768, num_hidden_layers=4),
    "clip_g": dict(hidden_size=1280, num_attention_heads=20, intermediate_size=5120, num_hidden_layers=4,
                   projection_dim=1280, hidden_act="gelu"),
    "vae": dict(block_out_channels=(128, 256, 512, 512), layers_per_block=2, latent_channels=16, sample_size=1024),
    "tokenizer": {**family_sd3.TOKENIZERS, "t5": {**parts.T5, "total": 32000}}}
SHAPES["sd35-medium"] = {**SHAPES["sd35-large"], "dit": dict(
    MMDIT, num_attention_heads=24, attention_head_dim=64, num_layers=24, pos_embed_max_size=384,
    dual_attention_layers=tuple(range(13)))}
SHAPES["small-sd35"] = {
    "family": "sd3", "dit": dict(MMDIT, num_attention_heads=2, attention_head_dim=64, num_layers=3, sample_size=16,
                                 pos_embed_max_size=48, dual_attention_layers=(0,)),
    "text": {**parts.GATED_T5, "width": 64, "head": 16, "heads": 4, "ff": 160},
    "clip": dict(hidden_size=24, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2, projection_dim=24),
    "clip_g": dict(hidden_size=32, num_attention_heads=4, intermediate_size=96, num_hidden_layers=2, projection_dim=32,
                   hidden_act="gelu"),
    "vae": dict(block_out_channels=(16, 32, 32, 64), norm_num_groups=8, layers_per_block=1, latent_channels=16),
    "tokenizer": family_sd3.TOKENIZERS}
SHAPES["flux"] = {  # dev
    "family": "flux", "dit": dict(guidance_embeds=True, num_layers=19, num_single_layers=38), "text": XXL_T5,
    "clip": dict(CLIP_L, num_hidden_layers=4),
    "vae": SHAPES["sd35-large"]["vae"], "shift": 3.0, "dynamic": True,
    "tokenizer": {**family_flux.TOKENIZERS, "t5": {**parts.T5, "total": 32000}}}
SHAPES["small-flux"] = {
    **SHAPES["flux"], "dit": dict(guidance_embeds=True, num_attention_heads=2, num_layers=2, num_single_layers=2),
    **{k: SHAPES["small-sd35"][k] for k in ("text", "vae")}, "tokenizer": family_flux.TOKENIZERS,
    "clip": dict(hidden_size=24, num_attention_heads=2, intermediate_size=64, num_hidden_layers=2)}
SHAPES["opensora"] = {  # any93x640x640; its autoencoder as their scripts/causalvae/wfvae_4dim.json trains one of 4 channels: assumed
    "family": "opensora", "text": {**XXL, "kind": "mt5", "vocab": 250112}, "tokenizer": {**parts.UMT5, "total": 250100},
    "dit": dict(num_attention_heads=24, attention_head_dim=96, num_layers=32, sparse1d=True, sparse_n=4),
    "vae": dict(base_channels=128, encoder_energy_flow_hidden_size=128, decoder_energy_flow_hidden_size=128,
                norm_type="layernorm", t_interpolation="trilinear")}
SHAPES["small-opensora"] = {
    **SHAPES["opensora"], "dit": dict(num_attention_heads=2, attention_head_dim=96, num_layers=4, sparse1d=True, sparse_n=4),
    "text": {**parts.GATED, "kind": "mt5", "width": 64, "head": 16, "heads": 4, "ff": 160}, "tokenizer": parts.UMT5,
    "vae": dict(SHAPES["opensora"]["vae"], base_channels=16, encoder_energy_flow_hidden_size=16,
                decoder_energy_flow_hidden_size=16)}
SHAPES["cogvideox-5b-i2v"] = {**SHAPES["cogvideox-5b"], "request": dict(pictures=1), "dit": dict(
    SHAPES["cogvideox-5b"]["dit"], in_channels=32, use_learned_positional_embeddings=True)}
SHAPES["small-cogvideox-i2v"] = {**SHAPES["small-cogvideox"], "request": dict(pictures=1), "dit": dict(
    SHAPES["small-cogvideox"]["dit"], in_channels=32, use_learned_positional_embeddings=True, sample_width=12,
    sample_height=8, sample_frames=9)}
VIT_H = dict(hidden_size=1280, num_attention_heads=16, num_hidden_layers=32, intermediate_size=5120, patch_size=14,
             image_size=224, hidden_act="gelu")
SHAPES["14b-i2v"] = {**SHAPES["14b"], "request": dict(pictures=1), "clip": VIT_H, "dit": dict(
    SHAPES["14b"]["dit"], in_channels=36, image_dim=1280, added_kv_proj_dim=5120)}
SHAPES["small-i2v"] = {**SHAPES["small"], "request": dict(pictures=1), "clip": dict(
    VIT_H, hidden_size=32, num_attention_heads=2, num_hidden_layers=2, intermediate_size=64), "dit": dict(
    SHAPES["small"]["dit"], in_channels=36, image_dim=32, added_kv_proj_dim=256)}
LATENTS = {"wan": (16, 4), "cogvideox": (16, 4), "mochi": (12, 6), "hunyuan": (16, 4),
           "flux": (16, 1), "sd3": (16, 1), "opensora": (8, 4)}  # channels, frames a latent; of 8 x 8
PROMPT = ("Two dogs run through shallow water at sunset; the camera follows them slowly, low and close, while the wind "
          "bends the tall grass and the city lights blur behind the harbour. 35mm film, warm light, 8K.")
SUBLAYERS = {"request": dict(prompt=PROMPT, negative_prompt="blurry, low quality", width=96, height=64, frames=9,
                             steps=2, cfg_scale=5.0, seed=11),
             "sampler": family_wan.UNIPC, "vae": {}, "clip": 17, "clip_frame": (64, 96)}
F32_GATE = 2e-5         # relative L2 of our float32 to the truth
BF16_UNIT = 2.0 ** -8   # bfloat16 may err twice as much as diffusers' own bfloat16, and this much more


# ---- making ----

def make_folder(folder, shape, device, dtype="F32", layers=None, text_layers=2):
    start, spec = time.time(), {"seed": 1, "dtype": dtype, "sampler": family_wan.UNIPC, "shard": "5GB",
                                "latent_statistics": False, **SHAPES[shape]}
    spec["text"] = dict(spec["text"], layers=text_layers)
    if layers:
        singles = {"num_single_layers": 2 * layers} if spec.get("family") in ("hunyuan", "flux") else {}
        spec["dit"] = dict(spec["dit"], num_layers=layers, **singles)
        if "dual_attention_layers" in spec["dit"]:
            spec["dit"]["dual_attention_layers"] = [i for i in spec["dit"]["dual_attention_layers"] if i < layers]
    part = folder.rstrip("/") + ".part"
    shutil.rmtree(part, ignore_errors=True)
    checkpoint.make_checkpoint(part, spec, device)
    os.rename(part, folder)
    layers = spec["dit"].get("num_layers", 48)
    print(f"made {folder}: {shape}, {dtype}, {layers} layers, text encoder {text_layers}; "
          f"{make.size_of(folder) * 2**-30:.2f} GiB in {time.time() - start:.0f} s", flush=True)


# ---- diffusers ----

def leave(device):
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


@contextlib.contextmanager
def in_parts(dtype):
    """float64 has no attention that does without the whole matrix of scores: some rows of it at a time."""
    whole = torch.nn.functional.scaled_dot_product_attention

    def attend(query, key, value, *args, **kwargs):
        if query.shape[-2] <= 2048:
            return whole(query, key, value, *args, **kwargs)
        return torch.cat([whole(q, key, value, *args, **kwargs) for q in query.split(2048, dim=-2)], dim=-2)
    changes = [(torch.nn.functional, "scaled_dot_product_attention", attend)] if dtype == torch.float64 else []
    with patched(*changes):
        yield


class Clock:
    """Seconds of each call of a module, and the memory that torch held at most."""

    def __init__(self, module, device):
        self.seconds, self.device = [], device
        module.register_forward_pre_hook(lambda *_: self.start())
        module.register_forward_hook(lambda *_: self.stop())

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def start(self):
        self.wait()
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        self.began = time.time()

    def stop(self):
        self.wait()
        self.seconds.append(time.time() - self.began)
        self.peak = torch.cuda.max_memory_allocated() if self.device == "cuda" else 0

    def __str__(self):
        return f"{min(self.seconds):.3f} s, peak {self.peak * 2**-30:.2f} GiB"


def run_forward(args, name):
    """The noise, and the latents that the denoiser makes of it."""
    dtype, taps, request = oracle.DTYPES[name], Taps(), request_of(args)
    family = families.of(args.dir)
    with oracle.widen(dtype, family), in_parts(dtype):
        pipe = oracle.load(args.dir, dtype, device=args.device)
        clock = Clock(pipe.transformer, args.device)
        draw = pipe.prepare_latents

        def noise(*a, **k):
            x = draw(*a, **k)
            taps.put("noise", family.grid(x[0] if isinstance(x, tuple) else x))
            return x
        pipe.prepare_latents = noise
        latents = oracle.latents(pipe, request)
    print(f"  diffusers {name}: a forward {clock}", flush=True)
    return {"noise": taps["noise"][0].float(), "latents": latents.cpu()}


def load_vae(args, dtype):
    family = families.of(args.dir)
    with oracle.widen(dtype, family):
        vae = family.VAE.from_pretrained(args.dir, subfolder="vae", torch_dtype=torch.float32)
        return vae.to(args.device, dtype)


def run_decode(args, name):
    """Frames [f, y, x, 3] in [-1, 1] of standard normal latents."""
    dtype, family = oracle.DTYPES[name], families.of(args.dir)
    vae = load_vae(args, dtype)
    with oracle.widen(dtype, family):
        return {"frames": family.decode(vae, make_latents(args), dtype)}


def reference(args, stage, run, name):
    """What `run` gives, from --out where an earlier call with the same request left it."""
    path = os.path.join(args.out, f"{stage}-diffusers-{name}.safetensors")
    key = json.dumps([os.path.realpath(args.dir), request_of(args), args.device])
    if os.path.exists(path):
        with safe_open(path, "pt") as f:
            if f.metadata().get("of") == key:
                return load_file(path)
    start = time.time()
    result = {k: v.contiguous() for k, v in run(args, name).items()}
    leave(args.device)
    print(f"  diffusers {name}: {time.time() - start:.1f} s", flush=True)
    save_file(result, path, {"of": key})
    return result


# ---- the stages; each returns its rows: name, error, gate ----

def request_of(args):
    request = dict(families.of(args.dir).defaults(args.dir), prompt=PROMPT, negative_prompt="", cfg_scale=1.0,
                   seed=args.seed, steps=families.of(args.dir).LEAST_STEPS, pictures=families.pictures_of(args.dir))
    if "guidance" in request:
        request["guidance"] = 4.0  # a thousand times it is exact in bfloat16: more would hide the rest of the rounding
    if args.size:
        request["width"], request["height"] = (int(v) for v in args.size.split("x"))
    return dict(request, frames=args.frames or request["frames"])


def size_of(request):
    return ["--size", f"{request['width']}x{request['height']}", "--frames", str(request["frames"])]


def pictures_of(args, request):
    """Options of ours, and the files that they name."""
    options = []
    for k, picture in enumerate(parts.pictures(request)):
        path = os.path.join(args.out, f"picture.{k}.png")
        picture.save(path)
        options += [parity.PICTURES[k], path]
    return options


def embedded(request):
    return ["--guidance", str(request["guidance"])] if "guidance" in request else []


def make_latents(args):
    r, (channels, time) = request_of(args), LATENTS[families.name_of(args.dir)]
    shape = (channels, (r["frames"] - 1) // time + 1, r["height"] // 8, r["width"] // 8)
    return torch.randn(shape, generator=torch.Generator("cpu").manual_seed(args.seed + 1))


def ours(args, stage, name, *options):
    """Runs sparge-gen; says what its report says, that of the last clip where it makes several."""
    report = os.path.join(args.out, f"{stage}-ours-{name}")
    for old in glob.glob(report + "*.json"):
        os.remove(old)
    parity.sparge_gen("--model", args.dir, "--dtype", name, "--backend", args.device, "--json", report + ".json",
                      *(["--threads", str(args.threads)] if args.threads else []), *options)
    with open(sorted(glob.glob(report + "*.json"))[-1], encoding="utf-8") as f:
        r = json.load(f)
    seconds = ", ".join(f"{k} {v:.2f}" for k, v in r["seconds"].items())
    print(f"  sparge-gen {name} on {r['device']}: {seconds} s; peak {r['peak_bytes'] * 2**-30:.2f} GiB", flush=True)
    return r


def distances(args, truths, error):
    """Rows of ours and of diffusers' own rounding; error(name, theirs) is that of our run, or of theirs."""
    rows, own = [], {n: error(n, True) for n in truths if n != args.truth}
    for name in args.dtypes:
        gate = F32_GATE if name == "f32" else 2 * own["bf16"] + BF16_UNIT
        rows.append((f"ours {name} to {args.truth}", error(name, False), gate))
    return rows + [(f"diffusers {n} to {args.truth}", e, None) for n, e in own.items()]


def names_of(args):
    return [args.truth] + [n for n in (["f32", "bf16"] if "bf16" in args.dtypes else ["f32"]) if n != args.truth]


def forward(args):
    r = request_of(args)
    theirs = {n: reference(args, "forward", run_forward, n) for n in names_of(args)}
    truth = theirs[args.truth]
    out = {}
    for name in args.dtypes:
        path = os.path.join(args.out, f"forward-ours-{name}.safetensors")
        if os.path.exists(path):
            os.remove(path)
        ours(args, "forward", name, "--prompt", r["prompt"], *size_of(r), *embedded(r), "--steps", str(r["steps"]),
             "--cfg-scale", "1", "--seed", str(r["seed"]), "--attention", "dense", "--latents", path, *pictures_of(args, r),
             "-o", os.path.join(args.out, "forward.y4m"))
        out[name] = {"noise": truth["noise"], "latents": load_file(path)["latents"]}
    way = families.of(args.dir).way
    return distances(args, theirs, lambda n, own: oracle.relative(way(**(theirs if own else out)[n]), way(**truth)))


def decode(args):
    path = os.path.join(args.out, "latents.safetensors")
    save_file({"latents": make_latents(args)}, path)
    theirs = {n: reference(args, "decode", run_decode, n)["frames"] for n in names_of(args)}
    truth = theirs[args.truth]
    inside = truth.abs() < 1 - 4 / 255
    print(f"  {100 * float(inside.float().mean()):.1f} % of the samples are inside of [-1, 1], standard deviation "
          f"{float(truth[inside].float().std()):.2f}")
    out = {}
    for name in args.dtypes:
        prefix = os.path.join(args.out, f"decode-ours-{name}")
        for old in glob.glob(prefix + "-*.png"):
            os.remove(old)
        ours(args, "decode", name, "--latents", path, *size_of(request_of(args)), "-o", prefix + "-%04d.png")
        out[name] = torch.from_numpy(parity.pictures(prefix))
    truth = truth[inside]
    return distances(args, theirs, lambda n, own: oracle.relative(theirs[n][inside], truth) if own else
                     rounded_distance(out[n][inside], truth))


def rounded_distance(seen, truth):
    """Relative L2 distance of numbers that are seen rounded to bytes. Rounding alone moves none by more than 1/2; an
    error e that is small beside 1 does so in a share |e| of the samples, by |e| / 2 on average: e^2 / 2 in all. A
    larger one shows in the mean square, to which rounding adds 1/12."""
    d = seen.double() - 255 * (truth.double() / 2 + 0.5)
    square = float(d.square().mean()) - 1 / 12
    if square < 0.02:
        square = 2 * float((d.abs() - 0.5).clamp(min=0).mean())
    return square**0.5 * 2 / 255 / float(truth.double().square().mean()) ** 0.5


def sublayers(args):
    """All taps of a small clip, by the test program `golden`."""
    path, start = os.path.join(args.dir, "taps.safetensors"), time.time()
    family = families.name_of(args.dir)
    images = getattr(families.NAMED[family], "IMAGES", False)
    request = dict(SUBLAYERS["request"], frames=1 if images else 2 * LATENTS[family][1] + 1,
                   pictures=families.pictures_of(args.dir))
    spec = dict(SUBLAYERS, family=family, request=request)
    truth, err, psnr, frames, clip = make.record(args.dir, spec, args.device)
    make.save(path, truth, make.metadata("fullsize", spec, truth, err, psnr, clip))
    make.report("diffusers", args.dir, truth, err, psnr, frames, time.time() - start)
    del truth
    leave(args.device)
    rows = []
    for name in args.dtypes:
        done = subprocess.run([args.golden, "--backend", args.device, "--dtype", name, args.dir], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        print("  " + done.stdout.replace("\n", "\n  ").rstrip(), flush=True)
        rows.append((f"ours {name}: sublayers out of gate", float(done.returncode != 0), 0.0))
    return rows


def theirs_in_bf16(args, request):
    """Seconds and memory of diffusers: a forward of the denoiser and the decoder, each the second time."""
    dtype, family = torch.bfloat16, families.of(args.dir)
    pipe = oracle.load(args.dir, dtype, device=args.device)
    pipe.vae.to("cpu")
    clock = Clock(pipe.transformer, args.device)
    for _ in range(2):
        oracle.latents(pipe, request)
    print(f"  diffusers: a forward {clock}", flush=True)
    vae = pipe.vae
    del pipe, clock
    leave(args.device)
    vae.to(args.device)
    clock, latents = Clock(vae.decoder, args.device), make_latents(args)
    try:
        for _ in range(2):
            began = time.time()
            family.decode(vae, latents, dtype)
            clock.wait()
            seconds = time.time() - began
        print(f"  diffusers: decoding {seconds:.3f} s, peak {clock.peak * 2**-30:.2f} GiB", flush=True)
    except torch.OutOfMemoryError as e:
        print(f"  diffusers: decoding: {str(e).splitlines()[0]}", flush=True)


def speed(args):
    request = request_of(args)
    theirs_in_bf16(args, request)
    leave(args.device)
    for attention in (["dense"], ["sparge", "--topk", "0.5", "--dense-steps", "0"]):
        r = ours(args, "speed", "bf16", "--prompt", PROMPT, "--batch", "2", *size_of(request), "--steps", "4",
                 "--cfg-scale", "1", *pictures_of(args, request), "--cache", "off", "--attention", *attention,
                 "-o", os.path.join(args.out, "speed.y4m"))
        peaks = ", ".join(f"{k} {v * 2**-30:.2f}" for k, v in r["stage_peak_bytes"].items())
        print(f"  ours, {attention[0]}: {r['seconds_per_step']:.3f} s a step of 4, decoding {r['seconds']['decode']:.3f} s; "
              f"peaks in GiB: {peaks}", flush=True)
    return []


STAGES = {"sublayers": sublayers, "forward": forward, "decode": decode, "speed": speed}


def compare(args):
    failed = 0
    os.makedirs(args.out, exist_ok=True)
    for stage in args.stages:
        start = time.time()
        print(f"{stage}:", flush=True)
        try:
            rows = STAGES[stage](args)
        except SystemExit as e:
            print(f"  {e}\n  {stage}: not run", flush=True)
            failed += 1
            continue
        for what, error, gate in rows:
            passed = gate is None or error <= gate
            failed += not passed
            verdict = "" if gate is None else f"gate {gate:.2e}  {'ok' if passed else 'FAILED'}"
            print(f"  {what:<34} {error:.3e}  {verdict}".rstrip())
        print(f"  {time.time() - start:.0f} s", flush=True)
    print("FAILED" if failed else "passed")
    return 1 if failed else 0


# ---- the command ----

def words(allowed):
    def split(text):
        given = text.split(",")
        if unknown := [w for w in given if w not in allowed]:
            raise argparse.ArgumentTypeError(f"{unknown[0]} is not one of {', '.join(allowed)}")
        return given
    return split


def parse():
    here, cuda = make.HERE, "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="command", required=True)
    p = sub.add_parser("make", help="makes a checkpoint; DIR must not exist")
    p.add_argument("dir", metavar="DIR")
    p.add_argument("shape", metavar="SHAPE", choices=list(SHAPES), help="of " + ", ".join(SHAPES))
    p.add_argument("--dtype", default="F32", choices=list(parts.WEIGHT_DTYPES), help="of the file (default: F32)")
    p.add_argument("--layers", type=int, help="of the denoiser (default: all)")
    p.add_argument("--text-layers", type=int, default=2, help="of the text encoder (default: 2; published: 24)")
    p.add_argument("--device", default=cuda, choices=["cuda", "cpu"], help="where weights are drawn (default: a GPU)")
    p = sub.add_parser("compare", help="runs both over it")
    p.add_argument("dir", metavar="DIR")
    p.add_argument("--stages", default=list(STAGES)[:3], type=words(STAGES),
                   help="of " + ", ".join(STAGES) + " (default: all but speed)")
    p.add_argument("--dtypes", default=["f32", "bf16"], type=words(["f32", "bf16"]), help="of ours (default: f32,bf16)")
    p.add_argument("--truth", default="f32", choices=["f32", "f64"], help="diffusers' dtype that forward and decode "
                   "are held to (default: f32)")
    p.add_argument("--size", metavar="WxH", help="(default: the pipeline's own)")
    p.add_argument("--frames", type=int, help="(default: the pipeline's own)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default=cuda, choices=["cuda", "cpu"], help="of both (default: a GPU, if there is one)")
    p.add_argument("--threads", type=int, default=0, help="CPU threads of both (default: diffusers 1, ours all)")
    p.add_argument("--golden", default=os.path.join(here, "..", "..", "build", "release", "tests", "golden"),
                   metavar="PATH", help="the test program (default: build/release/tests/golden)")
    p.add_argument("--out", metavar="FOLDER", help="keeps what both computed; what diffusers computed is used again "
                   "(default: DIR.parity)")
    return parser.parse_args()


def main():
    args = parse()
    oracle.setup(getattr(args, "threads", 0) or 1)
    torch.use_deterministic_algorithms(args.device == "cpu")
    if args.command == "make":
        make_folder(args.dir, args.shape, args.device, args.dtype, args.layers, args.text_layers)
        return 0
    args.out = args.out or args.dir.rstrip("/") + ".parity"
    return compare(args)


if __name__ == "__main__":
    sys.exit(main())
