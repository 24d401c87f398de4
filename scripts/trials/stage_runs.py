"""What the scripts that break runs in two stages share: settings of detection, what a run has logged, killing it."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import runs

# Signs that a checkpoint was read before it was whole.
TORN = re.compile(r"torn|does not verify|is skipped|is written anew|no checkpoint in .* verifies|"
                  r"manifest\.json does not exist")

# Every part of the large model, each as small as can be.
TINY = {
    "stem": [8, 8],
    "stages": [{"blocks": 1, "kernel": 3, "layers": 1, "light": light, "middle": 8, "out": 16}
               for light in (False, False, True)],
    "hidden": 16, "heads": 2, "encoder_layers": 1, "encoder_feedforward": 16, "fusion_depth": 1, "decoder_layers": 2,
    "decoder_feedforward": 16, "queries": 20, "denoising": 10, "reg_max": 8,
}


def settings(path: pathlib.Path, small: bool, changes: dict) -> pathlib.Path:
    """Writes settings with batch norm, a moving average, Mosaic, several sizes and denoising; JSON is YAML too."""
    values = {
        "recipe": "detection", "image_size": 64 if small else 128, "workers": 1, "log_every_steps": 1,
        "augment": {"mosaic_prob": 0.5, "mixup_prob": 0.5, "base_size_repeat": 2},
        "ema": {"decay": 0.95, "warmups": 3}, "ema_restart_decay": 0.9, "schedule": {"warmup_steps": 2},
        "optimizer": {"groups": [{"params": r"(\.bias|\.scale|norm\d*\.weight)$", "weight_decay": 0}]},
    }
    if small:
        values["model"] = TINY
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values | changes, indent=1) + "\n")
    return path


def start(given, words, output: pathlib.Path, **variables) -> subprocess.Popen:
    """`lockstep` with `words`; what it says is appended to `output`."""
    with output.open("a") as log:
        return subprocess.Popen([str(given.bin / "lockstep"), *words], stdout=log, stderr=subprocess.STDOUT,
                                env=runs.environment(**variables))


def events(run_dir: pathlib.Path) -> list[dict]:
    """The whole lines of log.jsonl."""
    try:
        lines = (run_dir / "log.jsonl").read_text().splitlines(keepends=True)
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("}\n")]


def logged_step(run_dir: pathlib.Path) -> int:
    return max((event["step"] for event in events(run_dir) if event["event"] == "step"), default=0)


def refreshes(run_dir: pathlib.Path) -> int:
    return sum(event["event"] == "refresh" for event in events(run_dir))


def training(run_dir: pathlib.Path) -> list[list]:
    """What is logged of steps, evaluations and switches, without what depends on the clock."""
    keys = {"step": ["loss", "lr"], "epoch": ["metrics"], "refresh": ["epoch", "reason", "decay", "from_step"]}
    return [[event["event"], event["step"], *(event.get(key) for key in keys[event["event"]])]
            for event in events(run_dir) if event["event"] in keys]


def step_folder(run_dir: pathlib.Path, step: int) -> pathlib.Path:
    return run_dir / f"checkpoints/step-{step:08}"


def is_writing(run_dir: pathlib.Path, step: int) -> bool:
    return any((run_dir / "checkpoints").glob(f".tmp-step-{step:08}-*"))


def moments_of_switch(run_dir: pathlib.Path, last: int) -> dict:
    """When to begin to wait for a kill, by name; `last`: the first stage's last step."""
    return {
        "before": lambda: logged_step(run_dir) >= last - 1,
        "base is written": lambda: is_writing(run_dir, last) or step_folder(run_dir, last).exists(),
        "base is there": lambda: step_folder(run_dir, last).exists(),
        "refreshed": lambda: refreshes(run_dir) > 0,
        "next is written": lambda: is_writing(run_dir, last + 1) or logged_step(run_dir) > last,
    }


def where(run_dir: pathlib.Path) -> str:
    """Where a run stands, in words."""
    writing = [path.name[10:18] for path in (run_dir / "checkpoints").glob(".tmp-step-*")]
    words = f"step {logged_step(run_dir)}" + (", refreshed" if refreshes(run_dir) else "")
    return words + (f", writing {int(writing[0])}" if writing else "")


def wait_until(process: subprocess.Popen, has_come, deadline: float) -> bool:
    """False where the process has ended before."""
    while process.poll() is None and time.time() < deadline:
        if has_come():
            return True
        time.sleep(0.002)
    return False


def ranks_of(pid: int) -> dict[int, int]:
    """The workers among pid and what it has started: rank to pid."""
    found = {}
    for each in runs.descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{each}/cmdline").read_text().split("\0")
            variables = pathlib.Path(f"/proc/{each}/environ").read_text().split("\0")
        except OSError:
            continue
        if words[0].endswith("lockstep-worker"):
            found[next((int(line[5:]) for line in variables if line.startswith("RANK=")), 0)] = each
    return found


def kill(process: subprocess.Popen, victim: str) -> str:
    """SIGKILL for all processes of the run, or for one rank. Returns: who was killed."""
    ranks = ranks_of(process.pid)
    if victim != "all" and ranks:
        rank = random.choice(sorted(ranks))
        runs.send([ranks[rank]], signal.SIGKILL)
        return f"rank {rank} of {len(ranks)}"
    kill_all(process)
    return "all"


def kill_all(process: subprocess.Popen) -> None:
    runs.send(runs.descendants(process.pid), signal.SIGKILL)


def end_within(process: subprocess.Popen, seconds: float) -> bool:
    """Waits for its end. Where it does not come, all its processes are killed."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        kill_all(process)
        process.wait()
        return False


def left_over(run_dir: pathlib.Path) -> list[str]:
    """What a finished run has no need of."""
    # os.walk: the folder may not be there.
    return [str(pathlib.Path(top) / name) for top, folders, files in os.walk(run_dir) for name in folders + files
            if ".tmp" in name or ".bad-" in name]
