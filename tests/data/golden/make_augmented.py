# SPDX-License-Identifier: Apache-2.0
"""Writes augmented.json and augmented_*.png next to this file: torchvision's results for part_444.jpg.

Run with Debian's torchvision 0.14 (python3-torchvision). Operations that must give the same bits are kept as a 64-bit FNV-1a
hash over the bytes, the others as images.
"""
import json
import pathlib

import torch
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

HERE = pathlib.Path(__file__).parent
BILINEAR = InterpolationMode.BILINEAR


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def exact(image):
    """Name, arguments, result."""
    yield "resized_crop", [11, 7, 60, 50, 32, 24], F.resized_crop(image, 7, 11, 50, 60, [24, 32], BILINEAR)
    yield "resize_shorter", [30, 0], F.resize(image, 30, BILINEAR)
    yield "resize_shorter", [60, 70], F.resize(image, 60, BILINEAR, max_size=70)
    yield "center_crop", [41, 32], F.center_crop(image, [32, 41])
    yield "center_crop", [100, 51], F.center_crop(image, [51, 100])
    yield "pad", [3, 4, 5, 6], F.pad(image, [3, 4, 5, 6], (10, 20, 30))
    yield "hflip", [], F.hflip(image)
    yield "vflip", [], F.vflip(image)
    yield "gray", [3], F.to_grayscale(image, 3)
    yield "gray", [1], F.to_grayscale(image, 1)
    for factor in (0.0, 0.3, 0.8, 1.0, 1.25, 2.0):
        yield "brightness", [factor], F.adjust_brightness(image, factor)
        yield "contrast", [factor], F.adjust_contrast(image, factor)
        yield "saturation", [factor], F.adjust_saturation(image, factor)
    for by in (-0.5, -0.3, -0.07, 0.0, 0.1, 0.25, 0.5):
        yield "hue", [by], F.adjust_hue(image, by)


def near(image):
    yield "rotate", [20.0], F.rotate(image, 20.0, BILINEAR)
    yield "affine", [10.0, 5.0, -3.0, 0.8, 7.0, -4.0], F.affine(image, 10.0, [5, -3], 0.8, [7.0, -4.0], BILINEAR)
    yield "blur", [5, 1.3], F.gaussian_blur(image, [5, 5], [1.3, 1.3])


def statistics(image):
    """The values of ToTensor and Normalize at a few positions."""
    tensor = F.normalize(F.to_tensor(image), (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    places = [[c, y, x] for c in range(3) for y, x in ((0, 0), (10, 92), (74, 3), (40, 41))]
    return {"op": "tensor", "places": places, "values": [tensor[c, y, x].item() for c, y, x in places],
            "sum": tensor.to(torch.float64).sum().item()}


def main():
    image = Image.open(HERE / "part_444.jpg").convert("RGB")
    entries = []
    for op, arguments, result in exact(image):
        entries.append({"op": op, "arguments": arguments, "size": result.size, "fnv1a": fnv1a(result.tobytes())})
    for op, arguments, result in near(image):
        name = f"augmented_{op}.png"
        result.save(HERE / name, optimize=True)
        entries.append({"op": op, "arguments": arguments, "size": result.size, "picture": name})
    entries.append(statistics(image))
    lines = ",\n".join(json.dumps(e) for e in entries)
    (HERE / "augmented.json").write_text(f"[\n{lines}\n]\n")


main()
