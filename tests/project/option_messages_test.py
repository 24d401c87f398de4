#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles misspelt or misordered options, and checks for the g++ messages that docs/guide/own_loop.md quotes.

usage: option_messages_test.py SOURCE_DIR COMPILER [FLAG...]

The page's text block that begins with "error: designator order" has one message per line. Exit code 77: no g++.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = """
#include <lockstep/data/loader.h>
void load(const std::shared_ptr<lockstep::Dataset>& set) {
  lockstep::DataLoader swapped{set, {.shuffle = true, .batch_size = 64}};
  lockstep::DataLoader misspelt{set, {.batch_size = 64, .shufle = true}};
  lockstep::DataLoaderOptions options{.batch_size = 64, .shufle = true};
}
"""


def messages_of(page: str) -> list[str]:
    block = re.search(r"^```text\n(error: designator order.*?)^```", page, re.MULTILINE | re.DOTALL)
    return block.group(1).splitlines() if block else []


def main() -> None:
    source, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    if "Free Software Foundation" not in version:
        print("not g++:", version.splitlines()[0])
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "options.cpp"
        program.write_text(PROGRAM)
        said = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *flags, str(program)], capture_output=True,
                              text=True, check=False, env={**os.environ, "LC_ALL": "C"}).stderr
    errors = [line for line in said.splitlines() if " error: " in line]
    expected = messages_of((source / "docs/guide/own_loop.md").read_text())
    if len(expected) != 3:
        sys.exit("docs/guide/own_loop.md has no block with the three messages")
    for message, error in zip(expected, errors):
        if not error.endswith(message):
            sys.exit(f"the page says\n  {message}\nand g++\n  {error}")
    if len(errors) != len(expected):
        sys.exit("g++ says\n" + "\n".join(errors))
    print(len(expected), "messages of the page are g++'s")


main()
