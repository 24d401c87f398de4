"""Trains for some time while every half minute something goes wrong: does the run end with the undisturbed digest?

At random moments, about every --every seconds, one of these happens to a random rank: it is killed, it is stopped (and so
hangs until the launcher ends it), it gets SIGSEGV, all ranks are killed at once, or it is stopped for a moment only. The run
restarts its ranks each time (--max-restarts) from its newest checkpoint. When the time is over, SIGTERM ends it with a last
checkpoint, and a resumed run trains 20 steps more in peace. The digest must be the one of an undisturbed run of as many steps,
and no process, port, shared memory or temporary file may be left.

example:
  scripts/trials/trial chaos --bin build/release/bin --minutes 30

exit code: 0 all well, 1 not
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import time

import runs

RANKS = 3
STOPPED = 128 + signal.SIGTERM  # the exit code of a run that SIGTERM has asked to save and leave
FAULTS = ("kill", "stop", "crash", "kill all", "pause")


def left_behind(given) -> set[str]:
    """What a run could leave: segments, temporary files, processes. Others may train beside it."""
    found = {str(path) for path in pathlib.Path("/dev/shm").iterdir() if "lockstep" in path.name}
    found |= {str(path) for path in temporary_folder(given).iterdir()}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if command.split("\0")[0].endswith(("lockstep", "lockstep-worker")) and str(given.work) in command:
            found.add(f"process {entry.name}: {command[:60]}")
    return found


def temporary_folder(given) -> pathlib.Path:
    folder = given.work / "tmp"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ranks_below(pid: int) -> list[int]:
    ranks = []
    for each in runs.descendants(pid):
        try:
            words = pathlib.Path(f"/proc/{each}/cmdline").read_text().split("\0")
            environment = pathlib.Path(f"/proc/{each}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].endswith("lockstep-worker") and any(word.startswith(b"RANK=") for word in environment):
            ranks.append(each)
    return ranks


def disturb(pid: int, draw: random.Random) -> str:
    ranks = ranks_below(pid)
    if not ranks:
        return "nobody there"
    fault, victim = draw.choice(FAULTS), draw.choice(ranks)
    if fault == "kill all":
        runs.send(ranks, signal.SIGKILL)
    elif fault == "pause":
        runs.send([victim], signal.SIGSTOP)
        time.sleep(1)
        runs.send([victim], signal.SIGCONT)
    else:
        runs.send([victim], {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "crash": signal.SIGSEGV}[fault])
    return fault


def train(given, settings, run_dir) -> tuple[int, dict]:
    """Trains; for so long something goes wrong again and again. Then it is asked to save and leave."""
    words = [str(given.bin / "lockstep"), *runs.train_words(settings, RANKS, run_dir), "--max-restarts", "100000"]
    environment = runs.environment(LOCKSTEP_TIMEOUT="5", TMPDIR=str(temporary_folder(given)))
    draw, counts, end = random.Random(given.seed), {}, time.monotonic() + 60 * given.minutes
    with (given.work / "chaos.log").open("w") as log:
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment)
        while process.poll() is None and time.monotonic() < end:
            time.sleep(draw.uniform(0.5, 1.5) * given.every)
            if process.poll() is None and time.monotonic() < end:
                fault = disturb(process.pid, draw)
                counts[fault] = counts.get(fault, 0) + 1
                print(f"{60 * given.minutes - (end - time.monotonic()):7.0f} s  {fault}", flush=True)
        settle_and_stop(process)
        return process.wait(), counts


def settle_and_stop(process: subprocess.Popen) -> None:
    """Ends the run in peace: SIGTERM, once all ranks are back from the last fault."""
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end and len(ranks_below(process.pid)) < RANKS:
        time.sleep(0.1)
    time.sleep(10)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)


def newest_step(given, run_dir) -> int:
    return json.loads(runs.lockstep(given, "checkpoint", "inspect", str(run_dir), "--json").stdout)["step"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "chaos.jsonl")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--every", type=float, default=30, help="seconds between two faults, on average (default: 30)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.work = given.work.resolve()
    runs.make_data(given, True)
    changes = {"checkpoint.every_steps": 100, "log_every_steps": 50, "ema.decay": 0.9, "epochs": 10**8,
               "schedule.type": "constant"}
    before = left_behind(given)
    run_dir = runs.fresh(given.work / "chaos")
    begin = time.monotonic()
    code, counts = train(given, runs.settings(given.work, True, **changes, max_steps=10**8), run_dir)
    seconds = round(time.monotonic() - begin)
    left = sorted(left_behind(given) - before)
    print(f"code={code} faults={counts} left={left}", flush=True)
    step = newest_step(given, run_dir) + 20
    whole = runs.fresh(given.work / "undisturbed")
    settings = runs.settings(given.work, True, **changes, max_steps=step)
    runs.lockstep(given, *runs.train_words(settings, RANKS, run_dir, "auto"))
    # The digest does not depend on the number of processes, and one is the fastest on few cores.
    runs.lockstep(given, *runs.train_words(settings, 1, whole))
    same = runs.digest(given, run_dir) == runs.digest(given, whole)
    runs.Results(given).add(minutes=given.minutes, seconds=seconds, code=code, steps=step, faults=counts,
                            same_digest=same, left=left)
    raise SystemExit(0 if code == STOPPED and same and not left else 1)
