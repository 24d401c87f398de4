"""Common parts of the trials that break runs: starting, killing, waiting, and reading what a run left behind."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import driver
import runs


def test_program(given, name: str) -> pathlib.Path:
    """A test program, next to the command's folder."""
    path = given.bin.parent / "tests" / name
    if not path.exists():
        print(f"error: {path} is missing: run ./test, or pass --bin", file=sys.stderr)
        sys.exit(driver.USAGE)
    return path


def make_slow_disk(given) -> pathlib.Path:
    """A library to preload that sleeps before reads and writes."""
    library, source = given.work / "slow_disk.so", pathlib.Path(__file__).with_name("slow_disk.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


def start(given, words, output: pathlib.Path, **variables) -> subprocess.Popen:
    """Starts `lockstep` with `words` as arguments; appends its output to `output`."""
    with output.open("a") as log:
        return subprocess.Popen([str(given.bin / "lockstep"), *words], stdout=log, stderr=subprocess.STDOUT,
                                env=runs.environment(**variables))


def unbroken(given, settings: pathlib.Path, world: int) -> pathlib.Path:
    """The folder of an undisturbed run, trained once for all rows in a results file."""
    run_dir = given.work / f"unbroken/{settings.stem}-{world}"
    if not (run_dir / "summary.json").exists():
        runs.lockstep(given, *runs.train_words(settings, world, runs.fresh(run_dir)))
    return run_dir


def events(run_dir: pathlib.Path) -> list[dict]:
    """The complete lines of log.jsonl."""
    try:
        lines = (run_dir / "log.jsonl").read_text().splitlines(keepends=True)
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def logged_step(run_dir: pathlib.Path) -> int:
    return max((event["step"] for event in events(run_dir) if event["event"] == "step"), default=0)


def training(run_dir: pathlib.Path) -> list[list]:
    """The logged steps, evaluations and switches, without fields that depend on the clock."""
    keys = {"step": ["loss", "lr"], "epoch": ["metrics"], "refresh": ["epoch", "reason", "decay", "from_step"]}
    return [[event["event"], event["step"], *(event.get(key) for key in keys[event["event"]])]
            for event in events(run_dir) if event["event"] in keys]


def step_folder(run_dir: pathlib.Path, step: int) -> pathlib.Path:
    return run_dir / f"checkpoints/step-{step:08}"


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_over(run_dir: pathlib.Path) -> list[str]:
    """Files that should not remain after a run."""
    # os.walk: a folder may vanish during the walk, or be missing.
    return [str(pathlib.Path(top) / name) for top, folders, files in os.walk(run_dir) for name in folders + files
            if ".tmp" in name or ".bad-" in name]


def temporary_folder(given) -> pathlib.Path:
    folder = given.work / "tmp"
    folder.mkdir(exist_ok=True)
    return folder


def left_on_machine(given) -> list[str]:
    """Shared memory of any run, and the contents of this trial's folder for temporary files."""
    segments = [path for path in pathlib.Path("/dev/shm").iterdir() if "lockstep" in path.name]
    return [str(path) for path in [*segments, *temporary_folder(given).iterdir()]]


def wait_until(process: subprocess.Popen, has_come, seconds: float) -> bool:
    """Waits for a condition; False if it does not hold in time, or if the process ends first."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        if has_come():
            return True
        time.sleep(0.002)
    return False


def ranks_of(pid: int) -> dict[int, int]:
    """The workers among pid and its descendants, without standbys: rank to pid."""
    found = {}
    for each in runs.descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{each}/cmdline").read_text().split("\0")
            variables = pathlib.Path(f"/proc/{each}/environ").read_text().split("\0")
        except OSError:
            continue
        if words[0].endswith("lockstep-worker") and not runs.stands_by(each):
            found[next((int(line[5:]) for line in variables if line.startswith("RANK=")), 0)] = each
    return found


def kill(process: subprocess.Popen, victim: str, draw: random.Random) -> str:
    """Sends SIGKILL to all processes of the run, to its launcher, or to one rank. Returns: a description of what was killed."""
    ranks = ranks_of(process.pid)
    if victim == "rank" and ranks:
        rank = draw.choice(sorted(ranks))
        runs.send([ranks[rank]], signal.SIGKILL)
        return f"rank {rank} of {len(ranks)}"
    if victim == "agent":
        process.kill()
        return victim
    runs.send(runs.descendants(process.pid), signal.SIGKILL)
    return "all"


def end_within(process: subprocess.Popen, seconds: float) -> bool:
    """Waits for it to end. If it does not, kills all its processes."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        runs.send(runs.descendants(process.pid), signal.SIGKILL)
        process.wait()
        return False
