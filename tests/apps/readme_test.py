#!/usr/bin/env python3
"""Runs every `sh` block of README.md with the built commands, and compares the program in both READMEs with the example.

With --as-printed the blocks run as they are, in two to three minutes: the captcha reader must then get 8 of 10 captchas right,
and the detector must find 0.8 of the objects. Without it, datasets and runs are smaller, and the models need not learn.

usage: readme_test.py SOURCE_DIR BIN_DIR [--as-printed]
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SMALLER = (("--count 3000", "--count 96"), ("--count 200", "--count 16"), ("captcha:small", "captcha:small --set epochs=20"),
           ("every_steps=50", "every_steps=5"), ("step-00000400", "step-00000040"),
           ("detection:smoke", "detection:smoke --set data.train=scenes:16:1:few --set data.test=scenes:4:2:few"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def smaller(block: str) -> str:
    for printed, quick in SMALLER:
        block = block.replace(printed, quick)
    return block


def check_kill(block: str, said: str) -> None:
    if "kill -KILL" in block and "resumed from" not in said:
        sys.exit("README.md: the run was over, or had no checkpoint, before it was killed")


def read_right(said: str) -> tuple[int, int]:
    """Returns (captchas in the output of `predict` that are right by their file names, all captchas there)."""
    reads = re.findall(r"^\S*/(\w+)_\d+\.png  (\S+)  [\d.]+ %$", said, re.MULTILINE)
    return sum(label == read for label, read in reads), len(reads)


def check_learned(said: str, detector_log: str) -> None:
    """Checks the results of the README's commands."""
    right, count = read_right(said)
    evaluations = [record["metrics"] for record in map(json.loads, detector_log.splitlines()) if "f1" in record.get("metrics", {})]
    f1 = evaluations[-1]["f1"]
    print(f"{right} of {count} captchas are read right; the detector's F1 is {f1:.3f}", flush=True)
    if count != 10 or right < 8:
        sys.exit("README.md: fewer than 8 of 10 captchas are read right")
    if f1 < 0.8:
        sys.exit("README.md: the detector's F1 is below 0.8")


def run_blocks(page: Path, bin_dir: Path, as_printed: bool) -> int:
    environment = dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}")
    printed = blocks(page.read_text(), "sh")
    with tempfile.TemporaryDirectory() as folder:
        said = ""
        for block in printed if as_printed else map(smaller, printed):
            print(f"--- {page.name}\n{block}", flush=True)
            begin = time.monotonic()
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, check=True,
                                 stdout=subprocess.PIPE, text=True)
            print(f"{run.stdout}\n{time.monotonic() - begin:.1f} s", flush=True)
            check_kill(block, run.stdout)
            said += run.stdout
        if as_printed:
            check_learned(said, Path(folder, "runs/shapes/log.jsonl").read_text())
    return len(printed)


def check_twin(name: str, page: str, twin: str, example: str) -> None:
    """The table of calls in PyTorch's program and in this one: each program contains the calls quoted for it."""
    rows = re.search(r"^\| PyTorch \| Lockstep \|\n\|---\|---\|\n((?:\|.*\n)+)", page, re.MULTILINE)
    cells = [row.strip("| ").split(" | ") for row in rows.group(1).splitlines()] if rows else []
    missing = [code for cell in cells for text, program in zip(cell, (twin, example)) for code in re.findall(r"`([^`]+)`", text)
               if code not in program]
    if len(cells) < 3 or missing:
        sys.exit(f"{name}: the programs of examples/guide lack {missing or 'the table'}")


def check_pages(source: Path) -> None:
    example = (source / "examples/guide/first_training.cpp").read_text()
    twin = (source / "examples/guide/first_training.py").read_text()
    commands = []
    for name in ("README.md", "README.zh.md"):
        page = (source / name).read_text()
        if blocks(page, "cpp") != [example.split("\n", 1)[1]]:
            sys.exit(f"{name}: its program is not examples/guide/first_training.cpp without the first line")
        check_twin(name, page, twin, example)
        if len(page.splitlines()) > 140:
            sys.exit(f"{name} has more than 140 lines")
        commands.append(blocks(page, "sh"))
        if not commands[-1]:
            sys.exit(f"{name}: no sh block")
    # If the blocks are the same, one run checks both.
    if commands[0] != commands[1]:
        sys.exit("README.md and README.zh.md have other commands")
    for printed, _ in SMALLER:
        if not any(printed in block for block in commands[0]):
            sys.exit(f"README.md has no '{printed}' any more, which this test makes smaller")


def main() -> None:
    source, bin_dir = Path(sys.argv[1]), Path(sys.argv[2])
    check_pages(source)
    print(run_blocks(source / "README.md", bin_dir, "--as-printed" in sys.argv), "blocks ran")


if __name__ == "__main__":
    main()
