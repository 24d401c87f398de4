"""Kills two-stage detection runs with SIGKILL, resumes each on a random number of processes, compares digests.

The runs have 4 replicas, batch norm, a moving average, Mosaic, several image sizes, denoising and a checkpoint every 2
steps. First the digest has to be the same on 1, 2 and 4 processes. Then in each trial the run is killed (all of its
processes, or one rank) in stage 1, around the switch at stop_epoch, or in stage 2, alternately; some runs up to three
times. --resume auto continues it until it is done: its digest, its losses and its metrics must be those of the unbroken run.

example:
  scripts/trials/trial kill_stages --small --count 7
"""
import random
import time

import broken_runs
import driver
import runs
import stage_runs

SWITCH = 3  # stop_epoch
EPOCHS = 6
PER_EPOCH = 4  # steps
WORLDS = (1, 2, 4)


class Trial(driver.Trial):
    COUNT = 7
    KINDS = ("stage_1", "switch", "stage_2")
    SMALL = True
    OPTIONS = {"--longest": (300.0, "seconds after which a run counts as hanging")}

    def prepare(self, given) -> None:
        self.settings = stage_runs.settings(given.work / f"stages-{'small' if given.small else 'large'}.yml", given.small, {
            "data": {"train": f"scenes:{8 * PER_EPOCH}:1", "test": "scenes:8:2"}, "replicas": 4, "batch_size": 2,
            "epochs": EPOCHS, "stop_epoch": SWITCH, "checkpoint": {"every_steps": 2},
            # Mosaic and MixUp before and after the switch, but none in the first epoch.
            "augment": {"policy": [1, 4, 5], "mosaic_prob": 0.5, "mixup_prob": 0.5, "base_size_repeat": 2},
        })
        self.log = given.work / "last-run.log"
        whole = [broken_runs.unbroken(given, self.settings, world) for world in WORLDS]
        digests = [runs.digest(given, run_dir) for run_dir in whole]
        if len(set(digests)) > 1:
            raise SystemExit("the digest of the unbroken run depends on the number of processes")
        self.whole, self.digest = whole[0], digests[0]

    def start(self, run_dir, world: int, resume: str, *more: str):
        return broken_runs.start(self.given, [*runs.train_words(self.settings, world, run_dir, resume), *more], self.log)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        given = self.given
        run_dir, kills = self.broken_run(kind, draw)
        world = draw.randint(1, 4)
        process = self.start(run_dir, world, "auto")
        code = process.returncode if broken_runs.end_within(process, given.longest) else "none, it hangs"
        wrong = [f"resumed, it ends with exit code {code}"] if code != 0 else []
        if code != 0 or runs.digest(given, run_dir) != self.digest:
            wrong.append("the digest differs from the unbroken run's")
        if broken_runs.training(run_dir) != broken_runs.training(self.whole):
            wrong.append("losses or metrics differ")
        return {"kills": kills, "resumed_on": world, "code": code, "wrong": wrong + stage_runs.signs_of_tearing(run_dir, self.log)}

    def broken_run(self, kind: str, draw: random.Random) -> tuple:
        """Kills a run in a stage, and perhaps again later. Returns: its folder, all kills."""
        while True:
            run_dir = runs.fresh(self.given.work / "killed")
            self.log.unlink(missing_ok=True)
            stages = [kind] + [draw.choice(self.KINDS) for _ in range(draw.choice([0, 0, 1, 2]))]
            kills = [self.break_once(each, place, run_dir, draw) for place, each in enumerate(stages)]
            if kills[0] is not None:  # on a busy machine it may have ended before the kill
                return run_dir, [each for each in kills if each is not None]

    def break_once(self, stage: str, place: int, run_dir, draw: random.Random) -> str | None:
        """Returns: a description of the run's interruption and end; none if it ended first."""
        what, has_come = self.moment_in(stage, run_dir, draw)
        world = draw.randint(1, 4)
        process = self.start(run_dir, world, "auto" if place else "none", "--max-restarts", draw.choice("03"))
        if broken_runs.wait_until(process, has_come, self.given.longest) and place:
            # The moment may have passed before this part of the run: then it is killed at an arbitrary time.
            time.sleep(draw.random() * 3)
        time.sleep(draw.random() * 0.15)
        if process.poll() is not None:
            return None
        victim, at = broken_runs.kill(process, draw.choice(["all", "rank"]), draw), stage_runs.where(run_dir)
        ended = broken_runs.end_within(process, self.given.longest)
        return f"{what} on {world}: {victim} at {at}, code {process.returncode if ended else 'none, it hangs'}"

    def moment_in(self, stage: str, run_dir, draw: random.Random):
        """The condition for the kill, as text and as a function."""
        last = SWITCH * PER_EPOCH
        if stage == "switch":
            return draw.choice(list(stage_runs.moments_of_switch(run_dir, last).items()))
        begin, end = (1, last - 1) if stage == "stage_1" else (last + 1, EPOCHS * PER_EPOCH - 1)
        step = draw.randint(begin, end)
        return f"step {step}", lambda: broken_runs.logged_step(run_dir) >= step
