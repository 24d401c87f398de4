#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps 100 steps of each optimizer to optimizers.json, the reference for optimizers_test.cpp. Run it in that file's folder.

torch.optim's optimizers come from there, in float32 and in float64. LAMB, LARS and Lion are implemented here in float64, one
tensor at a time, from the papers:
  LAMB  You et al., Large Batch Optimization for Deep Learning: Training BERT in 76 minutes, arXiv:1904.00962, algorithm 2
  LARS  You et al., Large Batch Training of Convolutional Networks, arXiv:1708.03888, algorithm 1
  Lion  Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv:2302.06675, program 1
"""
import json
import pathlib

import torch

STEPS = 100
HALVED_FROM = 60  # like a learning-rate schedule
DUMPED = (1, 10, 100)  # steps after which the parameters are compared
SHAPES = {"conv.weight": (2, 3, 2, 2), "fc.weight": (3, 7), "fc.bias": (5,)}

CASES = {
    "adamw": ("AdamW", {"lr": 6e-3, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.05}),
    "adamw_amsgrad": ("AdamW", {"lr": 6e-3, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.05, "amsgrad": True}),
    "adam": ("Adam", {"lr": 6e-3, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.02}),
    "adam_amsgrad": ("Adam", {"lr": 6e-3, "betas": [0.9, 0.9], "eps": 1e-8, "amsgrad": True}),
    "sgd": ("SGD", {"lr": 0.02, "weight_decay": 0.01}),
    "sgd_momentum": ("SGD", {"lr": 0.02, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    "sgd_nesterov": ("SGD", {"lr": 0.02, "momentum": 0.8, "nesterov": True}),
    "rmsprop": ("RMSprop", {"lr": 5e-3, "alpha": 0.95, "eps": 1e-6, "weight_decay": 0.01}),
    "rmsprop_momentum": ("RMSprop", {"lr": 2e-3, "momentum": 0.7}),
    "rmsprop_centered": ("RMSprop", {"lr": 5e-3, "alpha": 0.9, "eps": 1e-4, "centered": True}),
    "rmsprop_both": ("RMSprop", {"lr": 2e-3, "alpha": 0.9, "eps": 1e-4, "momentum": 0.7, "centered": True}),
    "adagrad": ("Adagrad", {"lr": 0.05, "lr_decay": 0.01, "weight_decay": 0.01, "initial_accumulator_value": 0.1}),
    "lamb": ("LAMB", {"lr": 0.01, "betas": [0.9, 0.99], "eps": 1e-6, "weight_decay": 0.02}),
    "lars": ("LARS", {"lr": 0.2, "momentum": 0.9, "trust": 0.02, "weight_decay": 0.01}),
    "lion": ("Lion", {"lr": 1e-3, "betas": [0.9, 0.99], "weight_decay": 0.1}),
}


class Lamb:
    def __init__(self, lr, betas, eps, weight_decay):
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.state = {}

    def update(self, name, x, g):
        m, v, t = self.state.get(name, (torch.zeros_like(x), torch.zeros_like(x), 0))
        t += 1
        m = self.betas[0] * m + (1 - self.betas[0]) * g
        v = self.betas[1] * v + (1 - self.betas[1]) * g ** 2
        r = (m / (1 - self.betas[0] ** t)) / ((v / (1 - self.betas[1] ** t)).sqrt() + self.eps)
        direction = r + self.weight_decay * x
        norm, length = x.norm(), direction.norm()
        trust = norm / length if norm > 0 and length > 0 else 1.0
        self.state[name] = (m, v, t)
        return x - self.lr * trust * direction


class Lars:
    def __init__(self, lr, momentum, trust, weight_decay):
        self.lr, self.momentum, self.trust, self.weight_decay = lr, momentum, trust, weight_decay
        self.state = {}

    def update(self, name, x, g):
        norm, length = x.norm(), g.norm()
        rate = self.trust * norm / (length + self.weight_decay * norm) if norm > 0 and length > 0 else 1.0
        v = self.momentum * self.state.get(name, torch.zeros_like(x)) + self.lr * rate * (g + self.weight_decay * x)
        self.state[name] = v
        return x - v


class Lion:
    def __init__(self, lr, betas, weight_decay):
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.state = {}

    def update(self, name, x, g):
        m = self.state.get(name, torch.zeros_like(x))
        sign = torch.sign(self.betas[0] * m + (1 - self.betas[0]) * g)
        self.state[name] = self.betas[1] * m + (1 - self.betas[1]) * g
        return x - self.lr * (sign + self.weight_decay * x)


REFERENCES = {"LAMB": Lamb, "LARS": Lars, "Lion": Lion}


def dump(tensor, digits=9):
    data = [float(f"{x:.{digits}g}") for x in tensor.detach().reshape(-1).tolist()]
    return {"shape": list(tensor.shape), "data": data}


def short(tensor):
    """Three digits keep the file small; they read back as the same float32."""
    return torch.tensor(dump(tensor, 3)["data"]).reshape(tensor.shape)


def run_torch(kind, options, start, grads, dtype):
    parameters = {name: value.to(dtype).clone().requires_grad_() for name, value in start.items()}
    optimizer = getattr(torch.optim, kind)(parameters.values(), **options)
    after = {}
    for step, given in enumerate(grads, 1):
        optimizer.param_groups[0]["lr"] = options["lr"] * (0.5 if step >= HALVED_FROM else 1.0)
        for name, value in parameters.items():
            value.grad = given[name].to(dtype) if name in given else None
        optimizer.step()
        if step in DUMPED:
            after[str(step)] = {name: dump(value) for name, value in parameters.items()}
    return after


def run_reference(kind, options, start, grads):
    parameters = {name: value.double() for name, value in start.items()}
    optimizer = REFERENCES[kind](**options)
    after = {}
    for step, given in enumerate(grads, 1):
        optimizer.lr = options["lr"] * (0.5 if step >= HALVED_FROM else 1.0)
        for name, grad in given.items():
            parameters[name] = optimizer.update(name, parameters[name], grad.double())
        if step in DUMPED:
            after[str(step)] = {name: dump(value) for name, value in parameters.items()}
    return after


def main():
    torch.manual_seed(12)
    start = {name: short(torch.randn(shape)) for name, shape in SHAPES.items()}
    start["fc.bias"] = torch.zeros(SHAPES["fc.bias"])  # a norm of zero
    grads = []
    for step in range(STEPS):
        # Gradients of decreasing size, as in training; the bias has none in the fourth step.
        given = {name: short(torch.randn(shape) * 0.97 ** step) for name, shape in SHAPES.items()}
        if step == 3:
            del given["fc.bias"]
        grads.append(given)
    cases = {}
    for name, (kind, options) in CASES.items():
        case = {"type": kind, "options": options}
        if kind in REFERENCES:
            case["float64"] = run_reference(kind, options, start, grads)
        else:
            case["float32"] = run_torch(kind, options, start, grads, torch.float32)
            case["float64"] = run_torch(kind, options, start, grads, torch.float64)
        cases[name] = case
    out = {"torch": torch.__version__, "halved_from": HALVED_FROM, "start": {n: dump(v, 3) for n, v in start.items()},
           "grads": [{n: dump(v, 3) for n, v in given.items()} for given in grads], "cases": cases}
    pathlib.Path(__file__).with_name("optimizers.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
