"""Real training runs on failing disks: full, read-only, with damaged checkpoints, in a folder that another run holds.

Each fault must give one clear error with its exit code, lose nothing that was saved, and leave a run that continues to the
digest of an unbroken one. Each is tested on 1 and on 2 processes if that matters. Disks are mounted and processes started in
this program's namespaces, so nothing remains even if it is killed. If the machine does not permit that, the faults that need a
disk are skipped.

example:
  scripts/trials/trial disk_faults --small
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import broken_runs
import driver
import runs
from broken_runs import contents, step_folder, training

STEPS = 12
EVERY = 3
NOBODY = 65534
NO_SPACE = ("No space left on device", "free space on that disk; --resume auto")
READ_ONLY = ("Read-only file system", "make it writable, or choose another --run-dir")


class Wrong(Exception):
    """A run did something that it should not have done."""


class Run:
    """A finished run: its exit code and its output."""

    def __init__(self, code: int, text: str):
        self.code = code
        self.text = text

    def require(self, is_right: bool, what: str) -> None:
        if not is_right:
            raise Wrong(f"{what}; exit code {self.code}, output:\n{self.text}")

    def errors(self) -> list[str]:
        """Each "error:" with its indented lines, except repetitions by other ranks."""
        return re.findall(r"^error: .*(?:\n  .*)*", self.text, re.M)

    def require_one_error(self, code: int, *words: str) -> None:
        """Requires one error for each launcher attempt, the first with all of `words`; the launcher's report comes
        last."""
        self.require(self.code == code, f"the exit code is not {code}")
        attempts = 1 + len(re.findall(r"^warn: rank \d+ failed .*: restart", self.text, re.M))
        errors = self.errors()
        self.require(len(errors) == attempts, f"{len(errors)} errors in {attempts} attempts")
        for word in words:
            self.require(word in errors[0], f"'{word}' is missing from the error")
        others = re.findall(r"^\[\d+\]: error: rank 0 ", self.text, re.M)
        self.require(len(others) <= attempts, f"{len(others)} errors of the other rank in {attempts} attempts")
        report = self.text.find("lockstep: rank ")
        self.require(self.text.count("lockstep: rank ") <= 1, "the launcher reports twice")
        self.require(report < 0 or "error: " not in re.sub(r"^  .*", "", self.text[report:], flags=re.M),
                     "the launcher's report is not the last output")

    def require_said_before_ranks(self, code: int, *words: str) -> None:
        """Requires one error, for any number of processes."""
        self.require_one_error(code, *words)
        self.require("rank 0" not in self.text.split("error: ", 1)[1], "a rank reports it too")


def check(is_right: bool, what: str) -> None:
    if not is_right:
        raise Wrong(what)


class Disk:
    """A small in-memory disk at `path`, for the duration of the `with`."""

    def __init__(self, path: pathlib.Path, options: str):
        self.path = path
        self.options = options

    def __enter__(self):
        self.path.mkdir(parents=True, exist_ok=True)
        mount("-t", "tmpfs", "-o", self.options, "tmpfs", str(self.path))
        return self

    def __exit__(self, *_):
        # Mounts on it are unmounted with it.
        subprocess.run(["umount", "--recursive", "--lazy", str(self.path)], check=True)

    def remount(self, options: str) -> None:
        # Naming the source keeps mount from reading and passing its present options again: a user namespace rejects some of them.
        mount("-t", "tmpfs", "-o", f"remount,{options}", "tmpfs", str(self.path))


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def reason_for_no_mounts() -> str:
    """Executes this program again in its own namespaces; returns only if that failed or is already done."""
    inside = os.environ.pop("LOCKSTEP_DISK_FAULTS_NAMESPACE", None)
    if inside is not None:
        return inside
    words = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    # A trial mount shows whether the machine permits it.
    probe = subprocess.run([*words, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, text=True,
                           check=False)
    if probe.returncode != 0:
        return f"this machine does not permit mounts: {probe.stderr.strip()}"
    os.environ["LOCKSTEP_DISK_FAULTS_NAMESPACE"] = ""
    os.execvp("unshare", [*words, sys.executable, *sys.argv])


def require_nothing_half_written(run_dir: pathlib.Path) -> None:
    left = [str(path) for path in run_dir.rglob("*") if ".tmp" in path.name]
    check(not left, f"left over: {left}")


def note_of_torn(folder: pathlib.Path, problem: str) -> str:
    return f"note: {folder} is written again; the earlier folder is kept as {folder.name}.bad-1 ({folder}/{problem}"


def truncate(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip_a_byte(path: pathlib.Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


class Faults:
    """The faults: each method is one, on `world` processes."""

    def __init__(self, given):
        self.given = given
        self.disk = given.work / "disk"
        changes = {"max_steps": STEPS, "checkpoint.every_steps": EVERY, "checkpoint.keep_last": 100}
        self.settings = runs.settings(given.work, given.small, **changes)
        self.whole = broken_runs.unbroken(given, self.settings, 1)
        self.log = training(self.whole)
        self.bytes = sum(path.stat().st_size for path in step_folder(self.whole, STEPS).iterdir())

    # The parts that faults are built from.

    def command(self, world: int, run_dir, resume: str = "none") -> list[str]:
        return [str(self.given.bin / "lockstep"), *runs.train_words(self.settings, world, run_dir, resume)]

    def start(self, world: int, run_dir, resume: str = "none", **how) -> subprocess.Popen:
        return subprocess.Popen(self.command(world, run_dir, resume), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=runs.environment(), **how)

    def end(self, process: subprocess.Popen) -> Run:
        text, _ = process.communicate()
        return Run(process.returncode, text)

    def train(self, world: int, run_dir, resume: str = "none", **how) -> Run:
        return self.end(self.start(world, run_dir, resume, **how))

    def start_until_first_checkpoint(self, world: int, run_dir) -> subprocess.Popen:
        """A suspended run, with all its processes stopped and at least one checkpoint."""
        for _ in range(3):  # on a busy machine it may end before we see the first one
            process = self.start(world, runs.fresh(run_dir))
            while process.poll() is None and not step_folder(run_dir, EVERY).exists():
                time.sleep(0.001)
            runs.send(runs.descendants(process.pid), signal.SIGSTOP)
            if process.poll() is None:
                return process
            run = self.end(process)
            run.require(run.code == 0, "the run has failed")
        raise Wrong("each of 3 runs has ended before it could be stopped")

    def require_whole_checkpoints(self, run_dir, *steps: int) -> None:
        """Requires exactly the checkpoints of `steps`, each with the bytes that the unbroken run saved."""
        names = sorted(path.name for path in (run_dir / "checkpoints").glob("step-*"))
        check(names == [step_folder(run_dir, step).name for step in steps], f"{run_dir}/checkpoints holds {names}")
        for step in steps:
            same = contents(step_folder(run_dir, step)) == contents(step_folder(self.whole, step))
            check(same, f"{step_folder(run_dir, step)} is not what the unbroken run saved")
        self.require_verifies(run_dir)

    def require_verifies(self, path) -> None:
        run = runs.lockstep(self.given, "checkpoint", "verify", str(path), check=False)
        Run(run.returncode, run.stdout).require(run.returncode == 0, f"{path} does not verify")

    def require_goes_on(self, world: int, run_dir) -> Run:
        """Requires that the resumed run ends like the unbroken one."""
        run = self.train(world, run_dir, "auto")
        run.require(run.code == 0, "the run does not continue")
        self.require_unbroken(run_dir)
        return run

    def require_unbroken(self, run_dir) -> None:
        """Equal bytes in the last checkpoint imply the same digest."""
        same = contents(step_folder(run_dir, STEPS)) == contents(step_folder(self.whole, STEPS))
        check(same, f"{run_dir} does not have the unbroken run's digest")
        check(training(run_dir) == self.log, f"{run_dir}/log.jsonl is not the unbroken run's")
        require_nothing_half_written(run_dir)

    def copy_of_whole(self) -> pathlib.Path:
        run_dir = runs.fresh(self.given.work / "copy")
        shutil.copytree(self.whole, run_dir)
        return run_dir

    # A full disk.

    def no_room_for_the_third_checkpoint(self, world: int) -> None:
        with Disk(self.disk, f"size={self.bytes * 5 // 2}") as disk:
            run_dir = disk.path / "run"
            run = self.train(world, run_dir)
            run.require_one_error(74, "the checkpoint of step 9 is not saved: cannot write ",
                                  f"{run_dir}/checkpoints/.tmp-step-00000009-", "(the checkpoint needs ", " are free)",
                                  *NO_SPACE)
            self.require_whole_checkpoints(run_dir, 3, 6)
            require_nothing_half_written(run_dir)
            disk.remount(f"size={self.bytes * 6}")
            self.require_goes_on(world, run_dir)

    def no_room_for_another_file(self, world: int) -> None:
        """The disk takes one file fewer than the whole run has: the last one is summary.json."""
        entries = len([self.disk, self.whole, *self.whole.rglob("*")])
        with Disk(self.disk, f"size=1g,nr_inodes={entries - 1}") as disk:
            run_dir = disk.path / "run"
            run = self.train(world, run_dir)
            run.require_one_error(74, f"{run_dir}/summary.json was not written: cannot create ", *NO_SPACE)
            self.require_whole_checkpoints(run_dir, *range(EVERY, STEPS + 1, EVERY))
            require_nothing_half_written(run_dir)
            disk.remount("nr_inodes=1000")
            self.require_goes_on(world, run_dir)

    def no_room_for_the_log(self, world: int) -> None:
        """log.jsonl is on a one-page disk, which 7 or 8 steps' lines fill.

        By then the second checkpoint has begun, so the first is complete. The second is dropped unless it is durable.
        """
        page = os.sysconf("SC_PAGESIZE")
        run_dir = runs.fresh(self.given.work / "log")
        run_dir.mkdir()
        with Disk(self.disk, f"size={page}") as disk:
            (disk.path / "log.jsonl").write_text(json.dumps({"event": "filler", "text": "x" * (page - 1000)}) + "\n")
            (run_dir / "log.jsonl").symlink_to(disk.path / "log.jsonl")
            run = self.train(world, run_dir)
            run.require_one_error(74, f"cannot write {run_dir}/log.jsonl: ", *NO_SPACE)
            check((run_dir / "log.jsonl").read_text().endswith("}\n"), "the log ends in half a line")
            second = [2 * EVERY] if step_folder(run_dir, 2 * EVERY).exists() else []
            self.require_whole_checkpoints(run_dir, EVERY, *second)
            require_nothing_half_written(run_dir)
            disk.remount(f"size={16 * page}")
            self.require_goes_on(world, run_dir)

    # A read-only disk.

    def read_only_before_the_start(self, world: int) -> None:
        with Disk(self.disk, "size=1g") as disk:
            shutil.copytree(self.whole, disk.path / "run")
            shutil.rmtree(step_folder(disk.path / "run", STEPS))
            disk.remount("ro")
            run = self.train(world, disk.path / "new")
            run.require_said_before_ranks(74, f"cannot create folder {disk.path}/new: ", *READ_ONLY)
            run = self.train(world, disk.path / "run", "auto")
            run.require_said_before_ranks(74, f"cannot open {disk.path}/run/.lock: ", *READ_ONLY)
            disk.remount("rw")
            self.require_whole_checkpoints(disk.path / "run", 3, 6, 9)
            self.require_goes_on(world, disk.path / "run")

    def read_only_in_the_middle(self, world: int) -> None:
        """Fails every open after the first checkpoint: a disk with files open for writing cannot become read-only."""
        with Disk(self.disk, "size=1g") as disk:
            run_dir = disk.path / "run"
            process = self.start_until_first_checkpoint(world, run_dir)
            saved = sorted(int(path.name[5:]) for path in (run_dir / "checkpoints").glob("step-*"))
            mount("-o", "bind,ro", str(run_dir), str(run_dir))
            runs.send(runs.descendants(process.pid), signal.SIGCONT)
            run = self.end(process)
            run.require_one_error(74, f"the checkpoint of step {saved[-1] + EVERY} is not saved: ",
                                  f"{run_dir}/checkpoints/.tmp-", "Read-only file system",
                                  "make sure that this folder is writable; --resume auto continues from the checkpoint")
            subprocess.run(["umount", str(run_dir)], check=True)
            self.require_whole_checkpoints(run_dir, *saved)
            self.require_goes_on(world, run_dir)

    # Damaged folders of the same name.

    def torn_folders_are_skipped(self, world: int) -> None:
        run_dir = self.copy_of_whole()
        truncate(step_folder(run_dir, 12) / "optimizer.safetensors")
        (step_folder(run_dir, 9) / "manifest.json").unlink()
        flip_a_byte(step_folder(run_dir, 6) / "model.safetensors")
        torn = step_folder(run_dir, 12) / "optimizer.safetensors"
        kept = torn.read_bytes()
        run = self.require_goes_on(world, run_dir)
        for step, problem in ((12, "optimizer.safetensors is torn: "), (9, "manifest.json does not exist"),
                              (6, "model.safetensors is torn: XXH3-128 ")):
            folder = step_folder(run_dir, step)
            run.require(f"note: {folder} is skipped: {folder}/{problem}" in run.text, f"no note on {folder}")
            run.require(note_of_torn(folder, problem) in run.text, f"{folder} is not set aside")
            check(pathlib.Path(f"{folder}.bad-1").is_dir(), f"{folder}.bad-1 is gone")
        check(pathlib.Path(f"{torn.parent}.bad-1/{torn.name}").read_bytes() == kept, f"{torn} was changed")
        run.require(not run.errors(), "an error was printed")

    def all_torn(self, world: int) -> None:
        run_dir = self.copy_of_whole()
        for step in range(EVERY, STEPS + 1, EVERY):
            truncate(step_folder(run_dir, step) / "model.safetensors")
        before = contents(run_dir / "checkpoints")
        run = self.train(world, run_dir, "auto")
        torn = step_folder(run_dir, STEPS)
        run.require_one_error(65, f"no checkpoint in {run_dir}/checkpoints passes verification (4 checked)",
                              f"{torn}/model.safetensors is torn: ", f"lockstep checkpoint verify {torn} ")
        run.require("restart 1" not in run.text, "an error that would recur was retried")
        check(contents(run_dir / "checkpoints") == before, "checkpoints were changed")

    def a_torn_folder_is_written_again(self, world: int) -> None:
        """Resumes by name from the step before it, so that training itself reaches it."""
        run_dir = self.copy_of_whole()
        shutil.rmtree(step_folder(run_dir, 12))
        truncate(step_folder(run_dir, 9) / "run.safetensors")
        run = self.train(world, run_dir, str(step_folder(run_dir, 6)))
        run.require(run.code == 0, "the run does not continue")
        folder = step_folder(run_dir, 9)
        run.require(note_of_torn(folder, "run.safetensors is torn: ") in run.text, "no note on what is wrong with it")
        check(pathlib.Path(f"{folder}.bad-1").is_dir(), f"{folder}.bad-1 is gone")
        self.require_verifies(folder)
        self.require_unbroken(run_dir)

    # A folder in use.

    def a_second_run(self, world: int) -> None:
        run_dir = runs.fresh(self.given.work / "taken")
        first = self.start_until_first_checkpoint(world, run_dir)
        holders = [f"(pid {pid} on {socket.gethostname()})" for pid in runs.descendants(first.pid)]
        try:
            for resume in ("none", "auto", str(step_folder(run_dir, EVERY))):
                run = self.train(world, run_dir, resume)
                run.require_said_before_ranks(64, f" is training in {run_dir}\n", "or choose another")
                run.require(any(holder in run.text for holder in holders), "the first run is not named")
        finally:
            runs.send(runs.descendants(first.pid), signal.SIGCONT)
            run = self.end(first)
        run.require(run.code == 0, "the first run did not finish")
        self.require_unbroken(run_dir)

    # Paths that are not a folder, or cannot become one.

    def a_file_in_its_place(self, world: int) -> None:
        path = runs.fresh(self.given.work / "places")
        path.mkdir()
        (path / "file").write_text("mine")
        (path / "run").mkdir()
        (path / "run/checkpoints").write_text("mine")
        for resume in ("none", "auto"):
            run = self.train(world, path / "file", resume)
            run.require_said_before_ranks(64, f"the run folder {path}/file is a file", "choose another --run-dir")
        run = self.train(world, path / "file/run")
        run.require_said_before_ranks(74, f"cannot create folder {path}/file/run: Not a directory", "choose another")
        run = self.train(world, path / "run", "auto")
        run.require_one_error(64, f"the checkpoints folder {path}/run/checkpoints is a file", "choose another")
        check((path / "file").read_text() == (path / "run/checkpoints").read_text() == "mine", "a file was changed")

    def no_permission(self, world: int) -> None:
        path = runs.fresh(self.given.work / "locked")
        path.mkdir(mode=0o555)
        how = {}
        if os.access(path, os.W_OK):  # root becomes an unprivileged user for a moment
            how = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        words = [str(self.given.bin / "lockstep"), "inspect", "config", str(self.settings)]
        try:
            probe = subprocess.run(words, capture_output=True, text=True, check=False, **how)
        except OSError as problem:
            raise driver.CannotRun(f"cannot run the command as a user other than root: {problem}") from problem
        if probe.returncode != 0:
            raise driver.CannotRun(f"a user other than root cannot run the command: {probe.stderr.strip()}")
        run = self.train(world, path / "run", **how)
        run.require_said_before_ranks(74, f"cannot create folder {path}/run: Permission denied", READ_ONLY[1])


# Each fault's description, True if it mounts, and the numbers of processes to test it on.
FAULTS = {
    "no_room_for_the_third_checkpoint": ("the disk is full at the third checkpoint", True, (1, 2)),
    # The launcher's own files would make the count differ from run to run: these are tested without it.
    "no_room_for_another_file": ("the disk takes no more files when the summary is written", True, (1,)),
    "no_room_for_the_log": ("the disk is full when a line of the log is written", True, (1,)),
    "read_only_before_the_start": ("the disk is read-only before the start", True, (1, 2)),
    "read_only_in_the_middle": ("the disk becomes read-only after the first checkpoint", True, (1, 2)),
    "torn_folders_are_skipped": ("three of four checkpoints are damaged", False, (1, 2)),
    "all_torn": ("all checkpoints are damaged", False, (1, 2)),
    "a_torn_folder_is_written_again": ("a damaged folder of a step that is repeated", False, (1,)),
    "a_second_run": ("a second run in the same folder", False, (1, 2)),
    "a_file_in_its_place": ("a file where a folder should be", False, (1, 2)),
    "no_permission": ("the run folder's parent is not writable", False, (1, 2)),
}


class Trial(driver.Trial):
    COUNT = 1
    KINDS = tuple(f"{name}, {world} process{'es' if world > 1 else ''}" for name, (_, _, worlds) in FAULTS.items() for world in worlds)
    SMALL = True

    def prepare(self, given) -> None:
        self.no_mounts = reason_for_no_mounts()
        runs.make_data(given, given.small)
        self.faults = Faults(given)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        name, world = kind.split()[0].rstrip(","), int(kind.split()[1])
        words, needs_mount, _ = FAULTS[name]
        if needs_mount and self.no_mounts:
            raise driver.CannotRun(self.no_mounts)
        try:
            getattr(self.faults, name)(world)
        except Wrong as what:
            return {"words": words, "wrong": [str(what)]}
        return {"words": words, "wrong": []}
