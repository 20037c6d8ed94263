"""The C call of attention.h on PyTorch's tensors, by ctypes alone: on the GPU if there is one.

    cmake --preset release && ninja -C build/release spargegen
    python3 tests/example/attention.py build/release/libspargegen.so

Needs PyTorch alone; on a GPU one with CUDA, and a library built where CUDA's toolkit is (-DSG_CUDA=ON fails without). Prints
what of the blocks was computed, the error against torch's own attention, and on a GPU the time of both.
"""
import ctypes as c
import math
import sys

import torch

I, P, S, D = c.c_int64, c.c_void_p, c.c_char_p, c.c_double


class Error(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 4096)]


class Options(c.Structure):
    _fields_ = [("backend", S), ("threads", c.c_int), ("cpu_mask", c.c_uint), ("device", c.c_int), ("reserved", I * 8)]


class Stride(c.Structure):
    _fields_ = [("batch", I), ("head", I), ("token", I)]


class Call(c.Structure):
    _fields_ = [(n, P) for n in "oqkv"] + [(n + "_stride", Stride) for n in "oqkv"] + [
        ("dtype", S), ("stream", P), ("batch", I), ("heads", I), ("kv_heads", I), ("head_dim", I), ("n", I), ("m", I),
        ("scale", D), ("causal", c.c_int), ("grid", I * 3), ("order", S), ("text_prefix", I), ("text_suffix", I),
        ("kind", S), ("preset", S), ("topk", D), ("tau", D), ("mask", P), ("mask_heads", I), ("similarity", D), ("pv", D),
        ("sink", c.c_int), ("topk_of", P), ("tau_of", P), ("similarity_of", P), ("pv_of", P), ("score", S), ("tail", S),
        ("tail_bias", S), ("budget", S), ("pv_dtype", S), ("reserved", I * 8)]


class Report(c.Structure):
    _fields_ = [("ran", S), ("why", S)] + [(n, D) for n in (
        "density", "mass", "skipped", "skipped_mass", "seconds", "copy_seconds", "pool_seconds", "quantise_seconds",
        "score_seconds", "select_seconds", "tail_seconds", "attend_seconds")] + [("reserved", I * 8)]


class SparseAttention:
    """attention(q, k, v, topk=0.3, grid=(frames, rows, columns)) of tensors [batch, heads, tokens, channels], any strides."""

    def __init__(self, library, device):
        self.library = c.CDLL(library)
        self.context, error = P(), Error()
        options = Options(backend=device.type.encode(), device=device.index or 0)
        self.check(self.library.sg_attention_context_open(c.byref(self.context), c.byref(options), c.byref(error)), error)

    def close(self):
        self.library.sg_attention_context_close(c.byref(self.context))

    @staticmethod
    def check(status, error):
        if status:
            raise RuntimeError(error.text.decode())

    def __call__(self, q, k, v, report=None, grid=(0, 0, 0), **settings):
        if any((x.dtype, x.device) != (q.dtype, q.device) for x in (k, v)) or k.shape != v.shape:
            raise ValueError("q, k and v are of one dtype and on one device, k and v of one shape")
        q, k, v = (x if x.stride(3) == 1 else x.contiguous() for x in (q, k, v))
        o = torch.empty_like(q)
        batch, heads, n, d = q.shape
        call = Call(dtype={torch.float32: b"f32", torch.float16: b"f16", torch.bfloat16: b"bf16"}[q.dtype], batch=batch,
                    heads=heads, kv_heads=k.shape[1], head_dim=d, n=n, m=k.shape[2], grid=(I * 3)(*grid), **settings)
        for name, x in zip("oqkv", (o, q, k, v)):
            setattr(call, name, x.data_ptr())
            setattr(call, name + "_stride", Stride(x.stride(0), x.stride(1), x.stride(2)))
        if q.is_cuda:
            call.stream = torch.cuda.current_stream(q.device).cuda_stream
        error = Error()
        self.check(self.library.sg_attention_call(self.context, c.byref(call), c.byref(report) if report else None,
                                                  c.byref(error)), error)
        return o


def field(grid, heads, d, phase):
    """A smooth field over the video, another one for each head and channel: [1, heads, tokens, d]."""
    t, y, x = torch.meshgrid(*(torch.arange(float(n)) for n in grid), indexing="ij")
    a = phase * torch.arange(1.0, heads * d + 1)[:, None, None, None]
    return (2 * torch.sin(a + 0.4 * x * torch.cos(a) + 0.4 * y * torch.sin(a) + 0.2 * t)).view(1, heads, d, -1).mT.contiguous()


def main():
    cuda = torch.cuda.is_available()
    device = torch.device("cuda:0" if cuda else "cpu")
    grid, heads, d, dtype = ((21, 30, 52), 12, 128, torch.bfloat16) if cuda else ((9, 16, 16), 2, 64, torch.float32)
    q, k, v = (field(grid, heads, d, p).to(device, dtype) for p in (1, 1.1, 1.7))
    attention, report = SparseAttention(sys.argv[1], device), Report()
    sparse = attention(q, k, v, report, grid=grid, topk=0.3)
    dense = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    error = ((sparse.float() - dense.float()).abs().sum() / dense.float().abs().sum()).item()
    print(f"{report.ran.decode()}: {100 * report.density:.0f} % of the blocks, relative L1 {error:.4f}")
    assert report.ran == b"sparge" and 0 < report.density < 0.6 and 0 < error < 0.15
    tokens_first = q.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.equal(attention(tokens_first, k, v, grid=grid, topk=0.3), sparse)
    if cuda:
        half = attention(q.half(), k.half(), v.half(), grid=grid, topk=0.3).float()
        assert (half - dense.float()).abs().sum() / dense.float().abs().sum() < 0.1
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # each call after what makes its tensors, on whatever stream
            outputs = [attention(q * s, k, v, grid=grid, topk=0.3) * 1 for s in (1.0, 0.5, 1.0)]
        side.synchronize()
        assert torch.equal(outputs[0], sparse) and torch.equal(outputs[2], sparse)
        assert not torch.equal(outputs[1], sparse)
        for name, run in (("torch", lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)),
                          ("sparse", lambda: attention(q, k, v, grid=grid, topk=0.3))):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            for _ in range(3):
                run()
            begin.record()
            for _ in range(10):
                run()
            end.record()
            end.synchronize()
            print(f"{name}: {begin.elapsed_time(end) / 10:.2f} ms, {math.prod(grid)} tokens, {heads} heads of {d}")
    attention.close()


if __name__ == "__main__":
    main()
