"""A virtual environment with PyPI's PyTorch in a folder, for the scripts that build with it.

Of torch's dependencies it installs only those that a C++ program needs to start on a machine without a GPU ("cpu") or to be
built for GPUs there ("headers"), or all of them ("cuda"). Completed steps are not repeated.
"""
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TORCH = "2.14.1"  # the default version
MARK = "lockstep-pip"
FOR_THE_CPU = r"nvidia-cuda-(runtime|cupti)\b"  # libraries that libtorch_cpu.so loads: readelf -d
NOT_NEEDED = r"(triton|cuda-bindings)\b"  # for torch.compile, and Python's own CUDA bindings
EXTRAS_FOR_THE_CPU = "cudart,cupti"
HEADERS = "crt,cccl"  # included by the CUDA runtime's and NCCL's headers; torch does not require these packages


class Failure(Exception):
    """Ends the script with a message and an exit code."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def run(words: list, log: pathlib.Path | None = None, **more: object) -> int:
    words = [str(word) for word in words]
    print("$", " ".join(words) + (f" > {log}" if log else ""), flush=True)
    with log.open("w") if log else contextlib.nullcontext() as out:
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT if log else None,
                              check=False, **more).returncode


def last_lines(log: pathlib.Path, most: int = 5) -> str:
    return "\n".join(log.read_text(errors="replace").strip().splitlines()[-most:])


def find_python(version: str) -> pathlib.Path:
    """python3.11 in PATH, or pyenv's, which is not in PATH."""
    places = [shutil.which(f"python{version}")]
    places += sorted(pathlib.Path("~/.pyenv/versions").expanduser().glob(f"{version}*/bin/python{version}"))
    for place in filter(None, places):
        script = "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([place, "-c", script], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return pathlib.Path(place)
    raise Failure(69, f"there is no python{version} that can create a virtual environment: apt-get install python{version}-venv")


def needed_packages(requirements: list[str], kind: str) -> list[str]:
    """Those of torch's requirements that are needed here. A C++ program needs none from a CPU-only wheel."""
    found = []
    for line in requirements:
        package = line.split(";")[0].replace(" ", "")
        toolkit = re.match(r"cuda-toolkit\[(.*)\](.*)", package)
        if "extra ==" in line:
            continue
        if toolkit:
            extras = {"cpu": EXTRAS_FOR_THE_CPU, "headers": f"{EXTRAS_FOR_THE_CPU},{HEADERS}",
                      "cuda": f"{toolkit[1]},{HEADERS}"}[kind]
            found.append(f"cuda-toolkit[{extras}]{toolkit[2]}")
        elif kind == "headers" and package.startswith("nvidia-cuda-runtime"):
            found += [package, package.replace("runtime", "nvcc", 1)]  # CUDA 12's header package
        elif re.match(FOR_THE_CPU, package) or (kind == "cuda" and not re.match(NOT_NEEDED, package)):
            found.append(package)
    return found


class Environment:
    """The virtual environment of the folder."""

    def __init__(self, folder: pathlib.Path):
        self.root = folder / "venv"
        self.python = self.root / "bin/python"
        self.logs = folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)

    def ask(self, script: str) -> str:
        return subprocess.run([self.python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()

    def pip(self, log: str, *words: str) -> None:
        path = self.logs / log
        if run([self.python, "-m", "pip", "install", "--disable-pip-version-check", *words], path):
            raise Failure(69, f"pip failed: is the network up, and does the package exist?\n{last_lines(path)}")

    def create(self, python: str) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        if run([find_python(python), "-m", "venv", self.root]):
            raise Failure(69, f"no virtual environment in {self.root}")

    def prepare(self, python: str, torch: str, kind: str) -> None:
        """`kind`: the required part of torch's packages: cpu, headers or cuda."""
        mark = self.root / MARK
        wanted = f"python {python}, torch {torch}"
        had = mark.read_text().splitlines() if mark.exists() else []
        if had and had[0] != wanted:
            raise Failure(64, f"{self.root} has {had[0]}, not {wanted}: use another --folder, or remove this one")
        if not had:
            self.create(python)
            self.pip("pip_torch.log", "--no-deps", f"torch=={torch}")
            had = [wanted]
        if kind not in had:
            lines = self.ask("import importlib.metadata as m; print(*m.requires('torch') or [], sep='\\n')").splitlines()
            packages = needed_packages(lines, kind)
            if packages:
                self.pip(f"pip_{kind}.log", *packages)
            mark.write_text("\n".join([*had, kind]) + "\n")

    def torch_folder(self) -> pathlib.Path:
        return pathlib.Path(self.ask("import sysconfig; print(sysconfig.get_path('purelib'))")) / "torch"


@contextlib.contextmanager
def held(folder: pathlib.Path):
    """Creates and locks the folder. Fails if another script is working there."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(75, f"{folder} is in use by another script") from None
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise Failure(64, f"{folder} is not empty, and was not created by scripts/platforms/pip")
        (folder / MARK).touch()
        yield
    finally:
        os.close(lock)


def folder_of(torch: str) -> pathlib.Path:
    return pathlib.Path(os.environ.get("LOCKSTEP_PIP") or SOURCE / f"build/pip-{torch}")
