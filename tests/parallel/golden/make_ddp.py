#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps five steps of PyTorch's DistributedDataParallel over two Gloo processes to ddp.json, which
ddp_golden_test.cpp repeats. It starts its two processes itself; run it in that file's folder."""
import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn as nn

WORLD, STEPS, BATCH, CLASSES = 2, 5, 8, 10


def dump(tensor, digits=9):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.{digits}g}") for x in tensor.detach().reshape(-1).tolist()]}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 6, 3, padding=1, bias=False)  # its gradient before a norm is rounding noise
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.0)
        self.fc1 = nn.Linear(6 * 4 * 4, 24)
        self.fc2 = nn.Linear(24, CLASSES)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.fc2(self.drop(torch.relu(self.fc1(x.flatten(1)))))


def state(model):
    return {name: dump(value) for name, value in model.state_dict().items() if value.is_floating_point()}


def batch(step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    images = (torch.randn(BATCH, 1, 8, 8, generator=generator) * 100).round() / 100
    return images, torch.randint(CLASSES, (BATCH,), generator=generator)


def train(rank, meeting_point, result):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting_point, rank=rank, world_size=WORLD)
    torch.manual_seed(1 + rank)  # ranks start with different weights: DDP must broadcast rank 0's
    model = Net()
    start = state(model)
    distributed = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(distributed.parameters(), lr=6e-4, weight_decay=1e-2)
    losses = []
    for step in range(STEPS):
        images, labels = batch(step, rank)
        loss = nn.functional.cross_entropy(distributed(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, losses)
    if rank == 0:
        batches = [[{"images": dump(batch(step, r)[0], 3), "labels": batch(step, r)[1].tolist()} for r in range(WORLD)]
                   for step in range(STEPS)]
        out = {"torch": torch.__version__, "start": start, "batches": batches, "losses": gathered, "end": state(model)}
        pathlib.Path(result).write_text(json.dumps(out) + "\n")
    dist.barrier()


def main():
    result = pathlib.Path(__file__).resolve().with_name("ddp.json")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(train, args=(os.path.join(folder, "meet"), str(result)), nprocs=WORLD)


if __name__ == "__main__":
    main()
