"""Kills a small process that saves checkpoints at random moments, and checks what is left.

Each kill takes tens of milliseconds. The kinds: one process; a thread that writes while the state changes; two ranks that
write one checkpoint. The program is the checkpoint module's kill test, which reports its findings.

example:
  scripts/trials/trial kill_writer --count 1000
"""
import random
import re
import subprocess

import broken_runs
import driver
import runs

WAYS = ["OneProcess", "Asynchronous", "TwoRanks"]
ROUNDS = 20  # per call: the program needs a moment to start


class Trial(driver.Trial):
    COUNT = 1000

    def prepare(self, given) -> None:
        self.program = broken_runs.test_program(given, "checkpoint_kill_test")

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        way = WAYS[number % len(WAYS)]
        environment = runs.environment(LOCKSTEP_KILL_ROUNDS=str(ROUNDS), LOCKSTEP_KILL_SEED=str(draw.getrandbits(31)))
        run = subprocess.run([str(self.program), f"--gtest_filter=*KilledWriter*{way}*"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=environment, check=False, timeout=600)
        found = re.search(r"^kills: (\d+)$", run.stdout, re.M)
        kills, left = int(found.group(1)) if found else 0, broken_runs.left_on_machine(self.given)
        wrong = [] if run.returncode == 0 else [f"said: {run.stdout[-2000:]}"]
        wrong += [f"{kills} kills instead of {ROUNDS}"] if kills != ROUNDS else []
        wrong += [f"left behind: {left}"] if left else []
        return {"way": way, "count": max(kills, 1), "wrong": wrong}
