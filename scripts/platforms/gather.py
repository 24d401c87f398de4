"""Packs the libraries that Lockstep uses into one folder, for a machine on which no packages can be installed.

dependencies.tar.xz mirrors Debian's own folders (usr/include, usr/lib/<machine>, usr/share/cmake), so that the packages' CMake
files find what they name: unpack it and pass cmake -D LOCKSTEP_DEPENDENCIES=FOLDER. It contains neither libtorch nor the files of
the compiler.
"""
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_MB = 40
ARCHIVE = "dependencies.tar.xz"
MACHINE = "x86_64-linux-gnu"

# Every -dev package of scripts/build/packages.txt except these: the target machine has its own, or does not need them.
LEFT_OUT = {"build-essential", "cmake", "ninja-build", "libtorch-dev", "libucx-dev", "libopenblas0-openmp",
            "fonts-dejavu-core", "python3", "python3-torch", "iproute2", "clang-format-14", "clang-tidy-14", "clang-14"}
# The packages whose headers those include: apt installs them too.
ALSO = ["libbrotli-dev"]
# The files of g++ and glibc: the target machine's are newer.
NOT_COPIED = re.compile(r"^(ld-linux|lib(c|m|mvec|dl|rt|pthread|util|resolv|nsl|anl|nss_\w+|stdc\+\+|gcc_s|gomp)\.so)")
# OpenCV links a LAPACK, but our use of it never calls it: take the small one, whichever this machine has selected.
SMALL = {"libblas.so.3": ("libblas3", "blas"), "liblapack.so.3": ("liblapack3", "lapack")}


class Missing(Exception):
    """Something that the folder needs is missing on this machine."""


def output(*words: str, **options) -> str:
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, **options).stdout


def packages() -> list[str]:
    lines = [line.split() for line in (ROOT / "scripts/build/packages.txt").read_text().splitlines()]
    return [line[1] for line in lines if line and line[0] != "#" and line[1] not in LEFT_OUT] + ALSO


def files_of(package: str) -> list[pathlib.Path]:
    try:
        listed = output("dpkg", "-L", package, stderr=subprocess.DEVNULL)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        raise Missing(f"the package {package} is not installed: run scripts/build/install_packages test") from error
    return [pathlib.Path(line) for line in listed.splitlines() if pathlib.Path(line).is_file()]


def is_wanted(path: pathlib.Path) -> bool:
    text = str(path)
    if text.startswith(("/usr/include/", "/usr/share/cmake/")) or f"/{MACHINE}/cmake/" in text:
        return True
    # A static library only if Debian has no shared one: its CMake packages name the shared one.
    return path.parent == pathlib.Path(f"/usr/lib/{MACHINE}") and (
        ".so" in path.name or (path.suffix == ".a" and not path.with_suffix(".so").exists()))


class Folder:
    """The folder under construction. `scratch` is for packages that are only inspected."""

    def __init__(self, path: pathlib.Path, scratch: pathlib.Path):
        self.path = path
        self.scratch = scratch
        self.libraries = path / "usr/lib" / MACHINE

    def copy(self, source: pathlib.Path, target: pathlib.Path) -> None:
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def add_package(self, package: str) -> None:
        for path in files_of(package):
            if not is_wanted(path):
                continue
            if ".so" in path.name:
                self.add_library(path)
            else:
                self.copy(path, self.path / path.relative_to("/"))

    def add_library(self, path: pathlib.Path) -> None:
        """Copies it with its full name, the links that linker and loader use, and everything that it needs."""
        real = path.resolve()
        if b"\x7fELF" != real.read_bytes()[:4]:  # a linker script
            self.copy(path, self.libraries / path.name)
            return
        self.copy(real, self.libraries / real.name)
        dynamic = output("objdump", "-p", str(real))
        for link in {path.name, *re.findall(r"^\s*SONAME\s+(\S+)", dynamic, re.MULTILINE)} - {real.name}:
            if not (self.libraries / link).is_symlink():
                (self.libraries / link).symlink_to(real.name)
        for needed in re.findall(r"^\s*NEEDED\s+(\S+)", dynamic, re.MULTILINE):
            if not NOT_COPIED.match(needed) and not (self.libraries / needed).exists():
                self.add_library(self.find(needed))

    def find(self, name: str) -> pathlib.Path:
        if name in SMALL:
            return self.small(name)
        for folder in (f"/usr/lib/{MACHINE}", f"/lib/{MACHINE}"):
            if pathlib.Path(folder, name).exists():
                return pathlib.Path(folder, name)
        raise Missing(f"{name} is not in /usr/lib/{MACHINE}")

    def small(self, name: str) -> pathlib.Path:
        package, folder = SMALL[name]
        installed = pathlib.Path(f"/usr/lib/{MACHINE}/{folder}/{name}")
        if installed.exists():
            return installed
        unpacked = self.scratch / package
        unpacked.mkdir(parents=True)
        try:
            output("apt-get", "download", "-qq", package, cwd=unpacked)
            output("dpkg", "-x", str(next(unpacked.glob("*.deb"))), str(unpacked))
        except (subprocess.CalledProcessError, FileNotFoundError, StopIteration) as error:
            raise Missing(f"the package {package} could not be downloaded: run apt-get install {package}") from error
        return unpacked / installed.relative_to("/")


def copy_peers(folder: pathlib.Path) -> bool:
    """The Python programs to compare with, if they are next to the checkout."""
    peers = ROOT.parent / "shared/peers"
    if not peers.is_dir():
        return False
    (folder / "peers").mkdir()
    for program in peers.iterdir():
        shutil.copyfile(program, folder / "peers" / program.name)
    return True


def pack(made: pathlib.Path, archive: pathlib.Path) -> float:
    """Returns its size in MB."""
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(made, arcname=".")
    return archive.stat().st_size / 1e6


def unpack(gathered: pathlib.Path, into: pathlib.Path) -> None:
    """Copies the files of `gathered` into `into`, unless they are there already."""
    archive = gathered / ARCHIVE
    mark = into / "unpacked"
    if not archive.is_file():
        raise Missing(f"{archive} is missing: scripts/platforms/gpu_check --gather, on a machine with Debian's packages")
    stamp = f"{archive.stat().st_size} {archive.stat().st_mtime_ns}"
    if mark.is_file() and mark.read_text() == stamp:
        return
    shutil.rmtree(into, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(into)
    mark.write_text(stamp)


def gather(path: pathlib.Path) -> None:
    """Recreates `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=path.name + ".", dir=path.parent))
    try:
        folder = Folder(work / "made", work / "packages")
        for package in packages():
            folder.add_package(package)
        size = pack(folder.path, work / ARCHIVE)
        if size > LIMIT_MB:
            raise Missing(f"{size:.1f} MB were gathered; the limit is {LIMIT_MB} MB")
        shutil.rmtree(folder.path)
        shutil.rmtree(folder.scratch, ignore_errors=True)
        peers = copy_peers(work)
        work.chmod(0o755)
        shutil.rmtree(path, ignore_errors=True)
        work.rename(path)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    print(f"{path}: {size:.1f} MB" + ("" if peers else "; no peers next to the checkout, so nothing to compare with"))
