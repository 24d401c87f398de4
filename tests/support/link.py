#!/usr/bin/env python3
"""A slow, high-latency or lossy wire between two network namespaces: two tun devices with this process between them.

Prints "up" once both ends have their addresses, forwards until its input ends, then prints the number of bytes carried.

example:
  link.py lsa 10.78.0.1 lsb 10.78.0.2 --delay-ms 2 --loss 0.01
  link.py lsa 10.78.0.1 lsb 10.78.0.2 --delay-ms 2 --mbit 100
"""
import argparse
import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN_NO_PI = 0x0001 | 0x1000
CLONE_NEWNET = 0x40000000
LIMIT = 1000  # packets in flight; more are dropped, as by a router
FRAME = 38  # bytes of Ethernet around a packet: preamble, header, checksum, gap


def open_tun(namespace: str, address: str) -> int:
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/var/run/netns/{namespace}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(there, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {namespace}")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN_NO_PI))
    for words in (["addr", "add", f"{address}/24", "dev", "wire"], ["link", "set", "wire", "up"],
                  ["link", "set", "lo", "up"]):
        subprocess.run(["ip", *words], check=True)
    libc.setns(home, CLONE_NEWNET)
    return tun


def limit(namespace: str, mbit: float) -> bool:
    """Lets the kernel send at this rate, which holds even on a busy machine; False if it cannot."""
    words = ["ip", "netns", "exec", namespace, "tc", "qdisc", "add", "dev", "wire", "root", "tbf", "rate", f"{mbit}mbit",
             "burst", "8k", "limit", str(LIMIT * 750), "overhead", str(FRAME)]
    with contextlib.suppress(FileNotFoundError):
        return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0
    return False


def forward(ends: list[int], delay: float, loss: float, rate: float) -> int:
    """`rate`: bytes per second in each direction; 0: no limit."""
    free = [0.0, 0.0]  # when each direction will have sent its packets
    draw = random.Random(1)
    waiting: list[tuple[float, int, int, bytes]] = []
    carried = number = 0
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select([*ends, sys.stdin], [], [], pause)
        if sys.stdin in ready:
            return carried
        for end in ready:
            packet = os.read(end, 65536)
            if draw.random() < loss or len(waiting) >= LIMIT:
                continue
            number += 1
            way = ends.index(end)
            free[way] = max(free[way], time.monotonic()) + ((len(packet) + FRAME) / rate if rate else 0)
            heapq.heappush(waiting, (free[way] + delay, number, ends[1 - way], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            carried += len(packet)
            try:
                os.write(end, packet)
            except BlockingIOError:
                pass  # a full device drops, like a wire


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ends", nargs=4, metavar="NAMESPACE ADDRESS")
    parser.add_argument("--delay-ms", type=float, default=0)
    parser.add_argument("--loss", type=float, default=0, help="share of packets")
    parser.add_argument("--mbit", type=float, default=0, help="line rate in each direction; 0: unlimited")
    given = parser.parse_args()
    if given.mbit:
        with contextlib.suppress(PermissionError):
            os.nice(-10)  # a line keeps its rate even on a busy machine
    ends = [open_tun(*given.ends[:2]), open_tun(*given.ends[2:])]
    by_kernel = given.mbit > 0 and all([limit(name, given.mbit) for name in given.ends[::2]])
    print("up", flush=True)
    print(forward(ends, given.delay_ms / 1000, given.loss, 0 if by_kernel else given.mbit * 1e6 / 8), flush=True)


main()
