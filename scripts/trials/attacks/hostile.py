"""A squatter on node 0's port, and a hostile holder of a run's token.

A holder of the token can end the run. It cannot crash or fill node 0, speak for another node, or leave any node waiting
without a message.
"""
import contextlib
import json
import os
import pathlib
import secrets
import socket
import ssl
import struct
import subprocess
import threading
import time

from attacks.net import answer, connect, end_of, frame, node, shake_hands, string
from runs import free_port

MIB = 1 << 20
LIMIT_S = 3


# ---- a squatter: another process has the port of node 0 ----

class Squatter:
    """Takes a port, gives each connection to `serve`, and keeps the received bytes."""

    def __init__(self, serve):
        self.heard, self.count, self.serve = bytearray(), 0, serve
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        client.settimeout(20)
        with client, contextlib.suppress(OSError, ssl.SSLError):
            self.serve(self, client)

    def read(self, client):
        data = client.recv(4096)
        self.heard += data
        return data


def silent(squatter, client):
    while squatter.read(client):
        pass


def garbage(squatter, client):
    squatter.read(client)
    client.sendall(os.urandom(4096))


def endless(squatter, client):
    squatter.read(client)
    while True:
        client.sendall(b"\0\1\0\0" * 16384)


def impostor(squatter, client):
    """Impersonates the store without the token: a nonce, then the client's own proof sent back as its own."""
    squatter.read(client)
    client.sendall(frame(0, string(os.urandom(32))))
    said = squatter.read(client)
    client.sendall(frame(0, said[5:]))
    squatter.read(client)


def certificate(folder, name):
    files = [str(pathlib.Path(folder) / f"{name}.{end}") for end in ("crt", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", f"/CN={name}", "-keyout", files[1], "-out", files[0]], check=True, capture_output=True)
    return files


def encrypting(own):
    """Lets the knock pass, and presents its own certificate."""
    def serve(squatter, client):
        squatter.read(client)
        client.sendall(frame(0, string(os.urandom(32))))
        squatter.read(client)
        client.sendall(frame(0, string(b"")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*own)
        with context.wrap_socket(client, server_side=True) as inner:
            squatter.heard += inner.recv(4096)
    return serve


def node_at(bench, squatter, token, **variables):
    """Exit code, output and seconds of a node 1 that meets the squatter."""
    begin = time.monotonic()
    words = ("lockstep", "run", "--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", "--master-port",
             str(squatter.port), "--", "true")
    done = bench.run(words, timeout=40, env={"LOCKSTEP_TOKEN": token, "LOCKSTEP_TIMEOUT": str(LIMIT_S), **variables})
    return done.returncode, done.stderr, time.monotonic() - begin


def a_squatter_gets_no_secret_and_is_named(bench):
    token, tls = secrets.token_hex(32), certificate(bench.folder, "store")
    other = certificate(bench.folder, "squatter")
    secure = {"LOCKSTEP_TLS_CERT": tls[0]}
    tries = [(silent, {}, 76, "sends nothing"), (garbage, {}, 76, "does not answer as a Lockstep store"),
             (endless, {}, 76, "does not answer as a Lockstep store"), (impostor, {}, 64, "does not know this program's token"),
             (silent, secure, 76, "sends nothing"), (garbage, secure, 76, "does not answer as a Lockstep store"),
             (impostor, secure, 76, "encryption is requested"), (encrypting(other), secure, 64, "not be verified")]
    for serve, variables, code, words in tries:
        squatter = Squatter(serve)
        ended, said, took = node_at(bench, squatter, token, **variables)
        squatter.listener.close()
        name = f"{serve.__name__}{' with TLS' if variables else ''}"
        assert ended == code and words in said, f"{name}: it ended with {ended}: {said}"
        assert said.count("error:") == 1 and str(squatter.port) in said, f"{name}: {said}"
        assert took < LIMIT_S + 5, f"{name}: it took {took:.0f} s"
        assert squatter.count and token.encode() not in squatter.heard, f"{name}: the token left the node"


def a_squatter_keeps_node_0_from_its_port_by_name(bench):
    token = secrets.token_hex(32)
    squatter = Squatter(silent)
    with node(bench, 0, squatter.port, token, "true") as first:
        code, said = end_of(first, 20)
    squatter.listener.close()
    assert code == 64 and f"127.0.0.1:{squatter.port} is already in use by " in said, f"it ended with {code}: {said}"


def who_relays_to_the_store_gets_no_encrypted_word(bench):
    """Sits between node 1 and the store: it forwards everything, and reads it."""
    token, (crt, key) = secrets.token_hex(32), certificate(bench.folder, "store")
    port, secure = free_port(), {"LOCKSTEP_TLS_CERT": crt}

    def relay(squatter, client):
        with connect(port) as store:
            def back():
                with contextlib.suppress(OSError):
                    while data := store.recv(4096):
                        squatter.heard += data
                        client.sendall(data)
            threading.Thread(target=back, daemon=True).start()
            while data := squatter.read(client):
                store.sendall(data)

    squatter = Squatter(relay)
    with node(bench, 0, port, token, "sh", "-c", "echo $RANK", LOCKSTEP_TLS_KEY=key, **secure) as first:
        with node(bench, 1, squatter.port, token, "sh", "-c", "echo $RANK", **secure) as second:
            code, said = end_of(second, 30)
            assert code == 0, f"a mere relay made a node fail: {said}"
        assert end_of(first, 30)[0] == 0
    squatter.listener.close()
    assert token.encode() not in squatter.heard and b"lockstep/nodes" not in squatter.heard, "the relay saw plain text"


# ---- a node that holds the token ----

@contextlib.contextmanager
def member(port, token):
    with connect(port) as connection:
        assert shake_hands(connection, token.encode()), "the trial's own handshake fails"
        yield connection


def ask(connection, verb, *fields):
    connection.sendall(frame(verb, *fields))
    return answer(connection)


def number(value):
    return struct.pack("<q", value)


def said_to(port, token, *request):
    with member(port, token) as connection:
        return ask(connection, *request)


@contextlib.contextmanager
def two_nodes(bench, *program, **variables):
    port, token = free_port(), secrets.token_hex(32)
    with node(bench, 0, port, token, *program, **variables) as first:
        with node(bench, 1, port, token, *program, **variables) as second:
            yield port, token, (first, second)


def all_run(bench, count=2):
    end = time.monotonic() + 20
    while len(list(pathlib.Path(bench.folder).glob("here-*"))) < count:
        assert time.monotonic() < end, "the ranks did not start"
        time.sleep(0.02)


HERE = ("sh", "-c", "touch here-$RANK; while [ ! -e go ]; do sleep 0.05; done")


def who_holds_the_token_speaks_for_no_other_node(bench):
    """Others' events, orders to others, and keys that others wait for: all are rejected, and the run succeeds."""
    with two_nodes(bench, *HERE) as (port, token, nodes):
        all_run(bench)
        for number_of_event in range(1, 6):
            reply = said_to(port, token, 3, string(b"lockstep/nodes/events/%d" % number_of_event))
            assert reply and reply[0] == 4, f"it read what agents tell the coordinator: {reply}"
        forged = [(2, string(b"lockstep/nodes/events/9"), string(b"{}")), (8, string(b"lockstep/nodes/events/2")),
                  (5, string(b"lockstep/nodes/events/count"), number(1000)), (2, string(b"lockstep/nodes/present"), string(b"x")),
                  (12, string(b"lockstep/nodes/orders/a/"), string(b'{"order": "end", "code": 0}')),
                  (10, number(-1), struct.pack("<I", 1) + string(b"lockstep/nodes/events/3"), string(b"w"))]
        for request in forged:
            reply = said_to(port, token, *request)
            assert reply and reply[0] == 4, f"{request} was carried out: {reply}"
        for words in (b"closed\nn1", b"silent\n" + b"0" * 32, b'{"event": "left", "signal": 15, "node": {"id": "%s"}}' % (b"0" * 32)):
            assert said_to(port, token, 12, string(b"lockstep/nodes/events/"), string(words))[0] == 0
        time.sleep(0.5)
        assert all(each.poll() is None for each in nodes), "a forged message ended a node"
        (pathlib.Path(bench.folder) / "go").touch()
        for each in nodes:
            code, said = end_of(each, 30)
            assert code == 0, said


def messages_of_no_measure_harm_nobody(bench):
    """Deep, long, torn and absurd events, and endless joins, while a run continues."""
    def join(name, **more):
        described = {"id": name, "host": "h", "wish": 1, "processes": 1, "min_nodes": 2, "max_nodes": 2, **more}
        return json.dumps({"event": "joined", "node": described}).encode()

    deep = b"[" * 200_000 + b"]" * 200_000
    events = [deep, b'{"event": "joined", "node": %s}' % deep, b'{"event": "ended", "end": {"cause": %s}}' % deep,
              b'{"event": "joined", "node": {"id": "d", "peers": %s}}' % deep, b"[" * 200_000, b'{"event":' * 100_000, b'{"event": "joined", "node": ' + b'{"a":' * 100_000, b"", b"\n", b"{}", b"\xff" * 1000,
              join("x", processes=2 ** 40), join("y", processes=-5), join("z" * 100_000), join("v", host="\x1b[2J" * 1000),
              join("w", peers=["p" * 1000] * 10_000), join("u", last_round=1_000_000, restarts=1_000_000),
              b"x" * (8 * MIB), b'{"event": "ended", "node": {"id": "n"}, "end": {"code": 256, "is_success": true}}']
    with two_nodes(bench, *HERE) as (port, token, nodes):
        all_run(bench)
        with member(port, token) as connection:
            for words in [*events, *(join(f"crowd-{i}") for i in range(1200))]:
                reply = ask(connection, 12, string(b"lockstep/nodes/events/"), string(words))
                assert reply and reply[0] == 0, f"an event of {len(words)} bytes: {reply}"
        time.sleep(1)
        assert all(each.poll() is None for each in nodes), "an event ended a node"
        (pathlib.Path(bench.folder) / "go").touch()
        for each in nodes:
            code, said = end_of(each, 30)
            assert code == 0 and "\x1b" not in said, said


def resident(pid, field="VmRSS"):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split(f"{field}:")[1].split()[0]) / 1024


def floods_of_the_store_are_bounded(bench):
    """Values, claimed sizes, waits, and unread replies: node 0's memory stays bounded, and it survives."""
    with two_nodes(bench, *HERE) as (port, token, nodes), contextlib.ExitStack() as stack:
        all_run(bench)
        large = b"x" * (60 * MIB)
        with member(port, token) as connection:
            replies = [ask(connection, 2, string(b"flood/%d" % i), string(large))[0] for i in range(12)]
        assert replies[-1] == 7 and replies[0] == 0, f"it kept {len(replies)} values of 60 MiB: {replies}"
        held = resident(nodes[0].pid)
        claims = [stack.enter_context(member(port, token)) for _ in range(100)]
        for claim in claims:
            claim.sendall(struct.pack("<I", 64 * MIB) + b"\2")
        time.sleep(0.5)
        grown = resident(nodes[0].pid) - held
        assert grown < 200, f"a hundred announced messages of 64 MiB took {grown:.0f} MB"
        with member(port, token) as connection:
            reply = ask(connection, 7, number(10 ** 15), struct.pack("<I", 10_000_000) + b"\0" * 40_000_000)
            assert reply and reply[0] == 4, f"a wait for ten million keys: {reply}"
        for _ in range(30):  # never read
            reader = stack.enter_context(member(port, token))
            with contextlib.suppress(OSError):
                reader.sendall(frame(3, string(b"flood/0")))
        time.sleep(2)
        assert all(each.poll() is None for each in nodes), "the flood ended a node"
        peak = resident(nodes[0].pid, "VmHWM")
        print(f"  node 0 took at most {peak:.0f} MB")
        assert peak < 2500, f"node 0 grew to {peak:.0f} MB"
        (pathlib.Path(bench.folder) / "go").touch()
        for each in nodes:
            code, said = end_of(each, 30)
            assert code in (0, 69), said


def a_second_node_of_one_rank_is_refused_by_name(bench):
    with two_nodes(bench, *HERE, LOCKSTEP_TIMEOUT="4") as (port, token, nodes):
        all_run(bench)
        with node(bench, 1, port, token, "true") as again:
            code, said = end_of(again, 40)
        assert code == 64 and "two agents have --node-rank 1" in said, f"it ended with {code}: {said}"
        assert all(each.poll() is None for each in nodes), "the second node ended a node of the run"
        (pathlib.Path(bench.folder) / "go").touch()
        for each in nodes:
            assert end_of(each, 30)[0] == 0


TRIALS = [
    ("squatter", a_squatter_gets_no_secret_and_is_named, 1),
    ("squatter", a_squatter_keeps_node_0_from_its_port_by_name, 1),
    ("squatter", who_relays_to_the_store_gets_no_encrypted_word, 1),
    ("member", who_holds_the_token_speaks_for_no_other_node, 1),
    ("member", messages_of_no_measure_harm_nobody, 1),
    ("member", floods_of_the_store_are_bounded, 1),
    ("member", a_second_node_of_one_rank_is_refused_by_name, 1),
]
