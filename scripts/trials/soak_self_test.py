"""The self-test of scripts/trials/soak: small trials, with a fresh results file."""
import argparse
import contextlib
import io
import json
import pathlib
import tempfile

import driver
import runs
from soak_trials import ASAN, Trial, all_trials

WRITER = ("import json, pathlib, sys; path = pathlib.Path(sys.argv[1]) / 'r.jsonl'; path.parent.mkdir(exist_ok=True); "
          "done = len(path.read_text().splitlines()) if path.exists() else 0; "
          "path.open('a').writelines(json.dumps({'wrong': [sys.argv[3]] if sys.argv[3] == str(i) else []}) + '\\n' "
          "for i in range(done, int(sys.argv[2])))")


def small(name: str, target: int, batch: int, wrong: str = "none", results: str = "r.jsonl", per_count: int = 1) -> Trial:
    return Trial(name, "runs", target, batch, ["{python}", "-c", WRITER, "{work}", "{count}", wrong], ["LICENSE"], results, per_count)


def failing(name: str) -> Trial:
    return Trial(name, "runs", 1, 1, ["{python}", "-c", "raise SystemExit(3)"], ["LICENSE"])


def self_test(Counts, soak, report, code_hash) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "soak.tsv"
        given = argparse.Namespace(bin=pathlib.Path("bin"), work=pathlib.Path(folder) / "work", hours=1, batch_minutes=10)

        def quietly(trials: list[Trial]) -> tuple[int, str, list]:
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = soak(trials, given, Counts(path))
            return code, said.getvalue(), [(row["trial"], row["count"], row["failures"]) for row in Counts(path).rows]

        # The trial furthest from its target comes first, until both have reached it.
        code, said, rows = quietly([small("near", 4, 3), small("far", 20, 10)])
        assert code == 0 and "has reached its target" in said, said
        assert rows == [("near", "3", "0"), ("far", "10", "0"), ("far", "10", "0"), ("near", "1", "0")], rows
        # A later call continues from there; a trial with changed code starts over.
        assert quietly([small("near", 4, 3)])[2] == rows
        changed = small("near", 2, 2)
        changed.covers = ["LICENSE", "src/base/README.md"]  # a page is not code
        assert quietly([changed])[2] == rows
        changed.covers = ["LICENSE", "CMakeLists.txt"]
        assert quietly([changed])[2] == [*rows, ("near", "2", "0")]
        # A row that counts for several trials, and less than ten minutes per batch.
        given.batch_minutes = 5
        assert quietly([small("twice", 4, 4, per_count=2)])[2][-2:] == [("twice", "1", "0")] * 2
        given.batch_minutes = 10
        # Lines that count for several trials, for a failure, and for nothing.
        results = pathlib.Path(folder) / "r.jsonl"
        rows = [{"kind": "", "wrong": []}, {"wrong": [], "count": 20}, {"wrong": ["it broke"]}, {"trial": 0, "digest": "a"}]
        results.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert small("counts", 1, 1).counted(pathlib.Path(folder)) == (22, 1), small("counts", 1, 1).counted(pathlib.Path(folder))
        # A trial that runs nothing is not repeated.
        code, said, rows = quietly([Trial("skips", "runs", 2, 1, ["{python}", "-c", "raise SystemExit(77)"], ["LICENSE"])])
        assert code == 0 and "skipped: it tried nothing" in said and rows[-1][0] == "twice", said
        # A build during a trial does not make the trial fail.
        given.bin = pathlib.Path(folder)
        begin = [*Counts(path).rows]
        touching = Trial("built", "runs", 1, 1, ["{python}", "-c", "import sys; open(sys.argv[1], 'w'); raise SystemExit(1)",
                         "{bin}/lockstep"], ["LICENSE"])
        try:
            quietly([touching])
            raise AssertionError("a batch counted although the programs were rebuilt during it")
        except SystemExit as end:
            assert "rebuilt" in str(end) and len(Counts(path).rows) == len(begin), end
        assert not any((given.work / "built").iterdir()), "the batch that did not count left its results to the next one"
        # The first failure ends it, with everything needed to reproduce it.
        code, said, rows = quietly([small("bad", 9, 3, wrong="4"), small("good", 1, 1)])
        assert code == 1 and rows[-1] == ("bad", "3", "1"), rows
        assert "command" in said and "log.txt" in said and WRITER in said, said
        code, said, rows = quietly([failing("broken")])
        assert code == 1 and rows[-1] == ("broken", "1", "1") and "exit code 3" in said, (said, rows)
        code, said, again = quietly([failing("broken")])  # a failed trial is not counted as done
        assert code == 1 and again == [*rows, ("broken", "1", "1")], again
        counts = Counts(path)
        counts.add(trial="bad", date="2026-11-20", commit="c", processor="A, 4 cores", code=code_hash(small("bad", 9, 3)), count=3,
                   failures=0, seconds=7200)
        table = report([small("bad", 9, 3), failing("untried")], counts).splitlines()
        assert runs.bound95(0, 160_500).endswith(" fewer than 0.0019% fail")
        assert table[2].startswith("| bad | 9 runs | 9 | 1 | fewer than ") and table[2].endswith(" | 2.00 |"), table
        assert table[3] == "| untried | 1 run | 0 | 0 | nothing tried | 0.00 |", table
        assert "| all, on A, 4 cores | 2026-11-20 | | 0 | | 2.00 |" in table and len(table) == 6, table
    names = [trial.name for trial in all_trials()]
    assert len(set(names)) == len(names), "two trials have the same name"
    root = pathlib.Path(__file__).resolve().parents[2]
    for trial in all_trials():
        gone = [folder for folder in trial.folders() if not (root / folder).exists()]
        assert not gone, f"{trial.name} covers {gone}, which does not exist"
    missing = [name for name in driver.TRIALS if not any(name in trial.words for trial in all_trials())]
    assert not missing, f"the soak lacks {missing}"
    writer = next(trial for trial in all_trials() if trial.name == "kill_writer").folders()
    assert "include/lockstep/checkpoint" in writer, "public headers are code too"
    hangs = next(trial for trial in all_trials() if "src/flight" in trial.covers).folders()
    assert "internal/lockstep/flight" in hangs, "so are those of other modules"
    assert not any("data" in folder for folder in writer), "headers of other modules reset its count"
    tested = {page.parent.name for page in (root / "tests").glob("*/CMakeLists.txt") if "lockstep_test(" in page.read_text()}
    assert tested == set(ASAN), f"the sanitizers do not cover the tests of {tested ^ set(ASAN)}"
    print("self-test passed")
