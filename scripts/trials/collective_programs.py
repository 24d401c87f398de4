"""Runs random programs of collectives on 2 to 5 ranks, over shared memory, tcp and both, against a serial model.

example:
  scripts/trials/trial collective_programs --count 10000
"""
import random
import subprocess

import broken_runs
import driver
import runs

WAYS = ["SharedMemory/Programs.*/0", "SharedMemory/Programs.*/1", "SharedMemory/Programs.*/2",
        "SharedMemory/Programs.*/3", "Network/Programs.*/0", "Hierarchy/Programs.*/0", "Hierarchy/Programs.*/1"]


class Trial(driver.Trial):
    COUNT = 10000
    OPTIONS = {"--batch": (100, "programs per start of the ranks")}

    def prepare(self, given) -> None:
        self.program = broken_runs.test_program(given, "comm_united_test")

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        way, first = WAYS[number % len(WAYS)], 1 + sum(row["count"] for row in self.rows)
        environment = runs.environment(LOCKSTEP_PROGRAMS=str(self.given.batch), LOCKSTEP_PROGRAMS_SEED=str(first))
        done = subprocess.run([str(self.program), f"--gtest_filter={way}"], env=environment, capture_output=True, text=True, check=False)
        passed = done.returncode == 0 and "[  PASSED  ] 1 test." in done.stdout
        return {"way": way, "first": first, "count": self.given.batch, "wrong": [] if passed else [done.stdout[-3000:]]}
