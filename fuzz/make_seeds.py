# SPDX-License-Identifier: Apache-2.0
"""Writes the generated seeds of the fuzzer: a few small inputs for each target that reads a binary format.

    scripts/trials/fuzz --unpack FOLDER && python3 fuzz/make_seeds.py FOLDER && scripts/trials/fuzz --pack FOLDER

Run with any Python 3. The hashes of the packed files are zero: the fuzzer reads them as if they were correct. TARGET/hostile has
small versions of the attacks in scripts/trials/attacks/files.py.
"""
import gzip
import hmac
import importlib.util
import io
import json
import pathlib
import struct
import sys
import tarfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/data/golden"
WEIGHTS = ROOT / "tests/checkpoint/golden"
PNG = (GOLDEN / "one_bit.png").read_bytes()
SPEC = importlib.util.spec_from_file_location("files", ROOT / "scripts/trials/attacks/files.py")
FILES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FILES)


def write(name, content):
    path = pathlib.Path(sys.argv[1]) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def tar(format, names):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as shard:
        for name, content in names:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            shard.addfile(info, io.BytesIO(content))
    return buffer.getvalue().rstrip(b"\0") + bytes(1024)


def tars():
    mark = json.dumps({"id": 3, "captions": ["a", "b"], "values": [1.5], "objects": [
        {"box": [0, 0, 2, 2], "label": 1, "crowd": False, "area": 4.0, "points": [[1, 1, 1]], "mask": "2gb0"}]}).encode()
    sample = [("a.png", PNG), ("a.cls", b"3\n"), ("a.txt", b"words"), ("a.json", mark), ("a.seg.png", PNG)]
    write("tar/ustar.tar", tar(tarfile.USTAR_FORMAT, sample))
    write("tar/pax.tar", tar(tarfile.PAX_FORMAT, [("n" * 120 + ".png", PNG), ("n" * 120 + ".cls", b"1")]))
    write("tar/gnu.tar", tar(tarfile.GNU_FORMAT, [("n" * 120 + ".png", PNG)]))


def idx():
    for type_code, size in ((8, 1), (11, 2), (13, 4), (14, 8)):
        content = struct.pack(">HBBII", 0, type_code, 2, 2, 3) + bytes(range(6 * size))
        write(f"idx/type{type_code}.idx", content)
        write(f"idx/type{type_code}.gz", gzip.compress(content, mtime=0))


def texts():
    box = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>5</xmax><ymax>6</ymax></bndbox>"
    write("voc/one.xml", "<?xml version=\"1.0\"?><annotation><size><width>10</width><height>8</height></size>"
          f"<object><name>a &amp; b</name><difficult>1</difficult>{box}</object></annotation>")
    write("coco/all.json", json.dumps({
        "images": [{"id": 1, "file_name": "a", "width": 8, "height": 6}],
        "categories": [{"id": 2, "name": "x"}],
        "annotations": [
            {"image_id": 1, "category_id": 2, "bbox": [0, 1, 2.5, 3], "area": 2, "iscrowd": 0,
             "segmentation": [[0, 0, 4, 0, 4, 4.5]], "keypoints": [1, 2, 2]},
            {"image_id": 1, "category_id": 2, "bbox": [0, 0, 1, 1], "iscrowd": 1,
             "segmentation": {"counts": [1, 40, 7], "size": [6, 8]}},
            {"image_id": 1, "category_id": 2, "bbox": [0, 0, 1, 1],
             "segmentation": {"counts": "1X17", "size": [6, 8]}},
            {"image_id": 1, "caption": "words"}]}))
    write("lists/a.csv", 'path,label,age,words\r\na.png,dog,1.5,"x, ""y"""\r\nb.png,cat,2,\r\n')
    write("lists/a.json", '[{"path": "a", "boxes": [[0, 0, 1, 1]], "labels": ["x"]}, {"path": "b", "caption": "c"}]')
    write("lists/a.jsonl", '{"path": "a", "labels": [1, 2], "values": [1.5]}\n{"path": "b", "label": 1}\n')


def png_rows():
    for color, depth, channels in ((0, 8, 1), (2, 8, 3), (6, 8, 4), (4, 8, 2), (3, 4, 1), (0, 1, 1), (2, 16, 6)):
        width, height = 9, 5
        row = (width * channels * (depth if depth < 8 else 8) + 7) // 8
        rows = b"".join(bytes([y % 5]) + bytes((7 * x + 31 * y) % 256 for x in range(row)) for y in range(height))
        write(f"png_rows/color{color}_{depth}", bytes([width, 0, height - 1, depth, color, 0, 16, 1]) + rows)


def text(value):
    return struct.pack("<I", len(value)) + value


def packed():
    marks = struct.pack("<q", 7) + text(b"a.png") + struct.pack("<Bq", 1, 2)
    marks += struct.pack("<I", 1) + text(b"words") + struct.pack("<If", 1, 1.5)
    marks += struct.pack("<IIIB", 1, 4, 2, 255) + bytes(range(8))
    marks += struct.pack("<I5fqB", 1, 0, 0, 2, 2, 4, 1, 0) + struct.pack("<IffB", 1, 1, 1, 1)
    marks += struct.pack("<BIIII", 1, 3, 1, 3, 4)
    samples = [(0, 3, 4, 2, bytes(24)), (1, 0, 4, 2, PNG)]
    body, entries = b"", b""
    for encoded, channels, width, height, pixels in samples:
        offset = 4096 + len(body)
        entries += struct.pack("<QQQIIIBB", offset, len(pixels), 0, len(marks), width, height, encoded, channels) + bytes(10)
        body += pixels + marks
        body += bytes(-len(body) % 64)
    index = entries + struct.pack("<I", 2) + text(b"cat") + text(b"dog")
    at = 4096 + len(body)
    footer = struct.pack("<QQQQQQ", len(samples), at, len(index), 0, at + len(index) + 64, 0) + bytes(8) + b"\nPACKEND"
    write("packed/two.pack", b"\x89LSPACK\n" + struct.pack("<I", 1) + bytes(4096 - 12) + body + index + footer)


MANIFEST = """{
  "format_version": 1,
  "step": 1200,
  "replicas": 2,
  "threads": 1,
  "libtorch": "1.13.0",
  "instruction_set": "AVX512",
  "configuration_hash": "5f1c",
  "files": {
    "config.yml": {"bytes": 563, "xxh3_128": "00112233445566778899aabbccddeeff"},
    "model.safetensors": {"bytes": 76294016, "xxh3_128": "ffeeddccbbaa99887766554433221100"}
  },
"""


def checkpoints():
    for name in ("state_dict", "deflated", "nested"):
        write(f"zip/{name}.zip", (WEIGHTS / f"{name}.pth").read_bytes())
    for name in ("state_dict", "nested", "types", "protocol4", "attack"):
        with zipfile.ZipFile(WEIGHTS / f"{name}.pth") as archive:
            member = next(m for m in archive.namelist() if m.endswith("/data.pkl"))
            write(f"pickle/{name}.pkl", archive.read(member))
    # A key that is not UTF-8, and an empty zip file.
    write("pickle/latin_key.pkl", b"\x80\x02}X\x04\x00\x00\x00gr\xfcnK\x01s.")
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    write("zip/empty.zip", empty.getvalue())
    header = json.dumps({
        "__metadata__": {"format": "pt", "scalar.step": "12", "scalar.best": '{"float":"nan"}'},
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "b": {"dtype": "BOOL", "shape": [3], "data_offsets": [16, 19]},
        "c": {"dtype": "I64", "shape": [0, 4], "data_offsets": [19, 19]},
    }).encode()
    write("safetensors/three.safetensors", struct.pack("<Q", len(header)) + header + bytes(19))
    write("manifest/one.json", MANIFEST)
    absurd = MANIFEST.replace('"step": 1200', '"step": -5').replace('"replicas": 2', '"replicas": 0')
    write("manifest/absurd.json", absurd.replace('"threads": 1', '"threads": 1000000000'))


def png_of(width: int, height: int, depth: int) -> bytes:
    """A header that claims this size, with hardly any pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    small = FILES.png(8, 8)
    return small[:8] + FILES.chunk(b"IHDR", header) + small[33:]


def hostile_pictures():
    write("images/hostile/progressive.jpg", FILES.jpeg(16384, 16384, True))
    write("images/hostile/baseline.jpg", FILES.jpeg(6000, 6000, False))
    write("images/hostile/bits.png", png_of(16384, 16384, 1))
    write("images/hostile/deep.png", png_of(6000, 6000, 16))


def hostile_numbers():
    coco = ('{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "a"}], "annotations": '
            '[{"id": 1, "image_id": 1, "category_id": 1, "bbox": %s, "keypoints": %s}]}\n')
    voc = ("<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>%s</ymin><xmax>%s</xmax><ymax>2</ymax>"
           "</bndbox></object></annotation>\n")
    write("coco/hostile/far_keypoint.json", coco % ("[0, 0, 4, 4]", "[1e308, 2, 2]"))
    write("coco/hostile/far_corner.json", coco % ("[1e6, 0, 1e6, 4]", "[1, 2, 2]"))
    write("voc/hostile/far_box.xml", voc % ("1", "1e308"))
    write("voc/hostile/near_box.xml", voc % ("-1e308", "2"))
    write("lists/hostile/far_box.jsonl", '{"path": "a.png", "boxes": [[0, 0, 1e308, 1]]}\n')
    write("lists/hostile/far_value.jsonl", '{"path": "a.png", "values": [1e39]}\n')
    for kind, text in {"box": '{"objects": [{"box": [0, 0, 1e308, 1]}]}',
                       "point": '{"objects": [{"box": [0, 0, 1, 1], "points": [[1e39, 0, 1]]}]}',
                       "area": '{"objects": [{"box": [0, 0, 1, 1], "area": 1e308}]}',
                       "value": '{"values": [-1e308]}'}.items():
        write(f"tar/hostile/far_{kind}.tar", b"")  # creates the folder
        FILES.write_tar(pathlib.Path(sys.argv[1]) / f"tar/hostile/far_{kind}.tar",
                        {"a.png": FILES.png(8, 8), "a.json": text.encode()})


def lengthened(words: list[bytes]) -> bytes:
    return b"".join(text(word) for word in words)


def hello(wire: bytes) -> bytes:
    """Rank 1's first bytes to rank 0, with the key of wire_targets.cpp."""
    key = hmac.digest(b"a token that no input holds", lengthened([b"lswire1", b"seed"]), "sha256")
    clear = b"lswire1" + wire + struct.pack("<IIQ", 1, 0, 7) + b"c" * 32
    return clear + hmac.digest(key, lengthened([b"hello", clear, b"L" * 32]), "sha256")


def client_hello() -> bytes:
    """A client hello of TLS 1.3 with the ranks' name for their key, and the binder of a peer that does not know the key."""
    def extension(number, content):
        return struct.pack(">HH", number, len(content)) + content
    identity = struct.pack(">H", 8) + b"lockstep" + bytes(4)
    share = struct.pack(">HH", 0x1D, 32) + b"\x09" + bytes(31)
    extensions = (extension(43, b"\x02\x03\x04") + extension(10, b"\x00\x02\x00\x1d") + extension(45, b"\x01\x01")
                  + extension(51, struct.pack(">H", len(share)) + share)
                  + extension(41, struct.pack(">H", len(identity)) + identity + b"\x00\x21\x20" + bytes(32)))
    body = b"\x03\x03" + bytes(range(32)) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += struct.pack(">H", len(extensions)) + extensions
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + struct.pack(">H", len(message)) + message


def wires():
    def frame(number, size):
        return b"LSRF" + struct.pack("<IQ", number, size) + bytes(i % 251 for i in range(size))
    for name, wire in (("encrypted", b"t"), ("plain", b"p")):
        write(f"wire_hello/{name}", hello(wire))
    write("wire_opening/answer", bytes(range(64)))
    write("wire_opening/same", bytes(16))  # changes nothing
    write("wire_frames/both", b"\x00" + frame(0, 40) + frame(1, 4096))
    write("wire_frames/another_length", b"\x00" + frame(0, 40) + frame(1, 4095))
    write("wire_frames/another_number", b"\x00" + frame(0, 40) + frame(2, 4096))
    write("wire_frames/endless", b"\x00" + frame(0, 40) + b"LSRF" + struct.pack("<IQ", 1, 2 ** 64 - 1))
    write("wire_frames/called", b"\x03" + client_hello())
    write("wire_frames/calling", b"\x01" + b"\x15\x03\x03\x00\x02\x02\x28")  # an alert


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        sys.exit(0 if sys.argv[1:] in (["--help"], ["-h"]) else 64)
    tars()
    idx()
    texts()
    png_rows()
    packed()
    checkpoints()
    hostile_pictures()
    hostile_numbers()
    wires()
