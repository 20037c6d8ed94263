"""The other side of vs_diffusers: one piece of work in a process of its own. Prints one line of JSON."""
import argparse
import json
import os
import time

BEGIN = time.perf_counter()
import torch  # noqa: E402  its import is part of the time that loading takes

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def wait():
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def timed(run, repeat):
    """Seconds of each of `repeat` runs, after one that does not count."""
    run()
    seconds = []
    for _ in range(repeat):
        wait()
        start = time.perf_counter()
        run()
        wait()
        seconds.append(time.perf_counter() - start)
    return {"seconds": seconds}


def stage(seconds, name, function):
    def run(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        seconds[name] = seconds.get(name, 0) + time.perf_counter() - start
        return result
    return run


def clip(args):
    """A whole render as WanPipeline does it, and its frames as PNG files."""
    import diffusers
    from PIL import Image
    diffusers.utils.logging.disable_progress_bar()
    with open(args.request, encoding="utf-8") as f:
        request = json.load(f)
    pipe = diffusers.WanPipeline.from_pretrained(args.model, torch_dtype=DTYPES[args.dtype], local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    seconds = {"load": time.perf_counter() - BEGIN}
    pipe.text_encoder.forward = stage(seconds, "text", pipe.text_encoder.forward)
    pipe.transformer.forward = stage(seconds, "denoise", pipe.transformer.forward)
    pipe.vae.decode = stage(seconds, "decode", pipe.vae.decode)
    start = time.perf_counter()
    frames = pipe(prompt=request["prompt"], negative_prompt=request["negative_prompt"], width=request["width"],
                  height=request["height"], num_frames=request["frames"], num_inference_steps=request["steps"],
                  guidance_scale=request["cfg_scale"], generator=torch.Generator("cpu").manual_seed(0)).frames[0]
    seconds["render"] = time.perf_counter() - start
    for i, frame in enumerate(frames):
        Image.fromarray((frame * 255).round().astype("uint8")).save(os.path.join(args.out, f"{i:04d}.png"))
    return seconds


def noise(args, *shapes):
    g = torch.Generator("cpu").manual_seed(0)
    return [torch.randn(s, generator=g).to(args.device, DTYPES[args.dtype]) for s in shapes]


def forward(args):
    """One call of the denoiser on noise."""
    import diffusers
    model = diffusers.WanTransformer3DModel.from_pretrained(args.model, subfolder="transformer",
                                                            torch_dtype=DTYPES[args.dtype], local_files_only=True)
    model.to(args.device)
    x, text = noise(args, [1, *args.shape], [1, 512, model.config.text_dim])
    when = torch.tensor([900], device=args.device)

    def run(call):
        return timed(lambda: call(hidden_states=x, timestep=when, encoder_hidden_states=text, return_dict=False),
                     args.repeat)
    result = run(model)
    return dict(result, compiled=run(torch.compile(model))["seconds"]) if args.compile else result


def decode(args):
    """Latents to frames, by the VAE alone."""
    import diffusers
    vae = diffusers.AutoencoderKLWan.from_pretrained(args.model, subfolder="vae", torch_dtype=DTYPES[args.dtype],
                                                     local_files_only=True).to(args.device)
    z, = noise(args, [1, *args.shape])
    return timed(lambda: vae.decode(z, return_dict=False), args.repeat)


def attention(args):
    q, k, v = noise(args, args.shape, args.shape, args.shape)
    return timed(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v), args.repeat)


def product(args):
    g = torch.Generator("cpu").manual_seed(0)
    x, w = (torch.randn(2048, 2048, generator=g).to(DTYPES[args.dtype]) for _ in range(2))
    return timed(lambda: torch.nn.functional.linear(x, w), args.repeat)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=["clip", "forward", "decode", "attention", "product"])
    parser.add_argument("--dtype", choices=list(DTYPES), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--request")
    parser.add_argument("--out")
    parser.add_argument("--shape", type=lambda s: [int(v) for v in s.split(",")])
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        print(json.dumps(globals()[args.work](args)))


if __name__ == "__main__":
    main()
