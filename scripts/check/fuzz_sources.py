#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the fuzz programs list every source that they need.

fuzz/CMakeLists.txt compiles the parsers by name, with Clang, which most builds do not use. If a listed source includes a header
of src or recipes, itself or through another header, the source of the same name must be listed too; without it the fuzz programs
do not link.

Prints file:1 for each; exit code 1 if there is one.
Example: scripts/check/fuzz_sources.py --root .
"""
import pathlib
import re
import sys
import tempfile

import tree_check

LIST = "fuzz/CMakeLists.txt"
# Included for their types only; the last has a stand-in in fuzz/without_torch.cpp.
UNUSED = {"recipes/captioning/data/captions.cpp", "src/wire/circle.cpp", "src/data/sources/files/image_files.cpp"}
ROOT = re.compile(r"set\((\w+) \$\{PROJECT_SOURCE_DIR\}/(\S+)\)")
SOURCE = re.compile(r"\$\{(\w+)\}/(\S+\.cpp)")
INCLUDE = re.compile(r'^#include "((?:lockstep/)?([\w/]+))\.h"', re.M)
HEADERS = ("include", "internal", "src", "recipes")


def listed_sources(root: pathlib.Path) -> set[str]:
    text = (root / LIST).read_text()
    folders = {"PROJECT_SOURCE_DIR": ""} | {name: f"{folder}/" for name, folder in ROOT.findall(text)}
    targets = {f"fuzz/{path.name}" for path in (root / "fuzz").glob("*_targets.cpp")}
    return targets | {folders[name] + path for name, path in SOURCE.findall(text)}


def sources_by_header(root: pathlib.Path) -> dict[str, set[str]]:
    """The sources that belong to a header, by its name in an #include. A header may be in a folder above its source's."""
    found: dict[str, set[str]] = {}
    for folder in ("src", "recipes"):
        for path in (root / folder).rglob("*.cpp"):
            parts = path.relative_to(root / folder).with_suffix("").parts
            for length in range(1, len(parts)):
                found.setdefault("/".join([*parts[:length], parts[-1]]), set()).add(str(path.relative_to(root)))
    return found


def included(root: pathlib.Path, name: str) -> dict[str, str]:
    """The names of all headers that a source includes, by MODULE/FOLDER/NAME, with the file that includes each."""
    found, unread = {}, [name]
    while unread:
        file = unread.pop()
        for path, short in INCLUDE.findall((root / file).read_text()):
            if short not in found:
                found[short] = file
                unread += [f"{folder}/{path}.h" for folder in HEADERS if (root / folder / f"{path}.h").is_file()]
    return found


def offenders(root):
    root = pathlib.Path(root)
    listed, of_header = listed_sources(root), sources_by_header(root)
    known = listed | UNUSED | {str(path.relative_to(root)) for path in (root / "src/base").rglob("*.cpp")}  # a library of its own
    for name in sorted(listed):
        for header, file in included(root, name).items():
            needed = of_header.get(header, set())
            if needed and not needed & known:
                yield f"{name}:1: {LIST} lists this file, but not {', '.join(sorted(needed))}, whose header {file} includes"


def self_test():
    """A list without a needed source must be an offender; a complete one may not be."""
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {"src/data/decode.cpp": '#include "data/parts/turn.h"\n#include "lockstep/data/picture.h"\n',
                           "src/data/parts/turn.cpp": '#include "lockstep/data/lists/names.h"\n', "src/data/lists/files/names.cpp": "",
                           "include/lockstep/data/lists/names.h": "", "include/lockstep/data/picture.h": '#include "lockstep/data/log.h"\n',
                           "src/data/log.cpp": "", "src/data/picture.cpp": '#include "lockstep/base/text.h"\n',
                           "src/base/text.cpp": "", "fuzz/data_targets.cpp": '#include "lockstep/data/decode.h"\n'}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        sources = ["decode", "parts/turn", "picture", "log", "lists/files/names"]
        for missing in (*sources, None):
            lines = [f"  ${{data}}/{name}.cpp" for name in sources if name != missing]
            (root / LIST).write_text("\n".join(["set(data ${PROJECT_SOURCE_DIR}/src/data)", "add_library(readers", *lines]))
            found = list(offenders(folder))
            if bool(found) != bool(missing):
                failures.append(f"without {missing}: {found}")
    return failures


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
