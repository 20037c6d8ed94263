"""Runs sparge-gen and diffusers on the same work in turn and prints one table. Options: see `main`."""
import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

import gpu
from sides import PROMPT, ROOT, Failed, ours, run, theirs

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))

WORKS = ["product", "attention", "forward", "step", "clip", "memory"]
# Wan 2.1 1.3B's block with few layers and a narrow text encoder and VAE: what is measured is the denoiser.
WAN = dict(num_attention_heads=12, attention_head_dim=128, in_channels=16, out_channels=16, freq_dim=256, ffn_dim=8960,
           num_layers=4)
VAE = dict(base_dim=4, z_dim=16, dim_mult=[1, 1, 1, 1], num_res_blocks=1, temperal_downsample=[False, True, True])
TEXT = dict(kind="umt5", act="gated-gelu", buckets=32, distance=128, width=4096, head=16, heads=2, ff=64, layers=1)


class InTurn:
    """theirs(dtype, limit) and ours() in turn. A dtype of theirs that is a third slower than another has no further
    turn, and is stopped when it has taken half as long again as the one before."""

    def __init__(self, args, them, us, key):
        self.theirs, self.ours, self.stopped, dtypes = {}, [], [], args.dtypes
        for _ in range(args.turns):
            limit = None
            for dtype in dtypes:
                print(f"  diffusers {dtype} ...", file=sys.stderr, flush=True)
                result = them(dtype, limit)
                if result is None:
                    self.stopped.append(dtype)
                    continue
                self.theirs.setdefault(dtype, []).append(result)
                limit = 1.5 * result["whole"] + 10
            best = {d: min(key(r) for r in runs) for d, runs in self.theirs.items()}
            dtypes = [d for d in best if best[d] <= 4 / 3 * min(best.values())]
            print("  sparge-gen ...", file=sys.stderr, flush=True)
            self.ours.append(us())

    def faster(self, key):
        return min(self.theirs, key=lambda d: min(key(r) for r in self.theirs[d]))

    def row(self, work, must, key, our_key, chosen=None):
        """chosen: what decides which dtype is the faster; key, unless given."""
        dtype = self.faster(chosen or key)
        a, b = [key(r) for r in self.theirs[dtype]], [our_key(r) for r in self.ours]
        return {"work": work, "theirs": min(a), "ours": min(b), "theirs_median": statistics.median(a),
                "ours_median": statistics.median(b), "theirs_dtype": dtype, "unit": "s", "ratio": min(a) / min(b),
                "must": must, "passed": None if must is None else min(a) / min(b) >= must}


def figure(work, value, must, text, at_most=False):
    """A row about us alone."""
    passed = None if must is None else value <= must if at_most else value >= must
    return {"work": work, "ours": value, "must": must, "at_most": at_most, "passed": passed, "unit": text}


# ---- the works; each gives rows ----

def product(args, state):
    rows = []
    bench = json.loads(ours(args, "bench", "attention", "--attention", "dense", "--shape", "1,1,128,64", "--repeat", "1",
                           "--json", "-")[0])
    state["ceilings"] = bench["ceilings"]
    for dtype in args.dtypes:
        result = theirs(args, "product", dtype, 120, "--repeat", "5")
        rate = bench["ceilings"][f"{dtype}_flops_per_second"] * 1e-9
        their_rate = 2 * 2048**3 / min(result["seconds"]) * 1e-9 if result else None
        rows.append({"work": f"product 2048^3, {dtype}", "theirs": their_rate, "ours": rate, "theirs_dtype": dtype,
                     "unit": "GFLOP/s", "ratio": rate / their_rate if their_rate else None, "must": None,
                     "passed": None})
    return rows


def attention(args, state):
    rows, amx = [], state["level"] == "AMX"
    for n, h, d, share in [(17550, args.heads, 64, 0.4 if amx else 0.6), (8190, 12, 128, 0.55 if amx else 0.6)]:
        n = 1024 if args.quick else n
        shape = f"1,{h},{n},{d}"
        turns = InTurn(args, lambda dtype, limit: theirs(args, "attention", dtype, limit, "--shape", shape),
                       lambda: json.loads(ours(args, "bench", "attention", "--attention", "dense", "--shape",
                                               shape, "--json", "-")[0]),
                       lambda r: min(r["seconds"]))
        best = max(turns.ours, key=lambda r: r["kernels"][0]["of_ceiling"])
        rows.append(turns.row(f"attention N={n} d={d}, {h} heads", 1.5, lambda r: min(r["seconds"]),
                              lambda r: r["kernels"][0]["best_seconds"]))
        rows[-1]["ours_dtype"] = best["dtype"]
        rows.append(figure(f"attention N={n} d={d}: share of the ceiling", best["kernels"][0]["of_ceiling"], share,
                           "%"))
    return rows


def forward(args, state):
    try:
        import checkpoint
        import family_wan
        import parts
    except ImportError as e:
        raise Failed(str(e))
    folder = os.path.join(state["folder"], "wan")
    if not os.path.isdir(folder):
        print("  making the checkpoint ...", file=sys.stderr, flush=True)
        dit = dict(WAN, num_layers=1, ffn_dim=512) if args.quick else WAN
        checkpoint.make_checkpoint(folder, {"seed": 1, "dtype": "BF16", "tokenizer": parts.SMALL,
                                            "sampler": family_wan.UNIPC, "text": TEXT, "dit": dit, "vae": VAE})
    width, height = (208, 120) if args.quick else (832, 480)
    width, height = width // 16 * 16, height // 16 * 16
    latent = f"16,2,{height // 8},{width // 8}"
    us = ["bench", "step", "-m", folder, "--size", f"{width}x{height}", "--frames", "5", "--cfg-scale", "1", "--quiet"]
    turns = InTurn(args, lambda dtype, limit: theirs(args, "forward", dtype, limit, "--model", folder, "--shape",
                                                     latent),
                   lambda: json.loads(ours(args, *us, "--json", "-")[0]), lambda r: min(r["seconds"]))
    rows = [turns.row(f"Wan forward D=1536, {WAN['num_layers']} layers, {height}x{width}x5", 1.5,
                      lambda r: min(r["seconds"]), lambda r: r["step"]["seconds"])]
    rows[0]["ours_dtype"] = turns.ours[0]["dtype"]
    return rows


def step(args, state):
    amx = state["level"] == "AMX"
    rest = ["--size", "64x64", "--frames", "9"] if args.quick else []
    runs = [json.loads(ours(args, "bench", "step", "-m", args.model, *rest, "--quiet", "--json", "-")[0])
            for _ in range(args.turns)]
    best = max(runs, key=lambda r: r["step"]["matmul_of_ceiling"])
    state["ceilings"] = best["ceilings"]
    return [figure("step of tiny-wan: matmuls and attention", best["step"]["matmul_of_ceiling"], 0.4 if amx else 0.6,
                   "%")]


def clip(args, state):
    folder = state["folder"]
    with open(os.path.join(args.model, "sparge-gen.json"), encoding="utf-8") as f:
        request = dict(json.load(f), prompt=PROMPT)
    if args.quick:
        request.update(width=64, height=64, frames=9, steps=2)
    path, report = os.path.join(folder, "request.json"), os.path.join(folder, "report.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(request, f)

    def us():
        whole = ours(args, "-m", args.model, "-p", PROMPT, "--size", f"{request['width']}x{request['height']}",
                     "--frames", str(request["frames"]), "--steps", str(request["steps"]), "--cache", "off", "--quiet",
                     "-o", os.path.join(folder, "ours-%04d.png"), "--json", report)[1]
        with open(report, encoding="utf-8") as f:
            return dict(json.load(f), whole=whole)

    turns = InTurn(args, lambda dtype, limit: theirs(args, "clip", dtype, limit, "--model", args.model, "--request",
                                                     path, "--out", folder), us, lambda r: r["render"])
    render = lambda r: r["seconds"]["total"] - r["seconds"]["load"]
    name = f"clip {request['width']}x{request['height']}x{request['frames']}, {request['steps']} steps"
    rows = [turns.row(f"{name}: render", 3 if state["level"] == "AMX" else 2, lambda r: r["render"], render),
            turns.row(f"{name}: whole command", None, lambda r: r["whole"], lambda r: r["whole"],
                      lambda r: r["render"])]
    for part in ("load", "text", "denoise", "decode"):
        rows.append(turns.row(f"    {part}", None, lambda r: r[part], lambda r: r["seconds"][part],
                              lambda r: r["render"]))
    best = min(turns.ours, key=render)
    flops = sum(best["plan"][part]["flops"] for part in ("text", "denoise", "decode"))
    if "ceilings" not in state:
        product(args, state)
    ceiling = max(state["ceilings"]["f32_flops_per_second"], state["ceilings"]["bf16_flops_per_second"])
    rows.append(figure(f"clip: render over its {flops * 1e-12:.2f} TFLOP at the ceiling",
                       render(best) * ceiling / flops, 2.5, "x", at_most=True))
    rows[0]["ours_dtype"] = best["dtype"]
    rows[0]["theirs_stopped"] = turns.stopped
    return rows


def memory(args, state):
    """Peak memory of a process that only decodes."""
    peaks = []
    for frames in (33, 129):
        latents = os.path.join(state["folder"], f"{frames}.safetensors")
        common = ["-m", args.model, "--latents", latents, "--quiet", "-o", os.path.join(state["folder"], "m-%04d.png")]
        if not os.path.exists(latents):
            ours(args, *common, "-p", PROMPT, "--size", "128x128", "--frames", str(frames), "--steps", "1",
                 "--cfg-scale", "1")
        process = subprocess.Popen([args.sparge_gen, *common, "--threads", str(args.threads)], stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise Failed(f"exit {process.returncode} of a decode of {frames} frames")
        peaks.append(usage.ru_maxrss * 1024)
    row = figure("peak memory of a decode, 129 frames over 33", peaks[1] / peaks[0], 1.1, "x", at_most=True)
    return [dict(row, bytes=peaks)]


# ---- the table ----

def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        lines = [line.split(":", 1) for line in f if ":" in line]
    values = {k.strip(): v.strip() for k, v in reversed(lines)}
    flags = values.get("flags", "").split()
    level = ("AMX" if "amx_bf16" in flags else "AVX-512 BF16" if "avx512_bf16" in flags
             else "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE2")
    return values.get("model name", platform.processor()), level


def number(value, unit):
    if value is None:
        return "-"
    return f"{100 * value:.0f} %" if unit == "%" else f"{value:.{0 if value >= 100 else 2}f} {unit}"


def print_row(row):
    if "failed" in row:
        print(f"{row['work']:<58} not run: {row['failed']}")
        return
    must, at_most = row["must"], row.get("at_most")
    wanted = "" if must is None else ("<= " if at_most else ">= ") + (number(must, "%") if row["unit"] == "%"
                                                                      else f"{must:.2f}x")
    verdict = {True: "yes", False: "NO", None: ""}[row["passed"]]
    their = number(row.get("theirs"), row["unit"]) + (f" {row['theirs_dtype']}" if "theirs_dtype" in row else "")
    our = number(row["ours"], row["unit"]) + (f" {row['ours_dtype']}" if "ours_dtype" in row else "")
    ratio = f"{row['ratio']:.2f}x" if row.get("ratio") else ""
    print(f"{row['work']:<58} {their:>16} {our:>16} {ratio:>7} {wanted:>9} {verdict}")


def print_table(args, result):
    print(f"{result['cpu']}, {result['level']}, {args.threads} threads; torch {result['torch']}, diffusers "
          f"{result['diffusers']}; best of {args.turns} turns" + ("; QUICK: sizes mean nothing" if args.quick else ""))
    print(f"{'work':<58} {'diffusers':>16} {'sparge-gen':>16} {'ratio':>7} {'must be':>9}")
    for row in result["rows"]:
        print_row(row)


def parse():
    parser = argparse.ArgumentParser(prog="vs_diffusers", description="Runs sparge-gen and diffusers on the same work, "
                                     "with the same weights, steps and threads, in turn, and prints one table.")
    parser.add_argument("--python", metavar="PROGRAM", help="the interpreter (default: $PYTHON, else python3)")
    parser.add_argument("--sparge-gen", default=os.path.join(ROOT, "build", "release", "sparge-gen"), metavar="PATH",
                        help="our program, a Release build (default: build/release/sparge-gen)")
    parser.add_argument("--model", default=os.path.join(ROOT, "weights", "tiny-wan"), metavar="DIR")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both sides")
    parser.add_argument("--cpumask", help="our highest instruction set")
    parser.add_argument("--gpu", action="store_true", help="the works of a GPU: Wan's published sizes in bf16, medians")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="with --gpu: cpu to try it without one")
    parser.add_argument("--compile", action="store_true", help="with --gpu: diffusers' forward by torch.compile too")
    parser.add_argument("--repeat", type=int, default=5, help="with --gpu: forwards and decodes of a turn (default: 5)")
    parser.add_argument("--turns", type=int, help="how often each side has its turn (default: 3; with --gpu 2)")
    parser.add_argument("--dtypes", default="f32,bf16", type=lambda s: s.split(","),
                        help="of diffusers; the faster counts")
    parser.add_argument("--works", type=lambda s: s.split(","), help="of " + ", ".join(WORKS) + "; with --gpu of " +
                        ", ".join(gpu.WORKS) + " (default: all)")
    parser.add_argument("--heads", type=int, default=6, help="of the attention with N=17550 (default: 6 of 30)")
    parser.add_argument("--folder", help="keep files here, and find the checkpoint of an earlier run")
    parser.add_argument("--json", metavar="FILE", help="all figures; - is stdout")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, only to see that it runs")
    args = parser.parse_args()
    works = gpu.WORKS if args.gpu else WORKS
    if unknown := [w for w in args.works or [] if w not in works]:
        parser.error(f"--works: {unknown[0]} is not one of {', '.join(works)}")
    args.works, args.turns = args.works or works, args.turns or (2 if args.gpu else 3)
    if unknown := [d for d in args.dtypes if d not in ("f32", "bf16")]:
        parser.error(f"--dtypes: {unknown[0]} is not one of f32, bf16")
    args.sparge_gen = os.path.abspath(args.sparge_gen)
    return args


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def measure(args, folder):
    versions = {p: version(p) for p in ("torch", "diffusers", "transformers")}
    if args.gpu:
        return gpu.measure(args, folder, versions)
    name, level = processor()
    state = {"folder": folder, "level": level if not args.cpumask else "cpumask " + args.cpumask}
    rows = []
    for work in [w for w in WORKS if w in args.works]:
        print(f"{work}:", file=sys.stderr)
        try:
            rows += globals()[work](args, state)
        except Failed as e:
            rows.append({"work": work, "failed": str(e), "passed": False})
    return {"cpu": name, "level": level, "cpumask": args.cpumask, "threads": args.threads, "turns": args.turns,
            "quick": args.quick, "python": platform.python_version(), **versions,
            "sparge_gen": run([args.sparge_gen, "--version"])[0].strip(), "rows": rows}


def main():
    args = parse()
    os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_DISABLE_PROGRESS_BARS="1")
    try:
        if args.folder:
            os.makedirs(args.folder, exist_ok=True)
            result = measure(args, args.folder)
        else:
            with tempfile.TemporaryDirectory() as folder:
                result = measure(args, folder)
    except Failed as e:
        raise SystemExit(f"vs_diffusers: {e}")
    if args.json:
        text = json.dumps(result, indent=2) + "\n"
        if args.json == "-":
            print(text, end="")
            return 0
        with open(args.json, "w", encoding="utf-8") as f:
            f.write(text)
    if args.gpu:
        gpu.print_table(result)
    else:
        print_table(args, result)
    return 1 if any("failed" in row for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
