#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps iterations of torch.amp.GradScaler to grad_scaler.json, the reference for grad_scaler_test.cpp. Run it in this folder,
with PyTorch 2.3 or later: GradScaler did not work on the CPU before. The values in the repository come from PyTorch 2.6's CPU
operations; its CUDA operations were not run."""
import json
import math
import pathlib

import torch


def dump(tensor):
    return {"shape": list(tensor.shape), "data": [float(f"{x:.9g}") for x in tensor.detach().reshape(-1).tolist()]}


# The iterations: which of the two gradients has a non-finite element, and the special call.
ITERATIONS = [
    {}, {}, {"bad": {"a": math.inf}}, {}, {}, {}, {"bad": {"b": math.nan}}, {"bad": {"a": -math.inf, "b": math.inf}}, {},
    {"unscale": True}, {"unscale": True, "bad": {"a": math.nan}}, {"new_scale": 1000.0}, {}, {}, {}, {"reload": True}, {},
    {"only": "a"}, {}, {"only": "b", "bad": {"b": math.inf}}, {}, {}, {}, {"grow_at": 2}, {}, {}, {}, {"reload": True}, {},
    {"new_scale": 2e38}, {"zero": True}, {"zero": True}, {"zero": True},
]  # fmt: skip


def text(value):
    return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan") if not math.isfinite(value) else value


def main():
    torch.manual_seed(5)
    options = {"init_scale": 4096.0, "growth_factor": 3.0, "backoff_factor": 0.3, "growth_interval": 3}
    start = {"a": torch.randn(7), "b": torch.randn(3, 2)}
    weights = {name: value.clone().requires_grad_() for name, value in start.items()}
    optimizers = {name: torch.optim.AdamW([value], lr=1e-2) for name, value in weights.items()}
    scaler = torch.amp.GradScaler("cpu", **options)
    scaler.scale(torch.ones(()))  # the first loss creates the scale
    iterations = []
    for what in ITERATIONS:
        if "grow_at" in what:
            scaler.set_growth_interval(what["grow_at"])
        if what.get("reload"):
            state = scaler.state_dict()
            scaler = torch.amp.GradScaler("cpu")
            scaler.load_state_dict(state)
            scaler.scale(torch.ones(()))
        names = [what["only"]] if "only" in what else ["a", "b"]
        plain = {name: torch.randn_like(weights[name]) * (0 if "zero" in what else 1) for name in names}
        before = scaler.get_scale()
        for name in names:
            grad = plain[name] * before
            if name in what.get("bad", {}):
                grad.view(-1)[1] = what["bad"][name]
            weights[name].grad = grad
            if what.get("unscale"):
                scaler.unscale_(optimizers[name])
            scaler.step(optimizers[name])
        scaler.update(what.get("new_scale"))
        iterations.append({
            **{key: value for key, value in what.items() if key != "bad"},
            "bad": {name: str(text(value)) for name, value in what.get("bad", {}).items()},
            "plain": {name: dump(value) for name, value in plain.items()},
            "state": scaler.state_dict(),
            "weights": {name: dump(value) for name, value in weights.items()},
        })  # fmt: skip
    out = {"torch": torch.__version__, "options": options, "start": {n: dump(v) for n, v in start.items()},
           "iterations": iterations}  # fmt: skip
    pathlib.Path(__file__).with_name("grad_scaler.json").write_text(json.dumps(out) + "\n")


if __name__ == "__main__":
    main()
