"""Trains on 4 nodes, each a network namespace with one rank, and takes nodes away: are the right ones blamed, and when?

  kill    the node's launcher is killed, as when its machine goes down
  store   the same of node 0, which serves the store
  cut     the node's link goes down
  freeze  the node's launcher and rank are stopped
  two     two nodes are killed at once

Each launcher that is left must end with exit code 75 within --soon seconds, and its last message must name a node that was
taken away. Results are appended to a file; a later call goes on from there. Needs root and `ip`.

example:
  sudo scripts/trials/trial node_faults --bin build/release/bin --runs 20

exit code: 0 all well, or no namespaces here; 1 not
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time

import runs
from hosts import Hosts, can_make_hosts

NODES = 4
FAULTS = ("kill", "store", "cut", "freeze", "two")
PORT = 29500


def start(given, network: Hosts, folder: pathlib.Path, settings: pathlib.Path, token: str) -> list[subprocess.Popen]:
    launchers = []
    for node in range(NODES):
        environment = runs.environment(LOCKSTEP_HOST_ID=f"host-{node}", LOCKSTEP_TOKEN=token, OMP_NUM_THREADS="1")
        command = ["ip", "netns", "exec", network.names[node], str(given.bin / "lockstep"), "train", str(settings), "--quiet",
                   "--nnodes", str(NODES), "--node-rank", str(node), "--nproc-per-node", "1", "--master-addr", network.address(0),
                   "--master-port", str(PORT), "--run-dir", str(folder / f"run-{node}"), "--max-restarts", "0"]
        with (folder / f"node-{node}.log").open("w") as log:
            launchers.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
    return launchers


def wait_for_steps(launchers, folder: pathlib.Path, steps: int) -> None:
    log = folder / "run-0/log.jsonl"
    begin = time.monotonic()
    while not log.exists() or log.read_text().count('"step"') < steps:
        if time.monotonic() - begin > 120 or any(launcher.poll() is not None for launcher in launchers):
            raise RuntimeError(f"no training: see {folder}")
        time.sleep(0.02)


def take_away(fault: str, network: Hosts, launchers, draw: random.Random) -> list[int]:
    victims = {"store": [0], "two": sorted(draw.sample(range(NODES), 2))}.get(fault, [draw.randrange(1, NODES)])
    for node in victims:
        if fault == "cut":
            network.cut(node)
        elif fault == "freeze":
            for process in network.processes(node):
                os.kill(process, signal.SIGSTOP)
        else:
            launchers[node].kill()
    return victims


def end_all(network: Hosts) -> None:
    """What is stopped does not notice that its launcher has ended."""
    for node in range(NODES):
        runs.send(network.processes(node), signal.SIGKILL)


def judge(given, folder: pathlib.Path, launchers, victims: list[int]) -> dict:
    """What is wrong with how the others end; the longest that one of them took."""
    begin, slowest, wrong = time.monotonic(), 0.0, []
    for node in (node for node in range(NODES) if node not in victims):
        try:
            code = launchers[node].wait(timeout=max(0.1, given.soon - (time.monotonic() - begin)))
        except subprocess.TimeoutExpired:
            wrong.append(f"node {node} still runs after {given.soon} s")
            continue
        slowest = max(slowest, time.monotonic() - begin)
        said = re.findall(r"^lockstep: (.*)$", (folder / f"node-{node}.log").read_text(), re.M)
        if code != 75:
            wrong.append(f"node {node} ended with {code}")
        if not said or not any(re.match(rf"node {victim} \(", said[-1]) for victim in victims):
            wrong.append(f"node {node} blames: {said[-1] if said else 'nobody'}")
    return {"wrong": wrong, "seconds": round(slowest, 2)}


def trial(given, fault: str, number: int, settings: pathlib.Path) -> dict:
    folder = given.work / f"{fault}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(f"{fault} {number}")
    with Hosts(NODES) as network, contextlib.ExitStack() as stack:
        stack.callback(end_all, network)
        launchers = start(given, network, folder, settings, secrets.token_hex(32))
        for launcher in launchers:
            stack.callback(lambda gone=launcher: (gone.kill(), gone.wait()))
        wait_for_steps(launchers, folder, 3)
        time.sleep(draw.random())
        victims = take_away(fault, network, launchers, draw)
        found = judge(given, folder, launchers, victims)
    if not found["wrong"]:
        shutil.rmtree(folder)
    return {"fault": fault, "number": number, "victims": victims, **found}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "node_faults.jsonl")
    parser.add_argument("--runs", type=int, default=20, help="of each fault (default: 20)")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, metavar="FAULT", help="default: all")
    parser.add_argument("--soon", type=float, default=12, help="seconds in which the others have to end (default: 12)")
    given = parser.parse_args()
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    return given


def main() -> None:
    given = parse_arguments()
    if not can_make_hosts():
        print("skipped: hosts in network namespaces need root and iproute2")
        sys.exit(0)
    runs.make_data(given, True)
    settings = runs.settings(given.work, True, epochs=100000, max_steps=1000000, replicas=NODES,
                             **{"checkpoint.every_steps": 0})
    results = given.work / given.results
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for fault in given.faults:
        for number in range(sum(one["fault"] == fault for one in done), given.runs):
            one = trial(given, fault, number, settings)
            done.append(one)
            with results.open("a") as out:
                out.write(json.dumps(one) + "\n")
            print(f"{fault} {number}: {'; '.join(one['wrong']) or 'right'}, {one['seconds']} s", flush=True)
    wrong = sum(bool(one["wrong"]) for one in done)
    for fault in given.faults:
        mine = [one for one in done if one["fault"] == fault]
        right = sum(not one["wrong"] for one in mine)
        print(f"{fault:7} {right} of {len(mine)} right, the slowest end after {max(one['seconds'] for one in mine)} s")
    sys.exit(1 if wrong else 0)
