"""Poisoned files and servers: settings, checkpoints, weights and downloads crafted to harm their reader.

Each trial fails if the program crashes, hangs, eats memory, follows a link, or reports damaged data as intact.
"""
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import struct
import threading
import time
import zipfile

MOST_MEMORY = 1 << 30  # libtorch itself takes a third of it
BAD_INPUT = (64, 65, 74, 76)  # usage, data, I/O, timeout


def run(bench, *args, env=None, timeout=60):
    return bench.run([str(bench.programs / "lockstep"), *map(str, args)], timeout=timeout,
                     env={"no_proxy": "*", **(env or {})})


def require_refused(ended, what, words=""):
    output = ended.stdout + ended.stderr
    assert ended.returncode in BAD_INPUT, f"{what}: exit code {ended.returncode}: {output[-500:]}"
    assert ended.peak_bytes < MOST_MEMORY, f"{what}: {ended.peak_bytes >> 20} MiB"
    assert ended.seconds < 30, f"{what}: {ended.seconds:.0f} s"
    assert words in output, f"{what}: no '{words}' in: {output[-500:]}"


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# Settings

def bomb(levels, open_with, close_with, entry):
    text = f"a0: &a0 {open_with}{entry(0, '1')}{close_with}\n"
    for level in range(1, levels + 1):
        entries = ", ".join(entry(i, f"*a{level - 1}") for i in range(10))
        text += f"a{level}: &a{level} {open_with}{entries}{close_with}\n"
    return text


def poisoned_settings():
    as_map = ("{", "}", lambda i, value: f"k{i}: {value}")
    as_list = ("[", "]", lambda i, value: value)
    return {
        "a map in itself": "recipe: captcha\nx: &x {<<: *x}\n",
        "a list in itself": "recipe: captcha\nx: &x [*x]\n",
        "maps of maps": "recipe: captcha\n" + bomb(9, *as_map),
        "lists of lists": "recipe: captcha\n" + bomb(9, *as_list),
        "a deep list": "recipe: captcha\nx: " + "[" * 50_000 + "]" * 50_000 + "\n",
        "a deep block": "".join(" " * i + "a:\n" for i in range(2000)),
        "many values": "recipe: captcha\nx: [" + "1," * 500_000 + "]\n",
        "a long string again and again": "recipe: captcha\nx: &x " + "y" * 500_000 + "\nz: [" + "*x, " * 2000 + "1]\n",
        "a key twice": "recipe: captcha\nepochs: 1\nepochs: 2\n",
        "a second document": "recipe: captcha\n---\nepochs: 2\n",
    }


def poisoned_settings_are_refused(bench):
    for what, text in poisoned_settings().items():
        path = write(bench.folder / "x.yml", text)
        require_refused(run(bench, "inspect", "config", path), what, "x.yml:")


def changed_settings_never_crash(bench):
    generator = random.Random()
    texts = list(poisoned_settings().values())
    for _ in range(10):
        text = bytearray(generator.choice(texts)[:4000].encode())
        for _ in range(generator.randint(1, 8)):
            text[generator.randrange(len(text))] = generator.randrange(256)
        ended = run(bench, "inspect", "config", write(bench.folder / "x.yml", bytes(text)))
        assert ended.returncode in (0, *BAD_INPUT), f"exit code {ended.returncode} of {bytes(text)!r}"
        assert ended.peak_bytes < MOST_MEMORY, f"{ended.peak_bytes >> 20} MiB of {bytes(text)!r}"


def settings_in_an_option_are_refused(bench):
    for value in ("&x {<<: *x}", "&x [*x]", "[" * 3000 + "]" * 3000):
        require_refused(run(bench, "train", "captcha", "--set", f"epochs={value}"), value[:20])


# Weights

def pickled(body):
    return b"\x80\x02" + body + b"."


def torch_zip(path, pickle, members=(), compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("x/data.pkl", pickle)
        for name, content in members:
            file.writestr(name, content)


def text(word):
    return b"X" + struct.pack("<I", len(word)) + word


def tensor(key, elements, count):
    storage = b"((" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(key) + text(b"cpu")
    storage += b"\x8a\x08" + struct.pack("<q", elements) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n" + storage + b"K\x00(\x8a\x08" + struct.pack("<q", count)
            + b"t(K\x01t\x89ccollections\nOrderedDict\n)RtR")


def poisoned_weights(folder):
    def make(name, *args, **more):
        torch_zip(folder / name, *args, **more)
    make("system.pth", pickled(b"cos\nsystem\n(" + text(b"touch pwned") + b"tR"))
    make("eval.pth", pickled(b"cbuiltins\neval\n(" + text(b"open('pwned', 'w')") + b"tR"))
    make("build.pth", pickled(b"ctorch.nn.modules.container\nSequential\n)\x81}b"))
    make("latin_key.pth", pickled(b"}" + text(b"gr\xfcn") + b"K\x01s"))
    make("circle.pth", pickled(b"]q\x00h\x00a"))
    make("huge_text.pth", pickled(b"X\xff\xff\xff\xff"))
    make("no_storage.pth", pickled(tensor(b"0", 6, 6)))
    make("short_storage.pth", pickled(tensor(b"0", 6, 6)), [("x/data/0", b"123")])
    make("absurd_tensor.pth", pickled(tensor(b"0", 1 << 50, 1 << 50)), [("x/data/0", b"1234")])
    make("beyond.pth", pickled(tensor(b"0", 1, 1000)), [("x/data/0", b"1234")])
    make("bomb.pth", pickled(b"}"), [(f"x/data/{i}", bytes(100_000_000)) for i in range(8)],
         compression=zipfile.ZIP_DEFLATED)
    zipfile.ZipFile(folder / "empty.pth", "w").close()
    write(folder / "cut.pth", (folder / "system.pth").read_bytes()[:40])
    header = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    write(folder / "absurd.safetensors", struct.pack("<Q", len(header)) + header + bytes(64))
    write(folder / "long_header.safetensors", struct.pack("<Q", 1 << 62) + b"{}")
    write(folder / "deep.safetensors", struct.pack("<Q", 100_000) + b'{"a":' + b"[" * 99_995)
    return sorted(path for path in folder.iterdir() if path.suffix in (".pth", ".safetensors"))


def poisoned_weights_are_refused_by_every_verb(bench):
    for path in poisoned_weights(bench.folder):
        for verb in ("verify", "inspect"):
            ended = run(bench, "checkpoint", verb, path)
            if verb == "inspect" and path.name == "bomb.pth":  # members that no tensor names are not unpacked
                assert ended.returncode == 0 and ended.peak_bytes < MOST_MEMORY, ended.told()
                continue
            require_refused(ended, f"{verb} {path.name}")
            assert ": whole" not in ended.stdout, f"{verb} calls {path.name} intact"
        require_refused(run(bench, "checkpoint", "import", path, "--to", bench.folder / "run"), f"import {path.name}")
        assert not list(bench.folder.rglob("pwned")), f"{path.name} was executed"


# Checkpoints. The program itself prints the matching hash: its seals do not stop an attacker, who can create them.

def sealed(bench, step):
    """Verifies `step`, and fills in the hashes that the verdict names until it accepts them or complains about something else."""
    manifest = step / "manifest.json"
    for _ in range(10):
        ended = run(bench, "checkpoint", "verify", step)
        output = ended.stdout
        seal = re.search(r"its bytes have XXH3-128 ([0-9a-f]{32}), but its seal", output)
        torn = re.search(r"XXH3-128 ([0-9a-f]{32}), the manifest says ([0-9a-f]{32})", output)
        if seal:
            content = re.sub(r'("manifest_xxh3_128": ")[^"]*', r"\g<1>" + seal[1], manifest.read_text())
        elif torn:
            content = manifest.read_text().replace(torn[2], torn[1])
        else:
            return ended
        manifest.write_text(content)
    raise AssertionError(f"no seal matches: {output}")


def write_manifest(step, fields, files):
    whole = {"format_version": 1, "step": 1, "replicas": 1, "threads": 1, "libtorch": "1.13.1",
             "instruction_set": "AVX2", "configuration_hash": "00", **fields}
    lines = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in whole.items())
    entries = ",\n".join(f'    "{name}": {{"bytes": {size}, "xxh3_128": "{i:032x}"}}'
                         for i, (name, size) in enumerate(files.items()))
    write(step / "manifest.json", "{\n" + lines + '  "files": {\n' + entries + '\n  },\n  "manifest_xxh3_128": "'
          + "0" * 32 + '"\n}\n')


def absurd_manifests_are_refused_by_key(bench):
    absurd = [("step", -5), ("step", 1 << 62), ("replicas", 0), ("replicas", 4294967298), ("replicas", -1),
              ("threads", -1), ("threads", 0), ("threads", 1_000_000_000), ("libtorch", "1\x1b[2J"),
              ("instruction_set", "A" * 1000), ("configuration_hash", "\u009b2J")]
    for key, value in absurd:
        step = bench.folder / "step-00000001"
        write_manifest(step, {key: value}, {})
        words = f"its {key} " if isinstance(value, str) else f"'{key}' is "
        require_refused(sealed(bench, step), f"{key} {value!r}", words)


def poisoned_texts_of_a_checkpoint_are_not_called_whole(bench):
    for what, content in poisoned_settings().items():
        step = bench.folder / "step-00000001"
        write(step / "config.yml", content)
        write_manifest(step, {}, {"config.yml": len(content.encode())})
        require_refused(sealed(bench, step), what, "config.yml is unchanged since it was written, but cannot be read")


# Downloads

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.close_connection = True
        try:
            self.server.answer(self)
        except OSError:
            pass  # the client has had enough


class Server(http.server.ThreadingHTTPServer):
    """On loopback, for the duration of a `with`."""
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.ended = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *args):
        self.ended.set()
        self.shutdown()
        self.server_close()


def head(handler, headers=""):
    handler.wfile.write(f"HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n".encode())


def endless(handler):
    head(handler)
    while True:
        handler.wfile.write(bytes(1 << 16))


def endless_headers(handler):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    number = 0
    while True:
        number += 1
        handler.wfile.write(f"X-{number}: {'y' * 1000}\r\n".encode())


def to_a_file(handler):
    handler.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n")


def larger_than_said(handler):
    head(handler, "Content-Length: 20000000000\r\n")
    while True:
        handler.wfile.write(bytes(1 << 16))


def endless_page(handler):
    handler.wfile.write(b"HTTP/1.1 404 Not Found\r\n\r\n")
    while True:
        handler.wfile.write(b"x" * (1 << 16))


def train(bench, option, url, timeout=60, env=None):
    data = bench.folder / "data"
    data.mkdir(exist_ok=True)
    return run(bench, "train", "captcha:digits", option, url, "--run-dir", bench.folder / "run", "--nproc-per-node",
               "1", "--set", f"data.train={data}", "--set", "data.test=", timeout=timeout,
               env={"XDG_CACHE_HOME": str(bench.folder), "HOME": str(bench.folder), **(env or {})})


def bytes_in(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def endless_downloads_are_bounded(bench):
    for answer in (endless, endless_headers, to_a_file, larger_than_said, endless_page):
        with Server(answer) as server:
            require_refused(train(bench, "--resume", server.url + "/step-00000001"), answer.__name__)
        assert bytes_in(bench.folder) < 20_000_000, f"{answer.__name__}: {bytes_in(bench.folder)} bytes were kept"


def a_trickling_server_hits_a_limit(bench):
    def trickle(handler):
        head(handler, "Content-Length: 100000\r\n")
        while not handler.server.ended.wait(0.5):
            handler.wfile.write(b"x")
    with Server(trickle) as server:
        begin = time.monotonic()
        ended = train(bench, "--resume", server.url + "/step-00000001", timeout=90)
    output = ended.stdout + ended.stderr
    assert ended.returncode == 76, f"exit code {ended.returncode} after {time.monotonic() - begin:.0f} s: {output}"
    assert "bytes per second arrived" in output and "LOCKSTEP_FETCH_MIN_SPEED" in output, output


def cached(bench, url, sha256=""):
    key = hashlib.sha256(f"{url}\n{sha256}".encode()).hexdigest()[:32]
    return bench.folder / "lockstep" / key / url.rsplit("/", 1)[1]


def serve_good(handler):
    head(handler, "Content-Length: 4\r\n")
    handler.wfile.write(b"good")


def a_changed_file_of_the_cache_is_not_used(bench):
    sha256 = hashlib.sha256(b"good").hexdigest()
    with Server(serve_good) as server:
        path = cached(bench, server.url + "/a.pth", sha256)
        os.makedirs(path.parent, mode=0o700)
        write(path, "evil")
        ended = train(bench, "--init-from", f"{server.url}/a.pth#sha256={sha256}")
    assert path.read_bytes() == b"good", f"it was not replaced: {ended.stdout + ended.stderr}"


def links_and_pipes_in_the_cache_are_refused(bench):
    victim = write(bench.folder / "victim", "precious")
    with Server(serve_good) as server:
        path = cached(bench, server.url + "/a.pth")
        os.makedirs(path.parent, mode=0o700)
        for suffix in ("", ".part", ".part.tag", ".lock"):
            planted = pathlib.Path(str(path) + suffix)
            for plant in (lambda: planted.symlink_to(victim), lambda: os.mkfifo(planted)):
                plant()
                require_refused(train(bench, "--init-from", server.url + "/a.pth"), f"a planted a.pth{suffix}")
                for file in path.parent.iterdir():
                    file.unlink()
    assert victim.read_text() == "precious", "a link was followed"


def a_cache_of_others_is_refused(bench):
    with Server(serve_good) as server:
        cache = bench.folder / "lockstep"
        cache.mkdir(mode=0o700)
        cache.chmod(0o777)
        require_refused(train(bench, "--init-from", server.url + "/a.pth"), "mode 0777", "others may write")
        cache.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(cache, 65534, 65534)
            require_refused(train(bench, "--init-from", server.url + "/a.pth"), "another owner", "belongs to user 65534")


TRIALS = [
    ("config", poisoned_settings_are_refused, 3),
    ("config", changed_settings_never_crash, 10),
    ("config", settings_in_an_option_are_refused, 2),
    ("checkpoints", poisoned_weights_are_refused_by_every_verb, 1),
    ("checkpoints", absurd_manifests_are_refused_by_key, 1),
    ("checkpoints", poisoned_texts_of_a_checkpoint_are_not_called_whole, 1),
    ("http", endless_downloads_are_bounded, 1),
    ("http", a_trickling_server_hits_a_limit, 1),
    ("http", a_changed_file_of_the_cache_is_not_used, 2),
    ("http", links_and_pipes_in_the_cache_are_refused, 1),
    ("http", a_cache_of_others_is_refused, 2),
]
