"""Common parts of the scripts that test whole runs: a small captcha set, settings, one run, its digest, a results file."""
import contextlib
import json
import math
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]


def add_arguments(parser, results: str, programs=ROOT / "build/release/bin", work=ROOT / "build/trials") -> None:
    parser.add_argument("--bin", type=pathlib.Path, default=programs,
                        help=f"folder with lockstep (default: {programs.relative_to(ROOT)})")
    parser.add_argument("--work", type=pathlib.Path, default=work, help=f"folder for runs and results (default: {work.relative_to(ROOT)})")
    parser.add_argument("--results", default=results,
                        help=f"results file in --work; runs in it are not repeated (default: {results})")


def settings(work: pathlib.Path, small: bool, **changes) -> pathlib.Path:
    """Writes settings with everything that a digest depends on: dropout, batch norm, bf16, AdamW, clipping, loader workers."""
    values = {
        "recipe": "captcha", "data.train": str(work / "data"), "data.charset": "0-9", "model.type": "conv7",
        "replicas": 4, "batch_size": 4, "clip_norm": 1.0, "workers": 2, "max_steps": 50, "epochs": 1000,
        "log_every_steps": 1, "eval_every_epochs": 0, "checkpoint.every_steps": 10, "checkpoint.keep_last": 3,
    }
    if small:
        values |= {"model.type": "conv3", "data.width": 48, "data.height": 20, "data.length": 2}
    values |= changes
    path = work / f"settings-{zlib.crc32(str(sorted(values.items())).encode()):08x}.yml"
    path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items() if "." not in key)
                    + nested(values))
    return path


def nested(values: dict) -> str:
    groups: dict[str, dict] = {}
    for key, value in values.items():
        if "." in key:
            group, name = key.split(".", 1)
            groups.setdefault(group, {})[name] = value
    return "".join(f"{group}: {json.dumps(entries)}\n" for group, entries in groups.items())


def make_data(given, small: bool, folder: str = "data") -> None:
    target = given.work / folder
    if target.exists():
        return
    given.work.mkdir(parents=True, exist_ok=True)
    shape = ["--width", "48", "--height", "20", "--length", "2"] if small else []
    lockstep(given, "generate", "captcha", "--out", str(target), "--count", "300", "--seed", "1", "--charset", "0-9",
             *shape)


def environment(**changes) -> dict:
    """This process's environment, without variables that would change the bits or the world."""
    keep = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "RANK", "WORLD_SIZE")}
    return keep | changes


def lockstep(given, *words: str, env: dict | None = None, check: bool = True) -> subprocess.CompletedProcess:
    run = subprocess.run([str(given.bin / "lockstep"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, env=env or environment(), check=False)
    if check and run.returncode != 0:
        sys.exit(f"lockstep {' '.join(words)} ended with {run.returncode}:\n{run.stdout}")
    return run


def train_words(settings_file, world: int, run_dir, resume: str = "none") -> list[str]:
    return ["train", str(settings_file), "--nproc-per-node", str(world), "--run-dir", str(run_dir), "--resume", resume]


def digest(given, run_dir) -> str:
    return lockstep(given, "checkpoint", "inspect", str(run_dir), "--digest").stdout.strip().splitlines()[-1]


def step_digests(run_dir) -> str:
    """The digests of all steps that led to the newest checkpoint, folded into one number."""
    newest = sorted(pathlib.Path(run_dir, "checkpoints").glob("step-*"))[-1]
    return json.loads((newest / "manifest.json").read_text()).get("digest_fold", "none")


def counted(count: int, nouns: str) -> str:
    """The count with its noun, which is passed as a plural: "1 run", "1,000 switches"."""
    noun = nouns if count != 1 else nouns.removesuffix("es") if nouns.endswith("ches") else nouns.removesuffix("s")
    return f"{count:,} {noun}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def descendants(pid: int) -> list[int]:
    """All processes below pid, starting with itself."""
    found = [pid]
    for parent in found:
        for task in pathlib.Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(word) for word in task.read_text().split()]
    return found


def stands_by(pid: int) -> bool:
    """True if a process with a rank's number is only waiting, reading from a pipe, until that rank has to restart."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/3").startswith("pipe:")
    return False


def send(pids: list[int], number: int) -> None:
    """Sends a signal to each process that still exists."""
    for each in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def fresh(run_dir: pathlib.Path) -> pathlib.Path:
    shutil.rmtree(run_dir, ignore_errors=True)
    return run_dir


class Results:
    """A file of JSON lines that a later call continues."""

    def __init__(self, given):
        given.work.mkdir(parents=True, exist_ok=True)
        self.path = given.work / given.results
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.rows = [json.loads(line) for line in lines]

    def add(self, **row) -> None:
        self.rows.append(row)
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(" ".join(f"{key}={value}" for key, value in row.items() if value != ""), flush=True)


def bound95(failures: int, trials: int) -> str:
    """The 95 % upper bound of the failure rate (rule of three if there was none)."""
    if trials == 0:
        return "nothing tried"
    # The rule of three if there was no failure; else the normal approximation, slightly wide.
    spread = 1.64 * (failures * (1 - failures / trials)) ** 0.5 + 1.35
    rate = 3 / trials if failures == 0 else (failures + spread) / trials
    percent = 100 * min(rate, 1)
    digits = max(2, 1 - math.floor(math.log10(percent)))  # two that count, for a million trials too
    return f"{failures} of {trials} failed; with 95 % confidence, fewer than {percent:.{digits}f}% fail"
