"""Generates networks of layers and operators, exports each as ONNX and compares it in ONNX Runtime, or checks why it is rejected.

example:
  scripts/trials/trial onnx_networks --count 10000
"""
import random
import subprocess

import broken_runs
import driver
import runs


class Trial(driver.Trial):
    COUNT = 10000
    OPTIONS = {"--batch": (100, "how many networks one process generates"),
               "--node-path": (str(runs.ROOT / "build/test/onnx/node_modules"), "folder of npm's onnxruntime-node")}

    def prepare(self, given) -> None:
        self.program = broken_runs.test_program(given, "apps_united_test")

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        first = 1 + sum(row["count"] for row in self.rows)
        environment = runs.environment(LOCKSTEP_NETWORKS=str(self.given.batch), LOCKSTEP_NETWORKS_SEED=str(first),
                                       NODE_PATH=self.given.node_path)
        done = subprocess.run([str(self.program), "--gtest_filter=OnnxNetworks.*"], env=environment, capture_output=True, text=True,
                              check=False)
        if "[  SKIPPED ] 1 test" in done.stdout:
            raise driver.CannotRun("neither python3 nor node has ONNX Runtime")
        refused = [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("refused: ")]
        passed = done.returncode == 0 and "[  PASSED  ] 1 test." in done.stdout
        return {"first": first, "count": self.given.batch, "refused": int(refused[0]) if refused else None,
                "wrong": [] if passed else [done.stdout[-3000:]]}
