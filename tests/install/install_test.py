#!/usr/bin/env python3
"""Installs Lockstep into a fresh folder and builds projects that use it, each the way a user would.

Exit code: 0 passed, 1 failed, 77 skipped: it names the missing tool."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
CONSUMER = HERE / "consumer"


def run(*words, ok=True, **more):
    words = [str(word) for word in words]
    print("+", " ".join(words), flush=True)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1200, **more)
    print(done.stdout, flush=True)
    if ok:
        assert done.returncode == 0, f"{words[0]} exited with {done.returncode}"
    return done


class Case:
    def __init__(self, build: pathlib.Path, folder: pathlib.Path):
        self.build, self.folder = build, folder
        self.prefix = folder / "prefix"

    def install(self):
        run("cmake", "--install", self.build, "--prefix", self.prefix)

    def installed_libraries(self):
        found = list(self.prefix.rglob("liblockstep.a"))
        assert len(found) == 1, f"liblockstep.a in {self.prefix}: {found}"
        return found[0].parent

    def configure(self, parts, *options, ok=True):
        return run("cmake", "-S", CONSUMER, "-B", self.folder / "build", "-G", "Ninja", "-D", f"PARTS={parts}", "-D",
                   "CMAKE_BUILD_TYPE=Release", "-D", "CMAKE_CXX_FLAGS_RELEASE=-O0", "-D",
                   f"CMAKE_PREFIX_PATH={self.prefix}", *options, ok=ok)

    def make(self, *targets):
        run("cmake", "--build", self.folder / "build", "-j2", "--target", *targets)

    def program(self, name):
        return self.folder / "build" / name

    def trains_on_two_ranks(self, program, **more):
        said = run(self.prefix / "bin/lockstep", "run", "--nproc-per-node", "2", program, **more).stdout
        assert "step 2 on 2 ranks" in said and "no such run" in said, said


def static(case):
    """find_package(Lockstep) with all components, static."""
    case.install()
    case.configure("core;train;recipes")
    case.make("core", "train", "recipes")
    assert "hello from Lockstep" in run(case.program("core")).stdout
    assert "libtorch" not in run("ldd", case.program("core")).stdout, "the core links libtorch"
    assert int(run(case.program("recipes")).stdout.split()[0]) > 100_000
    case.trains_on_two_ranks(case.program("train"))


def shared(case):
    """The same with BUILD_SHARED_LIBS, from a folder that was moved after the install."""
    case.install()
    moved = case.folder / "moved"
    case.prefix.rename(moved)
    case.prefix = moved
    case.configure("core;train", "-D", "BUILD_SHARED_LIBS=ON")
    case.make("core", "train")
    assert "liblockstep-core.so" in run("ldd", case.program("core")).stdout
    assert "libtorch" not in run("ldd", case.program("core")).stdout, "the core links libtorch"
    assert "hello from Lockstep" in run(case.program("core")).stdout
    case.trains_on_two_ranks(case.program("train"))


def pkg_config(case):
    """A compiler command line with pkg-config, against the shared and the static library."""
    if shutil.which("pkg-config") is None:
        print("pkg-config is not installed")
        sys.exit(77)
    case.install()
    libraries = case.installed_libraries()
    environment = dict(os.environ, PKG_CONFIG_PATH=str(libraries / "pkgconfig"))

    def flags(*words):
        done = subprocess.run(["pkg-config", *words, "lockstep"], check=True, text=True, stdout=subprocess.PIPE,
                              env=environment)
        return done.stdout.split()

    objects = case.folder / "train.o"
    run("c++", "-c", CONSUMER / "train.cpp", "-o", objects, *flags("--cflags"))
    run("c++", objects, "-o", case.folder / "shared", *flags("--libs"), f"-Wl,-rpath,{libraries}")
    case.trains_on_two_ranks(case.folder / "shared")
    for library in libraries.glob("liblockstep*.so*"):
        library.unlink()
    run("c++", objects, "-o", case.folder / "static", *flags("--libs", "--static"))
    case.trains_on_two_ranks(case.folder / "static")


def subdirectory(case):
    """add_subdirectory, without recipes, command and tests: the parent project can link the targets."""
    case.configure("core;train", "-D", f"LOCKSTEP_SOURCE={SOURCE}")
    targets = run("cmake", "--build", case.folder / "build", "--target", "help").stdout
    assert "lockstep_recipe_" not in targets and "lockstep_command" not in targets, "recipes or apps are built"
    case.make("core")
    assert "hello from Lockstep" in run(case.program("core")).stdout


def subdirectory_whole(case):
    """add_subdirectory, the whole library: takes minutes."""
    subdirectory(case)
    case.make("train")
    run(case.program("train"))


def exported(case):
    """The shared libraries export only names that the headers in include and internal declare, and nothing of other
    libraries."""
    case.install()
    words = set()
    for header in [*(SOURCE / "include").rglob("*.h"), *(SOURCE / "internal").rglob("*.h")]:
        text = header.read_text()
        words.update(re.findall(r"\w+", text))
        opened, closed = (text.count(f"#pragma GCC visibility {word}") for word in ("push(default)", "pop"))
        assert opened == closed == ("\nnamespace lockstep" in text), f"{header}: the visibility of what it declares"
    wrong = []
    for library in case.installed_libraries().glob("liblockstep*.so"):
        names = run("nm", "-DC", "--defined-only", library).stdout.splitlines()
        if library.name == "liblockstep-cuda.so":  # besides inline functions of libtorch, which a process has once
            functions = [line.split(" ", 2)[2] for line in names if " T " in line]
            assert functions == ["lockstep_cuda_parts"], f"{library} exports {functions}"
            continue
        assert len(names) > 100, f"{library} exports {len(names)} names"
        for line in names:
            name = re.sub(r"^(non-virtual thunk to|(virtual thunk|vtable|VTT|typeinfo name|typeinfo|guard variable) for"
                          r"|reference temporary #\d+ for) ", "", line.split(" ", 2)[2])
            name = re.sub(r"^.* (?=lockstep::[\w:]+(<.*>)?\()", "", name)  # a template's return type
            entity = re.match(r"lockstep::((?:\w+::)*~?\w+)", name)
            if name.startswith("lockstep_"):
                continue
            if not entity or any(part.lstrip("~") not in words for part in entity.group(1).split("::")[:2]):
                wrong.append(f"{library.name}: {line}")
    assert not wrong, "not public:\n" + "\n".join(wrong[:40]) + f"\n{len(wrong)} names"


def write_version(header: pathlib.Path, major: int, minor: int) -> None:
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(f"#define TORCH_VERSION_MAJOR {major}\n#define TORCH_VERSION_MINOR {minor}\n"
                      "#define TORCH_VERSION_PATCH 0\n")


def newer_torch(case):
    """A libtorch with its version in another header, an fmt without its library, and a std::filesystem that crashes."""
    torch = case.folder / "torch/include"
    write_version(torch / "torch/headeronly/version.h", 2, 11)
    (torch / "torch/version.h").write_text("#include <torch/headeronly/version.h>\n")
    (torch / "torch/csrc/api/include").mkdir(parents=True)
    (torch / "fmt").mkdir()
    (torch / "fmt/format.h").write_text("#error this is not the fmt that is linked\n")
    (case.folder / "CMakeLists.txt").write_text(f"""
cmake_minimum_required(VERSION 3.25)
project(newer_torch LANGUAGES CXX)
find_package(fmt REQUIRED)
include({SOURCE}/cmake/LockstepTorch.cmake)
lockstep_find_torch()
message(STATUS "found libtorch ${{LOCKSTEP_TORCH_VERSION}}")
add_executable(part part.cpp)
target_link_libraries(part PRIVATE Lockstep::torch fmt::fmt)
""")
    (case.folder / "part.cpp").write_text("#include <torch/version.h>\n#include <fmt/format.h>\n#include <filesystem>\n"
                                          "static_assert(TORCH_VERSION_MINOR == 11);\n"
                                          "int main() { return std::filesystem::remove_all(\"gone\") == 3 ? 0 : 1; }\n")
    (case.folder / "crash.c").write_text("void abort(void);\n"
                                         "void _ZNSt10filesystem10remove_allERKNS_7__cxx114pathE(void) { abort(); }\n")
    (torch.parent / "lib").mkdir()
    run("cc", "-shared", "-fPIC", "-o", torch.parent / "lib/libtorch_cpu.so", case.folder / "crash.c")
    said = run("cmake", "-S", case.folder, "-B", case.folder / "build", "-G", "Ninja", "-D",
               f"LOCKSTEP_TORCH={case.folder}/torch").stdout
    assert "found libtorch 2.11.0" in said, said
    case.make("part")
    (case.folder / "gone/deep/deeper").mkdir(parents=True)
    run(case.program("part"), cwd=case.folder)
    assert not (case.folder / "gone").exists()


def make_library(path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    run("cc", "-shared", "-o", path, "-x", "c", "/dev/null")


def gpu_of_python(case):
    """Python's torch and its headers are enough for GPUs; if headers are missing, a warning says so."""
    site = case.folder / "site"
    write_version(site / "torch/include/torch/version.h", 2, 4)
    (site / "torch/include/torch/csrc/api/include").mkdir(parents=True)
    for name in ("libtorch_cpu.so", "libtorch_cuda.so"):
        make_library(site / "torch/lib" / name)

    def write_headers(*names):
        for name in names:
            (site / "nvidia" / name).parent.mkdir(parents=True, exist_ok=True)
            (site / "nvidia" / name).write_text("")

    write_headers("cu13/include/cuda_runtime_api.h", "cu13/include/crt/host_defines.h")
    environment = {name: value for name, value in os.environ.items() if name != "CUDA_HOME"}

    def configured(*options, ok=True):
        shutil.rmtree(case.folder / "build", ignore_errors=True)
        said = run("cmake", "-S", SOURCE, "-B", case.folder / "build", "-G", "Ninja", "-D", "LOCKSTEP_TESTS=OFF", "-D",
                   f"LOCKSTEP_TORCH={site}/torch", *options, ok=ok, env=environment).stdout
        return said, (case.folder / "build/CMakeCache.txt").read_text()

    said, cache = configured()
    assert "LOCKSTEP_CUDA:BOOL=ON" in cache and "CMake Warning" not in said, said
    (site / "nvidia/cu13/include/crt/host_defines.h").unlink()  # `pip install torch` does not include it
    said, cache = configured()
    assert "LOCKSTEP_CUDA:BOOL=OFF" in cache, cache
    assert "without CUDA: crt/host_defines.h was not found." in re.sub(r"\s+", " ", said), said
    assert "Then run cmake again with -U LOCKSTEP_CUDA" in re.sub(r"\s+", " ", said), said
    said, cache = configured("-D", "LOCKSTEP_CUDA=ON", ok=False)
    assert "LOCKSTEP_CUDA needs crt/host_defines.h." in re.sub(r"\s+", " ", said), said
    assert said.count("CMake Error") == 1, said
    shutil.rmtree(site / "nvidia/cu13")  # the packages of CUDA 12 have a folder each
    write_headers("cuda_runtime/include/cuda_runtime_api.h")
    assert "LOCKSTEP_CUDA:BOOL=OFF" in configured()[1]
    write_headers("cuda_nvcc/include/crt/host_defines.h")
    said, cache = configured()
    assert "LOCKSTEP_CUDA:BOOL=ON" in cache and "CMake Warning" not in said, said


def refused(case):
    """An incompatible libtorch gets one clear error."""
    case.install()
    torch = case.folder / "torch"
    write_version(torch / "include/torch/version.h", 2, 4)
    make_library(torch / "lib/libtorch_cpu.so")
    said = case.configure("train", "-D", f"LOCKSTEP_TORCH={torch}", ok=False).stdout
    assert "and 2.4.0 is" in said and said.count("CMake Error") == 1, said
    shutil.rmtree(case.folder / "build")
    (torch / "share/cmake/Torch").mkdir(parents=True)
    (torch / "share/cmake/Torch/TorchConfig.cmake").write_text('set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=0")\n')
    said = case.configure("train", "-D", f"LOCKSTEP_TORCH={torch}", ok=False).stdout
    assert "old C++ ABI" in said and said.count("CMake Error") == 1, said
    shutil.rmtree(case.folder / "build")
    said = case.configure("train", "-D", f"LOCKSTEP_TORCH={case.folder}", ok=False).stdout
    assert "is not a torch package" in re.sub(r"\s+", " ", said), said


def new_project(case, kind):
    """lockstep new: the project builds, its tests pass, and a one-line change runs within 15 s."""
    case.install()
    environment = dict(os.environ, CMAKE_PREFIX_PATH=str(case.prefix), PATH=f"{case.prefix}/bin:{os.environ['PATH']}")
    project = case.folder / "shapes"
    more = {"cwd": project, "env": environment}
    run("lockstep", "new", "shapes", "--from", kind, "--folder", project, env=environment)
    run("cmake", "--preset", "release", **more)
    run("cmake", "--build", "--preset", "release", "-j2", **more)
    said = run("ctest", "--preset", "release", **more).stdout
    assert "two_ranks" in said and "100% tests passed" in said, said
    if kind == "trainer":  # the others need data or take no arguments
        run(sys.executable, SOURCE / "tests/apps/debugger_test.py", project, project / "build/release/shapes", env=environment)
    file = project / "src/main.cpp"
    file.write_text(file.read_text().replace("return 0;\n}", 'job.print("changed");\n  return 0;\n}'))
    begin = time.monotonic()
    run("cmake", "--build", "--preset", "release", **more)
    run("build/release/shapes", "--help", **more)
    print(f"a change of one line compiled and started in {time.monotonic() - begin:.1f} s")


def new_configured(case):
    """lockstep new: every source is compiled, and a missing Lockstep is explained. A stub takes the place of Lockstep."""
    project = case.folder / "shapes"
    run(case.build / "bin/lockstep", "new", "shapes", "--from", "loop", "--folder", project)
    (project / "src/domain.cpp").write_text("int of_domain() { return 1; }\n")
    package, sources = case.prefix / "lib/cmake/Lockstep", case.folder / "lockstep"
    stub = "add_library(lockstep INTERFACE)\nadd_library(lockstep::lockstep ALIAS lockstep)\n"
    for folder, name in ((package, "LockstepConfig.cmake"), (sources, "CMakeLists.txt")):
        folder.mkdir(parents=True)
        (folder / name).write_text(stub)
    version = package / "LockstepConfigVersion.cmake"
    version.write_text("set(PACKAGE_VERSION 9.8)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")

    def configure(name, *options, ok=True):
        said = run("cmake", "-S", project, "-B", case.folder / name, "-G", "Ninja", "-D", "PRECOMPILE_TORCH=OFF",
                   "-D", "CMAKE_CXX_COMPILER_FORCED=ON", *options, cwd=case.folder, ok=ok).stdout
        return re.sub(r"\s+", " ", said)

    prefix, absent = f"CMAKE_PREFIX_PATH={case.prefix}", "CMAKE_DISABLE_FIND_PACKAGE_Lockstep=ON"
    configure("whole", "-D", prefix)
    rules = (case.folder / "whole/build.ninja").read_text()
    assert "src/domain.cpp.o: CXX_COMPILER__shapes_parts" in rules, rules
    assert "src/main.cpp.o: CXX_COMPILER__shapes_parts" not in rules, rules
    configure("fetched", "-D", absent, "-D", "LOCKSTEP_REPOSITORY=../lockstep")
    assert "`lockstep cmake-dir` prints" in configure("missing", "-D", absent, ok=False)
    compatible = version.read_text()
    version.write_text("set(PACKAGE_VERSION 9.8)\n")
    said = configure("other", "-D", prefix, ok=False)
    assert "Found but not usable" in said and "(version 9.8)" in said, said
    version.write_text(compatible)
    (package / "LockstepConfig.cmake").write_text(
        'set(Lockstep_FOUND FALSE)\nset(Lockstep_NOT_FOUND_MESSAGE "fmt is missing")\n')
    assert "fmt is missing" in configure("torn", "-D", prefix, ok=False)


def new_trainer(case):
    new_project(case, "trainer")


def new_loop(case):
    new_project(case, "loop")


def new_recipe(case):
    new_project(case, "recipe")


CASES = {function.__name__: function
         for function in (static, shared, pkg_config, subdirectory, subdirectory_whole, exported, newer_torch, gpu_of_python,
                          refused, new_configured, new_trainer, new_loop, new_recipe)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/test", help="where Lockstep was built")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lockstep-install-") as folder:
        CASES[args.case](Case(args.build.resolve(), pathlib.Path(folder)))


if __name__ == "__main__":
    main()
