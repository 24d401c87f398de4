# SPDX-License-Identifier: Apache-2.0
"""Writes JPEGs with each kind of subsampling next to this file, larger than a few blocks, for tests that decode parts.

Run with Debian's Pillow (python3-pil).
"""
import pathlib
import random

from PIL import Image, ImageFilter

HERE = pathlib.Path(__file__).parent
SIZE = (93, 75)


def main():
    draw = random.Random(11)
    noise = bytes(draw.randrange(256) for _ in range(SIZE[0] * SIZE[1] * 3))
    image = Image.frombytes("RGB", SIZE, noise).filter(ImageFilter.GaussianBlur(1))
    for name, options in {"part_444": {"subsampling": 0}, "part_422": {"subsampling": 1},
                          "part_420": {"subsampling": 2},
                          "part_progressive": {"subsampling": 2, "progressive": True}}.items():
        image.save(HERE / f"{name}.jpg", quality=85, **options)
    image.convert("L").save(HERE / "part_gray.jpg", quality=85)


main()
