# SPDX-License-Identifier: Apache-2.0
"""Poisoned files: special files, names that lead outside the data, numbers beyond a float, images that claim to be enormous,
and escape characters for a terminal. Each trial raises AssertionError if the attack succeeds."""
import os
import pathlib
import socket
import struct
import zlib

SECONDS = 20  # per command; each takes less than one second if nothing hangs
MOST_BYTES = 500 << 20  # a command's memory limit: it takes about 150 MB without any image
RED = "\x1b[31m"


def words(output) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output


def command(bench, *arguments, timeout=SECONDS):
    program = str(pathlib.Path(bench.programs) / "lockstep")
    done = bench.run([program, *map(str, arguments)], timeout=timeout)
    assert done.seconds < timeout, f"{arguments}: still running after {timeout} s"
    return done


def survey(bench, path, *arguments):
    """The output of `lockstep inspect data`, both streams."""
    done = command(bench, "inspect", "data", path, "--samples", "0", *arguments)
    return done, words(done.stdout) + words(done.stderr)


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, depth: int = 8) -> bytes:
    """Grey, all black."""
    row = b"\0" * (1 + (width * depth + 7) // 8)
    pack = zlib.compressobj(9)
    packed = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def jpeg(width: int, height: int, progressive: bool) -> bytes:
    """A JPEG with three components, and far fewer blocks than its size claims."""
    def segment(marker: int, content: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content
    parts = b"".join(bytes([i, 0x11, 0]) for i in (1, 2, 3))
    frame = struct.pack(">BHHB", 8, height, width, 3) + parts
    table = bytes([1] + [0] * 15 + [0])
    scan = bytes([3, 1, 0, 2, 0, 3, 0, 0, 0 if progressive else 63, 0])
    return (b"\xff\xd8" + segment(0xDB, bytes([0]) + bytes([1] * 64)) + segment(0xC2 if progressive else 0xC0, frame)
            + segment(0xC4, b"\0" + table) + segment(0xC4, b"\x10" + table) + segment(0xDA, scan) + b"\0" * 1000
            + b"\xff\xd9")


def special_files(folder: pathlib.Path) -> dict:
    """Special files, with the names of their kinds."""
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
    (folder / "zero").symlink_to("/dev/zero")
    return {"fifo": "named pipe", "socket": "socket", "zero": "device"}


def refused_by_name(done, kind: str, what: str):
    said = words(done.stdout) + words(done.stderr)
    assert "not a regular file" in said and kind in said, f"{what} was not rejected as a {kind}: {said[-300:]}"


def special_files_as_pictures(bench):
    folder = pathlib.Path(bench.folder)
    for name, kind in special_files(folder).items():
        (folder / "list.csv").write_text(f"path\n{name}\n")
        done, _ = survey(bench, folder / "list.csv")
        refused_by_name(done, kind, f"a picture {name}")


def special_files_as_annotations(bench):
    folder = pathlib.Path(bench.folder)
    for name, kind in special_files(folder).items():
        for ending in ("json", "csv", "tar", "pack"):
            link = folder / f"{name}.{ending}"
            link.symlink_to(name)
            refused_by_name(survey(bench, link)[0], kind, link.name)


def special_files_as_configs_and_weights(bench):
    folder = pathlib.Path(bench.folder)
    for name, kind in special_files(folder).items():
        for ending in ("yml", "safetensors", "pth"):
            (folder / f"{name}.{ending}").symlink_to(name)
        refused_by_name(command(bench, "inspect", "config", folder / f"{name}.yml"), kind, f"{name}.yml")
        for ending in ("safetensors", "pth"):
            done = command(bench, "train", "captcha:digits", "--set", f"data.train={folder}", "--set", "max_steps=1",
                           "--run-dir", folder / f"run-{name}-{ending}", "--init-from", folder / f"{name}.{ending}")
            assert done.returncode != 0, f"{name}.{ending} was read as weights"


def a_pipe_as_the_lock_of_a_run(bench):
    run = pathlib.Path(bench.folder) / "run"
    (run / "checkpoints" / "step-00000001").mkdir(parents=True)
    os.mkfifo(run / ".lock")
    done = command(bench, "train", "captcha:digits", "--set", f"data.train={bench.folder}", "--run-dir", run)
    assert done.returncode != 0, "a run with a pipe as its lock began"


def names_that_lead_outside(bench):
    root = pathlib.Path(bench.folder)
    folder = root / "data"
    (folder / "x").mkdir(parents=True)
    (root / "secret.png").write_bytes(png(8, 8))
    (folder / "inside.png").write_bytes(png(8, 8))
    inside = '{"images": [{"id": 1, "file_name": "%s"}], "annotations": [], "categories": []}'
    for name in ("../secret.png", str(root / "secret.png"), "x/../../secret.png"):
        (folder / "list.csv").write_text(f"path\n{name}\n")
        (folder / "list.jsonl").write_text('{"path": "%s"}\n' % name)
        (folder / "coco.json").write_text(inside % name)
        for file in ("list.csv", "list.jsonl", "coco.json"):
            done, said = survey(bench, folder / file)
            assert done.returncode != 0 and "outside" in said, f"{file} reads {name}: {said[-300:]}"
            done, said = survey(bench, folder / file, "--allow-outside")
            assert done.returncode == 0, f"{file} may read {name}: {said[-300:]}"
    (folder / "list.csv").write_text(f"path\nx/../inside.png\n{folder}/inside.png\n")
    done, said = survey(bench, folder / "list.csv")
    assert done.returncode == 0 and "all readable" in said, said[-300:]


def names_of_voc_that_lead_outside(bench):
    root = pathlib.Path(bench.folder)
    for name in ("voc/JPEGImages", "voc/Annotations", "voc/ImageSets/Main", "JPEGImages", "Annotations"):
        (root / name).mkdir(parents=True)
    (root / "secret.png").write_bytes(png(8, 8))
    (root / "secret.xml").write_text("<annotation></annotation>")
    (root / "voc/ImageSets/Main/trainval.txt").write_text("../../secret\n")
    done, said = survey(bench, root / "voc", "--type", "voc")
    assert done.returncode != 0 and "outside" in said, f"VOC reads ../../secret: {said[-300:]}"


def names_of_captions_that_lead_outside(bench):
    root = pathlib.Path(bench.folder)
    (root / "set").mkdir()
    (root / "secret.png").write_bytes(png(8, 8))
    (root / "set/captions.txt").write_text("../secret.png\ta dog\n")
    done = command(bench, "train", "captioning", "--set", f"data.train={root}/set", "--set", "max_steps=1",
                   "--run-dir", root / "run")
    said = words(done.stdout) + words(done.stderr)
    assert done.returncode != 0 and "outside" in said, f"captions read ../secret.png: {said[-300:]}"


def absurd_numbers(bench):
    folder = pathlib.Path(bench.folder)
    (folder / "a.png").write_bytes(png(8, 8))
    (folder / "coco.json").write_text(
        '{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "a"}], "annotations": '
        '[{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "keypoints": [1e308, 2, 2]}]}')
    (folder / "list.jsonl").write_text('{"path": "a.png", "boxes": [[0, 0, 1e308, 1]], "values": [1e308]}\n')
    for name in ("voc/JPEGImages", "voc/Annotations", "voc/ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    (folder / "voc/JPEGImages/a.png").write_bytes(png(8, 8))
    (folder / "voc/Annotations/a.xml").write_text(
        "<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>1e308</xmax><ymax>2</ymax>"
        "</bndbox></object></annotation>")
    (folder / "voc/ImageSets/Main/trainval.txt").write_text("a\n")
    write_tar(folder / "a.tar", {"a.png": png(8, 8), "a.json": b'{"objects": [{"box": [0, 0, 1e308, 1]}]}'})
    for name in ("coco.json", "list.jsonl", "voc", "a.tar"):
        _, said = survey(bench, folder / name)
        assert "1e+308" in said, f"{name}: 1e308 was accepted: {said[-400:]}"


def write_tar(path: pathlib.Path, members: dict):
    import io
    import tarfile
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


def enormous_pictures(bench):
    folder = pathlib.Path(bench.folder)
    pictures = {"progressive.jpg": jpeg(16384, 16384, True), "baseline.jpg": jpeg(13000, 13000, False),
                "bits.png": png(16384, 16384, 1)}
    for name, content in pictures.items():
        (folder / "one").mkdir(exist_ok=True)
        file = folder / "one" / name
        file.write_bytes(content)
        done, said = survey(bench, folder / "one")
        assert "unreadable: 1" in said, f"{name} of {len(content)} bytes was decoded: {said[-300:]}"
        assert done.peak_bytes < MOST_BYTES, f"{name} of {len(content)} bytes took {done.peak_bytes >> 20} MB"
        file.unlink()


def escape_characters_in_names(bench):
    folder = pathlib.Path(bench.folder)
    (folder / "pictures").mkdir()
    (folder / "pictures" / f"a{RED}b.png").write_bytes(b"no picture")
    (folder / "a.png").write_bytes(png(8, 8))
    (folder / "coco.json").write_text(
        '{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "\\u001b[31mcat\\u009b31m"}], '
        '"annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 4, 4]}]}')
    (folder / "list.csv").write_text(f"path\n{RED}missing.png\n")
    for arguments in ([folder / "pictures"], [folder / "coco.json"], [folder / "coco.json", "--json"],
                      [folder / "list.csv"]):
        _, said = survey(bench, *arguments)
        assert "\x1b" not in said and "\x9b" not in said, f"{arguments}: an escape character was printed: {said!r}"


def escape_characters_in_settings(bench):
    folder = pathlib.Path(bench.folder)
    (folder / "key.yml").write_text('recipe: captcha\n"\\e[31mkey\\e]0;title\\a": 1\n')
    (folder / "value.yml").write_text('recipe: captcha\ndata: {charset: "0-9\\e[31m"}\n')
    (folder / "recipe.yml").write_text('recipe: "\\e[31mx"\n')
    for name in ("key.yml", "value.yml", "recipe.yml"):
        for form in ([], ["--json"]):
            done = command(bench, "inspect", "config", folder / name, *form)
            said = words(done.stdout) + words(done.stderr)
            assert "\x1b" not in said and "\x07" not in said, f"{name}: an escape character was printed: {said!r}"


TRIALS = [
    ("pictures", special_files_as_pictures, 1),
    ("annotations", special_files_as_annotations, 1),
    ("config", special_files_as_configs_and_weights, 1),
    ("config", a_pipe_as_the_lock_of_a_run, 1),
    ("annotations", names_that_lead_outside, 1),
    ("annotations", names_of_voc_that_lead_outside, 1),
    ("annotations", names_of_captions_that_lead_outside, 1),
    ("annotations", absurd_numbers, 1),
    ("pictures", enormous_pictures, 1),
    ("annotations", escape_characters_in_names, 1),
    ("config", escape_characters_in_settings, 1),
]
