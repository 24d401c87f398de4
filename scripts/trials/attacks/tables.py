# SPDX-License-Identifier: Apache-2.0
"""Exhausted limits: too few threads, processes, descriptors or bytes, and temporary folders that fill up. Each trial raises
AssertionError if a program hangs, crashes, or ends without naming the limit that it hit."""
import os
import pathlib
import subprocess
import time

SHORT = 69  # ExitCode::kResource
KEPT = 20  # folders of failed runs that are kept
NOBODYS = 200_000  # a user without processes; process limits do not apply to root


def pictures(bench, count=16) -> pathlib.Path:
    folder = pathlib.Path(bench.folder) / "data"
    made = bench.lockstep("generate", "captcha", "--out", folder, "--count", count, "--seed", 1, "--charset", "0-9",
                          "--quiet")
    assert made.returncode == 0, made.told()
    return folder


def train(bench, data, *settings, ranks=1, **more):
    words = ["data.test=", "max_steps=1", "batch_size=2", f"data.train={data}", *settings]
    return bench.lockstep("train", "captcha:digits", "--run-dir", pathlib.Path(bench.folder) / f"run-{time.time_ns()}",
                          "--nproc-per-node", ranks, *[part for word in words for part in ("--set", word)], **more)


def ends_well(ended, limit: str):
    """Requires success, or one error that names the limit."""
    assert "terminate called" not in ended.text and "pid 0" not in ended.text, ended.told()
    if ended.returncode != 0:
        assert ended.returncode == SHORT and limit in ended.text, ended.told()


def many_threads_in_little_memory(bench):
    data = pictures(bench)
    for setting in ("replicas=2000", "workers=2000"):
        ended = train(bench, data, setting, limits={"AS": 8_000_000 << 10}, timeout=60)
        assert ended.returncode == SHORT and "ulimit -v" in ended.text, ended.told()


def little_memory(bench):
    data = pictures(bench)
    for megabytes in (700, 1000, 1500, 2500):
        ended = train(bench, data, "threads=2", limits={"AS": megabytes << 20}, timeout=30)
        # 127: it could not even load its libraries.
        if ended.returncode != 127:
            ends_well(ended, "out of memory" if "out of memory" in ended.text else "ulimit -v")


def few_processes_for_ranks(bench):
    if os.geteuid() != 0:
        return
    os.chmod(bench.folder, 0o777)
    for most in range(1, 9):
        ended = bench.lockstep("run", "--nproc-per-node", 2, "--", "/bin/true", limits={"NPROC": most}, user=NOBODYS,
                               env={"TMPDIR": bench.folder}, timeout=30)
        ends_well(ended, "ulimit -u")


def few_processes_for_training(bench):
    if os.geteuid() != 0:
        return
    data = pictures(bench)
    os.chmod(bench.folder, 0o777)
    for most in range(1, 8):
        for setting in ("threads=2", "workers=2"):
            ended = train(bench, data, setting, limits={"NPROC": most}, user=NOBODYS + 1, timeout=30)
            ends_well(ended, "ulimit -u")


def few_descriptors(bench):
    for ranks in (1, 2):
        for most in range(18, 65):
            ended = bench.lockstep("run", "--nproc-per-node", ranks, "--", "/bin/true", limits={"NOFILE": most},
                                   env={"TMPDIR": bench.folder}, timeout=30)
            ends_well(ended, "ulimit -Hn")
    data = pictures(bench)
    for ranks in (1, 2):
        for most in (18, 24, 28, 48):
            ends_well(train(bench, data, ranks=ranks, limits={"NOFILE": most}, timeout=60), "ulimit -Hn")


def logs_that_fill_the_disk(bench):
    folder = pathlib.Path(bench.folder) / "tmp"
    target = pathlib.Path(bench.folder) / "precious"
    for each in (folder, target):
        each.mkdir()
    (target / "file").write_text("mine")
    (folder / "lockstep-logs-abcdef").symlink_to(target)
    words = [bench.program("lockstep"), "run", "--nproc-per-node", 1, "--"]
    quiet = {"env": {"TMPDIR": folder}, "stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = bench.start([*words, "sh", "-c", "echo up; sleep 30"], stdout=subprocess.PIPE, **quiet)
    try:
        assert running.stdout.readline(), "the long run has not started"
        [held] = [each for each in folder.iterdir() if not each.is_symlink()]
        os.utime(held, (1, 1))
        for _ in range(5):
            failing = [bench.start([*words, "false"], stdout=subprocess.DEVNULL, **quiet) for _ in range(8)]
            for each in failing:
                assert each.wait(timeout=30) == 1, "a run of `false` did not exit with its code"
        assert held.is_dir(), "the logs of a run in progress were removed"
        left = [each for each in folder.iterdir() if not each.is_symlink()]
        assert len(left) <= KEPT + 1, f"{len(left)} log folders remain"
    finally:
        running.terminate()
        running.communicate(timeout=30)
    assert (target / "file").exists(), "a link was followed"


TRIALS = [
    ("limits", many_threads_in_little_memory, 1),
    ("limits", little_memory, 1),
    ("limits", few_processes_for_ranks, 1),
    ("limits", few_processes_for_training, 1),
    ("limits", few_descriptors, 1),
    ("limits", logs_that_fill_the_disk, 1),
]
