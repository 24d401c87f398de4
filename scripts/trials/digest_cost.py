"""Measures the cost of step digests for a captcha step: at most 0.5 %, from updates alternately with and without them.

A run fails if even the low end of its 95 % interval is above the limit. On a busy machine the interval is wide; together the
runs fail if the median of their figures is above the limit.

example:
  scripts/trials/trial digest_cost --count 5
"""
import json
import os
import random
import statistics

import driver
import runs


class Trial(driver.Trial):
    COUNT = 3
    OPTIONS = {"--limit": (0.5, "percent of a step"), "--pairs": (200, "pairs of updates"), "--processes": (1, "ranks"),
               "--batch": (64, "images per rank")}

    def run(self, kind: str, number: int, draw: random.Random) -> dict:
        given = self.given
        said = runs.lockstep(given, "bench", "step", "captcha", "--nproc-per-node", str(given.processes), "--amp", "bf16", "--batch",
                             str(given.batch), "--digest-cost", "--repeats", str(given.pairs), "--json").stdout
        found = json.loads(said.splitlines()[-1])
        share, low, high = (100 * found[key] for key in ("share", "share_low", "share_high"))
        print(f"{share:.3f} % ({low:.3f} to {high:.3f}) of a step of {found['step_ms']:.0f} ms, load {os.getloadavg()[0]:.1f}", flush=True)
        wrong = [f"{low:.3f} % at least"] if low > given.limit else []
        return {"share": share, "low": low, "high": high, "step_ms": found["step_ms"], "digest_us": found["digest_us"], "wrong": wrong}

    def closing(self, rows: list[dict]) -> list[str]:
        median = statistics.median(row["share"] for row in rows)
        print(f"digests take {median:.3f} % of a step (median of {len(rows)})")
        return [f"digests take {median:.3f} % of a step, more than {self.given.limit} %"] if median > self.given.limit else []
