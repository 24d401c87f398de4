# SPDX-License-Identifier: Apache-2.0
"""Files and pickles nested 200,000 deep, or with absurd numbers and wrong types: every reader rejects or skips them,
and none crashes. Each trial fails if a program dies of a signal, hangs, or eats memory."""
import io
import json
import os
import pathlib
import pickle
import struct
import tarfile
import zipfile

from attacks.files import png
from attacks.parse import pickled, sealed, text, torch_zip, write, write_manifest

DEPTH = 200_000
LIST = "[" * DEPTH + "]" * DEPTH
OBJECT = '{"a":' * DEPTH + "1" + "}" * DEPTH
OPEN = "[" * DEPTH
MOST_BYTES = 600 << 20


def survives(bench, *arguments, timeout=60, **more):
    ended = bench.lockstep(*arguments, timeout=timeout, **more)
    assert 0 <= ended.returncode < 128 and ended.returncode != 70, ended.told()
    assert ended.peak_bytes < MOST_BYTES, f"{ended.peak_bytes >> 20} MiB: {ended.told()}"
    bench.clean(ended)
    return ended


def tar_of(path, label):
    with tarfile.open(path, "w") as file:
        for name, content in (("a.png", png(8, 8)), ("a.json", label.encode())):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def deep_labels_are_refused(bench):
    for deep in (LIST, OBJECT, OPEN):
        for label in ("%s", '{"id": %s}', '{"label": %s}', '{"objects": [{"box": %s}]}', '{"captions": [%s]}'):
            path = tar_of(bench.folder / "x.tar", label % deep)
            ended = survives(bench, "inspect", "data", path, "--samples", "0")
            assert "nested more than 64 deep" in ended.text, ended.told()
        coco = '{"images": [{"id": %s, "file_name": "a.png"}], "annotations": [], "categories": []}'
        for name, content in (("x.json", coco % deep), ("x.json", '{"info": %s}' % deep), ("x.jsonl", '{"path": %s}\n' % deep),
                              ("y.json", '[{"path": %s}]' % deep)):
            ended = survives(bench, "inspect", "data", write(bench.folder / name, content), "--samples", "0")
            assert ended.returncode == 65 and "nested more than 64 deep" in ended.text, ended.told()


def deep_markup_and_settings_are_refused(bench):
    for what in ("<object>" * DEPTH + "</object>" * DEPTH, "<object>" * DEPTH):
        write(bench.folder / "voc/Annotations/a.xml", f"<annotation>{what}</annotation>")
        (bench.folder / "voc/JPEGImages").mkdir(exist_ok=True)
        assert survives(bench, "inspect", "data", bench.folder / "voc").returncode == 65
    for what in ("[" * DEPTH, "{" * DEPTH, "\n  " + "- " * DEPTH, LIST, "{a: " * DEPTH + "1" + "}" * DEPTH, "? " * DEPTH):
        path = write(bench.folder / "x.yml", f"recipe: captcha\nx: {what}\n")
        assert survives(bench, "inspect", "config", path).returncode == 64


def deep_files_of_a_run_are_passed_over(bench):
    run = bench.folder / "run"
    for deep in (LIST, OBJECT, OPEN):
        for form in ("%s", '{"event": "epoch", "step": 1, "metrics": {"a": %s}, "cause": %s, "message": {"extraInfo": %s}}',
                     '{"event": "report", "report": %s, "step": %s, "message": %s, "stacks": %s}'):
            content = form.replace("%s", deep)
            for name in ("summary.json", "verdict.json", "failure.json", "log.jsonl", "logs/attempt_0/rank-0/error.json",
                         "checkpoints/step-00000001/manifest.json"):
                write(run / name, content + "\n")
            for arguments in (["doctor", run], ["doctor", "--json", run], ["plot", run]):
                survives(bench, *arguments)
    survives(bench, "checkpoint", "verify", run)


def deep_traces_are_refused(bench):
    for deep in (LIST, OBJECT):
        write(bench.folder / "run/profile/trace/rank-0.json",
              '{"otherData": {"rank": 0, "world_size": 1, "host": %s}, "traceEvents": [%s]}' % (deep, deep))
        survives(bench, "trace", "merge", bench.folder / "run")


def safetensors(tensors, metadata, content):
    header = json.dumps({"__metadata__": metadata, **tensors}).encode()
    return struct.pack("<Q", len(header)) + header + content


def deep_words_of_weights_are_refused(bench):
    one = {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    for deep in (LIST, OBJECT, OPEN):
        path = write(bench.folder / "x.safetensors", safetensors(one, {"scalar.a": deep}, bytes(4)))
        for verb in ("verify", "inspect"):
            assert survives(bench, "checkpoint", verb, path).returncode == 65
        index = write(bench.folder / "m.safetensors.index.json", '{"weight_map": {"a": %s}}' % deep)
        for verb in ("verify", "inspect"):
            assert survives(bench, "checkpoint", verb, index).returncode == 65


def what_verify_calls_whole_can_be_read(bench):
    """The author of a checkpoint's bytes also wrote its hashes: its content must be read before it counts as intact."""
    one = {"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    good = '{"begin": 0, "shape": [2]}'
    for slices in (LIST, '{"begin": %s, "shape": [2]}' % LIST, '{"begin": 0, "shape": %s}' % OBJECT, OPEN, "null", "[]",
                   '{"begin": 0, "shape": [3]}', '{"begin": -1, "shape": [2]}', '{"begin": 0, "shape": [9e99]}', good):
        step = bench.folder / "run/checkpoints/step-00000001"
        sizes = {}
        for part, words in ((1, slices), (2, '{"begin": 1, "shape": [2]}')):
            name = f"model.part-{part}-of-2.safetensors"
            write(step / name, safetensors(one, {"slice.w": words}, bytes(4)))
            sizes[name] = (step / name).stat().st_size
        write_manifest(step, {"format_version": 2}, sizes)
        verified = sealed(bench, step)
        assert 0 <= verified.returncode < 128, verified.told()
        inspected = survives(bench, "checkpoint", "inspect", step)
        is_whole = ": whole" in verified.stdout
        assert is_whole == (inspected.returncode == 0), f"{slices[:40]}: {verified.told()}\n{inspected.told()}"
        assert is_whole == (slices is good), f"{slices[:40]}: {verified.told()}"
        survives(bench, "checkpoint", "verify", bench.folder / "run")


# Pickles

def poisoned_pickles():
    long = lambda count: b"\x8b" + struct.pack("<i", count)  # noqa: E731: LONG4
    doubled = b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))
    return {
        "deep tuples": b"(" * DEPTH + b"t" * DEPTH,
        "deep lists": b"]" * DEPTH + b"a" * (DEPTH - 1),
        "one in another": b"K\x01" + b"\x85" * DEPTH,
        "dicts in dicts": b"}" * 1000 + b"".join(b"K\x01" for _ in range(3)) + b"s" * 900,
        "a tuple doubled 60 times": b"K\x01q\x00" + doubled,
        "a long of 2 GB": long(0x7FFFFFFF),
        "a long with a negative size": long(-5),
        "a long of 10 MB": long(10 << 20) + bytes(10 << 20),
        "a decimal with a million digits": b"L" + b"9" * 1_000_000 + b"L\n",
        "a text of 2^63 bytes": b"\x8d" + struct.pack("<Q", 1 << 63),
        "bytes of 2^63": b"\x8e" + struct.pack("<Q", 1 << 63),
        "a frame of 2^63 bytes": b"\x95" + struct.pack("<Q", 1 << 63) + b"K\x01",
        "memo slot 2^32": b"K\x01r\xff\xff\xff\xff" + b"j\xff\xff\xff\xff\x86",
        "a million marks": b"(" * 1_000_000,
        "nothing": b"",
        "ends without a stop": b"K\x01" * 10,
        "a deep dict key": b"}" + b"(" * 5000 + b"t" * 5000 + b"K\x01s",
        "an opcode of none": b"\xff",
        "a module of a terminal": b"c\x1b[31mos\nsystem\n",
        "an object by import": pickle.dumps(pathlib.PurePosixPath("x"), 2)[2:-1],
    }


def poisoned_pickles_are_refused_in_time(bench):
    for what, body in poisoned_pickles().items():
        path = bench.folder / "x.pth"
        torch_zip(path, pickled(body))
        for verb in ("verify", "inspect"):
            ended = survives(bench, "checkpoint", verb, path, timeout=20)
            # Numbers for which nothing is allocated do no harm.
            allowed = (0, 65) if what.startswith(("a frame", "memo slot")) else (65,)
            assert ended.returncode in allowed, f"{what}: {ended.told()}"


def torchscript_is_never_run(bench):
    """Code, nested code, and wrong zip directories."""
    ran = bench.folder / "ran"
    code = f"class M(Module):\n  def forward(self):\n    return os.system('touch {ran}')\n"

    def script(name, pickle_bytes=pickled(b"}"), more=(), compression=zipfile.ZIP_STORED):
        torch_zip(bench.folder / name, pickle_bytes,
                  [("x/constants.pkl", pickled(b")")), ("x/code/__torch__.py", code), ("x/version", "3\n"), *more], compression)
        return bench.folder / name

    system = pickled(b"cos\nsystem\n(" + text(f"touch {ran}".encode()) + b"tR")
    plain = script("a.pt")
    inner = plain.read_bytes()
    files = [plain, script("b.pt", system), script("c.pt", more=[("x/constants.pkl2", system)]),
             script("d.pt", more=[("x/e.pt", inner)]), script("f.pt", more=[("y/data.pkl", system)]),
             script("g.pt", more=[("x/data.pkl", system)]), script("h.pt", compression=zipfile.ZIP_DEFLATED),
             write(bench.folder / "i.pt", b"PK\x03\x04" + inner), write(bench.folder / "j.pt", inner[:-30]),
             write(bench.folder / "k.pt", inner.replace(b"constants.pkl", b"constants.pk\x00")),
             write(bench.folder / "l.pth", inner), write(bench.folder / "m.pt", inner.replace(b"x/version", b"../version"))]
    for path in files:
        for verb in ("verify", "inspect"):
            ended = survives(bench, "checkpoint", verb, path)
            assert ended.returncode == 65, f"{path.name}: {ended.told()}"
        assert survives(bench, "checkpoint", "import", path, "--to", bench.folder / "run").returncode == 65
        assert not ran.exists(), f"{path.name} was run"


# Image features

def npy(descr="'<f4'", shape="(2, 4)", fortran="False", values=bytes(32), version=1, size=None, header=None):
    words = (header or f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}").encode("latin1")
    length = len(words) if size is None else size
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", length) + words + values


def zip_of(path, content, claims=None, compression=zipfile.ZIP_DEFLATED, name="feat.npy"):
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(name, content)
    if claims is not None:  # the unpacked size in the directory
        raw = bytearray(path.read_bytes())
        struct.pack_into("<I", raw, raw.rindex(b"PK\x01\x02") + 24, claims)
        struct.pack_into("<I", raw, 22, claims)
        path.write_bytes(raw)
    return path


def poisoned_npz(folder):
    bad = {
        "objects": npy("'|O'", values=pickle.dumps(os.system)), "objects in a record": npy("[('a', '|O')]"),
        "big-endian": npy("'>f4'"), "text": npy("'<U8'"), "complex": npy("'<c8'"),
        "negative": npy(shape="(-1, 4)"), "empty": npy(shape="(0, 4)", values=b""), "scalar": npy(shape="()"),
        "2^64 rows": npy(shape="(18446744073709551616, 4)"), "2^62 rows": npy(shape="(4611686018427387904, 4)"),
        "rows that overflow": npy(shape="(4294967296, 4294967296)"), "300 sides": npy(shape="(" + "1, " * 300 + ")"),
        "true": npy(shape="(True, 4)"), "a float": npy(shape="(2.0, 4)"), "short": npy(values=bytes(8)),
        "long": npy(values=bytes(999)), "a header of 4 GB": npy(version=2, size=0xFFFFFFFF),
        "a header of 65535": npy(size=65535), "version 9": npy(version=9), "a deep header": npy(header="{'a': " + "(" * 60000),
        "code": npy(header="__import__('os').system('touch ran')"), "no header": b"\x93NUMPY", "nothing": b"",
        "escapes": npy("'\x1b[31m'"), "infinite": npy(values=struct.pack("<8f", *[float("inf")] * 8)),
        "not a number": npy(values=struct.pack("<8f", *[float("nan")] * 8)),
    }
    for name, content in bad.items():
        yield name, zip_of(folder / "x.npz", content)
    yield "a bomb", zip_of(folder / "x.npz", npy(shape="(100000, 1000)", values=bytes(400_000_000)))
    for claims in (0, 1, 0xFFFFFFF0):
        yield f"claims {claims}", zip_of(folder / "x.npz", npy(), claims)
    yield "another array", zip_of(folder / "x.npz", npy(), name="../feat.npy")
    yield "no zip", write(folder / "x.npz", b"x" * 100)
    yield "cut", write(folder / "x.npz", zip_of(folder / "y.npz", npy()).read_bytes()[:-9])


def captioning(bench, captions, *more):
    data = bench.folder / "data"
    data.mkdir(exist_ok=True)
    path = write(data / "captions.json", captions) if captions else data / "captions.json"
    return survives(bench, "train", "captioning", "--nproc-per-node", "1", "--set", f"data.train={path}", "--set",
                    f"data.features={data}", "--set", "max_steps=1", "--set", "epochs=1", "--set", "data.test=", "--run-dir",
                    bench.folder / "run", *more)


def poisoned_captions():
    def coco(image='{"id": 1, "file_name": "x.jpg"}', note='{"image_id": 1, "caption": "a cat"}'):
        return '{"images": [%s], "annotations": [%s]}' % (image, note)
    return {
        "deep": LIST, "deep images": '{"images": %s}' % LIST, "a deep image": coco(LIST), "a deep id": coco('{"id": %s}' % LIST),
        "a deep caption": coco(note='{"image_id": 1, "caption": %s}' % OBJECT), "a deep license": '{"info": %s}' % OBJECT,
        "open": '{"images": [' + OPEN, "an absurd id": coco('{"id": 1e999, "file_name": "x.jpg"}'),
        "an id beyond 64 bits": coco('{"id": 99999999999999999999999, "file_name": "x.jpg"}'),
        "an id twice": coco('{"id": 1, "file_name": "x.jpg"}, {"id": 1, "file_name": "y.jpg"}'),
        "an id of a list": coco('{"id": [1], "file_name": "x.jpg"}'), "no file": coco('{"id": 1}'),
        "a file of a number": coco('{"id": 1, "file_name": 7}'), "a name outside": coco('{"id": 1, "file_name": "../../x.jpg"}'),
        "an absolute name": coco('{"id": 1, "file_name": "/etc/passwd"}'), "a caption of null": coco(note='{"image_id": 1, "caption": null}'),
        "escapes": coco('{"id": "\\u001b[31m", "file_name": "\\u001b]0;x\\u0007.jpg"}', '{"image_id": "\\u001b[31m", "caption": "\\u001b[2J"}'),
        "a null byte": coco('{"id": "a\\u0000b", "file_name": "x\\u0000.jpg"}'), "a lone surrogate": coco('{"id": "\\ud800", "file_name": "x.jpg"}'),
        "no text": b'{"images": [{"id": "\xff"}]}', "Infinity": coco('{"id": Infinity, "file_name": "x.jpg"}'),
        "a caption of 50 MB": coco(note='{"image_id": 1, "caption": "%s"}' % ("a " * (25 << 20))),
        "many lists": '{"images": [' + "[]," * 3_000_000 + "1]}", "no object": "3", "nothing": "", "null": "null",
    }


def poisoned_captions_are_refused(bench):
    for what, content in poisoned_captions().items():
        assert captioning(bench, content).returncode in (64, 65), what


def poisoned_features_are_refused(bench):
    good = '{"images": [{"id": 1, "file_name": "x.jpg"}], "annotations": [{"image_id": 1, "caption": "a cat"}]}'
    for what, path in poisoned_npz(bench.folder / "data" if (bench.folder / "data").mkdir() is None else None):
        pathlib.Path(path).replace(bench.folder / "data/1.npz")
        ended = captioning(bench, good)
        assert ended.returncode == 65, f"{what}: {ended.told()}"
        assert not list(bench.folder.rglob("ran")), f"{what}: the header was run"


def weights_of_others_are_fitted_or_refused(bench):
    """init_from_partial takes tensors that match by name and shape, and names the others."""
    (bench.folder / "data").mkdir()
    for i in range(8):
        write(bench.folder / "data" / f"012{i}_1.png", png(60, 30))
    deep = ".".join(["a"] * 20_000)
    for what, tensors in {
        "another shape": {"conv.0.weight": {"dtype": "F32", "shape": [1, 1, 1, 1], "data_offsets": [0, 4]}},
        "a deep name": {deep: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        "escapes": {"\x1b[31m\u009b2J": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
        "50,000 keys": {f"k{i}": {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]} for i in range(50_000)},
        "no elements": {"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}},
        "64 sides": {"w": {"dtype": "F32", "shape": [1] * 64, "data_offsets": [0, 4]}},
    }.items():
        size = max(entry["data_offsets"][1] for entry in tensors.values())
        path = write(bench.folder / "x.safetensors", safetensors(tensors, {}, bytes(size)))
        ended = survives(bench, "train", "captcha:digits", "--nproc-per-node", "1", "--set", f"data.train={bench.folder}/data",
                         "--set", "data.test=", "--set", "max_steps=1", "--run-dir", bench.folder / "run", "--init-from",
                         path, "--init-from-partial")
        assert ended.returncode in (64, 65), f"{what}: {ended.told()}"
        assert len(ended.text) < 20_000, f"{what}: {len(ended.text)} bytes were printed"


TRIALS = [
    ("files", deep_labels_are_refused, 1),
    ("files", deep_markup_and_settings_are_refused, 1),
    ("files", deep_files_of_a_run_are_passed_over, 1),
    ("files", deep_traces_are_refused, 1),
    ("files", deep_words_of_weights_are_refused, 1),
    ("files", what_verify_calls_whole_can_be_read, 1),
    ("files", poisoned_pickles_are_refused_in_time, 1),
    ("files", torchscript_is_never_run, 1),
    ("files", poisoned_captions_are_refused, 1),
    ("files", poisoned_features_are_refused, 1),
    ("files", weights_of_others_are_fitted_or_refused, 1),
]
