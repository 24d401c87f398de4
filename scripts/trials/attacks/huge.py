# SPDX-License-Identifier: Apache-2.0
"""Sparse files of 8 GiB for every reader: it must check the size before it allocates memory.

READERS lists them. Each has 200 MB of address space beyond the program's own mappings.
"""
import os
import pathlib
import struct

from attacks.files import png

HUGE = 8 << 30
OWN = {"lockstep": 200 << 20, "lockstep-worker": 1200 << 20}  # with one OpenBLAS thread, 900 MB are libtorch's
REFUSED = (64, 65, 74)
MAPPED = ("tar", "packed")  # these are mapped: 200 MB of address space are too few, and the error says so
SECONDS = 30


def huge(path: pathlib.Path, front: bytes = b"") -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(front)
    os.truncate(path, HUGE)
    return path


def settings(bench, name):
    return ["inspect", "config", huge(bench.folder / name)]


def included_settings(bench):
    (bench.folder / "a.yml").write_text("include: b.yml\n")
    huge(bench.folder / "b.yml")
    return ["inspect", "config", bench.folder / "a.yml"]


def data(bench, name, front=b"", *more):
    return ["inspect", "data", huge(bench.folder / name, front), "--samples", "0", *more]


def picture_of_a_list(bench, front):
    huge(bench.folder / "a.png", front)
    (bench.folder / "list.csv").write_text("path\na.png\n")
    return ["inspect", "data", bench.folder / "list.csv", "--samples", "0"]


def picture_of_captcha(bench):
    huge(bench.folder / "data" / "0123_1.png")
    return ["train", "captcha:digits", "--nproc-per-node", "1", "--set", f"data.train={bench.folder}/data", "--set",
            "data.test=", "--set", "max_steps=1", "--run-dir", bench.folder / "run"]


def marks_of_voc(bench):
    huge(bench.folder / "voc/Annotations/a.xml")
    (bench.folder / "voc/JPEGImages").mkdir()
    return ["inspect", "data", bench.folder / "voc", "--samples", "0"]


def captions(bench, key, name):
    (bench.folder / "features").mkdir()
    huge(bench.folder / name)
    return ["train", "captioning", "--nproc-per-node", "1", "--set", f"{key}={bench.folder / name}", "--set",
            f"data.features={bench.folder}/features", "--set", "max_steps=1", "--run-dir", bench.folder / "run"]


def weights(bench, verb, name, front=b""):
    path = huge(bench.folder / name, front)
    return ["checkpoint", verb, path, *(["--to", bench.folder / "run"] if verb == "import" else [])]


def first_weights(bench, name, front=b""):
    (bench.folder / "data").mkdir()
    (bench.folder / "data" / "0123_1.png").write_bytes(png(60, 30))
    return ["train", "captcha:digits", "--nproc-per-node", "1", "--set", f"data.train={bench.folder}/data", "--set",
            "data.test=", "--set", "max_steps=1", "--run-dir", bench.folder / "run", "--init-from",
            huge(bench.folder / name, front)]


def step_folder(bench, name):
    step = bench.folder / "run/checkpoints/step-00000001"
    step.mkdir(parents=True)
    if name != "manifest.json":
        (step / "manifest.json").write_text('{"format_version": 1}')
    huge(step / name)
    return ["checkpoint", "verify", step]


def name_of_a_step(bench):
    huge(bench.folder / "run/checkpoints/best")
    return ["checkpoint", "verify", f"{bench.folder}/run:best"]


def secret(bench):
    path = huge(bench.folder / "token")
    path.chmod(0o600)
    return ["run", "--nnodes", "2", "--node-rank", "0", "--token-file", path, "--master-addr", "127.0.0.1", "--", "true"]


def certificate(bench, option):
    (bench.folder / "x.pem").write_text("x")
    first = {"cert": bench.folder / "x.pem", "key": bench.folder / "x.pem"} | {option: huge(bench.folder / "huge.pem")}
    (bench.folder / "token").write_text("0123456789abcdef" * 4)
    (bench.folder / "token").chmod(0o600)
    return ["run", "--nnodes", "2", "--node-rank", "0", "--token-file", bench.folder / "token", "--master-addr",
            "127.0.0.1", *(f"--tls-{name}={path}" for name, path in first.items()), "--", "true"]


def traces(bench):
    huge(bench.folder / "run/profile/trace/rank-0.json")
    return ["trace", "merge", bench.folder / "run"]


WHOLE_HEADER = struct.pack("<Q", 99_000_000)  # then zeros: not JSON
ZIP = b"PK\x03\x04"
PNG = png(8, 8)[:33]

# By name: the reading program and its arguments.
READERS = {
    "settings": ("lockstep-worker", lambda b: settings(b, "x.yml")),
    "included settings": ("lockstep-worker", included_settings),
    "COCO": ("lockstep-worker", lambda b: data(b, "x.json")),
    "list of JSON lines": ("lockstep-worker", lambda b: data(b, "x.jsonl")),
    "list": ("lockstep-worker", lambda b: data(b, "x.csv")),
    "list of text": ("lockstep-worker", lambda b: data(b, "x.txt")),
    "tar": ("lockstep-worker", lambda b: data(b, "x.tar")),
    "packed": ("lockstep-worker", lambda b: data(b, "x.pack")),
    "IDX": ("lockstep-worker", lambda b: data(b, "x.idx", b"", "--type", "idx")),
    "gzipped IDX": ("lockstep-worker", lambda b: data(b, "x-images-idx3-ubyte.gz", b"\x1f\x8b\x08", "--type", "idx")),
    "picture": ("lockstep-worker", lambda b: picture_of_a_list(b, PNG)),
    "JPEG picture": ("lockstep-worker", lambda b: picture_of_a_list(b, b"\xff\xd8\xff\xe0")),
    "picture of captcha": ("lockstep-worker", picture_of_captcha),
    "VOC": ("lockstep-worker", marks_of_voc),
    "captions of JSON": ("lockstep-worker", lambda b: captions(b, "data.train", "captions.json")),
    "captions of text": ("lockstep-worker", lambda b: captions(b, "data.train", "captions.txt")),
    "safetensors": ("lockstep-worker", lambda b: weights(b, "inspect", "x.safetensors")),
    "safetensors to verify": ("lockstep-worker", lambda b: weights(b, "verify", "x.safetensors", WHOLE_HEADER)),
    "safetensors to import": ("lockstep-worker", lambda b: weights(b, "import", "x.safetensors", WHOLE_HEADER)),
    "index of safetensors": ("lockstep-worker", lambda b: weights(b, "inspect", "x.safetensors.index.json")),
    "torch": ("lockstep-worker", lambda b: weights(b, "inspect", "x.pth")),
    "torch that starts like a zip": ("lockstep-worker", lambda b: weights(b, "inspect", "x.pth", ZIP)),
    "torch to verify": ("lockstep-worker", lambda b: weights(b, "verify", "x.pth", ZIP)),
    "torch to import": ("lockstep-worker", lambda b: weights(b, "import", "x.pth", ZIP)),
    "TorchScript": ("lockstep-worker", lambda b: weights(b, "verify", "x.pt", ZIP)),
    "npz": ("lockstep-worker", lambda b: weights(b, "verify", "x.npz", ZIP)),
    "first weights of safetensors": ("lockstep-worker", lambda b: first_weights(b, "x.safetensors")),
    "first weights of torch": ("lockstep-worker", lambda b: first_weights(b, "x.pth", ZIP)),
    "manifest": ("lockstep-worker", lambda b: step_folder(b, "manifest.json")),
    "name of a step": ("lockstep-worker", name_of_a_step),
    "secret": ("lockstep", secret),
    "certificate": ("lockstep", lambda b: certificate(b, "cert")),
    "key of a certificate": ("lockstep", lambda b: certificate(b, "key")),
    "trace": ("lockstep", traces),
    "hosts": ("lockstep", lambda b: ["run", "--hostfile", huge(b.folder / "hosts"), "--", "true"]),
}


def without_warning(text):
    """The output without `lockstep run`'s warning that a program with libtorch needs more address space."""
    return "".join(line for line in text.splitlines(True) if not line.startswith("warn: the limit on address space"))


def a_huge_file_is_refused_by_every_reader(bench):
    base = bench.folder
    for name, (program, arguments) in READERS.items():
        bench.folder = base / name.replace(" ", "-")
        bench.folder.mkdir()
        ended = bench.lockstep(*arguments(bench), env={"OMP_NUM_THREADS": "1"}, limits={"AS": OWN[program]},
                               timeout=SECONDS)
        allowed = (*REFUSED, 69) if name in MAPPED else REFUSED
        assert ended.returncode in allowed or "1 unreadable" in ended.text, f"{name}: {ended.told()}"
        assert name in MAPPED or "memory" not in without_warning(ended.text), f"{name}: {ended.told()}"
        assert ended.peak_bytes < 450 << 20, f"{name}: {ended.told()}"
        bench.clean(ended)
    bench.folder = base


def huge_files_of_a_run_are_passed_over(bench):
    """The files that doctor reads in someone else's run folder. It must not open a core dump there."""
    run = bench.folder / "run"
    for name in ("log.jsonl", "summary.json", "verdict.json", "failure.json", "config.yml", "config.resolved.yml", ".lock",
                 "core", "core.4711", "logs/attempt_0/rank-0/error.json", "logs/attempt_0/rank-0/stderr.log",
                 "logs/attempt_0/rank-0/stdout.log", "checkpoints/best", "checkpoints/step-00000001/manifest.json"):
        huge(run / name)
    for arguments in (["doctor", run], ["doctor", "--json", run], ["checkpoint", "prune", run, "--keep", "1"],
                      ["checkpoint", "verify", run], ["plot", run]):
        program = "lockstep-worker" if arguments[0] == "checkpoint" else "lockstep"
        ended = bench.lockstep(*arguments, env={"OMP_NUM_THREADS": "1"}, limits={"AS": OWN[program]}, timeout=SECONDS)
        assert 0 <= ended.returncode < 128 and ended.returncode not in (69, 70), ended.told()
        assert "memory" not in ended.text, ended.told()
        assert ended.peak_bytes < 450 << 20, ended.told()
        bench.clean(ended)
    assert (run / "core").stat().st_size == HUGE, "a core dump was changed"


TRIALS = [
    ("files", a_huge_file_is_refused_by_every_reader, 1),
    ("files", huge_files_of_a_run_are_passed_over, 1),
]
