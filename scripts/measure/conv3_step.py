#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of the captcha network with 3 convolutions in PyTorch with DistributedDataParallel, to compare with `lockstep
bench step captcha --amp none --model conv3`. Prints one JSON line on rank 0.

example (2 ranks):
  export MASTER_ADDR=127.0.0.1 MASTER_PORT=29511 WORLD_SIZE=2
  RANK=1 scripts/measure/conv3_step.py --bf16 --channels-last & RANK=0 scripts/measure/conv3_step.py --bf16 --channels-last
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
except ModuleNotFoundError:
    torch = None


def block(cin: int, cout: int) -> list[nn.Module]:
    return [nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.Dropout(0.5), nn.ReLU(inplace=True),
            nn.MaxPool2d(2)]


def network() -> nn.Sequential:
    return nn.Sequential(*block(1, 32), *block(32, 64), *block(64, 64), nn.Flatten(), nn.Linear(64 * 7 * 20, 1024),
                         nn.Dropout(0.5), nn.ReLU(inplace=True), nn.Linear(1024, 144))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    given = parser.parse_args()
    if torch is None:
        sys.exit("error: PyTorch is missing\n  next  apt-get install python3-torch, and run this with /usr/bin/python3")
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    layout = torch.channels_last if given.channels_last else torch.contiguous_format
    model = network().to(memory_format=layout)
    parameters = sum(p.numel() for p in model.parameters())
    if world > 1:
        dist.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=1e-4)
    criterion = nn.MultiLabelSoftMarginLoss()
    x = torch.rand(given.batch, 1, 60, 160).contiguous(memory_format=layout)
    y = (torch.rand(given.batch, 144) > 0.9).float()

    def step() -> float:
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=given.bf16):
            logits = model(x)
        loss = criterion(logits.float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return time.perf_counter() - begin

    for _ in range(2):
        step()
    seconds = statistics.median(step() for _ in range(given.repeats))
    if int(os.environ.get("RANK", "0")) == 0:
        print(json.dumps({"bench": "conv3_step", "ranks": world, "batch": given.batch, "parameters": parameters,
                          "bf16": given.bf16, "channels_last": given.channels_last, "median_ms": seconds * 1e3,
                          "images_per_s": given.batch * world / seconds}), flush=True)


main()
