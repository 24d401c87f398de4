#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a peer program on a GPU as its author would: arrays of NumPy come from the host, and the optimizer is the fused one.

Peers were written for processors. On a GPU, `.numpy()` refuses a tensor of the device, and an optimizer whose step counts
lie there reads one back for each parameter.

example:
  scripts/platforms/gpu_peer.py PEERS/detection_step.py --device cuda --bf16"""
import pathlib
import runpy
import sys


def move_arrays(torch, device: str) -> None:
    to_numpy, from_numpy = torch.Tensor.numpy, torch.from_numpy
    torch.Tensor.numpy = lambda tensor, **options: to_numpy(tensor.detach().cpu(), **options)
    torch.from_numpy = lambda array: from_numpy(array).to(device)


def fuse_optimizers(torch) -> None:
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        plain = kind.__init__

        def fused(self, *words, plain=plain, **options):
            plain(self, *words, **(options | {"foreach": None, "fused": True}))

        kind.__init__ = fused


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 64)
    sys.argv = sys.argv[1:]
    import torch
    if "cuda" in sys.argv:
        move_arrays(torch, "cuda")
        fuse_optimizers(torch)
    sys.path.insert(0, str(pathlib.Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
