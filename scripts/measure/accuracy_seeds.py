#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the experiments behind the figures in the recipes' READMEs with several seeds, and checks that those figures still hold.

Each experiment is a command from a README, on 2 processes. A figure holds if it lies within 2 standard deviations of the
seeds' mean. Results are appended to a file; a later call continues from there, so the work can be split into pieces. Weakly
labelled nuclei have a separate script: nuclei_seeds.py.

examples:
  scripts/measure/accuracy_seeds.py --data ../shared/data                       # all, about four hours on two cores
  scripts/measure/accuracy_seeds.py --data ../shared/data --only nlvr --seeds 0 1 2
  scripts/measure/accuracy_seeds.py --report

exit code: 0 every figure that can be checked holds, 1 one does not, 64 wrong arguments
"""
import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "common"))
import runs  # noqa: E402


@dataclasses.dataclass
class Figure:
    """A number in a README: a key of the evaluation metrics, the stage, and whether the best or the last counts."""
    name: str
    key: str
    before: float
    stage: int = 0  # 0: the whole run
    best: bool = False


@dataclasses.dataclass
class Experiment:
    name: str
    target: str  # RECIPE:PRESET
    settings: dict  # "{data}", "{work}": folders
    figures: list[Figure]
    needs: str = ""  # a folder of --data
    makes: tuple = ()  # sets to generate: folder in --work, arguments of `lockstep generate`


EXPERIMENTS = [
    Experiment("scenes", "detection:scenes", {"data.train": "{work}/scenes-train", "data.test": "{work}/scenes-test"},
               [Figure("AP50", "ap50", 0.896), Figure("AP", "ap", 0.763)],
               makes=(("scenes-train", ("detection", "--count", "4000", "--seed", "1")),
                      ("scenes-test", ("detection", "--count", "300", "--seed", "2")))),
    Experiment("cells", "detection:small", {"data.train": "{data}/bccd", "data.train_split": "trainval",
               "data.test": "{data}/bccd", "data.test_split": "test"}, [Figure("AP50", "ap50", 0.866), Figure("AP", "ap", 0.599)],
               needs="bccd"),
    Experiment("captions", "captioning:scenes", {}, [Figure("cross entropy, CIDEr-D", "cider_d", 2.829, 1, True),
               Figure("self-critical, CIDEr-D", "cider_d", 2.980, 2, True)]),
    Experiment("nlvr", "captioning:nlvr", {"data.train": "{data}/nlvr/dev", "data.test": "{data}/nlvr/dev"},
               [Figure("cross entropy, CIDEr-D", "cider_d", 1.293, 1, True), Figure("self-critical, CIDEr-D", "cider_d", 1.438, 2, True)],
               needs="nlvr"),
]


def make_sets(given, experiment: Experiment) -> None:
    for folder, words in experiment.makes:
        target = given.work / folder
        if not target.exists():
            half = runs.fresh(target.with_suffix(".part"))
            runs.lockstep(given, "generate", *words, "--out", str(half))
            half.rename(target)


def figure_of(figure: Figure, events: list[dict]) -> float:
    """Reads it from a run's log; the second stage starts at the event "refresh"."""
    switches = [at for at, event in enumerate(events) if event["event"] == "refresh"]
    if figure.stage and not switches:
        raise ValueError("the log has no stage switch")
    part = {0: events, 1: events[:switches[0]] if switches else [], 2: events[switches[0]:] if switches else []}[figure.stage]
    values = [event["metrics"][figure.key] for event in part if event["event"] == "epoch" and event.get("metrics")]
    numbers = [value for value in values if value is not None]  # null: the metric was not a number
    if not numbers or (values[-1] is None and not figure.best):
        raise ValueError(f"{figure.key} is not a number")
    return max(numbers) if figure.best else values[-1]


def train(given, experiment: Experiment, seed: int) -> dict:
    make_sets(given, experiment)
    run_dir = runs.fresh(given.work / f"{experiment.name}-{seed}")
    values = {key: value.format(data=given.data, work=given.work) for key, value in experiment.settings.items()}
    words = [word for key, value in {"seed": seed, **values}.items() for word in ("--set", f"{key}={value}")]
    begin = time.time()
    runs.lockstep(given, "train", experiment.target, "--nproc-per-node", "2", "--run-dir", str(run_dir), *words)
    events = [json.loads(line) for line in (run_dir / "log.jsonl").read_text().splitlines()]
    measured = {figure.name: round(figure_of(figure, events), 4) for figure in experiment.figures}
    return {"figures": measured, "seconds": round(time.time() - begin)}


def holds(before: float, found: list[float]) -> bool | None:
    """Within 2 standard deviations of the seeds' mean; None for two seeds or fewer, which cannot show the spread."""
    if len(found) < 3:
        return None
    return abs(statistics.mean(found) - before) <= 2 * statistics.stdev(found)


def report(rows: list[dict]) -> bool:
    """Prints the table. True if no figure fails."""
    good = True
    print("\n| experiment | figure | README | seeds | mean | standard deviation | holds |\n|---|---|---|---|---|---|---|")
    for experiment in EXPERIMENTS:
        mine = sorted((row for row in rows if row["experiment"] == experiment.name), key=lambda row: row["seed"])
        for figure in experiment.figures if mine else []:
            found = [row["figures"][figure.name] for row in mine]
            spread = f"{statistics.stdev(found):.4f}" if len(found) > 1 else "-"
            verdict = holds(figure.before, found)
            good = good and verdict is not False
            word = {True: "yes", False: "NO", None: "too few seeds"}[verdict]
            values = ", ".join(f"{value:.4f}" for value in found)
            print(f"| {experiment.target} | {figure.name} | {figure.before} | {values} | {statistics.mean(found):.4f} | {spread} | "
                  f"{word} |")
    return good


def self_test() -> None:
    def epoch(value: float | None) -> dict:
        return {"event": "epoch", "metrics": {"cider": value} if value is not None else {}}
    events = [epoch(1.0), epoch(3.0), epoch(2.0), {"event": "refresh"}, epoch(None), epoch(5.0), {"event": "step"}, epoch(4.0)]
    assert figure_of(Figure("", "cider", 0), events) == 4.0
    assert figure_of(Figure("", "cider", 0, 1, True), events) == 3.0
    assert figure_of(Figure("", "cider", 0, 2, True), events) == 5.0
    assert figure_of(Figure("", "cider", 0, 1), events) == 2.0
    try:
        figure_of(Figure("", "cider", 0, 1), events[:3])
        raise AssertionError("a log without a second stage was accepted")
    except ValueError:
        pass
    assert holds(0.9, [0.91, 0.89]) is None
    assert holds(0.9, [0.91, 0.89, 0.93]) is True and holds(0.8, [0.91, 0.89, 0.93]) is False
    rows = [{"experiment": "scenes", "seed": seed, "figures": {"AP50": 0.90 + seed / 100, "AP": 0.1}} for seed in range(3)]
    assert report(rows[:2]) and not report(rows)
    for figure in (figure for experiment in EXPERIMENTS for figure in experiment.figures):  # CIDEr and CIDEr-D are both logged
        assert ("CIDEr-D" in figure.name) == (figure.key == "cider_d"), figure
    assert len({experiment.name for experiment in EXPERIMENTS}) == len(EXPERIMENTS)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, "accuracy_seeds.jsonl")
    parser.add_argument("--data", type=pathlib.Path, default=runs.ROOT.parent / "shared/data", help="folder with bccd and nlvr")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--report", action="store_true", help="only print the table, without training")
    parser.add_argument("--self-test", action="store_true", help="test this program")
    parser.error = lambda message: (print(f"error: {message}", file=sys.stderr), sys.exit(64))
    given = parser.parse_args()
    given.data, given.work = given.data.resolve(), given.work.resolve()
    return given


def main() -> int:
    given = parse_arguments()
    if given.self_test:
        self_test()
        return 0
    results = runs.Results(given)
    for seed in [] if given.report else given.seeds:
        for experiment in EXPERIMENTS:
            done = any(row["experiment"] == experiment.name and row["seed"] == seed for row in results.rows)
            if done or experiment.name not in given.only:
                continue
            if experiment.needs and not (given.data / experiment.needs).is_dir():
                print(f"{experiment.name} is skipped: {given.data / experiment.needs} is missing")
                continue
            results.add(experiment=experiment.name, seed=seed, **train(given, experiment, seed))
    return 0 if report(results.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
