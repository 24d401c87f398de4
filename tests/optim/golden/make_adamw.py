#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps five steps of torch.optim.AdamW to adamw.json, the reference for optimizers_test.cpp. Run it in that file's folder."""
import json
import pathlib

import torch


def dump(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.9g}") for x in tensor.detach().reshape(-1).tolist()]}


def main():
    torch.manual_seed(11)
    start = {"conv.weight": torch.randn(4, 3, 3, 3), "fc.weight": torch.randn(5, 7), "fc.bias": torch.randn(5) * 1e-3}
    parameters = {name: value.clone().requires_grad_() for name, value in start.items()}
    # PyTorch's defaults, except for a learning rate and a weight decay whose effects show within a few steps.
    options = {"lr": 6e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}
    optimizer = torch.optim.AdamW(parameters.values(), **options)
    steps = []
    for step in range(5):
        for name, value in parameters.items():
            # Some gradients are small, so that eps matters; the bias has none in the second step.
            value.grad = None if name == "fc.bias" and step == 1 else torch.randn_like(value) * 10.0 ** (-2 * step)
        grads = {name: dump(value.grad) for name, value in parameters.items() if value.grad is not None}
        optimizer.step()
        steps.append({"grads": grads, "after": {name: dump(value) for name, value in parameters.items()}})
    state = {}
    for name, value in parameters.items():
        entry = optimizer.state[value]
        state[name + ".exp_avg"] = dump(entry["exp_avg"])
        state[name + ".exp_avg_sq"] = dump(entry["exp_avg_sq"])
        state[name + ".step"] = int(entry["step"])
    out = {"torch": torch.__version__, "options": options, "start": {n: dump(v) for n, v in start.items()},
           "steps": steps, "state": state}
    pathlib.Path(__file__).with_name("adamw.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
