"""The whole recipe by one command: python3 train.py --stage all --work work

Stages: tokenizer, judge, vae, denoiser, decoder, refine, mend, distill, image, export, evaluate. A finished stage is
skipped, an interrupted one goes on from its last checkpoint in the work folder, so the same command resumes. decoder
and mend train the autoencoder's decoder on, refine the denoiser, in folders of their own within it; --start has them
train a given model on, in place of tokenizer, vae and denoiser. --seconds of all but the judge are GPU-seconds. Uses
every GPU it sees; of several the first has the judge beside vae, and the decoder beside refine.
"""
import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
STAGES = ("tokenizer", "judge", "vae", "denoiser", "decoder", "refine", "mend", "distill", "image", "export",
          "evaluate")
BESIDE = dict(judge="vae", decoder="refine")     # on the first of several GPUs, while the other has the rest
# Stages that go on from a product: the script, the product, what else it needs of the work folder, its options.
FURTHER = dict(
    decoder=("vae", "vae.pt", (), ["--decoder-only", "--batch", "64", "--lr", "1.5e-3", "--trail-weight", ".6",
                                   "--latent-noise", ".25", "--quick", ".15"]),
    refine=("denoiser", "denoiser.pt", ("vae.pt", "spiece.model"),
            ["--until-base", ".05", "--until-large", ".2", "--large", ".6"]),
    mend=("vae", "vae.pt", ("denoiser.pt", "spiece.model"),
          ["--decoder-only", "--batch", "16", "--lr", "5e-5", "--latent-noise", ".25", "--quick", ".15",
           "--guided", "512", "--seconds", "90", "--no-compile"]))
# A model of the real shape, but too small in budget to be good: a check of the recipe on any machine.
TOY = dict(judge=["--seconds", "4", "--batch", "2", "--count", "16"],
           vae=["--seconds", "8", "--batch", "1", "--size", "32", "--frames", "5", "--eval-count", "4",
                "--save-every", "2"],
           denoiser=["--seconds", "15", "--unit", "32", "--pool", "4", "--batch", "4", "--save-every", "5"],
           decoder=["--seconds", "8", "--batch", "1", "--size", "32", "--frames", "5", "--eval-count", "4"],
           refine=["--seconds", "15", "--unit", "32", "--pool", "4", "--batch", "4"],
           mend=["--seconds", "8", "--batch", "1", "--size", "32", "--frames", "5", "--eval-count", "4",
                 "--guided", "4"],
           distill=["--seconds", "15", "--unit", "32", "--batch", "1"],
           image=["--seconds", "15", "--unit", "32", "--pool", "4", "--batch", "4", "--count", "2"],
           export=[], evaluate=["--count", "2", "--batch", "1", "--size", "128x128", "--samplers", "2:3"])


def command(stage, gpus, args, extra):
    """The command line and environment of one stage on the GPUs of the given numbers (none: the CPU)."""
    script, product, needed, own = FURTHER.get(stage, (stage, None, (), []))
    work = args.work / stage if product else args.work
    if product:
        work.mkdir(exist_ok=True)
        for name, copy in [(product, product.replace(".", "_start.")), *((name, name) for name in needed)]:
            if not (work / copy).exists():
                shutil.copyfile(args.work / name, work / copy)
    options = ["--work", str(work), "--seed", str(args.seed)] + own + (TOY[stage] if args.toy else []) + extra
    if stage in ("export", "evaluate"):
        options += ["--folder", str(args.folder)]
    launch = [sys.executable]
    if len(gpus) > 1:
        launch += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={len(gpus)}"]
    environment = dict(os.environ, PYTHONUNBUFFERED="1", OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "2"))
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    return launch + [str(HERE / f"{script}.py")] + options, environment


def run(*jobs):
    """Start all jobs together; stop with the first failure's status."""
    running = [subprocess.Popen(line, env=environment) for line, environment in jobs]
    failed = [status for status in [process.wait() for process in running] if status]
    if failed:
        sys.exit(failed[0])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stage", nargs="+", choices=("all",) + STAGES, default=["all"])
    p.add_argument("--work", type=Path, default=Path("work"), help="checkpoints")
    p.add_argument("--folder", type=Path, default=HERE.parent, help="the model folder to write")
    p.add_argument("--start", type=Path, help="a model folder to go on from, in a new work folder")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--toy", action="store_true", help="tiny budgets, to try the recipe itself")
    for stage in STAGES[1:]:
        p.add_argument(f"--{stage}-options", default="", help=f"further options of {stage}.py, in one string")
    args = p.parse_args()
    stages = STAGES if "all" in args.stage else [s for s in STAGES if s in args.stage]
    args.work.mkdir(parents=True, exist_ok=True)
    if args.start and not (args.work / "vae.pt").exists():
        import export
        export.start(args.start, args.work)
    extra = {stage: getattr(args, f"{stage}_options").split() for stage in STAGES[1:]}
    gpus = list(range(torch.cuda.device_count()))
    if gpus and os.environ.get("CUDA_VISIBLE_DEVICES"):      # the stages are told by the names that it has
        gpus = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[:len(gpus)]
    if "tokenizer" in stages and not (args.work / "spiece.model").exists():
        import captions
        captions.make_spiece(args.work / "spiece.model")
    done = {"tokenizer"}
    for stage in stages:
        if stage in done:
            continue
        group = [(stage, gpus[:1] if stage in ("judge", "distill", "image", "export") else gpus)]
        if BESIDE.get(stage) in stages and len(gpus) > 1:
            group = [(stage, gpus[:1]), (BESIDE[stage], gpus[1:])]
        run(*(command(name, on, args, extra[name]) for name, on in group))
        for name, _ in group:
            done.add(name)
            if name in FURTHER:
                product = FURTHER[name][1]
                shutil.copyfile(args.work / name / product, args.work / product)


if __name__ == "__main__":
    main()
