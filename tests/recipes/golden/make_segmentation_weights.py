# SPDX-License-Identifier: Apache-2.0
"""Writes a .pth file in the layout of torchvision's resnet18: its names, shapes and order, including the classifier and the batch
counts, and random values. segmentation_golden_test.cpp runs it, since no third-party weights are shipped.
"""
import collections
import sys

import torch


def norm(state, name, channels):
    state[name + ".weight"] = torch.rand(channels) + 0.5
    state[name + ".bias"] = torch.randn(channels)
    state[name + ".running_mean"] = torch.randn(channels)
    state[name + ".running_var"] = torch.rand(channels) + 0.5
    state[name + ".num_batches_tracked"] = torch.tensor(7)


def conv(state, name, out, channels, kernel):
    state[name + ".weight"] = torch.randn(out, channels, kernel, kernel) * 0.05


torch.manual_seed(1)
resnet = collections.OrderedDict()
conv(resnet, "conv1", 64, 3, 7)
norm(resnet, "bn1", 64)
before = 64
for stage, width in enumerate((64, 128, 256, 512), 1):
    for block in range(2):
        name = f"layer{stage}.{block}"
        conv(resnet, name + ".conv1", width, before, 3)
        norm(resnet, name + ".bn1", width)
        conv(resnet, name + ".conv2", width, width, 3)
        norm(resnet, name + ".bn2", width)
        if before != width:
            conv(resnet, name + ".downsample.0", width, before, 1)
            norm(resnet, name + ".downsample.1", width)
        before = width
resnet["fc.weight"] = torch.randn(1000, 512)
resnet["fc.bias"] = torch.randn(1000)
torch.save(resnet, sys.argv[1])
