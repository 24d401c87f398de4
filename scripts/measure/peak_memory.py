#!/usr/bin/env python3
"""Runs a command and prints the peak memory of all its processes together.

It counts the proportional set size (PSS) of every descendant, ten times a second: pages that several processes share, such as
the gradients of ranks on one host, count once. Exits with the command's code.

example:
  scripts/measure/peak_memory.py build/release/bin/lockstep train segmentation:voc --nproc-per-node 2 --batchsize 2 \\
    --dataset_path data/shapes --numclasses 5 --class_names '[]' --max_steps 2
"""
import argparse
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402

INTERVAL = 0.1  # seconds


def pss_bytes(pid: int) -> int:
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="command to run")
    given = parser.parse_args()
    if not given.command:
        parser.error("no command")
    process = subprocess.Popen(given.command)
    peak, at_peak = 0, []
    while process.poll() is None:
        sizes = [size for size in map(pss_bytes, runs.descendants(process.pid)) if size > 0]
        if sum(sizes) > peak:
            peak, at_peak = sum(sizes), sizes
        time.sleep(INTERVAL)
    shares = ", ".join(f"{size / 2**30:.2f}" for size in sorted(at_peak, reverse=True))
    print(f"peak memory of all processes: {peak / 2**30:.2f} GiB ({shares})")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
