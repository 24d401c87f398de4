"""Flips one bit in one of 4 processes on 2 hosts, and checks which rank the guard names.

A trial requests a flip (LOCKSTEP_FAULT) in a batch, an activation, a gradient, a weight or the optimizer's state, on a random
rank at a step that guards its replica. The guard must name only that rank, the ranks must restart from a verified checkpoint, and
the run must end with the digests of an undisturbed run; or nothing is named and the digests are the same, if the flip was lost to
rounding. Of all flips except the batch's at least half must be named. The undisturbed run has the guard in every step and must
succeed. The hosts are network namespaces, which need root and iproute2; --one-host does without. A fault of the kind "lasting"
flips a bit in every step; the group may continue without its host, must exclude it, and finish with the same digests.

example:
  scripts/trials/trial guard --count 40
"""
import random
import re
import secrets
import subprocess
import time

import driver
import runs
from hosts import Hosts, can_make_hosts

WORLD = 4
NAMED = re.compile(r"step [\d,]+: rank (\d+) on host")


class Trial(driver.Trial):
    COUNT = 1
    KINDS = ("batch", "activation", "gradient", "weight", "optimizer", "lasting")
    SMALL = True
    OPTIONS = {"--steps": (12, "steps of a run"), "--one-host": (False, "use one host, without network namespaces")}

    def prepare(self, given) -> None:
        if not given.one_host and not can_make_hosts():
            raise driver.CannotRun("hosts in network namespaces need root and iproute2")
        runs.make_data(given, given.small)
        self.settings = runs.settings(given.work, given.small, **{
            "max_steps": given.steps, "guard": 1, "replicas": WORLD, "checkpoint.every_steps": 4})
        self.work_run = given.work / "run"
        self.port = runs.free_port()
        code, said = self.train("")
        if code != 0:
            raise SystemExit(f"the undisturbed run ended with {code}:\n{said}")
        self.expected = self.digests()

    def digests(self) -> str:
        return f"{runs.digest(self.given, self.work_run)} {runs.step_digests(self.work_run)}"

    def train(self, order: str, nodes: str = "") -> tuple[int, str]:
        """`nodes`: --nnodes; if omitted, 2 with two hosts, else no separate agents."""
        given, folder = self.given, runs.fresh(self.work_run)
        env = runs.environment(LOCKSTEP_TOKEN=secrets.token_hex(32), **({"LOCKSTEP_FAULT": order} if order else {}))
        if given.one_host and not nodes:
            run = runs.lockstep(given, *runs.train_words(self.settings, WORLD, folder), env=env, check=False)
            return run.returncode, run.stdout
        if given.one_host:
            return self.train_on_nodes(nodes, env, lambda node, *words: list(words), "127.0.0.1")
        with Hosts(2) as network:
            return self.train_on_nodes(nodes or "2", env, network.command, network.address(0))

    def train_on_nodes(self, nodes: str, env: dict, command, address: str) -> tuple[int, str]:
        lockstep, logs, agents = str(self.given.bin / "lockstep"), [], []
        for node in range(2):
            place = [] if ":" in nodes else ["--node-rank", str(node)]
            words = command(node, lockstep, "run", "--nnodes", nodes, *place, "--nproc-per-node", "2", "--max-restarts", "1",
                            "--master-addr", address, "--master-port", str(self.port), "--rdzv-id", env["LOCKSTEP_TOKEN"][:8], lockstep, "train", str(self.settings),
                            "--run-dir", str(self.work_run))
            logs.append(self.given.work / f"host-{node}.log")
            with logs[-1].open("w") as log:
                agents.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=env))
            time.sleep(0.3 if node == 0 else 0)  # the first serves the store
        self.codes = [agent.wait() for agent in agents]
        return max(self.codes), "".join(log.read_text() for log in logs)

    def run_lasting(self, step: int) -> dict:
        """Rank 3 errs in every step, and the group may continue without its host: the host is excluded, and the others finish."""
        step = step // WORLD * WORLD + WORLD - 1
        _, said = self.train(f"flip:activation:rank=3:step={step}:bit=20:always", nodes="1:2")
        wrong = [] if sorted(self.codes) == [0, 77] else [f"exit codes {self.codes}: {said[-400:]}"]
        wrong += [] if "is excluded: its rank 3 computed wrong numbers" in said else ["no message says that the host is excluded"]
        wrong += [] if wrong or self.digests() == self.expected else ["other digests"]
        return {"rank": 3, "step": step, "seen": "excluded", "wrong": wrong}

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        rank = draw.randrange(WORLD)
        step = draw.choice([step for step in range(2, self.given.steps) if step % WORLD == rank])
        bit = draw.randrange(32)
        if kind == "lasting":
            return self.run_lasting(min(step, 8))
        code, said = self.train(f"flip:{kind}:rank={rank}:step={step}:bit={bit}")
        named = sorted(set(map(int, NAMED.findall(said))))
        wrong = [] if named in ([], [rank]) else [f"named {named}"]
        if code != 0:
            wrong.append(f"exit code {code}: {said[-400:]}")
        elif self.digests() != self.expected:
            wrong.append("other digests" + ("" if named else ", and nothing was said"))
        return {"rank": rank, "step": step, "bit": bit, "seen": "named" if named else "no effect", "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        """A trial without any named rank proves nothing."""
        counts = {kind: [row["seen"] for row in rows if row["kind"] == kind] for kind in self.KINDS if kind != "lasting"}
        print("named: " + ", ".join(f"{kind} {seen.count('named')} of {len(seen)}" for kind, seen in counts.items()))
        tried = [seen for kind in counts if kind != "batch" for seen in counts[kind]]
        return [f"only {tried.count('named')} of {len(tried)} flips were named"] if 2 * tried.count("named") < len(tried) else []
