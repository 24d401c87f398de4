"""The Python wheel as a file: the system libraries that it bundles, its metadata, and the archive."""
import base64
import gzip
import hashlib
import pathlib
import re
import shutil
import subprocess
import zipfile

import gather

NAME = "lockstep-ddp"  # PyPI's `lockstep` is another project
PACKAGE = "lockstep"
LIMIT_MB = 45  # of which the runtime of exported networks (WebAssembly) takes 3.7
PROGRAMS = ("lockstep", "lockstep-worker", "lockstep-dashboard", "lockstep-plot")
FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
HEADERS = {"libfmt-dev": "fmt", "nlohmann-json3-dev": "nlohmann"}  # included by our public headers
# OpenCV's files link them, but none of the functions that we call uses them: 5 MB of the archive for names that stubs can
# provide.
NEVER_CALLED = ("liblapack.so.3", "libblas.so.3", "libGLX.so.0")
TEXTS = gather.ROOT / "packaging/wheel"


def is_elf(path: pathlib.Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def binaries(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and is_elf(path))


def needed(binary: pathlib.Path) -> list[str]:
    return re.findall(r"^\s*NEEDED\s+(\S+)", gather.output("objdump", "-p", str(binary)), re.MULTILINE)


def bundle(package: pathlib.Path, torch: pathlib.Path) -> list[pathlib.Path]:
    """Copies into lib/ the libraries that the package's binaries need, except those of torch, glibc and the compiler's runtime.

    Returns the copied system files."""
    copied, never_called, todo = [], set(), binaries(package)
    while todo:
        for name in needed(todo.pop()):
            target = package / "lib" / name
            if gather.NOT_COPIED.match(name) or target.exists() or (torch / "lib" / name).exists():
                continue
            if name in NEVER_CALLED:
                never_called.add(name)
                continue
            source = system_library(name).resolve()
            shutil.copyfile(source, target)
            copied.append(source)
            todo.append(target)
    for name in sorted(never_called):
        write_empty_library(package / "lib" / name)
    return copied


def names_in(binary: pathlib.Path, kind: str) -> set[str]:
    """The symbols that a binary exports, or imports from others."""
    lines = gather.output("nm", "-D", "--format=posix", f"--{kind}-only", str(binary)).splitlines()
    return {line.split()[0].split("@")[0] for line in lines}


def write_empty_library(target: pathlib.Path) -> None:
    """Replaces the system's library of that name with stubs for the symbols that the package's libraries import, which abort the
    program."""
    asked = set().union(*(names_in(binary, "undefined") for binary in binaries(target.parent)))
    names = sorted(asked & names_in(system_library(target.name), "defined"))
    code = "void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names)
    subprocess.run(["cc", "-shared", "-fPIC", "-s", f"-Wl,-soname,{target.name}", "-o", str(target), "-x", "c", "-"], input=code,
                   text=True, check=True)


def system_library(name: str) -> pathlib.Path:
    found = pathlib.Path(f"/usr/lib/{gather.MACHINE}", name)
    if not found.exists():
        raise gather.Missing(f"{name} is not in {found.parent}")
    return found


def glibc_of(package: pathlib.Path) -> tuple[int, int]:
    """The newest glibc version from which a binary needs a symbol."""
    versions = [(0, 0)]
    for binary in binaries(package):
        words = gather.output("objdump", "-p", str(binary))
        versions += [(int(major), int(minor)) for major, minor in re.findall(r"\bGLIBC_(\d+)\.(\d+)", words)]
    return max(versions)


def package_of(file: pathlib.Path) -> str:
    """The Debian package that contains a file; "" if none does."""
    for name in (str(file), str(file).removeprefix("/usr")):
        done = subprocess.run(["dpkg", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    return ""


def add_licences(folder: pathlib.Path, files: list[pathlib.Path]) -> None:
    """Our licence, and Debian's for each package with a bundled file."""
    folder.mkdir(parents=True)
    shutil.copyfile(gather.ROOT / "LICENSE", folder / "LICENSE")
    for name in {*map(package_of, files), *HEADERS, "fonts-dejavu-core"} - {""}:
        for text in (pathlib.Path("/usr/share/doc", name, "copyright"), pathlib.Path("/usr/share/doc", name, "copyright.gz")):
            if text.is_file():
                opener = gzip.open if text.suffix == ".gz" else open
                with opener(text, "rb") as file:
                    (folder / f"{name}.txt").write_bytes(file.read())


def add_shared_files(package: pathlib.Path) -> None:
    """Fonts, and third-party headers that our headers include."""
    shutil.copytree(FONTS, package / "share/fonts/truetype/dejavu")
    shutil.copyfile(TEXTS / "fonts.conf", package / "share/fonts/fonts.conf")
    for name in HEADERS.values():
        shutil.copytree(pathlib.Path("/usr/include", name), package / "include" / name)


def filled(name: str, version: str) -> str:
    return (TEXTS / name).read_text().replace("@NAME@", NAME).replace("@VERSION@", version)


def add_python(tree: pathlib.Path, version: str) -> None:
    """Copies the modules, and the scripts that pip puts into the environment's bin."""
    scripts = tree / f"{stem(version)}.data/scripts"
    scripts.mkdir(parents=True)
    for name in ("__init__.py", "__main__.py"):
        (tree / PACKAGE / name).write_text(filled(name, version))
    for name in PROGRAMS:
        (scripts / name).write_text(filled("start.sh", version))
        (scripts / name).chmod(0o755)


def stem(version: str) -> str:
    return f"{NAME.replace('-', '_')}-{version}"


def write_metadata(tree: pathlib.Path, version: str, torch_version: str, tag: str) -> None:
    major, minor = (int(part) for part in torch_version.split(".")[:2])
    info = tree / f"{stem(version)}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
        "Summary: Distributed data-parallel training for C++, with the environment's torch\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\n"
        f"Requires-Dist: torch >={major}.{minor},<{major}.{minor + 1}\n"
        f"Description-Content-Type: text/markdown\n\n{filled('description.md', version)}")
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: {PACKAGE} make_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n")


def write_archive(tree: pathlib.Path, version: str, file: pathlib.Path) -> None:
    """RECORD goes last. Nothing in the archive depends on when or by whom it was built."""
    record = f"{stem(version)}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        def write(name: str, content: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)

        for path in sorted(path for path in tree.rglob("*") if path.is_file()):
            name, content = path.relative_to(tree).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
            write(name, content, 0o755 if path.stat().st_mode & 0o100 else 0o644)
        write(record, "\n".join([*lines, f"{record},,", ""]).encode(), 0o644)
