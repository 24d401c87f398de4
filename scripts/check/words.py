#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts habits of our English that docs/style.md rules out, in comments and pages, and names in pages that the tree lacks.

scripts/check/words.txt holds the counts of each module and folder. A count that rises is a fault; one that falls is recorded
with --lower. The rules:
  opener   a sentence that opens with a clause: `What ...`, `Which ...`, `Whether ...`, `Who ...`; a heading may
  where    `where` for a condition, as in `empty where it has none`
  tell     the words `tells`, `told`
  stand    the words `stands`, `stood`
  nobody   the words `nobody`, `somebody`
  returns  "Returns ..." above a void function
  name     a parameter named of, by, how or mine
  missing  a file, `Name::member` or `function()` in a page that the tree does not have

Prints a line for each count that rose; exit code 1 if there is one.
examples:
  scripts/check/words.py --root .
  scripts/check/words.py --list where comm        # the places of a rule, in one folder
  scripts/check/words.py --rates                  # per 1,000 words
  scripts/check/words.py --lower                  # records what has fallen
"""
import argparse
import collections
import pathlib
import re
import sys
import tempfile

import page_names
import prose
from sizes import NOISE, blank

BUDGET = "scripts/check/words.txt"
RULES = ("opener", "where", "tell", "stand", "nobody", "returns", "name", "missing")
HEAD = "# How often each rule of scripts/check/words.py is broken, by module and folder. A number only falls; --lower writes it.\n"

OPENER = re.compile(r"(?:^[\W_]*|[.!?:;]\)?\s+[\"'(]*)(What|Which|Whether|Who)\b(?!['’])")
START = re.compile(r"^[\W_]*(what|which|whether|who)\b", re.I)
SIMPLE = {"tell": re.compile(r"\b(?:tells?|told)\b", re.I), "stand": re.compile(r"\b(?:stands?|stood)\b(?!-)", re.I),
          "nobody": re.compile(r"\b(?:nobody|somebody)\b", re.I)}
WHERE = re.compile(r"\bwhere\b", re.I)
# `where` is right after a place, and after a verb of knowing or showing.
PLACE = re.compile(r"\b(?:from|to|that|is|are|place|point|position|folder|director(?:y|ie)|file|line|page|row|column|cell|table|region|pixel|part|node|host"
                   r"|machine|address|offset|memory|segment|branch|loop|graph|block|window|box|edge|corner|world|mode|program|process"
                   r"|knows?|known|shows?|shown|says?|sees?|seen|finds?|found|names?|prints?|lists?|looks?|remembers?|decides?|learns?|asks?"
                   r"|goes|go|went|stays?|stayed|continues?|begins?|starts?|exactly|just|only|everywhere|anywhere|here|there|and|or|of|matter)(?:e?s)?,?\s+$", re.I)
TO_LIE = re.compile(r"^where(?:\b[^.,;:]*\b(?:lies?|lay|goes|go|went|left|belongs?|comes? from|to)\b|[^.,;:]*\b(?:is|are|was)[.:;,]|\W*$"
                    r"|[,.;:]|\s*\|)", re.I)
VOID = re.compile(r"\s*(?:template\s*<[^;{]*>\s*)?(?:(?:static|virtual|inline|constexpr|explicit|friend|HWY_INLINE|\[\[\w+\]\])\s+)*"
                  r"void\s+[\w:~]+\s*\(")
PARAMETER = re.compile(r"(?:[\w>]|[\w>][&*]{1,2})\s+(of|by|how|mine)\s*(?=[,)])")
NO_TYPE = re.compile(r"\b(?:return|co_return|throw|case|else|delete|and|or|not)\s+(?:of|by|how|mine)$")


def is_question(text, at):
    end = re.search(r"[.?!](?:\s|$)", text[at:])
    return end is not None and end.group(0).startswith("?")


def is_condition(text, match):
    """True if this `where` means `if` or `when`."""
    before, after = text[:match.start()], text[match.start():]
    if re.search(r"(?:^[\W_]*|[.:;(]\s+)$", before):  # it opens a sentence: a condition has its main clause after a comma
        return re.match(r"where\b[^.;:]*?,\s", after, re.I) is not None and TO_LIE.match(after) is None
    return PLACE.search(before) is None and TO_LIE.match(after) is None


def broken(block):
    """(rule, line) of each habit in a block."""
    text = prose.CODE.sub(lambda code: "`" + "x" * (len(code.group(0)) - 2) + "`", block.text)
    start = START.match(text)
    opened = [start.start(1)] if start and block.words() > 2 else []
    first = start.end() if start else 0
    opened += [match.start(1) for match in OPENER.finditer(text) if match.start(1) >= first]
    yield from (("opener", block.line(at)) for at in opened if not block.is_title and not is_question(text, at))
    for rule, pattern in SIMPLE.items():
        yield from ((rule, block.line(match.start())) for match in pattern.finditer(text))
    yield from (("where", block.line(match.start())) for match in WHERE.finditer(text) if is_condition(text, match))


def broken_code(text, blocks):
    """(rule, line) of what the code itself breaks."""
    lines = text.splitlines()
    for block in blocks:
        following = "\n".join(lines[block.starts[-1][1]:block.starts[-1][1] + 3])
        if re.match(r"Returns\b", block.text) and VOID.match(following):
            yield "returns", block.starts[0][1]
    code = NOISE.sub(blank, text)
    line = prose.line_numbers(code)
    for match in PARAMETER.finditer(code):
        if not NO_TYPE.search(code[:match.end()][-40:]):
            yield "name", line(match.start())


def folder_of(path):
    """The row in which a file counts: a module, a recipe, or a folder of pages."""
    parts = path.parts
    if path.suffix == ".md":
        kind = "/".join(parts[:2]) if parts[0] == "docs" and len(parts) > 2 else parts[0] if parts[0] == "docs" else "."
        return "pages", kind if len(parts) == 1 or parts[0] == "docs" else "modules"
    if parts[0] in ("include", "internal"):
        parts = ("src",) + (parts[2:] if len(parts) > 3 else ("umbrella",))
    named = parts[0] in ("src", "recipes", "apps") and len(parts) > 2
    return "comments", "/".join(parts[:2]) if named else parts[0]


class Count:
    """The findings: places by rule and row, and words by row."""

    def __init__(self):
        self.places = collections.defaultdict(list)
        self.words = collections.Counter()

    def add(self, name, blocks, faults):
        row = folder_of(name)
        self.words[row] += sum(block.words() for block in blocks)
        for rule, line in faults:
            self.places[row, rule].append(f"{name}:{line}")

    def rows(self):
        return sorted(self.words)

    def number(self, row, rule):
        return len(self.places[row, rule])


def count(root):
    found = Count()
    for path in prose.cpp_files(root):
        text = path.read_text(errors="replace")
        blocks = prose.cpp_comments(text)
        found.add(path.relative_to(root), blocks, [fault for block in blocks for fault in broken(block)] + list(broken_code(text, blocks)))
    for path in prose.python_files(root):
        blocks = prose.python_comments(path.read_text(errors="replace"))
        found.add(path.relative_to(root), blocks, [fault for block in blocks for fault in broken(block)])
    pages = list(prose.pages(root))
    for path in pages:
        name = path.relative_to(root)
        if name.parts[:2] != ("docs", "zh") and not name.name.endswith(".zh.md"):
            blocks = prose.page_blocks(path.read_text())
            found.add(name, blocks, [] if name.parts == ("docs", "style.md") else [fault for block in blocks for fault in broken(block)])
    for page, line, missing in page_names.missing(root, pages):
        found.places[folder_of(page.relative_to(root)), "missing"].append(f"{page.relative_to(root)}:{line}: {missing}")
    for row in [row for row, _ in found.places]:
        found.words[row] += 0
    return found


def table(rows):
    """The text of words.txt."""
    lines = [f"{'':9}{'':24}" + "".join(f"{rule:>9}" for rule in RULES)]
    lines += [f"{kind:9}{folder:24}" + "".join(f"{number:9}" for number in numbers) for (kind, folder), numbers in sorted(rows.items())]
    return HEAD + "\n".join(line.rstrip() for line in lines) + "\n"


def read_table(root):
    rows = {}
    path = root / BUDGET
    for line in path.read_text().splitlines() if path.is_file() else ():
        parts = line.split()
        if len(parts) == len(RULES) + 2 and not line.startswith("#"):
            rows[parts[0], parts[1]] = [int(part) for part in parts[2:]]
    return rows


def offenders(root):
    root = pathlib.Path(root).resolve()
    found, allowed = count(root), read_table(root)
    for row in found.rows():
        for rule, most in zip(RULES, allowed.get(row, [0] * len(RULES))):
            number = found.number(row, rule)
            if number > most:
                yield f"{BUDGET}: {' '.join(row)}: {rule}: {number} times, {most} before; scripts/check/words.py --list {rule} {row[1]}"


def lower(root, found):
    """Records what has fallen. A row that words.txt lacks gets today's numbers only if there is no file yet."""
    allowed = read_table(root)
    first = not allowed
    rows = {}
    for row in found.rows():
        now = [found.number(row, rule) for rule in RULES]
        rows[row] = now if first else [min(pair) for pair in zip(now, allowed.get(row, [0] * len(RULES)))]
    (root / BUDGET).write_text(table(rows))


def rates(found):
    """Lines with the counts per 1,000 words, for comments and for pages."""
    for kind in ("comments", "pages"):
        rows = [row for row in found.rows() if row[0] == kind]
        words = sum(found.words[row] for row in rows)
        sums = {rule: sum(found.number(row, rule) for row in rows) for rule in RULES}
        shown = ", ".join(f"{rule} {1000 * sums[rule] / max(words, 1):.2f} ({sums[rule]})" for rule in RULES)
        yield f"{kind}: {words} words; per 1,000: {shown}"


BAD = '''/// What is counted here.
/// Returns the sum. Who adds? It is empty where nobody was told.
void add(const Sum& of, int how) { return of; }
int a = 0;  ///< whether it stands there
// Where it is late, it waits. Where the files lie. The folder where it is. From where it came. Says where it was.
'''
PAGE = "# What a page holds\n\nWhat it holds is this. No `src/a/gone.h`, no `Sum::gone`, no `gone()`; `src/a/a.cpp`, `a.cpp`, `Sum::there`, `add()`, `torch::x`.\n\n" \
       "```\nwhere it is told\n```\n| rule | told |\n|---|---|\n| who comes first | is first |\n"


def self_test():
    """A tree with known faults; then one more of each."""
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder).resolve()
        (root / "src/a").mkdir(parents=True)
        (root / "scripts/check").mkdir(parents=True)
        (root / "src/a/a.cpp").write_text(BAD + "struct Sum { int there; };\n")
        (root / "scripts" / "go.py").write_text('"""Goes.\n\nWho goes is told.\n"""\nx = 1  # what it is for\n')
        (root / "README.md").write_text(PAGE)
        found = count(root)
        numbers = {row: [found.number(row, rule) for rule in RULES] for row in found.rows()}
        expected = {("comments", "src/a"): [2, 2, 1, 1, 1, 0, 2, 0], ("comments", "scripts"): [2, 0, 1, 0, 0, 0, 0, 0],
                    ("pages", "."): [2, 0, 1, 0, 0, 0, 0, 3]}
        failures += [f"{row}: {numbers.get(row)} instead of {wanted}" for row, wanted in expected.items() if numbers.get(row) != wanted]
        failures += [] if len(list(offenders(root))) == 11 else ["without words.txt everything is allowed"]
        lower(root, found)
        failures += [f"after --lower: {line}" for line in offenders(root)]
        failures += more_of_each(root)
    return failures


def more_of_each(root):
    """Each rule, broken once more: the check must report that rule and no other, and --lower must not record it."""
    more = {"opener": "// What comes next.\n", "where": "// Empty where it has none.\n", "tell": "// It tells.\n", "stand": "// It stands.\n",
            "nobody": "// It meets nobody.\n", "returns": "/// Returns it.\n[[x]] void f();\n", "name": "int f(int by);\n"}
    source, page = root / "src/a/a.cpp", root / "README.md"
    was, page_was = source.read_text(), page.read_text()
    for rule in RULES:
        source.write_text(was + "\n" + more.get(rule, ""))
        page.write_text(page_was + ("\n`src/a/lost.cpp`\n" if rule == "missing" else ""))
        lower(root, count(root))
        said = list(offenders(root))
        if len(said) != 1 or f": {rule}: " not in said[0]:
            yield f"{rule}: {said}"
    source.write_text(was.replace("nobody", "no thread"))
    page.write_text(page_was)
    lower(root, count(root))
    source.write_text(was)
    if not any(": nobody: 1 times, 0 before" in line for line in offenders(root)):
        yield "a count that fell may rise again"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=str(pathlib.Path(__file__).resolve().parents[2]), help="the checkout")
    parser.add_argument("--self-test", action="store_true", help="verify that the check fails on bad input")
    parser.add_argument("--list", nargs="+", metavar=("RULE", "FOLDER"), help="print the places of a rule")
    parser.add_argument("--rates", action="store_true", help="print the counts per 1,000 words")
    parser.add_argument("--lower", action="store_true", help="record the counts that fell")
    options = parser.parse_args()
    root = pathlib.Path(options.root).resolve()
    if options.self_test:
        lines = self_test()
    elif options.lower:
        return lower(root, count(root)) or 0
    elif options.rates:
        print("\n".join(rates(count(root))))
        return 0
    elif options.list:
        found = count(root)
        wanted = options.list[1:]
        lines = [place for row in found.rows() if not wanted or row[1] in wanted or row[1].split("/")[-1] in wanted
                 for place in found.places[row, options.list[0]]]
        print("\n".join(lines))
        return 0
    else:
        lines = list(offenders(root))
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
