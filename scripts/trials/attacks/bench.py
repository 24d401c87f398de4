"""The tools of scripts/trials/attack's trials: the built programs, a separate folder, and bounded runs.

A trial is a function of one Bench. It returns if the attack was repelled, and fails an assertion otherwise.
"""
import contextlib
import dataclasses
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
import time

ESCAPES = [b"\x1b", b"\x9b", b"\x07", b"\x00"]


@dataclasses.dataclass
class Ended:
    """How a program ended."""
    args: list[str]
    returncode: int  # negative: the signal number
    stdout: str
    stderr: str
    seconds: float
    peak_bytes: int

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    def told(self) -> str:
        """For an assertion's message."""
        return f"{' '.join(self.args)}: ended with {self.returncode} after {self.seconds:.1f} s\n{self.text[-2000:]}"


class Hung(AssertionError):
    pass


class CannotTry(Exception):
    """The trial needs something that this machine lacks."""


class Bench:
    def __init__(self, programs: pathlib.Path, folder: pathlib.Path):
        self.programs = programs
        self.folder = folder

    def program(self, name: str) -> str:
        return str(self.programs / name)

    def environment(self, changes: dict | None) -> dict[str, str]:
        """The environment without variables of the caller's own runs; a change to None removes a variable."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("LOCKSTEP_")}
        for key, value in (changes or {}).items():
            clean.pop(key, None)
            if value is not None:
                clean[key] = str(value)
        return clean

    def start(self, args, env=None, limits=None, user=None, **more) -> subprocess.Popen:
        """Prepares a separate process group; `limits` are those of resource.RLIMIT_*, by the rest of the name."""
        def prepare():
            for name, value in (limits or {}).items():
                resource.setrlimit(getattr(resource, "RLIMIT_" + name), (value, value))
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
        first, *others = [str(arg) for arg in args]
        if "/" not in first and (self.programs / first).exists():
            first = self.program(first)
        return subprocess.Popen([first, *others], env=self.environment(env), cwd=more.pop("cwd", self.folder),
                                start_new_session=True, preexec_fn=prepare, **more)

    def run(self, args, timeout=60, env=None, limits=None, **more) -> Ended:
        """Runs a program to its end. A program that takes longer than `timeout` seconds counts as hanging and fails the trial."""
        args = [str(arg) for arg in args]
        given = more.pop("input", None)
        started = time.monotonic()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            stdin = subprocess.PIPE if given is not None else subprocess.DEVNULL
            process = self.start(args, env, limits, stdin=stdin, stdout=out, stderr=err, **more)
            if given is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(given if isinstance(given, bytes) else given.encode())
                    process.stdin.close()
            late = threading.Timer(timeout, lambda: end_group(process.pid))
            late.start()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            seconds = time.monotonic() - started
            hung = not late.is_alive() and seconds >= timeout
            late.cancel()
            end_group(process.pid)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="backslashreplace"))
        ended = Ended(args, process.returncode, *texts, seconds, usage.ru_maxrss * 1024)
        if hung:
            raise Hung(f"hung for {timeout} s: {ended.told()}")
        return ended

    def lockstep(self, *args, **more) -> Ended:
        return self.run([self.program("lockstep"), *args], **more)

    def refused(self, ended: Ended, words: str, code: int | None = None) -> None:
        """Requires that it ended with one of our errors containing `words`, without a crash and without terminal escapes."""
        assert ended.returncode > 0 and ended.returncode != 70, ended.told()
        assert code is None or ended.returncode == code, ended.told()
        assert words.lower() in ended.text.lower(), f"without '{words}': {ended.told()}"
        self.clean(ended)

    def clean(self, ended: Ended) -> None:
        """Requires output without anything that a terminal would interpret."""
        raw = ended.text.encode(errors="surrogateescape")
        assert not any(escape in raw for escape in ESCAPES), f"raw escape characters: {ended.told()!r}"


def end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
