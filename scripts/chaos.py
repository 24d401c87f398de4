#!/usr/bin/env python3
"""Trains for some time while every half minute something goes wrong: does the run end with the undisturbed digest?

At random moments, about every --every seconds, one of these happens to a random rank: it is killed, it is stopped (and so
hangs until the launcher ends it), it gets SIGSEGV, all ranks are killed at once, or it is stopped for a moment only. The run
restarts its ranks each time (--max-restarts) from its newest checkpoint. When the time is over, it trains to its end in peace.
Afterwards its digest must be the one of an undisturbed run, and no process, port, shared memory or temporary file may be left.

example:
  scripts/chaos.py --bin build/release/bin --minutes 30

exit code: 0 all well, 1 not
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import time

import runs

RANKS = 3
FAULTS = ("kill", "stop", "crash", "kill all", "pause")


def left_behind() -> set[str]:
    """What a run could leave: segments, temporary folders, processes of ours."""
    found = {str(path) for path in pathlib.Path("/dev/shm").iterdir()}
    found |= {str(path) for path in pathlib.Path(os.environ.get("TMPDIR", "/tmp")).glob("lockstep*")}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if command.split("\0")[0].endswith(("lockstep", "lockstep-worker")):
            found.add(f"process {entry.name}: {command[:60]}")
    return found


def ranks_below(pid: int) -> list[int]:
    ranks = []
    for each in runs.descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{each}/cmdline").read_text().split("\0")
            environment = pathlib.Path(f"/proc/{each}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith("lockstep-worker") and any(word.startswith(b"RANK=") for word in environment):
            ranks.append(each)
    return ranks


def disturb(pid: int, draw: random.Random) -> str:
    ranks = ranks_below(pid)
    if not ranks:
        return "nobody there"
    fault, victim = draw.choice(FAULTS), draw.choice(ranks)
    if fault == "kill all":
        runs.send(ranks, signal.SIGKILL)
    elif fault == "pause":
        runs.send([victim], signal.SIGSTOP)
        time.sleep(1)
        runs.send([victim], signal.SIGCONT)
    else:
        runs.send([victim], {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "crash": signal.SIGSEGV}[fault])
    return fault


def train(given, settings, run_dir, minutes: float) -> tuple[int, dict]:
    """Trains; for so long something goes wrong again and again. Then the number of steps that is left is small."""
    words = [str(given.bin / "lockstep"), *runs.train_words(settings, RANKS, run_dir), "--max-restarts", "100000"]
    environment = runs.environment(LOCKSTEP_TIMEOUT="5")
    draw, counts, end = random.Random(given.seed), {}, time.monotonic() + 60 * minutes
    with (given.work / "chaos.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(draw.uniform(0.5, 1.5) * given.every)
            if process.poll() is None and time.monotonic() < end:
                fault = disturb(process.pid, draw)
                counts[fault] = counts.get(fault, 0) + 1
                print(f"{60 * minutes - (end - time.monotonic()):7.0f} s  {fault}", flush=True)
        return process.wait(), counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "chaos.jsonl")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=30, help="seconds between two faults, on average (default: 30)")
    parser.add_argument("--steps", type=int, default=20000, help="of the run; more than fit into the minutes is best")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.work = given.work.resolve()
    runs.make_data(given, True)
    settings = runs.settings(given.work, True, **{"max_steps": given.steps, "checkpoint.every_steps": 100,
                                                   "log_every_steps": 50, "ema.decay": 0.9})
    before = left_behind()
    whole = runs.fresh(given.work / "undisturbed")
    runs.lockstep(given, *runs.train_words(settings, RANKS, whole))
    expected = runs.digest(given, whole)
    run_dir = runs.fresh(given.work / "chaos")
    begin = time.monotonic()
    code, counts = train(given, settings, run_dir, given.minutes)
    found = runs.digest(given, run_dir) if code == 0 else "none"
    left = sorted(left_behind() - before)
    runs.Results(given).add(minutes=given.minutes, seconds=round(time.monotonic() - begin), code=code, faults=counts,
                            same_digest=found == expected, left=left)
    raise SystemExit(0 if code == 0 and found == expected and not left else 1)


main()
