"""Trains one seed within a given time: python3 train.py --data work --out seed0 --seed 0 --minutes 9

The schedule is a function of the share of the time that is over: constant rates behind a short warm-up, from the middle on a
line to zero; the length of the sequences grows with it. A checkpoint is written each minute; the same command goes on from it.
Attention is exact throughout.
"""
import argparse
import json
import math
import multiprocessing
import os
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from decoder import Decoder, Shape
from recall import ASKED, TEXT, Recall, read

# From this share of the time on: length, share of tokens in records, how often each key is asked for.
STAGES = ((0.0, 128, .8, 2), (.1, 512, .6, 2), (.2, 2048, .4, 1), (.32, 8192, .3, 1), (.46, 32768, .2, 1),
          (.64, 65536, .15, 1))


class Muon(torch.optim.Optimizer):
    """Steps of matrices along their orthogonalised momentum (Jordan et al. 2024; five Newton-Schulz iterations)."""

    def __init__(self, matrices, lr, momentum=.95):
        super().__init__(matrices, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        group, by_shape = self.param_groups[0], {}
        for p in group["params"]:
            by_shape.setdefault(p.shape, []).append(p)
        for (rows, cols), each in by_shape.items():      # all of one shape together
            g = torch.stack([p.grad for p in each])
            mean = self.state[each[0]].setdefault("mean", torch.zeros_like(g)).lerp_(g, 1 - group["momentum"])
            x = g.lerp(mean, group["momentum"])
            x = x.mT if rows > cols else x
            x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.mT
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            for p, u in zip(each, x.mT if rows > cols else x):
                p.add_(u, alpha=-group["lr"] * max(1, rows / cols) ** .5)


def losses(model, ids, kinds, weight=1.0):
    """The loss and what it is made of: mean over text, mean over asked values, share of asked tokens that are likeliest."""
    hidden, target, kind = model(ids[:, :-1]), ids[:, 1:].reshape(-1), kinds[:, 1:].reshape(-1)
    logits = model.logits(hidden)
    each = F.cross_entropy(logits, target, reduction="none")
    text, asked = (kind == TEXT).float(), (kind == ASKED).float()
    on_text, on_asked = (each * text).sum() / text.sum(), (each * asked).sum() / asked.sum()
    right = ((logits.argmax(-1) == target).float() * asked).sum() / asked.sum()
    return on_text + weight * on_asked, torch.stack((on_text.detach(), on_asked.detach(), right))


def open_text(data):
    global recall
    recall = Recall(read(data / "train.u16.xz"), data / "tokenizer.json")


def draw(seed, step, done, stages, tokens):
    """One step's batch, in a process of its own."""
    length, share, asks = [stage[1:] for stage in stages if stage[0] <= done][-1]
    ids, kinds = recall.batch(np.random.default_rng((seed, step)), max(1, tokens // length), length, share, asks)
    return ids.astype(np.int32), kinds.astype(np.int8)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--minutes", type=float, default=9, help="of training in all, those before a resume counted in")
    p.add_argument("--tokens", type=int, default=131072, help="of a step")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--muon", type=float, default=0.02, help="rate of the layers' matrices; 0: AdamW for them too")
    p.add_argument("--stages", type=json.loads, default=STAGES)
    p.add_argument("--shape", type=json.loads, default={}, help="changes to the shape, for trials")
    p.add_argument("--attention", choices=("flash", "cudnn"), default="flash")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="processes that draw batches")
    p.add_argument("--every", type=int, default=50, help="steps of a line of the log")
    args = p.parse_args()
    step, before, state = 0, 0.0, args.out / "state.pt"
    saved = torch.load(state, map_location="cpu", weights_only=True) if state.exists() else None
    if saved:
        step, before = saved["step"], saved["seconds"]
    # Batches are drawn by processes that begin before there is a GPU's context.
    pool = ProcessPoolExecutor(args.workers, multiprocessing.get_context("fork"), open_text, (args.data,))
    queue = deque()

    def submit(done):
        queue.append(pool.submit(draw, args.seed, step + len(queue), done, args.stages, args.tokens))

    for _ in range(2 * args.workers):
        submit(before / (60 * args.minutes))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision("high")
    args.out.mkdir(parents=True, exist_ok=True)
    model = Decoder(Shape(**args.shape), args.attention).to(device)
    matrices = [p for name, p in model.layers.named_parameters() if p.dim() == 2] if args.muon else []
    others = [p for p in model.parameters() if not any(p is m for m in matrices)]
    optimizers = [torch.optim.AdamW(others, args.lr, (.9, .95), 1e-8, .01, fused=device == "cuda")]
    if matrices:
        optimizers.append(Muon(matrices, args.muon))
    rates = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    if saved:
        model.load_state_dict(saved["model"])
        for optimizer, part in zip(optimizers, saved["optimizers"], strict=True):
            optimizer.load_state_dict(part)
    if args.compile:
        model.compile()

    def save(seconds):
        torch.save(dict(model=model.state_dict(), optimizers=[optimizer.state_dict() for optimizer in optimizers],
                        step=step, seconds=seconds), state)
        model.save(args.out)

    began = saved_at = time.time()
    sums, count, tokens, since = 0, 0, 0, began
    while True:
        now = time.time()
        done = (before + now - began) / (60 * args.minutes)
        if done >= 1:
            break
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        for group, rate in zip(groups, rates):
            group["lr"] = rate * min(1, (step + 1) / 100, 2 * (1 - done))
        ids, kinds = (torch.from_numpy(part).to(device).long() for part in queue.popleft().result())
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            loss, parts = losses(model, ids, kinds)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        model.zero_grad()
        step, sums, count, tokens = step + 1, sums + parts, count + 1, tokens + ids.numel()
        submit(done)
        if device == "cuda":
            torch.cuda.synchronize()
        if step % args.every == 0:
            text, asked, right = (sums / count).tolist()
            now = time.time()
            print(f"seed {args.seed} step {step} seconds {before + now - began:.1f} length {ids.shape[1] - 1} text {text:.4f} "
                  f"asked {asked:.4f} right {right:.4f} tokens/s {tokens / (now - since):.0f}", flush=True)
            sums, count, tokens, since = 0, 0, 0, now
            if not math.isfinite(text):
                raise SystemExit("the loss is not finite")
        if time.time() - saved_at > 60:
            saved_at = time.time()
            save(before + saved_at - began)
    save(before + time.time() - began)
    pool.shutdown(cancel_futures=True)
    print(f"seed {args.seed}: {step} steps, {before + time.time() - began:.0f} seconds", flush=True)


if __name__ == "__main__":
    main()
