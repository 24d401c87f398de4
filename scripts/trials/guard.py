"""Flips one bit in one of 4 processes on 2 hosts, and reads which rank the guard names.

A trial orders a flip (LOCKSTEP_FAULT) of a batch, an activation, a gradient, a weight or the optimizer's state, of a random rank at a step that
guards its replica. The guard must name that rank and no other, the ranks must start again from what was proved, and the run must end with the
digests of an undisturbed run; or nothing is named and the digests are the same, where the flip was lost in a rounding. Of the flips of
each kind but the batch's more than half must be named. The undisturbed run has the guard in every step and must end well. The hosts are
network namespaces, which need root and iproute2; --one-host does without.

example:
  scripts/trials/trial guard --count 40
"""
import random
import re
import secrets
import subprocess

import driver
import runs
from hosts import Hosts, can_make_hosts

WORLD = 4
NAMED = re.compile(r"step [\d,]+: rank (\d+) on host")


class Trial(driver.Trial):
    COUNT = 1
    KINDS = ("batch", "activation", "gradient", "weight", "optimizer")
    SMALL = True
    OPTIONS = {"--steps": (12, "of a run"), "--one-host": (False, "without network namespaces")}

    def prepare(self, given) -> None:
        if not given.one_host and not can_make_hosts():
            raise driver.CannotRun("hosts in network namespaces need root and iproute2")
        runs.make_data(given, given.small)
        self.settings = runs.settings(given.work, given.small, **{
            "max_steps": given.steps, "guard": 1, "replicas": WORLD, "checkpoint.every_steps": 4})
        self.work_run = given.work / "run"
        code, said = self.train("")
        if code != 0:
            raise SystemExit(f"the undisturbed run ended with {code}:\n{said}")
        self.expected = self.digests()

    def digests(self) -> str:
        return f"{runs.digest(self.given, self.work_run)} {runs.step_digests(self.work_run)}"

    def train(self, order: str) -> tuple[int, str]:
        given, folder = self.given, runs.fresh(self.work_run)
        env = runs.environment(LOCKSTEP_TOKEN=secrets.token_hex(32), **({"LOCKSTEP_FAULT": order} if order else {}))
        if given.one_host:
            run = runs.lockstep(given, *runs.train_words(self.settings, WORLD, folder), env=env, check=False)
            return run.returncode, run.stdout
        lockstep, logs, agents = str(given.bin / "lockstep"), [], []
        with Hosts(2) as network:
            for node in range(2):
                words = network.command(node, lockstep, "run", "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "2",
                                        "--master-addr", network.address(0), "--master-port", "29501", "--rdzv-id", network.tag,
                                        lockstep, "train", str(self.settings), "--run-dir", str(folder))
                logs.append(given.work / f"host-{node}.log")
                with logs[-1].open("w") as log:
                    agents.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=env))
            codes = [agent.wait() for agent in agents]
        return max(codes), "".join(log.read_text() for log in logs)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        rank = draw.randrange(WORLD)
        step = draw.choice([step for step in range(2, self.given.steps) if step % WORLD == rank])
        bit = draw.randrange(32)
        code, said = self.train(f"flip:{kind}:rank={rank}:step={step}:bit={bit}")
        named = sorted(set(map(int, NAMED.findall(said))))
        wrong = [] if named in ([], [rank]) else [f"named {named}"]
        if code != 0:
            wrong.append(f"exit code {code}: {said[-400:]}")
        elif self.digests() != self.expected:
            wrong.append("other digests" + ("" if named else ", and nothing was said"))
        return {"rank": rank, "step": step, "bit": bit, "seen": "named" if named else "no effect", "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        """A trial that names nothing tries nothing."""
        counts = {kind: [row["seen"] for row in rows if row["kind"] == kind] for kind in self.KINDS}
        print("named: " + ", ".join(f"{kind} {seen.count('named')} of {len(seen)}" for kind, seen in counts.items()))
        return [f"of {len(seen)} flips of {kind} only {seen.count('named')} were named"
                for kind, seen in counts.items() if kind != "batch" and len(seen) >= 8 and 2 * seen.count("named") < len(seen)]
