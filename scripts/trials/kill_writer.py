"""Kills a small process that saves checkpoints, at random moments, and looks at what is left; each kill takes tens of
milliseconds. The ways: one process; a thread that writes while the state changes; two ranks that write one checkpoint.

Each round appends a line to a results file; a later call goes on from there. The program is the tests' own,
checkpoint's kill test, which says what it found.

example:
  scripts/trials/trial kill_writer --kills 1000
"""
import argparse
import os
import pathlib
import re
import subprocess

import runs

WAYS = ["OneProcess", "Asynchronous", "TwoRanks"]


def one_batch(given, way: str, seed: int, rounds: int) -> dict:
    """Some kills in one call: the program needs a moment to start."""
    environment = runs.environment(LOCKSTEP_KILL_ROUNDS=str(rounds), LOCKSTEP_KILL_SEED=str(seed))
    words = [str(given.program), f"--gtest_filter=*KilledWriter*{way}*"]
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
                         check=False, timeout=600)
    kills = re.search(r"^kills: (\d+)$", run.stdout, re.M)
    row = {"way": way, "seed": seed, "kills": int(kills.group(1)) if kills else 0, "ok": run.returncode == 0}
    if not row["ok"]:
        row["said"] = run.stdout[-2000:]
    row["shm"] = [name for name in os.listdir("/dev/shm") if "lockstep" in name]
    row["ok"] = row["ok"] and not row["shm"] and row["kills"] == rounds
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "kill_writer.jsonl")
    parser.add_argument("--kills", type=int, default=1000, help="in all, over the three ways")
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the built kill test of checkpoint")
    given = parser.parse_args()
    results = runs.Results(given)
    while sum(row["kills"] for row in results.rows) < given.kills:
        number = len(results.rows)
        results.add(number=number, **one_batch(given, WAYS[number % len(WAYS)], number + 1, 20))
    kills = sum(row["kills"] for row in results.rows)
    failures = sum(not row["ok"] for row in results.rows)
    print(f"{kills} kills in {len(results.rows)} batches; " + runs.bound95(failures, kills))
    raise SystemExit(1 if failures else 0)
