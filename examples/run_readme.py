#!/usr/bin/env python3
"""Runs an example's README: its `sh` blocks, one after another in an empty folder, and compares their output.

The ```text block that follows an `sh` block shows that block's real output. Its lines must come in this order; `...` stands for
omitted lines, and with two ranks the order of neighbouring lines that begin with `rank` or `[` is free. Words and whole numbers
must be the same. These may differ from machine to machine: numbers with a decimal point, numbers with a unit, process numbers,
host names, paths below /tmp, digests, a stack's addresses, and the width of spaces and of table rules.

A comment in the README can ask for more. <!-- check: accuracy >= 0.97 --> compares the last number that follows the word
"accuracy" in the output of the preceding block. The operators are >= and <=. <!-- skip unless: COMMAND --> skips the whole
example, and says so, if the shell command fails. <!-- any number: WORD --> allows other numbers in the lines with WORD of the
preceding block. <!-- exit: N --> is the exit code of the preceding block (0 without such a comment).

example:
  examples/run_readme.py examples/01_hello_all_reduce --build build/test

exit code: 0 if the output is as shown, 1 if not, 77 if skipped
"""
import argparse
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

UNIT = r"(?:ns|us|µs|ms|s|min|h|%|x|B|KiB|MiB|GiB|TiB|kB|MB|GB|images/s|samples/s|GFLOPs?|TFLOPs?)\b|%|(?:MiB|GiB|KiB|B)/s"
LOOSE = [
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"/tmp/[^\s:,)]*"), "PATH"),
    (re.compile(r"\bpids? \d+"), "pid N"),
    (re.compile(r"\bthread \d+"), "thread N"),
    (re.compile(r"#\d+ (\S.*)\+0x[0-9a-f]+ \("), r"#N \1+0xN ("),
    (re.compile(r"\b(rank \d+) on [\w.-]+"), r"\1 on HOST"),
    (re.compile(r"\bon [\w.-]+\)"), "on HOST)"),
    (re.compile(r"(?<![\w.])[-+]?\d+\.\d+(?:e[-+]?\d+)?(?:\s?(?:" + UNIT + r"))?"), "N"),
    (re.compile(r"(?<![\w.])[-+]?\d[\d,]*\s?(?:" + UNIT + r")"), "N"),
    (re.compile(r"[-─━═▁▂▃▄▅▆▇█]{3,}"), "RULE"),
    (re.compile(r"\s+"), " "),
]


def loosened(line: str, free_words=()) -> str:
    for pattern, by in LOOSE:
        line = pattern.sub(by, line)
    if any(word in line for word in free_words):
        line = re.sub(r"\d+", "N", line)
    return line.strip()


@dataclasses.dataclass
class Step:
    """One sh block, with the page's conditions."""
    command: str
    shown: list = dataclasses.field(default_factory=list)   # lines of the text block
    checks: list = dataclasses.field(default_factory=list)  # (word, operator, bound)
    free_words: list = dataclasses.field(default_factory=list)  # numbers in lines with these words may differ
    exit_code: int = 0


def read_page(text: str):
    """Returns (steps, shell commands); the example is skipped unless all these commands succeed."""
    steps, needs = [], []
    pattern = re.compile(r"^```(sh|text)\n(.*?)^```|<!-- (check|exit|any number|skip unless): (.*?) -->", re.M | re.S)
    for language, block, kind, rest in pattern.findall(text):
        if language == "sh":
            steps.append(Step(block))
        elif kind == "skip unless":
            needs.append(rest)
        elif not steps:
            sys.exit("output or a check comes before the first sh block")
        elif language == "text":
            steps[-1].shown += block.splitlines()
        elif kind == "exit":
            steps[-1].exit_code = int(rest)
        elif kind == "any number":
            steps[-1].free_words.append(rest)
        else:
            word, operator, bound = re.fullmatch(r"(.+?) (>=|<=) (\S+)", rest).groups()
            steps[-1].checks.append((word, operator, float(bound)))
    return steps, needs


def is_free(line: str) -> bool:
    return re.match(r"\s*(\[|rank )", line) is not None


def is_of_findings(line: str, inside: bool) -> bool:
    return line.startswith(("finding ", "advice ")) or inside and line.startswith(" " * 9)


def without_findings(printed: list) -> list:
    """The lines without the step report's findings: on a machine that other programs use, it may find more than a page shows."""
    kept, inside = [], False
    for line in printed:
        inside = is_of_findings(line, inside)
        if not inside:
            kept.append(line)
    return kept


def first_missing(shown: list, printed: list, free_words=()):
    """The first line of `shown` that `printed` lacks at its position, or None."""
    if not any(is_of_findings(line, inside=False) for line in shown):
        printed = without_findings(printed)
    lines = [loosened(line, free_words) for line in printed]
    used, after, may_skip = set(), 0, True
    for line in shown:
        if line.strip() == "...":
            may_skip = True
            continue
        wanted = loosened(line, free_words)
        if not wanted:
            continue
        start = 0 if is_free(line) else after
        places = [at for at in range(start, len(lines)) if at not in used and lines[at] == wanted]
        if not places:
            return line
        between = [at for at in range(after, places[0]) if at not in used and lines[at] and not is_free(printed[at])]
        if between and not may_skip and not is_free(line):
            return f"{line}   (unexpected line before it: {printed[between[0]]})"
        used.add(places[0])
        if not is_free(line):
            after, may_skip = places[0] + 1, False
    return None


def failed_check(check, printed: str):
    word, operator, bound = check
    values = re.findall(re.escape(word) + r"\D*?(-?\d+(?:\.\d+)?)", printed)
    if not values:
        return f"no {word} was printed"
    value = float(values[-1])
    if value >= bound if operator == ">=" else value <= bound:
        return None
    return f"{word} is {value}, not {operator} {bound}"


def run_step(step: Step, folder: str, environment: dict):
    """Returns the fault, or None."""
    print(f"--- {step.command}", flush=True)
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", step.command], cwd=folder, env=environment, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(run.stdout, flush=True)
    if run.returncode != step.exit_code:
        return f"the exit code is {run.returncode}, not {step.exit_code}"
    missing = first_missing(step.shown, re.split(r"[\n\r]", run.stdout), step.free_words)
    if missing:
        return f"the README shows a line that was not printed at that point: {missing}"
    return next(filter(None, (failed_check(check, run.stdout) for check in step.checks)), None)


def self_test() -> None:
    page = "```sh\nx\n```\n```text\na 1.5 s\n...\nb 2\n```\n<!-- check: b >= 2 -->\n<!-- exit: 3 -->\n"
    (step,), needs = read_page(page)
    assert step.command == "x\n" and step.exit_code == 3 and not needs
    assert first_missing(step.shown, ["a 7.25 s", "other", "b 2"]) is None
    assert first_missing(step.shown, ["a 7.25 s", "other", "b 3"]) == "b 2"
    assert first_missing(step.shown, ["b 2", "a 7.25 s"]) == "b 2"
    assert first_missing(["a", "b"], ["a", "x", "b"]).startswith("b")
    finding = ["finding  rank 1 is slow; it waited", "         for a core", "advice   check what else runs"]
    assert first_missing(["a", "b"], ["a", *finding, "b"]) is None
    assert first_missing(["a", "b"], ["a", *finding, "x", "b"]).startswith("b")
    assert first_missing(["a", "finding  rank 2 is slow", "b"], ["a", *finding, "b"]).startswith("finding")
    assert first_missing(["rank 0 a", "rank 1 b"], ["rank 1 b", "rank 0 a"]) is None
    assert first_missing(["rank 0 a", "rank 0 a"], ["rank 0 a"]) == "rank 0 a"
    assert first_missing(["[0]: a", "warn: b", "c"], ["warn: b", "[0]: a", "c"]) is None
    assert first_missing(["exit code 3 (pid 12 on vm)"], ["exit code 3 (pid 99 on box)"]) is None
    assert first_missing(["#2 go(int)+0x70 (a)"], ["#3 go(int)+0x4c (a)"]) is None
    assert first_missing(["#2 go(int)+0x70 (a)"], ["#2 stay(int)+0x70 (a)"]) is not None
    assert first_missing(["rank 1 on vm failed"], ["rank 1 on box failed"]) is None
    assert first_missing(["digest " + "a1" * 32], ["digest " + "0f" * 32]) is None
    assert first_missing(["exit code 3"], ["exit code 4"]) == "exit code 3"
    assert first_missing(["epoch 3"], ["epoch 4"], ["epoch"]) is None
    assert first_missing(["epoch 3"], ["epoch 4"], ["step"]) == "epoch 3"
    assert failed_check(("b", ">=", 2), "b 1\nb 2.5") is None
    assert failed_check(("b", "<=", 2), "b 2.5") == "b is 2.5, not <= 2"
    print("self-test passed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="the example")
    parser.add_argument("--build", type=Path, help="the build folder, with bin and examples")
    parser.add_argument("--self-test", action="store_true", help="test this program")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if not arguments.folder or not arguments.build:
        parser.error("pass the example's folder and --build")
    source, build = arguments.folder.resolve(), arguments.build.resolve()
    steps, needs = read_page((source / "README.md").read_text())
    if not steps or not any(step.shown for step in steps):
        sys.exit("the README has no sh block followed by its output")
    environment = dict(os.environ, PATH=f"{build}/bin:{build}/examples:{os.environ['PATH']}", EXAMPLE=str(source),
                       BUILD=str(build))
    # Real data is in a folder next to the project, as for the C++ tests; if it is missing, examples draw their own.
    environment.setdefault("LOCKSTEP_DATA", str(source.parents[1] / "../shared/data"))
    for need in needs:
        if subprocess.run(["bash", "-c", need], env=environment, check=False, capture_output=True).returncode:
            print(f"skipped: `{need}` fails here")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            wrong = run_step(step, folder, environment)
            if wrong:
                sys.exit(wrong)
    print(len(steps), "commands printed what the README shows")


if __name__ == "__main__":
    main()
