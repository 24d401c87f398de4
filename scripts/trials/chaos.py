"""Trains for a while with a fault every half minute: does the run end with the digest of an undisturbed run?

At random moments, about every --every seconds, one of these happens to a random rank: it is killed, it is stopped (and hangs
until the launcher ends it), it gets SIGSEGV, all ranks are killed at once, or it is stopped only for a moment. The run restarts
its ranks each time (--max-restarts) from its newest checkpoint. When time is up, SIGTERM ends it with a last checkpoint,
and a resumed run trains 20 more steps undisturbed. The digest must be that of an undisturbed run with as many steps, and no
process, port, shared memory or temporary file may be left.

example:
  scripts/trials/trial chaos --minutes 30
"""
import json
import pathlib
import random
import signal
import subprocess
import time

import broken_runs
import driver
import runs

RANKS = 3
STOPPED = 128 + signal.SIGTERM  # the exit code of a run that SIGTERM asked to save and exit
FAULTS = ("kill", "stop", "crash", "kill all", "pause")
SETTINGS = {"checkpoint.every_steps": 100, "log_every_steps": 50, "ema.decay": 0.9, "epochs": 10**8, "schedule.type": "constant"}


def left_behind(given) -> set[str]:
    """Possible leftovers of a run: segments, temporary files, processes. Other runs may be training at the same time."""
    found = set(broken_runs.left_on_machine(given))
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if command.split("\0")[0].endswith(("lockstep", "lockstep-worker")) and str(given.work) in command:
            found.add(f"process {entry.name}: {command[:60]}")
    return found


def disturb(pid: int, draw: random.Random) -> str:
    ranks = sorted(broken_runs.ranks_of(pid).values())
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


def train(given, settings, run_dir, draw: random.Random) -> tuple[int, dict]:
    """Trains with repeated faults for the given time; then asks the run to save and end."""
    counts, end = {}, time.monotonic() + 60 * given.minutes
    process = broken_runs.start(given, [*runs.train_words(settings, RANKS, run_dir), "--max-restarts", "100000"], given.work / "chaos.log",
                                LOCKSTEP_TIMEOUT="5", TMPDIR=str(broken_runs.temporary_folder(given)))
    while process.poll() is None and time.monotonic() < end:
        time.sleep(draw.uniform(0.5, 1.5) * given.every)
        if process.poll() is None and time.monotonic() < end:
            fault = disturb(process.pid, draw)
            counts[fault] = counts.get(fault, 0) + 1
            print(f"{60 * given.minutes - (end - time.monotonic()):7.0f} s  {fault}", flush=True)
    settle_and_stop(process)
    return process.wait(), counts


def settle_and_stop(process: subprocess.Popen) -> None:
    """Ends the run normally: SIGTERM, once all ranks have recovered from the last fault."""
    broken_runs.wait_until(process, lambda: len(broken_runs.ranks_of(process.pid)) == RANKS, 60)
    time.sleep(10)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)


class Trial(driver.Trial):
    COUNT = 1
    OPTIONS = {
        "--minutes": (30.0, "minutes of faults"),
        "--every": (30.0, "average seconds between two faults"),
    }

    def prepare(self, given) -> None:
        runs.make_data(given, True)

    def settings(self, steps: int) -> pathlib.Path:
        return runs.settings(self.given.work, True, **SETTINGS, max_steps=steps)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        given, run_dir = self.given, runs.fresh(self.given.work / "chaos")
        before = left_behind(given)
        code, counts = train(given, self.settings(10**8), run_dir, draw)
        left = sorted(left_behind(given) - before)
        newest = json.loads(runs.lockstep(given, "checkpoint", "inspect", str(run_dir), "--json").stdout)["step"]
        settings = self.settings(newest + 20)
        runs.lockstep(given, *runs.train_words(settings, RANKS, run_dir, "auto"))
        # The digest does not depend on the number of processes, and one is fastest on few cores.
        is_same = runs.digest(given, run_dir) == runs.digest(given, broken_runs.unbroken(given, settings, 1))
        wrong = [f"exit code {code} instead of {STOPPED}"] if code != STOPPED else []
        wrong += [] if is_same else ["the digest differs from the undisturbed run's"]
        wrong += [f"left behind: {left}"] if left else []
        return {"minutes": given.minutes, "code": code, "steps": newest + 20, "faults": counts, "wrong": wrong}
