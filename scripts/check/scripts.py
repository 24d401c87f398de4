#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every script documents its usage, and that every named script exists.

A script's --help contains its own path and an example; a path below scripts/ in any file of the project exists (except in
CHANGELOG.md, which names old ones).
Prints one offender per line; exit code 1 if there is one.
Example: scripts/check/scripts.py --root .
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NAMED = re.compile(r"(?<![\w/.-])(?:\.{1,2}/)*scripts/[\w./-]*\w")
BINARY = (".png", ".jpg", ".gz", ".xz", ".pth", ".safetensors", ".ttf", ".woff2")


def files(root: pathlib.Path) -> list[pathlib.Path]:
    """The files known to git; all files if there is no git."""
    known = subprocess.run(["env", "git", "-C", str(root), "ls-files"], capture_output=True, text=True, check=False)
    paths = known.stdout.splitlines() if known.returncode == 0 else [
        str(path.relative_to(root)) for path in root.rglob("*") if path.relative_to(root).parts[0] != "build"]
    return [root / path for path in paths if (root / path).is_file()]


def wrong_names(root: pathlib.Path, path: pathlib.Path) -> list[str]:
    if path.suffix in BINARY or path.name == "CHANGELOG.md" or path.match("scripts/check/scripts.py") or "fuzz/corpora" in str(path):
        return []
    found = []
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        for name in NAMED.findall(line):
            name = name[name.index("scripts/"):]
            if not (root / name).exists():
                found.append(f"{path.relative_to(root)}:{number}: there is no {name}")
    return found


def wrong_help(root: pathlib.Path, script: pathlib.Path) -> list[str]:
    name = str(script.relative_to(root))
    try:
        run = subprocess.run([str(script), "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return [f"{name}: --help: {problem}"]
    wrong = [f"{name}: --help ends with {run.returncode}"] if run.returncode != 0 else []
    wrong += [f"{name}: --help does not name {name}"] if name not in run.stdout else []
    wrong += [f"{name}: --help has no example"] if "example" not in run.stdout.lower() else []
    return wrong


def offenders(root: pathlib.Path) -> list[str]:
    known = files(root)
    scripts = [path for path in known if path.relative_to(root).parts[0] == "scripts" and os.access(path, os.X_OK)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        said = [line for lines in pool.map(lambda script: wrong_help(root, script), scripts) for line in lines]
    return said + [line for path in known for line in wrong_names(root, path)]


def self_test() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "scripts/room").mkdir(parents=True)

        def script(name: str, text: str) -> None:
            path = root / "scripts/room" / name
            path.write_text(f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

        script("good", "echo example: $0 | sed 's|.*scripts|example: scripts|'")
        (root / "page.md").write_text("`scripts/room/good`, ../scripts/room/good, /usr/scripts/else, scripts/room/ and scripts/room.\n")
        assert offenders(root) == [], offenders(root)
        (root / "page.md").write_text("first\nrun scripts/good --fast\n")
        assert offenders(root) == ["page.md:2: there is no scripts/good"], offenders(root)
        (root / "page.md").unlink()
        script("silent", "exit 64")
        assert len(offenders(root)) == 3 and all("room/silent" in line for line in offenders(root)), offenders(root)
    print("self-test passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2], help="default: this project")
    parser.add_argument("--self-test", action="store_true", help="test this program")
    given = parser.parse_args()
    if given.self_test:
        self_test()
        return 0
    found = offenders(given.root.resolve())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
