"""Trains on up to 4 nodes, each a network namespace with one rank, while nodes leave and join: does the job end as if none had?

  kill    a node's launcher is killed, as if its machine went down; the others continue
  cut     a node's link goes down
  freeze  a node's launcher and rank are stopped, and continued 9 s later
  two     two nodes are killed at once
  store   node 0's launcher, which serves the store, is killed and restarted a second later
  add     three nodes train, and a fourth is started
  spare   the run has three replicas: one of four nodes waits as a spare, and replaces a killed one

Every other run has no setting `replicas`: it must get one for each node that may join.
Every remaining launcher must end with 0, name the lost node and blame no other, and the run must have the digest of an
undisturbed one. Needs root and `ip`.

example:
  sudo scripts/trials/trial node_changes --count 20
"""
import pathlib
import random
import re
import shutil
import signal
import time

import broken_runs
import runs
from node_runs import MASTER, NODES, PORT, Job, NodeTrial

SPARE = "this node is a spare"


def disturb(job: Job, kind: str, draw: random.Random) -> list[int]:
    """Removes nodes, or adds one; returns the removed ones."""
    chosen = {"store": [0], "add": [], "two": sorted(draw.sample(range(1, NODES), 2))}
    training = [node for node in job.launchers if node > 0 and SPARE not in job.said(node)]
    victims = chosen.get(kind, [draw.choice(training)])
    for node in victims:
        job.take_away(node, kind)
    if kind == "store":
        time.sleep(1)
        job.start(0)
    if kind == "add":
        job.start(NODES - 1)
    if kind == "freeze":
        time.sleep(9)
        runs.send(job.network.processes(victims[0]), signal.SIGCONT)
    return victims


def wrong_words(job: Job, kind: str, victims: list[int], node: int) -> list[str]:
    """The faults in a remaining node's output."""
    wrong, said = [], job.said(node)
    blamed = set(re.findall(r"(node \d+ \([^)]*\)) is lost", said))
    names = [f"host-{victim}," for victim in victims] + ([MASTER] if kind == "store" else [])
    if any(not any(name in each for name in names) for each in blamed):
        wrong.append(f"node {node} blames {', '.join(sorted(blamed))}")
    if victims and not blamed and not (kind == "store" and node == 0) and SPARE not in said:
        wrong.append(f"node {node} names no lost node")
    if re.search(r"error: .*replica", said):
        wrong.append(f"node {node} ends because of the replicas")
    if re.search(r"rank \d+ (on \S+ )?failed", said):
        wrong.append(f"node {node} blames a rank")
    return wrong


class Trial(NodeTrial):
    KINDS = ("kill", "cut", "freeze", "two", "store", "add", "spare")
    OPTIONS = {
        "--steps": (300, "steps of a run"),
        "--after": (25, "steps before the change"),
        "--limit": (120.0, "seconds within which a disturbed run has to end"),
    }

    def settings(self, replicas: int, is_said: bool = True) -> pathlib.Path:
        """Without `replicas`, the run is as wide as the job may become."""
        path = runs.settings(self.given.work, True, max_steps=self.given.steps, replicas=replicas if is_said else 0, workers=0,
                             **{"checkpoint.every_steps": 20})
        if not is_said:
            path.write_text("".join(line for line in path.read_text().splitlines(True) if "replicas" not in line))
        return path

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        replicas, nodes = NODES - (kind == "spare"), NODES - (kind == "add")
        undisturbed = broken_runs.unbroken(self.given, self.settings(replicas), 1)
        settings = self.settings(replicas, is_said=kind == "spare" or number % 2 == 0)
        folder = runs.fresh(self.given.work / f"changes-{kind}-{number}")
        options = lambda node: ["--nnodes", f"1:{NODES}", "--rdzv-endpoint", f"{MASTER}:{PORT}",
                                "--rdzv-conf", f"last_call_timeout={1 if kind == 'add' else 60}", "--resume", "auto"]
        with self.job(folder, settings, options) as job:
            for node in range(nodes):
                job.start(node)
            job.wait_for_steps(self.given.after)
            time.sleep(draw.random() / 2)
            before, begin = job.steps(), time.monotonic()
            victims = disturb(job, kind, draw)
            wrong = self.judge(job, kind, victims)
            seconds = round(time.monotonic() - begin, 2)
        if kind == "spare" and sum(SPARE in job.said(node) for node in range(NODES)) != 1:
            wrong.append("no node says that it is a spare")
        if not wrong and runs.digest(self.given, folder / "run-0") != runs.digest(self.given, undisturbed):
            wrong.append("the digest differs from the undisturbed run's")
        if not wrong:
            shutil.rmtree(folder)
        return {"victims": victims, "step": before, "seconds": seconds, "wrong": wrong}

    def judge(self, job: Job, kind: str, victims: list[int]) -> list[str]:
        """The faults in how the job ended."""
        wrong = []
        for node, code in self.ends(job, sorted({*range(NODES)} - {*([] if kind == "store" else victims)}), self.given.limit):
            if code is None:
                wrong.append(f"node {node} still runs after {self.given.limit} s")
                continue
            if code != 0:
                wrong.append(f"node {node} ended with {code}")
            wrong += wrong_words(job, kind, victims, node)
        return wrong
