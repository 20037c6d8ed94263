"""Measures one row of README's figures: ours and the peer's usual ways, by turns and by one rule. Options: `parse`."""
import argparse
import contextlib
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

import rule
import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMPILED = "torch.compile"
PROMPTS = ["a red ball bouncing on green grass", "a blue heart spinning in falling snow"]


class Failed(Exception):
    pass


class Bench:
    """What all rows share: options, the device, the time that is left, sparge-gen."""

    def __init__(self, args):
        self.args, self.began = args, time.monotonic()
        self.device, self.clocks = args.device, {}
        self.until = self.began + 60 * args.minutes

    def say(self, text):
        print(f"{time.monotonic() - self.began:5.0f} s  {text}", file=sys.stderr, flush=True)

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def timed(self, call):
        """A function that calls and returns the seconds."""
        def run():
            self.wait()
            start = time.perf_counter()
            call()
            self.wait()
            return time.perf_counter() - start
        return run

    def ours(self, *options):
        """What sparge-gen prints, and the seconds from its start to its end."""
        command = [self.args.sparge_gen, *options, "--threads", str(self.args.threads), "--backend", self.device]
        start = time.perf_counter()
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        except OSError as e:
            raise Failed(f"{command[0]}: {e.strerror}")
        if done.returncode != 0:
            raise Failed(f"exit {done.returncode} of {' '.join(command)}: {done.stderr.strip()[-400:]}")
        return done.stdout, time.perf_counter() - start

    def bench(self, *options):
        """The JSON of `sparge-gen bench`."""
        result = json.loads(self.ours("bench", *options, "--json", "-")[0])
        self.clocks = result["measured"]["clocks"] or {}
        return result


# ---- where it was measured ----

def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def processor():
    text = subprocess.run(["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stdout
    values = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    name, flags = values.get("Model name", platform.machine()).strip(), values.get("Flags", "").split()
    level = ("AMX" if "amx_bf16" in flags else "AVX-512 BF16" if "avx512_bf16" in flags else
             "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else "SSE2")
    if name == "AMD EPYC" and values.get("CPU family", "").strip() == "26":
        name += " (Zen 5)"
    return f"{name}, {level}"


def place(bench):
    if bench.device == "cuda":
        return torch.cuda.get_device_name()
    return f"{processor()}, {bench.args.threads} threads"


# ---- one step of a model with random weights ----

def ways_of(bench, folder, family, size):
    """The other side's ways to call the denoiser, and what is to be said of each."""
    import models
    if family == "opensora":
        import opensora_plan
        return opensora_plan.ways(bench, folder, size)
    model = models.load_denoiser(folder, bench.device)
    call = models.call_of(model, family, size, bench.device)
    ways = {"diffusers": model, **({} if bench.args.no_compile else {COMPILED: torch.compile(model)})}
    return {n: lambda m=m: m(**call) for n, m in ways.items()}, {}


def step(shape, family, size, sides, tiny):
    """sides: names and options of `bench step`; tiny: shape and size with --quick."""
    def measure(bench):
        import models
        name, (width, height, frames) = tiny if bench.args.quick else (shape, size)
        folder = os.path.join(bench.args.folder, name)
        bench.say(f"making {name}")
        models.make(folder, name, bench.device)
        bench.say("loading it into the other side")
        ways, notes = ways_of(bench, folder, family, (width, height, frames))
        theirs = {n: bench.timed(call) for n, call in ways.items()}
        options = ["step", "-m", folder, "--size", f"{width}x{height}", "-g", "1", "--dtype", "bf16", "--quiet",
                   *([] if frames == 1 else ["--frames", str(frames)]), *repeat_of(bench)]

        def ours(name, more):
            result = bench.bench(*options, *more)
            notes[name] = f"{100 * result['density']:.0f} % of the blocks; {attention_of(result['step']['ops'])}"
            return result["step"]["seconds"], result["measured"]["unsteady"]

        def other(name):
            block = rule.by_turns({name: theirs[name]}, bench.args.repeat)[name]
            return block["median"], block["unsteady"]
        blocks = {**{n: lambda n=n, o=o: ours(n, o) for n, o in sides.items()},
                  **{n: lambda n=n: other(n) for n in theirs}}
        found = blocks_by_turns(bench, blocks)
        return found, notes, list(found)
    return measure


def attention_of(ops):
    """What the calls of attention take of a step, with each op timed, by their queries and, of dense ones, keys."""
    rows = [(op["tensors"].split(" = "), op) for op in ops if op["op"].startswith("attend")]
    return ", ".join(f"{op['op']} {' to '.join(t[-1].split(', ')[:len(t)])}: {op['calls']} in {seconds(op['seconds'])}"
                     for t, op in rows)


def repeat_of(bench):
    return ["--repeat", str(bench.args.repeat)] if bench.args.repeat else []


def blocks_by_turns(bench, blocks):
    """Programs that cannot take turns run by run do so block by block: each block is warm, and gives its
    median and by what share it was not steady."""
    found, longest = {n: [] for n in blocks}, 0
    for turn in range(bench.args.turns):
        start, names = time.monotonic(), list(blocks)
        if turn and start + longest > bench.until:
            break
        longest = 0
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            if name not in found:
                continue
            if bench.device == "cuda":
                torch.cuda.empty_cache()
            before = time.monotonic()
            try:
                found[name].append(blocks[name]())
            except Failed:
                raise
            except Exception as e:  # a way of the peer's that does not work here is told, and the others go on
                bench.say(f"{name} does not run: {e}")
                del found[name]
                continue
            took = time.monotonic() - before
            longest += took if turn or name != COMPILED else 0  # it compiles once
            bench.say(f"turn {turn + 1}, {name}: {1e3 * found[name][-1][0]:.1f} ms, the block {took:.0f} s")
    return {n: rule.figure([t for t, _ in v], max(u for _, u in v)) for n, v in found.items() if v}


# ---- reading a text with a language model ----

ARMS = ["dense", "sparge:topk=0.46:sim=-1", "sparge:topk=0.3:sim=-1"]  # random blocks resemble nothing, and would be kept


def prefill(tokens):
    """A text of random tokens, to the logits behind it: `language prefill`, an arm a block, and transformers."""
    def measure(bench):
        import language_model
        folder, n = os.path.join(bench.args.folder, "llama-small" if bench.args.quick else "llama-8b"), 1024 if bench.args.quick else tokens
        bench.say(f"making {folder}")
        language_model.make(folder, bench.args.quick, bench.device)
        theirs = {name: bench.timed(call) for name, call in language_model.ways(folder, bench.device, n).items()}
        notes = {}

        def ours(arm):
            text, _ = bench.ours("language", "prefill", "-m", folder, "--lengths", str(n), "--arms", arm, "--dtype", "bf16", "--quiet",
                                 "--json", "-", *repeat_of(bench))
            result = json.loads(text)
            found = result["lengths"][0]["arms"][0]
            notes[arm] = f"density {found['density']:.3f}; weights {result['weights'] / 2**30:.1f} GiB, keys and values {result['cache'] / 2**30:.1f}, pieces {result['scratch'] / 2**30:.1f}"
            return found["seconds"], found["unsteady"]

        def other(name):
            block = rule.by_turns({name: theirs[name]}, bench.args.repeat)[name]
            if bench.device == "cuda":
                notes[name] = f"peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
            return block["median"], block["unsteady"]
        blocks = {**{arm: lambda a=arm: ours(a) for arm in ARMS}, **{n: lambda n=n: other(n) for n in theirs}}
        found = blocks_by_turns(bench, blocks)
        return found, notes, list(found)
    return measure


# ---- one attention call ----

def attention(heads, grid, d):
    return lambda bench: attention_call(bench, *((2, (5, 16, 16), d // 2) if bench.args.quick else (heads, grid, d)))


def attention_call(bench, heads, grid, d):
    """Dense, by cuDNN, and sparse: `bench attention` as a user calls it; with --library torch's own call beside our C
    call in one process, and with --spargeattn the authors' kernel too."""
    result = bench.bench("attention", "--shape", f"1,{heads},{'x'.join(map(str, grid))},{d}", "--dtype", "bf16",
                         "--attention", "dense,sparge", "--topk", "0.3", *repeat_of(bench))
    found, notes = {}, {}
    for k in result["kernels"]:
        name = "dense" if k["kernel"] == "dense" else "sparge, 30 %"
        found[name] = {"median": k["median_seconds"], "spread": k["spread"], **{
            key: result["measured"][key] for key in ("runs", "unsteady")}}
        notes[name] = f"by bench attention, error {k['relative_l1']:.4f}"
    quoted = list(found)
    if bench.args.library:
        import peers
        beside, errors = peers.beside(bench, grid, heads, d)
        found.update(beside)
        notes.update({n: f"error {e:.4f}" for n, e in errors.items()})
        quoted += [n for n in beside if n.startswith(("torch", "ours 0.3"))]
        if best := peers.at_equal_error(beside, errors):
            theirs = f"SpargeAttn {peers.THEIRS}"
            print(f"at SpargeAttn's error: {seconds(beside[theirs]['median'])} ({errors[theirs]:.4f}); {best} "
                  f"{seconds(beside[best]['median'])} ({errors[best]:.4f}): "
                  f"{beside[theirs]['median'] / beside[best]['median']:.2f} times as fast")
    return found, notes, quoted


# ---- clips of tiny-wan ----

def request_of(bench):
    with open(os.path.join(bench.args.model, "sparge-gen.json"), encoding="utf-8") as f:
        request = json.load(f)
    if bench.args.quick:
        request.update(width=64, height=64, frames=9, steps=2)
    return request


def options_of(bench, request, folder):
    return ["-m", bench.args.model, "--size", f"{request['width']}x{request['height']}", "--frames",
            str(request["frames"]), "--steps", str(request["steps"]), "--cache", "off", "--quiet", "-o",
            os.path.join(folder, "ours.y4m")]


def pipeline(bench, dtype):
    import diffusers
    diffusers.utils.logging.disable_progress_bar()
    pipe = diffusers.WanPipeline.from_pretrained(bench.args.model, torch_dtype=dtype, local_files_only=True)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def their_render(pipe, request, prompt):
    return pipe(prompt=prompt, negative_prompt=request["negative_prompt"], width=request["width"],
                height=request["height"], num_frames=request["frames"], num_inference_steps=request["steps"],
                guidance_scale=request["cfg_scale"], generator=torch.Generator("cpu").manual_seed(0))


def clip(bench):
    """The default clip, warm, without loading: the second of two in a process of ours, not the first in diffusers'."""
    request = request_of(bench)
    with tempfile.TemporaryDirectory() as folder:
        prompts, report = os.path.join(folder, "prompts.txt"), os.path.join(folder, "report.json")
        with open(prompts, "w", encoding="utf-8") as f:
            f.write("\n".join(PROMPTS) + "\n")

        def ours():
            bench.ours(*options_of(bench, request, folder), "--prompt-file", prompts, "--json", report)
            last = sorted(n for n in os.listdir(folder) if n.startswith("report"))[-1]
            with open(os.path.join(folder, last), encoding="utf-8") as f:
                seconds = json.load(f)["seconds"]
            return seconds["total"] - seconds["load"]
        dtypes = {"f32": torch.float32, "bf16": torch.bfloat16}
        pipes = {d: pipeline(bench, dtype) for d, dtype in dtypes.items()}
        times = {}
        for name, pipe in pipes.items():
            render = bench.timed(lambda p=pipe: their_render(p, request, PROMPTS[1]))
            render()
            times[name] = render()
            bench.say(f"diffusers {name}: {times[name]:.2f} s")
        faster = min(times, key=times.get)
        compiled = pipeline(bench, dtypes[faster])
        compiled.transformer = torch.compile(compiled.transformer)
        things = {f"diffusers {faster}": bench.timed(lambda: their_render(pipes[faster], request, PROMPTS[1])),
                  f"torch.compile {faster}": bench.timed(lambda: their_render(compiled, request, PROMPTS[1])),
                  "sparge-gen": ours}
        return rule.by_turns(things, bench.args.repeat, slack=0.005, until=bench.until), {}, list(things)


THEIRS = """import sys, torch, json, numpy
sys.path.insert(0, sys.argv[1])
import row
bench = row.Bench(row.parse(json.loads(sys.argv[2])))
torch.set_num_threads(bench.args.threads)
request = row.request_of(bench)
from PIL import Image
pipe = row.pipeline(bench, getattr(torch, sys.argv[3]))
for i, frame in enumerate(row.their_render(pipe, request, row.PROMPTS[0]).frames[0]):
    Image.fromarray((frame * 255).round().astype("uint8")).save(f"{sys.argv[4]}/{i:04d}.png")
"""


def command(bench):
    """The same as a command, from the start of its process to its end, with its files written."""
    request = request_of(bench)
    with tempfile.TemporaryDirectory() as folder:
        def theirs(dtype):
            start = time.perf_counter()
            options = ["command", *bench.args.given]
            here = os.path.dirname(os.path.abspath(__file__))
            subprocess.run([sys.executable, "-c", THEIRS, here, json.dumps(options), dtype, folder], check=True,
                           stdout=subprocess.DEVNULL)
            return time.perf_counter() - start
        times = {dtype: theirs(dtype) for dtype in ("float32", "bfloat16")}
        bench.say(f"diffusers: {times}")
        faster = min(times, key=times.get)
        things = {f"diffusers {'f32' if faster == 'float32' else 'bf16'}": lambda: theirs(faster),
                  "sparge-gen": lambda: bench.ours(*options_of(bench, request, folder)[:-1],
                                                   os.path.join(folder, "ours-%04d.png"), "-p", PROMPTS[0])[1]}
        return rule.by_turns(things, bench.args.repeat, slack=0.005, until=bench.until), {}, list(things)


# ---- the decoder of Open-Sora-Plan ----

def decode(bench):
    """From latents to frames: ours as the reports of a process tell it for the clips after the first."""
    import models
    import opensora_plan
    name, (width, height, frames) = SMALL["opensora"] if bench.args.quick else ("opensora", (640, 640, 93))
    folder = os.path.join(bench.args.folder, name)
    bench.say(f"making {name}")
    models.make(folder, name, bench.device)
    theirs = {n: bench.timed(c) for n, c in opensora_plan.decoders(bench, folder, (width, height, frames)).items()}

    def ours():
        with tempfile.TemporaryDirectory() as at:
            bench.ours("-m", folder, "-p", "a boat", "--size", f"{width}x{height}", "--frames", str(frames), "--steps",
                       "1", "-g", "1", "--attention", "dense", "--dtype", "bf16", "--batch", "5", "--cache", "off",
                       "--quiet", "-o", os.path.join(at, "clip.y4m"), "--json", os.path.join(at, "report.json"))
            times = []
            for report in sorted(n for n in os.listdir(at) if n.startswith("report"))[1:]:
                with open(os.path.join(at, report), encoding="utf-8") as f:
                    times.append(json.load(f)["seconds"]["decode"])
        block = rule.figure(times)
        return block["median"], block["unsteady"]

    def other(name):
        block = rule.by_turns({name: theirs[name]}, bench.args.repeat)[name]
        return block["median"], block["unsteady"]
    found = blocks_by_turns(bench, {"ours": ours, **{n: lambda n=n: other(n) for n in theirs}})
    return found, {}, list(found)


# ---- the rows ----

DENSE, SPARSE = ["--attention", "dense"], []
SMALL = {"wan": ("small", (128, 64, 9)), "flux": ("small-flux", (64, 64, 1)), "mochi": ("small-mochi", (64, 64, 7)),
         "sd3": ("small-sd35", (64, 64, 1)), "opensora": ("small-opensora", (128, 96, 9))}


def step_row(shape, family, size, sides=(("ours, dense", DENSE), ("ours, sparse", SPARSE))):
    return "cuda", step(shape, family, size, dict(sides), SMALL[family])


ROWS = {
    "clip": ("tiny-wan, default clip (256x256, 33 frames, 12 steps), rendering", "cpu", clip),
    "command": ("tiny-wan, default clip, the whole command from start to exit", "cpu", command),
    "attention": ("one attention call, 12 heads x 32,760 tokens x 128", "cuda",
                  attention(12, (21, 30, 52), 128)),
    "wan": ("one step of Wan 2.1 1.3B, 832x480, 81 frames (random weights)",
            *step_row("1.3b", "wan", (832, 480, 81))),
    "flux": ("one step of FLUX.1-dev, 1024x1024 (random weights)",
             *step_row("flux", "flux", (1024, 1024, 1), [("ours, dense", DENSE)])),
    "mochi": ("one step of Mochi, 848x480, 163 frames (random weights)", *step_row("mochi", "mochi", (848, 480, 163))),
    # not in README
    "wan-720p": ("one step of Wan 2.1 1.3B, 1280x720, 81 frames (random weights)",
                 *step_row("1.3b", "wan", (1280, 720, 81))),
    "wan-14b": ("one step of Wan 2.1 14B, 832x480, 81 frames (random weights)",
                *step_row("14b", "wan", (832, 480, 81))),
    "opensora": ("one step of Open-Sora-Plan 1.3, 640x640, 93 frames (random weights)",
                 *step_row("opensora", "opensora", (640, 640, 93))),
    "opensora-decode": ("Open-Sora-Plan 1.3: decoding 640x640, 93 frames (random weights)", "cuda", decode),
    "opensora-attention": ("one attention call, 24 heads x 38,400 tokens x 96", "cuda",
                           attention(24, (24, 40, 40), 96)),
    "sd35-large": ("one step of Stable Diffusion 3.5 large, 1024x1024 (random weights)",
                   *step_row("sd35-large", "sd3", (1024, 1024, 1), [("ours, dense", DENSE)])),
    "prefill-24k": ("prefill of Llama-3.1-8B's shape, 24,576 tokens (random weights)", "cuda", prefill(24576)),
    "prefill-128k": ("prefill of Llama-3.1-8B's shape, 131,072 tokens (random weights)", "cuda", prefill(131072)),
}


def seconds(value):
    return f"{value:.2f} s" if value >= 1 else f"{1e3 * value:.{0 if value >= 0.1 else 2}f} ms"


def is_ours(name):
    return name.startswith(("ours", "sparge", "dense"))


def show(bench, what, found, notes, quoted):
    date = datetime.date.today().isoformat()
    where, type_ = place(bench), "" if bench.device == "cpu" else "BF16, "
    print(f"{what}{'; QUICK: sizes mean nothing' if bench.args.quick else ''}\n{where}; {type_}torch "
          f"{torch.__version__}, "
          f"diffusers {version('diffusers')}, transformers {version('transformers')}, "
          f"{bench.ours('--version')[0].split(',')[0]}; {date}")
    if bench.clocks:
        print("while ours ran: {mhz:.0f} MHz, at least {lowest_mhz:.0f}; {watts:.0f} of {limit_watts:.0f} W; "
              "{celsius:.0f} C".format(**bench.clocks))
    for name, f in found.items():
        print(f"{name:<28} {seconds(f['median']):>10} +- {100 * f['spread']:.1f} %, {f['runs']} runs"
              f"{'; NOT STEADY by %.0f %%' % (100 * f['unsteady']) if f['unsteady'] else ''}"
              f"{'; ' + notes[name] if name in notes else ''}")
    theirs = {n: found[n]["median"] for n in quoted if not is_ours(n)}
    best = min(theirs, key=theirs.get)
    peers = "; ".join(f"{n} {seconds(t)}" for n, t in theirs.items())
    own = {n: found[n]["median"] for n in quoted if is_ours(n)}
    print("README: | " + " | ".join([
        what, where + (", BF16" if bench.device == "cuda" else ""), peers,
        "; ".join(f"{n.replace('ours, ', '')} {seconds(t)}" for n, t in own.items()),
        "; ".join(f"{theirs[best] / t:.2f}" for t in own.values()), date]) + " |")


def parse(given=None):
    names = "\n".join(f"  {n:<12} {what}" for n, (what, *_) in ROWS.items())
    p = argparse.ArgumentParser(prog="row", description=__doc__ + "\n\n" + names,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("name", choices=list(ROWS), metavar="NAME")
    p.add_argument("--python", metavar="PROGRAM", help="the interpreter (default: $PYTHON, else python3)")
    p.add_argument("--sparge-gen", default=os.path.join(ROOT, "build", "release", "sparge-gen"), metavar="PATH",
                   help="our program, a Release build (default: build/release/sparge-gen)")
    p.add_argument("--model", default=os.path.join(ROOT, "weights", "tiny-wan"), metavar="DIR", help="of clips")
    p.add_argument("--folder", metavar="DIR", help="checkpoints are made here and kept (default: one that is removed)")
    p.add_argument("--library", metavar="FILE", help="attention: libspargegen.so, for torch and ours in one process")
    p.add_argument("--spargeattn", metavar="DIR", help="attention: the authors' sources, whose kernel runs as well")
    p.add_argument("--build", default="build/peers", metavar="DIR", help="attention: where it is built, once")
    p.add_argument("--device", choices=["cuda", "cpu"], help="(default: the row's own)")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="of both sides")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile, which takes minutes")
    p.add_argument("--turns", type=int, default=3, help="of blocks, with rows of steps (default: 3)")
    p.add_argument("--repeat", type=int, default=0, help="runs that count (default: by the rule)")
    p.add_argument("--minutes", type=float, default=8, help="no turn begins that would last longer (default: 8)")
    p.add_argument("--quick", action="store_true", help="tiny sizes, only to see that it runs")
    p.add_argument("--json", metavar="FILE", help="all figures too")
    args = p.parse_args(given)
    args.sparge_gen, args.given = os.path.abspath(args.sparge_gen), (sys.argv[1:] if given is None else given)[1:]
    args.device = args.device or ROWS[args.name][1]
    return args


def main():
    args = parse()
    what, _, measure = ROWS[args.name]
    os.environ.update(OMP_NUM_THREADS=str(args.threads), HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
    torch.set_num_threads(args.threads)
    bench = Bench(args)
    with contextlib.ExitStack() as stack, torch.inference_mode():
        args.folder = args.folder or stack.enter_context(tempfile.TemporaryDirectory())
        try:
            found, notes, quoted = measure(bench)
            show(bench, what, found, notes, quoted)
        except Failed as e:
            raise SystemExit(f"row: {e}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"row": args.name, "what": what, "where": place(bench), "found": found, "notes": notes,
                       "clocks": bench.clocks}, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
