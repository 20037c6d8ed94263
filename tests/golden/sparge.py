"""The fixture of sparse attention: what the formulas of SpargeAttn (thu-ml/SpargeAttn at bfd980b, arXiv:2502.18137) make of
tokens, in plain torch on the CPU.

python3 sparge.py FIXTURE.safetensors

First every stage in f32, on 512 tokens in two heads of 64 channels; a setting with 450 tokens takes the first 450. Then which
blocks the reference keeps when q and k are bfloat16, with every tensor in the precision that its code gives it on a GPU.
"""
import sys

import torch
from safetensors.torch import save_file

BLOCK_Q, BLOCK_K, TOKENS, HEADS, CHANNELS = 128, 64, 512, 2, 64
STEP = 1 / 32  # inputs are bytes b that stand for (b - 128) STEP: exact in every precision
SETTINGS = (  # tokens, rule, amount, theta, sink, causal, whether the output is kept
    (512, "cdf", 0.9, 0.6, False, False, False),
    (512, "cdf", 0.5, -0.1, False, False, False),
    (512, "topk", 0.5, -0.1, False, False, False),
    (450, "cdf", 0.98, 0.6, False, False, True),
    (450, "topk", 0.25, 0.3, True, False, False),
    (512, "cdf", 0.8, 0.3, True, True, True),
    (512, "topk", 0.5, -0.1, False, True, False),
)
PUBLISHED = (  # channels, tokens, heads (the first so many), rule, amount, theta, sink, causal
    (64, 2990, 3, "cdf", 0.9, 0.5, False, False),
    (64, 2990, 3, "cdf", 0.98, -0.1, False, False),
    (64, 2944, 3, "cdf", 0.5, 0.3, True, False),
    (64, 2880, 3, "topk", 0.5, -0.1, False, False),
    (64, 2000, 3, "topk", 0.2, 0.5, True, True),
    (64, 2990, 1, "cdf", 0.95, -0.1, False, False),
    (128, 1300, 2, "cdf", 0.9, 0.5, False, False),
    (128, 1280, 2, "cdf", 0.8, -0.1, False, True),
    (128, 1219, 2, "topk", 0.3, 0.3, False, False),
    (128, 1300, 2, "topk", 0.5, -0.1, True, True),
)
WHOLE = (0, 6)  # of these, what comes before is stored too
FACTORS = {64: (2990, 3), 128: (1300, 2)}  # channels: tokens and heads there are
PERIOD = 83  # rows of noise
MARGIN = 1e-5  # of a running sum in f32 to its threshold: nearer, and a mask would be decided by rounding


def made(generator, noise):
    """Tokens that drift, 64 at a time more or less similar: bytes [n, h, d]."""
    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    at, rows = normal(HEADS, CHANNELS), []
    for segment in range(TOKENS // 64):
        at = 0.8 * at + 0.6 * normal(HEADS, CHANNELS)
        spread = noise * torch.tensor([4.0 if segment in odd else 1.0 for odd in ((2, 3), (5,))])[:, None]
        rows.append(at + spread * normal(64, HEADS, CHANNELS))
    return (torch.cat(rows) / STEP).round().clamp(-127, 127).add(128).to(torch.uint8)


def blocks(x, size):
    return [x[i:i + size].float() for i in range(0, len(x), size)]


def describe(x, size):
    """Of every block of one head [n, d]: mean, self-similarity, scale; and the bytes of all rows."""
    means, similar, scales, quantised = [], [], [], []
    for block in blocks(x, size):
        unit = block / block.norm(dim=1, keepdim=True)
        whole = len(block) == size  # rows that are not there divide 0 by 0
        scale = block.abs().max() / 127 + 1e-7
        means.append(block.mean(0))
        similar.append((unit @ unit.T).sum() / len(block) ** 2 if whole else torch.tensor(float("nan")))
        scales.append(scale)
        quantised.append((block / scale + 0.5 * torch.where(block >= 0, 1.0, -1.0)).trunc())
    return torch.stack(means), torch.stack(similar), torch.stack(scales), torch.cat(quantised)


def visible(nq, nk):
    return torch.arange(nk)[None, :] < (torch.arange(nq)[:, None] + 1) * BLOCK_Q / BLOCK_K


def choose(q, k, q_similar, k_similar, setting):
    """Shares, mask and the distance of a running sum to its threshold, of one head."""
    _, rule, amount, theta, sink, causal, _ = setting
    nq, nk = len(q), len(k)
    q_fixed, k_fixed = ~(q_similar > theta), ~(k_similar > theta)
    score = (q @ k.T) * CHANNELS ** -0.5
    score[:, k_fixed] = float("-inf")
    if causal:
        score[~visible(nq, nk)] = float("-inf")
    share = torch.softmax(score, dim=1)
    ranked = torch.sort(share, dim=1, descending=True)
    total = torch.cumsum(ranked.values, dim=1)
    if rule == "cdf":
        count = torch.searchsorted(total, torch.full((nq, 1), amount, dtype=total.dtype), right=True)[:, 0]
        count = count.clamp(min=1)
    else:
        count = torch.full((nq,), max(1, int(amount * nk)))
    mask = torch.zeros(nq, nk, dtype=torch.bool)
    mask[:, k_fixed] = True
    mask[q_fixed] = True
    for i in range(nq):
        mask[i, ranked.indices[i, :int(count[i])]] = True
    if causal:
        mask &= visible(nq, nk)
    if sink:
        mask[:, 0] = True
    margin = (total[~q_fixed].double() - amount).abs().min() if rule == "cdf" and (~q_fixed).any() else 1.0
    return share, mask, float(margin)


def attend(q, k, v, q_scale, k_scale, mask, causal):
    """Of one head, from bytes; the softmax over what the mask keeps."""
    rows = torch.arange(len(q))
    score = (q @ k.T) * q_scale[rows // BLOCK_Q][:, None] * k_scale[rows // BLOCK_K][None, :] * CHANNELS ** -0.5
    kept = mask[rows // BLOCK_Q][:, rows // BLOCK_K]
    if causal:
        kept = kept & (rows[None, :] <= rows[:, None])
    return torch.softmax(score.masked_fill(~kept, float("-inf")), dim=1) @ v


def run(out, inputs, number, setting):
    tokens, masks, shares, outputs = setting[0], [], [], []
    stages = {"q_similar": [], "k_similar": [], "q_scale": [], "k_scale": [], "q8": [], "k8": []}
    for head in range(HEADS):
        q, k, v = ((x[:tokens, head].float() - 128) * STEP for x in inputs)
        k = k - k.mean(0)
        q_mean, q_similar, q_scale, q8 = describe(q, BLOCK_Q)
        k_mean, k_similar, k_scale, k8 = describe(k, BLOCK_K)
        share, mask, margin = choose(q_mean, k_mean, q_similar, k_similar, setting)
        assert margin > MARGIN, (number, margin)
        masks.append(mask)
        shares.append(share)
        outputs.append(attend(q8, k8, v, q_scale, k_scale, mask, setting[5]))
        for name, part in zip(stages, (q_similar, k_similar, q_scale, k_scale, q8[:BLOCK_Q], k8[:BLOCK_Q])):
            stages[name].append(part)
    print(number, setting, f"kept {torch.stack(masks).float().mean():.3f}",
          f"self-similarity {torch.stack(stages['q_similar']).nanmean():.2f} {torch.stack(stages['k_similar']).nanmean():.2f}")
    out[f"{number}.mask"] = torch.stack(masks).to(torch.uint8)
    out[f"{number}.share"] = torch.stack(shares)
    if setting[6]:
        out[f"{number}.y"] = torch.stack(outputs, dim=1)[::16].contiguous()
    for name, part in stages.items():
        if name[1:] == "8" and tokens == TOKENS:
            out[name] = (torch.stack(part) + 128).to(torch.uint8)
        elif name[1:] != "8":
            out[f"{tokens}.{name}"] = torch.stack(part, dim=1).contiguous()


# ---- as published, in bfloat16 ----

def factors(generator, channels):
    """What q and k are made of, each: a row a block that drifts, how far from it its tokens are, and noise."""
    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    tokens, heads = FACTORS[channels]
    count = -(-tokens // BLOCK_K)
    at, q, k = normal(heads, channels), [], []
    offset = 2 * normal(heads, channels)  # of keys: what smoothing takes away
    for _ in range(count):
        at = 0.9 * at + 0.44 * normal(heads, channels)
        q.append(0.6 * at + 0.2 * normal(heads, channels))
        k.append(0.6 * at + 0.2 * normal(heads, channels) + offset)
    out = {}
    for name, base in (("q", q), ("k", k)):
        out[f"{channels}.{name}.base"] = torch.stack(base)
        out[f"{channels}.{name}.far"] = 0.2 + torch.rand(count, heads, generator=generator) ** 3
        out[f"{channels}.{name}.noise"] = normal(PERIOD, channels)
    return {name: t.bfloat16().contiguous() for name, t in out.items()}


def assembled(out, channels, name, tokens, heads):
    """[h, n, d]: token r of head g is base[r / 64, g] + far[r / 64, g] noise[(r + 17 g) mod 83], rounded once."""
    base, far, noise = (out[f"{channels}.{name}.{part}"].float() for part in ("base", "far", "noise"))
    r, g = torch.arange(tokens), torch.arange(heads)[:, None]
    return (base[r // BLOCK_K, g] + far[r // BLOCK_K, g][..., None] * noise[(r + 17 * g) % PERIOD]).bfloat16()


def pool_and_judge(x, mean, size, theta):
    """Means of blocks in bfloat16, the self-similarity of their rows, and whether it is above theta."""
    heads, tokens, channels = x.shape
    count = -(-tokens // size)
    rows = torch.full((count,), size).clamp(max=tokens - size * torch.arange(count)).float()
    if mean is not None:
        x = x - mean
    x = torch.nn.functional.pad(x, (0, 0, 0, count * size - tokens)).view(heads, count, size, channels).float()
    pooled = (x.sum(2) / rows[:, None]).bfloat16()
    unit = (x / (x * x).sum(3, keepdim=True).sqrt()).half().float()  # of rows that are not there 0 / 0
    similar = (unit @ unit.mT).sum((2, 3)) / (rows * rows)
    return pooled, similar, similar > torch.tensor(theta)


def scanned(x):
    """Running sums over the last dimension as torch makes them of bfloat16 on a GPU (its ScanUtils.cuh): each sum rounded,
    by Sklansky's tree in stretches of twice as many as the threads that share a row."""
    columns, rows = x.shape[-1], x.numel() // x.shape[-1]
    wanted = (9 + (columns - 1).bit_length() - (rows - 1).bit_length()) // 2
    stretch = 2 << min(max(wanted, 4), 9)
    parts = []
    for part in x.split(stretch, dim=-1):
        part = torch.nn.functional.pad(part, (0, stretch - part.shape[-1]))
        if parts:
            part[..., 0] += parts[-1][..., -1]
        step = 1
        while step < stretch:
            at = torch.arange(stretch)
            at = at[at & step != 0]
            part[..., at] += part[..., (at & -step) - 1]
            step *= 2
        parts.append(part)
    return torch.cat(parts, dim=-1)[..., :columns]


def published(q, k, rule, amount, theta, sink, causal):
    """Which blocks are kept, and shares [h, nq, nk]; the self-similarity of blocks; and in how many rows the last block
    that a rule takes is as good as the next."""
    q_pooled, q_similar, q_self_similar = pool_and_judge(q, None, BLOCK_Q, theta)
    k_pooled, k_similar, k_self_similar = pool_and_judge(k, k.float().mean(1, keepdim=True).bfloat16(), BLOCK_K, theta)
    heads, nq, nk = len(q), q_pooled.shape[1], k_pooled.shape[1]
    score = (q_pooled.float() @ k_pooled.float().mT).bfloat16() * q.shape[-1] ** -0.5
    score = score.masked_fill(~k_self_similar[:, None, :], float("-inf"))
    if causal:
        score = score.masked_fill(~visible(nq, nk), float("-inf"))
    share = score.float().softmax(-1).bfloat16()
    ranked = share.sort(dim=-1, descending=True, stable=True)
    sums = scanned(ranked.values).contiguous()
    if rule == "cdf":
        count = torch.searchsorted(sums, torch.full((heads, nq, 1), amount), right=True).clamp(min=1)
    else:
        count = (torch.tensor(amount) * nk).long().clamp(min=1).expand(heads, nq, 1)
    taken = torch.zeros(heads, nq, nk, dtype=torch.bool).scatter(2, ranked.indices, torch.arange(nk) < count)
    mask = taken | ~k_self_similar[:, None, :] | ~q_self_similar[:, :, None]
    if causal:
        mask = mask & visible(nq, nk)
    if sink:
        mask[:, :, 0] = True
    last, following = (ranked.values.gather(2, at) for at in (count - 1, count.clamp(max=nk - 1)))
    ties = (count < nk) & (last == following) & (last > 0) & q_self_similar[:, :, None]
    return mask, share, (q_similar, k_similar), int(ties.sum())


def packed(mask):
    """Bit j % 8 of byte j / 8, rows of whole 64 bits."""
    bits = torch.nn.functional.pad(mask, (0, -mask.shape[-1] % 64)).view(*mask.shape[:2], -1, 8)
    return (bits * (1 << torch.arange(8))).sum(-1).to(torch.uint8)


def run_published(out, number, setting):
    channels, tokens, heads, rule, amount, theta, sink, causal = setting
    q, k = (assembled(out, channels, name, tokens, heads) for name in ("q", "k"))
    mask, share, similar, ties = published(q, k, rule, amount, theta, sink, causal)
    print("published", number, setting, f"kept {mask.float().mean():.3f}, ties in {ties} rows")
    out[f"published.{number}.keep"] = packed(mask)
    if number in WHOLE:
        out[f"published.{number}.share"] = share
        for name, part in zip(("q_similar", "k_similar"), similar):
            out[f"published.{number}.{name}"] = part.T.contiguous()


def main():
    generator = torch.Generator().manual_seed(7)
    inputs = [made(generator, noise) for noise in (0.4, 0.5, 1.0)]
    out = dict(zip(("q", "k", "v"), inputs))
    for number, setting in enumerate(SETTINGS):
        run(out, inputs, number, setting)
    for channels in FACTORS:
        out.update(factors(generator, channels))
    for number, setting in enumerate(PUBLISHED):
        run_published(out, number, setting)
    rows = [(s[0], s[1] == "topk", s[2], s[3], s[4], s[5], s[6]) for s in SETTINGS]
    out["settings"] = torch.tensor(rows, dtype=torch.float32)
    rows = [(s[0], s[1], s[2], s[3] == "topk", *s[4:]) for s in PUBLISHED]
    out["published.settings"] = torch.tensor(rows, dtype=torch.float32)
    save_file(out, sys.argv[1], {"source": "thu-ml/SpargeAttn bfd980b", "torch": torch.__version__})


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        main()
