"""What every stage needs: the process group, the optimiser, moving averages, and checkpoints to resume from."""
import argparse
import math
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist


class Context:
    """This process's place: device, rank and world size. Started by torchrun or alone, with or without a GPU."""

    def __init__(self, seed=0):
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        local = int(os.environ.get("LOCAL_RANK", 0))
        self.device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
        self.cuda = self.device.type == "cuda"
        if self.cuda:
            torch.cuda.set_device(local)
            torch.backends.cudnn.benchmark = True
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        if self.world > 1:
            dist.init_process_group("nccl" if self.cuda else "gloo")
        torch.manual_seed(seed * 1000 + self.rank)

    def close(self):
        if self.world > 1:
            dist.barrier()
            dist.destroy_process_group()

    def prefer_cudnn(self):
        """For attention of the denoiser's shapes, where it is faster than FlashAttention 2."""
        if self.cuda:
            torch.backends.cuda.enable_flash_sdp(False)
            torch.backends.cuda.enable_mem_efficient_sdp(False)

    def log(self, *words):
        if self.rank == 0:
            print(*words, flush=True)

    def autocast(self):
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.cuda)

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def broadcast(self, tensors):
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor, 0)

    def mean_gradients(self, parameters):
        """Average all gradients over the processes in one call: they are small, so one message beats many."""
        if self.world == 1:
            return
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch._utils._flatten_dense_tensors(grads)
        dist.all_reduce(flat)
        flat /= self.world
        for p, grad in zip(parameters, torch._utils._unflatten_dense_tensors(flat, grads)):
            p.grad = grad

    def total(self, value):
        """Sum of a number over all processes."""
        tensor = torch.tensor([float(value)], dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(tensor)
        return tensor.item()


class Budget:
    """Progress from 0 to 1 over a number of GPU-seconds of training, the same on every process.

    Four GPUs spend four of them a second. Schedules follow this progress. elapsed counts from the first step after
    compilation and is carried over by a checkpoint.
    """

    def __init__(self, context, seconds, elapsed=0.):
        self.context, self.seconds, self.elapsed = context, seconds, elapsed
        self.started, self.shared = None, elapsed / seconds

    def start(self):
        self.context.sync()
        self.started = time.time()

    def spent(self):
        return self.elapsed + (0. if self.started is None else (time.time() - self.started) * self.context.world)

    def progress(self, step):
        now = min(self.spent() / self.seconds, 1.)
        if self.context.world == 1:
            return now
        if step % 10 == 0:                        # clocks differ between processes: rank 0's decides
            tensor = torch.tensor([now], dtype=torch.float64, device=self.context.device)
            dist.broadcast(tensor, 0)
            self.shared = tensor.item()
        return self.shared


class Muon(torch.optim.Optimizer):
    """Muon (orthogonalised momentum, Newton-Schulz in bf16) for matrices, Adam for everything else.

    Convolution weights count as matrices of outputs x rest. Embeddings, tables and the layers that touch data go to
    Adam, since Muon's equal step in every direction harms them. Equal shapes are stepped as one batch.
    """
    ADAM = ("embed", "proj_out", "shared", "conv_in", "conv_out", "quant_conv", "table", "relative", "heads")

    def __init__(self, named, lr, adam_lr, weight_decay=0., momentum=.95, betas=(.9, .99)):
        matrices, others = [], []
        for name, p in named:
            is_matrix = p.dim() >= 2 and min(p.shape[0], p[0].numel()) >= 16
            (matrices if is_matrix and not any(k in name for k in self.ADAM) else others).append(p)
        super().__init__([dict(params=matrices), dict(params=others)], dict(lr=lr))
        self.adam_ratio, self.weight_decay, self.momentum, self.betas = adam_lr / lr, weight_decay, momentum, betas
        self.count, self.shapes = 0, {}
        for p in matrices:
            self.shapes.setdefault((p.shape[0], p[0].numel()), []).append(p)
        self.velocity = {s: torch.zeros(len(ps), *s, device=ps[0].device) for s, ps in self.shapes.items()}
        self.first, self.second = ([torch.zeros_like(p) for p in others] for _ in range(2))

    @torch.no_grad()
    def step(self):
        self.count += 1
        lr = self.param_groups[0]["lr"]
        for shape, parameters in self.shapes.items():
            grad = torch.stack([p.grad.reshape(shape).float() for p in parameters])
            velocity = self.velocity[shape]
            velocity.lerp_(grad, 1 - self.momentum)
            update = self.orthogonal(grad.lerp(velocity, self.momentum).bfloat16()).float()
            for p, u in zip(parameters, update * (.2 * math.sqrt(max(shape)))):
                p.mul_(1 - lr * self.weight_decay)
                p.add_(u.reshape(p.shape), alpha=-lr)
        parameters = self.param_groups[1]["params"]
        grads = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        b1, b2 = self.betas
        torch._foreach_lerp_(self.first, grads, 1 - b1)
        torch._foreach_mul_(self.second, b2)
        torch._foreach_addcmul_(self.second, grads, grads, 1 - b2)
        scale = torch._foreach_div(self.second, 1 - b2 ** self.count)
        torch._foreach_sqrt_(scale)
        torch._foreach_add_(scale, 1e-8)
        torch._foreach_addcdiv_(parameters, self.first, scale, value=-lr * self.adam_ratio / (1 - b1 ** self.count))

    @staticmethod
    def orthogonal(u):
        tall = u.shape[-2] > u.shape[-1]
        u = u.mT if tall else u
        u = u / (u.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = u @ u.mT
            u = 3.4445 * u + (-4.7750 * a + 2.0315 * (a @ a)) @ u
        return u.mT if tall else u

    def snapshot(self):
        return dict(count=self.count, velocity=self.velocity, first=self.first, second=self.second)

    def restore(self, state):
        self.count = state["count"]
        for shape, velocity in state["velocity"].items():
            self.velocity[shape].copy_(velocity)
        for mine, other in ((self.first, state["first"]), (self.second, state["second"])):
            for a, b in zip(mine, other):
                a.copy_(b)


class Average:
    """Exponential moving average of the weights: what is evaluated and exported."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.values = [p.detach().clone() for p in self.parameters]

    @torch.no_grad()
    def update(self, decay, step):
        torch._foreach_lerp_(self.values, [p.detach() for p in self.parameters], 1 - min(decay, 1 - 1 / (step + 1)))

    @torch.no_grad()
    def install(self):
        """Overwrite the weights with their average."""
        for p, value in zip(self.parameters, self.values):
            p.copy_(value)


def save(path, value):
    """Write a checkpoint so that an interrupted write leaves the old one."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(value, path.with_suffix(".part"))
    os.replace(path.with_suffix(".part"), path)


def load(path):
    return torch.load(path, map_location="cpu", weights_only=True) if Path(path).exists() else None


def psnr(mean_squared_error):
    """In dB, of values in [-1, 1]."""
    return -10 * math.log10(max(mean_squared_error, 1e-12) / 4)


def parser(description, **defaults):
    """Arguments shared by the stages, and one --name for each default; types follow the defaults."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--work", type=Path, default=Path("work"), help="checkpoints and logs of all stages")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    for name, (value, text) in defaults.items():
        option = "--" + name.replace("_", "-")
        if value is False:
            p.add_argument(option, action="store_true", help=text)
        else:
            p.add_argument(option, type=type(value), default=value, help=text)
    return p


def picture(path, clips, frames, scale=1, columns=1):
    """A contact sheet of clips [3, t, h, w] in [-1, 1]: each a strip of its frames, the strips in columns."""
    from PIL import Image
    strips = [torch.cat([clip[:, k] for k in frames], 2) for clip in clips]
    strips += [torch.ones_like(strips[0])] * (-len(strips) % columns)
    height = len(strips) // columns
    sheet = torch.cat([torch.cat(strips[k:k + height], 1) for k in range(0, len(strips), height)], 2).float().cpu()
    if scale > 1:
        sheet = torch.nn.functional.avg_pool2d(sheet, scale)
    array = ((sheet * .5 + .5).clamp(0, 1) * 255).round().permute(1, 2, 0).byte().numpy()
    Image.fromarray(array).save(path)
