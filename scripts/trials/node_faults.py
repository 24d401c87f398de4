"""Trains on 4 nodes, each a network namespace with one rank, and removes nodes: are the right ones blamed, and when?

  kill    the node's launcher is killed, as if its machine went down
  store   the same for node 0, which serves the store
  cut     the node's link goes down
  freeze  the node's launcher and rank are stopped
  two     two nodes are killed at once

Each remaining launcher must end with exit code 75 within --soon seconds, and its last message must name a removed node. Needs
root and `ip`.

example:
  sudo scripts/trials/trial node_faults --count 20
"""
import random
import re
import shutil
import time

import runs
from node_runs import MASTER, NODES, PORT, Job, NodeTrial


class Trial(NodeTrial):
    KINDS = ("kill", "store", "cut", "freeze", "two")
    OPTIONS = {"--soon": (12.0, "seconds within which the others have to end")}

    def prepare(self, given) -> None:
        super().prepare(given)
        self.settings = runs.settings(given.work, True, epochs=100000, max_steps=1000000, replicas=NODES, **{"checkpoint.every_steps": 0})

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        folder = runs.fresh(self.given.work / f"{kind}-{number}")
        options = lambda node: ["--nnodes", str(NODES), "--node-rank", str(node), "--master-addr", MASTER,
                                "--master-port", str(PORT), "--max-restarts", "0"]
        with self.job(folder, self.settings, options) as job:
            for node in range(NODES):
                job.start(node)
            job.wait_for_steps(3)
            time.sleep(draw.random())
            victims = {"store": [0], "two": sorted(draw.sample(range(NODES), 2))}.get(kind, [draw.randrange(1, NODES)])
            for node in victims:
                job.take_away(node, kind)
            slowest, wrong = self.judge(job, victims)
        if not wrong:
            shutil.rmtree(folder)
        return {"victims": victims, "seconds": slowest, "wrong": wrong}

    def judge(self, job: Job, victims: list[int]) -> tuple[float, list[str]]:
        """The longest time until one of the others ended; and the faults in how they ended."""
        begin, slowest, wrong = time.monotonic(), 0.0, []
        for node, code in self.ends(job, sorted({*range(NODES)} - {*victims}), self.given.soon):
            if code is None:
                wrong.append(f"node {node} still runs after {self.given.soon} s")
                continue
            slowest = max(slowest, time.monotonic() - begin)
            said = re.findall(r"^lockstep: (.*)$", job.said(node), re.M)
            if code != 75:
                wrong.append(f"node {node} ended with {code}")
            if not said or not any(re.match(rf"node {victim} \(", said[-1]) for victim in victims):
                wrong.append(f"node {node} blames: {said[-1] if said else 'nobody'}")
        return round(slowest, 2), wrong
