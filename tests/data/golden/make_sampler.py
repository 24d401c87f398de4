# SPDX-License-Identifier: Apache-2.0
"""Writes sampler.json next to this file: the indices of PyTorch's DistributedSampler for 200 settings.

Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3). An entry keeps the length, the first
indices and a 64-bit FNV-1a hash over the little-endian int64 indices, so that the file stays small.
"""
import json
import pathlib
import random

from torch.utils.data.distributed import DistributedSampler


def fnv1a(indices):
    value = 0xCBF29CE484222325
    for byte in b"".join(i.to_bytes(8, "little") for i in indices):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def setting(draw, number):
    small = number % 4 == 0  # sizes below and around the number of replicas
    replicas = draw.randint(1, 9)
    return {
        "size": draw.randint(1, 12) if small else draw.randint(1, 5000),
        "replicas": replicas,
        "rank": draw.randrange(replicas),
        "seed": draw.choice([0, 1, 42, draw.randrange(2**31), draw.randrange(2**48)]),
        "epoch": draw.choice([0, 1, draw.randrange(1000)]),
        "shuffle": draw.random() < 0.75,
        "drop_last": draw.random() < 0.4,
    }


def entry(draw, number):
    s = setting(draw, number)
    sampler = DistributedSampler(range(s["size"]), s["replicas"], s["rank"], s["shuffle"], s["seed"], s["drop_last"])
    sampler.set_epoch(s["epoch"])
    indices = list(sampler)
    return s | {"length": len(indices), "first": indices[:4], "fnv1a": f"{fnv1a(indices):016x}"}


draw = random.Random(20261)
entries = [entry(draw, number) for number in range(200)]
lines = ",\n".join(json.dumps(e) for e in entries)
(pathlib.Path(__file__).parent / "sampler.json").write_text(f"[\n{lines}\n]\n")
