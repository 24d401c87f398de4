#!/usr/bin/env python3
"""Measures the cost of many ranks, up to 256 on a few processors, and checks that decisions about them stay correct.

  group   ranks on one host, and on several with memory shared only within each: seconds until the group has formed, an
          all-reduce of 4 KiB (wall and CPU time per rank), memory per rank. The ranks are forks of one process
          that has loaded libtorch; every sum is checked.
  nodes   launchers in 8 network namespaces that start shells as ranks: seconds until all ranks run; after one launcher
          is killed, seconds until all ranks of the others run again, with fewer; memory of node 0's launcher, which
          serves the store. Every launcher has to end with 0 and name only the lost node.
  rank    one launcher, one of whose ranks is killed: seconds until the launcher has ended; its last message must name that rank.

Results are appended to a file; the newest for each size are printed as a table. nodes needs root and `ip`.

example:
  sudo scripts/measure/many_ranks.py --bin build/test/bin

exit code: 0 success, or no namespaces here; 1 failure
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402
from hosts import Hosts, can_make_hosts  # noqa: E402

NODES = 8
SHAPES = ["1x2", "1x8", "1x32", "1x64", "4x1", "8x1", "16x1", "32x1", "8x2", "8x8", "8x16", "8x32"]
PORT = 29500
# A rank that lives until it is stopped; in a later round it only leaves its marker.
RANK = 'touch "$1/$TORCHELASTIC_RESTART_COUNT-$RANK"; [ "$TORCHELASTIC_RESTART_COUNT" != 0 ] || exec sleep 600'


def group(given, shape: str) -> dict:
    """The test takes the measurements itself; it fails if a sum is wrong."""
    folder = runs.fresh(given.work / "group")
    folder.mkdir(parents=True)
    results = folder / "figures.jsonl"
    program = given.bin.parent / "tests/comm_united_test"
    done = subprocess.run([str(program), "--gtest_filter=ManyRanks.FormAGroupAndSumExactly"], env=runs.environment(
        MANY_RANKS=shape, MANY_RANKS_RESULTS=str(results)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        check=False)
    if done.returncode != 0:
        return {"wrong": [done.stdout[-2000:]]}
    return json.loads(results.read_text()) | {"wrong": []}


def wait_for(folder: pathlib.Path, kind: str, ranks: int, limit: float) -> float:
    """Seconds until this many ranks have left a file KIND-RANK; KIND is the round, or "pid"."""
    begin = time.monotonic()
    while (there := len(list(folder.glob(f"{kind}-*")))) < ranks:
        if time.monotonic() - begin > limit:
            raise TimeoutError(f"{there} of {ranks} ranks after {limit} s: {folder}")
        time.sleep(0.02)
    return time.monotonic() - begin


def mebibytes(pid: int) -> float:
    return int(re.search(r"Pss: +(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text())[1]) / 1024


def launcher_words(given, folder: pathlib.Path, network: Hosts, node: int, per_node: int) -> list[str]:
    return ["ip", "netns", "exec", network.names[node], str(given.bin / "lockstep"), "run", "--nnodes", f"1:{NODES}",
            "--nproc-per-node", str(per_node), "--rdzv-endpoint", f"{network.address(0)}:{PORT}", "--rdzv-conf",
            "last_call_timeout=60", "--max-restarts", "0", "--", "sh", "-c", RANK, "sh", str(folder)]


def nodes(given, ranks: int) -> dict:
    per_node, folder = ranks // NODES, runs.fresh(given.work / f"nodes-{ranks}")
    folder.mkdir(parents=True)
    token, launchers, victim = secrets.token_hex(32), {}, 5
    with Hosts(NODES) as network, contextlib.ExitStack() as stack:
        stack.callback(lambda: [each.kill() or each.wait() for each in launchers.values()])
        for node in range(NODES):
            log = stack.enter_context((folder / f"node-{node}.log").open("w"))
            launchers[node] = subprocess.Popen(
                launcher_words(given, folder, network, node, per_node), stdout=log, stderr=log, start_new_session=True,
                env=runs.environment(LOCKSTEP_HOST_ID=f"host-{node}", LOCKSTEP_TOKEN=token))
        started = wait_for(folder, "0", ranks, 120)
        memory = mebibytes(launchers[0].pid)  # `ip netns exec` becomes the launcher
        launchers[victim].kill()
        restarted = wait_for(folder, "1", ranks - per_node, 120)
        wrong = judge(folder, launchers, victim)
    return {"started_s": round(started, 2), "restarted_s": round(restarted, 2), "launcher_mib": round(memory, 1), "wrong": wrong}


def judge(folder: pathlib.Path, launchers: dict, victim: int) -> list[str]:
    wrong = []
    for node, launcher in launchers.items():
        if node == victim:
            continue
        with contextlib.suppress(subprocess.TimeoutExpired):
            launcher.wait(timeout=60)
        said = (folder / f"node-{node}.log").read_text()
        lost = set(re.findall(r"node \d+ \((host-\d+),", said))
        if launcher.returncode != 0 or lost != {f"host-{victim}"}:
            wrong.append(f"node {node} ended with {launcher.returncode} and names {sorted(lost)}")
    return wrong


def rank(given, ranks: int) -> dict:
    folder, victim = runs.fresh(given.work / f"rank-{ranks}"), ranks // 3
    folder.mkdir(parents=True)
    script = 'touch "$1/0-$RANK"; echo $$ > "$1/pid-$RANK"; exec sleep 600'
    with (folder / "log").open("w") as log:
        launcher = subprocess.Popen([str(given.bin / "lockstep"), "run", "--nproc-per-node", str(ranks), "--", "sh", "-c",
                                     script, "sh", str(folder)], stdout=log, stderr=log, env=runs.environment())
        started = wait_for(folder, "0", ranks, 60)
        wait_for(folder, "pid", ranks, 60)
        os.kill(int((folder / f"pid-{victim}").read_text()), signal.SIGKILL)
        begin = time.monotonic()
        code = launcher.wait(timeout=60)
    said = (folder / "log").read_text()
    good = code == 128 + signal.SIGKILL and f"rank {victim} failed first" in said
    return {"started_s": round(started, 2), "ended_s": round(time.monotonic() - begin, 2),
            "wrong": [] if good else [f"ended with {code}: {said[-500:]}"]}


def table(rows: list[dict], part: str, columns: dict[str, str]) -> None:
    newest = {row["size"]: row for row in rows if row["part"] == part and not row["wrong"]}
    if not newest:
        return
    print(f"\n| {part} | " + " | ".join(columns.values()) + " |\n|" + "---|" * (len(columns) + 1))
    for size, row in newest.items():
        print(f"| {size} | " + " | ".join(str(row[column]) for column in columns) + " |")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "many_ranks.jsonl")
    parser.add_argument("--parts", nargs="+", choices=["group", "nodes", "rank"], default=["group", "nodes", "rank"],
                        metavar="PART", help="default: all")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="HOSTSxRANKS", help="shapes for the part group")
    parser.add_argument("--ranks", nargs="+", type=int, default=[8, 64, 256],
                        help="numbers of ranks for the parts nodes and rank (default: 8 64 256)")
    given = parser.parse_args()
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    return given


def main() -> None:
    given = parse_arguments()
    results = runs.Results(given)
    for part in given.parts:
        if part == "nodes" and not (can_make_hosts() and shutil.which("ip")):
            print("skipped nodes: network namespaces need root and iproute2")
            continue
        for size in given.shapes if part == "group" else given.ranks:
            results.add(part=part, size=str(size), **globals()[part](given, size))
    table(results.rows, "group", {"ranks": "ranks", "formed_s": "formed, s", "all_reduce_us": "all-reduce, us",
                                  "processor_us": "CPU time, us", "mib": "MiB a rank"})
    table(results.rows, "nodes", {"started_s": "all run, s", "restarted_s": "all others run again, s",
                                  "launcher_mib": "node 0's launcher, MiB"})
    table(results.rows, "rank", {"started_s": "all run, s", "ended_s": "job has ended, s"})
    sys.exit(1 if any(row["wrong"] for row in results.rows) else 0)


if __name__ == "__main__":
    main()
