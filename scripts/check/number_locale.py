#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no number is read or written in the process's locale, and that JSON only gets numbers that it supports.

A program that links Lockstep may have set a locale with a decimal comma, in which strtod, printf and streams read 0.001
as 0 and write 1.000 for a thousand. text::parse_number(), parse_whole(), std::from_chars and fmt::format ignore the locale.

  - strtod, stod, atof, scanf, printf and the like; std::to_string of a floating-point number; as<double> of YAML; CLI11's own
    conversion of a floating-point number (use cli::add_number()); {:L} of fmt
  - a stream that writes anything but strings, or reads a floating-point number, without imbue(std::locale::classic())
  - a call that sets a locale: this project's programs stay in the classic one
  - "key": {:.3f} in JSON text: text::json_number() writes null for NaN

It finds the types of a file's declarations by name, without a compiler: at a stream, an unknown name is an offender. Prints
file:line for each; exit code 1 if there is one.
Example: scripts/check/number_locale.py --root .
"""
import collections
import pathlib
import re
import sys
import tempfile

import tree_check
from sizes import NOISE, blank

FOLDERS = ("include", "src", "recipes", "apps", "bench", "fuzz")  # examples and tests are separate programs
# Exceptions: a file, and the text of the line.
ALLOWED = {
    "src/nn/script/torchscript.cpp": ("std::locale::global(",),       # libtorch's own writer obeys the locale
    "src/base/yaml_text.cpp": (),
    "src/dashboard/process.cpp": ("words >> use.state",),             # a letter
    "src/launch/doctor/links.cpp": ("words >> host.address",),   # strings and a port
    "src/launch/doctor/machine_facts.cpp": (">> clock.source",),      # a text
    "src/launch/doctor/network_facts.cpp": (">> ports.ephemeral_low",),  # whole numbers
}

CALLS = re.compile(r"\b(?:std::|::)?((?:strto|sto|wcsto)(?:d|f|ld)(?:_l)?|atof|v?[fs]?scanf|v?(?:f|s|sn|d|as)?printf)\s*\(")
FMT_CALL = re.compile(r"fmt::\s*$")
LOCALE = re.compile(r"\b(setlocale|uselocale)\s*\(|std::locale(?:::global\s*\(|\s*\(\s*\"\"\s*\))")
YAML_AS = re.compile(r"\.\s*as\s*<(?!\s*(?:bool|std::string|std::vector<std::string>)\s*>)")
TO_STRING = re.compile(r"std::to_string\s*\(")
CLI = re.compile(r"\badd_option(_function)?\s*(?:<\s*(double|float)\b[^>]*>)?\s*\(")
LEXICAL = re.compile(r"\blexical_cast\s*[<(]")
JSON_FORMAT = re.compile(r'\\?":\s*\{:[^{}]*[aefgAEFG]\}')
FMT_LOCALE = re.compile(r"\{\w*:[<>^+#\d.]*L[a-zA-Z]?\}")

FLOATING = r"(?:long\s+double|double|float|std::optional<(?:double|float)>)"
WHOLE = r"(?:bool|int|unsigned|long|std::u?int\d+_t|std::size_t|pid_t|u?int\d+_t)"
TEXT = r"(?:std::string|std::string_view|char|char\s*\*|fs::path|std::filesystem::path|YAML::Node|std::ostream|std::istream)"
KINDS = {"floating": FLOATING, "whole": WHOLE, "text": TEXT}
STREAM = re.compile(r"\b(?:std::[io]?(?:string|f)stream|std::[io]?ostream|std::istream|YAML::Emitter)\s*&?\s+&?(\w+)\s*[({;=,)]")
TEMPORARY = re.compile(r"\bstd::[io]?(?:f|string)stream\s*\(")
TEXT_OPERAND = re.compile(r'^(?:""|0$|\([^()]*\? "" : ""\)$|fmt::(?:format|to_string)|text::|std::string\s*[({]|std::(?:ws|noskipws|endl|flush)\b'
                          r"|YAML::(?:Flow|Block|BeginMap|EndMap|BeginSeq|EndSeq|Key|Value)\b)")
TEXT_END = re.compile(r"(?:\.|->)(?:rdbuf|str|c_str|what|string|name)\(\)$")


def declared(code, types):
    """(position, name) of a file's declarations with one of the types."""
    names = rf"(?<![\w:<]){types}\s*(?:const\s*)?[&*]?\s*(\w+)\s*(?=[=;,){{\[:(])"
    yield from ((match.start(), match.group(1)) for match in re.finditer(names, code))
    for several in re.finditer(rf"(?<![\w:<]){types}\s+(\w+(?:\s*,\s*\w+)+)\s*[;:]", code):
        yield from ((several.start(), name) for name in re.findall(r"\w+", several.group(1)))


def arguments(code, at):
    """The text from `at`, after an opening bracket, to its closing one."""
    depth, end = 1, at
    while end < len(code) and depth:
        depth += {"(": 1, ")": -1}.get(code[end], 0)
        end += 1
    return code[at:end - 1]


def statement(code, at):
    """The text from `at` to the end of the expression."""
    depth, end = 0, at
    while end < len(code):
        c = code[end]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if depth < 0 or (depth == 0 and (c in ";?,:" and code[end - 1:end + 1] != "::" and code[end:end + 2] != "::"
                                         or code[end:end + 2] in ("&&", "||"))):
            break
        end += 1
    return code[at:end]


def split(text):
    """[(operator, operand)] of "<< a << b"."""
    parts, depth, at = [], 0, 0
    while at < len(text):
        c = text[at]
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(c, 0)
        if depth == 0 and text[at:at + 2] in ("<<", ">>"):
            parts.append([text[at:at + 2], ""])
            at += 2
            continue
        if parts:
            parts[-1][1] += c
        at += 1
    return [(operator, operand.strip()) for operator, operand in parts]


class File:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.code = NOISE.sub(blank, text)
        self.types = collections.defaultdict(list)  # name -> (position, kind) of each declaration
        for kind, types in KINDS.items():
            for place, declares in declared(self.code, types):
                self.types[declares].append((place, kind))

    def line(self, at):
        return self.code.count("\n", 0, at) + 1

    def kind(self, name, at):
        """The kind of a name at a position: by the nearest declaration before it, else by the first one; None: unknown."""
        places = sorted(self.types[name])
        before = [kind for place, kind in places if place < at]
        return before[-1] if before else places[0][1] if places else None

    def is_floating(self, words, at):
        """True if an expression contains a floating-point number, as far as names show."""
        if re.search(r"(?<![\w.])\d+\.\d*|\b\.\d|item<(?:double|float)>|static_cast<(?:double|float)>", words):
            return True
        return any(self.kind(name, at) == "floating" for name in re.findall(r"[A-Za-z_]\w*(?!\w*\s*[(:])", words))

    def is_harmless(self, operator, operand, at):
        if TEXT_OPERAND.match(operand) or TEXT_END.search(operand):
            return True
        name = re.fullmatch(r"[&*]?(\w+)(?:\[[^\]]*\]|\(.*\))?", operand, re.S)
        return bool(name) and self.kind(name.group(1), at) in (("text",) if operator == "<<" else ("text", "whole"))

    def calls(self):
        for match in CALLS.finditer(self.code):
            if not FMT_CALL.search(self.code[:match.start()]) and "fmt::" not in match.group(0):
                yield match.start(), f"{match.group(1)}() obeys the locale: use text::parse_number() or fmt::format()"
        for match in LOCALE.finditer(self.code):
            yield match.start(), "sets or uses the process's locale"
        for match in YAML_AS.finditer(self.code) if "YAML::" in self.code else ():
            yield match.start(), "yaml-cpp obeys the locale when it converts numbers: use base::yaml_number()"
        for match in LEXICAL.finditer(self.code):
            yield match.start(), "lexical_cast obeys the locale: use text::parse_number()"
        for match in TO_STRING.finditer(self.code):
            if self.is_floating(arguments(self.code, match.end()), match.start()):
                yield match.start(), "std::to_string of a floating-point number obeys the locale: use fmt::format()"
        for match in CLI.finditer(self.code):
            words = arguments(self.code, match.end()).split(",")
            last = re.findall(r"\w+", words[1])[-1:] if len(words) > 1 and not match.group(1) else []
            if match.group(2) or any(self.kind(name, match.start()) == "floating" for name in last):
                yield match.start(), "CLI11 obeys the locale when it converts a number: use cli::add_number()"

    def streams(self):
        names = set(STREAM.findall(self.code)) | {"std::cout", "std::cerr", "std::clog", "std::cin"}
        safe = {name for name in names if re.search(rf"\b{name}\.imbue\(std::locale::classic\(\)\)", self.code)}
        for name in sorted(names - safe):
            for match in re.finditer(rf"(?<![\w.>]){re.escape(name)}\s*(?=<<|>>)", self.code):
                yield from self.operands(match.end())
        for match in TEMPORARY.finditer(self.code):
            end = match.end() + len(arguments(self.code, match.end())) + 1
            if re.match(r"\s*(?:<<|>>)", self.code[end:]):
                yield from self.operands(end)

    def operands(self, at):
        for operator, operand in split(statement(self.code, at)):
            if not self.is_harmless(operator, operand, at):
                yield at, f"'{operator} {operand}': a stream obeys the locale if this is a number"

    def formats(self):
        for number, line in enumerate(self.text.splitlines(), 1):
            if JSON_FORMAT.search(line):
                yield number, "JSON has no NaN: use text::json_number(), which writes null"
            if FMT_LOCALE.search(line):
                yield number, "L formats a number according to the locale"

    def offenders(self):
        lines = self.text.splitlines()
        found = {(self.line(at), why) for at, why in [*self.calls(), *self.streams()]} | set(self.formats())
        for number, why in sorted(found):
            if not any(words in lines[number - 1] for words in ALLOWED.get(self.name, ())):
                yield f"{self.name}:{number}: {why}"


def offenders(root):
    for folder in FOLDERS:
        for path in sorted((pathlib.Path(root) / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".hpp") and path.is_file() and "templates" not in path.parts:
                yield from File(str(path.relative_to(root)), path.read_text(errors="replace")).offenders()


CLEAN = r'''
void f(const std::string& text, std::ostream& out, std::int64_t count, double share) {
  std::istringstream words(text);
  std::string word;
  std::uint64_t pages = 0;
  if (words >> word >> pages && pages > 3) g(pages << 10U);
  out << "strtod(x) 0.5" << fmt::format("{:.3f}", share) << word << '\n';
  std::istringstream numbers(text);
  numbers.imbue(std::locale::classic());
  numbers >> share;
  fmt::print("{}", share); std::to_string(count); node.as<std::string>();
  app.add_option("--count", count, "0.5 of it"); cli::add_number(app, "--share", share, "x");  // printf("%f")
  log(R"({"share": {}, "L": 1})", text::json_number(share, 3), std::map<int, std::vector<int>>(), 1 << pages);
  std::ifstream("/proc/x") >> word;
  std::ostringstream all;
  all << in.rdbuf();
}
'''

BAD = {
    "const double x = std::strtod(text.c_str(), &end);": "strtod() obeys",
    "return std::stod(text);": "stod() obeys",
    "x = atof(line);": "atof() obeys",
    'std::sscanf(text, "%lf", &x);': "sscanf() obeys",
    'std::snprintf(text, 9, "%f", x);': "snprintf() obeys",
    "std::locale::global(std::locale(\"\"));": "the process's locale",
    'setlocale(LC_ALL, "");': "the process's locale",
    "x = YAML::Load(text).as<double>();": "yaml-cpp",
    "x = YAML::Load(text).as<std::int64_t>();": "yaml-cpp",
    "*x = YAML::Load(text).as<std::remove_pointer_t<decltype(x)>>();": "yaml-cpp",
    "double x = 1; s = std::to_string(x);": "std::to_string",
    "s = std::to_string(loss.item<double>());": "std::to_string",
    "std::to_string(0.5 * n);": "std::to_string",
    'double lr = 0; app.add_option("--lr", lr, "rate");': "CLI11",
    'app.add_option_function<double>("--lr", f, "rate");': "CLI11",
    "CLI::detail::lexical_cast(text, value);": "lexical_cast",
    "std::istringstream in(text); double x = 0; in >> x;": "'>> x'",
    "std::istringstream in(text); std::string a; in >> a >> link.rate;": "'>> link.rate'",
    "std::ostringstream out; int n = 0; out << n;": "'<< n'",
    "void g(std::ostream& out, std::string s) { out << s << size(); }": "'<< size()'",
    "std::ofstream file(path); file << 0.5;": "'<< 0.5'",
    "std::cout << steps;": "'<< steps'",
    "double x; std::ifstream(path) >> x;": "'>> x'",
    "YAML::Emitter out; out << YAML::Flow << x.lr;": "'<< x.lr'",
    r'fmt::format("{{\"a\": {:.3f}}}", x);': "JSON has no NaN",
    'fmt::format(R"({{"a": {:g}}})", x);': "JSON has no NaN",
    'fmt::format("{:L}", x);': "L formats",
}


def self_test():
    """A clean file, and each fault in a separate file."""
    failures = [f"clean file: {line}" for line in File("src/a.cpp", CLEAN).offenders()]
    for code, expected in BAD.items():
        found = list(File("src/a.cpp", "\n" + code + "\n").offenders())
        if len(found) != 1 or not found[0].startswith("src/a.cpp:2: ") or expected not in found[0]:
            failures.append(f"{code}: expected '{expected}', got {found}")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("src/m/a.cpp", "tests/m/a.cpp", "apps/lockstep/new/templates/a.cpp"):
            (pathlib.Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            (pathlib.Path(folder) / name).write_text("x = std::stod(text);\n")
        found = list(offenders(folder))
        if len(found) != 1 or not found[0].startswith("src/m/a.cpp:1: "):
            failures.append(f"a tree with one fault: {found}")
    return failures


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
