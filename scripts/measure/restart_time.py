#!/usr/bin/env python3
"""Measures the time from SIGKILL of a rank to the next finished step: Lockstep's captcha job on 2 ranks, and another
launcher's, alternately.

The other job is any command that restarts its ranks on its own and prints a line for each finished step. The killed rank is the
process below the launcher whose environment has RANK=1.

example:
  scripts/measure/restart_time.py --bin build/release/bin --repeats 10 --peer "python3 torchrun.py --monitor_interval 0.1 \\
    --max_restarts 3 --nproc_per_node 2 captcha_train.py data --batch 8 --workers 0 --max-steps 1 --epochs 100000"
"""
import argparse
import contextlib
import os
import pathlib
import select
import shlex
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402


def rank_process(launcher: int, rank: int) -> int:
    """The newest process below the launcher with this RANK."""
    found = 0
    for pid in runs.descendants(launcher):
        with contextlib.suppress(OSError):
            entries = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if f"RANK={rank}".encode() in entries and not runs.stands_by(pid):
                found = max(found, pid)
    if not found:
        raise RuntimeError(f"no process below {launcher} has RANK={rank}")
    return found


def wait_for_another(launcher: int, victim: int) -> None:
    """Returns once a new process is rank 1. Steps finished from now on belong to the restarted group."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        with contextlib.suppress(RuntimeError):
            if rank_process(launcher, 1) != victim and not os.path.exists(f"/proc/{victim}/fd/0"):
                return
        time.sleep(0.002)
    raise RuntimeError("rank 1 was not restarted within 120 s")


class Output:
    """The lines of a job's output, with the time of each."""

    def __init__(self, process: subprocess.Popen):
        self.process, self.rest = process, b""

    def next_line(self, limit: float) -> str:
        end = time.monotonic() + limit
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not data:
                raise RuntimeError(f"no step within {limit} s")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace")

    def drop(self) -> None:
        while select.select([self.process.stdout], [], [], 0)[0] and (data := os.read(self.process.stdout.fileno(), 65536)):
            self.rest = data[data.rfind(b"\n") + 1:]
        self.rest = self.rest[self.rest.rfind(b"\n") + 1:]


class LogFile:
    """The steps in a run's log.jsonl. A resumed run first drops the lines of steps after its checkpoint and repeats those
    steps: a line is new if the file differs from before."""

    def __init__(self, path: pathlib.Path):
        self.path, self.seen = path, []

    def lines(self) -> list[str]:
        return self.path.read_text().splitlines(keepends=True) if self.path.exists() else []

    def next_line(self, limit: float) -> str:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            lines = self.lines()
            kept = 0
            while kept < min(len(lines), len(self.seen)) and lines[kept] == self.seen[kept]:
                kept += 1
            for number in range(kept, len(lines)):
                if lines[number].endswith("\n") and '"loss"' in lines[number]:
                    self.seen = lines[:number + 1]
                    return lines[number]
            time.sleep(0.002)
        raise RuntimeError(f"no step within {limit} s")

    def drop(self) -> None:
        self.seen = self.lines()


def measure(command: list[str], steps_of, kills: int, settle: float) -> list[float]:
    """Seconds from the kill to the next step, for each restart of one job, with `settle` seconds before each kill."""
    seconds = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
                          env=runs.environment(OMP_NUM_THREADS="1")) as job:
        steps = steps_of(job)
        try:
            for _ in range(kills):
                steps.next_line(120)
                time.sleep(settle)
                victim = rank_process(job.pid, 1)
                begin = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                wait_for_another(job.pid, victim)
                steps.drop()  # steps that the other rank finished before it noticed
                steps.next_line(120)
                seconds.append(time.monotonic() - begin)
        finally:
            runs.send(runs.descendants(job.pid), signal.SIGKILL)
    return seconds


def ours(given) -> list[float]:
    run_dir = runs.fresh(given.work / "restart-time")
    settings = runs.settings(given.work, True, replicas=2, batch_size=8, workers=0, max_steps=1000000,
                             **{"checkpoint.every_steps": 5})
    command = [str(given.bin / "lockstep"), *runs.train_words(settings, 2, run_dir), "--max-restarts", "1000", "--quiet",
               *given.options]
    return measure(command, lambda _: LogFile(run_dir / "log.jsonl"), given.kills, given.settle)


def peer(given) -> list[float]:
    command = shlex.split(given.peer)
    return measure(command, Output, given.kills, given.settle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "restart_time.jsonl")
    parser.add_argument("--repeats", type=int, default=5, help="jobs of each kind, alternating (default: 5)")
    parser.add_argument("--kills", type=int, default=2, help="kills per job (default: 2)")
    parser.add_argument("--settle", type=float, default=6, help="seconds of training before each kill (default: 6)")
    parser.add_argument("--options", nargs="*", default=[], help="more options of lockstep train, such as no-standby")
    parser.add_argument("--peer", help="the other launcher's command")
    given = parser.parse_args()
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    given.options = [f"--{option}" for option in given.options]
    runs.make_data(given, True)
    figures: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(given.repeats):
        figures["ours"] += ours(given)
        if given.peer:
            figures["peer"] += peer(given)
    for name, seconds in figures.items():
        if seconds:
            print(f"{name}: {statistics.median(seconds):.2f} s median, {min(seconds):.2f} to {max(seconds):.2f} s, "
                  f"n={len(seconds)}")
    if figures["peer"]:
        print(f"ratio of the medians: {statistics.median(figures['ours']) / statistics.median(figures['peer']):.2f}")
    sys.exit(0)


if __name__ == "__main__":
    main()
