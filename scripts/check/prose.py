# SPDX-License-Identifier: Apache-2.0
"""Finds the project's English: the comments in C++ and Python, and the text of pages, as blocks of lines.

A block is a paragraph, a run of sentences, so that a rule can check how a sentence begins.
"""
import ast
import io
import pathlib
import re
import tokenize

from sizes import FOLDERS as CPP_FOLDERS, NOISE, SOURCES

MARK = re.compile(r"^\s*(?://+[!<]*|#+!?)\s?")
NO_PROSE = re.compile(r"SPDX-License-Identifier|^\s*(?:NOLINT|clang-format|!|-\*-|type: ignore|pylint)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.S | re.M)
WRITTEN_BY_PROGRAMS = re.compile(r"<!-- (files|entries|settings|soak|scaling|trials)\b.*?<!-- /\1 -->", re.S)
NOTE = re.compile(r"<!--.*?-->", re.S)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\([^)\s]*\)")
ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.|#+)\s")
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


class Block:
    """One paragraph: the text of its lines, joined by spaces, and the line number of every position in it."""

    def __init__(self, number, line, is_title=False):
        self.text, self.starts, self.is_title = line.strip(), [(0, number)], is_title

    def add(self, number, line):
        self.starts.append((len(self.text) + 1, number))
        self.text += " " + line.strip()

    def line(self, at):
        return next(number for start, number in reversed(self.starts) if start <= at)

    def words(self):
        return len(WORD.findall(self.text))


def join(lines, titles=()):
    """Blocks from (number, text, continues): a line that continues belongs to the previous block."""
    blocks = []
    for number, text, continues in lines:
        if NO_PROSE.search(text) or not text.strip():
            continue
        if continues and blocks and blocks[-1].starts[-1][1] == number - 1:
            blocks[-1].add(number, text)
        else:
            blocks.append(Block(number, text, number in titles))
    return blocks


def line_numbers(text):
    """A function from a position in the text to its line; positions must not decrease."""
    state = [0, 1]

    def line(at):
        state[1] += text.count("\n", state[0], at)
        state[0] = at
        return state[1]
    return line


def cpp_comments(text):
    lines, line, column = [], line_numbers(text), -1
    for match in NOISE.finditer(text):
        said = match.group(0)
        if not said.startswith("//"):
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        alone = not text[begin:match.start()].strip()
        lines.append((line(match.start()), MARK.sub("", said), alone and column == match.start() - begin))
        column = match.start() - begin
    return join(lines)


def python_comments(text):
    lines = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                lines.append((token.start[0], MARK.sub("", token.string), not token.line[:token.start[1]].strip()))
        tree = ast.parse(text)
    except (tokenize.TokenError, SyntaxError):
        return join(lines)
    blocks = join(lines)
    for node in ast.walk(tree):
        first = node.body[0] if isinstance(getattr(node, "body", None), list) and node.body else None
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(first, ast.Expr) \
                and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            blocks += paragraphs(first.value.value, first.lineno)
    return blocks


def paragraphs(text, number=1):
    """The blocks of a page or a docstring: items, headings and table cells begin one."""
    lines, open_block, titles, all_lines = [], False, set(), text.splitlines()
    for at, line in enumerate(all_lines, number):
        if line.startswith("#") or re.match(r"\s*\|[-:| ]+\|\s*$", (all_lines + [""])[at - number + 1]):
            titles.add(at)
        if line.lstrip().startswith("|"):
            lines += [(at, cell.replace("**", ""), False) for cell in line.strip().strip("|").split("|") if cell.strip(" -:")]
            open_block = False
            continue
        lines.append((at, ITEM.sub("", line).replace("**", "").lstrip(">* "), open_block and not ITEM.match(line)))
        open_block = bool(line.strip()) and not line.startswith("#")
    return join(lines, titles)


def blank(match):
    return "\n" * match.group(0).count("\n")


def page_text(text):
    """A page without its code and without generated tables."""
    for what in (FENCE, WRITTEN_BY_PROGRAMS, NOTE):
        text = what.sub(blank, text)
    return text


def page_blocks(text):
    return paragraphs(LINK.sub("]", CODE.sub("`code`", page_text(text))))


def is_python(path):
    if path.suffix:
        return path.suffix == ".py"
    with path.open("rb") as file:
        return re.match(rb"#!.*python", file.readline()) is not None


def files(root, folder):
    return sorted(path for path in (root / folder).rglob("*") if path.is_file() and "corpora" not in path.parts
                  and "node_modules" not in path.parts)


def cpp_files(root):
    return [path for folder in CPP_FOLDERS for path in files(root, folder) if path.suffix in SOURCES]


def python_files(root):
    return [path for folder in ("scripts", "tests", "bench", "recipes", "packaging") for path in files(root, folder)
            if path.suffix in ("", ".py") and is_python(path)]


def pages(root):
    """Every page except CHANGELOG.md, which describes the past."""
    for path in sorted(root.rglob("*.md")):
        parts = path.relative_to(root).parts
        if parts[0] not in ("build", ".git") and "node_modules" not in parts and parts != ("CHANGELOG.md",):
            yield path
