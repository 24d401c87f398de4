#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that all names in docs/guide/coming_from_python.md exist: C++ names in the public headers, options and verbs in
--help, settings in their tables, variables in `lockstep inspect env`.

usage: python_names_test.py SOURCE_DIR HELP_JSON | --self-test

HELP_JSON: the output of scripts/build/command_help.py --output.
"""
import json
import pathlib
import re
import sys

# Names that are examples: a program, an option value, a member of the reader's own network.
EXAMPLES = {"argc", "argv", "train", "net", "text", "fc1", "color", "lockstep", "loss"}
STRING = re.compile(r'"[^"]*"')
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def spans(page):
    """The code spans of each table's middle column."""
    for line in page.splitlines():
        cells = re.split(r"(?<!\\)\|", line)
        if len(cells) == 5 and not cells[1].startswith(("---", " Python")):
            yield from re.findall(r"`([^`]+)`", cells[2])


def unknown(span, known):
    """The names in `span` that are not in `known`."""
    if setting := re.fullmatch(r"--set ([\w.]+)=\S+", span):
        return [setting[1]] if setting[1] not in known["settings"] else []
    if re.fullmatch(r"lockstep( [a-z]+)+( .*)?", span):
        verb = re.match(r"lockstep ((?:[a-z]+ ?)+)", span)[1].strip()
        return ([verb] if verb not in known["verbs"] else []) + \
            [word for word in re.findall(r"--[\w-]+", span) if word not in known["options"]]
    if span.startswith("--"):
        return [] if span in known["options"] else [span]
    if re.fullmatch(r"[A-Z]+(_[A-Z]+)+", span):
        return [] if span in known["variables"] else [span]
    code = STRING.sub("", span)
    names = [name for name in re.findall(r"[A-Za-z_]\w*", code) if name not in EXAMPLES]
    # A class and its member are in one header.
    pairs = re.findall(r"([A-Z]\w*)::(\w+)", code)
    return ["::".join(pair) for pair in pairs if not any(set(pair) <= header for header in known["headers"])] + \
        [name for name in names if not any(name in header for header in known["headers"])]


def read_known(source, help_json):
    texts = json.loads(pathlib.Path(help_json).read_text())
    headers = [COMMENT.sub("", path.read_text()) for path in sorted((source / "include").rglob("*.h"))]
    return {
        "headers": [set(re.findall(r"[A-Za-z_]\w*", header)) for header in headers],
        "options": set(re.findall(r"--[a-z][\w-]+", "\n".join(texts.values()))),
        "verbs": {name.removesuffix(" --help") for name in texts if name.endswith(" --help")},
        "settings": set(re.findall(r"^\| `([\w.]+)` \|", (source / "docs/guide/settings.md").read_text(), re.M)),
        "variables": set(re.findall(r'Known\{"(\w+)"', (source / "apps/worker/inspect/variables.cpp").read_text())),
    }


def self_test():
    known = {"headers": [{"Job", "rank"}, {"Loader", "epoch"}], "options": {"--nnodes"}, "verbs": {"run"}, "settings": {"amp"}, "variables": {"LOCAL_RANK"}}
    page = "| Python | here | difference |\n|---|---|---|\n| `a.b()` | `rank()`, `--nnodes` | `none` |\n"
    assert list(spans(page)) == ["rank()", "--nnodes"]
    for right in ("rank()", "Job::rank", 'rank("gone")', "--nnodes", "lockstep run", "lockstep run --nnodes 2",
                  "--set amp=bf16", "LOCAL_RANK"):
        assert unknown(right, known) == [], right
    for wrong in ("rang()", "Job::epoch", "--nodes", "lockstep walk", "lockstep run --nodes 2", "--set amb=bf16", "LOCAL_RANG"):
        assert unknown(wrong, known) != [], wrong


def main():
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    source = pathlib.Path(sys.argv[1])
    known = read_known(source, sys.argv[2])
    found = list(spans((source / "docs/guide/coming_from_python.md").read_text()))
    if len(found) < 50:
        sys.exit(f"only {len(found)} names were found: the page's tables have another form")
    bad = [f"`{span}`: there is no {', '.join(names)}" for span in found if (names := unknown(span, known))]
    print("\n".join(bad), f"{len(found)} spans", sep="\n")
    sys.exit(1 if bad else 0)


main()
