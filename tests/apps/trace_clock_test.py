#!/usr/bin/env python3
"""Profiles a loop on two nodes, one with a clock shifted by a time namespace, and merges the traces.

usage: trace_clock_test.py BIN_DIR PROGRAM

The measured offset must equal the namespace's within its stated error. Without root that part is skipped. A missing or truncated
file is one clear error.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

OFFSET_S = 100_000
TOKEN = "0123456789abcdef0123456789abcdef"
MOVED = ["unshare", "--uts", "--time", "--monotonic", str(OFFSET_S), "--fork"]
SKIP = 77


def can_move_clocks() -> bool:
    return subprocess.run([*MOVED, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def launcher(binaries: Path, program: str, node: int, port: str) -> list[str]:
    words = [str(binaries / "lockstep"), "run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1",
             "--master-addr", "127.0.0.1", "--master-port", port, "--", program]
    return words if node == 0 else [*MOVED, "sh", "-c", 'hostname moved; exec "$@"', "sh", *words]


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def run_nodes(binaries: Path, program: str, folder: str) -> None:
    port = free_port()
    environment = dict(os.environ, LOCKSTEP_TOKEN=TOKEN)
    nodes = [subprocess.Popen(launcher(binaries, program, node, port), cwd=folder, env=environment) for node in (0, 1)]
    codes = [node.wait(timeout=100) for node in nodes]
    assert codes == [0, 0], codes


def events_named(trace: dict, name: str) -> list[dict]:
    return [event for event in trace["traceEvents"] if event["name"].startswith(name) and event["ph"] == "X"]


def refusal(binaries: Path, run: str) -> str:
    done = subprocess.run([binaries / "lockstep", "trace", "merge", run], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 65, done
    return done.stderr


def check_refusals(binaries: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder) / "run/trace"
        assert "is missing" in refusal(binaries, f"{folder}/run")
        traces.mkdir(parents=True)
        assert "no trace of a rank" in refusal(binaries, f"{folder}/run")
        about = '{"rank": 0, "world_size": 2, "host": "a", "clock_offset_ns": 0, "clock_error_ns": 0}'
        (traces / "rank-0.json").write_text('{"otherData": %s, "traceEvents": []}' % about)
        assert "rank 1 is missing" in refusal(binaries, f"{folder}/run")
        (traces / "rank-1.json").write_text('{"otherData": ')
        assert "rank-1.json is not a complete trace" in refusal(binaries, f"{folder}/run")


def main() -> None:
    binaries, program = Path(sys.argv[1]), sys.argv[2]
    check_refusals(binaries)
    if not can_move_clocks():
        print("no right to make a time namespace")
        sys.exit(SKIP)
    with tempfile.TemporaryDirectory() as folder:
        run_nodes(binaries, program, folder)
        about = json.loads((Path(folder) / "run/trace/rank-1.json").read_text())["otherData"]
        wrong = abs(about["clock_offset_ns"] - OFFSET_S * 10**9)
        print(f"off by {wrong} ns, said to be {about['clock_error_ns']} ns at most")
        assert 0 < about["clock_error_ns"] < 50_000_000
        assert wrong <= about["clock_error_ns"]
        said = subprocess.run([binaries / "lockstep", "trace", "merge", "run"], cwd=folder, check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        assert "2 ranks (2 hosts, clocks aligned to within" in said, said
        merged = json.loads((Path(folder) / "run/trace/merged.json").read_text())
    # No rank leaves an all_reduce before the other has entered: on one clock the two overlap.
    by_sequence = sorted(events_named(merged, "all_reduce bucket 0"), key=lambda event: event["args"]["sequence"])
    first, second = ([event for event in by_sequence if event["pid"] == rank] for rank in (0, 1))
    assert len(first) == len(second) == 10, (len(first), len(second))
    slack = about["clock_error_ns"] / 1000
    for one, other in zip(first, second):
        assert max(one["ts"], other["ts"]) <= min(one["ts"] + one["dur"], other["ts"] + other["dur"]) + slack


main()
