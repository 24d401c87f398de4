#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the --help of every verb and of every verb's verb, in a terminal of 100 columns.

usage: help_test.py BIN_DIR [TEXTS] | --self-test

TEXTS: the output of scripts/build/command_help.py --output from the same programs."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

WIDTH = 100
# CLI11's names for values and for switches that turn something off, if we gave none.
UNNAMED = re.compile(r"\b(TEXT|INT|UINT|FLOAT|BOOLEAN|REQUIRED)\b|(?<!\$)\{|\bPositionals\b")


def sections(text):
    """Title -> its lines."""
    found, lines = {}, None
    for line in text.splitlines():
        if re.fullmatch(r"[A-Z][^.]*:", line):
            lines = found.setdefault(line[:-1], [])
        elif lines is not None and line.startswith("  "):
            lines.append(line)
        else:
            lines = None
    return found


def entries(lines, column):
    """(left, right) of two columns."""
    rows = []
    for line in lines:
        if line[:column].strip():
            is_split = line[column - 2:column] == "  "
            rows.append([line[:column].strip(), line[column:].strip()] if is_split else [line.strip(), ""])
        elif rows:
            rows[-1][1] += line.strip()
    return rows


def problems(text):
    """The faults in the help of one verb."""
    wrong = [f"has {len(line)} columns: {line}" for line in text.splitlines() if len(line) > WIDTH]
    wrong += [f"CLI11's default text: {line}" for line in text.splitlines() if UNNAMED.search(line)]
    usage = re.search(r"^Usage: lockstep\S*( \S+)*$", text, re.M)
    if not usage:
        wrong.append("there is no usage")
    elif not re.match(r"[A-Z][^\n]*", text) or not text[:usage.start()].split("\n\n")[0].rstrip().endswith("."):
        wrong.append("no sentence stands before the usage")
    found = sections(text)
    examples = [line for line in found.get("Examples", []) if not line.startswith("      ")]
    if not examples:
        wrong.append("there is no example")
    wrong += [f"no example of ours: {line}" for line in examples if not line.startswith("  lockstep ")]
    help_row = re.search(r"^ {2}(?:-\w, )?--help +", text, re.M)
    if not help_row:
        return [*wrong, "--help is not listed"]
    for title, lines in found.items():
        if title != "Examples":
            wrong += [f"{left} has no description" for left, right in entries(lines, len(help_row[0])) if not right]
    return wrong


TEXTS = {}  # outputs that the build already has: each new one loads libtorch


def said(program, *words):
    known = TEXTS.get(" ".join((*words, "--help"))) if program.name == "lockstep" else None
    if known:
        return known
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, env=environment,
                          stdin=subprocess.DEVNULL, timeout=60)
    return done.stdout if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr}"


def verbs_in(text):
    return [row.split()[0] for row in sections(text).get("Verbs", [])]


def check(program, words=()):
    """Counts the help texts and prints their faults."""
    text = said(program, *words)
    wrong = problems(text)
    for problem in wrong:
        print(f"{program.name} {' '.join(words)}: {problem}")
    below = [check(program, (*words, verb)) for verb in verbs_in(text)]
    return 1 + sum(count for count, _ in below), len(wrong) + sum(bad for _, bad in below)


def check_all(folder):
    root = said(folder / "lockstep")
    worker = said(folder / "lockstep-worker")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(lambda verb: check(folder / "lockstep", (verb,)), verbs_in(root)))
    wrong = [*(f"lockstep: {p}" for p in problems(root)), *(f"lockstep-worker: {p}" for p in problems(worker))]
    wrong += [f"lockstep-worker has {verb}, and lockstep does not" for verb in set(verbs_in(worker)) - set(verbs_in(root))]
    print("\n".join(wrong))
    count, bad = 2 + sum(result[0] for result in results), len(wrong) + sum(result[1] for result in results)
    print(f"{count} helps, {bad} problems")
    assert count > 40, "verbs are missing from the lists"
    return bad == 0


GOOD = """Print samples.

Usage: lockstep show [OPTIONS] FILE

Arguments:
  FILE            the file to print

Options:
  --limit N       how many samples to print; this line goes on and on
                  (default: 3)
  --format auto|cpu|cuda
                  how to print
  -h, --help      print this help

Examples:
  lockstep show data.pack --limit 3 \\
      --format auto
"""
BROKEN = {"has 101 columns": ("print this help", "p" * 83), "CLI11's default text": ("--limit N", "--limit INT"),
          "CLI11's default text:   --zero{false}": ("--limit N      ", "--zero{false}  "),
          "there is no usage": ("Usage: ", ""), "no sentence": ("Print samples.", "of samples"),
          "there is no example": ("Examples:", "Samples."), "no example of ours": ("  lockstep show data", "  (show data"),
          "--format auto|cpu|cuda has no description": ("                  how to print\n", ""),
          "FILE has no description": ("the file to print", ""), "--help is not listed": ("--help ", "--hlp  ")}


def self_test():
    assert problems(GOOD) == [], problems(GOOD)
    for problem, (old, new) in BROKEN.items():
        assert old in GOOD, old
        found = problems(GOOD.replace(old, new))
        assert any(problem in one for one in found), f"'{problem}' was not found: {found}"
    print(f"{len(BROKEN)} faults found")


if __name__ == "__main__":
    if sys.argv[1] == "--self-test":
        self_test()
    else:
        TEXTS.update(json.loads(pathlib.Path(sys.argv[2]).read_text()) if len(sys.argv) > 2 else {})
        sys.exit(0 if check_all(pathlib.Path(sys.argv[1])) else 1)
