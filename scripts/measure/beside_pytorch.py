#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times each recipe's training step and PyTorch's variants of it alternately, and writes the table of docs/benchmarks.md.

A round runs Lockstep, PyTorch eager, torch.compile, and torch.compile with max-autotune, one after the other; a round's
ratio is PyTorch's fastest variant over Lockstep. The bound is a step's multiplications at the rate of matrix products on
all ranks at once (`--profile`). Each measurement is a line of the results file; a later call continues after the last one.

example:
  scripts/measure/beside_pytorch.py --peers peers --python venv/bin/python --rounds 5 --only captcha:bf16
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEER = ROOT / "scripts/measure/peer.py"
# The recipe, its options, and the peer program with its options.
RECIPES = {
    "captcha": (["captcha"], ["captcha_step.py"]),
    "detection": (["detection:scenes"], ["detection_step.py"]),
    "segmentation": (["segmentation:nuclei", "--set", "num_classes=5", "--set", "class_names=[a,b,c,d,e]"],
                     ["segmentation_step.py", "--classes", "5"]),
    "captioning": (["captioning:scenes"], ["captioning_step.py"]),
}
TYPES = {"bf16": (["--amp", "bf16"], ["--bf16"]), "float32": (["--amp", "none"], [])}
FORMS = {"eager": [], "compiled": ["--compile"], "autotuned": ["--compile"]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="Lockstep's programs")
    parser.add_argument("--peers", type=pathlib.Path, required=True, help="the folder of the peer programs")
    parser.add_argument("--python", default="python3", help="the Python with the peer's PyTorch")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9, help="steps per measurement; their median is used")
    parser.add_argument("--rounds", type=int, default=5, help="how many rounds in total")
    parser.add_argument("--only", nargs="+", metavar="CASE", help="cases to measure: RECIPE:TYPE, such as captcha:bf16")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build/beside_pytorch.jsonl")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one measurement; torch.compile takes minutes")
    return parser.parse_args()


def milliseconds(words: list, limit: float, env: dict | None = None) -> float | None:
    """The median of the last JSON line; None if the program failed or took too long."""
    process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=os.environ | (env or {}), start_new_session=True)
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1])["median_ms"] if process.returncode == 0 and lines else None


def ours(given, recipe: str, kind: str) -> list:
    return [given.bin / "lockstep", "bench", "step", *RECIPES[recipe][0], *TYPES[kind][0], "--nproc-per-node", given.ranks,
            "--repeats", given.repeats]


def peers(given, recipe: str, kind: str, form: str) -> list:
    program, *options = RECIPES[recipe][1]
    return [given.peers / "ranks", given.ranks, given.python, PEER, given.peers / program, *options, *TYPES[kind][1],
            "--channels-last", "--repeats", given.repeats, *FORMS[form]]


def bound(given, recipe: str, kind: str) -> dict:
    """Reads the last line of a profile: multiplications of a step, and the rate of matrix products."""
    run = subprocess.run([str(word) for word in [*ours(given, recipe, kind), "--profile", 3]], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, check=True)
    found = re.search(r"([\d.]+) ([GT])FLOP a step.* of the ([\d.]+) ([GT])FLOP/s", run.stdout)
    if found is None:
        return {}
    unit = {"G": 1.0, "T": 1000.0}
    work, rate = float(found[1]) * unit[found[2]], float(found[3]) * unit[found[4]]
    return {"gflop": work, "peak_gflops": rate, "bound_ms": work / rate * 1e3}


def measure(given, recipe: str, kind: str) -> None:
    case = f"{recipe}:{kind}"
    rows = read(given.results)
    note = {"case": case, "ranks": given.ranks}
    if not any(row["case"] == case and "bound_ms" in row for row in rows):
        write(given.results, note | bound(given, recipe, kind))
    for number in range(sum(row["case"] == case and "ours" in row for row in rows), given.rounds):
        row = note | {"ours": milliseconds([*ours(given, recipe, kind), "--json"], given.limit)}
        for form in given.forms:
            env = {"PEER_AUTOTUNE": "1"} if form == "autotuned" else {}
            row[form] = milliseconds(peers(given, recipe, kind, form), given.limit, env)
        write(given.results, row)
        print(f"{case} round {number + 1}: " + ", ".join(f"{name} {row[name]:.1f} ms" if row[name] else f"{name} -"
                                                       for name in ("ours", *given.forms)), file=sys.stderr)


def read(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def write(path: pathlib.Path, row: dict) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def cell(values: list) -> str:
    there = [value for value in values if value]
    return f"{statistics.median(there):.0f}" if there else "-"


def table(rows: list[dict]) -> str:
    """One row per case. The ratio says how many times as fast Lockstep is as PyTorch's fastest variant in that round."""
    lines = ["| step | Lockstep, ms | eager, ms | torch.compile, ms | max-autotune, ms | times as fast as the best | bound, ms |",
             "|---|---|---|---|---|---|---|"]
    for case in dict.fromkeys(row["case"] for row in rows):
        rounds = [row for row in rows if row["case"] == case and row.get("ours")]
        if not rounds:
            continue
        ratios = [min(row[form] for form in FORMS if row.get(form)) / row["ours"] for row in rounds
                  if any(row.get(form) for form in FORMS)]
        bounds = [row["bound_ms"] for row in rows if row["case"] == case and "bound_ms" in row]
        ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} rounds)" if ratios else "-"
        lines.append(f"| {case.replace(':', ', ')} | {cell([row['ours'] for row in rounds])} | " + " | ".join(
            cell([row.get(form) for row in rounds]) for form in FORMS) + f" | {ratio} | {cell(bounds)} |")
    return "\n".join(lines)


def main() -> None:
    given = parse()
    for recipe in RECIPES:
        for kind in TYPES:
            if not given.only or f"{recipe}:{kind}" in given.only:
                measure(given, recipe, kind)
    print(table(read(given.results)))


main()
