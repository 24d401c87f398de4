#!/usr/bin/env python3
"""Compares what `lockstep plan` predicts with what runs take: 1, 2 and 4 ranks over links of limited rate and delay.

A step is measured once for each recipe and number of ranks, on this machine's loopback with buckets of 1 MiB. From that each
setting is predicted, and then measured between two network namespaces that tests/support/link.py links. One rank needs no link
and is predicted from the run of two. What the results file has already is not done again. Needs root, for the namespaces.

example:
  sudo scripts/plan_check.py --bin build/release/bin
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
END = "DistributedDataParallel::end_backward"

# recipe, machines, ranks of each, backend, Mbit/s, ms of one way, MiB of a bucket
SETTINGS = [
    ("detection:smoke", 1, 1, "gloo", 0, 0, 25),
    ("segmentation:smoke", 1, 1, "gloo", 0, 0, 25),
    ("detection:smoke", 2, 1, "gloo", 50, 10, 25),
    ("detection:smoke", 2, 1, "gloo", 20, 2, 4),
    ("detection:smoke", 2, 1, "gloo", 100, 20, 8),
    ("segmentation:smoke", 2, 1, "gloo", 50, 2, 25),
    ("segmentation:smoke", 2, 1, "gloo", 100, 10, 1),
    ("captioning:smoke", 2, 1, "gloo", 50, 5, 4),
    ("captioning:smoke", 2, 1, "gloo", 100, 1, 25),
    ("detection:smoke", 2, 2, "gloo", 50, 5, 8),
    ("detection:smoke", 2, 2, "shm+gloo", 50, 10, 25),
    ("segmentation:smoke", 2, 2, "shm+gloo", 20, 2, 4),
]
NAMES = ("recipe", "machines", "gpus", "backend", "mbit", "delay_ms", "bucket_mib")


def bench(given, recipe: str, bucket: int) -> list[str]:
    return [str(given.bin / "lockstep-worker"), "bench", "step", recipe, "--repeats", str(given.steps), "--set",
            f"bucket_cap_mb={bucket}"]


def environment(backend: str) -> dict:
    keep = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    forced = {} if backend == "shm+gloo" else {"LOCKSTEP_BACKEND": backend}
    return keep | {"OMP_NUM_THREADS": "1", "LOCKSTEP_DEVICE": "cpu"} | forced


def run(words: list[str], **options) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def steps_ms(given, logs: pathlib.Path) -> list[float]:
    """The times between the ends of synced backwards of each rank, without the first ones."""
    text = run([str(given.bin / "lockstep"), "inspect", "flight", str(logs), "--json"])
    ends: dict[int, list[int]] = {}
    for line in text.splitlines():
        event = json.loads(line)
        if event["name"] == END and event["event"] == "end":
            ends.setdefault(event["rank"], []).append(event["time_ns"])
    return [(b - a) / 1e6 for times in ends.values() for a, b in list(zip(times, times[1:]))[3:]]


@contextlib.contextmanager
def link(setting: dict):
    """Two namespaces and a wire between them; gives their names."""
    names = [f"lp{end}{os.getpid()}" for end in "ab"]
    wire = None
    try:
        for name in names:
            run(["ip", "netns", "add", name])
        wire = subprocess.Popen([sys.executable, str(ROOT / "tests/support/link.py"), names[0], "10.79.0.1", names[1],
                                 "10.79.0.2", "--delay-ms", str(setting["delay_ms"]), "--mbit", str(setting["mbit"])],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if wire.stdout.readline().strip() != "up":
            sys.exit("tests/support/link.py has made no link")
        yield names
    finally:
        if wire:
            wire.communicate()
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def measure(given, setting: dict, logs: pathlib.Path) -> list[float]:
    """Milliseconds of steps as they are between the namespaces, or on one rank."""
    program = bench(given, setting["recipe"], setting["bucket_mib"])
    env = environment(setting["backend"])
    if setting["machines"] == 1:
        run([str(given.bin / "lockstep"), "run", "--nproc-per-node", "1", "--log-dir", str(logs), "--", *program], env=env)
        return steps_ms(given, logs)
    token = logs / "token"
    run([str(given.bin / "lockstep"), "run", "--new-token", str(token)])
    with link(setting) as names:
        ranks = []
        for node, name in enumerate(names):
            words = ["ip", "netns", "exec", name, str(given.bin / "lockstep"), "run", "--nnodes", "2", "--node-rank",
                     str(node), "--master-addr", "10.79.0.1", "--master-port", "29610", "--token-file", str(token),
                     "--nproc-per-node", str(setting["gpus"]), "--log-dir", str(logs / name), "--", *program]
            with open(logs / f"{name}.txt", "w", encoding="utf-8") as out:
                ranks.append(subprocess.Popen(words, stdout=out, stderr=subprocess.STDOUT, env=env))
        codes = [rank.wait() for rank in ranks]
        if any(codes):
            sys.exit(f"{setting} ended with {codes}:\n" + "".join((logs / f"{name}.txt").read_text() for name in names))
    return steps_ms(given, logs / names[0])


def source_of(given, setting: dict) -> pathlib.Path:
    """The folder of a run on loopback with as many ranks, or two; made where it is missing."""
    ranks = max(2, setting["machines"] * setting["gpus"])
    logs = given.work / f"{setting['recipe'].replace(':', '_')}-{ranks}"
    if not (logs / "attempt_0").exists():
        run([str(given.bin / "lockstep"), "run", "--nproc-per-node", str(ranks), "--log-dir", str(logs), "--",
             *bench(given, setting["recipe"], 1)], env=environment("gloo"))
    return logs


def predict(given, setting: dict) -> float:
    words = [str(given.bin / "lockstep"), "plan", str(source_of(given, setting)), "--gpus", str(setting["gpus"]), "--nodes",
             str(setting["machines"]), "--backend", setting["backend"], "--bucket-cap-mb", str(setting["bucket_mib"]),
             "--json"]
    if setting["machines"] > 1:
        words += ["--link", f"{setting['mbit']}Mb/{setting['delay_ms']}ms"]
    return json.loads(run(words))["predicted"]["step_ms"]


def show(result: dict) -> None:
    words = "  ".join(f"{result[name]!s:>{width}}" for name, width in zip(NAMES, (18, 2, 2, 8, 4, 3, 3)))
    print(f"{words}  measured {result['measured_ms']:9.1f} ms  predicted {result['predicted_ms']:9.1f} ms  "
          f"{result['error']:+6.1%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where lockstep lies")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/plan_check", help="for runs and results")
    parser.add_argument("--steps", type=int, default=20, help="counted steps of a run")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of settings, from 1")
    given = parser.parse_args()
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    results = given.work / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    for number, values in enumerate(SETTINGS, 1):
        setting = dict(zip(NAMES, values))
        known = next((each for each in done if all(each[name] == setting[name] for name in NAMES)), None)
        if given.only and number not in given.only:
            continue
        if known is None:
            predicted = predict(given, setting)
            with tempfile.TemporaryDirectory(dir=given.work) as logs:
                times = measure(given, setting, pathlib.Path(logs))
            measured = statistics.median(times)
            known = setting | {"measured_ms": measured, "predicted_ms": predicted, "error": predicted / measured - 1}
            with results.open("a", encoding="utf-8") as out:
                out.write(json.dumps(known) + "\n")
        show(known)


if __name__ == "__main__":
    main()
