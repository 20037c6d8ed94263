"""The two sides of vs_diffusers as processes."""
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROMPT = "a red ball bouncing on green grass"


class Failed(Exception):
    pass


def run(command, limit=None):
    """What it prints, and the seconds it took from start to end. None, None: it was stopped after `limit` seconds."""
    start = time.perf_counter()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return None, None
    except OSError as e:
        raise Failed(f"{command[0]}: {e.strerror}")
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode} of {' '.join(command)}: {done.stderr.strip()[-400:]}")
    return done.stdout, time.perf_counter() - start


def ours(args, *rest):
    command = [args.sparge_gen, *rest, "--threads", str(args.threads)]
    text, whole = run(command + (["--cpumask", args.cpumask] if args.cpumask else []))
    return text, whole


def theirs(args, work, dtype, limit, *rest):
    command = [sys.executable, os.path.join(HERE, "theirs.py"), work, "--dtype", dtype, "--threads", str(args.threads)]
    text, whole = run([*command, *rest], limit)
    return None if text is None else dict(json.loads(text.splitlines()[-1]), whole=whole)
