#!/usr/bin/env python3
"""What the published code of MInference and FlexPrefill keeps of the planted keys of `bench attention --inputs language`.

Their selection runs here, in PyTorch on the CPU and in F32, from clones that the user names: functions are taken out of
their files as they are. Two kernels cannot run on a CPU. MInference's conversion of indices to blocks (a CUDA kernel that
is plain C) is compiled by g++. FlexPrefill's Triton kernel for the means of blocks is torch's mean. Masks are rounded up
to blocks of 128 queries and 64 keys, so a column of MInference's costs a whole block of keys."""
import argparse
import ast
import ctypes
import json
import math
import pathlib
import subprocess
import tempfile

import torch
from einops import rearrange
from safetensors.torch import load_file, save_file

Q, K = 128, 64
SHIM = """
#include <algorithm>
#define __global__
#define __device__
using std::max;
static thread_local struct { int x, y, z; } blockIdx, blockDim, threadIdx;
%s
extern "C" void convert(const int *lengths, const int *vertical, const int *slash, int *count, int *offset, int *columns,
                        int *column, int heads, int rows, int verticals, int slashes)
{
    blockDim.x = 1;
    for (blockIdx.x = 0; blockIdx.x < heads; blockIdx.x++)
        for (blockIdx.z = 0; blockIdx.z < rows; blockIdx.z++)
            convert_vertical_slash_indexes_kernel(lengths, vertical, slash, count, offset, columns, column, heads, rows, 64,
                                                  64, verticals, slashes);
}
"""


def functions(path, names, known):
    """The namespace of these functions of a file, with what they find besides."""
    tree = ast.parse(path.read_text())
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    exec(compile(ast.Module([found[name] for name in names], []), str(path), "exec"), known)
    return known


def converter(path, folder):
    """MInference's kernel, which writes for each 64 queries the blocks and the columns that it keeps."""
    text = path.read_text()
    kernel = text[text.index("__device__ void save_blocks"):text.index("void convert_vertical_slash_indexes_64x64")]
    source, library = folder / "convert.cpp", folder / "convert.so"
    source.write_text(SHIM % kernel)
    subprocess.run(["g++", "-O1", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    return ctypes.CDLL(str(library)).convert


def minference(clone, folder, q, k, sizes):
    """The mask of its vertical and slash pattern with these numbers of columns and diagonals."""
    convert = converter(clone / "csrc/vertical_slash_index.cu", folder)
    n, heads = q.shape[0], q.shape[1]
    mask = torch.zeros(heads, n // Q, n // K, dtype=torch.uint8)
    kept = []
    known = {"torch": torch, "math": math, "q_len": n, "head_dim": q.shape[2],
             "LAST_Q_MASK": torch.ones(64, 64, dtype=torch.bool).tril()[None, None],
             "vertical_slash_sparse_attention": lambda q, k, v, vertical, slash: kept.append((vertical, slash))}
    names = ["sum_all_diagonal_matrix", "vertical_and_slash_kernel"]
    path = clone / "minference/modules/minference_forward.py"
    tree = ast.parse(path.read_text())  # of several kernels of that name this is the one of prefill
    outer = next(node for node in ast.walk(tree) if getattr(node, "name", "") == "minference_prefill_kernel")
    functions(path, names[:1], known)
    inner = next(node for node in outer.body if getattr(node, "name", "") == names[1])
    exec(compile(ast.Module([inner], []), str(path), "exec"), known)
    for head in range(heads):
        group = head // (heads // k.shape[1])
        known[names[1]](q[None, None, :, head], k[None, None, :, group], None, *sizes)
        vertical, slash = kept.pop()
        vertical = vertical.to(torch.int32).reshape(1, 1, -1).sort(dim=-1)[0].contiguous()
        slash = slash.to(torch.int32).reshape(1, 1, -1).sort(dim=-1, descending=True)[0].contiguous()
        rows, columns, slashes = n // 64, vertical.shape[-1], slash.shape[-1]
        count, offset = torch.zeros(rows, dtype=torch.int32), torch.zeros(rows * slashes + n, dtype=torch.int32)
        column_count, column = torch.zeros(rows, dtype=torch.int32), torch.zeros(rows * columns, dtype=torch.int32)
        length = torch.tensor([n], dtype=torch.int32)
        convert(*(ctypes.c_void_p(t.data_ptr()) for t in (length, vertical, slash, count, offset, column_count, column)), 1,
                rows, columns, slashes)
        for row in range(rows):
            mask[head, row * 64 // Q, offset[row * slashes:][:count[row]] // K] = 1
            mask[head, row * 64 // Q, column[row * columns:][:column_count[row]] // K] = 1
    return mask


def flexprefill(clone, q, k, gamma, tau, budget):
    """The mask of its selection; blocks of 128 x 128."""
    known = {"torch": torch, "math": math, "rearrange": rearrange, "causal_mask": None,
             "triton_bnhd_pool": lambda x, size: x.unflatten(1, (-1, size)).mean(2)}
    functions(clone / "flex_prefill/ops/flex_prefill_attention.py",
              ["score_cover_topk", "score_cover_idx", "sum_all_diagonal_matrix", "transform_veritcal_slash_idx",
               "torch_bhn_sumpool", "square_root_js_divergence", "get_active_blocks"], known)
    blocks = q.shape[0] // Q
    index = known["get_active_blocks"](q[None], k[None], None, Q, gamma, math.ceil(budget / Q), 2**31 // Q, tau)[0]
    mask = torch.zeros(q.shape[1], blocks * blocks, dtype=torch.uint8)
    for head, kept in enumerate(index):
        mask[head, kept] = 1
    return mask.view(-1, blocks, blocks).repeat_interleave(Q // K, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sparge-gen", required=True, help="the program")
    parser.add_argument("--minference", type=pathlib.Path, help="a clone of microsoft/MInference")
    parser.add_argument("--flexprefill", type=pathlib.Path, help="a clone of bytedance/FlexPrefill")
    parser.add_argument("--shape", default="1,8,8192,64")
    parser.add_argument("--planted", default="similar,noisy,scattered")
    parser.add_argument("--margin", default="0,2")
    parser.add_argument("--sizes", default="30x800,100x800,1000x6096", help="MInference's columns and diagonals")
    parser.add_argument("--gamma", default="0.9,0.95", help="of FlexPrefill, whose tau is 0.1 and least budget 512")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        for planted in args.planted.split(","):
            for margin in args.margin.split(","):
                base = [args.sparge_gen, "bench", "attention", "--inputs", "language", "--shape", args.shape, "--planted",
                        planted, "--margin", margin, "--json", folder / "report.json"]
                subprocess.run([*base, "--score", "mean", "--topk", "0.1", "--save-qkv", folder / "qkv.safetensors"],
                               check=True, stdout=subprocess.DEVNULL)
                t = load_file(folder / "qkv.safetensors")
                masks = {}
                if args.minference:
                    for sizes in args.sizes.split(","):
                        pair = tuple(map(int, sizes.split("x")))
                        masks[f"MInference {sizes}"] = minference(args.minference, folder, t["q"], t["k"], pair)
                if args.flexprefill:
                    for gamma in args.gamma.split(","):
                        masks[f"FlexPrefill {gamma}"] = flexprefill(args.flexprefill, t["q"], t["k"], float(gamma), .1, 512)
                for name, mask in masks.items():
                    save_file({"mask": mask.contiguous()}, folder / "mask.safetensors")
                    subprocess.run([*base, "--block-mask", folder / "mask.safetensors"], check=True,
                                   stdout=subprocess.DEVNULL)
                    given = json.loads((folder / "report.json").read_text())["inputs"][0]
                    results.append({"mask": name, **given})
                    print(f"\n{planted}, m = {margin}, {name}: the others keep its density")
                    for arm in given["arms"]:
                        print(f"{arm['kept_by']:<16} {arm['density']:7.1%} {arm['recall']:8.1%} {arm['of_oracle']:7.3f} "
                              f"{arm['mass']:8.1%} {arm['relative_l1']:9.2e}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
