"""Kills training runs with SIGKILL at random steps, resumes each on a random number of processes, compares digests.

The runs have a moving average of the weights, a scaled loss, a schedule with a warm-up, and checkpoints that a thread
writes. Each trial is a run of --steps steps on 1 to 4 processes, killed once it has logged a random step (the agent or one
rank, at random), resumed on 1 to 4 processes until it is done. Its digest must be the one of an unbroken run. Results
are appended to a file; a later call goes on from there.

example:
  scripts/trials/trial kill_resume --trials 20
"""
import argparse
import json
import os
import random
import signal
import subprocess
import time

import runs


def logged_step(run_dir) -> int:
    try:
        lines = (run_dir / "log.jsonl").read_text().splitlines()
    except OSError:
        return 0
    steps = [json.loads(line).get("step", 0) for line in lines if line.endswith("}")]
    return max(steps, default=0)


def ranks_of(pid: int) -> list[int]:
    """All processes below pid that are ranks."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            words = open(f"/proc/{entry}/cmdline").read() if entry.isdigit() else ""
            if "lockstep-worker" in words.split("\0")[0] and str(pid) in ancestors(int(entry)):
                found.append(int(entry))
        except OSError:
            continue
    return found


def ancestors(pid: int) -> list[str]:
    chain = []
    while pid > 1:
        try:
            pid = int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
        except OSError:
            break
        chain.append(str(pid))
    return chain


def start(given, words) -> subprocess.Popen:
    log = (given.work / "last-run.log").open("w")
    return subprocess.Popen([str(given.bin / "lockstep"), *words], stdout=log, stderr=subprocess.STDOUT,
                            env=runs.environment())


def kill_at(given, process, run_dir, step: int, victim: str) -> str:
    while process.poll() is None and logged_step(run_dir) < step:
        time.sleep(0.002)
    if process.poll() is not None:
        return "ended first"
    ranks = ranks_of(process.pid)
    target = random.choice(ranks) if victim == "rank" and ranks else process.pid
    os.kill(target, signal.SIGKILL)
    process.wait()
    return "rank" if target != process.pid else "agent"


def one_trial(given, number: int, settings) -> dict:
    run_dir = runs.fresh(given.work / "killed")
    step = random.randint(1, given.steps - 1)
    first, second = random.randint(1, 4), random.randint(1, 4)
    process = start(given, runs.train_words(settings, first, run_dir))
    killed = kill_at(given, process, run_dir, step, random.choice(["agent", "rank"]))
    code = process.returncode
    if killed != "ended first" and code != 0:
        runs.lockstep(given, *runs.train_words(settings, second, run_dir, "auto"))
    return {"trial": number, "killed": killed, "at_step": step, "worlds": f"{first}->{second}", "code": code,
            "digest": runs.digest(given, run_dir)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "kill_resume.jsonl")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--small", action="store_true", help="a small network on small images")
    parser.add_argument("--seed", type=int, default=None, help="of the random steps and worlds")
    given = parser.parse_args()
    random.seed(given.seed)
    runs.make_data(given, given.small)
    changes = {"max_steps": given.steps, "checkpoint.every_steps": 7, "accumulate_steps": 2, "ema.decay": 0.9,
               "grad_scaler.enabled": "true", "schedule.warmup_epochs": 1}
    settings = runs.settings(given.work, given.small, **changes)
    results = runs.Results(given)
    if not results.rows:
        whole = runs.fresh(given.work / "whole")
        runs.lockstep(given, *runs.train_words(settings, 2, whole))
        results.add(trial=0, digest=runs.digest(given, whole))
    while len(results.rows) <= given.trials:
        results.add(**one_trial(given, len(results.rows), settings))
    expected = results.rows[0]["digest"]
    failures = sum(row["digest"] != expected for row in results.rows[1:])
    print(runs.bound95(failures, len(results.rows) - 1))
    raise SystemExit(1 if failures else 0)
