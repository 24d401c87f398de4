"""Runs random programs of collectives on 2 to 5 ranks, over shared memory, gloo and both, against a serial model.

What stands in the results file is not run again: call it until the number is reached.

example:
  scripts/trials/trial collective_programs --programs 10000
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WAYS = ["SharedMemory/Programs.*/0", "SharedMemory/Programs.*/1", "SharedMemory/Programs.*/2",
        "SharedMemory/Programs.*/3", "Network/Programs.*/0", "Hierarchy/Programs.*/0", "Hierarchy/Programs.*/1"]


def rows_of(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run_batch(test: pathlib.Path, way: str, first: int, count: int) -> bool:
    environment = os.environ | {"LOCKSTEP_PROGRAMS": str(count), "LOCKSTEP_PROGRAMS_SEED": str(first)}
    done = subprocess.run([str(test), f"--gtest_filter={way}"], env=environment, capture_output=True, text=True)
    passed = done.returncode == 0 and "[  PASSED  ] 1 test." in done.stdout
    if not passed:
        print(done.stdout[-3000:], file=sys.stderr)
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10000, help="how many in all")
    parser.add_argument("--batch", type=int, default=100, help="how many one start of the ranks runs")
    parser.add_argument("--test", type=pathlib.Path, default=ROOT / "build/test/tests/comm_united_test")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build/trials/collective_programs.jsonl")
    given = parser.parse_args()
    if not given.test.exists():
        print(f"error: {given.test} is missing; build it with ./test", file=sys.stderr)
        return 64
    given.results.parent.mkdir(parents=True, exist_ok=True)
    rows = rows_of(given.results)
    total = sum(row["programs"] for row in rows)
    while total < given.programs:
        way = WAYS[len(rows) % len(WAYS)]
        row = {"way": way, "first": total + 1, "programs": given.batch}
        row["passed"] = run_batch(given.test, way, row["first"], given.batch)
        rows.append(row)
        total += given.batch
        with given.results.open("a") as results:
            results.write(json.dumps(row) + "\n")
    failed = [row for row in rows if not row["passed"]]
    bound = "" if failed else f"; 95 %: fewer than 1 in {total // 3}"
    print(f"{total} programs, {len(failed)} of {len(rows)} batches with a difference{bound}")
    return 1 if failed else 0
