"""Strangers who flood the store of a run with --tls-cert, from fifty addresses of the loopback network.

As a program, `tls.py PORT FILE ADDRESSES` floods that port until it is asked to stop, and prints its connections per second:
each sends the bytes of FILE and stays open until 400 newer ones have come. With one address it uses the nodes'
own.
"""
import contextlib
import json
import pathlib
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common"))
from runs import free_port  # noqa: E402

RATE = 2000  # connections per second
ADDRESSES = 50
HELD = 400
LIMIT = 3.0  # seconds within which every node must have joined
STEPS = 150


# ---- the flood ----

def flood(port, words, addresses):
    is_over = []
    signal.signal(signal.SIGTERM, lambda *_: is_over.append(True))
    held, count, begin = [None] * HELD, 0, time.monotonic()
    while not is_over:
        stranger = socket.socket()
        try:
            stranger.bind((f"127.0.0.{1 + (addresses > 1) + count % addresses}", 0))
            stranger.connect(("127.0.0.1", port))
            stranger.send(words)
        except OSError:
            pass
        if held[count % HELD]:
            held[count % HELD].close()
        held[count % HELD] = stranger
        count += 1
        early = begin + count / RATE - time.monotonic()
        if early > 0.002:
            time.sleep(early)
    print(f"{count / (time.monotonic() - begin):.0f}")


@contextlib.contextmanager
def flooded(bench, port, words, addresses=ADDRESSES):
    """Yields a list that holds the rate once the flood is over."""
    file = pathlib.Path(bench.folder) / "words"
    file.write_bytes(words)
    process = subprocess.Popen([sys.executable, __file__, str(port), str(file), str(addresses)],
                               stdout=subprocess.PIPE, text=True)
    rate = []
    try:
        time.sleep(0.5)
        yield rate
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=20)
        rate.append(float(said or 0))


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="node-0")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


# ---- nodes ----

def certificate(bench, kind):
    folder = pathlib.Path(bench.folder)
    new = {"P-256": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "RSA-4096": ["-newkey", "rsa:4096"]}[kind]
    subprocess.run(["openssl", "req", "-x509", *new, "-nodes", "-days", "2", "-subj", "/CN=node-0", "-keyout",
                    str(folder / "job.key"), "-out", str(folder / "job.crt")], check=True, capture_output=True)
    return {"LOCKSTEP_TLS_CERT": str(folder / "job.crt"), "LOCKSTEP_TLS_KEY": str(folder / "job.key")}


def wait_for_listener(port):
    end = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        assert time.monotonic() < end, "no store listens"
        time.sleep(0.01)


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def lines_of(path):
    return path.read_text().split("\n")[:-1] if path.exists() else []


def four_nodes_start(bench, kind, words, addresses=ADDRESSES):
    """Node 0, then the flood, then three others: until a rank of each runs."""
    port, folder = free_port(), pathlib.Path(bench.folder)
    variables = {"LOCKSTEP_TOKEN": secrets.token_hex(32), "LOCKSTEP_TIMEOUT": "60", **certificate(bench, kind)}
    joined = folder / "joined"

    def node(stack, rank):
        said = open(folder / f"said-{rank}", "wb")
        stack.callback(said.close)
        process = bench.start(["lockstep", "run", "--nnodes", "4", "--node-rank", str(rank), "--master-addr", "127.0.0.1",
                               "--master-port", str(port), "--", "sh", "-c", f"echo $RANK >> {joined}; sleep 1"],
                              env=variables, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        stack.callback(stop, process)
        return process

    with contextlib.ExitStack() as stack:
        nodes = [node(stack, 0)]
        wait_for_listener(port)
        with flooded(bench, port, words, addresses) as rate:
            begin = time.monotonic()
            nodes += [node(stack, rank) for rank in (1, 2, 3)]
            while len(lines_of(joined)) < 4 and time.monotonic() < begin + 10 * LIMIT:
                time.sleep(0.01)
            took = time.monotonic() - begin
            ends = [process.wait(timeout=60) for process in nodes]
        told = "".join((folder / f"said-{rank}").read_text(errors="replace") for rank in range(4))[-2000:]
        print(f"  {kind}: {rate[0]:.0f} connections per second, all joined after {took:.1f} s")
        assert took < LIMIT, f"the nodes were kept out for {took:.1f} s; they ended with {ends}: {told}"
        assert ends == [0] * 4, f"the nodes ended with {ends}: {told}"
        assert rate[0] > RATE / 4, f"only {rate[0]:.0f} connections per second: the trial proves little"


# ---- trials ----

def hellos_keep_no_node_out(bench):
    four_nodes_start(bench, "P-256", client_hello())


def hellos_to_an_rsa_key_keep_no_node_out(bench):
    four_nodes_start(bench, "RSA-4096", client_hello())


def hellos_of_the_nodes_own_address_keep_no_node_out(bench):
    four_nodes_start(bench, "P-256", client_hello(), addresses=1)


def silent_connections_keep_no_node_out(bench):
    four_nodes_start(bench, "P-256", b"")


def training(bench):
    """The arguments of a small training run, with its own data."""
    data = pathlib.Path(bench.folder) / "data"
    done = bench.run(["lockstep", "generate", "captcha", "--out", str(data), "--count", "8", "--seed", "1", "--charset",
                      "0-9", "--length", "2", "--width", "48", "--height", "20"], timeout=60)
    assert done.returncode == 0, done.stderr
    settings = [f"data.train={data}", "data.charset=0-9", "data.length=2", "data.width=48", "data.height=20",
                "batch_size=4", f"max_steps={STEPS}", "epochs=100000", "log_every_steps=1"]
    return ["train", "captcha:conv3", "--quiet", *[word for setting in settings for word in ("--set", setting)]]


def hellos_take_no_step_of_a_job(bench):
    port, folder = free_port(), pathlib.Path(bench.folder)
    words = [*training(bench), "--nnodes", "2", "--master-port", str(port), "--max-restarts", "0"]
    variables = {"LOCKSTEP_TOKEN": secrets.token_hex(32), "LOCKSTEP_TIMEOUT": "60", "OMP_NUM_THREADS": "1",
                 **certificate(bench, "RSA-4096")}
    with contextlib.ExitStack() as stack:
        nodes = []
        for rank in range(2):
            nodes.append(bench.start(["lockstep", *words, "--node-rank", str(rank), "--run-dir", str(folder / f"run-{rank}")],
                                     env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
            stack.callback(stop, nodes[-1])
            wait_for_listener(port)
        with flooded(bench, port, client_hello()) as rate:
            ends = [process.wait(timeout=100) for process in nodes]
        logged = [json.loads(line) for line in lines_of(folder / "run-0/log.jsonl")]
        steps = [line["step"] for line in logged if "loss" in line]
        print(f"  {rate[0]:.0f} connections per second during {len(set(steps))} steps")
        assert ends == [0, 0], f"the nodes ended with {ends}"
        assert sorted(set(steps)) == list(range(1, STEPS + 1)), f"steps are missing: {len(set(steps))} of {STEPS}"


TRIALS = [
    ("tls", hellos_keep_no_node_out, 1),
    ("tls", hellos_to_an_rsa_key_keep_no_node_out, 1),
    ("tls", hellos_of_the_nodes_own_address_keep_no_node_out, 1),
    ("tls", silent_connections_keep_no_node_out, 1),
    ("tls", hellos_take_no_step_of_a_job, 1),
]

if __name__ == "__main__":
    flood(int(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes(), int(sys.argv[3]))
