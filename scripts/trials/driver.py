"""The driver of every trial: arguments, a results file that later calls continue, the loop, the failure count."""
import argparse
import fnmatch
import os
import random
import sys
import time
import traceback

import runs

TRIALS = ("chaos", "collective_programs", "digest_cost", "disk_faults", "exactness", "guard", "guard_quiet", "hangs",
          "kill_resume", "kill_rings", "kill_saving", "kill_stages", "kill_switch", "kill_writer", "node_changes",
          "node_faults", "onnx_networks", "provoke", "replays", "worlds")
FAILED, USAGE, CANNOT_RUN = 1, 64, 77
EPILOG = """Results are appended to a file; a later call continues from there.

exit code: 0 success; 1 something failed; 64 wrong arguments; 77 this machine cannot run it, with the reason"""


class CannotRun(Exception):
    """The reason why this machine cannot run a trial, or one kind of its runs."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str):
        self.print_usage(sys.stderr)
        print(f"error: {message}", file=sys.stderr)
        sys.exit(USAGE)


class Trial:
    """One kind of trial. A run's row has a list of strings `wrong`, empty on success; it may count for `count` runs."""

    COUNT = 20     # the default of --count
    KINDS = ("",)  # names of kinds, each run --count times, taking turns
    SMALL = False  # True if there is a --small
    OPTIONS: dict[str, tuple] = {}  # further options: default and help; False becomes a flag

    def __init__(self, given, rows: list[dict]):
        self.given, self.rows = given, rows
        self.prepare(given)

    def prepare(self, given) -> None:
        """Prepares what all runs need; CannotRun if this machine lacks something."""

    def kinds(self) -> list[str]:
        return list(self.KINDS)

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        """Does run `number`, from 0, of a kind; returns its row. CannotRun: the kind is skipped."""
        raise NotImplementedError

    def closing(self, rows: list[dict]) -> list[str]:
        """Prints a summary of all rows; returns the faults of all rows together."""
        return []


def parse(trial, name: str, page: str, words: list[str]):
    parser = Parser(prog=f"scripts/trials/trial {name}", description=page, epilog=EPILOG,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    runs.add_arguments(parser, f"{name}.jsonl", runs.ROOT / "build/test/bin", runs.ROOT / f"build/trials/{name}")
    several = trial.KINDS != ("",)
    parser.add_argument("--count", type=int, default=trial.COUNT,
                        help=f"number of runs{' of each kind' if several else ' in total'} (default: {trial.COUNT})")
    parser.add_argument("--seed", type=int,
                        help="seed of the random moments and victims (default: new each time, recorded in the results)")
    parser.set_defaults(small=True, only=[])
    if several:
        parser.add_argument("--only", nargs="+", metavar="WHAT", help="only these; NAME* matches several")
    if trial.SMALL:
        parser.add_argument("--small", action="store_true", default=False, help="use a small network and small images")
    for option, (default, text) in trial.OPTIONS.items():
        how = {"action": "store_true"} if default is False else {"type": type(default), "default": default}
        parser.add_argument(option, help=text.replace("%", "%%") + ("" if default is False else f" (default: {default})"), **how)
    given = parser.parse_args(words)
    if given.count < 1:
        parser.error(f"--count is {given.count}; it must be 1 or more")
    if not (given.bin / "lockstep").exists():
        parser.error(f"there is no lockstep in {given.bin}: run ./test, or pass --bin")
    given.bin, given.work = given.bin.resolve(), given.work.resolve()
    given.work.mkdir(parents=True, exist_ok=True)
    return given


def chosen(kinds: list[str], only: list[str]) -> list[str]:
    unknown = [name for name in only if not fnmatch.filter(kinds, name)]
    if unknown:
        print(f"error: --only {', '.join(unknown)}: the kinds are {', '.join(kinds)}", file=sys.stderr)
        sys.exit(USAGE)
    return [kind for kind in kinds if not only or any(fnmatch.fnmatchcase(kind, name) for name in only)]


def run_missing(trial, given, kinds: list[str], results: runs.Results) -> None:
    """Runs until each kind has enough rows; removes kinds that cannot run here from `kinds`."""
    rows_of = lambda kind: [row for row in results.rows if row["kind"] == kind]
    done = lambda kind: sum(row.get("count", 1) for row in rows_of(kind))
    while kinds and done(kind := min(kinds, key=done)) < given.count:
        number, begin = len(rows_of(kind)), time.monotonic()
        seed = given.seed if given.seed is not None else int.from_bytes(os.urandom(3), "big")
        try:
            row = trial.run(kind, number, random.Random(f"{kind} {number} {seed}"))
        except CannotRun as reason:
            print(f"skipped: {kind}: {reason}", flush=True)
            kinds.remove(kind)
            continue
        except (Exception, SystemExit) as problem:  # noqa: BLE001  it is one more fault of a run
            traceback.print_exc()
            row = {"wrong": [f"{type(problem).__name__}: {problem}"]}
        results.add(**{"kind": kind, "number": number, "seed": seed, "seconds": round(time.monotonic() - begin, 2)} | row)


def judge(trial, kinds: list[str], rows: list[dict]) -> int:
    """Prints the outcome."""
    for kind in kinds if len(rows) > len(kinds) > 1 else []:
        mine = [row for row in rows if row["kind"] == kind]
        print(f"{kind:{max(map(len, kinds))}} {len(mine)} runs, {sum(bool(row['wrong']) for row in mine)} wrong, "
              f"{max(row['seconds'] for row in mine):.1f} s at most")
    wrong = [row for row in rows if row["wrong"]]
    for row in wrong:
        print(f"wrong: {row['kind'] or 'run'} {row['number']} (seed {row['seed']}): {'; '.join(row['wrong'])}")
    together = trial.closing(rows) if rows else []
    for words in together:
        print(f"wrong: {words}")
    print(runs.bound95(len(wrong), sum(row.get("count", 1) for row in rows)))
    return FAILED if wrong or together else 0


def drive(trial, name: str, text: str, words: list[str]) -> int:
    """Runs a trial as often as asked for. Returns: the exit code."""
    given = parse(trial, name, text, words)
    results = runs.Results(given)
    results.rows = [row for row in results.rows if {"kind", "wrong"} <= row.keys()]  # other rows do not know how they ended
    if not results.rows:
        runs.fresh(given.work / "unbroken")  # the runs' reference
    try:
        one = trial(given, results.rows)
        kinds = chosen(one.kinds(), given.only)
        run_missing(one, given, kinds, results)
    except CannotRun as reason:
        print(f"skipped: {reason}")
        return CANNOT_RUN
    return judge(one, kinds, [row for row in results.rows if row["kind"] in kinds]) if kinds else CANNOT_RUN
