# SPDX-License-Identifier: Apache-2.0
"""Writes captcha_losses.json next to this file: the losses of three steps of the captcha network in PyTorch, float32.

Weights, images and labels are functions of an element's index; captcha_test.cpp computes the same. There is no dropout, so
random numbers do not matter. Run with the Python whose torch is the reference (Debian 12: /usr/bin/python3).
"""
import json
import math
import pathlib

import torch
from torch import nn

BATCH, STEPS = 16, 3


def fractions(count, salt):
    """`count` numbers in [0, 1) with 24 bits: a multiplicative hash of index and salt."""
    index = torch.arange(count, dtype=torch.int64)
    hashed = (index * 2654435761 + salt * 40503 + 12345) & 0xFFFFFFFF
    hashed = ((hashed ^ (hashed >> 15)) * 2246822519) & 0xFFFFFFFF
    return (hashed >> 8).to(torch.float64) / (1 << 24)


def conv(cin, cout):
    return [nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU()]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            *conv(1, 32), nn.MaxPool2d(2),
            *conv(32, 64), *conv(64, 64), nn.MaxPool2d(2),
            *conv(64, 128), *conv(128, 128), *conv(128, 128), nn.MaxPool2d(2),
            *conv(128, 128))
        self.head = nn.Sequential(nn.Linear(17920, 1024), nn.Dropout(0), nn.ReLU(), nn.Linear(1024, 144))

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def fill(model):
    for salt, parameter in enumerate(p for p in model.parameters() if p.dim() > 1):
        bound = 1 / math.sqrt(parameter[0].numel())
        values = (2 * fractions(parameter.numel(), salt + 1) - 1) * bound
        parameter.data.copy_(values.reshape(parameter.shape))
    for module in model.modules():
        if not isinstance(module, nn.BatchNorm2d) and getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)


torch.set_num_threads(1)
net = Net()
fill(net)
images = fractions(BATCH * 60 * 160, 100).reshape(BATCH, 1, 60, 160).float()
labels = (fractions(BATCH * 4, 200) * 36).long().reshape(BATCH, 4)
target = torch.nn.functional.one_hot(labels, 36).flatten(1).float()
optimizer = torch.optim.AdamW(net.parameters(), lr=6e-4, weight_decay=1e-4)
losses = []
for _ in range(STEPS):
    loss = nn.MultiLabelSoftMarginLoss()(net(images), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
path = pathlib.Path(__file__).with_name("captcha_losses.json")
path.write_text(json.dumps({"torch": torch.__version__, "batch": BATCH, "losses": losses}) + "\n")
