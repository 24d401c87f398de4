# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds beside this file: a few small inputs for each target of fuzz/ but `images`, whose seeds are golden/.

Run with any Python 3. The hashes of the packed files are zero: the fuzzer reads them as if they were right.
"""
import gzip
import io
import json
import pathlib
import struct
import tarfile

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden"
PNG = (GOLDEN / "one_bit.png").read_bytes()


def write(name, content):
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
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


if __name__ == "__main__":
    tars()
    idx()
    texts()
    png_rows()
    packed()
