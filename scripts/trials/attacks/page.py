"""Strangers at the live page and at /metrics: requests before the token, and hostile run folders.

Each trial is a function of the bench (see scripts/trials/attack) and raises AssertionError if its attack succeeds.
"""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import socket
import subprocess
import threading
import time

from attacks.net import started
from runs import free_port

MOST_BYTES = 100e6  # the server's memory limit
ENDLESS = 72 << 20  # bytes of an endless request


@contextlib.contextmanager
def page(bench, *runs):
    """(process, port, token) of lockstep-dashboard."""
    with started(bench, "lockstep-dashboard", *runs) as process:
        yield process, *address_of(process.stdout)


def address_of(output):
    for line in output:
        found = re.search(rb"http://127.0.0.1:(\d+)/[?#]token=(\w+)", line)
        if found:
            return int(found[1]), found[2].decode()
    raise AssertionError("no address was printed")


def make_run(bench):
    run = bench.folder / "run"
    (run / "logs/attempt_0/rank-0").mkdir(parents=True)
    (run / "logs/attempt_0/rank-1").mkdir()
    (run / "log.jsonl").write_text('{"event": "step", "step": 1, "loss": 0.5}\n')
    (run / "config.yml").write_text("init_from: https://ann:s3cret@h/a.pth?sig=s3cret\n")
    return run


def memory(process):
    text = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", text)[1])


def ask(port, path, headers=None, method="GET", patience=5.0):
    """(status, headers, body)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience)
    try:
        connection.request(method, path, headers=headers or {})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), reply.read()
    finally:
        connection.close()


def with_token(token):
    return {"Authorization": f"Bearer {token}"}


def flood(port, begin, more):
    """Sends an endless request until the server accepts no more. Returns the number of bytes sent."""
    sent = 0
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(begin)
        while sent < ENDLESS:
            connection.sendall(more)
            sent += len(more)
    return sent


@contextlib.contextmanager
def drippers(port, count):
    """Connections that send a character now and then, and reconnect when they are closed."""
    ends = threading.Event()

    def drip(share):
        connections = []
        while not ends.wait(0.1):
            for connection in list(connections):
                try:
                    connection.sendall(b"a")
                except OSError:
                    connections.remove(connection)
            while len(connections) < share:
                with contextlib.suppress(OSError):
                    connections.append(socket.create_connection(("127.0.0.1", port), timeout=1))
                    connections[-1].sendall(b"GET / HTTP/1.1\r\nA: ")
                if ends.is_set():
                    break
        for connection in connections:
            connection.close()

    threads = [threading.Thread(target=drip, args=(count // 4,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    try:
        yield
    finally:
        ends.set()
        for thread in threads:
            thread.join()


def alive(process, port, path="/", headers=None):
    assert process.poll() is None, f"the server ended with {process.returncode}"
    began = time.monotonic()
    status, _, body = ask(port, path, headers, patience=3)
    assert status == 200, f"status {status}"
    took = time.monotonic() - began
    assert took < 1, f"the owner waited {took:.1f} s"
    return body


def the_page_reads_no_endless_request(bench):
    line = b"a" * 4000
    with page(bench, make_run(bench)) as (process, port, token):
        for begin, more in ((b"GET / HTTP/1.1\r\n", (line + b": b\r\n") * 16), (b"GET /", line * 16),
                            (b"GET / HTTP/1.1\r\nA: ", line * 16), (b"", b"\r\n" * 30000),
                            (b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", b"1000\r\n" + b"a" * 4096 + b"\r\n")):
            sent = flood(port, begin, more)
            assert sent < ENDLESS / 2, f"{sent / 1e6:.0f} MB of {begin!r} were read"
            alive(process, port, "/api/runs", with_token(token))
        assert memory(process) < MOST_BYTES, f"{memory(process) / 1e6:.0f} MB"


def the_page_serves_no_ranges(bench):
    with page(bench, make_run(bench)) as (process, port, token):
        for ranges in ("0-" + ",-" * 3000, "0-1," * 3000 + "2-3", "-1", "9-1", "0-18446744073709551616"):
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, headers, _ = ask(port, "/", {"Range": f"bytes={ranges}", **with_token(token)})
                assert status in (200, 400, 413, 431) and "Content-Range" not in headers, (status, headers)
            alive(process, port, "/api/runs", with_token(token))
        assert memory(process) < MOST_BYTES


def the_owner_sees_the_page_though_strangers_drip(bench):
    for count in (20, 200):
        with page(bench, bench.folder if count == 200 else make_run(bench)) as (process, port, token):
            with drippers(port, count):
                for _ in range(5):
                    alive(process, port, "/")
                    alive(process, port, "/api/runs", with_token(token))
                assert memory(process) < MOST_BYTES
                process.terminate()
                began = time.monotonic()
                process.wait(20)
                took = time.monotonic() - began
                assert took < 2, f"SIGTERM was obeyed after {took:.1f} s"


def a_stream_of_the_owner_outlives_strangers(bench):
    with page(bench, make_run(bench)) as (process, port, token):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3)
        connection.request("GET", "/api/events", headers=with_token(token))
        reply = connection.getresponse()
        assert reply.status == 200, reply.status
        with drippers(port, 100):
            for _ in range(10):
                assert b"event: moment" in reply.read1(65536)
        connection.close()


def no_request_without_the_token_sees_a_run(bench):
    pick = random.Random(52)
    paths = ["/api/runs", "/api/run/0/state", "/api/run/0/live", "/api/run/0/log?attempt=0&rank=0", "/api/events", "/api/run/0/curve",
             "/api//runs", "//api/runs", "/api/run/0/state%00", "/%61pi/runs", "/api/run/0/picture?name=a.png", "/api/run/-1/state",
             "/assets/../api/runs", "/api/run/0/timeline", "/api/run/0/network", "/network/../api/run/0/state"]
    with page(bench, make_run(bench)) as (process, port, token):
        wrong = [{}, {"Authorization": "Bearer "}, {"Authorization": f"Bearer {token[:-1]}"}, {"Authorization": f"Bearer {token}0"},
                 {"Authorization": f"Basic {token}"}, {"Cookie": f"lockstep_{port}={token[::-1]}"}, {"Cookie": f"lockstep_{port}={token}"},
                 {"Host": "evil.example", **with_token(token)}, {"Origin": "http://evil.example", **with_token(token)},
                 {"Host": "127.0.0.1.evil.example", **with_token(token)}, {"X-Forwarded-Host": "localhost"}]
        for _ in range(500):
            path, headers = pick.choice(paths), pick.choice(wrong)
            method = pick.choice(["GET", "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"])
            path += pick.choice(["", f"{'&' if '?' in path else '?'}token={token}"])
            status, answered, body = ask(port, path, headers, method)
            assert status in (400, 401, 403), f"{method} {path} {headers}: {status} {body[:200]!r}"
            assert b"loss" not in body and "Set-Cookie" not in answered, f"{method} {path} {headers}: {answered}"
        for path in ("/", f"/?token={token}"):
            assert "Set-Cookie" not in ask(port, path, {})[1], "a cookie, which servers on other ports also receive"
        alive(process, port, "/api/run/0/state", with_token(token))


def a_link_in_a_run_folder_shows_nothing(bench):
    run = make_run(bench)
    for name in ("logs/attempt_0/rank-0/stderr.log", "summary.json", "a.png", "model.onnx"):
        (run / name).symlink_to("/etc/passwd")
    (bench.folder / "else/rank-0").mkdir(parents=True)
    (bench.folder / "else/rank-0/stderr.log").write_text("root:x")
    (run / "logs/attempt_1").symlink_to(bench.folder / "else")
    (run / "logs/attempt_0/rank-7").symlink_to(bench.folder / "else/rank-0")
    os.mkfifo(run / "logs/attempt_0/rank-1/stderr.log")
    with page(bench, run) as (process, port, token):
        # An old server requires a cookie.
        headers = {"Cookie": f"lockstep_{port}={token}", **with_token(token)}
        for attempt, rank in ((0, 0), (0, 1), (0, 7), (1, 0)):
            body = alive(process, port, f"/api/run/0/log?attempt={attempt}&rank={rank}&stream=stderr", headers)
            assert b"root:" not in body, f"attempt {attempt}, rank {rank}: {body[:200]!r}"
        state = alive(process, port, "/api/run/0/state", headers)
        assert b"root:" not in state and b"a.png" not in state
        assert json.loads(state)["network"] is None and ask(port, "/api/run/0/network", headers)[0] == 404
        assert b"s3cret" not in state, "the user, password or query of a URL"
        assert json.loads(state)["settings"][0]["value"].startswith("https://***@h/a.pth")


def the_launcher_waits_for_no_page(bench):
    """lockstep run --dashboard | cat, with both streams in the pipe."""
    port = free_port()
    words = [bench.program("lockstep"), "run", "--dashboard", str(port), "--log-dir", "logs", "--", "sleep", "4"]
    process = subprocess.Popen(words, cwd=bench.folder, env=bench.environment({}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL)
    address_of(process.stdout)
    with drippers(port, 40):
        process.wait(30)
        began = time.monotonic()
        os.set_blocking(process.stdout.fileno(), False)
        while process.stdout.read() != b"" and time.monotonic() - began < 10:  # b"": no process has the pipe any more
            time.sleep(0.05)
        took = time.monotonic() - began
    assert took < 2, f"the pipe stayed open for {took:.1f} s after the run"
    assert process.returncode == 0, process.returncode


def metrics_are_there_though_strangers_drip(bench):
    made = bench.lockstep("generate", "captcha", "--out", "data", "--count", "64", "--seed", "1", "--charset", "0-9", "--length", "2",
                          "--width", "48", "--height", "20")
    assert made.returncode == 0, made.told()
    port = free_port()
    words = ["lockstep", "train", "captcha:digits", "--nproc-per-node", "1", "--run-dir", "run", "--metrics", str(port)]
    for setting in ("data.train=data", "data.length=2", "data.width=48", "data.height=20", "model.type=conv3", "max_steps=1000000",
                    "epochs=1000000", "batch_size=8"):
        words += ["--set", setting]
    with started(bench, *words) as process:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        with drippers(port, 60):
            for _ in range(3):
                assert b"lockstep" in alive(process, port, "/metrics")
            flood(port, b"GET / HTTP/1.1\r\n", (b"a" * 4000 + b": b\r\n") * 16)
            alive(process, port, "/metrics")


TRIALS = [("page", the_page_reads_no_endless_request, 2), ("page", the_page_serves_no_ranges, 2),
          ("page", the_owner_sees_the_page_though_strangers_drip, 2), ("page", a_stream_of_the_owner_outlives_strangers, 2),
          ("page", no_request_without_the_token_sees_a_run, 2), ("page", a_link_in_a_run_folder_shows_nothing, 3),
          ("page", the_launcher_waits_for_no_page, 2), ("page", metrics_are_there_though_strangers_drip, 1)]
