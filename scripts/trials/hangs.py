"""Starts 3 ranks, one of which has a fault at a random step: does the launcher name the right one, and the reason?

  kill, kill_reduce  it is killed, between two all-reduces or inside one   "killed by signal 9 (SIGKILL)"
  stop       it is stopped                             "stopped by SIGSTOP"
  exit       it exits with 1                           "exit code 1"
  exit0      it exits with 0 in the middle of a step   "left: its program has ended"
  early      it leaves its loop and ends               "left: its program has ended"
  exception  it throws                                 "no luck"
  skip       it skips a collective                     "called barrier", and the others' collective; if no call has a majority, the different
             calls of two ranks
  loop       it computes forever                       "it computes in backward"
  data       its data never comes                      "it is waiting for data"
  alone      it computes forever, longer than its section's time limit; the others have a longer limit for their wait
  long       it saves for 3 s, longer than the others would wait for a step, and its step after that is slow: this is not a fault
  stop_reduce, stop_barrier, stop_wait, stop_copy, stop_message
             it is stopped inside a large all-reduce, in a barrier or an all-reduce before the others come, in a broadcast,
             in send and recv around the ring of ranks, or right after one of these   "stopped by SIGSTOP"
  suspend    all processes of the job, launchers included, are stopped for longer than any limit, then continued: this is not a fault
  suspend_save  the same while it saves and the others wait
  suspend_start the same in the first second, while the ranks meet
  meet       without a launcher, one rank is never started, two wait for it, and one of the two is killed: the other ends at once

If a rank is stopped, lockstep doctor must say so in the meantime. Of ten trials of a fault, eight use shm, one uses tcp, and one
uses shm and tcp on two hosts; of five trials of a stop_* or suspend* fault, two use shm, two the hosts, and one tcp. The hosts
are network namespaces, which need root and ip, and both of their launchers must say the same. With --gpus each rank has a
simulated GPU and reduces over NCCL, on one host or on two. The last message must name rank and cause, the exit code must match,
and nothing may be left behind. A hang (stop, loop, data, skip) must be named within the limit plus 10 %; that needs an otherwise
idle machine, so only --on-time checks it.

example:
  scripts/trials/trial hangs --count 200
"""
import contextlib
import pathlib
import random
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time

import broken_runs
import driver
import runs
from hosts import Hosts, can_make_hosts

RANKS = 3
SAID = {"kill": r"rank {}( on \S+)? failed first: killed by signal 9 \(SIGKILL\)", "stop": r"rank {} hangs: stopped by SIGSTOP.* in backward of step {}",
        "exit": r"rank {}( on \S+)? failed first: exit code 1\b", "exception": r"rank {}( on \S+)? failed first(.|\n)*no luck",
        "skip": r"rank {} called barrier as operation \d+ in step \d+, but ranks \d, \d called all_reduce|"
                r"^\nlockstep: the ranks called different collectives as operation \d+: (barrier on rank {}, all_reduce.* on rank \d|"
                r"all_reduce.* on rank \d, barrier on rank {})",
        "exit0": r"rank {}( on \S+)? left: its program has ended in backward of step {}[;,]",
        "early": r"rank {}( on \S+)? left: its program has ended in step {}[;,]", "loop": r"rank {} hangs: it computes in backward of step {} ",
        "data": r"rank {} hangs: it is waiting for data in DataLoader::next of step {} ",
        "alone": r"rank {} hangs: it computes in forward of step {} \([\d.]+ s so far; limit [\d.]+ s\)", "long": r"",
        "suspend": r"", "suspend_save": r"", "suspend_start": r"", "meet": r"rank {}( on \S+)? died"}
INSIDE = ("stop_reduce", "stop_barrier", "stop_wait", "stop_copy", "stop_message")
SAID |= {fault: r"rank {} hangs: stopped by SIGSTOP .*\([\d.]+ s so far\); ranks? \d(, \d)?( on \S+)? waits? in " for fault in INSIDE}
SAID["kill_reduce"] = SAID["kill"]
CODES = {"kill": 137, "kill_reduce": 137, "stop": 76, "exit": 1, "exception": 71, "skip": 64, "loop": 76, "data": 76, "alone": 76, "long": 0, "exit0": 75, "early": 75,
         "suspend": 0, "suspend_save": 0, "suspend_start": 0, "meet": 75} | {fault: 76 for fault in INSIDE}
HANGS = ("stop", "loop", "data", "skip")
ALIVE = ("stop", "loop", "data", "alone")  # faults for which the rank's stacks are shown
STACK = re.compile(r"\n  stack   thread \d+ hanging_ranks \(main\)\n( +#\d+ .*\n)* +#\d+ .*train\(lockstep::Job&\)")
STOPPED = ("stop", *INSIDE)  # faults that the doctor reports
SUSPENDED = ("suspend", "suspend_save", "suspend_start")
BACKENDS_INSIDE = ("shm", "hosts", "tcp", "shm", "hosts")
BACKENDS = ("shm", "shm", "shm", "shm", "shm", "shm", "shm", "shm", "hosts", "tcp")
PORT = 29511


def program(given) -> pathlib.Path:
    return broken_runs.test_program(given, "on_gpus/hanging_ranks" if given.gpus else "hanging_ranks")


def words_of(given, logs: pathlib.Path, *options: str) -> list[str]:
    return [str(given.bin / "lockstep"), "run", "--log-dir", str(logs), *options, "--", str(program(given))]


def gpus_of(given) -> dict[str, str]:
    """Variables that give each rank its simulated GPU, and NCCL."""
    library = broken_runs.test_program(given, "liblockstep_nccl_double.so")
    return {"LOCKSTEP_DEVICE": "cuda", "LOCKSTEP_DOUBLE_GPUS": str(RANKS), "LOCKSTEP_NCCL": str(library)}


class Launcher:
    """A launcher, its lines, and the time of each."""

    def __init__(self, words: list[str], environment: dict):
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines: list[tuple[float, str]] = []
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self) -> None:
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line))

    def wait(self) -> str:
        self.process.wait(timeout=120)
        self.reader.join()
        return "".join(line for _, line in self.lines)

    def judged_at(self) -> float:
        """The time of the first verdict; the last message repeats it once everything has ended."""
        verdict = next((line[len("lockstep: "):] for _, line in reversed(self.lines) if line.startswith("lockstep: ")), None)
        return next((moment for moment, line in self.lines if verdict is not None and verdict in line), 0.0)


def launchers_of(given, logs: list[pathlib.Path], backend: str, environment: dict, network: Hosts | None) -> list[Launcher]:
    """One launcher, or one on each of two hosts: ranks 0 and 1 on the first, rank 2 on the second."""
    if backend != "hosts":
        chosen = {"LOCKSTEP_BACKEND": "auto" if given.gpus else backend}
        return [Launcher(words_of(given, logs[0], "--nproc-per-node", str(RANKS)), environment | chosen)]
    environment = environment | {"LOCKSTEP_TOKEN": secrets.token_hex(32)}
    return [Launcher(network.command(node, *words_of(
        given, logs[node], "--nnodes", "2", "--node-rank", str(node), "--nproc-per-node", str(RANKS - 1 - node), "--master-addr",
        network.address(0), "--master-port", str(PORT))), environment | {"LOCKSTEP_HOST_ID": f"host-{node}"}) for node in range(2)]


def faults_in(fault: str, rank: int, step: int, said: list[str], codes: list[int]) -> list[str]:
    """The faults in each launcher's last message and exit code."""
    wrong = []
    last = [("\n" + text)[("\n" + text).rfind("\nlockstep: "):] for text in said]
    for text, code, whole in zip(last, codes, said):
        if not re.search(SAID[fault].format(*[rank, rank, rank] if fault == "skip" else [rank, step]), text):
            wrong.append(f"said: {text.strip().splitlines()[0] if text.strip() else whole[-300:]}")
        if code != CODES[fault]:
            wrong.append(f"exit code {code}, said: {text.strip()[:300]}")
    if fault in ALIVE and not any(STACK.search(text) for text in last):
        wrong.append("no stack of the main thread")
    return wrong


def suspend(launchers: list[Launcher], draw: random.Random, seconds: float) -> None:
    """Stops every process of the job, one after another like a batch system, and continues them in a different order."""
    stopped: list[int] = []
    for _ in range(2):  # the second round catches processes started in the meantime
        processes = [pid for launcher in launchers for pid in runs.descendants(launcher.process.pid) if pid not in stopped]
        draw.shuffle(processes)
        runs.send(processes, signal.SIGSTOP)
        stopped += processes
    time.sleep(seconds)
    draw.shuffle(stopped)
    for pid in stopped:
        runs.send([pid], signal.SIGCONT)
        time.sleep(draw.uniform(0, 0.02))


def wait_for(moment: pathlib.Path, launchers: list[Launcher]) -> bool:
    """Waits until the ranks are at their fault; False if they end before."""
    while not moment.exists():
        if all(launcher.process.poll() is not None for launcher in launchers):
            return False
        time.sleep(0.005)
    return True


def doctor_faults(given, logs: list[pathlib.Path], rank: int) -> list[str]:
    """Requires that the doctor on the rank's host reports the stopped rank, or the launcher's verdict if the launcher was faster, as on
    a busy machine."""
    time.sleep(0.2)
    said = [runs.lockstep(given, "doctor", str(folder), check=False).stdout for folder in logs if folder.exists()]
    is_right = re.compile(rf"^waits: no progress for [\d.]+ s: rank {rank} is stopped \(T\)|^failed: rank {rank} hangs: stopped")
    return [] if any(is_right.search(text) for text in said) else [f"the doctor said: {' / '.join(text.splitlines()[0] for text in said if text)}"]


def meet(given, draw: random.Random) -> dict:
    """Starts two of three ranks by hand. One is killed once both say that they wait."""
    dies, lives = draw.sample([0, draw.choice([1, 2])], 2)
    variables = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(PORT + 1), "LOCKSTEP_TIMEOUT": "60"}
    ranks = {rank: Launcher([str(broken_runs.test_program(given, "hanging_ranks"))],
                            runs.environment(RANK=str(rank), LOCAL_RANK=str(rank), TMPDIR=str(given.work), **variables))
             for rank in (dies, lives)}
    begin = time.monotonic()
    while time.monotonic() - begin < 60 and not all(any("waits since" in line for _, line in list(rank.lines)) for rank in ranks.values()):
        time.sleep(0.01)
    ranks[dies].process.kill()
    killed = time.monotonic()
    said = ranks[lives].wait()
    seconds = time.monotonic() - killed
    ranks[dies].wait()
    wrong = [] if re.search(SAID["meet"].format(dies), said) else [f"said: {said[-300:]}"]
    if ranks[lives].process.returncode != CODES["meet"]:
        wrong.append(f"exit code {ranks[lives].process.returncode}")
    if seconds > 10:
        wrong.append(f"ended after {seconds:.1f} s")
    return {"rank": dies, "backend": "by hand", "limit": 60, "named_after": round(seconds, 3), "wrong": wrong}


def run_once(given, fault: str, backend: str, draw: random.Random, network: Hosts | None, patience: int) -> dict:
    rank, step = draw.randrange(RANKS), draw.randint(2, 300)
    limit = patience * (3 * given.limit if backend == "hosts" else given.limit)  # two launchers have to meet first
    environment = runs.environment(FAULT=fault, FAULT_RANK=str(rank), FAULT_STEP=str(step), TMPDIR=str(given.work),
                                   LOCKSTEP_TIMEOUT=str(30 if fault == "alone" else limit))
    if fault == "alone":
        environment["LOCKSTEP_SECTION_TIMEOUT"] = f"forward={limit}"
    if given.gpus:
        environment |= gpus_of(given)
    moment = given.work / f"moment-{fault}"
    logs = [given.work / f"logs-{fault}-{node}" for node in range(2 if backend == "hosts" else 1)]
    for folder in logs:
        runs.fresh(folder)
    launchers = launchers_of(given, logs, backend, environment | {"FAULT_TIME": str(moment)}, network)
    doctor = []
    if fault == "suspend_start":
        time.sleep(draw.uniform(0, 1.5))
        suspend(launchers, draw, limit * draw.uniform(1.2, 2))
    elif fault in SUSPENDED and wait_for(moment, launchers):
        time.sleep(draw.uniform(0, 1 if fault == "suspend_save" else 0.1))
        suspend(launchers, draw, limit * draw.uniform(1.2, 2))
    elif fault in STOPPED and wait_for(moment, launchers):
        doctor = doctor_faults(given, logs, rank)
    said = [launcher.wait() for launcher in launchers]
    wrong = doctor + faults_in(fault, rank, step, said, [launcher.process.returncode for launcher in launchers])
    for folder in logs:
        shutil.rmtree(folder, ignore_errors=True)
    named_after = 0.0  # if there was no fault, as when the ranks failed earlier
    judged_at = max(launcher.judged_at() for launcher in launchers)
    reached = fault == "suspend_start" or moment.exists()
    if moment.exists() and judged_at > 0:
        named_after = judged_at - float(moment.read_text())
    moment.unlink(missing_ok=True)
    if given.on_time and fault in HANGS and named_after > limit * 1.1:
        wrong.append(f"named after {named_after:.3f} s")
    return {"rank": rank, "step": step, "backend": backend, "limit": limit, "named_after": round(named_after, 3), "wrong": wrong,
            "reached": reached}


class Trial(driver.Trial):
    KINDS = tuple(SAID)
    OPTIONS = {
        "--limit": (1.0, "LOCKSTEP_TIMEOUT, in seconds"),
        "--gpus": (False, "use simulated GPUs and reduce over NCCL"),
        "--on-time": (False, "fail if a hang is named later than the limit plus 10 %"),
    }

    def prepare(self, given) -> None:
        if given.gpus:  # a rank waiting for its GPU is not in a collective itself
            SAID.update({fault: SAID[fault].replace("; rank", "; (other ranks gave up waiting|rank") + ")" for fault in INSIDE})
        # One run without a fault, so that the first trial does not wait for the disk.
        subprocess.run([given.bin / "lockstep", "run", "--", program(given)],
                       env=runs.environment(FAULT="long", FAULT_STEP="1"), check=True, timeout=120)
        self.can_make_hosts = can_make_hosts()

    def backend(self, kind: str, number: int) -> str:
        backends = BACKENDS_INSIDE if kind in INSIDE or kind in SUSPENDED else BACKENDS
        backend = backends[number % len(backends)]
        if backend == "hosts":
            return "hosts" if self.can_make_hosts else "shm"
        return "shm" if self.given.gpus else backend

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        """Runs a trial. If the run ends before its fault, it proves nothing: the machine may be too busy for the ranks to meet in
        time. It is then repeated with twice the limit."""
        if kind == "meet":
            return meet(self.given, draw)
        state, backend = draw.getstate(), self.backend(kind, number)
        with Hosts(2) if backend == "hosts" else contextlib.nullcontext() as network:
            for patience in (1, 2, 4):
                draw.setstate(state)
                row = run_once(self.given, kind, backend, draw, network, patience)
                if row.pop("reached") or not row["wrong"]:
                    break
                print(f"{kind} {number} ended before its fault, with a limit of {row['limit']} s: {'; '.join(row['wrong'])}", flush=True)
        return row

    def closing(self, rows: list[dict]) -> list[str]:
        named = {kind: max((row["named_after"] for row in rows if row["kind"] == kind), default=0.0) for kind in HANGS}
        print("named after at most " + ", ".join(f"{seconds:.3f} s ({kind})" for kind, seconds in named.items()))
        return []
