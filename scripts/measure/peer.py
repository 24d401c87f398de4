#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a peer program at its best with this Python's PyTorch: fused optimizer, retained memory, autotuned kernels.

Peers were written for PyTorch 1.13 on CPUs. This adds the features of newer versions: the fused optimizers (on CPUs
since 2.4), with PEER_AUTOTUNE=1 torch.compile's mode max-autotune, and on a GPU NumPy arrays from the host, because
`.numpy()` rejects a device tensor. With PEER_CAPTURED=1 the whole step, including the optimizer's, is one CUDA graph, as on
PyTorch's page on CUDA graphs; the step may not query the GPU.

examples:
  scripts/measure/peer.py PEERS/detection_step.py --device cuda --bf16
  PEER_AUTOTUNE=1 PEERS/ranks 2 scripts/measure/peer.py PEERS/captcha_step.py --bf16 --channels-last --compile"""
import ctypes
import os
import pathlib
import runpy
import sys

INT_MAX = 2**31 - 1


def keep_freed_memory() -> None:
    """Configures malloc like Lockstep: freed memory stays with the process. See docs/design/step.md."""
    for name, value in ((-4, 0), (-1, INT_MAX), (-2, 64 << 20), (-8, 1)):  # M_MMAP_MAX, M_TRIM_THRESHOLD, M_TOP_PAD, M_ARENA_MAX
        ctypes.CDLL(None).mallopt(name, value)


def move_arrays(torch) -> None:
    to_numpy, from_numpy = torch.Tensor.numpy, torch.from_numpy
    torch.Tensor.numpy = lambda tensor, **options: to_numpy(tensor.detach().cpu(), **options)
    torch.from_numpy = lambda array: from_numpy(array).to("cuda")


def fuse_optimizers(torch, captured: bool) -> None:
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        more = {"foreach": None, "fused": True} | ({"capturable": True} if captured and kind is not torch.optim.SGD else {})

        def fused(self, *words, plain=kind.__init__, more=more, **options):
            plain(self, *words, **(options | more))

        kind.__init__ = fused


def capture_steps(torch) -> None:
    """The peers' common.median_seconds, for a graph replay and the wait for it instead of the step."""
    import common
    plain, wait = common.median_seconds, torch.cuda.synchronize

    def median_seconds(step, repeats, warmup=2):
        torch.cuda.synchronize = lambda *_: None
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(11):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()

        def replay():
            graph.replay()
            wait()

        return plain(replay, repeats, warmup)

    common.median_seconds = median_seconds


def autotune(torch) -> None:
    plain = torch.compile
    torch.compile = lambda model, **options: plain(model, **({"mode": "max-autotune"} | options))


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 64)
    sys.argv = sys.argv[1:]
    on_gpu = "cuda" in sys.argv
    captured = on_gpu and os.environ.get("PEER_CAPTURED") == "1"
    if not on_gpu:
        keep_freed_memory()
    import torch
    if on_gpu:
        move_arrays(torch)
    if on_gpu or tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 4):
        fuse_optimizers(torch, captured)
    if os.environ.get("PEER_AUTOTUNE") == "1":
        autotune(torch)
    sys.path.insert(0, str(pathlib.Path(sys.argv[0]).resolve().parent))
    if captured:
        capture_steps(torch)
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
