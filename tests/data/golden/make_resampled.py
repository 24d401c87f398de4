# SPDX-License-Identifier: Apache-2.0
"""Writes resampled.json next to this file: Pillow's results for parts of two golden images at other sizes.

Run with Debian's Pillow (python3-pil). An entry keeps the first values and a 64-bit FNV-1a hash over the bytes.
"""
import json
import pathlib
import random

from PIL import Image

HERE = pathlib.Path(__file__).parent
WAYS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
SIZES = [(16, 16), (93, 31), (40, 75), (93, 75), (186, 150), (7, 5), (1, 1), (33, 200), (50, 41), (64, 17)]


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def part(draw, way):
    if way == "nearest" or draw.random() < 0.3:
        return [0, 0, 93, 75]
    x1, y1 = draw.randrange(30), draw.randrange(30)
    if draw.random() < 0.5:
        return [x1, y1, draw.randrange(x1 + 20, 94), draw.randrange(y1 + 20, 76)]
    return [x1 + 0.25, y1 + 0.5, x1 + 40.75, y1 + 33.125]


def main():
    draw = random.Random(5)
    entries = []
    for name in ("part_gray.jpg", "part_444.jpg"):
        image = Image.open(HERE / name)
        for way, resampling in WAYS.items():
            for size in SIZES:
                box = part(draw, way)
                data = image.resize(size, resampling, box=box).tobytes()
                entries.append({"file": name, "way": way, "size": size, "part": box, "first": list(data[:3]),
                                "fnv1a": fnv1a(data)})
    lines = ",\n".join(json.dumps(e) for e in entries)
    (HERE / "resampled.json").write_text(f"[\n{lines}\n]\n")


main()
