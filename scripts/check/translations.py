#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that docs/zh says in Chinese what docs/guide says in English.

Both have the same pages. A page and its translation have headings of the same levels in the same order, the same code blocks
and tables of settings, and as many table rows: so the tests of the English page also cover the Chinese one. A Chinese page
links to Chinese pages if they exist. docs/zh may also have a glossary. Prints page: difference; exit code 1 if there is one.
Example: scripts/check/translations.py --root .
"""
import pathlib
import re
import sys
import tempfile

import tree_check

FENCE = re.compile(r"^ {0,3}```(.*?)\n(.*?)^ {0,3}```[ \t]*$", re.S | re.M)
SETTINGS = re.compile(r"^<!-- settings: .*?^<!-- /settings -->$", re.S | re.M)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}[^\n]*\n)+")
HEADING = re.compile(r"^(#+) (.*)$", re.M)
ROW = re.compile(r"^ {0,3}\|", re.M)
GUIDE_LINK = re.compile(r"\]\(\.\./guide/([\w.]+)")
ONLY_CHINESE = ("glossary.md",)
# The program generates the tables of this page in English. They would be most of the page, so the translation only names them.
WITHOUT_TABLES = ("settings.md",)


def prose(text):
    return SETTINGS.sub("", FENCE.sub("", text))


def first_line(block):
    return block.split("\n")[0] if block else ""


def compared(what, english, chinese):
    """Says where two lists of strings first differ."""
    for number, (here, there) in enumerate(zip(english, chinese), 1):
        if here != there:
            lines = zip(here.split("\n"), there.split("\n"))
            line = next((pair for pair in lines if pair[0] != pair[1]), (first_line(here), first_line(there)))
            yield f"{what} {number} differs: '{line[0]}' in English, '{line[1]}' here"
            return
    if len(english) != len(chinese):
        yield f"{len(english)} of {what} in English, {len(chinese)} here"


def page_differences(name, english, chinese):
    blocks = [["\n".join(block) for block in FENCE.findall(text)] for text in (english, chinese)]
    yield from compared("code block", *blocks)
    yield from compared("indented block", *(INDENTED.findall(prose(text)) for text in (english, chinese)))
    if name not in WITHOUT_TABLES:
        yield from compared("table of settings", *(SETTINGS.findall(text) for text in (english, chinese)))
    headings = [HEADING.findall(prose(text)) for text in (english, chinese)]
    for (here, title), (there, translated) in zip(*headings):
        if here != there:
            yield f"'{here} {title}' in English corresponds to '{there} {translated}'"
            break
    if len(headings[0]) != len(headings[1]):
        yield f"{len(headings[0])} headings in English, {len(headings[1])} here"
    rows = [len(ROW.findall(prose(text))) for text in (english, chinese)]
    if rows[0] != rows[1]:
        yield f"{rows[0]} table rows in English, {rows[1]} here"


def offenders(root):
    english, chinese = pathlib.Path(root, "docs", "guide"), pathlib.Path(root, "docs", "zh")
    names = sorted(path.name for path in english.glob("*.md"))
    if not names:
        yield "docs/guide has no page"
    for path in sorted(chinese.glob("*.md")):
        if path.name not in names and path.name not in ONLY_CHINESE:
            yield f"docs/zh/{path.name}: docs/guide has no such page"
    for name in names:
        if not (chinese / name).exists():
            yield f"docs/zh/{name}: the translation of docs/guide/{name} is missing"
            continue
        text = (chinese / name).read_text()
        for difference in page_differences(name, (english / name).read_text(), text):
            yield f"docs/zh/{name}: {difference}"
        for link in GUIDE_LINK.findall(text):
            if (chinese / link).exists() and name not in WITHOUT_TABLES:
                yield f"docs/zh/{name}: links to the English {link}, but there is a Chinese one"


SAMPLE = """# One

| a | b |
|---|---|
| 1 | 2 |

```sh
lockstep run
```

## Two

    an error

<!-- settings: base -->

| key |
|---|

<!-- /settings -->
"""
# Faults of a translation: the change, and a word of the expected message.
MUTATIONS = {
    "a missing page": (None, "is missing"),
    "a missing heading": (lambda page: page.replace("## Two\n", ""), "headings"),
    "a heading with another level": (lambda page: page.replace("## Two", "### Two"), "corresponds to"),
    "a changed block": (lambda page: page.replace("lockstep run", "lockstep walk"), "lockstep walk"),
    "a block in another language": (lambda page: page.replace("```sh", "```text"), "code block"),
    "a missing block": (lambda page: FENCE.sub("", page), "of code block"),
    "a changed message": (lambda page: page.replace("an error", "a mistake"), "a mistake"),
    "a missing row": (lambda page: page.replace("| 1 | 2 |\n", ""), "rows"),
    "an old table of settings": (lambda page: page.replace("| key |", "| old |"), "table of settings"),
    "an English link": (lambda page: page + "\n[one](../guide/one.md)\n", "English one.md"),
}


def written(root, page):
    for folder, text in (("guide", SAMPLE), ("zh", page)):
        path = root / "docs" / folder
        path.mkdir(parents=True)
        if text is not None:
            (path / "one.md").write_text(text)
    return list(offenders(root))


def self_test():
    found = []
    with tempfile.TemporaryDirectory() as folder:
        faithful = written(pathlib.Path(folder, "same"), SAMPLE.replace("# One", "# 一").replace("## Two", "## 二"))
        found += [f"a faithful translation is rejected: {line}" for line in faithful]
        for number, (mutation, (change, word)) in enumerate(MUTATIONS.items()):
            lines = written(pathlib.Path(folder, str(number)), change(SAMPLE) if change else None)
            if not any(word in line for line in lines):
                found.append(f"{mutation} is not noticed: {lines}")
        extra = pathlib.Path(folder, "same", "docs", "zh")
        (extra / "other.md").write_text("# 三\n")
        (extra / "glossary.md").write_text("# 四\n")
        if [line.split(":")[0] for line in offenders(extra.parents[1])] != ["docs/zh/other.md"]:
            found.append("a page that only docs/zh has is not noticed, or the glossary is")
    return found


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
