"""Strangers at a run's doors: the store, the ranks' socket, rendezvous files, and their output on consoles.

Each trial is a function of the bench (see scripts/trials/attack) and raises AssertionError if its attack succeeds.
"""
import contextlib
import hmac
import os
import pathlib
import resource
import secrets
import socket
import stat
import struct
import subprocess
import threading
import time

from runs import free_port

STRANGERS = 3000
STORM_SECONDS = float(os.environ.get("LOCKSTEP_STORM_SECONDS", "60"))
STORM_JOINS = 1000  # a second
STORM_THREADS = 4
ESCAPE = "\x1b"


# ---- programs that run during the attack ----

@contextlib.contextmanager
def started(bench, *words, files=None, umask=None, **variables):
    """A program of the bench with its output in a pipe; killed by its own process id if it is still running."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LOCKSTEP_", "RANK", "WORLD"))}
    environment.update({"TMPDIR": str(bench.folder), "OMP_NUM_THREADS": "1", "LOCKSTEP_TIMEOUT": "60", **variables})

    def prepare():
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        if umask is not None:
            os.umask(umask)

    program = str(pathlib.Path(bench.programs) / words[0])
    process = subprocess.Popen([program, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, env=environment, cwd=bench.folder, preexec_fn=prepare)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def end_of(process, limit):
    """Exit code and output; a program that takes too long has failed."""
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired as late:
        raise AssertionError(f"it did not finish within {limit} s") from late
    return process.returncode, output.decode(errors="surrogateescape")


def node(bench, rank, port, token, *program, **more):
    words = ("lockstep", "run", "--nnodes", "2", "--node-rank", str(rank), "--rdzv-id", "job-7", "--master-addr",
             "127.0.0.1", "--master-port", str(port), "--", *program)
    return started(bench, *words, LOCKSTEP_TOKEN=token, **more)


def connect(port, patience=20.0):
    """A connection to a store that may not be listening yet."""
    end = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


# ---- the store's wire (docs/formats/store.md) ----

def string(value):
    return struct.pack("<I", len(value)) + value


def frame(verb, *fields):
    body = bytes([verb]) + b"".join(fields)
    return struct.pack("<I", len(body)) + body


def read_exactly(connection, count):
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return data


def answer(connection):
    """(status, rest) of the next frame; None if the server closed."""
    try:
        header = read_exactly(connection, 4)
        body = read_exactly(connection, struct.unpack("<I", header)[0]) if header else None
    except (ConnectionError, TimeoutError):
        return None
    return (body[0], body[1:]) if body else None


def shake_hands(connection, token):
    """True if the server lets us in."""
    nonce = os.urandom(32)
    connection.sendall(frame(1, string(b"lockstep-store/3"), string(nonce)))
    reply = answer(connection)
    if reply is None or reply[0] != 0:
        return False
    words = b"lockstep-store/3 client " + nonce + reply[1][4:]
    connection.sendall(frame(9, string(hmac.digest(token, words, "sha256"))))
    reply = answer(connection)
    return reply is not None and reply[0] == 0


class Tap:
    """Forwards one port to another and keeps the clients' bytes."""

    def __init__(self, target):
        self.target = target
        self.heard = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = connect(self.target)
            except OSError:
                client.close()
                continue
            said = bytearray()
            self.heard.append(said)
            threading.Thread(target=self._pump, args=(client, server, said), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def _pump(source, sink, said):
        source.settimeout(None)
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                said += piece
                sink.sendall(piece)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


# ---- store ----

def several_nodes_need_a_secret(bench):
    done = bench.run(["lockstep", "run", "--nnodes", "2", "--rdzv-id", "job-7", "--master-port", str(free_port()),
                      "true"], timeout=30, env={"LOCKSTEP_TOKEN": "", "LOCKSTEP_TIMEOUT": "5"})
    assert done.returncode == 64, f"it ended with {done.returncode}: the job's name opened its store"
    assert "--token-file" in done.stderr, "the error does not say how to pass a secret"


def guessed_secrets_open_nothing(bench):
    port, token = free_port(), secrets.token_hex(32)
    with node(bench, 0, port, token, "sh", "-c", "true") as first:
        for guess in (b"job-7", b"none", b"", b"127.0.0.1", token[:-1].encode(), token.upper().encode() + b"\0"):
            with connect(port) as stranger:
                assert not shake_hands(stranger, guess), f"the token {guess!r} was accepted"
            with connect(port) as stranger:  # the token in the clear, as in version 1
                stranger.sendall(frame(1, string(b"lockstep-store/1"), string(guess)))
                reply = answer(stranger)
                assert reply is None or reply[0] != 0, "a client of version 1 was accepted"
            with connect(port) as stranger:
                stranger.sendall(frame(2, string(b"lockstep/failure/first"), string(b"{}")))
                assert answer(stranger) is None, "a request before the handshake was answered"
        with node(bench, 1, port, token, "sh", "-c", "true") as second:
            assert end_of(second, 30)[0] == 0
        assert end_of(first, 30)[0] == 0


def an_overheard_handshake_opens_nothing(bench):
    port, token = free_port(), secrets.token_hex(32)
    with node(bench, 0, port, token, "sh", "-c", "sleep 60"):
        tap = Tap(port)
        with node(bench, 1, tap.port, token, "sh", "-c", "sleep 60"):
            time.sleep(2)
            assert tap.heard, "nothing was overheard: the trial proves nothing"
            for said in list(tap.heard):
                assert token.encode() not in said, "the token crossed the wire"
                with connect(port) as stranger:
                    stranger.sendall(bytes(said[:4 + struct.unpack("<I", said[:4])[0] + 41]))
                    answer(stranger)
                    reply = answer(stranger)
                    assert reply is None or reply[0] != 0, "the replayed handshake opened the store"
        tap.listener.close()


def garbage_ends_only_its_own_connection(bench):
    port, token = free_port(), secrets.token_hex(32)
    random = __import__("random").Random(7)
    with node(bench, 0, port, token, "sh", "-c", "true") as first:
        for _ in range(300):
            with connect(port) as stranger:
                with contextlib.suppress(OSError):
                    words = random.randbytes(random.randrange(1, 400))
                    stranger.sendall(words if random.random() < 0.5 else frame(random.randrange(12), words[:200]))
        with node(bench, 1, port, token, "sh", "-c", "true") as second:
            assert end_of(second, 30)[0] == 0
        code, said = end_of(first, 30)
        assert code == 0, said
        assert said.count("warn:") < 12, "a line for each stranger"


def poisoned_words_steer_no_terminal(bench):
    """A member of the job sets the first failure, with terminal control sequences in it."""
    port, token = free_port(), secrets.token_hex(32)
    poison = (b'{"rank": 5, "host": "\\u001b[2Jhost\\r", "what": "\\u001b]0;owned\\u0007 \\u009b31m of '
              b'https://ann:s3cret@h/x?token=tok3n"}')
    prefix = bench.folder / "prefix"
    rank = ("sh", "-c", f'printf %s "$LOCKSTEP_STORE_PREFIX" > {prefix}; sleep 30')
    with node(bench, 0, port, token, *rank) as first:
        with node(bench, 1, port, token, *rank) as second:
            time.sleep(1)
            with connect(port) as member:
                assert shake_hands(member, token.encode()), "the trial's own handshake fails"
                member.sendall(frame(2, string(prefix.read_bytes() + b"lockstep/failure/first"), string(poison)))
                answer(member)
            for process in (first, second):
                code, said = end_of(process, 40)
                assert code != 0, f"the failure was ignored: {said}"
                assert not any(c in said for c in (ESCAPE, "\x07", "\x9b", "\r")), f"an escape was printed: {said!r}"
                assert "s3cret" not in said and "tok3n" not in said, said


# ---- handshake ----

def thousands_of_silent_strangers_keep_no_rank_out(bench):
    port, token = free_port(), secrets.token_hex(32)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, STRANGERS + 200)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    strangers = []
    try:
        with node(bench, 0, port, token, "sh", "-c", "true", files=1024) as first:
            begin = time.monotonic()
            for _ in range(wanted - 200):
                strangers.append(connect(port))
            with node(bench, 1, port, token, "sh", "-c", "true") as second:
                code, said = end_of(second, 40)
                assert code == 0, f"node 1 was kept out: {said}"
            code, said = end_of(first, 40)
            assert code == 0, said
            lines = said.count("warn:")
            assert 0 < lines <= time.monotonic() - begin + 3, f"{lines} warnings"
    finally:
        for stranger in strangers:
            stranger.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def join_wrongly(port, random, held):
    """One stranger of a storm: with a wrong token, with garbage, half-open, slow, or gone at once."""
    kind = random.randrange(5)
    stranger = socket.create_connection(("127.0.0.1", port), timeout=5)
    if kind == 0:
        shake_hands(stranger, b"a wrong token of some length")
    elif kind == 1:
        stranger.sendall(random.randbytes(random.randrange(1, 300)))
    elif kind == 2:
        stranger.sendall(frame(1, string(b"lockstep-store/3"))[:random.randrange(1, 12)])  # the rest never comes
    if kind in (2, 3):
        held.append(stranger)
        if len(held) > 100:
            held.pop(0).close()
    else:
        stranger.close()


def storm(port, end, counts, number):
    random = __import__("random").Random(number)
    held, begin = [], time.monotonic()
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            join_wrongly(port, random, held)
        counts[number] += 1
        time.sleep(max(0.0, begin + counts[number] * STORM_THREADS / STORM_JOINS - time.monotonic()))
    for stranger in held:
        stranger.close()


def lines_of(path):
    return path.read_text().count("\n") if path.exists() else 0


def a_storm_of_joins_stops_no_training(bench):
    """A thousand joins per second to the store of a training run, for a minute (LOCKSTEP_STORM_SECONDS)."""
    port, token = free_port(), secrets.token_hex(32)
    words = [*training(bench), "--set", "max_steps=1000000", "--set", "epochs=1000000", "--set", "log_every_steps=1",
             "--quiet", "--nnodes", "2", "--master-port", str(port), "--max-restarts", "0"]
    log = pathlib.Path(bench.folder) / "run-0/log.jsonl"
    with contextlib.ExitStack() as stack:
        nodes = [stack.enter_context(started(bench, "lockstep", *words, "--node-rank", str(rank), "--run-dir",
                                             str(pathlib.Path(bench.folder) / f"run-{rank}"), LOCKSTEP_TOKEN=token))
                 for rank in range(2)]
        end = time.monotonic() + 60
        while lines_of(log) < 20:
            assert time.monotonic() < end and nodes[0].poll() is None, "no training began"
            time.sleep(0.1)
        counts = [0] * STORM_THREADS
        end = time.monotonic() + STORM_SECONDS
        threads = [threading.Thread(target=storm, args=(port, end, counts, i)) for i in range(STORM_THREADS)]
        for thread in threads:
            thread.start()
        time.sleep(STORM_SECONDS * 0.75)
        before = lines_of(log)
        for thread in threads:
            thread.join()
        assert lines_of(log) > before and all(each.poll() is None for each in nodes), "training stopped"
        status = pathlib.Path(f"/proc/{nodes[0].pid}/status").read_text()
        peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
        nodes[0].terminate()
        _, said = end_of(nodes[0], 60)
        print(f"  {sum(counts) / STORM_SECONDS:.0f} joins per second, at most {peak:.0f} MB, {said.count('warn:')} warnings")
        assert sum(counts) > STORM_JOINS * STORM_SECONDS / 4, f"only {sum(counts)} joins: the trial proves little"
        assert peak < 100, f"the launcher grew to {peak:.0f} MB"
        assert said.count("warn:") <= STORM_SECONDS + 5, f"{said.count('warn:')} warnings"


def listening_sockets():
    """The ranks' listening sockets (flags 10000), by name."""
    lines = pathlib.Path("/proc/net/unix").read_text().splitlines()
    return {line.rsplit(" ", 1)[-1] for line in lines if " 00010000 " in line and " @lockstep-" in line}


def knock(name, count):
    strangers = []
    for _ in range(count):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.setblocking(False)  # do not wait in a full queue
        with contextlib.suppress(OSError):
            stranger.connect("\0" + name[1:])
            strangers.append(stranger)
    return strangers


def silent_strangers_do_not_delay_the_ranks_socket(bench):
    """The socket is open only for a moment: a process that polls all the time finds it once in a few runs."""
    for _ in range(8):
        before = listening_sockets()
        strangers = []
        with started(bench, "lockstep", "bench", "all-reduce", "--nproc-per-node", "4", "--bytes", "4096",
                     "--mode", "copy") as job:
            begin = met = time.monotonic()
            while not strangers and job.poll() is None:
                met = time.monotonic()
                for name in listening_sockets() - before:
                    strangers += knock(name, 20)
            code, said = end_of(job, 60)
            late = time.monotonic() - met
        for stranger in strangers:
            stranger.close()
        assert code == 0, said
        assert said.count("warn:") <= time.monotonic() - begin + 2, said
        assert late < 8 or not strangers, f"the ranks waited {late:.0f} s for {len(strangers)} strangers"
        if len(strangers) > 3:
            return


def training(bench):
    """The arguments of a small training run, with its own data."""
    data = pathlib.Path(bench.folder) / "data"
    done = bench.run(["lockstep", "generate", "captcha", "--out", str(data), "--count", "8", "--seed", "1", "--charset",
                      "0-9", "--length", "2", "--width", "48", "--height", "20"], timeout=60)
    assert done.returncode == 0, done.stderr
    settings = [f"data.train={data}", "data.charset=0-9", "data.length=2", "data.width=48", "data.height=20",
                "batch_size=4", "max_steps=1"]
    return ["train", "captcha:conv3", *[word for setting in settings for word in ("--set", setting)]]


def a_rendezvous_file_is_never_open_to_others(bench):
    shared = pathlib.Path(bench.folder) / "shared"
    shared.mkdir()
    seen, done = [], threading.Event()

    def look():
        while not done.is_set():
            for entry in os.scandir(shared):
                with contextlib.suppress(FileNotFoundError):
                    mode = stat.S_IMODE(os.lstat(entry.path).st_mode)
                    if mode & 0o077:
                        seen.append((entry.name, oct(mode)))

    looker = threading.Thread(target=look, daemon=True)
    looker.start()
    try:
        words = ["lockstep", *training(bench), "--dist-url", f"file://{shared}/job?host=127.0.0.1", "--world-size", "2"]
        for _ in range(2):
            with started(bench, *words, "--rank", "0", umask=0) as first:
                with started(bench, *words, "--rank", "1", umask=0) as second:
                    assert end_of(second, 40)[0] == 0
                code, said = end_of(first, 40)
                assert code == 0, said
    finally:
        done.set()
        looker.join()
    assert not seen, f"other users could read the rendezvous file: {seen[:3]}"


def a_planted_rendezvous_file_is_not_followed(bench):
    """The address of a stranger's store, in a file that others can write."""
    file = pathlib.Path(bench.folder) / "job"
    with socket.create_server(("127.0.0.1", 0)) as rogue:
        rogue.settimeout(0.1)
        file.write_text(f"127.0.0.1 {rogue.getsockname()[1]} {'t' * 64}\n")
        file.chmod(0o666)
        done = bench.run(["lockstep", *training(bench), "--dist-url", f"file://{file}", "--world-size", "2", "--rank", "1"],
                         timeout=40, env={"LOCKSTEP_TIMEOUT": "2"})
        assert done.returncode == 76, f"it ended with {done.returncode}: {done.stderr}"
        try:
            rogue.accept()
        except TimeoutError:
            return
        raise AssertionError("the rank went to the stranger's store")


# ---- displayed and stored secrets ----

def secrets_of_urls_are_shown_nowhere(bench):
    url = f"http://ann:s3cret@127.0.0.1:{free_port()}/runs/a.pth?token=tok3n"
    for words in (["train", "captcha:conv3", "--resume", url], ["train", "captcha:conv3", "--init-from", url],
                  ["train", "captcha:conv3", "--set", f"data.train={url}", "--nproc-per-node", "2"],
                  ["eval", "captcha", "--checkpoint", url, "--set", "data.test=x"],
                  ["checkpoint", "inspect", url], ["checkpoint", "verify", url],
                  ["checkpoint", "import", url, "--out", "w"], ["train", url],
                  ["inspect", "config", "captcha", "--set", f"data.train={url}"],
                  ["inspect", "config", "captcha", "--set", f"data.train={url}", "--json"],
                  ["bench", "all-reduce", "--dist-url", "tcp://ann:s3cret@h:1?token=tok3n", "--rank", "0",
                   "--world-size", "2"]):
        done = bench.run(["lockstep", *words], timeout=60, env={"LOCKSTEP_TIMEOUT": "3"})
        said = done.stdout + done.stderr
        assert "s3cret" not in said and "tok3n" not in said, f"{words[:3]}: {said}"
        for file in pathlib.Path(bench.folder).rglob("*"):
            if file.is_file():
                kept = file.read_bytes()
                assert b"s3cret" not in kept and b"tok3n" not in kept, f"{words[:3]} left a secret in {file}"


def logs_of_ranks_are_their_users_alone(bench):
    with started(bench, "lockstep", "run", "--log-dir", "logs", "sh", "-c", "echo out; exit 3", umask=0) as job:
        assert end_of(job, 30)[0] == 3
    rank = pathlib.Path(bench.folder) / "logs/attempt_0/rank-0"
    for path in (rank, rank / "stdout.log", rank / "stderr.log"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, f"other users can read {path}"


TRIALS = [
    ("store", several_nodes_need_a_secret, 1),
    ("store", guessed_secrets_open_nothing, 1),
    ("store", an_overheard_handshake_opens_nothing, 1),
    ("store", garbage_ends_only_its_own_connection, 2),
    ("store", poisoned_words_steer_no_terminal, 1),
    ("handshake", thousands_of_silent_strangers_keep_no_rank_out, 1),
    ("handshake", a_storm_of_joins_stops_no_training, 1),
    ("handshake", silent_strangers_do_not_delay_the_ranks_socket, 1),
    ("handshake", a_rendezvous_file_is_never_open_to_others, 1),
    ("handshake", a_planted_rendezvous_file_is_not_followed, 1),
    ("config", secrets_of_urls_are_shown_nowhere, 1),
    ("limits", logs_of_ranks_are_their_users_alone, 1),
]
