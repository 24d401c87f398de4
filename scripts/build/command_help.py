#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the --help of `lockstep` and of every verb, for scripts/build/man_pages and scripts/build/completions.

A line that it does not understand is an error, so no option gets lost when the help changes. On its own, it prints the verbs and
their options.
Example: scripts/build/command_help.py --programs build/release/bin
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys


@dataclasses.dataclass
class Option:
    """An option, or a positional argument if `names` is one word without dashes."""
    names: list
    value: str       # "FILE", "auto|cpu|cuda", ...; empty: a switch
    default: str
    required: bool
    several: bool
    meaning: str
    group: str = ""

    @property
    def choices(self):
        """The words that can be typed: the lowercase ones in "none|auto|PATH"."""
        return [word for word in self.value.split("|") if re.fullmatch(r"[a-z]\w*", word)]


@dataclasses.dataclass
class Command:
    words: tuple     # ("checkpoint", "diff"); empty: lockstep itself
    summary: str = ""
    usage: str = ""
    description: list = dataclasses.field(default_factory=list)  # paragraphs
    recipes: list = dataclasses.field(default_factory=list)      # (name, meaning, presets)
    options: list = dataclasses.field(default_factory=list)
    positionals: list = dataclasses.field(default_factory=list)
    verbs: list = dataclasses.field(default_factory=list)        # Commands
    notes: list = dataclasses.field(default_factory=list)        # paragraphs
    exit_codes: list = dataclasses.field(default_factory=list)   # (code, meaning)
    examples: list = dataclasses.field(default_factory=list)     # lists of lines

    def walk(self):
        """This command and all below it."""
        yield self
        for verb in self.verbs:
            yield from verb.walk()


def fail(words, line):
    sys.exit(f"error: lockstep {' '.join(words)} --help has a line that cannot be parsed: '{line}'")


def parse_rows(lines, column, words):
    """(left, lines on the right) of two columns; a long left side is on a separate line."""
    rows = []
    for line in lines:
        is_split = line[column - 2:column] == "  "
        left, right = (line[:column].strip(), line[column:].strip()) if is_split else (line.strip(), "")
        if left:
            rows.append((left, [right] if right else []))
        elif rows and right:
            rows[-1][1].append(right)
        else:
            fail(words, line)
    for left, right in rows:
        if not right:
            fail(words, left)
    return rows


def parse_option(left, right, words, group):
    """An option or an argument from its left column: '-u, --update KEY=VALUE ...', '--new-token [FILE]', 'RECIPE'."""
    meaning = " ".join(right)
    required = meaning.startswith("(required) ")
    default = re.search(r" \(default: (.*)\)$", meaning)
    plain = meaning.removeprefix("(required) ").removesuffix(default[0] if default else "")
    if not left.startswith("-"):
        return Option([left.removesuffix("...")], "", "", True, left.endswith("..."), plain, group)
    match = re.fullmatch(r"(?P<names>-[\w-]+(?:, -[\w-]+)*)(?: \[?(?P<value>[^\s\]]+)\]?(?P<several> \.\.\.)?)?", left)
    if match is None:
        fail(words, left)
    return Option(match["names"].split(", "), match["value"] or "", default[1] if default else "", required,
                  match["several"] is not None, plain, group)


def parse_recipes(rows):
    """Train's list of recipes: the meaning, and on a separate line the presets."""
    recipes = []
    for name, right in rows:
        meaning, _, presets = "\n".join(right).partition("\npresets: ")
        recipes.append((name, meaning.replace("\n", " "), presets.replace("\n", " ").split(", ")))
    return recipes


def parse_examples(lines):
    """A list of lines for each command: a backslash continues a long one."""
    examples = []
    for line in lines:
        if line.startswith("      "):
            examples[-1].append(line[2:])
        else:
            examples.append([line.strip()])
    return examples


def paragraphs(text):
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def parse_section(command, title, lines, column):
    if title == "Examples":
        command.examples = parse_examples(lines)
        return
    rows = parse_rows(lines, column, command.words)
    if title == "Recipes":
        command.recipes = parse_recipes(rows)
    elif title == "Exit code":
        command.exit_codes = [(left, " ".join(right)) for left, right in rows]
    elif title == "Verbs":
        command.verbs = [Command((*command.words, left), " ".join(right)) for left, right in rows]
    elif title == "Arguments":
        command.positionals = [parse_option(left, right, command.words, "") for left, right in rows]
        for option in command.positionals:
            option.several = option.several or f"{option.names[0]}..." in command.usage
    else:
        command.options += [parse_option(left, right, command.words, title) for left, right in rows]


def parse_command(command, text):
    """The text of every --help (apps/common/help.cpp): a description, the usage, sections, and paragraphs between them."""
    match = re.fullmatch(r"(.*?)\n\nUsage: ([^\n]+)\n(.*)", text, re.S)
    first = re.search(r"^ {2}-h, --help +", text, re.M)
    if match is None or first is None:
        fail(command.words, text.splitlines()[0] if text else "")
    command.description = paragraphs(match[1])
    command.usage = match[2]
    for block in match[3].strip("\n").split("\n\n"):
        title, *lines = block.splitlines()
        if lines and re.fullmatch(r"[A-Z][^.]*:", title) and lines[0].startswith("  "):
            parse_section(command, title[:-1], lines, len(first[0]))
        elif not title.startswith("Run 'lockstep"):
            command.notes += paragraphs(block)


class Worker:
    """A lockstep-worker that answers many requests: each start would load libtorch, which costs half a second of CPU time."""

    def __init__(self, program, environment):
        self.process = subprocess.Popen([program, "answers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.verbs = re.findall(r"^ {2}([a-z]\w*) {2}", self.said("--help"), re.M)

    def said(self, *words):
        self.process.stdin.write("\t".join((".", *words)) + "\n")
        self.process.stdin.flush()
        text = ""
        for line in self.process.stdout:
            rest, found, code = line.partition("\f")
            text += rest
            if found and int(code) == 0:
                return text
            if found:
                break
        sys.exit(f"error: lockstep-worker {' '.join(words)} failed (see above)")


class Programs:
    """Asks the built command; or lockstep-worker for its verbs, which the command would exec."""

    def __init__(self, folder: pathlib.Path):
        self.program = folder.resolve() / "lockstep"
        self.environment = {**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", "COLUMNS": "100"}
        self.environment.pop("LOCKSTEP_LOG", None)
        self.worker = Worker(folder.resolve() / "lockstep-worker", self.environment)
        self.texts = {}

    def said(self, *words):
        text = self.worker.said(*words) if words[0] in self.worker.verbs else self.ask(words)
        self.texts[" ".join(words)] = text
        return text

    def ask(self, words):
        done = subprocess.run([self.program, *words], capture_output=True, text=True, env=self.environment, timeout=300,
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"error: lockstep {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout


class Texts:
    """The command's cached output: asking takes half a minute, because each call loads libtorch."""

    def __init__(self, file: pathlib.Path):
        self.texts = json.loads(file.read_text())

    def said(self, *words):
        return self.texts[" ".join(words)]


def fill(source, command):
    """Reads the help of a verb and of those below it."""
    parse_command(command, source.said(*command.words, "--help"))
    for verb in command.verbs:
        fill(source, verb)


def read_commands(source):
    """The whole tree."""
    root = Command(())
    fill(source, root)
    return root


def read_version(source):
    return source.said("--version").split()[1]


def read_settings(source, recipe):
    """Setting -> its allowed values (none for numbers and paths), for 'base' or a recipe."""
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
    group.add_argument("--texts", type=pathlib.Path, metavar="FILE",
                       help="file written by scripts/build/command_help.py --output")


def source_of(arguments):
    return Texts(arguments.texts) if arguments.texts else Programs(arguments.programs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_source_options(parser)
    parser.add_argument("--output", type=pathlib.Path, metavar="FILE",
                        help="write all help texts of the command as JSON")
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
