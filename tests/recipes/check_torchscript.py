#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads FOLDER/network.pt with torch.jit.load and compares its results with those in FOLDER/network.pth.

Usage: check_torchscript.py FOLDER... Exit code 1 if something differs.
"""
import json
import pathlib
import sys

import torch

TOLERANCE = 1e-5
torch._C._jit_set_texpr_fuser_enabled(False)  # a PyTorch with LLVM would compile for minutes on the second call


def results_of(module, arguments):
    """The results as a list, for a module that returns one tensor or a tuple."""
    results = module(*arguments)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def is_the_same(folder):
    extra = {"network.json": ""}
    module = torch.jit.load(str(folder / "network.pt"), _extra_files=extra)
    about = json.loads(extra["network.json"])
    given = torch.load(str(folder / "network.pth"), weights_only=True)
    with torch.no_grad():
        found = results_of(module, given["arguments"])
    faults = []
    for what, wanted, result in zip(about["outputs"], given["results"], found):
        if list(result.shape)[1:] != what["shape"][1:] or str(result.dtype) != "torch." + what["dtype"]:
            faults.append(f"{what} is {result.dtype} {list(result.shape)}")
        error = ((result.double() - wanted.double()).abs().max() / max(1.0, wanted.double().abs().max())).item()
        print(f"{what['name']}: differs by {error:.1e}")
        if not error <= TOLERANCE:
            faults.append(f"{what['name']} differs by {error}")
    if len(found) != len(about["outputs"]) or len(found) != len(given["results"]):
        faults.append(f"there are {len(found)} results")
    constants = module.code_with_constants[1].const_mapping
    if any(isinstance(value, torch.Tensor) and value.dim() > 0 for value in constants.values()):
        faults.append("a tensor is a constant of the code, which to() does not see")
    if module.training or any(parameter.requires_grad for parameter in module.parameters()):
        faults.append("it is not in evaluation mode, or its parameters need gradients")
    print(f"{folder.name}: " + ("; ".join(faults) or "all results are the same"))
    return not faults


if __name__ == "__main__":
    sys.exit(0 if all([is_the_same(pathlib.Path(word)) for word in sys.argv[1:]]) else 1)
