#!/usr/bin/env python3
"""Trains segmentation:nuclei with several seeds to measure the benefit of scribbles, LoRM and the distance losses.

Ways (--ways): masks (every pixel is labelled), all (scribbles with every loss, with the preset's weights), ones (each with weight
1, as in the original), plain (scribbles and pseudo-labels, without LoRM and distance losses), scribbles (cross entropy with only
the scribbles). Each run ends with an evaluation of the validation set with full masks; the figure is its nuclei IoU at the end of
training, not the best epoch's. Results are appended to a file; a later call continues from there. The weak labels are derived
once, with --label-seed.

example:
  scripts/measure/nuclei_seeds.py --data ../shared/data/nuclei --seeds 0 1 2
"""
import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402

WAYS = {
    "masks": {"data.labels": "masks", "loss.lorm": 1},
    "all": {},
    "ones": {"loss.lorm": 1, "loss.distance_scribble": 1, "loss.distance_class": 1},
    "plain": {"loss.lorm": 0, "loss.distance_scribble": 0, "loss.distance_class": 0},
    "scribbles": {"loss.lorm": 0, "loss.distance_scribble": 0, "loss.distance_class": 0, "loss.pseudo": 0},
}


def weak_labels(given) -> pathlib.Path:
    folder = given.work / f"weak-{given.label_seed}-{given.method}"
    if not folder.exists():
        half = runs.fresh(folder.with_suffix(".part"))
        runs.lockstep(given, "generate", "weak-labels", "--from", str(given.data / "train"), "--out", str(half),
                      "--seed", str(given.label_seed), "--method", given.method)
        half.rename(folder)
    return folder


def train(given, way: str, seed: int) -> dict:
    run_dir = runs.fresh(given.work / f"{way}-{seed}")
    train_set = given.data / "train" if way == "masks" else weak_labels(given)
    values = {"seed": seed, "data.train": train_set, "data.test": given.data / "val", **WAYS[way]}
    words = [word for key, value in values.items() for word in ("--set", f"{key}={value}")]
    words += [word for assignment in given.set for word in ("--set", assignment)]
    begin = time.time()
    runs.lockstep(given, "train", "segmentation:nuclei", "--nproc-per-node", "2", "--run-dir", str(run_dir), *words)
    summary = json.loads((run_dir / "summary.json").read_text())
    return {"iou": round(summary["metrics"]["iou_nucleus"], 4), "miou": round(summary["metrics"]["miou"], 4),
            "steps": summary["steps"], "seconds": round(time.time() - begin)}


def report(rows: list[dict], ways: list[str]) -> None:
    print(f"\n{'way':<10} {'n':>2} {'nuclei IoU':>11} {'spread':>7} {'lowest':>7} {'minutes':>8}")
    means = {}
    for way in ways:
        found = [row["iou"] for row in rows if row["way"] == way]
        if not found:
            continue
        means[way] = statistics.mean(found)
        minutes = max(row["seconds"] for row in rows if row["way"] == way) / 60
        spread = statistics.stdev(found) if len(found) > 1 else 0.0
        print(f"{way:<10} {len(found):>2} {means[way]:>11.4f} {spread:>7.4f} {min(found):>7.4f} {minutes:>8.1f}")
    if {"all", "plain"} <= means.keys():
        pairs = [(a["iou"] - b["iou"]) for a in rows for b in rows
                 if a["way"] == "all" and b["way"] == "plain" and a["seed"] == b["seed"]]
        if pairs:
            print(f"LoRM and distance losses: {statistics.mean(pairs):+.4f} of nuclei IoU over {len(pairs)} seeds "
                  f"({', '.join(f'{pair:+.4f}' for pair in pairs)})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "nuclei_seeds.jsonl")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with train and val")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["masks", "all", "plain"])
    parser.add_argument("--label-seed", type=int, default=1, help="seed for the derived scribbles")
    parser.add_argument("--method", default="watershed", choices=["watershed", "coarse"], help="method for the pseudo-labels")
    parser.add_argument("--set", nargs="*", default=[], help="more settings for every run, as key=value")
    given = parser.parse_args()
    if not (given.data / "train").is_dir():
        sys.exit(f"{given.data} has no folder train: the nuclei set is not part of the project")
    results = runs.Results(given)
    # The settings of a run: rows with other settings in the same file belong to other experiments.
    settings = {"labels": f"{given.method} {given.label_seed}", "set": " ".join(given.set)}
    rows = [row for row in results.rows if settings.items() <= row.items()]
    for seed in given.seeds:
        for way in given.ways:
            if any(row["way"] == way and row["seed"] == seed for row in rows):
                continue
            results.add(way=way, seed=seed, **settings, **train(given, way, seed))
            rows.append(results.rows[-1])
    report(rows, given.ways)
    return 0


if __name__ == "__main__":
    sys.exit(main())
