#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the hard size limits: file 600 lines, public header 300, function 80, parameters 5, class 15 methods,
folder 40 sources; and the lines of C++ in whole folders against scripts/check/lines.txt, to notice growth.

Constructors, operators, friends, static functions and overrides do not count as methods; overloads count once. tests/ may
have more, and so may the few classes that mirror PyTorch and Lightning.

It reads C++ with a scanner for comments, strings and braces, not with a compiler: it does not understand braces hidden in
macros. Prints file:line for each offender; exit code 1 if there is one.
Example: scripts/check/sizes.py --root .
"""
import collections
import pathlib
import re
import sys
import tempfile

import tree_check

FOLDERS = ("include", "internal", "src", "apps", "recipes", "examples", "tests", "bench", "fuzz")
FILE_LINES = 600
HEADER_LINES = 300
FUNCTION_LINES = 80
PARAMETERS = 5
METHODS = 15        # of a class, outside tests
FOLDER_SOURCES = 40  # in one folder
# User-facing classes: the names are PyTorch's and Lightning's, and a guide explains each.
PUBLIC_CLASSES = ("Job", "ProcessGroup", "DistributedDataParallel", "Task")
FOREIGN = re.compile(r"nccl[A-Z]|ucs_log_")  # functions with the parameters that NCCL and UCX prescribe
SOURCES = (".h", ".cpp", ".cu", ".hpp")
BUDGET = "scripts/check/lines.txt"
SLACK = 200  # a folder may have this many lines fewer than its row

# Text that must not be read as code, longest first: comments, raw strings, strings, characters, preprocessor lines.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"([^()\s\\]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                   r"|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*", re.S | re.M)
SCOPE = re.compile(r'^\s*(inline\s+)?namespace\b|^\s*extern\s*""\s*$')
TYPE = re.compile(r"^[^(]*\b(class|struct|union|enum)\b[^()=]*$")
CONTROL = ("if", "for", "while", "switch", "catch", "return", "static_assert", "decltype", "alignas", "noexcept",
           "requires", "sizeof", "explicit", "using", "typedef", "throw", "defined")


def blank(match):
    """Keeps the noise's newlines, for the line numbers; a string becomes empty."""
    text = match.group(0)
    lines = "\n" * text.count("\n")
    if text.startswith(("//", "/*")):
        return lines
    return ('""' + lines) if text[0] in '"R' else ("0" + lines) if text[-1] == "'" else lines


def without_templates(head):
    """`head` without template<...> and [[...]]."""
    head = re.sub(r"\[\[.*?\]\]", " ", head, flags=re.S)
    while (start := re.search(r"\btemplate\s*<", head)) is not None:
        depth, at = 1, start.end()
        while at < len(head) and depth:
            depth += {"<": 1, ">": -1}.get(head[at], 0) if head[at - 1] not in "-=" else 0
            at += 1
        head = head[:start.start()] + " " + head[at:]
    return head


def split_arguments(text):
    """The parts between top-level commas."""
    parts, depth, part = [], 0, ""
    for i, c in enumerate(text):
        if c in "([{" or (c == "<" and text[i - 1:i] not in ("<", "")):
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1:i] != "-" and depth):
            depth -= 1
        if c == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += c
    parts.append(part)
    return [p for p in (p.strip() for p in parts) if p and p != "void"]


def signature(head):
    """(name, parameters, what follows) of the function that `head` declares, or None."""
    head = without_templates(head)
    for match in re.finditer(r"(operator\s*(?:\(\s*\)|[^\w\s(]+|\s\w[\w:<>&* ]*)|~?\w+)\s*\(", head):
        name = match.group(1)
        before = re.sub(r"operator\s*\S+|[=!<>]=|->", "", head[:match.start()])
        if name in CONTROL or "=" in before or before.count("<") > before.count(">"):
            continue  # a keyword, an initialiser, or a type such as std::function<void(int)>
        depth, at = 1, match.end()
        while at < len(head) and depth:
            depth += {"(": 1, ")": -1}.get(head[at], 0)
            at += 1
        return (name, split_arguments(head[match.end():at - 1]), head[at:]) if depth == 0 else None
    return None


def is_member_initialiser(rest):
    """True if the brace after `rest` (the text after the parameters) opens a member's value: "Foo() : a_{"."""
    return re.search(r"(?<!:):(?!:)", rest) is not None and re.search(r"[\w>]\s*$", rest) is not None


def kind_of(head):
    """The kind of block that the brace after `head` opens: scope, type, function or value."""
    if SCOPE.match(head):
        return "scope"
    plain = re.sub(r"\balignas\s*\([^()]*\)", " ", without_templates(head))
    if TYPE.match(plain) and not plain.rstrip().endswith(")"):
        return "type"
    found = signature(head)
    if found:
        return "value" if is_member_initialiser(found[2]) else "function"
    return "function" if re.search(r"=\s*\[[^\]]*\]\s*(\([^{}]*\))?[^(){}]*$", plain) else "value"


def type_name(head):
    """The name in "class alignas(8) Name final : public Base"."""
    plain = re.sub(r"\balignas\s*\([^()]*\)", " ", without_templates(head))
    match = re.search(r"\b(?:class|struct|union|enum)\s+(?:[A-Z_]{4,}\s+)?([\w:]+)", plain)
    return match.group(1).split("::")[-1] if match else "the nameless type"


class Scanner:
    """Walks over the braces of one file and collects everything that is too large."""

    def __init__(self, text, methods=METHODS):
        self.text = NOISE.sub(blank, text)
        self.most_methods = methods
        self.methods = []  # for each open type: its name, and its methods' names
        self.offenders = []
        self.stack = []
        self.start = 0
        self.inside = 0   # open functions and values: no declarations are read inside them
        self.brackets = 0

    def line(self, at):
        return self.text.count("\n", 0, at) + 1

    def head(self, at):
        """The text since the last statement, and where it begins."""
        text = self.text[self.start:at]
        label = re.match(r"(\s*(?:public|private|protected)\s*:(?!:))+", text)
        begin = self.start + (label.end() if label else 0)
        text = self.text[begin:at]
        return text, begin + len(text) - len(text.lstrip())

    def declare(self, at):
        head, begin = self.head(at)
        found = signature(head)
        if not found or re.match(r"^[A-Z0-9_]{4,}$", found[0]) or re.match(r"\s*(using|typedef|return)\b", head):
            return
        name, parameters, _ = found
        self.note_method(head, name)
        if len(parameters) > PARAMETERS and not FOREIGN.match(name):
            self.offenders.append((self.line(begin), f"{name}: {len(parameters)} parameters, at most {PARAMETERS}: "
                                                     "use an options struct"))

    def note_method(self, head, name):
        """Counts a function whose innermost scope is a type."""
        if not self.stack or self.stack[-1][0] != "type" or re.match(r"\s*friend\b", head):
            return
        if re.search(r"\boverride\b", head) or re.match(r"\s*static\b", head):
            return  # the interface counts it, or it has no `this`
        own, names = self.methods[-1]
        if name != own and not name.startswith(("~", "operator")):
            names.add(name)

    def open(self, at):
        if self.inside:
            self.stack.append(("inner", 0, ""))
            self.inside += 1
            return
        head, begin = self.head(at)
        kind = kind_of(head)
        if kind == "function":
            self.declare(at)
        found = signature(head)
        self.stack.append((kind, begin, found[0] if found else "the lambda"))
        if kind == "type":
            self.methods.append((type_name(head), set()))
        if kind in ("function", "value"):
            self.inside = 1
        else:
            self.start = at + 1

    def close(self, at):
        if not self.stack:
            return
        kind, begin, name = self.stack.pop()
        self.inside = max(0, self.inside - 1)
        if kind == "type":
            type_, names = self.methods.pop()
            if len(names) > self.most_methods and type_ not in PUBLIC_CLASSES:
                self.offenders.append((self.line(begin), f"{type_}: {len(names)} methods, at most {self.most_methods}"))
        if kind == "function":
            lines = self.line(at) - self.line(begin) + 1
            if lines > FUNCTION_LINES:
                self.offenders.append((self.line(begin), f"{name}: {lines} lines, at most {FUNCTION_LINES}"))
        if kind in ("function", "scope", "type") and not self.inside:
            self.start = at + 1

    def run(self):
        for match in re.finditer(r"[{};()]", self.text):
            at, c = match.start(), match.group(0)
            if c == "{":
                self.open(at)
            elif c == "}":
                self.close(at)
            elif not self.inside:
                self.brackets += {"(": 1, ")": -1}.get(c, 0)
                if c == ";" and self.brackets <= 0:
                    self.declare(at)
                    self.start = at + 1
                    self.brackets = 0
        return self.offenders


def check_file(name, text):
    lines = text.count("\n")
    limit = HEADER_LINES if name.startswith(("include/", "internal/")) else FILE_LINES
    if lines > limit:
        yield f"{name}:1: {lines} lines, at most {limit}"
    methods = len(text) if name.startswith("tests/") else METHODS
    for line, why in sorted(Scanner(text, methods).run()):
        yield f"{name}:{line}: {why}"


def growth(root, lines):
    """The wrong rows of lines.txt: "FOLDER N  why it grew last". `lines`: the lines of each folder."""
    budget = pathlib.Path(root) / BUDGET
    for row in budget.read_text().splitlines() if budget.is_file() else []:
        if not row or row.startswith("#"):
            continue
        folder, allowed = row.split()[:2]
        most = int(allowed.replace(",", ""))
        if lines[folder] > most:
            yield f"{BUDGET}: {folder} has {lines[folder]:,} lines of C++, but its row says {most:,}: raise it, with the reason"
        elif lines[folder] < most - SLACK:
            yield f"{BUDGET}: {folder} has {lines[folder]:,} lines of C++, but its row says {most:,}: lower it"


def offenders(root):
    lines = collections.Counter()
    for folder in FOLDERS:
        folders = collections.Counter()
        for path in sorted((pathlib.Path(root) / folder).rglob("*")):
            if path.suffix in SOURCES and path.is_file():
                folders[path.parent.relative_to(root)] += 1
                text = path.read_text(errors="replace")
                lines[folder] += text.count("\n")
                yield from check_file(str(path.relative_to(root)), text)
        for name, count in sorted(folders.items()):
            if count > FOLDER_SOURCES:
                yield f"{name}: {count} sources in one folder, at most {FOLDER_SOURCES}: split it into subfolders"
    yield from growth(root, lines)


CLEAN = r'''
namespace a::b {
template <class T, class U = std::map<int, int>>
class Long : public Base<T> {
 public:
  Long(int a, int b) : a_{a}, b_(b), c_{1, 2, 3, 4, 5, 6} {}
  void five(int a, std::map<int, std::pair<int, int>> b, int c = f(1, 2), int d = 4, int e = 5) const;
  bool operator==(const Long&) const = default;
  auto operator()(int x) -> int { return x; }
 private:
  int a_ = 1, b_ = g(1, 2, 3, 4, 5, 6, 7);
};
constexpr std::array<Row, 2> kRows{{{1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}}};
enum class E { kA, kB };  // a brace in a comment {{{
const char* text = "{ ( \" {"; char c = '{'; auto raw = R"x({{{ ")" )x"; int n = 1'000'000;
INSTANTIATE_TEST_SUITE_P(a, b, c, d, e, f, g);
inline void body() {
  call(1, 2, 3, 4, 5, 6, 7);
  if (true) { auto f = [](int a) { return a; }; }
}
}
'''


METHODS_15 = "".join(f"  int f{i}();\n" for i in range(15))


def self_test():
    """Small sources with one fault each, and a clean one."""
    filler = "  x = 1;\n"
    cases = [
        ("src/a.cpp", CLEAN, None),
        ("src/a.cpp", CLEAN * 30, "602"),
        ("include/lockstep/a/a.h", "\n" * 301, "301 lines, at most 300"),
        ("src/a.cpp", "\n" * 600, None),
        ("src/a.cpp", "void f() {\n" + filler * 78 + "}\n", None),
        ("src/a.cpp", "\nvoid f() {\n" + filler * 79 + "}\n", "src/a.cpp:2: f: 81 lines"),
        ("src/a.cpp", "A::A(int a) : a_{a}, b_{2} {\n" + filler * 79 + "}\n", "A: 81 lines"),
        ("src/a.cpp", "namespace {\nclass A {\n  int g() const noexcept {\n" + filler * 79 + "}\n};\n}\n",
         "src/a.cpp:3: g: 81 lines"),
        ("src/a.cpp", "template <class T>\nT f(T t)\n{\n" + filler * 79 + "}\n", "f: 83 lines"),
        ("tests/a.cpp", "TEST(A, B) {\n" + filler * 79 + "}\n", "TEST: 81 lines"),
        ("src/a.cpp", "auto f = [](int a) {\n" + filler * 79 + "};\n", "81 lines"),
        ("src/a.cpp", "void f(int a, int b, int c,\n int d, int e, int g);\n", "f: 6 parameters"),
        ("src/a.cpp", "struct A { A(int a, int b, int c, int d, int e, int g) : a_{a} {} };\n", "A: 6 parameters"),
        ("src/a.cpp", "struct A {\n  virtual int f(int a, M<int, int> b, int c, int d, int e, int g) = 0;\n};\n",
         "src/a.cpp:2: f: 6 parameters"),
        ("src/a.cpp", "constexpr Row kRows[] = {\n" + "{1, 2},\n" * 90 + "};\n", None),
        ("src/a.cpp", "std::function<void(int, int, int, int, int, int)> f;\n", None),
        ("src/a.cpp", "class A : B {\n  A();\n  ~A();\n" + METHODS_15 + "  int f1(int);\n  friend void g();\n"
                      "  void h() override;\n  static int s();\n  bool operator<(A);\n};\n", None),
        ("src/a.cpp", "\nclass alignas(8) A final {\n" + METHODS_15 + "  int g() { return f(1); }\n};\n",
         "src/a.cpp:2: A: 16 methods"),
        ("tests/a.cpp", "class A {\n" + METHODS_15 + "  int g();\n};\n", None),
    ]
    failures = []
    for name, text, expected in cases:
        if expected == "602":  # many clean pieces make one long file
            expected = f"{text.count(chr(10))} lines, at most 600"
        found = list(check_file(name, text))
        if expected is None and found:
            failures.append(f"clean source: {found}")
        if expected is not None and not (len(found) == 1 and expected in found[0]):
            failures.append(f"expected '{expected}', got {found}")
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "recipes/x").mkdir(parents=True)
        (pathlib.Path(folder) / "recipes/x/long.cpp").write_text("\n" * 601)
        if len(list(offenders(folder))) != 1:
            failures.append("a long file under recipes/ is not found")
        for i in range(FOLDER_SOURCES + 1):
            (pathlib.Path(folder) / f"recipes/x/file_{i}.cpp").write_text("")
        if not any("42 sources in one folder" in line for line in offenders(folder)):
            failures.append("a full folder is not found")
        (pathlib.Path(folder) / BUDGET).parent.mkdir(parents=True)
        for row, expected in (("recipes 601  x", None), ("recipes 600  x", "raise it"), ("recipes 802", "lower it")):
            (pathlib.Path(folder) / BUDGET).write_text(f"# a word\n{row}\n")
            found = [line for line in offenders(folder) if line.startswith(BUDGET)]
            if len(found) != (expected is not None) or (expected and expected not in found[0]):
                failures.append(f"lines.txt with '{row}': {found}")
    return failures


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
