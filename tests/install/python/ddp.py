"""A typical Python program for torchrun: DistributedDataParallel on every rank, over Gloo.

--die RANK: that rank exits with 3 after the first step, while the others wait for it."""
import argparse
import os
import sys

import torch
import torch.distributed as dist


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--die", type=int, default=-1)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5):
        loss = (model(torch.ones(8, 4) * (1 + rank)) - 3).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == arguments.die:
            print("no more", file=sys.stderr, flush=True)
            os._exit(3)
    weights = sum(parameter.double().sum().item() for parameter in model.parameters())
    print(f"rank {rank} of {dist.get_world_size()}: {weights:.12f} by {sys.executable}")
    dist.destroy_process_group()


main()
