"""Kills a real training run at random moments while it saves after every step; each time it must go on.

After each kill: the newest checkpoint verifies, the run resumes on 1 to 4 processes, and nothing is left over in
/dev/shm, in the folder for temporary files, or in the run folder once it runs again. Results are appended to a file.

Every third run is one whose learning rate is far too large: its weights become infinite and NaN at some step, often under
a loss that is finite. Killed or ended by itself (with 65), its newest checkpoint is finite, and so it is after it went on.

example:
  scripts/trials/trial kill_saving --kills 40 --small
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import time

import runs


def leftovers(given, run_dir: pathlib.Path) -> list[str]:
    """What is there that no run needs: the run itself must be under way."""
    found = [str(path) for path in pathlib.Path("/dev/shm").iterdir() if "lockstep" in path.name]
    found += [str(path) for path in (given.work / "tmp").iterdir()]
    # os.walk: a folder may go while it is looked at.
    own = [pathlib.Path(top) / name for top, folders, files in os.walk(run_dir) for name in folders + files
           if ".tmp" in name or ".bad-" in name]
    return found + [str(path) for path in own if not still_written(path)]


def still_written(path: pathlib.Path) -> bool:
    """A temporary name bears the pid of its writer."""
    return any(part.isdigit() and pathlib.Path(f"/proc/{part}").exists() for part in path.name.replace(".", "-").split("-"))


def newest(run_dir: pathlib.Path) -> str:
    folder = run_dir / "checkpoints"
    names = sorted(path.name for path in folder.iterdir() if path.name.startswith("step-")) if folder.exists() else []
    return names[-1] if names else ""


def start(given, words) -> subprocess.Popen:
    log = (given.work / "last-run.log").open("w")
    return subprocess.Popen([str(given.bin / "lockstep"), *words], stdout=log, stderr=subprocess.STDOUT,
                            env=runs.environment(TMPDIR=str(given.work / "tmp")))


def wait_for_new_checkpoint(process, run_dir, before: str) -> bool:
    deadline = time.time() + 60
    while time.time() < deadline and process.poll() is None:
        if newest(run_dir) != before:
            return True
        time.sleep(0.005)
    return False


def wait_for_saving(process, run_dir) -> str:
    """Returns once a checkpoint is being written."""
    deadline = time.time() + 5
    while time.time() < deadline and process.poll() is None:
        if any(".tmp-" in name for name in os.listdir(run_dir / "checkpoints")):
            time.sleep(random.random() * 0.02)
            return "saving"
    return "any"


def one_kill(given, number: int, settings, run_dir) -> dict:
    before = newest(run_dir)
    world = random.randint(1, 4)
    process = start(given, runs.train_words(settings, world, run_dir, "auto"))
    went_on = wait_for_new_checkpoint(process, run_dir, before)
    left = leftovers(given, run_dir) if went_on else []
    time.sleep(random.random() * given.longest)
    moment = wait_for_saving(process, run_dir) if random.random() < 0.5 else "any"
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.3)  # the ranks end with their agent
    verified = runs.lockstep(given, "checkpoint", "verify", str(run_dir), check=False)
    row = {"kill": number, "world": world, "moment": moment, "went_on": went_on, "newest": newest(run_dir),
           "verifies": verified.returncode == 0, "left": left}
    row["ok"] = went_on and row["verifies"] and not left
    return row


def spoilt_entries(given, run_dir) -> list[str]:
    """Entries of the newest checkpoint whose norm is no number, or infinite."""
    lines = runs.lockstep(given, "checkpoint", "inspect", str(run_dir), "--json").stdout.splitlines()
    states = json.loads(next(line for line in lines if line.startswith("{")))["states"]
    return [f"{state}/{entry['name']}" for state, entries in states.items() for entry in entries
            if isinstance(entry.get("norm"), str)]


def leg_into_nan(given, settings, run_dir) -> int | str:
    """Trains until the run ends, or is killed at some moment. Returns the exit code."""
    before = newest(run_dir)
    process = start(given, runs.train_words(settings, random.randint(1, 4), run_dir, "auto"))
    wait_for_new_checkpoint(process, run_dir, before)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(random.random() * given.longest if random.random() < 0.5 else 15)
    killed = process.poll() is None
    if killed:
        os.kill(process.pid, signal.SIGKILL)
    code = process.wait()
    time.sleep(0.3)  # the ranks end with their agent
    return "killed" if killed else code


def one_into_nan(given, number: int) -> dict:
    run_dir = runs.fresh(given.work / "into-nan")
    changes = {"max_steps": 0, "checkpoint.every_steps": 1, "checkpoint.keep_last": random.randint(1, 2),
               "checkpoint.async": random.random() < 0.7, "schedule.type": "none", "clip_norm": 0.0,
               "optimizer.lr": float(f"{10 ** random.uniform(2, 8):.3g}")}
    settings = runs.settings(given.work, given.small, **changes)
    ends = [leg_into_nan(given, settings, run_dir) for _ in range(2)]
    spoilt = spoilt_entries(given, run_dir) if newest(run_dir) else []
    row = {"kill": number, "lr": changes["optimizer.lr"], "ends": ends, "newest": newest(run_dir), "spoilt": spoilt}
    row["ok"] = not spoilt and all(end in ("killed", 65) for end in ends)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "kill_saving.jsonl")
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--longest", type=float, default=1.5, help="seconds after a new checkpoint until the kill")
    parser.add_argument("--small", action="store_true", help="a small network on small images")
    given = parser.parse_args()
    runs.make_data(given, given.small)
    (given.work / "tmp").mkdir(exist_ok=True)
    changes = {"max_steps": 0, "checkpoint.every_steps": 1, "checkpoint.keep_last": 2, "schedule.type": "none"}
    settings = runs.settings(given.work, given.small, **changes)
    results = runs.Results(given)
    run_dir = given.work / "saving"
    if not results.rows:
        runs.fresh(run_dir)
    while len(results.rows) < given.kills:
        number = len(results.rows) + 1
        results.add(**(one_into_nan(given, number) if number % 3 == 0 else one_kill(given, number, settings, run_dir)))
    failures = sum(not row["ok"] for row in results.rows)
    print(runs.bound95(failures, len(results.rows)))
    raise SystemExit(1 if failures else 0)
