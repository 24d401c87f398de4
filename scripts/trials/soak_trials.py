"""The long trials of scripts/trials/soak: the unit of each, its target, its command, and the code that it covers."""
import dataclasses
import json
import pathlib
import shutil

SCRIPTS = pathlib.Path(__file__).resolve().parent
PLATFORMS = SCRIPTS.with_name("platforms")
COMMON = ["src/base", "src/tensor"]
ENGINE = [*COMMON, "src/comm", "src/wire", "src/store", "src/flight", "src/launch"]
TRAINING = [*ENGINE, "src/checkpoint", "src/data", "src/nn", "src/optim", "src/parallel", "src/train", "recipes/common"]
ASAN = ("base", "tensor", "store", "wire", "flight", "comm", "data", "optim", "nn", "view", "parallel", "checkpoint", "observe", "launch", "http",
        "simulate", "dashboard", "train", "recipes", "apps", "fuzz")
TSAN = ("comm", "store", "launch", "data", "checkpoint")


@dataclasses.dataclass
class Trial:
    """One line of the table. `words` is the command: {count} is the desired total number of trials in the folder {work}."""
    name: str
    unit: str
    target: int
    batch: int  # takes about ten minutes
    words: list[str]
    covers: list[str]  # src/NAME includes its headers in include and internal
    results: str = ""  # a file in {work} with a line for each trial; "": the exit code decides, and a run counts as one
    per_count: int = 1  # trials per 1 of {count}
    needs: str = ""     # a command without which it cannot run

    def folders(self) -> list[str]:
        """All files that the trial covers: a change in one of them resets its count."""
        headers = [folder.replace("src/", f"{root}/lockstep/") for folder in self.covers if folder.startswith("src/")
                   for root in ("include", "internal")]
        headers = [folder for folder in headers if (SCRIPTS.parents[1] / folder).is_dir()]
        return sorted({*self.covers, *headers})

    def missing(self) -> str:
        return self.needs if self.needs and not shutil.which(self.needs) else ""

    def counted(self, work: pathlib.Path) -> tuple[int, int]:
        """The trials and failures in the folder."""
        path = work / self.results
        lines = path.read_text().splitlines() if self.results and path.exists() else []
        if path.suffix == ".txt":  # of scripts/trials/fuzz: target, executions, executions in total, findings in total
            return tuple(int(word) for word in lines[-1].split()[2:4]) if lines else (0, 0)
        rows = [json.loads(line) for line in lines]
        return sum(weight(row) for row in rows), sum(is_wrong(row) for row in rows)


def weight(row: dict) -> int:
    """The number of trials that a line of results counts for: 0 if it does not say how it ended."""
    return row.get("count", 1) if "wrong" in row else 0


def is_wrong(row: dict) -> bool:
    return bool(row.get("wrong"))


def module(name: str) -> list[str]:
    return [*COMMON, name if name in ("recipes", "apps", "fuzz") else f"src/{name}", f"tests/{name}", "tests/support", "scripts/platforms/sanitizers"]


def trial(name: str, *words: str) -> list[str]:
    return ["{python}", str(SCRIPTS / "trial"), name, "--bin", "{bin}", "--work", "{work}", "--count", "{count}", *words]


def of_training() -> list[Trial]:
    switch = [*TRAINING, "recipes/detection"]
    return [
        Trial("kill_writer", "kills", 1000, 300, trial("kill_writer"), [*COMMON, "src/store", "src/checkpoint"], "kill_writer.jsonl"),
        Trial("kill_switch", "switches", 500, 40, trial("kill_switch"), switch, "kill_switch.jsonl"),
        Trial("kill_stages", "trials", 201, 21, trial("kill_stages", "--small"), switch, "kill_stages.jsonl", 3),
        Trial("kill_resume", "resumes", 100, 20, trial("kill_resume", "--small"), TRAINING, "kill_resume.jsonl"),
        Trial("kill_saving", "kills", 1000, 100, trial("kill_saving", "--small"), TRAINING, "kill_saving.jsonl"),
        Trial("disk_faults", "faults", 190, 19, trial("disk_faults", "--small"), TRAINING, "disk_faults.jsonl", 19),
        Trial("exactness", "ways", 52, 52, trial("exactness", "--small"), [*TRAINING, "recipes"], "exactness.jsonl", 52),
        Trial("guard", "flips", 240, 24, trial("guard"), TRAINING, "guard.jsonl", 6),
        Trial("guard_quiet", "runs", 160, 16, trial("guard_quiet"), [*TRAINING, "recipes"], "guard_quiet.jsonl", 8),
        Trial("digest_cost", "runs", 20, 3, trial("digest_cost"), [*COMMON, "src/optim", "apps/worker/bench"], "digest_cost.jsonl"),
        Trial("replays", "runs", 200, 20, trial("replays"), [*TRAINING, "apps/worker/explain"], "replays.jsonl", 5),
        Trial("provoke", "runs", 240, 24, trial("provoke"), [*TRAINING, "src/view", "scripts/trials/provoke.py"], "provoke.jsonl", 12),
        Trial("chaos", "half hours", 2, 1, trial("chaos"), [*TRAINING, "scripts/trials/chaos.py"], "chaos.jsonl"),
    ]


def of_engine() -> list[Trial]:
    return [
        Trial("collectives", "programs", 10000, 700, trial("collective_programs"), [*COMMON, "src/comm", "src/wire"], "collective_programs.jsonl"),
        Trial("onnx_networks", "networks", 10000, 700, trial("onnx_networks"), [*COMMON, "src/nn/onnx", "src/nn/script"], "onnx_networks.jsonl"),
        Trial("kill_rings", "kills", 1000, 100, trial("kill_rings"), [*ENGINE, "scripts/trials/kill_rings.py"], "kill_rings.jsonl", 2),
        Trial("hangs", "runs", 4000, 100, trial("hangs"), [*ENGINE, "scripts/trials/hangs.py"], "hangs.jsonl", 20),
        Trial("node_faults", "runs", 100, 10, trial("node_faults"), ENGINE, "node_faults.jsonl", 5),
        Trial("worlds", "worlds", 1_000_000, 40_000, trial("worlds"), ["src/base", "src/store", "src/flight", "src/wire", "src/checkpoint", "src/launch", "tests/sim"],
              "worlds.jsonl"),
        Trial("node_changes", "runs", 140, 14, trial("node_changes"), ENGINE, "node_changes.jsonl", 7),
        Trial("attack", "rounds", 10, 1, ["{python}", str(SCRIPTS / "attack"), "--minutes", "10", "--programs", "{bin}"],
              [*ENGINE, "src/checkpoint", "src/data", "scripts/trials/attacks"]),
    ]


def of_builds() -> list[Trial]:
    sanitizers = ["env", "OMP_WAIT_POLICY=passive", str(PLATFORMS / "sanitizers")]
    return [
        *(Trial(f"asan_{name}", "runs", 1, 1, [*sanitizers, "asan", name], module(name)) for name in ASAN),
        *(Trial(f"tsan_{name}", "runs", 1, 1, [*sanitizers, "tsan", name], module(name)) for name in TSAN),
        Trial("debian13", "runs", 1, 1, [str(PLATFORMS / "debian13")], ["include", "internal", "src", "recipes", "apps", "tests"],
              needs="debootstrap"),
        *(Trial(name, "runs", 1, 1, [str(PLATFORMS / "pip"), *words], ["include", "internal", "src", "recipes", "apps", "tests", "cmake"])
          for name, words in (("pip", []), ("pip_cuda", ["--cuda"]))),
        Trial("aarch64", "runs", 1, 1, [str(PLATFORMS / "aarch64")], ["include", "internal", "src", "recipes", "apps", "tests"],
              needs="aarch64-linux-gnu-g++"),
        Trial("wheel", "runs", 1, 1, [str(PLATFORMS / "test_wheel")],
              ["include", "internal", "src", "recipes", "apps", "cmake", "packaging", "scripts/platforms/wheel_file.py"]),
    ]


def of_fuzzing() -> list[Trial]:
    lines = (SCRIPTS.parents[1] / "fuzz/targets.txt").read_text().splitlines()
    return [Trial(f"fuzz_{target}", "executions", 2_000_000, 200_000,
                  [str(SCRIPTS / "fuzz"), "--runs", "{count}", "--results", "{work}/fuzz.txt", target],
                  ["fuzz", "src/base", code], "fuzz.txt", needs="clang++-14")
            for target, code in (line.split() for line in lines if not line.startswith("#"))]


def all_trials() -> list[Trial]:
    return [*of_training(), *of_engine(), *of_builds(), *of_fuzzing()]
