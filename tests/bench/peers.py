"""One attention call on a GPU: torch, SpargeAttn's kernel for compute capability 9.0 and ours, on the same tensors.

SpargeAttn's sources (github.com/thu-ml/SpargeAttn) are built once, as far as they are called here. This needs CUDA's
toolkit, and in Python ninja, triton and einops. Ours is the C call of attention.h. Every side is given the same bf16
tensors on the GPU and makes all of its attention of them: centers, means, quantisation, lists and the product. The
error is sum |o - exact| / sum |exact| over 1,024 rows of every head, exact in F32 from the same tensors.

Inputs are smooth random fields over the video with noise. SpargeAttn gets them in Morton order, as its authors advise;
ours gets them row by row and orders the tokens itself, which its time includes.
"""
import importlib
import math
import os
import subprocess
import sys
import types

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "example"))
import rule  # noqa: E402
from attention import SparseAttention  # noqa: E402

SHARES = (0.5, 0.3, 0.1, 0.07, 0.05, 0.035, 0.025, 0.015)  # of the blocks kept
THEIRS = 0.5


# ---- the peers ----

def extension(name, folder, build, sources, binding=None):
    """A module of the authors' sources; `binding` names the functions that our own binding file shall have."""
    from torch.utils.cpp_extension import load
    build = os.path.join(build, name)
    os.makedirs(build, exist_ok=True)
    if binding:
        header, functions = binding
        path = os.path.join(build, "binding.cpp")
        text = f'#include <torch/extension.h>\n#include "{folder}/{header}"\n'
        text += "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)\n{\n"
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
    """Whether a kernel of this file is called here: bf16, a scale a block, the PV filter, not causal, not counting."""
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


# ---- the inputs ----

def made(heads, grid, d, device):
    """[1, heads, tokens, d] each: neighbours resemble one another, k is like q and has a center."""
    def field():
        coarse = torch.randn(heads, d, max(2, grid[0] // 3), max(2, grid[1] // 5), max(2, grid[2] // 5), device=device)
        smooth = F.interpolate(coarse, size=grid, mode="trilinear", align_corners=True).flatten(2).mT
        return 1.6 * smooth[None] + 0.6 * torch.randn(1, heads, math.prod(grid), d, device=device)
    torch.manual_seed(0)
    q = field()
    k = 0.7 * q + 0.7 * field() + 2 * torch.randn(1, heads, 1, d, device=device)
    return [x.bfloat16().contiguous() for x in (q, k, field())]


def morton(grid):
    """The tokens of the grid in Morton order."""
    t, y, x = torch.meshgrid(*(torch.arange(n) for n in grid), indexing="ij")
    axes = ((x, 0), (y, 1), (t, 2))
    code = sum((axis.flatten() >> b & 1) << 3 * b + shift for b in range(10) for axis, shift in axes)
    return code.argsort()


# ---- the measurement ----

def exact(q, k, v):
    """The rows that are judged, and what they should be: [1, heads, rows, d]."""
    rows = torch.linspace(0, q.shape[2] - 1, min(1024, q.shape[2]), device=q.device).long()
    out = [torch.softmax(q[0, h, rows].float() @ k[0, h].float().mT / math.sqrt(q.shape[3]), -1) @ v[0, h].float()
           for h in range(q.shape[1])]
    return rows, torch.stack(out)[None]


def dense(q, k, v, backend=None):
    if not backend:
        return F.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(q, k, v)


def sides_of(bench, grid, tensors):
    """Calls that return what they make, and whether that is in Morton order."""
    attention = SparseAttention(os.path.abspath(bench.args.library), torch.device(bench.device, 0))
    ordered = [x[:, :, morton(grid).to(x.device)].contiguous() for x in tensors]
    sides = {"torch": (lambda: dense(*tensors), False)}
    if bench.device == "cuda":
        sides["torch, cuDNN"] = lambda: dense(*tensors, SDPBackend.CUDNN_ATTENTION), False
    if bench.args.spargeattn:
        peer = spargeattn(os.path.abspath(bench.args.spargeattn), os.path.abspath(bench.args.build))
        sides[f"SpargeAttn {THEIRS}"] = lambda: peer(*ordered, topk=THEIRS), True
    for pv in ("bf16", "fp8") if bench.device == "cuda" else ("auto",):
        for share in SHARES:
            sides[f"ours {share} {pv}"] = (
                lambda s=share, p=pv: attention(*tensors, grid=grid, topk=s, pv_dtype=p.encode()), False)
    return sides


def beside(bench, grid, heads, d):
    """What each side takes, by turns, and its error."""
    torch.manual_seed(0)
    tensors = made(heads, grid, d, bench.device)
    rows, should = exact(*tensors)
    at = {False: rows, True: morton(grid).to(rows.device).argsort()[rows]}  # where those rows are
    sides, total, errors = sides_of(bench, grid, tensors), should.abs().sum(), {}
    for name, (call, ordered) in sides.items():
        errors[name] = ((call()[:, :, at[ordered]].float() - should).abs().sum() / total).item()
    found = rule.by_turns({name: bench.timed(call) for name, (call, _) in sides.items()}, bench.args.repeat)
    return found, errors


def at_equal_error(found, errors):
    """The fastest of ours whose error is no larger than SpargeAttn's; None without SpargeAttn."""
    theirs = f"SpargeAttn {THEIRS}"
    able = [n for n in found if n.startswith("ours") and errors[n] <= errors.get(theirs, 0)]
    return min(able, key=lambda n: found[n]["median"], default=None)
