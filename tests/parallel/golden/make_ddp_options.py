#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Dumps the results of PyTorch's DistributedDataParallel over two Gloo processes, with each of its options, to ddp_options.json;
ddp_golden_test.cpp repeats them. Weights and inputs are waves and need no dump. It starts its
two processes itself; run it in that file's folder.

PyTorch 1.13's bf16_compress_hook is missing: its Gloo has no bfloat16."""
import json
import math
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
import torch.nn as nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as Ddp
from torch.utils.checkpoint import checkpoint

WORLD = 2


def wave(seed, *shape):
    count = math.prod(shape)
    return torch.tensor([0.5 * math.sin(0.3 + 37 * seed + 1.7 * i + 0.9 * i * i) for i in range(count)]).reshape(shape)


def fill(net):
    with torch.no_grad():
        for seed, value in enumerate(net.parameters()):
            value.copy_(wave(seed, *value.shape))
    return net


def batch(step, rank):
    return wave(100 * step + rank + 1, 5, 3)


def dump(value):
    if value is None:
        return None
    value = value.detach()
    value = value.to_dense() if value.is_sparse else value
    return {"shape": list(value.shape), "data": [float(f"{x:.8g}") for x in value.double().reshape(-1).tolist()]}


def gradients(net):
    return {name: dump(value.grad) for name, value in net.named_parameters()}


def weights(net):
    return {name: dump(value) for name, value in net.named_parameters()}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        self.branch = nn.Linear(3, 2)
        self.never = nn.Linear(2, 1)

    def forward(self, x, with_branch=False):
        y = self.head(torch.tanh(self.fc(x)))
        return y + self.branch(x) if with_branch else y


class Plain(Net):
    def __init__(self):
        super().__init__()
        del self.branch, self.never


class Repeated(nn.Module):
    """One layer in two recomputed segments, and one layer that is never used."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)
        self.never = nn.Linear(2, 1)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(lambda part: torch.tanh(self.fc(part)), x, use_reentrant=True)
        return self.head(x)


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        return self.norm(x)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 16)
        self.head = nn.Linear(16, 10, bias=False)

    def forward(self, x):
        return self.head(torch.tanh(self.fc(x)))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 3, sparse=True)
        self.head = nn.Linear(3, 2)

    def forward(self, indices):
        return self.head(self.words(indices))


def backward(output):
    output.square().mean().backward()


def find_unused(rank, zero):
    """Steps in which the branch is used only by rank 0, by no rank, and by both."""
    net = fill(Net())
    model = Ddp(net, find_unused_parameters=True)
    steps = []
    for step, users in enumerate([[0], [], [0, 1]]):
        if zero:
            net.zero_grad(set_to_none=True)
        backward(model(batch(step, rank), rank in users))
        steps.append(gradients(net))
    return steps


def static_graph(rank):
    net = fill(Repeated())
    model = Ddp(net, static_graph=True)
    steps = []
    for step in range(3):
        net.zero_grad(set_to_none=True)
        backward(model(batch(step, rank).requires_grad_()))
        steps.append(gradients(net))
    return steps


def plain(rank, **options):
    net = fill(Plain())
    model = Ddp(net, **options)
    steps = []
    for step in range(2):
        backward(model(batch(step, rank)))  # the second accumulates onto the first
        steps.append(gradients(net))
    return steps


def no_sync(rank):
    """Two local backwards, then a synced one; a forward inside no_sync() with its backward outside; and the other way round."""
    net = fill(Plain())
    model = Ddp(net)
    results = []
    with model.no_sync():
        backward(model(batch(0, rank)))
        backward(model(batch(1, rank)))
    results.append(gradients(net))
    backward(model(batch(2, rank)))
    results.append(gradients(net))
    net.zero_grad(set_to_none=True)
    with model.no_sync():
        output = model(batch(0, rank))
    backward(output)
    results.append(gradients(net))
    net.zero_grad(set_to_none=True)
    output = model(batch(0, rank))
    with model.no_sync():
        backward(output)
    results.append(gradients(net))
    return results


def buffers(rank):
    net = Normed()
    model = Ddp(net)
    steps = []
    for step in range(3):
        backward(model(batch(step, rank)))
        steps.append({"mean": dump(net.norm.running_mean), "var": dump(net.norm.running_var)})
    return steps


def fp16(rank):
    net = fill(Plain())
    model = Ddp(net)
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    steps = []
    for step in range(2):
        net.zero_grad(set_to_none=True)
        backward(model(batch(step, rank)))
        steps.append(gradients(net))
    return steps


def power_sgd(rank, approximation):
    """Two steps without compression, then three with it, from the same initial Q."""
    net = fill(Wide())
    model = Ddp(net)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=approximation, start_powerSGD_iter=2,
                                        min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    steps = []
    for step in range(5):
        if step == 2:  # buckets hold parameters in the order of arrival: head.weight, fc.weight
            shapes = [(net.head.weight.shape[1], approximation), (net.fc.weight.shape[1], approximation)]
            state.q_memory_dict[0] = torch.cat([wave(7 + i, *shape).reshape(-1) for i, shape in enumerate(shapes)])
            state.p_memory_dict[0] = torch.empty(sum(n * s[1] for n, s in zip((10, 16), shapes)))
        net.zero_grad(set_to_none=True)
        backward(model(wave(100 * step + rank + 1, 9, 12)))
        steps.append(gradients(net))
    return steps


def sparse(rank):
    net = fill(Words())
    model = Ddp(net)
    steps = []
    for step in range(2):
        net.zero_grad(set_to_none=True)
        indices = torch.tensor([1, 4, 4, 9] if rank == 0 else [4, 0])
        backward(model(indices + step))
        steps.append(gradients(net))
    return steps


def joined(rank, by_initial):
    net = fill(Plain())
    model = Ddp(net)
    with Join([model], divide_by_initial_world_size=by_initial):
        for step in range(3 if rank == 0 else 5):
            net.zero_grad(set_to_none=True)
            backward(model(batch(step, rank)))
            with torch.no_grad():
                for value in net.parameters():
                    value.sub_(value.grad, alpha=0.5)
    return weights(net)


def run(rank, meeting_point, result):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + meeting_point, rank=rank, world_size=WORLD)
    own = {
        "find_unused": find_unused(rank, True),
        "find_unused_accumulated": find_unused(rank, False),
        "static_graph": static_graph(rank),
        "own_gradients": plain(rank, gradient_as_bucket_view=False),
        "bucket_views": plain(rank, gradient_as_bucket_view=True),
        "no_sync": no_sync(rank),
        "buffers": buffers(rank),
        "fp16": fp16(rank),
        "power_sgd_1": power_sgd(rank, 1),
        "power_sgd_4": power_sgd(rank, 4),
        "sparse": sparse(rank),
        "join": joined(rank, True),
        "join_divided_by_active": joined(rank, False),
    }
    gathered = [None] * WORLD
    dist.all_gather_object(gathered, own)
    if rank == 0:
        out = {"torch": torch.__version__, "ranks": gathered}
        pathlib.Path(result).write_text(json.dumps(out) + "\n")
    dist.barrier()


def main():
    result = pathlib.Path(__file__).resolve().with_name("ddp_options.json")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(run, args=(os.path.join(folder, "meet"), str(result)), nprocs=WORLD)


if __name__ == "__main__":
    main()
