#!/usr/bin/env python3
"""Checks a page of docs/guide: its C++ blocks stand in files that are compiled, its `sh` blocks run.

usage: guide_test.py SOURCE_DIR BUILD_DIR PAGE FILE...

FILE: where the C++ blocks stand; the page's first block is all of the first file.
"""
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def check_programs(page: str, files: list[Path]) -> None:
    programs = blocks(page, "cpp")
    if not programs or programs[0] != files[0].read_text():
        sys.exit(f"the first program is not {files[0]}")
    for program in programs[1:]:
        if program.count("{") != program.count("}"):
            sys.exit(f"a part is missing:\n{program}")
        # A file may have it deeper inside.
        indented = [textwrap.indent(program, " " * depth) for depth in (0, 2, 4)]
        if not any(text in file.read_text() for file in files for text in indented):
            sys.exit(f"in no file that is compiled:\n{program}")


def main() -> None:
    source, build, page = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    text = (source / page).read_text()
    check_programs(text, [source / name for name in sys.argv[4:]])
    environment = dict(os.environ, PATH=f"{build}/bin:{build}/examples:{os.environ['PATH']}")
    commands = blocks(text, "sh")
    if not commands:
        sys.exit("no sh block")
    for block in commands:
        print(block, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment, check=True)
    print(len(commands), "blocks ran")


main()
