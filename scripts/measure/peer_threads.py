#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads images like peers/loader.py, but with the threads of one process: decoding and torchvision's loops release the GIL.

PyTorch 2.14's DataLoader lacks this mode. The requesting thread collates the batches, with two batches per thread in flight.

example:
  scripts/measure/peer_threads.py FOLDER --workers 2 --gray"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import time


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--gray", action="store_true", help="gray, to tensor; else crop to 224, flip, normalise")
    return parser.parse_args()


def transform_of(gray: bool):
    import torchvision.transforms as T
    if gray:
        return T.Compose([T.Grayscale(), T.ToTensor()])
    return T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor(),
                      T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])


def main() -> None:
    args = parse()
    import torch
    from PIL import Image
    torch.set_num_threads(1)
    transform = transform_of(args.gray)
    paths = [os.path.join(d, f) for d, _, fs in os.walk(args.folder) for f in fs if f.lower().endswith((".png", ".jpg"))]

    def sample(path):
        image = Image.open(path)
        return transform(image if args.gray else image.convert("RGB"))

    def batch(part):
        return torch.stack([sample(path) for path in part])

    with concurrent.futures.ThreadPoolExecutor(args.workers) as pool:
        for epoch in range(args.epochs):
            begin, images, under_way = time.perf_counter(), 0, collections.deque()
            random.shuffle(paths)
            for part in [paths[i:i + args.batch] for i in range(0, len(paths), args.batch)]:
                under_way.append(pool.submit(batch, part))
                if len(under_way) > 2 * args.workers:
                    images += len(under_way.popleft().result())
            images += sum(len(each.result()) for each in under_way)
            print(json.dumps({"bench": "loader", "threads": args.workers, "epoch": epoch,
                              "images_per_s": images / (time.perf_counter() - begin)}), flush=True)


main()
