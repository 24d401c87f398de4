#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links between this project's pages: the file must exist, and so must the heading. A bench/ program named in a page
must exist, under the path at which the preset "bench" builds it.

Prints page:line and the link for each that does not; exit code 1 if there is one.
Example: scripts/check/links.py --root .
"""
import pathlib
import re
import sys
import tempfile

import tree_check

LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+\s+(.*?)\s*#*$", re.M)
BENCH = re.compile(r"[\w./]*\bbench_(\w+)|\b(\w+)_bench\b")
FENCE = re.compile(r"^```.*?^```", re.S | re.M)


def anchors(text):
    """The headings' anchors on GitHub."""
    found, seen = set(), {}
    for heading in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        found.add(f"{name}-{count}" if count else name)
    return found


def pages(root):
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if parts[0] not in ("build", ".git"):
            yield path


def unbuilt_programs(root, page, text):
    for match in BENCH.finditer(text):
        name = match.group(1) or match.group(2)
        if match.group(0) != f"build/bench/bin/bench_{name}" or not (root / f"bench/{name}.cpp").is_file():
            line = text[:match.start()].count("\n") + 1
            yield f"{page.relative_to(root)}:{line}: {match.group(0)} is not build/bench/bin/bench_NAME of bench/NAME.cpp"


def offenders(root):
    root = pathlib.Path(root).resolve()
    for page in pages(root):
        text = page.read_text()
        if page.name != "CHANGELOG.md":
            yield from unbuilt_programs(root, page, text)
        for match in LINK.finditer(FENCE.sub(lambda code: "\n" * code.group(0).count("\n"), text)):
            link = match.group(1)
            if re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve() if file else page
            line = text[:text.find(match.group(0))].count("\n") + 1
            where = f"{page.relative_to(root)}:{line}: {link}"
            if not target.exists():
                yield f"{where}: there is no such file"
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
                yield f"{where}: there is no such heading"


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "a.md").write_text("# One `thing`, two\n[good](b.md#two-2) [self](#one-thing-two) [far](https://x.y)\n"
                                   "```\n[code](nowhere)\n```\n[bad](c.md)\n[worse](b.md#three)\n")
        (root / "b.md").write_text("## Two\n## Two: [2](a.md)\n")
        (root / "bench").mkdir()
        (root / "bench/step.cpp").write_text("")
        (root / "c/d.md").parent.mkdir()
        (root / "c/d.md").write_text("build/bench/bin/bench_step\nbuild/test/bench/bench_step\nbuild/bench/bin/bench_gone\n")
        found = list(offenders(root))
    if [line.split(" ")[0] for line in found[:1]] == ["a.md:6:"] and "b.md#three" in found[1] and \
            [line.split(":")[1] for line in found[2:]] == ["2", "3"]:
        return []
    return [f"found {found}"]


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
