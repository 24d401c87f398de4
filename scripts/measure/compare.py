#!/usr/bin/env python3
"""Runs two commands alternately, A B A B, and compares a figure in their JSON lines.

Matches the lines of both in order. For each line: the median of A, of B, and of the ratios A / B pair by pair.

example:
  scripts/measure/compare.py --key median_ms --pairs 5 \\
    --a 'lockstep bench step captcha --nproc-per-node 2 --amp bf16 --json' \\
    --b 'peers/ranks 2 python3 peers/captcha_step.py --bf16 --channels-last'
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def equal_kernels() -> dict[str, str]:
    """The environment that gives both sides the kernels that Lockstep's programs select.

    OpenBLAS mistakes a processor newer than itself for an old one, which would make a peer several times slower.
    """
    for preset in ("release", "test"):
        program = ROOT / "build" / preset / "bin/lockstep"
        if "OPENBLAS_CORETYPE" in os.environ or not program.exists():
            continue
        told = subprocess.run([program, "inspect", "env"], stdout=subprocess.PIPE, text=True, check=True).stdout
        core = re.search(r"^matrix products .*, (\w+) kernels", told, re.MULTILINE)
        return os.environ | ({"OPENBLAS_CORETYPE": core[1]} if core else {})
    return dict(os.environ)


def figures(command: str, key: str) -> list[float]:
    run = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
                         env=equal_kernels())
    return [json.loads(line)[key] for line in run.stdout.splitlines() if line.startswith("{")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", required=True, help="the figure's JSON key")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--a", required=True, help="the first command")
    parser.add_argument("--b", required=True, help="the second command")
    given = parser.parse_args()
    pairs = [(figures(given.a, given.key), figures(given.b, given.key)) for _ in range(given.pairs)]
    for line in range(min(len(pairs[0][0]), len(pairs[0][1]))):
        a = [pair[0][line] for pair in pairs]
        b = [pair[1][line] for pair in pairs]
        ratios = [x / y for x, y in zip(a, b)]
        print(f"{given.key} {line}: A {statistics.median(a):.4g}  B {statistics.median(b):.4g}  "
              f"A/B {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {given.pairs} pairs)")


main()
