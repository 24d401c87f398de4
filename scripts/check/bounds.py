#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that untrusted bytes are read within limits.

  - only src/base/json.cpp calls nlohmann's parser, which has no limit on depth or size: parse, sax_parse, accept, from_cbor
    and the like, a stream's >> into a JSON value, the literal _json. Other files call lockstep/base/json.h.
  - only src/base/yaml_text.cpp calls yaml-cpp's
  - a file of unknown size is read by FileSystem::read(), which checks the size before it allocates memory. A stream to its
    end (rdbuf, istreambuf_iterator, getline of std::ifstream) is only for the kernel's files in /proc and /sys.

Prints file:line for each; exit code 1 if there is one.
Example: scripts/check/bounds.py --root .
"""
import pathlib
import re
import sys
import tempfile

import tree_check
from sizes import NOISE, blank

FOLDERS = ("include", "src", "recipes", "apps")

JSON = re.compile(r"\b(?:[Jj]son|ordered_json|basic_json(?:<[^>]*>)?|Value)\s*::\s*(parse|sax_parse|accept|from_\w+)\s*\(|"
                  r"\"_json\b|\b(?:std::cin|\w*(?:file|in|stream))\s*>>\s*\w*json\b")
JSON_READER = "src/base/json.cpp"
JSON_INSIDE = re.compile(r"nlohmann/detail/|nlohmann/thirdparty/")
YAML = re.compile(r"\bYAML::(Load\w*|Parser)\b")
YAML_READER = "src/base/yaml_text.cpp"
STREAM = re.compile(r"std::(?:basic_)?ifstream\b|\bfopen\s*\(|istreambuf_iterator|\brdbuf\s*\(")
# The kernel's files, and those whose reader limits them.
KERNEL = {
    "src/base/control_group.cpp", "src/base/resources.cpp", "src/comm/backends/shm/segment.cpp",
    "src/comm/wiring/select.cpp", "src/dashboard/process.cpp", "src/launch/doctor/machine_facts.cpp",
    "src/launch/doctor/network_facts.cpp", "src/launch/hangs/process_state.cpp", "src/launch/hangs/stack_reader.cpp",
    "src/launch/memory_kills.cpp", "src/launch/nodes/addresses.cpp", "src/observe/clock_offset.cpp",
    "src/observe/thread_calls.cpp", "src/store/interface_choice.cpp", "src/store/port_holder.cpp", "src/tensor/device_memory.cpp",
    "src/train/report/process_counters.cpp",
}
BOUNDED = {
    "src/launch/hosts/host_list.cpp": "also a pipe, up to 1 MB",
    "src/launch/output/log_folder.cpp": "the last 64 KiB",
}


def faults(name, text):
    code = NOISE.sub(blank, text)

    def line(match):
        return code.count("\n", 0, match.start()) + 1
    if name != JSON_READER:
        for match in JSON.finditer(code):
            yield line(match), "nlohmann's parser has no limits: use the parsers of lockstep/base/json.h"
        for match in JSON_INSIDE.finditer(text):
            yield text.count("\n", 0, match.start()) + 1, "includes internals of nlohmann's library"
    if name != YAML_READER:
        for match in YAML.finditer(code):
            yield line(match), "yaml-cpp's parser has no limits: use base::load_yaml()"
    if name not in KERNEL and name not in BOUNDED:
        for match in STREAM.finditer(code):
            yield line(match), "a stream reads a file of any size: use FileSystem::read(), which has a limit"


def offenders(root):
    root = pathlib.Path(root)
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".hpp") and path.is_file() and "templates" not in path.parts:
                name = str(path.relative_to(root))
                for number, why in faults(name, path.read_text(errors="replace")):
                    yield f"{name}:{number}: {why}"
    for name in sorted(KERNEL | set(BOUNDED)):
        if not (root / name).is_file():
            yield f"scripts/check/bounds.py:1: {name} is not a file of this project"


def self_test():
    """Each bad line by itself must be an offender; no clean one may be."""
    bad = ["auto a = nlohmann::json::parse(text);", "auto a = Json::parse(text, nullptr, false);",
           "json::sax_parse(text, &reader);", "if (json::accept(text)) return;", "auto a = nlohmann::json::from_cbor(bytes);",
           "auto a = nlohmann::ordered_json::parse(text);", "file >> some_json;", "const json rest = json :: parse ( text );",
           "#include <nlohmann/detail/input/parser.hpp>", "auto a = YAML::LoadFile(path);", "auto a = YAML::Load(text);",
           "std::ifstream in(path);", "text << in.rdbuf();", "FILE* file = std::fopen(path, mode);"]
    clean = ["const Json line = parse_json(text);", "// json::parse(text) has no limits", "out << json.dump();",
             "const auto a = files.read(path, 4096);", 'say("json::parse(text)");', "json a = json::object();"]
    failures = [f"not found: {line}" for line in bad if not list(faults("src/a.cpp", line + "\n"))]
    failures += [f"clean: {line}" for line in clean if list(faults("src/a.cpp", line + "\n"))]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "src").mkdir()
        (pathlib.Path(folder) / "src/a.cpp").write_text(bad[0])
        if not any(found.startswith("src/a.cpp:1:") for found in offenders(folder)):
            failures.append("a file of the tree is not checked")
    return failures


if __name__ == "__main__":
    sys.exit(tree_check.main(__doc__, offenders, self_test))
