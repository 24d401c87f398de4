#!/usr/bin/env python3
"""Runs a command several times at once and prints one JSON line with the mean of a figure printed by each run.

This shows a machine's speed for programs that share nothing but the machine: the yardstick for the scaling of ranks that work
together.

example:
  scripts/measure/compare.py --key median_ms --pairs 10 \\
    --a 'lockstep bench step captcha --nproc-per-node 2 --amp bf16 --json' \\
    --b 'scripts/measure/at_once.py --key median_ms --runs 2 lockstep bench step captcha --amp bf16 --json'
"""
import argparse
import json
import subprocess
import sys


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", required=True, help="the figure's JSON key")
    parser.add_argument("--runs", type=int, default=2, help="how many at once (default: 2)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    if not given.command:
        parser.error("a command is missing")
    runs = [subprocess.Popen(given.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for _ in range(given.runs)]
    outputs = [run.communicate()[0] for run in runs]
    failed = [run.returncode for run in runs if run.returncode != 0]
    if failed:
        sys.exit(failed[0])
    figures = [json.loads(next(line for line in out.splitlines() if line.startswith("{")))[given.key] for out in outputs]
    print(json.dumps({given.key: sum(figures) / len(figures), "runs": given.runs}))


main()
