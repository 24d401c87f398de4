# SPDX-License-Identifier: Apache-2.0
"""Writes the hostile files beside it: what scripts/trials/attacks/files.py attacks with, in small.

    python3 tests/data/fuzz_hostile/make_hostile.py
"""
import importlib.util
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("files", HERE / "../../../scripts/trials/attacks/files.py")
FILES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(FILES)

COCO = ('{"images": [{"id": 1, "file_name": "a.png"}], "categories": [{"id": 1, "name": "a"}], "annotations": '
        '[{"id": 1, "image_id": 1, "category_id": 1, "bbox": %s, "keypoints": %s}]}\n')
VOC = ("<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>%s</ymin><xmax>%s</xmax><ymax>2</ymax></bndbox>"
       "</object></annotation>\n")


def png_of(width: int, height: int, depth: int) -> bytes:
    """A header that claims so much, and hardly any pixels."""
    header = struct.pack(">IIBBBBB", width, height, depth, 0, 0, 0, 0)
    small = FILES.png(8, 8)
    return small[:8] + FILES.chunk(b"IHDR", header) + small[33:]


def put(name: str, content):
    (HERE / name).write_bytes(content if isinstance(content, bytes) else content.encode())


put("images/progressive.jpg", FILES.jpeg(16384, 16384, True))
put("images/baseline.jpg", FILES.jpeg(6000, 6000, False))
put("images/bits.png", png_of(16384, 16384, 1))
put("images/deep.png", png_of(6000, 6000, 16))
put("coco/far_keypoint.json", COCO % ("[0, 0, 4, 4]", "[1e308, 2, 2]"))
put("coco/far_corner.json", COCO % ("[1e6, 0, 1e6, 4]", "[1, 2, 2]"))
put("voc/far_box.xml", VOC % ("1", "1e308"))
put("voc/near_box.xml", VOC % ("-1e308", "2"))
put("lists/far_box.jsonl", '{"path": "a.png", "boxes": [[0, 0, 1e308, 1]]}\n')
put("lists/far_value.jsonl", '{"path": "a.png", "values": [1e39]}\n')
for kind, text in {"box": '{"objects": [{"box": [0, 0, 1e308, 1]}]}',
                   "point": '{"objects": [{"box": [0, 0, 1, 1], "points": [[1e39, 0, 1]]}]}',
                   "area": '{"objects": [{"box": [0, 0, 1, 1], "area": 1e308}]}',
                   "value": '{"values": [-1e308]}'}.items():
    FILES.write_tar(HERE / f"tar/far_{kind}.tar", {"a.png": FILES.png(8, 8), "a.json": text.encode()})
