#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do the faster layers train as well? Trains the digits of the captcha recipe for some steps from several seeds, with
libtorch's separate layers and as a run is by default, and compares the mean of the last losses.

Appends each run's figures to a results file and goes on where it stopped. At the end: mean and standard deviation of the
plain runs, and by how many of these each other run lies off.

example:
  lockstep generate captcha --out data/train --count 4000 --seed 1 --charset 0-9
  scripts/loss_band.py --data data/train --results loss_band.jsonl
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

KINDS = {"plain": ["fused_layers=false"], "default": []}


def losses(lockstep: str, data: str, settings: list[str], seed: int, steps: int, batch: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        sets = [f"data.train={data}", f"seed={seed}", f"max_steps={steps}", f"batch_size={batch}", "epochs=1000",
                "schedule.type=none", "log_every_steps=1", "workers=1", *settings]
        command = [lockstep, "train", "captcha:digits", "--nproc-per-node", "1", "--run-dir", str(run)]
        subprocess.run([*command, *(part for one in sets for part in ("--set", one))], check=True,
                       stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    found = [line["loss"] for line in lines if "loss" in line and "step" in line]
    if len(found) < steps:
        raise SystemExit(f"{run}: {len(found)} losses of {steps} steps")
    return found[:steps]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a folder of captchas")
    parser.add_argument("--results", required=True, help="where each run's line is kept")
    parser.add_argument("--lockstep", default="lockstep")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--last", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32)
    given = parser.parse_args()
    results = pathlib.Path(given.results)
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        for kind, settings in KINDS.items():
            if any(one["kind"] == kind and one["seed"] == seed for one in done):
                continue
            mean = statistics.mean(losses(given.lockstep, given.data, settings, seed, given.steps, given.batch)[-given.last:])
            done.append({"kind": kind, "seed": seed, "steps": given.steps, "batch": given.batch, "mean_loss": mean})
            with results.open("a") as file:
                file.write(json.dumps(done[-1]) + "\n")
            print(f"{kind:8} seed {seed}: mean of the last {given.last} losses {mean:.5f}", flush=True)
    plain = [one["mean_loss"] for one in done if one["kind"] == "plain"]
    center, sigma = statistics.mean(plain), statistics.stdev(plain)
    print(f"plain: {center:.5f}, standard deviation {sigma:.5f} of {len(plain)} seeds")
    others = [one for one in done if one["kind"] == "default"]
    for one in others:
        print(f"default seed {one['seed']}: {one['mean_loss']:.5f}, {(one['mean_loss'] - center) / sigma:+.2f} sigma")
    print(f"default, mean: {(statistics.mean(one['mean_loss'] for one in others) - center) / sigma:+.2f} sigma")


main()
