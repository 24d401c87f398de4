# SPDX-License-Identifier: Apache-2.0
"""A man in the middle between two hosts: each host sees him at the other's address, and he sees every byte.

Four network namespaces: host 0, host 1, and two of his own between them. The one that host 1 sees has host 0's address,
the other host 1's. They need root and iproute2.
"""
import contextlib
import ctypes
import os
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common"))
from hosts import Hosts, inside, run  # noqa: E402

FIRST_PORT, PORTS = 41000, 48  # the ports of host 0's programs: he has to listen there first
HELLO = 88  # bytes of the hello that opens a connection between ranks
LIBC = ctypes.CDLL(None, use_errno=True)
NEW_NETWORK = 0x40000000


def socket_of(name):
    """A socket of a network namespace; the calling thread stays in its own."""
    with open("/proc/thread-self/ns/net", encoding="utf-8") as own, open(f"/run/netns/{name}", encoding="utf-8") as other:
        if LIBC.setns(other.fileno(), NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            made = socket.socket()
        finally:
            LIBC.setns(own.fileno(), NEW_NETWORK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return made


class Way:
    """One direction of a connection that he relays."""

    def __init__(self, middle, calls):
        self.middle, self.calls = middle, calls  # calls: from the calling rank
        self.seen = bytearray()


class Middle(Hosts):
    """`change(way, piece)` returns the pieces to forward instead of the one received; None: he closes the connection.
    With `same_ports` the called rank sees the caller's own port, otherwise one of his."""

    def __init__(self, store_port, change=None, same_ports=True):
        super().__init__(2)
        self.store_port, self.change, self.same_ports = store_port, change, same_ports
        self.sides = [f"{self.tag}m0", f"{self.tag}m1"]  # the attacker as host 0, the attacker as host 1
        self.ways, self.ports, self.listeners = [], [], []

    def __enter__(self):
        for i, (host, side) in enumerate(zip(self.names, reversed(self.sides))):
            for name in (host, side):
                run("ip", "netns", "add", name)
                inside(name, "ip", "link", "set", "lo", "up")
            run("ip", "link", "add", "eth0", "netns", host, "type", "veth", "peer", "name", "eth0", "netns", side)
            for name, number in ((host, i), (side, 1 - i)):
                inside(name, "ip", "address", "add", f"{self.address(number)}/24", "dev", "eth0")
                inside(name, "ip", "link", "set", "eth0", "up")
        inside(self.names[0], "sysctl", "-qw", f"net.ipv4.ip_local_port_range={FIRST_PORT} {FIRST_PORT + PORTS - 1}")
        for port in (self.store_port, *range(FIRST_PORT, FIRST_PORT + PORTS)):
            listener = socket_of(self.sides[0])
            listener.bind((self.address(0), port))
            listener.listen(64)
            self.listeners.append(listener)
            threading.Thread(target=self.serve, args=(listener, port), daemon=True).start()
        return self

    def __exit__(self, *_):
        for listener in self.listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for name in [*self.names, *self.sides]:
            with contextlib.suppress(Exception):
                run("ip", "netns", "delete", name)

    def serve(self, listener, port):
        while True:
            try:
                caller, (_, own) = listener.accept()
            except OSError:
                return
            threading.Thread(target=self.relay, args=(caller, port, own), daemon=True).start()

    def relay(self, caller, port, own):
        try:
            called = self.call(port, own if self.same_ports and port != self.store_port else 0)
        except OSError:
            caller.close()
            return
        there, back = Way(self, True), Way(self, False)
        is_rank = port != self.store_port
        if is_rank:
            self.ports.append(port)
            self.ways += [there, back]
        threads = [threading.Thread(target=pump, args=(*ends, way if is_rank else None), daemon=True)
                   for *ends, way in ((caller, called, there), (called, caller, back))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        caller.close()
        called.close()

    def call(self, port, own=0):
        """A connection to a program of host 0, from the address of host 1."""
        called = socket_of(self.sides[1])
        called.settimeout(10)
        called.bind((self.address(1), own))
        called.connect((self.address(0), port))
        return called

    def has_seen(self, words):
        return any(words in bytes(way.seen) for way in self.ways)

    def wait_for_bytes(self, count, seconds=60):
        end = time.monotonic() + seconds
        while sum(len(way.seen) for way in self.ways) < count:
            assert time.monotonic() < end, "the ranks did not talk to each other: the trial proves nothing"
            time.sleep(0.02)


def pump(source, sink, way):
    """Relays until the end of `source`; bytes that he held back are then forwarded."""
    source.settimeout(None)
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            pieces = [piece]
            if way:
                way.seen += piece
                pieces = [piece] if way.middle.change is None else way.middle.change(way, piece)
            if pieces is None:
                break
            for part in pieces:
                sink.sendall(part)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def once(at, change, calls=True):
    """Changes only the first piece after this many bytes, in one direction."""
    done = []

    def decide(way, piece):
        if done or way.calls != calls or len(way.seen) < at:
            return [piece]
        done.append(True)
        return change(way, piece)

    decide.done = done
    return decide


def flip(_, piece):
    at = len(piece) // 2
    return [piece[:at], bytes([piece[at] ^ 4]), piece[at + 1:]]


def cut(_, piece):
    return [piece[:len(piece) // 3], piece[2 * len(piece) // 3:]]


def double(_, piece):
    return [piece, piece]


def turn_around(_, piece):
    return [piece[len(piece) // 2:], piece[:len(piece) // 2]]


def close(*_):
    return None
