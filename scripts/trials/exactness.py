"""Trains the same 50 steps of the captcha recogniser in many ways that must not matter, and compares digests.

Digests cover the checkpoint, and all steps that led to it.

Replicas: 4. Variants: 1 to 4 processes; 0, 1 and 3 loader workers; OMP_NUM_THREADS unset and 2; tcp and UCX on one host; two and
four hosts (network namespaces, joined by a bridge; they need root and iproute2). Then three variants that must matter:
a different seed, one more step, one changed sample. Then, on 1 to 4 processes, ZeRO (the same digest), synced batch norm and
accumulation (each with its own digest), all three at once, also interrupted and resumed on different numbers of processes.
Last come the three other recipes, each through both of its stages in about 50 steps on scenes generated in memory, in bfloat16
and in float32, on 1, 2 and 4 processes.

examples:
  scripts/trials/trial exactness
  scripts/trials/trial exactness --only 'segmentation*'
"""
import ctypes
import random
import secrets
import shutil
import subprocess
from typing import Callable, NamedTuple

import driver
import runs
from hosts import Hosts, can_make_hosts


def train_on_hosts(given, settings, hosts: int, per_host: int, run_dir) -> None:
    """Each host starts its own share of the ranks, as on real machines."""
    if not can_make_hosts():
        raise driver.CannotRun("hosts in network namespaces need root and iproute2")
    lockstep = str(given.bin / "lockstep")
    token = secrets.token_hex(32)
    with Hosts(hosts) as network:
        agents = []
        for node in range(hosts):
            words = network.command(node, lockstep, "run", "--nnodes", str(hosts), "--node-rank", str(node), "--nproc-per-node",
                                    str(per_host), "--master-addr", network.address(0), "--master-port", "29501", "--rdzv-id",
                                    network.tag, lockstep, "train", str(settings), "--run-dir", str(run_dir))
            log = (given.work / f"host-{node}.log").open("w")
            agents.append(subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=runs.environment(LOCKSTEP_TOKEN=token)))
        codes = [agent.wait() for agent in agents]
    if any(codes):
        raise SystemExit(f"the hosts ended with {codes}: see host-*.log in {given.work}")


def train(given, settings, world: int, run_dir, *more: str, resume: str = "none", **env) -> None:
    runs.lockstep(given, *runs.train_words(settings, world, run_dir, resume), *more, env=runs.environment(**env))


def train_over_ucx(given, settings, world: int, run_dir) -> None:
    try:
        ctypes.CDLL("libucp.so.0")
    except OSError as problem:
        raise driver.CannotRun(f"UCX cannot be loaded: {problem}") from problem
    train(given, settings, world, run_dir, "--backend", "tcp", LOCKSTEP_WIRE="ucx")


def change_one_sample(given) -> str:
    """A copy of the data with a different label on one image."""
    target = given.work / "data-changed"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(given.work / "data", target)
    first = sorted(target.glob("*.png"))[0]
    label, number = first.name.split("_", 1)
    first.rename(target / f"{label[1:]}{label[0] if label[0] != label[1] else (int(label[0]) + 1) % 10}_{number}")
    return str(target)


def save_every(given) -> int:
    return min(10, given.steps // 3)


def go_on_with_other_worlds(given, settings, run_dir) -> None:
    """Runs two processes to the end, then four from two saves earlier, then one from one save earlier."""
    place = lambda leg, saves: f"{leg}/checkpoints/step-{given.steps - saves * save_every(given):08}"
    legs = [runs.fresh(given.work / f"leg-{number}") for number in (1, 2)]
    train(given, settings, 2, legs[0])
    train(given, settings, 4, legs[1], resume=place(legs[0], 2))
    train(given, settings, 1, run_dir, resume=place(legs[1], 1))


class Case(NamedTuple):
    """`family`: its first case has the digest; `same`: True if this case must have it too."""
    family: str
    same: bool
    way: Callable


def cases(given) -> dict[str, Case]:
    """The cases by name. Families must have different digests: the setting in their name must have an effect."""
    make = lambda **changes: runs.settings(given.work, given.small, **({"max_steps": given.steps, "checkpoint.every_steps": save_every(given)} | changes))
    plain = make()
    found = {f"{world} processes": Case("plain", True, lambda d, w=world: train(given, plain, w, d))
             for world in (2, 1, 3, 4)}
    for workers in (0, 1, 3):
        found[f"{workers} loader workers"] = Case(
            "plain", True, lambda d, n=workers: train(given, make(workers=n), 2, d))
    for world in (1, 3):
        found[f"OMP_NUM_THREADS=2, {world} processes"] = Case(
            "plain", True, lambda d, w=world: train(given, plain, w, d, OMP_NUM_THREADS="2"))
    found["tcp, 3 processes"] = Case("plain", True, lambda d: train(given, plain, 3, d, "--backend", "tcp"))
    found["ucx, 3 processes"] = Case("plain", True, lambda d: train_over_ucx(given, plain, 3, d))
    found["2 hosts x 2 processes"] = Case("plain", True, lambda d: train_on_hosts(given, plain, 2, 2, d))
    found["2 hosts x 1 process"] = Case("plain", True, lambda d: train_on_hosts(given, plain, 2, 1, d))
    found["4 hosts x 1 process"] = Case("plain", True, lambda d: train_on_hosts(given, plain, 4, 1, d))
    found["another seed"] = Case("plain", False, lambda d: train(given, make(seed=1), 2, d))
    found["one step more"] = Case("plain", False, lambda d: train(given, make(max_steps=given.steps + 1), 2, d))
    changed = make(**{"data.train": change_one_sample(given)})
    found["one sample changed"] = Case("plain", False, lambda d: train(given, changed, 2, d))
    return found | shared_state_cases(given, make) | recipe_cases(given)


def shared_state_cases(given, make) -> dict[str, Case]:
    """State that replicas share besides gradients: batch statistics, the optimizer's state; with and without accumulation."""
    zero, synced, twice = {"optimizer.zero": True}, {"sync_batchnorm": True}, {"accumulate_steps": 2}
    ways = [("plain", "zero", zero, (1, 2, 3, 4)), ("sync_batchnorm", "sync_batchnorm", synced, (2, 1, 3, 4)),
            ("accumulation", "accumulation", twice, (2, 1, 3)), ("accumulation", "accumulation, zero", twice | zero, (4,)),
            ("both", "sync_batchnorm, accumulation", synced | twice, (2,)),
            ("both", "sync_batchnorm, accumulation, zero", synced | twice | zero, (1, 3, 4))]
    found = {}
    for family, name, changes, worlds in ways:
        for world in worlds:
            found[f"{name}, {world} processes"] = Case(
                family, True, lambda d, w=world, c=changes: train(given, make(**c), w, d))
    all_of_it = make(**(synced | twice | zero))
    found["sync_batchnorm, accumulation, zero, 2 then 4 then 1 processes"] = Case(
        "both", True, lambda d: go_on_with_other_worlds(given, all_of_it, d))
    return found


def recipe_cases(given) -> dict[str, Case]:
    """The other recipes: all of their kernels, and the switch between their stages."""
    found = {}
    for recipe, scenes in (("detection", "scenes:160:1:few"), ("segmentation", "scenes:200:1:few"), ("captioning", "scenes:64:1")):
        for precision in ("bf16", "none"):
            words = [f"--set={key}" for key in ("replicas=4", "batch_size=4", f"amp={precision}", f"data.train={scenes}")]
            for world in (2, 1, 4):
                family = f"{recipe}, amp={precision}"
                found[f"{family}, {world} processes"] = Case(
                    family, True, lambda d, r=recipe, w=world, more=words: train(given, f"{r}:smoke", w, d, *more))
    return found


# One of each kind, for the tests of a commit.
SHORT = ("2 processes", "1 processes", "4 processes", "3 loader workers", "OMP_NUM_THREADS=2, 3 processes",
         "tcp, 3 processes", "ucx, 3 processes", "2 hosts x 2 processes", "another seed", "one step more", "one sample changed",
         "zero, 3 processes", "sync_batchnorm, 2 processes", "sync_batchnorm, 4 processes", "accumulation, 2 processes",
         "accumulation, zero, 4 processes", "sync_batchnorm, accumulation, 2 processes",
         "sync_batchnorm, accumulation, zero, 3 processes", "sync_batchnorm, accumulation, zero, 2 then 4 then 1 processes")


class Trial(driver.Trial):
    COUNT = 1
    KINDS = ("each way",)
    SMALL = True
    OPTIONS = {
        "--steps": (50, "steps of a run"),
        "--short": (False, "only 19 of the 52 variants: one of each kind, without the other recipes"),
    }

    def prepare(self, given) -> None:
        runs.make_data(given, given.small)
        self.cases = cases(given)
        assert all(name in self.cases for name in SHORT), "SHORT names a variant that does not exist"

    def kinds(self) -> list[str]:
        return [name for name in self.cases if name in SHORT or not self.given.short]

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        family, same, way = self.cases[kind]
        run_dir = runs.fresh(self.given.work / "run")
        way(run_dir)
        digest = f"{runs.digest(self.given, run_dir)} {runs.step_digests(run_dir)}"
        return {"family": family, "digest": digest, "wrong": self.wrong(family, same, digest)}

    def wrong(self, family: str, same: bool, digest: str) -> list[str]:
        """A family's first variant has its digest, which must be unique among families."""
        firsts = {row["family"]: row["digest"] for row in reversed(self.rows)}
        if family not in firsts:
            return [f"the digest of {other}" for other, known in firsts.items() if known == digest]
        if (digest == firsts[family]) != same:
            return [f"{'another' if same else 'the same'} digest {'than' if same else 'as'} {family}'s first variant"]
        return []
