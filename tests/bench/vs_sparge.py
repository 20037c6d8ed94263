"""SpargeAttn's and SageAttention's kernels for compute capability 9.0 and ours, on the same tensors, in turn.

    tests/bench/vs_sparge.py --spargeattn DIR [--sageattention DIR] --library build/release/libspargegen.so
        [--sparge-gen build/release/sparge-gen] [--json FILE]

The folders hold the authors' sources (github.com/thu-ml/SpargeAttn, github.com/thu-ml/SageAttention). Of them what is called
here is built once, into --build. Needs a GPU of capability 9.0, CUDA's toolkit, and in Python torch with CUDA, ninja, triton,
einops and, with --sparge-gen, safetensors. The library is built with -DSG_CUDA=ON -DSG_SHARED=ON. Ours is the C call of attention.h. Every side is given the same bf16 tensors on the GPU and makes
all of its attention of them: centers, means, quantisation, lists and the product. Times are medians of --turns, the sides in
turn. The error is sum |o - exact| / sum |exact| over 1,024 rows of every head, exact in F32 from the same tensors.

Inputs: smooth random fields over the video with noise ("made"), row by row or in Morton order, and with --sparge-gen what the
model in weights/tiny-wan has at 512x512 ("layer N"). In Morton order nobody is told the grid, else ours orders the tokens by
itself, which its time includes.
"""
import argparse
import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import types

import torch
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "example"))
from example import Report, SparseAttention  # noqa: E402

SHAPES = {"12 x 32,760 x 128": (12, (21, 30, 52), 128), "30 x 17,550 x 64": (30, (13, 30, 45), 64),
          "24 x 44,520 x 128": (24, (28, 30, 53), 128)}
SHARES = (0.5, 0.3, 0.2, 0.1)  # of the blocks kept
LESS = (0.07, 0.05, 0.035, 0.025, 0.015)  # ours only, for the time at the peer's error
LAYERS = (0, 1, 3, 5)
PROMPT = "a blue heart spinning in falling snow"


# ---- the peers ----

def extension(name, folder, build, sources, binding=None):
    """A module of the authors' sources; `binding` names the functions that our own binding file shall have."""
    from torch.utils.cpp_extension import load
    build = os.path.join(build, name)
    os.makedirs(build, exist_ok=True)
    if binding:
        header, functions = binding
        path = os.path.join(build, "binding.cpp")
        text = f'#include <torch/extension.h>\n#include "{folder}/{header}"\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m)\n{{\n'
        text += "".join(f'    m.def("{f}", &{f});\n' for f in functions) + "}\n"
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
        sources = [path, *sources]
    os.environ["TORCH_CUDA_ARCH_LIST"] = "9.0a"
    return load(name=name, sources=[os.path.join(folder, s) for s in sources], build_directory=build,
                extra_cflags=["-O3", "-DENABLE_BF16", "-DHAS_SM90"], extra_ldflags=["-lcuda", "-Wl,-z,lazy"],
                extra_cuda_cflags=["-O3", "-U__CUDA_NO_HALF_OPERATORS__", "-U__CUDA_NO_HALF_CONVERSIONS__",
                                   "--use_fast_math", "-diag-suppress=174", "-DHAS_SM90", "-include", "cassert"])


def package(name, folder, **modules):
    """The authors' Python package over these modules."""
    it = types.ModuleType(name)  # without its __init__, which imports what is not built
    it.__path__ = [os.path.join(folder, name)]
    sys.modules[name] = it
    for module, value in modules.items():
        sys.modules[f"{name}.{module}"] = value
        setattr(it, module, value)
    return importlib.import_module(f"{name}.core")


def is_called(instance):
    """Whether this file has a kernel that is called here: bf16, a scale a block, the PV filter, neither causal nor counting."""
    return (instance.endswith(".cu") and "_qkg1_pvth1_onv_bfloat16_causal0_" in instance and "_retpv0" in instance and
            "_retlse1" not in instance)


def spargeattn(folder, build):
    made = os.path.join(folder, "csrc", "qattn", "instantiations_sm90")
    subprocess.run([sys.executable, os.path.join(made, "autogen.py")], check=True, stdout=subprocess.DEVNULL)
    instances = sorted(filter(is_called, os.listdir(made)))  # of 72 or more, one for each size of head
    if not instances:
        raise SystemExit(f"{made}: no instance has the name that is looked for")
    attend = "qk_int8_sv_f8_accum_f32_block_sparse_attn_inst_buf_fuse_v_scale_with_pv_threshold_sm90"
    flags = sys.getdlopenflags()
    sys.setdlopenflags(os.RTLD_LAZY)  # the other instances are asked for by name, and never called
    qattn = extension("spargeattn_qattn", folder, build, ["csrc/qattn/qk_int_sv_f8_cuda_sm90.cu"] +
                      [f"csrc/qattn/instantiations_sm90/{f}" for f in instances], ("csrc/qattn/attn_cuda.h", [attend]))
    sys.setdlopenflags(flags)
    fused = extension("spargeattn_fused", folder, build, ["csrc/fused/pybind.cpp", "csrc/fused/fused.cu"])
    return package("spas_sage_attn", folder, _qattn=qattn, _fused=fused).spas_sage2_attn_meansim_topk_cuda


def sageattention(folder, build):
    qattn = extension("sageattention_qattn", folder, build,
                      ["csrc/qattn/pybind_sm90.cpp", "csrc/qattn/qk_int_sv_f8_cuda_sm90.cu"])
    fused = extension("sageattention_fused", folder, build, ["csrc/fused/pybind.cpp", "csrc/fused/fused.cu"])
    return package("sageattention", folder, _qattn_sm90=qattn, _fused=fused).sageattn_qk_int8_pv_fp8_cuda_sm90


# ---- the inputs ----

def made(heads, grid, d):
    """[1, heads, tokens, d] each: neighbours resemble one another, k is like q and has a center."""
    def field():
        coarse = torch.randn(heads, d, max(2, grid[0] // 3), max(2, grid[1] // 5), max(2, grid[2] // 5), device="cuda")
        smooth = F.interpolate(coarse, size=grid, mode="trilinear", align_corners=True).flatten(2).mT
        return 1.6 * smooth[None] + 0.6 * torch.randn(1, heads, math.prod(grid), d, device="cuda")
    torch.manual_seed(0)
    q = field()
    k = 0.7 * q + 0.7 * field() + 2 * torch.randn(1, heads, 1, d, device="cuda")
    return [x.bfloat16().contiguous() for x in (q, k, field())]


def morton(grid):
    """The tokens of the grid in Morton order."""
    t, y, x = torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij")
    code = sum((axis.flatten() >> b & 1) << 3 * b + shift for b in range(10) for axis, shift in ((x, 0), (y, 1), (t, 2)))
    return code.argsort()


def captured(program, layer):
    """q, k, v of the seventh of twelve steps, row by row, and their grid."""
    from safetensors import safe_open
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "qkv.safetensors")
        subprocess.run([program, "-p", PROMPT, "--size", "512x512", "--attention", "dense", "--backend", "cuda", "--dtype",
                        "bf16", "--quiet", "-o", os.path.join(folder, "clip.y4m"), "--capture-qkv", f"{layer}:6:{path}"],
                       check=True)
        with safe_open(path, "pt") as f:
            grid = tuple(int(n) for n in f.metadata()["grid"].split(","))
            return [f.get_tensor(n).cuda().bfloat16().transpose(0, 1)[None].contiguous() for n in "qkv"], grid


def inputs(args):
    for name, (heads, grid, d) in SHAPES.items():
        if args.shapes and name.split(" ")[0] not in args.shapes:
            continue
        tensors = made(heads, grid, d)
        yield f"made, {name}, row by row", tensors, grid
        at = morton(grid)
        yield f"made, {name}, Morton", [x[:, :, at].contiguous() for x in tensors], (0, 0, 0)
    for layer in LAYERS if args.sparge_gen else ():
        tensors, grid = captured(args.sparge_gen, layer)
        yield f"layer {layer}, {' x '.join(str(n) for n in tensors[0].shape[1:])}, row by row", tensors, grid


# ---- the measurement ----

def exact(q, k, v):
    """The rows that are judged, and what they should be: [1, heads, rows, d]."""
    rows = torch.linspace(0, q.shape[2] - 1, min(1024, q.shape[2]), device="cuda").long()
    out = [torch.softmax(q[0, h, rows].float() @ k[0, h].float().mT / math.sqrt(q.shape[3]), -1) @ v[0, h].float()
           for h in range(q.shape[1])]
    return rows, torch.stack(out)[None]


def times_of(sides, turns):
    """Milliseconds of each side, turn by turn, after two that do not count."""
    times = {name: [] for name in sides}
    for turn in range(turns + 2):
        for name, side in sides.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            side()
            end.record()
            end.synchronize()
            if turn >= 2:
                times[name].append(begin.elapsed_time(end))
    return {name: statistics.median(t) for name, t in times.items()}


def measure(args, peer, sage, attention, tensors, grid):
    """A row for each side: name, share asked for, ms, error."""
    q, k, v = tensors
    sides = {("torch", 1): lambda: F.scaled_dot_product_attention(q, k, v)}
    if sage:
        sides["SageAttention", 1] = lambda: sage(q, k, v)
    for share in SHARES:
        sides["SpargeAttn", share] = lambda s=share: peer(q, k, v, topk=s)
    for pv in args.pv:
        sides[f"ours {pv}", 1] = lambda p=pv: attention(q, k, v, kind=b"sage", pv_dtype=p.encode())
        for share in SHARES + LESS:
            sides[f"ours {pv}", share] = lambda s=share, p=pv: attention(q, k, v, grid=grid, topk=s, pv_dtype=p.encode())
        sides[f"ours {pv}, paper", 0.5] = lambda p=pv: attention(q, k, v, grid=grid, preset=b"paper", topk=0.5,
                                                                pv_dtype=p.encode())
    rows, should = exact(q, k, v)
    total = should.abs().sum()
    errors = {name: ((side()[:, :, rows].float() - should).abs().sum() / total).item() for name, side in sides.items()}
    times = times_of(sides, args.turns)
    return [{"side": name[0], "share": name[1], "ms": times[name], "error": errors[name]} for name in sides]


def at_equal_error(rows):
    """The least time of ours whose error is no larger than SpargeAttn's own at 0.5."""
    theirs = next(r for r in rows if r["side"] == "SpargeAttn" and r["share"] == 0.5)
    ours = [r for r in rows if r["side"].startswith("ours") and "paper" not in r["side"] and r["error"] <= theirs["error"]]
    return theirs, min(ours, key=lambda r: r["ms"], default=None)


def show(title, rows):
    print(f"\n{title}\n{'':<22}" + "".join(f"{'every' if s == 1 else s:>16}" for s in (1, *SHARES)))
    for side in dict.fromkeys(r["side"] for r in rows):
        cells = {r["share"]: f"{r['ms']:.2f} ({r['error']:.4f})" for r in rows if r["side"] == side}
        print(f"{side:<22}" + "".join(f"{cells.get(s, ''):>16}" for s in (1, *SHARES)).rstrip())
    theirs, ours = at_equal_error(rows)
    if ours:
        print(f"at SpargeAttn's error at 0.5: {ours['ms']:.2f} ms ({ours['side']}, {ours['share']}, {ours['error']:.4f}), "
              f"{ours['ms'] / theirs['ms']:.2f} of its {theirs['ms']:.2f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--spargeattn", required=True, metavar="DIR")
    p.add_argument("--sageattention", metavar="DIR")
    p.add_argument("--library", required=True, metavar="FILE", help="libspargegen.so, built with -DSG_SHARED=ON")
    p.add_argument("--sparge-gen", metavar="FILE", help="the program, for captured inputs")
    p.add_argument("--build", default="build/peers", metavar="DIR")
    p.add_argument("--build-only", action="store_true")
    p.add_argument("--shapes", nargs="*", default=[], metavar="HEADS", help="those that begin with these heads")
    p.add_argument("--pv", nargs="*", default=["bf16", "fp8"])
    p.add_argument("--turns", type=int, default=9)
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    build = os.path.abspath(args.build)
    peer = spargeattn(os.path.abspath(args.spargeattn), build)
    sage = sageattention(os.path.abspath(args.sageattention), build) if args.sageattention else None
    if args.build_only:
        return
    attention, report, result = SparseAttention(args.library, torch.device("cuda:0")), Report(), {}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; ms (relative L1 error)")
    for title, tensors, grid in inputs(args):
        attention(*tensors, report, grid=grid)
        rows = measure(args, peer, sage, attention, tensors, grid)
        show(title, rows)
        result[title] = {"rows": rows, "density": report.density}
    attention.close()
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"gpu": torch.cuda.get_device_name(), "inputs": result}, f, indent=1)


if __name__ == "__main__":
    main()
