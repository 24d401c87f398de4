#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that cmake/layers.txt allows every include.

  - include/lockstep/M, internal/lockstep/M and src/M include only the modules in M's row; src/M's headers are its own;
    a public header includes none of internal/
  - the folders inside a module, a recipe or a program form no cycle; every row of the table is an existing module
  - recipes never include each other; <torch/torch.h> and the umbrella lockstep/lockstep.h stay out of the modules
  - programs that must start without libtorch, and parsers of untrusted bytes, reach no torch header, even indirectly

Prints file:line and the forbidden arrow for each offender; exit code 1 if there is one.
Example: scripts/check/layers.py --root .
"""
import argparse
import collections
import fnmatch
import pathlib
import posixpath
import re
import sys
import tempfile

FOLDERS = ("include", "internal", "src", "recipes", "apps", "examples")
TORCH = ("torch/", "ATen/", "c10/", "caffe2/")
COMPUTING = ("optim", "nn", "recipes")  # their loops run on libtorch's threads
HEAVY = ("torch/torch.h", "torch/all.h", "lockstep/lockstep.h")
# They include cublas_v2.h, or are missing in GPU builds: Python's packages contain neither.
UNKNOWN_TO_PIP = ("ATen/cuda/CUDAContext.h", "ATen/cuda/CUDAContextLight.h", "ATen/cuda/CUDAEvent.h", "ATen/cuda/Exceptions.h",
                  "cublas_v2.h", "nccl.h")
# Only for liblockstep-cuda.so: any other file that included them would link CUDA's libraries.
CUDA = re.compile(r"(c10|ATen|torch)/cuda[./]|cuda\w*\.h$")
CUDA_ROOM = "src/tensor/cuda/"
UMBRELLA = "include/lockstep/lockstep.h"
UMBRELLAS = (UMBRELLA, "include/lockstep/loop.h", "include/lockstep/trainer.h", "include/lockstep/ddp.h",
             "include/lockstep/data.h")

# Folders whose programs and libraries are linked without libtorch.
TORCH_FREE = tuple(f"{base}/{m}/*" for m in ("base", "store", "wire", "simulate", "view", "launch", "http", "dashboard")
                   for base in ("src", "include/lockstep", "internal/lockstep")) + ("apps/lockstep/*", "apps/common/*", "apps/dashboard/*")
# Parsers of untrusted bytes.
PARSERS = ("src/*/*_parse*", "src/*/decode_*", "src/*/*_header.*", "src/*/*_sax.*", "src/*/*_json.*", "src/*/wire.*",
           "src/data/codec.*", "src/data/png.*", "src/data/jpeg.*", "recipes/*/*_parse*")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def read_layers(path):
    """Module -> the modules it may include."""
    table = {}
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            table[words[0]] = set(words[2:])
    return table


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def name(room):
    return room or "the hall"


def cycles(arrows):
    """A shortest cycle through each knot of rooms, as a list of arrows."""
    found, seen = [], set()
    for start in sorted({a for a, _ in arrows}):
        paths = [[start]]
        reached = {start}
        while paths and start not in seen:
            path = paths.pop(0)
            for a, b in sorted(arrows):
                if a == path[-1] and b == start:
                    seen |= set(path)
                    found.append(list(zip(path, path[1:] + [start])))
                    paths = []
                    break
                if a == path[-1] and b not in reached:
                    reached.add(b)
                    paths.append(path + [b])
    return found


class House:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.layers = read_layers(self.root / "cmake/layers.txt")
        self.files = {}
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if "templates" in path.parts:  # files for `lockstep new`
                    continue
                if path.suffix in (".h", ".cpp", ".cuh") and path.is_file():
                    text = path.read_text(errors="replace")
                    self.files[str(path.relative_to(self.root))] = [
                        (text.count("\n", 0, m.start(1)) + 1, m.group(2), m.group(1) == '"')
                        for m in INCLUDE.finditer(text)]

    def resolve(self, file, include):
        """The project's file that `include` in `file` refers to; None for any other."""
        here = file.rsplit("/", 1)[0]
        roots = [here, "include", "internal", "src", "recipes", "apps"]
        if file.startswith("apps/"):
            roots = [here, "include", "internal", "apps", "src", "recipes"]
        for root in roots:
            path = posixpath.normpath(f"{root}/{include}")
            if path in self.files:
                return path
        return None

    @staticmethod
    def owner(file):
        """(module, part): "recipes" and "apps" have parts, the modules have none."""
        parts = file.split("/")
        if file in UMBRELLAS or parts[0] == "examples":
            return ("user", None)
        if parts[0] in ("recipes", "apps"):
            return (parts[0], parts[1] if len(parts) > 2 else None)
        return (parts[2] if parts[0] in ("include", "internal") else parts[1], None)

    def arrow(self, file, target):
        """Why `file` must not include the project's `target`; "" if it may."""
        module, part = self.owner(file)
        to_module, to_part = self.owner(target)
        if file.startswith("include/") and target.startswith("internal/"):
            return "a public header may only include public ones: others are not installed"
        if target in UMBRELLAS:
            to_module = "user"
        elif to_module == "user":
            return "" if file.startswith("examples/") else "examples must not be included"
        if module == "user":
            # The recipes' headers are installed too.
            is_public = target.startswith("include/") or to_module == "recipes"
            return "" if is_public else "a user's program may only include public headers"
        if to_module == "user":
            return "" if module in ("recipes", "apps") else f"{module} -> the umbrella header"
        if module == to_module:
            if module == "recipes" and part != to_part and to_part not in (None, "common"):
                return f"recipe {part} -> recipe {to_part}"
            if module == "apps" and part != to_part and to_part != "common":
                return f"app {part} -> app {to_part}"
            return ""
        if to_module not in self.layers.get(module, set()):
            return f"{module} -> {to_module}"
        if target.startswith("src/"):
            return f"{module} -> a private header of {to_module}"
        return ""

    def torch_path(self, file, seen):
        """The chain of files from `file` to a torch header, or None."""
        seen.add(file)
        for _, include, _ in self.files[file]:
            if include.startswith(TORCH):
                return [file, include]
            target = self.resolve(file, include)
            if target is not None and target not in seen:
                path = self.torch_path(target, seen)
                if path:
                    return [file] + path
        return None

    def room(self, file):
        """(house, room): the folder of `file` inside its module; None for a public header, which includes none."""
        parts = file.split("/")
        if parts[0] in ("src", "recipes", "apps") and len(parts) > 2:
            return "/".join(parts[:2]), "/".join(parts[2:-1])
        return None, None

    def room_arrows(self):
        """House -> (room, room) -> one file and line that causes the arrow."""
        arrows = collections.defaultdict(dict)
        for file in self.files:
            house, room = self.room(file)
            for line, include, _ in self.files[file]:
                target = self.resolve(file, include)
                to_house, to_room = self.room(target) if target else (None, None)
                if house and house == to_house and room != to_room and None not in (room, to_room):
                    arrows[house].setdefault((room, to_room), f"{file}:{line}")
        return arrows

    def room_cycles(self):
        for house, arrows in sorted(self.room_arrows().items()):
            for cycle in cycles(arrows):
                steps = [f"{arrows[step]} ({name(step[0])} -> {name(step[1])})" for step in cycle]
                yield f"{steps[0].split(' ')[0]}: rooms of {house} form a cycle: {', '.join(steps)}"

    def ghosts(self):
        """Rows of the table without a folder."""
        for module in sorted(self.layers):
            if not any(file.startswith((f"src/{module}/", f"include/lockstep/{module}/", f"internal/lockstep/{module}/", f"{module}/"))
                       for file in self.files):
                yield f"cmake/layers.txt:1: {module} is not a module of this project"

    def check_includes(self, file):
        module = self.owner(file)[0]
        if module not in self.layers and module != "user":
            yield 1, f"cmake/layers.txt has no row for {module}"
            return
        for line, include, quoted in self.files[file]:
            if include in HEAVY[:2] and module not in ("recipes", "user"):
                yield line, f"{module} -> {include}: include narrower headers instead"
            if include in UNKNOWN_TO_PIP:
                yield line, f"{module} -> {include}: pip's packages for CUDA lack it, or cublas_v2.h, which it needs"
            if not quoted and CUDA.match(include) and not file.startswith(CUDA_ROOM):
                yield line, f"{module} -> {include}: use CUDA only in {CUDA_ROOM}"
            if include == "ATen/Parallel.h" and module in COMPUTING:
                yield line, f"{module} -> {include}: use tensor::parallel_for(): at::parallel_for has no threads here"
            target = self.resolve(file, include)
            if target is not None:
                why = self.arrow(file, target)
                if why:
                    yield line, f"forbidden arrow {why}"
            elif (quoted or include.startswith("lockstep/")) and include != "lockstep/base/version.h":
                yield line, f'"{include}" is not a file of this project; use <> for files of other projects'

    def offenders(self):
        yield from self.ghosts()
        yield from self.room_cycles()
        for file in self.files:
            for line, why in self.check_includes(file):
                yield f"{file}:{line}: {why}"
            kind = ("is linked without libtorch" if matches(file, TORCH_FREE) else
                    "parses untrusted bytes" if matches(file, PARSERS) else "")
            path = self.torch_path(file, set()) if kind else None
            if path:
                yield f"{file}:1: {kind}, but reaches {' -> '.join(path[1:])}"


def self_test():
    """Builds small trees and checks that it finds each fault, and none in a clean tree."""
    layers = "base 0\ntensor 1 base\nview 2 base\ncomm 2 tensor base\nrecipes 5 comm tensor view base\napps 6 recipes comm base\n"
    clean = {
        "include/lockstep/base/a.h": "", "internal/lockstep/base/i.h": "", "src/tensor/cuda/g.cpp": "#include <c10/cuda/CUDAStream.h>\n", "include/lockstep/tensor/t.h": "#include <ATen/core/Tensor.h>\n",
        "src/comm/x.cpp": '#include "comm/x.h"\n#include "lockstep/tensor/t.h"\n#include <vector>\n',
        "src/comm/x.h": "", "recipes/a/a.cpp": '#include <torch/torch.h>\n#include "a/a.h"\n#include "common/c.h"\n',
        "recipes/a/a.h": "", "recipes/common/c.h": "", "include/lockstep/lockstep.h": "#include <torch/torch.h>\n",
        "apps/lockstep/main.cpp": '#include "verbs.h"\n#include "common/cli.h"\n', "apps/lockstep/verbs.h": "",
        "apps/common/cli.h": "", "src/view/v.cpp": '#include "lockstep/base/a.h"\n',
        "examples/guide/e.cpp": "#include <a/a.h>\n#include <lockstep/lockstep.h>\n",
        "examples/one/main.cpp": '#include "../shared.h"\n',
        "examples/shared.h": "",
    }
    bad = {
        "src/base/b.cpp": ('#include "lockstep/tensor/t.h"\n', "base -> tensor"),
        "src/view/w.cpp": ('\n#include "lockstep/tensor/t.h"\n', "src/view/w.cpp:2: forbidden arrow view -> tensor"),
        "recipes/b/b.cpp": ('#include "a/a.h"\n', "recipe b -> recipe a"),
        "recipes/b/p.cpp": ('#include "comm/x.h"\n', "a private header of comm"),
        "src/comm/y.cpp": ("#include <torch/torch.h>\n", "comm -> torch/torch.h"),
        "src/comm/z.cpp": ('#include <lockstep/lockstep.h>\n', "comm -> the umbrella header"),
        "src/tensor/u.cpp": ('  #  include "comm/x.h"\n', "tensor -> comm"),
        "src/comm/hello_parse.cpp": ('#include "lockstep/tensor/t.h"\n', "parses untrusted bytes, but reaches"),
        "src/view/t.cpp": ("#include <c10/util/Half.h>\n", "is linked without libtorch, but reaches c10/util/Half.h"),
        "src/comm/n.cpp": ('#include "nowhere.h"\n', '"nowhere.h" is not a file'),
        "src/unknown/n.cpp": ("", "no row for unknown"),
        "examples/guide/f.cpp": ('#include "comm/x.h"\n', "only include public headers"),
        "examples/guide/g.cpp": ('#include <lockstep/base/i.h>\n', "only include public headers"),
        "include/lockstep/view/p.h": ('#include "lockstep/base/i.h"\n', "others are not installed"),
        "recipes/a/loop.cpp": ("#include <ATen/Parallel.h>\n", "recipes -> ATen/Parallel.h"),
        "src/tensor/g.cpp": ("#include <ATen/cuda/CUDAEvent.h>\n", "tensor -> ATen/cuda/CUDAEvent.h: pip's packages"),
        "src/comm/g.cpp": ("#include <c10/cuda/CUDAStream.h>\n", "comm -> c10/cuda/CUDAStream.h: use CUDA only in"),
        "src/comm/r.cpp": ("#include <cuda_runtime_api.h>\n", "comm -> cuda_runtime_api.h: use CUDA only in"),
        "src/comm/deep/d.cpp": ('#include "comm/high/h.h"\n', "src/comm form a cycle"),
    }
    clean["src/comm/high/h.h"] = '#include "comm/deep/e.h"\n'
    clean["src/comm/deep/e.h"] = '#include "lockstep/tensor/t.h"\n'

    def run(files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"cmake/layers.txt": layers, **files}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(House(root).offenders())

    failures = [f"clean house: {o}" for o in run(clean)]
    if not any("ghost is not a module" in o for o in run({**clean, "cmake/layers.txt": layers + "ghost 1 base\n"})):
        failures.append("a row without a module is not found")
    for name, (text, expected) in bad.items():
        found = run({**clean, name: text})
        if not any(name in o and expected in o for o in found):
            failures.append(f"{name}: expected '{expected}', got {found}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=str(pathlib.Path(__file__).resolve().parents[2]), help="the checkout")
    parser.add_argument("--self-test", action="store_true", help="verify that the check fails on bad input")
    options = parser.parse_args()
    found = self_test() if options.self_test else list(House(options.root).offenders())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
