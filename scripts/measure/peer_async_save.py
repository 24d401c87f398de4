#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves the captcha network and its AdamW with torch.distributed.checkpoint: how long a step waits for async_save, and how long
a load takes.

The first save allocates the staging buffers and does not count. Each save ends before the next begins.

example:
  scripts/measure/peer_async_save.py --peers peers FOLDER"""
import argparse
import json
import pathlib
import shutil
import statistics
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--process", action="store_true", help="write in a separate process instead of a thread")
    parser.add_argument("--keep", action="store_true", help="copy into persistent buffers in shared memory")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    sys.path.insert(0, str(args.peers.resolve()))
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from common import CaptchaNet

    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    model = CaptchaNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    kinds = dcp.state_dict_saver.AsyncCheckpointerType
    kind = kinds.PROCESS if args.process else kinds.THREAD
    kept = dcp.staging.StagingOptions(use_pinned_memory=False, use_shared_memory=True, use_async_staging=False,
                                      use_non_blocking_copy=False)
    stager = dcp.staging.DefaultStager(kept) if args.keep else None
    waits, wholes = [], []
    for _ in range(args.repeats + 1):
        shutil.rmtree(args.folder, ignore_errors=True)
        begin = time.perf_counter()
        saving = dcp.async_save(state, checkpoint_id=str(args.folder), async_checkpointer_type=kind,
                                async_stager=stager)
        waits.append(time.perf_counter() - begin)
        saving.result()
        wholes.append(time.perf_counter() - begin)
    loads = []
    for _ in range(args.repeats):
        begin = time.perf_counter()
        dcp.load(state, checkpoint_id=str(args.folder))
        loads.append(time.perf_counter() - begin)
    print(json.dumps({"bench": "async_save", "process": args.process, "keep": args.keep,
                      "stall_ms": statistics.median(waits[1:]) * 1e3, "whole_ms": statistics.median(wholes[1:]) * 1e3, "load_ms": statistics.median(loads) * 1e3}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
