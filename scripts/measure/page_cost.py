#!/usr/bin/env python3
"""Measures the live page's CPU time during a run while a browser shows it.

Headless Chromium opens the page of a run of two ranks with --dashboard. After a few seconds of warm-up, this counts the
CPU time of the page's server and of the ranks. If every core is busy with ranks, the run slows down by at most the page's
share of all cores. Without a browser (--closed) only the reading of the run's files remains.

example:
  scripts/measure/page_cost.py --seconds 60
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid: int) -> float:
    """The CPU time of all its threads so far; 0 if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def named(pids: list[int], name: str) -> list[int]:
    """The processes whose program name starts with this: the kernel keeps 15 characters."""
    found = []
    for pid in pids:
        path = pathlib.Path(f"/proc/{pid}/comm")
        if path.exists() and path.read_text().strip() == name[:15]:
            found.append(pid)
    return found


def address_of(out: pathlib.Path) -> str:
    for _ in range(300):
        if found := re.search(r"http://\S+", out.read_text()):
            return found[0]
        time.sleep(0.1)
    sys.exit(f"the page's address was not printed within 30 s:\n{out.read_text()}")


def start_run(given, folder: pathlib.Path) -> subprocess.Popen:
    words = [str(given.bin / "lockstep"), "train", given.recipe, "--nproc-per-node", str(given.ranks), "--run-dir", str(folder / "run"),
             "--dashboard", "--set", "epochs=100000"]
    with (folder / "out.txt").open("w") as out:
        return subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=runs.environment())


def open_page(given, folder: pathlib.Path) -> subprocess.Popen | None:
    if given.closed:
        return None
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}", "--remote-debugging-port=0",
             address_of(folder / "out.txt")]
    with (folder / "browser.txt").open("w") as out:
        return subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT)


def measure(given, run: subprocess.Popen) -> dict:
    pids = runs.descendants(run.pid)
    page, ranks = named(pids, "lockstep-dashboard"), named(pids, "lockstep-worker")
    if not page or not ranks:
        sys.exit("the run or its page has ended")
    before = {pid: processor_seconds(pid) for pid in (*page, *ranks)}
    begin = time.monotonic()
    time.sleep(given.seconds)
    wall = time.monotonic() - begin
    used = lambda of: sum(processor_seconds(pid) - before[pid] for pid in of)
    return {"wall": wall, "page": used(page), "ranks": used(ranks)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=runs.ROOT / "build/test/bin", help="folder with lockstep")
    parser.add_argument("--recipe", default="captioning:smoke")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="seconds to measure (default: 60)")
    parser.add_argument("--warm-up", type=float, default=15, help="seconds to wait before measuring (default: 15)")
    parser.add_argument("--closed", action="store_true", help="do not open the page in a browser")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = start_run(given, folder)
        browser = None
        try:
            browser = open_page(given, folder)
            time.sleep(given.warm_up)
            found = measure(given, run)
        finally:
            for process in filter(None, (browser, run)):
                process.terminate()
                process.wait()
    share = found["page"] / (found["page"] + found["ranks"])
    print(f"{found['wall']:.0f} s on {cores} cores: the page took {found['page']:.2f} s of processor time and the ranks {found['ranks']:.1f} s; "
          f"the page's share is {100 * share:.2f} % of both, {100 * found['page'] / found['wall'] / cores:.2f} % of the cores")


main()
