"""The rule of app/bench/bench_rule.h, by which both sides of a row are measured."""
import math
import statistics
import time

WINDOW, WINDOW_MOST, WARM_MOST, RUNS, RUNS_MOST = 3, 100, 1000, 5, 200
WINDOW_SECONDS, WARM_SECONDS, RUN_SECONDS, TOLERANCE = 0.25, 10, 2, 0.02
median = statistics.median


def change(a, b, slack):
    """By what share b differs from a, if it does."""
    apart, share = abs(a - b), abs(a - b) / max(a, b)
    return 0 if apart <= slack or share <= TOLERANCE else share


def window_of(rounds):
    """How long windows are, and whether there is time for more of them. The first round is in none."""
    seen = [sum(r) for r in rounds[1:]]
    if not seen:
        return None, False
    late = sum(seen) >= WARM_SECONDS or len(rounds) > WARM_MOST
    window = min(max(math.ceil(WINDOW_SECONDS * len(seen) / sum(seen)), WINDOW), WINDOW_MOST)
    if late:
        window = min(window, len(seen) // 2)
    return window if 1 <= window <= len(seen) // 2 else None, late


def by_turns(things, repeat=0, slack=2e-6, until=math.inf):
    """What each of `things`, functions that return the seconds of a run, takes: median, spread, runs, unsteady. No
    round begins that would last beyond `until`, a time of time.monotonic()."""
    names, rounds, warm, changes = list(things), [], 0, {}
    while not warm or len(rounds) < warm + repeat:
        start, took = time.monotonic(), {}
        for i in range(len(names)):
            name = names[(i + len(rounds)) % len(names)]
            took[name] = things[name]()
        rounds.append([took[n] for n in names])
        over = 2 * time.monotonic() - start > until
        if not warm:
            window, late = window_of(rounds)
            if window:
                last = rounds[-window:], rounds[-2 * window:-window]
                changes = {n: change(*(median(r[i] for r in w) for w in last), slack) for i, n in enumerate(names)}
                if late or not any(changes.values()):
                    warm = len(rounds)
                    mean = sum(map(sum, rounds[1:])) / (len(rounds) - 1)
                    repeat = repeat or min(max(math.ceil(RUN_SECONDS / mean), RUNS), RUNS_MOST)
            if over and not warm and len(rounds) > 1:
                warm, changes = len(rounds) - 1, dict.fromkeys(names, 1.0)
        if over and warm and len(rounds) > warm:
            break
    return {n: figure([r[i] for r in rounds[warm:]], changes.get(n, 0), slack) for i, n in enumerate(names)}


def figure(seconds, changed=0.0, slack=2e-6):
    """Of the runs that count."""
    half, ordered = len(seconds) // 2, sorted(seconds)
    if half:
        changed = max(changed, change(median(seconds[:half]), median(seconds[-half:]), slack))
    quarter = (len(ordered) - 1) // 4
    low, high = ordered[quarter], ordered[-1 - quarter]
    return {"median": median(seconds), "spread": (high - low) / 2 / median(seconds), "runs": len(seconds),
            "unsteady": changed}
