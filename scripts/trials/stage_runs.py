"""Common parts of the trials of two-stage runs: detection settings, and the moments around the switch."""
import json
import pathlib
import re

from broken_runs import events, left_over, logged_step, step_folder

# Signs that a checkpoint was read before it was complete.
TORN = re.compile(r"torn|does not verify|is skipped|is written again; the earlier|no checkpoint in .* passes verification|"
                  r"manifest\.json does not exist")

# Every part of the large model, each as small as possible.
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


def refreshes(run_dir: pathlib.Path) -> int:
    return sum(event["event"] == "refresh" for event in events(run_dir))


def is_writing(run_dir: pathlib.Path, step: int) -> bool:
    return any((run_dir / "checkpoints").glob(f".tmp-step-{step:08}-*"))


def moments_of_switch(run_dir: pathlib.Path, last: int) -> dict:
    """The moments from which to wait for a kill, by name; `last`: the first stage's last step."""
    return {
        "before": lambda: logged_step(run_dir) >= last - 1,
        "base is written": lambda: is_writing(run_dir, last) or step_folder(run_dir, last).exists(),
        "base is there": lambda: step_folder(run_dir, last).exists(),
        "refreshed": lambda: refreshes(run_dir) > 0,
        "next is written": lambda: is_writing(run_dir, last + 1) or logged_step(run_dir) > last,
    }


def where(run_dir: pathlib.Path) -> str:
    """A run's position, as text."""
    writing = [path.name[10:18] for path in (run_dir / "checkpoints").glob(".tmp-step-*")]
    words = f"step {logged_step(run_dir)}" + (", refreshed" if refreshes(run_dir) else "")
    return words + (f", writing {int(writing[0])}" if writing else "")


def signs_of_tearing(run_dir: pathlib.Path, log: pathlib.Path) -> list[str]:
    """Messages about torn checkpoints, and files that should not remain after a run."""
    said, left = sorted(set(TORN.findall(log.read_text()))), left_over(run_dir)
    return ([f"it reports torn checkpoints: {said}"] if said else []) + ([f"left over: {left}"] if left else [])
