#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CMake's choice among several libtorches, and the errors for an incompatible one, with made-up folders.

Exit code: 0 passed, 1 failed."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

MODULE = pathlib.Path(__file__).resolve().parents[2] / "cmake/LockstepTorch.cmake"
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(torch_found LANGUAGES NONE)
add_library(fmt::fmt INTERFACE IMPORTED)
include({module})
lockstep_find_torch(${{WANTED}})
get_target_property(libraries Lockstep::torch INTERFACE_LINK_LIBRARIES)
message(STATUS "FOUND ${{LOCKSTEP_TORCH_VERSION}} ${{LOCKSTEP_TORCH}} LINKS ${{libraries}}")
"""
# A find_package(Torch) package that is not in a folder of its own.
SYSTEM = """set(TORCH_INCLUDE_DIRS {include})
set(TORCH_LIBRARIES system_torch)
"""


def write(path: pathlib.Path, text: str = "") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def write_version(header: pathlib.Path, version: str) -> None:
    parts = zip(("MAJOR", "MINOR", "PATCH"), version.split("."))
    write(header, "".join(f"#define TORCH_VERSION_{name} {number}\n" for name, number in parts))


def make_torch(folder: pathlib.Path, version: str, flags: str = "") -> pathlib.Path:
    """The files common to Python's package and an archive from pytorch.org."""
    write_version(folder / "include/torch/headeronly/version.h", version)
    write(folder / "include/torch/csrc/api/include/torch/version.h", "#include <torch/headeronly/version.h>\n")
    for name in ("torch", "torch_cpu", "torch_cuda", "c10", "c10_cuda"):
        write(folder / f"lib/lib{name}.so")
    write(folder / "share/cmake/Torch/TorchConfig.cmake", f'message(FATAL_ERROR "wants CUDA")\nset(TORCH_CXX_FLAGS "{flags}")\n')
    return folder


def make_python_torch(environment: pathlib.Path, version: str, python: str = "python3.11") -> pathlib.Path:
    folder = make_torch(environment / "lib" / python / "site-packages/torch", version)
    write(folder / "__init__.py")
    return folder


class Case:
    """A project next to an environment, an archive and the system's libtorch, each with its own version."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder.resolve()
        write(self.folder / "CMakeLists.txt", PROJECT.format(module=MODULE))
        self.venv, self.conda = self.folder / "a venv", self.folder / "conda"
        self.in_venv = make_python_torch(self.venv, "2.14.1")
        self.in_conda = make_python_torch(self.conda, "2.11.0")
        self.archive = make_torch(self.folder / "libtorch", "2.6.0")
        write_version(self.folder / "system/include/torch/version.h", "1.13.1")
        self.system = self.folder / "system/lib/cmake/Torch"
        write(self.system / "TorchConfig.cmake", SYSTEM.format(include=self.folder / "system/include"))

    def configure(self, *options: str, fresh: bool = True, **variables: object) -> tuple[int, str]:
        if fresh:
            shutil.rmtree(self.folder / "build", ignore_errors=True)
        kept = {name: value for name, value in os.environ.items()
                if name not in ("VIRTUAL_ENV", "CONDA_PREFIX", "CMAKE_PREFIX_PATH", "Torch_ROOT", "Torch_DIR")}
        variables = {name: str(value) for name, value in variables.items()}
        done = subprocess.run(["cmake", "-S", self.folder, "-B", self.folder / "build", *options], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**kept, **variables})
        print("+ cmake", *options, variables, "\n" + done.stdout, flush=True)
        return done.returncode, done.stdout

    def finds(self, expected: str, *options: str, **more: object) -> str:
        code, said = self.configure(*options, **more)
        assert code == 0 and f"FOUND {expected} " in said, f"expected {expected}"
        return said

    def refuses(self, *options: str, **more: object) -> str:
        code, said = self.configure(*options, **more)
        assert code != 0 and said.count("CMake Error") == 1 and "CMake Warning" not in said
        return re.sub(r"\s+", " ", said)


def order(case: Case) -> None:
    """LOCKSTEP_TORCH, then what CMake's variables name, the active environment, and the system last."""
    system = f"-DTorch_DIR={case.system}"
    both = {"VIRTUAL_ENV": case.venv, "CONDA_PREFIX": case.conda}
    case.finds("2.6.0", f"-DLOCKSTEP_TORCH={case.archive}", system, **both)
    case.finds("1.13.1", system, **both)
    case.finds("1.13.1", f"-DCMAKE_PREFIX_PATH=/nowhere;{case.folder}/system", **both)
    case.finds("2.6.0", f"-DCMAKE_PREFIX_PATH={case.archive}", **both)
    case.finds("2.6.0", f"-DCMAKE_PREFIX_PATH={case.archive}/share/cmake", **both)  # torch.utils.cmake_prefix_path
    case.finds("2.6.0", f"-DTorch_ROOT={case.archive}", **both)
    case.finds("2.6.0", CMAKE_PREFIX_PATH=f"/nowhere:{case.archive}", **both)
    case.finds("2.14.1", "-DCMAKE_PREFIX_PATH=/nowhere", **both)
    case.finds("2.14.1", **both)
    case.finds("2.11.0", VIRTUAL_ENV=case.folder / "gone", CONDA_PREFIX=case.conda)


def environment(case: Case) -> None:
    """The environment's newest Python counts; conda's libtorch needs no Python; GPU libraries are not linked unasked."""
    said = case.finds("2.14.1", VIRTUAL_ENV=case.venv)
    assert f"libtorch 2.14.1: {case.in_venv} (VIRTUAL_ENV: the active environment)" in said
    assert f"{case.in_venv}/lib/libtorch_cpu.so" in said and "libtorch_cuda" not in said and "libtorch.so" not in said
    make_python_torch(case.venv, "2.9.0", "python3.9")
    case.finds("2.14.1", VIRTUAL_ENV=case.venv)
    bare = case.folder / "bare"
    make_torch(bare, "2.10.0")
    case.finds("2.10.0", CONDA_PREFIX=bare)


def kept(case: Case) -> None:
    """A build folder keeps its libtorch when the environment is no longer active, until an option overrides it."""
    case.finds("2.14.1", VIRTUAL_ENV=case.venv)
    case.finds("2.14.1", fresh=False)
    case.finds("2.14.1", fresh=False, VIRTUAL_ENV=case.conda)
    case.finds("2.11.0", "-U", "LOCKSTEP_TORCH", fresh=False, VIRTUAL_ENV=case.conda)
    case.finds("2.6.0", f"-DLOCKSTEP_TORCH={case.archive}", fresh=False)
    case.finds("2.6.0", CMAKE_PREFIX_PATH=case.archive)
    case.finds("2.6.0", fresh=False)


def installed(case: Case) -> None:
    """An installed Lockstep skips an environment whose libtorch differs from the one it was built with."""
    said = case.finds("2.11.0", "-DWANTED=2.11.1", VIRTUAL_ENV=case.venv, CONDA_PREFIX=case.conda)
    assert f"libtorch 2.14.1 of the active environment ({case.in_venv}) is ignored" in said
    case.finds("2.14.1", "-DWANTED=2.14.0", VIRTUAL_ENV=case.venv, CONDA_PREFIX=case.conda)
    case.finds("2.6.0", "-DWANTED=2.14.0", f"-DLOCKSTEP_TORCH={case.archive}")  # LockstepConfig.cmake says that it does not match


def refused(case: Case) -> None:
    """The old C++ ABI, an old version, no headers, no libraries, the folder above: one error each, naming the folder."""
    old_abi = make_torch(case.folder / "old_abi", "2.4.0", "-D_GLIBCXX_USE_CXX11_ABI=0")
    old = case.folder / "old"
    make_python_torch(old, "1.12.1")
    bare = case.folder / "bare"
    write(bare / "lib/python3.11/site-packages/torch/__init__.py")
    no_libraries = make_torch(case.folder / "no_libraries", "2.6.0")
    shutil.rmtree(no_libraries / "lib")
    for said, words in (
            (case.refuses(f"-DLOCKSTEP_TORCH={old_abi}"), (str(old_abi), "old C++ ABI")),
            (case.refuses(f"-DCMAKE_PREFIX_PATH={old_abi}"), (str(old_abi), "CMAKE_PREFIX_PATH", "old C++ ABI")),
            (case.refuses(VIRTUAL_ENV=old), (str(old), "VIRTUAL_ENV", "1.13 or later, found 1.12.1")),
            (case.refuses(VIRTUAL_ENV=bare), (str(bare), "VIRTUAL_ENV", "not a torch package with C++ headers")),
            (case.refuses(f"-DLOCKSTEP_TORCH={case.folder}"), (f"{case.folder}/libtorch is one", "not a torch package with C++ headers")),
            (case.refuses(f"-DLOCKSTEP_TORCH={case.archive}/lib"), (f"{case.archive}/ is one",)),
            (case.refuses("-DLOCKSTEP_TORCH=/nowhere"), ("LOCKSTEP_TORCH=/nowhere", "not a torch package with C++ headers")),
            (case.refuses(f"-DLOCKSTEP_TORCH={no_libraries}"), (str(no_libraries), "no lib/libtorch_cpu.so"))):
        for word in (*words, "apt install libtorch-dev", "-D LOCKSTEP_TORCH=/path/to/libtorch"):
            assert word in said, f"missing: {word}"


CASES = {function.__name__: function for function in (order, environment, kept, installed, refused)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="default: all")
    for name in parser.parse_args().cases or CASES:
        print(f"== {name}: {CASES[name].__doc__}", flush=True)
        with tempfile.TemporaryDirectory(prefix="lockstep-torch-") as folder:
            CASES[name](Case(pathlib.Path(folder)))


if __name__ == "__main__":
    main()
