"""Kills one of three ranks with SIGKILL at random moments: is its flight ring readable, and when do its peers notice?

  ring    under lockstep run: the killed rank's ring must be readable, with its events numbered without gaps, the launcher must
          name the rank and its signal, and nothing may be left behind
  notice  without a launcher, which would end the peers too early: a peer notices when its collective fails; its own ring
          records that moment on the same clock; 99 of 100 notice within 0.1 s

example:
  scripts/trials/trial kill_rings --count 500
"""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time

import broken_runs
import driver
import runs

RANKS = 3
FIRST_EVENTS = 100  # by then all ranks have met
NOTICE_LIMIT = 0.1  # seconds, at the 99th percentile


def pid_in(ring: pathlib.Path) -> int:
    """The process id in a training rank's ring, else 0 (internal/lockstep/flight/ring.h has the layout)."""
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


class Trial(driver.Trial):
    COUNT = 50
    KINDS = ("ring", "notice")
    OPTIONS = {"--backend": ("shm", "shm or tcp")}

    def prepare(self, given) -> None:
        self.program = broken_runs.test_program(given, "hanging_ranks")

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        victim = draw.randrange(RANKS)
        return {"rank": victim, "backend": self.given.backend} | getattr(self, kind)(draw, victim)

    def ring(self, draw: random.Random, victim: int) -> dict:
        folder = runs.fresh(self.given.work / "logs")
        process = start([self.given.bin / "lockstep", "run", "--nproc-per-node", RANKS, "--log-dir", folder, "--", self.program],
                        LOCKSTEP_BACKEND=self.given.backend)
        pids = wait_for_ranks([folder / f"attempt_0/rank-{rank}/flight.ring" for rank in range(RANKS)], [process])
        killed_ns = kill(pids[victim], draw)
        said = process.communicate(timeout=60)[1]
        wrong, ended = [], (time.time_ns() - killed_ns) * 1e-9
        numbers = [row["number"] for row in events_of(self.given, folder) if row["rank"] == victim]
        # If a thread was killed inside an event, that event is missing.
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
        return {"ended": round(ended, 3), "wrong": wrong}

    def notice(self, draw: random.Random, victim: int) -> dict:
        rings, port = [self.given.work / f"ring-{rank}" for rank in range(RANKS)], runs.free_port()
        for ring in rings:
            ring.unlink(missing_ok=True)
        ranks = [start([self.program], LOCKSTEP_BACKEND=self.given.backend, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank),
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), LOCKSTEP_FLIGHT=str(rings[rank])) for rank in range(RANKS)]
        wait_for_ranks(rings, ranks)
        killed_ns = kill(ranks[victim].pid, draw)
        for rank in ranks:
            rank.communicate(timeout=60)
        wrong, notices = [], []
        for rank in set(range(RANKS)) - {victim}:
            failed = [row["time_ns"] for row in events_of(self.given, rings[rank]) if row["event"] == "fail"]
            if failed:
                notices.append(round((failed[0] - killed_ns) * 1e-9, 5))
            else:
                wrong.append(f"rank {rank} noticed nothing")
        return {"notices": notices, "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        notices = sorted(notice for row in rows for notice in row.get("notices", []))
        if not notices:
            return []
        late = notices[-(len(notices) // 100) - 1]  # nearest rank: one of 100 may be later
        print(f"a peer notices after {notices[len(notices) // 2] * 1e3:.1f} ms (median), {late * 1e3:.1f} ms (99th percentile), "
              f"{notices[-1] * 1e3:.1f} ms (longest), n = {len(notices)}")
        return [f"peers notice after {late * 1e3:.1f} ms at the 99th percentile"] if late > NOTICE_LIMIT else []
