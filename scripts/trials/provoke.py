"""Starts short training runs that are slow for a chosen reason: does the step report name that reason, and nothing else?

  healthy       1 or 2 ranks, nothing is wrong           no advice
  captcha, detection  a recipe on 1 or 2 ranks           no advice
  hosts         2 ranks on two hosts                     no advice; the table shows the network
  slow_disk     every read of a sample's file sleeps     "blocked ... in reads"
  few_workers   one worker computes longer than a step   "set workers=2 (it is 1)"
  costly_loading  the same on two ranks and two cores    "uses all of the 2 cores"
  unbalanced_loader  one rank's samples cost more        "rank R waits for data"
  busy_core     a process computes on one rank's core    "rank R ...: its core is shared"
  more_work     one rank's forward takes twice as long   "rank R uses ... more CPU time"
  tiny_buckets  24 MiB of gradients in buckets of 1 MiB  "set bucket_cap_mb=25 (it is 1)"
  memory        a cgroup is nearly full                  "memory is near its limit"

All of it is real: the reads sleep in a preloaded library, cores and cgroups are the system's. Each run's last report, in
summary.json, must have exactly the expected cause, and `lockstep doctor` and the console the matching sentence. memory needs root
and cgroups version 1 or 2; hosts are network namespaces, which need root and ip. As root, runs get a higher priority than other
programs; a second `trial provoke` waits until the first has ended.

example:
  scripts/trials/trial provoke --count 20 --only few_workers busy_core
"""
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import time

import broken_runs
import driver
import runs
from hosts import Hosts, can_make_hosts

SAID = {"healthy": None, "captcha": None, "detection": None, "hosts": None, "slow_disk": r"blocked \d+ % of the time, mostly in reads",
        "few_workers": r"workers=2 \(it is 1\)", "costly_loading": r"uses all of the 2 cores",
        "unbalanced_loader": r"rank {rank} waits for data \d+ % of the step, the others \d+ %",
        "busy_core": r"rank {rank} is \d+ % slower in \w+( since step \d+)?: its core is shared",
        "more_work": r"rank {rank} uses \d+ % more CPU time", "tiny_buckets": r"bucket_cap_mb=25 \(it is 1\)",
        "memory": r"memory is near its limit"}
ABOUT_A_RANK = ("unbalanced_loader", "busy_core", "more_work")
STEPS = 200
PORT = 29517
NICE = -15
LIMIT = 600 << 20  # bytes in the cgroup


def prefer(pid: int) -> None:
    """Gives the process and all below it a higher priority: the machine's other work must not look like a cause. Every rank is
    a separate session, and the kernel weighs sessions against each other."""
    for each in runs.descendants(pid):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, each, NICE)
            pathlib.Path(f"/proc/{each}/autogroup").write_text(str(NICE))


def wait_for(process: subprocess.Popen, *others: subprocess.Popen) -> str:
    """Returns its output. Its ranks start while this waits, and so do the others'."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for each in (process, *others):
            prefer(each.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=0.2)[0]
    runs.send(runs.descendants(process.pid), signal.SIGKILL)
    return process.communicate()[0] + "\n(killed after 120 s)"


def two_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))[:2]


class Group:
    """A cgroup with little memory."""

    def __init__(self):
        tree = pathlib.Path("/sys/fs/cgroup")
        self.is_second = (tree / "cgroup.controllers").exists()
        self.path = (tree if self.is_second else tree / "memory") / f"lockstep-provoke-{os.getpid()}"

    def __enter__(self):
        self.path.mkdir()
        (self.path / ("memory.max" if self.is_second else "memory.limit_in_bytes")).write_text(str(LIMIT))
        return self

    def join(self) -> None:
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        for _ in range(50):  # the kernel takes a moment to release the last process
            with contextlib.suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.1)


def can_limit_memory() -> bool:
    try:
        with Group():
            return True
    except OSError:
        return False


class Provoked:
    """One run: its arguments, its variables, and the disturbing process."""

    def __init__(self, given, cause: str, number: int, draw: random.Random):
        self.given, self.cause = given, cause
        self.world = 1 if cause in ("few_workers", "memory") else 2
        if cause in ("healthy", "captcha", "detection"):
            self.world = 1 + number % 2
        self.rank = draw.randrange(2) if cause in ABOUT_A_RANK else -1
        self.run_dir = runs.fresh(given.work / f"run-{cause}")
        self.variables = {} if self.rank < 0 else {"PROVOKE_RANK": str(self.rank)}
        self.settings = {"workers": 2, "max_steps": STEPS}
        self.disturber: list[str] = []
        getattr(self, cause, lambda: None)()

    def slow_disk(self) -> None:
        file = self.given.work / "sample.bin"
        file.write_bytes(secrets.token_bytes(1 << 16))
        self.variables |= {"PROVOKE_READ": str(file), "LD_PRELOAD": str(self.given.slow_disk),
                           "SLOW_DISK_FOLDER": str(self.given.work), "SLOW_DISK_READ_US": "8000"}
        self.settings["max_steps"] = 100

    def few_workers(self) -> None:
        self.variables["PROVOKE_SAMPLE_MS"] = "4"
        self.settings["workers"] = 1

    def costly_loading(self) -> None:
        self.few_workers()

    def unbalanced_loader(self) -> None:
        self.few_workers()

    def busy_core(self) -> None:
        cores = two_cores()
        self.variables["PROVOKE_CORES"] = ",".join(map(str, cores))
        self.disturber = ["taskset", "-c", str(cores[self.rank]), sys.executable, "-c", "while True: pass"]

    def more_work(self) -> None:
        self.variables["PROVOKE_FORWARD_MS"] = "9"

    def tiny_buckets(self) -> None:
        self.variables |= {"PROVOKE_LAYERS": "24", "PROVOKE_FORWARD_MS": "0.1", "LOCKSTEP_BACKEND": "tcp"}
        self.settings |= {"bucket_cap_mb": 1, "batch_size": 1, "optimizer.type": "sgd", "max_steps": 80}

    def hosts(self) -> None:
        self.variables["PROVOKE_LAYERS"] = "2"

    def memory(self) -> None:
        self.variables["PROVOKE_FREE_MB"] = str(int(0.025 * LIMIT / 1e6))

    def words(self) -> list[str]:
        command = [str(self.given.bin / "lockstep")]
        if self.cause == "captcha":
            settings = runs.settings(self.given.work, True, batch_size=16, max_steps=STEPS, replicas=0, **{"checkpoint.every_steps": 0})
            return [*command, *runs.train_words(settings, self.world, self.run_dir)]
        sets = [f"--set={key}={value}" for key, value in self.settings.items()]
        if self.cause == "detection":
            return [*command, "train", "detection:smoke", "--nproc-per-node", str(self.world), "--run-dir", str(self.run_dir),
                    "--set", f"data.train={self.given.scenes}", "--set", f"data.test={self.given.scenes}"]
        return [*command, "run", "--nproc-per-node", str(self.world), "--", str(self.given.program),
                "--run-dir", str(self.run_dir), *sets]

    def run(self) -> dict:
        code, said = self.run_on_hosts() if self.cause == "hosts" else self.run_here()
        wrong = [f"ended with {code}: {said[-500:]}"] if code != 0 else self.faults(said)
        wrong += self.network_faults(said) if self.cause == "hosts" and code == 0 else []
        return {"world": self.world, "rank": self.rank, "wrong": wrong}

    def run_here(self) -> tuple[int, str]:
        """The run on two cores, with the disturbing process, or in a cgroup with little memory."""
        with Group() if self.cause == "memory" else contextlib.nullcontext() as group:
            disturber = subprocess.Popen(self.disturber, start_new_session=True) if self.disturber else None

            def prepare():
                os.sched_setaffinity(0, two_cores())
                if group is not None:
                    group.join()

            try:
                if disturber is not None:
                    prefer(disturber.pid)
                run = subprocess.Popen(self.words(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       start_new_session=True, preexec_fn=prepare, env=runs.environment(**self.variables))
                said = wait_for(run)
            finally:
                if disturber is not None:
                    disturber.kill()
                    disturber.wait()
        return run.returncode, said

    def run_on_hosts(self) -> tuple[int, str]:
        """A launcher with one rank on each of two hosts. Returns the output of the first."""
        with Hosts(2) as network:
            token = secrets.token_hex(32)
            launchers = [
                subprocess.Popen(network.command(node, *self.words_of_node(node, network.address(0))),
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                 env=runs.environment(LOCKSTEP_TOKEN=token, LOCKSTEP_HOST_ID=f"host-{node}", **self.variables))
                for node in range(2)]
            said = [wait_for(launcher, *launchers) for launcher in launchers]
        return max(launcher.returncode for launcher in launchers), said[0]

    def words_of_node(self, node: int, address: str) -> list[str]:
        words = self.words()
        at = words.index("--nproc-per-node")
        return [*words[:at], "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", "1", "--master-addr", address,
                "--master-port", str(PORT), *words[at + 2:]]

    def network_faults(self, console: str) -> list[str]:
        """The table must show the traffic on the interfaces of both hosts."""
        titles = [line.split() for line in console.splitlines() if "received" in line]
        if not titles or "sent" not in titles[0] or "resent" not in titles[0]:
            return ["the table has no columns for the network"]
        report = json.loads((self.run_dir / "summary.json").read_text())["report"]
        carried = [(each["sent"], each["received"]) for rank in report["ranks"] for each in rank["traffic"]]
        least = STEPS * (2 << 20) // 2  # half of the traffic of a reduction of two layers
        return [] if len(carried) == 2 and min(map(min, carried)) > least else [f"the interfaces carried {carried}"]

    def faults(self, console: str) -> list[str]:
        """The faults in the run's output."""
        report = json.loads((self.run_dir / "summary.json").read_text())["report"]
        expected = [] if SAID[self.cause] is None else [(self.cause, self.rank)]
        found = [(each["cause"], each["rank"]) for each in report["findings"]]
        sentences = [each["sentence"] for each in report["findings"]]
        wrong = [] if found == expected else [f"found {found}: {sentences}"]
        doctor = runs.lockstep(self.given, "doctor", str(self.run_dir)).stdout
        for name, text in (("console", console), ("doctor", doctor)):
            text = re.sub(r"\s+", " ", re.sub(r"(?m)^\[\d+\]: ", "", text))  # a launcher names the rank
            said = SAID[self.cause] and SAID[self.cause].format(rank=self.rank)
            if said and not re.search(said, text):
                wrong.append(f"the {name} does not report it")
            if not said and "advice" in text:
                wrong.append(f"the {name} gives advice: {text[text.find('finding'):][:300]}")
        if "where the time of steps 1 to" not in doctor:
            wrong.append("the doctor shows no report")
        return wrong


def wait_for_turn() -> socket.socket:
    """Waits for a name that only one process on this machine can hold: two of these programs would take each other's cores."""
    turn = socket.socket(socket.AF_UNIX)
    said = False
    while True:
        try:
            turn.bind("\0lockstep-provoke")
            return turn
        except OSError:
            if not said:
                print("provoke: waiting for another provoke to end", flush=True)
            said = True
            time.sleep(0.5)


class Trial(driver.Trial):
    KINDS = tuple(SAID)

    def prepare(self, given) -> None:
        if len(two_cores()) < 2:
            raise driver.CannotRun("two cores are needed, but there is only one")
        given.program = broken_runs.test_program(given, "provoked_ranks")
        runs.make_data(given, small=True)
        given.slow_disk, given.scenes = broken_runs.make_slow_disk(given), given.work / "scenes"
        if not given.scenes.exists():
            runs.lockstep(given, "generate", "detection", "--out", str(given.scenes), "--count", "64", "--seed", "1")
        self.turn = wait_for_turn()  # held until the end

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        if kind == "hosts" and not can_make_hosts():
            raise driver.CannotRun("cannot create network namespaces (needs root and ip)")
        if kind == "memory" and not can_limit_memory():
            raise driver.CannotRun("cannot create cgroups (needs root)")
        return Provoked(self.given, kind, number, draw).run()
