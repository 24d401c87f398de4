# SPDX-License-Identifier: Apache-2.0
"""Finds names in pages that the tree lacks: files, `Name::member` and `function()`, between backticks.

It only knows which words the sources contain: a member exists if a file that declares its class contains the word.
"""
import pathlib
import re

import prose
from sizes import NOISE

SOURCE_FOLDERS = ("include", "internal", "src", "apps", "recipes", "tests", "bench", "fuzz", "examples", "scripts", "cmake", "docs",
                  "packaging", "web")
PATH = re.compile(r"^(?:\.{1,2}/)*[\w.+-]+(?:/[\w.+-]+)*/?$")
OURS = (".h", ".cpp", ".cu", ".py", ".md", ".cmake")
MEMBER = re.compile(r"\b([A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)+)")
CALL = re.compile(r"(?<![\w.:>])([A-Za-z_]\w+)\(\)")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
DECLARES = re.compile(r"\b(?:class|struct|enum(?:\s+class)?|namespace|concept|using)\s+(?:\[\[\w+\]\]\s*)?([\w:]+)")
QUALIFIED = re.compile(r"\b(\w+)::(~?\w+)")
FOREIGN_SCOPES = {"torch", "std", "at", "c10", "c10d", "cv", "asio", "nn", "optim", "data", "chrono", "filesystem", "fs", "cuda", "aten"}
FOREIGN_PATHS = re.compile(r"^(?:torch|ATen|c10|hwy|nlohmann|asio|peers)/")
# Pages about other programs, whose functions are not ours.
ABOUT_PYTHON = ("coming_from_python.md", "moving_over.md", "questions.md")
# Scripts of the recipes' original repositories; peers/ has PyTorch's side of the benchmarks and is not in this tree.
FOREIGN_FILES = {"main_multi_gpu.py", "evaluate.py", "train.py"}
GENERATED = {"lockstep/base/version.h"}  # by CMake


class Tree:
    """The words of the sources, once for all pages."""

    def __init__(self, root):
        self.root = root
        self.files, self.words, self.scopes, self.pairs = set(), set(), {}, set()
        for folder in SOURCE_FOLDERS:
            self.files |= {str(path.relative_to(root)) for path in prose.files(root, folder)}
        self.files |= {path.name for path in root.iterdir() if path.is_file()}
        self.ends = {"/".join(parts[i:]) for parts in (file.split("/") for file in self.files) for i in range(len(parts))}
        for path in prose.cpp_files(root):
            self.take(NOISE.sub(" ", path.read_text(errors="replace")))
        for path in [root / file for file in self.files if file.endswith((".cmake", "CMakeLists.txt"))]:
            self.pairs |= set(QUALIFIED.findall(path.read_text(errors="replace")))
        for path in prose.python_files(root) + [root / file for file in self.files if file.endswith((".ts", ".js", ".c", ".sh"))]:
            self.words |= set(IDENTIFIER.findall(path.read_text(errors="replace")))

    def take(self, code):
        words = set(IDENTIFIER.findall(code))
        self.words |= words
        self.pairs |= set(QUALIFIED.findall(code))
        for name in set(DECLARES.findall(code)):
            for part in name.split("::"):
                self.scopes.setdefault(part, set()).update(words)

    def has_file(self, name, page):
        plain = name.rstrip("/")
        return plain in self.ends or (page.parent / plain).exists() or (self.root / plain).exists()

    def has_member(self, name):
        parts = [part.lstrip("~") for part in name.split("::")]
        if parts[0] == "lockstep":
            parts = parts[1:]
        if len(parts) < 2:
            return not parts or parts[0] in self.words
        return all((a, b) in self.pairs or b in self.scopes.get(a, ()) for a, b in zip(parts, parts[1:]))


def is_ours(path):
    """True if the text is the name of a file or a folder that this tree should have."""
    if not PATH.match(path) or FOREIGN_PATHS.match(path) or path in FOREIGN_FILES or re.search(r"(^|/)NAME|^\.", path) or path in GENERATED:
        return False
    return path.endswith(OURS) or (path.split("/")[0] in SOURCE_FOLDERS and path.count("/") > 0 and path.split("/")[0] != "data")


def missing_in(code, page, tree):
    """The names in one piece of code that the tree lacks."""
    if is_ours(code.strip()):
        return [] if tree.has_file(code.strip(), page) else [code.strip()]
    missing = [name for name in MEMBER.findall(code)
               if name.split("::")[0] not in FOREIGN_SCOPES and not tree.has_member(name)]
    if page.name not in ABOUT_PYTHON:
        missing += [f"{name}()" for name in CALL.findall(code) if name not in tree.words]
    return missing


def missing(root, pages):
    """(page, line, name) of every name that the tree lacks."""
    tree = Tree(root)
    for page in pages:
        text = prose.page_text(page.read_text())
        line = prose.line_numbers(text)
        for match in prose.CODE.finditer(text):
            number = line(match.start())
            for name in missing_in(match.group(0)[1:-1], page, tree):
                yield page, number, name
