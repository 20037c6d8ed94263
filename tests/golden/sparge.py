"""The fixture of sparse attention: what the formulas of SpargeAttn (thu-ml/SpargeAttn at bfd980b, arXiv:2502.18137) make of
512 tokens, in plain torch on the CPU.

python3 sparge.py FIXTURE.safetensors

Two heads of 64 channels; a setting with 450 tokens takes the first 450. Two precisions: f32 throughout, and as the reference
runs, with means, scores, shares and their running sums in bfloat16 and the unit rows of the self-similarity in float16.
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
MARGIN = 1e-5  # of a running sum in f32 to its threshold: nearer, and a mask would be decided by rounding


def made(generator, noise):
    """Tokens that drift, 64 at a time more or less alike: bytes [n, h, d]."""
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


def describe(x, size, dtype):
    """Of every block of one head [n, d]: mean, self-similarity, scale; and the bytes of all rows."""
    means, similar, scales, quantised = [], [], [], []
    for block in blocks(x, size):
        unit = block / block.norm(dim=1, keepdim=True)
        if dtype == torch.bfloat16:
            unit = unit.half().float()
        whole = len(block) == size  # rows that are not there divide 0 by 0
        scale = block.abs().max() / 127 + 1e-7
        means.append(block.mean(0).to(dtype))
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


def run(out, inputs, number, setting, dtype):
    tokens, low, masks, shares, outputs = setting[0], dtype == torch.bfloat16, [], [], []
    stages = {"q_similar": [], "k_similar": [], "q_scale": [], "k_scale": [], "q8": [], "k8": []}
    for head in range(HEADS):
        q, k, v = (((x[:tokens, head].float() - 128) * STEP).to(dtype) for x in inputs)
        k = k - k.float().mean(0).to(dtype)
        q_mean, q_similar, q_scale, q8 = describe(q, BLOCK_Q, dtype)
        k_mean, k_similar, k_scale, k8 = describe(k, BLOCK_K, dtype)
        share, mask, margin = choose(q_mean, k_mean, q_similar, k_similar, setting)
        assert low or margin > MARGIN, (number, margin)
        masks.append(mask)
        shares.append(share.float())
        outputs.append(attend(q8, k8, v.float(), q_scale, k_scale, mask, setting[5]))
        for name, part in zip(stages, (q_similar, k_similar, q_scale, k_scale, q8[:BLOCK_Q], k8[:BLOCK_Q])):
            stages[name].append(part)
    out[f"{number}.mask" + (".bf16" if low else "")] = torch.stack(masks).to(torch.uint8)
    print(number, setting, dtype, f"kept {torch.stack(masks).float().mean():.3f}",
          f"alike {torch.stack(stages['q_similar']).nanmean():.2f} {torch.stack(stages['k_similar']).nanmean():.2f}")
    if low:
        return
    out[f"{number}.share"] = torch.stack(shares)
    if setting[6]:
        out[f"{number}.y"] = torch.stack(outputs, dim=1)[::16].contiguous()
    for name, part in stages.items():
        if name[1:] == "8" and tokens == TOKENS:
            out[name] = (torch.stack(part) + 128).to(torch.uint8)
        elif name[1:] != "8":
            out[f"{tokens}.{name}"] = torch.stack(part, dim=1).contiguous()


def main():
    generator = torch.Generator().manual_seed(7)
    inputs = [made(generator, noise) for noise in (0.4, 0.5, 1.0)]
    out = dict(zip(("q", "k", "v"), inputs))
    for number, setting in enumerate(SETTINGS):
        for dtype in (torch.float32, torch.bfloat16):
            run(out, inputs, number, setting, dtype)
    rows = [(s[0], s[1] == "topk", s[2], s[3], s[4], s[5], s[6]) for s in SETTINGS]
    out["settings"] = torch.tensor(rows, dtype=torch.float32)
    save_file(out, sys.argv[1], {"source": "thu-ml/SpargeAttn bfd980b", "torch": torch.__version__})


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode():
        main()
