#!/usr/bin/env python3
"""Checks a page of docs/guide: its C++ blocks are in compiled files, its `sh` blocks run.

usage: guide_test.py SOURCE_DIR BUILD_DIR PAGE [FILE...]
       guide_test.py --projects SOURCE_DIR      the CMake projects of all pages precompile headers

FILE: a file with the C++ blocks; the page's first block is the whole first file. `parts:FILE`: the page shows only parts of it.
The `sh` blocks run one after another in one shell and one empty folder, as a reader would run them.
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


def check_programs(programs: list[str], files: list[Path], is_whole: bool) -> None:
    if is_whole and (not programs or programs[0] != files[0].read_text()):
        sys.exit(f"the first program is not {files[0]}")
    for program in programs[1 if is_whole else 0 :]:
        if program.count("{") != program.count("}"):
            sys.exit(f"a part is missing:\n{program}")
        # A file may contain it at a deeper indentation.
        indented = [textwrap.indent(program, " " * depth) for depth in (0, 2, 4)]
        if not any(text in file.read_text() for file in files for text in indented):
            sys.exit(f"in no file that is compiled:\n{program}")


def check_projects(source: Path) -> None:
    """libtorch's headers take half a minute to compile: a copied project must not recompile them on every change."""
    projects = [(page, project) for page in sorted(source.glob("docs/guide/*.md"))
                for project in blocks(page.read_text(), "cmake")]
    for page, project in projects:
        for name in re.findall(r"^add_executable\((\w+)", project, re.MULTILINE):
            if f"target_precompile_headers({name} " not in project:
                sys.exit(f"{page}: {name} does not precompile headers:\n{project}")
    print(len(projects), "blocks of CMake")


def run_commands(commands: list[str], build: Path) -> None:
    if not commands:
        sys.exit("no sh block")
    environment = dict(os.environ, PATH=f"{build}/bin:{build}/examples:{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as folder:
        shell = ["bash", "-euxo", "pipefail", "-c", "\n".join(commands)]
        code = subprocess.run(shell, cwd=folder, env=environment, check=False).returncode
    if code != 0:
        sys.exit(f"a command ended with {code}")


def main() -> None:
    if sys.argv[1] == "--projects":
        return check_projects(Path(sys.argv[2]))
    source, build, page = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    text = (source / page).read_text()
    names = sys.argv[4:]
    is_whole = bool(names) and not names[0].startswith("parts:")
    check_programs(blocks(text, "cpp"), [source / name.removeprefix("parts:") for name in names], is_whole)
    commands = blocks(text, "sh")
    run_commands(commands, build)
    print(len(commands), "blocks ran")


main()
