"""The self-test of scripts/trials/trial: trials that start nothing, with the driver of all others."""
import contextlib
import importlib
import io
import json
import pathlib
import random
import tempfile

import driver


class Plain(driver.Trial):
    """Its run number `bad` fails."""
    COUNT = 3
    OPTIONS = {"--bad": (-1, "the run that fails"), "--twice": (False, "each run counts for two: 100 %"),
               "--crash": (False, "no run finishes")}

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        if self.given.crash:
            raise SystemExit("lockstep ended with 70")
        wrong = ["it broke"] if number == self.given.bad else []
        return {"drawn": draw.random(), "wrong": wrong} | ({"count": 2} if self.given.twice else {})


class Several(driver.Trial):
    """Two kinds, one of which cannot run here."""
    COUNT = 2
    KINDS = ("here", "elsewhere", "there")
    SMALL = True

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        if kind == "elsewhere":
            raise driver.CannotRun("it needs a moon")
        return {"small": self.given.small, "wrong": []}

    def closing(self, rows: list[dict]) -> list[str]:
        return ["five are too many"] if len(rows) > 4 else []


class Impossible(driver.Trial):
    def prepare(self, given) -> None:
        raise driver.CannotRun("it needs a second sun")


def self_test() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "lockstep"

        def drive(trial, *words: str) -> tuple[int, str, list[dict]]:
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                try:
                    code = driver.drive(trial, trial.__name__, "page", [*words, "--bin", folder, "--work", f"{folder}/{trial.__name__}"])
                except SystemExit as end:
                    code = end.code
            path = pathlib.Path(folder) / trial.__name__ / f"{trial.__name__}.jsonl"
            return code, said.getvalue(), [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

        code, said, _ = drive(Plain)
        assert code == 64 and f"there is no lockstep in {folder}" in said, said
        program.touch()
        try_the_loop(drive)
        try_what_cannot_be_run(drive)
        for words in (["--count", "0"], ["--count", "many"], ["--kills", "3"], ["--only", "here"]):
            assert drive(Plain, *words)[0] == 64, words
        assert drive(Several, "--only", "nowhere")[0] == 64
        code, said, _ = drive(Plain, "--help")
        assert code == 0 and "100 %" in said and "number of runs in total (default: 3)" in said, said
    for name in driver.TRIALS:
        try_page(name)
    try_verdicts()
    print("self-test passed")


def try_the_loop(drive) -> None:
    code, said, rows = drive(Plain)
    assert code == 0 and len(rows) == 3 and "0 of 3 failed; with 95 % confidence, fewer than" in said, said
    # A later call continues the file and does not repeat its rows.
    assert drive(Plain)[2] == rows and drive(Plain, "--count", "2")[2] == rows
    code, said, more = drive(Plain, "--count", "5", "--bad", "4")
    assert more[:3] == rows and [row["number"] for row in more] == [0, 1, 2, 3, 4], more
    # A failure counts and is named, in later calls too.
    assert code == 1 and "1 of 5 failed" in said and "wrong: run 4 (seed " in said and "it broke" in said, said
    assert drive(Plain, "--count", "5")[0] == 1
    # Another call draws new seeds; the same seed gives the same draws.
    seeds = {row["seed"] for row in more}
    assert len(seeds) > 1, seeds
    first, again = (drive(Plain, "--results", name, "--seed", "7") for name in ("one.jsonl", "two.jsonl"))
    assert len(drawn(first[1])) == 3 and drawn(first[1]) == drawn(again[1]), (first, again)
    # A run that does not finish counts as failed, and the others still run.
    code, said, _ = drive(Plain, "--results", "crash.jsonl", "--crash")
    assert code == 1 and "3 of 3 failed" in said and "SystemExit: lockstep ended with 70" in said, said
    # A row may count for several runs.
    code, said, _ = drive(Plain, "--results", "twice.jsonl", "--count", "5", "--twice")
    assert code == 0 and "0 of 6 failed" in said, said


def drawn(said: str) -> list[str]:
    return [word for word in said.split() if word.startswith("drawn=")]


def try_what_cannot_be_run(drive) -> None:
    code, said, rows = drive(Impossible)
    assert code == 77 and "skipped: it needs a second sun" in said and not rows, said
    code, said, rows = drive(Several, "--only", "elsewhere")
    assert code == 77 and "skipped: elsewhere: it needs a moon" in said and not rows, said
    # The others take turns.
    code, said, rows = drive(Several)
    assert code == 0 and [row["kind"] for row in rows] == ["here", "there", "here", "there"] and not rows[0]["small"], rows
    # A fault of all rows together also fails.
    code, said, rows = drive(Several, "--count", "3", "--only", "t*", "--small")
    assert code == 0 and len(rows) == 5 and rows[-1]["small"], said
    code, said, rows = drive(Several)
    assert code == 1 and "wrong: five are too many" in said, said


def try_page(name: str) -> None:
    """Each trial has a one-sentence summary and an example that names it."""
    module = importlib.import_module(name)
    assert issubclass(module.Trial, driver.Trial), name
    assert f"scripts/trials/trial {name}" in module.__doc__ and module.__doc__.splitlines()[1] == "", name


def try_verdicts() -> None:
    """Tests the verdicts over several rows."""
    ways = object.__new__(importlib.import_module("exactness").Trial)
    ways.rows = [{"family": "plain", "digest": "a"}, {"family": "plain", "digest": "b"}, {"family": "zero", "digest": "c"}]
    right = [("plain", True, "a"), ("plain", False, "b"), ("zero", True, "c"), ("new", True, "d")]
    wrong = [("plain", True, "b"), ("plain", False, "a"), ("zero", True, "a"), ("new", True, "c")]
    assert not any(ways.wrong(*each) for each in right) and all(ways.wrong(*each) for each in wrong)
    rings = object.__new__(importlib.import_module("kill_rings").Trial)
    with contextlib.redirect_stdout(io.StringIO()):
        assert rings.closing([{}]) == rings.closing([{"notices": [0.01, 0.09]}]) == [] != rings.closing([{"notices": [0.01, 0.2]}])
        # Of 100 notices one may be late.
        assert [bool(rings.closing([{"notices": [0.01] * (100 - late) + [0.2] * late}])) for late in (0, 1, 2)] == [False, False, True]
