#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how much accuracy a Winograd convolution's points cost: a simulation of forward with 3x3 weights, in NumPy.

For float32: the norm of the error relative to that of the results; points, products and sums are float32. For bfloat16: the norm
of the error relative to that of a direct sum; inputs, weights, their points and the results are rounded to 8 bits, and everything
else is exact. These are the figures of docs/design/convolutions.md; the kernels are in src/nn/conv.

example:
  scripts/measure/winograd_points.py
  scripts/measure/winograd_points.py --tile 4 --points 0 0.75 -0.75 1.5 -1.5

exit code: 0, 64 wrong arguments
"""
import argparse
import sys

try:
    import numpy as np
except ModuleNotFoundError:
    np = None

CANDIDATES = [(2, (0, 1, -1))] + [(4, (0, a, -a, b, -b)) for a, b in
              ((1, 2), (0.75, 1.5), (0.625, 1.25), (0.625, 1.5), (0.5, 1.25), (0.5, 1.5), (0.75, 1.25), (0.6875, 1.375))] + \
             [(3, points) for points in ((0, 1, -1, 2), (0, 1, -1, 0.5), (0, 1, -1, -2), (0, 0.75, -0.75, 1.5), (0, 0.75, -0.75, -2),
                                         (0, 0.625, -0.625, 1.5))]


def transforms(tile: int, points: tuple) -> tuple:
    """A^T, G and B^T of F(tile, 3) by Toom and Cook, with the point infinity as the last."""
    size = tile + 2
    results, weights, inputs = np.zeros((tile, size)), np.zeros((size, 3)), np.zeros((size, size))
    for i, point in enumerate(points):
        others = [other for other in points if other != point]
        results[:, i] = [point ** k for k in range(tile)]
        weights[i] = [point ** k / np.prod([point - other for other in others]) for k in range(3)]
        inputs[i, :size - 1] = np.poly(others)[::-1]
    results[tile - 1, size - 1] = weights[size - 1, 2] = 1
    inputs[size - 1] = np.poly(points)[::-1]
    return results, weights, inputs


def bfloat16(values):
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32).astype(float)


def sides(matrix, values, kind):
    """matrix x values x its transpose, each product and sum of type `kind`."""
    matrix, values = matrix.astype(kind), values.astype(kind)
    down = sum(matrix[:, k, None] * values[..., k:k + 1, :] for k in range(matrix.shape[1]))
    return sum(down[..., :, k:k + 1] * matrix[:, k] for k in range(matrix.shape[1]))


def direct(images, weights, tile):
    return sum(np.einsum("tcyx,c->tyx", images[:, :, i:i + tile, j:j + tile], weights[:, i, j]) for i in range(3) for j in range(3))


def errors(tile: int, points: tuple, channels: int = 64, tiles: int = 400) -> tuple[float, float]:
    results, by, inputs = transforms(tile, points)
    generator = np.random.default_rng(0)
    drawn = generator.standard_normal((tiles, channels, tile + 2, tile + 2)), generator.standard_normal((channels, 3, 3))

    images, weights = (values.astype(np.float32) for values in drawn)
    exact = direct(images.astype(float), weights.astype(float), tile)
    of_images, of_weights = sides(inputs, images, np.float32), sides(by, weights, np.float32)
    sums = np.zeros(of_images.shape[:1] + of_images.shape[2:], np.float32)
    for c in range(channels):
        sums += of_images[:, c] * of_weights[c]
    in_float = np.linalg.norm(sides(results, sums, np.float32) - exact) / np.linalg.norm(exact)

    images, weights = (bfloat16(values) for values in drawn)
    exact = direct(images, weights, tile)
    sums = np.einsum("tcij,cij->tij", bfloat16(sides(inputs, images, float)), bfloat16(sides(by, weights, float)))
    in_bfloat16 = np.linalg.norm(bfloat16(sides(results, sums, float)) - exact) / np.linalg.norm(bfloat16(exact) - exact)
    return in_float, in_bfloat16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tile", type=int, choices=(2, 3, 4), help="results per tile side (tries all candidates)")
    parser.add_argument("--points", type=float, nargs="+", help="tile + 1 distinct points; infinity is added")
    parser.error = lambda message: (print(f"error: {message}", file=sys.stderr), sys.exit(64))
    given = parser.parse_args()
    if np is None:
        sys.exit("error: numpy is missing\n  next  apt-get install python3-numpy, and run this with /usr/bin/python3")
    if (given.tile is None) != (given.points is None):
        parser.error("--tile and --points require each other")
    if given.points and (len(given.points) != given.tile + 1 or len(set(given.points)) != len(given.points)):
        parser.error(f"{given.tile} results per side need {given.tile + 1} different points")
    print("| results | points | float32: error | bfloat16: times the direct one |\n|---|---|---|---|")
    for tile, points in [(given.tile, tuple(given.points))] if given.tile else CANDIDATES:
        in_float, in_bfloat16 = errors(tile, points)
        print(f"| {tile}x{tile} | {', '.join(f'{point:g}' for point in points)} | {in_float:.1e} | {in_bfloat16:.1f} |")


if __name__ == "__main__":
    main()
