# SPDX-License-Identifier: Apache-2.0
"""Writes samplers.json next to this file: PyTorch's RandomSampler, WeightedRandomSampler and BatchSampler.

Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3). The generator of epoch e has the seed `seed +
e`, as in DistributedSampler.
"""
import json
import pathlib

import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler, WeightedRandomSampler


def generator(seed, epoch):
    made = torch.Generator()
    made.manual_seed(seed + epoch)
    return made


def random_entry(size, seed, epoch, replacement, count):
    sampler = RandomSampler(range(size), replacement, count or None, generator(seed, epoch))
    return {"kind": "random", "size": size, "seed": seed, "epoch": epoch, "replacement": replacement, "count": count,
            "indices": list(sampler)}


def weighted_entry(weights, seed, epoch, replacement, count):
    sampler = WeightedRandomSampler(weights, count, replacement, generator(seed, epoch))
    return {"kind": "weighted", "weights": weights, "seed": seed, "epoch": epoch, "replacement": replacement,
            "count": count, "indices": list(sampler)}


def batch_entry(size, batch_size, drop_last):
    return {"kind": "batches", "size": size, "batch_size": batch_size, "drop_last": drop_last,
            "batches": list(BatchSampler(SequentialSampler(range(size)), batch_size, drop_last))}


entries = [random_entry(10, 0, 0, False, 0), random_entry(7, 5, 2, False, 20), random_entry(9, 1, 3, True, 0),
           random_entry(5, 42, 1, True, 70), random_entry(1000, 3, 0, True, 33),
           weighted_entry([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 0, 0, True, 40),
           weighted_entry([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 7, 2, False, 5),
           weighted_entry([0.0, 1.0, 2.0, 0.0, 4.0], 11, 0, False, 3),
           batch_entry(10, 3, False), batch_entry(10, 3, True), batch_entry(2, 5, True), batch_entry(0, 4, False)]
lines = ",\n".join(json.dumps(e) for e in entries)
(pathlib.Path(__file__).parent / "samplers.json").write_text(f"[\n{lines}\n]\n")
