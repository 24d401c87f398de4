# SPDX-License-Identifier: Apache-2.0
"""Writes small images of every kind next to this file, and images.json with what Pillow reads from them.

Run with Debian's Pillow (python3-pil). "gray" is convert("L"), "rgb" is convert("RGB"), each as the 64-bit FNV-1a hash of its
bytes, beside the first gray values. There are no sixteen-bit files: Pillow clips them, we keep the upper eight bits.
"""
import json
import pathlib
import random

from PIL import Image

HERE = pathlib.Path(__file__).parent
SIZE = (23, 17)


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def noise(mode, channels, draw):
    return Image.frombytes(mode, SIZE, bytes(draw.randrange(256) for _ in range(SIZE[0] * SIZE[1] * channels)))


def gradient():
    image = Image.new("RGB", SIZE)
    image.putdata([(11 * x % 256, 15 * y, 5 * (x + y)) for y in range(SIZE[1]) for x in range(SIZE[0])])
    return image


def main():
    draw = random.Random(7)
    rgb = noise("RGB", 3, draw)
    images = {
        "rgb.png": rgb,
        "gray.png": noise("L", 1, draw),
        "gray_alpha.png": noise("LA", 2, draw),
        "rgba.png": noise("RGBA", 4, draw),
        "palette.png": rgb.quantize(200),
        "palette4.png": gradient().quantize(13),
        "one_bit.png": noise("L", 1, draw).convert("1"),
        "rgb_444.jpg": gradient(),
        "rgb_420.jpg": gradient(),
        "gray.jpg": gradient().convert("L"),
    }
    expected = []
    for name, image in images.items():
        sampling = {"rgb_444.jpg": 0, "rgb_420.jpg": 2}.get(name)
        image.save(HERE / name, **({"subsampling": sampling, "quality": 90} if sampling is not None else {}))
        read = Image.open(HERE / name)
        gray, color = read.convert("L").tobytes(), read.convert("RGB").tobytes()
        expected.append({"file": name, "width": SIZE[0], "height": SIZE[1], "gray": fnv1a(gray), "rgb": fnv1a(color),
                         "first_gray": list(gray[:4])})
    lines = ",\n".join(json.dumps(e) for e in expected)
    (HERE / "images.json").write_text(f"[\n{lines}\n]\n")


main()
