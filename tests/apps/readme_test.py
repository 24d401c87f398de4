#!/usr/bin/env python3
"""Runs every `sh` block of README.md and README.zh.md with the built commands, and compares their four lines with the example.

usage: readme_test.py SOURCE_DIR BIN_DIR
"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def run_blocks(page: Path, bin_dir: Path) -> int:
    environment = dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}")
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks(page.read_text(), "sh"):
            print(f"--- {page.name}\n{block}", flush=True)
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, check=True,
                                 stdout=subprocess.PIPE, text=True)
            print(run.stdout, flush=True)
            if "kill -KILL" in block and "resumed from" not in run.stdout:
                sys.exit(f"{page.name}: the run was over, or had no checkpoint, before it was killed")
            count += 1
    return count


def main() -> None:
    source, bin_dir = Path(sys.argv[1]), Path(sys.argv[2])
    example = (source / "examples/guide/first_training.cpp").read_text()
    commands = []
    for name in ("README.md", "README.zh.md"):
        page = (source / name).read_text()
        lines = [line[1:] for block in blocks(page, "diff") for line in block.splitlines()]
        missing = [line for line in lines if line not in example.splitlines()]
        if len(lines) != 4 or missing:
            sys.exit(f"{name}: its four lines are not those of examples/guide/first_training.cpp: {missing}")
        if len(page.splitlines()) > 150:
            sys.exit(f"{name} has more than 150 lines")
        commands.append(blocks(page, "sh"))
        if not commands[-1]:
            sys.exit(f"{name}: no sh block")
    if commands[0] != commands[1]:
        sys.exit("README.md and README.zh.md have other commands")
    # Equal blocks: one run shows both.
    print(run_blocks(source / "README.md", bin_dir), "blocks ran")


main()
