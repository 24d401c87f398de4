#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what `lockstep --help` and the --help of every verb say, for scripts/man_pages and scripts/completions.

A line that is not understood is an error, so that no option gets lost when a text changes. Alone it prints the verbs
with their options.
Example: scripts/command_help.py --programs build/release/bin
"""
import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys


@dataclasses.dataclass
class Option:
    """An option, or with `names` of one word without dashes a positional."""
    names: list
    value: str       # "TEXT", "INT", ...; empty: a switch
    choices: list    # the words that are allowed, where the help lists them in braces
    default: str
    required: bool
    several: bool
    meaning: str


@dataclasses.dataclass
class Command:
    words: tuple     # ("checkpoint", "diff"); empty: lockstep itself
    summary: str = ""
    usage: list = dataclasses.field(default_factory=list)
    description: list = dataclasses.field(default_factory=list)  # paragraphs
    recipes: list = dataclasses.field(default_factory=list)      # (name, meaning, presets)
    options: list = dataclasses.field(default_factory=list)
    positionals: list = dataclasses.field(default_factory=list)
    verbs: list = dataclasses.field(default_factory=list)        # Commands
    examples: list = dataclasses.field(default_factory=list)     # ("text" or "command", line)
    exit_status: str = ""

    def walk(self):
        """This command and all below it."""
        yield self
        for verb in self.verbs:
            yield from verb.walk()


def fail(words, line):
    sys.exit(f"error: lockstep {' '.join(words)} --help has a line that is not understood: '{line}'")


def parse_entry(left, meaning, words):
    """An option or a positional of its left column: '--bytes INT ... REQUIRED', '-m,--module', '--zero{false}'."""
    match = re.fullmatch(r"(?P<names>[^\s={]+)(?:\{\w+\})?(?: (?P<value>[A-Z]+)(?:=(?P<default>[^\s:]+))?"
                         r"(?::(?:\{(?P<choices>[^}]*)\}|[A-Z]+))?(?P<several> \.\.\.)?)?(?P<required> REQUIRED)?",
                         left)
    if match is None:
        fail(words, left)
    choices = match["choices"].split(",") if match["choices"] else []
    return Option(match["names"].split(","), match["value"] or "", choices, match["default"] or "",
                  match["required"] is not None, match["several"] is not None, meaning)


def parse_entries(lines, column, words):
    """The entries of a block of two columns; a name that is too long has its meaning on the next line."""
    entries, left = [], ""
    for line in lines:
        if left:
            if line[:column].strip():
                fail(words, left)
            entries.append(parse_entry(left, line.strip(), words))
            left = ""
        elif len(line) > column and line[column - 1] == " " and line[column] != " ":
            entries.append(parse_entry(line[:column].strip(), line[column:].strip(), words))
        else:
            left = line.strip()
    if left:
        fail(words, left)
    return entries


def parse_recipes(lines):
    """Of train's list: a line with name and meaning, and one with presets."""
    recipes = []
    for line in lines:
        if match := re.fullmatch(r" {2}(\S+) +(.*)", line):
            recipes.append((match[1], match[2], []))
        elif match := re.fullmatch(r" +presets: (.*)", line):
            recipes[-1][2].extend(match[1].split(", "))
    return recipes


def take_exit_status(command, paragraph):
    """Puts what a paragraph says about the exit code aside; the rest is description."""
    at = re.search(r"\b(The exit code|Exit code:)", paragraph)
    text = paragraph[:at.start()].strip() if at else paragraph
    if at:
        command.exit_status = paragraph[at.start():]
    if text:
        command.description.append(text)


def parse_head(command, text):
    """What stands before 'Usage:': the description, maybe a usage with more than options, maybe recipes."""
    head, _, recipes = text.partition("\n\nRecipes:\n")
    command.recipes = parse_recipes(recipes.splitlines())
    for line in head.splitlines():
        if line.startswith("lockstep "):
            command.usage = [line]
        elif line.strip():
            take_exit_status(command, line)


def parse_foot(command, text):
    """Notes, and behind 'example:' commands with words between them."""
    notes, *examples = re.split(r"^[Ee]xamples?:$", text, maxsplit=1, flags=re.M)
    paragraph = " ".join(line.strip() for line in notes.splitlines() if line.strip())
    if paragraph:
        take_exit_status(command, paragraph)
    for line in "".join(examples).splitlines():
        if line.strip():
            command.examples.append(("command" if line.startswith("  ") else "text", line.strip()))


def parse_command(command, text):
    """Of a verb that does something: CLI11's layout, with our description above and examples below."""
    match = re.fullmatch(r"(.*?)\n*Usage: ([^\n]+)\n\n(.*)", text, re.S)
    if match is None:
        fail(command.words, text.splitlines()[0] if text else "")
    parse_head(command, match[1])
    command.usage = command.usage or [match[2]]
    body, _, foot = match[3].partition("\n\n\n")
    first = next(line for line in body.splitlines() if line.startswith("  -h,--help"))
    column = len(re.match(r" {2}-h,--help +", first)[0])
    for block in body.split("\n\n"):
        title, *lines = block.splitlines()
        entries = parse_entries(lines, column, command.words)
        if title == "Options:":
            command.options = entries
        elif title == "Positionals:":
            command.positionals = entries
        else:
            fail(command.words, title)
    parse_foot(command, foot)


def parse_verbs(command, text):
    """Of a verb that has verbs: their names and summaries."""
    for line in text.splitlines():
        if match := re.fullmatch(r" {2}([a-z][a-z-]*) +(.*)", line):
            if match[1] != "lockstep":
                command.verbs.append(Command((*command.words, match[1]), match[2]))
    command.usage = [f"lockstep {' '.join((*command.words, 'VERB'))} [OPTIONS]"]


def parse_root(command, text):
    """Of `lockstep --help`: the verbs, the options that all have, and one example."""
    parse_verbs(command, text)
    command.description = [text.splitlines()[0]]
    for line in text.splitlines():
        if match := re.fullmatch(r" {2}lockstep (VERB )?(--\S+) *(.*)", line):
            command.options.append(Option([match[2]], "", [], "", False, False, match[3]))
            command.usage.append(f"lockstep {match[1] or ''}{match[2]}")
        elif line.startswith("Example: "):
            command.examples.append(("command", line.removeprefix("Example: ")))


class Programs:
    """Asks the built command."""

    def __init__(self, folder: pathlib.Path):
        self.program = folder.resolve() / "lockstep"
        self.texts = {}

    def said(self, *words):
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "100"}
        environment.pop("LOCKSTEP_LOG", None)
        done = subprocess.run([self.program, *words], capture_output=True, text=True, env=environment, timeout=300,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"error: lockstep {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        self.texts[" ".join(words)] = done.stdout
        return done.stdout


class Texts:
    """What the command said before: asking takes half a minute, because each answer loads libtorch."""

    def __init__(self, file: pathlib.Path):
        self.texts = json.loads(file.read_text())

    def said(self, *words):
        return self.texts[" ".join(words)]


def fill(source, command):
    """Reads the help of a verb and of those below it."""
    text = source.said(*command.words, "--help")
    if text.startswith("usage: "):
        parse_verbs(command, text)
        for verb in command.verbs:
            fill(source, verb)
    else:
        parse_command(command, text)


def read_commands(source):
    """The whole tree, two verbs at a time."""
    root = Command(())
    parse_root(root, source.said("--help"))
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda verb: fill(source, verb), root.verbs))
    return root


def read_version(source):
    return source.said("--version").split()[1]


def read_settings(source, recipe):
    """Setting -> its allowed words, which are none for numbers and paths; of 'base' or of a recipe."""
    result = {}
    for line in source.said("inspect", "config", recipe, "--json").splitlines():
        row = json.loads(line)
        words = row["allowed"].split(", ")
        result[row["key"]] = words if len(words) > 1 and all(re.fullmatch(r"[a-z]\w*", word) for word in words) else []
    return result


def recipes_of(root):
    """(name, meaning, presets) of each recipe."""
    return find_verb(root, "train").recipes


def find_verb(root, name):
    """The first verb of that name, at any depth."""
    return next(command for command in root.walk() if command.words and command.words[-1] == name)


def add_source_options(parser):
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--programs", type=pathlib.Path, metavar="DIR", help="the folder of the built programs")
    group.add_argument("--texts", type=pathlib.Path, metavar="FILE", help="what scripts/command_help.py --output wrote")


def source_of(arguments):
    return Texts(arguments.texts) if arguments.texts else Programs(arguments.programs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE", help="write all that the command said, as JSON")
    arguments = parser.parse_args()
    source = source_of(arguments)
    root = read_commands(source)
    read_version(source)
    for name in ("base", *(recipe[0] for recipe in recipes_of(root))):
        read_settings(source, name)
    if arguments.output:
        arguments.output.write_text(json.dumps(source.texts, indent=1, sort_keys=True))
        return
    for command in root.walk():
        names = [option.names[-1] for option in (*command.positionals, *command.options)]
        print("lockstep", *command.words, *names)


if __name__ == "__main__":
    main()
