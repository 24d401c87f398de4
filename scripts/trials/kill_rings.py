"""Kills a rank of three with SIGKILL at random moments: does its flight ring read, and when do its peers notice?

Every second trial runs under lockstep run: the ring of the killed rank must read, its events must be numbered without a gap,
the launcher must name the rank and its signal, and nothing may be left behind. The other trials have no launcher, which
would end the peers before they can say anything: a peer notices when its collective fails, which its own ring has noted on
the same clock. Results are appended to a file; a later call goes on from there.

example:
  scripts/trials/trial kill_rings --bin build/release/bin --kills 1000

exit code: 0 all well, 1 not
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import time

import runs

RANKS = 3
FIRST_EVENTS = 100  # by then all ranks have met
NOTICE_LIMIT = 0.1  # seconds, at the 99th percentile


def pid_in(ring: pathlib.Path) -> int:
    """The process id in the ring of a rank that trains, else 0 (include/lockstep/flight/ring.h has the layout)."""
    try:
        head = ring.open("rb").read(200)
    except OSError:
        return 0
    if len(head) < 200 or not head.startswith(b"LFLIGHT2"):
        return 0
    events = struct.unpack_from("<Q", head, 192)[0]
    return struct.unpack_from("<i", head, 8)[0] if events > FIRST_EVENTS else 0


def wait_for_ranks(rings, processes) -> list[int]:
    end = time.monotonic() + 60
    while time.monotonic() < end and all(process.poll() is None for process in processes):
        pids = [pid_in(ring) for ring in rings]
        if all(pids):
            return pids
        time.sleep(0.005)
    raise SystemExit(f"the ranks did not start:\n{processes[0].communicate()[1]}")


def events_of(given, path) -> list[dict]:
    shown = runs.lockstep(given, "inspect", "flight", str(path), "--json").stdout
    return [json.loads(line) for line in shown.splitlines() if line.startswith("{")]


def start(words, **environment) -> subprocess.Popen:
    return subprocess.Popen([str(word) for word in words], env=runs.environment(FAULT="none", LOCKSTEP_TIMEOUT="30", **environment),
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def kill(pid: int, draw: random.Random) -> int:
    time.sleep(draw.random() * 0.5)
    killed_ns = time.time_ns()
    os.kill(pid, signal.SIGKILL)
    return killed_ns


def ring_trial(given, draw: random.Random, victim: int) -> dict:
    folder = runs.fresh(given.work / "logs")
    process = start([given.bin / "lockstep", "run", "--nproc-per-node", RANKS, "--log-dir", folder, "--", given.program],
                    LOCKSTEP_BACKEND=given.backend)
    pids = wait_for_ranks([folder / f"attempt_0/rank-{rank}/flight.ring" for rank in range(RANKS)], [process])
    killed_ns = kill(pids[victim], draw)
    said = process.communicate(timeout=60)[1]
    wrong, ended = [], (time.time_ns() - killed_ns) * 1e-9
    numbers = [row["number"] for row in events_of(given, folder) if row["rank"] == victim]
    # A thread that was killed inside of an event leaves that one out.
    if not numbers or numbers[-1] - numbers[0] + 1 - len(numbers) > 2:
        wrong.append(f"the ring of rank {victim} has {len(numbers)} events")
    if f"rank {victim} failed first: killed by signal 9 (SIGKILL)" not in said:
        wrong.append("said: " + said[said.rfind("\nlockstep: "):][:200].strip())
    if process.returncode != 137:
        wrong.append(f"exit code {process.returncode}")
    left = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
    if left:
        wrong.append(f"left behind: {left}")
    shutil.rmtree(folder, ignore_errors=True)
    return {"kind": "ring", "ended": round(ended, 3), "wrong": wrong}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def notice_trial(given, draw: random.Random, victim: int) -> dict:
    rings, port = [given.work / f"ring-{rank}" for rank in range(RANKS)], free_port()
    for ring in rings:
        ring.unlink(missing_ok=True)
    ranks = [start([given.program], LOCKSTEP_BACKEND=given.backend, RANK=str(rank), WORLD_SIZE=str(RANKS),
                   LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCKSTEP_FLIGHT=str(rings[rank]))
             for rank in range(RANKS)]
    wait_for_ranks(rings, ranks)
    killed_ns = kill(ranks[victim].pid, draw)
    for rank in ranks:
        rank.communicate(timeout=60)
    wrong, notices = [], []
    for rank in set(range(RANKS)) - {victim}:
        failed = [row["time_ns"] for row in events_of(given, rings[rank]) if row["event"] == "fail"]
        if failed:
            notices.append(round((failed[0] - killed_ns) * 1e-9, 5))
        else:
            wrong.append(f"rank {rank} noticed nothing")
    return {"kind": "notice", "notices": notices, "wrong": wrong}


def trial(given, number: int) -> dict:
    draw = random.Random(number)
    victim = draw.randrange(RANKS)
    made = (ring_trial if number % 2 == 0 else notice_trial)(given, draw, victim)
    return {"kill": number, "rank": victim, "backend": given.backend} | made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "kill_rings.jsonl")
    parser.add_argument("--kills", type=int, default=100, help="trials, half of each kind (default: 100)")
    parser.add_argument("--backend", default="shm", choices=["shm", "gloo"])
    given = parser.parse_args()
    given.work = given.work.resolve()
    given.program = given.bin.resolve().parent / "tests/hanging_ranks"
    results = runs.Results(given)
    for number in range(len(results.rows), given.kills):
        results.add(**trial(given, number))
    wrong = [row for row in results.rows if row["wrong"]]
    notices = sorted(notice for row in results.rows for notice in row.get("notices", []))
    late = notices[min(len(notices) - 1, int(len(notices) * 0.99))]
    print(runs.bound95(len(wrong), len(results.rows)))
    print(f"a peer notices after {notices[len(notices) // 2] * 1e3:.1f} ms (median), {late * 1e3:.1f} ms (99th percentile), "
          f"{notices[-1] * 1e3:.1f} ms (longest), n = {len(notices)}")
    raise SystemExit(1 if wrong or late > NOTICE_LIMIT else 0)
