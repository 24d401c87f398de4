"""Plants a difference between two runs for `lockstep bisect`, and checks the samples of a step in `lockstep explain`.

  file     one image of the data is changed: the first step that reads it, and the file
  setting  fused layers, channels-last or bfloat16 is off in one run: the first step, and the forward of the first layer
  rate     the learning rate falls at a different epoch: the first step with a different rate, and its update
  flip     a processor flips a bit in every step from some step onwards (LOCKSTEP_FAULT), even in a replay: the part of that step
  moment   a bit flips once: the step, no difference in the replays, and a note that this run does not repeat
  equal    a different number of processes, interrupted and resumed: no difference
  samples  a random step has the samples of `inspect sampler`, and its replay has the run's digests

Runs have 4 replicas on a random number of processes, and keep a checkpoint every few steps.

example:
  scripts/trials/trial replays --count 40
"""
import json
import random
import re
import shutil

import driver
import runs

SAMPLES, REPLICAS, BATCH, STEPS = 160, 4, 4, 24
EPOCH = SAMPLES // (REPLICAS * BATCH)  # steps
WORDS = {"data.charset": "0-9", "data.length": 2, "data.width": 48, "data.height": 20, "model.type": "conv3", "batch_size": BATCH,
         "replicas": REPLICAS, "max_steps": STEPS, "epochs": 9, "log_every_steps": 1, "checkpoint.keep_last": 99, "workers": 0}
PARTS = {"batch": ("samples",), "activation": ("forward",), "gradient": ("backward", "gradients"),
         "weight": ("the weights before the step",), "optimizer": ("update",)}
OFF = {"fused_layers": "false", "channels_last": "false", "amp": "none"}


class Trial(driver.Trial):
    COUNT = 10
    KINDS = ("file", "setting", "rate", "flip", "moment", "equal", "samples")

    def prepare(self, given) -> None:
        self.data = given.work / "replayed"
        if not self.data.exists():
            runs.lockstep(given, "generate", "captcha", "--out", str(self.data), "--count", str(SAMPLES), "--seed", "3", "--charset", "0-9",
                          "--length", "2", "--width", "48", "--height", "20")

    def train(self, draw: random.Random, name: str, resume: str = "none", fault: str = "", processes: int = 0, **changes) -> str:
        folder = self.given.work / name
        if resume == "none":
            runs.fresh(folder)
        words = {"data.train": self.data, "checkpoint.every_steps": draw.randint(1, STEPS), "seed": self.seed, "amp": "bf16"}
        words |= WORDS | {key.replace("__", "."): value for key, value in changes.items()}
        sets = [word for key, value in words.items() for word in ("--set", f"{key}={value}")]
        env = runs.environment() | ({"LOCKSTEP_FAULT": fault} if fault else {})
        runs.lockstep(self.given, "train", "captcha", "--nproc-per-node", str(processes or draw.randint(1, 3)), "--run-dir", str(folder),
                      "--resume", resume, *sets, env=env)
        return str(folder)

    def bisect(self, a: str, b: str, *words: str) -> dict:
        return json.loads(runs.lockstep(self.given, "bisect", a, b, "--json", *words, check=False).stdout)

    def orders(self, epoch: int) -> list[list[int]]:
        return [json.loads(runs.lockstep(self.given, "inspect", "sampler", "--size", str(SAMPLES), "--replicas", str(REPLICAS), "--rank",
                                         str(replica), "--seed", str(self.seed), "--epoch", str(epoch)).stdout)
                for replica in range(REPLICAS)]

    def samples(self, step: int) -> set[tuple[int, int]]:
        """Replica and index of all samples of a step, from 1, using only the sampler."""
        first = (step - 1) % EPOCH * BATCH
        orders = self.orders((step - 1) // EPOCH)
        return {(replica, index) for replica in range(REPLICAS) for index in orders[replica][first:first + BATCH]}

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        self.seed = draw.randint(0, 9999)
        found, wanted = getattr(self, "try_" + kind)(draw)
        wrong = [f"{key} is {found.get(key)} not {value}" for key, value in wanted.items() if found.get(key) != value]
        return {"found": found if wrong else {}, "wrong": wrong}

    def try_file(self, draw: random.Random):
        names = sorted(path.name for path in self.data.iterdir())
        victim, donor = draw.sample(range(SAMPLES), 2)
        changed = runs.fresh(self.given.work / "changed")
        shutil.copytree(self.data, changed)
        shutil.copy(self.data / names[donor], changed / names[victim])
        step = next(step for step in range(1, EPOCH + 1) if victim in {index for _, index in self.samples(step)})
        found = self.bisect(self.train(draw, "a"), self.train(draw, "b", data__train=changed))
        found["files"] = [pair[0].rsplit("/", 1)[-1] for pair in found.get("changed", [])]
        return found, {"step": step, "part": "samples", "files": [names[victim]], "a_repeats": True, "b_repeats": True}

    def try_setting(self, draw: random.Random):
        key = draw.choice(sorted(OFF))
        found = self.bisect(self.train(draw, "a"), self.train(draw, "b", **{key: OFF[key]}))
        return found, {"step": 1, "part": "forward", "layer": "features.0", "a_repeats": True, "b_repeats": True}

    def try_rate(self, draw: random.Random):
        falls = lambda epoch: {"schedule__type": "multi_step", "schedule__milestones": f"[{epoch}]", "schedule__warmup_epochs": 0}
        found = self.bisect(self.train(draw, "a", **falls(1)), self.train(draw, "b", **falls(2)))
        return found, {"step": EPOCH + 1, "part": "update", "a_repeats": True, "b_repeats": True}

    def try_flip(self, draw: random.Random):
        # A bit of the exponent, in 32 and in 16 bits: a nonzero value becomes 16 times larger or smaller.
        what, first = draw.choice(sorted(PARTS)), draw.randint(2, STEPS)
        fault = f"flip:{what}:rank=0:step={first}:always:bit=25"
        a, b = self.train(draw, "a"), self.train(draw, "b", fault=fault, processes=1)
        said = runs.lockstep(self.given, "bisect", a, b, "--only-step", check=False).stdout
        step = int(re.search(r"first differ at step (\d+)", said)[1])
        records = [str(self.given.work / name) for name in ("a.json", "b.json")]
        faulty = runs.environment() | {"LOCKSTEP_FAULT": fault}
        for run, record, env in ((a, records[0], None), (b, records[1], faulty)):
            runs.lockstep(self.given, "explain", run, "--step", str(step), "--record", record, "--yes", env=env)
        found = self.bisect(a, b, "--records", *records)
        found["what"], found["not_before"], found["part"] = what, step >= first, found.get("part") in PARTS[what]
        found["named"] = bool(found.get("layer") or found.get("a"))
        return found, {"step": step, "not_before": True, "part": True, "named": what != "weight", "a_repeats": True, "b_repeats": True}

    def try_moment(self, draw: random.Random):
        step, processes = draw.randint(2, STEPS), draw.randint(1, 3)
        fault = f"flip:{draw.choice(['weight', 'activation'])}:rank={draw.randrange(processes)}:step={step}:bit=25"
        a, b = self.train(draw, "a"), self.train(draw, "b", fault=fault, processes=processes)
        if runs.digest(self.given, a) == runs.digest(self.given, b):  # a flipped bit of a zero is lost to rounding
            return self.bisect(a, b), {"equal": True, "steps": STEPS}
        return self.bisect(a, b), {"step": step, "part": "nothing", "a_repeats": True, "b_repeats": False}

    def try_equal(self, draw: random.Random):
        a = self.train(draw, "a")
        b = self.train(draw, "b", checkpoint__every_steps=5)
        newest = sorted((self.given.work / "b/checkpoints").glob("step-*"))
        for step in newest[draw.randint(1, len(newest) - 1):]:
            shutil.rmtree(step)
        self.train(draw, "b", resume="auto", checkpoint__every_steps=5)
        return self.bisect(a, b), {"equal": True, "steps": STEPS}

    def try_samples(self, draw: random.Random):
        run, step = self.train(draw, "a"), draw.randint(1, STEPS)
        found = json.loads(runs.lockstep(self.given, "explain", run, "--step", str(step), "--json").stdout)
        read = {(sample["replica"], sample["index"]) for sample in found["samples"]}
        return ({"samples": read == self.samples(step), "repeats": found["repeats"], "same_loss": found["loss"] == found["logged_loss"]},
                {"samples": True, "repeats": "yes: loss, gradients and weights match the run's digests", "same_loss": True})
