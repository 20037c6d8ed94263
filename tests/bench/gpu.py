"""The works of `vs_diffusers --gpu`: Wan's published shapes, random weights, one GPU. Medians, everything warm."""
import glob
import json
import os
import statistics
import subprocess
import sys
import threading
import time

from sides import PROMPT, ROOT, Failed, ours, run, theirs

TABLE_GPU = "NVIDIA H200"
# Seconds on that GPU: diffusers as it was measured, what our limit, what ours aims at; memory in bytes.
TABLE = {"forward": (0.632, 0.510, 0.490), "compiled": (0.535, None, None), "rest": (0.280, 0.150, 0.135),
         "sparse": (0.457, 0.430, 0.380), "720p": (2.520, 2.250, 2.180), "14b": (3.332, 2.850, 2.740),
         "decode": (1.831, 0.900, 0.600), "memory": (None, 16 * 2**30, 13 * 2**30)}
SUSTAINED = 200  # calls of attention alone: two seconds, for a GPU slows down under a load that lasts, as a forward does
OFF = 0.05  # a peer further than this from its own figure was not measured under like conditions
WORKS = ["forward", "sparse", "720p", "14b", "decode", "memory"]
# Model, size, frames, steps of a clip of ours; --quick has the second.
CLIPS = {"480p": (("1.3b", 832, 480, 81, 8), ("small", 128, 64, 9, 2)),
         "720p": (("1.3b", 1280, 720, 81, 4), ("small", 128, 128, 9, 2)),
         "14b": (("14b", 832, 480, 81, 4), ("small", 128, 64, 9, 2))}


def table_row(key, work, peer, our, state, measured=True):
    """A row; peer is None where diffusers has no such figure. Void: its own figure did not come out again."""
    table, must, aim = TABLE[key] if state["gpu"] == TABLE_GPU and not state["quick"] else (None, None, None)
    off = peer / table - 1 if peer and table and measured else None
    void = off is not None and abs(off) > OFF
    return {"work": work, "theirs": peer, "ours": our, "table": table, "off": off, "must": must, "aim": aim,
            "void": void, "measured": measured, "unit": "GiB" if key == "memory" else "ms",
            "passed": None if must is None or our is None or void else our <= must}


def clip_of(args, name):
    return CLIPS[name][1 if args.quick else 0]


def model_folder(args, state, shape):
    """The checkpoint of that shape, made if it is not there; BF16, for it is read in BF16."""
    folder = os.path.join(state["folder"], shape)
    if not os.path.isdir(folder):
        print(f"  making {shape} ...", file=sys.stderr, flush=True)
        text_layers = {"1.3b": "24", "14b": "1", "small": "1"}[shape]
        run([sys.executable, os.path.join(ROOT, "tests", "golden", "fullsize.py"), "make", folder, shape, "--dtype",
             "BF16", "--text-layers", text_layers, "--device", args.device])
    return folder


# ---- diffusers ----

def their_forward(args, state, name, *rest):
    shape, width, height, frames, _ = clip_of(args, name)
    latent = f"16,{(frames - 1) // 4 + 1},{height // 8},{width // 8}"
    return theirs(args, "forward", "bf16", None, "--model", model_folder(args, state, shape), "--shape", latent,
                  "--device", args.device, "--repeat", str(args.repeat), *rest)


def attention_shape(args):
    shape, width, height, frames, _ = clip_of(args, "480p")
    heads, layers = (12, 30) if shape == "1.3b" else (2, 2)
    return f"1,{heads},{(frames - 1) // 4 + 1}x{height // 16}x{width // 16},128", layers


def alone_repeat(args):
    return args.repeat if args.quick else SUSTAINED


def their_attention(args, shape):
    b, h, grid, d = shape.split(",")
    f, y, x = (int(v) for v in grid.split("x"))
    return theirs(args, "attention", "bf16", None, "--shape", f"{b},{h},{f * y * x},{d}", "--device", args.device,
                  "--repeat", str(alone_repeat(args)))


# ---- sparge-gen ----

def our_clips(args, state, name, *rest, clips=2, steps=None):
    """Reports of clips of one process but the first, whose time goes into finding kernels."""
    shape, width, height, frames, default = clip_of(args, name)
    prompts, report = os.path.join(state["folder"], "prompts.txt"), os.path.join(state["folder"], "report.json")
    with open(prompts, "w", encoding="utf-8") as f:
        f.write((PROMPT + "\n") * clips)
    ours(args, "-m", model_folder(args, state, shape), "--prompt-file", prompts, "--size", f"{width}x{height}",
         "--frames", str(frames), "--steps", str(steps or default), "--cfg-scale", "1", "--backend", args.device,
         "--dtype", "bf16", "--quiet", "-o", os.path.join(state["folder"], "clip.y4m"), "--json", report, *rest)
    reports = []
    for path in sorted(glob.glob(os.path.join(state["folder"], "report*.json"))):
        with open(path, encoding="utf-8") as f:
            reports.append(json.load(f))
        os.remove(path)
    for path in glob.glob(os.path.join(state["folder"], "clip*.y4m")):
        os.remove(path)
    if len(reports) != clips:
        raise Failed(f"{len(reports)} reports of {clips} clips")
    return reports[1:] if clips > 1 else reports


def in_turn(args, *sides):
    """What each side gives, turn by turn: a list for each side."""
    results = [[] for _ in sides]
    for _ in range(args.turns):
        for side, result in zip(sides, results):
            result.append(side())
    return results


def median_of(runs, key):
    return statistics.median(s for r in runs for s in key(r))


def say(text):
    print(f"  {text} ...", file=sys.stderr, flush=True)


# ---- the works ----

def dense(args, state, name, key, work):
    rest = ["--compile"] if args.compile and key == "forward" else []

    def them():
        say("diffusers")
        return their_forward(args, state, name, *rest)

    def us():
        say("sparge-gen")
        return our_clips(args, state, name, "--attention", "dense")
    them_runs, our_runs = in_turn(args, them, us)
    peer = median_of(them_runs, lambda r: r["seconds"])
    our = median_of(our_runs, lambda reports: [r["seconds_per_step"] for r in reports])
    state[key] = (peer, our, [r for reports in our_runs for r in reports])
    rows = [table_row(key, work, peer, our, state)]
    if rest:
        compiled = median_of(them_runs, lambda r: r["compiled"])
        rows.append(table_row("compiled", "    the same by torch.compile", compiled, our, state))
    return rows


def forward(args, state):
    rows = dense(args, state, "480p", "forward", "1.3B 480p forward, dense")
    shape, layers = attention_shape(args)
    alone, own = in_turn(args, lambda: their_attention(args, shape), lambda: json.loads(
        ours(args, "bench", "attention", "--attention", "dense", "--shape", shape, "--dtype", "bf16", "--backend",
             args.device, "--repeat", str(alone_repeat(args)), "--json", "-")[0])["kernels"][0]["median_seconds"])
    peer, our, _ = state["forward"]
    apart = {"theirs": median_of(alone, lambda r: r["seconds"]), "ours": statistics.median(own)}
    row = table_row("rest", f"    but for {layers} x self-attention alone", peer - layers * apart["theirs"],
                    our - layers * apart["ours"], state)
    rows.append(dict(row, attention=apart))
    return rows


def sparse(args, state):
    """The peer's figure is that of its sparse kernel, which a usual installation lacks: quoted, not measured."""
    reports = [r for _ in range(args.turns) for r in our_clips(
        args, state, "480p", "--attention", "sparge", "--topk", "0.5", "--dense-steps", "0", "--sparse-config", "none")]
    ran = reports[0]["attention"]["totals"]
    if not args.quick and (ran["dense"] or not ran["sparge"]):
        raise Failed(f"of its layers {ran['sparge']} ran sparse and {ran['dense']} dense")
    quoted = TABLE["sparse"][0] if state["gpu"] == TABLE_GPU and not args.quick else None
    return [table_row("sparse", "1.3B 480p forward, top-k 0.5", quoted,
                      statistics.median(r["seconds_per_step"] for r in reports), state, measured=False)]


def larger(name, text):
    return lambda args, state: dense(args, state, name, name, text)


def decode(args, state):
    shape, width, height, frames, _ = clip_of(args, "480p")
    latent = f"16,{(frames - 1) // 4 + 1},{height // 8},{width // 8}"

    def them():
        say("diffusers")
        return theirs(args, "decode", "bf16", None, "--model", model_folder(args, state, shape), "--shape", latent,
                      "--device", args.device, "--repeat", str(args.repeat))

    def us():
        say("sparge-gen")
        return our_clips(args, state, "480p", clips=3, steps=1)
    them_runs, our_runs = in_turn(args, them, us)
    peer = median_of(them_runs, lambda r: r["seconds"])
    our = median_of(our_runs, lambda reports: [r["seconds"]["decode"] for r in reports])
    return [table_row("decode", f"decode of {frames} frames {width}x{height}", peer, our, state)]


class GpuMemory(threading.Thread):
    """What nvidia-smi sees in use, at most, over what was in use before; `peak` stays None without it."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak, self.before, self.over = None, self.used(), False

    @staticmethod
    def used():
        try:
            text = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0"],
                                  capture_output=True, text=True, timeout=10).stdout
            return int(text.split()[0]) * 2**20
        except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
            return None

    def run(self):
        while self.before is not None and not self.over:
            now = self.used()
            if now is not None:
                self.peak = max(self.peak or 0, now - self.before)
            time.sleep(0.1)


def memory(args, state):
    """A whole render by default settings, where no more than the limit is to be had; so the text encoder must leave."""
    watch = GpuMemory()
    watch.start()
    limit = [] if args.quick else ["--memory-limit", "16G"]
    report = our_clips(args, state, "480p", *limit, clips=1, steps=2)[0]
    watch.over = True
    watch.join()
    rows = [table_row("memory", "1.3B 480p render: peak memory", None, report["peak_bytes"], state)]
    rows[0]["plan_bytes"] = report["plan"]["peak_bytes"]
    off = report["peak_bytes"] / report["plan"]["peak_bytes"] - 1
    rows.append({"work": "    over what was planned", "share": off, "passed": abs(off) <= 0.05})
    if watch.peak:
        row = table_row("memory", "    as nvidia-smi sees it, context included", None, watch.peak, state)
        rows.append(dict(row, must=None, aim=None, passed=None))
    return rows


RUN = {"forward": forward, "sparse": sparse, "720p": larger("720p", "1.3B 720p forward, dense"),
       "14b": larger("14b", "14B 480p forward, dense"), "decode": decode, "memory": memory}


# ---- the table ----

def figure(value, unit):
    if value is None:
        return "-"
    return f"{value * 2**-30:.2f} GiB" if unit == "GiB" else f"{value * 1e3:.{0 if value >= 0.1 else 2}f} ms"


def print_row(row):
    if "failed" in row:
        print(f"{row['work']:<44} not run: {row['failed']}")
        return
    if "share" in row:
        print(f"{row['work']:<44} {'':>10} {'':>10} {'':>7} {100 * row['share']:>9.1f}% {'<= 5%':>10} {'':>10} "
              f"{'yes' if row['passed'] else 'NO'}")
        return
    values = [figure(row[k], row["unit"]) for k in ("theirs", "table", "ours", "must", "aim")]
    off = "" if row["off"] is None else f"{100 * row['off']:+.1f}%"
    verdict = "VOID" if row["void"] else {True: "yes", False: "NO", None: ""}[row["passed"]]
    peer = values[0] if row["measured"] or row["theirs"] is None else "quoted"
    print(f"{row['work']:<44} {peer:>10} {values[1]:>10} {off:>7} {values[2]:>10} {values[3]:>10} {values[4]:>10} "
          f"{verdict}".rstrip())


def print_table(result):
    print(f"{result['gpu']}; torch {result['torch']}, diffusers {result['diffusers']}, {result['sparge_gen']}; bf16; "
          f"medians of {result['turns']} turns" + ("; QUICK: sizes mean nothing" if result["quick"] else ""))
    if result["gpu"] != TABLE_GPU:
        print(f"The table's figures were measured on an {TABLE_GPU}: nothing to be held to here.")
    print(f"{'work':<44} {'diffusers':>10} {'table':>10} {'off':>7} {'sparge-gen':>10} {'must':>10} {'aim':>10}")
    for row in result["rows"]:
        print_row(row)
    if void := [r["work"].strip() for r in result["rows"] if r.get("void")]:
        print(f"VOID: diffusers is more than {100 * OFF:.0f} % off the table in: {'; '.join(void)}")


def measure(args, folder, versions):
    name = "import torch; print(torch.cuda.get_device_name())" if args.device == "cuda" else "print('no GPU')"
    state, rows = {"folder": folder, "quick": args.quick, "gpu": run([sys.executable, "-c", name])[0].strip()}, []
    for work in args.works:
        print(f"{work}:", file=sys.stderr, flush=True)
        try:
            rows += RUN[work](args, state)
        except Failed as e:
            rows.append({"work": work, "failed": str(e), "passed": False})
    return dict(versions, gpu=state["gpu"], turns=args.turns, repeat=args.repeat, quick=args.quick,
                sparge_gen=run([args.sparge_gen, "--version"])[0].strip(), rows=rows)
