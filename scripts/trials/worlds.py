"""Runs simulated clusters, and ranks that save on a simulated disk (tests/sim): every order of events, from a seed.

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

PROGRAMS = {"lockstep-sim": 1000, "lockstep-sim-checkpoint": 500}  # worlds in one call


class Trial(driver.Trial):
    COUNT = 10_000

    def prepare(self, given) -> None:
        self.programs = [(broken_runs.test_program(given, name), worlds) for name, worlds in PROGRAMS.items()]

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        first = draw.getrandbits(48)
        program, worlds = self.programs[number % len(self.programs)]
        run = subprocess.run([str(program), "--seed", str(first), "--worlds", str(worlds), "--table"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=runs.environment(), check=False, timeout=3600)
        found = re.search(r"^(\d+) worlds in .* (\d+) failed", run.stdout, re.M)
        wrong = re.findall(r"^seed \d+: .*", run.stdout, re.M)
        if not found or (run.returncode != 0 and not wrong):
            wrong.append(f"exit code {run.returncode}, said: {run.stdout[-500:]}")
        faults = {name.strip(): int(times) for name, times in re.findall(r"^([a-z ]+?) +(\d+)(?: +\d+)?$", run.stdout, re.M)}
        return {"program": program.name, "first": first, "count": int(found.group(1)) if found else 1, "faults": faults, "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        totals: dict[str, int] = {}
        for row in rows:
            for name, times in row.get("faults", {}).items():
                totals[name] = totals.get(name, 0) + times
        print(", ".join(f"{name} {times:,}" for name, times in totals.items()))
        return []
