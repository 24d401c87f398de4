#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps 20 updates of a moving average to ema.json, the reference for schedule_test.cpp. Run it in that file's folder.

The formula of ModelEMA (RT-DETR, D-FINE, DEIM) in plain PyTorch, over every float entry, with a decay that changes during
training:
  d = decay * (1 - exp(-n / warmups)), v = d * v + (1 - d) * m
"""
import json
import math
import pathlib

import torch

UPDATES = 20
SHAPES = {"conv.weight": (4, 3, 2, 2), "norm.running_mean": (37,)}
CASES = {
    "warmups": {"decay": 0.9, "warmups": 5},
    "at_once": {"decay": 0.9, "warmups": 0},
    "changed": {"decay": 0.9, "warmups": 5, "then": 0.5, "from": 11},
}


def dump(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.9g}") for x in tensor.reshape(-1).tolist()]}


def run(case, values):
    averages = {name: value.clone() for name, value in values[0].items()}
    for n, models in enumerate(values[1:], 1):
        decay = case["then"] if n >= case.get("from", UPDATES + 1) else case["decay"]
        d = decay * (1 - math.exp(-n / case["warmups"])) if case["warmups"] > 0 else decay
        for name, average in averages.items():
            average *= d
            average += (1 - d) * models[name]
    return {"options": case, "after": {name: dump(average) for name, average in averages.items()}}


def main():
    torch.manual_seed(5)
    # Three digits keep the file small; they read back as the same float32.
    short = lambda shape: torch.tensor([float(f"{x:.3g}") for x in torch.randn(shape).reshape(-1)]).reshape(shape)
    values = [{name: short(shape) for name, shape in SHAPES.items()} for _ in range(UPDATES + 1)]
    out = {"torch": torch.__version__, "values": [{n: dump(v) for n, v in one.items()} for one in values],
           "cases": {name: run(case, values) for name, case in CASES.items()}}
    # 0.1 as float32 prints nine digits; three mean the same.
    for one in out["values"]:
        for value in one.values():
            value["data"] = [float(f"{x:.3g}") for x in value["data"]]
    pathlib.Path(__file__).with_name("ema.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
