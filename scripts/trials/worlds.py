"""Runs simulated clusters (tests/sim): every order of events, from a seed. Each takes about 15 ms.

A world that fails prints its story and the command that replays it. docs/design/simulation.md says what is simulated.

example:
  scripts/trials/trial worlds --count 100000
"""
import random
import re
import subprocess

import broken_runs
import driver
import runs

WORLDS = 1000  # in one call


class Trial(driver.Trial):
    COUNT = 10_000

    def prepare(self, given) -> None:
        self.program = broken_runs.test_program(given, "lockstep-sim")

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        first = draw.getrandbits(48)
        run = subprocess.run([str(self.program), "--seed", str(first), "--worlds", str(WORLDS), "--table"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=runs.environment(), check=False, timeout=3600)
        found = re.search(r"^(\d+) worlds in .* (\d+) failed", run.stdout, re.M)
        wrong = re.findall(r"^seed \d+: .*", run.stdout, re.M)
        if not found or (run.returncode != 0 and not wrong):
            wrong.append(f"exit code {run.returncode}, said: {run.stdout[-500:]}")
        faults = {name.strip(): int(times) for name, times in re.findall(r"^([a-z ]+?) +(\d+) +\d+$", run.stdout, re.M)}
        return {"first": first, "count": int(found.group(1)) if found else 1, "faults": faults, "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        totals: dict[str, int] = {}
        for row in rows:
            for name, times in row.get("faults", {}).items():
                totals[name] = totals.get(name, 0) + times
        print(", ".join(f"{name} {times:,}" for name, times in totals.items()))
        return []
