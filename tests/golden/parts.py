"""What mini checkpoints of every family are made of: specifications of tokenizers and text encoders, numbers for weights."""
import torch

import counter
import prompts

WEIGHT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
ALL = 0x110000
T5 = {"ids": "t5", "pieces": 900, "below": ALL, "extra_ids": 100, "bytes": False, "rule": "identity", "json": False}
UMT5 = {"ids": "umt5", "pieces": 1000, "below": ALL, "extra_ids": 20, "bytes": False, "rule": "nmt_nfkc", "json": True}
BYTES = {"ids": "umt5", "pieces": 500, "below": 0x600, "extra_ids": 3, "bytes": True, "rule": "identity", "json": True}
SMALL = {"ids": "umt5", "pieces": 300, "below": 0x250, "extra_ids": 1, "bytes": False, "rule": "identity", "json": True}
GATED = {"kind": "umt5", "act": "gated-gelu", "buckets": 32, "distance": 128}
GATED_T5 = {**GATED, "kind": "t5"}
RELU_T5 = {**GATED_T5, "act": "relu"}


def by_torch(seed, device):
    """draw(name, parameter, deviation, mean), from a generator of torch on that device."""
    g = torch.Generator(device).manual_seed(seed)
    return lambda name, p, std, mean=0.0: p.copy_(torch.randn(p.shape, generator=g, device=device) * std + mean)


def by_counter(scope, rules):
    """The same, but the numbers of counter.h under SCOPE/NAME; which rules they follow goes to `rules`."""
    def draw(name, p, std, mean=0.0):
        name = f"{scope}/{name}"
        rules[name] = counter.rule(std, mean)
        p.copy_(torch.from_numpy(counter.numbers(name, p.shape, rules[name])))
    return draw


def fan_in(p):
    return p[0].numel()


def build(make, fill, draw, device):
    with torch.device(device):
        model = make().eval().requires_grad_(False)
    fill(model, draw)
    return model


def to_dtype(model, dtype, keep):
    """As diffusers and transformers save them: float32 stays where the class asks for it."""
    for name, p in model.named_parameters():
        if not any(k in name for k in keep):
            p.data = p.data.to(dtype)


def latent_statistics(channels, seed):
    g = torch.Generator("cpu").manual_seed(seed)
    mean = (torch.randn(channels, generator=g) * 0.7).tolist()
    std = (torch.rand(channels, generator=g) * 2 + 0.7).tolist()
    return {"latents_mean": [round(v, 4) for v in mean], "latents_std": [round(v, 4) for v in std]}


def pictures(request):
    """Of a request for image to video."""
    size = (request["height"], request["width"], 3)
    return [counter.pictures(f"picture.{k}", (1, *size))[0] for k in range(request.get("pictures", 0))]


def video(request):
    """Of a request for video to video."""
    return list(counter.pictures("video", (request["frames"], request["height"], request["width"], 3)))


def random_text(r, kinds, widths=(16, 24, 32, 48)):
    """A text encoder."""
    return {"kind": r.choice(kinds), "act": r.choice(["gated-gelu", "gated-gelu", "relu"]),
            "width": r.choice(widths), "head": r.choice([4, 8, 16]), "heads": r.choice([1, 2, 3, 4]),
            "ff": r.choice([24, 37, 64]), "layers": r.choice([1, 2, 3]), "buckets": r.choice([16, 32]),
            "distance": r.choice([64, 128])}


def random_request(r, multiple, frames, steps, **more):
    """width and height are some multiples of `multiple`."""
    texts = [p for p in prompts.prompts() if p.strip() and len(p) < 300]
    return dict(prompt=r.choice(texts), negative_prompt=r.choice(["", r.choice(texts)]),
                width=multiple * r.choice([1, 2, 3]), height=multiple * r.choice([1, 2]), frames=frames,
                steps=r.choice(steps), cfg_scale=r.choice([1.0, 3.5, 5.0, 7.5]), seed=r.randrange(2**63), **more)
