"""Kills detection runs of two stages with SIGKILL, resumes each on a random number of processes, compares digests.

The runs have 4 replicas, batch norm, a moving average, Mosaic, several image sizes, denoising and a checkpoint every 2
steps. First the digest has to be the same on 1, 2 and 4 processes. Then in each trial the run is killed (all of its
processes, or one rank) in stage 1, around the switch at stop_epoch, or in stage 2, in turns; some runs up to three
times. --resume auto takes it on until it is done: its digest, its losses and its metrics must be those of the unbroken
run. Results are appended to a file; a later call goes on from there.

example:
  scripts/trials/trial kill_stages --small --trials 20
"""
import argparse
import random
import time

import runs
import stage_runs

SWITCH = 3  # stop_epoch
EPOCHS = 6
PER_EPOCH = 4  # steps
PHASES = ("stage 1", "switch", "stage 2")
WORLDS = (1, 2, 4)


def settings(given):
    return stage_runs.settings(given.work / f"stages-{'small' if given.small else 'large'}.yml", given.small, {
        "data": {"train": f"scenes:{8 * PER_EPOCH}:1", "test": "scenes:8:2"}, "replicas": 4, "batch_size": 2,
        "epochs": EPOCHS, "stop_epoch": SWITCH, "checkpoint": {"every_steps": 2},
        # Mosaic and MixUp on both sides of the switch, and none in the first epoch.
        "augment": {"policy": [1, 4, 5], "mosaic_prob": 0.5, "mixup_prob": 0.5, "base_size_repeat": 2},
    })


def moment_in(phase: str, run_dir):
    """What has to come before the kill, in words and as a function."""
    last = SWITCH * PER_EPOCH
    if phase == "switch":
        return random.choice(list(stage_runs.moments_of_switch(run_dir, last).items()))
    begin, end = (1, last - 1) if phase == "stage 1" else (last + 1, EPOCHS * PER_EPOCH - 1)
    step = random.randint(begin, end)
    return f"step {step}", lambda: stage_runs.logged_step(run_dir) >= step


def break_once(given, phase: str, number: int, run_dir) -> str | None:
    """Returns: how the run was broken and how it ended, in words; none where it has ended first."""
    what, has_come = moment_in(phase, run_dir)
    world = random.randint(1, 4)
    words = runs.train_words(settings(given), world, run_dir, "auto" if number else "none")
    process = stage_runs.start(given, [*words, "--max-restarts", random.choice("03")], given.work / "last-run.log")
    if stage_runs.wait_until(process, has_come, time.time() + given.longest) and number:
        # The moment may have gone by before this part of the run: then it is killed anywhere in what it does.
        time.sleep(random.random() * 3)
    time.sleep(random.random() * 0.15)
    if process.poll() is not None:
        return None
    victim, at = stage_runs.kill(process, random.choice(["all", "rank"])), stage_runs.where(run_dir)
    ended = stage_runs.end_within(process, given.longest)
    return f"{what} on {world}: {victim} at {at}, code {process.returncode if ended else 'none, it hangs'}"


def broken_run(given, phase: str) -> tuple:
    """A run that was killed in `phase`, and perhaps again wherever it was then. Returns: its folder, all kills."""
    while True:
        run_dir = runs.fresh(given.work / "killed")
        (given.work / "last-run.log").unlink(missing_ok=True)
        phases = [phase] + [random.choice(PHASES) for _ in range(random.choice([0, 0, 1, 2]))]
        kills = [break_once(given, each, place, run_dir) for place, each in enumerate(phases)]
        if kills[0] is not None:  # on a busy machine it may have ended before the kill
            return run_dir, [each for each in kills if each is not None]


def one_trial(given, number: int, whole) -> dict:
    phase = PHASES[(number - 1) % len(PHASES)]
    run_dir, kills = broken_run(given, phase)
    resumed = random.randint(1, 4)
    process = stage_runs.start(given, runs.train_words(settings(given), resumed, run_dir, "auto"),
                               given.work / "last-run.log")
    done = stage_runs.end_within(process, given.longest)
    row = {"trial": number, "phase": phase, "kills": kills, "resumed_on": resumed,
           "code": process.returncode if done else "none, it hangs"}
    row["digest"] = runs.digest(given, run_dir) if process.returncode == 0 else "none"
    row["same_log"] = stage_runs.training(run_dir) == stage_runs.training(whole)
    row["left"] = stage_runs.left_over(run_dir)
    row["torn"] = sorted(set(stage_runs.TORN.findall((given.work / "last-run.log").read_text())))
    return row


def try_worlds(given, results) -> None:
    """The first rows: the unbroken run on each number of processes."""
    for world in WORLDS[len(results.rows):]:
        run_dir = runs.fresh(given.work / f"whole-{world}")
        runs.lockstep(given, *runs.train_words(settings(given), world, run_dir))
        results.add(world=world, digest=runs.digest(given, run_dir))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "kill_stages.jsonl")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--small", action="store_true", help="a tiny network on small images")
    parser.add_argument("--longest", type=float, default=300, help="seconds after which a run is taken to hang")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments and worlds")
    given = parser.parse_args()
    random.seed(given.seed)
    results = runs.Results(given)
    try_worlds(given, results)
    expected = results.rows[0]["digest"]
    if any(row["digest"] != expected for row in results.rows[:len(WORLDS)]):
        raise SystemExit("the digest of the unbroken run depends on the number of processes")
    whole = given.work / f"whole-{WORLDS[0]}"
    while len(results.rows) < given.trials + len(WORLDS):
        results.add(**one_trial(given, len(results.rows) - len(WORLDS) + 1, whole))
    trials = results.rows[len(WORLDS):]
    failures = sum(row["digest"] != expected or not row["same_log"] or bool(row["torn"] + row["left"])
                   for row in trials)
    print(runs.bound95(failures, len(trials)))
    raise SystemExit(1 if failures else 0)
