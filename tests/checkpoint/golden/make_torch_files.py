#!/usr/bin/python3
"""Writes the .pth files of torch_file_test.cpp: run it in this folder with PyTorch (the files come from 1.13.1)."""
import collections
import pickle
import zipfile

import torch


def state(offset):
    entries = collections.OrderedDict()
    entries["module.conv.weight"] = (torch.arange(24, dtype=torch.float32) + offset).reshape(2, 3, 4)
    entries["module.bn.num_batches_tracked"] = torch.tensor(7 + offset)
    entries._metadata = collections.OrderedDict([("", {"version": 1})])
    return entries


def types():
    every = {
        str(dtype)[6:]: torch.tensor([0, 1, 3]).to(dtype)
        for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
                      torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128)
    }
    base = torch.arange(12, dtype=torch.float32)
    every["transposed"] = base.reshape(3, 4).t()
    every["shifted"] = base[5:]
    every["empty"] = torch.empty(0, 3)
    every["parameter"] = torch.nn.Parameter(torch.ones(2))
    return every


torch.save(state(0), "state_dict.pth")
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.5)
for p in net.parameters():
    p.grad = torch.ones_like(p)
optimizer.step()
torch.save(
    {
        "model": state(0),
        "ema": {"module": state(100), "updates": 12},
        "optimizer": optimizer.state_dict(),
        "last_epoch": 3,
        "big": 1 << 40,
        "best": {"acc": 0.25, "text": "grün"},
        "none": None,
        "flags": [True, False],
        "dtype": torch.float32,
        "device": torch.device("cpu"),
        "size": torch.Size([2, 3]),
        "counter": collections.Counter([5, 5]),
    }, "nested.pth")
torch.save(types(), "types.pth")
torch.save({"a": torch.arange(3), "long": "x" * 300}, "protocol4.pth", pickle_protocol=4)
# Repacked as another program would: deflated, with unaligned storages.
with zipfile.ZipFile("state_dict.pth") as source, \
        zipfile.ZipFile("deflated.pth", "w", zipfile.ZIP_DEFLATED) as target:
    for name in source.namelist():
        target.writestr(name, source.read(name))
torch.save(state(0), "before_1_6.pth", _use_new_zipfile_serialization=False)


class Attack:
    def __reduce__(self):
        return (eval, ("print('executed')",))


torch.save({"model": state(0), "attack": Attack()}, "attack.pth")
