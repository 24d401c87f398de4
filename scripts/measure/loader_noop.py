#!/usr/bin/env python3
"""Times PyTorch's DataLoader on samples of one number each, to compare with `lockstep bench loader noop`.

Prints JSON lines with the same keys, one per epoch.

example:
  scripts/measure/compare.py --key us_per_sample --a 'lockstep bench loader noop --json' --b 'scripts/measure/loader_noop.py --workers 2'
"""
import argparse
import json
import sys
import time

try:
    import torch
    from torch.utils.data import DataLoader
except ModuleNotFoundError:
    torch = None


class Numbers:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return index


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--size", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    if torch is None:
        sys.exit("error: PyTorch is missing\n  next  apt-get install python3-torch, and run this with /usr/bin/python3")
    torch.set_num_threads(1)
    loader = DataLoader(Numbers(options.size), options.batch, shuffle=True, num_workers=options.workers,
                        persistent_workers=options.workers > 0)
    for epoch in range(options.epochs):
        begin = time.perf_counter()
        samples = sum(len(batch) for batch in loader)
        seconds = time.perf_counter() - begin
        print(json.dumps({"bench": "loader", "workers": options.workers, "epoch": epoch,
                          "images_per_s": samples / seconds, "us_per_sample": 1e6 * seconds / samples}), flush=True)


if __name__ == "__main__":
    main()
