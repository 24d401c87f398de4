"""Switches detection runs of 3 ranks to their second stage on a slow disk; in half of them a rank is killed.

Each run saves every step to a randomly slow disk (a preloaded library sleeps before writes, fsync and rename below the run
folder), so that the checkpoint for stage 2 is often still being written when it is needed. That checkpoint is the one just
saved, or an older one; states are saved whole, or in parts written by each rank. In every second run a random rank is killed
with SIGKILL at a random moment around the switch: the launcher restarts all of them (restarts), or ends and the run is
resumed (resume), or there is no launcher and the other ranks have to end by themselves with exit code 75 (alone), and the run
is resumed.

No run may mention a torn checkpoint, each must end within --soon seconds after a kill and within --longest overall, and none may
have a rank whose weights differ from the others'. To test the latter, every checkpoint after the switch must have the bytes of a
run without a kill on a fast disk, and the digest of a single-process one.
Parts come from all three ranks; and a rank with different weights computes different gradients, which change the next weights of all
ranks. (A weight without effect on any gradient shows only in its rank's part.)

example:
  scripts/trials/trial kill_switch --count 50
"""
import pathlib
import random
import signal
import subprocess
import time

import broken_runs
import driver
import runs
import stage_runs

RANKS = 3
PER_EPOCH = 2  # steps
# The others notice a rank's end from its connection; the launcher's exit code is the signal's.
BROKEN = 75
KILLED = 128 + signal.SIGKILL


class Case:
    """A kind of run: stage 2 begins with the "fresh" base or an "older" one; checkpoints in parts or whole."""

    def __init__(self, given, base: str, sharded: bool):
        self.given = given
        self.base = base
        self.sharded = sharded
        # A network this small finds nothing after so few steps: the first evaluation stays the best.
        self.stop_epoch = 1 if base == "fresh" else 2
        self.last = self.stop_epoch * PER_EPOCH  # step of stage 1
        self.end = self.last + PER_EPOCH
        self.settings = self.write_settings()

    def write_settings(self) -> pathlib.Path:
        name = f"switch-{self.base}-{'parts' if self.sharded else 'whole'}.yml"
        batch = 2
        return stage_runs.settings(self.given.work / name, True, {
            "data": {"train": f"scenes:{batch * RANKS * PER_EPOCH}:1", "test": f"scenes:{RANKS}:2"},
            "replicas": RANKS, "batch_size": batch, "epochs": self.stop_epoch + 1, "stop_epoch": self.stop_epoch,
            "checkpoint": {"every_steps": 1, "keep_last": 100, "sharded": self.sharded},
        })

    def reference(self) -> pathlib.Path:
        """A run without a kill on a fast disk: on one process, or on all ranks if they write parts."""
        run_dir = broken_runs.unbroken(self.given, self.settings, RANKS if self.sharded else 1)
        refresh = [event for event in broken_runs.events(run_dir) if event["event"] == "refresh"]
        is_older = refresh[0]["from_step"] < self.last
        if len(refresh) != 1 or is_older != (self.base == "older"):
            raise SystemExit(f"the second stage of {run_dir} does not begin as intended: {refresh}")
        if self.sharded:
            self.require_digests_of(Case(self.given, self.base, False).reference(), run_dir)
        return run_dir

    def require_digests_of(self, alone: pathlib.Path, run_dir: pathlib.Path) -> None:
        for step in (self.last + 1, self.end):
            one, all_ranks = (runs.digest(self.given, broken_runs.step_folder(each, step)) for each in (alone, run_dir))
            if one != all_ranks:
                raise SystemExit(f"step {step} of {run_dir} has a different digest from one process")


class Switch:
    """One run across the switch; `wrong` collects its faults."""

    def __init__(self, given, slow_disk: pathlib.Path, number: int, draw: random.Random):
        self.given, self.slow_disk, self.draw = given, slow_disk, draw
        self.case = Case(given, draw.choice(["fresh", "older"]), draw.random() < 0.5)
        self.how = ("restarts", "resume", "alone")[number // 2 % 3] if number % 2 else "undisturbed"
        self.whole = self.case.reference()
        self.run_dir = runs.fresh(given.work / "switched")
        self.output = given.work / "last-switch.log"
        self.output.unlink(missing_ok=True)
        self.wrong: list[str] = []
        self.row = {"base": self.case.base, "parts": self.case.sharded, "how": self.how}

    def check(self, is_right: bool, what: str) -> None:
        if not is_right:
            self.wrong.append(what)

    def start(self, words: list[str]) -> subprocess.Popen:
        slow = {"LD_PRELOAD": str(self.slow_disk), "SLOW_DISK_FOLDER": str(self.run_dir),
                "SLOW_DISK_MOST_US": str(int(self.given.slowest * 1000))}
        return broken_runs.start(self.given, words, self.output, **slow)

    def start_ranks(self) -> list[subprocess.Popen]:
        """Starts the launcher, or each rank."""
        words = runs.train_words(self.case.settings, RANKS, self.run_dir)
        if self.how != "alone":
            return [self.start([*words, "--max-restarts", "3" if self.how == "restarts" else "0"])]
        meet = self.given.work / "meet"
        meet.unlink(missing_ok=True)
        words = ["train", str(self.case.settings), "--run-dir", str(self.run_dir), "--dist-url", f"file://{meet}"]
        return [self.start([*words, "--world-size", str(RANKS), "--rank", str(rank)]) for rank in range(RANKS)]

    def wait_for_moment(self, processes: list[subprocess.Popen]) -> bool:
        moment, has_come = self.draw.choice(list(stage_runs.moments_of_switch(self.run_dir, self.case.last).items()))
        came = broken_runs.wait_until(processes[0], has_come, self.given.longest)
        time.sleep(self.draw.random() * self.given.spread)
        self.row |= {"moment": moment, "at": stage_runs.where(self.run_dir)}
        return came and processes[0].poll() is None

    def kill_one(self, processes: list[subprocess.Popen]) -> int:
        """Returns: the rank that was killed."""
        ranks = {rank: process.pid for rank, process in enumerate(processes)}
        if self.how != "alone":
            ranks = broken_runs.ranks_of(processes[0].pid)
        self.check(all(self.has_slow_disk(pid) for pid in ranks.values()), "the disk is not slow")
        rank = self.draw.choice(sorted(ranks))
        runs.send([ranks[rank]], signal.SIGKILL)
        self.row["killed"] = rank
        return rank

    def has_slow_disk(self, pid: int) -> bool:
        try:
            return str(self.slow_disk) in pathlib.Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return True  # it has ended

    def break_it(self, processes: list[subprocess.Popen]) -> None:
        rank = self.kill_one(processes)
        begin = time.time()
        allowed = self.given.longest if self.how == "restarts" else self.given.soon
        self.require_end(processes, allowed)
        codes = [process.returncode for process in processes]
        self.row |= {"ended_s": round(time.time() - begin, 2), "codes": codes}
        expected = {"restarts": [0], "resume": [KILLED]}.get(
            self.how, [-signal.SIGKILL if each == rank else BROKEN for each in range(RANKS)])
        self.check(codes == expected, f"exit codes {codes} instead of {expected}")

    def require_end(self, processes: list[subprocess.Popen], seconds: float) -> None:
        deadline = time.time() + seconds
        ended = [broken_runs.end_within(process, max(0.1, deadline - time.time())) for process in processes]
        self.check(all(ended), f"it has been hanging for {seconds:.0f} s")

    def resume(self) -> None:
        process = self.start(runs.train_words(self.case.settings, RANKS, self.run_dir, "auto"))
        self.require_end([process], self.given.longest)
        self.check(process.returncode == 0, f"resumed, it ends with {process.returncode}")

    def require_same_weights(self) -> None:
        for step in range(1, self.case.end + 1):
            mine, others = (broken_runs.contents(broken_runs.step_folder(each, step)) for each in (self.run_dir, self.whole))
            self.check(mine == others, f"the checkpoint of step {step} differs")
        self.check(broken_runs.training(self.run_dir) == broken_runs.training(self.whole), "losses or metrics differ")

    def run(self) -> dict:
        processes = self.start_ranks()
        if self.wait_for_moment(processes) and self.how != "undisturbed":
            self.break_it(processes)
        else:
            self.require_end(processes, self.given.longest)
            self.check(all(process.returncode == 0 for process in processes), "it fails without a kill")
        if any(process.returncode != 0 for process in processes):
            self.resume()
        self.require_same_weights()
        self.wrong += stage_runs.signs_of_tearing(self.run_dir, self.output)
        return self.row | {"refreshes": stage_runs.refreshes(self.run_dir), "wrong": self.wrong}


class Trial(driver.Trial):
    COUNT = 500
    OPTIONS = {
        "--slowest": (20.0, "longest pause of the disk, in milliseconds"),
        "--spread": (0.3, "seconds over which each kind of moment is spread"),
        "--soon": (20.0, "seconds within which all processes must end after a kill"),
        "--longest": (180.0, "seconds after which a run counts as hanging"),
    }

    def prepare(self, given) -> None:
        self.slow_disk = broken_runs.make_slow_disk(given)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        return Switch(self.given, self.slow_disk, number, draw).run()
