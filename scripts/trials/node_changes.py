"""Trains on up to 4 nodes, each a network namespace with one rank, while nodes go and come: does the job end as if nobody had?

  kill    a node's launcher is killed, as when its machine goes down; the others go on
  cut     a node's link goes down
  freeze  a node's launcher and rank are stopped, and go on 9 s later
  two     two nodes are killed at once
  store   node 0's launcher, which serves the store, is killed, and started again a second later
  add     three nodes train, and the fourth is started
  spare   the run has three replicas: one of four nodes waits as a spare, and takes the place of one that is killed

Every other run has no setting `replicas`: it must get one for each node that may come.
Every launcher that was not taken away must end with 0, say which node was lost and blame nobody else, and the run must have
the digest of an undisturbed one. Results are appended to a file; a later call goes on from there. Needs root and `ip`.

example:
  sudo scripts/trials/trial node_changes --bin build/release/bin --runs 20

exit code: 0 all well, or no namespaces here; 1 not
"""
import argparse
import contextlib
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
FAULTS = ("kill", "cut", "freeze", "two", "store", "add", "spare")
SPARE = "this node is a spare"
PORT = 29500


class Job:
    """The launchers of one run, a log file each."""

    def __init__(self, given, network: Hosts, folder: pathlib.Path, settings: pathlib.Path, last_call: int):
        self.given, self.network, self.folder, self.settings, self.last_call = given, network, folder, settings, last_call
        self.token = secrets.token_hex(32)
        self.launchers: dict[int, subprocess.Popen] = {}

    def start(self, node: int) -> None:
        environment = runs.environment(LOCKSTEP_HOST_ID=f"host-{node}", LOCKSTEP_TOKEN=self.token, OMP_NUM_THREADS="1")
        command = ["ip", "netns", "exec", self.network.names[node], str(self.given.bin / "lockstep"), "train",
                   str(self.settings), "--quiet", "--nnodes", f"1:{NODES}", "--nproc-per-node", "1", "--rdzv-endpoint",
                   f"{self.network.address(0)}:{PORT}", "--rdzv-conf", f"last_call_timeout={self.last_call}",
                   "--run-dir", str(self.folder / f"run-{node}"), "--resume", "auto"]
        with (self.folder / f"node-{node}.log").open("a") as log:
            self.launchers[node] = subprocess.Popen(command, env=environment | {"LOCKSTEP_LOG": "note"}, stdout=log,
                                                    stderr=log, start_new_session=True)

    def steps(self) -> int:
        log = self.folder / "run-0/log.jsonl"
        return log.read_text().count('"step"') if log.exists() else 0

    def wait_for_steps(self, steps: int) -> None:
        begin = time.monotonic()
        while self.steps() < steps:
            if time.monotonic() - begin > 120 or any(each.poll() is not None for each in self.launchers.values()):
                raise RuntimeError(f"no training: see {self.folder}")
            time.sleep(0.02)

    def kill(self, node: int) -> None:
        self.launchers[node].kill()
        self.launchers[node].wait()

    def said(self, node: int) -> str:
        return (self.folder / f"node-{node}.log").read_text()


def disturb(job: Job, fault: str, draw: random.Random) -> list[int]:
    """Takes nodes away, or adds one; returns those that were taken away."""
    chosen = {"store": [0], "add": [], "two": sorted(draw.sample(range(1, NODES), 2))}
    training = [node for node in job.launchers if node > 0 and SPARE not in job.said(node)]
    victims = chosen.get(fault, [draw.choice(training)])
    for node in victims:
        if fault == "cut":
            job.network.cut(node)
        elif fault == "freeze":
            runs.send(job.network.processes(node), signal.SIGSTOP)
        else:
            job.kill(node)
    if fault == "store":
        time.sleep(1)
        job.start(0)
    if fault == "add":
        job.start(NODES - 1)
    if fault == "freeze":
        time.sleep(9)
        runs.send(job.network.processes(victims[0]), signal.SIGCONT)
    return victims


def judge(given, job: Job, fault: str, victims: list[int]) -> list[str]:
    """What is wrong with how the job ended."""
    wrong = []
    gone = [] if fault == "store" else victims
    for node in (node for node in range(NODES) if node not in gone):
        try:
            code = job.launchers[node].wait(timeout=given.limit)
        except subprocess.TimeoutExpired:
            wrong.append(f"node {node} still runs after {given.limit} s")
            continue
        if code != 0:
            wrong.append(f"node {node} ended with {code}")
        blamed = set(re.findall(r"(node \d+ \([^)]*\)) is lost", job.said(node)))
        names = [f"host-{victim}," for victim in victims] + ([job.network.address(0)] if fault == "store" else [])
        if any(not any(name in each for name in names) for each in blamed):
            wrong.append(f"node {node} blames {', '.join(sorted(blamed))}")
        if victims and not blamed and not (fault == "store" and node == 0) and SPARE not in job.said(node):
            wrong.append(f"node {node} names no lost node")
        if re.search(r"error: .*replica", job.said(node)):
            wrong.append(f"node {node} ends because of the replicas")
        if re.search(r"rank \d+ (on \S+ )?failed", job.said(node)):
            wrong.append(f"node {node} blames a rank")
    return wrong


class Undisturbed:
    """The digests of runs that nobody disturbs, each computed once."""

    def __init__(self, given):
        self.given, self.digests = given, {}

    def settings(self, replicas: int | None) -> pathlib.Path:
        """Without `replicas`, the run is as wide as the job may become."""
        path = runs.settings(self.given.work, True, max_steps=self.given.steps, replicas=replicas or 0, workers=0,
                             **{"checkpoint.every_steps": 20})
        if replicas is None:
            path.write_text("".join(line for line in path.read_text().splitlines(True) if "replicas" not in line))
        return path

    def digest(self, replicas: int) -> str:
        if replicas not in self.digests:
            folder = runs.fresh(self.given.work / f"undisturbed-{replicas}")
            runs.lockstep(self.given, *runs.train_words(self.settings(replicas), 1, folder))
            self.digests[replicas] = runs.digest(self.given, folder)
        return self.digests[replicas]


def trial(given, fault: str, number: int, undisturbed: Undisturbed) -> dict:
    replicas = NODES - 1 if fault == "spare" else NODES
    digest = undisturbed.digest(replicas)
    settings = undisturbed.settings(None if replicas == NODES and number % 2 else replicas)
    folder = given.work / f"changes-{fault}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    draw = random.Random(f"{fault} {number}")
    first = NODES - 1 if fault == "add" else NODES
    with Hosts(NODES) as network, contextlib.ExitStack() as stack:
        job = Job(given, network, folder, settings, last_call=1 if fault == "add" else 60)
        stack.callback(lambda: [each.kill() or each.wait() for each in job.launchers.values()])
        for node in range(first):
            job.start(node)
        job.wait_for_steps(given.after)
        time.sleep(draw.random() / 2)
        before, begin = job.steps(), time.monotonic()
        victims = disturb(job, fault, draw)
        wrong = judge(given, job, fault, victims)
        seconds = round(time.monotonic() - begin, 2)
    if fault == "spare" and sum(SPARE in job.said(node) for node in range(NODES)) != 1:
        wrong.append("not one node says that it is a spare")
    if not wrong and runs.digest(given, folder / "run-0") != digest:
        wrong.append("another digest than the undisturbed run")
    if not wrong:
        shutil.rmtree(folder)
    return {"fault": fault, "number": number, "victims": victims, "step": before, "seconds": seconds, "wrong": wrong}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "node_changes.jsonl")
    parser.add_argument("--runs", type=int, default=20, help="of each change (default: 20)")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, metavar="CHANGE", help="default: all")
    parser.add_argument("--steps", type=int, default=300, help="of a run (default: 300)")
    parser.add_argument("--after", type=int, default=25, help="steps before the change (default: 25)")
    parser.add_argument("--limit", type=float, default=120, help="seconds in which a disturbed run has to end (default: 120)")
    given = parser.parse_args()
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    return given


def main() -> None:
    given = parse_arguments()
    if not can_make_hosts():
        print("skipped: hosts in network namespaces need root and iproute2")
        sys.exit(0)
    runs.make_data(given, True)
    undisturbed = Undisturbed(given)
    results = runs.Results(given)
    for fault in given.faults:
        for number in range(sum(row["fault"] == fault for row in results.rows), given.runs):
            results.add(**trial(given, fault, number, undisturbed))
    for fault in given.faults:
        mine = [row for row in results.rows if row["fault"] == fault]
        print(f"{fault:7} {runs.bound95(sum(bool(row['wrong']) for row in mine), len(mine))}; "
              f"the longest took {max(row['seconds'] for row in mine)} s")
    sys.exit(1 if any(row["wrong"] for row in results.rows) else 0)
