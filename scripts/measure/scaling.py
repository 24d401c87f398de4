#!/usr/bin/env python3
"""Measures the scaling of training: the captcha step on 1, 2, 4 and 8 ranks, as far as cores or GPUs allow.

  weak    each rank has the whole batch: N ranks have N times the work
  strong  the ranks share one batch: N ranks have the same work
  DDP     a process per rank, DistributedDataParallel
  DP      one process with a thread per replica, DataParallel (only on cores)

All runs take turns, round by round. A speed is the median over the rounds of a run's images per second, divided by those of one
rank in the same round; the efficiency is that speed divided by the number of ranks. More ranks than cores are only measured
with --oversubscribe, and marked: they share cores, so they show no scaling.

example:
  scripts/measure/scaling.py --amp bf16 --update docs/benchmarks.md
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
sys.path.insert(0, str(ROOT / "scripts/common"))
from runs import counted  # noqa: E402

COLUMNS = [("ddp", "weak"), ("ddp", "strong"), ("dp", "weak"), ("dp", "strong")]
# The speeds that tutorials promise for GPUs, to compare the table with.
CLAIMS = {1: "", 2: "DDP 1.7 to 1.9 x", 4: "DDP 3.2 to 3.8 x, DP 2.5 x", 8: "DDP 6 to 7 x"}
BEGIN, END = "<!-- scaling -->\n", "<!-- /scaling -->\n"


def command(given, ranks: int, way: str, kind: str) -> list[str]:
    """The bench with `ranks` ranks or replicas; with one rank all variants are the same bench."""
    batch = given.batch if kind == "weak" else given.batch // ranks
    width = ["--nproc-per-node", str(ranks)] if way == "ddp" or ranks == 1 else ["--data-parallel", str(ranks)]
    return [str(given.bin / "lockstep"), "bench", "step", "captcha", *width, "--batch", str(batch), "--model", given.model,
            "--amp", given.amp, "--device", given.device, "--repeats", str(given.repeats), "--json"]


def images_per_s(words: list[str]) -> float:
    run = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(words)} ended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])["images_per_s"]


def one_round(given) -> dict:
    """(ranks, way, kind) -> images per second."""
    alone = images_per_s(command(given, 1, "ddp", "weak"))
    figures = {(1, way, kind): alone for way, kind in COLUMNS}
    for ranks in (ranks for ranks in given.ranks if ranks > 1):
        for way, kind in COLUMNS:
            figures[ranks, way, kind] = images_per_s(command(given, ranks, way, kind))
    return figures


def cell(rounds: list[dict], ranks: int, way: str, kind: str) -> str:
    rate = statistics.median(figures[ranks, way, kind] for figures in rounds)
    if ranks == 1:
        return f"{rate:.1f}"
    speeds = [figures[ranks, way, kind] / figures[1, way, kind] for figures in rounds]
    speed = statistics.median(speeds)
    spread = f" ({min(speeds):.2f} to {max(speeds):.2f})" if len(speeds) > 1 else ""
    return f"{rate:.1f}, {speed:.2f} x{spread}, {100 * speed / ranks:.0f} %"


def table(rounds: list[dict], places: int) -> str:
    titles = ["ranks", *(f"{way.upper()}, {kind}" for way, kind in COLUMNS), "tutorials claim, for GPUs"]
    lines = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]
    for ranks in sorted({ranks for ranks, _, _ in rounds[0]}):
        mark = "" if ranks <= places else "*"
        cells = [cell(rounds, ranks, way, kind) for way, kind in COLUMNS]
        lines.append("| " + " | ".join([f"{ranks}{mark}", *cells, CLAIMS.get(ranks, "")]) + " |")
    return "\n".join(lines) + "\n"


def honest_words(ranks: list[int], places: int, kind: str) -> str:
    """The claims that this machine can and cannot verify."""
    unseen = [number for number in CLAIMS if number > places]
    words = []
    if unseen:
        words.append(f"A machine of {counted(places, kind + 's')} shows the speed of up to {counted(places, 'ranks')}, but not of "
                     f"{' or '.join(map(str, unseen))}: those claims are not measured here.")
    if any(number > places for number in ranks):
        words.append(f"`*`: more ranks than {kind}s; they share them, so the row shows what sharing costs.")
    if kind == "core":
        words.append("Cores of one processor also share its memory and caches, which GPUs do not.")
    return " ".join(words) + "\n"


def processor() -> str:
    told = subprocess.run(["lscpu"], stdout=subprocess.PIPE, text=True, check=True, env=os.environ | {"LC_ALL": "C"}).stdout
    facts = dict(re.findall(r"^([^:\n]+):\s+(.*)$", told, re.M))
    return f"{facts.get('Model name', 'unknown')} (family {facts.get('CPU family', '?')}, model {facts.get('Model', '?')})"


def graphics_cards() -> list[str]:
    told = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return told.split("\n")[:-1]


def self_test() -> None:
    figures = {(1, way, kind): 10.0 for way, kind in COLUMNS}
    figures |= {(2, "ddp", "weak"): 19.0, (2, "ddp", "strong"): 18.0, (2, "dp", "weak"): 15.0, (2, "dp", "strong"): 12.5}
    rows = table([figures], places=1).splitlines()
    assert rows[2] == "| 1 | 10.0 | 10.0 | 10.0 | 10.0 |  |", rows[2]
    assert rows[3] == ("| 2* | 19.0, 1.90 x, 95 % | 18.0, 1.80 x, 90 % | 15.0, 1.50 x, 75 % | 12.5, 1.25 x, 62 % | "
                       "DDP 1.7 to 1.9 x |"), rows[3]
    slow = figures | {(1, "ddp", "weak"): 5.0, (2, "ddp", "weak"): 5.0}
    assert cell([figures, slow, slow], 2, "ddp", "weak") == "5.0, 1.00 x (1.00 to 1.90), 50 %"
    assert "`*`" in honest_words([1, 2, 4], 2, "core") and "4 or 8" in honest_words([1, 2], 2, "core")
    assert "`*`" not in honest_words([1, 2], 2, "core") and honest_words([1, 8], 8, "GPU") == "\n"
    given = argparse.Namespace(bin=pathlib.Path("bin"), batch=64, model="conv7", amp="none", device="cpu", repeats=7)
    assert command(given, 4, "ddp", "strong")[4:8] == ["--nproc-per-node", "4", "--batch", "16"]
    assert command(given, 4, "dp", "weak")[4:8] == ["--data-parallel", "4", "--batch", "64"]
    assert replaced(f"a\n{BEGIN}old\n{END}b\n", "new\n") == f"a\n{BEGIN}new\n{END}b\n"
    print("self-test passed")


def replaced(page: str, text: str) -> str:
    before, found, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found or not found_end:
        sys.exit(f"the page has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + text + END + after


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder with lockstep")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4, 8], help="default: 1 2 4 8")
    parser.add_argument("--oversubscribe", action="store_true", help="also measure more ranks than cores or GPUs")
    parser.add_argument("--batch", type=int, default=64,
                        help="images per rank (weak) or in total (strong); default: 64")
    parser.add_argument("--model", choices=("conv7", "conv3"), default="conv7")
    parser.add_argument("--amp", choices=("none", "bf16"), default="none")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=7, help="measured steps per run (default: 7)")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--update", type=pathlib.Path,
                        help="page in which to replace the section between the scaling marks")
    parser.add_argument("--self-test", action="store_true", help="test this program")
    return parser.parse_args()


def main() -> None:
    given = parse_arguments()
    if given.self_test:
        return self_test()
    cards = graphics_cards() if given.device == "cuda" else []
    if cards:
        del COLUMNS[2:]
    places, kind = (len(cards), "GPU") if cards else (len(os.sched_getaffinity(0)), "core")
    given.ranks = sorted({1, *(ranks for ranks in given.ranks if given.oversubscribe or ranks <= places)})
    if any(ranks < 1 or given.batch % ranks for ranks in given.ranks):
        sys.exit(f"--batch {given.batch} cannot be split evenly for all of {given.ranks} ranks: use a multiple")
    rounds = []
    for number in range(given.rounds):
        rounds.append(one_round(given))
        print(f"round {number + 1} of {given.rounds}", file=sys.stderr, flush=True)
    words = (f"Images per second, speed relative to one rank ({given.rounds} rounds: median, minimum to maximum), efficiency. Captcha "
             f"{given.model}, batch {given.batch}, {'float32' if given.amp == 'none' else given.amp}, one thread a rank; "
             f"{counted(places, kind + 's')} of {cards[0] if cards else processor()}.\n")
    options = [f"--{name} {getattr(given, name)}" for name, usual in
               (("model", "conv7"), ("batch", 64), ("amp", "none"), ("device", "cpu"), ("repeats", 7), ("rounds", 5))
               if getattr(given, name) != usual] + ["--oversubscribe"] * given.oversubscribe
    text = f"{words}`{' '.join(['scripts/measure/scaling.py', *options])}`\n\n{table(rounds, places)}\n" + honest_words(
        given.ranks, places, kind)
    print(text, end="")
    if given.update:
        given.update.write_text(replaced(given.update.read_text(), text))


if __name__ == "__main__":
    main()
