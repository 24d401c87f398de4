#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the page of lockstep dashboard in a browser: this file prepares runs, browser/page_test.mjs checks the page.

Skips (exit code 77) with the reason if Node.js, Chromium or the npm packages are missing.
Example: tests/dashboard/page_test.py --bin build/test/bin --modules build/test/web/node_modules --fake-run fake_run
"""
import argparse
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
POINTS = 1_000_000


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def address(program):
    for line in program.stdout:
        found = re.search(r"http://\S+#token=\w+", line)
        if found:
            return found[0]
    sys.exit("error: the dashboard has not printed its address")


def start(words, folder):
    return subprocess.Popen(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def end(program):
    program.send_signal(signal.SIGTERM)
    program.wait(20)


def look(arguments, name, url, facts, must=True):
    """Runs one part of page_test.mjs; returns True if it passed."""
    print(f"-- {name}", flush=True)
    facts = {"url": url, "modules": str(arguments.modules.resolve()), "chromium": arguments.chromium,
             "pictures": arguments.pictures, **facts}
    done = subprocess.run([arguments.node, HERE / "browser/page_test.mjs", name, json.dumps(facts)], timeout=120)
    if must and done.returncode != 0:
        sys.exit(f"error: {name} has failed")
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--modules", type=pathlib.Path, required=True)
    parser.add_argument("--fake-run", type=pathlib.Path, required=True)
    parser.add_argument("--pictures", default="", help="a folder for screenshots of the page")
    parser.add_argument("--chromium", default=shutil.which("chromium") or "")
    parser.add_argument("--node", default=shutil.which("node") or "")
    arguments = parser.parse_args()
    if not arguments.node:
        skip("node is not installed (Debian: nodejs)")
    if not arguments.chromium:
        skip("chromium is not installed (Debian: chromium)")
    if not (arguments.modules / "playwright-core").is_dir():
        skip(f"{arguments.modules} has no playwright-core: the build had no npm or no network")
    command = str((arguments.bin / "lockstep").resolve())
    fake = str(arguments.fake_run.resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([fake, "folder", "small", "2", "100", "0.001"], cwd=folder, check=True)
        shutil.copy(HERE.parents[1] / "docs/images/detection_found.png", folder / "small/found.png")
        subprocess.run([fake, "folder", "other", "2", "60", "0.002"], cwd=folder, check=True)
        subprocess.run([fake, "folder", "large", "64", str(POINTS), "0.001"], cwd=folder, check=True)
        page = start([command, "dashboard", "small", "other"], folder)
        try:
            url = address(page)
            look(arguments, "two_runs", url, {"log": str(folder / "small/log.jsonl")})
            look(arguments, "without_token", url.split("#")[0], {})
        finally:
            end(page)
        write_detector(folder / "detector")
        page = start([command, "dashboard", "detector"], folder)
        try:
            look(arguments, "detector", address(page), {})
        finally:
            end(page)
        page = start([command, "dashboard", "large"], folder)
        try:
            url = address(page)
            try_three_times("large_run", lambda _: look(arguments, "large_run", url, {"points": POINTS}, must=False))
        finally:
            end(page)
        try_three_times("killed_rank",
                        lambda count: killed_rank_is_shown(arguments, folder / f"try-{count}", command, fake))


def write_detector(folder):
    """Writes the log of a run with many loss terms, a metric of 0 and a last epoch without evaluation."""
    folder.mkdir()
    parts = {f"part_{number}": 0.1 for number in range(40)}
    lines = [{"event": "step", "step": step, "epoch": 1 + step // 10, "loss": 4 / step, "lr": 0.001, "images_per_s": 9, "losses": parts}
             for step in range(1, 21)]
    lines.insert(9, {"event": "epoch", "epoch": 1, "step": 10, "loss": 1, "seconds": 5, "metrics": {"bbox_map": 0, "a_small": 0.25, "ar": 0.5}})
    lines.append({"event": "epoch", "epoch": 2, "step": 20, "loss": 0.3, "seconds": 5})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.yml").write_text("recipe: detection\n")


def try_three_times(name, passes):
    """The page has the lowest priority: if other programs keep all processors busy, one success in three attempts is enough."""
    if not any(passes(count) for count in range(3)):
        sys.exit(f"error: {name} has failed three times")


def killed_rank_is_shown(arguments, folder, command, fake):
    folder.mkdir()
    run = start([command, "run", "--nproc-per-node", "4", "--max-restarts", "1", "--dashboard", "--log-dir", "logs", "--",
                 fake, "rank"], folder)
    try:
        return look(arguments, "killed_rank", address(run), {}, must=False)
    finally:
        end(run)


if __name__ == "__main__":
    main()
