"""Kills a real training run at random moments while it saves after every step; each time it must resume.

After each kill, the newest checkpoint must verify, the run must resume on 1 to 4 processes, and nothing may be left in /dev/shm,
in the folder for temporary files, or in the run folder once it runs again.

Every third run has a far too large learning rate: its weights become infinite or NaN at some step, often with a finite loss.
After a kill or its own end (with 65), its newest checkpoint must be finite, and stay so after a resume.

example:
  scripts/trials/trial kill_saving --count 40 --small
"""
import contextlib
import json
import pathlib
import random
import subprocess
import time

import broken_runs
import driver
import runs


def leftovers(given, run_dir: pathlib.Path) -> list[str]:
    """Leftovers that no run needs, while the run itself is in progress."""
    own = [path for path in broken_runs.left_over(run_dir) if not still_written(pathlib.Path(path))]
    return broken_runs.left_on_machine(given) + own


def still_written(path: pathlib.Path) -> bool:
    """A temporary name has the pid of its writer."""
    return any(part.isdigit() and pathlib.Path(f"/proc/{part}").exists() for part in path.name.replace(".", "-").split("-"))


def newest(run_dir: pathlib.Path) -> str:
    folder = run_dir / "checkpoints"
    names = sorted(path.name for path in folder.iterdir() if path.name.startswith("step-")) if folder.exists() else []
    return names[-1] if names else ""


def is_saving(run_dir: pathlib.Path) -> bool:
    return any((run_dir / "checkpoints").glob(".tmp-*"))


def spoilt_entries(given, run_dir) -> list[str]:
    """Entries of the newest checkpoint whose norm is NaN or infinite."""
    lines = runs.lockstep(given, "checkpoint", "inspect", str(run_dir), "--json").stdout.splitlines()
    states = json.loads(next(line for line in lines if line.startswith("{")))["states"]
    return [f"{state}/{entry['name']}" for state, entries in states.items() for entry in entries
            if isinstance(entry.get("norm"), str)]


class Trial(driver.Trial):
    COUNT = 40
    SMALL = True
    OPTIONS = {"--longest": (1.5, "longest time from a new checkpoint to the kill, in seconds")}

    def prepare(self, given) -> None:
        runs.make_data(given, given.small)
        self.run_dir = given.work / "saving"
        self.settings = self.settings_with(**{"checkpoint.keep_last": 2})

    def settings_with(self, **changes) -> pathlib.Path:
        always = {"max_steps": 0, "checkpoint.every_steps": 1, "schedule.type": "none"}
        return runs.settings(self.given.work, self.given.small, **always | changes)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        if number == 0:
            runs.fresh(self.run_dir)
        return self.into_nan(draw) if number % 3 == 2 else self.while_saving(draw)

    def start(self, settings, world: int, run_dir) -> tuple[subprocess.Popen, bool]:
        """Resumes a killed run; returns True if it reaches its next checkpoint."""
        before, log = newest(run_dir), self.given.work / "last-run.log"
        log.unlink(missing_ok=True)
        process = broken_runs.start(self.given, runs.train_words(settings, world, run_dir, "auto"), log,
                                    TMPDIR=str(broken_runs.temporary_folder(self.given)))
        return process, broken_runs.wait_until(process, lambda: newest(run_dir) != before, 60)

    def while_saving(self, draw: random.Random) -> dict:
        given, run_dir, world = self.given, self.run_dir, draw.randint(1, 4)
        process, went_on = self.start(self.settings, world, run_dir)
        left, moment = leftovers(given, run_dir) if went_on else [], "any"
        time.sleep(draw.random() * given.longest)
        if draw.random() < 0.5 and broken_runs.wait_until(process, lambda: is_saving(run_dir), 5):
            moment = "saving"
            time.sleep(draw.random() * 0.02)
        process.kill()
        process.wait()
        time.sleep(0.3)  # the ranks end with their agent
        verified = runs.lockstep(given, "checkpoint", "verify", str(run_dir), check=False)
        wrong = [] if went_on else ["it did not continue"]
        wrong += [f"the newest checkpoint does not verify: {verified.stdout[-500:]}"] if verified.returncode != 0 else []
        wrong += [f"left over: {left}"] if left else []
        return {"world": world, "moment": moment, "newest": newest(run_dir), "wrong": wrong}

    def into_nan(self, draw: random.Random) -> dict:
        run_dir, rate = runs.fresh(self.given.work / "into-nan"), float(f"{10 ** draw.uniform(2, 8):.3g}")
        settings = self.settings_with(**{"checkpoint.keep_last": draw.randint(1, 2), "checkpoint.async": draw.random() < 0.7,
                                         "clip_norm": 0.0, "optimizer.lr": rate})
        ends = [self.leg_into_nan(settings, run_dir, draw) for _ in range(2)]
        spoilt = spoilt_entries(self.given, run_dir) if newest(run_dir) else []
        wrong = [f"it ended with {end}" for end in ends if end not in ("killed", 65)]
        wrong += [f"not finite in the newest checkpoint: {spoilt}"] if spoilt else []
        return {"lr": rate, "ends": ends, "newest": newest(run_dir), "wrong": wrong}

    def leg_into_nan(self, settings, run_dir, draw: random.Random) -> int | str:
        """Trains until the run ends or is killed at some point. Returns the exit code."""
        process, _ = self.start(settings, draw.randint(1, 4), run_dir)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(draw.random() * self.given.longest if draw.random() < 0.5 else 15)
        killed = process.poll() is None
        if killed:
            process.kill()
        code = process.wait()
        time.sleep(0.3)  # the ranks end with their agent
        return "killed" if killed else code
