"""Common parts of the trials that remove nodes: a job of one launcher and one rank in each of 4 network namespaces."""
import contextlib
import pathlib
import secrets
import signal
import subprocess
import time

import driver
import runs
from hosts import Hosts, can_make_hosts

NODES = 4
PORT = 29500
MASTER = Hosts.address(0)


class Job:
    """The launchers of one run, each with a log file. `options`: a node's arguments."""

    def __init__(self, given, network: Hosts, folder: pathlib.Path, settings: pathlib.Path, options):
        self.given, self.network, self.folder, self.settings, self.options = given, network, folder, settings, options
        self.token = secrets.token_hex(32)
        self.launchers: dict[int, subprocess.Popen] = {}

    def start(self, node: int) -> None:
        environment = runs.environment(LOCKSTEP_HOST_ID=f"host-{node}", LOCKSTEP_TOKEN=self.token, OMP_NUM_THREADS="1", LOCKSTEP_LOG="note")
        words = ["train", str(self.settings), "--quiet", "--nproc-per-node", "1", "--run-dir", str(self.folder / f"run-{node}")]
        command = self.network.command(node, str(self.given.bin / "lockstep"), *words, *self.options(node))
        with (self.folder / f"node-{node}.log").open("a") as log:
            self.launchers[node] = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

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

    def take_away(self, node: int, fault: str) -> None:
        if fault == "cut":
            self.network.cut(node)
        elif fault == "freeze":
            runs.send(self.network.processes(node), signal.SIGSTOP)
        else:
            self.kill(node)

    def said(self, node: int) -> str:
        return (self.folder / f"node-{node}.log").read_text()

    def end(self) -> None:
        """A stopped process does not notice that its launcher has ended."""
        for node in self.launchers:
            runs.send(self.network.processes(node), signal.SIGKILL)
            self.kill(node)


class NodeTrial(driver.Trial):
    """Trials of such jobs. A trial's folder is kept if something went wrong."""

    def prepare(self, given) -> None:
        if not can_make_hosts():
            raise driver.CannotRun("hosts in network namespaces need root and iproute2")
        runs.make_data(given, True)

    @contextlib.contextmanager
    def job(self, folder: pathlib.Path, settings: pathlib.Path, options):
        folder.mkdir(parents=True)
        with Hosts(NODES) as network, contextlib.ExitStack() as stack:
            job = Job(self.given, network, folder, settings, options)
            stack.callback(job.end)
            yield job

    def ends(self, job: Job, nodes, seconds: float):
        """Waits for each of the launchers, `seconds` in total. Yields: the node, and its exit code, or none if it is still running."""
        begin = time.monotonic()
        for node in nodes:
            try:
                yield node, job.launchers[node].wait(timeout=max(0.1, seconds - (time.monotonic() - begin)))
            except subprocess.TimeoutExpired:
                yield node, None
