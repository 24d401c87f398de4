"""Kills training runs with SIGKILL at random steps, resumes each on a random number of processes, compares digests.

The runs have a moving average of the weights, a scaled loss, a schedule with a warm-up, and checkpoints written by a
thread. Each trial is a run of --steps steps on 1 to 4 processes, killed once it has logged a random step (the agent or one
rank, at random), resumed on 1 to 4 processes until it is done. Its digest must be that of an unbroken run.

example:
  scripts/trials/trial kill_resume --count 20 --small
"""
import hashlib
import math
import random

import broken_runs
import driver
import runs


class Trial(driver.Trial):
    SMALL = True
    OPTIONS = {"--steps": (40, "steps of a run")}

    def prepare(self, given) -> None:
        runs.make_data(given, given.small)
        self.settings = runs.settings(given.work, given.small, **{
            "max_steps": given.steps, "checkpoint.every_steps": 7, "accumulate_steps": 2, "ema.decay": 0.9,
            "grad_scaler.enabled": "true", "schedule.warmup_epochs": 1})
        self.expected = self.digests(broken_runs.unbroken(given, self.settings, 2))

    def digests(self, run_dir) -> tuple:
        """The digest of the checkpoint, and of the chain of all steps."""
        return runs.digest(self.given, run_dir), hashlib.sha256((run_dir / "digests.bin").read_bytes()).hexdigest()

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        given, run_dir = self.given, runs.fresh(self.given.work / "killed")
        step, first, second = draw.randint(1, given.steps - 1), draw.randint(1, 4), draw.randint(1, 4)
        process = broken_runs.start(given, runs.train_words(self.settings, first, run_dir), given.work / "last-run.log")
        killed = "ended first"
        if broken_runs.wait_until(process, lambda: broken_runs.logged_step(run_dir) >= step, math.inf):
            killed = broken_runs.kill(process, draw.choice(["agent", "rank"]), draw)
        if process.wait() != 0 and killed != "ended first":
            runs.lockstep(given, *runs.train_words(self.settings, second, run_dir, "auto"))
        digests = self.digests(run_dir)
        return {"killed": killed, "at_step": step, "worlds": f"{first}->{second}", "code": process.returncode, "digest": digests[0],
                "wrong": [f"the {what} differs from the unbroken run's" for what, own, expected in
                          zip(("digest", "digests.bin"), digests, self.expected) if own != expected]}
