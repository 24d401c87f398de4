"""Trains each recipe under the guard, without a fault: does the guard raise an alarm?

A run guards every step of a recipe's smoke preset (or the small captcha set) over 2 processes, in float32 or bfloat16, with a new
seed each time. It must succeed, without a restart and without a report of a rank that differs. A row is one run of --steps steps.

example:
  scripts/trials/trial guard_quiet --count 20
"""
import json
import random
import re

import driver
import runs

ENDLESS = ["epochs=10000", "eval_every_epochs=0"]
MORE = {"captcha": ENDLESS, "segmentation": ENDLESS, "detection": [*ENDLESS, "stop_epoch=0"], "captioning": []}
ALARM = re.compile(r"rank \d+ on host|ranks differ|cannot run|restart \d+ of")


class Trial(driver.Trial):
    COUNT = 1
    KINDS = tuple(f"{recipe} {amp}" for recipe in MORE for amp in ("none", "bf16"))
    OPTIONS = {"--steps": (100, "steps of a run")}

    def prepare(self, given) -> None:
        runs.make_data(given, small=True)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        given, (recipe, amp) = self.given, kind.split()
        folder = runs.fresh(given.work / "run")
        start = str(runs.settings(given.work, small=True)) if recipe == "captcha" else f"{recipe}:smoke"
        changes = ["guard=1", f"amp={amp}", f"max_steps={given.steps}", f"seed={draw.randrange(1 << 30)}", *MORE[recipe]]
        done = runs.lockstep(given, "train", start, "--nproc-per-node", "2", "--run-dir", str(folder),
                             *(word for change in changes for word in ("--set", change)), check=False)
        steps = last_step(folder)
        wrong = [] if done.returncode == 0 else [f"exit code {done.returncode}: {done.stdout[-400:]}"]
        wrong += [f"said: {found[0]}"] if (found := ALARM.search(done.stdout)) else []
        wrong += [] if steps == given.steps else [f"{steps} steps"]
        return {"steps": steps, "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        for kind in self.KINDS:
            print(f"{kind}: {sum(row['steps'] for row in rows if row['kind'] == kind)} guarded steps")
        return []


def last_step(folder) -> int:
    newest = sorted((folder / "checkpoints").glob("step-*"))
    return json.loads((newest[-1] / "manifest.json").read_text())["step"] if newest else 0
