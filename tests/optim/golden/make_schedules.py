#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps the learning rates of schedules to schedules.json, the reference for schedule_test.cpp. Run it in that file's folder.

The schedules of torch.optim.lr_scheduler come from there. Noam and flat_cosine are formulas in plain Python:
  noam         Vaswani et al., Attention Is All You Need, 2017, section 5.3
  flat_cosine  DEIM's schedule: a quadratic warm-up, flat, half a cosine, flat
"""
import json
import math
import pathlib
import warnings

import torch
from torch.optim import lr_scheduler as lrs

warnings.filterwarnings("ignore")  # the schedulers' warnings about the order of calls


def optimizer_with(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)


def rates(lr, make, steps):
    optimizer = optimizer_with(lr)
    scheduler = make(optimizer)
    found = []
    for _ in range(steps):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def chained(optimizer):
    warm = lrs.LinearLR(optimizer, start_factor=1 / 5, total_iters=4)
    return lrs.SequentialLR(optimizer, [warm, lrs.CosineAnnealingLR(optimizer, T_max=20, eta_min=1e-3)], milestones=[5])


def noam(step, factor=0.5, size=64, warmup=8):
    n = step + 1
    return factor * size ** -0.5 * min(n ** -0.5, n * warmup ** -1.5)


def flat_cosine(step, lr=0.1, warmup=4, flat=10, total=30, final=6, gamma=0.25):
    if step <= warmup:
        return lr * (step / warmup) ** 2
    if step <= flat:
        return lr
    last = lr * gamma
    if step >= total - final:
        return last
    return last + (lr - last) * 0.5 * (1 + math.cos(math.pi * (step - flat) / (total - flat - final)))


PLATEAUS = {
    "defaults": {"patience": 2},
    "max": {"mode": "max", "patience": 1, "factor": 0.5},
    "abs": {"threshold_mode": "abs", "threshold": 0.05, "patience": 1, "factor": 0.3},
    "max_abs": {"mode": "max", "threshold_mode": "abs", "threshold": 0.05, "patience": 0, "factor": 0.3},
    "cooldown": {"patience": 0, "cooldown": 3, "factor": 0.5},
    "min_lr": {"patience": 0, "factor": 0.5, "min_lr": 0.01},
    "eps": {"patience": 0, "factor": 0.5, "eps": 0.02},
}
METRICS = [1.0, 0.9, 0.95, 0.9, 0.91, 0.92, 0.5, 0.4999999, 0.49, 0.48, 0.52, 0.7, 0.7, 0.7, 0.1, 0.2, 0.3, 0.4, 0.5, 1.2]


def plateau(options):
    optimizer = optimizer_with(0.1)
    scheduler = lrs.ReduceLROnPlateau(optimizer, **options)
    found = []
    for metric in METRICS:
        scheduler.step(metric)
        found.append(optimizer.param_groups[0]["lr"])
    return {"options": options, "lr": found}


def main():
    cycle = lambda **more: lambda o: lrs.OneCycleLR(o, max_lr=0.1, total_steps=40, cycle_momentum=False, **more)
    out = {
        "torch": torch.__version__,
        "schedules": {
            "step": rates(0.1, lambda o: lrs.StepLR(o, step_size=3, gamma=0.5), 20),
            "multi_step": rates(0.1, lambda o: lrs.MultiStepLR(o, milestones=[4, 9, 9], gamma=0.1), 15),
            "linear_warmup": rates(0.1, lambda o: lrs.LinearLR(o, start_factor=1 / 7, total_iters=6), 12),
            "cosine": rates(0.1, lambda o: lrs.CosineAnnealingLR(o, T_max=25, eta_min=1e-3), 26),
            "polynomial": rates(0.1, lambda o: lrs.PolynomialLR(o, total_iters=12, power=2.5), 16),
            "one_cycle": rates(0.1, cycle(), 40),
            "one_cycle_linear": rates(0.1, cycle(anneal_strategy="linear", pct_start=0.25, div_factor=10), 40),
            "one_cycle_three": rates(0.1, cycle(three_phase=True, final_div_factor=100.0), 40),
            "chained": rates(0.1, chained, 25),
            "noam": rates(1.0, lambda o: lrs.LambdaLR(o, noam), 30),
            "flat_cosine": rates(1.0, lambda o: lrs.LambdaLR(o, flat_cosine), 34),
        },
        "metrics": METRICS,
        "plateaus": {name: plateau(options) for name, options in PLATEAUS.items()},
    }
    pathlib.Path(__file__).with_name("schedules.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
